"""Searches the layouts of a serving scenario: evaluates them in columns and ranks them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.keys.paths import at
from costmodel.documents.reader.load_scenario import vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.documents.schemas.results import SERVING_RESULTS, ResultColumn, machine_name
from costmodel.documents.schemas.serving import LOADS
from costmodel.estimate.serving.constraints import invalid, invalid_halves
from costmodel.estimate.serving.evaluate_disaggregated import DisaggregatedEvaluation, evaluate_pairs
from costmodel.estimate.serving.evaluate_layouts import evaluate, under_limits
from costmodel.estimate.serving.measured_spreads import is_unmeasured
from costmodel.estimate.serving.plan_columns import SIZES, PlanColumns, distinct, rows_of, sizes_of
from costmodel.estimate.serving.predict_serving import (
    OVERLOAD,
    AnyEvaluation,
    ServingAnswer,
    answer,
    load_shares,
    routed_parts,
    unacceptable,
    under_share,
    within_limits,
)
from costmodel.estimate.serving.replica_capacity import remember_rates
from costmodel.estimate.serving.service_limits import OWN, asking_chance, demanding_chance, over_limits, service_limits
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.explore.search.rank import Axes, Top
from costmodel.explore.search.required_chance import preferred_chance
from costmodel.explore.search.scenario_variants import Variants, fail_if_listed
from costmodel.explore.search.space_interface import Keep, Space
from costmodel.explore.search.stream import HERE, SearchOptions, through
from costmodel.explore.search.value_ranges import OF_A_VALUE, Axis, count_combinations, values_at
from costmodel.explore.serving.fleet_size import counts_fleets, counts_replicas, sized, sized_apart, with_counts
from costmodel.explore.serving.layout_candidates import candidates, ep_is_open, pairs, replicas_are_open
from costmodel.explore.serving.serving_search_result import (
    RankedPlan,
    Result,
    ServiceCounts,
    ServiceSearch,
    ServiceTally,
    columns_of,
    compared,
    fail_without_figures,
    inputs_of_service,
    lacks_figure,
    limit_distance,
    listed_by_search,
    shown_digits,
    with_bands,
    with_binding_limits,
)
from costmodel.ground.errors import CostModelError, fail
from costmodel.ground.record import record

TOO_LARGE = frozenset({"M001"})
UNSTABLE = TOO_LARGE | OVERLOAD  # the load grows without end
AT_RISK = "S006"
MORE_REPLICAS = 8  # beyond those that expected figures need, up to which the preferred chance is looked for
FIRST_ROWS = 32  # plans whose rates with a preferred chance are looked at first
ROWS = 65_536  # plans that are evaluated together
WORK = 1 << 20  # of the plans of one scenario

Mask = NDArray[np.bool_]


@record
class OwnPlan:
    """The scenario's own plan in the ranking: its sort key, or its layout if the key is not known yet."""

    key: tuple[float, ...] | None = None
    layout: PlanColumns | None = None


@record
class _Searched:
    """The result of one scenario: counts, the best plans, and how many rank above the scenario's own plan."""

    part: ServiceCounts
    ranked: list[RankedPlan]
    ahead: int = 0
    expected: RankedPlan | None = None


@record
class ServiceSpace(Space[ServingInputs, RankedPlan, int]):
    """The plans of a serving scenario; the plans of one variant are one part."""

    size: int
    own: OwnPlan
    safe: float | None = None
    axes: Axes | None = None
    most: ClassVar[int | None] = 2_000

    def pieces(self, inputs: ServingInputs) -> Iterator[tuple[int, int]]:
        """A single piece with all plans, because they share their queues."""
        yield 0, WORK

    def empty(self) -> ServiceTally:
        """The result of no plans."""
        return ServiceTally(Top(self.size), Top(1))

    def searched(self, inputs: ServingInputs, piece: int, keep: Keep | None) -> ServiceTally:
        """The result of all plans of a scenario."""
        result, found = _search_scenario(inputs, self, keep), self.empty()
        found.top.rows, found.better_than_yours = result.ranked, result.ahead
        found.expected.rows = [] if result.expected is None else [result.expected]
        found.parts[0] = result.part
        return found

    def read(self, written: dict[str, Any]) -> RankedPlan:
        """A plan; JSON has no tuples."""
        return RankedPlan(**{**written, "broken": tuple(written["broken"])})

    def columns(self, inputs: ServingInputs) -> Mapping[str, ResultColumn]:
        """The result columns without bands."""
        return SERVING_RESULTS


def search(
    inputs: ServingInputs,
    top: int = 10,
    over: Sequence[Axis] = (),
    how: SearchOptions = HERE,
    *,
    bands: bool = True,
    make: Callable[[LoadedScenario], ServingInputs] = inputs_of_service,
) -> ServiceSearch:
    """Ranks the plans of the scenario's space: those that meet every limit, then those that miss by least.

    With varied keys, one ranking over all variants. If the search prefers a chance to meet all limits, plans with that
    chance come first, and rates and replicas are those with that chance.
    """
    since = time.perf_counter()
    fail_if_listed(over, partial(listed_by_search, inputs))
    variants = Variants(inputs, make, tuple(over))
    variants.checked(ServiceSpace.most)
    fail_without_figures(variants, [inputs.case.scenario.objective])
    preferred = preferred_chance(inputs.case)
    ruled = preferred is not None and not any(map(is_unmeasured, _machines(variants)))
    safe = preferred if ruled else None
    demanded = _demanding_case(inputs, safe)
    is_ranked = bands and not _varies_load(inputs, over)
    yours, own = _own_answer(inputs, safe, alone=not over) if is_ranked else (None, OwnPlan())
    space = ServiceSpace(top, own, safe)
    tally = space.empty()
    tally.top.key, tally.expected.key = partial(_order, demanded), partial(_order, inputs)
    stopped, total = through(space, variants, tally, how)
    found = ServiceSearch(variants, tally, yours, 0.0, total, stopped, safe, unruled=None if ruled else preferred)
    found.expected_rates = safe is not None and by_expected_rates(inputs)
    found.is_ranked = own.key is not None or own.layout is not None
    found.fleet = _fleet(found) if bands or found.expected_rates else None
    found.other = _by_other_rule(found) if bands else None
    if safe is not None:
        _mark_risky(found)
    if bands:
        _add_bands(found)
    tally.top.rows = [plan.without_money() for plan in found.best]
    for each in tally.parts.values():
        each.best = None if each.best is None else each.best.without_money()
    found.elapsed = time.perf_counter() - since
    return found


def _machines(variants: Variants[ServingInputs]) -> Iterator[ServingInputs]:
    """The inputs of the scenario, and of each variant in which machine, software, model or types vary."""
    yield variants.inputs
    if any(path.startswith(("cluster", "stack", "workload.precision", "model")) for path in variants.paths):
        yield from variants.possible()


def _demanding_case(inputs: ServingInputs, share: float | None) -> ServingInputs:
    """The scenario with the preferred chance as a limit."""
    return inputs if share is None else demanding_chance(inputs, share)


def _mark_risky(found: ServiceSearch) -> None:
    """Marks plans without the preferred chance; if no plan has it, none is counted as refused."""

    def marked(plan: RankedPlan) -> RankedPlan:
        return replace(plan, broken=tuple(code for code in plan.broken if code != AT_RISK))

    found.tally.top.rows, found.fleet = list(map(marked, found.best)), found.fleet and marked(found.fleet)
    for part in found.tally.parts.values():
        part.best = part.best and marked(part.best)
        if not found.tally.safe:
            part.refused.pop(AT_RISK, None)


def _add_bands(found: ServiceSearch) -> None:
    """Adds bands to every plan that is shown: the ranked ones, the best at each value, and the fleet."""
    parts = found.tally.parts.values()
    named = [*found.best, *(part.best for part in parts), found.fleet]
    plans = list({id(plan): plan for plan in named if plan is not None}.values())
    banded = dict(zip(map(id, plans), with_bands(found.variants, plans), strict=True))
    found.tally.top.rows = [banded[id(plan)] for plan in found.best]
    _add_binding_limits(found)
    for part in parts:
        part.best = banded.get(id(part.best))
    found.fleet = banded.get(id(found.fleet))


def _add_binding_limits(found: ServiceSearch) -> None:
    """Names what binds the rate of each ranked plan that fits in memory."""
    sure = found.safe is not None and not found.expected_rates
    for variant in dict.fromkeys(plan.variant for plan in found.best):
        places = [
            place for place, plan in enumerate(found.best) if plan.variant == variant and "M001" not in plan.broken
        ]
        some = with_binding_limits(found.variants.of(variant), [found.best[place] for place in places], sure=sure)
        for place, plan in zip(places, some, strict=True):
            found.tally.top.rows[place] = plan


def _fleet(found: ServiceSearch) -> RankedPlan | None:
    """The best plan with the replicas that the rate needs; None if it has them or no number is enough."""
    if not found.best or found.stopped:
        return None
    best, inputs = found.best[0], found.variants.of(found.best[0].variant)
    if not math.isfinite(best.costs["gpus_needed"]):
        return None
    if found.expected_rates:
        return _safe_fleet(found, inputs, best)
    if best.costs["gpus_needed"] == best.costs["gpus"]:
        return None
    fleets = (_of_so_many(inputs, best, more, found.safe) for more in (0, 1))
    return next((fleet for fleet in fleets if not fleet.broken), None)


def _safe_fleet(found: ServiceSearch, inputs: ServingInputs, best: RankedPlan) -> RankedPlan | None:
    """The best plan with the replicas for the preferred chance; the ranking then shows these counts too."""
    fleets = (_of_so_many(inputs, best, more, found.safe) for more in range(MORE_REPLICAS))
    fleet = next((fleet for fleet in fleets if not fleet.broken), None)
    if not best.broken and (fleet is None or best.costs["gpus"] <= fleet.costs["gpus"]):
        fleet = best
    if fleet is None:
        return None
    counts = dict.fromkeys(("replicas_needed", "decode_needed"), fleet.sizes["replicas"])
    counts["prefill_needed"] = math.nan if fleet.prefill is None else fleet.prefill["replicas"]
    needed = {name: count for name, count in counts.items() if not math.isnan(best.costs[name])}
    needed |= {"gpus_needed": fleet.costs["gpus"], "rent_needed": fleet.costs["rent_per_month"]}
    found.tally.top.rows[0] = replace(best, costs=best.costs | needed)
    return None if fleet.costs["gpus"] == best.costs["gpus"] else replace(fleet, costs=fleet.costs | needed)


def _by_other_rule(found: ServiceSearch) -> RankedPlan | None:
    """The best plan by the opposite rule to the table's: ignoring risk, or avoiding it."""
    if not found.best or found.stopped or (found.safe is None and found.unruled is None):
        return None
    other = next(iter(found.tally.expected.rows), None)
    if found.unruled is not None:
        best = found.best[0]
        inputs = demanding_chance(found.variants.of(best.variant), found.unruled)
        other = replace(best, costs=_evaluated_plan(inputs, best).results.row())
    if other is None or not math.isfinite(other.costs["gpus_needed"]):
        return other
    if other.costs["gpus_needed"] == other.costs["gpus"] and not math.isnan(other.costs[OWN]):
        return other
    return _of_so_many(found.variants.of(other.variant), other, 0, None)


# Results of the rate within limits, which another number of replicas does not change
OF_RATE = (
    "replicas_needed",
    "gpus_needed",
    "prefill_needed",
    "decode_needed",
    "rent_needed",
    "tokens_per_gpu_within_limits",
    "cost_within_limits",
)


def _of_so_many(inputs: ServingInputs, best: RankedPlan, more: int, share: float | None) -> RankedPlan:
    """A plan with the replicas that the rate needs plus `more`, and its chance to meet the limits."""
    halves = [(best.sizes, "decode_needed" if best.prefill else "replicas_needed")]
    halves += [(best.prefill, "prefill_needed")] if best.prefill is not None else []
    sizes = [{**half, "replicas": best.costs[needed] + more} for half, needed in halves]
    fleet = replace(best, sizes=sizes[0], prefill=sizes[1] if best.prefill is not None else None)
    evaluation = _evaluated_plan(asking_chance(inputs), fleet)
    fleet = ranked_plan(evaluation, 0, dict(unacceptable(_demanding_case(inputs, share), evaluation)), best.variant)
    each = best.costs["rate_within_slo_per_s"] / best.costs["gpus"]
    of_rate = {name: best.costs[name] for name in OF_RATE} | {"rate_within_slo_per_s": each * fleet.costs["gpus"]}
    return replace(fleet, costs=fleet.costs | of_rate)


def _evaluated_plan(inputs: ServingInputs, plan: RankedPlan) -> AnyEvaluation:
    """Evaluates one plan under the load of its scenario."""
    halves = columns_of([plan])
    with np.errstate(all="ignore"):
        if len(halves) == 1:
            return evaluate(inputs, halves[0])
        (routed,) = routed_parts(inputs, *halves)
        return evaluate_pairs(*routed)


def _varies_load(inputs: ServingInputs, over: Sequence[Axis]) -> bool:
    """Whether the varied load is of another kind than the scenario's, so that its own plan has no rank."""
    loads = [axis.path for axis in over if axis.path.removeprefix("workload.") in LOADS]
    return any(at(inputs.case.original, path) is None for path in loads)


def _own_answer(inputs: ServingInputs, share: float | None, *, alone: bool) -> tuple[ServingAnswer | None, OwnPlan]:
    """The answer and the place of the scenario's own plan; alone: whether no other scenario is searched."""
    plan = inputs.case.scenario.plan
    if plan is not None and share is not None and alone and _is_pruned(inputs):
        remember_rates(inputs, valid_layouts(inputs)[1])
    own = None if plan is None else answer(inputs, plan, bands=False)
    if own is None or own.refused or lacks_figure(inputs, inputs.case.scenario.objective):
        return own, OwnPlan()
    if share is not None and alone and _is_pruned(inputs) and not isinstance(own.evaluation, DisaggregatedEvaluation):
        return own, OwnPlan(layout=own.evaluation.layout.bare())
    demanded = _demanding_case(inputs, share)
    asked = asking_chance(inputs) if by_expected_rates(inputs) else demanded
    found = own if share is None else answer(asked, own.plan, bands=False)
    return own, OwnPlan(_key(demanded, found.costs, found.broken))


def _is_pruned(inputs: ServingInputs) -> bool:
    """Whether rates with a preferred chance bound the order of plans."""
    space = inputs.case.scenario.search
    return not (counts_replicas(inputs) or (space is not None and space.disaggregated))


def _order(inputs: ServingInputs, plan: RankedPlan) -> tuple[float, ...]:
    return _key(inputs, plan.costs, plan.broken)


def _ordered(inputs: ServingInputs, plans: list[RankedPlan]) -> list[RankedPlan]:
    return sorted(plans, key=partial(_order, inputs))


def _search_scenario(inputs: ServingInputs, space: ServiceSpace, keep: Keep | None) -> _Searched:
    """Searches one scenario: counts, the best plans, and how many are ahead of the scenario's own plan."""
    share, top = space.safe, space.size
    if share is None:
        found = _search_exhaustively(inputs, top, space.own.key, keep)
        found.part.kept = found.part.safe
        return found
    if by_expected_rates(inputs):
        return _by_chance_at_load(inputs, top, space.own.key, share, keep)
    if not _is_pruned(inputs):
        found = _search_exhaustively(demanding_chance(inputs, share), top, space.own.key, keep)
        expected = _search_exhaustively(inputs, 1, None).ranked
        return replace(found, expected=expected[0] if expected else None)
    return _best_first(inputs, top, space.own, share, keep)


def by_expected_rates(inputs: ServingInputs) -> bool:
    """Whether rates stay the expected ones although a chance selects plans, as for disaggregated plans."""
    space = inputs.case.scenario.search
    return space is not None and bool(space.disaggregated) and not counts_replicas(inputs)


def _by_chance_at_load(
    inputs: ServingInputs, top: int, own: tuple[float, ...] | None, share: float, keep: Keep | None
) -> _Searched:
    """Searches by the chance at the stated load: plans with it come first, ordered by expected rates."""
    demanded, asking = demanding_chance(inputs, share), asking_chance(inputs)
    part, layout = valid_layouts(inputs)
    ranked, expected = list[RankedPlan](), list[RankedPlan]()
    better = 0
    for evaluation in _evaluations(part, asking, layout, keep):
        plans, ahead = _best_evaluated(part, demanded, evaluation, top, own)
        ranked += plans
        better += ahead
        firm = {code: mask for code, mask in codes_of(demanded, evaluation).items() if code != AT_RISK}
        fits = evaluation.results.column("memory_share") <= 1
        expected += _best_rows(inputs, evaluation, firm, fits, 1)
    ranked = _ordered(demanded, ranked)[:top]
    part.best = ranked[0] if ranked else None
    expected = _ordered(inputs, expected)[:1]
    return _Searched(part, ranked, better, expected[0] if expected else None)


def _search_exhaustively(
    inputs: ServingInputs, top: int, own: tuple[float, ...] | None, keep: Keep | None = None
) -> _Searched:
    """Searches one scenario by evaluating every plan."""
    part, layout = valid_layouts(inputs)
    ranked: list[RankedPlan] = []
    better = 0
    for evaluation in _evaluations(part, inputs, layout, keep):
        plans, ahead = _best_evaluated(part, inputs, evaluation, top, own)
        ranked += plans
        better += ahead
    ranked = _ordered(inputs, ranked)[:top]
    if not counts_fleets(inputs):
        ranked, part.fewest = with_counts(inputs, ranked), np.inf
    part.best = ranked[0] if ranked else None
    return _Searched(part, ranked, better)


def valid_layouts(inputs: ServingInputs) -> tuple[ServiceCounts, PlanColumns]:
    """The valid layouts of the space, and the counts of the refused ones."""
    layout = candidates(inputs)
    part = ServiceCounts(candidates=len(layout))
    kept = np.ones(len(layout), dtype=bool)
    for code, mask in invalid(inputs, layout):
        _count(part, code, mask & kept, layout)
        kept &= ~mask
    layout = layout.at(kept)
    part.evaluated = len(layout)
    return part, layout


def _best_first(inputs: ServingInputs, top: int, own: OwnPlan, share: float, keep: Keep | None) -> _Searched:
    """Searches with a preferred chance, computing the slow rates with that chance only for plans that can rank.

    Such a rate is at most the expected one. So in the order of expected rates, plans after the last possible rank
    can be skipped.
    """
    demanded, asking = demanding_chance(inputs, share), asking_chance(inputs)
    part, layout = valid_layouts(inputs)
    bounds, expected, counted = list[NDArray[np.float64]](), list[RankedPlan](), counts_fleets(inputs)
    together = layout if own.layout is None else layout.beside(own.layout)
    with np.errstate(all="ignore"):
        whole = evaluate(asking, together, counted=counted) if 0 < len(layout) < ROWS else None
        for start in range(0, len(layout), ROWS):
            rows = np.arange(start, min(start + ROWS, len(layout)))
            found = rows_of(whole, rows, len(together)) if whole else evaluate(asking, layout.at(rows), counted=counted)
            _keep_plans(keep, inputs, found)
            codes, keys, shown = _account_plans(part, demanded, found)
            bounds.append(np.where(shown, np.stack(keys), np.nan))
            firm = {code: mask for code, mask in codes.items() if code != AT_RISK}
            expected += _best_rows(inputs, found, firm, shown, 1)
    part.fewest = math.inf
    every = np.concatenate(bounds, axis=1) if bounds else np.empty((1, 0))
    order = np.lexsort(every[::-1])
    order = order[~np.isnan(every[0][order])]
    ranked: list[tuple[tuple[float, ...], int, RankedPlan]] = []
    seen, many, mine = 0, max(top, FIRST_ROWS), own.key
    looked_at: list[tuple[float, ...]] = []
    while seen < len(order):
        next_bound = tuple(every[:, order[seen]])
        settled = len(ranked) >= top and ranked[top - 1][0] <= next_bound
        if settled and (mine is None or mine <= next_bound):
            break
        rows = order[seen : seen + many]
        seen, many = seen + len(rows), 2 * many
        some = np.append(rows, len(layout)) if own.layout is not None and mine is None else rows
        with np.errstate(all="ignore"):
            if whole is None:
                found = evaluate(demanded, together.at(some), counted=counted)
            else:
                found = under_limits(demanded, rows_of(whole, some, len(together)), counted=counted)
        codes = codes_of(demanded, found)
        kept = ~np.any(np.stack([*codes.values(), np.zeros(len(some), dtype=bool)]), axis=0)
        places = list(zip(*(map(float, column) for column in _keys(demanded, found, kept)), strict=True))
        mine = places[len(rows)] if len(some) > len(rows) else mine
        needed = found.results.column("gpus_needed")[: len(rows)][kept[: len(rows)]]
        part.fewest = min(part.fewest, float(np.min(needed, initial=np.inf)))
        looked_at += places[: len(rows)]
        best = sorted((key, int(row), at) for at, (key, row) in enumerate(zip(places, rows, strict=False)))[:top]
        ranked += [(key, row, ranked_plan(found, at, codes)) for key, row, at in best]
        ranked = sorted(ranked, key=lambda each: each[:2])[:top]
    plans_of = [plan for _, _, plan in ranked]
    if not counted:
        plans_of, part.fewest = with_counts(demanded, plans_of), np.inf
    part.best = plans_of[0] if plans_of else None
    expected = _ordered(inputs, expected)[:1]
    expected = expected if counted else with_counts(inputs, expected)
    ahead = sum(mine is not None and key < mine for key in looked_at)
    return _Searched(part, plans_of, ahead, expected[0] if expected else None)


def _evaluations(
    part: ServiceCounts, inputs: ServingInputs, layout: PlanColumns, keep: Keep | None
) -> Iterator[AnyEvaluation]:
    """Evaluates every valid plan in batches, disaggregated ones too if the space has them."""
    open_count, seen = replicas_are_open(inputs), 0
    for start in range(0, len(layout), ROWS):
        with np.errstate(all="ignore"):
            found = evaluate(inputs, layout.at(slice(start, start + ROWS)), counted=counts_fleets(inputs))
        for each in sized(inputs, found) if open_count else (found,):
            seen += len(each.layout)
            _keep_plans(keep, inputs, each)
            yield each
    space = inputs.case.scenario.search
    if space is not None and space.disaggregated:
        halves = _valid_halves(part, inputs, layout)
        for start in range(0, len(halves[0]), ROWS):
            rows = slice(start, start + ROWS)
            with np.errstate(all="ignore"):
                apart = [evaluate_pairs(*each) for each in routed_parts(inputs, *(half.at(rows) for half in halves))]
            for pair in sized_apart(inputs, apart) if open_count else apart:
                seen += len(pair.layout)
                _keep_plans(keep, inputs, pair)
                yield pair
    part.candidates += seen - part.evaluated  # plans with fewer replicas beside those with all, or in their place
    part.evaluated = seen


def _keep_plans(keep: Keep | None, inputs: ServingInputs, evaluation: AnyEvaluation) -> None:
    """Passes plans to `keep`, which stores every valid one."""
    if keep is None:
        return
    space, half = inputs.case.scenario.search, getattr(evaluation, "prefill", None)
    rows = len(evaluation.layout)
    table = {name: np.broadcast_to(getattr(evaluation.layout, name), rows) for name in SIZES}
    if space is not None and space.disaggregated:
        none = np.full(rows, np.nan)
        table |= {f"prefill_{name}": none if half is None else np.broadcast_to(getattr(half, name), rows)
                  for name in SIZES}  # fmt: skip
    results = evaluation.results
    table |= {machine_name(name): np.asarray(results.column(name), dtype=np.float64) for name in SERVING_RESULTS}
    keep(rows, table)


def _valid_halves(part: ServiceCounts, inputs: ServingInputs, layout: PlanColumns) -> tuple[PlanColumns, PlanColumns]:
    """The valid pairs of prefill and decode instances; counts the refused pairs."""
    prefill, decode = pairs(inputs, layout)
    part.candidates += len(decode)
    kept = np.ones(len(decode), dtype=bool)
    for code, mask in invalid_halves(inputs, prefill, decode):
        _count(part, code, mask & kept, decode)
        kept &= ~mask
    part.evaluated += int(kept.sum())
    return prefill.at(kept), decode.at(kept)


def _best_evaluated(
    part: ServiceCounts, inputs: ServingInputs, evaluation: AnyEvaluation, top: int, own: tuple[float, ...] | None
) -> tuple[list[RankedPlan], int]:
    """The best of some plans that fit, and how many of these are ahead of a plan with that key."""
    codes, keys, shown = _account_plans(part, inputs, evaluation)
    order = np.lexsort(keys[::-1])
    ranked = [ranked_plan(evaluation, int(row), codes) for row in order[shown[order]][:top]]
    return ranked, 0 if own is None else int((_rows_ahead(keys, own) & shown).sum())


def _account_plans(
    part: ServiceCounts, inputs: ServingInputs, evaluation: AnyEvaluation
) -> tuple[dict[str, Mask], list[NDArray[np.float64]], Mask]:
    """Counts some plans; returns their reason codes, their sort keys, and which may be shown."""
    layout, codes = evaluation.layout, codes_of(inputs, evaluation)
    fits, kept, firm = (np.ones(len(layout), dtype=bool) for _ in range(3))
    for code, mask in codes.items():
        _count(part, code, mask & kept, layout)
        kept &= ~mask
        fits &= ~mask if code in TOO_LARGE else True
        firm &= ~mask if code != AT_RISK else True
    part.fastest = max(part.fastest, float(np.max(evaluation.results.column("bandwidth_bound"), initial=0.0)))
    part.fit += int(fits.sum())
    part.safe += int(kept.sum())
    part.kept += int(firm.sum())
    needed = evaluation.results.column("gpus_needed")[kept]
    part.fewest = min(part.fewest, float(np.min(needed, initial=np.inf)))
    times = evaluation.results.column("tpot")[kept]
    part.least_tpot = min(part.least_tpot, float(np.min(times, initial=np.inf)))
    shown = fits
    if ep_is_open(inputs):
        shown = fits & ~alike_without_ep(evaluation)
        part.alike += int(fits.sum() - shown.sum())
    return codes, _keys(inputs, evaluation, kept), shown


def codes_of(inputs: ServingInputs, evaluation: AnyEvaluation) -> dict[str, Mask]:
    """For each reason code, the mask of plans that it applies to."""
    codes: dict[str, Mask] = {}
    for code, mask in unacceptable(inputs, evaluation):
        codes[code] = codes.get(code, np.zeros(len(evaluation.layout), dtype=bool)) | mask
    return codes


def _best_rows(
    inputs: ServingInputs, evaluation: AnyEvaluation, codes: dict[str, Mask], shown: Mask, top: int
) -> list[RankedPlan]:
    """The best of some plans."""
    kept = ~np.any(np.stack([*codes.values(), np.zeros(len(shown), dtype=bool)]), axis=0)
    order = np.lexsort(_keys(inputs, evaluation, kept)[::-1])
    return [ranked_plan(evaluation, int(row), codes) for row in order[shown[order]][:top]]


def _rows_ahead(keys: list[NDArray[np.float64]], own: tuple[float, ...]) -> Mask:
    """The rows whose sort keys come before another plan's."""
    before, alike = np.zeros(len(keys[0]), dtype=bool), np.ones(len(keys[0]), dtype=bool)
    for column, value in zip(keys, own, strict=True):
        before |= alike & (column < value)
        alike &= column == value
    return before


def _of_ties(inputs: ServingInputs, result: Result, rows: int) -> list[NDArray[np.float64]]:
    """Sort keys of equally good plans: rent, accelerators, distance to every limit, times."""
    counted = compared(inputs) == "gpus_needed"
    rent = [np.nan_to_num(shown_digits(result("rent_needed")), nan=np.inf)] if counted else []
    room = over_limits(service_limits(inputs), result, rows)
    times = [result("tpot"), result("ttft_p99")]
    return [*rent, result("gpus"), *map(shown_digits, (room, *times)), *times]


def _key(inputs: ServingInputs, costs: dict[str, float], broken: tuple[str, ...]) -> tuple[float, ...]:
    """The sort key of one plan, lower is better: limits broken, unstable, distance to limits, objective."""
    objective = compared(inputs)
    sign = SERVING_RESULTS[objective].sign
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
    """The sort keys of plans: limits met, load served, distance to limits, objective, times."""
    objective = compared(inputs)
    first = shown_digits(evaluation.results.column(objective))
    sign = SERVING_RESULTS[objective].sign
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
    half = evaluation.prefill if isinstance(evaluation, DisaggregatedEvaluation) else None
    prefill = None if half is None else sizes_of(half, row)
    broken = tuple(code for code, mask in codes.items() if mask[row])
    return RankedPlan(sizes, evaluation.results.row(row), broken, evaluation.binding(row), prefill, variant)


def _count(part: ServiceCounts, code: str, mask: Mask, layout: PlanColumns) -> None:
    """Counts refused plans by code and stores one as an example."""
    part.refused[code] += int(mask.sum())
    if mask.any() and code not in part.examples:
        part.examples[code] = RankedPlan(sizes_of(layout, int(np.argmax(mask))), {}, (code,), "")


_FIGURES = ("rate_within_slo_per_s", "saturation_per_s", "tpot", "ttft_p99", "memory_peak", "memory_share")
_SAME = 1e-9  # of a figure, by which it may differ


def alike_without_ep(evaluation: AnyEvaluation) -> NDArray[np.bool_]:
    """Rows that gain nothing from their ep, since one with less ep has equal results."""
    halves = [evaluation.layout, *([evaluation.prefill] if isinstance(evaluation, DisaggregatedEvaluation) else [])]
    _, which = distinct([np.asarray(getattr(half, size)) for half in halves for size in SIZES if size != "ep"])
    order = np.lexsort((np.sum([half.ep for half in halves], axis=0), which))
    kinds, figures = which[order], [evaluation.results.column(name)[order] for name in _FIGURES]
    alike = np.zeros(len(order), dtype=bool)
    for step in range(1, len(order)):
        later = np.flatnonzero(kinds[step:] == kinds[:-step]) + step
        if not len(later):
            break
        for figure in figures:
            later = later[np.isclose(figure[later], figure[later - step], rtol=_SAME, atol=0.0, equal_nan=True)]
        alike[order[later]] = True
    return alike


# --- Nodes of several kinds: replicas on each kind under its share of the load, in one ranking.

_LIGHT = 1e-3  # of the load, under which a kind of nodes is looked at for the rate that it could answer
_MOST_SHARED = 64  # combinations of values, at each of which every kind is searched twice


def search_groups(case: ServingCase, top: int, over: Sequence[Axis], how: SearchOptions = HERE) -> ServiceSearch:
    """Ranks the best plans on each kind of nodes together; each kind serves its share of the load."""
    if named := [axis.path for axis in over if axis.path.partition(".")[0] == "cluster"]:
        sentence = f"a search on several kinds of nodes takes these as they are, and --over varies {named[0]}"
        raise fail(
            "C010",
            sentence,
            case.place("cluster.groups"),
            "--set 'cluster.groups=[{node: …, nodes: …}, …]' takes others",
        )
    kinds = {group.node.name: _machine(case, group) for group in case.by_kind}
    bare = ["plan=null"] if case.scenario.plan is not None else []
    alone = [serving(vary_any(case, [*bare, f"cluster={machine}"])) for machine in kinds.values()]
    combinations = (values_at(over, number) for number in range(count_combinations(over, _MOST_SHARED)))
    each = [tuple(f"{path}={value}" for path, value in values.items()) for values in combinations]
    shares = {settings: _shares(case, alone, settings) for settings in each}
    named = [name for name in kinds if any(name in found for found in shares.values())]
    make, values = partial(_inputs, shares, len(over)), tuple(kinds[name] for name in named)
    first = next(held for held in alone if held.node.name in named)
    found = search(make(first), top, [Axis("cluster", values), *over], how, make=make)
    ends = {name: [found[name] for found in shares.values() if name in found] for name in named}
    found.shares = {name: (min(held), max(held)) for name, held in ends.items()}
    return found


def _shares(case: ServingCase, alone: Sequence[ServingCase], settings: tuple[str, ...]) -> dict[str, float]:
    """The share of the load that each kind of nodes serves with these settings."""
    rates = list[float]()
    for kind in alone:
        try:
            rates.append(_most_within_limits(serving(vary_any(kind, settings)) if settings else kind))
        except CostModelError as error:
            if not settings or error.faults[0].code not in OF_A_VALUE:
                raise
            rates.append(0.0)
    if settings and not any(rates):
        return {}
    shares = zip(alone, load_shares(case, rates), strict=True)
    return {kind.node.name: share for kind, share in shares if share > 0}


def _machine(case: ServingCase, group: ServingCase) -> str:
    """The nodes of a kind, as a value of the key `cluster`."""
    if not any(isinstance(each.node, str) and each.node == group.node.name for each in case.cluster.groups or ()):
        sentence = f"a search names nodes, and cluster.groups writes {group.node.name} out"
        raise fail("D010", sentence, case.place("cluster.groups"), "save it as a document under hardware/nodes")
    return f"{{node: {group.node.name}, nodes: {float(group.cluster.nodes):g}}}"


def _most_within_limits(case: ServingCase) -> float:
    """Requests a second within limits of the best plan on one kind of nodes; 0 where none fits."""
    light = under_share(case, _LIGHT) if case.scenario.workload.rate is not None else case
    asked = light.scenario.model_copy(update={"objective": "rate_within_slo_per_s", "search": case.scenario.search})
    found = search(inputs_of(replace(light, scenario=asked)), 1, bands=False).best
    return within_limits(found[0].costs) if found and not {"M001"} & set(found[0].broken) else 0.0


def _inputs(shares: Mapping[tuple[str, ...], Mapping[str, float]], count: int, case: LoadedScenario) -> ServingInputs:
    """The numbers of the service on one kind of nodes, under its share of the load with the last `count` settings."""
    held, settings = serving(case), tuple(map(str, case.changes[len(case.changes) - count :]))
    found = shares.get(settings, next(iter(shares.values())))
    inputs = inputs_of(under_share(held, found.get(held.node.name, _LIGHT)))
    if held.node.name not in found:
        raise fail("C004", f"{held.node.name} answers no request within the limits", held.place("limits"))
    return inputs
