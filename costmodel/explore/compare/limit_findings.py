"""Scenarios of serving and reinforcement learning held to their limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.estimate.shared.limits import Limit, stated_limits
from costmodel.ground.errors import Place
from costmodel.ground.record import record

A = TypeVar("A")


@record
class LimitFinding:
    """One limit, the load, or a figure of a baseline, and whether the plan keeps it.

    bound: of a baseline, what the figure was; allowed: the share by which it may be worse
    """

    name: str
    kept: bool
    value: float | None = None
    limit: Limit | None = None
    code: str = ""
    bound: float | None = None
    allowed: float = 0.0

    @property
    def place(self) -> Place | None:
        """Where the limit is written."""
        return None if self.limit is None else getattr(self.limit.value, "place", None)


@record
class CheckedAnswer(Generic[A]):
    """A scenario with everything that was compared with it."""

    name: str
    answer: A
    findings: tuple[LimitFinding, ...]

    @property
    def kept(self) -> bool:
        """Whether nothing speaks against it."""
        return all(finding.kept for finding in self.findings)


def limit_findings(case: LoadedScenario, costs: Mapping[str, float], *, stable: bool = True) -> list[LimitFinding]:
    """Every limit of a scenario; where queues grow without end none is kept."""
    return [
        LimitFinding(limit.column, limit.holds(costs[limit.column]) and stable, costs[limit.column], limit)
        for limit in stated_limits(case.scenario.limits)
    ]
