"""Every layout of a serving scenario worth trying, evaluated in columns and ranked."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.keys.paths import at
from costmodel.documents.schemas.serving.serving_results import RESULTS
from costmodel.documents.schemas.serving.serving_workload import LOADS
from costmodel.estimate.serving.constraints import invalid, invalid_halves
from costmodel.estimate.serving.evaluate_apart import ApartEvaluation, evaluate_apart
from costmodel.estimate.serving.evaluate_layouts import evaluate
from costmodel.estimate.serving.plan_columns import PlanColumns, sizes_of
from costmodel.estimate.serving.predict_serving import AnyEvaluation, ServingAnswer, answer, routed_parts, unacceptable
from costmodel.estimate.serving.reason_codes import OVERLOAD
from costmodel.estimate.serving.service_limits import over_limits, service_limits
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.explore.search.progress import UNWATCHED, Watcher
from costmodel.explore.search.ranges import Axis
from costmodel.explore.serving.fleet_size import counts_fleets, sized, sized_apart, with_counts
from costmodel.explore.serving.found_plans import (
    FoundPlans,
    RankedPlan,
    VariantPlans,
    comparable,
    compared,
    lacks_figure,
    varied,
)
from costmodel.explore.serving.layout_candidates import candidates, ep_is_open, pairs, replicas_are_open
from costmodel.explore.serving.limit_misses import Result, limit_distance, shown_digits
from costmodel.explore.serving.plan_bands import with_bands
from costmodel.explore.serving.plan_twins import alike_without_ep
from costmodel.ground.errors import Fault
from costmodel.ground.record import record

TOO_LARGE = frozenset({"M001"})
UNSTABLE = TOO_LARGE | OVERLOAD  # the load grows without end
ROWS = 65_536  # plans that are evaluated together

Mask = NDArray[np.bool_]


@record
class _Own:
    """The scenario's own plan, if it has one, and its place in the order of plans."""

    answer: ServingAnswer | None
    key: tuple[float, ...] | None


def search(
    inputs: ServingInputs,
    top: int = 10,
    over: Sequence[Axis] = (),
    watcher: Watcher = UNWATCHED,
    *,
    bands: bool = True,
) -> FoundPlans:
    """The best plans of the scenario's space: those that keep every limit first, then those that miss one by least.

    Over several scenarios if keys vary: one ranking of the plans of all.
    """
    since = time.perf_counter()
    found, lacking = FoundPlans(varied(inputs, over)), list[str]()
    own = _Own(None, None) if _varies_load(inputs, over) else _own(inputs)
    found.yours = own.answer
    better = 0

    def of_variant(number: int, inputs: ServingInputs) -> tuple[VariantPlans, list[RankedPlan], int]:
        if lacks_figure(inputs, inputs.case.scenario.objective):
            lacking.append(inputs.case.node.name)
            return VariantPlans(number), [], 0
        return _searched(number, inputs, top, own.key)

    for number, result in enumerate(found.variants.each(of_variant, watcher)):
        if isinstance(result, Fault):
            found.parts.append(VariantPlans(number, fault=result))
            continue
        part, ranked, ahead = result
        found.parts.append(part)
        found.best = _ordered(inputs, [*found.best, *ranked])[:top]
        better += ahead
    comparable(inputs.case.scenario.objective, lacking)
    found.your_rank = better + 1 if own.key is not None else 0
    found.fleet = _fleet(found)
    if bands:
        _add_bands(found)
    found.best = [plan.without_money() for plan in found.best]
    for each in found.parts:
        each.best = None if each.best is None else each.best.without_money()
    found.elapsed = time.perf_counter() - since
    return found


def _add_bands(found: FoundPlans) -> None:
    """Ends of bands for every plan that is named: those that are ranked, the best at each value, the fleet."""
    named = [*found.best, *(part.best for part in found.parts), found.fleet]
    plans = list({id(plan): plan for plan in named if plan is not None}.values())
    banded = dict(zip(map(id, plans), with_bands(found.variants, plans), strict=True))
    found.best = [banded[id(plan)] for plan in found.best]
    for part in found.parts:
        part.best = banded.get(id(part.best))
    found.fleet = banded.get(id(found.fleet))


def _fleet(found: FoundPlans) -> RankedPlan | None:
    """The best plan with as many replicas as the rate needs, or one more where the share of each rounds up above a
    limit; None where it has them, or no number is enough.
    """
    if not found.best or found.stopped:
        return None
    best, inputs = found.best[0], found.variants.of(found.best[0].variant)
    if not math.isfinite(best.costs["gpus_needed"]) or best.costs["gpus_needed"] == best.costs["gpus"]:
        return None
    fleets = (_of_so_many(inputs, best, more) for more in (0, 1))
    return next((fleet for fleet in fleets if not fleet.broken), None)


def _of_so_many(inputs: ServingInputs, best: RankedPlan, more: int) -> RankedPlan:
    """A plan with as many replicas as the rate needs, or some more."""
    halves = [(best.sizes, "decode_needed" if best.prefill else "replicas_needed")]
    halves += [(best.prefill, "prefill_needed")] if best.prefill is not None else []
    layouts = [
        PlanColumns(
            **{size: np.array([value]) for size, value in {**sizes, "replicas": best.costs[needed] + more}.items()}
        )
        for sizes, needed in halves
    ]
    with np.errstate(all="ignore"):
        if len(layouts) == 1:
            evaluation: AnyEvaluation = evaluate(inputs, layouts[0])
        else:
            (routed,) = routed_parts(inputs, layouts[1], layouts[0])
            evaluation = evaluate_apart(*routed)
        return ranked_plan(evaluation, 0, dict(unacceptable(inputs, evaluation)), best.variant)


def _varies_load(inputs: ServingInputs, over: Sequence[Axis]) -> bool:
    """Whether the load that varies is of another kind than the scenario's, whose plan then has none of its own."""
    loads = [axis.path for axis in over if axis.path.removeprefix("workload.") in LOADS]
    return any(at(inputs.case.original, path) is None for path in loads)


def _own(inputs: ServingInputs) -> _Own:
    plan = inputs.case.scenario.plan
    own = None if plan is None else answer(inputs, plan, bands=False)
    ranked = own is not None and not own.refused and not lacks_figure(inputs, inputs.case.scenario.objective)
    return _Own(own, _key(inputs, own.costs, own.broken) if own is not None and ranked else None)


def _ordered(inputs: ServingInputs, plans: list[RankedPlan]) -> list[RankedPlan]:
    return sorted(plans, key=lambda plan: _key(inputs, plan.costs, plan.broken))


def _searched(
    number: int, inputs: ServingInputs, top: int, own: tuple[float, ...] | None
) -> tuple[VariantPlans, list[RankedPlan], int]:
    """What became of the plans of one scenario, the best of them, and how many are ahead of a plan with that key."""
    layout = candidates(inputs)
    part = VariantPlans(number, len(layout))
    kept = np.ones(len(layout), dtype=bool)
    for code, mask in invalid(inputs, layout):
        _count(part, code, mask & kept, layout)
        kept &= ~mask
    layout = layout.at(kept)
    part.valid = len(layout)
    ranked: list[RankedPlan] = []
    better = 0
    for evaluation in _evaluations(part, inputs, layout):
        plans, ahead = _evaluated(part, inputs, evaluation, top, own)
        ranked += plans
        better += ahead
    ranked = _ordered(inputs, ranked)[:top]
    if not counts_fleets(inputs):
        ranked, part.fewest = with_counts(inputs, ranked), np.inf
    part.best = ranked[0] if ranked else None
    return part, ranked, better


def _evaluations(part: VariantPlans, inputs: ServingInputs, layout: PlanColumns) -> Iterator[AnyEvaluation]:
    """Every valid plan, and where the space has them those with prefill and decode apart, so many at a time."""
    open_count, seen = replicas_are_open(inputs), 0
    for start in range(0, len(layout), ROWS):
        with np.errstate(all="ignore"):
            found = evaluate(inputs, layout.at(slice(start, start + ROWS)), counted=counts_fleets(inputs))
        for each in sized(inputs, found) if open_count else (found,):
            seen += len(each.layout)
            yield each
    space = inputs.case.scenario.search
    if space is not None and space.disaggregated:
        halves = _valid_halves(part, inputs, layout)
        for start in range(0, len(halves[0]), ROWS):
            rows = slice(start, start + ROWS)
            with np.errstate(all="ignore"):
                apart = [evaluate_apart(*each) for each in routed_parts(inputs, *(half.at(rows) for half in halves))]
            for pair in sized_apart(inputs, apart) if open_count else apart:
                seen += len(pair.layout)
                yield pair
    part.candidates += seen - part.valid  # plans with fewer replicas beside those with all, or in their place
    part.valid = seen


def _valid_halves(part: VariantPlans, inputs: ServingInputs, layout: PlanColumns) -> tuple[PlanColumns, PlanColumns]:
    """Prefill and decode instances that make sense together; the others are counted."""
    prefill, decode = pairs(inputs, layout)
    part.candidates += len(decode)
    kept = np.ones(len(decode), dtype=bool)
    for code, mask in invalid_halves(inputs, prefill, decode):
        _count(part, code, mask & kept, decode)
        kept &= ~mask
    part.valid += int(kept.sum())
    return prefill.at(kept), decode.at(kept)


def _evaluated(
    part: VariantPlans, inputs: ServingInputs, evaluation: AnyEvaluation, top: int, own: tuple[float, ...] | None
) -> tuple[list[RankedPlan], int]:
    """The best of some plans that fit, and how many of these are ahead of a plan with that key."""
    layout = evaluation.layout
    fits, kept = np.ones(len(layout), dtype=bool), np.ones(len(layout), dtype=bool)
    codes: dict[str, Mask] = {}
    for code, mask in unacceptable(inputs, evaluation):
        codes[code] = codes.get(code, np.zeros(len(layout), dtype=bool)) | mask
    for code, mask in codes.items():
        _count(part, code, mask & kept, layout)
        kept &= ~mask
        fits &= ~mask if code in TOO_LARGE else True
    part.fastest = max(part.fastest, float(np.max(evaluation.results.column("bandwidth_bound"), initial=0.0)))
    part.fit += int(fits.sum())
    part.kept += int(kept.sum())
    needed = evaluation.results.column("gpus_needed")[kept]
    part.fewest = min(part.fewest, float(np.min(needed, initial=np.inf)))
    keys, shown = _keys(inputs, evaluation, kept), fits
    if ep_is_open(inputs):
        shown = fits & ~alike_without_ep(evaluation)
        part.alike += int(fits.sum() - shown.sum())
    order = np.lexsort(keys[::-1])
    ranked = [ranked_plan(evaluation, int(row), codes, part.number) for row in order[shown[order]][:top]]
    return ranked, 0 if own is None else int((_ahead(keys, own) & shown).sum())


def _ahead(keys: list[NDArray[np.float64]], own: tuple[float, ...]) -> Mask:
    """Rows whose keys come before another's; the first in which they differ decides."""
    before, alike = np.zeros(len(keys[0]), dtype=bool), np.ones(len(keys[0]), dtype=bool)
    for column, value in zip(keys, own, strict=True):
        before |= alike & (column < value)
        alike &= column == value
    return before


def _of_ties(inputs: ServingInputs, result: Result, rows: int) -> list[NDArray[np.float64]]:
    """What orders plans as good as each other: fewer accelerators, more room to every limit, shorter times."""
    room = over_limits(service_limits(inputs), result, rows)
    times = [result("tpot"), result("ttft_p99")]
    return [result("gpus"), *map(shown_digits, (room, *times)), *times]


def _key(inputs: ServingInputs, costs: dict[str, float], broken: tuple[str, ...]) -> tuple[float, ...]:
    objective = compared(inputs)
    sign = -1.0 if RESULTS[objective].better == "higher" else 1.0
    first = np.nan_to_num(sign * shown_digits(np.array(costs[objective])), nan=np.inf)
    unstable = np.array([not UNSTABLE.isdisjoint(broken)])

    def result(name: str) -> NDArray[np.float64]:
        return np.array([costs[name]])

    missed = (column[0] for column in limit_distance(inputs, result, unstable))
    return (
        float(bool(broken)),
        float(unstable[0]),
        *map(float, missed),
        float(first),
        *(float(column[0]) for column in _of_ties(inputs, result, 1)),
    )


def _keys(inputs: ServingInputs, evaluation: AnyEvaluation, kept: Mask) -> list[NDArray[np.float64]]:
    """What plans are ordered by: the limits kept, the load answered, how near they come, the objective, times."""
    objective = compared(inputs)
    first = shown_digits(evaluation.results.column(objective))
    sign = -1.0 if RESULTS[objective].better == "higher" else 1.0
    unstable = evaluation.overloaded | (evaluation.results.column("memory_share") > 1)
    missed = limit_distance(inputs, evaluation.results.column, unstable)
    return [
        (~kept).astype(np.float64),
        unstable.astype(np.float64),
        *missed,
        np.nan_to_num(sign * first, nan=np.inf),
        *_of_ties(inputs, evaluation.results.column, len(unstable)),
    ]


def ranked_plan(evaluation: AnyEvaluation, row: int, codes: dict[str, Mask], variant: int = 0) -> RankedPlan:
    """A row of an evaluation as a plan."""
    sizes = sizes_of(evaluation.layout, row)
    half = evaluation.prefill if isinstance(evaluation, ApartEvaluation) else None
    prefill = None if half is None else sizes_of(half, row)
    broken = tuple(code for code, mask in codes.items() if mask[row])
    return RankedPlan(sizes, evaluation.results.row(row), broken, evaluation.binding(row), prefill, variant)


def _count(part: VariantPlans, code: str, mask: Mask, layout: PlanColumns) -> None:
    """Counts plans that are refused, and remembers one of them."""
    part.refused[code] += int(mask.sum())
    if mask.any() and code not in part.examples:
        row = int(np.argmax(mask))
        part.examples[code] = sizes_of(layout, row)
