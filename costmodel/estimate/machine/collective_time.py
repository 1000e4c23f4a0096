"""Time of a collective and of a send over a group: inside the domains and across them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from costmodel.documents.schemas.base import OWN
from costmodel.documents.schemas.efficiency import CollectiveFit, Protocol
from costmodel.equations.network.collectives import (
    Operation,
    blended_time,
    bus_bandwidth,
    double_tree_bytes,
    group_latency,
    halving_doubling_time,
    handled_bytes,
    network_reduce_time,
    pipelined_time,
    ring_latency,
    ring_time,
    switch_reduce_bytes,
    tree_latency,
    wire_bytes,
)
from costmodel.equations.network.topology import two_level_time
from costmodel.estimate.machine.process_groups import Group, Machine, collective_link_rate, has_nvls_fit, network_rate
from costmodel.estimate.shared.results import number
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.record import record

# The algorithms of collectives: which operations each serves, at which level, what it needs, and its time.

Level = Literal["inside", "between"]
FITTED = "fitted"
_RINGS = ("all_reduce", "all_gather", "reduce_scatter")
_EVERY = frozenset(get_args(Operation))
_ALL_REDUCE = frozenset(("all_reduce",))


@record
class Algorithm:
    """One way to run a collective, inside a domain or between domains.

    needed: what the machine and its software must have
    time: seconds over the group's fullest domain, or between its domains
    switched: the domains before it add up in their switches where they have NVLS
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
    """Seconds of a collective by its fit, measured with the algorithm that the library chose (NVLS where available)."""
    return ring_inside_time(inputs, inputs.collective(operation), message, group, operation, group.inside)


def ring_inside_time(
    inputs: Machine, fit: CollectiveFit, message: Number, group: Group, operation: Operation, ranks: Number
) -> Number:
    """Time of a ring over the given number of ranks inside the fullest domain, by a fit."""
    latency = group_latency(group.inside, fit.start, fit.hop)
    wire = handled_bytes(wire_bytes(message, ranks, operation=operation), group.inside, fit.own)
    return blended_time(latency, wire, collective_link_rate(inputs, fit, group.inside), fit.blend)


def nvls_time(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    """Seconds of an all-reduce inside a domain whose switches add up the data (NVLS)."""
    fit = inputs.case.efficiency.alone["nvls"]
    latency = group_latency(group.inside, fit.start, fit.hop)
    sent = switch_reduce_bytes(message, group.inside)
    return blended_time(latency, sent, collective_link_rate(inputs, fit, group.inside), fit.blend)


def between_rate(inputs: Machine, group: Group, operation: Operation) -> Number:
    """Network rate [B/s] of a rank between domains."""
    return network_rate(inputs, inputs.network_share, group, operation)


def bytes_between_domains(message: Number, group: Group, operation: Operation) -> Number:
    """Bytes that one rank sends to other domains: its part of the message, its whole buffer in an all-to-all."""
    return message if operation == "all_to_all" else message / group.fewest


def _ring_time(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    """Time [s] of a ring between domains, or of an all-to-all for operations that run no ring."""
    rate, sent = between_rate(inputs, group, operation), bytes_between_domains(message, group, operation)
    if operation in _RINGS:
        return rings_between(inputs, wire_bytes(sent, group.domains, operation=operation), group, rate, operation)
    simple = inputs.protocols.simple
    return simple.start + ring_time(
        sent, group.domains, rate, simple.ring.far + inputs.network.latency_beyond_infiniband, operation=operation
    )


def _available_protocols(inputs: Machine) -> Iterator[tuple[str, Protocol]]:
    """Name and constants of each NCCL protocol that the software does not switch off."""
    for name in ("ll", "ll128", "simple"):
        if (constants := getattr(inputs.protocols, name)) is not None:
            yield name, constants


def rings_between(inputs: Machine, wire: Number, group: Group, rate: Number, operation: Operation) -> Number:
    """Time [s] of a ring through all ranks by the fastest protocol; each sends `wire` bytes between domains."""
    times = {}
    for name, each in _available_protocols(inputs):
        with term(name):
            # NCCL: where each domain has one rank, no step inside hides what one between them takes.
            far = np.where(group.inside > 1, each.ring.far, each.tree.far) + inputs.network.latency_beyond_infiniband
            latency = ring_latency(group.ranks, group.domains, each.start, each.ring.near, far, operation=operation)
            times[name] = blended_time(latency, wire, each.share * rate, 0.0)
    return _fastest_time(times)


def trees_between(inputs: Machine, message: Number, group: Group, rate: Number) -> Number:
    """Seconds of an all-reduce by a tree of domains and a chain inside each, with the fastest protocol."""
    times = {}
    for name, each in _available_protocols(inputs):
        with term(name):
            far = each.tree.far + inputs.network.latency_beyond_infiniband
            latency = tree_latency(group.inside, group.domains, each.start, each.tree.near, far)
            sent = double_tree_bytes(message, group.domains)
            times[name] = pipelined_time(latency, sent, each.share * rate)
    return _fastest_time(times)


def _tree_time(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    rate, part = between_rate(inputs, group, operation), bytes_between_domains(message, group, operation)
    return trees_between(inputs, part, group, rate)


def _halving_time(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    """Time of recursive halving and doubling between domains, whose number must be a power of two."""
    rate, part = between_rate(inputs, group, operation), bytes_between_domains(message, group, operation)
    whole = inputs.protocols.simple
    return whole.start + halving_doubling_time(
        part, group.domains, rate, whole.ring.far + inputs.network.latency_beyond_infiniband
    )


def _sharp_time(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    """Seconds of an all-reduce between domains whose network switches add up the data (SHARP)."""
    rate, part = between_rate(inputs, group, operation), bytes_between_domains(message, group, operation)
    whole = inputs.protocols.simple
    return whole.start + network_reduce_time(part, rate, whole.tree.far + inputs.network.latency_beyond_infiniband)


def _is_listed_algorithm(name: str) -> Callable[[Machine], bool]:
    """A test whether the stack enables the named algorithm."""
    return lambda inputs: name in inputs.algorithms


ALGORITHMS = (
    Algorithm(FITTED, "inside", _EVERY, lambda _: True, fitted_time, "as measured with the library's own choice"),
    Algorithm(
        "nvls",
        "inside",
        _ALL_REDUCE,
        lambda inputs: "nvls" in inputs.algorithms and has_nvls_fit(inputs.case),
        nvls_time,
        "NVLS, added up in the switches of the domain",
    ),
    Algorithm("ring", "between", _EVERY, lambda _: True, _ring_time, "ring, the least bytes on every link"),
    Algorithm(
        "tree",
        "between",
        _ALL_REDUCE,
        _is_listed_algorithm("tree"),
        _tree_time,
        "tree, fewer steps where latency counts",
    ),
    Algorithm(
        "halving-doubling",
        "between",
        _ALL_REDUCE,
        _is_listed_algorithm("halving-doubling"),
        _halving_time,
        "halving and doubling, a ring's bytes in a tree's steps",
    ),
    Algorithm(
        "sharp",
        "between",
        _ALL_REDUCE,
        lambda inputs: "sharp" in inputs.algorithms and inputs.case.scale_out.reduces,
        _sharp_time,
        "SHARP, added up in the switches of the network",
        switched=True,
    ),
)


def collective_time(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    """Time of a collective over a group, with the fastest algorithm inside the domains and the fastest across them."""
    inside = fastest_time_inside(inputs, message, group, operation)
    if np.all(group.domains == 1):
        return inside
    with term("between domains"):
        across = _fastest_time(algorithm_times(inputs, message, group, operation, "between"))
        across = np.where(group.domains > 1, across, 0.0)
    return two_level_time(inside, across, inputs.network.serial_share)


def fastest_time_inside(inputs: Machine, message: Number, group: Group, operation: Operation) -> Number:
    """Time of a collective inside the fullest domain."""
    with term("inside the domain"):
        return _fastest_time(algorithm_times(inputs, message, group, operation, "inside"))


def algorithm_times(
    inputs: Machine, message: Number, group: Group, operation: Operation, level: Level
) -> dict[str, Number]:
    """Time of each available algorithm at a level."""
    times = algorithms(inputs, operation, level)
    return {each.name: known_as(each.name, each.time(inputs, message, group, operation)) for each in times}


def fastest_algorithms(inputs: Machine, message: Number, group: Group, operation: Operation) -> tuple[str, ...]:
    """The fastest algorithm inside the domains, and the one between them where the group spans several."""
    levels: list[Level] = []
    if np.all(group.inside > 1):
        levels.append("inside")
    if np.all(group.domains > 1):
        levels.append("between")
    times = (algorithm_times(inputs, message, group, operation, level) for level in levels)
    return tuple(min(time, key=lambda name: number(time[name])) for time in times)


def _fastest_time(times: dict[str, Number]) -> Number:
    first, *others = times.values()
    for other in others:
        first = np.minimum(first, other)
    return first


def send_time(inputs: Machine, message: Number, group: Group) -> Number:
    """Time of a send to the next stage, over the slowest boundary of the group."""
    fit, network = inputs.collective("send"), inputs.network
    with term("send inside"):
        near = blended_time(fit.start, message, collective_link_rate(inputs, fit, 2.0), fit.blend)
    with term("send across"):
        rate = network_rate(inputs, network.pair_share, group, "send")
        far = blended_time(inputs.protocols.simple.start + network.latency_beyond_infiniband, message, rate, fit.blend)
    return np.where(group.domains > 1, far, near)


# Time of a collective alone, as nccl-tests measures it; in a step that also computes, it is slower.


@record
class AlgorithmTime:
    """Seconds of one collective algorithm: its part inside the domains, and its part between them.

    Chunks are pipelined through both parts, so only the slower part counts.

    follows: whether the network interfaces wait for the links inside a domain, which pass on the bytes for other
        domains
    """

    name: str
    inside: Number
    between: Number
    follows: bool = False

    @property
    def total(self) -> Number:
        """Seconds from the first send to the last receive."""
        return np.maximum(known_as("inside", self.inside), known_as("between", self.between))


def collective_times_alone(inputs: Machine, message: Number, group: Group, operation: Operation) -> list[AlgorithmTime]:
    """Seconds of each algorithm for a collective that runs alone.

    Those that NCCL chooses from or the stack enables, fastest first.
    """
    share, far = inputs.network.alone, bool(np.all(group.domains > 1))
    machine = inputs if share is None else replace(inputs, network_share=share)
    ways = (
        _algorithms_between_domains(machine, message, group, operation)
        if far
        else _times_inside_node(machine, message, group, operation)
    )
    return sorted(ways, key=lambda way: number(way.total))


def best_bus_bandwidth(inputs: Machine, message: Number, group: Group, operation: Operation) -> float:
    """Bus bandwidth [B/s] of the fastest algorithm, as nccl-tests prints it."""
    time = collective_times_alone(inputs, message, group, operation)[0].total
    return number(bus_bandwidth(message, group.ranks, time, operation=operation))


def _times_inside_node(inputs: Machine, message: Number, group: Group, operation: Operation) -> Iterator[AlgorithmTime]:
    """The time [s] of each algorithm for a collective inside one node: fitted, ring, NVLS."""
    yield AlgorithmTime("fitted", fitted_time(inputs, message, group, operation), 0.0)
    if operation != "all_reduce" or _is_fitted_on_own_timings(inputs, operation):
        return
    if "ring" in inputs.case.efficiency.alone:
        fit = _ring_fit_alone(inputs, operation)
        yield AlgorithmTime("ring", ring_inside_time(inputs, fit, message, group, operation, group.ranks), 0.0)
    if has_nvls_fit(inputs.case):
        yield AlgorithmTime("nvls", nvls_time(inputs, message, group, operation), 0.0)


def _is_fitted_on_own_timings(inputs: Machine, operation: Operation) -> bool:
    """Whether this collective was fitted on your own timings, which include the library's choice of algorithm."""
    return inputs.collective(operation).source.startswith(OWN)


def _ring_fit_alone(inputs: Machine, operation: Operation) -> CollectiveFit:
    """The fit of rings inside a domain, as measured alone."""
    known = operation == "all_reduce" and not _is_fitted_on_own_timings(inputs, operation)
    fit = inputs.case.efficiency.alone.get("ring") if known else None
    return fit or inputs.collective(operation)


def _algorithms_between_domains(
    inputs: Machine, message: Number, group: Group, operation: Operation
) -> Iterator[AlgorithmTime]:
    """Seconds of each algorithm over several domains.

    NCCL's ring goes through all ranks, its tree through the domains. Each result states whether network interfaces wait
    for the links inside a domain.
    """
    if operation not in _RINGS:
        for each in algorithms(inputs, operation, "between"):
            near = fitted_time(inputs, message, group, operation)
            yield AlgorithmTime(each.name, near, each.time(inputs, message, group, operation))
        return
    fit, rate = _ring_fit_alone(inputs, operation), between_rate(inputs, group, operation)
    near = ring_inside_time(inputs, fit, message, group, operation, group.ranks)
    sent = wire_bytes(message, group.ranks, operation=operation)
    inside = handled_bytes(sent, group.inside, fit.own) / collective_link_rate(inputs, fit, group.inside)

    def both(wire: Number) -> Number:
        """The rate [B/s] between domains, lowered if the links inside a domain cannot follow."""
        return np.minimum(known_as("interfaces", rate), known_as("links inside the domain", wire / inside))

    def follows(wire: Number) -> bool:
        """Whether interfaces wait for the links inside a domain for this many bytes."""
        return number(wire / inside) < number(rate)

    share = sent / group.fewest  # the bytes of all ranks leave over the interfaces of one domain together
    between = rings_between(inputs, share, group, both(share), operation)
    yield AlgorithmTime("ring", near, between, follows(share))
    if operation != "all_reduce":
        return
    part = bytes_between_domains(message, group, operation)
    sent_by_tree = double_tree_bytes(part, group.domains)
    between = trees_between(inputs, part, group, both(sent_by_tree))
    yield AlgorithmTime("tree", near, between, follows(sent_by_tree))
    switches = has_nvls_fit(inputs.case) and not _is_fitted_on_own_timings(inputs, operation)
    switched = nvls_time(inputs, message, group, operation) if switches else near
    if switches:
        nvls = inputs.protocols.nvls
        latency = tree_latency(1.0, group.domains, nvls.start, 0.0, nvls.far + inputs.network.latency_beyond_infiniband)
        between = pipelined_time(latency, double_tree_bytes(part, group.domains), rate)
        yield AlgorithmTime("nvls-tree", switched, between)
    for each in algorithms(inputs, operation, "between"):
        if each.name not in ("ring", "tree"):  # whose forms above are those of one library
            within = switched if each.switched else near
            yield AlgorithmTime(each.name, within, each.time(inputs, message, group, operation))
