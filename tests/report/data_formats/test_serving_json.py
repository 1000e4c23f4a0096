"""Answers about serving have the form of those about training, `costmodel/result/v1`, with columns of their own."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from estimate.serving.cases import case

from costmodel.estimate.serving.plan_columns import SIZES
from costmodel.estimate.serving.predict_serving import predict

APART = "plan={prefill: {tp: 8, replicas: 2}, decode: {tp: 8}}"
TRAINING, SERVING = "llama-3-70b-512", "serve-llama-3.1-70b"
OF_TRAINING = {"flop_convention"}  # null of a service
ROWS = ("documents", "columns", "assumed")  # lists whose items have one form in both


def answer(run: Any, command: str, name: str, *more: str) -> Any:
    return json.loads(run(command, name, *more, "--json").out)


def kind(value: Any) -> type:
    """JSON has numbers of one kind."""
    return float if type(value) is int else type(value)


@pytest.mark.parametrize(
    ("command", "more"), [("estimate", ()), ("memory", ()), ("comm", ()), ("search", ("--top", "2"))]
)
def test_fields_are_added_and_none_changed(command: str, more: tuple[str, ...], run: Any) -> None:
    training, serving = (answer(run, command, name, *more) for name in (TRAINING, SERVING))
    assert set(training) - set(serving) == set()
    schema = "costmodel/search/v2" if command == "search" else "costmodel/result/v1"
    assert training["schema"] == serving["schema"] == schema
    assert serving["workload"] == "serving"
    assert all(serving[name] is None for name in OF_TRAINING)
    for name in set(training) - OF_TRAINING:
        assert type(training[name]) is type(serving[name]), name
    for name in ROWS:
        assert {frozenset(item) for item in training[name]} == {frozenset(item) for item in serving[name]}
    known = {column["name"]: column for column in training["columns"]}
    for column in serving["columns"]:
        was = known.get(column["name"], column)
        assert (was["unit"], was["better"]) == (column["unit"], column["better"])


@pytest.mark.parametrize(
    ("command", "rows", "more"),
    [
        ("estimate", "plans", ()),
        ("estimate", "plans", ("--set", "workload.rate=20 /s")),
        (
            "estimate",
            "plans",
            ("--set", "cluster.nodes=3", "--set", "plan={prefill: {tp: 8, replicas: 2}, decode: {tp: 8}}"),
        ),
        ("search", "plans", ("--top", "3")),
        ("search", "pareto", ("--pareto", "tokens_per_s_per_user,tokens_per_s_per_gpu")),
    ],
)
def test_every_field_of_a_plan_is_one_of_trainings_or_a_described_column(
    command: str, rows: str, more: tuple[str, ...], run: Any
) -> None:
    """`costmodel/result/v1` gets columns: numbers with a unit and a meaning, beside the degrees of a serving plan."""
    found, known = answer(run, command, SERVING, *more), answer(run, "search", TRAINING, "--top", "1")
    plans = found[rows]["plans"] if rows == "pareto" else found[rows]
    described = {column["name"] for column in found["columns"]}
    degrees = {*SIZES, "prefill", "decode", "speculation", "binds", "broken", "load", "concurrency", "variant"}
    assert plans
    for plan in plans:
        assert set(plan) - described - set(known["plans"][0]) - degrees == set()
        assert {name for name in described if not isinstance(plan.get(name), float | int | None)} == set()
    for column in found["columns"]:
        assert set(column) == {"name", "unit", "meaning", "better"}
        assert column["better"] in ("higher", "lower", "neither")


def test_shared_columns_hold_numbers_of_one_kind(run: Any) -> None:
    """A reader of training's results finds degrees, memory and cost of a serving plan where it looks for them."""
    training, serving = (answer(run, "estimate", name)["plans"][0] for name in (TRAINING, SERVING))
    shared = set(training) & set(serving)
    assert {"tp", "pp", "ep", "fits", "tokens_per_s_per_gpu", "memory_share"} <= shared
    assert all(kind(training[name]) is kind(serving[name]) for name in shared)
    assert {"step_time_s", "mfu"}.isdisjoint(serving)


def test_memory_has_what_the_host_would_keep(run: Any) -> None:
    kept = answer(run, "memory", SERVING)["host_cache"]
    assert set(kept) == {"memory_bytes", "rank_bytes", "tokens", "prompt_tokens", "load_s", "recompute_s"}
    assert kept["load_s"] < kept["recompute_s"]


OF_A_PLAN_THAT_DOES_NOT_FIT = {  # beside what the plan is, and the ends of the bands
    *("gpus", "nodes", "rent_per_month_usd", "limits_chance", "memory_peak_bytes", "memory_share", "cache_pool_bytes"),
    *("cache_pool_tokens", "kv_bytes_per_token", "concurrency_worst", "concurrency_steady"),
}


def test_a_plan_that_does_not_fit_has_the_figures_of_its_memory_alone(run: Any) -> None:
    (plan,) = answer(run, "estimate", SERVING, "--set", "plan.tp=1")["plans"]
    known = {name for name, value in plan.items() if value is not None and "_low" not in name and "_high" not in name}
    assert known == {*SIZES[:6], *OF_A_PLAN_THAT_DOES_NOT_FIT, "fits"}
    assert not plan["fits"]
    assert all(value >= 0 for name, value in plan.items() if name in OF_A_PLAN_THAT_DOES_NOT_FIT)


def test_prompts_without_room_have_no_time_per_token() -> None:
    found = predict(case("workload.prompt.mean=1e15"), bands=False)
    assert "M001" in found.broken
    assert math.isnan(found.costs["tpot"])
    assert min(value for value in found.costs.values() if not math.isnan(value)) >= 0


def test_a_point_of_a_sweep_that_does_not_fit_has_no_times(run: Any) -> None:
    shown = ("--show", "tpot,requests_per_s,cost_per_moutput")
    small, large = answer(run, "sweep", SERVING, "--over", "plan.tp=1,8", *shown)["points"]
    assert (small["verdict"], small["codes"]) == ("does not fit", ["M001"])
    assert small["tpot_s"] is small["requests_per_s"] is small["cost_per_moutput_usd"] is None
    assert large["tpot_s"] > 0


def test_a_time_of_a_plan_that_does_not_fit_is_not_explained(run: Any) -> None:
    ran = run("explain", SERVING, "tpot", "--set", "plan.tp=1")
    assert ran.code == 1
    assert "M001 does not fit" in ran.out
    assert run("explain", SERVING, "cache_pool", "--set", "plan.tp=1").code == 0
