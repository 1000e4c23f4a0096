"""Published times of engines, in the product's own words: claims, so that a tolerance belongs to each."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.serving.engine_step import fastest_user_rate
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


MOST = [  # model, node, layout, prompt, output, requests that are queued at once, tokens a second
    ("llama-3.1-70b", "dgx-h200", "{tp: 1}", 128, 4096, 1500, 2872),
    ("llama-3.1-70b", "dgx-h100", "{tp: 2}", 5000, 500, 1500, 898),
    ("llama-3.1-8b", "dgx-h100", "{tp: 1}", 2048, 128, 3000, 3450),
    ("llama-3.1-405b", "dgx-h200", "{tp: 8}", 1000, 1000, 3000, 3330),
    ("qwen-3-235b-a22b", "dgx-h200", "{tp: 1, dp_attention: 8, ep: 8}", 1000, 1000, 3000, 23_789),
]


@pytest.mark.parametrize(("model", "node", "layout", "prompt", "output", "requests", "published"), MOST)
def test_most_tokens_of_tensorrt_llm(
    model: str, node: str, layout: str, prompt: int, output: int, requests: int, published: float
) -> None:
    """Its performance overview 1.0: offline batches in fp8 with a fp8 cache and 90 to 95 % of what is free.

    That release gathers tokens where ranks are no more than the experts of a token.
    """
    lengths = f"prompt: {prompt}, output: {output}, requests: {requests}"
    load = f"workload={{kind: serving, {lengths}, precision: fp8, cache: fp8}}"
    machine = (f"model={model}", f"cluster={{node: {node}, nodes: 1}}", "stack=trt-llm", "stack.memory.share=0.92")
    plan = f"plan={layout[:-1]}, replicas: 1}}"
    found = costs(*machine, "stack.dispatch=null", load, plan, "limits={}")
    assert found["output_tokens_per_s"] == pytest.approx(published, rel=0.15)


def test_an_engine_that_never_evicts_begins_what_will_fit_to_its_end() -> None:
    """TensorRT-LLM's scheduler holds a whole answer back for each request, others half of one on the mean."""
    whole, half = (costs("stack=trt-llm", f"stack.memory.no_eviction={kept}") for kept in ("true", "false"))
    assert half["concurrency_steady"] / whole["concurrency_steady"] == pytest.approx(
        2560 / (2048 + 1.36 * 256), rel=0.01
    )
    assert whole["cache_pool_tokens"] == half["cache_pool_tokens"]
