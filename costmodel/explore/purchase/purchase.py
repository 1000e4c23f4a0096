"""A machine with the plan that is bought on it: accelerators, nodes, rents and capital, each with its equation."""

from __future__ import annotations

import math
from dataclasses import replace

from costmodel.documents.reader.library import read
from costmodel.equations.parallelism.counts import fleet_ranks, world_ranks
from costmodel.equations.run.economics import (
    cost_difference,
    purchase_capital,
    run_cost,
    share,
    unused_write_off,
    whole_node_price,
    written_off,
)
from costmodel.equations.serving.serving_economics import MONTH, accelerators_rented
from costmodel.estimate.machine.price import AcceleratorPrice, listed_price
from costmodel.explore.purchase.offers import YEAR, Machine
from costmodel.explore.workload_interface import SmallestPlans, Trial
from costmodel.ground.equation import Number, leaf
from costmodel.ground.record import record

# Shorter jobs do not get these terms, where an offer states none: a month reserved, a year bought. Assumed.
LEAST_TERM = {"reserved": 30 * 86400.0, "purchase": 365 * 86400.0}
OTHER_TERMS = ("spot", "purchase")  # prices that do not compare with a rent that stays: for the reader to judge


@record
class Rent:
    """The rent of a plan [USD]: for the accelerators in use, and for all accelerators of its nodes.

    each: the seller rents parts of a node
    """

    in_use: float
    whole: float
    each: bool = False

    @property
    def billed(self) -> float:
        """What the seller bills: whole nodes, unless parts of a node are rented."""
        return self.in_use if self.each else self.whole


@record
class Purchase:
    """A machine with the smallest plans on it that meet every limit.

    trial: the result of the plan with the required chance; None if there is no such plan
    """

    machine: Machine
    plans: SmallestPlans
    trial: Trial | None = None
    runs: float = 0.0  # published ones on its accelerator
    each: float = math.nan  # power that a site supplies for a node, W

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings of the machine and its price."""
        return *self.machine.settings, *self.machine.price

    @property
    def works(self) -> bool:
        """Whether a plan meets every limit with the required chance."""
        return self.trial is not None and self.trial.works

    @property
    def price(self) -> AcceleratorPrice | None:
        """The price of the machine; None if no plan works on it."""
        price = None if self.trial is None or self.trial.about is None else self.trial.about.price
        if price is None or price.listed is None or price.listed.bought is None or not self.works:
            return price
        return replace(price, nodes=self.nodes)

    @property
    def rents_each(self) -> bool:
        """Whether its price list states that parts of a node are rented."""
        listed = None if self.price is None else self.price.listed
        return listed is not None and listed.in_part

    @property
    def capital(self) -> float:
        """The purchase price of its nodes [USD]; NaN for rented nodes."""
        price = self.price
        if price is None or price.listed is None or price.listed.bought is None:
            return math.nan
        return float(purchase_capital(self.nodes, price.listed.bought.capital))

    @property
    def time(self) -> float:
        """The time of the whole job [s]; infinite for a job without an end."""
        time = math.nan if self.trial is None else self.trial.costs.get("run_time", math.nan)
        return time if math.isfinite(time) else math.inf

    @property
    def paid_time(self) -> float:
        """The time [s] that costs cover: the whole job, or a month for a job without an end."""
        return MONTH if math.isinf(self.time) else self.time

    @property
    def least_term(self) -> float:
        """The shortest rental or ownership time [s] that the seller accepts."""
        return self.machine.term or LEAST_TERM.get(self.machine.sold, 0.0)

    @property
    def life(self) -> float:
        """The time [s] after which a purchase is sold or written off; infinite for rent."""
        listed = None if self.price is None else self.price.listed
        return math.inf if listed is None or listed.bought is None else float(listed.bought.life)

    @property
    def terms_fit(self) -> bool:
        """Whether the job lasts at least the rental term, and ends before a purchase is written off."""
        return self.least_term <= self.time and (math.isinf(self.time) or self.time <= self.life)

    @property
    def is_lasting_rent(self) -> bool:
        """Whether it is a rent that cannot be taken away, and that does not bind an endless job for a year."""
        binds = math.isinf(self.time) and self.machine.term >= YEAR
        return self.machine.sold not in OTHER_TERMS and not binds

    @property
    def parts(self) -> float:
        """The number of parts that can be rented separately: engines, or the nodes that hold them."""
        engines = float(len(self.engines))
        return engines if self.rents_each else min(self.nodes, engines)

    @property
    def gpus(self) -> float:
        """The number of accelerators of the plan."""
        return self.plans.safe.gpus if self.works and self.plans.safe is not None else math.nan

    @property
    def nodes(self) -> float:
        """The number of nodes that hold these accelerators."""
        about = self.trial.about if self.trial is not None else None
        if about is None or not self.works:
            return math.nan
        return float(share(accelerators_rented(self.gpus, about.built), about.built))

    @property
    def idle(self) -> float:
        """The accelerators of these nodes that the plan does not use."""
        about = self.trial.about if self.trial is not None else None
        return math.nan if about is None or not self.works else self.nodes * about.built - self.gpus

    @property
    def power(self) -> float:
        """The site power [W] for these nodes."""
        return self.nodes * self.each

    @property
    def built(self) -> float:
        """The number of accelerators in one node."""
        return math.nan if self.trial is None or self.trial.about is None else self.trial.about.built

    @property
    def engines(self) -> tuple[float, ...]:
        """The accelerators of each replica of a service; of any other job, those of the whole job."""
        count = 1.0 if self.trial is None else self.trial.costs.get("replicas", 1.0)
        return (float(share(self.gpus, count)),) * int(count)

    def rent(self, time: float, gpus: float | None = None) -> Rent:
        """The rent for `time` seconds of the plan's accelerators, or of `gpus`; NaN without a plan or a price."""
        price, about = self.price, self.trial.about if self.trial is not None else None
        if price is None or about is None or not self.works:
            return Rent(math.nan, math.nan)
        in_use, whole = rent_of_gpus_and_nodes(price, time, self.gpus if gpus is None else gpus, about.built)
        return Rent(float(in_use), float(whole), self.rents_each)


def gpus_used(row: Purchase) -> Number:
    """The number of accelerators of a plan, traced to its degrees or its replicas."""
    keys = {} if row.trial is None or row.trial.kept is None else row.trial.kept.keys
    degrees = [leaf(size, name) for name in ("dp", "tp", "cp", "pp") if isinstance(size := keys.get(name), int | float)]
    if len(degrees) == 4 and math.prod(map(float, degrees)) == row.gpus:
        return world_ranks(*degrees)
    if len(row.engines) > 1:
        return fleet_ranks(leaf(len(row.engines), "replicas"), leaf(row.engines[0], "GPUs of a replica"))
    return leaf(row.gpus, "GPUs of the plan")


def traced_price(price: AcceleratorPrice, accelerator: str) -> Number:
    """The traced price of an accelerator [USD/s]: the cost of owning it, or a list price with source and date."""
    listed = price.listed
    if listed is None:
        return leaf(price.each, "price")
    if listed.hourly is not None:
        name = f"list price, {listed.source or price.node}, {listed.date}"
        listed = listed.model_copy(update={"hourly": leaf(listed.hourly, name)})
    used = leaf(price.accelerators, "GPUs of a node")
    node = read("node", price.node).model_copy(update={"price": listed, "accelerators": used})
    return listed_price(node, read("accelerator", accelerator))


def rent_of_gpus_and_nodes(
    price: AcceleratorPrice, time: Number, used: Number, built: Number, each: Number | None = None
) -> tuple[Number, Number]:
    """The rent of the accelerators in use, and of whole nodes; for bought nodes both are the latter."""
    each = whole_node_price(price.each if each is None else each, price.accelerators, price.built)
    whole = run_cost(time, accelerators_rented(used, built), each)
    is_bought = price.listed is not None and price.listed.bought is not None
    return whole if is_bought else run_cost(time, used, each), whole


def money_figures(row: Purchase, time: float) -> dict[str, Number]:
    """The accelerators, nodes and costs of a machine's plan for `time` seconds, each figure with its origin."""
    used, built = gpus_used(row), leaf(row.built, "GPUs of a node")
    rented = accelerators_rented(used, built)
    found = {"GPUs": used, "nodes": share(rented, built), "billed": used if row.rents_each else rented}
    price = row.price
    if price is None:
        return found
    found["price"] = traced_price(price, row.machine.accelerator)
    found["rent"], found["whole nodes"] = rent_of_gpus_and_nodes(price, leaf(time, "time"), used, built, found["price"])
    if price.listed is not None and price.listed.bought is not None:
        owned = price.listed.bought
        found["capital"] = purchase_capital(row.nodes, owned.capital)
        resale = purchase_capital(row.nodes, owned.resale)
        found["write-off"] = written_off(found["capital"], resale, owned.life, time)
        found["unused"] = unused_write_off(found["write-off"], owned.utilisation)
        found["power"] = cost_difference(cost_difference(found["rent"], found["write-off"]), found["unused"])
    return found
