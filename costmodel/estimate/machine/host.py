"""The host of a node as numbers: its link, its memory, its drives; NaN where no document states one."""

from __future__ import annotations

import math
from typing import Protocol

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.efficiency import HostUpdateFit
from costmodel.equations.run.economics import share
from costmodel.ground.equation import Number
from costmodel.ground.errors import fail
from costmodel.ground.record import record


class Choice(Protocol):
    """A function that returns the stated value of a key, or else the default, which it records as an assumption."""

    def __call__(self, path: str, written: float | None, default: float, origin: str, unit: str = "1") -> float:
        """The stated value, or the default."""


@record
class Host:
    """Rates and capacities of a node's host; `link` is of one accelerator, all others of the node."""

    link: float
    link_share: Number
    bandwidth: float
    capacity: float
    drives: float
    read: float
    write: float
    ranks: float
    cores: float
    update: HostUpdateFit
    update_share: float


def host_of(case: ResolvedScenario, choose: Choice) -> Host:
    """Rates and capacities of the host; the share of its link becomes an assumption only if the plan offloads."""
    node, fabric, fit = case.node, case.host, _update_fit(case)
    drives = node.drives
    capacity, bandwidth = _memory(case, choose)
    written = case.scenario.assume.host_share
    if fabric is not None and fabric.copies is not None:
        measured, origin = float(share(fabric.copies, fabric.bandwidth)), f"fabrics/{fabric.name}"
    else:
        common = case.common.host
        measured, origin = math.nan if common is None else common.share, f"efficiencies/{case.common.of}"
    reached: float = measured if written is None else written
    if _uses_host(case):
        if math.isnan(reached):
            raise fail("D017", f"{origin} has no host part", case.place("plan.offload"), "write assume.host_share")
        reached = choose("assume.host_share", written, measured, origin)
    return Host(
        link=fabric.bandwidth if fabric is not None else math.nan,
        link_share=reached,
        bandwidth=bandwidth,
        capacity=capacity,
        drives=drives.capacity if drives is not None else math.nan,
        read=drives.read if drives is not None else math.nan,
        write=drives.write if drives is not None else math.nan,
        ranks=node.accelerators,
        cores=math.inf if node.memory is None or node.memory.cores is None else node.memory.cores,
        update=fit,
        update_share=_update_share(case, choose, fit),
    )


def _update_fit(case: ResolvedScenario) -> HostUpdateFit:
    """Fit of optimizer updates on host processors, the same for all accelerators."""
    common = case.common.host
    if common is None or common.update is None:
        raise fail(
            "D017", f"efficiencies/{case.common.of} does not state how fast hosts update", None, "write host.update"
        )
    return common.update


def _update_share(case: ResolvedScenario, choose: Choice, fit: HostUpdateFit) -> float:
    """Share of the host memory's bandwidth that an optimizer update on the host reaches."""
    written = case.scenario.assume.host_update
    if not _uses_host(case):
        return fit.share if written is None else written
    return choose("assume.host_update", written, fit.share, f"efficiencies/{case.common.of}")


def _memory(case: ResolvedScenario, choose: Choice) -> tuple[float, float]:
    """Capacity and bandwidth of host memory; a node that states none takes values assumed by its link to the host."""
    stated, common = case.node.memory, case.common.host
    if stated is not None:
        return stated.capacity, stated.bandwidth
    link = "" if case.host is None else case.host.name
    assumed = None if common is None else common.memory.get(link)
    if assumed is None:
        return math.nan, math.nan
    capacity = float(case.node.built * assumed.capacity)
    bandwidth = float(case.node.built * assumed.bandwidth)
    if _uses_host(case):
        origin = f"least of shipped nodes with {link}"
        choose("cluster.node.memory.capacity", None, capacity, origin, "B")
        choose("cluster.node.memory.bandwidth", None, bandwidth, origin, "B/s")
    return capacity, bandwidth


def _uses_host(case: ResolvedScenario) -> bool:
    """Whether the plan, the search or the software itself offloads to the host, or the optimizer may page states."""
    plan, usual = case.scenario.plan, case.stack.offloaded_by_itself("full")
    return bool((plan and plan.offload) or any(case.space.offload or ()) or usual or case.optimizer.paged)
