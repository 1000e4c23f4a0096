"""A second measured run beside the first: it decides between causes that one step cannot tell apart."""

from __future__ import annotations

import json
from typing import Any

import pytest

NAME = "llama-3-70b-512"


def found(run: Any, *args: str) -> dict[str, Any]:
    return dict(json.loads(run("diagnose", NAME, *args, "--json").out))


def first(run: Any, *args: str) -> str:
    return str(found(run, *args)["causes"][0]["cause"])


def steps(run: Any, *settings: str) -> tuple[float, float]:
    """The steps of a batch and of twice as large a one, with settings changed."""
    one, two = (
        json.loads(run("estimate", NAME, *more, *(f"--set={each}" for each in settings), "--json").out)["plans"][0]
        for more in ((), ("--set=workload.global_batch=2048",))
    )
    return one["step_time_s"], two["step_time_s"]


def test_a_fixed_time_stays_where_the_batch_is_twice_as_large(run: Any) -> None:
    one, two = steps(run)
    args = ("--step", f"{one + 3:.4f}s")
    assert first(run, *args) != "fixed"
    assert first(run, *args, "--also", f"global_batch=2048:{two + 3:.4f}s") == "fixed"


def test_a_slow_host_takes_its_part_of_both(run: Any) -> None:
    one, two = steps(run, "stack.launch.operation=150 us")
    assert first(run, "--step", f"{one:.4f}s", "--also", f"global_batch=2048:{two:.4f}s") == "host"


def test_a_slow_network_shows_on_two_nodes_alone(run: Any) -> None:
    """Half of the MFU is lost from one node to two: not what a slow accelerator would do."""
    settings = ("--set=cluster.nodes=2", "--set=plan.tp=1", "--set=plan.zero=3", "--set=stack=fsdp2")
    shown = [json.loads(run("estimate", "quickstart", *settings, *more, "--json").out)["plans"][0] for more in (
        (), ("--set=cluster.nodes=1",), ("--set=assume.network_share=4 %",),
    )]  # fmt: skip
    assert shown[2]["step_time_s"] > shown[0]["step_time_s"]
    args = ("--step", f"{shown[2]['step_time_s']:.4f}s", "--also", f"nodes=1:{shown[1]['step_time_s']:.4f}s")
    answer = json.loads(run("diagnose", "quickstart", *settings, *args, "--json").out)
    assert answer["causes"][0]["cause"] == "network"
    assert [one["setting"] for one in answer["other_runs"]] == ["nodes=1"]


def test_a_busy_share_is_an_idle_time(run: Any) -> None:
    """Of 20 s in which kernels run 70 % of the time 6 s are idle: nothing that kernels do explains them."""
    answer = found(run, "--step", "20s", "--busy", "70%")
    assert answer["terms_s"]["idle"] == pytest.approx(6)
    assert {one["cause"] for one in answer["causes"][:3]} <= {"fixed", "host", "stage"}
    busy = found(run, "--step", "20s", "--busy", "97%")
    assert busy["causes"][0]["cause"] not in {"fixed", "host", "stage"}


@pytest.mark.parametrize(
    "text",
    ["micro_batch=2", "global_batch=1024:25s", "micro_batch:2s", "micro_batch=2:-1s", "nodes=1:9s", "=:", "x=1:2s"],
)
def test_what_is_no_second_run_is_a_fault(run: Any, text: str) -> None:
    assert run("diagnose", NAME, "--step", "20s", "--also", text).code == 2
