"""Where a letter of a text stands: its line and column."""

from __future__ import annotations

import bisect
import re

from costmodel.ground.errors import Place

_LINE_END = re.compile(r"\r\n|\r|\n")


class Lines:
    """The lines of a text, to find the line and column of a letter."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        self._lines = _LINE_END.split(text)

    def place(self, at: int, path: str = "", width: int = 1) -> Place:
        """The place of a letter, counted from 0."""
        line = bisect.bisect_right(self._starts, at) - 1
        return Place(self.file, line + 1, at - self._starts[line] + 1, path, self._lines[line], max(1, width))
