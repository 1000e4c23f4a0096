"""A small scatter for the terminal: points of two results on axes with ticks, at home in 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from costmodel.ground.record import record
from costmodel.report.terminal.style.layout import WidthDrawing, drawn, laid
from costmodel.report.terminal.style.theme import styled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.text import Text

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
    return WidthDrawing(lambda width: _lines(points, titles, shown, width, ticks))


def _lines(
    points: Sequence[ScatterPoint],
    titles: tuple[str, str],
    shown: tuple[Callable[[float], str], Callable[[float], str]],
    width: int | None,
    stated: Sequence[tuple[float, str]],
) -> list[Text]:
    (low_x, high_x), (low_y, high_y) = _range([p.x for p in points]), _range([p.y for p in points])
    labels = {row: shown[1](low_y + (high_y - low_y) * (HIGH - 1 - row) / (HIGH - 1)) for row in range(0, HIGH, _TICKS)}
    margin = max(map(cell_len, labels.values()))
    wide = WIDE if width is None else max(NARROWEST, min(WIDE, width - margin - len("   ┤")))
    cells = [[" "] * wide for _ in range(HIGH)]
    for point in points:
        row = HIGH - 1 - _place(point.y, low_y, high_y, HIGH)
        cells[row][_place(point.x, low_x, high_x, wide)] = point.mark
    lines = [*laid([styled(f"  {titles[1]}")], width)]
    for row, cell in enumerate(cells):
        edge = f"{labels[row]:>{margin}} ┤" if row in labels else f"{'':>{margin}} │"
        lines.append(drawn(f"  {edge}{''.join(cell)}".rstrip()))
    even = [round(tick * (wide - 1) / _TICKS) for tick in range(_TICKS + 1)]
    ticks = [(place, shown[0](low_x + (high_x - low_x) * place / (wide - 1))) for place in even]
    ticks = sorted((_place(x, low_x, high_x, wide), text) for x, text in stated) or ticks
    places = [place for place, _ in ticks]
    axis = "".join("┬" if column in places else "─" for column in range(wide))
    lines.append(drawn(f"  {'':>{margin}} └{axis}"))
    lines.append(drawn(f"  {'':>{margin}}  {_under(ticks, wide)}"))
    return [*lines, *laid([styled(f"  {titles[0]:>{margin + 2 + wide}}")], width)]


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low, low + (abs(low) or 1.0))


def _place(value: float, low: float, high: float, cells: int) -> int:
    return min(cells - 1, max(0, round((value - low) / (high - low) * (cells - 1))))


def _under(ticks: Sequence[tuple[int, str]], wide: int) -> str:
    """The line of tick labels, centred under their ticks; labels that would touch another are left out."""
    line = ""
    for place, label in ticks:
        start = max(0, min(place - cell_len(label) // 2, wide - cell_len(label)))
        if not line or start > len(line) + 1:
            line = line.ljust(start) + label
    return line
