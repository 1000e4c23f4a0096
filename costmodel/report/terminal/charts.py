"""Plots of characters for a terminal: points, lines, and bars to two sides of a middle line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.cells import cell_len

from costmodel.ground.record import record
from costmodel.report.terminal.layout import WidthDrawing, bar, laid_out, styled, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.text import Text


# A small scatter for the terminal: points of two results on axes with ticks, at home in 80 columns.

WIDE, HIGH, NARROWEST = 60, 13, 16
_TICKS = 4


@record
class ScatterPoint:
    """A mark at two values; later points are drawn over earlier ones."""

    x: float
    y: float
    mark: str


def scatter(
    points: Sequence[ScatterPoint],
    titles: tuple[str, str],
    shown: tuple[Callable[[float], str], Callable[[float], str]],
    ticks: Sequence[tuple[float, str]] = (),
) -> WidthDrawing:
    """The points, with the y axis on the left and the x axis below; `shown` formats the values.

    ticks: values of x with their labels; by default, ticks divide the axis evenly
    """
    return WidthDrawing(lambda width: _chart_lines(points, titles, shown, width, ticks))


def _chart_lines(
    points: Sequence[ScatterPoint],
    titles: tuple[str, str],
    shown: tuple[Callable[[float], str], Callable[[float], str]],
    width: int | None,
    stated: Sequence[tuple[float, str]],
) -> list[Text]:
    """The points as a chart of characters, with axes and labels."""
    (low_x, high_x), (low_y, high_y) = _value_range([p.x for p in points]), _value_range([p.y for p in points])
    labels = {row: shown[1](low_y + (high_y - low_y) * (HIGH - 1 - row) / (HIGH - 1)) for row in range(0, HIGH, _TICKS)}
    margin = max(map(cell_len, labels.values()))
    wide = WIDE if width is None else max(NARROWEST, min(WIDE, width - margin - len("   ┤")))
    cells = [[" "] * wide for _ in range(HIGH)]
    for point in points:
        row = HIGH - 1 - _cell_index(point.y, low_y, high_y, HIGH)
        cells[row][_cell_index(point.x, low_x, high_x, wide)] = point.mark
    lines = [*laid_out([styled(f"  {titles[1]}")], width)]
    for row, cell in enumerate(cells):
        edge = f"{labels[row]:>{margin}} ┤" if row in labels else f"{'':>{margin}} │"
        lines.append(unwrapped(f"  {edge}{''.join(cell)}".rstrip()))
    even = [round(tick * (wide - 1) / _TICKS) for tick in range(_TICKS + 1)]
    ticks = [(place, shown[0](low_x + (high_x - low_x) * place / (wide - 1))) for place in even]
    ticks = sorted((_cell_index(x, low_x, high_x, wide), text) for x, text in stated) or ticks
    places = [place for place, _ in ticks]
    axis = "".join("┬" if column in places else "─" for column in range(wide))
    lines.append(unwrapped(f"  {'':>{margin}} └{axis}"))
    lines.append(unwrapped(f"  {'':>{margin}}  {_tick_labels(ticks, wide)}"))
    return [*lines, *laid_out([styled(f"  {titles[0]:>{margin + 2 + wide}}")], width)]


def _value_range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low, low + (abs(low) or 1.0))


def _cell_index(value: float, low: float, high: float, cells: int) -> int:
    return min(cells - 1, max(0, round((value - low) / (high - low) * (cells - 1))))


def _tick_labels(ticks: Sequence[tuple[int, str]], wide: int) -> str:
    """The line of tick labels, centred under their ticks; labels that would touch another are left out."""
    line = ""
    for place, label in ticks:
        start = max(0, min(place - cell_len(label) // 2, wide - cell_len(label)))
        if not line or start > len(line) + 1:
            line = line.ljust(start) + label
    return line


_LEFT = " ▕▐█"
LOGARITHMIC = 8.0  # a range that spans more is drawn by its logarithm


def two_sided_bar(low: float, high: float, widest: float, width: int = 8) -> str:
    """A bar to both sides of a middle line.

    >>> two_sided_bar(-1.0, 0.5, 1.0, 4)
    '████│██  '
    """
    left = max(-min(low, high), 0.0) / widest if widest else 0.0
    right = max(low, high, 0.0) / widest if widest else 0.0
    thirds = round(min(left, 1.0) * width * 3)
    full, rest = divmod(thirds, 3)
    drawn = (_LEFT[rest] if rest else "") + "█" * full
    return f"{drawn:>{width}}│{bar(right, width):<{width}}"


def line_chart(
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
    marks = [ScatterPoint(x, y, "·") for x, y in _points_on_line(ordered)] + [
        ScatterPoint(x, y, "●") for x, y in ordered
    ]
    marks += [ScatterPoint(place(x), y, "○") for x, y in beside]

    def stated(x: float) -> str:
        return shown[0](2.0**x if by_log else x)

    ticks = [(place(x), text) for x, text in (written or {}).items()]
    return scatter(marks, (f"{titles[0]}{', logarithmic' if by_log else ''}", titles[1]), (stated, shown[1]), ticks)


def _points_on_line(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Evenly spaced points on a line, one for each column."""
    found = []
    low, high = points[0][0], points[-1][0]
    for step in range(WIDE):
        x = low + (high - low) * step / (WIDE - 1)
        after = next((place for place, (at, _) in enumerate(points) if at >= x), len(points) - 1)
        (x0, y0), (x1, y1) = points[max(0, after - 1)], points[after]
        found.append((x, y1 if x1 == x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)))
    return found
