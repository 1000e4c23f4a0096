"""A scenario in flags: the same answer as from the scenario it stands for, and the same faults."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from costmodel.commands.app import app
from costmodel.documents.keys.paths import at
from costmodel.documents.keys.schema_paths import key_of
from costmodel.documents.reader.library import read
from costmodel.documents.schemas.base import Document
from costmodel.documents.schemas.rl import RlScenario
from costmodel.documents.schemas.scenario import Scenario
from costmodel.documents.schemas.serving import ServingScenario
from costmodel.estimate.model.shards import model_parameters
from costmodel.explore.scenario_from_flags import ScenarioFlags, case_of_flags, scenario_from_flags
from costmodel.explore.workload_flags import FLAGS, keys_of
from costmodel.report.terminal.head import command

Faults = Callable[[Any], Any]
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = "scenarios/examples/qwen3-8b"
WHOLE = (
    "--model", "llama-3.1-8b", "--node", "dgx-h200", "--gpus", "16", "--sequence", "4Ki", "--batch", "256",
    "--dtype", "fp8-cs", "--stack", "fsdp2", "--price", "3USD/GPU/h",
)  # fmt: skip
BARE = WHOLE[:10]
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
    best = plans(run("search", *BARE, "--top", "1", "--json"))[0]
    chosen = run(command, *BARE)
    words = next(line for line in chosen.out.splitlines() if line.startswith("assumed plan ")).split(": ")[0]
    keys = [each.rsplit(" ", 1) for each in words.removeprefix("assumed plan ").split(" · ")]
    assert [str(best[key]) for key, _ in keys] == [value for _, value in keys]
    stated = run(command, *BARE, *(word for key, value in keys for word in ("--set", f"plan.{key}={value}")))
    assert "the best of" in chosen.out
    assert "costmodel search" in chosen.out
    unstated = [line for line in chosen.answer[1] if not line.startswith("assumed plan")]
    assert unstated == [line for line in stated.answer[1] if not line.startswith("assumed plan")]


@pytest.mark.parametrize("command", ["estimate", "sensitivity"])
@pytest.mark.parametrize("more", [("--stack", "fsdp2"), ("--set", "plan.tp=2")], ids=str)
def test_the_short_line_says_where_the_plan_is_from(command: str, more: tuple[str, ...], run: Any) -> None:
    """It names the defaults of the software where -v does, and where they do not fit, a search is next."""
    stack = more[1] if more[0] == "--stack" else "megatron-core"
    given = ("--model", "llama-3.1-70b", "--gpus", "16", "--sequence", "8192", "--batch", "64", *more)
    short, whole = run(command, *given, brief=True).out, run(command, *given).out
    assert "plan default, not the best" in short
    assert f"assumed plan keys that are not set: defaults of stacks/{stack}, not the best plan" in whole
    assert short.splitlines()[-1].startswith("Next: costmodel search --model llama-3.1-70b")


def test_a_search_that_recomputes_names_offload_as_an_alternative(run: Any) -> None:
    """Its command searches it; the answer then has a legend."""
    flags = (
        "search",
        "--model",
        "llama-3.1-8b",
        "--gpus",
        "8",
        "--sequence",
        "8192",
        "--batch",
        "64",
        "--stack",
        "fsdp2",
    )
    held = ("--set", "plan={tp: 1, micro_batch: 4, recompute: full}", "--top", "2")
    found = run(*flags, *held).out
    assert "add it with --set 'search.offload=[[],[activations]]'" in found
    assert "↑act, ↑opt, ↑par: " in run(*flags, *held, "--set", "search.offload=[[activations]]").out


def test_plans_next_to_one_in_flags(run: Any) -> None:
    """Flags have the table that a scenario has, each of whose plans keeps the layers of a chunk."""
    ran = run("explain", "plan", "--model", "llama-3.1-70b", "--gpus", "64", "--set", "plan={tp: 8, pp: 2, vpp: 4}")
    assert "this plan" in ran.out
    assert "pp 4 · vpp 2" in ran.out
    assert "pp 1 · vpp 1" in ran.out
    assert "L009" not in ran.out


@pytest.mark.parametrize("plan", [{}, {"tp": 4}, {"micro_batch": 2, "recompute": "selective"}], ids=str)
def test_flags_that_say_how_it_is_laid_out_leave_the_rest_to_the_software(
    plan: dict[str, Any], run: Any, tmp_path: Path
) -> None:
    (tmp_path / "same.yaml").write_text(SCENARIO + f"plan: {json.dumps(plan)}\n", "utf-8")
    settings = [word for key, value in plan.items() for word in ("--set", f"plan.{key}={value}")]
    of_flags = run("estimate", *WHOLE, *settings, "--json")
    assert plans(of_flags) == plans(run("estimate", "same.yaml", "--json", cwd=tmp_path))
    assert "defaults of stacks/fsdp2" in run("estimate", *WHOLE, *settings).out


def test_a_key_of_the_plan_leaves_the_rest_to_the_usual_software_too(run: Any) -> None:
    answer = json.loads(run("estimate", *BARE, "--set", "plan.tp=4", "--json").out)
    assert {key: answer["plans"][0][key] for key in ("tp", "pp", "zero", "micro_batch")} == {
        **{"tp": 4, "pp": 1, "zero": 1, "micro_batch": 1}
    }


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


@pytest.mark.parametrize("command", ["estimate", "memory", "comm", "run"])
def test_a_scenario_without_a_plan_is_answered_with_the_plan_of_its_flags(
    command: str, run: Any, tmp_path: Path
) -> None:
    flags, path = ("--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "8"), tmp_path / "mine.yaml"
    run("search", *flags, "--write", str(path))
    of_file, of_flags = run(command, str(path), brief=True), run(command, *flags, brief=True)
    assert (of_file.code, of_file.err) == (0, "")
    assert "assumed: plan best of a search" in of_file.out
    assert figures(of_file.out) == figures(of_flags.out)


def figures(text: str) -> list[str]:
    """The indented lines of an answer."""
    return [line for line in text.splitlines() if line.startswith("  ") and "More with" not in line]


def test_the_method_of_adapters_alone_is_a_mapping_with_it(run: Any) -> None:
    flags = ("estimate", "--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "8", "--set")
    for method in ("lora", "qlora"):
        alone = run(*flags, f"workload.tuning={method}", brief=True)
        assert alone.code == 0
        assert f"{method} of rank 16 · transformers-fsdp" in alone.out
        assert figures(alone.out) == figures(run(*flags, f"workload.tuning={{method: {method}}}", brief=True).out)


def test_a_diagnosis_of_a_scenario_without_a_plan_is_of_its_best(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    run("search", "--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "8", "--write", str(path))
    assert "assumed: plan best of a search" in run("diagnose", str(path), "--step", "90s", brief=True).out


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
    assert fields == {*(name for flags in FLAGS.values() for name in flags.keys), "gpu", "gpus"}
    for kind, document in (("training", Scenario), ("serving", ServingScenario), ("rl", RlScenario)):
        assert all(key_of(document, path) is not None for path in keys_of(kind).values())


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


def test_an_accelerator_beside_a_node_is_the_one_that_it_holds(run: Any, faults: Faults) -> None:
    job = ("estimate", "--model", "llama-3.1-8b", "--gpus", "8", "--node", "dgx-a100")
    refused = run(*job, "--gpu", "h100")
    (found,) = faults(refused)
    assert (found.code, found.sentence) == ("C032", "dgx-a100 holds a100-sxm-80, not h100-sxm")
    assert "--node dgx-h100 or " in refused.err
    own = run(*job, "--set", "cluster.node.accelerator=h100-sxm", "--json")  # a machine of one's own
    assert own.code == 0
    for gpu, node in (("a100", "dgx-a100"), ("h100", "p5"), ("h100-pcie", "pcie-l40s-8")):
        case = case_of_flags(None, ScenarioFlags(model="llama-3.1-8b", gpu=gpu, node=node, gpus=8))
        assert case.node.name == node


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


@pytest.mark.share(4)
@pytest.mark.parametrize("command", ["estimate", "memory", "comm", "search"])
@pytest.mark.parametrize(
    ("more", "assumed"),
    [((), True), (("--sequence", "4096"), False), (("--rate", "1"), False), (("--stack", "megatron-core"), False)],
)
def test_a_job_that_no_flag_states_is_stated_with_the_flag_of_the_other(
    command: str, more: tuple[str, ...], assumed: bool, run: Any
) -> None:
    """A share of commands with flags, unless --whole asks for all."""
    out = run(command, "--model", "llama-3.1-8b", "--gpus", "8", *more).out
    first = "assumed workload.kind training: to serve it, add --stack vllm, or --rate"
    assert (out.splitlines()[0] == first) is (first in out) is assumed
    served = run(command, "--model", "llama-3.1-8b", "--gpus", "8", "--stack", "vllm").out
    assert "\nvllm · " in served


def test_memory_of_a_model_alone_names_the_command_for_serving(run: Any) -> None:
    stated = run("memory", "llama-3.1-8b").out.splitlines()[0]
    assert stated.startswith("assumed workload.kind training: to serve it, costmodel ")
    command = stated.partition("costmodel ")[2]
    assert "\nvllm · " in run(*shlex.split(command)).out
    assert json.loads(run("memory", "llama-3.1-8b", "--json").out)["assumed"][0]["path"] == "workload.kind"


INSTRUCT = ("meta-llama/Llama-3.1-8B-Instruct", "google/gemma-2-9b-it", "RedHatAI/Llama-3.1-8B-Instruct-FP8")
BY_FLAGS = (
    ("estimate",), ("memory",), ("comm",), ("pipeline",), ("search",), ("sensitivity",), ("explain", "memory_peak"),
    ("sweep", "--over", "plan.micro_batch=1,2"), ("scale", "--ranks", "2..8"), ("check",),
    ("solve", "--over", "assume.variation=1 %,10 %", "--for", "mfu>=0.1"),
)  # fmt: skip


@pytest.mark.parametrize("command", BY_FLAGS, ids=lambda command: command[0])
def test_the_first_line_of_every_answer_states_the_job_that_flags_assume(command: tuple[str, ...], run: Any) -> None:
    """A model that was tuned to answer, on two GPUs, is more often served than trained."""
    name, *more = command
    asked = ("--model", INSTRUCT[0], "--gpu", "h100", "--gpus", "2", *more)
    ran = run(name, *asked)
    assert ran.out.startswith("assumed workload.kind training: to serve it, add --stack vllm, or --rate\n"), ran
    assert ran.out.count("assumed workload.kind") == 1


@pytest.mark.parametrize("model", INSTRUCT)
def test_every_form_of_an_answer_states_the_assumed_job_first(model: str, run: Any) -> None:
    asked = ("estimate", "--model", model, "--gpu", "h100", "--gpus", "2")
    sentence = "assumed workload.kind training: to serve it, add --stack vllm, or --rate"
    assert run(*asked, "--format", "markdown").out.splitlines()[0] == sentence
    first = json.loads(run(*asked, "--json").out)["assumed"][0]
    assert f"assumed {first['path']} {first['value']}: {first['from']}" == sentence
    page = run("report" if model == INSTRUCT[0] else "estimate", *asked[1:], "--format", "html").out
    assert sentence in page
    assert page.index(sentence) < page.index("assumed workload.sequence")
    assert "assumed" not in run("memory", model, "--stack", "vllm").out.splitlines()[0]


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


def test_a_batch_of_tokens_that_holds_no_whole_sequences_is_said(run: Any) -> None:
    given = ("search", "--model", "llama-3.1-8b", "--gpus", "64", "--sequence", "8192", "--top", "1", "--batch")
    said = "4,000,000 tokens are 488.28 sequences of 8,192: the batch is 488"
    assert said in run(*given, "4M-tokens").out
    assert "sequences of 8,192" not in run(*given, "4Mi-tokens").out


def test_without_a_valid_plan_the_reason_is_named(run: Any, faults: Faults) -> None:
    (found,) = faults(run("estimate", "--model", "gpt-2-small", "--sequence", "4096"))
    assert "no plan of the search is valid: The sequence has more tokens" in found.sentence
    assert "(L012)" in found.sentence


def test_a_model_in_the_place_of_a_scenario_is_helped_to_the_flag(run: Any, faults: Faults) -> None:
    (found,) = faults(run("estimate", "llama-3.1-8b"))
    assert "costmodel estimate --model llama-3.1-8b" in found.help


# --- flags beside a scenario, and beside --set


def test_a_flag_takes_the_place_of_a_key_and_is_said_to(run: Any) -> None:
    shown = run("estimate", "quickstart", "--batch", "256")
    assert shown.answer[1][1].startswith("batch 256 × 8,192 tokens")
    assert "--batch 256 instead of 512 (scenarios/quickstart.yaml:16)" in shown.out
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


# --- serving

SERVED = (
    "--model", "llama-3.1-70b", "--gpu", "h100", "--gpus", "16", "--rate", "8", "--prompt", "2048", "--answer", "512",
)  # fmt: skip
SERVES = """schema: costmodel/scenario/v1
title: the same
model: llama-3.1-70b
cluster: {node: dgx-h100, nodes: 2}
workload: {kind: serving, prompt: 2048, output: 512, rate: 8 /s}
stack: vllm
"""


def served(**given: Any) -> Any:
    """The scenario of flags of serving alone."""
    return scenario_from_flags(None, ScenarioFlags(**{"model": "llama-3.1-8b", **given})).document


def test_flags_of_serving_answer_as_the_scenario_they_stand_for(run: Any, tmp_path: Path) -> None:
    (tmp_path / "same.yaml").write_text(SERVES, "utf-8")
    assert plans(run("search", *SERVED, "--json")) == plans(run("search", "same.yaml", "--json", cwd=tmp_path))


@pytest.mark.parametrize("command", ["estimate", "memory", "comm"])
def test_one_plan_of_serving_flags_is_stated(command: str, run: Any) -> None:
    shown = run(command, *SERVED)
    assert shown.code == 0
    assert "assumed plan tp " in shown.out
    assert "the best plan of costmodel search, with the engine's token budget (stack.budget)" in shown.out
    assert "assumed stack vllm: the default; --stack names another" in shown.out


def test_a_written_scenario_that_serves_answers_alike(run: Any, tmp_path: Path) -> None:
    shown = run("estimate", *SERVED, "--write", "mine.yaml", "--json", cwd=tmp_path)
    assert plans(run("estimate", "mine.yaml", "--json", cwd=tmp_path)) == plans(shown)
    text = (tmp_path / "mine.yaml").read_text("utf-8")
    assert "rate: 8 /s" in text
    assert "stack: vllm" in text


@pytest.mark.parametrize(
    ("given", "path", "value"),
    [
        ({"rate": "8"}, "workload.rate", 8.0),
        ({"rate": "480/min"}, "workload.rate", 8.0),
        ({"concurrency": "64-requests"}, "workload.concurrency", 64),
        ({"prompt": "2Ki"}, "workload.prompt", 2048),
        ({"answer": "500-tokens"}, "workload.output", 500),
        ({"prompt": "{mean: 2048, spread: 60 %}"}, "workload.prompt.spread", 0.6),
        ({"rate": "8", "dtype": "fp8"}, "workload.precision", "fp8"),
        ({"stack": "sglang"}, "stack", "sglang"),
    ],
)
def test_a_flag_of_serving_sets_its_key(given: dict[str, Any], path: str, value: Any) -> None:
    assert at(served(**given), path) == (pytest.approx(value) if isinstance(value, float) else value)


def test_what_serving_flags_leave_open_is_stated(run: Any) -> None:
    shown = run("estimate", "--model", "llama-3.1-8b", "--stack", "vllm").out
    for path in ("cluster.nodes 1", "workload.prompt 2,048", "workload.output 512", "workload.concurrency 1"):
        assert f"assumed {path}: " in shown


def test_a_rate_is_shown_as_it_was_typed(run: Any) -> None:
    shown = run("estimate", "serve-llama-3.1-70b", "--rate", "3").out
    assert "--rate 3 instead of 8 /s" in shown
    assert "--rate 3 /s" not in shown


def test_the_mean_of_a_length_is_set_where_a_flag_gave_a_number(run: Any) -> None:
    length = [part for key in ("mean=1000", "spread=60%") for part in ("--set", f"workload.prompt.{key}")]
    shown = plans(run("estimate", *SERVED, *length, "--json"))
    assert plans(run("estimate", *SERVED, "--prompt", "{mean: 1000, spread: 60 %}", "--json")) == shown


@pytest.mark.parametrize("given", [("--rate", "3"), ("--concurrency", "64")])
def test_a_load_takes_the_place_of_the_scenarios(given: tuple[str, str], run: Any) -> None:
    shown = run("estimate", "serve-llama-3.1-70b", *given).out
    assert "instead of 8 /s (scenarios/serve-llama-3.1-70b.yaml:15)" in shown


def test_a_model_of_a_file_is_named_where_it_serves(run: Any) -> None:
    shown = run("estimate", "--model", EXAMPLE, "--rate", "2").out
    assert f"model read from {EXAMPLE}/config.json: config.json of transformers" in shown


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        (("--model", "llama-3.1-8b", "--rate", "4", "--sequence", "4096"), "C030", "--rate is for serving"),
        (("serve-llama-3.1-70b", "--batch", "4"), "C030", "the scenario is for serving, --batch is not"),
        (("quickstart", "--prompt", "4"), "C030", "the scenario is for training, --prompt is not"),
        (("--model", "llama-3.1-8b", "--rate", "4", "--users", "3"), "D006", "rate and users are given"),
        (("--model", "llama-3.1-8b", "--rate", "0"), "D008", "out of range"),
        (("--model", "llama-3.1-8b", "--rate", "4", "--stack", "fsdp2"), "D010", "training software"),
        (("--model", "llama-3.1-8b", "--batch", "4", "--stack", "vllm"), "D010", "serves models"),
        (("--model", "llama-3.1-8b", "--rate", "4", "--output", "512"), "C002", "a number"),
    ],
)
def test_a_fault_of_serving_flags(given: tuple[str, ...], code: str, words: str, run: Any, faults: Faults) -> None:
    found = faults(run("estimate", *given))[0]
    assert found.code == code
    assert words in found.sentence


def test_the_next_command_of_a_search_without_an_engine_named(run: Any, tmp_path: Path) -> None:
    """Its token budget is a key of the engine, which is written out of its name."""
    (tmp_path / "mine.yaml").write_text(SERVES.replace("stack: vllm\n", ""), "utf-8")
    shown = run("search", "mine.yaml", "--top", "1", cwd=tmp_path).out.splitlines()[-1]
    assert run(*shown.split("costmodel ")[1].split(), cwd=tmp_path).code == 0


# --- every command that asks about a scenario


def test_every_command_about_a_scenario_takes_the_flags() -> None:
    program: Any = typer.main.get_command(app)
    options = {name: {param.name for param in command.params} for name, command in program.commands.items()}
    flags = {*ScenarioFlags.__dataclass_fields__, "assignments", "write"}
    asked = {name for name, held in options.items() if {"scenario", "scenarios"} & held}
    assert {name for name in asked if not flags <= options[name]} == set()
    assert {"run", "scale", "solve", "sweep", "sensitivity", "diagnose", "report", "diff", "check"} <= asked


PLAN = {"tp": 2, "pp": 1, "vpp": 1, "micro_batch": 1, "zero": 2, "recompute": "none"}


@pytest.mark.parametrize(
    ("command", "plan"),
    [
        (("run",), PLAN),
        (("sensitivity", "--top", "3"), PLAN),
        (("diagnose", "--step", "9 s"), PLAN),
        pytest.param(("report",), PLAN, marks=pytest.mark.whole),
        (("scale", "--ranks", "16..64"), {}),
        (("sweep", "--over", "workload.sequence=2048,4096"), {}),
        (("solve", "--over", "cluster.nodes=2,4", "--for", "step_time<=20 s"), {}),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else "",
)
def test_a_command_of_flags_answers_as_of_the_scenario_they_stand_for(
    command: tuple[str, ...], plan: dict[str, Any], run: Any, tmp_path: Path
) -> None:
    (tmp_path / "same.yaml").write_text(SCENARIO + (f"plan: {json.dumps(plan)}\n" if plan else ""), "utf-8")
    settings = [word for key, value in plan.items() for word in ("--set", f"plan.{key}={value}")]
    name, *options = command
    of_flags = run(name, *WHOLE, *settings, *options, cwd=tmp_path)
    of_file = run(name, "same.yaml", *options, cwd=tmp_path)
    of_the_command_line = ("Next:", "assumed", "--", "at 3.00 USD", "costmodel ")

    def answer_lines(ran: Any) -> list[str]:
        return [line for line in ran.out.splitlines()[1:] if not line.strip().startswith(of_the_command_line)]

    assert of_flags.code == of_file.code
    assert answer_lines(of_flags) == answer_lines(of_file)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            ("sweep", "quickstart", "--over", "plan.tp=2,4", "--set", "plan.tp=8"),
            "--set plan.tp=8 has no effect: --over plan.tp counts",
        ),
        (
            ("sweep", "quickstart", "--over", "workload.global_batch=256", "--batch", "512"),
            "--batch 512 has no effect: --over workload.global_batch counts",
        ),
        (("scale", "quickstart", "--ranks", "32", "--gpus", "8"), "--gpus 8 has no effect: --ranks counts"),
    ],
)
def test_what_a_command_varies_counts_and_is_not_assumed(given: tuple[str, ...], line: str, run: Any) -> None:
    assert line in run(*given).out


def test_serving_flags_are_scaled_by_rates_and_swept(run: Any) -> None:
    shown = run("scale", "--model", "llama-3.1-8b", "--gpu", "h100", "--rate", "2..8*2", "--prompt", "1024")
    assert [line.split()[:2] for line in shown.out.splitlines() if " /s " in line][-1] == ["8", "/s"]
    assert "✗" not in shown.out
    assert "assumed cluster.nodes" not in shown.out
    swept = run("sweep", "--model", "llama-3.1-8b", "--rate", "2", "--over", "workload.prompt=512,1024")
    assert (swept.code, "assumed workload.prompt" in swept.out) == (0, False)


def test_flags_of_diff_change_the_second_side(run: Any, faults: Faults) -> None:
    of_flags, of_set = run("diff", "quickstart", "--batch", "256"), ("--set", "workload.global_batch=256")
    shown = [line for line in of_flags.out.splitlines() if "instead of" not in line]
    assert shown[4:] == run("diff", "quickstart", *of_set).out.splitlines()[4:]
    (found,) = faults(run("diff", "--model", "llama-3.1-8b"))
    assert found.code == "C013"


HEADS = ["Arguments", "Job", "Machine", "Serving", "Reinforcement learning", "Any key of the scenario", "Output"]


def test_the_help_has_its_options_in_groups(run: Any) -> None:
    lines = run("estimate", "--help-all").out.splitlines()
    headings = [line for before, line in itertools.pairwise(lines) if not before and line and "  " not in line]
    assert headings[-7:] == HEADS


def test_flags_beside_a_scenario_of_reinforcement_learning(run: Any, faults: Callable[[Any], Any]) -> None:
    """Those of the machine; they were taken for flags of training."""
    name = "grpo-qwen-2.5-7b-64"
    found = json.loads(run("estimate", name, "--gpu", "h200", "--gpus", "128", "--price", "2USD/GPU/h", "--json").out)
    by_set = ("cluster.node=dgx-h200", "cluster.nodes=16", "assume.price=2 USD/GPU/h")
    same = json.loads(run("estimate", name, *(word for text in by_set for word in ("--set", text)), "--json").out)
    assert found["plans"] == same["plans"]
    (fault,) = faults(run("estimate", name, "--sequence", "128", "--rate", "3"))
    assert (fault.code, "no --sequence and no --rate" in fault.sentence) == ("C030", True)


@pytest.mark.parametrize(
    ("flag", "value", "wanted"),
    [
        ("--rate", "4,8", "--over 'workload.rate=4 /s,8 /s'"),
        ("--rate", "4..8", "--over 'workload.rate=4..8 /s*2'"),
        ("--node", "p5,p5en", "--over cluster.node=p5,p5en"),
        ("--stack", "vllm,sglang", "--over stack=vllm,sglang"),
        ("--gpu", "h100,h200", "--over cluster.node=dgx-h100,dgx-h200"),
    ],
)
def test_several_values_of_a_flag_lead_to_the_option_that_takes_them(
    run: Any, faults: Any, flag: str, value: str, wanted: str
) -> None:
    (found,) = faults(run("search", "serve-llama-3.1-70b", flag, value))
    assert wanted in found.help
    few = ("--set", "search={tp: [8], pp: [1], budget: [8192]}")
    assert run("search", "serve-llama-3.1-70b", *shlex.split(wanted), *few, "--safe", "off").code == 0


def test_several_sizes_lead_to_nodes_where_a_command_varies_keys(run: Any) -> None:
    said = [run(*words, "--gpus", "8,16").err for words in (("search", "quickstart"), ("estimate", "quickstart"))]
    assert ["--over cluster.nodes=" in each for each in said] == [True, False]


def test_gpus_in_the_place_of_nodes_are_compared_with_nodes(run: Any) -> None:
    assert "--gpus 8 instead of 2 nodes (" in run("estimate", "serve-llama-3.1-70b", "--gpus", "8").out


def test_a_flag_without_effect_takes_the_place_of_nothing(run: Any) -> None:
    out = run("scale", "serve-llama-3.1-70b", "--gpus", "32").out
    assert "--gpus 32 has no effect: the rate counts" in out
    assert "instead of" not in out


def test_the_job_that_flags_assume_is_the_same_after_a_change_of_the_plan(run: Any) -> None:
    out = run("diff", "--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "8", "--set", "plan.tp=4").out
    assert "    assumed workload.kind training" in out
    assert "− assumed workload.kind" not in out


def test_nodes_that_are_varied_need_no_first_one(run: Any) -> None:
    """With their number stated none was assumed, and the varied key was missing."""
    job = ("--model", "llama-3.1-8b", "--rate", "4", "--prompt", "2000", "--answer", "500")
    nodes = ("--set", "cluster.nodes=3", "--over", "cluster.node=dgx-h100,dgx-a100")
    answer = run("sweep", *job, *nodes)
    assert answer.code == 0
    assert "dgx-a100" in answer.out


GROUPS = "[{node: dgx-h100, nodes: 4}, {node: dgx-a100, nodes: 4}]"


@pytest.mark.parametrize("given", [f"cluster={{groups: {GROUPS}}}", f"cluster.groups={GROUPS}"])
@pytest.mark.parametrize("flags", [(), ("--gpus", "64"), ("--gpu", "h100", "--gpus", "64")])
def test_groups_beside_flags_need_no_key_of_one_kind_of_node(given: str, flags: tuple[str, ...], run: Any) -> None:
    """The keys that flags add are left out; flags of the machine have no effect, which is remarked."""
    ran = run("estimate", "--model", "llama-3.1-8b", *flags, "--set", given)
    assert (ran.code, ran.err) == (0, "")
    assert "4 × dgx-h100 + 4 × dgx-a100" in ran.out
    assert ran.out.count(f" has no effect: --set {given.partition('=')[0]} counts") == len(flags) // 2


def test_groups_take_the_place_of_the_nodes_of_a_scenario(run: Any) -> None:
    assert "4 × dgx-h100 + 4 × dgx-a100" in run("estimate", "quickstart", "--set", f"cluster.groups={GROUPS}").out


def test_a_flag_that_a_command_states_itself_stands_once_in_the_next_command() -> None:
    flags = ScenarioFlags(model="llama-3.1-8b", gpu="h100", prompt="1000", answer="100", rate="2")
    line = command(scenario_from_flags(None, flags), "scale", "--rate", "2,4")
    assert shlex.split(line).count("--rate") == 1
    assert "--rate 2,4" in line


@pytest.mark.parametrize("stack", ["verl", "openrlhf"])
def test_software_of_reinforcement_learning_is_named_as_such(stack: str, run: Any) -> None:
    ran = run("estimate", "serve-llama-3.1-70b", "--set", f"stack={stack}")
    assert ran.code == 2
    assert f"{stack} is software for reinforcement learning" in ran.err


@pytest.mark.parametrize(
    ("stack", "trainer"), [("verl", "verl-fsdp"), ("openrlhf", "transformers-deepspeed"), ("trl", "transformers-fsdp")]
)
def test_software_of_reinforcement_learning_trains_with_its_trainer(stack: str, trainer: str, run: Any) -> None:
    words = ("estimate", *BARE, "--stack", stack)
    assert f" · {trainer}\n" in run(*words).out
    assert f"{trainer}" in run(*words, "-v").out.partition("assumed  stack")[2].splitlines()[0]
    assert f" · {trainer} (changed)\n" in run(*words, "--set", "stack.loss=chunked").out


def test_force_lets_write_overwrite(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("of the user\n")
    asked = ("estimate", "--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "8", "--write", str(file))
    assert (run(*asked).code, file.read_text()) == (2, "of the user\n")
    assert run(*asked, "--force").code == 0
    assert run("estimate", str(file)).code == 0


def test_a_short_estimate_of_experts_names_the_dispatcher_that_it_assumes(run: Any) -> None:
    """It moves the step by several percent, and flags alone list no other assumption."""
    asked = ("estimate", "--model", "qwen-3-30b-a3b", "--gpu", "h100", "--gpus", "16", "--set", "plan={ep: 16}")
    words = "flex dispatcher, DeepEP"
    assert words in run(*asked, brief=True).out
    assert words not in run(*asked[:-1], "plan={ep: 1}", brief=True).out
    assert words not in run(*asked, "--set", "assume.experts.deduplicated=true", brief=True).out
