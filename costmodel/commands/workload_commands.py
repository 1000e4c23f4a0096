"""What commands ask a workload about one plan and its search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record
from costmodel.report.answers.plan_view import PlanView
from costmodel.report.page.forms import Form
from costmodel.report.terminal.style.answer import Reply

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.explore.search.ranges import Axis
    from costmodel.report.terminal.documents.exports import Found

TOP, FRONT = 10, 40  # rows shown by default: of a ranking, of a front


@record
class SearchQuestion:
    """What a search is asked for; into to wait are about large spaces."""

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

    def without_large_spaces(self, workload: str, instead: str) -> None:
        """A fault for options about large spaces, where a workload has none: one without effect is refused."""
        given = [("--into", self.into is not None), ("--keep all", self.keep_all), ("--resume", self.resume)]
        given += [("--engine", self.engine != "local"), ("--workers", self.workers is not None)]
        without(workload, [name for name, value in (*given, ("--wait", bool(self.wait))) if value], instead)


def no_answer(case: LoadedScenario, why: tuple[str, str]) -> CostModelError:
    """A fault for a question that a workload does not have: the reason, and what to ask instead."""
    return fail("C030", why[0], case.place("workload.kind") or Place(case.file), why[1])


def without(workload: str, names: Sequence[str], instead: str) -> None:
    """A fault for options that have no meaning for a workload."""
    if names:
        raise fail("C030", f"search of {workload} has no {', '.join(names)}", None, instead)


class WorkloadCommands(Protocol):
    """A workload as commands about one plan see it."""

    @property
    def WITHOUT(self) -> Mapping[str, tuple[str, str]]:  # noqa: N802
        """Questions that have no answer, each with the reason and what to ask instead."""

    def view(self, case: LoadedScenario, question: str) -> PlanView:
        """Its plan as the answer to a question shows it."""

    def explain(self, case: LoadedScenario, figure: str, depth: int) -> Reply:
        """The answer of `explain` about a figure of the plan."""

    def explain_plan(self, case: LoadedScenario) -> Reply:
        """The answer of `explain` about the plan beside its neighbours."""

    def search(self, case: LoadedScenario, asked: SearchQuestion) -> Reply:
        """The answer of `search`."""

    def report(self, case: LoadedScenario) -> Mapping[str, Form]:
        """The forms of `report`: what a page has beside the plan is computed where one is asked for."""

    @property
    def PLANS_AHEAD(self) -> bool:  # noqa: N802
        """Whether questions about one plan need it in the scenario, since their answer does not search it itself."""

    def best_plan(self, case: LoadedScenario) -> tuple[dict[str, str], str] | None:
        """What sets the best plan of a search or else the nearest to fit, and where it is from; None where none is
        valid, and the answer gives the reason.
        """

    @property
    def FORMATS(self) -> Sequence[str]:  # noqa: N802
        """The formats in which its plans are written."""

    def usual_format(self, case: LoadedScenario) -> str:
        """The one that is written unless another is asked for."""

    def export(self, case: LoadedScenario, to: str, rank: int | None) -> Found:
        """The plan of a rank of the search in one of the formats, or the scenario's own."""
