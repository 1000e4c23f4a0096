"""What answers about one plan share: the interface of plan views, the answer's frame, and common sections."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.results import machine_name
from costmodel.estimate.answer_facts import row_facts
from costmodel.explore.workload_interface import PlanAnswer, Workload
from costmodel.ground.record import record
from costmodel.report.answers.plan_parts import TimePart
from costmodel.report.data_formats.answer_fields import assumption_fields, remark_fields, result_fields
from costmodel.report.document import (
    AnswerDocument,
    Cell,
    Column,
    Draw,
    Face,
    Section,
    Table,
    Verdict,
    chance_verdict,
    traced,
)
from costmodel.report.terminal.formatting import BAND, ENDS, range_beside
from costmodel.report.terminal.head import assumed_job, assumed_lines, case_title, command, with_facts
from costmodel.report.terminal.layout import BAD, DIM, HEAD, Abridged, Detail, Line, bar, shell_line, styled
from costmodel.report.workload_words import words_of

if TYPE_CHECKING:
    from costmodel.documents.schemas.results import ResultColumn
    from costmodel.explore.explain.equation_trees import ExplainedFigure
    from costmodel.report.answers.plan_parts import MemoryLedger, PlanRun, PlanTraffic
    from costmodel.report.document import Headline, Section
    from costmodel.report.terminal.layout import Line


@record
class PlanAnalyses:
    """The analyses that a report shows beside a plan: sections of a page, and texts with titles.

    more: a sentence on the plan's rank, at the end of the conclusion. nodes: further traces. choices: plans for the
    sliders of a page, after the best plans
    """

    sections: Sequence[Section]
    texts: Sequence[tuple[str, Callable[[], Sequence[Line]]]]
    more: str = ""
    nodes: Mapping[str, ExplainedFigure] = field(default_factory=dict)
    choices: Mapping[str, Any] | None = None


class PlanView(ABC):
    """One plan with the parts of the answers about it; each workload has its own, and parts are computed on request."""

    answer: PlanAnswer  # the plan with its results and reasons
    facts: Any  # what a page computes about the plan, on request

    @property
    @abstractmethod
    def case(self) -> LoadedScenario:
        """The scenario with its documents."""

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, ResultColumn]:
        """The columns of results that the plan can have."""

    @property
    def nodes(self) -> Mapping[str, ExplainedFigure]:
        """The equations behind the figures of the plan, by the name of the figure."""
        nodes: Mapping[str, ExplainedFigure] = self.facts.nodes
        return nodes

    @property
    @abstractmethod
    def nexts(self) -> Mapping[str, Sequence[Sequence[str]]]:
        """The commands that follow the answer to a question: their words, without the scenario."""

    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """The plan and its results as plain values for JSON."""

    @abstractmethod
    def lines(self) -> list[Line]:
        """The plan's main results in a terminal."""

    @abstractmethod
    def bound(self) -> Line:
        """A line on the plan's bottleneck."""

    @abstractmethod
    def headlines(self) -> list[Headline]:
        """The figures at the head of a page."""

    @abstractmethod
    def time(self) -> list[Section]:
        """Sections on the time of the plan; empty if the time is not known."""

    @abstractmethod
    def ledger(self) -> MemoryLedger:
        """The memory breakdown of the plan."""

    @abstractmethod
    def traffic(self) -> PlanTraffic:
        """The communication of the plan."""

    def further(self) -> list[Section]:
        """Further sections of a page that only this workload has."""
        return []

    def whole_run(self) -> PlanRun | None:
        """The run around the plan's steps; None if there is none or the scenario asks about none."""
        return None

    @abstractmethod
    def beside(self, notify: Callable[[str], None]) -> PlanAnalyses:
        """The analyses next to the plan; notify: called with the name of each analysis before it starts."""


def works(view: PlanView) -> bool:
    """Whether a plan is valid, fits in memory and meets its limits."""
    return not (view.answer.refused or view.answer.broken)


def result_cell(view: PlanView, name: str) -> Cell:
    """A cell with a result of the plan, which opens its trace."""
    value = view.answer.costs[name]
    return traced(words_of(view.case.kind).result(name, value), value, machine_name(name), name)


def band_words(view: PlanView, name: str) -> str:
    """The P10–P90 band of a result as text with units."""
    say, costs = words_of(view.case.kind).result, view.answer.costs
    ends = (costs[f"{name}_{end}"] for end in ENDS)
    return f"{BAND}: {range_beside(partial(say, name), costs[name], *ends)}"


def plan_document(
    view: PlanView,
    question: str,
    sections: Callable[[], Sequence[Section]],
    ahead: Callable[[], Sequence[Line]] = list,
    *,
    priced: bool = False,
    assumed: Sequence[Line] = (),
    closing: Sequence[Line] | None = None,
) -> AnswerDocument:
    """The answer to a question about one plan; for an invalid plan only the reasons.

    ahead: lines before the next commands. closing: replaces these lines and commands. assumed: lines on assumptions
    """
    case, answer, words = view.case, view.answer, words_of(view.case.kind)
    if answer.refused:
        return invalid_document(view)
    return AnswerDocument(
        case,
        case_title(case),
        words.titled(answer, priced),
        words.conclusion(answer),
        plan_verdict(case, answer),
        sections(),
        problems=words.problems(answer),
        remarks=assumed,
        closing=[*ahead(), *_next_commands(case, view.nexts[question])] if closing is None else closing,
    )


def invalid_document(view: PlanView, why: str = "Invalid plan; nothing was computed.") -> AnswerDocument:
    """The answer for a plan without results: the reasons against it, and a search as the next command."""
    case, answer = view.case, view.answer
    words, closing = words_of(case.kind), [styled(why, BAD), next_command(case, "search")]
    about, against = words.titled(answer, False), words.problems(answer)
    return AnswerDocument(
        case, case_title(case), about, words.conclusion(answer), "bad", [], problems=against, closing=closing
    )


def _next_commands(case: LoadedScenario, commands: Sequence[Sequence[str]]) -> list[Line]:
    """The next commands, one per line; a short answer has only the first."""
    lines = [next_command(case, *each, before="     " if place else "Next:") for place, each in enumerate(commands)]
    return [lines[0], *([Detail(lines[1:], "another command")] if lines[1:] else [])]


def plan_verdict(case: LoadedScenario, answer: PlanAnswer) -> Verdict:
    """The verdict on an answer: bad if there are reasons against it, warn for remarks or a low chance, else good."""
    if answer.refused or answer.broken:
        return "bad"
    return "warn" if answer.remarked else chance_verdict(answer.costs[words_of(case.kind).chance])


def next_command(case: LoadedScenario, verb: str, *words: str, before: str = "Next:") -> Line:
    """The next command as a line; a search leaves out the keys of the plan, so that it can find other plans."""
    return shell_line(before, command(case, verb, *words, free=verb == "search"))


def _workload(case: LoadedScenario) -> Workload:
    """The workload of a scenario; imported late, as it loads the modules of all workloads."""
    from costmodel.explore.workloads import workload_of

    return workload_of(case)


def plan_rows(case: LoadedScenario, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows as plain values, each with the facts that identify the plan."""
    return with_facts(row_facts(_workload(case).facts), rows)


PARTS_SPARED = 2  # the parts of a time leave a full screen before money does


def parts_section(
    title: tuple[str, str],
    lead: str,
    parts: Sequence[TimePart],
    of: str,
    figures: Sequence[Callable[[], Draw]] = (),
    *,
    key: str = "time",
    wide: int = 30,
    banded: str = "",
    beneath: Sequence[Line] = (),
    face: Face = "all",
    brief: int = 4,
) -> Section:
    """A section with the parts of a total time, the longest first, with bars.

    title: for a page, and for a terminal. of: the whole that shares refer to. wide: letters of the longest bar. banded:
    the basis of the bands of times, if there are any. brief: the number of parts in a short answer
    """
    on_page, in_terminal = title
    longest = max((part.value for part in parts), default=0.0)
    columns = [Column("part", "k"), Column("time")]
    columns += [Column(BAND, "k", drop=2)] if banded else []
    columns += [Column("", "l", drop=1, face="terminal"), Column(of)]
    rows = list[list[Cell]]()
    for part in sorted(parts, key=lambda part: -part.value):
        drawn = bar(part.value / longest, wide) if longest > 0 else ""
        rows.append([part.words, part.time, *([part.band] if banded else []), drawn, part.share])
    ahead = [styled(f"  {in_terminal}", HEAD)]
    table = Table(columns, rows, headed=False, indent="    ", brief=brief, rest="term")
    of_bands = Abridged(f"    {BAND}: {banded}", DIM, short="", added="what ranges rest on")
    below = [*([of_bands] if banded else []), *beneath]
    return Section(
        key,
        on_page,
        lead,
        figures,
        ahead,
        table,
        below,
        folded=bool(figures),
        face=face,
        detail=in_terminal,
        spare=PARTS_SPARED,
    )


def plan_json(
    view: PlanView,
    row: Callable[[], Mapping[str, Any]],
    fixes: Callable[[str], Mapping[str, Any]],
    *,
    columns: Mapping[str, ResultColumn] | None = None,
    convention: str | None = None,
) -> dict[str, Any]:
    """One plan with its results as plain values (costmodel/result/v1).

    row: its results. fixes: settings that remove a reason against it. columns: columns of its results, if they differ
    from those of the view. convention: how FLOP are counted
    """
    case, answer = view.case, view.answer
    asked, words = _workload(case), words_of(case.kind)
    return {
        **result_fields(case, asked.facts, columns or view.columns, convention=convention),
        "assumed": assumption_fields([*assumed_job(case.asked.assumed), *answer.assumed]),
        "plans": [] if answer.refused else [row()],
        "refused": [
            {"code": code, "text": asked.reasons[code].meaning, "case": words.reason(answer, code), **fixes(code)}
            for code in answer.refused or answer.broken
        ],
        "notes": remark_fields([answer.remarked]),
    }


def bands_section(view: PlanView, lead: str) -> list[Section]:
    """A section with the P10–P90 band of every result that has one; empty for an invalid plan."""
    if view.answer.refused:
        return []
    costs = view.answer.costs
    named = [name for name in costs if math.isfinite(costs.get(f"{name}_low", math.nan))]
    rows = [[name, *(result_cell(view, f"{name}{end}") for end in ("_low", "", "_high"))] for name in named]
    table = Table([Column("result", "l"), *map(Column, ("P10", "predicted", "P90"))], rows)
    return [Section("measured", "How far to trust it", lead, table=table, face="page")] if named else []


def estimate_document(view: PlanView) -> AnswerDocument:
    """The answer of `estimate` for one plan."""

    def sections() -> list[Section]:
        """The sections of the estimate."""
        lines = view.lines()
        return [*([Section("facts", "", ahead=lines, face="terminal")] if lines else []), *view.time()]

    assumed = assumed_lines(view.answer.assumed, shown=not view.case.asked.assumed)
    return plan_document(view, "estimate", sections, lambda: [view.bound()], priced=True, assumed=assumed)
