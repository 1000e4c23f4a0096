"""Times and rates of a serving plan: limits on paper, identities, and the order of things."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from equations.serving.engine_simulation import Engine, serve
from equations.serving.steady import saturation

from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.serving.evaluate_layouts import evaluate
from costmodel.estimate.serving.operating_point import ExactSteps, operating_point
from costmodel.estimate.serving.plan_columns import SIZES, PlanColumns
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.estimate.serving.steady_state import replica_rate
from costmodel.estimate.serving.step_table import step_table
from costmodel.ground.errors import CostModelError

from .cases import SHIPPED, UNLAUNCHED, costs, inputs, one, predicted
from .linear_engine import state_of


def layout(**sizes: float) -> PlanColumns:
    """One plan of one replica."""
    usual = dict.fromkeys(SIZES, 1.0) | {"tp": 8.0, "budget": 8192.0} | sizes
    return PlanColumns(**{name: np.array([value]) for name, value in usual.items()})


def share_of_full_steps(engine: Engine, share: float) -> Engine:
    """The engine at a share of the rate at which every step is full."""
    many = engine.token_budget / (1 + engine.prompt / engine.output)
    tokens = engine.prompt_token_time * many * engine.prompt / engine.output
    step = engine.base_time + engine.sequence_time * many + tokens
    return replace(engine, request_rate=share * many / engine.output / step)


# Prompts, answers, budget: of chat, of long prompts that take many steps, of short answers.
SHAPES = [(300, 512, 2048), (2048, 128, 8192), (2048, 2048, 512), (8192, 512, 2048), (16_000, 512, 8192)]


@pytest.mark.parametrize(("prompt", "output", "budget"), SHAPES)
@pytest.mark.parametrize("variation", [0.0, 1.0])
def test_an_engine_step_by_step(prompt: int, output: int, budget: int, variation: float) -> None:
    """Up to half load to 3.5, 18 and 26 %; at eight tenths a token of long prompts is up to 9 % off."""
    engine = Engine(9.92e-3, 60.7e-6, 47.8e-6, float(prompt), float(output), float(budget), 0.0, variation)
    for share, token in ((0.1, 0.01), (0.5, 0.035), (0.8, 0.09)):
        at = share_of_full_steps(engine, share)
        found, seen = state_of(at), serve(at, 6_000 if share < 0.8 else 12_000)
        assert float(found.tpot) == pytest.approx(seen.tpot, rel=token)
        assert float(found.ttft) == pytest.approx(seen.ttft, rel=0.18)
        assert float(found.ttft_p99) == pytest.approx(seen.ttft_p99, rel=0.26)
        assert float(found.tpot) <= 9.92e-3 + 60.7e-6 * float(found.in_flight) * 2 + 47.8e-6 * budget


def test_the_mean_step_is_that_of_a_closed_loop() -> None:
    """Little's law: the open loop at λ and the closed loop with as many in flight have one step, α / (1 − ρ)."""
    found = inputs()
    point = operating_point(found, layout(), np.array([42.0]), ExactSteps(found, layout()))
    rate = float(replica_rate(found, point)[0])
    alpha, beta, gamma = (float(each[0]) for each in (point.alpha, point.beta, point.gamma))
    closed = alpha + 42.0 * (beta + gamma * 2048 / 512)
    opened = alpha / (1 - rate * (beta * 512 + gamma * 2048))
    assert opened == pytest.approx(closed, rel=1e-9)
    assert rate * 512 * opened == pytest.approx(42.0, rel=1e-9)


@pytest.mark.parametrize("budget", [512, 8192])
@pytest.mark.parametrize("prompt", [2048, 6000])
def test_a_closed_loop_is_an_open_one_but_for_its_own_prompt(prompt: int, budget: int) -> None:
    """At one rate a token of the open loop is slower by an own prompt at least, as simulated engines have it."""

    def under(load: str) -> ServingAnswer:
        workload = f"workload={{kind: serving, prompt: {prompt}, output: 512, precision: bf16, {load}}}"
        return predicted(workload, f"stack.budget={budget}", "plan.replicas=1", "limits={}", *UNLAUNCHED)

    for users in (1, 4, 16):
        closed = under(f"concurrency: {users}")
        opened = under(f"rate: {closed.costs['requests_per_s']} /s")
        longer = opened.costs["tpot"] - closed.costs["tpot"]
        point = closed.evaluation.point  # type: ignore[union-attr]
        between = closed.costs["tpot"] - one(point.decode) if users > 1 else 0.0
        own = one(point.gamma) * prompt / 512
        assert between == pytest.approx((users - 1) * own, rel=0.05)
        assert 0.95 * own < longer < own + 0.07 * closed.costs["tpot"]


@pytest.mark.parametrize(("prompt", "output"), [(2048, 512), (4000, 4), (100, 4), (4000, 1)])
@pytest.mark.parametrize("budget", [512, 8192])
def test_no_number_of_users_gets_more_than_saturation(prompt: int, output: int, budget: int) -> None:
    found = []
    for users in (1, 16, 128, 2000):
        workload = f"workload={{kind: serving, prompt: {prompt}, output: {output}, concurrency: {users}}}"
        crowd = costs(workload, f"stack.budget={budget}", "plan.replicas=1", "limits={}")
        assert crowd["requests_per_s"] <= crowd["saturation_per_s"] * (1 + 1e-9)
        found.append(crowd["requests_per_s"])
    assert np.all(np.diff(found) > -1e-9)
    assert found[-1] > 0.95 * crowd["saturation_per_s"]


def test_constants_are_near_the_worked_example() -> None:
    """70B, tp 8, H100: α 9.98 ms, β 60.7 us, γ 47.8 us by another fit of the same kernels.

    There steps have no host time, and prompts come in steps of their own.
    """
    found = inputs()
    point = operating_point(found, layout(), np.array([64.0]), ExactSteps(found, layout()))
    host = float(found.engine.host.step)
    assert float(point.alpha[0]) - host == pytest.approx(9.98e-3, rel=0.05)
    assert float(point.beta[0]) == pytest.approx(60.7e-6, rel=0.2)
    assert float(point.gamma[0]) == pytest.approx(47.8e-6, rel=0.12)


@pytest.mark.parametrize("budget", [512, 2048, 8192])
def test_saturation_is_where_steps_are_full(budget: int) -> None:
    found = inputs(f"stack.budget={budget}")
    evaluation = evaluate(found, layout(budget=float(budget)))
    assert evaluation.bounds.binding()[0] == (0 if budget < 8192 else 1)  # the cache is full before steps of 8,192
    most = float(evaluation.bounds.budget[0])
    point = operating_point(found, layout(budget=float(budget)), np.array([most]), ExactSteps(found, layout()))
    constants = (float(point.alpha[0]), float(point.work[0]))
    expected = float(saturation(float(budget), 2560.0, *constants))
    assert float(replica_rate(found, point)[0]) == pytest.approx(expected, rel=1e-9)


def test_a_limit_on_tokens_alone_is_met_near_its_closed_form() -> None:
    """(1 − α / τ) / w, less what clustering takes: 1 to 4 %."""
    found = inputs("limits.ttft_p99.at_most=1000 s")
    evaluation = evaluate(found, layout())
    within = float(evaluation.results.column("rate_within_slo_per_s")[0])
    exact = ExactSteps(found, layout())
    point = operating_point(found, layout(), np.array([within * 512 * 0.025]), exact)
    bound = (1 - float(point.alpha[0]) / 0.025) / float(point.work[0])
    assert 0.96 * bound < within < bound


def test_what_is_within_limits_keeps_them_and_no_more_does() -> None:
    rate = costs()["rate_within_slo_per_s"]
    assert predicted(f"workload.rate={rate * 0.999} /s").broken == ()
    assert predicted(f"workload.rate={rate * 1.001} /s").broken == ("S001",)


def test_an_empty_engine_takes_a_step_a_token_and_a_prompt_for_the_first() -> None:
    found = costs("workload.rate=0.001 /s")
    exact = ExactSteps(inputs(), layout())
    alone = float(np.asarray(exact.one)[0])
    assert found["tpot"] == pytest.approx(alone, rel=2e-3)
    mixed = float(np.asarray(exact.mixed(np.array([2.0]), np.array([2048.0])))[0])
    assert found["ttft"] == pytest.approx(mixed + alone / 2, rel=0.02)
    assert found["saturation_share"] < 1e-3


def test_the_parts_of_a_lone_users_token_are_its_time() -> None:
    found = costs(
        "workload={kind: serving, prompt: 500, output: 200, concurrency: 1, precision: bf16}", "plan.replicas=1"
    )
    parts = sum(found[name] for name in ("matmul", "attention", "memory_bound", "tp_exposed", "host_time"))
    assert parts + found["prompts_between"] == pytest.approx(found["tpot"], rel=5e-3)


def test_a_user_alone_has_no_prompt_between_tokens_at_either_end_of_the_band() -> None:
    load = "workload={kind: serving, prompt: 1000, output: 200, concurrency: 1}"
    answer = costs("model=llama-3.1-8b", load, "plan={tp: 1, replicas: 1}", "limits={}")
    assert [answer[f"prompts_between{end}"] for end in ("", "_low", "_high")] == [0, 0, 0]


def test_times_grow_with_the_rate() -> None:
    rows = [costs(f"workload.rate={rate} /s") for rate in (1, 4, 8, 12, 14)]
    for name in ("tpot", "ttft", "ttft_p99", "concurrency", "saturation_share"):
        values = [row[name] for row in rows]
        assert values == sorted(values), name
    assert rows[-1]["ttft_p99"] > 2 * rows[0]["ttft_p99"]


def test_times_of_attention_groups_grow_with_the_rate() -> None:
    """Prompts of several groups take less time each in one step; a prompt alone does not."""
    shape = "workload={kind: serving, prompt: 2000, output: 500, rate: %g /s, precision: fp8-block}"
    machine = "model=deepseek-v3", "cluster={node: dgx-h200, nodes: 2}", "limits={}"
    plan = "plan={ep: 16, dp_attention: 16}"
    rows = [costs(shape % rate, *machine, plan) for rate in (0.1, 1, 2, 3, 5, 8, 12, 20)]
    for name in ("tpot", "ttft", "ttft_p99"):
        values = [row[name] for row in rows]
        assert values == sorted(values), name


def test_no_prompt_comes_between_the_tokens_of_a_request_alone() -> None:
    """The longest step of a closed loop holds the prompts of the others, of an open one those of all other slots."""
    closed = "workload={kind: serving, prompt: 50, output: 512, concurrency: %d}"
    alone, pair, all_others = (costs(closed % many, "plan.replicas=1", "limits={}") for many in (1, 2, 64))
    assert alone["worst_gap"] == pytest.approx(alone["tpot"], rel=1e-3)
    steps = ExactSteps(inputs("workload.prompt=50"), layout())
    two = float(np.asarray(steps.mixed(np.array([2.0]), np.array([50.0])))[0])
    assert pair["worst_gap"] == pytest.approx(two, rel=1e-3)
    assert pair["worst_gap"] < all_others["worst_gap"]
    single = costs("stack.sequences=1", "workload.rate=0.01 /s", "limits={}")
    assert single["worst_gap"] == pytest.approx(single["tpot"])


def test_a_larger_budget_shortens_the_first_token_and_lengthens_gaps() -> None:
    rows = [costs(f"stack.budget={budget}") for budget in (512, 2048, 8192)]
    assert [row["ttft"] for row in rows] == sorted((row["ttft"] for row in rows), reverse=True)
    assert [row["worst_gap"] for row in rows] == sorted(row["worst_gap"] for row in rows)
    assert [row["saturation_per_s"] for row in rows] == sorted(row["saturation_per_s"] for row in rows)


def test_the_rent_is_due_to_prompts_and_answers() -> None:
    found = costs()
    every = found["cost_per_minput"] * 2048 + found["cost_per_moutput"] * 512
    assert every == pytest.approx(found["cost_per_mtoken"] * 512, rel=1e-3)


def test_replicas_share_the_load() -> None:
    one, two = costs("workload.rate=4 /s", "plan.replicas=1"), costs("workload.rate=8 /s", "plan.replicas=2")
    for name in ("tpot", "ttft_p99", "concurrency"):
        assert one[name] == pytest.approx(two[name], rel=1e-9)
    assert two["saturation_per_s"] == pytest.approx(2 * one["saturation_per_s"])


def test_a_pipeline_multiplies_what_stands_and_delays_as_before() -> None:
    """Two stages of tp 8 hold more and saturate later than one; a lone user waits for all layers either way."""
    one, two = costs("plan.replicas=1", "workload.rate=0.001 /s"), costs("plan.pp=2", "workload.rate=0.001 /s")
    assert two["tpot"] == pytest.approx(one["tpot"], rel=0.02)
    assert two["saturation_per_s"] > 1.4 * one["saturation_per_s"]


@pytest.mark.parametrize("many", [5.0, 512.0, 4000.0])
def test_a_pipeline_waits_for_prompts_of_any_of_its_micro_batches(many: float) -> None:
    """Each has prompts of its own, drawn at random: all stages take longer in a step in which any has some."""
    found, plan = inputs(), layout(tp=4.0, pp=4.0)
    point = operating_point(found, plan, np.array([many]), ExactSteps(found, plan))
    load, drawn = found.load, np.random.default_rng(5).poisson(many / found.load.steps / 4.0, (400_000, 4))
    longer = np.mean(np.any(drawn > 0, axis=1)) * (one(point.mixed) - one(point.decode))
    assert one(point.gamma) * many * load.computed / load.steps == pytest.approx(float(longer), rel=0.01)
    carried = load.computed / one(point.rides)
    assert carried == pytest.approx(load.computed * float(np.mean(drawn[drawn > 0])), rel=0.01)


@pytest.mark.parametrize(
    "changes",
    [(), ("model=deepseek-v3", "cluster.node=dgx-h200", "workload.precision=fp8-block"), ("model=gpt-oss-20b",)],
)
def test_the_table_gives_the_steps_of_the_equations(changes: tuple[str, ...]) -> None:
    found = inputs(*changes)
    sizes = np.array([[8.0, 1.0], [4.0, 2.0], [2.0, 4.0]]).T
    plans = PlanColumns(sizes[0], sizes[1], np.ones(3), np.ones(3), np.ones(3), np.full(3, 8192.0))
    exact, quick = ExactSteps(found, plans), step_table(found, plans)
    for decodes, tokens in ((2.0, 100.0), (37.3, 2048.0), (487.0, 1.0), (489.0, 60.0), (900.0, 7000.0)):
        many, beside = np.full(3, decodes), np.full(3, tokens)
        assert np.asarray(quick.decode(many)) == pytest.approx(np.asarray(exact.decode(many)), rel=5e-4)
        assert np.asarray(quick.mixed(many, beside)) == pytest.approx(np.asarray(exact.mixed(many, beside)), rel=5e-4)


def test_many_plans_have_the_figures_that_each_has_alone() -> None:
    found = inputs()
    shapes = [(8, 1, 512, 1), (4, 2, 8192, 1), (8, 2, 2048, 1), *((8, 1, 2048, replicas) for replicas in range(1, 14))]
    rows = [layout(tp=tp, pp=pp, budget=budget, replicas=many) for tp, pp, budget, many in shapes]
    together = PlanColumns(*(np.concatenate([getattr(row, name) for row in rows]) for name in SIZES))
    many = evaluate(found, together).results
    for place, row in enumerate(rows):
        alone = evaluate(found, row).results.row()
        assert many.row(place) == pytest.approx(alone, rel=1e-9, nan_ok=True)


def test_attention_groups_of_other_plans_change_no_figure() -> None:
    found = inputs("model=deepseek-v3", "cluster.node=dgx-h200", "workload.precision=fp8-block", "workload.rate=3 /s")
    alone, grouped = layout(tp=8.0, ep=8.0), layout(tp=1.0, dp_attention=8.0, ep=8.0)
    together = PlanColumns(*(np.concatenate([getattr(row, name) for row in (alone, grouped)]) for name in SIZES))
    many = evaluate(found, together).results
    for place, row in enumerate((alone, grouped)):
        assert many.row(place) == pytest.approx(evaluate(found, row).results.row(), rel=1e-9, nan_ok=True)


def test_a_shared_beginning_is_computed_once() -> None:
    plain, shared = costs(), costs("workload.shared_prefix=512")
    assert shared["prefix_hit"] == pytest.approx(0.25)
    assert shared["tpot"] < plain["tpot"]
    assert shared["cost_per_minput"] < plain["cost_per_minput"]
    assert shared["saturation_per_s"] > plain["saturation_per_s"]


def test_no_user_of_a_closed_loop_waits_for_more_than_all_others() -> None:
    """Of 64 users with long prompts and short answers, where requests at random would queue for ever."""
    load = "workload={kind: serving, prompt: 4096, output: 64, concurrency: 64, precision: bf16}"
    found = predicted("plan={tp: 8, replicas: 1}", "limits={}", load)
    prompts = 64 * 4096 * one(found.evaluation.point.gamma)  # type: ignore[union-attr]
    assert found.costs["ttft"] < found.costs["ttft_p99"] < prompts


def test_users_who_think_make_a_rate() -> None:
    found = costs("workload={kind: serving, prompt: 2048, output: 512, users: 300, think_time: 30 s}")
    assert found["requests_per_s"] * (30 + found["latency"]) == pytest.approx(300, rel=1e-4)


def test_a_benchmark_sees_its_own_start() -> None:
    loop = "workload={{kind: serving, prompt: 1024, output: 1024, concurrency: 64{}}}"
    steady, burst = costs(loop.format("")), costs(loop.format(", traffic: burst"))
    assert burst["ttft"] > 1.5 * steady["ttft"]
    assert burst["tpot"] == steady["tpot"]
    assert steady["concurrency"] == 32.0  # of each of two replicas


def test_a_training_scenario_is_not_served_and_the_other_way_round() -> None:
    with pytest.raises(CostModelError, match="C030"):
        load(SHIPPED)
    with pytest.raises(CostModelError, match="training software"):
        inputs("stack=megatron-core")


def test_without_traffic_a_first_token_is_late_by_a_step_at_most() -> None:
    """Fewer than one in a hundred meet another prompt: p99 is the lone prompt, and grows from there without a jump."""
    long = ("workload.prompt=8000", "limits={}")
    lone = predicted(*long, "workload.rate=0.001 /s").costs
    assert lone["ttft"] < lone["ttft_p99"] < lone["ttft"] + lone["tpot"]
    rates = np.geomspace(1e-3, 3.0, 25)
    tails = np.array([predicted(*long, f"workload.rate={rate} /s").costs["ttft_p99"] for rate in rates])
    assert np.all(np.diff(tails) >= 0)
    assert tails[-1] > 2 * tails[0]
    limit = 1.5 * lone["ttft"]
    assert predicted(*long[:1], f"limits={{ttft_p99: {{at_most: {limit} s}}}}").costs["rate_within_slo_per_s"] > 0


def test_a_plan_beside_others_has_the_figures_it_has_alone() -> None:
    """With one line before all replicas, the p99 of a single one was off by 2 % beside a plan of several."""
    held = inputs("assume.routing=least-loaded", "workload.rate=2 /s", "cluster.nodes=4")
    both = PlanColumns(**{name: np.concatenate([getattr(layout(), name)] * 2) for name in SIZES})
    both = replace(both, replicas=np.array([1.0, 4.0]))
    beside = evaluate(held, both).results
    for row, replicas in enumerate((1.0, 4.0)):
        alone = evaluate(held, layout(replicas=replicas)).results
        for name in ("ttft", "ttft_p99", "tpot"):
            assert beside.column(name)[row] == pytest.approx(float(alone.column(name)[0]), rel=1e-5), name
