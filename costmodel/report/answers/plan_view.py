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
    """The analyses that a report shows next to a plan: sections of a page, and texts with titles.

    more: a sentence on the plan's rank, at the end of the conclusion. nodes: further traces. choices: plans for the
    sliders of a page, after the best plans
    """

    sections: Sequence[Section]
    texts: Sequence[tuple[str, Callable[[], Sequence[Line]]]]
    more: str = ""
    nodes: Mapping[str, ExplainedFigure] = field(default_factory=dict)
    choices: Mapping[str, Any] | None = None


class PlanView(Protocol):
    """One plan of a workload and the parts of answers about it; each part is made on request."""

    @property
    def case(self) -> LoadedScenario:
        """The scenario."""

    @property
    def answer(self) -> PlanAnswer:
        """The plan, evaluated."""

    @property
    def columns(self) -> Mapping[str, ResultColumn]:
        """The columns of results that the plan can have."""

    @property
    def nodes(self) -> Mapping[str, ExplainedFigure]:
        """Explained figures of the plan, by name."""

    @property
    def nexts(self) -> Mapping[str, Sequence[Sequence[str]]]:
        """The commands that follow the answer to a question: their words, without the scenario."""

    def plain(self) -> dict[str, Any]:
        """The plan's results as plain values."""

    def lines(self) -> list[Line]:
        """The plan's main results in a terminal."""

    def bound(self) -> Line:
        """A line on the plan's bottleneck."""

    def headlines(self) -> list[Headline]:
        """The figures at the head of a page."""

    def time(self) -> list[Section]:
        """Sections on the time of the plan; empty if the time is not known."""

    def ledger(self) -> MemoryLedger:
        """The memory breakdown of the plan."""

    def traffic(self) -> PlanTraffic:
        """The communication of the plan."""

    def further(self) -> list[Section]:
        """Further sections of a page."""

    def whole_run(self) -> PlanRun | None:
        """The run around the plan's steps; None if the scenario asks about no run."""

    def beside(self, notify: Callable[[str], None]) -> PlanBeside:
        """The analyses next to the plan; notify: called with the name of each analysis before it starts."""
