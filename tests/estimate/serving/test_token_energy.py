"""Energy of a generated token: power of the nodes over tokens, busy or waiting, with its band and its limit."""

from __future__ import annotations

import math

import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.predict_serving import predict

NAME = "serve-llama-3.1-70b"
RATED = 10.2e3 / 8  # W for each of eight accelerators of a DGX H100
DRAWN = 0.7 * RATED


def costs(*settings: str) -> dict[str, float]:
    return predict(serving(load_any(NAME, list(settings)))).costs


def test_busy_nodes_draw_their_share_of_the_rating() -> None:
    found = costs()
    assert found["energy_per_token"] * found["output_tokens_per_s"] == pytest.approx(16 * DRAWN, rel=1e-6)


def test_nodes_without_requests_draw_what_idle_training_nodes_do() -> None:
    found = costs("workload.rate=1e-6 /s", "plan.replicas=1")
    busy = 1e-6 * found["latency"]
    power = 8 * (busy * DRAWN + (1 - busy) * 0.37 * 0.76 * RATED)
    assert found["energy_per_token"] == pytest.approx(power / (512 * 1e-6), rel=1e-6)


def test_a_replica_without_a_request_waits() -> None:
    loop = ("workload.rate=null", "workload.concurrency=1", "assume.power=500 W")
    one, two = costs(*loop, "plan.replicas=1"), costs(*loop, "plan.replicas=2")
    waiting = 8 * 500 * 0.37 * 0.76 / 0.7
    powers = [found["energy_per_token"] * found["output_tokens_per_s"] for found in (one, two)]
    assert powers[1] == pytest.approx(powers[0] + waiting, rel=1e-3)


def test_a_closed_loop_is_never_idle() -> None:
    found = costs("workload.rate=null", "workload.concurrency=1", "plan.replicas=1", "assume.power=500 W")
    assert found["energy_per_token"] == pytest.approx(8 * 500 / found["output_tokens_per_s"])


def test_a_month_of_energy_for_each_token_is_power_by_time() -> None:
    stated = costs("assume.power=1 kW")
    assert stated["energy_per_token"] * stated["output_tokens_per_s"] * 3600 == pytest.approx(16 * 3.6e6, rel=1e-6)


def test_the_band_is_of_the_power_alone_at_a_rate_and_of_the_tokens_too_in_a_loop() -> None:
    found, closed = costs(), costs("workload.rate=null", "workload.concurrency=64")
    of_power = pytest.approx(math.exp(1.2816 * 0.25), rel=1e-4)
    assert found["energy_per_token_high"] / found["energy_per_token"] == of_power
    assert closed["energy_per_token_high"] / closed["energy_per_token"] > 1.01 * of_power.expected
    known = costs("assume.power=1 kW")
    assert known["energy_per_token_low"] == known["energy_per_token"] == known["energy_per_token_high"]


def test_prefill_and_decode_apart_draw_by_how_busy_each_is() -> None:
    plan = "plan={prefill: {tp: 8, replicas: 2}, decode: {tp: 8}}"
    found = costs("cluster.nodes=3", plan, "workload.rate=1e-6 /s")
    assert found["energy_per_token"] == pytest.approx(24 * 0.37 * 0.76 * RATED / (512 * 1e-6), rel=1e-3)


def test_instances_apart_draw_more_under_load() -> None:
    plan = ("cluster.nodes=2", "plan={prefill: {tp: 8}, decode: {tp: 8}}", "assume.power=1 kW")
    idle = 0.37 * 0.76 / 0.7
    loop = costs(*plan, "workload.rate=null", "workload.concurrency=1")
    busy = 8 * (idle + (1 - idle) * loop["prefill_utilisation"]) + 8 * (idle + (1 - idle) * loop["concurrency"])
    assert loop["energy_per_token"] * loop["output_tokens_per_s"] == pytest.approx(1e3 * busy, rel=1e-6)
    open_loop = costs(*plan, "workload.rate=4 /s")
    assert 16e3 > open_loop["energy_per_token"] * open_loop["output_tokens_per_s"] > 8e3 + 8e3 * idle


def test_a_limit_on_energy_is_kept_by_chance() -> None:
    at_mean = costs(f"limits.energy_per_token.at_most={costs()['energy_per_token']} J")
    assert at_mean["limits_chance"] == pytest.approx(0.5 * costs()["limits_chance"], rel=0.01)


def test_a_node_without_rating_draws_a_multiple_of_its_accelerators() -> None:
    found = costs("cluster.node=a3-highgpu-8g")
    assert found["energy_per_token"] * found["output_tokens_per_s"] == pytest.approx(16 * 700 * 1.38 * 0.7 / 0.76)


def test_without_any_known_power_there_is_no_energy() -> None:
    assert math.isnan(costs("cluster.node=gh200-4")["energy_per_token"])
