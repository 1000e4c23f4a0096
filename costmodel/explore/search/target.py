"""A result and the bound that it should reach: what `solve --for` asks."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from statistics import NormalDist
from typing import Protocol

from costmodel.documents.schemas.results import ResultColumn, is_share
from costmodel.equations.run.uncertainty import end_spread, percentile_at
from costmodel.explore.search.named_result import named_result
from costmodel.ground.errors import Place, fail
from costmodel.ground.parsing import UnitError, parse
from costmodel.ground.record import record

_SUREST = 1 - 1e-9  # a chance; one of 100 % lies at no end of a band
_TARGET = re.compile(r"\s*([a-z_0-9]+)\s*(<=|>=|≤|≥)\s*(.+?)\s*\Z")


class TrialResults(Protocol):
    """The results at one value of the key that varies."""

    def result(self, column: str) -> float:
        """A result of a plan that meets every limit; NaN where none does."""


@record
class Target:
    """A result and the bound that it should reach.

    share: chance to reach it that is asked for; without it and of results without a band the expected value rules
    chance: the result that should be that likely too, unless limits demand it of plans
    """

    column: str
    at_least: bool
    bound: float
    has_band: bool = False
    share: float | None = None
    chance: str = ""

    def reached(self, trial: TrialResults) -> bool:
        """Whether a plan that keeps every limit reaches it."""
        return self.excess(trial) <= 0

    def excess(self, trial: TrialResults) -> float:
        """How far a plan misses the target, 0 or less where it reaches it; NaN where it breaks a limit."""
        over = self.value(trial) - self.bound
        return -over if self.at_least else over

    def value(self, trial: TrialResults) -> float:
        """The result, or the value that it beats with the chance: at 90 %, the worse end of its band.

        At another chance by the spread of that end.
        """
        if self.chance and self.share is not None and not trial.result(self.chance) >= self.share:
            return math.nan
        middle = trial.result(self.column)
        if not self.has_band or self.share is None or not 0 < middle < math.inf:
            return middle
        end = trial.result(f"{self.column}_{'low' if self.at_least else 'high'}")
        if not 0 < end < math.inf:
            return middle if math.isnan(end) else end
        beyond = NormalDist().inv_cdf(min(max(self.share, 0.5), _SUREST))
        return float(percentile_at(middle, end_spread(middle, end), -beyond if self.at_least else beyond))


def target_of(text: str, columns: Mapping[str, ResultColumn], example: str, share: float | None = None) -> Target:
    """Parses a target such as `mfu>=0.45`.

    columns: the results that a target may name. share: chance to reach it

    Raises: CostModelError C011 for a text of another form, an unknown result or unit, and a share over 1
    """
    match = _TARGET.match(text)
    place = Place("command line", 0, 7, "", f"--for {text}", max(1, len(text)))
    hint = f"for example --for '{example}'"
    if match is None:
        raise fail("C011", f"'{text}' is not result>=value or result<=value", place, hint)
    column = named_result(match[1], columns, "--for", text)
    try:
        bound = parse(match[3], columns[column].written)
    except UnitError as error:
        raise fail("C011", str(error), place, hint) from None
    if is_share(column) and bound > 1:
        raise fail("C011", f"{column} is a share, and {match[3].strip()} is more than all", place, "write 45 % or 0.45")
    return Target(column, match[2] in (">=", "≥"), bound, bool(columns[column].band), share)
