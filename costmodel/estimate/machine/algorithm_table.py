"""The algorithms of collectives: which operations each serves, at which level, what it needs, and its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from costmodel.documents.schemas.efficiency import CollectiveFit
from costmodel.equations.network.collectives import (
    Operation,
    blended_time,
    group_latency,
    halving_doubling_time,
    handled_bytes,
    network_reduce_time,
    ring_time,
    switch_reduce_bytes,
    tree_all_reduce_time,
    wire_bytes,
)
from costmodel.estimate.machine.links import inside_bandwidth, network_rate
from costmodel.estimate.machine.machine import Machine
from costmodel.estimate.machine.node_in_use import nvls_at
from costmodel.estimate.machine.process_groups import Group
from costmodel.ground.equation import Number
from costmodel.ground.record import record

Level = Literal["inside", "between"]
FITTED = "fitted"
_EVERY = frozenset(get_args(Operation))
_ALL_REDUCE = frozenset(("all_reduce",))


@record
class Algorithm:
    """One way to run a collective at one level; `needed` lists what the machine and its software must have.

    `time` is without the start of a call, over the group's fullest domain or between its domains. `switched`: domains
    before it add up in their switches where they have NVLS.
    """

    name: str
    level: Level
    operations: frozenset[str]
    needed: Callable[[Machine], bool]
    time: Callable[[Machine, Number, Group, Operation], Number]
    meaning: str
    switched: bool = False


def algorithms(inputs: Machine, operation: Operation, level: Level) -> list[Algorithm]:
    """The algorithms that this machine has for an operation inside a domain or between domains."""
    return [each for each in ALGORITHMS if each.level == level and operation in each.operations and each.needed(inputs)]


def fitted_time(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    """Time by the collective's fit, measured with the library's choice of algorithm (NVLS where available)."""
    return ring_inside_time(inputs, inputs.collective(operation), message, group, operation, group.inside)


def ring_inside_time(
    inputs: Machine, fit: CollectiveFit, message: Number, group: Group, operation: Operation, ranks: Number
) -> Number:
    """Time of a ring over so many ranks inside the fullest domain, by a fit."""
    latency = group_latency(group.inside, fit.start, fit.hop)
    wire = handled_bytes(wire_bytes(message, ranks, operation=operation), group.inside, fit.own)
    return blended_time(latency, wire, inside_bandwidth(inputs, fit, group.inside), fit.blend)


def nvls_time(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    """Time of an all-reduce inside a domain with NVLS, where the switches sum."""
    fit = inputs.case.efficiency.alone["nvls"]
    latency = group_latency(group.inside, fit.start, fit.hop)
    sent = switch_reduce_bytes(message, group.inside)
    return blended_time(latency, sent, inside_bandwidth(inputs, fit, group.inside), fit.blend)


def between_rate(inputs: Machine, group: Group, operation: Operation) -> Number:
    """Network rate that a rank reaches between domains."""
    return network_rate(inputs, inputs.network_share, group, operation)


def part_of(message: Number, group: Group, operation: Operation) -> Number:
    """Bytes that a rank sends between domains: its share of the domain's message; in an all-to-all its whole buffer."""
    return message if operation == "all_to_all" else message / group.fewest


def _ring(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    rate, part = between_rate(inputs, group, operation), part_of(message, group, operation)
    return ring_time(part, group.domains, rate, inputs.network.ring_hop, operation=operation)


def _tree(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    rate, part = between_rate(inputs, group, operation), part_of(message, group, operation)
    return tree_all_reduce_time(part, group.domains, rate, inputs.network.tree_hop)


def _halving(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    """Time of recursive halving and doubling between domains, whose number must be a power of two."""
    rate, part = between_rate(inputs, group, operation), part_of(message, group, operation)
    return halving_doubling_time(part, group.domains, rate, inputs.network.ring_hop)


def _sharp(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    """Time of an all-reduce between domains with SHARP, where the network's switches sum."""
    rate, part = between_rate(inputs, group, operation), part_of(message, group, operation)
    return network_reduce_time(part, rate, inputs.network.tree_hop)


def _listed(name: str) -> Callable[[Machine], bool]:
    return lambda inputs: name in inputs.algorithms


ALGORITHMS = (
    Algorithm(FITTED, "inside", _EVERY, lambda _: True, fitted_time, "as measured with the library's own choice"),
    Algorithm(
        "nvls",
        "inside",
        _ALL_REDUCE,
        lambda inputs: "nvls" in inputs.algorithms and nvls_at(inputs.case),
        nvls_time,
        "NVLS, added up in the switches of the domain",
    ),
    Algorithm("ring", "between", _EVERY, lambda _: True, _ring, "ring, the least bytes on every link"),
    Algorithm("tree", "between", _ALL_REDUCE, _listed("tree"), _tree, "tree, fewer steps where latency counts"),
    Algorithm(
        "halving-doubling",
        "between",
        _ALL_REDUCE,
        _listed("halving-doubling"),
        _halving,
        "halving and doubling, a ring's bytes in a tree's steps",
    ),
    Algorithm(
        "sharp",
        "between",
        _ALL_REDUCE,
        lambda inputs: "sharp" in inputs.algorithms and inputs.case.scale_out.reduces,
        _sharp,
        "SHARP, added up in the switches of the network",
        switched=True,
    ),
)
