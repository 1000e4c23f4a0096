"""The report of a training scenario as text: its estimate and memory, the best plans, what moves it."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.explore.explain.explained_answer import ExplainedAnswer
from costmodel.explore.page.report_facts import ReportFacts
from costmodel.report.answers.search import search
from costmodel.report.answers.search_training import TrainingWords
from costmodel.report.answers.sensitivity import sensitivity
from costmodel.report.terminal.plan import estimate, memory_breakdown
from costmodel.report.terminal.style.document_lines import document_lines
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.sections import with_sections

_PLANS = 10


def report(facts: ReportFacts, asked: ExplainedAnswer) -> list[Line]:
    """One plan, the plans around it, and what moves the time of its step."""
    return with_sections(estimate.estimate(asked), _sections(facts, asked))


def _sections(facts: ReportFacts, asked: ExplainedAnswer) -> Iterator[tuple[str, list[Line]]]:
    if not asked.refused:
        yield "Where the memory goes", memory_breakdown.memory(asked)
    if facts.found is not None:
        yield "The best plans", document_lines(search(TrainingWords(facts.found), _PLANS))
    if facts.sensitive is not None and facts.sensitive.knobs:
        yield "What moves the time of a step", document_lines(sensitivity(facts.sensitive))
