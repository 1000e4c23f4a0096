"""Times per token of the requests that fare worst, against engines step by step, and their limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from equations.serving.engine_simulation import Engine, serve, serve_loop

from .cases import costs, predicted
from .linear_engine import token_p99_of

ENGINE = Engine(9.92e-3, 60.7e-6, 47.8e-6, 2048.0, 512.0, 8192.0, 0.0)


@pytest.mark.parametrize(("prompt", "output", "budget"), [(256, 400, 8192), (2048, 512, 8192), (8192, 512, 2048)])
@pytest.mark.parametrize("variation", [0.0, 0.8])
def test_one_request_in_a_hundred_of_a_simulated_engine(
    prompt: int, output: int, budget: int, variation: float
) -> None:
    for rate in (2.0, 5.0):
        engine = replace(
            ENGINE,
            prompt=float(prompt),
            output=float(output),
            token_budget=float(budget),
            variation=variation,
            request_rate=rate * 512 / output * 2048 / (prompt + 3 * output),
        )
        assert token_p99_of(engine) == pytest.approx(float(np.quantile(serve(engine, 10_000).tokens, 0.99)), rel=0.2)


@pytest.mark.parametrize("variation", [0.0, 0.8])
def test_requests_in_flight_all_the_time_differ_by_their_lengths_alone(variation: float) -> None:
    load = f"{{kind: serving, prompt: {{mean: 2048, spread: {variation}}}, output: {{mean: 512, spread: {variation}}}"
    found = predicted("plan.replicas=1", "limits={}", f"workload={load}, concurrency: 32, precision: bf16}}")
    point = found.evaluation.point  # type: ignore[union-attr]
    alpha, beta, gamma = (float(np.asarray(each).flat[0]) for each in (point.alpha, point.beta, point.gamma))
    seen = serve_loop(Engine(alpha, beta, gamma, 2048.0, 512.0, 8192.0, 0.0, variation), 32, 4_000)
    assert found.costs["tpot_p99"] == pytest.approx(float(np.quantile(seen.tokens, 0.99)), rel=0.1)


def test_a_limit_on_it_bounds_the_rate() -> None:
    free, held = (costs(f"limits={{tpot: {{at_most: 30 ms}}{more}}}") for more in ("", ", tpot_p99: {at_most: 30 ms}"))
    assert held["rate_within_slo_per_s"] < free["rate_within_slo_per_s"]
    rate = held["rate_within_slo_per_s"]
    assert costs(f"workload.rate={rate} /s")["tpot_p99"] == pytest.approx(30e-3, rel=2e-3)
    assert predicted("limits={tpot_p99: {at_most: 15 ms}}").broken == ("S001",)


def test_instances_apart_vary_by_the_sequences_in_them() -> None:
    plan = "plan={prefill: {tp: 4, replicas: 2}, decode: {tp: 4, replicas: 2}}"
    found = costs(plan)
    assert found["tpot"] < found["tpot_p99"] < 1.5 * found["tpot"]
    together = costs("plan={tp: 4, replicas: 4}")
    assert together["tpot_p99"] / together["tpot"] > found["tpot_p99"] / found["tpot"]
