"""report: one page to send, about one scenario or several."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.answer_options import PAGE, answering_in, optional_argument
from costmodel.commands.by_workload import commands_of
from costmodel.commands.scenario_options import Question, question_command, with_plan
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.report.terminal.layout import Reply

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.report.answers.plan_answer import PlanAnalyses, PlanView
    from costmodel.report.page.document_page import HtmlPage
    from costmodel.report.page.forms import Form


class FigureName(StrEnum):
    """Figures of a plan."""

    TIME = "time"
    MEMORY = "memory"
    NETWORK = "network"
    ROOFLINE = "roofline"
    PIPELINE = "pipeline"


OthersArgument = Annotated[
    list[str] | None, optional_argument(help="More scenarios, shown side by side", autocompletion=completion.scenarios)
]


@answering_in(*PAGE)
@question_command
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
    _check_machine_is_named(question)
    questions = [question, *(replace(question, scenario=name, write=None, held=None) for name in others or ())]
    if watch:
        return _answers_while_watching(question, _watched_file(questions), figure)
    return _report_reply(questions, figure)


def _check_machine_is_named(question: Question) -> None:
    """Raises a fault if flags state a load or a limit but no machine."""
    asked = [name for name in ("rate", "users", "deadline", "budget") if question.flags[name] is not None]
    named = any(question.flags[name] is not None for name in ("gpu", "node", "gpus"))
    if question.is_alone and asked and not named and question.mapping is None and question.held is None:
        given = [
            word for name, value in question.flags.items() if value is not None for word in (f"--{name}", str(value))
        ]
        again = shlex.join(["costmodel", "buy", *given, "-o", "page.html"])
        sentence = f"--{asked[0]} asks for a machine, and a report is about a plan on one that is named"
        raise fail("C004", sentence, Place("command line"), f"{again}; or name it by --gpu and --gpus")


def _watched_file(questions: Sequence[Question]) -> str:
    """The single file that --watch observes; raises a fault for several scenarios or none."""
    path = questions[0].scenario
    if len(questions) != 1 or path is None or not Path(path).is_file():
        sentence = "--watch follows one scenario that is a file"
        raise fail("C044", sentence, Place("command line"), "costmodel init > mine.yaml writes one")
    return path


def _answers_while_watching(question: Question, path: str, figure: FigureName | None) -> Reply:
    """Writes the answer, and a new one whenever the file changes; while it is unreadable, prints why."""
    from costmodel.commands.exit_codes import print_faults

    files = [Path(path)]
    before = file_marks(files)

    def again() -> Reply:
        """The answer after the next change of the files."""
        nonlocal before
        while True:
            wait_for_change(files, before, gone=_print_missing_file)
            before = file_marks(files)
            try:
                return replace(_report_reply([replace(question, write=None)], figure), again=again)
            except CostModelError as error:
                print_faults(error)

    return replace(_report_reply([question], figure), again=again)


def _print_missing_file(path: Path) -> None:
    """Prints on standard error that a watched file is missing."""
    from costmodel.commands.output import print_lines
    from costmodel.report.terminal.layout import WARN, styled

    print_lines([styled(f"{path} is missing; the page stays as it is until the file is back", WARN)], stderr=True)


def _report_reply(questions: Sequence[Question], figure: FigureName | None) -> Reply:
    """The report of one scenario, one of its figures, or several scenarios side by side."""
    cases = [with_plan(question.loaded()) for question in questions]
    if len(cases) > 1:
        if figure is not None:
            raise fail("C044", "--figure is of one scenario", Place("command line"), "name one scenario")
        return _reply_for_several(cases)
    (case,) = cases
    from costmodel.commands.replies import figure_reply, reply_of_view
    from costmodel.report.answers.plan_answer import estimate_document

    view = commands_of(case).view(case, "report")
    if figure is not None:
        return figure_reply(view, figure.value)
    return reply_of_view(view, lambda: estimate_document(view), view.plain, "plans", "time", _report_forms(view))


def _report_forms(view: PlanView) -> dict[str, Form]:
    """The page and text of a report; expensive parts are computed when a form is requested."""
    from costmodel.commands.progress import rename_work
    from costmodel.report.data_formats.json_csv_markdown import markdown_text
    from costmodel.report.page.forms import html_form

    def beside() -> PlanAnalyses:
        return view.beside(lambda part: rename_work(f"the page: {part}"))

    def page() -> HtmlPage:
        from costmodel.commands.replies import command_line
        from costmodel.report.page.plan_page import report_page

        return report_page(view, beside(), command_line())

    def text() -> str:
        from costmodel.report.page.plan_page import report_text

        return markdown_text(report_text(view, beside()))

    return {"html": html_form(page), "markdown": text}


def _reply_for_several(cases: Sequence[LoadedScenario]) -> Reply:
    """Scenarios side by side, of any workloads."""
    from costmodel.commands.replies import command_line
    from costmodel.report.answers.plan_answer import works
    from costmodel.report.page import scenarios_page as pages
    from costmodel.report.page.forms import page_forms

    views = [commands_of(case).view(case, "report") for case in cases]
    forms = page_forms(lambda: pages.scenarios_page(views, command_line()), lambda: pages.scenarios_figure(views))
    lines, result = lambda: pages.scenarios_lines(views), lambda: pages.scenarios_json(views)
    return Reply(lines, result, "plans", yes=all(map(works, views)), others=forms)


# --- files that are watched until one of them changes


EVERY = 0.5  # seconds between two looks
_LOOKS = 2

Mark = tuple[int, int]


def file_marks(paths: Sequence[Path]) -> dict[Path, Mark | None]:
    """Modification time and size of each file; None for a missing file."""
    return {path: _mark_of_file(path) for path in paths}


def wait_for_change(
    paths: Sequence[Path],
    before: dict[Path, Mark | None],
    sleep: Callable[[float], None] = time.sleep,
    gone: Callable[[Path], None] = lambda path: None,
) -> None:
    """Returns once a file has changed.

    A missing file may come back, since editors replace files; `gone` is called once for each file
    that several looks do not find.
    """
    missed: dict[Path, int] = {}
    while True:
        now = file_marks(paths)
        if now != before and all(now.values()):
            return
        for path in (path for path, mark in now.items() if mark is None):
            missed[path] = missed.get(path, 0) + 1
            if missed[path] == _LOOKS:
                gone(path)
        sleep(EVERY)


def _mark_of_file(path: Path) -> Mark | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
