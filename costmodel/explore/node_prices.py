"""List prices of nodes, for each of their accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from costmodel.documents.reader.library import read
from costmodel.documents.schemas.hardware import Node


class NodePrice(NamedTuple):
    """A list price of one accelerator, in USD an hour, and the date it was seen."""

    hourly: float
    date: str


def node_prices(names: Sequence[str]) -> dict[str, NodePrice | None]:
    """The list price of every node; none where it has none."""
    return {name: _price(read("node", name)) for name in names}


def _price(node: Node) -> NodePrice | None:
    listed = node.list_price
    if listed is None:
        return None
    each = float(listed.hourly) * 3600 / (1.0 if listed.per == "accelerator" else float(node.accelerators))
    return NodePrice(each, listed.date)
