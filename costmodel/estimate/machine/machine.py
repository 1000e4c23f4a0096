"""Accelerators on their links, as groups of ranks see them: what training and serving share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.efficiency import CollectiveFit, NetworkFit
from costmodel.equations.network.collectives import Operation
from costmodel.equations.parallelism.counts import world_size
from costmodel.estimate.machine.node_in_use import domain_of
from costmodel.ground.equation import Number

_STAND_INS = {"reduce": "reduce_scatter"}  # that adds up too; all others move bytes as an all-gather does


@dataclass(frozen=True, eq=False)
class Machine:
    """The cluster of a loaded scenario, with the fits of its collectives."""

    case: LoadedScenario
    collectives: dict[str, CollectiveFit]
    network: NetworkFit
    network_share: float
    algorithms: tuple[str, ...]  # of all-reduces beside rings and what the fits hold

    @property
    def ranks(self) -> Number:
        """Accelerators of the whole cluster; a job uses all of them."""
        return world_size(self.case.cluster.nodes, self.case.node.accelerators)

    @property
    def usable(self) -> float:
        """Bytes of an accelerator's memory that programs may use."""
        return self.case.accelerator.memory.usable

    @property
    def domain(self) -> Number:
        """Accelerators of a scale-up domain that the job uses."""
        return domain_of(self.case, self.ranks)

    @property
    def pair_bandwidth(self) -> float:
        """Bandwidth between one pair of accelerators in the domain; with a switch, their full bandwidth."""
        return self.case.node.scale_up.pair_bandwidth or self.case.scale_up.bandwidth

    @property
    def host_bandwidth(self) -> float:
        """Bandwidth of the link to the host, which accelerators without a common fabric use."""
        return (self.case.host or self.case.scale_up).bandwidth

    def fitted_by(self, operation: Operation) -> str:
        """The collective whose fit an operation uses inside the scale-up domain: another one if it has no fit."""
        return operation if operation in self.collectives else _STAND_INS.get(operation, "all_gather")

    def bound_between(self, axis: str) -> float:
        """Upper bound on an accelerator's rate to other nodes in a group of that name; infinite unless overridden."""
        del axis
        return math.inf

    def collective(self, operation: Operation) -> CollectiveFit:
        """The fit of a collective inside the scale-up domain."""
        return self.collectives[self.fitted_by(operation)]
