"""Plans next to a scenario's own are what estimate says of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

NAME = "llama-3-70b-512"


def json_of(run: Any, name: str, *args: str) -> dict[str, Any]:
    ran = run("explain", name, "plan", *args, "--json")
    assert ran.code == 0, ran
    found: dict[str, Any] = json.loads(ran.out)
    return found


@pytest.mark.parametrize("name", [NAME, "deepseek-v3-2048"])
def test_a_neighbour_is_what_estimate_says(run: Any, name: str) -> None:
    found = json_of(run, name)["neighbours"]
    assert len(found) >= 12
    for other in found[::3]:
        settings = [part for path, value in other["set"].items() for part in ("--set", f"{path}={value}")]
        ran = run("estimate", name, *settings, "--json")
        plans = json.loads(ran.out)["plans"]
        if other["refused"]:
            assert plans == []
            continue
        assert plans[0]["step_time_s"] == other["step_time_s"]
        assert plans[0]["memory_peak_bytes"] == other["memory_peak_bytes"]


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


def test_a_plan_that_is_invalid_has_no_neighbours(run: Any) -> None:
    assert run("explain", NAME, "plan", "--set", "plan.tp=3").code == 1
