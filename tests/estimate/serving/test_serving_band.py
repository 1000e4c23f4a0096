"""The chance to keep limits: against draws of errors, and what asking for a chance does to rates and replicas."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.estimate.serving.serving_band import spreads
from estimate.serving.cases import costs, one, predicted

DRAWS = 400_000


def test_the_chance_is_the_share_of_draws_that_keep_every_limit() -> None:
    asked = ("limits.worst_gap.at_most=400 ms", "limits.ttft.at_most=200 ms", "limits.concurrency_steady.at_least=550")
    answer = predicted(*asked)
    found, spread = answer.costs, spreads(answer.inputs)
    errors = np.random.default_rng(38).standard_normal((3, DRAWS))
    token, first, pool = (
        np.exp(one(width) * error)
        for width, error in zip((spread.token, spread.first, spread.pool), errors, strict=True)
    )
    kept = (found["tpot"] * token <= 25e-3) & (found["worst_gap"] * token <= 0.4)
    kept &= found["saturation_per_s"] / token >= 8
    kept &= (found["ttft_p99"] * first <= 1.0) & (found["ttft"] * first <= 0.2)
    kept &= (found["concurrency_steady"] * pool >= 550) & (found["concurrency_worst"] * pool >= 1)
    assert 0.2 < kept.mean() < 0.8
    assert found["limits_chance"] == pytest.approx(kept.mean(), abs=0.005)


@pytest.mark.parametrize("plan", ["plan.tp=8", "plan={prefill: {tp: 4, replicas: 2}, decode: {tp: 8}}"])
def test_at_the_rate_within_limits_the_chance_is_the_one_asked_for(plan: str) -> None:
    loose, safe = costs(plan), costs(plan, "limits.limits_chance.at_least=90 %")
    assert safe["rate_within_slo_per_s"] < loose["rate_within_slo_per_s"]
    there = f"workload.rate={safe['rate_within_slo_per_s']:.9g} /s"
    assert costs(plan, there)["limits_chance"] == pytest.approx(0.9, abs=1e-3)


def test_a_plan_at_risk_is_refused_with_its_own_code() -> None:
    assert predicted("workload.rate=9.2 /s", "limits.limits_chance.at_least=90 %").broken == ("S006",)
    assert predicted("workload.rate=9.2 /s").broken == ()


def test_a_speed_for_each_user_bounds_the_rate_as_its_time_per_token_does() -> None:
    by_time = costs("limits={tpot: {at_most: 20 ms}}")
    by_speed = costs("limits={tokens_per_s_per_user: {at_least: 50 token/s}}")
    assert by_speed["rate_within_slo_per_s"] == pytest.approx(by_time["rate_within_slo_per_s"], rel=1e-9)
    assert by_speed["limits_chance"] == pytest.approx(by_time["limits_chance"], rel=1e-9)


def test_what_waits_for_answers_may_be_off_and_a_stated_rate_may_not() -> None:
    load = "workload={kind: serving, prompt: 2048, output: 512, concurrency: 64, precision: bf16}"
    asked = "limits={requests_per_s: {at_least: 1 /s}}"
    assert costs(asked)["limits_chance"] == pytest.approx(costs("limits={}")["limits_chance"])
    most = costs(load, "limits={}")["requests_per_s"]
    half = f"limits={{requests_per_s: {{at_least: {most:.9g} /s}}}}"
    assert costs(load, half)["limits_chance"] == pytest.approx(0.5, abs=1e-4)
