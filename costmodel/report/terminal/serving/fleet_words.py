"""Words for the accelerators that a load needs: how many, on how many nodes, and what their rent counts."""

from __future__ import annotations

import math
from collections.abc import Mapping

from costmodel.documents.reader.resolved_scenario import counted_by_gpus
from costmodel.estimate.serving.deployment_rent import Fleet, fleet_of
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.counts import number_of
from costmodel.ground.units import counted, rounded_dollars

UNKNOWN = "No price known; --price 2.50USD/GPU/h adds their rent"


def gpus_words(inputs: ServingInputs, gpus: float) -> str:
    """A number of accelerators in words, with the nodes that hold them."""
    used, fleet = number_of(gpus, "GPU"), fleet_of(inputs, gpus)
    if fleet.built == 1:
        return used
    nodes = f"{number_of(fleet.nodes, 'node')} of {fleet.built:,.0f}"
    if fleet.each < fleet.built and fleet.nodes > 1:
        most = "" if fleet.whole == gpus else "at most "
        return f"{used} on {nodes}, {most}{fleet.each:,.0f} of each in use"
    return f"{used}, {nodes}" if fleet.whole == gpus and fleet.each == fleet.built else f"{used} on {nodes}"


def whole_nodes_words(inputs: ServingInputs, gpus: float) -> str:
    """The --gpus option for whole nodes, if the accelerators do not fill their nodes; else empty."""
    fleet = fleet_of(inputs, gpus)
    if not counted_by_gpus(inputs.case) or fleet.nodes == 1 or fleet.whole == gpus:
        return ""
    return f" (--gpus {fleet.whole:.0f})"


def rent_words(inputs: ServingInputs, gpus: float) -> str:
    """A sentence on the rent of accelerators for a month, with the rent of whole nodes if it differs."""
    fleet = fleet_of(inputs, gpus)
    if math.isnan(fleet.month):
        return UNKNOWN
    counted = number_of(fleet.nodes, "whole node") if fleet.by_node else number_of(fleet.gpus, "GPU")
    return f"Their rent is {rounded_dollars(fleet.month)} a month of 730 h for {counted}{unpaid_words(fleet)}"


def unpaid_words(fleet: Fleet) -> str:
    """A remark if accelerators are paid one by one and do not fill their nodes; else empty."""
    if fleet.by_node or math.isnan(fleet.month):
        return ""
    if fleet.each < fleet.built:
        return f"; {min(fleet.each, fleet.gpus):,.0f} of {fleet.built:,.0f} in a node, the others not paid for"
    if fleet.whole == fleet.gpus:
        return ""
    verb = "costs" if fleet.nodes == 1 else "cost"
    named = f"{number_of(fleet.nodes, 'whole node')} ({number_of(fleet.whole, 'GPU')})"
    return f"; {named} {verb} {rounded_dollars(fleet.month_whole)}"


def replica_words(sizes: Mapping[str, float]) -> str:
    """The parallel degrees of one replica."""
    degrees = {name: sizes.get(name, 1.0) for name in ("tp", "pp", "ep", "dp_attention", "dcp")}
    return " · ".join(f"{name} {counted(size)}" for name, size in degrees.items() if size > 1 or name == "tp")
