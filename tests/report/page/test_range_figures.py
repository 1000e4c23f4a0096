"""Time and money in pages of runs, rankings and comparisons: drawn as predicted, with both ends of their bands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import costmodel
from costmodel.report.page.figures import Bars
from costmodel.report.trials import range_figures

RUN = {"run_time": 4.0e6, "run_time_low": 3.0e6, "run_time_high": 6.0e6, "run_cost": 1e6, "run_cost_low": 8e5}


def test_bars_end_at_both_ends_of_the_band_and_what_has_none_is_not_drawn() -> None:
    both = [
        (name, lambda result, times=times: times * RUN.get(result, float("nan")))
        for name, times in (("A", 1), ("B", 2))
    ]
    (drawn,) = range_figures("training", "moved", both)  # the cost has one end alone
    bars = drawn()
    assert isinstance(bars, Bars)
    assert [row.label for row in bars.rows] == ["A", "B"]
    assert [(piece.start, piece.end) for piece in bars.rows[1].pieces] == [
        (0.0, 6.0e6),
        (6.0e6, 8.0e6),
        (8.0e6, 12.0e6),
    ]
    assert not range_figures("training", "moved", [])


NAME = "megatron-7.5b-512"
TITLES = ("How long it takes", "What it costs")


@pytest.mark.parametrize(
    "asked",
    [
        lambda: costmodel.run(NAME),
        lambda: costmodel.search(NAME, top=3),
        lambda: costmodel.diff(NAME, settings=["plan.tp=4"]),
    ],
    ids=("run", "search", "diff"),
)
def test_pages_draw_time_and_money(asked: Callable[[], costmodel.Result]) -> None:
    page = str(asked().form("html"))
    assert all(title in page for title in TITLES)
