"""What would make the nearest plan fit, each remedy evaluated before it is said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from costmodel.documents.case import Case, case_of
from costmodel.documents.library import names, read
from costmodel.documents.paths import changed
from costmodel.errors import CostModelError
from costmodel.estimate.block import one_row
from costmodel.estimate.evaluate import evaluate
from costmodel.estimate.legality.checks import refusals
from costmodel.estimate.setting import Setting, setting_of
from costmodel.explore.search.rank import Ranked
from costmodel.units import gib

MOST_NODES = 64


def what_would_fit(setting: Setting, nearest: Sequence[Ranked]) -> Iterator[str]:
    """Changes under which the nearest plan fits: more nodes of the same kind, or other accelerators."""
    if not nearest or nearest[0].costs["memory_share"] <= 1:
        return
    plan = nearest[0]
    yield from _more_nodes(setting, plan)
    yield from _other_nodes(setting, plan)


def _peak(case: Case, plan: Ranked, dp: float) -> tuple[float, float] | None:
    """Peak and usable memory of a plan in a changed case, or nothing when it is not legal there."""
    try:
        setting = setting_of(case)
    except CostModelError:
        return None
    sizes = {**plan.sizes, "dp": dp}
    block = one_row(plan.structure, **sizes)
    if refusals(setting, block):
        return None
    costs = evaluate(setting, block).costs.row()
    return costs["memory_peak"], float(setting.usable)


def _more_nodes(setting: Setting, plan: Ranked) -> Iterator[str]:
    """The fewest nodes, doubled, on which the plan fits with more replicas, sharded as far as that takes."""
    case = setting.case
    factor = 2
    while factor <= MOST_NODES:
        nodes = case.scenario.cluster.nodes * factor
        larger = replace(case, scenario=changed(case.scenario, "cluster.nodes", nodes))
        dp = plan.sizes["dp"] * factor
        for zero in dict.fromkeys((plan.structure.zero, *sorted(setting.stack.zero))):
            sharded = replace(plan, structure=replace(plan.structure, zero=zero))
            found = _peak(larger, sharded, dp)
            if found and found[0] <= found[1]:
                wider = f"{nodes:,.0f} nodes, dp {dp:.0f}, zero {zero}"
                yield f"{wider} → fits at {gib(found[0])} of {gib(found[1])} GiB"
                return
        factor *= 2


def _other_nodes(setting: Setting, plan: Ranked) -> Iterator[str]:
    case = setting.case
    seen = {case.accelerator.name}
    for name in names("node"):
        try:
            node = read("node", name)
            if node.accelerators != case.node.accelerators:
                continue
            other = case_of(changed(case.scenario, "cluster.node", node))
        except CostModelError:
            continue
        if other.accelerator.name in seen:
            continue
        seen.add(other.accelerator.name)
        found = _peak(other, plan, plan.sizes["dp"])
        if found and found[0] <= found[1]:
            yield f"node {name} ({other.accelerator.name}) → fits at {gib(found[0])} of {gib(found[1])} GiB"
