"""The answer of `explain`: how results of a plan are computed, as trees of equations, inputs and sources."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from costmodel.documents.schemas.results import is_money
from costmodel.estimate.training_answer.predict_training import ENDLESS, TOO_LARGE
from costmodel.explore.explain.equation_trees import ExplainedFigure
from costmodel.explore.workloads import workload_of
from costmodel.report.answers.plan_answer import PlanView, plan_verdict
from costmodel.report.data_formats.answer_fields import finite
from costmodel.report.document import AnswerDocument, Cell, Column, Section, Table, traced
from costmodel.report.terminal.head import case_title
from costmodel.report.terminal.layout import BAD, Line, schema_head, short_or_full, styled
from costmodel.report.terminal.trace_tree import TreeDrawing
from costmodel.report.workload_words import plan_fields, plan_head, words_of

_DEFAULT_DEPTH = 3  # of a tree, unless another is asked for


def explanation_document(
    view: PlanView, label: str, nodes: Sequence[ExplainedFigure], depth: int | None
) -> AnswerDocument:
    """Every result that a label names: its meaning, its equation, and its inputs down to a depth.

    depth: None for the default depth; a short answer then shows only the first level, one line for each input
    """
    case, answer = view.case, view.answer
    about = plan_head(workload_of(case), answer, priced=any(is_money(node.name) for node in nodes))
    stated = [(node, _result_text(view, node), _meaning(view, label, node)) for node in nodes]
    on_page = [(node, shown, _meaning(view, node.name, node)) for node, shown, _ in stated]
    conclusion = f"{'; '.join(f'{node.name} is {_result_text(view, node)}' for node in nodes)}."
    return AnswerDocument(
        case,
        case_title(case),
        about,
        conclusion,
        plan_verdict(case, answer),
        [figures_section(on_page), *(tree_section(*each, depth) for each in stated)],
        nodes=lambda: {node.name: node for node in nodes},
        problems=_reason_lines(view),
    )


def figures_section(figures: Sequence[tuple[ExplainedFigure, str, str]]) -> Section:
    """The section of a page with a table of results, each of which opens its equation."""
    rows: list[list[Cell]] = [[node.name, traced(text, node.value, node.name), meant] for node, text, meant in figures]
    lead = "Click a number to see its equation, inputs and sources."
    table = Table([Column("result", "k"), Column("value"), Column("meaning", "l")], rows)
    return Section("figures", "How it was computed", lead, table=table, face="page")


def tree_section(node: ExplainedFigure, stated: str, meant: str, depth: int | None) -> Section:
    """The section of a terminal with a result and its inputs as a tree; a short answer shows its first level."""
    whole: list[Line] = [*TreeDrawing(node).lines(depth or _DEFAULT_DEPTH, stated, meant)]
    first = [*TreeDrawing(node).first_level(stated, meant)]
    lines = whole if depth else short_or_full(first, whole, "how each was computed")
    return Section(node.name, node.name, ahead=lines, face="terminal", asked=bool(depth))


def _reason_lines(view: PlanView) -> list[Line]:
    """Lines on the reasons why the plan cannot run, or never ends."""
    words, reasons = words_of(view.case.kind), workload_of(view.case).reasons
    codes = (code for code in view.answer.broken if code in TOO_LARGE or code == ENDLESS)
    return [styled(f"  ✗ {code} {reasons[code].title}: {words.reason(view.answer, code)}", BAD) for code in codes]


def _result_text(view: PlanView, node: ExplainedFigure) -> str:
    """The value of a figure as text, with the digits and unit of other answers."""
    if node.name in view.columns:
        return words_of(view.case.kind).result_to(node.name, node.value, 4)
    return TreeDrawing(node).value(node)


def _meaning(view: PlanView, label: str, node: ExplainedFigure) -> str:
    """The meaning of a result, after the label that the user typed if that is another word."""
    meaning = workload_of(view.case).quantities.get(node.name, "")
    asked = "" if label.casefold().replace(" ", "_") == node.name else f"{label}: "
    return f"{asked}{meaning}{'; this plan has none' if math.isnan(node.value) else ''}" if meaning else ""


def explanation_json(view: PlanView, label: str, nodes: Sequence[ExplainedFigure]) -> dict[str, Any]:
    """The explanation as plain values; asked: the row numbers of the results that the label names."""
    rows, asked = figure_rows(nodes)
    held = workload_of(view.case)
    figures = [{**row, "meaning": held.quantities.get(row["quantity"] or row["name"])} for row in rows]
    stated = {"label": label, "asked": asked, "figures": figures}
    return {**schema_head("costmodel/explanation/v2"), **plan_fields(held, view.answer), **stated}


def figure_rows(roots: Sequence[ExplainedFigure]) -> tuple[list[dict[str, Any]], list[int]]:
    """Every result and input of the trees as a row with the row numbers of its inputs; and the rows of the roots."""
    rows, places = list[dict[str, Any]](), dict[int, int]()

    def place(node: ExplainedFigure) -> int:
        """The row number of a figure, after those of its inputs."""
        if id(node) not in places:
            places[id(node)] = len(rows)
            rows.append(row := _figure_fields(node))
            row["inputs"] = [place(inner) for inner in node.beneath]
        return places[id(node)]

    return rows, [place(root) for root in roots]


def _figure_fields(node: ExplainedFigure) -> dict[str, Any]:
    """A result or an input as plain values, without its inputs: value, unit, equation and source."""
    contract = None if node.equation is None else node.equation.contract
    written = node.written
    source = contract.source if contract is not None else written.source if written is not None else None
    return {
        "name": node.name,
        "value": finite(node.value),
        "unit": node.unit,
        "quantity": node.quantity or None,
        "labels": list(node.labels),
        "equation": None if node.equation is None else node.equation.name,
        "formula": None if contract is None else contract.formula,
        "choices": [f"{name}={value}" for name, value in node.choices.items()],
        "operation": node.operation or None,
        "source": source or None,
        "place": None if written is None else str(written.place),
        "title": None if written is None else written.title or None,
        "check": None if written is None else written.check,
    }
