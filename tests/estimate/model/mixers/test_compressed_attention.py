"""Work behind what is cached, and what ranks of tensor parallelism share."""

from __future__ import annotations

import pytest

from costmodel.estimate.model.mixers.mixer import CoreSize
from costmodel.estimate.model.mixers.mixer_kinds import COMPRESSED
from estimate.cases import inputs, with_mixer

PICKED = {"rate": 4, "overlap": True, "indexer": {"heads": 8, "head_dim": 32, "top_k": 100}}
OWN = {
    **{"heads": 16, "head_dim": 64, "rope_dim": 32, "query_rank": 512, "window": 128, "entries": PICKED},
    **{"output_groups": 4, "output_rank": 64},
}
MODEL = inputs(with_mixer(compressed=OWN)).model
KIND = MODEL.layers[0].compressed


def test_a_prompt_in_parts_takes_the_work_of_the_whole() -> None:
    assert KIND is not None
    part = COMPRESSED.shard(MODEL, KIND, 1.0)
    whole = COMPRESSED.appended_flop(KIND, part, 3000.0, 0.0)
    assert whole == COMPRESSED.flop(KIND, part, CoreSize(1.0, 3000.0, 16.0), causal=True)
    parts = COMPRESSED.appended_flop(KIND, part, 1000.0, 0.0) + COMPRESSED.appended_flop(KIND, part, 2000.0, 1000.0)
    assert parts == pytest.approx(whole, rel=1e-12)


def test_ranks_share_heads_and_the_narrowing_of_results_and_hold_the_rest_whole() -> None:
    """Of the matrices, so many numbers: an engine's ranks read them all, those of training run a part of the tokens."""
    assert KIND is not None
    one, four = (
        {
            each.name: each.split * each.n * each.k
            for each in COMPRESSED.matrices(1024.0, KIND, COMPRESSED.shard(MODEL, KIND, tp), tp)
        }
        for tp in (1.0, 4.0)
    )
    shared = {"q up", "attention out down", "attention out"}
    assert {name for name in one if four[name] == one[name] / 4} == shared
    assert {name for name in one if four[name] == one[name]} == one.keys() - shared
    held = [COMPRESSED.shard(MODEL, KIND, tp).parameters for tp in (1.0, 4.0)]
    assert held[0] - held[1] == 3 / 4 * (sum(one[name] for name in shared) + (16 if KIND.sinks else 0))
