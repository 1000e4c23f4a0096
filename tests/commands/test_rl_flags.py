"""Reinforcement learning in one line: flags make the scenario, its plan is the best split, what is open is said."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from costmodel.documents.keys.paths import at
from costmodel.explore.scenario_from_flags import ScenarioFlags, scenario_from_flags

ASKED = ("--model", "qwen-2.5-7b", "--gpu", "h100-sxm", "--gpus", "16", "--prompts", "64", "--answer", "1k")
SAME = """\
schema: costmodel/scenario/v1
title: the same in a file
model: qwen-2.5-7b
cluster: {node: dgx-h100, nodes: 2}
workload:
  kind: rl
  algorithm: grpo
  prompts: 64
  samples: 16
  prompt: 2048
  response: {mean: 1 k, limit: 4 k}
stack: verl
"""


def made(**given: str) -> Any:
    """The document that flags alone make."""
    return scenario_from_flags(None, ScenarioFlags(model="qwen-2.5-7b", gpu="h100-sxm", gpus=16, **given)).document


def test_flags_answer_as_the_scenario_that_they_stand_for(run: Any, tmp_path: Any) -> None:
    (tmp_path / "same.yaml").write_text(SAME, "utf-8")
    plans = [json.loads(run("search", *asked, "--json", cwd=tmp_path).out)["plans"] for asked in (ASKED, ["same.yaml"])]
    assert plans[0] == plans[1]
    assert len(plans[0]) > 1


def test_one_plan_is_the_best_split_and_says_so(run: Any) -> None:
    shown = run("estimate", *ASKED)
    best = json.loads(run("search", *ASKED, "--json").out)["plans"][0]
    found = json.loads(run("estimate", *ASKED, "--json").out)["plans"][0]
    assert found["iteration_time_s"] == best["iteration_time_s"]
    assert "assumed plan tp " in shown.out
    assert ": the best plan of costmodel search" in shown.out
    for words in ("workload.algorithm grpo: default", "workload.samples 16", "workload.response.limit 4,000: 4 × the"):
        assert f"assumed {words}" in shown.out


@pytest.mark.parametrize(
    ("given", "path", "value"),
    [
        ({"rl": "ppo"}, "workload.algorithm", "ppo"),
        ({"rl": "dapo"}, "workload.algorithm", "dapo"),
        ({"prompts": "128"}, "workload.prompts", 128),
        ({"samples": "8"}, "workload.samples", 8),
        ({"rl": "grpo", "prompt": "500-tokens"}, "workload.prompt", 500),
        ({"rl": "grpo", "answer": "3k"}, "workload.response.mean", 3000),
        ({"rl": "grpo", "answer": "16k"}, "workload.response.limit", 32768 - 2048),
        ({"rl": "grpo", "rollout": "sglang"}, "stack.rollout", "sglang"),
        ({"rl": "grpo", "trainer": "megatron-core"}, "stack.trainer", "megatron-core"),
        ({"rl": "grpo", "dtype": "fp8"}, "workload.precision", "fp8"),
        ({"stack": "openrlhf"}, "workload.kind", "rl"),
        ({"stack": "verl", "answer": "1k"}, "workload.kind", "rl"),
        ({"answer": "1k"}, "workload.kind", "serving"),
    ],
)
def test_a_flag_sets_its_key(given: dict[str, str], path: str, value: Any) -> None:
    assert at(made(**given), path) == value


@pytest.mark.parametrize(
    ("given", "settings", "stack"),
    [
        ({"rl": "dpo"}, (), "trl"),
        ({}, ("workload.kind=rl", "workload.algorithm=dpo"), "trl"),
        ({"prompts": "64"}, ("workload.algorithm=dpo",), "trl"),
        ({"prompts": "64"}, (), "verl"),
    ],
)
def test_the_default_software_offers_what_is_asked_for(given: dict[str, str], settings: Any, stack: str) -> None:
    """Whether a flag states it or --set: pairs of answers are of no software that only generates."""
    case = scenario_from_flags(None, ScenarioFlags(model="qwen-2.5-7b", gpus=16, **given), settings)
    assert at(case.scenario, "stack") == stack
    assert ("samples" in at(case.scenario, "workload").model_fields_set) is (stack == "verl")


def test_a_node_that_is_set_brings_the_default_software_of_its_maker() -> None:
    """As the flag of the node does; a node that is written out too."""
    named = [
        at(scenario_from_flags(None, ScenarioFlags(model="llama-3.1-8b", **given), settings).scenario, "stack")
        for given, settings in (
            ({"node": "trn2"}, ()),
            ({}, ("cluster.node=trn2",)),
            ({}, ("cluster={node: trn2, nodes: 4}",)),
        )
    ]
    assert named == ["neuronx-distributed"] * 3


def test_software_for_both_says_which_of_its_jobs_is_assumed(run: Any) -> None:
    """The line is the first, JSON has it, and what it advises is an answer of the other job."""
    asked = ("memory", "--model", "qwen-2.5-7b", "--gpus", "8", "--stack", "slime", "--set", "plan={}")
    job = "because of --stack slime; --set workload.kind=training asks for training by its trainer"
    assert run(*asked).out.startswith(f"assumed workload.kind rl: {job}\n")
    assert json.loads(run(*asked, "--json").out)["assumed"][0] == {"path": "workload.kind", "value": "rl", "from": job}
    flags = ScenarioFlags(model="qwen-2.5-7b", gpus=8, stack="slime")
    other = scenario_from_flags(None, flags, ["workload.kind=training"])
    assert (other.kind, at(other.scenario, "stack")) == ("training", "megatron-core")
    for case in (other, scenario_from_flags(None, replace(flags, prompts="64"))):
        assert "workload.kind" not in {item.path for item in case.asked.assumed}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--rl", "grpo", "--rate", "4"), "--rl is for rl, --rate is not"),
        (("--prompts", "4", "--batch", "4"), "--prompts is for rl, --batch is not"),
        (("--rl", "ppoo"), "'ppoo' is not one of"),
        (("--rl", "rloo", "--samples", "1"), "rloo compares the answers to a prompt"),
        (("--rl", "grpo", "--answer", "0"), "out of range"),
    ],
)
def test_what_flags_cannot_say_is_a_fault(given: tuple[str, ...], words: str, run: Any, faults: Any) -> None:
    assert words in faults(run("estimate", "--model", "qwen-2.5-7b", *given))[0].sentence


def test_dapo_has_no_reference(run: Any) -> None:
    """Its paper leaves the divergence from a reference out; one can be asked for."""
    usual, kept = (
        json.loads(run("estimate", *ASKED, "--rl", "dapo", *more, "--json").out)["plans"][0]
        for more in ((), ("--set", "workload.reference=true"))
    )
    assert usual["reference_time_s"] == 0
    assert kept["reference_time_s"] > 0


def test_pairs_need_no_engine(run: Any) -> None:
    """Plans of dpo generate nothing, so a search ranks the trainer's alone."""
    plans = json.loads(run("search", *ASKED, "--rl", "dpo", "--json").out)["plans"]
    assert plans
    assert {plan["generation_s"] for plan in plans} == {0}


@pytest.mark.parametrize("kind", ["training", "serving", "rl"])
def test_a_scenario_to_start_from_is_of_the_workload_that_is_asked(kind: str, run: Any, tmp_path: Any) -> None:
    (tmp_path / "mine.yaml").write_text(run("init", "--kind", kind).out, "utf-8")
    assert json.loads(run("estimate", "mine.yaml", "--json", cwd=tmp_path).out)["workload"] == kind


def test_the_longest_answer_has_a_flag_and_the_mean_is_named(run: Any) -> None:
    asked = ("estimate", "--rl", "grpo", "--model", "qwen-2.5-7b", "--gpus", "16", "--answer", "2k")
    assert "answers of 2,000 tokens (mean), 8,000 at most" in run(*asked).out
    by_flag, by_key = (run(*asked, *more, "--json") for more in (
        ("--longest", "3k"), ("--set", "workload.response.limit=3k")))  # fmt: skip
    assert json.loads(by_flag.out)["plans"] == json.loads(by_key.out)["plans"]


def test_a_search_of_a_run_shows_its_days(run: Any) -> None:
    asked = ("search", "--model", "llama-3.1-8b", "--gpus", "64", "--tokens", "1T", "--top", "1")
    [head, row] = [line.split() for line in run(*asked).out.splitlines() if line.split()[:1] in (["#"], ["1"])]
    seconds = json.loads(run(*asked, "--json").out)["plans"][0]["run_time_s"]
    assert f"{seconds / 86400:.1f}" in row
    assert "days" in head
    assert " days" not in run("search", "--model", "llama-3.1-8b", "--gpus", "64", "--top", "1").out
