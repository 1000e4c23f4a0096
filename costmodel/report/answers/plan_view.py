"""One plan of any workload as answers show it, and what a report has beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.documents.schemas.results import ResultColumn
    from costmodel.explore.explain.explain import ExplainedFigure
    from costmodel.explore.workload import PlanAnswer
    from costmodel.report.answers.plan_parts import MemoryLedger, PlanRun, PlanTraffic
    from costmodel.report.document import Headline, Section
    from costmodel.report.terminal.style.layout import Line


@record
class PlanBeside:
    """What a report has beside a plan: sections of a page, and parts of a text by their titles.

    more: where the plan stands among others, at the end of the conclusion. nodes: further traces. choices: plans to
    choose among on a page, behind the best ones
    """

    sections: Sequence[Section]
    texts: Sequence[tuple[str, Callable[[], Sequence[Line]]]]
    more: str = ""
    nodes: Mapping[str, ExplainedFigure] = field(default_factory=dict)
    choices: Mapping[str, Any] | None = None


class PlanView(Protocol):
    """One plan of a workload, with what answers about it show; each is made where one is asked for."""

    @property
    def case(self) -> LoadedScenario:
        """The scenario."""

    @property
    def answer(self) -> PlanAnswer:
        """The plan, evaluated."""

    @property
    def columns(self) -> Mapping[str, ResultColumn]:
        """The results that it may have."""

    @property
    def nodes(self) -> Mapping[str, ExplainedFigure]:
        """The traces of its figures, by their names."""

    @property
    def nexts(self) -> Mapping[str, Sequence[Sequence[str]]]:
        """The commands that follow the answer to a question: their words, without the scenario."""

    def plain(self) -> dict[str, Any]:
        """Its results as plain values."""

    def lines(self) -> list[Line]:
        """Its main results in a terminal."""

    def bound(self) -> Line:
        """What bounds it."""

    def headlines(self) -> list[Headline]:
        """The numbers one asks for first, at the head of a page."""

    def time(self) -> list[Section]:
        """Where its time goes; nothing where that is not known."""

    def ledger(self) -> MemoryLedger:
        """What accelerators hold."""

    def traffic(self) -> PlanTraffic:
        """What it sends."""

    def further(self) -> list[Section]:
        """Further parts of a page."""

    def whole_run(self) -> PlanRun | None:
        """The run that it is the plan of; None where none is asked about."""

    def beside(self, notify: Callable[[str], None]) -> PlanBeside:
        """What a report has beside it; notify: of what is being computed."""
