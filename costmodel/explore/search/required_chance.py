"""The chance to fit (training) or to meet all limits (serving) that plans of a search should have.

A limit of the scenario, which `--safe X` sets too, is a demand: other plans do not count. Without one a search prefers
plans with the default chance; if no plan has it, it shows the surest ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.default_values import SAFE
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.workload_flags import keys_of
from costmodel.ground.record import record

Case = TypeVar("Case", bound=LoadedScenario)


def chance_column(kind: str) -> str:
    """The result that `--safe` bounds.

    >>> chance_column("training"), chance_column("serving")
    ('fit_chance', 'limits_chance')
    """
    return keys_of(kind)["safe"].split(".")[1]


def preferring(case: Case, safe: float | None = SAFE) -> Case:
    """The case whose searches prefer plans with this chance; None for no preference."""
    return replace(case, asked=replace(case.asked, safe=safe))


def preferred_chance(case: LoadedScenario) -> float | None:
    """The chance that searches of a case prefer; None without a preference, or if the scenario states a limit."""
    return None if stated_chance(case) is not None else case.asked.safe


def stated_chance(case: LoadedScenario) -> float | None:
    """The chance that a limit of the scenario demands; None without such a limit."""
    column = chance_column(case.kind)
    limits = (limit for limit in stated_limits(case.scenario.limits) if limit.column == column)
    return next((float(limit.value) for limit in limits if limit.kind == "at_least"), None)


def demand_of(case: LoadedScenario) -> tuple[str, ...]:
    """The setting that turns the preferred chance into a limit; empty if nothing is preferred."""
    share = preferred_chance(case)
    return () if share is None else (f"{keys_of(case.kind)['safe']}={share:g}",)


@record
class Safety:
    """The chance that an answer should have.

    share: None if expected figures decide. demand: settings that require it of plans. is_stated: the user stated it
    """

    share: float | None = None
    demand: tuple[str, ...] = ()
    is_stated: bool = False


EXPECTED = Safety()


def safety_of(case: LoadedScenario, path: str) -> Safety:
    """The chance that answers should have when a key is varied; plans need none if the key is itself a limit."""
    if (stated := stated_chance(case)) is not None:
        return Safety(stated, is_stated=True)
    return Safety(preferred_chance(case), () if path.startswith("limits.") else demand_of(case))
