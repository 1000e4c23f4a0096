"""Makes replies of answers: terminal lines, JSON, page and figure; imports what draws them only when needed."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from costmodel.commands.progress import is_quiet
from costmodel.ground.errors import Place, fail
from costmodel.report.page.forms import Form, page_forms
from costmodel.report.terminal.layout import FileOutput, Reply

if TYPE_CHECKING:
    from costmodel.report.answers.plan_answer import PlanView
    from costmodel.report.document import AnswerDocument, Draw
    from costmodel.report.page.document_page import HtmlPage
    from costmodel.report.terminal.layout import Line

_OUTPUT = ("-o", "--output", "--format")


def command_line() -> list[str]:
    """The command that was typed, without options for its output."""
    if is_quiet():
        return []
    words, kept = iter(sys.argv[1:]), list[str]()
    for word in words:
        if word in _OUTPUT:
            next(words, None)
        elif word not in ("--force", "--watch") and not word.startswith(("--output=", "--format=")):
            kept.append(word)
    return [shlex.join(["costmodel", *kept])]


def document_reply(
    make: Callable[[], AnswerDocument],
    result: Callable[[], dict[str, Any]],
    rows: str,
    *,
    yes: bool = True,
    stopped: bool = False,
    others: Mapping[str, Form] | None = None,
    found: object = None,
    filed: FileOutput | None = None,
) -> Reply:
    """A reply from the document of an answer: lines, JSON fields, page and figure; `yes` sets the exit code."""
    document = functools.cache(make)

    def lines() -> list[Line]:
        """The answer as terminal lines."""
        from costmodel.report.terminal.document_lines import document_lines

        return document_lines(document())

    def page() -> HtmlPage:
        """The answer as an HTML page."""
        from costmodel.report.page.document_page import document_page

        return document_page(document(), command_line())

    def figure() -> Draw | None:
        """The drawing of the answer's figure; None without one."""
        from costmodel.report.page.document_page import document_figure

        return document_figure(document())

    forms = {**page_forms(page, figure), **(others or {})}
    return Reply(lines, result, rows, yes=yes, stopped=stopped, others=forms, filed=filed, found=found)


def reply_of_view(
    view: PlanView,
    document: Callable[[], AnswerDocument],
    result: Callable[[], dict[str, Any]],
    rows: str,
    figure: str,
    others: Mapping[str, Form] | None = None,
) -> Reply:
    """A reply about one plan; `others` replace its page or its figure."""
    from costmodel.report.answers.plan_answer import works

    forms = {**plan_forms(view, figure), **(others or {})}
    return document_reply(document, result, rows, yes=works(view), others=forms, found=view.answer)


def reply_with_reasons_only(view: PlanView, *why: str, rows: str = "") -> Reply:
    """A reply that only lists the reasons against a plan."""
    from costmodel.report.answers import plan_answer as report

    return document_reply(
        lambda: report.invalid_document(view, *why), view.plain, rows, yes=False, others=plan_forms(view, "time")
    )


def plan_forms(view: PlanView, figure: str) -> dict[str, Form]:
    """The page of a plan and the named figure as forms; the figure of the run adds the run to the page."""

    def page() -> HtmlPage:
        """The page of the plan."""
        from costmodel.report.page.plan_page import RUN, known_run, plan_page

        return plan_page(view, command_line(), run=known_run(view) if figure == RUN else None)

    def draw() -> Draw | None:
        """The drawing of the named figure; None if the plan has none."""
        from costmodel.report.page.plan_page import plan_figure

        return plan_figure(view, figure)

    return page_forms(page, draw)


def figure_reply(view: PlanView, name: str) -> Reply:
    """A reply with one figure of a plan; a fault if the plan has no such figure, or for a text format."""
    from costmodel.report.answers.plan_answer import works
    from costmodel.report.page.plan_page import plan_figure, plan_sections

    def nothing() -> Any:
        raise fail("C044", "--figure goes with --format svg or png", Place("command line"), "add -o figure.svg")

    if not view.answer.refused and plan_figure(view, name) is None:
        known = [each.key for each in plan_sections(view) if each.figures]
        hint = " or ".join(f"--figure {each}" for each in known)
        raise fail("C044", f"this plan has no figure {name}", Place("command line"), hint)
    return Reply(nothing, nothing, others={**plan_forms(view, name), "html": nothing}, yes=works(view))
