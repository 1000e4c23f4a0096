"""The machine of a measured run: nodes of an accelerator, as the row has them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from costmodel.documents.hardware import Fabric, Node
from costmodel.documents.library import names
from costmodel.documents.shelf import Shelf
from costmodel.equations.counting import divided, repeated
from costmodel.equations.economics import share
from costmodel.explore.validate.chosen_rows import memory_of
from costmodel.explore.validate.fills import Filling
from costmodel.units import parse

SOURCE = "a row of a table"


@dataclass(frozen=True)
class Stand:
    """The node whose links and network stand for an accelerator's where a row says nothing else."""

    node: str
    link: str = ""  # one way to the other accelerators, where it is not the node's


_PCIE = "pcie-l40s-8"
STANDS = {
    "v100-sxm2-16": Stand("dgx-1v"),
    "v100-sxm2-32": Stand("dgx-1v"),
    "v100-pcie-16": Stand(_PCIE, "15.75 GB/s"),
    "a10": Stand(_PCIE),
    "a10g": Stand(_PCIE),
    "a100-sxm-40": Stand("dgx-a100"),
    "a100-sxm-80": Stand("dgx-a100"),
    "a100-pcie-40": Stand(_PCIE),
    "a100-pcie-80": Stand(_PCIE),
    "a800-sxm-80": Stand("dgx-a100", "200 GB/s"),  # 8 NVLinks of 25 GB/s one way
    "l4": Stand(_PCIE, "15.75 GB/s"),  # 8 lanes
    "l40s": Stand(_PCIE),
    "rtx4090": Stand("rtx4090-8"),
    "rtx5090": Stand("rtx4090-8", "63 GB/s"),
    "h100-sxm": Stand("dgx-h100"),
    "h100-sxm-96": Stand("dgx-h100"),
    "h100-pcie": Stand(_PCIE, "63 GB/s"),
    "h100-nvl": Stand(_PCIE, "63 GB/s"),
    "gh200-96": Stand("dgx-h100"),
    "h20": Stand("dgx-h100"),
    "h800-sxm": Stand("hgx-h800"),
    "h200-sxm": Stand("dgx-h200"),
    "b200-sxm": Stand("dgx-b200"),
    "b300-sxm": Stand("dgx-b300"),
    "gb200": Stand("gb200-nvl72"),
    "gb300": Stand("gb300-nvl72"),
    "mi250x": Stand("mi250x-frontier"),
    "mi250x-gcd": Stand("mi250x-frontier"),
    "mi300x": Stand("hgx-mi300x"),
    "mi325x": Stand("hgx-mi300x"),
    "mi350x": Stand("mi355x-8"),
    "mi355x": Stand("mi355x-8"),
    "gaudi2": Stand("gaudi2-8"),
    "gaudi3": Stand("gaudi3-8"),
    "tpu-v4": Stand("tpu-v4-slice"),
    "tpu-v5e": Stand("tpu-v5e-slice"),
    "tpu-v5p": Stand("tpu-v5p-slice"),
    "tpu-v6e": Stand("tpu-v6e-slice"),
    "tpu-v7": Stand("tpu-v7-slice"),
    "trn1": Stand("trn1"),
    "trn2": Stand("trn2"),
    "trn3": Stand("trn2"),
}


def stand_of(shelf: Shelf, accelerator: str) -> Stand | None:
    """The node that stands for an accelerator's: for one that is not shipped, the first that holds it."""
    if accelerator in STANDS:
        return STANDS[accelerator]
    nodes = (name for name in sorted(names("node")) if shelf.document("node", name).accelerator == accelerator)
    return next(map(Stand, nodes), None)


def cluster_of(filling: Filling, shelf: Shelf, accelerator: str, stand: Stand, ranks: float) -> dict[str, Any]:
    """Nodes of that accelerator with as many in each, and the network, as the row has them."""
    node: Node = shelf.document("node", stand.node)
    each = filling.row.number("gpus_per_node")
    if each is None and ranks > node.accelerators:
        each = filling.put("gpus_per_node", float(node.accelerators))
    each = min(each or node.accelerators, ranks)
    if ranks % each:
        each = float(math.gcd(int(each), int(ranks)))
    rack = node.scale_up.domain > node.accelerators
    return {
        "node": {
            "schema": "costmodel/node/v1",
            "name": "row",
            "title": f"{node.title}, as the row has it",
            "provider": node.provider,
            "accelerator": accelerator,
            "accelerators": each,
            "scale_up": _links(shelf, node, stand.link) | {"domain": node.scale_up.domain if rack else each},
            "scale_out": _network(filling, shelf, node, each, alone=ranks <= each),
            "host": node.host,
            **memory_of(node, each, SOURCE),
        },
        "nodes": ranks / each,
    }


def _links(shelf: Shelf, node: Node, link: str) -> dict[str, Any]:
    """The links of a node, of another rate where one is given."""
    written = node.scale_up.model_dump(exclude_none=True)
    if not link:
        return written
    paired = {"pair_bandwidth": link} if node.scale_up.pair_bandwidth is not None else {}
    return written | {"fabric": _fabric(shelf.document("fabric", node.scale_up.fabric), link)} | paired


def _network(filling: Filling, shelf: Shelf, node: Node, each: float, *, alone: bool) -> dict[str, Any]:
    """One port for each accelerator, of the row's rate or of the node's."""
    fabric: Fabric = shelf.document("fabric", node.scale_out.fabric)
    stated = filling.row.number("nic_gbps_per_gpu")
    if stated is None:
        port = divided(repeated(node.scale_out.nics, fabric.bandwidth), node.accelerators)
        stated = float(share(port, parse("1 Gb/s", "B/s")))
        if not alone:
            filling.put("nic_gbps_per_gpu", stated)
    return {"fabric": _fabric(fabric, f"{stated:g} Gb/s"), "nics": each, "source": SOURCE}


def _fabric(fabric: Fabric, bandwidth: str) -> dict[str, Any]:
    """A fabric of another rate."""
    return fabric.model_dump(by_alias=True, exclude_none=True) | {"bandwidth": bandwidth, "sources": {}}
