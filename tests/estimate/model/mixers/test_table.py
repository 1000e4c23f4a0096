"""Hymba: attention and a scan that end in one matrix, values wider than keys, and learned tokens ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel.equations.memory.activations import head_activations, logit_bytes
from costmodel.estimate.model.mixers.mixer import CacheWidth
from costmodel.estimate.model.mixers.mixing_half import mixer_activations, mixer_cache, mixer_matmuls, mixer_shard
from costmodel.estimate.model.shards import shard
from costmodel.estimate.shared.plan_batch import Structure, one_row
from costmodel.estimate.training.flop_count import forward_flop
from costmodel.estimate.training.layer_kernels import attention_pass
from costmodel.estimate.training.memory_breakdown import loss_bytes
from costmodel.estimate.training.stage_parameters import local_tokens
from costmodel.ground.errors import CostModelError
from estimate import cases
from estimate.serving.cases import predicted

HIDDEN, INNER, FFN, KEYS, VALUES, HEADS, KV, RANK, STATE = 1600, 3200, 5504, 64, 128, 25, 5, 100, 16
TOKENS, AHEAD, WINDOW, VOCAB = 2048, 128, 1152, 32001
BLOCK = one_row(Structure(recompute="none"), dp=8, tp=1, pp=1, vpp=1, micro_batch=1)


def test_the_matrices_of_the_layers_are_those_of_the_code() -> None:
    """Into both mixers from the stream, steps of the scan, one matrix back; 15 layers project no keys and values."""
    inputs = cases.inputs("hymba-1.5b", sequence=TOKENS, global_batch=8)
    linear, core, head = forward_flop(inputs, causal=True)
    into = HIDDEN * (2 * INNER + HEADS * KEYS)
    steps, back, mlp = INNER * (RANK + 2 * STATE) + RANK * INNER, INNER * HIDDEN, 3 * HIDDEN * FFN
    own = 17 * HIDDEN * KV * (KEYS + VALUES)
    passed = 8 * (TOKENS + AHEAD)
    assert linear == 2 * passed * (32 * (into + steps + back + mlp) + own)
    assert head == 2 * 8 * TOKENS * VOCAB * HIDDEN
    length = TOKENS + AHEAD
    seen = length * (length + 1) / 2, length * WINDOW - WINDOW * (WINDOW - 1) / 2
    scores = 2 * HEADS * (KEYS + VALUES) * 8 * (3 * seen[0] + 29 * seen[1])
    scan = float(core) - scores
    assert 0 < scan < 0.1 * scores
    assert scan / (32 * passed * INNER) == pytest.approx(scan_of_a_channel(), rel=1e-12)


def scan_of_a_channel() -> float:
    """Work a token and channel of the scan alone, from a model that has no attention beside it."""
    alone = {"count": 1, "norms": 1, "selective_scan": {"inner": INNER, "state": STATE, "rank": RANK, "conv": 4}}
    inputs = cases.inputs({**cases.model(layers=1, hidden=HIDDEN), "layers": [alone]}, sequence=64, global_batch=8)
    return float(forward_flop(inputs, causal=True)[1]) / (8 * 64 * INNER)


def layer(**changes: Any) -> dict[str, Any]:
    attention = {"heads": HEADS, "kv_heads": KV, "head_dim": KEYS, "value_dim": VALUES}
    scan = {"inner": INNER, "state": STATE, "rank": RANK, "conv": 4, "norms": True}
    half = {"attention": attention, "selective_scan": scan, "mlp": {"ffn_hidden": FFN, "gated": True}}
    return {"count": 1, **half, "shared_output": True, **changes}


def one(**changes: Any) -> Any:
    return cases.inputs({**cases.model(layers=1, hidden=HIDDEN), "layers": [layer(**changes)]}, sequence=TOKENS)


def test_one_output_keeps_its_input_more_and_has_a_matrix_less() -> None:
    apart, joined = one(shared_output=False).model, one().model
    parts = [(made.layers[0], mixer_shard(made, made.layers[0], 1.0)) for made in (apart, joined)]
    kept = [mixer_activations(kind, part, 1.0, 2.0, 1.0) for kind, part in parts if part is not None]
    assert kept[1] - kept[0] == 2 * INNER
    names = [[row.name for row in mixer_matmuls(HIDDEN, kind, part, 1.0)] for kind, part in parts if part is not None]
    assert set(names[0]) - set(names[1]) == {"attention out"}


def test_wide_values_count_in_matrices_and_cache() -> None:
    made = one()
    kind, part = made.model.layers[0], shard(made.model, made.model.layers[0], 5.0).mixer
    assert part is not None
    qkv = next(row for row in mixer_matmuls(HIDDEN, kind, part, 5.0) if row.name == "qkv")
    assert qkv.n == 5 * KEYS + KEYS + VALUES
    scan = INNER / 5 * (STATE * 4 + 3 * 2)
    assert mixer_cache(kind, 5.0, 100.0, CacheWidth(2.0, 4.0, 2.0)) == 100 * 2 * (KEYS + VALUES) + scan


def test_the_core_takes_as_long_as_attention_and_scan_apart() -> None:
    both, scores, scan = one(), one(selective_scan=None, shared_output=False), one(attention=None, shared_output=False)
    taken = [attention_pass(made, shard(made.model, made.model.layers[0], 1.0), BLOCK) for made in (both, scores, scan)]
    seconds = [np.asarray([each.forward.attention, each.backward.attention], float).ravel() for each in taken]
    assert seconds[0] == pytest.approx(seconds[1] + seconds[2])


def test_learned_tokens_pass_all_layers_and_no_head() -> None:
    inputs = cases.inputs({**cases.model(layers=1, hidden=HIDDEN), "meta_tokens": AHEAD}, sequence=TOKENS)
    assert cases.one(local_tokens(inputs, BLOCK)) == TOKENS + AHEAD
    rows = logit_bytes(TOKENS, inputs.model.vocab, inputs.stack.buckets.loss)
    assert cases.one(loss_bytes(inputs, BLOCK)) == rows + head_activations(TOKENS, HIDDEN, 2.0, 1.0)


def test_no_engine_serves_learned_tokens() -> None:
    with pytest.raises(CostModelError, match="learned tokens ahead of every sequence") as raised:
        predicted("model=hymba-1.5b", "workload.prompt=100 tokens", "workload.output=10 tokens")
    assert raised.value.faults[0].code == "D016"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"selective_scan": None}, "shared_output is of attention beside selective_scan"),
        ({"selective_scan": {"inner": 1600, "state": 16, "rank": 100, "conv": 4}}, "results of one width"),
        ({"attention": {"heads": 25, "kv_heads": 5, "head_dim": 64, "value_dim": 128, "keys_as_values": True}}, "made"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Exception, match=sentence):
        one(**changes)
