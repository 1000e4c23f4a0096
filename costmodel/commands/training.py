"""Answers of the commands for training; imported only for such scenarios."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from costmodel.commands import pages
from costmodel.commands.workload_commands import FRONT, TOP, SearchQuestion
from costmodel.documents.reader.resolved_scenario import LoadedScenario, training
from costmodel.ground.counts import number_of
from costmodel.ground.errors import Place, fail
from costmodel.report.machine import json_answer
from costmodel.report.terminal.plan.plan_lines import against
from costmodel.report.terminal.style.answer import Reply

if TYPE_CHECKING:
    from costmodel.explore.explain.explained_answer import ExplainedAnswer
    from costmodel.explore.search.search import SearchResult
    from costmodel.explore.search.stream import SearchOptions
    from costmodel.report.answers.training_view import TrainingView
    from costmodel.report.page.content import HtmlPage
    from costmodel.report.page.forms import Form
    from costmodel.report.terminal.documents.exports import Found

_WHY = "costmodel search with the same flags and --why-not shows why"


def predicted(case: LoadedScenario) -> ExplainedAnswer:
    """The scenario's own plan, evaluated and explained."""
    from costmodel.explore.explain.explained_answer import explained_plan

    return explained_plan(training(case))


def view(case: LoadedScenario, question: str) -> TrainingView:
    """Its plan as answers show it; of a report the best one where it states none."""
    from costmodel.report.answers.training_view import TrainingView

    if question == "report":
        from costmodel.explore.page.report_facts import with_plan

        case = with_plan(training(case))
    return TrainingView(predicted(case))


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
    held, plan = training(case), view(case, "explain")
    asked = plan.answer
    if asked.refused:
        return pages.no_answer(plan)
    node = explain_figure(asked.inputs, own_plan(asked.inputs), figure)
    if not TOO_LARGE.isdisjoint(asked.broken) and math.isnan(asked.costs.get(figure, 0.0)):
        return pages.no_answer(plan, f"A plan that does not fit has no {figure}.")
    lines = lambda: [*against(asked), *tree.tree(held, node, depth)]  # noqa: E731
    return Reply(lines, lambda: tree.tree_json(held, node), found=node)


def explain_plan(case: LoadedScenario) -> Reply:
    """The answer of `explain` about the plan beside its neighbours."""
    from costmodel.explore.explain.neighbours import neighbours
    from costmodel.report.terminal.plan import neighbours as report

    plan = view(case, "explain")
    asked = plan.answer
    if asked.refused:
        return pages.no_answer(plan, rows="refused")
    others = neighbours(asked)
    return Reply(
        lambda: report.plan(asked, others), lambda: report.plan_json(asked, others), "neighbours", found=others
    )


def search(case: LoadedScenario, asked: SearchQuestion) -> Reply:
    """The answer of `search`."""
    from costmodel.explore.search.refusals import examples
    from costmodel.explore.search.stream import SearchOptions
    from costmodel.report.terminal.search import ranking

    if asked.into is None and (asked.resume or asked.keep_all):
        raise fail("C021", f"{'--resume' if asked.resume else '--keep all'} needs a folder", None, "add --into FOLDER")
    keep, wait = asked.keep_all, _seconds(asked.wait)
    found = _searched(
        case, asked, SearchOptions(asked.engine, asked.workers, asked.into, keep, asked.resume, wait=wait)
    )
    shown = examples(found) if asked.why_not else None
    rows = "refused" if asked.why_not else "pareto.plans" if asked.pareto else "plans"
    count = asked.top or (FRONT if asked.pareto else TOP)
    lines, result = lambda: ranking.search(found, count, shown), lambda: json_answer.search(found, shown)
    forms = pages.of_search(found)
    return Reply(lines, result, rows, yes=bool(found.best), stopped=found.stopped, others=forms, found=found)


def _searched(case: LoadedScenario, asked: SearchQuestion, how: SearchOptions) -> SearchResult:
    """The search itself, watched and ready to be stopped."""
    from costmodel.commands.output import printed
    from costmodel.commands.progress import metered, stoppable
    from costmodel.explore.search.search import search as search_space
    from costmodel.explore.search.search import with_remedies
    from costmodel.report.terminal.style.progress import of_search
    from costmodel.report.terminal.style.theme import styled

    objective = training(case).scenario.objective
    with stoppable() as stop, metered() as show:
        how = replace(
            how,
            watch=lambda sight: show(of_search(sight, objective)),
            stop=stop,
            notify=lambda words: printed([styled(words)], stderr=True),
        )
        top = asked.top or TOP
        return with_remedies(search_space(training(case), top, pareto=asked.pareto, over=asked.over, how=how))


def _seconds(text: str) -> float:
    """How long to wait, in seconds."""
    from costmodel.explore.search.engine import WAIT
    from costmodel.ground.parsing import UnitError, parse

    try:
        seconds = parse(text, "s") if text else WAIT
    except UnitError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        place = Place("command line", 0, 8, "", f"--wait {text}", max(1, len(text)))
        raise fail("C020", f"'{text}' is no time", place, "for example --wait '5 min'")
    return seconds


def report(case: LoadedScenario) -> dict[str, Form]:
    """The forms of `report`: what they have beside the plan is computed where one is asked for."""
    from costmodel.commands.progress import working_on
    from costmodel.explore.page.report_facts import report_facts
    from costmodel.report.machine.formats import markdown_text
    from costmodel.report.page.forms import html_form

    held = view(case, "report")

    def page() -> HtmlPage:
        from costmodel.report.page.report_page import report_page

        return report_page(held, report_facts(training(case), working_on), pages.command_line())

    def text() -> str:
        from costmodel.report.answers.report_text import training_text as sections

        return markdown_text(sections(held, report_facts(training(case), working_on)))

    return {"html": html_form(page), "markdown": text}


def best_plan(case: LoadedScenario) -> tuple[dict[str, str], str] | None:
    """What sets the best plan of a search, or else the nearest to fit, and where it is from."""
    from costmodel.estimate.shared.reasons import REFUSALS
    from costmodel.explore.search.search import search as search_space
    from costmodel.report.terminal.plan.plan_settings import plan_settings

    held = training(case)
    found = search_space(held, 1, workers=1)
    rows = found.best or found.tally.closest.rows or found.tally.nearest.rows
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
