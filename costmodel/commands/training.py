"""Answers of the commands for training; imported only for such scenarios."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from costmodel.commands import pages
from costmodel.commands.workload_commands import TOP, SearchQuestion, search_reply, searching
from costmodel.documents.reader.resolved_scenario import LoadedScenario, training
from costmodel.estimate.evaluate.predict import Answer
from costmodel.ground.counts import number_of
from costmodel.ground.errors import Place, fail
from costmodel.report.machine import json_answer
from costmodel.report.terminal.plan import estimate as estimate_report
from costmodel.report.terminal.plan.plan_lines import against, refusal, without_figure
from costmodel.report.terminal.style.answer import Reply

if TYPE_CHECKING:
    from costmodel.explore.explain.explained_answer import ExplainedAnswer
    from costmodel.report.page.content import HtmlPage
    from costmodel.report.page.scenarios_page import ScenarioEntry
    from costmodel.report.terminal.documents.exports import Found

_WHY = "costmodel search with the same flags and --why-not shows why"


def predicted(case: LoadedScenario) -> ExplainedAnswer:
    """The scenario's own plan, evaluated and explained."""
    from costmodel.explore.explain.explained_answer import explained_plan

    return explained_plan(training(case))


def works(asked: Answer) -> bool:
    """Whether a plan is valid, fits and keeps its limits."""
    return not (asked.refused or asked.broken)


def estimate(case: LoadedScenario, *, verbose: bool) -> Reply:
    """The answer of `estimate`."""
    asked = predicted(case)
    lines, forms = lambda: estimate_report.estimate(asked, verbose=verbose), pages.of_plan(asked)
    return Reply(lines, lambda: json_answer.estimate(asked), "plans", yes=works(asked), others=forms, found=asked)


def memory(case: LoadedScenario, *, verbose: bool) -> Reply:
    """The answer of `memory`."""
    from costmodel.report.terminal.plan import memory_breakdown

    asked = predicted(case)
    lines, forms = lambda: memory_breakdown.memory(asked, verbose=verbose), pages.of_plan(asked, "memory")
    return Reply(lines, lambda: json_answer.memory(asked), "ledger", yes=works(asked), others=forms, found=asked)


def comm(case: LoadedScenario) -> Reply:
    """The answer of `comm`."""
    from costmodel.report.terminal.plan import communication

    asked = predicted(case)
    lines, forms = lambda: communication.communication(asked), pages.of_plan(asked, "network")
    result = lambda: json_answer.communication(asked)  # noqa: E731
    return Reply(lines, result, "transfers", yes=works(asked), others=forms, found=asked)


def run(case: LoadedScenario, *, verbose: bool) -> Reply:
    """The answer of `run`."""
    from costmodel.documents.reader.override_case import vary
    from costmodel.report.terminal.plan import run as report

    held = training(case)
    asked = predicted(held if held.scenario.run is not None else vary(held, ["run={}"]))
    lines, forms = lambda: report.run(asked, verbose=verbose), pages.of_run(asked)
    return Reply(lines, lambda: report.run_json(asked), "plans", yes=works(asked), others=forms, found=asked)


def explain(case: LoadedScenario, figure: str, depth: int) -> Reply:
    """The answer of `explain` about a figure of the plan, as a tree of equations."""
    from costmodel.estimate.evaluate.limit_checks import TOO_LARGE
    from costmodel.estimate.evaluate.predict import own_plan
    from costmodel.explore.explain.explain import explain as explain_figure
    from costmodel.explore.explain.explain import quantities
    from costmodel.explore.explain.pages import all_words
    from costmodel.explore.labels import meaning_of
    from costmodel.report.terminal.documents import tree

    figure = figure if figure in quantities() else (meaning_of(figure) or ("", ""))[1] or figure
    if figure not in quantities() and figure in all_words():
        raise fail("C003", f"'{figure}' is a word, not a figure of a plan", None, f"costmodel explain {figure}")
    held, asked = training(case), predicted(case)
    if asked.refused:
        return Reply(lambda: refusal(asked), lambda: json_answer.estimate(asked), yes=False, found=asked)
    node = explain_figure(asked.inputs, own_plan(asked.inputs), figure)
    if not TOO_LARGE.isdisjoint(asked.broken) and math.isnan(asked.costs.get(figure, 0.0)):
        return Reply(lambda: without_figure(asked, figure), lambda: json_answer.estimate(asked), yes=False, found=asked)
    lines = lambda: [*against(asked), *tree.tree(held, node, depth)]  # noqa: E731
    return Reply(lines, lambda: tree.tree_json(held, node), found=node)


def explain_plan(case: LoadedScenario) -> Reply:
    """The answer of `explain` about the plan beside its neighbours."""
    from costmodel.explore.explain.neighbours import neighbours
    from costmodel.report.terminal.plan import neighbours as report

    asked = predicted(case)
    if asked.refused:
        return Reply(lambda: refusal(asked), lambda: json_answer.estimate(asked), "refused", yes=False, found=asked)
    others = neighbours(asked)
    return Reply(
        lambda: report.plan(asked, others), lambda: report.plan_json(asked, others), "neighbours", found=others
    )


def search(case: LoadedScenario, asked: SearchQuestion) -> Reply:
    """The answer of `search`."""
    from costmodel.explore.search.search import search as search_space
    from costmodel.explore.search.search import with_examples, with_remedies
    from costmodel.report.answers.search_training import TrainingWords

    with searching(asked, case) as how:
        found = search_space(training(case), asked.top or TOP, pareto=asked.pareto, over=asked.over, how=how)
        found = with_remedies(found)
    return search_reply(TrainingWords(with_examples(found) if asked.why_not else found), asked)


def report(case: LoadedScenario) -> Reply:
    """The answer of `report`: what a page has beside the plan is computed where a page is asked for."""
    from costmodel.commands.progress import working_on
    from costmodel.explore.page.report_facts import report_facts, with_plan
    from costmodel.report.machine.formats import markdown_text
    from costmodel.report.page.forms import html_form

    asked = predicted(with_plan(training(case)))

    def page() -> HtmlPage:
        from costmodel.report.page.report_page import report_page

        return report_page(report_facts(training(case), working_on), pages.command_line())

    def text() -> str:
        from costmodel.report.terminal.plan.plan_sections import report as sections

        return markdown_text(sections(report_facts(training(case), working_on), asked))

    forms = {**pages.of_plan(asked), "html": html_form(page), "markdown": text}
    lines, result = lambda: estimate_report.estimate(asked), lambda: json_answer.estimate(asked)
    return Reply(lines, result, "plans", yes=works(asked), others=forms, found=asked)


def figure(case: LoadedScenario, name: str) -> Reply:
    """One figure of the plan alone."""
    from costmodel.explore.page.report_facts import with_plan
    from costmodel.report.page.plan_page import FIGURES

    if name not in FIGURES:
        raise pages.no_figure("a scenario that trains", name, tuple(FIGURES))
    asked = predicted(with_plan(training(case)))
    return pages.figure_alone(pages.of_plan(asked, name), yes=works(asked))


def page_entry(case: LoadedScenario) -> ScenarioEntry:
    """What a page of several scenarios shows of it; the best plan where it states none."""
    from costmodel.explore.page.plan_facts import plan_facts
    from costmodel.explore.page.report_facts import with_plan
    from costmodel.report.page.plan_page import scenario_entry

    return scenario_entry(plan_facts(with_plan(training(case))))


def best_plan(case: LoadedScenario) -> tuple[dict[str, str], str] | None:
    """What sets the best plan of a search, or else the nearest to fit, and where it is from."""
    from costmodel.estimate.shared.reasons import REFUSALS
    from costmodel.explore.search.search import search as search_space
    from costmodel.report.terminal.plan.plan_settings import plan_settings

    held = training(case)
    found = search_space(held, 1, workers=1)
    rows = found.best or found.tally.missed_by_least
    if not rows and held.scenario.plan is not None:
        return None
    if not rows:
        most = found.tally.refused.most_common(1)
        why = f": {REFUSALS[most[0][0]].meaning} ({most[0][0]})" if most else ""
        raise fail("C004", f"no plan of the search is valid{why}", Place(case.file), _WHY)
    which = "the nearest to fit" if not found.best else "the best" if found.is_safe else "the surest to fit"
    origin = f"{which} of {number_of(found.tally.candidates, 'plan')} of costmodel search"
    return plan_settings(found.inputs_of(rows[0].variant), rows[0]), origin


PLANS_AHEAD = False
WITHOUT: dict[str, tuple[str, str]] = {}
FORMATS = ("megatron", "bridge", "torchtitan", "deepspeed", "accelerate", "hf")


def usual_format(case: LoadedScenario) -> str:
    """Options of Megatron."""
    return "megatron"


def export(case: LoadedScenario, to: str, rank: int | None) -> Found:
    """A plan in a format."""
    from costmodel.explore.export_plan import export_plan

    return export_plan(training(case), to, rank)
