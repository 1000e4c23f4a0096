"""Drops prices that belong to another machine: a price holds only for its node and accelerator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from costmodel.documents.keys.paths import at
from costmodel.ground.record import record

_SCENARIO, _NODE, _ACCELERATOR = "assume.price", "cluster.node.price", "cluster.node.accelerator"

_EXCHANGED = "cluster.node"  # an exchanged node brings its own price, which is none for another accelerator


@record
class ForeignPrice:
    """A price that is left out because the machine changed: its text, and the machine it was stated for."""

    text: str
    of: str


def left_out(
    before: dict[Any, Any], tree: dict[Any, Any], assigned: Iterable[str], accelerator_of: Callable[[str], str]
) -> tuple[ForeignPrice, ...]:
    """Removes prices for the previous machine from a changed tree, unless an assignment sets them.

    Args:
        before: the scenario's tree as it was read
        tree: the same with assignments put into it
        assigned: their paths
        accelerator_of: the accelerator of a node by the node's name
    """
    paths = [*assigned]
    if not any(path.split(".")[0] == "cluster" for path in paths):
        return ()
    node, part = _machine(before, accelerator_of)
    node_now, part_now = _machine(tree, accelerator_of)
    if (node, part) == (node_now, part_now):
        return ()
    prices = []
    if not _is_covered(_SCENARIO, paths) and (text := _remove_key(tree.get("assume"), "price")):
        prices.append(ForeignPrice(text, node if node != node_now else part))
    stated_for = part if node == node_now else accelerator_of(node_now)
    if _ACCELERATOR in paths and stated_for != part_now and not _is_covered(_NODE, paths):
        listed = at(tree, "cluster.node.price.hourly")
        if _remove_key(at(tree, "cluster.node"), "price"):
            prices.append(ForeignPrice(f"{listed} of {node_now}", stated_for))
    return tuple(prices)


def _is_covered(path: str, assigned: Iterable[str]) -> bool:
    """Whether an assignment sets a key, a part of its value, or a mapping around it."""
    return any(f"{path}.".startswith(f"{one}.") or one.startswith(f"{path}.") for one in assigned if one != _EXCHANGED)


def _remove_key(here: Any, key: str) -> str:
    """Removes a key and returns its value as text; empty if it had none."""
    if not isinstance(here, dict) or here.get(key) is None:
        return ""
    held = here.pop(key)
    return str(held) if isinstance(held, str) else "a price"


def _machine(tree: dict[Any, Any], accelerator_of: Callable[[str], str]) -> tuple[str, str]:
    """The names of the node and the accelerator in a tree."""
    node = at(tree, "cluster.node")
    if isinstance(node, str):
        return str(node), accelerator_of(node)
    return _name(at(tree, "cluster.node.name")), _name(at(tree, "cluster.node.accelerator"))


def _name(named: Any) -> str:
    """The name of a document that is named or written out."""
    return str(at(named, "name") if isinstance(named, dict) else named)
