"""sensitivity of a service: what the load, lengths and the sizes of a step move, as estimate says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from rich.cells import cell_len

from explore.vary.json_answers import json_of

chosen_alone = pytest.mark.usefixtures("few_knobs")  # what is chosen is turned besides

NAME = "serve-llama-3.1-70b"
USERS = ("--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "1", "--prompt", "2000", "--answer", "300")


def figures_of(run: Any, *more: str) -> dict[str, dict[str, Any]]:
    return {item["path"]: item for item in json_of(run, "sensitivity", *more)["figures"]}


def estimated_result(run: Any, result: str, *settings: str) -> float:
    options = [word for setting in settings for word in ("--set", setting)]
    found: float = json_of(run, "estimate", NAME, *options)["plans"][0][result]
    return found


@chosen_alone
def test_the_load_the_lengths_and_the_sizes_of_a_step_are_turned_by_a_tenth(run: Any) -> None:
    found, base = figures_of(run, NAME, "--of", "ttft_p99"), estimated_result(run, "ttft_p99_s")
    for path, kind, low, high in (
        ("workload.rate", "workload", "7.2 /s", "8.8 /s"),
        ("workload.prompt.mean", "workload", "1843", "2253"),
        ("workload.output.mean", "workload", "461", "563"),
        ("stack.budget", "plan", "7373", "9011"),
    ):
        item = found[path]
        assert (item["kind"], round(item["spread"], 2)) == (kind, 0.1)
        for side, value in (("low", low), ("high", high)):
            moved = estimated_result(run, "ttft_p99_s", f"{path}={value}") / base - 1
            assert item[side] == pytest.approx(moved, rel=1e-6), path


@chosen_alone
def test_users_and_lengths_of_one_number_are_turned_to_whole_numbers(run: Any) -> None:
    found = figures_of(run, *USERS, "--users", "7", "--set", "workload.think_time=20 s")
    assert found["workload.users"]["turned"] == ["6", "8"]
    assert found["workload.prompt"]["turned"] == ["1800", "2200"]


@chosen_alone
def test_a_load_that_is_not_answered_has_no_end_beside_others_that_have(run: Any) -> None:
    """Near saturation, a tenth more requests are more than it answers."""
    asked = ("sensitivity", NAME, "--of", "ttft_p99", "--set", "workload.rate=14 /s", "--top", "40", "--no-color")
    out = run(*asked, screen=True, env={"COLUMNS": "100"}).out
    assert max(map(cell_len, out.splitlines())) <= 100
    assert "inf" not in out
    [rate] = [line for line in out.splitlines() if " workload.rate " in line]
    assert rate.endswith("∞")
    assert "█" in rate


def test_a_result_that_many_times_as_much_is_said_to_be_so(run: Any) -> None:
    """Near saturation a first token takes many times as long: one read +5691 %."""
    lines = run("sensitivity", *USERS, "--rate", "10.1", "--of", "ttft_p99").out.splitlines()
    assert any(re.search(r"fit.* × \d", line) for line in lines)
    assert not re.search(r"\d{4,} %", "\n".join(lines))
