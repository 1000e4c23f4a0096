"""Builds a document from values with origins; its keys and values have their places in the foreign text."""

from __future__ import annotations

from typing import Any

from costmodel.documents.text.yaml_tree import Items, Mapping, PlacedInteger, Real, Text, key_at
from costmodel.exchange.imported import Origin, OriginValue
from costmodel.ground.errors import Place


def placed(tree: dict[str, Any], whole: Place) -> tuple[Mapping, dict[str, Origin]]:
    """The document with the places of the foreign text, and the origin of every value by its path."""
    origins: dict[str, Origin] = {}
    return _mapping(tree, whole, "", origins), origins


def _mapping(tree: dict[str, Any], whole: Place, path: str, origins: dict[str, Origin]) -> Mapping:
    built = Mapping()
    built.place = whole
    for name, value in tree.items():
        inner = f"{path}.{name}" if path else name
        at = (value.place if isinstance(value, OriginValue) else None) or whole
        built[key_at(name, at, at)] = _node(value, whole, inner, origins)
    return built


def _node(value: Any, whole: Place, path: str, origins: dict[str, Origin]) -> Any:
    if isinstance(value, dict):
        return _mapping(value, whole, path, origins)
    if isinstance(value, list):
        items = Items(_node(item, whole, f"{path}.{index}", origins) for index, item in enumerate(value))
        items.places = [whole] * len(items)
        return items
    origins[path] = value.origin
    return _leaf(value.value, value.place or whole)


def _leaf(plain: Any, place: Place) -> Any:
    if isinstance(plain, list):
        items = Items(_leaf(item, place) for item in plain)
        items.places = [place] * len(items)
        return items
    if plain is None or isinstance(plain, bool):
        return plain
    kind = Text if isinstance(plain, str) else PlacedInteger if isinstance(plain, int) else Real
    item: Any = kind(plain)
    item.place = place
    return item


def as_placed(tree: dict[str, Any], file: str) -> Mapping:
    """A tree of plain values as one that was read from a file, its lines unknown."""
    built = Mapping()
    built.place = Place(file)
    for name, value in tree.items():
        built[key_at(name, built.place, built.place)] = as_placed(value, file) if isinstance(value, dict) else value
    return built
