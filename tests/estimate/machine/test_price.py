"""Prices that are remarked on: far from all that shipped nodes rent for."""

from __future__ import annotations

from costmodel.documents.reader.library import names, read
from costmodel.estimate.machine.price import CHEAPEST, DEAREST, is_implausible_price


def test_bounds_are_those_of_the_shipped_nodes() -> None:
    nodes = [read("node", name) for name in names("node")]
    each = [node.price.hourly / (node.accelerators if node.price.per == "node" else 1) for node in nodes if node.price]
    assert [round(3600 * price, 1) for price in (min(each), max(each))] == [
        round(3600 * CHEAPEST, 1),
        round(3600 * DEAREST, 1),
    ]
    assert not any(map(is_implausible_price, each))
    assert is_implausible_price(min(each) / 21)
    assert is_implausible_price(max(each) * 11)
