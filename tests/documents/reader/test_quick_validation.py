"""Documents that are validated without pydantic's validators are those that pydantic makes, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from each import share_of
from pydantic import BaseModel, ValidationError

from costmodel.documents.reader import library
from costmodel.documents.reader.find_documents import find
from costmodel.documents.reader.quick_validation import validated
from costmodel.documents.text.yaml_tree import copied, read_tree

KINDS = ("accelerator", "fabric", "node", "efficiency", "prior", "reliability", "practice", "grid", "model", "stack")
KINDS += ("optimizer", "release", "scenario", "measured")
ODD: list[Any] = [None, True, False, 0, 1, -1, 2.5, 1e30, float("nan"), "", "x", "8", "bf16", "80 GiB", "1 GB/s", "5 h"]
ODD += ["a\nb", "é", "50 %", "h100-sxm", [], ["x"], [1], {}, {"a": 1}]
OTHER_KEYS = ("note", "x", "price", "count", "heads", "kv_heads", "name", "title", "source")


def shipped() -> Iterator[tuple[str, type[BaseModel], Any]]:
    """A share of the shipped documents: the name, the class and the tree of each."""
    for kind in KINDS:
        for name in share_of(library.names(kind), 4):
            path = find(kind, name)
            tree, _ = read_tree(path.read_text(), str(path))
            if kind == "stack":
                tree = library.with_parent(tree, library._text_of_stack)
            yield name, library._class_for_workload(kind, library._workload_of_tree(kind, tree)), tree


def is_same(one: Any, other: Any) -> bool:
    """Whether two documents are alike in types, values and places, and in what pydantic notes of them."""
    if one is other:  # which may be no number
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, BaseModel):
        slots = ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
        return all(getattr(one, slot) == getattr(other, slot) for slot in slots) and is_same(vars(one), vars(other))
    if isinstance(one, dict):
        return is_same([*one], [*other]) and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return one == other and getattr(one, "place", None) == getattr(other, "place", None)


def spots(tree: Any) -> list[tuple[Any, Any]]:
    """Every value of a tree, as what holds it and its key."""
    held = [*tree.items()] if isinstance(tree, dict) else [*enumerate(tree)] if isinstance(tree, list) else []
    return [(tree, key) for key, _ in held] + [spot for _, value in held for spot in spots(value)]


def test_shipped_documents_need_no_validator_of_pydantic() -> None:
    for name, kind, tree in shipped():
        assert is_same(validated(kind, tree), kind.model_validate(tree)), name


def test_changed_documents_are_read_as_pydantic_reads_them_or_left_to_it() -> None:
    chance, read = random.Random(63), {True: 0, False: 0}
    for name, kind, whole in shipped():
        for _ in range(4):
            tree = copied(whole)
            holder, key = chance.choice(spots(tree))
            if chance.random() < 0.2:
                del holder[key]
            elif isinstance(holder, dict) and chance.random() < 0.3:
                holder[chance.choice(OTHER_KEYS)] = chance.choice(ODD)
            else:
                holder[key] = chance.choice(ODD)
            found = validated(kind, tree)
            read[found is not None] += 1
            try:
                assert found is None or is_same(found, kind.model_validate(tree)), (name, key)
            except ValidationError:
                assert found is None, (name, key)
    assert min(read.values()) > 20, "both ways are taken"


def test_other_types_are_left_to_pydantic() -> None:
    class Open(BaseModel):
        number: float

    assert validated(Open, {"number": 1.0}) is None
