"""Five claims often repeated in the field, and what the tool answers. Each test tells its pitfall."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from estimate.cases import ask, costs, inputs, model, one

from costmodel.equations.memory.states import gradient_bytes, gradient_traffic, optimizer_bytes, weight_bytes
from costmodel.equations.network.collectives import (
    activation_message,
    ring_steps,
    ring_time,
    tree_latency,
    wire_bytes,
)
from costmodel.equations.parallelism.pipeline import bubble_of_ideal, bubble_of_total, pipeline_time
from costmodel.estimate.training_answer.predict_training import Answer
from costmodel.explore.explain.word_explanations import page
from costmodel.ground.equation import EQUATIONS
from costmodel.report.terminal import glossary_pages

# ── (a) ring all-reduce ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ranks", [2, 4, 64, 1024])
def test_a_ring_moves_two_buffers_at_most(ranks: int) -> None:
    """Claim: "ring all-reduce takes O(N) bandwidth".

    Wrong: a rank sends N − 1 chunks of M/N to scatter and as many to gather, 2 (N − 1)/N · M, which never reaches 2 M.
    """
    chunks = [1 / ranks for _half in range(2) for _step in range(ranks - 1)]
    sent = wire_bytes(1.0, float(ranks), operation="all_reduce")
    assert sent == pytest.approx(sum(chunks))
    assert sent < 2


def test_a_rings_latency_is_linear_not_logarithmic() -> None:
    """Claim: "DDP latency is O(log N) with ring all-reduce".

    Wrong: 2 (N − 1) steps follow one another, 2046 at N = 1024. A tree has the logarithm, 20 levels; that is why NCCL
    changes algorithm with size and scale.
    """
    ranks = 2.0 ** np.arange(1, 11)
    steps = np.asarray(ring_steps(ranks, operation="all_reduce"))
    np.testing.assert_array_equal(steps, 2 * (ranks - 1))
    latency = [float(ring_time(0.0, n, 40e9, 5e-6, operation="all_reduce")) / 5e-6 for n in (64.0, 1024.0)]
    assert latency == pytest.approx([126, 2046])
    assert float(tree_latency(1.0, 1024.0, 0.0, 0.0, 5e-6)) / 5e-6 == pytest.approx(20)


# ── (b) the all-reduces of tensor parallelism ────────────────────────────────────────────────────────────────────────

FORWARD, TRAINING, RECOMPUTED = 64, 128, 192  # two a layer forward, two backward, two more when forward runs again


def tp_4(recompute: str) -> Answer:
    """Hidden 4096, 32 layers, TP = 4 without sequence parallelism, one micro-batch of 32 sequences of 100 tokens."""
    asked = inputs(model(layers=32, hidden=4096, heads=32), node="dgx-a100", sequence=100, global_batch=64)
    return ask(asked, tp=4, micro_batch=32, recompute=recompute, sequence_parallel=False, zero=0)


@pytest.mark.parametrize(("recompute", "count"), [("none", TRAINING), ("full", RECOMPUTED)])
def test_tp_4_makes_128_all_reduces_a_training_step(recompute: str, count: int) -> None:
    """Claim: "TP = 4, batch 32, sequence 100, hidden 4096, 32 layers: 26 MB an all-reduce, 64 of them = 1.66 GB".

    Half right: 26.2 MB is the payload in bf16, 64 is the forward pass alone (1.678 GB, not 1.66), and payload is not
    wire: 2 (t − 1)/t = 1.5 times as much is sent, 2.52 GB. A training step makes 128 (3.36 GB payload, 5.03 GB sent),
    with full recompute 192.
    """
    (transfer,) = [item for item in tp_4(recompute).evaluation.step.transfers if item.group.name == "tp"]
    assert transfer.operation == "all_reduce"
    assert one(transfer.message) == 26_214_400
    assert one(transfer.count) == count
    assert one(transfer.message) * FORWARD == pytest.approx(1.678e9, rel=1e-3)
    assert one(transfer.volume) == pytest.approx(1.5 * count * 26_214_400)


def test_tp_4_sends_5_gb_a_step() -> None:
    """The same by the column of results: 1.5 × 3.36 GB; embedding and head make two more exchanges of that size."""
    row = tp_4("none").evaluation.costs.row()
    assert row["tp_volume"] - 1.5 * 2 * 26_214_400 == pytest.approx(1.5 * 3.355e9, rel=1e-3)
    assert row["tp_volume"] == pytest.approx(5.11e9, rel=1e-3)


def test_tp_4_by_the_equations() -> None:
    """26.2 MB = 32 · 100 tokens · 4096 · 2 bytes; 64 forward are 1.678 GB of payload and 2.52 GB on the wire."""
    message = activation_message(32 * 100.0, 4096.0, 2.0)
    assert message == 32 * 100 * 4096 * 2
    assert message / 1e6 == pytest.approx(26.2, abs=0.05)
    assert FORWARD * message / 1e9 == pytest.approx(1.678, abs=5e-4)
    sent = wire_bytes(message, 4.0, operation="all_reduce")
    assert sent / message == 1.5
    assert FORWARD * sent / 1e9 == pytest.approx(2.52, abs=5e-3)
    assert TRAINING * message / 1e9 == pytest.approx(3.36, abs=5e-3)
    assert TRAINING * sent / 1e9 == pytest.approx(5.03, abs=5e-3)


# ── (c) the bubble ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_bubble_of_87_percent_is_47_percent_of_the_step() -> None:
    """Claim: "the bubble is (p − 1)/m".

    That is idle over busy time: 87.5 % at p = m = 8. Of the step it is (p − 1)/(m + p − 1): 46.7 %. Reading the first
    as the second says that an eighth of the step is left for work, when it is more than half.
    """
    assert bubble_of_ideal(8.0, 8.0, 1.0) == 0.875
    assert bubble_of_total(8.0, 8.0, 1.0) == pytest.approx(7 / 15)
    busy, step = 8 * 3.0, float(pipeline_time(8.0, 8.0, 1.0, *(1.0, 2.0) * 3, schedule="1f1b"))
    assert (step - busy) / busy == pytest.approx(0.875)
    assert (step - busy) / step == pytest.approx(0.467, abs=5e-4)


@pytest.mark.parametrize(("m", "v", "ideal", "total"), [(32.0, 1.0, 0.21875, 0.1795), (32.0, 4.0, 0.0547, 0.0519)])
def test_more_micro_batches_and_chunks_shrink_both(m: float, v: float, ideal: float, total: float) -> None:
    """Interleaving divides by v; p = 8, m = 32: 21.9 % of the busy time, 5.5 % with four chunks."""
    assert bubble_of_ideal(8.0, m, v) == pytest.approx(ideal, abs=5e-5)
    assert bubble_of_total(8.0, m, v) == pytest.approx(total, abs=5e-5)


def test_the_column_is_the_share_of_the_step() -> None:
    """bubble_share of a plan with nearly equal stages is near (p − 1)/(m + p − 1), far from (p − 1)/m."""
    asked = inputs(model(layers=64, vocab=1024), global_batch=8)
    share = costs(asked, pp=8, micro_batch=1)["bubble_share"]
    assert share == pytest.approx(7 / 15, rel=0.03)


# ── (d) ZeRO's factors ───────────────────────────────────────────────────────────────────────────────────────────────


def zero_states(parameters: float, dp: float, zero: Any) -> float:
    """The ZeRO paper's 2 + 2 + 12 bytes."""
    return float(
        weight_bytes(parameters, 2.0, 2.0, dp, zero=zero, sharded_master=False)
        + gradient_bytes(parameters, 2.0, dp, zero=zero)
        + optimizer_bytes(parameters, 4.0, 8.0, dp, zero=zero)
    )


@pytest.mark.parametrize(
    ("dp", "factors"), [(64.0, (3.82, 7.21, 64.0)), (8.0, (2.91, 4.27, 8.0)), (1e9, (4.0, 8.0, 1e9))]
)
def test_zero_saves_4_and_8_times_only_in_the_limit(dp: float, factors: tuple[float, ...]) -> None:
    """Claim: "ZeRO-1 saves 4×, ZeRO-2 8×, ZeRO-3 N×".

    The first two are limits for N → ∞, of model states alone, of the 2 + 2 + 12 recipe: 3.82× and 7.21× at N = 64,
    2.91× and 4.27× at N = 8. Activations are not touched.
    """
    whole = zero_states(7.5e9, dp, 0)
    assert tuple(whole / zero_states(7.5e9, dp, stage) for stage in (1, 2, 3)) == pytest.approx(factors, rel=2e-3)


def test_zeros_own_table() -> None:
    """7.5 B on 64 ranks: 120, 31.4, 16.6, 1.88 GB."""
    table = [zero_states(7.5e9, 64.0, stage) / 1e9 for stage in range(4)]
    assert table == pytest.approx([120, 31.4, 16.6, 1.88], rel=4e-3)


def test_the_ledger_says_the_same() -> None:
    """On eight ranks with bf16 gradients: the ledger's three lines shrink 2.91× and 4.27×, its activations not."""
    asked = inputs(stack="megatron-core", workload={"gradients": "bf16"})
    kept = []
    for zero in range(3):
        ledger = ask(asked, zero=zero).evaluation.ledger
        kept.append(sum(one(ledger.line(name, 0)) for name in ("weights", "gradients", "optimizer")))
        assert one(ledger.line("activations", 0)) == one(ask(asked, zero=0).evaluation.ledger.line("activations", 0))
    assert kept[0] / kept[1] == pytest.approx(2.91, abs=5e-3)
    assert kept[0] / kept[2] == pytest.approx(4.27, abs=5e-3)


# ── (e) DDP 2×, FSDP 3× ──────────────────────────────────────────────────────────────────────────────────────────────

LLAMA_8B = 8030261248.0
ENDS = 2 * 128256 * 4096 + 4096.0  # of it embedding, head and last norm, which FSDP gathers once and not twice


def dp_volume(stack: str, zero: int, gradients: str, *, micro_batches: int = 1) -> float:
    """Bytes a rank of 64 sends a step for Llama 3 8B."""
    global_batch = 64 * micro_batches
    workload = {"gradients": gradients}
    asked = inputs(nodes=8, sequence=1024, global_batch=global_batch, stack=stack, workload=workload)
    return costs(asked, zero=zero)["dp_volume"]


@pytest.mark.parametrize(
    ("stack", "zero", "gradients", "bytes_a_parameter"),
    [
        ("megatron-core", 0, "bf16", 2 * 2),
        ("megatron-core", 0, "fp32", 2 * 4),
        ("megatron-core", 1, "bf16", 2 + 2),
        ("fsdp2", 3, "bf16", 2 + 2 + 2),
        ("fsdp2", 3, "fp32", 2 + 2 + 4),
        ("fsdp2", 2, "bf16", 2 + 2),
    ],
)
def test_ddp_sends_twice_the_model_and_fsdp_three_times(
    stack: str, zero: int, gradients: str, bytes_a_parameter: int
) -> None:
    """Claim: "DDP costs 2× the model size in bandwidth, FSDP 3×".

    Right as bytes sent by a rank, times (N − 1)/N, when weights and gradients are both 16 bit and a step is one
    micro-batch. With fp32 gradients DDP's 2 · 4 bytes equal the 2 + 2 + 4 of FSDP that gathers in bf16. Less what
    fully_shard never lets go between forward and backward: the tables at the ends.
    """
    once = 2 * ENDS if zero == 3 else 0.0
    expected = 63 / 64 * (bytes_a_parameter * LLAMA_8B - once)
    assert dp_volume(stack, zero, gradients) == pytest.approx(expected, rel=1e-12)


def test_fsdp_is_one_and_a_half_ddp_or_equal_to_it() -> None:
    """47.4 GB to 31.6 GB in bf16; 63.2 GB each with fp32 gradients; 2.1 GB less, for the ends are gathered once."""
    once = 63 / 64 * 2 * ENDS
    ddp, fsdp = dp_volume("megatron-core", 0, "bf16"), dp_volume("fsdp2", 3, "bf16") + once
    assert (ddp / 1e9, fsdp / 1e9) == pytest.approx((31.6, 47.4), abs=0.05)
    assert fsdp / ddp == pytest.approx(1.5, rel=1e-12)
    ddp, fsdp = dp_volume("megatron-core", 0, "fp32"), dp_volume("fsdp2", 3, "fp32") + once
    assert ddp / 1e9 == pytest.approx(63.2, abs=0.05)
    assert fsdp == pytest.approx(ddp, rel=1e-12)


def test_accumulation_repeats_what_fsdp_sends() -> None:
    """With m micro-batches FSDP gathers and scatters in each, up to 3 m against DDP's 2."""
    assert dp_volume("megatron-core", 0, "bf16", micro_batches=4) == dp_volume("megatron-core", 0, "bf16")
    assert dp_volume("fsdp2", 3, "bf16", micro_batches=4) == pytest.approx(4 * dp_volume("fsdp2", 3, "bf16"))


def test_the_buffer_itself() -> None:
    """One buffer of g Ψ bytes: 16.06 GB in bf16, twice that in fp32."""
    assert gradient_traffic(LLAMA_8B, 2.0) / 1e9 == pytest.approx(16.06, abs=5e-3)
    assert gradient_traffic(LLAMA_8B, 4.0) == 2 * gradient_traffic(LLAMA_8B, 2.0)


# ── The pitfalls are told in the product ─────────────────────────────────────────────────────────────────────────────

TOLD = {
    "wire_bytes": "2 (n − 1)/n S",
    "ring_time": "O(log n)",
    "activation_message": "forward pass alone",
    "bubble_of_ideal": "46.7 %",
    "bubble_of_total": "87.5 %",
    "optimizer_bytes": "3.82×",
    "weight_bytes": "1120 GB",
    "gradient_traffic": "FSDP 3×",
}


@pytest.mark.parametrize("word", TOLD)
def test_explain_tells_the_pitfall(word: str) -> None:
    pitfall = EQUATIONS[word].contract.pitfall
    assert TOLD[word] in pitfall
    assert any(f"pitfall: {pitfall}" in line.plain for line in glossary_pages.word_page(page(word)))
    assert glossary_pages.page_json(page(word))["pitfall"] == pitfall
    assert pitfall not in EQUATIONS[word].contract.formula
