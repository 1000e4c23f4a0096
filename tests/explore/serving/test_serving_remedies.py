"""What a search of a serving scenario offers where no plan of it keeps every limit."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
from estimate.serving.cases import inputs, predicted

from costmodel.explore.search.ranges import axes
from costmodel.explore.serving.search_layouts import search
from costmodel.explore.serving.serving_remedies import with_remedies, with_search_remedies
from costmodel.report.terminal.serving.serving_reasons import reason


@pytest.mark.parametrize(
    ("settings", "over", "first"),
    [
        (("workload.rate=50 /s",), (), "cluster.nodes=11"),  # replicas of tp 8, one a node, at 4.68 requests/s each
        (("model=deepseek-v3", "cluster.nodes=1"), (), "cluster.nodes=8"),  # none fits on one node
        (("workload.rate=16 /s",), ("cluster.node=dgx-h100,dgx-h200",), "cluster.node=dgx-h200"),
        (
            ("workload.rate=null", "workload.requests=20k", "limits={makespan: {at_most: 10 min}}"),
            (),
            "cluster.nodes=5",
        ),
    ],
)
def test_a_search_under_each_remedy_finds_a_plan_that_keeps_the_limits(
    settings: tuple[str, ...], over: tuple[str, ...], first: str
) -> None:
    found = with_search_remedies(search(inputs(*settings), 3, axes(over)))
    assert found.kept == 0
    assert found.remedies[0].settings[0] == first
    for remedy in found.remedies:
        again = search(inputs(*settings, *remedy.settings), 1)
        assert again.kept > 0
        assert again.best[0].sizes == remedy.best.sizes


@pytest.mark.parametrize(
    ("fleet", "rate", "settings"),
    [
        ((1, 1), 8, ("plan.prefill.replicas=2",)),  # prompts alone are short
        ((4, 1), 24, ("plan.decode.replicas=2",)),
        ((1, 1), 20, ("plan.prefill.replicas=3", "plan.decode.replicas=2")),
        ((7, 1), 50, ("plan.prefill.replicas=8", "plan.decode.replicas=3", "cluster.nodes=11")),
    ],
)
def test_a_remedy_adds_instances_of_the_kind_that_is_short(
    fleet: tuple[int, int], rate: int, settings: tuple[str, ...]
) -> None:
    plan = f"plan={{prefill: {{tp: 8, replicas: {fleet[0]}}}, decode: {{tp: 8, replicas: {fleet[1]}}}}}"
    scenario = ("cluster.nodes=8", f"workload.rate={rate} /s", plan)
    assert (settings,) in with_remedies(predicted(*scenario)).remedies
    assert not predicted(*scenario, *settings).broken


SMALL = ("--model", "qwen-3-32b", "--gpu", "l40s", "--gpus", "1", "--rate", "1", "--prompt", "2k", "--answer", "300")
BATCH = ("--model", "qwen-3-14b", "--gpu", "l40s", "--gpus", "8", "--prompt", "800", "--answer", "200",
         "--set", "workload.requests=1M", "--set", "limits.makespan.at_most=2h")  # fmt: skip
BIG = ("--model", "qwen-3-235b-a22b", "--gpu", "h200", "--gpus", "16", "--rate", "10", "--prompt", "4000",
       "--answer", "800", "--set", "limits.ttft_p99.at_most=2s", "--set", "limits.tpot.at_most=40ms")  # fmt: skip


@pytest.mark.parametrize(("asked", "size"), [(SMALL, 4), (BIG, 40), (BATCH, 40)])
def test_a_search_by_gpus_names_the_fewest_that_suffice(asked: tuple[str, ...], size: int, run: Any) -> None:
    """The line that is printed is typed to the letter, and one size smaller."""
    first = run("search", *asked)
    assert first.code == 1
    assert f"try  --gpus {size}" in first.out
    words = shlex.split(first.out.split("Next: costmodel ")[1])
    again = run(*words)
    assert again.code == 0
    assert "has no effect" not in again.out
    smaller = size // 2 if size <= 8 else size - 8
    words[words.index("--gpus") + 1] = str(smaller)
    assert run(*words).code == 1


@pytest.mark.parametrize(
    ("asked", "tries"),
    [
        (("--model", "llama-3.1-405b", "--gpu", "h100", "--gpus", "8", "--set", "plan.tp=8"),
         ("--set workload.weights=fp8", "--gpus 16 --set plan.pp=2")),
        (("--model", "mixtral-8x7b", "--gpu", "l40s", "--gpus", "8", "--set", "plan={tp: 2, ep: 2, replicas: 4}"),
         ("--set plan.tp=4 --set plan.ep=4 --set plan.replicas=2",)),
    ],
)  # fmt: skip
def test_a_plan_that_does_not_fit_has_remedies_that_fit_to_the_letter(
    asked: tuple[str, ...], tries: tuple[str, ...], run: Any
) -> None:
    job = ("--rate", "1", "--prompt", "2000", "--answer", "300")
    out = run("estimate", *asked, *job).out
    for each in tries:
        assert each in out
        words = shlex.split(each)
        kept = asked[:4] + asked[6:] if "--gpus" in words else asked
        assert "M001" not in run("estimate", *kept, *job, *words).out


def test_limits_that_no_plan_keeps_are_named_with_the_nearest(run: Any) -> None:
    out = run("search", "serve-llama-3.1-70b", "--set", "limits.tpot.at_most=5ms").out
    found = re.search(r"even of one request at a time: the nearest, \d+ × (.*), has tpot ([\d.]+) ms", out)
    assert found is not None
    plans = search(inputs("workload.rate=1e-6 /s", "limits.tpot.at_most=5ms"), 1000).best
    assert float(found[2]) == pytest.approx(1e3 * min(plan.costs["tpot"] for plan in plans), abs=0.06)


def test_the_size_that_is_named_has_its_own_times_and_chance(run: Any) -> None:
    """As estimate gives them with as many replicas, not those of the whole cluster above."""
    job = ("serve-llama-3.1-70b", "--set", "cluster.nodes=8", "--set", "workload.rate=20 /s")
    out = run("search", *job, "--top", "1").out
    replicas, tp = re.findall(r"need (\d+) replicas of tp (\d+)", out)[0]
    plan = ("--set", f"plan.tp={tp}", "--set", f"plan.replicas={replicas}", "--set", "stack.budget=16384")
    (found,) = json.loads(run("estimate", *job, *plan, "--json").out)["plans"]
    stated = re.findall(r"With so many: tpot ([\d.]+) ms and ttft p99 ([\d.]+) ms, and a chance of (\d+)%", out)[0]
    values = (1e3 * found["tpot_s"], 1e3 * found["ttft_p99_s"], 100 * found["limits_chance"])
    assert [float(word) for word in stated] == pytest.approx(values, rel=0.01)


def test_a_degree_that_does_not_divide_is_named_not_lack_of_room(run: Any) -> None:
    out = run("search", *BIG, "--set", "plan.tp=8", "--set", "plan.ep=3").out
    assert "L056" in out


def test_nothing_is_offered_where_a_plan_keeps_the_limits_or_nothing_would() -> None:
    assert with_search_remedies(search(inputs())).remedies == ()
    assert with_search_remedies(search(inputs("limits={tpot: {at_most: 1 ms}}"))).remedies == ()


def test_instances_apart_that_are_too_many_have_remedies() -> None:
    """Prefill of 4 GPUs and decode of 8 take 12 of 8: smaller ones, or two nodes."""
    answer = with_remedies(predicted("plan={prefill: {tp: 4}, decode: {tp: 8}}", "cluster.nodes=1"))
    assert answer.refused == ("L050",)
    assert reason(answer, "L050") == "prefill 1 × tp 4 and decode 1 × tp 8 need 12 accelerators, and the cluster has 8"
    offered = [setting for kind in answer.remedies for setting in kind]
    assert ("cluster.nodes=2",) in offered
    assert ("plan.decode.tp=4",) in offered
    for settings in offered:
        base = (*(() if "cluster" in settings[0] else ("cluster.nodes=1",)), *settings)
        assert not predicted("plan={prefill: {tp: 4}, decode: {tp: 8}}", *base).refused
    halves = "plan={prefill: {tp: 4, replicas: 2}, decode: {tp: 8, replicas: 2}}"
    assert [kind[0] for kind in with_remedies(predicted(halves)).remedies][:2] == [
        ("plan.decode.replicas=1",),
        ("cluster.nodes=3",),
    ]


@pytest.mark.parametrize("load", ["workload.rate=8 /s", "workload.rate=1 /s"])
def test_full_links_between_instances_are_named_with_remedies(load: str) -> None:
    plan = "plan={prefill: {tp: 8, replicas: 2}, decode: {tp: 8}}"
    scenario = ("cluster.nodes=3", "cluster.fabric.bandwidth=1 Gbit/s", plan, load)
    answer = with_remedies(predicted(*scenario))
    if "S005" in answer.broken:
        assert "the links between them (ib-ndr) are full" in reason(answer, "S005")
        assert "at most 1.43 requests/s" in reason(answer, "S005")
    kinds = {settings[0].partition("=")[0]: settings for kind in answer.remedies for settings in kind}
    assert {"cluster.fabric.bandwidth", "plan"} <= {*kinds}
    others = scenario[:2] + scenario[3:]  # a whole plan takes the place of the one before
    assert not predicted(*scenario, *kinds["cluster.fabric.bandwidth"]).broken
    assert not predicted(*others, *kinds["plan"]).broken


@pytest.mark.parametrize(
    ("load", "fewer", "more"),
    [
        ("users: 500, think_time: 30 s", "workload.users=390", "plan.replicas=3"),
        ("users: 5000, think_time: 30 s", "workload.users=390", "plan.replicas=25"),
        ("concurrency: 1000", "workload.concurrency=120", "plan.replicas=17"),
    ],
)
def test_a_load_that_waits_for_answers_has_remedies(load: str, fewer: str, more: str) -> None:
    scenario = f"workload={{kind: serving, prompt: 2048, output: 512, {load}}}"
    answer = with_remedies(predicted(scenario))
    assert {"S001", "S002"} & {*answer.broken}
    assert [kind[0][0] for kind in answer.remedies[:2]] == [fewer, more]
    for kind in answer.remedies:
        assert not predicted(scenario, *kind[0]).broken
