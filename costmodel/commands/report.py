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
    from costmodel.explore.page.plan_facts import PlanFacts
    from costmodel.explore.page.rl_facts import RlFacts
    from costmodel.explore.page.serving_facts import ServingFacts
    from costmodel.report.page.forms import Form


class FigureName(StrEnum):
    """Figures of a plan."""

    TIME = "time"
    MEMORY = "memory"
    NETWORK = "network"
    ROOFLINE = "roofline"
    PIPELINE = "pipeline"


OthersArgument = Annotated[
    list[str] | None,
    typer.Argument(help="More scenarios, shown side by side", show_default=False, autocompletion=completion.scenarios),
]


@answering_in(*PAGE)
@asking
def report(
    question: Question,
    others: OthersArgument = None,
    figure: Annotated[
        FigureName | None, typer.Option("--figure", help="With --format svg or png: this figure of the plan")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Rewrite the page whenever the scenario changes")] = False,
) -> Reply:
    """Write one page to send: the plan, the plans around it, what affects it, and every equation behind the figures.

    Examples:
      costmodel report llama-3-70b-512 --format html > page.html
      costmodel report llama-3-70b-512 megatron-22b-8
      costmodel report llama-3-70b-512 --figure roofline --format svg
      costmodel report --model llama-3.1-8b --gpu h100 --gpus 64 --format html > page.html

    -o page.html writes the page: one file that needs no network. -o page.md writes its tables as text. Several
    scenarios are shown side by side.

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
            wait_for_change(files, before, gone=_print_gone)
            before = marks(files)
            try:
                return replace(_reply([replace(question, write=None)], figure), again=again)
            except CostModelError as error:
                print_faults(error)

    return replace(_reply([question], figure), again=again)


def _print_gone(path: Path) -> None:
    """Print on standard error that a watched file is missing."""
    from costmodel.commands.output import printed
    from costmodel.report.terminal.style.theme import WARN, styled

    printed([styled(f"{path} is missing; the page stays as it is until the file is back", WARN)], stderr=True)


def _reply(questions: Sequence[Question], figure: FigureName | None) -> Reply:
    cases = [question.loaded() for question in questions]
    if len(cases) > 1:
        if figure is not None:
            raise fail("C044", "--figure is of one scenario", Place("command line"), "name one scenario")
        return _several(cases)
    (case,) = cases
    if case.kind == "training":
        return _one(case, figure)
    if figure not in (None, FigureName.TIME, FigureName.MEMORY):
        words = {"serving": "a scenario that serves", "rl": "reinforcement learning"}[case.kind]
        sentence = f"{words} has no figure {figure}"
        raise fail("C044", sentence, Place("command line"), "--figure time or --figure memory")
    return _serving(case, figure) if case.kind == "serving" else _rl(case, figure)


def _one(case: LoadedScenario, figure: FigureName | None) -> Reply:
    """A training scenario whole; what a page needs beside the plan is computed where a page is asked for."""
    from costmodel.commands.estimate import works
    from costmodel.commands.pages import command_line, of_plan
    from costmodel.commands.progress import working_on
    from costmodel.documents.reader.resolved_scenario import training
    from costmodel.explore.explain.explained_answer import explained_plan
    from costmodel.explore.page.report_facts import report_facts, with_plan
    from costmodel.report.machine import json_answer
    from costmodel.report.machine.formats import markdown_text
    from costmodel.report.page.forms import html_form
    from costmodel.report.terminal.plan import estimate

    held = with_plan(training(case))
    asked = explained_plan(held)

    def page() -> Any:
        from costmodel.report.page.report_page import report_page

        return report_page(report_facts(training(case), working_on), command_line())

    if figure is not None:
        return _drawn(of_plan(asked, figure.value), works=works(asked))

    def text() -> str:
        from costmodel.report.terminal.plan.plan_sections import report as sections

        return markdown_text(sections(report_facts(training(case), working_on), asked))

    forms = {**of_plan(asked), "html": html_form(page), "markdown": text}
    lines, result = lambda: estimate.estimate(asked), lambda: json_answer.estimate(asked)
    return Reply(lines, result, "plans", yes=works(asked), others=forms)


def _no_lines() -> Any:
    raise fail("C044", "--figure goes with --format svg or png", Place("command line"), "add -o figure.svg")


def _no_result() -> Any:
    return _no_lines()


def _serving(case: LoadedScenario, figure: FigureName | None) -> Reply:
    """A scenario that serves: its plan under several loads, what moves it, and its search."""
    from costmodel.commands import serving
    from costmodel.commands.pages import command_line, of_serving_plan
    from costmodel.documents.reader.serving_scenario import serving as held
    from costmodel.estimate.serving.predict_serving import predict
    from costmodel.report.machine.formats import markdown_text
    from costmodel.report.page.forms import html_form

    if figure is not None:
        own = held(case)
        return _drawn(of_serving_plan(own, predict(own), figure.value))

    def page() -> Any:
        from costmodel.explore.page.serving_facts import serving_facts
        from costmodel.report.page.serving_report import serving_report

        return serving_report(serving_facts(held(case)), command_line())

    def text() -> str:
        from costmodel.explore.page.serving_facts import ServingFacts
        from costmodel.report.terminal.serving.serving_sections import report as sections

        return markdown_text(sections(ServingFacts(held(case), serving.predicted(held(case)))))

    reply = serving.estimate(case, verbose=False)
    return replace(reply, others={**reply.others, "html": html_form(page), "markdown": text})


def _rl(case: LoadedScenario, figure: FigureName | None) -> Reply:
    """Reinforcement learning: its plan, the splits of its accelerators, and what moves it."""
    from costmodel.commands import rl
    from costmodel.commands.pages import command_line, of_rl_plan
    from costmodel.documents.reader.rl_scenario import reinforced
    from costmodel.estimate.rl.predict_rl import predict
    from costmodel.report.machine.formats import markdown_text
    from costmodel.report.page.forms import html_form

    if figure is not None:
        return _drawn(of_rl_plan(predict(reinforced(case)), figure.value))

    def page() -> Any:
        from costmodel.explore.page.rl_facts import RlFacts
        from costmodel.report.page.rl_page import rl_report

        return rl_report(RlFacts(predict(reinforced(case))), command_line())

    def text() -> str:
        from costmodel.explore.page.rl_facts import RlFacts
        from costmodel.report.terminal.rl.rl_sections import report as sections

        return markdown_text(sections(RlFacts(predict(reinforced(case)))))

    reply = rl.estimate(case, verbose=False)
    return replace(reply, others={**reply.others, "html": html_form(page), "markdown": text})


def _drawn(forms: dict[str, Form], *, works: bool = True) -> Reply:
    """One figure alone; it has no table."""
    drawn = {name: form for name, form in forms.items() if name != "html"}
    return Reply(_no_lines, _no_result, others={**drawn, "html": _no_result}, yes=works)


def _several(cases: Sequence[LoadedScenario]) -> Reply:
    """Scenarios of any kinds side by side."""
    from costmodel.commands.pages import command_line
    from costmodel.report.page import scenarios_page as pages
    from costmodel.report.page.forms import page_forms

    entries = [pages.entry_of(_facts(case)) for case in cases]
    forms = page_forms(lambda: pages.scenarios_page(entries, command_line()), lambda: pages.scenarios_figure(entries))
    works = all(entry.works for entry in entries)
    lines, result = lambda: pages.scenarios_lines(entries), lambda: pages.scenarios_json(entries)
    return Reply(lines, result, "plans", yes=works, others=forms)


def _facts(case: LoadedScenario) -> PlanFacts | ServingFacts | RlFacts:
    """What a page of several shows of a scenario; of one that trains the best plan, where it states none."""
    if case.kind == "serving":
        from costmodel.documents.reader.serving_scenario import serving
        from costmodel.explore.page.serving_facts import serving_facts

        return serving_facts(serving(case))
    if case.kind == "rl":
        from costmodel.documents.reader.rl_scenario import reinforced
        from costmodel.estimate.rl.predict_rl import predict
        from costmodel.explore.page.rl_facts import RlFacts

        return RlFacts(predict(reinforced(case)))
    from costmodel.documents.reader.resolved_scenario import training
    from costmodel.explore.page.plan_facts import plan_facts
    from costmodel.explore.page.report_facts import with_plan

    return plan_facts(with_plan(training(case)))
