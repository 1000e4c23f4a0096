"""Bars, two-sided bars and lines for the terminal, of plain characters, at home in 80 columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from costmodel.report.terminal.style.scatter import WIDE, ScatterPoint, scatter
from costmodel.report.terminal.style.theme import bar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from costmodel.report.terminal.style.layout import WidthDrawing

_LEFT = " ▕▐█"
LOGARITHMIC = 8.0  # a range that spans more is drawn by its logarithm


def two_sided(low: float, high: float, widest: float, width: int = 8) -> str:
    """A bar to both sides of a middle line.

    >>> two_sided(-1.0, 0.5, 1.0, 4)
    '████│██  '
    """
    left = max(-min(low, high), 0.0) / widest if widest else 0.0
    right = max(low, high, 0.0) / widest if widest else 0.0
    thirds = round(min(left, 1.0) * width * 3)
    full, rest = divmod(thirds, 3)
    drawn = (_LEFT[rest] if rest else "") + "█" * full
    return f"{drawn:>{width}}│{bar(right, width):<{width}}"


def line(
    points: Sequence[tuple[float, float]],
    titles: tuple[str, str],
    shown: tuple[Callable[[float], str], Callable[[float], str]],
    beside: Sequence[tuple[float, float]] = (),
    written: Mapping[float, str] | None = None,
) -> WidthDrawing:
    """A line chart: points joined by dots, others marked by circles; x is logarithmic if its range is
    wide.

    written: values of x that get ticks, as the user typed them
    """
    xs = [x for x, _ in points]
    by_log = min(xs) > 0 and max(xs) > LOGARITHMIC * min(xs)
    place: Callable[[float], float] = math.log2 if by_log else lambda x: x
    ordered = sorted((place(x), y) for x, y in points)
    marks = [ScatterPoint(x, y, "·") for x, y in _between(ordered)] + [ScatterPoint(x, y, "●") for x, y in ordered]
    marks += [ScatterPoint(place(x), y, "○") for x, y in beside]

    def stated(x: float) -> str:
        return shown[0](2.0**x if by_log else x)

    ticks = [(place(x), text) for x, text in (written or {}).items()]
    return scatter(marks, (f"{titles[0]}{', logarithmic' if by_log else ''}", titles[1]), (stated, shown[1]), ticks)


def _between(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Evenly spaced points on a line, one for each column."""
    found = []
    low, high = points[0][0], points[-1][0]
    for step in range(WIDE):
        x = low + (high - low) * step / (WIDE - 1)
        after = next((place for place, (at, _) in enumerate(points) if at >= x), len(points) - 1)
        (x0, y0), (x1, y1) = points[max(0, after - 1)], points[after]
        found.append((x, y1 if x1 == x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)))
    return found
