"""Published times of engines, in the product's own words: claims, so that a tolerance belongs to each."""

from __future__ import annotations

import pytest

from estimate.serving.cases import costs


@pytest.mark.parametrize(("users", "measured"), [(4, 9.11e-3), (64, 15.5e-3)])
def test_llama_70b_in_fp8_on_8_h100(users: int, measured: float) -> None:
    """InferenceX, vLLM, 1,024 tokens in and out."""
    load = f"workload={{kind: serving, prompt: 1024, output: 1024, concurrency: {users}, precision: fp8}}"
    assert costs("cluster.nodes=1", "plan={tp: 8}", load, "limits={}")["tpot"] == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize(("users", "measured"), [(4, 10.3e-3), (64, 33.0e-3)])
def test_deepseek_r1_on_8_h200(users: int, measured: float) -> None:
    """InferenceX, SGLang, fp8, tp 8."""
    load = f"workload={{kind: serving, prompt: 1024, output: 1024, concurrency: {users}, precision: fp8-block}}"
    machine = ("model=deepseek-v3", "cluster={node: dgx-h200, nodes: 1}", "stack=sglang", "plan={tp: 8}")
    assert costs(*machine, load, "limits={}")["tpot"] == pytest.approx(measured, rel=0.3)
