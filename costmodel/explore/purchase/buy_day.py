"""A day of traffic on the best machine: replicas for each hour, and the cost with and without autoscaling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from costmodel.documents.reader.load_scenario import vary_any
from costmodel.equations.run.economics import autoscaled_cost, rate, run_cost, share
from costmodel.equations.serving.serving_economics import MONTH, accelerators_rented, spare_rate
from costmodel.explore.purchase.buy import SIZE, PurchaseComparison
from costmodel.explore.purchase.offers import ON_DEMAND, Machine
from costmodel.explore.purchase.purchase import Rent
from costmodel.explore.purchase.smallest_size import CHANCE, chance_tree
from costmodel.explore.search.rank import UNWATCHED
from costmodel.explore.workload_interface import Trial, Workload
from costmodel.ground.equation import Number, leaf, term
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.explore.explain.equation_trees import ExplainedFigure

_HOUR = 3600.0


@record
class Hour:
    """One hour of a day: its request rate, and the replicas that meet all limits.

    ready: the rate that these replicas can serve, which covers the rise while another replica starts. rise: growth of
    the rate until the next hour [1/s²]. settings: those of this hour's scenario; empty without requests
    """

    rate: float
    ready: float
    replicas: float
    gpus: float
    chance: float
    rise: float = 0.0
    settings: tuple[str, ...] = ()

    def named(self, figure: str) -> str:
        """The name under which a figure of this hour is traced; equal hours share it."""
        return f"{figure} at {self.rate:g} of {self.ready:g}"


@record
class Day:
    """A day of traffic on one machine whose replicas start and stop by the hour.

    start: seconds from the decision to start a replica until it serves. price: USD/s of an accelerator of a fixed
    fleet.
    elastic: USD/s of one rented by the hour. built: accelerators of a node. lasting: a cheaper rent of the fixed fleet
    on other terms, if there is one. lasting_price: its USD/s. assumed: whether no start is stated
    """

    machine: Machine
    hours: tuple[Hour, ...]
    start: float
    price: float
    elastic: float
    built: float
    lasting: Machine | None = None
    lasting_price: float = math.nan
    assumed: bool = False

    @property
    def fixed(self) -> Rent:
        """The rent if the accelerators of the busiest hour run all day."""
        return self._fixed(self.price)

    @property
    def fixed_lasting(self) -> Rent:
        """The rent of that fleet on the cheapest other terms; NaN if none are cheaper."""
        return self._fixed(self.lasting_price)

    def _fixed(self, price: float) -> Rent:
        most = max(hour.gpus for hour in self.hours)
        return Rent(float(self._all_day(most, price)), float(self._all_day(self._whole(most), price)))

    @property
    def autoscaled(self) -> Rent:
        """The rent if accelerators follow each hour's need, and start before the hour begins."""
        used = [hour.gpus for hour in self.hours]
        in_use, whole = (float(self._by_hour(each, self.elastic)) for each in (used, [*map(self._whole, used)]))
        return Rent(in_use, whole)

    def month(self, rent: Rent) -> Rent:
        """The rent of a month of such days."""
        return Rent(float(self._month(rent.in_use)), float(self._month(rent.whole)))

    def _month(self, rent: Number) -> Number:
        return run_cost(MONTH, 1.0, rate(rent, len(self.hours) * _HOUR))

    def trees(self, asked: Workload) -> dict[str, ExplainedFigure]:
        """The equation trees of the rents of whole nodes, and of each hour's figures by `Hour.named`."""
        from costmodel.explore.explain.equation_trees import traced_figures

        used, hours = [hour.gpus for hour in self.hours], {*self.hours}
        most, built = leaf(max(used), "GPUs of the busiest hour"), leaf(self.built, "GPUs of a node")
        trees = traced_figures(
            lambda: {
                "by the hour": self._month(self._by_hour([*map(self._whole, used)], leaf(self.elastic, "price"))),
                "a fixed fleet": self._month(
                    self._all_day(accelerators_rented(most, built), leaf(self.price, "price"))
                ),
            },
            {},
        )
        for hour in hours:
            of_hour = traced_figures(partial(self._figures, hour), {"ready": "1/s", "GPUs": "1"})
            trees |= {hour.named(name): tree for name, tree in of_hour.items()}
            if hour.settings:
                trees[hour.named(CHANCE)] = chance_tree(asked, hour.settings)
        return trees

    def _figures(self, hour: Hour) -> dict[str, Number]:
        """The traced rate that an hour can serve, and its accelerators."""
        each = leaf(float(share(hour.gpus, hour.replicas)), "GPUs of a replica")
        with term("of an hour"):
            ready = leaf(hour.rate, "rate") + spare_rate(hour.rise, self.start)
            return {"ready": ready, "GPUs": leaf(hour.replicas, "replicas") * each}

    def _whole(self, gpus: float) -> float:
        return float(accelerators_rented(gpus, self.built))

    def _all_day(self, gpus: Number, price: Number) -> Number:
        return run_cost(len(self.hours) * _HOUR, gpus, price)

    def _by_hour(self, used: Sequence[float], price: Number) -> Number:
        more = (max(now - ahead, 0.0) for ahead, now in itertools.pairwise((*used[-1:], *used)))
        return autoscaled_cost(_HOUR, sum(used), self.start, sum(more), price)


def with_daily_average_cost(found: PurchaseComparison, rates: Sequence[float]) -> PurchaseComparison:
    """The result for the busiest hour, with the cost per token averaged over the whole day."""
    traffic = share(sum(rates) / len(rates), max(rates))

    def spread(trial: Trial | None) -> Trial | None:
        if trial is None or trial.kept is None:
            return trial
        costs = {
            name: float(share(cost, traffic)) if name.startswith("cost_per_m") else cost
            for name, cost in trial.kept.costs.items()
        }
        return replace(trial, kept=replace(trial.kept, costs=costs))

    rows = tuple(replace(row, trial=spread(row.trial)) for row in found.rows)
    return replace(found, rows=rows, traffic=float(traffic))


def day_of_traffic(found: PurchaseComparison, rates: Sequence[float], start: float | None) -> Day | None:
    """The replicas of the best machine's layout that each hour needs; None if no machine works.

    start: seconds to start a replica; None for those in which its engine starts and reads its weights.
    Includes spares for failures if assume.availability is stated. One replica stays in hours without requests.
    """
    best, asked = found.best, found.asked
    if best is None or best.plans.safe is None or best.price is None or best.trial is None or best.trial.about is None:
        return None
    assumed, known = start is None, best.trial.costs.get("start_time", math.nan)
    start = known if start is None and math.isfinite(known) else start or 0.0
    after = (*rates[1:], rates[0])
    rises = [float(rate(max(then - now, 0.0), _HOUR)) for now, then in zip(rates, after, strict=True)]
    ready = [now + float(spare_rate(rise, start)) for now, rise in zip(rates, rises, strict=True)]
    settings = [item for item in best.plans.safe.settings if not item.startswith(SIZE)]
    alone = (*best.machine.settings, *best.machine.price, *settings, "plan.replicas=1", "cluster.nodes=1")
    several = ",".join(f"{held:.6g}" for held in sorted({held for held in ready if held}))
    sizes = asked.for_case(vary_any(asked.case, alone)).scaling("", f"{several} /s", weak=False, best=False)
    points = {f"{row.size:.6g}": row.point for row in sizes.rows(UNWATCHED)}
    works = (row.costs for row in points.values() if row.works)
    least = min((float(share(costs["gpus"], costs["replicas"])) for costs in works), default=math.nan)
    hours = list[Hour]()
    for asking, held, rise in zip(rates, ready, rises, strict=True):
        point = points[f"{held:.6g}"] if held else None
        if point is not None and not point.works:
            return None
        costs = {"replicas": 1.0, "gpus": least, asked.chance: 1.0} if point is None else point.costs
        own = () if point is None else (*alone[:-2], *point.settings)
        hours.append(Hour(asking, held, costs["replicas"], costs["gpus"], costs[asked.chance], rise, own))
    priced = [(row.price.each, row) for row in found.working if row.machine.node == best.machine.node and row.price]
    elastic = next((each for each, row in priced if row.machine.sold == ON_DEMAND), best.price.each)
    lasting = ((each, row.machine) for each, row in priced if row.is_lasting_rent)
    price, fixed = min(lasting, default=(math.inf, None), key=lambda each: each[0])
    other = (fixed, price) if price < best.price.each else (None, math.nan)
    priced_as = best.price.each, elastic, best.trial.about.built, *other
    return Day(best.machine, tuple(hours), start, *priced_as, assumed=assumed)
