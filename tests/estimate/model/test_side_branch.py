"""Gemma 3n: alternating streams at both ends, in a layer, and in what a layer hands on; a branch beside attention."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from costmodel.equations.memory.activations import head_activations, logit_bytes
from costmodel.estimate.model.shards import layer_matmuls, shard, stream_additions, stream_traffic
from costmodel.estimate.shared.plan_batch import Structure, one_row
from costmodel.estimate.training.flop_count import forward_flop
from costmodel.estimate.training.memory_breakdown import loss_bytes
from costmodel.estimate.training.saved_activations import layer_activations
from estimate import cases

HIDDEN, TOKENS, STREAMS, RANK, VOCAB = 2048, 2048, 4, 64, 262400


def plan(recompute: Any) -> Any:
    return one_row(Structure(recompute=recompute), dp=8, tp=1, pp=1, vpp=1, micro_batch=1)


def test_the_head_works_on_matrices_of_all_streams_but_one_at_both_ends() -> None:
    inputs = cases.inputs("gemma-3n-e4b", sequence=TOKENS, global_batch=8)
    _, _, head = forward_flop(inputs, causal=True)
    assert head == 2 * 8 * TOKENS * HIDDEN * (VOCAB + 2 * (STREAMS - 1) * HIDDEN)


def test_a_layer_multiplies_a_router_twice_and_the_branch() -> None:
    model = cases.inputs("gemma-3n-e4b", sequence=TOKENS, global_batch=8).model
    rows = [(row.name, row.n, row.k) for row in layer_matmuls(model, shard(model, model.layers[0], 1.0))]
    mixing = [row[1:] for row in rows if row[0] == "stream mixing"]
    assert mixing == [(2 * STREAMS, HIDDEN), (STREAMS**2 + STREAMS, STREAMS)]
    assert [row[1:] for row in rows if row[0].startswith("side")] == [(RANK, HIDDEN), (HIDDEN, RANK)]


def test_a_layer_that_runs_again_keeps_all_streams() -> None:
    inputs = cases.inputs("gemma-3n-e4b", sequence=TOKENS, global_batch=8)
    part = shard(inputs.model, inputs.model.layers[0], 1.0)
    assert cases.one(layer_activations(inputs, plan("full"), part)) == 2 * STREAMS * HIDDEN * TOKENS


def test_the_ends_keep_inputs_and_results_of_their_matrices() -> None:
    """The embedding and three results, four streams behind the last layer, and three results of them."""
    inputs = cases.inputs("gemma-3n-e4b", sequence=TOKENS, global_batch=8)
    rows = logit_bytes(TOKENS, VOCAB, inputs.stack.buckets.loss) + head_activations(TOKENS, HIDDEN, 2.0, 1.0)
    streams = 2 * TOKENS * HIDDEN * (1 + 3 + 4 + 3)
    assert cases.one(loss_bytes(inputs, plan("none"))) == rows + streams


def test_streams_alternate_beside_additions_and_in_any_number_of_halves() -> None:
    model = cases.inputs("gemma-3n-e4b", sequence=TOKENS, global_batch=8).model
    assert stream_additions(model, 2.0) == 2.0
    moved = [stream_traffic(model, halves, 1.0, 2.0, backward=False) for halves in (1.0, 2.0)]
    assert moved == [2 * HIDDEN * (6 * STREAMS + 6)] * 2


def test_one_stream_does_not_alternate() -> None:
    with pytest.raises(ValidationError, match="alternating streams are two or more"):
        cases.inputs({**cases.model(layers=1), "stream_rule": "alternating"}, sequence=64)
