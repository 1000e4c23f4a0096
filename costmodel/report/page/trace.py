"""Traces of figures as data for the drawers of a page: each node once, its equation, inputs and source."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from costmodel.explore.explain.explain import ExplainedFigure
from costmodel.report.terminal.documents.tree import TreeDrawing

Draw = Callable[[ExplainedFigure], TreeDrawing]


class Traces:
    """Nodes after those that they are made of; nodes and texts that several share are held once."""

    def __init__(self, roots: Mapping[str, ExplainedFigure], draw: Draw = TreeDrawing) -> None:
        self._nodes: dict[tuple[Any, ...], int] = {}
        self._places: dict[int, int] = {}
        self._texts: dict[str, int] = {}
        self._roots = {name: self._add(node, draw(node)) for name, node in roots.items() if _is_known(node)}

    def of(self, name: str) -> int | None:
        """The place of the trace of a figure, if it has one."""
        return self._roots.get(name)

    def data(self) -> dict[str, Any]:
        """What the script of a page reads: nodes as title, value, how it was made, where it is written, inputs."""
        return {"nodes": list(self._nodes), "texts": list(self._texts)}

    def _add(self, node: ExplainedFigure, drawing: TreeDrawing) -> int:
        if id(node) in self._places:
            return self._places[id(node)]
        inner = tuple(self._add(each, drawing) for each in node.beneath)
        lines = drawing.how(node)
        made = self._text("\n".join(lines)) if lines else -1
        written = self._text(drawing.place(node)) if node.written is not None else -1
        entry = (drawing.title(node), drawing.value(node), made, written, inner)
        self._places[id(node)] = self._nodes.setdefault(entry, len(self._nodes))
        return self._places[id(node)]

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))


def _is_known(node: ExplainedFigure) -> bool:
    return math.isfinite(node.value)
