"""Nodes of the library whose accelerators have more memory, for a plan that does not fit."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.library import names
from costmodel.documents.reader.proxy_node import proxy_node
from costmodel.documents.reader.serving_scenario import ServingCase


def larger_memory(case: ServingCase) -> Iterator[tuple[str, ...]]:
    """What sets the usual node of each accelerator of the same maker with more memory, the smallest of these first."""
    shelf, own = CachedReader(), case.accelerator
    found = []
    for name in names("accelerator"):
        other = shelf.document("accelerator", name)
        if other.vendor == own.vendor and other.memory.capacity > own.memory.capacity:
            found.append((float(other.memory.capacity), name))
    for _, name in sorted(found):
        stand = proxy_node(shelf, name)
        if stand is None:
            continue
        node = shelf.document("node", stand.node)
        if node.accelerator == name and float(node.accelerators) >= float(case.node.accelerators):
            yield (f"cluster.node={stand.node}",)
