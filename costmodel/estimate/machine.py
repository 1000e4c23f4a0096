"""Accelerators on their links, as groups of ranks see them: what training and serving share."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

from costmodel.documents.case import LoadedScenario
from costmodel.documents.efficiency import CollectiveFit, NetworkFit
from costmodel.equation import Number, term
from costmodel.equations.collectives import Operation
from costmodel.equations.counting import divided, world_size
from costmodel.units import Figure


def rent_of(case: LoadedScenario, written: Number | None) -> Number:
    """Rent of one accelerator, written or listed; not a number when neither is known."""
    listed = case.node.price
    if written is not None:
        return written
    if listed is None:
        return math.nan
    with term("list price"):
        return divided(listed.hourly, case.node.accelerators)


@dataclass(frozen=True, eq=False)
class Machine:
    """The cluster of a loaded scenario, with the fits of its collectives."""

    case: LoadedScenario
    collectives: dict[str, CollectiveFit]
    network: NetworkFit
    network_share: float

    @property
    def ranks(self) -> Number:
        """Accelerators of the whole cluster; a job takes them all."""
        return world_size(self.case.cluster.nodes, self.case.node.accelerators)

    @property
    def usable(self) -> float:
        """Bytes of an accelerator's memory that programs may use."""
        return self.case.accelerator.memory.usable

    @functools.cached_property
    def domain(self) -> float:
        """Accelerators of a scale-up domain; of a rack of nodes those that a job takes, as many of each if it can."""
        node = self.case.node
        whole, each, ranks = node.scale_up.domain, int(node.accelerators), int(self.ranks)
        if whole <= each:
            return whole
        nodes = range(each, int(min(whole, ranks)) + 1, each)
        taken = max(count for count in nodes if math.gcd(count, ranks) == count)
        if taken != ranks and taken + taken <= whole:
            return whole
        place = getattr(whole, "place", None)
        return Figure(taken, place and replace(place, path=f"{place.path}: those of {whole:g} that the job takes"))

    @property
    def pair_bandwidth(self) -> float:
        """What one pair of the domain gets; with a switch, all."""
        return self.case.node.scale_up.pair_bandwidth or self.case.scale_up.bandwidth

    @property
    def host_bandwidth(self) -> float:
        """The link to the host, over which accelerators without a common fabric talk."""
        return (self.case.host or self.case.scale_up).bandwidth

    def collective(self, operation: Operation) -> CollectiveFit:
        """The fit of a collective inside the scale-up domain; a send is fitted by all-gather."""
        return self.collectives.get(operation, self.collectives["all_gather"])
