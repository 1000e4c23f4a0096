"""Stacks that state only how they differ from another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from costmodel.documents.keys.paths import place_at
from costmodel.documents.reader.find_documents import find
from costmodel.documents.text.yaml_tree import Mapping, copied, read_tree
from costmodel.ground.errors import CostModelError, Place, fail

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


def written_out(tree: Any, text_of: TextOf) -> Any:
    """The same of a stack that a scenario writes out: its own name is a label, and may not be that of another stack.

    One that states all keys, as scenarios of results do, takes nothing from its parent.
    """
    whole = with_parent(tree, text_of)
    if whole is not tree and _leaves(whole) > _leaves(tree):
        _check_name(tree)
    return whole


def _leaves(tree: Any) -> int:
    """How many values a tree holds."""
    return sum(map(_leaves, tree.values())) if isinstance(tree, Mapping) else 1


def _check_name(tree: Mapping) -> None:
    """A fault where a stack has the name of another one than it takes its keys from."""
    name, parent = tree.get("name"), tree["like"]
    try:
        other = isinstance(name, str) and find("stack", name) != find("stack", parent)
    except CostModelError:
        return  # a label of the user
    if other:
        sentence = f"this stack has the name of {name} and takes nothing from it; its keys are those of {parent}"
        raise fail("C033", sentence, place_at(tree, "name"), f"like: {name}, or a name of your own")


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
