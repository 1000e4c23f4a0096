"""Work of selected tokens behind those that are cached."""

from __future__ import annotations

import pytest

from costmodel.estimate.model.mixers.mixer import CoreSize
from costmodel.estimate.model.mixers.mixer_kinds import LATENT
from estimate.cases import inputs, with_mixer
from estimate.serving.cases import costs

HEADS, WIDTH, TOP_K = 8.0, 32.0, 100.0
OWN = {
    **{"heads": 16, "nope_dim": 64, "rope_dim": 32, "value_dim": 64, "query_rank": 512, "kv_rank": 128},
    "indexer": {"heads": HEADS, "head_dim": WIDTH, "top_k": TOP_K},
}


MODEL = inputs(with_mixer(latent=OWN)).model
KIND = MODEL.layers[0].latent


def work(tp: float, new: float, cached: float) -> float:
    """Of both together."""
    assert KIND is not None
    return float(sum(LATENT.appended_flop(KIND, LATENT.shard(MODEL, KIND, tp), new, cached)))


def test_without_a_prefix_it_is_the_work_of_the_prompt_and_parts_add_up() -> None:
    assert KIND is not None
    whole = work(1.0, 3000.0, 0.0)
    assert whole == LATENT.flop(KIND, LATENT.shard(MODEL, KIND, 1.0), CoreSize(1.0, 3000.0, 16.0), causal=True)
    assert work(1.0, 1000.0, 0.0) + work(1.0, 2000.0, 1000.0) == pytest.approx(whole, rel=1e-12)


def test_behind_a_long_prefix_the_core_reads_top_k_keys_and_the_indexer_scores_all() -> None:
    """Tokens more of prefix add their scores to each new token, and nothing to the core."""
    assert KIND is not None
    (core, scores), (farther, more) = (
        LATENT.appended_flop(KIND, LATENT.shard(MODEL, KIND, 1.0), 500.0, cached) for cached in (5000.0, 9000.0)
    )
    assert core == farther == pytest.approx(2 * 500 * TOP_K * 16 * (2 * 128 + 32), rel=1e-9)
    assert more - scores == pytest.approx(2 * 500 * 4000.0 * HEADS * (WIDTH + 1), rel=1e-9)


def test_ranks_of_an_engine_share_the_core_alone() -> None:
    assert KIND is not None
    one, four = (LATENT.appended_flop(KIND, LATENT.shard(MODEL, KIND, tp), 500.0, 5000.0) for tp in (1.0, 4.0))
    assert four[0] == pytest.approx(one[0] / 4, rel=1e-9)
    assert four[1] == one[1]


def test_a_prompt_behind_a_cached_prefix_takes_longer() -> None:
    """Of DeepSeek-V3.2: 2,000 tokens alone, and behind 30,000 and 60,000 that are cached."""

    def first(prefix: int) -> float:
        load = f"prompt: {prefix + 2000}, shared_prefix: {prefix}, output: 100, concurrency: 1, precision: fp8-block"
        machine = ("model=deepseek-v3.2", "cluster={node: dgx-h200, nodes: 1}", "plan={tp: 8}", "limits={}")
        return costs(*machine, f"workload={{kind: serving, {load}}}")["ttft"]

    alone, behind, far = first(0), first(30_000), first(60_000)
    assert behind > 1.02 * alone
    assert far - behind == pytest.approx(behind - alone, rel=0.35)
