"""Foreign values: where they stand, as a sentence names them, and as a document that remembers their places."""

from __future__ import annotations

import bisect
import re
from typing import Any

from costmodel.documents.text.yaml_tree import Items, Mapping, PlacedInteger, Real, Text, key_at
from costmodel.exchange.imported import Origin, OriginValue
from costmodel.ground.errors import Place
from costmodel.ground.quoting import quoted_value

LONGEST_NAME = 64  # letters
_BETWEEN = re.compile(r"[^a-z0-9.+-]+")


def shown(value: Any) -> str:
    """A value as text on one line; unprintable characters become question marks."""
    return printable(quoted_value(value))


def printable(text: str) -> str:
    """A text on one line; unprintable characters become question marks.

    >>> printable("bf\\x1b[31m16")
    'bf?[31m16'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def document_name(text: str) -> str:
    """A document name made from a text: lower-case letters, digits and . + -.

    >>> document_name("Train 8B (final)"), document_name("§")
    ('train-8b-final', 'model')
    """
    return _BETWEEN.sub("-", text.lower())[:LONGEST_NAME].strip("-.+") or "model"


_LINE_END = re.compile(r"\r\n|\r|\n")


class Lines:
    """The lines of a text, to find the line and column of a position."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        self._lines = _LINE_END.split(text)

    def place(self, at: int, path: str = "", width: int = 1) -> Place:
        """The place of a character position, counted from 0."""
        line = bisect.bisect_right(self._starts, at) - 1
        return Place(self.file, line + 1, at - self._starts[line] + 1, path, self._lines[line], max(1, width))


def placed(tree: dict[str, Any], whole: Place) -> tuple[Mapping, dict[str, Origin]]:
    """The document with places in the foreign text, and the origin of every value by path."""
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
    if isinstance(plain, dict):
        built = Mapping({key_at(name, place, place): _leaf(value, place) for name, value in plain.items()})
        built.place = place
        return built
    if plain is None or isinstance(plain, bool):
        return plain
    kind = Text if isinstance(plain, str) else PlacedInteger if isinstance(plain, int) else Real
    item: Any = kind(plain)
    item.place = place
    return item


def as_placed(tree: dict[str, Any], file: str) -> Mapping:
    """A plain tree as if it were read from a file, without line numbers."""
    built = Mapping()
    built.place = Place(file)
    for name, value in tree.items():
        built[key_at(name, built.place, built.place)] = as_placed(value, file) if isinstance(value, dict) else value
    return built
