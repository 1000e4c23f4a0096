"""Axes: from values to places on a drawing, and ticks at round numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from costmodel.ground.record import record

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_WITHIN_A_DECADE = (1.0, 2.0, 5.0)
_WITHIN_ONE = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
_ONE_DECADE, _MANY_DECADES = 1.2, 4.0
_DIGITS = 3  # of a figure on an axis
_LEAST_SPAN = 0.04  # of the largest value, so that three digits distinguish ticks
_NOUGHTS = re.compile(r"(\d)\.0+(?!\d)|(\.\d*?[1-9])0+(?!\d)")


@record
class Scale:
    """A straight or logarithmic axis from `low` to `high`, drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value; what lies outside is drawn at the end."""
        low, high, here = (self._measure(item) for item in (self.low, self.high, value))
        share = 0.0 if high == low else min(1.0, max(0.0, (here - low) / (high - low)))
        return self.start + share * (self.end - self.start)

    def _measure(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.logarithmic else value

    def ticks(self, count: int = 5) -> list[float]:
        """About `count` round values on the axis."""
        if self.logarithmic:
            return log_ticks(self.low, self.high)
        return ticks(self.low, self.high, count)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round values from the first at or above `low` to the last at or below `high`.

    >>> ticks(0, 16.15, 4), ticks(34.9, 44.8, 4)
    ([0.0, 5.0, 10.0, 15.0], [35.0, 37.5, 40.0, 42.5])
    >>> ticks(100.5, 109.9, 4)
    [102.0, 104.0, 106.0, 108.0]
    """
    if not high > low:
        return [low]
    step = _step((high - low) / max(1, count), max(abs(low), abs(high)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 12) + 0.0 for place in range(first, last + 1)]


def _step(rough: float, largest: float) -> float:
    """The round step that is nearest from above; 2 for 2.5 where three digits do not state its multiples."""
    finest = 10.0 ** (math.floor(math.log10(largest)) - _DIGITS + 1)
    rough = max(rough, finest)
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(step * decade for step in _STEPS if step * decade >= rough * (1 - 1e-9))
    return 2 * decade if step == 2.5 * decade and decade < 1.5 * finest else step


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten, with multiples between them if the axis is short.

    >>> log_ticks(30, 3000), log_ticks(1, 1e6)
    ([50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0], [1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0, 1000000.0])
    >>> log_ticks(180, 1500)
    [200.0, 300.0, 500.0, 700.0, 1000.0, 1500.0]
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    few = _WITHIN_ONE if decades < _ONE_DECADE else _WITHIN_A_DECADE
    within = few if decades < _MANY_DECADES else (1.0,)
    every = (factor * 10.0**decade for decade in range(first, last + 1) for factor in within)
    return [value for value in every if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]


def rounded(text: str) -> str:
    """The label of a round value, without zeros after the decimal point.

    >>> rounded("5.00 s"), rounded("2.50 ms"), rounded("10.0 s"), rounded("1,000 GiB")
    ('5 s', '2.5 ms', '10 s', '1,000 GiB')
    """
    return _NOUGHTS.sub(lambda found: found[1] or found[2], text)


def around(values: Iterable[float], *, logarithmic: bool = False, margin: float = 0.06) -> tuple[float, float]:
    """The ends of an axis that shows all values with a margin."""
    held = [value for value in values if math.isfinite(value) and (value > 0 or not logarithmic)]
    low, high = (min(held), max(held)) if held else (1.0, 1.0)
    if logarithmic:
        factor = max((high / low) ** margin, 1.15)
        return low / factor, high * factor
    room = max((high - low) * margin, (_LEAST_SPAN * abs(high) - (high - low)) / 2) or 1.0
    return low - room, high + room
