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
    (typed,) = re.findall(r"^Next, the fewest GPUs, 4: costmodel (.*)", out, re.M)
    (plan,) = json.loads(run(*shlex.split(typed), "--json").out)["plans"]
    assert plan["gpus"] == 4
    (tpot,) = re.findall(r"With [\d,]+ \w+: (\S+) ms per token", out)
    assert 1e3 * plan["tpot_s"] == pytest.approx(float(tpot), rel=0.01)
    for tp, pp in ((1, 1), (2, 1), (1, 2)):  # whatever has fewer
        fewer = run("estimate", *JOB, *asked, "--gpus", "2", "--set", f"plan.tp={tp}", "--set", f"plan.pp={pp}")
        assert fewer.code == 1


def test_more_replicas_of_the_first_plan_are_named_where_none_needs_fewer(run: Any) -> None:
    out = run("search", *JOB, "--rate", "50", "--gpus", "8").out
    assert re.search(
        r"requests/s need .*: (\d+) replicas of tp 4, as in plan 1.*Next, with the \1 replicas you need:", out, re.S
    )


@pytest.mark.parametrize(("gpus", "rate"), [(2, 1), pytest.param(2, 3, marks=pytest.mark.whole), (1, 20)])
def test_estimate_tries_the_fewest_gpus_before_more_replicas(gpus: int, rate: int, run: Any) -> None:
    """Typed to the letter, the first answers the load with fewer GPUs than more replicas of the same plan take."""
    job = ("--rate", f"{rate}", "--set", "workload.weights=fp8") if gpus == 1 else ("--rate", f"{rate}")
    out = run("estimate", *JOB, *job, "--gpus", f"{gpus}").out
    first, second = re.findall(r"^ +(?:try +)?--gpus (\d+) (.*)", out, re.M)
    assert int(first[0]) < int(second[0])
    assert run("estimate", *JOB, *job, "--gpus", first[0], *shlex.split(first[1])).code == 0


def served(run: Any, *asked: str) -> dict[str, dict[str, Any]]:
    """The rows of machines beneath the memory of a model, by accelerator."""
    return {row["accelerator"]: row for row in json.loads(run("memory", *asked, "--json").out).get("machines", [])}


def test_memory_without_a_machine_has_a_row_for_every_accelerator(run: Any) -> None:
    """By the fewest accelerators that hold it: the answer about one more or one fewer is another."""
    asked = ("--model", "llama-3.1-70b", "--prompt", "2000", "--answer", "500")
    rows = served(run, *asked, "--stack", "vllm")
    assert len(rows) == 20
    h100, b200 = rows["h100-sxm"], rows["b200-sxm"]
    assert (h100["gpus"], b200["gpus"]) == (2, 1)
    assert b200["weights_bytes"] == pytest.approx(70.55e9 * 2, rel=0.01)
    one = ("--gpu", "h100", "--concurrency", "1", "--set", "plan={tp: 1, pp: 2, replicas: 1}")
    alone = json.loads(run("memory", *asked, *one, "--json").out)["plans"][0]
    assert h100["concurrency_steady"] == pytest.approx(alone["concurrency_steady"])
    assert h100["longest_context"] == pytest.approx(alone["cache_pool_tokens"])
    assert rows["b300-sxm"]["longest_context"] == 131_072  # the model's
    assert rows["t4"]["gpus"] is None
    assert "D016" in rows["t4"]["against"]
    estimated = json.loads(run("estimate", *asked, *one, "--json").out)["plans"][0]
    assert h100["tokens_per_s_per_user"] == pytest.approx(estimated["tokens_per_s_per_user"])
    assert h100["output_tokens_per_s_at_most"] == pytest.approx(estimated["saturation_per_s"] * 500)


def test_only_where_no_machine_and_no_other_job_is_stated(run: Any) -> None:
    model = ("--model", "llama-3.1-8b")
    assert "h100-sxm" in served(run, *model)  # where training is assumed too
    for stated in (("--gpu", "h100"), ("--batch", "64", "--sequence", "4096"), ("--rl", "grpo"), ("--gpus", "8")):
        assert not served(run, *model, *stated)
