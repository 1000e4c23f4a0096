"""Requests in time: against engines simulated request by request, and apart from the chance to meet the limits."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from equations.serving.engine_simulation import Engine, serve
from equations.serving.steady import steady
from equations.serving.test_steady_state import CASES, ENGINE, OTHERS

from costmodel.estimate.serving.predict_serving import predict
from costmodel.estimate.serving.service_limits import RATE, SHARE, RequestLimits, in_time, request_limits
from costmodel.estimate.serving.serving_inputs import inputs_of as inputs_from
from costmodel.estimate.shared.results import Limit
from costmodel.explore.serving.search_layouts import search
from costmodel.ground.errors import CostModelError
from estimate.serving.cases import case, costs
from estimate.serving.linear_engine import point_of, state_of, token_p99_of

APART = ("cluster.nodes=3", "plan={prefill: {tp: 8, replicas: 2}, decode: {tp: 8}}")
LOOP = "workload={kind: serving, prompt: 2048, output: 512, concurrency: 64}"
USERS = "workload={kind: serving, prompt: 2048, output: 512, users: 300, think_time: 30 s}"


def times_of(engine: Engine) -> dict[str, float]:
    """Its times as an estimate has them."""
    state, point = state_of(engine), point_of(engine)
    far = token_p99_of(engine)
    tpot = float(state.tpot)
    return {
        "ttft": float(state.ttft),
        "ttft_p99": float(state.ttft_p99),
        "tpot": tpot,
        "tpot_p99": far,
        "prompts_between": max(tpot - float(point.decode), 0.0),
        "requests_per_s": engine.request_rate,
    }


def engines() -> list[tuple[Engine, int]]:
    """22 loads of the 70B up to eight tenths, and others at half of their saturation, of equal and unlike lengths."""
    found = [
        (replace(ENGINE, request_rate=rate, token_budget=budget, variation=spread), max(6000, int(3000 * rate)))
        for rate, budget, spread in CASES
    ]
    for constants in OTHERS.values():
        for budget in (512.0, 8192.0):
            engine = Engine(*constants, budget, 1.0, 0.6)
            found.append((replace(engine, request_rate=0.5 * float(steady(engine).saturation)), 8000))
    return found


def test_shares_of_simulated_requests() -> None:
    """Limits that 50 to 99 % of simulated requests keep: both times are 1.2 % off in the median, together 1.7 %."""
    off: dict[str, list[float]] = {"first": [], "token": [], "both": []}
    for engine, count in engines():
        seen, times = serve(engine, count), times_of(engine)
        for share in (0.5, 0.8, 0.9, 0.95, 0.99):
            first, token = (float(np.quantile(column, share)) for column in (seen.first_tokens, seen.tokens))
            for name, limits, kept in (
                ("first", RequestLimits(first), seen.first_tokens <= first),
                ("token", RequestLimits(None, token), seen.tokens <= token),
                ("both", RequestLimits(first, token), (seen.first_tokens <= first) & (seen.tokens <= token)),
            ):
                found = in_time(limits, times.__getitem__)
                assert float(found[RATE]) == pytest.approx(engine.request_rate * float(found[SHARE]))
                off[name].append(abs(float(found[SHARE]) - float(kept.mean())))
    for name, median, ninetieth, worst in (("first", 0.013, 0.065, 0.31), ("token", 0.012, 0.06, 0.10)):
        errors = np.array(off[name])
        assert np.median(errors) < median
        assert np.quantile(errors, 0.9) < ninetieth
        assert errors.max() < worst  # of first tokens, where all prompts are alike
    both = np.array(off["both"])
    assert (np.median(both) < 0.018, np.quantile(both, 0.9) < 0.075, both.max() < 0.275) == (True, True, True)


def test_the_strictest_limit_is_that_of_a_request() -> None:
    limits = [
        Limit("ttft", "ttft", "at_most", 0.5),
        Limit("ttft_p99", "ttft_p99", "at_most", 1.0),
        Limit("tpot", "tpot", "at_most", 0.03),
        Limit("tokens_per_s_per_user", "tokens_per_s_per_user", "at_least", 40.0),
        Limit("worst_gap", "worst_gap", "at_most", 0.001),
    ]
    found = request_limits(limits)
    assert found == RequestLimits(0.5, 0.025)
    assert request_limits(limits[-1:]) == RequestLimits()
    assert not request_limits([]).any


def test_a_limit_at_the_p99_is_kept_by_99_of_100() -> None:
    p99 = costs()["ttft_p99"]
    found = costs(f"limits={{ttft_p99: {{at_most: {p99} s}}}}")
    assert found["in_time_share"] == pytest.approx(0.99, abs=1e-6)
    assert found["in_time_per_s"] == pytest.approx(0.99 * 8, abs=1e-5)


def test_it_is_no_chance_to_meet_the_limits() -> None:
    """The mean is just within its limit: by half a chance. Of requests, most are: prompts make few of them late."""
    mean = costs()["tpot"]
    found = costs(f"limits={{tpot: {{at_most: {mean} s}}}}")
    assert found["limits_chance"] == pytest.approx(0.5, abs=0.01)
    assert 0.5 < found["in_time_share"] < 0.7
    certain = costs(f"limits={{tpot: {{at_most: {mean} s}}}}", "workload.rate=0.001 /s")
    assert certain["in_time_share"] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("plan", [(), APART], ids=["together", "apart"])
@pytest.mark.parametrize("load", [(), (LOOP,), (USERS,)], ids=["rate", "loop", "users"])
def test_ends_of_bands_hold_the_share(plan: tuple[str, ...], load: tuple[str, ...]) -> None:
    found = costs(*plan, *load)
    low, middle, high = (found[f"in_time_share{end}"] for end in ("_low", "", "_high"))
    assert 0 <= low <= middle <= high <= 1
    assert found["in_time_per_s"] == pytest.approx(found["requests_per_s"] * middle)


@pytest.mark.parametrize("load", [(), (LOOP,), (USERS,)], ids=["rate", "loop", "users"])
@pytest.mark.parametrize("plan", [(), APART], ids=["together", "apart"])
def test_a_least_share_is_kept_by_an_even_chance_where_it_is_predicted(
    plan: tuple[str, ...], load: tuple[str, ...]
) -> None:
    first = "ttft: {at_most: 200 ms}"
    found = costs(*plan, *load, f"limits={{{first}}}")
    share, rate = found["in_time_share"], found["in_time_per_s"]
    for limit in (f"in_time_share: {{at_least: {share}}}", f"in_time_per_s: {{at_least: {rate} /s}}"):
        even = costs(*plan, *load, f"limits={{{first}, {limit}}}")
        assert even["limits_chance"] == pytest.approx(0.5, abs=0.02)


def test_a_least_share_bounds_the_rate() -> None:
    limits = "limits={ttft: {at_most: 300 ms}, in_time_share: {at_least: 95 %}}"
    rate = costs(limits)["rate_within_slo_per_s"]
    assert costs(limits, f"workload.rate={rate} /s")["in_time_share"] == pytest.approx(0.95, abs=1e-4)
    apart = costs(limits, *APART)["rate_within_slo_per_s"]
    assert costs(limits, *APART, f"workload.rate={apart} /s")["in_time_share"] == pytest.approx(0.95, abs=1e-4)


def test_none_is_in_time_where_more_arrives_than_is_answered() -> None:
    found = costs("workload.rate=20 /s", "limits={ttft: {at_most: 100 s}}")
    assert (found["in_time_share"], found["in_time_per_s"]) == (0, 0)


def test_without_limits_on_times_nothing_is_stated(run: Any) -> None:
    found = costs("limits={}")
    assert math.isnan(found["in_time_share"])
    assert "goodput" not in run("estimate", "serve-llama-3.1-70b", "--set", "limits={}").out
    assert math.isnan(predict(case(), bands=False).costs["in_time_share"])  # of plans that no one is shown


def test_answers_name_both(run: Any) -> None:
    name = "serve-llama-3.1-70b"
    estimate = " ".join(run("estimate", name).out.split())
    assert "SLO met 93.9 % goodput 7.51 /s" in estimate
    assert "chance 80.2 %" in estimate
    assert " SLO met " in run("search", name, "--top", "1").out
    assert "limits_chance is something else" in " ".join(run("explain", "in_time_share").out.split())
    assert "(ttft in time)" in run("explain", name, "in_time_share").out
    solved = run("solve", name, "--over", "workload.rate", "--for", "in_time_share>=95 %", "--safe", "off").out
    assert "workload.rate ≤ 7.885 /s (now 8 /s)" in " ".join(solved.split())
    chance = run("solve", name, "--over", "workload.rate", "--for", "limits_chance>=90 %").out
    assert "workload.rate ≤ 7.336 /s" in chance


@pytest.mark.parametrize(("least", "sampled"), [(0.01, 0.79), (0.5, 0.79), (0.8, 0.67), (0.9, 0.56), (0.99, 0.26)])
def test_the_chance_with_a_least_share_is_that_of_sampled_errors(least: float, sampled: float) -> None:
    """Sampled: results at factors on all steps, with first tokens off by a further factor, as their spreads state."""
    found = predict(case(f"limits.in_time_share.at_least={least}")).costs["limits_chance"]
    assert found == pytest.approx(sampled, abs=0.02)


def test_a_share_that_is_certain_leaves_the_chance_as_it_is() -> None:
    more = ((), ("limits.in_time_share.at_least=10 %",))
    without, beside = (predict(case(LOOP, *asked)).costs["limits_chance"] for asked in more)
    assert beside == pytest.approx(without, abs=1e-5)


def test_the_chance_of_a_plan_is_the_same_beside_others() -> None:
    asked = ("limits={ttft: {at_most: 1 s}, in_time_per_s: {at_least: 4 /s}}", "stack=trt-llm", "workload.rate=12 /s")
    lengths, sizes = "workload.prompt={mean: 2048, spread: 30 %}", {"tp": [4, 8], "budget": [4096, 8192]}
    found = search(inputs_from(case(*asked, lengths, f"search={sizes}")), 8)
    assert len(found.best) == 8
    for plan in found.best:
        settings = [f"plan.{name}={plan.sizes[name]:.0f}" for name in ("tp", "pp", "replicas")]
        own = costs(*asked, lengths, *settings, f"stack.budget={plan.sizes['budget']:.0f}")
        assert plan.costs["limits_chance"] == pytest.approx(own["limits_chance"], abs=1e-4)


@pytest.mark.parametrize("limit", ["in_time_share: {at_least: 90 %}", "in_time_per_s: {at_least: 4}"])
def test_a_share_of_requests_in_time_needs_a_limit_on_their_times(limit: str) -> None:
    """Without one no request is late, and estimate ended in an internal error."""
    with pytest.raises(CostModelError, match="counts requests within limits on their times, and none is stated"):
        costs(f"limits={{{limit}}}")
    assert costs(f"limits={{{limit}, ttft: {{at_most: 1 s}}}}")["in_time_share"] > 0.9
