"""Loads a scenario of any workload with everything it names, and overrides values of one that is loaded."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as AnyMapping
from dataclasses import replace
from typing import Any

from costmodel.documents.keys.overrides import Assignment, assign, memory_in_whole, overruled, path_of
from costmodel.documents.keys.paths import LEVELS, REFERENCES, at, holder, place_at
from costmodel.documents.reader.library import DocumentReader, accelerator_of
from costmodel.documents.reader.resolved_scenario import (
    NODE,
    NODES,
    PART,
    ForeignPrice,
    LoadedScenario,
    ResolvedScenario,
    case_of,
    counted_by_gpus,
    gpus_of_flags,
    is_of_gpus,
    left_out,
    nodes_of,
    training,
)
from costmodel.documents.schemas.default_values import FlagQuestion
from costmodel.documents.text.digest import check_seal, written_by_another
from costmodel.documents.text.yaml_tree import Mapping, copied, read_tree
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Fault, Place, fail

# --- loads a scenario of any workload with everything it names, and with what is set in it


RESULTS = {"costmodel/result/": "v1", "costmodel/search/": "v2"}  # schemas of answers as --json writes them


def scenario_tree(reader: DocumentReader, name: str) -> tuple[Any, str]:
    """The tree of a scenario by name, path or '-', or the one inside a result; with the file name for messages."""
    tree, shown = reader.tree("scenario", name, piped=True)
    schema = tree.get("schema") if isinstance(tree, dict) else None
    kind = next((kind for kind in RESULTS if isinstance(schema, str) and schema.startswith(kind)), None)
    if kind is None:
        return tree, shown
    if schema != f"{kind}{RESULTS[kind]}":
        place, hint = getattr(schema, "place", None) or Place(shown), "write it again with this version"
        raise fail("D011", f"this is {schema}, and {kind}{RESULTS[kind]} is read here", place, hint)
    check_seal(tree, "result", shown, "write it again with --json")
    reader.another = written_by_another(tree, "result", shown)
    inner = tree.get("scenario")
    document = inner.get("document") if isinstance(inner, dict) else None
    if not isinstance(document, dict):
        place = tree.place if isinstance(tree, Mapping) else Place(shown)
        raise fail("D004", "this result has no scenario", place, "write it again with --json")
    return document, shown


def load(name: str, assignments: Iterable[str] = ()) -> ResolvedScenario:
    """A training scenario by name, path or '-', with overrides, and every document it names.

    Args:
        name: as a command takes it
        assignments: each path=value, as --set takes it

    Raises:
        CostModelError: with every fault that was found
        TypeError: name is no text, or assignments are one

    Example:
        >>> load("quickstart", ["plan.tp=4"]).scenario.plan.tp
        4.0
    """
    return training(load_any(name, assignments))


def load_any(name: str, assignments: Iterable[str] = ()) -> LoadedScenario:
    """A scenario of any workload by name, path or '-', with overrides, and every document it names."""
    if not isinstance(name, str) or isinstance(assignments, str):
        raise TypeError("load takes the name of a scenario and a list of assignments: 'quickstart', ['plan.tp=4']")
    reader, assignments = DocumentReader(), tuple(assignments)
    tree, shown = scenario_tree(reader, name)
    flag_question = FlagQuestion(remarks=overruled(assignments))
    return replace(any_from(reader, tree, shown, assignments), name=name, assignments=assignments, asked=flag_question)


def load_text(text: str, shown: str, assignments: Iterable[str] = ()) -> LoadedScenario:
    """A scenario of any workload from its text, as if piped in; `shown` is the file name for messages."""
    reader, assignments = DocumentReader(), tuple(assignments)
    reader.digests[shown] = hashlib.sha256(text.encode()).hexdigest()[:12]
    tree, faults = read_tree(text, shown)
    reader.found += faults
    reader.trees[shown] = reader.origin["scenario", shown] = tree
    flag_question = FlagQuestion(remarks=overruled(assignments))
    return replace(any_from(reader, tree, shown, assignments), name="-", assignments=assignments, asked=flag_question)


def load_mapping(written: AnyMapping[str, Any], assignments: Iterable[str] = ()) -> LoadedScenario:
    """A scenario of any workload from a mapping with the keys of a scenario file; without a title it gets one."""
    digest = hashlib.sha256(json.dumps(written, default=str).encode()).hexdigest()[:6]
    titled = {"schema": "costmodel/scenario/v1", "title": f"scenario {digest}", **written}
    return load_text(json.dumps(titled, default=str, indent=1), "<mapping>", assignments)


def any_from(
    reader: DocumentReader, tree: dict[Any, Any], shown: str, assignments: Iterable[str | Assignment]
) -> LoadedScenario:
    """The loaded scenario of a tree after assignments; all faults are raised at once."""
    faults: list[Fault] = []
    changes, original = tuple(assignments), copied(tree)
    foreign: tuple[ForeignPrice, ...] = ()
    try:
        if isinstance(tree, dict):
            assign(tree, changes, lambda kind, name, place: reader.tree(kind, name, place)[0])
            foreign = left_out(original, tree, map(path_of, changes), accelerator_of)
    except CostModelError as error:
        faults += error.faults
    if isinstance(tree, dict) and not faults:
        with_trace(tree, reader)  # whose fault would bring others of keys that it stands for
    case: LoadedScenario | None = None
    try:
        case = _load_documents(reader.checked("scenario", tree, shown), reader, tree)
    except CostModelError as error:
        faults += error.faults
    if case is not None and not faults:
        return replace(case, original=original, changes=memory_in_whole(changes), foreign_prices=foreign)
    strange = not isinstance(tree, dict) or any(fault.code == "D011" for fault in faults)
    named = [] if strange else _faults_of_named(reader, tree)
    faults = [reader.another, *faults] if reader.another else faults
    known = {(fault.code, fault.sentence, fault.place) for fault in faults}
    faults += [fault for fault in named if (fault.code, fault.sentence, fault.place) not in known]
    raise CostModelError(*dict.fromkeys(faults))


_ARRIVALS = ("arrival_spread", "burstiness")
_LOADS = ("rate", "concurrency", "users", "requests")


def with_trace(tree: dict[Any, Any], reader: DocumentReader) -> None:
    """Replaces the name of a trace by the trace's statistics, except for keys that the workload states."""
    workload, place = tree.get("workload"), place_at(tree, "workload.trace")
    name = workload.get("trace") if isinstance(workload, dict) and workload.get("kind") == "serving" else None
    if not isinstance(name, str) or not isinstance(workload, dict):
        return
    found, loads = reader.trace(name, place), [load for load in _LOADS if workload.get(load) is not None]
    known = {key for key, value in workload.items() if value is not None}
    known |= {"rate"} if loads else set()
    known |= {"arrival_spread"} if (loads and "rate" not in loads) or known.intersection(_ARRIVALS) else set()
    known |= {"beginnings"} if workload.get("shared_prefix") or workload.get("turns", 1) != 1 else set()
    stated = place or Place(COMMAND_LINE)
    added = [Assignment(f"workload.{key}", stated, value, stated) for key, value in found.items() if key not in known]
    for key in ("prompt", "output"):
        parts = workload.get(key)
        if isinstance(parts, dict):
            rest = [(part, value) for part, value in found[key].items() if part not in parts]
            added += [Assignment(f"workload.{key}.{part}", stated, value, stated) for part, value in rest]
    del workload["trace"]
    assign(tree, added, lambda kind, named, at_place: reader.tree(kind, named, at_place)[0])


def _load_documents(scenario: Any, reader: DocumentReader, tree: dict[str, Any]) -> LoadedScenario:
    """A validated scenario of any workload with every document it names; modules are imported only when needed."""
    if scenario.workload.kind == "training":
        return case_of(scenario, reader, tree)
    if scenario.workload.kind == "rl":
        from costmodel.documents.reader.rl_scenario import rl_case_of

        return rl_case_of(scenario, reader, tree)
    from costmodel.documents.reader.serving_scenario import serving_case_of

    return serving_case_of(scenario, reader, tree)


def _faults_of_named(reader: DocumentReader, tree: dict[Any, Any]) -> Iterator[Fault]:
    """The faults of all documents that a tree names, directly or through other documents."""
    trees: dict[str, Any] = {"": tree}
    for path in itertools.chain(*LEVELS):
        (above, key), kind = holder(path), REFERENCES[path].kind
        named = at(trees.get(above), key)
        if isinstance(named, str):
            try:
                reader.document(kind, named, place_at(trees[above], key))
            except CostModelError as error:
                yield from error.faults
            named = reader.origin.get((kind, named))
        trees[path] = named


# --- A case with some values overridden, without reading its file or standard input again


def vary(case: ResolvedScenario, assignments: Iterable[str]) -> ResolvedScenario:
    """A loaded training scenario with further assignments, as if they had been given when it was loaded."""
    return training(vary_any(case, assignments))


def vary_any(case: LoadedScenario, assignments: Iterable[str]) -> LoadedScenario:
    """A loaded scenario of any workload with further assignments.

    They are applied to the original tree together with the earlier assignments, so that earlier changes inside a
    document also apply to its replacement. If `--gpus` was given and the node changes, the number of nodes follows.
    """
    further = tuple(assignments)
    paths = {*map(path_of, further)}
    if NODE in paths and paths.isdisjoint((NODES, PART)) and counted_by_gpus(case):
        kept = tuple(change for change in case.changes if not (is_of_gpus(change) and path_of(change) == PART))
        one = _load_varied(case, (*kept, *further))
        return _load_varied(case, (*kept, *further, *nodes_of(one, *gpus_of_flags(case))), further)
    return _load_varied(case, (*case.changes, *further), further)


def _load_varied(
    case: LoadedScenario, changes: tuple[str | Assignment, ...], further: tuple[str, ...] = ()
) -> LoadedScenario:
    """The scenario loaded again with these changes; `further` are assignments that are added to its command line."""
    reader = DocumentReader(
        digests=dict(case.digests), trees=dict(case.trees), own=list(case.own), read=dict(case.read)
    )
    original = case.original or case.tree
    tree = copied(original) if original else case.document.model_dump(by_alias=True, exclude_none=True)
    varied = any_from(reader, tree, case.file, changes)
    return replace(varied, name=case.name, asked=case.asked, assignments=(*case.assignments, *further))
