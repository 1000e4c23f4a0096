"""Which machine, and how many: the smallest layout on every kind of machine on offer that meets every limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.library import names
from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.schemas.hardware import Node
from costmodel.equations.run.economics import run_cost, share, whole_node_price
from costmodel.equations.serving.serving_economics import MONTH, accelerators_rented
from costmodel.estimate.machine.price import Price
from costmodel.explore.node_of_gpu import node_of_gpu
from costmodel.explore.safety import preferred_chance, stated_chance
from costmodel.explore.search.progress import UNWATCHED, Watcher
from costmodel.explore.trial import tried
from costmodel.explore.workload import SmallestPlans, Trial, Workload
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record

MOST = 65_536.0  # accelerators of a machine that are looked at
NODE, PART = "cluster.node", "cluster.node.accelerator"


@record
class Machine:
    """A kind of machine by the settings that make a scenario one of it."""

    accelerator: str
    node: str
    settings: tuple[str, ...]


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
    """Every machine, the cheapest first that works, then those on which no plan does.

    safe: the chance to meet every limit that is asked for. count: machines that were to be looked at
    """

    asked: Workload
    rows: tuple[Purchase, ...]
    safe: float
    count: int

    @property
    def working(self) -> tuple[Purchase, ...]:
        """Those that meet every limit."""
        return tuple(row for row in self.rows if row.works)

    @property
    def stopped(self) -> bool:
        """Whether machines are missing."""
        return len(self.rows) < self.count

    def rent(self, row: Purchase) -> Rent:
        """The rent of the whole job, or of a month where it has no end."""
        if row.trial is None:
            return Rent(math.nan, math.nan)
        return row.rent(row.trial.costs.get("run_time", MONTH))


def on_offer(gpus: Sequence[str] = (), nodes: Sequence[str] = ()) -> tuple[Machine, ...]:
    """The machines that are named; without names of each accelerator that has a price the node with the lowest.

    gpus: accelerators, each in every node that has it and a price, or else in its usual node

    Raises:
        CostModelError: there is no accelerator or node of that name
    """
    shelf = CachedReader()
    if gpus or nodes:
        named = [_machine(shelf.document("node", name)) for name in nodes]
        return tuple(dict.fromkeys([*named, *(each for gpu in gpus for each in _with_gpu(shelf, gpu))]))
    cheapest: dict[str, Node] = {}
    for node in _priced(shelf):
        other = cheapest.get(_accelerator(node))
        if other is None or _hourly(node) < _hourly(other):
            cheapest[_accelerator(node)] = node
    return tuple(map(_machine, cheapest.values()))


def _priced(shelf: CachedReader) -> Iterator[Node]:
    """The nodes with a price on demand."""
    for name in sorted(names("node")):
        text, _ = shelf.text("node", name)
        if "\nprice:" in text:  # which saves reading the others
            yield shelf.document("node", name)


def _with_gpu(shelf: CachedReader, spelling: str) -> Iterator[Machine]:
    """The nodes that have an accelerator and a price; without one the usual node."""
    changes, _ = node_of_gpu(spelling, None)
    usual = {change.path: str(change.value) for change in changes}
    wanted = usual.get(PART) or _accelerator(shelf.document("node", usual[NODE]))
    found = [node for node in _priced(shelf) if _accelerator(node) == wanted]
    yield from map(_machine, sorted(found, key=_hourly))
    if not found:
        yield Machine(wanted, usual[NODE], tuple(f"{path}={value}" for path, value in usual.items()))


def _machine(node: Node) -> Machine:
    return Machine(_accelerator(node), node.name, (f"{NODE}={node.name}",))


def _accelerator(node: Node) -> str:
    return node.accelerator if isinstance(node.accelerator, str) else node.accelerator.name


def _hourly(node: Node) -> float:
    """The list price of one accelerator."""
    price = node.list_price
    if price is None:
        return math.inf
    return float(price.hourly) / (1.0 if price.per == "accelerator" else float(node.accelerators))


def buy(asked: Workload, machines: Sequence[Machine], most: float = MOST, pace: Watcher = UNWATCHED) -> Bought:
    """Every machine with its smallest plans that meet every limit with the chance that is asked for, least rent first.

    most: accelerators

    Raises:
        CostModelError: the scenario is wrong on all of them
    """
    asked = asked.whole()
    safe = stated_chance(asked.case) or preferred_chance(asked.case) or 0.0
    rows = [_bought(asked, machine, safe, most) for machine in pace.taken(machines, len(machines))]
    found = Bought(asked, tuple(rows), safe, len(machines))
    faults = [row.plans.fault for row in rows if row.plans.fault is not None]
    if rows and len(faults) == len(machines) and len({fault.code for fault in faults}) == 1:
        raise CostModelError(faults[0])

    def order(row: Purchase) -> tuple[bool, float, float, str]:
        rent = found.rent(row).in_use
        return not row.works, math.inf if math.isnan(rent) else rent, row.gpus, row.machine.node

    return Bought(asked, tuple(sorted(rows, key=order)), safe, len(machines))


def _bought(asked: Workload, machine: Machine, safe: float, most: float) -> Purchase:
    try:
        varied = asked.of(vary_any(asked.case, machine.settings))
        plans = varied.smallest(safe, most)
    except CostModelError as error:
        return Purchase(machine, SmallestPlans(fault=error.faults[0]))
    if plans.safe is None:
        return Purchase(machine, plans, runs=varied.measured_runs)
    looked_at = (asked.usual, f"{asked.usual}_high", asked.chance)
    trial = tried(asked, (*machine.settings, *plans.safe.settings), results=looked_at)
    return Purchase(machine, plans, trial, varied.measured_runs)
