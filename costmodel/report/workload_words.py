"""How answers of each workload speak of it: its results in words, a plan in a line, and what an answer is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from costmodel.estimate.evaluate.answer_facts import Subject, subject_of
from costmodel.explore.workload import PlanAnswer, Workload
from costmodel.ground.record import record
from costmodel.report.terminal.style.head import fact_fields, origin_lines, price_lines, title
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import styled

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario


@record
class WorkloadWords:
    """Words of one workload."""

    result: Callable[[str, float], str]
    facts: Callable[[LoadedScenario], Subject]
    subject: Callable[[LoadedScenario], list[Line]]  # model, machine and job, ahead of prices and origins
    plan: Callable[[PlanAnswer], str]
    keys: Callable[[PlanAnswer], dict[str, Any]]  # of the plan, as plain values
    settings: Callable[[PlanAnswer], dict[str, str]]  # that make it the plan of the scenario
    band: Callable[[Mapping[str, float], str], str] = lambda costs, name: ""
    warnings: Callable[[PlanAnswer], list[Line]] = lambda answer: []


def words_of(kind: str) -> WorkloadWords:
    """The words of a workload; only its own modules are imported."""
    return _OF[kind]()


def plan_head(asked: Workload, answer: PlanAnswer, *, priced: bool = False) -> list[Line]:
    """The head of an answer about one plan: the scenario's own, or its best where it has none."""
    words, case = words_of(asked.case.kind), asked.case
    best = "" if case.scenario.plan else "of the best plan, "
    prices = price_lines(subject_of(case).price) if priced else []
    about = [*words.subject(case), styled(f"{best}{words.plan(answer)}"), *prices, *origin_lines(case)]
    return [*about, *words.warnings(answer)]


def plan_fields(asked: Workload, answer: PlanAnswer) -> dict[str, Any]:
    """What an answer about one plan is about, as plain values."""
    case = asked.case
    words = words_of(case.kind)
    about = {"workload": case.kind, "title": title(case), "facts": fact_fields(words.facts(case))}
    return {**about, "plan": words.keys(answer)}


def _training() -> WorkloadWords:
    from costmodel.documents.reader.resolved_scenario import training
    from costmodel.estimate.evaluate.answer_facts import facts_of
    from costmodel.estimate.evaluate.predict import Answer
    from costmodel.estimate.shared.plan_batch import Block
    from costmodel.explore.compare.plan_figures import choices
    from costmodel.report.machine.json_answer import whole_plan
    from costmodel.report.terminal.plan.plan_settings import settings_of_block
    from costmodel.report.terminal.plan.plan_words import brief_words
    from costmodel.report.terminal.style.formatting import result
    from costmodel.report.terminal.style.head import head_lines, job_lines, rounded_batch

    def block(answer: PlanAnswer) -> Block:
        assert isinstance(answer, Answer)
        return answer.evaluation.block

    def subject(case: LoadedScenario) -> list[Line]:
        held = training(case)
        return [*job_lines(held.asked.assumed), *head_lines(facts_of(held)), *rounded_batch(held)]

    return WorkloadWords(
        result,
        lambda case: facts_of(training(case)),
        subject,
        lambda answer: brief_words(block(answer)),
        lambda answer: whole_plan(choices(block(answer))),
        lambda answer: settings_of_block(block(answer)),
    )


def _serving() -> WorkloadWords:
    from costmodel.estimate.serving.plan_columns import sizes_of
    from costmodel.estimate.serving.predict_serving import ServingAnswer
    from costmodel.report.machine.serving_json import halves
    from costmodel.report.terminal.serving.overload_words import at_most_lines
    from costmodel.report.terminal.serving.serving_formatting import band, plan_words, result
    from costmodel.report.terminal.style.head import subject_words
    from costmodel.report.terminal.style.theme import HEAD

    def of(answer: PlanAnswer) -> ServingAnswer:
        assert isinstance(answer, ServingAnswer)
        return answer

    return WorkloadWords(
        result,
        subject_of,
        lambda case: [styled(subject_words(subject_of(case)), HEAD)],
        lambda answer: plan_words(of(answer)),
        lambda answer: {**sizes_of(of(answer).evaluation.layout), **halves(of(answer).plan)},
        lambda answer: {},
        band,
        lambda answer: [*at_most_lines(of(answer))],
    )


def _rl() -> WorkloadWords:
    from costmodel.documents.reader.rl_scenario import reinforced
    from costmodel.estimate.rl.predict_rl import RlAnswer
    from costmodel.report.machine.rl_json import sizes
    from costmodel.report.terminal.rl.rl_formatting import band, iteration_words, plan_words, result
    from costmodel.report.terminal.rl.rl_search import settings
    from costmodel.report.terminal.style.head import subject_words
    from costmodel.report.terminal.style.theme import HEAD

    def of(answer: PlanAnswer) -> RlAnswer:
        assert isinstance(answer, RlAnswer)
        return answer

    def subject(case: LoadedScenario) -> list[Line]:
        return [styled(subject_words(subject_of(case)), HEAD), styled(iteration_words(reinforced(case)))]

    return WorkloadWords(
        result,
        subject_of,
        subject,
        lambda answer: plan_words(of(answer)),
        lambda answer: sizes(of(answer)),
        lambda answer: settings(of(answer)),
        band,
    )


_OF: dict[str, Callable[[], WorkloadWords]] = {"training": _training, "serving": _serving, "rl": _rl}
