"""Published times of engines, in the product's own words: claims, so that a tolerance belongs to each."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.serving.step.decode_step import fastest_user_rate
from costmodel.estimate.serving.operating_point import ExactSteps
from costmodel.estimate.serving.plan_columns import PlanColumns
from estimate.serving.cases import costs, inputs, one


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


def test_palm_540b_in_int8_on_64_tpu_v4() -> None:
    """Pope et al.: 29 ms a token at batch 64, where reading the weights takes 6.87 ms.

    They cut weights in two dimensions, which sends less: their step lies between ours without its exchange and with it.
    """
    least = 1 / float(fastest_user_rate(540e9, 64.0, 1.228e12))
    assert least == pytest.approx(6.87e-3, rel=1e-3)
    load = "workload={kind: serving, prompt: 64, output: 64, concurrency: 64, precision: bf16, weights: int8}"
    stated = inputs("model=palm-540b", "cluster={node: tpu-v4-slice, nodes: 16}", load, "plan={tp: 16}", "limits={}")
    ones = np.ones(1)
    step = ExactSteps(stated, PlanColumns(64 * ones, ones, ones, ones, ones, 8192 * ones)).breakdown(64 * ones)
    assert least < one(step.total) - one(step.tp) < 0.029 < one(step.total)
