"""Explanations of serving as trees of lines, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.results import SERVING_COLUMNS, SERVING_RESULTS, is_money
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.explore.explain.explain import ExplainedFigure
from costmodel.explore.explain.pages import Page
from costmodel.explore.serving.explain_serving import LINES
from costmodel.explore.serving.labelled_figures import LabelledFigures
from costmodel.ground.units import significant
from costmodel.report.machine.answer_fields import case_fields
from costmodel.report.terminal.documents.tree import TreeDrawing, as_json, page_json
from costmodel.report.terminal.documents.tree import page as page_lines
from costmodel.report.terminal.serving.overload_words import at_most_lines
from costmodel.report.terminal.serving.serving_estimate import titled
from costmodel.report.terminal.serving.serving_formatting import MEMORY, result
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.formatting import figure
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import styled


def trees(answer: ServingAnswer, label: str, nodes: Sequence[ExplainedFigure], depth: int) -> list[Line]:
    """What was computed, of each figure that a label names: its meaning, its equation, and its inputs to a depth."""
    lines = [*titled(answer, price=any(is_money(node.name) for node in nodes)), *at_most_lines(answer)]
    for node in nodes:
        root, *beneath = ServingDrawing(node).lines(depth)
        lines += [Text(), root, *_meant(label, node), *beneath]
    return lines


def _meant(label: str, node: ExplainedFigure) -> list[Line]:
    """What a figure is, in words, behind the label by which it was asked for."""
    meaning = {**LINES, **{name: column.meaning for name, column in SERVING_COLUMNS.items()}}.get(node.name, "")
    asked = "" if label == node.name else f"{label}: "
    none = "; this plan has none" if math.isnan(node.value) else ""
    return [styled(f"  {asked}{meaning}{none}")] if meaning else []


def about(meant: LabelledFigures, page: Page) -> list[Line]:
    """The page of a label that is no figure, and what the scenario has of it."""
    values = [styled(f"  {path} is {value}, from {origin}") for path, value, origin in meant.values]
    return [*page_lines(page), *([Text(), *values] if values else [])]


def about_json(meant: LabelledFigures, page: Page) -> dict[str, Any]:
    """The same as plain values."""
    values = [{"path": path, "value": value, "from": origin} for path, value, origin in meant.values]
    return {**page_json(page), "values": values}


class ServingDrawing(TreeDrawing):
    """A tree of a figure of serving: rates are of requests unless their name contains tokens."""

    def __init__(self, root: ExplainedFigure) -> None:
        super().__init__(root)
        self.held = root.name.removesuffix("_low").removesuffix("_high") in (*MEMORY, *LINES)

    def result(self) -> str:
        """The root as answers have it."""
        known = self.root.name.removesuffix("_low").removesuffix("_high") in SERVING_RESULTS
        return result(self.root.name, self.root.value, 4) if known else self.value(self.root)  # such as plan.replicas

    def value(self, node: ExplainedFigure) -> str:
        """A figure in the unit of the other answers."""
        if math.isinf(node.value):
            return "without end"
        if node.unit == "1/s" and "token" not in node.name:
            return f"{significant(node.value, 4)} /s"
        return figure(node.value, node.unit, 4, held=self.held)


def trees_json(answer: ServingAnswer, nodes: Sequence[ExplainedFigure]) -> dict[str, Any]:
    """The tree as a document, and those of further figures that a label names."""
    first, *others = map(as_json, nodes)
    more = {"others": others} if others else {}
    return {**head("costmodel/explanation/v1"), **case_fields(answer.inputs.case), **first, **more}
