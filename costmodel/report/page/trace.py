"""How figures of a page were computed: each with its equation, inputs and source, as data for the page's script."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from costmodel.explore.explain.equation_trees import ExplainedFigure
from costmodel.report.document import Cell
from costmodel.report.terminal.trace_tree import TreeDrawing, combination_of

_light: list[bool] = []  # whether pages that are drawn now are without traces


@contextmanager
def without_traces() -> Iterator[None]:
    """Draw pages without traces and without figures of other plans, which take most of the time."""
    _light.append(True)
    try:
        yield
    finally:
        _light.pop()


def is_light() -> bool:
    """Whether pages are being drawn without traces."""
    return bool(_light)


def traced_roots(roots: Callable[[], Mapping[str, ExplainedFigure]]) -> Mapping[str, ExplainedFigure]:
    """The figures whose traces a page has."""
    return {} if _light else roots()


class Traces:
    """The traces of a page: each node follows its inputs, and shared nodes and texts are stored once."""

    def __init__(self, roots: Mapping[str, ExplainedFigure]) -> None:
        self._nodes: dict[tuple[Any, ...], int] = {}
        self._places: dict[int, int] = {}
        self._texts: dict[str | tuple[str, str, str], int] = {}
        self._roots = {name: self._add(node, TreeDrawing(node)) for name, node in roots.items() if _is_known(node)}

    def of(self, name: str) -> int | None:
        """The place of the trace of a figure, if it has one."""
        return self._roots.get(name)

    def add(
        self, title: str, text: str, how: str | tuple[str, str, str] = "", inner: Iterable[int] = (), place: str = ""
    ) -> int:
        """Add a node: its title and value, its formula and inputs, and where it is written."""
        made, written = (self._text(words) if words else -1 for words in (how, place))
        return self._nodes.setdefault((title, text, made, written, tuple(inner)), len(self._nodes))

    def data(self) -> dict[str, Any]:
        """Data for the script of a page: nodes with title, value, formula, place and inputs.

        The formula is a text, or the texts before, between and after the values of the inputs.
        """
        return {"nodes": list(self._nodes), "texts": list(self._texts)}

    def _add(self, node: ExplainedFigure, drawing: TreeDrawing) -> int:
        """Adds a figure after its inputs; returns its number."""
        if id(node) in self._places:
            return self._places[id(node)]
        inner = tuple(self._add(each, drawing) for each in node.beneath)
        made = self._made(node, drawing)
        written = self._text(drawing.place(node)) if node.written is not None else -1
        entry = (drawing.title(node), drawing.value(node), made, written, inner)
        self._places[id(node)] = self._nodes.setdefault(entry, len(self._nodes))
        return self._places[id(node)]

    def _made(self, node: ExplainedFigure, drawing: TreeDrawing) -> int:
        """The number of the text on how a figure was computed; -1 without one."""
        joined = combination_of(node)
        if joined is not None and node.beneath:
            return self._text((joined.before, joined.between, joined.after))
        lines = drawing.how(node)
        return self._text("\n".join(lines)) if lines else -1

    def _text(self, text: str | tuple[str, str, str]) -> int:
        return self._texts.setdefault(text, len(self._texts))


class PrefixedTraces(Traces):
    """The traces of a page whose names have a prefix, such as one of several scenarios."""

    def __init__(self, all_traces: Traces, prefix: str) -> None:
        self._all, self._prefix = all_traces, prefix

    def of(self, name: str) -> int | None:
        """The place of the trace of a figure that is named without the prefix."""
        return self._all.of(self._prefix + name)

    def add(
        self, title: str, text: str, how: str | tuple[str, str, str] = "", inner: Iterable[int] = (), place: str = ""
    ) -> int:
        """Add a node to the page."""
        return self._all.add(title, text, how, inner, place)


def _is_known(node: ExplainedFigure) -> bool:
    return math.isfinite(node.value)


def with_trace(cell: Cell, traces: Traces) -> Cell:
    """The cell with the trace that it opens on the page."""
    return cell if isinstance(cell, str) or cell.opens is None else replace(cell, trace=cell.opens(traces), opens=None)
