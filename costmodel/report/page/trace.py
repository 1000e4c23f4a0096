"""Traces of figures as data for the drawers of a page: each node once, its equation, inputs and source."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from costmodel.explore.explain.explain import ExplainedFigure
from costmodel.report.terminal.documents.tree import TreeDrawing

Draw = Callable[[ExplainedFigure], TreeDrawing]


class Traces:
    """Nodes in the order in which they were met, with texts that several share held once."""

    def __init__(self, roots: Mapping[str, ExplainedFigure], draw: Draw = TreeDrawing) -> None:
        self._nodes: list[list[Any]] = []
        self._places: dict[int, int] = {}
        self._texts: dict[str, int] = {}
        self._roots = {name: self._add(node, draw(node)) for name, node in roots.items() if _is_known(node)}

    def of(self, name: str) -> int | None:
        """The place of the trace of a figure, if it has one."""
        return self._roots.get(name)

    def data(self) -> dict[str, Any]:
        """What the script of a page reads: nodes as title, value, how it was made, where it is written, inputs."""
        return {"nodes": self._nodes, "texts": list(self._texts)}

    def _add(self, node: ExplainedFigure, drawing: TreeDrawing) -> int:
        if id(node) in self._places:
            return self._places[id(node)]
        place = self._places[id(node)] = len(self._nodes)
        entry: list[Any] = [drawing.title(node), drawing.value(node), -1, -1, []]
        self._nodes.append(entry)
        if lines := drawing.how(node):
            entry[2] = self._text("\n".join(lines))
        if node.written is not None:
            entry[3] = self._text(drawing.place(node))
        entry[4] = [self._add(inner, drawing) for inner in node.beneath]
        return place

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))


def _is_known(node: ExplainedFigure) -> bool:
    return math.isfinite(node.value)
