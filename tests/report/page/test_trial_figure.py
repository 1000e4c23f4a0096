"""Curves over what was varied: values where their units put them."""

from __future__ import annotations

from costmodel.documents.reader.resolved_scenario import load_any
from costmodel.documents.reader.rl_scenario import reinforced
from costmodel.documents.reader.serving_scenario import serving
from costmodel.explore.rl import vary_rl
from costmodel.explore.search.ranges import Axis
from costmodel.explore.serving import vary_serving
from costmodel.report.page.plots import Plot
from costmodel.report.page.rl_page import rl_sweep_figure
from costmodel.report.page.serving_parts import trials_figure


def test_prompts_of_500_lie_before_those_of_1k_and_2k() -> None:
    case, path = serving(load_any("serve-llama-3.1-70b")), "workload.prompt.mean"
    trials = [vary_serving.tried(case, [f"{path}={value}"]) for value in ("500", "1k", "2k")]
    figure = trials_figure(trials, "tpot", [path])
    assert isinstance(figure, Plot)
    across = [point.x for point in figure.points]
    assert across == [500, 1000, 2000]
    assert path in figure.title


def test_answers_of_2k_and_8k_are_a_factor_of_four_apart() -> None:
    case, path = reinforced(load_any("grpo-qwen-2.5-7b-64")), "workload.response.mean"
    trials = tuple(vary_rl.tried(case, [f"{path}={value}"]) for value in ("900", "2k", "8k"))
    found = vary_rl.SweptRl(case, (Axis(path, ("900", "2k", "8k")),), ("iteration_time",), trials)
    figure = rl_sweep_figure(found)
    assert isinstance(figure, Plot)
    assert [point.x for point in figure.points] == [900, 2000, 8000]
    assert path in figure.title
