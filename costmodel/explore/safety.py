"""The chance that plans of a search should have to fit, or to meet all limits: preferred by default, or demanded.

A limit of the scenario, which `--safe X` sets too, is a demand: no other plan counts. Without one a search prefers the
default chance: where no plan has it, the surest ones are shown. Of services about as sure the objective decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Generic, TypeVar

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.default_values import SAFE
from costmodel.estimate.shared.limits import stated_limits
from costmodel.explore.flag_keys import keys_of
from costmodel.ground.record import record

Case = TypeVar("Case", bound=LoadedScenario)
Result = TypeVar("Result")


def chance_column(kind: str) -> str:
    """The result that `--safe` bounds.

    >>> chance_column("training"), chance_column("serving")
    ('fit_chance', 'limits_chance')
    """
    return keys_of(kind)["safe"].split(".")[1]


def preferring(case: Case, safe: float | None = SAFE) -> Case:
    """The case whose searches prefer plans with such a chance; None: with any."""
    return replace(case, asked=replace(case.asked, safe=safe))


def preferred_chance(case: LoadedScenario) -> float | None:
    """The chance that searches of a case prefer; None where they do not ask, or where the scenario states a limit."""
    column = chance_column(case.kind)
    stated = any(limit.column == column and limit.kind == "at_least" for limit in stated_limits(case.scenario.limits))
    return None if stated else case.asked.safe


def demand_of(case: LoadedScenario) -> tuple[str, ...]:
    """The setting that makes the preferred chance a limit; none where nothing is preferred."""
    share = preferred_chance(case)
    return () if share is None else (f"{keys_of(case.kind)['safe']}={share:g}",)


@record
class SafeAnswer(Generic[Result]):
    """An answer for plans that have the preferred chance, and the one without it.

    demand: the setting that asks for it. is_safe: whether such plans answer; else `found` is the one without it
    """

    found: Result
    expected: Result | None
    demand: tuple[str, ...]
    is_safe: bool


def answered_safely(
    demand: tuple[str, ...], answer: Callable[[tuple[str, ...]], Result], reached: Callable[[Result], bool]
) -> SafeAnswer[Result]:
    """The answer with a setting, where plans reach what is asked with it, else without; and the other one."""
    plain = answer(())
    if not demand or not reached(plain):
        return SafeAnswer(plain, None, demand, is_safe=not demand)
    safe = answer(demand)
    return (
        SafeAnswer(safe, plain, demand, is_safe=True)
        if reached(safe)
        else SafeAnswer(plain, None, demand, is_safe=False)
    )
