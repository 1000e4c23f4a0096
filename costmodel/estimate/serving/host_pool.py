"""Where an engine keeps cache and experts beside its accelerators: host memory, drives or a store; the way there."""

from __future__ import annotations

import math

import numpy as np

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.serving.engine import EngineHostCache
from costmodel.equations.run.economics import share
from costmodel.equations.serving.cache_pool import shared_host_rate
from costmodel.estimate.machine.process_groups import interface_rate
from costmodel.estimate.shared.assumptions import AssumptionLog
from costmodel.ground.equation import Number, term
from costmodel.ground.errors import fail
from costmodel.ground.record import record
from costmodel.ground.units import show


@record
class HostPool:
    """The KV cache on the host: the engine's settings, the rates of each accelerator, and capacity per node."""

    stated: EngineHostCache
    rate: Number  # of loading
    write: Number
    capacity: float
    accelerators: float  # of a node


def host_rate(case: LoadedScenario) -> Number | None:
    """Rate at which an accelerator loads from its host; None if no document states it."""
    link, node, common = case.host, case.node, case.common.host
    if link is None or (link.copies is None and common is None):
        return None
    reached = 1.0 if common is None else common.share
    with term("link to the host"):
        if link.copies is not None:
            reached = link.copies / link.bandwidth
        memory = math.inf if node.memory is None else node.memory.bandwidth
        return shared_host_rate(link.bandwidth, reached, memory, node.built)


def host_pool(case: ServingCase, log: AssumptionLog) -> HostPool | None:
    """The KV cache on the host; None if the engine has none."""
    stated = case.stack.host_cache
    if stated is None or not stated.kept:
        return None
    place = case.place("stack.host_cache")
    rate, write, capacity = _way(case, stated)
    if stated.rate is not None:
        rate, write = stated.rate, stated.rate
    plan, workload = case.scenario.plan, case.scenario.workload
    if plan is not None and plan.prefill is not None:
        hint = "leave stack.host_cache out, or let replicas do both"
        raise fail("D016", "a cache on the host is not modelled with prefill and decode apart", place, hint)
    if not case.stack.prefix_cache:
        raise fail("D016", "the engine reuses no cache: stack.prefix_cache is off", place, "leave stack.host_cache out")
    if workload.turns == 1:
        log.note("stack.host_cache", "finds nothing", "no turn comes back: workload.turns is 1")
    else:
        origin = "stack.host_cache.rate" if stated.rate is not None else f"{case.node.name}, each accelerator"
        log.note("host cache, rate", show(float(np.asarray(rate)), "B/s"), origin)
    return HostPool(stated, rate, write, capacity, case.node.built)


def _way(case: ServingCase, stated: EngineHostCache) -> tuple[Number, Number, float]:
    """Load and store rate of an accelerator, and capacity per node, for a cache in memory, on drives or in a store."""
    node, place = case.node, case.place("stack.host_cache.on", "stack.host_cache")
    if stated.on == "store":
        network = case.network.network
        reached = interface_rate(case, 1.0 if network is None else network.share)
        return reached, reached, math.inf
    link = host_rate(case)
    if link is None:
        raise fail("D017", f"{node.name} states no link to its host", place, "write host, e.g. pcie5x16")
    if stated.on == "memory":
        return link, link, math.inf if node.memory is None else node.memory.capacity
    if node.drives is None:
        hint = "write drives with capacity, read and write in its document, or on: store with a rate"
        raise fail("D017", f"{node.name} states no drives", place, hint)
    with term("share of the drives"):
        read, write = (share(each, node.built) for each in (node.drives.read, node.drives.write))
    return np.minimum(link, read), np.minimum(link, write), node.drives.capacity


@record
class HostExperts:
    """Share of routed experts in host memory, and the rates of a node's processors and of their memory."""

    share: float
    rate: float
    bandwidth: float

    @property
    def kept(self) -> float:
        """Share of experts on the devices, never exactly 0, so that their time stays a number."""
        return max(1.0 - self.share, 1e-9)


def host_experts(case: ServingCase, log: AssumptionLog) -> HostExperts | None:
    """The experts that a plan computes on the host; None if it has none there."""
    plan, engine, memory = case.scenario.plan, case.stack, case.node.memory
    if plan is None or not plan.host_experts:
        return None
    place = case.place("plan.host_experts")
    if not case.model.has_experts:
        raise fail("D016", f"{case.model.title} has no experts for host_experts", place, "leave host_experts out")
    if engine.host_experts is None:
        raise fail("D016", f"{engine.name} computes no experts on the host", place, "--set stack=sglang does")
    if plan.prefill is not None or plan.redundant_experts:
        beside = "prefill and decode apart" if plan.prefill is not None else "copies of experts"
        raise fail("D016", f"experts on the host are not modelled with {beside}", place, "leave one of them out")
    if memory is None:
        raise fail("D017", f"{case.node.name} states no memory of its processors", place, "write cluster.node.memory")
    log.note("experts on the host", "at the full rate of its memory", "an upper bound of speed, never measured")
    return HostExperts(plan.host_experts, engine.host_experts.rate, memory.bandwidth)
