"""A search of reinforcement learning over values of keys, and the front of two results."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.rl_scenario import RlCase, reinforced
from costmodel.estimate.rl.predict_rl import RlAnswer, answer, predict
from costmodel.explore import rl
from costmodel.explore.answer_summaries import rl_degrees, rl_settings
from costmodel.explore.rl import search
from costmodel.explore.scenario_from_flags import ScenarioFlags, scenario_from_flags
from costmodel.explore.search.required_chance import preferring
from costmodel.explore.search.value_ranges import axes
from costmodel.ground.errors import CostModelError

NAME = "grpo-qwen-2.5-7b-64"
SMALL = ("search={tp: [1], cp: [2], rollout_tp: [2, 4]}",)


def case_of(*settings: str) -> RlCase:
    return reinforced(load_any(NAME, [*SMALL, *settings]))


def test_a_search_over_values_has_the_plans_of_the_searches_at_each() -> None:
    together = search(case_of(), 100, axes(["cluster.nodes=4,8"]))
    apart = {nodes: search(case_of(f"cluster.nodes={nodes}"), 100) for nodes in ("4", "8")}
    assert together.tally.candidates == sum(found.tally.candidates for found in apart.values())
    assert [together.values(part.number) for part in together.parts] == [{"cluster.nodes": "4"}, {"cluster.nodes": "8"}]
    for part in together.parts:
        (nodes,) = together.values(part.number).values()
        own = apart[nodes]
        assert part.best is not None
        assert part.best.costs == pytest.approx(own.best[0].costs, nan_ok=True)
        there = [each.costs["iteration_time"] for each in together.best if each.variant == part.number]
        assert there == [each.costs["iteration_time"] for each in own.best]
    times = [each.costs["iteration_time"] for each in together.best if each.works]
    assert times == sorted(times)


def tried_plans(monkeypatch: pytest.MonkeyPatch) -> list[RlAnswer]:
    """Every plan that is evaluated from now on."""
    seen: list[RlAnswer] = []

    def watched(*asked: Any) -> RlAnswer:
        seen.append(answer(*asked))
        return seen[-1]

    monkeypatch.setattr(rl, "answer", watched)
    return seen


def test_no_plan_that_was_tried_beats_one_of_the_front_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tried_plans(monkeypatch)
    found = search(case_of(), 1, axes(["cluster.nodes=4,8"]), "memory_peak,tokens_per_s_per_gpu")
    assert found.front is not None
    front = [(each.costs["memory_peak"], each.costs["tokens_per_s_per_gpu"]) for each in found.front.rows]
    tried = [(each.costs["memory_peak"], each.costs["tokens_per_s_per_gpu"]) for each in seen if each.works]
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
    assert (lacks["best"], "bf16" in lacks["fault"]["text"]) == (None, True)
    page = run("search", NAME, *over, "--format", "html").out
    assert "At each value" in page
    assert lacks["fault"]["text"].split(";")[0][:40] in page


def test_a_front_has_its_plans_in_every_form(run: Any) -> None:
    asked = ("search", NAME, "--pareto", "memory_peak,iteration_time", *(("--set", SMALL[0])))
    found = json.loads(run(*asked, "--json").out)["pareto"]
    rows = run(*asked, "--csv").out.splitlines()
    assert [axis["name"] for axis in found["axes"]] == ["memory_peak_bytes", "iteration_time_s"]
    assert len(rows) - 1 == len(found["plans"]) > 0
    times = [plan["iteration_time_s"] for plan in found["plans"]]
    assert times == sorted(times, reverse=True)
    assert all(map(math.isfinite, times))
    assert f"{len(found['plans'])} plans on the Pareto front" in run(*asked, "--format", "html").out


def test_a_front_without_a_safe_plan_is_of_those_that_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chance that no plan has leaves those that fit by the average prediction; the head of the answer says so."""
    seen = tried_plans(monkeypatch)
    found = search(preferring(case_of(), 1.1), 1, (), "memory_peak,iteration_time")
    assert (found.tally.safe, found.is_safe) == (0, False)
    assert found.front is not None
    tried = {(each.costs["memory_peak"], each.costs["iteration_time"]) for each in seen if each.works}
    unbeaten = {one for one in tried if not any(x <= one[0] and y <= one[1] and (x, y) != one for x, y in tried)}
    assert {(each.costs["memory_peak"], each.costs["iteration_time"]) for each in found.front.rows} == unbeaten


def test_states_are_sharded_further_where_no_plan_fits_surely(run: Any) -> None:
    """The stage of the software leaves no plan that fits; the first that does so surely is taken, and what sets it."""
    flags = ScenarioFlags(model="qwen-2.5-7b", gpus=8, stack="trl")
    sizes = ["workload.response.limit=8192", "search={ranks: [4], rollout_tp: [4]}"]
    case = preferring(reinforced(scenario_from_flags(None, flags, sizes)), 0.9)
    found = search(case, 1)
    best = found.answer_of(found.best[0])
    chances = {
        zero: answer(case, best.inputs.plan.model_copy(update={"zero": zero})).costs["fit_chance"] for zero in (1, 2, 3)
    }
    assert chances[1] < chances[2] < 0.9 <= chances[3]
    assert (found.is_safe, rl_degrees(best)["zero"]) == (True, 3)
    settings = [f"{path}={value}" for path, value in rl_settings(best).items()]
    again = predict(reinforced(scenario_from_flags(None, flags, [*sizes, *settings])))
    assert again.costs == pytest.approx(best.costs, nan_ok=True)
    words = [word for item in sizes for word in ("--set", item)]
    shown = run("search", *flags.words, *words).out
    head, row = (next(line for line in shown.splitlines() if start in line) for start in ("generate", " tp 4 "))
    assert dict(zip(head.split(), row.split(), strict=False))["zero"] == "3"


def test_a_plan_at_risk_is_said_to_be(run: Any) -> None:
    """Of a search without a safe plan the surest stands in the place of the best, with its chance where it fits."""
    words = ("--model", "qwen-2.5-7b", "--gpus", "8", "--stack", "trl", "--set", "workload.response.limit=8192")
    words = (*words, "--set", "search={ranks: [4], rollout_tp: [4]}", "--set", "stack.trainer.zero=[1, 2]")
    shown, memory = run("estimate", *words).out, run("memory", *words).out
    assert "zero 2 · rollout.tp 4" in shown
    assert ": the plan surest to fit of costmodel search" in shown
    chance = re.search(r"at risk: (\d+ %) to fit", shown)
    assert chance is not None
    assert f"at risk: {chance[1]} to fit" in memory


def test_the_rent_of_an_iteration_stands_beside_its_time_where_there_is_a_price(run: Any) -> None:
    few = ("--set", "search={tp: [1], cp: [1], ranks: [4], rollout_tp: [1]}", "--top", "1")
    asked = ("search", "--rl", "grpo", "--model", "qwen-3-8b", "--gpus", "8", *few)
    priced = (*asked, "--gpu", "h100", "--price", "3USD/GPU/h")
    found = re.search(r"\$(\d+\.\d+)", run(*priced).out.partition("generate")[2])
    assert found is not None
    time = json.loads(run(*priced, "--json").out)["plans"][0]["iteration_time_s"]
    assert float(found[1]) == pytest.approx(8 * 3 * time / 3600, rel=0.01)
    head = run(*asked, "--gpu", "mi250x").out.partition("generate")[2].splitlines()[0]  # which has no offer
    assert "iteration" in head
    assert "cost" not in head


@pytest.mark.parametrize(
    ("setting", "held"),
    [
        ("plan={cp: 2, rollout: {tp: 2, colocated: false, ranks: 24}}", {"ranks": 24, "tp": 2, "colocated": False}),
        ("plan={cp: 2, rollout: {colocated: false, ranks: 8}}", {"ranks": 8, "colocated": False}),
        ("plan={cp: 2, rollout: {tp: 4}}", {"tp": 4}),
        ("plan={cp: 2, rollout: {offload: true}}", {"offload": True, "colocated": True}),
        ("plan.rollout={tp: 4}", {"tp": 4}),
    ],
)
def test_a_search_holds_each_key_of_a_plan_that_is_set_as_a_mapping(setting: str, held: dict[str, Any]) -> None:
    flags = ScenarioFlags(rl="grpo", model="qwen3-8b", gpu="h100", gpus=32)
    found = search(reinforced(scenario_from_flags(None, flags, [setting])), 100)
    assert found.best
    for row in found.best:
        assert row.plan["rollout"] | held == row.plan["rollout"]
        assert row.plan["cp"] == 2 or "cp" not in setting


def test_a_stated_micro_batch_that_ranks_cannot_fill_is_no_plan() -> None:
    flags = ScenarioFlags(rl="grpo", model="qwen3-8b", gpu="h100", gpus=32, prompts="8", samples="4")
    found = search(reinforced(scenario_from_flags(None, flags, ["plan={tp: 1, cp: 1, micro_batch: 64}"])), 100)
    assert not found.best
    assert found.tally.refused["R018"]


JOB = ("--rl", "grpo", "--model", "qwen3-32b", "--gpu", "h100", "--gpus", "32")


def test_each_refused_plan_counts_under_one_reason(run: Any) -> None:
    split = ("--set", "plan.rollout.ranks=12", "--set", "plan.rollout.colocated=false")
    out = run("search", *JOB, *split, "--set", "workload.staleness=1", "--why-not").out
    assert "Why not: 8 of 8 plans are rejected" in out
    found = search(case_of("workload.staleness=1"), 1)
    assert sum(found.tally.refused.values()) + found.tally.safe <= found.tally.candidates


def test_what_was_not_searched_adds_to_what_was(run: Any) -> None:
    """The named options keep the plans of the answer that names them, so what they lead to is never worse."""
    out = run("search", *JOB).out
    (named,) = re.findall("Not searched: stale weights and partial rollouts; add them with (.*)", out)
    first, better = (json.loads(run("search", *JOB, *more, "--json").out)["plans"][0] for more in ((), named.split()))
    assert better["iteration_time_s"] < 0.9 * first["iteration_time_s"]
    assert "Not searched" not in run("search", *JOB, *named.split()).out


def test_values_that_contradict_each_other_make_a_row_without_plans() -> None:
    """Partial rollouts need staleness: without it they have no plans, with it they have; a wrong value is a fault."""
    found = search(case_of(), 1, axes(["workload.staleness=0,1", "workload.rollouts=batch,partial"]))
    assert [part.fault.code if part.fault else "" for part in found.parts] == ["", "D006", "", ""]
    for wrong in (["workload.rollouts=batch,partial"], ["workload.staleness=0,-1", "workload.rollouts=batch"]):
        with pytest.raises(CostModelError) as raised:
            search(case_of(), 1, axes(wrong))
        assert raised.value.faults[0].place is not None
        assert raised.value.faults[0].place.text.startswith("--over")
