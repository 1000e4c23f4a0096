"""The fewest accelerators that answer a load, named where no plan on those of the scenario does."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

JOB = ("--model", "llama-3.1-70b", "--gpu", "h100", "--prompt", "2000", "--answer", "500")
SOON = ("--set", "limits.ttft_p99.at_most=1s")


@pytest.mark.parametrize(
    "asked",
    [("--rate", "1", *SOON), *(pytest.param(("--rate", rate), marks=pytest.mark.whole) for rate in ("1", "3"))],
)
def test_no_dearer_way_is_named_than_one_to_try(asked: tuple[str, ...], run: Any) -> None:
    """A replica of four GPUs has room for more requests than three replicas of two: their weights are there once."""
    out = run("search", *JOB, *asked, "--gpus", "2").out
    (needed,) = re.findall(r"need 1 replica of tp 4: (\d+) GPUs on 1 node of 8$", out, re.M)
    tries = re.findall(r"^ +(?:try +)?(--gpus .*) {2,}1 × tp 4, (\d+) GPUs$", out, re.M)
    assert [gpus for _, gpus in tries] == [needed] == ["4"]
    assert "you need:" not in out
    (typed,) = re.findall(r"^Fewest GPUs, 4: costmodel (.*)", out, re.M)
    (plan,) = json.loads(run(*shlex.split(typed), "--json").out)["plans"]
    assert plan["gpus"] == 4
    (tpot,) = re.findall(r"With [\d,]+ \w+: (\S+) ms per token", out)
    assert 1e3 * plan["tpot_s"] == pytest.approx(float(tpot), rel=0.01)
    for tp, pp in ((1, 1), (2, 1), (1, 2)):  # whatever has fewer
        fewer = run("estimate", *JOB, *asked, "--gpus", "2", "--set", f"plan.tp={tp}", "--set", f"plan.pp={pp}")
        assert fewer.code == 1


def test_more_replicas_of_the_first_plan_are_named_where_none_needs_fewer(run: Any) -> None:
    out = run("search", *JOB, "--rate", "50", "--gpus", "8").out
    assert re.search(r"With plan 1, .* need (\d+) replicas of tp 4: .*With the \1 replicas you need:", out, re.S)


@pytest.mark.parametrize(("gpus", "rate"), [(2, 1), pytest.param(2, 3, marks=pytest.mark.whole), (1, 20)])
def test_estimate_tries_the_fewest_gpus_before_more_replicas(gpus: int, rate: int, run: Any) -> None:
    """Typed to the letter, the first answers the load with fewer GPUs than more replicas of the same plan take."""
    job = ("--rate", f"{rate}", "--set", "workload.weights=fp8") if gpus == 1 else ("--rate", f"{rate}")
    out = run("estimate", *JOB, *job, "--gpus", f"{gpus}").out
    first, second = re.findall(r"^ +(?:try +)?--gpus (\d+) (.*)", out, re.M)
    assert int(first[0]) < int(second[0])
    assert run("estimate", *JOB, *job, "--gpus", first[0], *shlex.split(first[1])).code == 0
