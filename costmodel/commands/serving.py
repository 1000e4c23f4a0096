"""Answers of the commands for serving; imported only for such scenarios."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from costmodel.commands import pages
from costmodel.commands.workload_commands import TOP, SearchQuestion, no_answer, search_reply, searching
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving.predict_serving import ServingAnswer, broken_of, predict
from costmodel.estimate.serving.waiting_requests import waiting_requests
from costmodel.ground.errors import Place, fail
from costmodel.report.machine import serving_json
from costmodel.report.terminal.serving import serving_estimate as estimate_report
from costmodel.report.terminal.style.answer import Reply

if TYPE_CHECKING:
    from costmodel.report.page.content import HtmlPage
    from costmodel.report.page.scenarios_page import ScenarioEntry
    from costmodel.report.terminal.documents.exports import Found


def _works(answer: ServingAnswer) -> bool:
    """Whether a plan is valid, fits, stands its load and keeps its limits."""
    return not (answer.refused or answer.broken)


_OF_MEMORY = frozenset({
    "memory_peak", "memory_share", "cache_pool", "cache_pool_tokens", "kv_bytes_per_token", "concurrency_worst",
    "concurrency_steady", "concurrency",
})  # fmt: skip
_SENT = frozenset({"tp_exposed", "dcp_exposed", "ep_exposed", "pp_exposed", "transfer_time", "transfer_exposed"})


def predicted(case: ServingCase, shown: Collection[str] | None = None) -> ServingAnswer:
    """The scenario's own plan evaluated, with remedies where it needs any.

    shown: the results that the command shows, where limits on others are not its concern
    """
    answer = predict(case)
    answer = answer if shown is None else replace(answer, broken=broken_of(answer, shown))
    if _works(answer):
        return answer
    from costmodel.explore.serving.serving_remedies import with_remedies

    return with_remedies(answer)


def estimate(case: LoadedScenario, *, verbose: bool) -> Reply:
    """The answer of `estimate`."""
    held = serving(case)
    asked = predicted(held)
    if waiting_requests(held.scenario.workload, asked.costs):
        from costmodel.explore.serving.user_levers import with_room_for_all

        asked = with_room_for_all(asked)
    lines, forms = lambda: estimate_report.estimate(asked, verbose=verbose), pages.of_serving_plan(held, asked)
    return Reply(lines, lambda: serving_json.estimate(asked), "plans", yes=_works(asked), others=forms, found=asked)


def memory(case: LoadedScenario, *, verbose: bool) -> Reply:
    """The answer of `memory`."""
    from costmodel.explore.serving.cache_levers import levers
    from costmodel.report.terminal.serving import serving_memory as report

    held = serving(case)
    asked = predicted(held, _OF_MEMORY)
    tried = [] if asked.refused else levers(asked)
    lines = functools.partial(report.memory, asked, tried, verbose=verbose)
    forms = pages.of_serving_plan(held, asked, "memory")
    return Reply(lines, lambda: serving_json.memory(asked), "ledger", yes=_works(asked), others=forms, found=asked)


def comm(case: LoadedScenario) -> Reply:
    """The answer of `comm`."""
    from costmodel.report.terminal.serving import serving_communication as report

    held = serving(case)
    asked = predicted(held, _SENT)
    forms = {"html": pages.of_serving_plan(held, asked)["html"]}
    lines, result = lambda: report.communication(asked), lambda: serving_json.communication(asked)
    return Reply(lines, result, "transfers", yes=_works(asked), others=forms, found=asked)


def explain(case: LoadedScenario, label: str, depth: int) -> Reply:
    """The answer of `explain` about a figure of the scenario's plan, or a label of an answer about it."""
    from costmodel.estimate.serving.predict_serving import WITHOUT_ROOM
    from costmodel.explore.serving.explain_serving import explain as explain_figure
    from costmodel.explore.serving.labelled_figures import labelled
    from costmodel.report.terminal.serving import serving_tree as report

    asked = predicted(serving(case))
    meant = labelled(asked, label)
    if meant.page is not None:
        about = meant.page
        return Reply(lambda: report.about(meant, about), lambda: report.about_json(meant, about), found=about)
    unknown = "M001" in asked.broken and not any(name in WITHOUT_ROOM for name in meant.figures)
    if asked.refused or unknown:
        return Reply(
            lambda: estimate_report.estimate(asked), lambda: serving_json.estimate(asked), yes=False, found=asked
        )
    nodes = [explain_figure(asked.inputs, figure) for figure in meant.figures]
    return Reply(lambda: report.trees(asked, label, nodes, depth), lambda: report.trees_json(asked, nodes), found=nodes)


def explain_plan(case: LoadedScenario) -> Reply:
    """A fault: a search has them beside each other."""
    raise no_answer(
        case, ("explain compares plans of training; search ranks those of a service", f"costmodel search {case.name}")
    )


def run(case: LoadedScenario, *, verbose: bool) -> Reply:
    """A fault: a service has no end."""
    raise no_answer(case, WITHOUT["run"])


def search(case: LoadedScenario, asked: SearchQuestion) -> Reply:
    """The answer of `search`."""
    from costmodel.estimate.serving.serving_inputs import inputs_of
    from costmodel.explore.serving.pareto import front
    from costmodel.explore.serving.search_layouts import search as search_space
    from costmodel.explore.serving.search_remedies import with_search_remedies
    from costmodel.report.answers.search_service import ServiceWords

    inputs = inputs_of(serving(case))
    with searching(asked, case) as how:
        if asked.pareto:
            return search_reply(ServiceWords(front(inputs, asked.pareto, asked.over, how)), asked)
        found = with_search_remedies(search_space(inputs, asked.top or TOP, asked.over, how))
    return search_reply(ServiceWords(found), asked)


def report(case: LoadedScenario) -> Reply:
    """The answer of `report`: the plan under several loads, what moves it, and its search."""
    from costmodel.report.machine.formats import markdown_text
    from costmodel.report.page.forms import html_form

    held = serving(case)

    def page() -> HtmlPage:
        from costmodel.explore.page.serving_facts import serving_facts
        from costmodel.report.page.serving_report import serving_report

        return serving_report(serving_facts(held), pages.command_line())

    def text() -> str:
        from costmodel.explore.page.serving_facts import ServingFacts
        from costmodel.report.terminal.serving.serving_sections import report as sections

        return markdown_text(sections(ServingFacts(held, predicted(held))))

    reply = estimate(case, verbose=False)
    return replace(reply, others={**reply.others, "html": html_form(page), "markdown": text})


def figure(case: LoadedScenario, name: str) -> Reply:
    """One figure of the plan alone."""
    if name not in FIGURES:
        raise pages.no_figure("a scenario that serves", name, FIGURES)
    held = serving(case)
    return pages.figure_alone(pages.of_serving_plan(held, predict(held), name))


FIGURES = ("time", "memory")


def page_entry(case: LoadedScenario) -> ScenarioEntry:
    """What a page of several scenarios shows of it."""
    from costmodel.explore.page.serving_facts import serving_facts
    from costmodel.report.page.serving_page import scenario_entry

    return scenario_entry(serving_facts(serving(case)))


def best_plan(case: LoadedScenario) -> tuple[dict[str, str], str] | None:
    """What sets the best layout of a search, and where it is from."""
    from costmodel.explore.serving.best_layout import best_layout

    return best_layout(serving(case), nearest=True)


PLANS_AHEAD = True
WITHOUT = {
    "run": (
        "a service has no end: it has no length, and a replica that fails leaves its requests to the others",
        "costmodel scale --rate shows how many replicas other rates need",
    ),
    "pipeline": (
        "a service has no backward pass, so it has no schedule of its stages",
        "costmodel comm shows what they send, sweep --over plan.pp=1,2 what they cost",
    ),
    "diagnose": (
        "a service has no step that ends: its times follow from its load",
        "costmodel validate compares measured times; sensitivity shows what moves them",
    ),
}
FORMATS = ("vllm", "sglang", "trt-llm")


def usual_format(case: LoadedScenario) -> str:
    """The command of the engine that serves."""
    name = serving(case).stack.name
    if name not in FORMATS:
        sentence = f"the command of the engine {name} is not written"
        raise fail("C030", sentence, Place(case.file), f"--to {' or '.join(FORMATS)}")
    return name


def export(case: LoadedScenario, to: str, rank: int | None) -> Found:
    """A plan as the command of an engine."""
    from costmodel.explore.export_serving import export_engine

    return export_engine(serving(case), to, rank)
