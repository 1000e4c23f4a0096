"""Changes that make a rejected training plan work, and changes of a run that raise its goodput; each was evaluated."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from pydantic import ValidationError

from costmodel.documents.keys.paths import changed
from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.load_scenario import vary
from costmodel.documents.schemas.scenario import Plan
from costmodel.estimate.machine.price import price_per_accelerator
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.run.whole_run import RunFigures, whole_run
from costmodel.estimate.shared.plan_batch import any_of, rows_of
from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.failed_node import nearest_ranks
from costmodel.estimate.training.plan_constraints import refusals, valid_rows
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.estimate.training_answer.evaluate_training import evaluate, memory_of
from costmodel.estimate.training_answer.predict_training import Answer, plan_block, unacceptable
from costmodel.explore.search.cheapest_changes import CHUNKED_LOSS, Price, Remedy, has_chance, of_the_scenario, safest
from costmodel.explore.search.required_chance import preferred_chance
from costmodel.explore.search.training_remedies import (
    OWN,
    best_that_fits,
    fitting_changes,
    settings_of_plan,
    several_that_fit,
)
from costmodel.ground.counts import SIZES, ContextParallel, Recompute, Schedule, Split, Zero
from costmodel.ground.errors import CostModelError, value_text
from costmodel.ground.record import record
from costmodel.ground.units import show, show_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from costmodel.documents.reader.resolved_scenario import ResolvedScenario
    from costmodel.documents.schemas.hardware import Node
    from costmodel.estimate.shared.plan_batch import Block, Structure
    from costmodel.estimate.shared.run_inputs import RunInputs


# --- what would remove a reason against a plan: changes of one key, each evaluated before it is offered


_MOST_VALUES, _MOST_PATHS, _MOST_OF_TIME, _MOST_NODES, _MOST_NODES_TRIED = 3, 3, 4, 2, 6
_FAR_SLOWER = 3.0  # times the step of the plan, from which a remedy has a note: judged
_SAME_PEAK = 0.8  # of the peak, that the same plan takes at least on another node
_ON_HOST = "L043"
_FUSED = ("stack.kernels.attention=flash-2",)

Tried = tuple[tuple[str, ...], dict[str, float]]


def remedies(answer: Answer, code: str) -> list[Remedy]:
    """Changes that remove a reason against a plan, least cost to the user first.

    An invalid plan gets other values of the keys that decide it, those that leave the fewest other reasons. A plan that
    does not fit or breaks a limit gets changes after which it meets every limit.
    """
    if answer.refused:
        return [*_host_remedies(answer, code), *_remedies_of_invalid_plan(answer, code)]
    if code in OF_RUN:
        return list(_run_remedies(answer, code))
    smaller, preferred = code != "T001", preferred_chance(answer.inputs.case)
    found: list[Remedy] = []
    steps: tuple[Callable[[], list[Remedy]], ...] = (
        lambda: [
            *_fused_attention(answer),
            *_plan_key_remedies(answer, LAYOUT),
            *_scenario_remedies(answer, smaller=smaller),
        ],
        lambda: _plan_key_remedies(answer, OTHERS),
    )
    for others in steps:
        found = safest([*found, *others()], preferred)
        if any(has_chance(remedy.chance, preferred) for remedy in found):
            break
    if smaller:
        found = _with_search_results(answer, found)
    return [_with_notes(answer, remedy) for remedy in found]


def _with_search_results(answer: Answer, found: list[Remedy]) -> list[Remedy]:
    """Puts the best plan of a search before the remedies; if neither helps, several changes of the software."""
    inputs, like, preferred = answer.inputs, answer.evaluation.block.structure, preferred_chance(answer.inputs.case)
    best = best_that_fits(inputs, like)
    note = "best plan found" + (", with your --set" if inputs.case.held.values else "")
    tried = [] if best is None else [(settings_of_plan(inputs, best), "time", note)]
    if best is None and not any(each.price in OWN and has_chance(each.chance, preferred) for each in found):
        tried = [(each.of_a_plan(inputs.case), each.price, each.note) for each in several_that_fit(inputs, like)]
    elif _mostly_logits(answer) and (chunked := fitting_changes(inputs.case, (CHUNKED_LOSS,), like)) is not None:
        tried.append((chunked.of_a_plan(inputs.case), chunked.price, chunked.note))
    ahead: dict[tuple[str, ...], Remedy] = {}
    for settings, price, note in tried:
        left, costs = _reasons_with_settings(answer, settings)
        if settings and not left:
            remedy = replace(_make_remedy((settings,), costs, price=price), note=note)
            remedy = remedy if best is not None else _without_needless_settings(answer, remedy)
            ahead[remedy.settings] = remedy
    whole = [*ahead.values(), *(each for each in found if each.settings not in ahead)]

    def order(each: Remedy) -> tuple[int, float]:
        return get_args(Price).index(each.price), (each.step_time or 0.0) if each.price == "time" else 0.0

    return safest(sorted(whole, key=order), preferred)


def _mostly_logits(answer: Answer) -> bool:
    """Whether logits are the largest line of the worst stage, of a stack that can compute its loss in chunks."""
    if answer.inputs.case.stack.loss != "plain" or answer.inputs.groups:
        return False
    ledger = memory_of(answer.inputs, answer.evaluation.block)
    worst = max(range(len(ledger.peaks)), key=lambda stage: number(ledger.peaks[stage]))
    return max(ledger.lines, key=lambda name: number(ledger.lines[name][worst])) == "logits"


def _with_notes(answer: Answer, remedy: Remedy) -> Remedy:
    """The remedy with notes: a search does not try it, or it makes a step far longer."""
    slower = (remedy.step_time or 0.0) / answer.evaluation.costs.row()["step_time"]
    notes = [remedy.note] if remedy.note else []
    notes += ["not searched"] if any(setting.startswith("plan.offload=") for setting in remedy.settings) else []
    notes += [f"{slower:.2g} × as long a step"] if _FAR_SLOWER < slower < math.inf else []
    return replace(remedy, note="; ".join(notes))


def _run_remedies(answer: Answer, code: str) -> Iterator[Remedy]:
    """Settings of the run, such as how it saves checkpoints, that remove a reason."""
    for settings in OF_RUN[code]:
        left, costs = _reasons_with_settings(answer, settings)
        if code not in left:
            yield _make_remedy((settings,), costs, left=left)


def _remedies_of_invalid_plan(answer: Answer, code: str) -> Iterator[Remedy]:
    """For each key, values that make an invalid plan valid: of the likely keys, else of any key."""
    tried: list[tuple[str, Any, tuple[str, ...]]] = []
    for group in keys_to_try(code):
        tried = tried or [
            (path, value, left)
            for path in group
            for value in values_to_try(answer, path)
            if code not in (left := _reasons_with_value(answer, path, value)[0])
        ]
    fewest = min((len(left) for _, _, left in tried), default=0)
    kept = [each for each in tried if len(each[2]) == fewest]
    for path in list(dict.fromkeys(path for path, *_ in kept))[:_MOST_PATHS]:
        first, *others = [(value, left) for named, value, left in kept if named == path][:_MOST_VALUES]
        _, costs = _reasons_with_value(answer, path, first[0], figures=not first[1])
        alternatives = tuple((f"{path}={value_text(value)}",) for value, _ in (first, *others))
        yield _make_remedy(alternatives, costs, left=first[1])


def _host_remedies(answer: Answer, code: str) -> Iterator[Remedy]:
    """Settings that add missing figures of the host, from a shipped node."""
    if code != _ON_HOST:
        return
    settings, note = host_figures(answer)
    left, costs = _reasons_with_settings(answer, settings) if settings else ((code,), {})
    if code not in left:
        yield replace(_make_remedy((settings,), costs, left=left), note=note)


def _plan_key_remedies(answer: Answer, tried_paths: Sequence[str]) -> list[Remedy]:
    """For each plan key its fastest value that meets all limits, with the preferred chance if any value has it."""
    preferred = preferred_chance(answer.inputs.case)
    alike: dict[Structure, list[tuple[str, Any, int, Block]]] = {}
    for path in tried_paths:
        for place, value in enumerate(values_to_try(answer, path)):
            block = _with_value(answer, path, value)
            if block is not None:
                alike.setdefault(block.structure, []).append((path, value, place, block))
    works: dict[str, list[tuple[float, int, Remedy]]] = {}
    for asked in alike.values():
        for row, costs in _rows_within_limits(answer.inputs, rows_of([block for *_, block in asked])):
            path, value, place, _ = asked[row]
            remedy = _make_remedy(((f"{path}={value_text(value)}",),), costs, price="time")
            works.setdefault(path, []).append((costs["step_time"], place, remedy))
    found = []
    for path in (path for path in tried_paths if path in works):
        in_order = (remedy for *_, remedy in sorted(works[path], key=lambda each: each[:2]))
        found.append(safest(in_order, preferred)[0])
    return sorted(safest(found, preferred), key=lambda remedy: remedy.step_time or 0.0)[:_MOST_OF_TIME]


def _with_value(answer: Answer, path: str, value: Any) -> Block | None:
    """The plan with another value of one key; None where there is no such plan."""
    written = {name: getattr(answer.plan, name) for name in answer.plan.model_fields_set}
    try:
        plan = Plan.model_validate({**written, path.partition(".")[2]: value})
        return plan_block(answer.inputs, plan)[0]
    except (CostModelError, ValidationError):
        return None


def _rows_within_limits(inputs: TrainingInputs, block: Block) -> Iterator[tuple[int, dict[str, float]]]:
    """The rows of a block that meet all limits, with their results; computes times only for rows that fit."""
    places = np.flatnonzero(valid_rows(inputs, block))
    if len(places) and not inputs.groups:
        memory = memory_of(inputs, block.at(places))
        places = places[np.broadcast_to(memory.worst <= inputs.usable_memory, (len(places),))]
    if not len(places):
        return
    costs = evaluate(inputs, block.at(places)).costs
    broken = any_of(mask for _, mask in unacceptable(inputs, costs))
    for row in np.flatnonzero(~np.broadcast_to(broken, (len(places),))):
        yield int(places[row]), costs.row(int(row))


def _fused_attention(answer: Answer) -> Iterator[Remedy]:
    """Another stack with a fused attention kernel, if the stack's own kernel writes its scores to memory."""
    if answer.inputs.stack.kernels.attention != "unfused":
        return
    left, costs = _reasons_with_settings(answer, _FUSED)
    if not left:
        yield _make_remedy((_FUSED,), costs, price="time")


def _scenario_remedies(answer: Answer, *, smaller: bool) -> Iterator[Remedy]:
    """Changes outside the plan with which it meets all limits: the first of each kind, and a few other nodes."""
    case, remedy_chance = answer.inputs.case, preferred_chance(answer.inputs.case)
    least = _SAME_PEAK * answer.evaluation.costs.row()["memory_peak"] if smaller else 0.0
    seen: set[str] = set()
    nodes = itertools.count()
    for change in of_the_scenario(case, smaller=smaller, least=least):
        enough = sum(kind.startswith("node ") for kind in seen) >= _MOST_NODES
        if change.kind.startswith("node ") and (enough or next(nodes) >= _MOST_NODES_TRIED):
            continue
        if change.kind in seen:
            continue
        left, costs = _reasons_with_settings(answer, change.settings)
        if not left:
            if has_chance(costs["fit_chance"], remedy_chance):
                seen.add(change.kind)
            yield replace(_make_remedy((change.settings,), costs, price=change.price), note=change.note)


def _without_needless_settings(answer: Answer, remedy: Remedy) -> Remedy:
    """The remedy without settings that are not needed; tries to drop the most expensive first."""
    preferred = preferred_chance(answer.inputs.case)
    for setting in reversed(remedy.settings):
        without = tuple(other for other in remedy.settings if other != setting)
        left, costs = _reasons_with_settings(answer, without)
        if not left and has_chance(costs["fit_chance"], preferred):
            remedy = replace(_make_remedy((without,), costs, price=remedy.price), note=remedy.note)
    return remedy


def _make_remedy(
    alternatives: tuple[tuple[str, ...], ...], costs: dict[str, float], *, left: tuple[str, ...] = (), price: Any = ""
) -> Remedy:
    if left:
        return Remedy(alternatives, price, left=left)
    figures = costs["memory_peak"], costs["memory_share"], costs["step_time"], costs["fit_chance"]
    return Remedy(alternatives, price, *figures)


def _reasons_with_value(answer: Answer, path: str, value: Any, *, figures: bool = False) -> Tried:
    """The reasons left with another value of a key, and on request the results; all reasons if no plan has it."""
    inputs, plan = answer.inputs, answer.plan
    holder, _, key = path.partition(".")
    try:
        if holder == "plan":
            written = {name: getattr(plan, name) for name in plan.model_fields_set}
            plan = Plan.model_validate({**written, key: value})
        else:
            inputs = training_inputs(_changed_case(inputs.case, path, value))
    except (CostModelError, ValidationError):
        return answer.refused or answer.broken, {}
    return _judge_plan(inputs, plan, figures=figures)


def _changed_case(case: ResolvedScenario, path: str, value: Any) -> ResolvedScenario:
    """The case with another value of one key; if the key is in a named document, that is read again."""
    if path.startswith(("workload.", "cluster.nodes")):
        return replace(case, scenario=changed(case.scenario, path, value))
    return vary(case, [f"{path}={value_text(value)}"])


def _reasons_with_settings(answer: Answer, settings: Iterable[str]) -> Tried:
    """The reasons left and the results with several settings, written as for --set."""
    try:
        case = vary(answer.inputs.case, settings)
        return _judge_plan(training_inputs(case), case.scenario.plan or answer.plan, figures=True, fitting=True)
    except CostModelError:
        return answer.refused or answer.broken, {}


def _judge_plan(inputs: TrainingInputs, plan: Plan, *, figures: bool, fitting: bool = False) -> Tried:
    """The reasons against a plan and its results: why it is invalid, or on request which limits it breaks.

    fitting: of a plan that does not fit, only its share of the memory is of interest
    """
    block, _ = plan_block(inputs, plan)
    left = refusals(inputs, block)
    if left or not figures:
        return left, {}
    if fitting and not inputs.groups:
        share = float(np.max(memory_of(inputs, block).worst)) / float(inputs.usable_memory)
        if share > 1:
            return ("M001",), {"memory_share": share}
    costs = evaluate(inputs, block).costs
    return tuple(dict.fromkeys(code for code, mask in unacceptable(inputs, costs) if mask.any())), costs.row()


SOURCE = "own-figures"
_GROUPS = {"memory": ("capacity", "bandwidth"), "drives": ("capacity", "read", "write")}


def host_figures(answer: Answer) -> tuple[tuple[str, ...], str]:
    """Settings for missing figures of the host, and the shipped node that they come from; empty if no node has all."""
    host, structure = answer.inputs.host, answer.evaluation.block.structure
    groups = ["memory"] if math.isnan(host.capacity) else []
    groups += ["drives"] if structure.offload_to == "nvme" and math.isnan(host.drives) else []
    linked = not math.isnan(host.link)
    for node in _nodes_with_host_memory(answer):
        if all(getattr(node, group) is not None for group in groups) and (linked or isinstance(node.host, str)):
            link = () if linked else (f"cluster.node.host={node.host}",)
            return (*link, *(_node_setting(node, group) for group in groups)), f"figures of {node.name}: put your own"
    return (), ""


def _nodes_with_host_memory(answer: Answer) -> Iterator[Node]:
    """Shipped nodes with known host memory: those with the same accelerator first, then by size of that memory."""
    found = []
    for name in names("node"):
        try:
            node: Node = read("node", name)
        except CostModelError:
            continue
        if node.memory is not None:
            found.append((node.accelerator != answer.inputs.case.accelerator.name, node.memory.capacity, name, node))
    yield from (node for *_, node in sorted(found, key=lambda each: each[:3]))


def _node_setting(node: Node, group: str) -> str:
    held, units = getattr(node, group), {"capacity": "B"}
    figures = (f"{name}: {show(float(getattr(held, name)), units.get(name, 'B/s'))}" for name in _GROUPS[group])
    return f"cluster.node.{group}={{{', '.join(figures)}, source: {SOURCE}, check: known}}"


_FAR = 64
# Keys of the plan that make it smaller or faster.
_LAYOUT = "zero micro_batch recompute tp pp vpp schedule sequence_parallel cp ep offload offload_to"
LAYOUT = [f"plan.{key}" for key in _LAYOUT.split()]
# What removes a reason against the whole run.
OF_RUN: dict[str, tuple[tuple[str, ...], ...]] = {
    "R001": (("run.checkpoint.interval=best",), ("run.checkpoint.steps=null",)),
    "R002": (("run.checkpoint.mode=async",), ("run.checkpoint.mode=sync",)),
    "R007": (
        *((f"run.{key}=null",) for key in ("checkpoint.block", "checkpoint.storage.read", "restart.start", "planned")),
        ("run.evaluation=0",),
        ("run.checkpoint.mode=memory",),
    ),
}
_FIXES = " ".join(reason.fixes for reason in REFUSALS.values()).split()
_EVERY = tuple(dict.fromkeys([*_FIXES, *LAYOUT, "cluster.node.accelerators"]))
OTHERS = [path for path in _EVERY if path.startswith("plan.") and path not in LAYOUT]
_CHOICES: dict[str, tuple[Any, ...]] = {
    "zero": get_args(Zero),
    "recompute": get_args(Recompute),
    "schedule": get_args(Schedule),
    "cp_type": get_args(ContextParallel),
    "split": get_args(Split),
    "sequence_parallel": (True, False),
    "offload_to": ("cpu",),
    "shares": ("equal", "proportional", "stages"),
    "sync": ("all-reduce",),
    "compression": ("int8", "fp16", "none"),
    **dict.fromkeys(("offload_layers", "recompute_layers", "first_stage_layers", "last_stage_layers"), (None,)),
}


def keys_to_try(code: str) -> tuple[list[str], list[str]]:
    """The keys to try first against a reason, and all other keys."""
    first = REFUSALS[code].fixes.split() if code in REFUSALS else []
    return first, [path for path in _EVERY if path not in first]


def values_to_try(answer: Answer, path: str) -> Iterable[Any]:
    """Other values to try for a key, nearest first."""
    key = path.rpartition(".")[2]
    if key in _NUMBERS:
        return _NUMBERS[key](answer)
    plan, structure = answer.plan, answer.evaluation.block.structure
    if key in SIZES:
        return _nearest_first(_plan_size(answer, key), _degrees_to_try(answer.inputs))
    if key == "offload":
        return _smaller_offloads(plan.offload) if plan.offload else _larger_offloads(answer.inputs)
    if key == "recompute_modules":
        offered = answer.inputs.stack.recompute_modules
        kept = [name for name in plan.recompute_modules or () if name in offered]
        return (None, kept) if kept else (None,)
    layers = int(number(layer_count(answer.inputs.model)))
    counts: Iterable[Any] = ()
    if key.endswith("_layers") and (held := getattr(plan, key)) is not None:
        counts = _nearest_first(float(held), range(1, layers))
    return (*counts, *(value for value in _CHOICES.get(key, ()) if value != getattr(structure, key)))


def _plan_size(answer: Answer, name: str) -> float:
    return float(getattr(answer.evaluation.block, name)[0])


def _nearest_first(now: float, values: Iterable[int]) -> list[int]:
    """The other values, sorted by their distance from the current one."""
    return sorted((value for value in {*values} if value != now), key=lambda value: (abs(value - now), value))[:_FAR]


def _degrees_to_try(inputs: TrainingInputs) -> set[int]:
    """Degrees to try: small numbers, and divisors of the ranks or the batch."""
    ranks, batch = int(number(inputs.ranks)), int(number(inputs.global_batch))
    most = min(max(ranks, batch), 1 << 16)
    return {*range(1, _FAR + 1), *(value for value in range(1, most + 1) if ranks % value == 0 or batch % value == 0)}


def _smaller_offloads(offload: Iterable[str]) -> Iterator[list[str]]:
    """Smaller sets of offloaded states, largest first; before them, the parameters with the optimizer added."""
    named = list(offload)
    if "parameters" in named and "optimizer" not in named:
        yield [*named, "optimizer"]
    for count in range(len(named) - 1, -1, -1):
        yield from map(list, itertools.combinations(named, count))


def _larger_offloads(inputs: TrainingInputs) -> Iterator[list[str]]:
    """Sets of states that the stack can put on the host, smallest first."""
    offered = inputs.stack.offload.of if inputs.stack.offload is not None else []
    for count in range(1, len(offered) + 1):
        yield from map(list, itertools.combinations(offered, count))


def _nearest_multiples(now: float, units: Iterable[float]) -> list[int]:
    """For each unit, the multiples just below and above the current value, nearest first."""
    whole = [int(unit) for unit in units if unit >= 1 and float(unit).is_integer()]
    return _nearest_first(now, [unit * max(1, int(now) // unit + more) for unit in whole for more in (0, 1)])


def _batches_to_try(answer: Answer) -> list[int]:
    pp, unit = _plan_size(answer, "pp"), _plan_size(answer, "dp") * _plan_size(answer, "micro_batch")
    return _nearest_multiples(number(answer.inputs.global_batch), (unit, unit * 2, unit * pp, unit * 2 * pp))


def _sequences_to_try(answer: Answer) -> list[int]:
    tp, cp, inputs = _plan_size(answer, "tp"), _plan_size(answer, "cp"), answer.inputs
    most = [int(inputs.model.max_sequence)]
    return [*_nearest_multiples(number(inputs.sequence), (tp * cp, 2 * cp, 2 * cp * tp)), *most]


def _nodes_to_try(answer: Answer) -> list[int]:
    """Numbers of nodes that the parallel degrees fill, nearest to the current one first."""
    inputs = answer.inputs
    each = number(inputs.case.node.accelerators)
    inner = math.prod(_plan_size(answer, name) for name in ("tp", "cp", "pp"))
    wanted = inner * answer.plan.dp if answer.plan.dp is not None else inner
    unit = wanted / math.gcd(int(wanted), int(each))
    ranks = wanted if answer.plan.dp is not None else number(inputs.ranks)
    nodes = {int(ranks // each), *_nearest_multiples(ranks / each, (unit,))}
    return _nearest_first(number(inputs.case.scenario.cluster.nodes), (count for count in nodes if count > 0))


def _replicas_to_try(answer: Answer) -> list[int]:
    """Values of dp if the plan states it: first the one that fills the ranks."""
    inner = math.prod(_plan_size(answer, name) for name in ("tp", "cp", "pp"))
    dp = number(answer.inputs.ranks) / inner
    if answer.plan.dp is None:
        return []
    of_all = [int(dp)] if dp.is_integer() and dp != answer.plan.dp else []
    return list(dict.fromkeys([*of_all, *_nearest_first(answer.plan.dp, _degrees_to_try(answer.inputs))]))


def _restart_ranks_to_try(answer: Answer) -> list[int]:
    """Numbers of ranks on which a job can continue after a failure, nearest to the stated one first."""
    run, block = answer.inputs.run, answer.evaluation.block
    if run is None or run.restart.ranks is None:
        return []
    return [int(ranks) for ranks in nearest_ranks(answer.inputs, block, float(run.restart.ranks))]


def _accelerators_to_try(answer: Answer) -> list[int]:
    """Other numbers of accelerators per node, up to twice the current one, nearest first."""
    now = number(answer.inputs.case.node.accelerators)
    return _nearest_first(now, range(1, int(2 * now) + 1))


_NUMBERS: dict[str, Callable[[Answer], list[int]]] = {
    "accelerators": _accelerators_to_try,
    "dp": _replicas_to_try,
    "global_batch": _batches_to_try,
    "sequence": _sequences_to_try,
    "nodes": _nodes_to_try,
    "ranks": _restart_ranks_to_try,
}


# --- what would move the goodput of a run: each change tried on the same steps


@record
class RunLever:
    """A change of the run: its name, the settings that make it, and the resulting goodput."""

    words: str
    settings: tuple[str, ...]
    goodput: float


@record
class RunOutlook:
    """The effect of changes on a run; each evaluates a whole run, so they are computed only when asked for."""

    answer: Answer
    run: RunInputs

    @cached_property
    def at_best_interval(self) -> RunFigures:
        """The figures of the run at its best checkpoint interval."""
        return _run_figures(self.answer, _with_best_interval(self.run))

    @cached_property
    def levers(self) -> list[RunLever]:
        """Single changes of the run, the one with most goodput first."""
        return _run_levers(self.answer, self.run)


def run_outlook(answer: Answer) -> RunOutlook | None:
    """The effect of changes on the run of a valid plan; None without a run or a valid plan."""
    run = answer.inputs.run
    return None if run is None or answer.refused else RunOutlook(answer, run)


def _run_levers(answer: Answer, run: RunInputs) -> list[RunLever]:
    """Every possible change of the run with the resulting goodput, the best first."""
    levers = [
        RunLever(words, settings, number(_run_figures(answer, changed).goodput))
        for words, settings, changed in _run_changes(run, answer)
    ]
    return sorted(levers, key=lambda lever: -lever.goodput)


def _with_best_interval(run: RunInputs) -> RunInputs:
    return replace(run, checkpoint=replace(run.checkpoint, interval=None, steps=None, memory_interval=None))


def _run_figures(answer: Answer, run: RunInputs) -> RunFigures:
    evaluation, inputs = answer.evaluation, answer.inputs
    return whole_run(inputs, run, evaluation.block, evaluation.step.total, price_per_accelerator(inputs.case))


def _run_changes(run: RunInputs, answer: Answer) -> Iterator[tuple[str, tuple[str, ...], RunInputs]]:
    """Every possible change of a run: its name, its settings, and the changed inputs."""
    saved = answer.evaluation.run
    assert saved is not None
    if run.checkpoint.interval is not None or run.checkpoint.steps is not None:
        keys = ("interval=best", "steps=null") if run.checkpoint.steps is not None else ("interval=best",)
        yield "the best interval", tuple(f"run.checkpoint.{key}" for key in keys), _with_best_interval(run)
    half = run.restart.start / 2
    faster = replace(run.restart, start=half)
    yield f"a start of {show_time(half)}", (f"run.restart.start={half:.4g} s",), replace(run, restart=faster)
    write = number(saved.saved.nbytes) / number(saved.columns["checkpoint_write"])
    store = replace(run.checkpoint, write=2 * write)
    inputs = (f"run.checkpoint.storage.write={2 * write / 1e9:.4g} GB/s",)
    yield f"a store that writes {show(2 * write, 'B/s')}", inputs, replace(run, checkpoint=store)
    modes = {"sync": "async", "async": "memory"}
    if run.elastic is None and run.checkpoint.mode in modes:
        mode = modes[run.checkpoint.mode]
        other = replace(_with_best_interval(run).checkpoint, mode=mode)  # type: ignore[arg-type]
        yield f"mode {mode}", (f"run.checkpoint.mode={mode}",), replace(run, checkpoint=other)
    rates = run.failures
    fewer = replace(rates, node=rates.node / 2)
    inputs = (f"run.failures.rate={rates.node * 43.2e6:.4g} /1000 node-days",)
    yield "half the failures of nodes", inputs, replace(run, failures=fewer)
