"""A scenario in flags: one table from flags to keys, and defaults for what they leave open.

A flag is an assignment to a key of the scenario, read and checked as --set is. Without a scenario the flags make one;
what they leave open has a default, which every answer states.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from costmodel.documents.keys.overrides import Assignment, path_of
from costmodel.documents.keys.paths import at, place_at
from costmodel.documents.reader.accelerator_aliases import accelerator_named
from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.find_documents import find
from costmodel.documents.reader.library import DocumentReader
from costmodel.documents.reader.resolved_scenario import ResolvedScenario, case_from, scenario_tree
from costmodel.documents.schemas.default_values import Assumption, FlagQuestion
from costmodel.documents.schemas.hardware import Accelerator, Node
from costmodel.documents.text.yaml_tree import Mapping, Text, assigned, copied, key_at
from costmodel.estimate.model.shards import model_parameters
from costmodel.evidence.validate.machines import stand_of
from costmodel.explore.explain.model_memory import RECIPES
from costmodel.ground.errors import COMMAND_LINE, Place, fail
from costmodel.ground.units import counted

# The key of the scenario that each flag sets; --gpu and --gpus say what a cluster is made of.
KEYS = {
    "model": "model",
    "node": "cluster.node",
    "sequence": "workload.sequence",
    "batch": "workload.global_batch",
    "dtype": "workload.precision",
    "stack": "stack",
    "price": "assume.price",
}
_NAMES = ("model", "node", "stack")  # flags whose value is a name or path, never YAML
_SIZES = ("cluster.nodes", "cluster.node.accelerators")
_WORD = re.compile(r"-(?=(?:tokens?|sequences?)$)")  # before the word of a count, where a shell would want quotes

DEFAULT_NODE = "dgx-h100"
DEFAULT_SEQUENCE = 4096.0  # tokens, or the longest of the model
DEFAULT_BATCH = 4 * 2**20  # tokens
_STATE_BYTES = sum(RECIPES[0][1:])  # of a parameter: bf16 weight, fp32 gradient, master copy and AdamW moments
_ROOM = 2.0  # memory of the default machine over those states


@dataclass(frozen=True)
class ScenarioFlags:
    """What the command line gives of a scenario, each as it was typed."""

    model: str | None = None
    gpu: str | None = None
    node: str | None = None
    gpus: int | None = None
    sequence: str | None = None
    batch: str | None = None
    dtype: str | None = None
    stack: str | None = None
    price: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The flags that are given, as they are typed."""
        given = ((flag.name, getattr(self, flag.name)) for flag in fields(self))
        return tuple(word for name, value in given if value is not None for word in (f"--{name}", str(value)))


def case_of_flags(scenario: str | None, flags: ScenarioFlags, assignments: Iterable[str] = ()) -> ResolvedScenario:
    """The case of a scenario with flags in the place of its keys, or of flags alone.

    Where a key is set with --set too, that value counts and the case remarks it.
    """
    assignments = tuple(assignments)
    if scenario is None and not flags.words:
        raise fail("C004", "no scenario and no model is named", None, "costmodel list scenarios, or --model NAME")
    if scenario is None and flags.model is None:
        raise fail("C004", "flags without a scenario need a model", None, "add --model NAME, or --model ./config.json")
    reader = DocumentReader()
    tree, shown = scenario_tree(reader, scenario) if scenario is not None else (_frame(), COMMAND_LINE)
    set_here = {path_of(item) for item in assignments}
    changes, assumed = _changes(flags, alone=scenario is None and not {"cluster.node", *_SIZES} & set_here)
    if isinstance(tree, dict):
        more, further = _sizes(tree, shown, flags, (*changes, *assignments), set_here)
        changes, assumed = [*changes, *more], [*assumed, *further]
    case = case_from(reader, copied(tree), shown, (*changes, *assignments))
    remarks = [*_replaced(tree, changes, set_here)]
    sized = sorted(set_here.intersection(_SIZES))
    if flags.gpus is not None and sized:
        remarks.append(f"--gpus {flags.gpus} has no effect: --set {sized[0]} counts")
    asked = FlagQuestion(flags.words, tuple(assumed), tuple(remarks))
    return replace(case, name=scenario or "", assignments=assignments, asked=asked)


def _frame() -> Mapping:
    """A scenario without the keys that flags set."""
    place = Place(COMMAND_LINE)

    def mapping(**keys: Any) -> Mapping:
        built = Mapping({key_at(key, place): value for key, value in keys.items()})
        built.place = place
        return built

    workload = mapping(kind="training")
    return mapping(schema="costmodel/scenario/v1", title="flags", cluster=mapping(), workload=workload)


# --- flags to assignments


def _changes(flags: ScenarioFlags, *, alone: bool) -> tuple[list[Assignment], list[Assumption]]:
    """The assignments of all flags but the number of GPUs; and the node, where no flag names it."""
    found = [_assignment(name, getattr(flags, name)) for name in KEYS if getattr(flags, name) is not None]
    if flags.gpu is not None:
        changes, assumed = _of_gpu(flags.gpu, named=flags.node is not None)
        return [*changes, *found], assumed
    if flags.node is not None or not alone:
        return found, []
    default = Assumption("cluster.node", DEFAULT_NODE, "the default machine; --gpu or --node names another")
    return [_default(default.path, DEFAULT_NODE), *found], [default]


def _assignment(name: str, text: str) -> Assignment:
    """A flag as an assignment to its key."""
    option, path = f"--{name}", KEYS[name]
    if name in _NAMES:
        place, value = _place(option, path, text), _text(text, _place(option, path, text))
    else:
        place, value = assigned(path, _WORD.sub(" ", text), option)
    return Assignment(path, Place(COMMAND_LINE, 0, 1, path, place.text, len(option)), value, place)


def _place(option: str, path: str, text: str) -> Place:
    return Place(COMMAND_LINE, 0, len(option) + 2, path, f"{option} {text}", max(1, len(text)))


def _text(text: str, place: Place) -> Text:
    if not text.strip():
        raise fail("C001", "nothing stands after the flag", place, "leave the flag out")
    value = Text(text)
    value.place = place
    return value


def _default(path: str, value: Any) -> Assignment:
    """A value that no flag gives."""
    place = Place(COMMAND_LINE, 0, 0, path)
    return Assignment(path, place, value, place)


def _of_gpu(spelling: str, *, named: bool) -> tuple[list[Assignment], list[Assumption]]:
    """The node that an accelerator is usually found in; of a node that is named too, its accelerator."""
    place = _place("--gpu", "cluster.node.accelerator", spelling)
    shelf = CachedReader()
    name = accelerator_named(spelling, shelf=shelf)
    if not name:
        find("accelerator", spelling, place)
        raise fail("D009", f"there is no accelerator named '{spelling}'", place, "costmodel list accelerators")
    of_gpu = Assignment("cluster.node.accelerator", place, _text(name, place), place)
    if named:
        return [of_gpu], []
    stand = stand_of(shelf, name)
    if stand is None:
        raise fail("D009", f"no node of the library holds {name}", place, "name its machine with --node")
    node: Node = shelf.document("node", stand.node)
    changes = [Assignment("cluster.node", place, _text(stand.node, place), place)]
    held = node.accelerator == name
    changes += [] if held else [of_gpu]
    if stand.fabric is not None:
        changes.append(Assignment("cluster.node.scale_up.fabric", place, _text(stand.fabric, place), place))
    why = f"the node that {'holds' if held else 'stands for the own of'} {name}; --node names another"
    return changes, [Assumption("cluster.node", stand.node, why)]


# --- sizes that follow from others


def _sizes(
    tree: dict[Any, Any], shown: str, flags: ScenarioFlags, changes: tuple[str | Assignment, ...], set_here: set[str]
) -> tuple[list[Assignment], list[Assumption]]:
    """Nodes of as many GPUs as wanted, and defaults of sizes that nothing states; read from what is stated."""
    written = {path for path in (*_SIZES[:1], *_OPEN) if at(tree, path) is not None} | {*map(path_of, changes)}
    open_sizes = [path for path in ("cluster.nodes", *_OPEN) if path not in written]
    wanted = flags.gpus is not None and set_here.isdisjoint(_SIZES)
    if not open_sizes and not wanted:
        return [], []
    placeholders = [_default(path, 1) for path in open_sizes]
    first = case_from(DocumentReader(), copied(tree), shown, (*changes, *placeholders))
    found: list[Assignment] = []
    assumed: list[Assumption] = []
    if wanted and flags.gpus is not None:
        found += _nodes_of(first, flags.gpus)
    elif "cluster.nodes" in open_sizes:
        _add(found, assumed, "cluster.nodes", *_default_nodes(first))
    sequence = min(DEFAULT_SEQUENCE, float(first.model.max_sequence))
    if "workload.sequence" in open_sizes:
        why = "default" if sequence == DEFAULT_SEQUENCE else "the longest of the model"
        _add(found, assumed, "workload.sequence", int(sequence), f"{why}; --sequence sets it")
    else:
        sequence = float(first.scenario.workload.sequence)
    if "workload.global_batch" in open_sizes:
        batch = max(1, round(DEFAULT_BATCH / sequence))
        _add(found, assumed, "workload.global_batch", batch, f"{counted(DEFAULT_BATCH)} tokens; --batch sets it")
    return found, assumed


_OPEN = ("workload.sequence", "workload.global_batch")


def _add(found: list[Assignment], assumed: list[Assumption], path: str, value: int, origin: str) -> None:
    found.append(_default(path, value))
    assumed.append(Assumption(path, counted(value), origin))


def _nodes_of(case: ResolvedScenario, gpus: int) -> Iterator[Assignment]:
    """Full nodes of so many GPUs, or a part of one."""
    place = _place("--gpus", "cluster.nodes", str(gpus))
    each = int(case.node.accelerators)
    if gpus > each and gpus % each:
        near = f"--gpus {gpus // each * each} or {(gpus // each + 1) * each}"
        raise fail("C004", f"{gpus} GPUs do not fill nodes of {each}, as {case.node.name} is", place, f"take {near}")
    yield Assignment("cluster.nodes", place, max(1, gpus // each), place)
    if gpus < each:
        yield Assignment("cluster.node.accelerators", place, gpus, place)


def _default_nodes(case: ResolvedScenario) -> tuple[int, str]:
    """Nodes, a power of two, whose memory is twice the training states of the model."""
    accelerator: Accelerator = case.accelerator
    states = float(model_parameters(case.model)) * _STATE_BYTES
    needed = _ROOM * states / (float(accelerator.memory.usable) * float(case.node.accelerators))
    nodes = 2 ** max(0, math.ceil(math.log2(needed)))
    return nodes, f"memory of at least {_ROOM:g} × the training states; --gpus sets it"


# --- what flags replace


def _replaced(tree: dict[Any, Any], changes: Iterable[Assignment], set_here: set[str]) -> Iterator[str]:
    """A remark for every flag that takes the place of a key of the scenario, or that --set makes useless."""
    for change in changes:
        flag = change.place.text
        before = at(tree, change.path)
        if not flag:
            continue
        if change.path in set_here:
            yield f"{flag} has no effect: --set {change.path} counts"
        elif before is not None and not isinstance(before, dict | list) and before != change.value:
            where = place_at(tree, change.path)
            yield f"{flag} in the place of {before}{f' ({where.file}:{where.line})' if where and where.line else ''}"
