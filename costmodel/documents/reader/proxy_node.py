"""The node that stands for the own of an accelerator."""

from __future__ import annotations

from typing import Any

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.library import names
from costmodel.documents.schemas.hardware import Accelerator, DefaultNode, Fabric, Node


def proxy_node(shelf: CachedReader, accelerator: str) -> DefaultNode | None:
    """The proxy node of an accelerator: the node that its document names, else the first node that contains it."""
    document: Accelerator = shelf.document("accelerator", accelerator)
    if document.found_in is not None:
        return document.found_in
    nodes = (name for name in sorted(names("node")) if shelf.document("node", name).accelerator == accelerator)
    return next((DefaultNode(node=name) for name in nodes), None)


def own_keys(shelf: CachedReader, accelerator: str, stand: DefaultNode) -> dict[str, str]:
    """Keys of the proxy node to replace by the accelerator's values; empty if the node is built with the accelerator.

    If links to the host replace links between accelerators, they are also the links to the host: it is one slot.
    """
    node: Node = shelf.document("node", stand.node)
    own = {} if node.accelerator == accelerator else {"accelerator": accelerator}
    if stand.fabric is None:
        return own
    links: Fabric = shelf.document("fabric", stand.fabric)
    own["scale_up.fabric"] = stand.fabric
    if node.scale_up.pair_bandwidth is not None:
        own["scale_up.pair_bandwidth"] = f"{links.bandwidth / 1e9:g} GB/s"
    if links.kind == "host" and node.host is not None:
        own["host"] = stand.fabric
    return own


def proxy_tree(shelf: CachedReader, accelerator: str, stand: DefaultNode) -> str | dict[str, Any]:
    """The proxy node for an accelerator: its name if it is built with the accelerator, else written out.

    The price is left out, because it is for the node's original accelerators.
    """
    own = own_keys(shelf, accelerator, stand)
    if not own:
        return stand.node
    tree: dict[str, Any] = shelf.document("node", stand.node).model_dump(by_alias=True, exclude_none=True)
    tree.pop("price", None)
    for key, value in own.items():
        above, _, name = key.rpartition(".")
        (tree[above] if above else tree)[name] = value
    return tree
