"""Figures that a plan does not have, because it cannot start or its run does not end."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TypeVar

from costmodel.documents.schemas.results import is_money, is_of_run
from costmodel.estimate.evaluate.limit_checks import ENDLESS, TOO_LARGE

T = TypeVar("T")


def withheld(columns: Mapping[str, T], broken: Collection[str]) -> dict[str, T | float]:
    """Results with NaN for those that do not exist in a plan with these reasons against it.

    One that is too large for the machine has no costs and no run; a run that never ends has no length.

    >>> withheld({"step_time": 1.0, "cost_per_mtoken": 2.0, "run_time": 3.0}, ["M001"])
    {'step_time': 1.0, 'cost_per_mtoken': nan, 'run_time': nan}
    >>> withheld({"cost_per_mtoken": 2.0, "run_time": 3.0}, ["R007"])
    {'cost_per_mtoken': 2.0, 'run_time': nan}
    """
    starts = TOO_LARGE.isdisjoint(broken)
    ends = starts and ENDLESS not in broken
    return {
        name: math.nan if (not ends and is_of_run(name)) or (not starts and is_money(name)) else value
        for name, value in columns.items()
    }
