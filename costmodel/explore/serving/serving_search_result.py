"""The result of a serving search: the best plans with bands, and how far other plans miss the limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import serving
from costmodel.documents.schemas.results import SERVING_COLUMNS, SERVING_RESULTS, without_money
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.serving.measured_spreads import spreads, spreads_beyond
from costmodel.estimate.serving.plan_columns import RARE, SIZES, PlanColumns, crosses_domains
from costmodel.estimate.serving.predict_serving import ServingAnswer, evaluated, evaluated_with_bands
from costmodel.estimate.serving.service_limits import OWN, service_limits
from costmodel.estimate.serving.serving_error_band import term_spreads
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.estimate.shared.results import Limit, number, stated_limits
from costmodel.explore.search.rank import PlanCounts, Tally
from costmodel.explore.search.scenario_variants import Variants
from costmodel.explore.search.stream import PlanErrors, PoolError, SearchResult
from costmodel.ground.equation import untraced
from costmodel.ground.errors import fail
from costmodel.ground.record import record

# --- what a search of a serving scenario finds


@record
class RankedPlan:
    """A serving plan with its results, reason codes, and what limits its rate.

    prefill: its prefill instances, if they are separate; sizes are then of decode. load: requests per second, or
    requests or users of the whole fleet, if it is not the scenario's load
    """

    sizes: dict[str, float]
    costs: dict[str, float]
    broken: tuple[str, ...]
    binding: str
    prefill: dict[str, float] | None = None
    variant: int = 0
    load: float = math.nan

    @property
    def key(self) -> tuple[object, ...]:
        """An empty sort key: plans that are equally good keep their order."""
        return ()

    def without_money(self) -> RankedPlan:
        """A copy without rents if the plan breaks a limit, since those do not compare with a working plan."""
        if not self.broken:
            return self
        return replace(self, costs=without_money(self.costs))


@dataclass
class ServiceCounts(PlanCounts[RankedPlan]):
    """The counts of the plans of one serving scenario."""

    alike: int = 0  # of those that fit, left out for another with less ep and the same figures
    fewest: float = math.inf  # accelerators that the rate needs, of the plans that meet every limit
    fastest: float = 0.0  # tokens a second of one user that no plan exceeds
    least_tpot: float = math.inf  # of the plans that meet every limit


@dataclass
class ServiceTally(Tally[RankedPlan]):
    """The result of a part of a search of a service."""

    def part(self, number: int = 0) -> ServiceCounts:
        """The counts of one scenario variant."""
        found = self.parts.setdefault(number, ServiceCounts(number))
        assert isinstance(found, ServiceCounts)
        return found


@record
class SearchRemedy:
    """Settings with which a search finds a plan that meets every limit, and that plan."""

    settings: tuple[str, ...]
    best: RankedPlan
    plan: tuple[str, ...] = ()  # what makes the scenario's own plan that one, beside the settings


LEAST_MOVE = 1e-6  # of a figure, from which the pool of the cache moves it
# The kind of error of a term of a token; a transfer between halves is not timed alone.
_KINDS = {"matmul": "matmul", "attention": "attention", "memory_bound": "memory-bound", "tp_exposed": "tp"}


class Offers:
    """What a search offers if none of its plans meets every limit: nothing by default, see `SearchOffers`."""

    @property
    def remedies(self) -> tuple[SearchRemedy, ...]:
        """Settings with which a plan meets every limit, at the values of the nearest plan."""
        return ()

    @property
    def alone(self) -> RankedPlan | None:
        """The nearest plan if no plan meets the limits even for single requests."""
        return None

    @property
    def smaller(self) -> RankedPlan | None:
        """A plan on a larger cluster that serves the rate with fewer accelerators than the first plan."""
        return None

    @property
    def both_clusters(self) -> tuple[RankedPlan, RankedPlan] | None:
        """The plan on the smallest cluster by expected figures, and the one with the preferred chance."""
        return None


@dataclass
class ServiceSearch(SearchResult[ServingInputs, RankedPlan]):
    """The result of a serving search; if stopped, for the values so far."""

    tally: ServiceTally
    yours: ServingAnswer | None
    offers: Offers = field(default_factory=Offers)
    fleet: RankedPlan | None = None  # the best plan with as many replicas as the rate needs, where it has others
    expected_rates: bool = False  # whether rates are expected ones all the same: plans are safe at their load
    unruled: float | None = None  # the preferred chance where its band is that of other accelerators: expected figures
    other: RankedPlan | None = None  # the best plan by the other rule, with as many replicas as that needs
    shares: Mapping[str, tuple[float, float]] | None = None  # of the load, least and most, of each of several kinds

    @property
    def chance(self) -> str:
        """The result column with the chance to meet all limits."""
        return OWN

    @property
    def ranked_by(self) -> str:
        """The objective; for rent at a stated rate, the rent of the accelerators that the rate needs."""
        return compared(self.inputs)

    def errors(self, plan: RankedPlan) -> PlanErrors:
        """The uncertainty of a plan's result: measured kernels by term, and how runs of an engine differ."""
        inputs, layout = self.inputs_of(plan.variant), columns_of([plan])[-1]
        whole, kinds = plan.costs["tpot"], dict[str, float]()
        with untraced(), np.errstate(all="ignore"):
            for name, spread in term_spreads(inputs, layout):
                part = plan.costs.get(name, math.nan) / whole
                if spread is not None and name in _KINDS and math.isfinite(part):
                    kinds[_KINDS[name]] = float(np.nan_to_num(number(spread))) * part
            own, ranks = number(spreads(inputs).token), number(layout.ranks)
            pool = _pool_error(inputs, layout, self.ranked_by) if plan.prefill is None else None
        ranks += 0.0 if plan.prefill is None else number(columns_of([plan])[0].ranks)
        return PlanErrors(kinds, own, ranks, plan.costs["gpus"], {"tp": plan.sizes["tp"]}, pool)

    @property
    def service_parts(self) -> list[ServiceCounts]:
        """The counts of plans at each value of the keys that vary."""
        return [self.tally.part(number) for number in self.tally.parts]


def _pool_error(inputs: ServingInputs, layout: PlanColumns, name: str) -> PoolError | None:
    """The change of the ranked result if the KV cache is one spread smaller; None if negligible."""
    spread, memory = number(spreads(inputs).pool), inputs.engine.memory
    pool = number(evaluated(inputs, layout).results.column("cache_pool"))
    less = memory.model_copy(update={"driver": memory.driver + pool * spread})
    smaller = inputs_of(replace(inputs.case, stack=inputs.case.stack.model_copy(update={"memory": less})))
    both = [evaluated(each, layout).results for each in (inputs, smaller)]
    figures, pools = (np.log([number(each.column(of)) for each in both]) for of in (name, "cache_pool"))
    if not (spread > 0 and np.isfinite([*figures, *pools]).all() and pools[0] > pools[1]):
        return None
    move = SERVING_RESULTS[name].sign * float((figures[1] - figures[0]) / (pools[0] - pools[1])) * spread
    engine = inputs.engine.name
    return PoolError(engine, pool, spread, move, number(layout.ranks)) if abs(move) > LEAST_MOVE else None


def columns_of(plans: Sequence[RankedPlan]) -> tuple[PlanColumns, ...]:
    """The sizes of plans as columns; for disaggregated plans, one set for prefill and one for decode."""
    prefill = [plan.prefill for plan in plans if plan.prefill is not None]
    halves = [*([prefill] if prefill else []), [plan.sizes for plan in plans]]
    return tuple(
        PlanColumns(*(np.array([half.get(name, RARE.get(name, 1.0)) for half in sizes]) for name in SIZES))
        for sizes in halves
    )


def inputs_of_service(case: LoadedScenario) -> ServingInputs:
    """The serving inputs of a scenario."""
    return inputs_of(serving(case))


def listed_by_search(inputs: ServingInputs, path: str) -> str:
    """The key of the scenario's search that lists values of a key; empty if there is none."""
    key = path.removeprefix("plan.").replace("stack.budget", "budget")
    return key if key != path and getattr(inputs.case.scenario.search, key, None) is not None else ""


def compared(inputs: ServingInputs) -> str:
    """The result that ranks plans: the objective, or at a stated rate the rent of the needed accelerators."""
    scenario = inputs.case.scenario
    rented = scenario.objective == "rent_per_month" and scenario.workload.rate is not None
    return "rent_needed" if rented else scenario.objective


def lacks_figure(inputs: ServingInputs, name: str) -> bool:
    """Whether a result needs a price or a power that is unknown."""
    if SERVING_RESULTS[name].unit == "USD":
        return not price_of(inputs.case).known
    return name == "energy_per_token" and math.isnan(float(inputs.power.drawn))


def fail_without_figures(variants: Variants[ServingInputs], names: Iterable[str]) -> None:
    """Raises a fault if plans are ranked by cost or energy and some nodes have no known price or power."""
    for name in names:
        if SERVING_RESULTS[name].unit != "USD" and name != "energy_per_token":
            continue
        unknown = (each.case.node.name for each in variants.possible() if lacks_figure(each, name))
        if not (nodes := ", ".join(dict.fromkeys(unknown))):
            continue
        what, hint = "power", "--set 'assume.power=900 W' sets that of an accelerator and its share of the node"
        if SERVING_RESULTS[name].unit == "USD":
            listed = "costmodel list nodes shows those with a list price"
            what, hint = "price", f"--price 2.50USD/GPU/h sets one for all; {listed}"
        raise fail("C004", f"plans are compared by {name}, but no {what} is known for {nodes}", None, hint)


# --- how far plans are from the limits of a service: what makes one of them the nearest


Values = NDArray[np.float64]
Result = Callable[[str], Values]


def limit_distance(inputs: ServingInputs, result: Result, unstable: NDArray[np.bool_]) -> tuple[Values, Values]:
    """For each plan, whether it misses a limit other than the chance, and by how much it misses limits; else 0.

    Chances that are too small are rounded to tenths of the limit, so that about equally sure plans rank by the
    objective.
    A plan that cannot serve the rate misses by its missing rate, since its times grow without end.
    """
    rows, stated = len(unstable), list(stated_limits(inputs.case.scenario.limits))
    rate, of_rate = inputs.case.scenario.workload.rate, service_limits(inputs)
    firm = [limit for limit in stated if limit.column != OWN]
    beyond = limit_misses(firm, result, rows)
    missing = unstable | (beyond > 0)
    if rate is not None:
        with np.errstate(divide="ignore"):
            short = np.maximum(rate / np.maximum(result("rate_within_slo_per_s"), 0.0) - 1.0, 0.0)
        others = [limit for limit in firm if limit not in of_rate]
        beyond = np.maximum(limit_misses(others, result, rows), np.nan_to_num(short, nan=np.inf, posinf=np.inf))
    elif unstable.any():
        beyond = np.where(unstable, np.inf, beyond)
    chance = np.ceil(10.0 * limit_misses([limit for limit in stated if limit.column == OWN], result, rows)) / 10.0
    return missing.astype(np.float64), shown_digits(np.where(missing, beyond, chance))


def limit_misses(limits: Iterable[Limit], result: Result, rows: int) -> Values:
    """The largest relative excess over a limit for each row; 0 where all limits are met.

    >>> limits = [Limit("tpot", "tpot", "at_most", 0.025), Limit("ttft", "ttft", "at_most", 1.0)]
    >>> columns = {"tpot": np.array([0.020, 0.030, 0.025]), "ttft": np.array([0.5, 1.1, np.nan])}
    >>> limit_misses(limits, columns.__getitem__, 3).round(3).tolist()
    [0.0, 0.2, inf]
    """
    found = np.zeros(rows)
    for limit in limits:
        values = np.asarray(result(limit.column), dtype=np.float64)
        over = {"at_most": values - limit.value, "at_least": limit.value - values}.get(limit.kind)
        if over is None:
            over = np.abs(values - limit.value) - limit.within * limit.value
        beyond = np.nan_to_num(over / (abs(limit.value) or 1.0), nan=np.inf, posinf=np.inf)
        found = np.maximum(found, np.where(limit.kept(values), 0.0, beyond))
    return found


def shown_digits(values: Values) -> Values:
    """Values to three digits, as shown, so that plans that look alike are ordered by their times."""
    known = np.isfinite(values) & (values != 0)
    unit = 10.0 ** (np.floor(np.log10(np.abs(np.where(known, values, 1.0)))) - 2)
    return np.where(known, np.round(values / unit) * unit, values)


# --- bands of ranked plans, and their chance to meet the limits; only plans that are shown get them


def with_bands(variants: Variants[ServingInputs], plans: Sequence[RankedPlan]) -> list[RankedPlan]:
    """Adds bands to plans, each under the load of its scenario."""
    found = list(plans)
    for variant in dict.fromkeys(plan.variant for plan in plans):
        places = [place for place, plan in enumerate(plans) if plan.variant == variant]
        rows = banded_plans(variants.of(variant), [plans[place] for place in places])
        for place, row in zip(places, rows, strict=True):
            found[place] = row
    return found


def banded_plans(inputs: ServingInputs, plans: Sequence[RankedPlan]) -> list[RankedPlan]:
    """Plans of one scenario with bands."""
    found = list[RankedPlan]()
    for plan, whole in zip(plans, _banded_results(inputs, plans), strict=True):
        costs = whole | {name: value for name, value in plan.costs.items() if value == value}
        found.append(replace(plan, costs={name: costs[name] for name in SERVING_COLUMNS if name in costs}))
    return found


def _banded_results(inputs: ServingInputs, plans: Sequence[RankedPlan]) -> list[dict[str, float]]:
    """Results of plans with P10 and P90; disaggregated plans are evaluated by number of prefill instances."""
    found = list[dict[str, float]]([{}] * len(plans))
    beyond = [tuple(map(number, spreads_beyond(inputs, columns_of([plan]), plan.costs.__getitem__))) for plan in plans]
    crossing = [any(crosses_domains(inputs, half).any() for half in columns_of([plan])) for plan in plans]
    prompts = [None if plan.prefill is None else plan.prefill["replicas"] for plan in plans]
    kinds = list(zip(prompts, beyond, crossing, strict=True))
    for kind in dict.fromkeys(kinds):
        places = [place for place, other in enumerate(kinds) if other == kind]
        columns = columns_of([plans[place] for place in places])
        _, (steps, first), crosses = kind
        with np.errstate(all="ignore"):
            wider = replace(inputs, beyond=steps, beyond_first=first, crosses=crosses)
            known = all(plans[place].costs[OWN] == plans[place].costs[OWN] for place in places)
            _, results = evaluated_with_bands(wider, *columns, compared=False, chance=not known)
        for row, place in enumerate(places):
            found[place] = results.row(row)
    return found


# --- what binds the highest rate of a plan: a limit of the scenario, or a resource of its engines


_FULL = 0.99  # of saturation, from which on waits have no end and any limit is reached
_LEAST_LOAD = 1e-3  # of saturation: the load of plans that break a limit at any rate


def with_binding_limits(inputs: ServingInputs, plans: Sequence[RankedPlan], *, sure: bool) -> list[RankedPlan]:
    """Plans whose `binding` is the limit that is nearest at their highest rate, if it is nearer than saturation.

    Each is evaluated with as many replicas as take the scenario's load at that rate. sure: whether the rate is that
    with the preferred chance, so that the unfavourable end of each band counts
    """
    limits = [limit for limit in service_limits(inputs) if limit.column != OWN]
    rate = inputs.case.scenario.workload.rate
    if rate is None or not limits:
        return list(plans)
    loaded = [_at_highest_rate(plan, float(rate)) for plan in plans]
    found = list[RankedPlan]()
    for plan, costs in zip(plans, _banded_results(inputs, loaded), strict=True):
        most = costs.get("saturation_per_s_low", math.nan) if sure else math.nan
        most = most if math.isfinite(most) else costs["saturation_per_s"]
        near = {plan.binding: float(rate) / (_FULL * most)}
        for limit in limits:
            end = f"{limit.column}_{'high' if limit.kind == 'at_most' else 'low'}"
            value = costs.get(end, math.nan) if sure else math.nan
            value = value if math.isfinite(value) else costs[limit.column]
            near[limit.key] = value / limit.value if limit.kind == "at_most" else limit.value / value
        found.append(replace(plan, binding=max(near, key=lambda name: near[name])))
    return found


def _at_highest_rate(plan: RankedPlan, rate: float) -> RankedPlan:
    """The plan with so many replicas that each takes its highest rate within limits of this load."""
    costs = plan.costs
    times = rate / max(costs["rate_within_slo_per_s"], _LEAST_LOAD * costs["saturation_per_s"])
    sizes = plan.sizes | {"replicas": plan.sizes["replicas"] * times}
    prefill = plan.prefill and plan.prefill | {"replicas": plan.prefill["replicas"] * times}
    return replace(plan, sizes=sizes, prefill=prefill)
