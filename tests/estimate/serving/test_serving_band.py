"""The chance to keep limits: against draws of errors, and what asking for a chance does to rates and replicas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from costmodel.documents.schemas.results import SERVING_RESULTS, banded_results
from costmodel.equations.run.uncertainty import TENTH
from costmodel.estimate.serving.measured_spreads import spreads
from costmodel.estimate.serving.predict_serving import evaluated, halves_of, layout_of, predict
from costmodel.estimate.serving.service_limits import IN_TIME, OWN
from costmodel.estimate.serving.serving_error_band import is_of_bands
from estimate.serving.cases import Figures, case, costs, one, predicted

DRAWS = 400_000


def _slower(factor: float, *asked: str) -> Figures:
    """Results where every step takes so many times as long: by a clock as much faster, more requests arrive."""
    return costs(f"workload.rate={8 * factor:.9g} /s", *asked)


def test_the_chance_is_the_share_of_draws_that_keep_every_limit() -> None:
    asked = (
        "limits.worst_gap.at_most=400 ms",
        "limits.ttft.at_most=200 ms",
        "limits.ttft_p99.at_most=650 ms",
        "limits.tpot.at_most=24 ms",
        "limits.concurrency_steady.at_least=560",
    )
    answer = predicted(*asked)
    found, spread = answer.costs, spreads(answer.inputs)
    errors = np.random.default_rng(38).standard_normal((3, DRAWS))
    widths = (spread.token, (spread.first**2 - spread.token**2) ** 0.5, spread.pool)
    steps, first, pool = (np.exp(one(width) * error) for width, error in zip(widths, errors, strict=True))
    known = np.exp(one(spread.token) * np.linspace(-4.5, 4.5, 13))
    there = [_slower(float(factor)) for factor in known]
    times = {
        name: np.exp(np.interp(np.log(steps), np.log(known), [np.log(each[name]) for each in there])) * steps
        for name in ("tpot", "worst_gap", "ttft", "ttft_p99")
    }
    kept = (times["tpot"] <= 24e-3) & (times["worst_gap"] <= 0.4) & (found["saturation_per_s"] / steps >= 8)
    kept &= (times["ttft_p99"] * first <= 0.65) & (times["ttft"] * first <= 0.2)
    kept &= (found["concurrency_steady"] * pool >= 560) & (found["concurrency_worst"] * pool >= 1)
    assert 0.2 < kept.mean() < 0.8
    assert found["limits_chance"] == pytest.approx(kept.mean(), abs=0.01)


def test_a_band_is_what_slower_and_faster_steps_make_of_a_load() -> None:
    found, spread = costs(), one(spreads(predicted().inputs).token)
    factor, busy = float(np.exp(TENTH * spread)), one(predicted().evaluation.state.utilisation)
    grown = factor * (1 - busy) / (1 - factor * busy)  # of α / (1 − ρ)
    assert found["tpot_high"] / found["tpot"] == pytest.approx(grown, rel=0.03)
    assert found["tpot_high"] == pytest.approx(_slower(factor)["tpot"] * factor, rel=1e-6)
    assert found["saturation_per_s_low"] == pytest.approx(found["saturation_per_s"] / factor)
    assert found["requests_per_s_low"] == found["requests_per_s_high"] == 8
    at_end = costs(f"limits={{tpot: {{at_most: {found['tpot_high'] * 1e3:.9g} ms}}}}")
    assert at_end["limits_chance"] == pytest.approx(0.9, abs=2e-3)


SERVICE = "kind: serving, prompt: 2048, output: 512, precision: bf16"
CONVERSATION = "turns: 6, think_time: {think} s, prompt: 336, output: 300, precision: bf16"


@pytest.mark.parametrize(
    "asked",
    [
        ("workload.rate={rate} /s",),
        ("workload.rate={rate} /s", "plan={{tp: 4, pp: 2}}", "assume.routing=least-loaded"),
        ("workload.rate={rate} /s", "model=deepseek-v3", "plan={{tp: 1, dp_attention: 16, ep: 16}}",
         "cluster.node=dgx-h200"),
        ("workload={{" + SERVICE + ", users: 80, think_time: {think} s}}",),
        ("workload={{" + SERVICE + ", concurrency: 64}}",),
        ("workload={{" + SERVICE + ", concurrency: 64, traffic: burst}}",),
        ("workload={{" + SERVICE + ", requests: 1000}}",),
        ("workload.rate={rate} /s", "stack={{like: trt-llm, chunked: false}}",
         "workload.prompt={{mean: 2000, spread: 30 %}}"),
        ("workload.rate={rate} /s", "plan={{prefill: {{tp: 4, replicas: 2}}, decode: {{tp: 8}}}}"),
        ("workload.rate={rate} /s", "plan.speculation={{tokens: 4, chance: 80 %, draft: eagle}}"),
        ("workload={{kind: serving, rate: {rate} /s, " + CONVERSATION + "}}", "assume.routing=cache-aware",
         "stack.host_cache.size=200 GiB"),
    ],
)  # fmt: skip
def test_a_factor_on_all_times_is_another_clock(asked: tuple[str, ...]) -> None:
    """Where all takes 1.3 times as long, a load is one of 1.3 times the requests by a clock that runs as fast."""
    factor, free = 1.3, "limits={}"
    plain, faster = ([each.format(rate=4 * by, think=120 / by) for each in asked] for by in (1.0, factor))
    answer, expected = (predict(case(*settings, free), bands=False) for settings in (plain, faster))
    columns = halves_of(answer.inputs, answer.plan) or layout_of(answer.inputs, answer.plan)[:1]
    slow = [replace(each, time_factor=np.array([factor])) for each in columns]
    found = evaluated(answer.inputs, *slow).results.row()
    powers = {"s": 1, "J": 1, "USD": 1, "1/s": -1}
    fixed = {"rent_per_month", "rent_needed", "bandwidth_bound", "start_time"}  # of a month, or of no step
    seen = {name: value / found[name] for name, value in expected.costs.items() if np.isfinite(value) and found[name]}
    moved = {name: factor ** -powers.get(SERVING_RESULTS[name].unit, 0) for name in seen if name not in fixed}
    assert {"tpot", "ttft", "ttft_p99"} <= moved.keys()
    assert {name: seen[name] for name in moved} == pytest.approx(moved, rel=1e-6)
    assert found["tpot"] > answer.costs["tpot"]


def test_a_first_token_has_no_end_where_slower_steps_do_not_answer_the_load() -> None:
    found = costs("workload.rate=14 /s", "limits={}")
    assert found["saturation_per_s_low"] < 14 < found["saturation_per_s"]
    assert np.isinf([found[f"{name}_high"] for name in ("ttft", "ttft_p99", "latency")]).all()
    assert found["tpot_high"] / found["tpot"] > found["tpot"] / found["tpot_low"] / 2 > 1
    assert found["requests_per_s_low"] == pytest.approx(found["saturation_per_s_low"])
    beyond = costs("workload.rate=15 /s", "limits={}")
    assert beyond["saturation_per_s"] < 15 < beyond["saturation_per_s_high"]
    for name in ("ttft", "ttft_p99", "latency"):
        assert beyond[f"{name}_low"] < beyond[name] == beyond[f"{name}_high"] == np.inf


def test_a_limit_on_the_share_of_saturation_is_as_sure_as_its_band() -> None:
    found = costs("limits={}")
    for end, chance in (("low", 0.1), ("high", 0.9)):
        limit = f"limits={{saturation_share: {{at_most: {found[f'saturation_share_{end}']:.12g}}}}}"
        assert costs(limit)["limits_chance"] == pytest.approx(chance, abs=2e-3)
    loop = "workload={kind: serving, prompt: 2048, output: 512, concurrency: 64, precision: bf16}"
    share = costs(loop, "limits={}")["saturation_share"]
    for factor, chance in ((0.999, 0.0), (1.001, 1.0)):
        limit = f"limits={{saturation_share: {{at_most: {factor * share:.12g}}}}}"
        assert costs(loop, limit)["limits_chance"] == pytest.approx(chance, abs=1e-6)


def test_at_a_number_of_users_bands_are_those_of_the_runs_that_they_were_fitted_on() -> None:
    load = "workload={kind: serving, prompt: 2048, output: 512, concurrency: 64, precision: bf16}"
    found, spread = costs(load), spreads(predicted(load).inputs)
    for name, width in (("tpot", spread.token), ("ttft", spread.first), ("ttft_p99", spread.first)):
        assert found[f"{name}_high"] / found[name] == pytest.approx(np.exp(TENTH * one(width)))


@pytest.mark.parametrize("requests", [100, 5000, 20_000])
def test_no_first_token_of_a_batch_comes_after_its_end(requests: int) -> None:
    found = costs(f"workload={{kind: serving, prompt: 500, output: 300, requests: {requests}, precision: bf16}}")
    for end in ("_low", "", "_high"):
        assert found[f"ttft{end}"] <= found[f"ttft_p99{end}"] <= found[f"makespan{end}"] * (1 + 1e-12)


@pytest.mark.parametrize(
    "asked",
    [
        "plan.tp=8",
        "workload={kind: serving, prompt: 2048, output: 512, concurrency: 64, precision: bf16}",
        "workload={kind: serving, prompt: 2048, output: 512, users: 80, think_time: 20 s, precision: bf16}",
        "workload={kind: serving, prompt: 500, output: 50, requests: 1000, precision: bf16}",
        "plan={prefill: {tp: 4, replicas: 2}, decode: {tp: 8}}",
    ],
)
def test_bands_change_no_other_figure(asked: str) -> None:
    plain, whole = (predict(case(asked), bands=bands).costs for bands in (False, True))
    plain = {name: value for name, value in plain.items() if not is_of_bands(name)}
    ends = {
        f"{name}_{end}"
        for name in (*banded_results(SERVING_RESULTS), *banded_results(SERVING_RESULTS, "term"))
        for end in ("low", "high")
    }
    assert whole.keys() - plain.keys() == {OWN, *IN_TIME, *ends}
    np.testing.assert_equal({name: whole[name] for name in plain}, plain)


def test_every_figure_in_time_has_a_band() -> None:
    parts = {"host_load_exposed", "host_residency"}
    fixed = {"rent_per_month", "bandwidth_bound", "start_time"}  # of price, machine and start, whatever steps take
    timed = {name for name, column in SERVING_RESULTS.items() if column.unit in ("s", "1/s", "USD", "J")}
    assert timed - parts - fixed <= {*banded_results(SERVING_RESULTS), *banded_results(SERVING_RESULTS, "term")}


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


def test_a_figure_that_is_not_off_keeps_its_limit_for_sure_or_never() -> None:
    exact = ("gpus: {at_most: 16}", "rent_per_month: {at_most: 29200 USD}", "requests_per_s: {at_least: 8 /s}")
    asked = f"limits={{tpot: {{at_most: 25 ms}}, {', '.join(exact)}}}"
    assert costs(asked)["limits_chance"] == costs("limits={tpot: {at_most: 25 ms}}")["limits_chance"] > 0.5
    assert costs(f"{asked[:-1]}, nodes: {{at_most: 1}}}}")["limits_chance"] == 0


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [
        ("tokens_per_s_per_user", "43 token/s", "53 token/s"),
        ("cache_pool", "51.6 GiB", "52.4 GiB"),
        ("energy_per_token", "3 J", "4 J"),
    ],
)
def test_two_bounds_on_one_figure_are_kept_by_what_lies_between_them(column: str, low: str, high: str) -> None:
    free = costs("limits={}")["limits_chance"]
    both, least, most = (
        costs(f"limits={{{column}: {{{bounds}}}}}")["limits_chance"]
        for bounds in (f"at_least: {low}, at_most: {high}", f"at_least: {low}", f"at_most: {high}")
    )
    assert 0.01 < both < 0.99 * min(least, most)
    assert both == pytest.approx(least + most - free, abs=1e-6)


def test_a_limit_at_the_end_of_the_band_of_energy_is_kept_by_nine_in_ten() -> None:
    load = ("workload={kind: serving, prompt: 2048, output: 512, concurrency: 32, precision: bf16}",)
    end = costs(*load, "limits={}")["energy_per_token_high"]
    at_end = costs(*load, f"limits={{energy_per_token: {{at_most: {end:.9g} J}}}}")
    assert at_end["limits_chance"] == pytest.approx(0.9, abs=1e-3)


def test_a_band_of_the_rate_at_a_chance_holds_that_chance_at_both_ends() -> None:
    safe = costs("limits.limits_chance.at_least=90 %")
    low, middle, high = (safe[f"rate_within_slo_per_s{end}"] for end in ("_low", "", "_high"))
    assert low < middle < high < costs()["rate_within_slo_per_s_high"]
    factor = float(np.exp(TENTH * one(spreads(predicted().inputs).token)))
    limits = "limits={tpot: {at_most: %.9g ms}, ttft_p99: {at_most: %.9g s}, limits_chance: {at_least: 90 %%}}"
    slower = costs(limits % (25 / factor, 1 / factor))
    assert low == pytest.approx(slower["rate_within_slo_per_s"] / factor, rel=1e-3)


@pytest.mark.parametrize(
    "load",
    [
        "prompt: 2048, output: 512, concurrency: 3000",
        "prompt: 2048, output: 512, users: 5000, think_time: 30 s",
        "prompt: 8192, output: 1, concurrency: 64",
        "prompt: 2048, output: 512, concurrency: 3000, traffic: burst",
    ],
)
def test_no_end_of_the_rate_of_a_closed_loop_is_beyond_that_of_saturation(load: str) -> None:
    found = costs(f"workload={{kind: serving, {load}, precision: bf16}}", "limits={}")
    assert found["saturation_share"] > 0.85
    assert found["requests_per_s_high"] <= found["saturation_per_s_high"] * (1 + 1e-9)
    assert found["requests_per_s"] < found["requests_per_s_high"]
    slower = found["saturation_per_s"] / found["saturation_per_s_low"]
    assert found["requests_per_s_low"] * slower == pytest.approx(found["requests_per_s"], rel=0.02)
    assert found["cost_per_mtoken"] / found["cost_per_mtoken_low"] <= found["saturation_per_s_high"] / found[
        "requests_per_s"
    ] * (1 + 1e-9)


def test_without_a_line_every_user_has_a_slot_by_littles_law() -> None:
    load = "workload={kind: serving, prompt: 2048, output: 512, concurrency: 64, precision: bf16}"
    found = costs(load)
    every = found["latency"] * found["requests_per_s"] / found["replicas"]
    assert every == pytest.approx(found["concurrency"], rel=1e-9)


@pytest.mark.parametrize("plan", ["plan={tp: 8}", "plan={prefill: {tp: 4, replicas: 2}, decode: {tp: 8}}"])
@pytest.mark.parametrize(
    ("load", "users", "think"),
    [
        ("concurrency: 8", 8, 0),
        ("concurrency: 1200", 1200, 0),
        ("concurrency: 4000", 4000, 0),
        ("concurrency: 20000", 20000, 0),
        ("users: 400, think_time: 30 s", 400, 30),
        ("users: 4000, think_time: 30 s", 4000, 30),
        ("users: 40000, think_time: 30 s", 40000, 30),
    ],
)
def test_littles_law_holds_at_both_ends_of_the_bands_of_a_closed_loop(
    plan: str, load: str, users: float, think: float
) -> None:
    """Everyone waits for an answer or thinks: the slowest rate belongs to the longest answers, the fastest to the
    shortest. No first token comes after its answer.
    """
    found = costs(f"workload={{kind: serving, prompt: 2048, output: 512, {load}, precision: bf16}}", plan, "limits={}")
    for rate, time in (("", ""), ("_low", "_high"), ("_high", "_low")):
        everyone = found[f"requests_per_s{rate}"] * (found[f"latency{time}"] + think)
        assert everyone == pytest.approx(users, rel=2e-3)
        assert found[f"ttft{time}"] < found[f"latency{time}"]
    assert found["latency_low"] <= found["latency"] <= found["latency_high"]


@pytest.mark.parametrize("think", ["600 s", "36000 s"])
def test_users_who_think_for_long_have_the_band_of_steps(think: str) -> None:
    """Their rate is nearly their own, whatever an answer takes: no end of it determines the time of an answer."""
    load = f"workload={{kind: serving, prompt: 2048, output: 512, users: 300000, think_time: {think}, precision: bf16}}"
    found = costs(load, "limits={}", "cluster.nodes=80", "plan={tp: 8, replicas: 80}")
    assert 0 < found["ttft_low"] < found["latency_low"] < found["latency"] < found["latency_high"]
