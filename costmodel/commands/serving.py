"""Answers of the commands for serving; imported only for such scenarios."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from costmodel.commands.workload_commands import TOP, SearchQuestion, running_search, search_reply
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving.predict_serving import ServingAnswer, broken_of, predict, with_benchmark
from costmodel.estimate.serving.service_limits import waiting_requests
from costmodel.estimate.serving.serving_inputs import check_one_kind
from costmodel.ground.errors import Place, fail
from costmodel.report.terminal.layout import Reply

if TYPE_CHECKING:
    from costmodel.report.answers.export import AnyExport
    from costmodel.report.answers.serving_view import ServingView


_SHOWN = {  # results by question
    "memory": frozenset({
        "memory_peak", "memory_share", "cache_pool", "cache_pool_tokens", "kv_bytes_per_token", "concurrency_worst",
        "concurrency_steady", "concurrency",
    }),
    "comm": frozenset({"tp_exposed", "dcp_exposed", "ep_exposed", "pp_exposed", "transfer_time", "transfer_exposed"}),
}  # fmt: skip


def predicted(case: ServingCase, shown: Collection[str] | None = None) -> ServingAnswer:
    """The answer for the scenario's own plan; with remedies if it does not work.

    shown: the results that the command shows; limits on other results are ignored
    """
    answer = predict(case)
    answer = answer if shown is None else replace(answer, broken=broken_of(answer, shown))
    if not (answer.refused or answer.broken) or answer.groups:
        return answer
    from costmodel.explore.serving.serving_remedies import with_remedies

    return with_remedies(answer)


def view(case: LoadedScenario, question: str) -> ServingView:
    """The answer for the scenario's plan as commands show it."""
    from costmodel.report.answers.serving_view import ServingView

    held = serving(case)
    if question != "estimate":
        check_one_kind(held)
    asked = predicted(held, _SHOWN.get(question))
    if question == "estimate":
        asked = with_benchmark(asked)
    if question == "estimate" and waiting_requests(held.scenario.workload, asked.costs):
        from costmodel.explore.serving.remedy_trials import with_room_for_all

        asked = with_room_for_all(asked)
    if question != "memory" or asked.refused:
        return ServingView(asked)
    from costmodel.explore.serving.remedy_trials import levers

    return ServingView(asked, levers(asked))


def search(case: LoadedScenario, question: SearchQuestion) -> Reply:
    """The answer of the command `search`: the best serving plans."""
    from costmodel.estimate.serving.serving_inputs import inputs_of
    from costmodel.explore.serving.pareto import front
    from costmodel.explore.serving.search_layouts import search as search_space
    from costmodel.explore.serving.search_remedies import with_search_remedies
    from costmodel.report.answers.search_service import ServiceWords

    held = serving(case)
    if held.groups and not question.pareto:
        from costmodel.explore.serving.search_layouts import search_groups

        with running_search(question, case) as how:
            return search_reply(ServiceWords(search_groups(held, question.top or TOP, question.over, how)), question)
    inputs = inputs_of(held)
    with running_search(question, case) as how:
        if question.pareto:
            return search_reply(ServiceWords(front(inputs, question.pareto, question.over, how)), question)
        ranking = with_search_remedies(search_space(inputs, question.top or TOP, question.over, how))
    return search_reply(ServiceWords(ranking), question)


def usual_plan(case: LoadedScenario) -> str:
    """Empty: a search finds the plan keys that flags leave open."""
    return ""


def best_plan(case: LoadedScenario) -> tuple[dict[str, str], str] | None:
    """Settings of the best layout of a search, and a phrase on where they are from."""
    from costmodel.explore.serving.best_layout import best_layout

    return best_layout(serving(case), nearest=True)


OTHER_PLANS = "change it with --set plan.tp=…"
WITHOUT = {
    "run": (
        "run is for training and RL: a service has no end",
        "costmodel scale --rate shows how many replicas other rates need",
    ),
    "pipeline": (
        "pipeline is for training: a service has no backward pass to schedule",
        "costmodel comm shows what they send, sweep --over plan.pp=1,2 what they cost",
    ),
    "diagnose": (
        "diagnose is for training: the times of a service depend on its load",
        "costmodel validate compares measured times; sensitivity shows what moves them",
    ),
}


def usual_format(case: LoadedScenario) -> str:
    """The default export format: the command of the engine that serves."""
    from costmodel.explore.workload_flags import flags_of

    name, formats = serving(case).stack.name, flags_of(case.kind).formats
    if name not in formats:
        sentence = f"the command of the engine {name} is not written"
        raise fail("C030", sentence, Place(case.file), f"--to {' or '.join(formats)}")
    return name


def export(case: LoadedScenario, to: str, rank: int | None) -> AnyExport:
    """A plan as the command of an engine."""
    from costmodel.explore.import_export.export_serving import export_engine

    return export_engine(serving(case), to, rank)
