"""A scenario in flags: the same answer as from the scenario it stands for, and the same faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.keys.paths import at
from costmodel.documents.keys.schema_paths import key_of
from costmodel.documents.reader.library import read
from costmodel.documents.schemas.base import Document
from costmodel.documents.schemas.scenario import Scenario
from costmodel.estimate.model.shards import model_parameters
from costmodel.explore.short_form import KEYS, ScenarioFlags, case_of_flags

Faults = Callable[[Any], Any]
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = "scenarios/examples/qwen3-8b"
WHOLE = (
    "--model", "llama-3.1-8b", "--node", "dgx-h200", "--gpus", "16", "--sequence", "4Ki", "--batch", "256",
    "--dtype", "fp8-cs", "--stack", "fsdp2", "--price", "3USD/GPU/h",
)  # fmt: skip
SCENARIO = """schema: costmodel/scenario/v1
title: the same
model: llama-3.1-8b
cluster: {node: dgx-h200, nodes: 2}
workload: {kind: training, sequence: 4096, global_batch: 256, precision: fp8-cs}
stack: fsdp2
assume: {price: 3 USD/GPU/h}
"""


def plans(ran: Any) -> Any:
    """The plans of an answer as values, whoever states the price and whatever a file calls its model."""
    return [{**plan, "price_source": "", "model": ""} for plan in json.loads(ran.out)["plans"]]


def flags(**given: Any) -> Any:
    """The scenario of a case of flags alone."""
    return case_of_flags(None, ScenarioFlags(**{"model": "llama-3.1-8b", **given})).scenario


# --- the same as a scenario


def test_flags_answer_as_the_scenario_they_stand_for(run: Any, tmp_path: Path) -> None:
    (tmp_path / "same.yaml").write_text(SCENARIO, "utf-8")
    of_flags = run("search", *WHOLE, "--json", cwd=tmp_path)
    assert plans(of_flags) == plans(run("search", "same.yaml", "--json", cwd=tmp_path))


@pytest.mark.parametrize("command", ["estimate", "memory", "comm", "pipeline"])
def test_one_plan_of_flags_is_the_best_of_their_search(command: str, run: Any) -> None:
    best = plans(run("search", *WHOLE, "--top", "1", "--json"))[0]
    settings = [
        word
        for key in ("tp", "pp", "vpp", "micro_batch", "zero", "recompute")
        for word in ("--set", f"plan.{key}={best[key]}")
    ]
    chosen, stated = run(command, *WHOLE), run(command, *WHOLE, *settings)
    assert "the best of" in chosen.out
    assert "costmodel search" in chosen.out
    unstated = [line for line in chosen.answer[1] if not line.startswith("assumed plan")]
    assert unstated == [line for line in stated.answer[1] if not line.startswith("assumed plan")]


def test_keys_of_the_plan_that_set_gives_are_held(run: Any) -> None:
    answer = json.loads(run("estimate", *WHOLE, "--set", "plan.tp=4", "--json").out)
    best = plans(run("search", *WHOLE, "--set", "plan.tp=4", "--top", "1", "--json"))
    assert answer["plans"][0]["tp"] == 4
    assert answer["plans"][0]["step_time_s"] == best[0]["step_time_s"]


def test_a_plan_that_cannot_be_is_refused_with_its_reason(run: Any) -> None:
    shown = run("estimate", *WHOLE, "--set", "plan.tp=3")
    assert (shown.code, "✗ L001" in shown.out) == (1, True)


def test_a_written_scenario_answers_alike(run: Any, tmp_path: Path) -> None:
    shown = run("search", *WHOLE, "--write", "mine.yaml", "--json", cwd=tmp_path)
    again = run("search", "mine.yaml", "--json", cwd=tmp_path)
    assert plans(again) == plans(shown)
    text = (tmp_path / "mine.yaml").read_text("utf-8")
    assert "sequence: 4Ki" in text
    assert "# --sequence 4Ki" in text
    assert "wrote other.yaml" in run("search", *WHOLE, "--write", "other.yaml", cwd=tmp_path).out


def test_a_written_scenario_names_files_from_its_own_folder(run: Any, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((ROOT / EXAMPLE / "config.json").read_text("utf-8"), "utf-8")
    (tmp_path / "jobs").mkdir()
    shown = run("estimate", "--model", "config.json", "--gpus", "8", "--write", "jobs/mine.yaml", cwd=tmp_path)
    assert shown.code == 0
    assert "model: ../config.json" in (tmp_path / "jobs/mine.yaml").read_text("utf-8")
    again = run("estimate", "jobs/mine.yaml", "--json", cwd=tmp_path)
    assert plans(again) == plans(run("estimate", "--model", "config.json", "--gpus", "8", "--json", cwd=tmp_path))


def test_nothing_is_overwritten(run: Any, faults: Faults, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("kept", "utf-8")
    (found,) = faults(run("estimate", *WHOLE, "--write", "mine.yaml", cwd=tmp_path))
    assert found.code == "C002"
    assert (tmp_path / "mine.yaml").read_text("utf-8") == "kept"


def test_a_fault_writes_nothing(run: Any, tmp_path: Path) -> None:
    assert run("estimate", *WHOLE, "--set", "plan.tp=no", "--write", "mine.yaml", cwd=tmp_path).code == 2
    assert not list(tmp_path.iterdir())


# --- the table


def test_every_flag_sets_a_key_of_the_scenario() -> None:
    fields = set(ScenarioFlags.__dataclass_fields__)
    assert fields == {*KEYS, "gpu", "gpus"}
    assert all(key_of(Scenario, path) is not None for path in KEYS.values())


@pytest.mark.parametrize(
    ("given", "path", "value"),
    [
        ({"sequence": "8Ki"}, "workload.sequence", 8192),
        ({"sequence": "8192 tokens"}, "workload.sequence", 8192),
        ({"batch": "4Mi-tokens", "sequence": "8192"}, "workload.global_batch", 512),
        ({"batch": "4Mi tokens", "sequence": "4096"}, "workload.global_batch", 1024),
        ({"batch": "512"}, "workload.global_batch", 512),
        ({"batch": "512-sequences"}, "workload.global_batch", 512),
        ({"dtype": "fp8"}, "workload.precision", "fp8"),
        ({"stack": "fsdp2"}, "stack", "fsdp2"),
        ({"gpu": "h100", "gpus": 64}, "cluster.nodes", 8),
        ({"gpu": "H200", "gpus": 64}, "cluster.node", "dgx-h200"),
        ({"gpus": 2}, "cluster.node.accelerators", 2),
        ({"node": "dgx-a100"}, "cluster.node", "dgx-a100"),
    ],
)
def test_a_flag_sets_its_key(given: dict[str, Any], path: str, value: Any) -> None:
    assert at(flags(**given), path) == value


def test_an_accelerator_beside_a_node_takes_the_place_of_its_own() -> None:
    case = case_of_flags(None, ScenarioFlags(model="llama-3.1-8b", gpu="h200", node="dgx-h100", gpus=8))
    assert (case.node.name, case.accelerator.name) == ("dgx-h100", "h200-sxm")


def test_a_part_without_a_node_of_its_own_stands_in_another() -> None:
    case = case_of_flags(None, ScenarioFlags(model="llama-3.1-8b", gpu="h100-pcie", gpus=8))
    assert (case.node.accelerator if isinstance(case.node.accelerator, str) else case.accelerator.name) == "h100-pcie"
    assert case.scale_up.name == "pcie5x16"


# --- defaults are stated


def test_a_named_model_alone_has_a_stated_machine(run: Any) -> None:
    shown = run("estimate", "--model", "llama-3-70b")
    assert shown.code == 0
    for path in ("cluster.node dgx-h100", "cluster.nodes 4", "workload.sequence 4,096", "workload.global_batch 1,024"):
        assert f"assumed {path}: " in shown.out


@pytest.mark.parametrize("name", ["qwen-3-0.6b", "llama-3.1-8b", "llama-3-70b", "deepseek-v3"])
def test_the_default_machine_has_room_for_twice_the_states_and_half_of_it_has_not(name: str) -> None:
    case = case_of_flags(None, ScenarioFlags(model=name))
    room = float(case.scenario.cluster.nodes) * 8 * float(case.accelerator.memory.usable)
    states = 18 * float(model_parameters(read("model", name)))  # 2 + 4 + 4 + 8 bytes
    assert room >= 2 * states
    assert room / 2 < 2 * states or case.scenario.cluster.nodes == 1


def test_a_short_model_has_its_own_longest_sequence() -> None:
    assert case_of_flags(None, ScenarioFlags(model="gpt-2-small")).scenario.workload.sequence == 1024


def test_what_is_given_is_not_assumed() -> None:
    case = case_of_flags(
        None, ScenarioFlags(model="llama-3.1-8b", node="dgx-h100", gpus=8, sequence="4096", batch="64")
    )
    assert case.asked.assumed == ()


def test_the_next_command_has_the_flags(run: Any) -> None:
    shown = run("search", *WHOLE).out.splitlines()[-1]
    assert " ".join(WHOLE) in shown
    assert run(*shown.split("costmodel ")[1].split()).code == 0


# --- flags beside a scenario, and beside --set


def test_a_flag_takes_the_place_of_a_key_and_is_said_to(run: Any) -> None:
    shown = run("estimate", "quickstart", "--batch", "256")
    assert shown.answer[1][1].startswith("batch 256 × 8,192 tokens")
    assert "--batch 256 in the place of 512 (scenarios/quickstart.yaml:16)" in shown.out
    assert plans(run("estimate", "quickstart", "--batch", "256", "--json")) == plans(
        run("estimate", "quickstart", "--set", "workload.global_batch=256", "--json")
    )


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (("--batch", "256", "--set", "workload.global_batch=128"), "workload.global_batch"),
        (("--gpus", "64", "--set", "cluster.nodes=2"), "cluster.nodes"),
        (("--node", "dgx-h200", "--set", "cluster.node=dgx-a100"), "cluster.node"),
    ],
)
def test_a_flag_without_effect_is_said_to_have_none(given: tuple[str, ...], path: str, run: Any) -> None:
    shown = run("estimate", "quickstart", *given, "--set", "plan.tp=2")
    assert f"{given[0]} {given[1]} has no effect: --set {path} counts" in shown.out


def test_gpus_are_counted_in_the_node_that_counts(run: Any) -> None:
    answer = json.loads(run("search", "quickstart", "--gpus", "64", "--set", "cluster.node=gb200-nvl72", "--json").out)
    assert answer["facts"]["gpus"] == 64


def test_a_model_is_weighed_on_a_machine(run: Any) -> None:
    assert (
        run("memory", "llama-3-70b", "--gpus", "64").out == run("memory", "--model", "llama-3-70b", "--gpus", "64").out
    )


# --- faults are those of the scenario


@pytest.mark.parametrize(
    ("given", "code", "marked", "help"),
    [
        (("--model", "llama-9"), "D009", "llama-9", ""),
        (("--gpu", "h1000"), "D009", "h1000", ""),
        (("--node", "dgx-h1000"), "D009", "dgx-h1000", "did you mean"),
        (("--gpus", "12"), "C004", "12", "take --gpus 8 or 16"),
        (("--sequence", "long"), "D007", "long", ""),
        (("--batch", "0"), "D008", "0", ""),
        (("--batch", "many"), "D007", "many", ""),
        (("--batch", ""), "C001", "", ""),
        (("--batch", "[1"), "C001", "[1", ""),
        (("--price", "2.5"), "D007", "2.5", ""),
        (("--dtype", "fp32"), "D010", "fp32", "matmuls in fp32"),
        (("--stack", "pytorch"), "D009", "pytorch", ""),
        (("--model", "{a: 1}"), "D009", "{a: 1}", ""),
        (("--model", "."), "D001", ".", ""),
    ],
)
def test_a_fault_of_a_flag(given: tuple[str, ...], code: str, marked: str, help: str, run: Any, faults: Faults) -> None:
    model = () if given[0] == "--model" else ("--model", "llama-3.1-8b")
    found = faults(run("estimate", *model, *given))[0]
    assert (found.code, found.marked) == (code, marked)
    assert help in found.help


@pytest.mark.parametrize("given", [(), ("--gpus", "8"), ("--batch", "4")])
def test_neither_scenario_nor_model(given: tuple[str, ...], run: Any, faults: Faults) -> None:
    (found,) = faults(run("search", *given))
    assert found.code == "C004"
    assert "--model" in found.help


def test_two_models_are_refused(run: Any, faults: Faults) -> None:
    (found,) = faults(run("memory", "llama-3-70b", "--model", "llama-3-8b"))
    assert found.code == "C004"


def test_where_nothing_fits_the_answer_is_no(run: Any) -> None:
    shown = run("estimate", "--model", "llama-3-70b", "--gpus", "1")
    assert shown.code == 1
    assert "the nearest to fit" in shown.out


def test_a_figure_is_explained_of_flags(run: Any) -> None:
    assert run("explain", "mfu", *WHOLE).code == 0
    assert "matmul" in run("explain", "matrix", "multiply", *WHOLE).out
    assert run("explain", "quickstart", "mfu", "--gpus", "8", "--set", "plan.tp=1").code == 0


def test_documents_of_a_case_are_documents() -> None:
    assert isinstance(case_of_flags(None, ScenarioFlags(model="llama-3.1-8b")).model, Document)
