"""The host's side of a node as numbers: its link, its memory, its drives; not a number where no document says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.equations.run.economics import share
from costmodel.ground.equation import Number
from costmodel.ground.errors import fail


@dataclass(frozen=True)
class Host:
    """Rates and capacities of a node's host; the link is of one accelerator, all else of the node."""

    link: float
    link_share: Number
    bandwidth: float
    capacity: float
    drives: float
    read: float
    write: float
    ranks: float


def host_of(case: ResolvedScenario, choose: Callable[[str, float | None, float, str], float]) -> Host:
    """What the documents say about the host; a share of its link is spoken of only where something is offloaded."""
    node, fabric = case.node, case.host
    memory, drives = node.memory, node.drives
    written = case.scenario.assume.host_share
    if fabric is not None and fabric.copies is not None:
        measured, origin = float(share(fabric.copies, fabric.bandwidth)), f"fabrics/{fabric.name}"
    else:
        common = case.common.host
        measured, origin = math.nan if common is None else common.share, f"efficiencies/{case.common.of}"
    reached: float = measured if written is None else written
    if _offloads(case):
        if math.isnan(reached):
            raise fail("D017", f"{origin} has no host part", case.place("plan.offload"), "write assume.host_share")
        reached = choose("assume.host_share", written, measured, origin)
    return Host(
        link=fabric.bandwidth if fabric is not None else math.nan,
        link_share=reached,
        bandwidth=memory.bandwidth if memory is not None else math.nan,
        capacity=memory.capacity if memory is not None else math.nan,
        drives=drives.capacity if drives is not None else math.nan,
        read=drives.read if drives is not None else math.nan,
        write=drives.write if drives is not None else math.nan,
        ranks=node.accelerators,
    )


def _offloads(case: ResolvedScenario) -> bool:
    """Whether the scenario's plan, or one it searches, keeps anything on the host."""
    plan = case.scenario.plan
    return bool((plan and plan.offload) or any(case.space.offload or ()))
