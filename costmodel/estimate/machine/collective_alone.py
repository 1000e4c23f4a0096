"""Time of a collective alone, as nccl-tests measures it; in a step that also computes, it is slower."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.base import OWN
from costmodel.equations.network.collectives import Operation, bus_bandwidth, double_tree_time, flat_ring_time
from costmodel.estimate.machine.algorithm_table import (
    algorithms,
    between_rate,
    fitted_time,
    nvls_time,
    part_of,
    ring_inside_time,
)
from costmodel.estimate.machine.machine import Machine
from costmodel.estimate.machine.node_in_use import nvls_at
from costmodel.estimate.machine.process_groups import Group
from costmodel.estimate.shared.results import number
from costmodel.ground.equation import Number
from costmodel.ground.record import record

_RINGS = ("all_reduce", "all_gather", "reduce_scatter")


@record
class AloneTime:
    """Time of one algorithm inside and between domains. Chunks are pipelined through both, so the slower counts."""

    name: str
    inside: float
    between: float
    start: float
    least: float = 0.0

    @property
    def total(self) -> float:
        """Seconds from the first send to the last receive."""
        return max(max(self.inside, self.between) + self.start, self.least)


def alone_times(inputs: Machine, message: Number, group: Group, operation: Operation) -> list[AloneTime]:
    """Times of the algorithms that the library chooses from and of those that the stack enables; the fastest first."""
    share, far = inputs.network.alone, bool(np.all(group.domains > 1))
    machine = inputs if share is None else replace(inputs, network_share=share)
    start = float(inputs.network.start) if far else 0.0
    least = float(inputs.network.least or 0.0) if far and operation == "all_reduce" else 0.0
    ways = _far(machine, message, group, operation) if far else _near(machine, message, group, operation)
    found = [AloneTime(name, number(near), number(across), start, least) for name, near, across in ways]
    return sorted(found, key=lambda way: way.total)


def alone_bandwidth(inputs: Machine, message: Number, group: Group, operation: Operation) -> float:
    """Bus bandwidth of the fastest algorithm, as nccl-tests prints it."""
    time = alone_times(inputs, message, group, operation)[0].total
    return number(bus_bandwidth(message, group.ranks, time, operation=operation))


def _near(inputs: Machine, message: Number, group: Group, operation: Operation) -> Iterator[tuple[str, Number, Number]]:
    yield "fitted", fitted_time(inputs, message, group, operation), 0.0
    if operation != "all_reduce" or _is_own(inputs, operation):
        return
    if "ring" in inputs.case.efficiency.alone:
        yield "ring", _ring_inside(inputs, message, group, operation), 0.0
    if nvls_at(inputs.case):
        yield "nvls", nvls_time(inputs, message, group, operation), 0.0


def _is_own(inputs: Machine, operation: Operation) -> bool:
    """Whether this collective was fitted on your own timings, which include the library's choice of algorithm."""
    return inputs.collective(operation).source.startswith(OWN)


def _ring_inside(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    known = operation == "all_reduce" and not _is_own(inputs, operation)
    fit = inputs.case.efficiency.alone.get("ring") if known else None
    return ring_inside_time(inputs, fit or inputs.collective(operation), message, group, operation, group.ranks)


def _far(inputs: Machine, message: Number, group: Group, operation: Operation) -> Iterator[tuple[str, Number, Number]]:
    """Algorithms over several domains: NCCL's ring goes through all ranks, its tree through domains."""
    if operation not in _RINGS:
        for each in algorithms(inputs, operation, "between"):
            yield (
                each.name,
                fitted_time(inputs, message, group, operation),
                each.time(inputs, message, group, operation),
            )
        return
    near, rate = _ring_inside(inputs, message, group, operation), between_rate(inputs, group, operation)
    of_domain = group.fewest * rate
    hop = inputs.network.ring_hop
    yield "ring", near, flat_ring_time(message, group.ranks, group.domains, of_domain, hop, operation=operation)
    if operation != "all_reduce":
        return
    part = part_of(message, group, operation)
    tree = double_tree_time(part, group.domains, rate, inputs.network.tree_hop)
    yield "tree", near, tree
    switches = nvls_at(inputs.case) and not _is_own(inputs, operation)
    switched = nvls_time(inputs, message, group, operation) if switches else near
    if switches:
        yield "nvls-tree", switched, tree
    for each in algorithms(inputs, operation, "between"):
        if each.name not in ("ring", "tree"):  # whose forms above are those of one library
            yield each.name, switched if each.switched else near, each.time(inputs, message, group, operation)
