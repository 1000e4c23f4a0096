"""Every layout of a serving scenario worth trying, evaluated in columns and ranked."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.keys.overrides import path_of
from costmodel.documents.schemas.serving.serving_results import RESULTS
from costmodel.estimate.serving.constraints import invalid, invalid_halves
from costmodel.estimate.serving.evaluate_apart import ApartEvaluation, evaluate_apart
from costmodel.estimate.serving.evaluate_layouts import evaluate
from costmodel.estimate.serving.plan_columns import PlanColumns, sizes_of
from costmodel.estimate.serving.predict_serving import AnyEvaluation, ServingAnswer, answer, routed, unacceptable
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.errors import CostModelError, fail
from costmodel.ground.record import record

BUDGETS = (2048.0, 8192.0, 16384.0)  # tried beside what the engine picks
TOO_LARGE = frozenset({"M001"})
UNSTABLE = TOO_LARGE | {"S003", "S004", "S005"}  # the load grows without end
COUNTS = 12  # numbers of decode instances that are tried with each pair of layouts
ROWS = 65_536  # plans that are evaluated together
ALIKE = 1e-6  # share below which two plans are as good as each other

Mask = NDArray[np.bool_]


@record
class RankedPlan:
    """A plan with its results, what it breaks, and what binds its rate."""

    sizes: dict[str, float]
    costs: dict[str, float]
    broken: tuple[str, ...]
    binding: str
    prefill: dict[str, float] | None = None  # its instances for prompts, where these are apart; sizes are of decode


@dataclass
class FoundPlans:
    """What a search of a serving scenario found."""

    inputs: ServingInputs
    candidates: int = 0
    valid: int = 0
    fit: int = 0
    kept: int = 0
    elapsed: float = 0.0
    best: list[RankedPlan] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, dict[str, float]] = field(default_factory=dict)
    yours: ServingAnswer | None = None
    your_rank: int = 0


def search(inputs: ServingInputs, top: int = 10) -> FoundPlans:
    """The best plans of the scenario's space: those that keep every limit first, then those that miss one."""
    since = time.perf_counter()
    found, layout = FoundPlans(inputs), candidates(inputs)
    found.candidates = len(layout)
    if not len(layout):
        raise _no_room(inputs)
    kept = np.ones(len(layout), dtype=bool)
    for code, mask in invalid(inputs, layout):
        _count(found, code, mask & kept, layout)
        kept &= ~mask
    layout = layout.at(kept)
    found.valid = len(layout)
    ranked: list[RankedPlan] = []
    scenario_plan = inputs.case.scenario.plan
    found.yours = None if scenario_plan is None else answer(inputs, scenario_plan)
    own = None if found.yours is None or found.yours.refused else _key(inputs, found.yours.costs, found.yours.broken)
    better = 0
    for evaluation in _evaluations(found, layout):
        plans, ahead = _evaluated(found, evaluation, top, own)
        ranked += plans
        better += ahead
    found.best = sorted(ranked, key=lambda plan: _key(inputs, plan.costs, plan.broken))[:top]
    found.your_rank = better + 1 if own is not None else 0
    found.elapsed = time.perf_counter() - since
    return found


def _no_room(inputs: ServingInputs) -> CostModelError:
    """A fault where what is held of the plan takes more accelerators than there are."""
    sentence, plan = "search lists no plan that the cluster has room for", inputs.case.scenario.plan
    sizes = {name: float(getattr(plan, name, None) or 1.0) for name in ("tp", "pp", "dp_attention")}
    if math.prod(sizes.values()) <= float(inputs.ranks):
        return fail("C004", sentence, inputs.case.place("search"))
    taken = " × ".join(f"{name} {size:.0f}" for name, size in sizes.items() if size > 1)
    sentence = f"{sentence}: {taken} is {math.prod(sizes.values()):.0f} GPUs, and it has {float(inputs.ranks):.0f}"
    hint = "a smaller degree, or more nodes"
    if sizes["dp_attention"] > 1 and sizes["tp"] > 1:
        hint = "tp counts inside a group of attention: SGLang's --tp 8 --dp 8 is tp 1, dp_attention 8"
    return fail("C004", sentence, inputs.case.place("plan"), hint)


def candidates(inputs: ServingInputs) -> PlanColumns:
    """Every plan of the space, or every one that makes sense where it lists none."""
    ranks, space, plan = float(inputs.ranks), inputs.case.scenario.search, inputs.case.scenario.plan
    held = {path_of(assignment) for assignment in inputs.case.assignments}  # what the command line sets stays
    degrees = _powers(ranks)

    def listed(name: str, usual: Iterable[float]) -> list[float]:
        if plan is not None and (f"plan.{name}" in held or ("plan" in held and name in plan.model_fields_set)):
            return [float(getattr(plan, name) or 0.0)]
        written = getattr(space, name, None) if space is not None else None
        return [float(value) for value in (usual if written is None else written)]

    mixture = inputs.model.has_experts
    budgets = sorted({*BUDGETS, float(inputs.budget)}) if inputs.engine.budget is None else [float(inputs.budget)]
    axes = (
        listed("tp", degrees),
        listed("pp", (pp for pp in degrees)),
        listed("ep", degrees if mixture else (1.0,)),
        listed("dp_attention", degrees if mixture else (1.0,)),
        listed("budget", budgets),
        listed("redundant_experts", () if plan is None else (plan.redundant_experts or 0.0,)) or [0.0],
        listed("dcp", (1.0 if plan is None else plan.dcp,)),
    )
    columns = [axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")]
    tp, pp, ep, groups, _, copies, dcp = columns
    each = np.asarray(pp * (tp * groups))
    sensible = each <= ranks
    if mixture:
        sensible &= (ep == 1) | (ep == tp * groups)
        sensible &= (copies == 0) | (ep > 1) | (len(axes[-2]) == 1)
    if len(axes[-1]) > 1:
        sensible &= tp % dcp == 0
    tp, pp, ep, groups, budget, copies, dcp, each = (column[sensible] for column in (*columns, each))
    counts = listed("replicas", ())
    if counts:
        rows = np.arange(len(tp)).repeat(len(counts))
        many = np.tile(np.array(counts), len(tp))
        tp, pp, ep, groups, budget, copies, dcp = (each[rows] for each in (tp, pp, ep, groups, budget, copies, dcp))
        return PlanColumns(tp, pp, ep, groups, many, budget, copies, dcp)
    return PlanColumns(tp, pp, ep, groups, np.floor(ranks / each), budget, copies, dcp)


def _powers(most: float) -> list[float]:
    return list(itertools.takewhile(lambda degree: degree <= most, (2.0**power for power in range(20))))


def _evaluations(found: FoundPlans, layout: PlanColumns) -> Iterator[AnyEvaluation]:
    """Every valid plan, and where the space has them those with prefill and decode apart, so many at a time."""
    inputs, space = found.inputs, found.inputs.case.scenario.search
    for start in range(0, len(layout), ROWS):
        with np.errstate(all="ignore"):
            yield evaluate(inputs, layout.at(slice(start, start + ROWS)))
    if space is None or not space.disaggregated:
        return
    prefill, decode = pairs(inputs, layout)
    found.candidates += len(decode)
    kept = np.ones(len(decode), dtype=bool)
    for code, mask in invalid_halves(inputs, prefill, decode):
        _count(found, code, mask & kept, decode)
        kept &= ~mask
    found.valid += int(kept.sum())
    prefill, decode = prefill.at(kept), decode.at(kept)
    for start in range(0, len(decode), ROWS):
        rows = slice(start, start + ROWS)
        with np.errstate(all="ignore"):
            yield evaluate_apart(routed(inputs, prefill.at(rows)), prefill.at(rows), decode.at(rows))


def pairs(inputs: ServingInputs, layout: PlanColumns) -> tuple[PlanColumns, PlanColumns]:
    """Instances for prompts and for tokens in every layout of one stage, as many of each as the accelerators hold."""
    ranks = float(inputs.ranks)
    alone = layout.at(layout.pp == 1)
    degrees = (alone.tp, alone.ep, alone.dp_attention, alone.redundant_experts, alone.dcp)
    shapes = np.unique(np.stack(degrees), axis=1).T
    rows = []
    for first, second in itertools.product(shapes, shapes):
        if first[3] != second[3]:  # a plan has as many copies on both
            continue
        own, other = first[0] * first[2], second[0] * second[2]
        counts = np.unique(np.geomspace(1, max((ranks - own) // other, 1), COUNTS).round())
        for count in counts[counts * other + own <= ranks]:
            rows.append((*first, (ranks - count * other) // own, *second, count))
    columns = np.array(rows, dtype=np.float64).reshape(-1, 12).T
    one, budget = np.ones(columns.shape[1]), np.full(columns.shape[1], float(inputs.budget))
    halves = (
        PlanColumns(tp, one, ep, groups, count, budget, copies, dcp)
        for tp, ep, groups, copies, dcp, count in (columns[:6], columns[6:])
    )
    prefill, decode = halves
    return prefill, decode


def _evaluated(
    found: FoundPlans, evaluation: AnyEvaluation, top: int, own: tuple[float, ...] | None
) -> tuple[list[RankedPlan], int]:
    """The best of some plans that fit, and how many of these are ahead of a plan with that key."""
    inputs, layout = found.inputs, evaluation.layout
    fits, kept = np.ones(len(layout), dtype=bool), np.ones(len(layout), dtype=bool)
    codes: dict[str, Mask] = {}
    for code, mask in unacceptable(inputs, evaluation):
        codes[code] = codes.get(code, np.zeros(len(layout), dtype=bool)) | mask
    for code, mask in codes.items():
        _count(found, code, mask & kept, layout)
        kept &= ~mask
        fits &= ~mask if code in TOO_LARGE else True
    found.fit += int(fits.sum())
    found.kept += int(kept.sum())
    keys = _keys(inputs, evaluation, kept)
    order = np.lexsort(keys[::-1])
    ranked = [ranked_plan(evaluation, int(row), codes) for row in order[fits[order]][:top]]
    return ranked, 0 if own is None else int((_ahead(keys, own) & fits).sum())


def _ahead(keys: list[NDArray[np.float64]], own: tuple[float, ...]) -> Mask:
    """Rows whose keys come before another's; the first in which they differ decides."""
    before, alike = np.zeros(len(keys[0]), dtype=bool), np.ones(len(keys[0]), dtype=bool)
    for column, value in zip(keys, own, strict=True):
        before |= alike & (column < value)
        alike &= column == value
    return before


_KEYS = ("gpus", "ttft_p99", "tpot")  # of plans that are as good as each other


def _key(inputs: ServingInputs, costs: dict[str, float], broken: tuple[str, ...]) -> tuple[float, ...]:
    objective = inputs.case.scenario.objective
    sign = -1.0 if RESULTS[objective].better == "higher" else 1.0
    return (float(bool(broken)), sign * float(_shown(np.array(costs[objective]))), *(costs[name] for name in _KEYS))


def _shown(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values to three digits, as they are shown: plans that look alike are ordered by their times."""
    known = np.isfinite(values) & (values != 0)
    unit = 10.0 ** (np.floor(np.log10(np.abs(np.where(known, values, 1.0)))) - 2)
    return np.where(known, np.round(values / unit) * unit, values)


def _keys(inputs: ServingInputs, evaluation: AnyEvaluation, kept: Mask) -> list[NDArray[np.float64]]:
    """What plans are ordered by, the first first: whether they keep the limits, the objective, fewer GPUs, times."""
    objective = inputs.case.scenario.objective
    first = _shown(evaluation.results.column(objective))
    sign = -1.0 if RESULTS[objective].better == "higher" else 1.0
    others = [evaluation.results.column(name) for name in _KEYS]
    return [(~kept).astype(np.float64), np.nan_to_num(sign * first, nan=np.inf), *others]


def ranked_plan(evaluation: AnyEvaluation, row: int, codes: dict[str, Mask]) -> RankedPlan:
    """A row of an evaluation as a plan."""
    sizes = sizes_of(evaluation.layout, row)
    half = evaluation.prefill if isinstance(evaluation, ApartEvaluation) else None
    prefill = None if half is None else sizes_of(half, row)
    broken = tuple(code for code, mask in codes.items() if mask[row])
    return RankedPlan(sizes, evaluation.results.row(row), broken, evaluation.binding(row), prefill)


def _count(found: FoundPlans, code: str, mask: Mask, layout: PlanColumns) -> None:
    """Counts plans that are refused, and remembers one of them."""
    found.refused[code] += int(mask.sum())
    if mask.any() and code not in found.examples:
        row = int(np.argmax(mask))
        found.examples[code] = sizes_of(layout, row)


def share_of(found: FoundPlans, code: str) -> float:
    """Share of all plans that a reason refuses."""
    return found.refused[code] / found.candidates


def reasons(found: FoundPlans) -> Iterator[tuple[str, int]]:
    """Reasons with how many plans each refuses, the most frequent first."""
    return ((code, count) for code, count in found.refused.most_common() if count)
