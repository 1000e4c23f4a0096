"""Makes a scenario from command-line flags, and applies flags to a named scenario.

A flag is an assignment to a scenario key, read and checked as --set is. What flags leave open has a default, which
every answer states.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from costmodel.documents.keys.field_aliases import OF_ONE, STACK_ALIASES
from costmodel.documents.keys.overrides import Assignment, overruled, path_of
from costmodel.documents.keys.paths import at, place_at
from costmodel.documents.reader.library import CachedReader, DocumentReader
from costmodel.documents.reader.load_scenario import any_from, scenario_tree
from costmodel.documents.reader.resolved_scenario import (
    NODES,
    PART,
    LoadedScenario,
    ResolvedScenario,
    nodes_of,
    training,
)
from costmodel.documents.schemas.default_values import Assumption, FlagQuestion
from costmodel.documents.text.yaml_tree import Mapping, assigned, copied, key_at
from costmodel.estimate.training.plan_constraints import is_odd_batch
from costmodel.explore.default_node import flag_place, flag_text, node_of_gpu
from costmodel.explore.flag_defaults import (
    asks_for_dpo,
    default_assignment,
    default_sizes,
    default_stack,
    fp8_recipe_of_software,
    placeholder,
    values_by_path,
)
from costmodel.explore.workload_flags import (
    CAPPED,
    FLAGS,
    LOADS,
    OFF,
    flags_of,
    flags_of_one_workload,
    keys_of,
    kind_by_flags,
    setting_that_keeps_kind,
)
from costmodel.ground.counts import number_of
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Place, fail
from costmodel.ground.parsing import BINARY, DECIMAL
from costmodel.ground.record import record
from costmodel.ground.units import show

_NAMES = ("model", "node", "stack", "trace")  # flags whose value is a name or path, never YAML
OF_LOADS = ("workload.think_time", "workload.traffic")  # which go with a load
OF_RATES = ("workload.arrival_spread", "workload.burstiness")
_SIZES = (NODES, PART)
_ANY_FP8 = "fp8"  # of --dtype: the recipe that the software takes by default; with --set, delayed scaling
_LIMITED = ("limits.ttft", "limits.tpot", "limits.latency")
_MOST_REQUESTS, _SHORT = "rate_within_slo_per_s", "most req/s within limits"
_OF_A_JOB = ("workload.", "stack", "limits.", "optimizer")  # keys that are of some workloads alone
_WORD = re.compile(r"-(?=(?:tokens?|sequences?|requests?)$)")  # before the word of a count, where a shell wants quotes
_THOUSANDS = re.compile(r"(\d+)([kKM])(-tokens|)")
_NUMBER = re.compile(r"\s*[+-]?[\d.,_]+(?:[eE][+-]?\d+)?\s*")
_WITHOUT_UNIT = {  # numbers of these flags, each with the unit that it stands for
    "rate": (_NUMBER, " /s"),
    "budget": (re.compile(rf"{_NUMBER.pattern}[kMB]?"), " USD"),
}

DEFAULT_NODE = "dgx-h100"


@record
class ScenarioFlags:
    """The scenario flags of a command line, as typed."""

    model: str | None = None
    gpu: str | None = None
    node: str | None = None
    gpus: int | None = None
    sequence: str | None = None
    batch: str | None = None
    rate: str | None = None
    concurrency: str | None = None
    burstiness: str | None = None
    trace: str | None = None
    users: str | None = None
    prompt: str | None = None
    answer: str | None = None
    longest: str | None = None
    rl: str | None = None
    prompts: str | None = None
    samples: str | None = None
    iterations: str | None = None
    tokens: str | None = None
    deadline: str | None = None
    budget: str | None = None
    ttft: str | None = None
    tpot: str | None = None
    trainer: str | None = None
    rollout: str | None = None
    dtype: str | None = None
    stack: str | None = None
    price: str | None = None
    safe: str | None = None

    @property
    def given(self) -> dict[str, str]:
        """The flags that are given, by name."""
        values = ((flag.name, getattr(self, flag.name)) for flag in fields(self))
        return {name: str(value) for name, value in values if value is not None}

    @property
    def words(self) -> tuple[str, ...]:
        """The given flags as words of a command line."""
        return tuple(word for name, text in self.given.items() for word in (f"--{name}", text))


def case_of_flags(scenario: str | None, flags: ScenarioFlags, assignments: Iterable[str] = ()) -> ResolvedScenario:
    """A training scenario from flags, or a named one whose keys flags replace."""
    return training(scenario_from_flags(scenario, flags, assignments))


def scenario_from_flags(
    scenario: str | None, flags: ScenarioFlags, assignments: Iterable[str] = (), varied: Collection[str] = ()
) -> LoadedScenario:
    """Loads a scenario and lets flags replace its keys; without one, builds it from the flags, for the first kind of
    workload that has them all. What is filled in is recorded as an assumption.

    Where --set names the same key, it wins, and the case has a remark.

    varied: keys that the command varies; a load among them takes the place of the default one
    """
    assignments = tuple(assignments)
    if scenario is None and not flags.words:
        raise fail("C004", "name a scenario or a model", None, "costmodel list scenarios, or --model NAME")
    if scenario is None and flags.model is None and "model" not in map(path_of, assignments):
        hint = "add --model NAME, or --model ./config.json"
        hint += f"; costmodel buy --budget {flags.budget} finds the model that it trains best" if flags.budget else ""
        raise fail("C004", "flags without a scenario need a model", None, hint)
    reader = DocumentReader()
    frame = _empty_scenario(_kind_set(assignments) or kind_of(flags))
    tree, shown = scenario_tree(reader, scenario) if scenario is not None else (frame, COMMAND_LINE)
    kind = str(at(tree, "workload.kind") or "training") if isinstance(tree, dict) else ""
    _refuse_foreign_flags(flags, kind, alone=scenario is None)
    set_here = {path_of(assignment) for assignment in assignments}
    machine = next((path for path in ("cluster", "cluster.groups") if path in set_here), "")  # set as a whole
    unused = [f"--{name} {flags.given[name]}" for name in ("gpu", "node", "gpus") if machine and name in flags.given]
    flags = replace(flags, gpu=None, node=None, gpus=None) if machine else flags
    sized_here = "cluster.node" not in varied and not set_here.isdisjoint(_SIZES)
    of_nodes = not (machine or sized_here or "cluster.node" in set_here)
    changes, assumed = _flag_assignments(flags, kind, alone=scenario is None and of_nodes)
    if scenario is None and (why := assumed_workload_text(flags, set_here)):
        assumed.insert(0, Assumption("workload.kind", kind, why))
    if (alias := STACK_ALIASES.get(flags.stack or "")) and flags.stack not in OF_ONE:
        assumed.append(
            Assumption("stack", alias, f"what {flags.stack} is taken for", short=f"{flags.stack} as {alias}")
        )
    if scenario is None and flags.stack is None and "stack" not in set_here:
        software = default_stack(kind, values_by_path((*changes, *assignments)), alone=str(flags.gpus) == "1")
        changes[:0] = [default_assignment("stack", item.value) for item in software]  # before what sets a part of it
        assumed += software
    if isinstance(tree, dict):
        changes = [*_without_other_loads(tree, changes), *changes]
        if not {*map(path_of, changes)}.intersection(LOADS):
            changes += _provisional_load(tree, flags_of(kind).loads, {*varied} - set_here)
        more, further = _size_assignments(reader, tree, shown, flags, (*changes, *assignments), set_here, varied)
        if "cluster.nodes" in varied:  # which are full, where a single one would be used in part
            more = [each for each in more if each.path != "cluster.node.accelerators"]
        changes, assumed = [*changes, *more], [*assumed, *further]
        if scenario is None and "objective" not in set_here and _asks_for_a_rate((*changes, *assignments), further):
            changes.append(default_assignment("objective", _MOST_REQUESTS))
            assumed.append(Assumption("objective", _MOST_REQUESTS, "times are limited, no rate is given", short=_SHORT))
    case = any_from(reader, copied(tree), shown, (*changes, *assignments))
    if flags.given.get("dtype") == _ANY_FP8 and (recipe := fp8_recipe_of_software(case)):
        changes.append(default_assignment(recipe.path, recipe.value))
        assumed.append(recipe)
        case = any_from(reader, copied(tree), shown, (*changes, *assignments))
    if flags.batch is not None and "workload.global_batch" not in set_here:
        _refuse_tokens_as_sequences(case, flags.batch)
    remarks = [*_replacement_remarks(tree, changes, set_here), *overruled(assignments)]
    sized = sorted(set_here.intersection(_SIZES))
    remarks += [f"{flag} has no effect: --set {machine} counts" for flag in unused]
    if flags.gpus is not None and sized:
        remarks.append(f"--gpus {flags.gpus} has no effect: --set {sized[0]} counts")
    remarks += _decimal_length_remarks(flags)
    asked = FlagQuestion(flags.words, tuple(assumed), tuple(remarks))
    return replace(case, name=scenario or "", assignments=assignments, asked=asked)


def _decimal_length_remarks(flags: ScenarioFlags) -> Iterator[str]:
    """A remark for each length such as 8k that probably means 8Ki, as software counts lengths.

    >>> list(_decimal_length_remarks(ScenarioFlags(sequence="8k")))
    ['--sequence 8k is 8,000; 8Ki is 8,192']
    """
    for name in ("sequence", "batch"):
        text = str(flags.given.get(name, ""))
        found = _THOUSANDS.fullmatch(text)
        if found and (count := int(found[1])).bit_count() == 1:
            binary = f"{found[2].upper()}i"
            larger = f"{count}{binary}{found[3]} is {count * BINARY[binary]:,.0f}"
            yield f"--{name} {text} is {count * DECIMAL[found[2]]:,.0f}; {larger}"


def _refuse_tokens_as_sequences(case: LoadedScenario, text: str) -> None:
    """Raises a fault for a --batch whose sequences have far more tokens than any published step: tokens were meant."""
    workload = training(case).scenario.workload
    batch, sequence = float(workload.global_batch), float(workload.sequence)
    if "token" in text or not is_odd_batch(batch, sequence):
        return
    tokens = show(batch * sequence, "token")
    few = f"{text}-tokens is {number_of(round(batch / sequence), 'sequence')}"
    raise fail(
        "D008",
        f"--batch {text} is {number_of(batch, 'sequence')}, {tokens} a step",
        flag_place("--batch", "workload.global_batch", text),
        f"--batch {few}; --set workload.global_batch={text} keeps so many sequences",
    )


def without_overridden_flags(
    flags: ScenarioFlags, assignments: tuple[str, ...]
) -> tuple[ScenarioFlags, tuple[str, ...]]:
    """The flags without those that --set assignments override, and the assignments."""
    paths = {path_of(assignment) for assignment in assignments}
    lost = [name for name in flags.given if _is_overridden(name, paths)]
    left, kind = replace(flags, **dict.fromkeys(lost)), kind_of(flags)
    stated = () if "workload.kind" in paths else setting_that_keeps_kind(kind, kind_of(left))
    return left, (*stated, *assignments)


def _is_overridden(flag: str, paths: set[str]) -> bool:
    """Whether --set overrides a flag: by the flag's key, by a node, or by another load."""
    own = {flags.keys[flag] for flags in FLAGS.values() if flag in flags.keys}
    more = {"gpu": {"cluster.node"}, "gpus": {*_SIZES}, **{load: {*LOADS} for load in ("rate", "concurrency", "users")}}
    return not paths.isdisjoint(own | more.get(flag, set()))


def _asks_for_a_rate(changes: Iterable[str | Assignment], assumed: Iterable[Assumption]) -> bool:
    """Whether a service has limits on times but only an assumed load."""
    limited = any(path_of(change).startswith(_LIMITED) for change in changes)
    return limited and any(each.path == "workload.concurrency" for each in assumed)


def _kind_set(assignments: Iterable[str]) -> str:
    """The workload that --set names; empty if none. Raises a fault if flags cannot describe it."""
    given = [
        assignment.partition("=")[2].strip() for assignment in assignments if path_of(assignment) == "workload.kind"
    ]
    if given and given[-1] not in FLAGS:
        hint = f"flags exist for {', '.join(FLAGS)}"
        sentence = f"a scenario is needed with --set workload.kind={given[-1]}"
        raise fail("C030", sentence, Place(COMMAND_LINE), hint)
    return given[-1] if given else ""


def kind_of(flags: ScenarioFlags) -> str:
    """The workload that flags without a scenario ask about."""
    return kind_by_flags(flags.given, _kind_of_stack(flags.stack))


def _kind_of_stack(name: str | None) -> str:
    """The workload of software; empty if none is named or its document is unreadable."""
    if name is None:
        return ""
    try:
        stack = CachedReader().document("stack", name)
    except CostModelError:  # the scenario's reader reports the place
        return ""
    return str(getattr(stack, "kind", "training"))


def assumed_workload_text(flags: ScenarioFlags, set_here: Collection[str]) -> str:
    """A sentence on which workload was assumed and how to ask for another; empty if flags decide it."""
    shared = frozenset.intersection(*(frozenset(each.keys) for each in FLAGS.values()))
    if not {*flags.given} <= {*shared, "gpu", "gpus"} or any(path.startswith(_OF_A_JOB) for path in set_here):
        return ""
    if flags.stack is None:
        return "to serve it, add --stack vllm, or --rate"
    other = flags_of(_kind_of_stack(flags.stack)).other_job
    return other and f"because of --stack {flags.stack}; {other}"


def _refuse_foreign_flags(flags: ScenarioFlags, kind: str, *, alone: bool) -> None:
    """Raises a fault for flags that this workload does not have."""
    own = flags_of(kind)
    strange = [f"--{name}" for name in flags.given if name not in {*own.keys, "gpu", "gpus"}]
    if not strange or kind not in FLAGS:
        return
    why = [f"--{name}" for name in flags_of_one_workload(flags.given).get(kind, ())]
    own_words = _flags_are(why) if alone and why else "the scenario is"
    raise fail("C030", f"{own_words} for {kind}, {_flags_are(strange)} not", Place(COMMAND_LINE), own.instead)


def _flags_are(flags: Sequence[str]) -> str:
    """Flags and their verb, such as "--tp and --pp are"."""
    return f"{' and '.join(flags)} {'is' if len(flags) == 1 else 'are'}"


def _empty_scenario(kind: str) -> Mapping:
    """A scenario of a workload without the keys that flags set."""
    place = Place(COMMAND_LINE)

    def mapping(**keys: Any) -> Mapping:
        """An empty mapping with a place."""
        built = Mapping({key_at(key, place): value for key, value in keys.items()})
        built.place = place
        return built

    workload = mapping(kind=kind)
    return mapping(schema="costmodel/scenario/v1", title="flags", cluster=mapping(), workload=workload)


# --- flags to assignments


def _flag_assignments(flags: ScenarioFlags, kind: str, *, alone: bool) -> tuple[list[Assignment], list[Assumption]]:
    """The assignments of all flags except the number of GPUs, and of a default node if no flag names one."""
    keys = keys_of(kind)
    given = {name: text for name, text in flags.given.items() if (name, text) != ("safe", OFF)}
    assignments = [flag_assignment(name, path, given[name]) for name, path in keys.items() if name in given]
    if flags.gpu is not None:
        changes, assumed = node_of_gpu(flags.gpu, flags.node)
        return [*changes, *assignments], assumed
    if flags.node is not None or not alone:
        return assignments, []
    default = Assumption("cluster.node", DEFAULT_NODE, "the default machine; --gpu or --node names another")
    return [default_assignment(default.path, DEFAULT_NODE), *assignments], [default]


def flag_assignment(name: str, path: str, text: str) -> Assignment:
    """A flag as an assignment to its scenario key."""
    option = f"--{name}"
    if name in _NAMES:
        place, value = flag_place(option, path, text), flag_text(text, flag_place(option, path, text))
    else:
        number, unit = _WITHOUT_UNIT.get(name, (_NUMBER, ""))
        unit = unit if number.fullmatch(text) else ""
        place, value = assigned(path, f"{_WORD.sub(' ', text)}{unit}", option)
        place = flag_place(option, path, text)  # as it was typed
    return Assignment(path, Place(COMMAND_LINE, 0, 1, path, place.text, len(option)), value, place)


def _without_other_loads(tree: dict[Any, Any], changes: list[Assignment]) -> Iterator[Assignment]:
    """Assignments that remove the scenario's load if a flag gives another."""
    given = [change for change in changes if change.path in LOADS]
    both = all(at(tree, path) is not None for path in CAPPED)
    for change in given if len(given) == 1 else ():
        for path in (*LOADS, *OF_LOADS, *(OF_RATES if change.path != "workload.rate" and not both else ())):
            if path != change.path and at(tree, path) is not None and not (both and {path, change.path} == {*CAPPED}):
                yield replace(change, path=path, value=None)


def _provisional_load(tree: dict[Any, Any], loads: Sequence[str], varied: Collection[str]) -> Iterator[Assignment]:
    """Assignments that replace the scenario's load by a provisional value of the load that a command varies."""
    load = next((path for path in loads if path in varied), "")
    if load and at(tree, load) is None:
        yield default_assignment(load, "1 /s" if load == "workload.rate" else 1)
        yield from (default_assignment(path, None) for path in loads if path != load and at(tree, path) is not None)


# --- sizes that follow from others


def _size_assignments(
    reader: DocumentReader,
    tree: dict[Any, Any],
    shown: str,
    flags: ScenarioFlags,
    changes: tuple[str | Assignment, ...],
    set_here: set[str],
    varied: Collection[str],
) -> tuple[list[Assignment], list[Assumption]]:
    """The nodes for --gpus, and defaults for sizes that nothing states, as assignments."""
    sizes = flags_of(str(at(tree, "workload.kind"))).sizes
    written = {path for path in sizes if at(tree, path) is not None} | {*map(path_of, changes)}
    grouped = at(tree, "cluster.groups") is not None or written & {"cluster", "cluster.groups"}
    written |= {"cluster.nodes"} if grouped else set()
    open_sizes = [path for path in sizes if path not in written]
    if asks_for_dpo(values_by_path(changes)):
        open_sizes = [path for path in open_sizes if path != "workload.samples"]
    if written.intersection(LOADS) or any(at(tree, path) is not None for path in LOADS):
        open_sizes = [path for path in open_sizes if path not in LOADS]
    if "workload.trace" in written or at(tree, "workload.trace") is not None:  # which states them
        open_sizes = [path for path in open_sizes if path in _SIZES]
    wanted = flags.gpus is not None and set_here.isdisjoint(_SIZES)
    if not open_sizes and not wanted:
        return [], []
    placeholders = [default_assignment(path, placeholder(path)) for path in open_sizes]
    first = any_from(DocumentReader(read=reader.read), copied(tree), shown, (*changes, *placeholders))
    assignments = []
    if wanted and flags.gpus is not None:
        place = flag_place("--gpus", "cluster.nodes", str(flags.gpus))
        assignments = list(nodes_of(first, flags.gpus, place, varies="cluster.node" in varied))
    left = [path for path in open_sizes if path != "cluster.nodes" or not wanted]
    assumed = list(default_sizes(first, left, flags.gpus if wanted else None)) if left else []
    return [*assignments, *(default_assignment(item.path, value) for item, value in assumed)], [
        item for item, _ in assumed
    ]


# --- what flags replace


def _replacement_remarks(tree: dict[Any, Any], changes: Iterable[Assignment], set_here: set[str]) -> Iterator[str]:
    """A remark for each flag that replaces a scenario key, or that --set replaces."""
    for change in changes:
        flag = change.place.text
        before = at(tree, change.path)
        if not flag:
            continue
        if change.path in set_here:
            yield f"{flag} has no effect: --set {change.path} counts"
        elif before is not None and not isinstance(before, dict | list) and before != change.value:
            where = place_at(tree, change.path)
            replaced = number_of(before, "node") if change.path == "cluster.nodes" and _is_count(before) else before
            yield f"{flag} instead of {replaced}{f' ({where.file}:{where.line})' if where and where.line else ''}"


def _is_count(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
