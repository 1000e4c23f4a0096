"""A report as text: the estimate of a plan, its memory, the best plans around it, and what moves it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from rich.text import Text

from costmodel.report.answers.memory import memory_section
from costmodel.report.answers.plan_answer import estimate
from costmodel.report.answers.plan_view import PlanBeside, PlanView
from costmodel.report.answers.search import search
from costmodel.report.answers.sensitivity import sensitivity
from costmodel.report.terminal.style.document_lines import document_lines, section_lines
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import HEAD, styled

_PLANS, _FIGURES = 10, 10


def report_text(view: PlanView, beside: PlanBeside) -> list[Line]:
    """A plan, and the answers beside it, each under its title and without lines of its head that the first has."""
    lines: list[Line] = document_lines(estimate(view))
    known = {line.plain for line in lines if isinstance(line, Text)}
    for title, other in _others(view, beside):
        rest = [*itertools.dropwhile(lambda line: isinstance(line, Text) and line.plain in known, other)]
        if rest:
            lines += [Text(), styled(title, HEAD), *rest]
    return lines


def _others(view: PlanView, beside: PlanBeside) -> Iterator[tuple[str, Iterable[Line]]]:
    """The answers beside that about the plan: its memory, its search, other loads, what moves it."""
    if not view.answer.refused:
        yield from beside.first
        yield "Where the memory goes", section_lines(memory_section(view.ledger()))
    words, sensitive = beside.brief or beside.words, beside.sensitive
    if words is not None:
        yield "The best plans", document_lines(search(words, _PLANS, why_not=True))
    yield from beside.further
    if sensitive is not None and sensitive.knobs:
        yield f"What moves {sensitive.result}", document_lines(sensitivity(sensitive, _FIGURES))
