"""A search of reinforcement learning over values of keys, and the front of two results."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.rl_scenario import RlCase, reinforced
from costmodel.explore.rl.search_splits import search
from costmodel.explore.search.ranges import axes

NAME = "grpo-qwen-2.5-7b-64"
SMALL = ("search={tp: [1, 2], cp: [2], rollout_tp: [2, 4]}",)


def case_of(*settings: str) -> RlCase:
    return reinforced(load_any(NAME, [*SMALL, *settings]))


def test_a_search_over_values_has_the_plans_of_the_searches_at_each() -> None:
    together = search(case_of(), 100, axes(["cluster.nodes=4,8"]))
    apart = {nodes: search(case_of(f"cluster.nodes={nodes}"), 100) for nodes in ("4", "8")}
    assert together.evaluated == sum(found.evaluated for found in apart.values())
    assert [each.values for each in together.at] == [{"cluster.nodes": "4"}, {"cluster.nodes": "8"}]
    for at in together.at:
        (nodes,) = at.values.values()
        own = apart[nodes]
        assert at.best is not None
        assert at.best.costs == pytest.approx(own.best[0].costs, nan_ok=True)
        there = [each.costs["iteration_time"] for each in together.best if together.values_of(each) == at.values]
        assert there == [each.costs["iteration_time"] for each in own.best]
    times = [each.costs["iteration_time"] for each in together.best if each.works]
    assert times == sorted(times)


def test_no_plan_that_was_tried_beats_one_of_the_front_in_both() -> None:
    found = search(case_of(), 1, axes(["cluster.nodes=4,8"]), "memory_peak,tokens_per_s_per_gpu")
    front = [(each.costs["memory_peak"], each.costs["tokens_per_s_per_gpu"]) for each in found.front]
    tried = [(each.costs["memory_peak"], each.costs["tokens_per_s_per_gpu"]) for each in found.compared]
    assert len(tried) > len(front) > 0
    assert front == sorted(front)
    for memory, rate in tried:
        assert not all(memory < less and rate > more for less, more in front)
        assert any(less <= memory and more >= rate for less, more in front)


def test_a_value_without_a_machine_is_a_row_with_the_reason(run: Any) -> None:
    """A GPU that has no bf16 leaves the plans of the other; a value that cannot be is refused."""
    over = ("--over", "cluster.node=dgx-h100,dgx-1v", *(part for item in SMALL for part in ("--set", item)))
    answer = json.loads(run("search", NAME, *over, "--json").out)
    works, lacks = answer["values"]
    assert works["best"]["iteration_time_s"] == answer["plans"][0]["iteration_time_s"]
    assert (lacks["best"], "bf16" in lacks["fault"]) == (None, True)
    page = run("search", NAME, *over, "--format", "html").out
    assert "At each value" in page
    assert lacks["fault"].split(";")[0][:40] in page


def test_a_front_has_its_plans_in_every_form(run: Any) -> None:
    asked = ("search", NAME, "--pareto", "memory_peak,iteration_time", *(("--set", SMALL[0])))
    found = json.loads(run(*asked, "--json").out)["pareto"]
    rows = run(*asked, "--csv").out.splitlines()
    assert found["axes"] == ["memory_peak_bytes", "iteration_time_s"]
    assert len(rows) - 1 == len(found["plans"]) > 0
    times = [plan["iteration_time_s"] for plan in found["plans"]]
    assert times == sorted(times, reverse=True)
    assert all(map(math.isfinite, times))
    assert "beaten by no other in both" in run(*asked, "--format", "html").out


def test_a_front_without_a_safe_plan_is_of_those_that_work() -> None:
    """A chance that no plan has leaves those that fit by the average prediction; the head of the answer says so."""
    found = search(case_of(), 1, (), "memory_peak,iteration_time")
    found.safe = 1.1
    assert found.compared == found.tried
    assert len(found.front) > 0
