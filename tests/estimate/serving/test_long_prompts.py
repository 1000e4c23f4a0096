"""Prompts of many steps on attention groups: bounds that no layout and no load may break."""

from __future__ import annotations

import pytest
from each import each
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.estimate.serving.predict_serving import ServingAnswer

from .cases import predicted

MODELS = ("qwen-3-30b-a3b", "deepseek-v3")
WHOLE, GROUPS = "plan={tp: 8}", "plan={tp: 1, dp_attention: 8, ep: 8}"
H200 = ("cluster={node: dgx-h200, nodes: 1}", "limits={}")


def asked(model: str, plan: str, prompt: int, users: int, traffic: str = "steady", output: int = 200) -> ServingAnswer:
    load = f"prompt: {prompt}, output: {output}, concurrency: {users}, traffic: {traffic}, precision: fp8"
    return predicted(f"model={model}", plan, f"workload={{kind: serving, {load}}}", *H200)


@each("model", MODELS)
def test_one_long_prompt_is_no_faster_on_one_part_than_on_eight(model: str) -> None:
    for prompt in (30_000, 100_000):
        whole, apart = (asked(model, plan, prompt, 1).costs["ttft"] for plan in (WHOLE, GROUPS))
        assert apart > 3 * whole


@settings(max_examples=30)  # each is two estimates
@given(
    st.sampled_from(MODELS),
    st.sampled_from([WHOLE, GROUPS]),
    st.integers(500, 100_000),
    st.integers(1, 64),
    st.sampled_from(["steady", "burst"]),
)
def test_no_token_takes_longer_than_the_longest_step_and_no_first_token_is_sooner_than_alone(
    model: str, plan: str, prompt: int, users: int, traffic: str
) -> None:
    found = asked(model, plan, prompt, users, traffic)
    if found.refused or "M001" in found.broken:
        return
    costs, alone = found.costs, asked(model, plan, prompt, 1)
    assert costs["tpot"] <= costs["worst_gap"] * (1 + 1e-9)
    assert costs["ttft"] > 0.9 * alone.costs["ttft"]
    assert costs["ttft_p99"] >= costs["ttft"] * (1 - 1e-9) or costs["ttft"] == pytest.approx(costs["ttft_p99"])
