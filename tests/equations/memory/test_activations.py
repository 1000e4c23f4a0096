"""Activations: tensors listed one by one, Korthikanti's equations, a modern block."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from costmodel.equations.layers.state_space import state_space_activations, state_space_width
from costmodel.equations.memory.activations import (
    attention_activations,
    checkpoint_activations,
    head_activations,
    logit_bytes,
    mask_bytes,
    mlp_activations,
    op_level_activations,
    score_activations,
    stream_activations,
)
from costmodel.equations.parallelism.pipeline import in_flight


class Shape(NamedTuple):
    """A GPT layer and a micro-batch."""

    hidden: float
    heads: float
    sequence: float = 2048.0
    batch: float = 1.0


GPT_3 = Shape(12288.0, 96.0)
SHAPES = [GPT_3, Shape(6144.0, 64.0, 2048.0, 4.0), Shape(20480.0, 128.0, 1024.0, 2.0)]


def layer(shape: Shape, tp: float, *, sequence_parallel: bool, recompute: Any) -> float:
    """What a GPT layer keeps, from the equations."""
    tokens, split = shape.batch * shape.sequence, tp if sequence_parallel else 1.0
    heads, head_dim = shape.heads / tp, shape.hidden / shape.heads
    if recompute == "full":
        return float(checkpoint_activations(tokens, shape.hidden, 2.0, split))
    core = score_activations(
        shape.batch, shape.sequence, heads, 2.0, kernel="unfused", dropout=True, recompute=recompute
    )
    return float(
        stream_activations(tokens, shape.hidden, 2.0, 2.0, 2.0, split, dropout=True)
        + attention_activations(tokens, heads, heads, head_dim, 2.0)
        + mlp_activations(tokens, 4 * shape.hidden / tp, 2.0, gated=False)
        + core
    )


def korthikanti(shape: Shape, tp: float, *, sequence_parallel: bool, recompute: str) -> float:
    """Equations 1, 2, 4, 6 of the paper as printed there."""
    s, b, h, a, t = shape.sequence, shape.batch, shape.hidden, shape.heads, tp
    scores = 5 * a * s / h if recompute == "none" else 0.0
    if recompute == "full":
        return 2 * s * b * h / (t if sequence_parallel else 1)
    if sequence_parallel:
        return s * b * h / t * (34 + scores)
    return s * b * h * (10 + 24 / t + scores / t)


def listed(shape: Shape) -> float:
    """Every tensor that backward needs of an unsharded GPT layer in the order of the forward pass: elements × bytes."""
    s, b, h, a = shape.sequence, shape.batch, shape.hidden, shape.heads
    stream, scores, wide = s * b * h, a * s * s * b, 4 * s * b * h
    kept = {
        "input of the first norm": 2 * stream,
        "input of the qkv projection": 2 * stream,
        "queries": 2 * stream,
        "keys": 2 * stream,
        "values": 2 * stream,
        "output of the softmax": 2 * scores,
        "mask of the softmax's dropout": 1 * scores,
        "output of the softmax's dropout": 2 * scores,
        "input of the output projection": 2 * stream,
        "mask of attention's dropout": 1 * stream,
        "input of the second norm": 2 * stream,
        "input of the first linear": 2 * stream,
        "input of the gelu": 2 * wide,
        "input of the second linear": 2 * wide,
        "mask of the mlp's dropout": 1 * stream,
    }
    return sum(kept.values())


@pytest.mark.parametrize("shape", SHAPES)
def test_tensors_listed_one_by_one(shape: Shape) -> None:
    assert layer(shape, 1.0, sequence_parallel=False, recompute="none") == pytest.approx(listed(shape), rel=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tp", [1.0, 2.0, 8.0])
@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_equations_of_the_paper(shape: Shape, tp: float, sequence_parallel: bool, recompute: str) -> None:
    choices: dict[str, Any] = {"sequence_parallel": sequence_parallel, "recompute": recompute}
    assert layer(shape, tp, **choices) == pytest.approx(korthikanti(shape, tp, **choices), rel=1e-12)


@pytest.mark.parametrize(
    ("tp", "sequence_parallel", "recompute", "gigabytes"),
    [
        (1.0, False, "none", 2.869),
        (8.0, False, "none", 0.579),
        (8.0, True, "none", 0.3586),
        (8.0, True, "selective", 0.1070),
        (1.0, False, "full", 0.0503),
    ],
)
def test_a_layer_of_gpt_3(tp: float, sequence_parallel: bool, recompute: str, gigabytes: float) -> None:
    kept = layer(GPT_3, tp, sequence_parallel=sequence_parallel, recompute=recompute)
    digits = len(str(gigabytes).partition(".")[2])
    assert round(kept / 1e9, digits) == gigabytes


def test_scores_of_gpt_3_are_80_of_114_units() -> None:
    whole = layer(GPT_3, 1.0, sequence_parallel=False, recompute="none")
    unit = GPT_3.sequence * GPT_3.hidden
    assert whole / unit == pytest.approx(34 + 80)


def test_modern_block_of_llama_3_8b() -> None:
    """139,392 bytes a token and layer, 17 copies of h; 1.142 GB a layer of 8192, 36.5 GB for 32."""

    def block(sequence: float) -> float:
        return float(
            stream_activations(sequence, 4096.0, 2.0, 2.0, 2.0, 1.0, dropout=False)
            + attention_activations(sequence, 32.0, 8.0, 128.0, 2.0)
            + mlp_activations(sequence, 14336.0, 2.0, gated=True)
            + score_activations(1.0, sequence, 32.0, 2.0, kernel="flash-3", dropout=False, recompute="none")
        )

    assert block(1.0) == 139_392
    assert block(1.0) / 4096 / 2 == pytest.approx(17.0, abs=0.02)
    assert block(8192.0) / 1e9 == pytest.approx(1.142, abs=5e-4)
    assert 32 * block(8192.0) / 1e9 == pytest.approx(36.5, abs=0.05)


def test_fused_attention_keeps_one_fp32_number_a_row() -> None:
    fused = score_activations(3.0, 128.0, 5.0, 2.0, kernel="flash-2", dropout=False, recompute="none")
    assert fused == 4 * 3 * 128 * 5
    kept = [score_activations(1.0, s, 1.0, 2.0, kernel="unfused", dropout=False, recompute="none") for s in (1e3, 2e3)]
    assert kept[1] / kept[0] == 4, "unfused scores grow with the square of the sequence"


@pytest.mark.parametrize("kernel", ["flash-1", "flash-2", "flash-3"])
def test_selective_recompute_of_a_fused_core_saves_nothing(kernel: Any) -> None:
    kept = {
        mode: score_activations(1.0, 2048.0, 96.0, 2.0, kernel=kernel, dropout=False, recompute=mode)  # type: ignore[arg-type]
        for mode in ("none", "selective")
    }
    assert kept["none"] == kept["selective"]


def test_op_level_keeps_every_second_matmul() -> None:
    """Of the outputs in their order (q, k, v, o, gate, up, down) each second, the layer's input, attention's output."""
    h, a, k, d, f = 4096.0, 32.0, 8.0, 128.0, 14336.0
    outputs = [a * d, k * d, k * d, h, f, f, h]
    kept = op_level_activations(1.0, h, a, k, d, f, 2.0, 1.0)
    assert kept == pytest.approx(2 * (h + sum(outputs[::2]) + a * d) + 4 * a)


def test_interleaving_holds_more() -> None:
    """p = 8, v = 4: 1.21875 times what 1F1B holds."""
    more = in_flight(8.0, 64.0, 4.0, 0.0, schedule="interleaved") / in_flight(8.0, 64.0, 1.0, 0.0, schedule="1f1b")
    assert more == 1.21875


def test_logits_of_llama_3_8b() -> None:
    assert logit_bytes(8192.0, 128256.0, 4.0) / 1e9 == pytest.approx(4.20, abs=5e-3)
    assert logit_bytes(8192.0, 128256.0, 6.0) / 1e9 == pytest.approx(6.30, abs=5e-3)


def test_ends() -> None:
    """One stage without parallelism keeps 4 s b h (1 + V/h): inputs of last norm and head, fp32 logits; masks s b h."""
    s, h, vocab = 2048.0, 12288.0, 51200.0
    head = head_activations(s, h, 2.0, 1.0) + logit_bytes(s, vocab, 4.0)
    assert head == pytest.approx(4 * s * h * (1 + vocab / h))
    assert mask_bytes(s, h, 2.0, 1.0) == s * h
    assert mask_bytes(s, h, 2.0, 8.0) == s * h / 8


def test_a_mamba_mixer_keeps_nothing_of_its_convolution() -> None:
    """What is saved for backward: zxbcdt, the scan's output, what the norm reads and what the projection out reads."""
    heads, head_dim, groups, state = 128.0, 64.0, 8.0, 128.0
    inner = heads * head_dim
    widths = {"zxbcdt": state_space_width(heads, head_dim, groups, state), "scan": inner, "norm": inner, "out": inner}
    kept = state_space_activations(4096.0, heads, head_dim, groups, state, 2.0)
    assert kept == 2 * 4096 * sum(widths.values())
