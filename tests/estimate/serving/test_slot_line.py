"""The line before slots: Pollaczek and Khinchine's before one, none before hundreds, and engines step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from equations.serving.engine_simulation import Engine, serve
from equations.serving.steady import steady

from costmodel.equations.serving.queues import queue_wait

from .cases import predicted
from .linear_engine import state_of

LARGE = Engine(9.92e-3, 60.7e-6, 47.8e-6, 2048.0, 512.0, 8192.0, 0.0)  # Llama 3.1 70B in bf16 on tp 8 of H100
LONG = replace(LARGE, prompt=64_000.0, output=500.0)
SHORT = replace(LARGE, prompt=256.0, output=400.0)
HELD = ("plan.replicas=1", "limits={}", "workload.prompt=256", "workload.output=400")


def loaded(engine: Engine, slots: int, share: float, variation: float = 0.0) -> Engine:
    """The engine with so many slots at so large a share of the rate that they answer at most."""
    work = engine.sequence_time * engine.output + engine.prompt_token_time * engine.prompt
    most = slots / (engine.base_time * engine.output + work * slots)
    return replace(engine, slots=float(slots), request_rate=share * most, variation=variation)


def under(slots: int, rate: float, *others: str) -> dict[str, float]:
    return dict(predicted(*HELD, f"stack.sequences={slots}", f"workload.rate={rate} /s", *others).costs.items())


def test_an_estimate_is_put_together_as_the_simulated_engine_is_compared() -> None:
    for engine in (LARGE, LONG, SHORT):
        for rate in (0.05, 0.1, 0.2):
            for variation in (0.0, 0.8):
                at = replace(engine, request_rate=rate, variation=variation)
                found, expected = state_of(at), steady(at)
                for name in ("ttft", "ttft_p99"):
                    assert float(getattr(found, name)) == pytest.approx(float(getattr(expected, name)), rel=1e-9)
                assert float(found.tpot) <= float(expected.tpot) * (1 + 1e-12)


def test_one_slot_is_one_server() -> None:
    """M/D/1 at three loads; every answer is as long."""
    service = under(1, 1e-4)["latency"]
    for busy in (0.3, 0.6, 0.9):
        waited = under(1, busy / service)["ttft"] - under(4096, busy / service)["ttft"]
        assert waited == pytest.approx(float(queue_wait(service, busy, 0.0)), rel=0.05 / (1 - busy))


@pytest.mark.parametrize("share", [0.6, 0.85])
@pytest.mark.parametrize(("slots", "variation"), [(1, 1.0), (4, 0.0), (16, 0.0), (16, 1.0), (64, 0.0)])
def test_simulated_slots(slots: int, variation: float, share: float) -> None:
    """First tokens and times per token of an engine step by step, with short prompts, which wait for slots alone."""
    engine = loaded(SHORT, slots, share, variation)
    found, seen = state_of(engine), serve(engine, 12_000)
    assert float(found.ttft) == pytest.approx(seen.ttft, rel=0.32)
    assert float(found.ttft_p99) == pytest.approx(seen.ttft_p99, rel=0.45)
    assert float(found.tpot) == pytest.approx(seen.tpot, rel=0.01)


@pytest.mark.parametrize("slots", [2, 8])
def test_few_slots_bound_what_long_prompts_do_to_others(slots: int) -> None:
    for share in (0.3, 0.6, 0.8, 0.93):
        engine = loaded(LONG, slots, share)
        found, seen = state_of(engine), serve(engine, 4_000)
        assert float(found.tpot) == pytest.approx(seen.tpot, rel=0.2)
        assert float(found.in_flight) <= slots
        assert float(found.ttft) == pytest.approx(seen.ttft, rel=0.3)


def test_none_waits_for_a_slot_of_hundreds_half_full() -> None:
    roomy, held = (under(slots, 18.0) for slots in (512, 4096))
    assert roomy["concurrency"] < 256
    for name in ("ttft", "ttft_p99", "latency", "tpot"):
        assert roomy[name] == pytest.approx(held[name], rel=1e-9)


def test_towards_saturation_the_line_has_no_end() -> None:
    most = under(16, 0.1)["saturation_per_s"]
    found = [under(16, share * most) for share in (0.3, 0.6, 0.8, 0.9, 0.97)]
    for name in ("ttft", "ttft_p99", "latency"):
        assert np.all(np.diff([each[name] for each in found]) > 0)
    assert found[-1]["ttft"] > 20 * found[0]["ttft"]
    limited = predicted(*HELD[:1], *HELD[2:], "stack.sequences=16", "limits={ttft_p99: {at_most: 1 s}}").costs
    assert limited["rate_within_slo_per_s"] < 0.9 * most


def test_slots_of_all_replicas_are_one_line() -> None:
    apart, together = (
        under(16, 6.5, "plan.tp=4", "plan.replicas=4", "workload.output=512", f"assume.routing={routing}")["ttft_p99"]
        for routing in ("random", "least-loaded")
    )
    assert together < apart


def test_users_beyond_the_slots_wait_by_littles_law() -> None:
    """1,000 users of 16 slots: a user who neither thinks nor is answered waits in line."""
    load = "workload={kind: serving, prompt: 256, output: 400, users: 1000, think_time: 10 s, precision: bf16}"
    found = predicted("plan.replicas=1", "limits={}", "stack.sequences=16", load).costs
    assert found["requests_per_s"] * (10 + found["latency"]) == pytest.approx(1000, rel=1e-3)
    assert found["ttft"] > 200
    assert found["ttft"] < found["ttft_p99"] < 1000 / found["requests_per_s"] + 1e-9
