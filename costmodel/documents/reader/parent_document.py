"""Stacks that state only how they differ from another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from costmodel.documents.text.yaml_tree import Mapping, copied, read_tree
from costmodel.ground.errors import Place, fail

TextOf = Callable[[str, Place | None], tuple[str, str]]
_DEEPEST = 4


def with_parent(tree: Any, text_of: TextOf, depth: int = 0) -> Any:
    """The tree with what it leaves out taken from the stack under `like`, section by section."""
    parent = tree.get("like") if isinstance(tree, Mapping) else None
    if not isinstance(parent, str):
        return tree
    place = getattr(parent, "place", None)
    if depth == _DEEPEST:
        raise fail("D013", f"stacks that are like one another end at {parent}", place, "write one of them out")
    text, shown = text_of(parent, place)
    whole, _ = read_tree(text, shown)
    return _over(with_parent(whole, text_of, depth + 1), tree)


def _over(parent: Any, child: Any) -> Any:
    """The child's values over the parent's; lists are the child's alone."""
    if not (isinstance(parent, Mapping) and isinstance(child, Mapping)):
        return child
    found = copied(child)
    for key, value in parent.items():
        if key not in child:
            found[key] = value
        else:
            found[key] = _over(value, child[key])
    return found
