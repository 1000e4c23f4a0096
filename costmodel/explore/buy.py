"""Which machine, and how many: the smallest layout on every kind of machine on offer that meets every limit."""

from __future__ import annotations

import math
from dataclasses import replace

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.schemas.results import is_money
from costmodel.equations.run.economics import hosted_cost, run_cost, share, whole_node_price
from costmodel.equations.serving.serving_economics import MONTH, accelerators_rented
from costmodel.estimate.machine.price import Price
from costmodel.estimate.shared.limits import stated_limits
from costmodel.explore.offers import HostedOffer, Machine, Offers
from costmodel.explore.safety import preferred_chance, stated_chance
from costmodel.explore.search.progress import UNWATCHED, Watcher
from costmodel.explore.trial import tried
from costmodel.explore.workload import SmallestPlans, Trial, Workload
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record

MOST = 65_536.0  # accelerators of a machine that are looked at
OTHER_TERMS = ("spot", "purchase")  # prices that do not compare with a rent that stays: for the reader to judge


@record
class Rent:
    """What a plan is rented for, USD: of accelerators in use, and of all in its whole nodes."""

    in_use: float
    whole: float


@record
class Purchase:
    """A machine, the plans on it that meet every limit, and what came of the one with the chance asked for.

    trial: where one has it
    """

    machine: Machine
    plans: SmallestPlans
    trial: Trial | None = None
    runs: float = 0.0  # published ones on its accelerator

    @property
    def works(self) -> bool:
        """Whether a plan meets every limit with the chance."""
        return self.trial is not None and self.trial.works

    @property
    def price(self) -> Price | None:
        """The price of the machine, where a plan works."""
        return None if self.trial is None or self.trial.about is None else self.trial.about.price

    @property
    def gpus(self) -> float:
        """Accelerators of that plan."""
        return self.plans.safe.gpus if self.works and self.plans.safe is not None else math.nan

    @property
    def nodes(self) -> float:
        """Nodes that hold them."""
        about = self.trial.about if self.trial is not None else None
        if about is None or not self.works:
            return math.nan
        return float(share(accelerators_rented(self.gpus, about.built), about.built))

    def rent(self, time: float) -> Rent:
        """Its rent for so many seconds; not a number where no plan works or no price is known."""
        price, about = self.price, self.trial.about if self.trial is not None else None
        if price is None or about is None or not self.works:
            return Rent(math.nan, math.nan)
        each = float(whole_node_price(price.each, price.accelerators, price.built))
        whole = accelerators_rented(self.gpus, about.built)
        return Rent(float(run_cost(time, self.gpus, each)), float(run_cost(time, whole, each)))


@record
class Bought:
    """Every machine, the cheapest first that works, then those on which no plan does; and APIs that serve the model.

    safe: the chance to meet every limit that is asked for. count: offers that were to be looked at
    """

    asked: Workload
    rows: tuple[Purchase, ...]
    safe: float
    count: int
    hosted: tuple[HostedOffer, ...] = ()

    @property
    def working(self) -> tuple[Purchase, ...]:
        """Those that meet every limit."""
        return tuple(row for row in self.rows if row.works)

    @property
    def best(self) -> Purchase | None:
        """The cheapest rent that is not on spot; without one the cheapest."""
        kept = (row for row in self.working if row.machine.sold not in OTHER_TERMS)
        return next(kept, next(iter(self.working), None))

    @property
    def stopped(self) -> bool:
        """Whether machines are missing."""
        return len(self.rows) < self.count

    def rent(self, row: Purchase) -> Rent:
        """The rent of the whole job, or of a month where it has no end."""
        if row.trial is None:
            return Rent(math.nan, math.nan)
        return row.rent(row.trial.costs.get("run_time", MONTH))

    def hosted_cost(self, offer: HostedOffer) -> float:
        """What an API asks for the load of a month; not a number where no rate is known."""
        tokens, best = self.asked.request_tokens, self.best
        if tokens is None or best is None or best.trial is None:
            return math.nan
        requests = best.trial.costs["requests_per_s"] * MONTH
        prices = offer.prompt, offer.cached, offer.output
        return float(hosted_cost(requests, tokens.prompt, tokens.cached, tokens.output, *prices))


def buy(asked: Workload, offers: Offers, most: float = MOST, pace: Watcher = UNWATCHED) -> Bought:
    """Every machine with its smallest plans that meet every limit with the chance that is asked for, least rent first.

    most: accelerators

    Raises:
        CostModelError: the scenario is wrong on all of them
    """
    asked = asked.whole()
    safe = stated_chance(asked.case) or preferred_chance(asked.case) or 0.0
    machines, plans = offers.machines, _Plans(asked, safe, most)
    rows = [plans.bought(machine) for machine in pace.taken(machines, len(machines))]
    hosted = offers.hosted if asked.request_tokens is not None else ()
    found = Bought(asked, tuple(rows), safe, len(machines), hosted)
    faults = [row.plans.fault for row in rows if row.plans.fault is not None]
    if rows and len(faults) == len(machines) and len({fault.code for fault in faults}) == 1:
        raise CostModelError(faults[0])

    def order(row: Purchase) -> tuple[bool, float, float, str]:
        rent = found.rent(row).in_use
        return not row.works, math.inf if math.isnan(rent) else rent, row.gpus, row.machine.node

    return replace(found, rows=tuple(sorted(rows, key=order)))


class _Plans:
    """The smallest plans on each machine, found once for all of its prices unless money is bounded."""

    def __init__(self, asked: Workload, safe: float, most: float) -> None:
        self.asked, self.safe, self.most = asked, safe, most
        bounded = (limit.column for limit in stated_limits(asked.case.scenario.limits))
        self.by_price = any(is_money(column) for column in bounded)
        self.found = dict[tuple[str, ...], tuple[SmallestPlans, float]]()

    def bought(self, machine: Machine) -> Purchase:
        """A machine at its price."""
        asked, settings = self.asked, (*machine.settings, *machine.price)
        key = settings if self.by_price else machine.settings
        try:
            if key not in self.found:
                varied = asked.of(vary_any(asked.case, key))
                self.found[key] = varied.smallest(self.safe, self.most), varied.measured_runs
            plans, runs = self.found[key]
        except CostModelError as error:
            return Purchase(machine, SmallestPlans(fault=error.faults[0]))
        if plans.safe is None:
            return Purchase(machine, plans, runs=runs)
        looked_at = (asked.usual, f"{asked.usual}_high", asked.chance)
        trial = tried(asked, (*settings, *plans.safe.settings), results=looked_at)
        return Purchase(machine, plans, trial, runs)
