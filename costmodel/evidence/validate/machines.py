"""The machine of a measured run: nodes with its accelerator, adjusted to the row."""

from __future__ import annotations

import math
from typing import Any

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.proxy_node import own_keys
from costmodel.documents.schemas.hardware import DefaultNode, Fabric, Node
from costmodel.equations.run.economics import share
from costmodel.evidence.validate.imputation import Filling
from costmodel.ground.parsing import parse

SOURCE = "a row of a table"


def cluster_of(
    filling: Filling, shelf: CachedReader, accelerator: str, stand: DefaultNode, ranks: float
) -> dict[str, Any]:
    """Nodes of that accelerator with the row's number per node, and the row's network."""
    node: Node = shelf.document("node", stand.node)
    each = filling.row.number("gpus_per_node")
    if each is None and ranks > node.accelerators:
        each = filling.put("gpus_per_node", float(node.accelerators))
    each = min(each or node.accelerators, ranks)
    if ranks % each:
        each = float(math.gcd(int(each), int(ranks)))
    rack = node.scale_up.domain > node.accelerators
    own, of_links = own_keys(shelf, accelerator, stand), "scale_up."
    links = node.scale_up.model_dump(exclude_none=True)
    links |= {key.removeprefix(of_links): value for key, value in own.items() if key.startswith(of_links)}
    return {
        "node": {
            "schema": "costmodel/node/v1",
            "name": "row",
            "title": f"{node.title}, as the row has it",
            "provider": node.provider,
            "accelerator": accelerator,
            "accelerators": each,
            "scale_up": links | {"domain": node.scale_up.domain if rack else each},
            "scale_out": _network(filling, shelf, node, each, alone=ranks <= each),
            "host": own.get("host", node.host),
            **_memory(node, each),
        },
        "nodes": ranks / each,
    }


def _memory(node: Node, each: float) -> dict[str, Any]:
    """The host memory per accelerator, where the node's is known."""
    if node.memory is None:
        return {}
    part = each / node.accelerators
    capacity, bandwidth = node.memory.capacity * part, node.memory.bandwidth * part
    return {"memory": {"capacity": f"{capacity:g} B", "bandwidth": f"{bandwidth:g} B/s", "source": SOURCE}}


def _network(filling: Filling, shelf: CachedReader, node: Node, each: float, *, alone: bool) -> dict[str, Any]:
    """One port per accelerator, with the rate of the row or of the node."""
    fabric: Fabric = shelf.document("fabric", node.scale_out.fabric)
    stated = filling.row.number("nic_gbps_per_gpu")
    if stated is None:
        port = node.scale_out.nics * fabric.bandwidth / node.accelerators
        stated = float(share(port, parse("1 Gb/s", "B/s")))
        if not alone:
            filling.put("nic_gbps_per_gpu", stated)
    return {"fabric": _fabric(fabric, f"{stated:g} Gb/s"), "nics": each, "source": SOURCE}


def _fabric(fabric: Fabric, bandwidth: str) -> dict[str, Any]:
    """The same fabric with another rate."""
    return fabric.model_dump(by_alias=True, exclude_none=True) | {"bandwidth": bandwidth, "sources": {}}
