"""Charts of plain characters: what they say can be read back."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from costmodel.report.terminal.charts import line_chart, two_sided_bar


@pytest.mark.parametrize(
    ("low", "high", "left", "right"), [(-1.0, 1.0, 8, 8), (-0.5, 0.25, 4, 2), (0.5, -0.5, 4, 4), (0, 0, 0, 0)]
)
def test_both_sides_are_as_long_as_they_say(low: float, high: float, left: int, right: int) -> None:
    drawn = two_sided_bar(low, high, 1.0)
    before, after = drawn.split("│")
    assert (len(before), len(after)) == (8, 8)
    assert (before.count("█"), after.count("█")) == (left, right)


def test_nothing_moves() -> None:
    assert two_sided_bar(0.0, 0.0, 0.0, 3) == "   │   "


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_a_line_fits_and_falls(scale: float) -> None:
    points = [(scale**step if scale > 1 else step + 1.0, 10.0 - step) for step in range(8)]
    drawn = [
        text.plain for text in line_chart(points, ("x", "y"), (lambda x: f"{x:.0f}", lambda y: f"{y:.0f}")).lines()
    ]
    assert all(cell_len(row) <= 80 for row in drawn)
    places = [row.index("●") for row in drawn if "●" in row]
    assert sum(row.count("●") for row in drawn) == 8
    assert places == sorted(places)
