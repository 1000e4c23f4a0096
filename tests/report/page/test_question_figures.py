"""Curves over what was varied: values where their units put them."""

from __future__ import annotations

import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.explore.search.value_ranges import axes
from costmodel.explore.vary.sweep import sweep
from costmodel.explore.workloads import workload_of
from costmodel.report.page.plots import Plot
from costmodel.report.page.question_figures import sweep_figure


@pytest.mark.parametrize(
    ("name", "over", "across"),
    [
        ("quickstart", "workload.sequence=2048,4Ki,8Ki", [2048, 4096, 8192]),
        ("serve-llama-3.1-70b", "workload.prompt.mean=500,1k,2k", [500, 1000, 2000]),
        ("grpo-qwen-2.5-7b-64", "workload.response.mean=900,2k,8k", [900, 2000, 8000]),
    ],
)
def test_values_lie_where_their_units_put_them(name: str, over: str, across: list[float]) -> None:
    figure = sweep_figure(sweep(workload_of(load_any(name)), axes([over])))
    assert isinstance(figure, Plot)
    assert [point.x for point in figure.points] == across
    assert over.partition("=")[0] in figure.title


def test_two_axes_are_a_line_for_each_value_of_the_second() -> None:
    over = ["workload.rate=2 /s,4 /s,8 /s", "plan.tp=4,8"]
    figure = sweep_figure(sweep(workload_of(load_any("serve-llama-3.1-70b")), axes(over), "tpot"))
    assert isinstance(figure, Plot)
    assert [[x for x, _ in line.points] for line in figure.lines] == 2 * [[2.0, 4.0, 8.0]]
    assert [words for _, words in figure.legend] == ["tp 4", "tp 8"]
