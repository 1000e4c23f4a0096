"""What a question asks of a scenario, whatever its workload: training, serving or reinforcement learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.results import ResultColumn
from costmodel.ground.record import record


class PlanAnswer(Protocol):
    """One plan, evaluated, with codes of what speaks against it."""

    @property
    def costs(self) -> Mapping[str, float]:
        """Its results; those of a refused plan mean nothing."""

    @property
    def refused(self) -> tuple[str, ...]:
        """Why it is not valid."""

    @property
    def broken(self) -> tuple[str, ...]:
        """What it does not keep, of a valid plan."""

    @property
    def remarked(self) -> tuple[str, ...]:
        """What there is to remark."""


@record
class ChosenFigure:
    """A figure that users choose and ask about, and the least by which it is turned."""

    path: str
    text: str
    value: float
    step: float
    kind: Literal["workload", "plan"]


class Workload(Protocol):
    """A scenario with the equations of its workload."""

    @property
    def case(self) -> LoadedScenario:
        """The scenario."""

    @property
    def columns(self) -> Mapping[str, ResultColumn]:
        """The results that an answer may have."""

    @property
    def usual(self) -> str:
        """The result that answers look at unless another is asked for."""

    def of(self, case: LoadedScenario) -> Workload:
        """Another scenario of the same workload; what both have in common may be shared."""

    def planned(self) -> Workload:
        """With the best plan of a search written out, where the scenario has none and a search can find it."""

    def answer(self, result: str = "") -> PlanAnswer:
        """The answer about its plan; result: the only one that is looked at, where others may be left out.

        Raises:
            CostModelError: the scenario has no plan, or asks for what is not modelled
        """

    def missing(self, result: str) -> str:
        """What to state so that a result is known; empty where nothing would help."""

    def choices(self) -> tuple[ChosenFigure, ...]:
        """Figures that users choose and ask about beside those of hardware and assumptions."""
