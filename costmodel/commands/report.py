"""report: one page to send, about one scenario or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from costmodel.commands import completion
from costmodel.commands.shared import PAGE, answering_in
from costmodel.commands.short_form import Question, asking
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.report.terminal.style.answer import Reply

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario


class FigureName(StrEnum):
    """Figures of a plan."""

    TIME = "time"
    MEMORY = "memory"
    NETWORK = "network"
    ROOFLINE = "roofline"
    PIPELINE = "pipeline"


OthersArgument = Annotated[
    list[str] | None,
    typer.Argument(help="Further scenarios, side by side", show_default=False, autocompletion=completion.scenarios),
]


@answering_in(*PAGE)
@asking
def report(
    question: Question,
    others: OthersArgument = None,
    figure: Annotated[
        FigureName | None, typer.Option("--figure", help="With --format svg or png: this figure of the plan")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Write the page again whenever the scenario changes")] = False,
) -> Reply:
    """One page to send: the plan and its conclusion, the plans around it, what moves it, and every equation behind.

    Examples:
      costmodel report llama-3-70b-512 --format html > page.html
      costmodel report llama-3-70b-512 megatron-22b-8
      costmodel report llama-3-70b-512 --figure roofline --format svg
      costmodel report --model llama-3.1-8b --gpu h100 --gpus 64 --format html > page.html

    -o page.html writes the page: one file that needs no network. Of several scenarios it sets their plans side by side.

    Exit code 1 when a plan is not valid, does not fit or breaks a limit.

    Next: costmodel search SCENARIO -o plans.html
    """
    questions = [question, *(replace(question, scenario=name, write=None) for name in others or ())]
    if watch:
        return _watched(question, _only_file(questions), figure)
    return _reply(questions, figure)


def _only_file(questions: Sequence[Question]) -> str:
    """The one file that is watched."""
    path = questions[0].scenario
    if len(questions) != 1 or path is None or not Path(path).is_file():
        sentence = "--watch follows one scenario that is a file"
        raise fail("C044", sentence, Place("command line"), "costmodel init > mine.yaml writes one")
    return path


def _watched(question: Question, path: str, figure: FigureName | None) -> Reply:
    """The answer, and a new one after every change of the file; an unreadable file gives the reason and waits."""
    from costmodel.commands.exit_codes import print_faults
    from costmodel.commands.file_changes import marks, wait_for_change

    files = [Path(path)]
    before = marks(files)

    def again() -> Reply:
        nonlocal before
        while True:
            wait_for_change(files, before)
            before = marks(files)
            try:
                return replace(_reply([replace(question, write=None)], figure), again=again)
            except CostModelError as error:
                print_faults(error)

    return replace(_reply([question], figure), again=again)


def _reply(questions: Sequence[Question], figure: FigureName | None) -> Reply:
    cases = [question.loaded() for question in questions]
    if len(cases) > 1:
        if figure is not None:
            raise fail("C044", "--figure is of one scenario", Place("command line"), "name one scenario")
        return _several(cases)
    if cases[0].kind == "serving":
        if figure is not None:
            raise fail("C044", "a scenario that serves has no --figure", Place("command line"), "leave it out")
        return _serving(cases[0])
    return _one(cases[0], figure)


def _one(case: LoadedScenario, figure: FigureName | None) -> Reply:
    """A training scenario whole; what a page needs beside the plan is computed where a page is asked for."""
    from costmodel.commands.estimate import works
    from costmodel.commands.pages import command_line, of_plan
    from costmodel.documents.reader.resolved_scenario import training
    from costmodel.explore.explain.explained_answer import explained_plan
    from costmodel.explore.page.report_facts import report_facts, with_plan
    from costmodel.report.machine import json_answer
    from costmodel.report.page.forms import html_form
    from costmodel.report.terminal.plan import estimate

    held = with_plan(training(case))
    asked = explained_plan(held)

    def page() -> Any:
        from costmodel.report.page.report_page import report_page

        return report_page(report_facts(training(case)), command_line())

    if figure is not None:
        drawn = {name: form for name, form in of_plan(asked, figure.value).items() if name != "html"}
        return Reply(_no_lines, _no_result, others={**drawn, "html": _no_result}, yes=works(asked))
    forms = {**of_plan(asked), "html": html_form(page)}
    lines, result = lambda: estimate.estimate(asked), lambda: json_answer.estimate(asked)
    return Reply(lines, result, "plans", yes=works(asked), others=forms)


def _no_lines() -> Any:
    raise fail("C044", "--figure goes with --format svg or png", Place("command line"), "add -o figure.svg")


def _no_result() -> Any:
    return _no_lines()


def _serving(case: LoadedScenario) -> Reply:
    """A scenario that serves: its plan under several loads, and its search."""
    from costmodel.commands import serving
    from costmodel.commands.pages import command_line
    from costmodel.documents.reader.serving_scenario import serving as held
    from costmodel.report.page.forms import html_form

    def page() -> Any:
        from costmodel.explore.page.serving_facts import plans_of, serving_facts
        from costmodel.report.page.serving_page import serving_page
        from costmodel.report.page.serving_parts import plans_part, why_part

        found = plans_of(held(case), 50)
        parts = [] if found is None else [part for part in (plans_part(found), why_part(found)) if part is not None]
        return serving_page(serving_facts(held(case)), command_line(), parts)

    reply = serving.estimate(case, verbose=False)
    return replace(reply, others={**reply.others, "html": html_form(page)})


def _several(cases: Sequence[LoadedScenario]) -> Reply:
    """Training scenarios side by side."""
    from costmodel.commands.pages import command_line
    from costmodel.documents.reader.resolved_scenario import training
    from costmodel.explore.page.plan_facts import plan_facts
    from costmodel.explore.page.report_facts import with_plan
    from costmodel.report.page import report_page as pages
    from costmodel.report.page.forms import page_forms

    found = [plan_facts(with_plan(training(case))) for case in cases]
    forms = page_forms(lambda: pages.scenarios_page(found, command_line()), lambda: pages.scenarios_figure(found))
    works = all(not (facts.answer.refused or facts.answer.broken) for facts in found)
    lines, result = lambda: pages.scenarios_lines(found), lambda: pages.scenarios_json(found)
    return Reply(lines, result, "plans", yes=works, others=forms)
