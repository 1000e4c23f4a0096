"""Explanations of serving as trees of lines, and as JSON."""

from __future__ import annotations

import math
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.serving.serving_results import RESULTS
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.explore.explain.explain import ExplainedFigure
from costmodel.ground.units import significant
from costmodel.report.machine.serving_json import plan_frame
from costmodel.report.terminal.documents.tree import TreeDrawing, as_json
from costmodel.report.terminal.serving.overload_words import at_most_lines
from costmodel.report.terminal.serving.serving_estimate import titled
from costmodel.report.terminal.serving.serving_formatting import MEMORY, result
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.formatting import figure


def tree(answer: ServingAnswer, node: ExplainedFigure, depth: int) -> list[Text]:
    """What was computed; the root with its equation, and what lies beneath it down to a depth."""
    above = [line for line in titled(answer, price=node.name.startswith("cost_")) if isinstance(line, Text)]
    return [*above, *at_most_lines(answer), Text(), *ServingDrawing(node).lines(depth)]


class ServingDrawing(TreeDrawing):
    """A tree of a figure of serving: rates are of requests unless their name contains tokens."""

    def __init__(self, root: ExplainedFigure) -> None:
        super().__init__(root)
        self.held = root.name.removesuffix("_low").removesuffix("_high") in MEMORY

    def result(self) -> str:
        """The root as answers have it."""
        known = self.root.name.removesuffix("_low").removesuffix("_high") in RESULTS
        return result(self.root.name, self.root.value, 4) if known else self.value(self.root)  # such as plan.replicas

    def value(self, node: ExplainedFigure) -> str:
        """A figure in the unit of the other answers."""
        if math.isinf(node.value):
            return "without end"
        if node.unit == "1/s" and "token" not in node.name:
            return f"{significant(node.value, 4)} /s"
        return figure(node.value, node.unit, 4, held=self.held)


def tree_json(answer: ServingAnswer, node: ExplainedFigure) -> dict[str, Any]:
    """The tree as a document."""
    return {**head("costmodel/explanation/v1"), **plan_frame(answer), **as_json(node)}
