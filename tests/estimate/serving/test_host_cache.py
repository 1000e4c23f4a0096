"""Cache on the host: bytes over the link against products done again."""

from __future__ import annotations

import pytest

from costmodel.estimate.serving.cache_breakdown import HostCache, host_cache
from estimate.serving.cases import predicted

H200 = ("model=deepseek-v3", "cluster.node=dgx-h200", "workload.precision=fp8-block", "limits={}")


def kept(*settings: str) -> HostCache:
    found = host_cache(predicted(*settings))
    assert found is not None
    return found


def test_70b_on_8_h100() -> None:
    """40,960 B a token and rank; 55.1 GB/s of a link to the host, 250 GB of whose memory are each rank's."""
    long = kept("workload.prompt=8192", "workload.rate=1 /s", "limits={}")
    assert long.load == pytest.approx(8192 * 40_960 / 55.1e9)
    assert long.tokens == pytest.approx(2e12 / 8 / 40_960, rel=1e-4)
    assert 0.3 < long.recompute < 0.5  # prefill of 8,192 tokens takes 390 ms
    assert long.gain == pytest.approx(long.recompute / long.load)


def test_what_decides_whether_loading_pays() -> None:
    """A narrow cache loads in half the time; stages load their parts side by side, and compute one behind the other."""
    plain, narrow = kept(), kept("workload.cache=fp8")
    assert narrow.load == pytest.approx(plain.load / 2)
    assert narrow.tokens == pytest.approx(2 * plain.tokens, rel=1e-3)
    staged = kept("plan.tp=4", "plan.pp=2", "limits={}")
    assert staged.load == pytest.approx(plain.load)
    assert staged.recompute > plain.recompute
    small = kept("model=llama-2-13b", "plan.tp=1", "workload.context=2560", "limits={}")
    assert small.gain < plain.gain  # 800 KiB a token, and a fifth of the products


def test_latent_caches_of_groups_that_attend_apart_add_up() -> None:
    """Under tp every rank keeps the whole of it; under dp_attention its own requests alone."""
    whole = kept(*H200, "plan={tp: 8, ep: 8}")
    apart = kept(*H200, "plan={dp_attention: 8, ep: 8}")
    assert apart.tokens == pytest.approx(8 * whole.tokens, rel=1e-3)


def test_prompts_are_loaded_where_prefill_is() -> None:
    halves = predicted("plan={prefill: {tp: 4}, decode: {tp: 8}}", "limits={}", "workload.rate=1 /s")
    found = host_cache(halves)
    assert found is not None
    assert found.load == pytest.approx(2048 * 2 * 40_960 / 55.1e9)


def test_drives_and_a_store_load_at_their_own_rates() -> None:
    """40,960 B a token: an eighth of 50 GB/s of drives, 72 % of an interface of 50 GB/s, or the rate that is stated."""
    turns = ("workload.turns=5", "workload.users=200", "workload.rate=null", "workload.think_time=90 s")
    each = (*turns, "stack.host_cache.size=90 GB")
    memory, drives, store, slow = (
        kept(*each, *more)
        for more in ((), ("stack.host_cache.on=drives",), ("stack.host_cache.on=store",),
                     ("stack.host_cache.on=store", "stack.host_cache.rate=1 GB/s"))
    )  # fmt: skip
    nbytes = memory.prompt * 40_960
    assert [found.load / (nbytes / 1e9) for found in (drives, slow)] == pytest.approx([8 / 50, 1])
    assert store.load == pytest.approx(nbytes / (50e9 * 0.72), rel=0.05)
    for found in (drives, store, slow):
        assert found.tokens == memory.tokens  # as large, wherever it is
        assert found.recompute == memory.recompute
        assert found.gain == pytest.approx(found.recompute / found.load)


def test_a_slow_store_hits_as_often_and_delays_first_tokens() -> None:
    turns = ("workload.turns=5", "workload.users=300", "workload.rate=null", "workload.think_time=300 s", "limits={}")
    store = (*turns, "stack.memory.share=0.5", "stack.host_cache.size=90 GB", "stack.host_cache.on=store")
    fast, slow = (predicted(*store, f"stack.host_cache.rate={rate}").costs for rate in ("40 GB/s", "2 GB/s"))
    assert slow["host_hit"] == pytest.approx(fast["host_hit"], rel=0.02)
    assert slow["host_load_gain"] == pytest.approx(fast["host_load_gain"] / 20, rel=0.05)
    assert slow["host_load_exposed"] > 10 * fast["host_load_exposed"]
    assert slow["ttft"] > fast["ttft"]
