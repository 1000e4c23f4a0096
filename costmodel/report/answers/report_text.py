"""Reports as text: the estimate of a plan, its memory, the best plans around it, and what moves it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from costmodel.estimate.shared.limits import stated_limits
from costmodel.explore.page.report_facts import ReportFacts
from costmodel.explore.page.serving_facts import ServingFacts
from costmodel.explore.search.ranges import Axis
from costmodel.explore.vary.sweep import Swept
from costmodel.explore.workloads import workload_of
from costmodel.report.answers.memory import memory_section
from costmodel.report.answers.plan_answer import estimate
from costmodel.report.answers.rl_view import RlView
from costmodel.report.answers.scaled_sizes import scale
from costmodel.report.answers.search import search
from costmodel.report.answers.search_rl import RlWords
from costmodel.report.answers.search_service import ServiceWords
from costmodel.report.answers.search_training import TrainingWords
from costmodel.report.answers.sensitivity import sensitivity
from costmodel.report.answers.serving_view import ServingView
from costmodel.report.answers.sweep import sweep
from costmodel.report.answers.training_view import TrainingView
from costmodel.report.terminal.serving.serving_formatting import band, limits_on, result
from costmodel.report.terminal.style.document_lines import document_lines, section_lines
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import HEAD, styled

_PLANS, _FIGURES = 10, 10
_OF_LOADS = ("tpot", "ttft", "ttft_p99", "tokens_per_s_per_gpu", "saturation_share")


def with_sections(first: Sequence[Line], others: Iterable[tuple[str, Sequence[Line]]]) -> list[Line]:
    """An answer, and further ones about the same question under their titles.

    A further answer has no line of its head that the first has.
    """
    known = {line.plain for line in first if isinstance(line, Text)}
    lines = [*first]
    for title, other in others:
        rest = [*itertools.dropwhile(lambda line: isinstance(line, Text) and line.plain in known, other)]
        if rest:
            lines += [Text(), styled(title, HEAD), *rest]
    return lines


def training_text(view: TrainingView, facts: ReportFacts) -> list[Line]:
    """One plan, the plans around it, and what moves the time of its step."""
    return with_sections(document_lines(estimate(view)), _training(view, facts))


def _training(view: TrainingView, facts: ReportFacts) -> Iterator[tuple[str, list[Line]]]:
    if not view.answer.refused:
        yield "Where the memory goes", [*section_lines(memory_section(view.ledger()))]
    if facts.found is not None:
        yield "The best plans", document_lines(search(TrainingWords(facts.found), _PLANS))
    if facts.sensitive is not None and facts.sensitive.knobs:
        yield "What moves the time of a step", document_lines(sensitivity(facts.sensitive))


def serving_text(view: ServingView) -> list[Line]:
    """One plan under its load and under others, the plans around it, and what moves the time per token."""
    return with_sections(document_lines(estimate(view)), _serving(view))


def _serving(view: ServingView) -> Iterator[tuple[str, list[Line]]]:
    facts, answer = view.facts, view.answer
    if not answer.refused:
        yield "Limits", _limits(facts)
        yield "Where the memory goes", [*section_lines(memory_section(view.ledger()))]
    if facts.ranked is not None:
        yield "The best plans", document_lines(search(ServiceWords(facts.ranked), _FIGURES, why_not=True))
    if facts.loads:
        yield "What if the load changes", _loads(facts)
    if facts.sizes is not None:
        yield "Replicas for other rates", document_lines(scale(facts.sizes))
    if facts.sensitive is not None and facts.sensitive.knobs:
        yield "What moves the time per token", document_lines(sensitivity(facts.sensitive, _FIGURES))


def _limits(facts: ServingFacts) -> list[Line]:
    """Each limit of the scenario, the result that it is on, and whether the plan keeps it."""
    costs = facts.answer.costs
    columns = dict.fromkeys(limit.column for limit in stated_limits(facts.case.scenario.limits))
    rows = [
        (name, result(name, costs[name]), band(costs, name), limits_on(facts.answer, name))
        for name in columns
        if name in costs
    ]
    return [CellTable(("result", "value", "P10 – P90", "limit"), rows, "krll")] if rows else []


def _loads(facts: ServingFacts) -> list[Line]:
    """The same plan under lighter and heavier load."""
    axis = Axis(facts.loads[0].settings[0].partition("=")[0], tuple(trial.written[0] for trial in facts.loads))
    return document_lines(sweep(Swept(workload_of(facts.case), (axis,), _OF_LOADS, tuple(facts.loads))))


def rl_text(view: RlView) -> list[Line]:
    """One plan, the splits around it, and what moves the time of an iteration."""
    return with_sections(document_lines(estimate(view)), _rl(view))


def _rl(view: RlView) -> Iterator[tuple[str, list[Line]]]:
    facts = view.facts
    if not facts.answer.refused:
        yield "Where the memory goes", [*section_lines(memory_section(view.ledger()))]
    if facts.found is not None:
        yield "The best plans", document_lines(search(RlWords(facts.found.first(_PLANS)), _PLANS, why_not=True))
    if facts.sensitive is not None and facts.sensitive.knobs:
        yield "What moves the time of an iteration", document_lines(sensitivity(facts.sensitive, _FIGURES))
