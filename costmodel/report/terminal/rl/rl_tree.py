"""Explanations of reinforcement learning as trees of lines, and as JSON."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from costmodel.documents.schemas.results import RL_COLUMNS
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.explore.explain.explain import ExplainedFigure
from costmodel.report.machine.answer_fields import case_fields
from costmodel.report.terminal.documents.tree import TreeDrawing, as_json
from costmodel.report.terminal.rl.rl_formatting import result, titled
from costmodel.report.terminal.style.answer import head


def tree(answer: RlAnswer, node: ExplainedFigure, depth: int) -> list[Text]:
    """What was computed; the root with its equation, and what lies beneath it down to a depth."""
    above = titled(answer.inputs.case, answer, price="cost" in node.name)
    return [*(line for line in above if isinstance(line, Text)), Text(), *RlDrawing(node).lines(depth)]


class RlDrawing(TreeDrawing):
    """A tree of a figure of an iteration; bytes below the peak of memory are those of its ledger."""

    def __init__(self, root: ExplainedFigure) -> None:
        super().__init__(root)
        self.held = root.name.startswith("memory")

    def result(self) -> str:
        """The root as answers have it."""
        return result(self.root.name, self.root.value, 4) if self.root.name in RL_COLUMNS else super().result()


def tree_json(answer: RlAnswer, node: ExplainedFigure) -> dict[str, Any]:
    """The tree as a document."""
    return {**head("costmodel/explanation/v1"), **case_fields(answer.inputs.case), **as_json(node)}
