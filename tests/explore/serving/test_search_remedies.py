"""What a search of a serving scenario offers where no plan of it keeps every limit."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
from estimate.serving.cases import inputs

from costmodel.explore.search.value_ranges import axes
from costmodel.explore.serving.search_layouts import search
from costmodel.explore.serving.search_remedies import with_search_remedies


@pytest.mark.parametrize(
    ("settings", "over", "first"),
    [
        (("workload.rate=50 /s",), (), "cluster.nodes=11"),  # replicas of tp 8, one a node, at 4.68 requests/s each
        pytest.param(  # none fits on one node
            ("model=deepseek-v3", "cluster.nodes=1"), (), "cluster.nodes=8", marks=pytest.mark.whole
        ),
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
    assert found.tally.safe == 0
    assert found.offers.remedies[0].settings[0] == first
    for remedy in found.offers.remedies:
        again = search(inputs(*settings, *remedy.settings), 1)
        assert again.tally.safe > 0
        assert again.best[0].sizes == remedy.best.sizes


SMALL = ("--model", "qwen-3-32b", "--gpu", "l40s", "--gpus", "1", "--rate", "1", "--prompt", "2k", "--answer", "300")
BATCH = ("--model", "qwen-3-14b", "--gpu", "l40s", "--gpus", "8", "--prompt", "800", "--answer", "200",
         "--set", "workload.requests=1M", "--set", "limits.makespan.at_most=2h")  # fmt: skip
BIG = ("--model", "qwen-3-235b-a22b", "--gpu", "h200", "--gpus", "16", "--rate", "10", "--prompt", "4000",
       "--answer", "800", "--set", "limits.ttft_p99.at_most=2s", "--set", "limits.tpot.at_most=40ms")  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "size"),
    [(SMALL, 4), pytest.param(BIG, 40, marks=pytest.mark.whole), pytest.param(BATCH, 40, marks=pytest.mark.whole)],
)
def test_a_search_by_gpus_names_the_fewest_that_suffice(asked: tuple[str, ...], size: int, run: Any) -> None:
    """The line that is printed is typed to the letter, and one size smaller."""
    first = run("search", *asked, "--safe", "off")  # a chance that is preferred asks for more
    assert first.code == 1
    assert f"try  --gpus {size}" in first.out
    words = shlex.split(first.out.split("Next: costmodel ")[1])
    again = run(*words)
    assert again.code == 0
    assert "has no effect" not in again.out
    smaller = size // 2 if size <= 8 else size - 8
    words[words.index("--gpus") + 1] = str(smaller)
    assert run(*words).code == 1


def test_an_estimate_of_the_nearest_plan_leads_back_to_no_search(run: Any) -> None:
    """The estimate that a search names where no plan keeps the limits has what the search found out."""
    asked = ("serve-llama-3.1-70b", "--set", "limits.tpot.at_most=5ms")
    found = run("search", *asked).out
    words = shlex.split(found.split("Next, the nearest plan: costmodel ")[1].splitlines()[0])
    (least,) = re.findall(r"even for single requests. .* has tpot ([\d.]+ ms)", found)
    out = run(*words).out
    nearest = "The nearest, tp 8 · pp 2 · 1 replica"
    assert f"No plan meets the limits, even for single requests. {nearest}, has tpot {least}" in out
    assert "costmodel search" not in out


def test_limits_that_no_plan_keeps_are_named_with_the_nearest(run: Any) -> None:
    out = run("search", "serve-llama-3.1-70b", "--set", "limits.tpot.at_most=5ms").out
    found = re.search(r"even for single requests. The nearest, \d+ × (.*), has tpot ([\d.]+) ms", out)
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
    times = r"([\d.]+) ms per token, first token ([\d.]+) ms \(p99\)"
    (stated,) = re.findall(rf"With \d+ \w+: {times}, ([\d.]+) % chance to meet all limits", out)
    values = (1e3 * found["tpot_s"], 1e3 * found["ttft_p99_s"], 100 * found["limits_chance"])
    assert [float(word) for word in stated] == pytest.approx(values, rel=0.01)


def test_a_degree_that_does_not_divide_is_named_not_lack_of_room(run: Any) -> None:
    out = run("search", *BIG, "--set", "plan.tp=8", "--set", "plan.ep=3").out
    assert "L056" in out


def test_nothing_is_offered_where_a_plan_keeps_the_limits_or_nothing_would() -> None:
    assert with_search_remedies(search(inputs())).offers.remedies == ()
    assert with_search_remedies(search(inputs("limits={tpot: {at_most: 1 ms}}"))).offers.remedies == ()


def test_a_preferred_and_a_demanded_chance_offer_the_same(run: Any) -> None:
    """By default the plans without it are shown, with the remedies and both sizes that --safe 90% prints."""
    default, demanded = (run("search", "serve-llama-3.1-70b", *safe) for safe in ((), ("--safe", "90%")))
    assert (default.code, demanded.code) == (0, 1)
    both = "  16 GPUs: 80 % chance; 24 GPUs: 99.5 % chance (--safe off shows 16)\n"
    assert both in default.out
    assert both in demanded.out
    offered = [re.findall(r"(?m)^  (?:try|   )  (--set .*)$", ran.out) for ran in (default, demanded)]
    assert offered[0] == offered[1] != []
    assert "meets all limits with a chance of 90 %\n" in default.out
    assert "Their rent is" in default.out
