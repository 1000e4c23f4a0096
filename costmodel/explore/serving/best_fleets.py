"""Finds the fleets that meet every limit on the fewest accelerators, and the smallest cluster for one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.keys.overrides import path_of
from costmodel.documents.reader.load_scenario import vary_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving.constraints import invalid
from costmodel.estimate.serving.engine_memory import memory_use
from costmodel.estimate.serving.evaluate_layouts import ServingEvaluation, evaluate
from costmodel.estimate.serving.measured_spreads import is_unmeasured
from costmodel.estimate.serving.plan_columns import PlanColumns, with_straddling
from costmodel.estimate.serving.predict_serving import REFUSALS, ServingAnswer, predict, unacceptable
from costmodel.estimate.serving.replicas_for_load import (
    at_wanted_rate,
    replicas_for_load,
    with_spares,
    without_headroom,
)
from costmodel.estimate.serving.service_limits import (
    OWN,
    asking_chance,
    demanding_chance,
    waits_in_batch,
    without_chance,
)
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.search.required_chance import preferred_chance, preferring, stated_chance
from costmodel.explore.search.scenario_variants import Variants
from costmodel.explore.serving.best_layout import plan_settings, settings_at
from costmodel.explore.serving.fleet_size import sizes_of_cluster
from costmodel.explore.serving.layout_candidates import candidates
from costmodel.explore.serving.search_layouts import codes_of, ranked_plan, search
from costmodel.explore.serving.serving_search_result import RankedPlan, SearchRemedy, ServiceSearch, inputs_of_service
from costmodel.explore.workload_interface import MissedLimit, SmallestPlan, SmallestPlans
from costmodel.ground.errors import CostModelError, Fault
from costmodel.ground.record import record
from costmodel.ground.solvers import distinct_values

if TYPE_CHECKING:
    from costmodel.explore.purchase.offers import Machine

# --- the plan that meets every limit on the fewest accelerators, and the one that answers most on those that there


LARGEST = 1024.0  # accelerators of the largest cluster that a remedy names
_LARGER = 4.0  # times the accelerators of the smallest replica that fits, which others have at most
_LIKELY = 0.5  # chance to meet all limits of a plan that is offered where none has the preferred one: even odds
_AS_SURE = 0.05  # of a chance, within which the plan on fewer accelerators is offered: judged, hardly a gain
_COUNTED = 48  # layouts whose replicas are counted for a chance, of those that need the fewest by expected figures
_LAST, _EACH, _ROUNDS = 4, 24, 3  # of these whose numbers of replicas are narrowed down, by so many at a time
_COUNTS = np.concatenate([np.arange(1.0, 17.0), np.round(1.25 ** np.arange(13, 32))])
_MORE = np.concatenate([np.linspace(1.0, 2.0, 21), [2.25, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0]])  # times the expected number

Rows = NDArray[np.float64]


@record
class Fleets:
    """The plans on the fewest accelerators that meet every limit.

    expected: by expected figures. safe: with the required chance. surest: the smallest of about equally sure plans.
    highest: the highest chance of any plan. layouts: those that were evaluated. codes: reasons against most plans if
    none meets every limit. missed: limits that no plan meets
    """

    expected: RankedPlan | None = None
    safe: RankedPlan | None = None
    surest: RankedPlan | None = None
    highest: float = math.nan
    codes: tuple[str, ...] = ()
    fault: Fault | None = None
    missed: tuple[MissedLimit, ...] = ()
    layouts: int = 0


def chance_preferred(inputs: ServingInputs) -> float | None:
    """The preferred chance to meet all limits; None if expected figures decide."""
    return None if is_unmeasured(inputs) else preferred_chance(inputs.case)


def fewest_gpus(case: ServingCase, most: float = LARGEST) -> RankedPlan | None:
    """The plan on the fewest accelerators, at most `most`, with the preferred chance.

    If no plan has it, the surest one; None if no plan meets all limits with even odds.
    """
    safe = stated_chance(case) or chance_preferred(inputs_of(case))
    found = fleets(case, most, safe)
    if safe is None or found.safe is not None:
        return found.expected if safe is None else found.safe
    likely = found.surest is not None and found.surest.costs[OWN] >= _LIKELY
    return found.surest if likely and stated_chance(case) is None else None


def fleets(case: ServingCase, most: float, safe: float | None) -> Fleets:
    """The plans on the fewest accelerators, at most `most`, by expected figures and with a chance.

    safe: that chance; None for expected figures only
    """
    if waits_in_batch(case):
        return Fleets()
    sizes = sizes_of_cluster(case)
    try:
        settings = sizes.settings(sizes.number(most))
        inputs = without_chance(inputs_of(serving(vary_any(case, settings))))
        every = candidates(inputs)
        fitting = layouts_that_fit(inputs, every, _LARGER if safe is None else 2.0 * _LARGER)
    except CostModelError as error:
        return Fleets(fault=error.faults[0])
    return replace(_fewest(inputs, fitting, most, safe), layouts=len(every))


def _fewest(inputs: ServingInputs, fitting: PlanColumns, most: float, safe: float | None) -> Fleets:
    """The plans on the fewest accelerators among layouts that fit, with and without a chance to meet all limits."""
    with np.errstate(all="ignore"):
        layout, needed, within, none = _that_may_keep_limits(inputs, fitting, most)
        if not len(layout):
            return none
        if inputs.case.scenario.workload.rate is None:
            rows, counts = (each.ravel() for each in np.meshgrid(np.arange(len(layout)), _COUNTS, indexing="ij"))
            return _fleets(inputs, layout.at(rows.astype(np.intp)), counts, counts, most, safe)
        fewest = np.argsort(needed * np.asarray(layout.ranks), kind="stable")[:_COUNTED]
        fewest = fewest[np.isfinite(needed[fewest])]
        if not len(fewest):
            return none
        return _at_rate(inputs, layout.at(fewest), (needed[fewest], within[fewest]), most, safe)


def highest_rate(case: ServingCase) -> RankedPlan | None:
    """The plan that serves the highest rate within limits with the preferred chance; None if none fits."""
    inputs = inputs_of(case)
    safe = chance_preferred(inputs)
    try:
        layout = layouts_that_fit(inputs, candidates(inputs))
    except CostModelError:
        return None
    if not len(layout):
        return None
    with np.errstate(all="ignore"):
        found = evaluate(inputs if safe is None else demanding_chance(inputs, safe), layout)
    return ranked_plan(found, int(np.argmax(found.results.column("rate_within_slo_per_s"))), {})


def layouts_that_fit(inputs: ServingInputs, layout: PlanColumns, larger: float = _LARGER) -> PlanColumns:
    """Valid layouts that fit in memory on at most `larger` times the fewest accelerators; computes no times."""
    kept = np.ones(len(layout), dtype=bool)
    for _, mask in invalid(inputs, layout):
        kept &= ~mask
    layout = layout.at(kept)
    if not len(layout):
        return layout
    with np.errstate(all="ignore"):
        memory = memory_use(inputs, *with_straddling(inputs, layout))
    layout = layout.at(np.broadcast_to(np.asarray(memory.least_for_one_request <= memory.allowed), (len(layout),)))
    ranks = np.asarray(layout.ranks)
    return layout.at(ranks <= larger * np.min(ranks, initial=np.inf))


def _that_may_keep_limits(
    inputs: ServingInputs, layout: PlanColumns, most: float
) -> tuple[PlanColumns, Rows, Rows, Fleets]:
    """Layouts that meet each limit with one replica, or with as many as the accelerators hold: results of other numbers
    lie between these two.

    With the replicas that the load needs, and the rate of one, by expected figures; and what speaks against all where
    none is left: the code against most of them with as many as there may be, and limits that none of them meets.
    """
    count = len(layout)
    if not count:
        return layout, np.empty(0), np.empty(0), Fleets(codes=("M001",))
    counts = np.concatenate([np.ones(count), np.maximum(np.floor(most / np.asarray(layout.ranks)), 1.0)])
    both = replace(layout.at(np.tile(np.arange(count), 2)), replicas=counts)
    found = evaluate(inputs, both, counted=False)
    results, kept, missed = found.results, np.ones(count, dtype=bool), list[MissedLimit]()
    against = {code: int(mask[count:].sum()) for code, mask in codes_of(inputs, found).items()}
    for limit in stated_limits(inputs.case.scenario.limits):
        if limit.kind != "target":
            values = results.column(limit.column)
            keeps = limit.kept(values)
            kept &= keeps.reshape(2, count).any(axis=0)
            least = float(np.min(values[values > 0], initial=np.inf))
            if limit.kind == "at_most" and not keeps.any() and least < np.inf:
                missed.append(MissedLimit(limit.column, limit.value, least))
    needed, within = (results.column(name)[:count][kept] for name in ("replicas_needed", "rate_within_slo_per_s"))
    layout = layout.at(kept)
    if len(layout) and inputs.depends_on_count:  # which are counted by what turns find on so many
        results = evaluate(inputs, layout).results
        needed, within = results.column("replicas_needed"), results.column("rate_within_slo_per_s") / layout.replicas
    codes = tuple(sorted(against, key=lambda code: -against[code]))[:1]
    return layout, needed, within, Fleets(codes=codes, missed=tuple(missed))


def _at_rate(
    inputs: ServingInputs, layout: PlanColumns, counted: tuple[Rows, Rows], most: float, safe: float | None
) -> Fleets:
    """The best fleets at a rate: with the replicas that it needs by expected figures, one more, or those without the
    usual headroom; and with as many as have the chance.

    counted: replicas that the rate needs, and the rate of one within the limits
    """
    every, (needed, within) = np.arange(len(layout)), counted
    tight = np.asarray(replicas_for_load(without_headroom(inputs), within))
    rows, counts, least = [every, every, every], [needed, needed + 1.0, tight], [needed, needed, needed]
    highest, spared = 0.0, np.zeros(len(layout))
    if safe is not None:
        loaded = at_wanted_rate(inputs)
        expected = np.maximum(np.asarray(replicas_for_load(loaded, within)), 1.0)
        safely, highest = _with_chance(loaded, layout, expected, most, safe)
        enough = np.flatnonzero(np.isfinite(safely))
        up = np.asarray(with_spares(inputs, safely[enough]))
        rows, counts, least = [*rows, enough, enough], [*counts, up, up + 1.0], [*least, up, up]
        if inputs.case.scenario.assume.availability is not None:
            spared[:] = np.inf
            spared[enough] = up
    placed, many, floor = (np.concatenate(each) for each in (rows, counts, least))
    placed = placed.astype(np.intp)
    found = _fleets(inputs, layout.at(placed), np.maximum(many, 1.0), floor, most, safe, spared[placed])
    return replace(found, highest=max(found.highest, highest))


def _with_chance(
    inputs: ServingInputs, layout: PlanColumns, expected: Rows, most: float, safe: float
) -> tuple[Rows, float]:
    """The fewest replicas with a chance to meet all limits (infinite if none), and the highest chance found.

    Tries numbers from the expected one to ten times as many, then those between the last without and the first with it.
    """
    ranks, asking = np.asarray(layout.ranks), asking_chance(inputs)
    few, many, highest = expected - 1.0, np.full(len(layout), np.inf), [0.0]

    def look(rows: NDArray[np.intp], counts: Rows) -> None:
        """Evaluates the chance of some plans with these replicas, and narrows the bounds of the number needed."""
        held = counts * ranks[rows] <= most
        rows, counts = rows[held], counts[held]
        if not len(rows):
            return
        chance = evaluate(asking, replace(layout.at(rows), replicas=counts), counted=False).results.column(OWN)
        highest.append(float(np.nanmax(chance, initial=0.0)))
        np.minimum.at(many, rows[chance >= safe], counts[chance >= safe])
        below = ~(chance >= safe) & (counts < many[rows])
        np.maximum.at(few, rows[below], counts[below])

    rows = np.repeat(np.arange(len(layout)), len(_MORE))
    pairs = distinct_values(np.stack([rows, np.ceil(expected[rows] * np.tile(_MORE, len(layout)) - 1e-9)]), axis=1)
    look(pairs[0].astype(np.intp), pairs[1])
    for _ in range(_ROUNDS):
        order = np.argsort(many * ranks, kind="stable")[:_LAST]
        between = [
            (row, count)
            for row in order[np.isfinite(many[order])]
            for count in distinct_values(np.round(np.linspace(few[row] + 1.0, many[row] - 1.0, _EACH)))
            if few[row] < count < many[row]
        ]
        if not between:
            break
        look(np.array([row for row, _ in between], dtype=np.intp), np.array([float(count) for _, count in between]))
    return many, max(highest)


def _fleets(
    inputs: ServingInputs,
    layout: PlanColumns,
    counts: Rows,
    least: Rows,
    most: float,
    safe: float | None,
    spared: Rows | float = 0.0,
) -> Fleets:
    """The best of some plans; a plan with fewer replicas than `least` counts only where none has as many.

    spared: replicas that have the chance while others are in repair, below which a plan does not have it
    """
    found = evaluate(asking_chance(inputs), replace(layout, replicas=counts))
    chance, gpus = np.nan_to_num(found.results.column(OWN)), found.results.column("gpus")
    good, below = _keeps_all(inputs, found) & (gpus <= most), (counts < least).astype(np.float64)

    def first(rows: NDArray[np.bool_], *keys: Rows) -> RankedPlan | None:
        """The first plan among some rows by these sort keys."""
        places = np.flatnonzero(rows)
        return (
            ranked_plan(found, int(places[np.lexsort([key[places] for key in keys])[0]]), {}) if len(places) else None
        )

    sure = good & (chance >= np.max(chance[good], initial=0.0) - _AS_SURE)
    expected, surest = first(good, -chance, gpus, below), first(sure, -chance, gpus, below)
    spares = good & (counts >= spared)
    safely = None if safe is None else first(spares & (chance >= safe), -chance, gpus, below)
    return Fleets(expected, safely, surest, float(np.max(chance, initial=0.0)))


def _keeps_all(inputs: ServingInputs, found: ServingEvaluation) -> NDArray[np.bool_]:
    """Mask of the plans that meet every limit."""
    good = np.ones(len(found.layout), dtype=bool)
    for _, mask in unacceptable(inputs, found):
        good &= ~mask
    return good


# --- the smallest cluster on which a search of a service meets every limit, and the fewest accelerators there


def search_remedy(case: ServingCase, settings: tuple[str, ...], *, fits: bool = False) -> SearchRemedy | None:
    """The settings, if a search under them finds a plan that meets every limit; with `fits`, any plan.

    A plan keeps them with the headroom that its load has.
    """
    try:
        found = search(inputs_of(serving(vary_any(case, settings))), 1, bands=False)
    except CostModelError:
        return None
    kept = found.tally.safe and not found.best[0].costs["gpus_needed"] > found.best[0].costs["gpus"]
    if not kept and not (fits and found.best):
        return None
    best = found.best[0]
    of_plan = plan_settings(found, best)
    return SearchRemedy(settings, best, tuple(f"{path}={value}" for path, value in of_plan.items()))


def smallest_cluster(case: ServingCase, fewest: RankedPlan | None) -> SearchRemedy | None:
    """The smallest cluster on which a search meets every limit, or else the next larger one.

    fewest: the plan on the fewest accelerators
    """
    if fewest is None:
        return None
    sizes = sizes_of_cluster(case)
    number = max(sizes.number(fewest.costs["gpus"]), sizes.number(float(inputs_of(case).ranks)) + 1)
    return next(filter(None, (search_remedy(case, sizes.settings(each)) for each in (number, number + 1))), None)


def smallest_fleets(case: ServingCase, safe: float, most: float) -> SmallestPlans:
    """The plans on the fewest accelerators as scenario settings, with the nodes that they need.

    Of the one with the chance that is asked for, that chance is a limit.
    """
    found = fleets(case, most, safe)

    def plan(ranked: RankedPlan | None) -> SmallestPlan | None:
        """A ranked plan as settings of the scenario, with the nodes that it needs."""
        if ranked is None:
            return None
        sizes = sizes_of_cluster(case)
        nodes = sizes.settings(sizes.number(ranked.costs["gpus"]))
        inputs = inputs_of(serving(vary_any(case, nodes)))
        settings = settings_at(Variants(inputs, inputs_of_service), ranked)
        every = (*nodes, *(f"{path}={value}" for path, value in settings.items()))
        return SmallestPlan(every, ranked.costs["gpus"], ranked.costs[OWN], ranked.binding)

    expected, chosen = plan(found.expected), found.safe
    alike = chosen is not None and found.expected is not None and chosen.sizes == found.expected.sizes
    safely = expected if alike else plan(chosen)
    if safely is not None and safe:
        safely = replace(safely, settings=(*safely.settings, f"limits.{OWN}.at_least={safe:g}"))
    every = expected, safely, found.highest, found.codes, found.fault, found.missed
    return SmallestPlans(*every, found.layouts)


@record
class ServedOn:
    """A service on the fewest accelerators of one kind that hold its model and serve its load.

    answer: there, none where no number of them does; why: the reason
    """

    machine: Machine
    answer: ServingAnswer | None = None
    why: str = ""

    @property
    def context(self) -> float:
        """Tokens of the longest request that the model and the cache of a replica take."""
        if self.answer is None:
            return math.nan
        layout = self.answer.evaluation.layout
        held = self.result("cache_pool_tokens") / float(np.max(layout.dp_attention))
        return min(held, float(self.answer.inputs.model.max_sequence))

    @property
    def weights(self) -> float:
        """Bytes of the most loaded accelerator."""
        return math.nan if self.answer is None else float(np.max(self.answer.evaluation.memory.weights))

    def result(self, name: str) -> float:
        """A result; not a number where there is none."""
        return math.nan if self.answer is None else self.answer.costs.get(name, math.nan)

    @property
    def most(self) -> float:
        """Tokens a second that all its replicas generate at most."""
        return (
            math.nan
            if self.answer is None
            else self.result("saturation_per_s") * float(self.answer.inputs.load.generated)
        )


def served_on(case: ServingCase, machines: Iterable[Machine], most: float) -> Iterator[ServedOn]:
    """The service on each machine, with at most `most` accelerators."""
    for machine in machines:
        try:
            varied = serving(vary_any(case, machine.settings))
            plans = smallest_fleets(varied, 0.0, most)
            if plans.fault is not None:
                raise CostModelError(plans.fault)
            if plans.expected is None:
                yield ServedOn(machine, why=", ".join(f"{code} {REFUSALS[code].title}" for code in plans.codes))
                continue
            held = serving(vary_any(varied, plans.expected.settings))
            yield ServedOn(machine, predict(held, bands=False, limited=False))
        except CostModelError as error:
            yield ServedOn(machine, why=f"{error.faults[0].code} {error.faults[0].with_near_word}")


def both_sizes(
    found: ServiceSearch, case: ServingCase, safe: RankedPlan | None
) -> tuple[RankedPlan, RankedPlan] | None:
    """The plan on the fewest accelerators by expected figures, and the one with the chance; None if they are equal.

    safe: the plan on the fewest accelerators
    """
    stated = f"limits.{OWN}."  # of --safe; that of a file is no choice
    others = tuple(change for change in case.changes if not path_of(change).startswith(stated))
    demanded = stated_chance(case) is not None
    plain = serving(vary_any(replace(case, changes=others), ())) if demanded else case
    if (found.safe is None and not demanded) or stated_chance(plain) is not None:
        return None
    expected = fewest_gpus(preferring(plain, None)) if safe is not None else None
    if safe is None or expected is None or expected.costs["gpus"] >= safe.costs["gpus"]:
        return None
    return expected, safe


def smaller_fleet(found: ServiceSearch, case: ServingCase, cluster: SearchRemedy) -> RankedPlan | None:
    """A plan with fewer accelerators on a larger cluster, if the best plan here needs more."""
    if case.scenario.workload.rate is None or not found.best:
        return None
    there = search(inputs_of(serving(vary_any(case, (*cluster.settings, "objective=gpus_needed")))), 1)
    if there.best[0].broken or there.best[0].costs["gpus"] >= found.best[0].costs["gpus_needed"]:
        return None
    return replace(there.best[0], variant=found.nearest)
