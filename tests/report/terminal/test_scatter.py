"""The scatter: inside its frame, marks where they belong, readable at 80 columns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from costmodel.ground.units import significant
from costmodel.report.terminal.charts import HIGH, WIDE, ScatterPoint, scatter

figures = some.floats(1e-6, 1e15)


def short(value: float) -> str:
    return f"{value:.2e}"


def drawn(points: list[ScatterPoint]) -> list[str]:
    lines = scatter(points, ("x (lower is better)", "y"), (short, short)).lines()
    return [line.plain for line in lines]


@given(some.lists(some.tuples(figures, figures), min_size=1, max_size=40))
def test_every_plot_fits(points: list[tuple[float, float]]) -> None:
    lines = drawn([ScatterPoint(x, y, "●") for x, y in points])
    assert len(lines) == HIGH + 4
    assert max(map(len, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)
    assert 1 <= "".join(lines).count("●") <= len(points)


def test_points_lie_where_they_belong() -> None:
    lines = drawn(
        [
            ScatterPoint(1, 10, "a"),
            ScatterPoint(2, 10, "b"),
            ScatterPoint(1, 20, "c"),
            ScatterPoint(2, 20, "d"),
            ScatterPoint(1.5, 15, "m"),
        ]
    )
    rows = lines[1 : HIGH + 1]
    left = rows[0].index("c")
    assert (rows[0][left + WIDE - 1], rows[-1][left], rows[-1][left + WIDE - 1]) == ("d", "a", "b")
    assert rows[HIGH // 2][left + WIDE // 2] == "m"
    assert lines[0].strip() == "y"
    assert lines[-1].endswith("x (lower is better)")


def test_later_points_are_seen() -> None:
    assert "◆" in "".join(drawn([ScatterPoint(1, 1, "●"), ScatterPoint(2, 2, "●"), ScatterPoint(2, 2, "◆")]))


def test_the_ticks_do_not_touch() -> None:
    points = [ScatterPoint(123456.0, 1.0, "●"), ScatterPoint(123457.0, 2.0, "●")]
    lines = [line.plain for line in scatter(points, ("x", "y"), ((lambda value: f"{value:.9f}"), significant)).lines()]
    labels = lines[-2].split()
    assert 2 <= len(labels) <= 5
    assert all(len(label) == len("123456.000000000") for label in labels)
