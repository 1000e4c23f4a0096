"""The commands on scenarios of reinforcement learning: forms, exit codes, faults, and what is refused by name."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from conftest import ledgers

import costmodel
from costmodel.documents.schemas.results import RL_COLUMNS, machine_name
from costmodel.documents.schemas.rl import PHASES
from costmodel.explore.vary import sensitivity

NAME = "grpo-qwen-2.5-7b-64"


def json_of(run: Any, *args: str) -> Any:
    """The answer as JSON."""
    return json.loads(run(*args, "--json").out)


def test_results_are_described_columns_and_phases_sum(run: Any) -> None:
    found = json_of(run, "estimate", NAME)
    (plan,) = found["plans"]
    columns = {column["name"] for column in found["columns"]}
    assert {machine_name(name) for name in RL_COLUMNS} == columns
    phases = [plan[machine_name(name)] for name in PHASES]
    assert plan["iteration_time_s"] == pytest.approx(sum(phases))
    assert plan["iteration_time_low_s"] < plan["iteration_time_s"] < plan["iteration_time_high_s"]
    (row,) = csv.DictReader(io.StringIO(run("estimate", NAME, "--format", "csv").out))
    assert float(row["generation_s"]) == pytest.approx(plan["generation_s"])


def test_the_ledger_and_the_transfers(run: Any) -> None:
    memory, sent = json_of(run, "memory", NAME), json_of(run, "comm", NAME)
    peak = max(sum(lines.values()) for lines in ledgers(memory).values())
    assert peak == pytest.approx(memory["plans"][0]["memory_peak_bytes"])
    sync = sent["weight_sync"]
    assert sync["time_s"] == pytest.approx(sync["bytes"] / sync["rate_bytes_per_s"])
    assert {item["of"] for item in sent["transfers"]} >= {"update", "engine step"}
    cut = ("stack.trainer=megatron-core", "plan.tp=2", "plan.cp=1", "plan.cp_type=null", "plan.zero=1")
    sharded = json_of(run, "comm", NAME, *(word for key in cut for word in ("--set", key)))["weight_sync"]
    assert sharded["layout"] == "sharded"
    assert sharded["rate_bytes_per_s"] < sync["rate_bytes_per_s"]


def test_search_ranks_splits_with_both_plans(run: Any) -> None:
    space = "search={tp: [1], cp: [2, 4], rollout_tp: [1, 2]}"
    stale = ("--set", "workload.staleness=0.5", "--set", "workload.rollouts=partial")
    found = json_of(run, "search", NAME, "--set", space, *stale)
    times = [plan["iteration_time_s"] for plan in found["plans"]]
    assert times == sorted(times)
    best = found["plans"][0]
    settings = [f"plan.cp={best['cp']}", f"plan.rollout.tp={best['rollout_tp']}"]
    if not best["colocated"]:
        settings += ["plan.rollout.colocated=false", f"plan.rollout.ranks={best['rollout_ranks']:.0f}"]
    again = json_of(run, "estimate", NAME, *stale, *(word for item in settings for word in ("--set", item)))
    assert again["plans"][0]["iteration_time_s"] == pytest.approx(times[0])
    held = json_of(run, "search", NAME, "--set", space, "--set", "plan.rollout={colocated: false, ranks: 16}")
    assert {plan["rollout_ranks"] for plan in held["plans"]} == {16}


def test_sweep_scale_diff_and_run(run: Any) -> None:
    points = json_of(run, "sweep", NAME, "--over", "workload.response.mean=2k,8k")["points"]
    assert points[0]["iteration_time_s"] < points[1]["iteration_time_s"]
    sizes = json_of(run, "scale", NAME, "--ranks", "32..128")["sizes"]
    assert [size["gpus"] for size in sizes] == [32, 64, 128]
    assert 1 == sizes[0]["efficiency"] > sizes[1]["efficiency"] > sizes[2]["efficiency"]
    weak = json_of(run, "scale", NAME, "--ranks", "32..128", "--weak")["sizes"]
    assert weak[2]["efficiency"] > sizes[2]["efficiency"] + 0.2
    moved = json_of(run, "diff", NAME, "--set", "workload.algorithm=ppo")
    assert {move["path"] for move in moved["inputs"]} == {"workload.algorithm"}
    assert json_of(run, "diff", NAME, NAME)["same"]
    found = json_of(run, "run", NAME)
    assert found["run"]["steps"] == 400
    assert 0.9 < found["plans"][0]["goodput"] < 1


def test_a_power_cap_slows_training_alone_and_says_so(run: Any) -> None:
    capped, free, rated = (
        run("estimate", NAME, *more) for more in (("--set", "run.power.cap=400W"), (), ("--set", "run.power.cap=700W"))
    )
    words = "run.power.cap slows only training"
    assert words in capped.out
    assert words not in free.out
    assert words not in rated.out
    assert "slows only training" in run("run", NAME, "--set", "run.power.cap=400W").out
    slow, plain = (json_of(run, "estimate", NAME, *more)["plans"][0] for more in (("--set", "run.power.cap=400W"), ()))
    assert slow["generation_s"] == plain["generation_s"]
    assert slow["update_time_s"] > plain["update_time_s"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["estimate", NAME, "--set", "workload.response=4 k"], "a response needs mean and limit"),
        (["estimate", NAME, "--set", "workload.response={mean: 4 k, limit: 2 k}"], "longer than the limit"),
        (["estimate", NAME, "--set", "workload.rollouts=partial"], "set staleness over 0"),
        (["estimate", NAME, "--set", "workload.samples=1"], "samples is 2 or more"),
        (["estimate", NAME, "--set", "workload.mini_batch=10000"], "at most the answers"),
        (["estimate", NAME, "--set", "plan.rollout.ranks=8"], "colocated rollouts take all"),
        (["estimate", NAME, "--set", "plan.rollout.colocated=false"], "need their number"),
        (["estimate", NAME, "--set", "stack=vllm"], "no software for reinforcement learning"),
        (["estimate", NAME, "--set", "stack.trainer=vllm"], "stack.trainer"),
        (["estimate", NAME, "--set", "workload.algorithm=a3c"], "a3c"),
        (
            [
                "estimate",
                NAME,
                "--set",
                "cluster={groups: [{node: dgx-h100, nodes: 4}, {node: dgx-h200, nodes: 2}, "
                "{node: dgx-a100, nodes: 2}]}",
            ],
            "two kinds of nodes at most",
        ),
        (["check", NAME, "--exact"], "is about a baseline"),
        (["explain", NAME, "step_tme"], "'step_tme' is not known"),
        (["explain", NAME, "goodput"], "is not known"),
        (["search", NAME, "--pareto", "generation"], "is not two results"),
        (["search", NAME, "--set", "search.cp=[2]", "--over", "cluster.nodes=8,2.5"], "a whole number is expected"),
        (["scale", NAME, "--rate", "1..2"], "has no --rate"),
    ],
)
def test_faults_are_one_sentence(run: Any, words: list[str], sentence: str) -> None:
    ran = run(*words)
    assert ran.code == 2
    assert sentence in ran.err
    assert "Traceback" not in ran.err


def test_a_plan_that_does_not_fit_leaves_with_one(run: Any) -> None:
    assert run("estimate", NAME, "--set", "plan.rollout.memory=99 %").code == 1
    ran = run("estimate", NAME, "--set", "limits.iteration_time.at_most=60 s")
    assert (ran.code, "T001" in ran.out) == (1, True)


def _root(run: Any, figure: str, *words: str) -> list[dict[str, Any]]:
    """A figure that is explained, and those that it was made of."""
    figures = json_of(run, "explain", NAME, figure, *words)["figures"]
    return [figures[0], *(figures[place] for place in figures[0]["inputs"])]


def test_every_figure_leads_back_to_what_it_was_made_of(run: Any) -> None:
    """The trees of an iteration hold the numbers of the answer, down to lines of documents."""
    (plan,) = json_of(run, "estimate", NAME)["plans"]
    root, *parts = _root(run, "iteration_time")
    assert root["value"] == plan["iteration_time_s"]
    assert root["value"] == pytest.approx(sum(part["value"] for part in parts))
    assert [part["name"] for part in parts] == ["generation", "old_log_probabilities", "reference_time",
                                                          "update_time", "switch", "weight_sync"]  # fmt: skip
    peak, *parts = _root(run, "memory_peak")
    assert peak["value"] == plan["memory_peak_bytes"]
    assert sum(part["value"] for part in parts) == pytest.approx(peak["value"])
    lines = run("explain", NAME, "weight_sync", "--depth", "9").out
    assert "link_time" in lines
    assert "scenarios/stacks/verl.yaml" in lines
    failing, *_ = _root(run, "goodput", "--set", "run={}")
    assert failing["value"] == json_of(run, "run", NAME)["plans"][0]["goodput"]


def test_check_holds_limits(run: Any) -> None:
    kept = run("check", NAME, "--set", "limits.iteration_time.at_most=1 h", "--set", "limits.memory.at_most=90 %")
    assert (kept.code, "✓ 2 limits" in kept.out) == (0, True)
    broken = run("check", NAME, "--set", "limits.iteration_time.at_most=60 s", "--json")
    (scenario,) = json.loads(broken.out)["scenarios"]
    assert (broken.code, scenario["kept"]) == (1, False)
    assert scenario["findings"][0]["bound"] == 60
    assert run("check", NAME, "--set", "plan.rollout.memory=99 %").code == 1


def test_sensitivity_names_what_an_iteration_waits_for(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bandwidth of the memory that every step of an engine reads, more than that of the network."""
    kept = ("cluster.node.accelerator.memory.bandwidth", "cluster.node.scale_out.fabric.bandwidth")
    every = sensitivity.input_values
    monkeypatch.setattr(sensitivity, "input_values", lambda case: {path: every(case)[path] for path in kept})
    figures = json_of(run, "sensitivity", NAME)["figures"]
    assert [figure["path"] for figure in figures] == list(kept)
    assert figures[0]["high"] < -0.02 < figures[1]["high"] < 0


def test_the_library_answers_too() -> None:
    found = costmodel.estimate(NAME)
    assert found.works
    assert found.figures["workload"] == "rl"
    assert costmodel.memory(NAME).works
    space = ["search={tp: [1], cp: [2], rollout_tp: [2], ranks: [16, 24]}"]
    assert costmodel.search(NAME, settings=space).frame()["rollout_ranks"].tolist() in ([24.0, 16.0], [16.0, 24.0])
    assert len(costmodel.sweep(NAME, ["plan.rollout.tp=1,2"]).frame()) == 2


def test_a_generation_that_training_hides_does_not_bound_the_iteration(run: Any) -> None:
    line = ("estimate", "--model", "qwen-3-32b", "--gpu", "h100", "--gpus", "128", "--longest", "8k", "--rl", "grpo")
    apart = ("workload.staleness=1", "workload.rollouts=partial", "plan.tp=1", "plan.cp=1", "plan.rollout.tp=2",
             "plan.rollout.colocated=false", "plan.rollout.ranks=64")  # fmt: skip
    settings = [word for each in apart for word in ("--set", each)]
    (plan,) = json.loads(run(*line, *settings, "--json").out)["plans"]
    training = plan["update_time_s"] + plan["reference_time_s"]
    assert plan["update_time_s"] < plan["generation_s"] < training < plan["iteration_time_s"]
    assert "Bound by the update, 80 % of the iteration." in run(*line, *settings).out
