"""A page as a test reads it: its numbers, its marks, its text, and everything it refers to."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections import defaultdict
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "input", "br", "link", "img", "hr"}


class Reader(HTMLParser):
    """Numbers by their names, texts outside script and style, ids and references of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.numbers: dict[str, list[float]] = defaultdict(list)
        self.marks: dict[str, list[float]] = defaultdict(list)
        self.points: list[tuple[str, float, float]] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.tags: set[str] = set()
        self.handlers: list[str] = []
        self.words: list[str] = []
        self.packed: Any = {}
        self.unexplained: list[str] = []
        self._inside: list[str] = []
        self._explained: list[bool] = []
        self._column, self._opens = 0, False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = {name: value or "" for name, value in attrs}
        self.tags.add(tag)
        self.handlers += [name for name in held if name.startswith("on")]
        self.references += [held[name] for name in ("src", "href", "xlink:href", "action", "srcset") if name in held]
        self.ids += [held["id"]] if "id" in held else []
        self._at(tag, held)
        if tag == "data" and "data-name" in held:
            self.numbers[held["data-name"]].append(float(held["value"]))
        if "data-value" in held and "data-name" in held:
            self.marks[held["data-name"]].append(float(held["data-value"]))
        if "data-x" in held:
            self.points.append((held.get("data-name", ""), float(held["data-x"]), float(held["data-y"])))
        if tag in ("script", "style"):
            self._inside.append("packed" if held.get("id") == "packed" else tag)

    def _at(self, tag: str, held: dict[str, str]) -> None:
        """Follows which numbers open how they were made: by a button, or as figures of a column."""
        if tag == "table":
            self._explained = []
        elif tag == "th":
            self._explained.append("data-figure" in held)
        elif tag in ("tr", "dd"):
            self._column = -1
        elif tag == "td":
            self._column += 1
        elif tag == "button":
            self._opens = "data-trace" in held
        elif tag == "data":
            of_column = 0 <= self._column < len(self._explained) and self._explained[self._column]
            if not (self._opens or of_column):
                self.unexplained.append(held.get("data-name", held["value"]))

    def handle_endtag(self, tag: str) -> None:
        if tag == "button":
            self._opens = False
        if tag in ("script", "style") and self._inside:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] == "packed":
            self.packed = json.loads(gzip.decompress(base64.b64decode(data)))
        elif not self._inside and data.strip():
            self.words.append(data.strip())

    @property
    def text(self) -> str:
        return " ".join(self.words)


def column(data: dict[str, Any], name: str) -> list[Any]:
    """A column of plans."""
    return next(list(column["values"]) for column in data["columns"] if column["name"] == name)


def alike(one: float, other: float, digits: float = 0.0) -> bool:
    """Whether two numbers are the same, or the same to so many digits."""
    return one == other if not digits else math.isclose(one, other, rel_tol=10.0**-digits)
