"""The report of reinforcement learning as text: its estimate and memory, the best splits, what moves it."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.explore.page.rl_facts import RlFacts
from costmodel.report.answers.search import search
from costmodel.report.answers.search_rl import RlWords
from costmodel.report.answers.sensitivity import sensitivity
from costmodel.report.terminal.rl import rl_estimate, rl_memory_lines
from costmodel.report.terminal.style.document_lines import document_lines
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.sections import with_sections

_PLANS, _FIGURES = 10, 10


def report(facts: RlFacts) -> list[Line]:
    """One plan, the splits around it, and what moves the time of an iteration."""
    return with_sections(rl_estimate.estimate(facts.answer), _sections(facts))


def _sections(facts: RlFacts) -> Iterator[tuple[str, list[Line]]]:
    if not facts.answer.refused:
        yield "Where the memory goes", rl_memory_lines.memory(facts.answer)
    if facts.found is not None:
        yield "The best plans", document_lines(search(RlWords(facts.found.first(_PLANS)), _PLANS, why_not=True))
    if facts.sensitive is not None and facts.sensitive.knobs:
        yield "What moves the time of an iteration", document_lines(sensitivity(facts.sensitive, _FIGURES))
