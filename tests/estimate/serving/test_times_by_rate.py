"""No request waits less where more of them come: first tokens and times per token, mean and p99, by the rate."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from each import share_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from costmodel.estimate.serving.evaluate_layouts import evaluate
from costmodel.estimate.serving.plan_columns import SIZES, PlanColumns

from .cases import UNLAUNCHED, inputs

ROUNDING = 1e-9
PLANS = [  # dense models and mixtures of experts, by tensor parallelism
    ("llama-3.1-8b", {"tp": 1.0}),
    ("llama-3.1-70b", {"tp": 4.0}),
    ("llama-3.1-70b", {"tp": 8.0}),
    ("mixtral-8x7b", {"tp": 2.0}),
    ("mixtral-8x7b", {"tp": 8.0}),
    ("qwen-3-30b-a3b", {"tp": 4.0}),
    ("gpt-oss-20b", {"tp": 1.0}),
    ("gpt-oss-120b", {"tp": 8.0}),
]
LENGTHS = [(100, 1000), (300, 512), (2048, 512), (8192, 256), (1000, 64), (16_000, 1000)]


def by_rate(
    asked: tuple[str, ...], sizes: dict[str, float], shares: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Results at shares of the rate at saturation: each row has as many replicas as leave that rate to one of them."""
    found = inputs("limits={}", "workload.rate=1 /s", *asked)

    def results(replicas: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        usual = dict.fromkeys(SIZES, 1.0) | {"tp": 1.0, "budget": 8192.0} | sizes
        columns = {name: np.full(len(replicas), value) for name, value in usual.items()}
        costs = evaluate(found, PlanColumns(**columns | {"replicas": replicas})).results
        names = ("ttft", "ttft_p99", "tpot", "tpot_p99", "saturation_per_s")
        return {name: np.asarray(costs.column(name)) for name in names}

    return results(1.0 / (shares * results(np.ones(1))["saturation_per_s"][0]))


def lengths(prompt: int, output: int, spread: float) -> tuple[str, str]:
    return (
        f"workload.prompt={{mean: {prompt}, spread: {spread}}}",
        f"workload.output={{mean: {output}, spread: {0.5 if spread else 0}}}",
    )


def worst_fall(values: NDArray[np.float64]) -> float:
    """By which part the values fall at most, from one that came before."""
    return float(np.max(1.0 - values / np.maximum.accumulate(values)))


@pytest.mark.share(8)
@pytest.mark.parametrize(("model", "sizes"), PLANS)
@pytest.mark.parametrize("spread", [0, 0.3, 0.5, 1])
def test_first_tokens_never_come_sooner_at_a_higher_rate(model: str, sizes: dict[str, float], spread: float) -> None:
    """A lone prompt reads all experts; with more in flight these are read anyway. The p99 fell by up to a third.

    A share of plans with spreads, unless --whole asks for all.
    """
    shares = np.concatenate([np.geomspace(1e-4, 0.5, 40, endpoint=False), 1 - np.geomspace(0.5, 1e-2, 40)])
    for prompt, output in LENGTHS:
        for more in ((), ("workload.shared_prefix=50",)):
            rows = by_rate((f"model={model}", *lengths(prompt, output, spread), *more), sizes, shares)
            assert worst_fall(rows["ttft"]) < ROUNDING, (prompt, output)
            assert worst_fall(rows["ttft_p99"]) < ROUNDING, (prompt, output)
            assert worst_fall(rows["tpot_p99"]) < 0.002, (prompt, output)


@settings(max_examples=30)
@given(
    st.sampled_from(PLANS),
    st.integers(256, 16_000),
    st.integers(64, 2000),
    st.floats(0, 1),
    st.sampled_from([512, 2048, 8192]),
    st.lists(st.floats(1e-4, 0.9), min_size=2, max_size=8, unique=True),
)
def test_no_p99_falls_with_the_rate(
    plan: tuple[str, dict[str, float]], prompt: int, output: int, spread: float, budget: int, shares: list[float]
) -> None:
    model, sizes = plan
    asked = (f"model={model}", *lengths(prompt, output, round(spread, 3)))
    rows = by_rate(asked, sizes | {"budget": float(budget)}, np.sort(shares))
    assert worst_fall(rows["ttft_p99"]) < ROUNDING
    assert worst_fall(rows["tpot_p99"]) < 2e-3


@pytest.mark.share(4)
@pytest.mark.parametrize(("prompt", "output"), [(50, 30), (75, 30), (128, 30), (75, 128)])
@pytest.mark.parametrize(("model", "sizes"), [plan for plan in PLANS if not plan[0].startswith("llama")])
def test_hardly_any_p99_of_short_requests_to_experts_falls(
    model: str, sizes: dict[str, float], prompt: int, output: int
) -> None:
    """The mean counts its own sequence by a chord of the step, which bends where the first experts are read.

    A share of plans with lengths, unless --whole asks for all.
    """
    shares = np.concatenate([np.geomspace(1e-4, 0.4, 20, endpoint=False), np.linspace(0.4, 0.9, 40)])
    for spread in (0, 0.5):
        for budget in (512.0, 8192.0):
            for more in (UNLAUNCHED, ()):
                asked = (f"model={model}", *lengths(prompt, output, spread), *more)
                rows = by_rate(asked, sizes | {"budget": budget}, shares)
                assert worst_fall(rows["ttft_p99"]) < 1e-3, (spread, budget)
                assert worst_fall(rows["tpot_p99"]) < 0.01, (spread, budget)


GROUPS = {"ep": 8.0, "dp_attention": 8.0}


@pytest.mark.parametrize(
    ("model", "sizes", "most"),  # by which part the p99 of first tokens, and per token, fall at most
    [
        (("deepseek-v3", "cluster={node: dgx-h200, nodes: 2}"), {"ep": 16.0, "dp_attention": 16.0}, (ROUNDING, 0.01)),
        (("qwen-3-235b-a22b", "cluster={node: dgx-h200, nodes: 1}"), GROUPS, (ROUNDING, 0.01)),  # groups fill unevenly
        (("deepseek-v3", "cluster={node: dgx-h200, nodes: 2}"), {"tp": 8.0, "ep": 8.0}, (1e-3, ROUNDING)),  # by NCCL
        (("llama-3.1-70b",), {"tp": 4.0, "pp": 2.0}, (ROUNDING, ROUNDING)),
        (("llama-3.1-70b",), {"tp": 2.0, "pp": 4.0}, (ROUNDING, ROUNDING)),
    ],
)
def test_no_p99_of_other_cuts_falls_up_to_saturation(
    model: tuple[str, ...], sizes: dict[str, float], most: tuple[float, float]
) -> None:
    """Attention groups, experts apart, pipelines. Those of 16,000 tokens fell by a third, of pipelines by an eighth.

    A share of the loads, unless --whole asks for all.
    """
    shares = np.concatenate([np.geomspace(1e-4, 0.4, 20, endpoint=False), np.linspace(0.4, 0.99, 60)])
    launches = ((UNLAUNCHED, most[0]), ((), max(most[0], 0.01)))
    for (prompt, output), spread, (more, first) in share_of(itertools.product(LENGTHS, (0, 0.5), launches), 4):
        rows = by_rate((f"model={model[0]}", *model[1:], *lengths(prompt, output, spread), *more), sizes, shares)
        assert worst_fall(rows["ttft_p99"]) < first, (prompt, output, spread)
        assert worst_fall(rows["tpot_p99"]) < most[1], (prompt, output, spread)


@pytest.mark.share(3)
@pytest.mark.parametrize(("model", "sizes"), [PLANS[0], PLANS[1], PLANS[3]])
@pytest.mark.parametrize("prompts", [1.2, 2.05, 3.0])
def test_no_p99_of_whole_prompts_falls(model: str, sizes: dict[str, float], prompts: float) -> None:
    """A step that holds two prompts, with few others in flight, holds one with more: p99 per token fell by 45 %.

    A share of plans with budgets, unless --whole asks for all.
    """
    shares = np.concatenate([np.geomspace(1e-4, 0.4, 20, endpoint=False), np.linspace(0.4, 0.99, 60)])
    for prompt, output in LENGTHS:
        budget = float(round(max(prompts * prompt, 2048.0)))
        for spread in (0, 0.3):
            asked = (f"model={model}", "stack.chunked=false", *lengths(prompt, output, spread))
            rows = by_rate(asked, sizes | {"budget": budget}, shares)
            assert worst_fall(rows["ttft_p99"]) < ROUNDING, (prompt, output, spread)
            assert worst_fall(rows["tpot_p99"]) < ROUNDING, (prompt, output, spread)
