"""Routed experts in host memory, and GGUF: what both weigh, and what a token takes."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.estimate.serving.engine_memory import weight_memory
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.ground.errors import CostModelError
from estimate.serving.cases import costs, inputs, predicted

LOAD = "workload={kind: serving, prompt: 1000, output: 500, concurrency: 1, weights: int4-g128}"
ONE = ("model=deepseek-v3", "cluster={node: dgx-h100, nodes: 1}", "stack=sglang", "limits={}", LOAD)
EXPERTS = 58 * 256 * 3 * 7168 * 2048  # parameters
ELEMENT = 0.5 + 2.5 / 128


def plan(share: str, tp: int = 8) -> str:
    return f"plan={{tp: {tp}, replicas: 1, host_experts: {share}}}"


def test_experts_leave_the_devices_and_a_token_reads_them_from_the_host() -> None:
    """Eight experts of a token in each of 58 layers, at 614.4 GB/s, unless other layers take longer."""
    half, whole = costs(*ONE, plan("50 %")), costs(*ONE, plan("100 %"))
    layout = PlanColumns(*(np.array([value]) for value in (8.0, 1.0, 1.0, 1.0, 1.0, 1024.0)))
    held = [sum(weight_memory(inputs(*ONE, plan(share)), layout)) for share in ("50 %", "100 %")]
    assert float((held[0] - held[1])[0]) == pytest.approx(EXPERTS * ELEMENT / 2 / 8, rel=1e-6)
    read = EXPERTS / 256 * 8 * ELEMENT / 614.4e9
    assert whole["matmul"] > read
    assert whole["matmul"] - half["matmul"] == pytest.approx(read / 2, rel=0.01)
    assert whole["tpot_high"] / whole["tpot"] > 2


def test_a_host_holds_the_experts_of_all_its_replicas() -> None:
    tight = f"cluster.node.memory.capacity={EXPERTS * ELEMENT * 0.99 / 1e9:.3f} GB"
    roomy = f"cluster.node.memory.capacity={EXPERTS * ELEMENT * 1.01 / 1e9:.3f} GB"
    assert predicted(*ONE, plan("100 %"), tight).refused == ("L061",)
    assert predicted(*ONE, plan("100 %"), roomy).refused == ()
    assert "N056" in predicted(*ONE, plan("100 %"), roomy).remarked


@pytest.mark.parametrize(
    ("changed", "words"),
    [("model=llama-3.1-8b", "has no experts"), ("stack=vllm", "computes no experts on the host")],
)
def test_what_cannot_be_on_the_host_is_refused(changed: str, words: str) -> None:
    with pytest.raises(CostModelError, match=words):
        inputs(*ONE, plan("50 %"), changed)


# Sizes of files of Llama 3.1 8B in the README of quantize of llama.cpp, in GiB.
@pytest.mark.parametrize(
    ("kind", "size"), [("q3_k_m", 3.74), ("q4_k_m", 4.58), ("q5_k_m", 5.33), ("q6_k", 6.14), ("q8_0", 7.95)]
)
def test_gguf_weighs_what_its_files_do(kind: str, size: float) -> None:
    given = (
        "model=llama-3.1-8b",
        "cluster={node: dgx-h100, nodes: 1}",
        "plan={tp: 1}",
        "limits={}",
        f"workload.weights={kind}",
    )
    layout = PlanColumns(*(np.ones(1) for _ in range(6)))
    layers, ends = weight_memory(inputs(*given), layout)
    assert float((layers + ends)[0]) / 2**30 == pytest.approx(size, rel=0.005)
