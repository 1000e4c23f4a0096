"""Figures of a host that a node's document lacks: those of a shipped node stand in for the user's own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from costmodel.documents.reader.library import names, read
from costmodel.ground.errors import CostModelError
from costmodel.ground.units import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from costmodel.documents.schemas.hardware import Node
    from costmodel.estimate.evaluate.predict import Answer

SOURCE = "own-figures"
_GROUPS = {"memory": ("capacity", "bandwidth"), "drives": ("capacity", "read", "write")}


def host_figures(answer: Answer) -> tuple[tuple[str, ...], str]:
    """Settings for the missing figures of the host, and the node they are from; none where no node has them all."""
    host, structure = answer.inputs.host, answer.evaluation.block.structure
    groups = ["memory"] if math.isnan(host.capacity) else []
    groups += ["drives"] if structure.offload_to == "nvme" and math.isnan(host.drives) else []
    linked = not math.isnan(host.link)
    for node in _alike(answer):
        if all(getattr(node, group) is not None for group in groups) and (linked or isinstance(node.host, str)):
            link = () if linked else (f"cluster.node.host={node.host}",)
            return (*link, *(_setting(node, group) for group in groups)), f"figures of {node.name}: put your own"
    return (), ""


def _alike(answer: Answer) -> Iterator[Node]:
    """Shipped nodes with the same accelerator, then the others by the memory of their hosts."""
    found = []
    for name in names("node"):
        try:
            node: Node = read("node", name)
        except CostModelError:
            continue
        if node.memory is not None:
            found.append((node.accelerator != answer.inputs.case.accelerator.name, node.memory.capacity, name, node))
    yield from (node for *_, node in sorted(found, key=lambda each: each[:3]))


def _setting(node: Node, group: str) -> str:
    held, units = getattr(node, group), {"capacity": "B"}
    figures = (f"{name}: {show(float(getattr(held, name)), units.get(name, 'B/s'))}" for name in _GROUPS[group])
    return f"cluster.node.{group}={{{', '.join(figures)}, source: {SOURCE}, check: known}}"
