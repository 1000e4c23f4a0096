"""The report of a service as text: its estimate, limits and memory, the best plans, other loads, what moves it."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.estimate.shared.limits import stated_limits
from costmodel.explore.page.serving_facts import ServingFacts
from costmodel.explore.search.ranges import Axis
from costmodel.explore.vary.sweep import Swept
from costmodel.explore.workloads import workload_of
from costmodel.report.answers.scaled_sizes import scale
from costmodel.report.answers.search import search
from costmodel.report.answers.search_service import ServiceWords
from costmodel.report.answers.sensitivity import sensitivity
from costmodel.report.answers.sweep import sweep
from costmodel.report.terminal.serving import serving_estimate, serving_memory
from costmodel.report.terminal.serving.serving_formatting import band, limits_on, result
from costmodel.report.terminal.style.document_lines import document_lines
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.sections import with_sections

_FIGURES = 10
_OF_LOADS = ("tpot", "ttft", "ttft_p99", "tokens_per_s_per_gpu", "saturation_share")


def report(facts: ServingFacts) -> list[Line]:
    """One plan under its load and under others, the plans around it, and what moves the time per token."""
    return with_sections(serving_estimate.estimate(facts.answer), _sections(facts))


def _sections(facts: ServingFacts) -> Iterator[tuple[str, list[Line]]]:
    answer = facts.answer
    if not answer.refused:
        yield "Limits", _limits(facts)
        yield "Where the memory goes", serving_memory.memory(answer, facts.levers)
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
