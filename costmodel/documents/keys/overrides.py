"""Overrides any leaf of a scenario or of a document that it names: --set path=value, and the changes of "
"measured runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

from costmodel.documents.keys.field_aliases import TRAINERS
from costmodel.documents.keys.paths import REFERENCES, at
from costmodel.documents.text.yaml_tree import Items, Mapping, assigned, copied, key_at
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Fault, Place, fail
from costmodel.ground.record import record

# The tree of a named document: kind, name, where the name was written.
Fetch = Callable[[str, str, Place | None], Any]

# The short form of a path, and the full path.
_SHORT = {"cluster.fabric": "cluster.node.scale_out.fabric", "cluster.accelerator": "cluster.node.accelerator"}

# A node of which a job uses fewer accelerators still has the domain and the interfaces of all: its first number of
# accelerators is kept. A domain or interfaces that are set too are those of the accelerators in use.
_NODE, _USED, _BUILT = "cluster.node", "accelerators", "built_with"
_OF_A_MEAN = ("workload.prompt", "workload.output")  # lengths of requests: a mean and a spread
_OF_THE_NODE = {"cluster.node.scale_up.domain": "scale_up", "cluster.node.scale_out.nics": "scale_out"}

# Keys that stand in the place of others: set alone, they replace those that a document states.
_REPLACES = {
    "cluster.groups": ("node", "nodes"),
    "run.failures.every": ("rate", "low", "high", "job"),
    "run.failures.rate": ("every", "gpus"),
}

_AS_SOLD, _USABLE = ".accelerator.memory.capacity", ".accelerator.memory.usable"


def full(path: str) -> str:
    """The whole path of a key that is given in short form."""
    short = next((short for short in _SHORT if f"{path}.".startswith(f"{short}.")), "")
    return _SHORT[short] + path.removeprefix(short) if short else path


def short(path: str) -> str:
    """A path in its short form; the inverse of `full`."""
    for stated, meant in _SHORT.items():
        if f"{path}.".startswith(f"{meant}."):
            return stated + path.removeprefix(meant)
    return path


@record
class Assignment:
    """A value for a path, with the places of both."""

    path: str
    at: Place
    value: Any
    place: Place


def listed(changes: dict[str, Any]) -> list[Assignment]:
    """The changes that a mapping in a document lists."""
    return [Assignment(full(key), key.place, value, key.at) for key, value in copied(changes).items()]


def path_of(assignment: str | Assignment) -> str:
    """The full path that an assignment sets."""
    return assignment.path if isinstance(assignment, Assignment) else full(assignment.partition("=")[0].strip())


def stated_paths(assignments: Iterable[str | Assignment]) -> set[str]:
    """The full paths that assignments set, and the paths of all keys in the mappings that they assign.

    >>> sorted(stated_paths(["plan={cp: 2, rollout: {tp: 2}}"]))
    ['plan', 'plan.cp', 'plan.rollout', 'plan.rollout.tp']
    """
    found, changes = set[str](), (assignment_of(each) if isinstance(each, str) else each for each in assignments)
    open_values = [(change.path, change.value) for change in changes]
    while open_values:
        path, value = open_values.pop()
        found.add(path)
        open_values += [(f"{path}.{key}", inner) for key, inner in value.items()] if isinstance(value, dict) else []
    return found


def overruled(assignments: Iterable[str]) -> tuple[str, ...]:
    """A remark for each assignment that a later one replaces, because it sets the same path or one around it.

    Assigning another document keeps earlier assignments inside it, so there is no remark.

    >>> overruled(["plan.tp=2", "plan.pp=2", "plan.tp=4"])
    ('--set plan.tp=2 has no effect: --set plan.tp=4 counts',)
    >>> overruled(["plan.tp=2", "plan={pp: 2}", "cluster.node.accelerators=4", "cluster.node=p5"])
    ('--set plan.tp=2 counts in --set plan={pp: 2}, whatever their order',)
    """
    given = list(assignments)
    overrides = []
    for index, before in enumerate(given):
        path = path_of(before)
        after = next((text for text in given[index + 1 :] if f"{path}.".startswith(f"{path_of(text)}.")), "")
        if after and path_of(after) == path:
            overrides.append(f"--set {before} has no effect: --set {after} counts")
        elif after and path_of(after) not in REFERENCES:
            overrides.append(f"--set {before} counts in --set {after}, whatever their order")
    return tuple(overrides)


def assignment_of(text: str) -> Assignment:
    """The assignment in a text path=value, or a fault."""
    path, separator, value = text.partition("=")
    path = full(path.strip())
    written = f"--set {text}"
    if not separator or not path:
        place = Place(COMMAND_LINE, 0, len("--set ") + 1, "", written, max(1, len(text)))
        raise fail("C001", f"'{text}' is not path=value", place, "for example --set plan.tp=4")
    place, tree = assigned(path, value)
    return Assignment(path, Place(COMMAND_LINE, 0, len("--set ") + 1, path, written, len(path)), tree, place)


def memory_in_whole(changes: Iterable[str | Assignment]) -> tuple[str | Assignment, ...]:
    """The changes; a fault if one sets the nominal memory of a part but none sets the usable memory."""
    changes = tuple(changes)
    for change in changes:
        path = path_of(change)
        usable = path.removesuffix(_AS_SOLD) + _USABLE
        if path.endswith(_AS_SOLD) and usable not in map(path_of, changes):
            place = change.place if isinstance(change, Assignment) else assignment_of(change).place
            sentence = "the memory as sold does not change what a job can have of it, which is usable"
            raise fail("C031", sentence, place, f"--set {short(usable)}=… too: what the driver reports")
    return changes


def assign(tree: dict[Any, Any], assignments: Iterable[str | Assignment], fetch: Fetch) -> None:
    """Puts all assignments into the tree of a scenario; raises their faults together.

    A document is replaced before keys inside it are set, whatever the order, so that no assignment is lost; setting
    `like` of a named document replaces the document.
    """
    faults: list[Fault] = []
    changes: list[Assignment] = []
    for assignment in assignments:
        try:
            changes.append(assignment_of(assignment) if isinstance(assignment, str) else assignment)
        except CostModelError as error:
            faults += error.faults
    paths = {change.path for change in changes}
    for change in sorted(changes, key=lambda change: (change.path.count("."), not _names_parent(change.path))):
        try:
            _assign_value(tree, change, fetch)
            _remove_contradicted(tree, change, paths)
        except CostModelError as error:
            faults += error.faults
    if faults:
        raise CostModelError(*faults)
    _apply_counts_in_use(tree, changes)


def _remove_contradicted(tree: dict[Any, Any], change: Assignment, paths: Collection[str]) -> None:
    """Removes keys that contradict a newly assigned key, unless they are assigned too."""
    above = change.path.rpartition(".")[0]
    for key in _REPLACES.get(change.path, ()) if change.value is not None else ():
        if f"{above}.{key}" not in paths:
            at(tree, above).pop(key, None)


def _apply_counts_in_use(tree: dict[Any, Any], changes: Iterable[Assignment]) -> None:
    """Applies an assigned domain size or number of network interfaces to the accelerators in use."""
    node, used = at(tree, _NODE), f"{_NODE}.{_USED}"
    if not any(change.path == used for change in changes):
        return
    for change in changes:
        group = at(node, _OF_THE_NODE.get(change.path, ""))
        if isinstance(group, dict) and _USED not in group:
            group[key_at(_USED, change.at, change.place)] = at(node, _USED)


def _names_parent(path: str) -> bool:
    """Whether a path ends in `like`, the key that names the parent of a document."""
    above, _, key = path.rpartition(".")
    return key == "like" and above in REFERENCES


def _exchange_document(tree: dict[Any, Any], change: Assignment) -> Assignment | None:
    """The assignment of another document name, if `like` is set on a document that is only named."""
    above = change.path.rpartition(".")[0]
    if not _names_parent(change.path) or isinstance(at(tree, above), dict):
        return None
    return replace(change, path=above)


def _check_label(here: Any, change: Assignment, fetch: Fetch) -> None:
    """A fault for renaming a written-out document to the name of another document, which would have no effect."""
    above = change.path.rpartition(".")[0]
    reference, value = REFERENCES.get(above), change.value
    if reference is None or not isinstance(value, str) or not isinstance(here, dict) or here.get("name") == value:
        return
    try:
        fetch(reference.kind, value, None)
    except CostModelError:
        return  # a label of the user
    sentence = f"{change.path} renames {here.get('name', 'it')} and takes nothing from {value}"
    raise fail("C033", sentence, change.at, f"--set {short(above)}={value}")


def _assign_value(tree: dict[Any, Any], change: Assignment, fetch: Fetch) -> None:
    """Sets one value in the tree of a scenario; a document that is only named is written out first."""
    parts = change.path.split(".")
    if not all(part.strip() for part in parts):
        raise fail("C001", f"'{change.path}' names no key", change.at, "for example plan.tp")
    here: Any = tree
    named = _exchange_document(tree, change) if parts[-1] == "like" else None
    if named is not None:
        _assign_value(tree, named, fetch)
        return
    for depth, part in enumerate(parts[:-1]):
        here = _child_on_path(here, part, ".".join(parts[: depth + 1]), parts[depth + 1], change.at, fetch)
    if change.path == f"{_NODE}.{_USED}":
        _keep_first(here, change.at)
    if parts[-1] == "name":
        _check_label(here, change, fetch)
    if change.path == "workload" and change.value is None:  # the other keys depend on its kind
        hint = "leave the assignment out; costmodel list keys workload. shows its keys"
        raise fail("D006", "workload cannot be left out", change.place, hint)
    if change.value is None and isinstance(here, dict) and _is_left_out(tree, change.path):
        here.pop(parts[-1], None)
        return
    _put_value(here, parts[-1], change.value, change.at, change.place)


def _is_left_out(tree: dict[Any, Any], path: str) -> bool:
    """Whether null resets a key of the scenario, such as limits or title, to its default."""
    from costmodel.documents.keys.schema_paths import has_default
    from costmodel.documents.keys.workload_keys import SCENARIOS  # it imports the schemas of all workloads

    schema = SCENARIOS.get(str(at(tree, "workload.kind")))
    return schema is not None and has_default(schema, path)


def _child_on_path(here: Any, part: str, so_far: str, following: str, at: Place, fetch: Fetch) -> Any:
    """The value of a key on the path; a named document is written out, and a missing mapping is created."""
    inner = here[_list_index(here, part, at)] if isinstance(here, list) else here.get(part)
    reference, workload = REFERENCES.get(so_far), here.get("workload") if isinstance(here, dict) else None
    kind = str(workload.get("kind")) if isinstance(workload, dict) else ""
    if reference is not None and part not in here:
        inner = reference.usual_of.get(kind, reference.usual) or None
    if isinstance(inner, str) and reference is not None and reference.inline:
        if so_far == "stack" and kind == "training":
            inner = TRAINERS.get(inner.lower(), inner)
        inner = fetch(reference.kind, inner, getattr(inner, "place", None))
    if inner is None:
        inner = Mapping()
        inner.place = at
    if so_far in _OF_A_MEAN and following in ("mean", "spread") and not isinstance(inner, dict | list):
        inner = Mapping(mean=inner)  # a number alone is the mean
        inner.place = at
    if not isinstance(inner, dict | list):
        raise fail("C001", f"'{so_far}' is a value and has no '{following}'", at, f"set '{so_far}' itself")
    _put_value(here, part, inner, at, None)
    return inner


def _keep_first(node: Any, place: Place) -> None:
    """Records the number of accelerators that a node is built with, before a job gets fewer of them."""
    if not isinstance(node, dict) or _USED not in node or _BUILT in node:
        return
    known = next(key for key in node if key == _USED)
    node[key_at(_BUILT, getattr(known, "place", place), getattr(known, "at", place))] = node[_USED]


def _put_value(here: Any, part: str, value: Any, at: Place, place: Place | None) -> None:
    """Sets a key or a list item, with its place if one is given."""
    if isinstance(here, list):
        index = _list_index(here, part, at)
        here[index] = value
        if isinstance(here, Items) and place is not None:
            here.places[index] = place
        return
    known = next((key for key in here if key == part), None)
    if known is None or place is not None:
        key = key_at(part, at, place)
        kept = [(key if old == part else old, old_value) for old, old_value in here.items()]
        here.clear()
        here.update(kept)
        known = key
    here[known] = value


def _list_index(here: list[Any], part: str, at: Place) -> int:
    if part.isascii() and part.isdigit() and len(part) < 10 and int(part) < len(here):
        return int(part)
    hint = f"it holds {len(here)}, counted from 0"
    raise fail("C001", f"there is no item '{part}' in that list", at, hint)
