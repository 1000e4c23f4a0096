"""The node that stands for the own of an accelerator."""

from __future__ import annotations

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.library import names
from costmodel.documents.schemas.hardware import Accelerator, DefaultNode


def proxy_node(shelf: CachedReader, accelerator: str) -> DefaultNode | None:
    """The proxy node of an accelerator: the one that its document names, else the first that holds it."""
    document: Accelerator = shelf.document("accelerator", accelerator)
    if document.found_in is not None:
        return document.found_in
    nodes = (name for name in sorted(names("node")) if shelf.document("node", name).accelerator == accelerator)
    return next((DefaultNode(node=name) for name in nodes), None)
