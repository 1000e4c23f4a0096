"""Plans next to a scenario's own are what estimate says of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

NAME, SERVES, LEARNS = "llama-3-70b-512", "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64"
TIMES = {NAME: "step_time_s", "deepseek-v3-2048": "step_time_s", SERVES: "tpot_s", LEARNS: "iteration_time_s"}


def json_of(run: Any, name: str, *args: str) -> dict[str, Any]:
    ran = run("explain", name, "plan", *args, "--json")
    assert ran.code == 0, ran
    found: dict[str, Any] = json.loads(ran.out)
    return found


@pytest.mark.parametrize("name", TIMES)
def test_a_neighbour_is_what_estimate_says(run: Any, name: str) -> None:
    found = json_of(run, name)["neighbours"]
    assert len(found) >= (12 if name not in (SERVES, LEARNS) else 5)
    for other in found[::6]:
        settings = [part for path, value in other["set"].items() for part in ("--set", f"{path}={value}")]
        plans = json.loads(run("estimate", name, *settings, "--json").out)["plans"]
        if other["refused"]:
            assert plans == []
            continue
        for figure in (TIMES[name], "memory_peak_bytes"):
            assert plans[0][figure] == other[figure]


def test_a_service_with_instances_apart_trades_them(run: Any) -> None:
    """Half the ranks of an instance make twice as many of them."""
    halves = "plan={prefill: {tp: 4, replicas: 2}, decode: {tp: 4, replicas: 2}}"
    found = [one["set"] for one in json_of(run, SERVES, "--set", halves)["neighbours"]]
    assert {"plan.prefill.tp": 2, "plan.prefill.replicas": 4} in found
    assert {"plan.decode.tp": 8, "plan.decode.replicas": 1} in found


def test_what_moves_is_a_term_of_the_time(run: Any) -> None:
    """The term moves by what two estimates differ in it; the page has the same rows."""
    found = json_of(run, LEARNS)
    (own,) = found["plans"]
    moved = next(one for one in found["neighbours"] if one.get("moves") == "generation")
    settings = [part for path, value in moved["set"].items() for part in ("--set", f"{path}={value}")]
    (plan,) = json.loads(run("estimate", LEARNS, *settings, "--json").out)["plans"]
    assert moved["by_s"] == pytest.approx(plan["generation_s"] - own["generation_s"])
    page = run("explain", LEARNS, "plan", "--format", "html").out
    assert all(f"<td>{one['asked']}<td>" in page for one in found["neighbours"])


def test_every_neighbour_differs_in_what_it_says(run: Any) -> None:
    found = json_of(run, NAME)
    own = found["plans"][0]
    for other in found["neighbours"]:
        assert any(own[path.removeprefix("plan.")] != value for path, value in other["set"].items()), other


def test_with_a_stated_dp_it_gives_way(run: Any) -> None:
    """Where dp is written, halving tp doubles it, so that the ranks stay all in use."""
    halved = [one for one in json_of(run, NAME, "--set", "plan.dp=16")["neighbours"] if one["set"].get("plan.tp") == 4]
    assert {one["set"]["plan.dp"] for one in halved} == {16, 32}


def test_the_reason_stands_beside_what_cannot_be(run: Any) -> None:
    found = json_of(run, NAME, "--set", "plan.tp=64", "--set", "plan.pp=1")["neighbours"]
    refused = [one for one in found if one["refused"]]
    assert refused
    assert all("step_time_s" not in one for one in refused)


def test_experts_stay_whole_with_another_tp(run: Any) -> None:
    """As in a search; where they are divided, whole ones are a neighbour."""
    moe = "deepseek-v3-2048"
    moved = [one["set"] for one in json_of(run, moe)["neighbours"] if "plan.tp" in one["set"]]
    assert moved
    assert all(each["plan.etp"] == 1 for each in moved)


def test_a_plan_that_is_invalid_has_no_neighbours(run: Any) -> None:
    assert run("explain", NAME, "plan", "--set", "plan.tp=3").code == 1
