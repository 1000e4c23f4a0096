"""The interface of each workload's commands about one plan and its search, and what their searches share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from costmodel.commands import replies
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record
from costmodel.report.terminal.layout import Reply

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.explore.search.rank import Plan
    from costmodel.explore.search.scenario_variants import Inputs
    from costmodel.explore.search.stream import SearchOptions
    from costmodel.explore.search.value_ranges import Axis
    from costmodel.report.answers.export import AnyExport
    from costmodel.report.answers.plan_answer import PlanView
    from costmodel.report.answers.search import SearchWords
    from costmodel.report.document import Section
    from costmodel.report.terminal.layout import Line

TOP, FRONT = 10, 40  # rows shown by default: of a ranking, of a front


@record
class SearchQuestion:
    """The options of a search command."""

    top: int | None = None
    pareto: str = ""
    over: Sequence[Axis] = ()
    why_not: bool = False
    into: Path | None = None
    keep_all: bool = False
    resume: bool = False
    engine: str = "local"
    workers: int | None = None
    wait: str = ""
    measure_next: bool = False
    measured: Sequence[str] = ()


@contextmanager
def running_search(question: SearchQuestion, case: LoadedScenario) -> Iterator[SearchOptions]:
    """Yields the options of a running search, with progress display and a check for Ctrl-C."""
    from costmodel.commands.output import print_lines
    from costmodel.commands.progress import show_progress, stop_on_interrupt
    from costmodel.explore.search.stream import SearchOptions
    from costmodel.report.terminal.layout import styled
    from costmodel.report.terminal.progress import search_progress
    from costmodel.report.workload_words import words_of

    if question.into is None and (question.resume or question.keep_all):
        raise fail(
            "C021", f"{'--resume' if question.resume else '--keep all'} needs a folder", None, "add --into FOLDER"
        )
    wait, objective, words = _parsed_wait(question.wait), case.scenario.objective, words_of(case.kind)
    with stop_on_interrupt() as stop, show_progress() as show:
        yield SearchOptions(
            question.engine,
            question.workers,
            question.into,
            question.keep_all,
            question.resume,
            watch=lambda sight: show(search_progress(sight, objective, words.result)),
            stop=stop,
            wait=wait,
            notify=lambda words: print_lines([styled(words)], stderr=True),
        )


def search_reply(words: SearchWords[Inputs, Plan], question: SearchQuestion) -> Reply:
    """The reply of a search in every format."""
    from costmodel.report.answers.search import search_document
    from costmodel.report.answers.search_json import search_json

    next_section, next_fields, closing = _next_measurement(words, question)
    ranking, count = words.found, question.top or (FRONT if question.pareto else TOP)
    brief = None if question.top else words.brief
    rows = "refused" if question.why_not else "pareto.plans" if question.pareto else "plans"
    if next_fields:
        rows = f"measure_next.{'measurements' if question.measure_next else 'order'}"
    works = ranking.works if ranking.best or ranking.front is None else bool(ranking.front.rows)
    return replies.document_reply(
        lambda: search_document(
            words, count, brief=brief, why_not=question.why_not, more=next_section, closing=closing
        ),
        lambda: search_json(words) | next_fields,
        rows,
        yes=works,
        stopped=ranking.stopped,
        found=ranking,
    )


def _next_measurement(
    words: SearchWords[Inputs, Plan], question: SearchQuestion
) -> tuple[Sequence[Section], dict[str, Any], Sequence[Line]]:
    """Recommended measurements as a section and JSON fields, and the next command; empty unless asked for."""
    if not (question.measure_next or question.measured):
        return (), {}, ()
    from costmodel.explore.search.next_measurement import advised
    from costmodel.report.answers.next_measurement import (
        best_measured_command,
        measured_ratios,
        next_measurement_json,
        next_measurement_section,
    )

    advice = advised(words.found, *measured_ratios(words, question.measured))
    fields = {"measure_next": next_measurement_json(words, advice)}
    return (next_measurement_section(words, advice, question.measured),), fields, best_measured_command(words, advice)


def _parsed_wait(text: str) -> float:
    """The seconds in the text of --wait."""
    from costmodel.explore.search.worker_pools import WAIT
    from costmodel.ground.parsing import UnitError, parse

    try:
        seconds = parse(text, "s") if text else WAIT
    except UnitError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        place = Place("command line", 0, 8, "", f"--wait {text}", max(1, len(text)))
        raise fail("C020", f"'{text}' is no time", place, "for example --wait '5 min'")
    return seconds


def no_answer_fault(case: LoadedScenario, why: tuple[str, str]) -> CostModelError:
    """The fault for a question that a workload does not answer: the reason, and what to ask instead."""
    return fail("C030", why[0], case.place("workload.kind") or Place(case.file), why[1])


class WorkloadCommands(Protocol):
    """The commands of one workload about a plan and its search."""

    @property
    def WITHOUT(self) -> Mapping[str, tuple[str, str]]:  # noqa: N802
        """Questions that this workload does not answer, each with the reason and what to ask instead."""

    def view(self, case: LoadedScenario, question: str) -> PlanView:
        """The evaluated plan of the scenario, with the parts that the answer to a question shows."""

    def search(self, case: LoadedScenario, question: SearchQuestion) -> Reply:
        """The reply of `search`."""

    def usual_plan(self, case: LoadedScenario) -> str:
        """A phrase for plan keys of the software's defaults, if --set gives some keys; else empty."""

    @property
    def OTHER_PLANS(self) -> str:  # noqa: N802
        """A phrase on how to set a plan key instead of the best plan, and what happens to the other keys."""

    def best_plan(self, case: LoadedScenario) -> tuple[dict[str, str], str] | None:
        """Settings of the best or nearest plan of a search, and where they are from; None if no plan is valid."""

    def usual_format(self, case: LoadedScenario) -> str:
        """The export format if none is requested."""

    def export(self, case: LoadedScenario, to: str, rank: int | None) -> AnyExport:
        """The scenario's own plan, or the plan at a rank of its search, in a format."""
