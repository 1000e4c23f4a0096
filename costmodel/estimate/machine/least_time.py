"""Lower bound of the time of a collective: its links at line rate."""

from __future__ import annotations

from costmodel.equations.network.collectives import Operation, line_rate_time
from costmodel.estimate.machine.links import link_of
from costmodel.estimate.machine.machine import Machine
from costmodel.estimate.machine.node_in_use import interface_rate, nvls_at
from costmodel.estimate.machine.process_groups import Group
from costmodel.estimate.shared.results import number


def least_time(inputs: Machine, message: float, group: Group, operation: Operation, algorithm: str) -> float:
    """Seconds that the slowest link needs: the interfaces of a domain, or the links of a rank, all of them together."""
    link, far = number(link_of(inputs, group.inside)), float(group.domains) > 1
    interface = number(interface_rate(inputs.case, 1.0)) if far else 0.0
    own = (link if float(group.inside) > 1 else 0.0) + interface
    added = nvls_at(inputs.case) or algorithm == "sharp"
    of_rank = line_rate_time(message, group.ranks, 1.0, group.ranks, own, operation=operation, switched=added)
    if not far:
        return number(of_rank)
    shape = (group.ranks, group.fewest, group.domains)
    return max(
        number(of_rank),
        number(line_rate_time(message, *shape, interface, operation=operation, switched=algorithm == "sharp")),
    )
