"""pipeline: how a plan's stages wait for each other."""

from __future__ import annotations

from typing import Annotated

import typer

from costmodel.commands import completion, pages
from costmodel.commands.estimate import works
from costmodel.commands.shared import PAGE, answering_in
from costmodel.commands.short_form import Question, asking
from costmodel.report.terminal.style.answer import Reply


@answering_in(*PAGE, "trace")
@asking
def pipeline(
    question: Question,
    schedule: Annotated[
        str,
        typer.Option(
            "--schedule",
            metavar="A,B",
            help="Schedules to compare, e.g. 1f1b,zb-v; default: those of the stack",
            show_default=False,
            autocompletion=completion.schedules,
        ),
    ] = "",
) -> Reply:
    """How a plan's stages wait for each other: bubble, micro-batches in flight, balance, and a timeline.

    Examples:
      costmodel pipeline llama-3-70b-512
      costmodel pipeline llama-3-70b-512 --schedule 1f1b,interleaved --set plan.pp=8

    Bubbles are shares of the whole step. Exit code 1 when the plan is invalid, does not fit or breaks a limit.

    Next: costmodel explain SCENARIO bubble
    """
    from costmodel.explore.explain.pipelines import named, pipelines
    from costmodel.report.terminal.plan import pipeline as report

    schedules = named(schedule)
    found = pipelines(question.case(), schedules)
    lines, result = lambda: report.pipeline(found), lambda: report.pipeline_json(found)
    return Reply(lines, result, "schedules", yes=works(found.own), others=pages.of_pipeline(found))
