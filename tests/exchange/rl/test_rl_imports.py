"""Configurations of reinforcement learning as scenarios: what each states, every key listed, and what is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.keys.paths import at
from costmodel.documents.reader.library import DocumentReader, read
from costmodel.documents.reader.load_scenario import any_from
from costmodel.documents.reader.measured_cases import cases
from costmodel.documents.reader.rl_scenario import RlCase, reinforced
from costmodel.documents.text.yaml_tree import copied
from costmodel.estimate.rl.predict_rl import predict
from costmodel.exchange.detect import RL_FORMATS, detected
from costmodel.explore.import_export.import_file import GivenBesideFile, ImportedFile, import_files
from costmodel.ground.errors import CostModelError

from . import configurations as texts

GIVEN = {"prompt": "300", "answer": "1k"}
SHORT = {"prompt": "100", "answer": "200"}


@pytest.fixture(autouse=True)
def _here(in_its_folder: None) -> None:
    """Files of a test lie in the working folder."""


def imported(*written: str, names: tuple[str, ...] = ("mine.sh", "more.yaml"), **beside: Any) -> ImportedFile:
    """Texts as files, imported together."""
    for name, text in zip(names, written, strict=False):
        Path(name).write_text(text, "utf-8")
    given = {"gpu": "h100", "load": GIVEN} | beside
    return import_files(names[: len(written)], GivenBesideFile(**given))


def document(*written: str, **beside: Any) -> Any:
    return imported(*written, **beside).found.document


def stated(found: Any, *paths: str) -> list[Any]:
    return [at(found, path) for path in paths]


def of_workload(found: Any, keys: str) -> list[Any]:
    return stated(found, *(f"workload.{key}" for key in keys.split()))


def case_of(found: Any) -> RlCase:
    return reinforced(any_from(DocumentReader(), copied(found), "mine", ()))


def test_verl() -> None:
    """Mini-batches count prompts, tokens of a micro-batch those of each rank of Ulysses, ${NNODES:-2} is a default."""
    found = document(texts.VERL)
    assert stated(found, "model", "cluster.nodes", "stack") == ["Qwen/Qwen3-8B", 2, "verl"]
    assert found["workload"] == {
        "kind": "rl", "algorithm": "grpo", "prompts": 256, "samples": 8, "prompt": 300, "mini_batch": 512, "epochs": 1,
        "response": {"mean": "1k", "limit": 3072}, "reference": True, "reward": "rule", "iterations": 200,
        "precision": "bf16", "optimizer": "adamw",
    }  # fmt: skip
    assert found["plan"] == {
        "cp": 2, "cp_type": "a2a", "micro_batch": "16384 tokens", "zero": 3, "recompute": "full",
        "rollout": {"tp": 2, "memory": "60 %", "offload": True},
    }  # fmt: skip
    assert not predict(case_of(found)).refused


def test_verl_with_engines_of_their_own_and_dropped_prompts() -> None:
    """Its own configuration, by its name, states Megatron; prompts are those between two sets of weights."""
    found = document(texts.VERL_ASYNC)
    assert stated(found, "cluster.nodes", "plan.rollout.ranks", "plan.rollout.colocated") == [6, 16, False]
    assert stated(found, "stack.like", "stack.trainer", "stack.rollout") == ["verl", "megatron-core", "sglang"]
    assert of_workload(found, "algorithm prompts samples mini_batch") == ["dapo", 256, 16, 512]
    assert of_workload(found, "staleness rollouts rollout_precision") == [0.5, "partial", "fp8-block"]
    assert of_workload(found, "old_log_probabilities") + stated(found, "plan.tp", "plan.ep") == ["engine", 2, 8]
    assert not predict(case_of(found)).refused


@pytest.mark.parametrize(
    ("row", "ahead", "mean"), [("8b-16-h100-0.4", False, 931), ("8b-16-h100-0.4-1-off", True, 1006)]
)
def test_nemo_rl_states_what_was_measured(row: str, ahead: bool, mean: int) -> None:
    """The published recipe of a measured iteration, in its own words, comes to the same prediction."""
    Path("base.yaml").write_text(texts.NEMO_BASE, "utf-8")
    load = {"prompt": "150", "answer": str(mean)}
    found = document(texts.NEMO_AHEAD if ahead else texts.NEMO_BASE, names=("mine.yaml",), load=load)
    (case,) = [case for run, case in cases(read("measured", "nemo-rl")) if run.name == row]
    own, measured = predict(case_of(found)), predict(reinforced(case))
    assert own.costs["iteration_time"] == pytest.approx(measured.costs["iteration_time"], rel=1e-6)
    assert (own.inputs.split.colocated, stated(found, "workload.staleness")) == (not ahead, [1 if ahead else None])


def test_openrlhf_by_todays_options_and_by_older_ones() -> None:
    found = document(texts.OPENRLHF)
    assert stated(found, "stack", "cluster.nodes", "model") == ["openrlhf", 1, "Qwen/Qwen3-8B"]
    assert found["workload"] == {
        "kind": "rl", "algorithm": "grpo", "prompts": 128, "samples": 8, "prompt": 300, "mini_batch": 128, "epochs": 1,
        "response": {"mean": "1k", "limit": 3072}, "reference": True, "reward": "rule", "precision": "bf16",
        "optimizer": "adamw",
    }  # fmt: skip
    assert found["plan"] == {
        "micro_batch": 4, "zero": 3, "recompute": "full", "rollout": {"tp": 2, "memory": "60 %", "offload": True},
    }  # fmt: skip
    older = imported(texts.OPENRLHF_OLDER)
    found = older.found.document
    assert stated(found, "workload.algorithm", "workload.response.limit", "workload.rollouts") == [
        "ppo",
        2048,
        "partial",
    ]
    assert stated(found, "plan.rollout.ranks", "cluster.nodes", "plan.zero") == [2, 1, 2]
    assert "actor_num_nodes is an older name" in [fault.sentence for fault in older.found.warnings]
    apart = texts.OPENRLHF_OLDER.replace(
        "--colocate_actor_ref", "--ref_num_gpus_per_node 2 --critic_num_gpus_per_node 6"
    ).replace("--packing_samples", "")
    found = document(apart, load=SHORT)
    assert stated(found, "plan.beside.reference", "plan.beside.critic", "cluster.nodes") == [2, 6, 2]
    assert stated(found, "stack.sharing.padded") == [True]
    shared = apart.replace("--pretrain", "--reward_num_gpus_per_node 6 --colocate_critic_reward --pretrain", 1)
    lost = [loss.sentence for loss in imported(shared, load=SHORT).found.losses]
    assert "on the accelerators of the critic: here on those of the trainer" in lost


def test_trl_with_a_configuration_of_accelerate() -> None:
    """Answers are counted by devices, of a step and of a generation; how states are sharded stands in the other."""
    found = document(texts.TRL, texts.ACCELERATE)
    assert stated(found, "stack.like", "stack.sharing.sleeps", "stack.trainer") == ["trl", True, None]
    assert of_workload(found, "prompts samples mini_batch epochs reference") == [64, 8, 256, 2, True]
    assert stated(found, "plan.zero", "plan.micro_batch", "plan.recompute", "plan.rollout.tp") == [3, 4, "full", 2]
    called = 'GRPOConfig(per_device_train_batch_size=4, num_generations=8, use_vllm=True, vllm_mode="server")'
    with pytest.raises(CostModelError, match="server that generates"):
        imported(called, names=("mine.py",), gpus=8, assignments=("model=qwen-3-8b",))
    more = ("model=qwen-3-8b", "plan.rollout.ranks=2")
    found = document(called, names=("mine.py",), gpus=8, assignments=more, load=SHORT)
    assert stated(found, "plan.rollout.colocated", "workload.prompts") == [False, 3]  # of 6 devices


def test_slime_of_a_script_that_leaves_its_gpus_to_the_machine() -> None:
    """Options of Megatron-LM are the trainer's; a comment in a list states nothing."""
    found = document(texts.SLIME)
    assert stated(found, "model", "cluster.nodes", "stack") == ["/root/Qwen3-30B-A3B", 2, "slime"]
    assert of_workload(found, "prompts samples mini_batch reference iterations") == [32, 8, 128, True, 3000]
    assert found["plan"] == {
        "tp": 4, "ep": 8, "cp": 2, "etp": 1, "micro_batch": "20480 tokens", "zero": 1, "sequence_parallel": True,
        "recompute": "full", "recompute_method": "uniform", "recompute_layers": 1,
        "rollout": {"tp": 8, "ep": 8, "memory": "70 %"},
    }  # fmt: skip
    unknown = texts.SLIME.replace("--actor-num-gpus-per-node 8", "--actor-num-gpus-per-node ${NUM_GPUS}")
    with pytest.raises(CostModelError) as raised:
        imported(unknown)
    (fault,) = raised.value.faults
    assert "--gpus" in fault.hint
    assert stated(document(unknown, gpus=16), "cluster.nodes") == [2]
    ahead = texts.SLIME.replace("train.py", "train_async.py").replace("--colocate", "--rollout-num-gpus 8")
    found = document(ahead)
    assert stated(found, "workload.staleness", "plan.rollout.ranks", "cluster.nodes") == [1, 8, 3]


def test_areal_by_the_strategies_of_both_parts_and_by_one_for_both() -> None:
    found = document(texts.AREAL)
    assert stated(found, "cluster.nodes", "plan.rollout.ranks", "plan.rollout.tp") == [2, 4, None]
    assert stated(found, "plan.cp", "plan.cp_type", "plan.micro_batch", "plan.rollout.memory") == [
        2, "a2a", "20480 tokens", "80 %",
    ]  # fmt: skip
    assert of_workload(found, "staleness rollouts mini_batch reference") == [2, "partial", 256, False]
    assert of_workload(found, "old_log_probabilities iterations") == ["trainer", 100]
    lines = [line for line in texts.AREAL.splitlines() if "backend:" not in line]
    older = document("\n".join([*lines, 'allocation_mode: "sglang:d4+fsdp:d6c2"']))
    assert {key: older[key] for key in ("cluster", "workload", "plan")} == {
        key: found[key] for key in ("cluster", "workload", "plan")
    }


TEXTS = {
    "verl": texts.VERL, "nemo-rl": texts.NEMO_BASE, "openrlhf": texts.OPENRLHF, "trl": texts.TRL, "slime": texts.SLIME,
    "areal": texts.AREAL,
}  # fmt: skip
# Keys that each text states, counted by hand.
COUNTS = {"verl": 24, "nemo-rl": 29, "openrlhf": 26, "trl": 15, "slime": 35, "areal": 25}


@pytest.mark.parametrize("name", TEXTS)
def test_every_key_is_listed_and_strict_passes_where_nothing_is_lost(name: str, run: Any) -> None:
    text = TEXTS[name]
    assert RL_FORMATS[detected(text, name).name].name == name
    Path("mine.txt").write_text(text, "utf-8")
    sized = ("--gpus", "8") if name == "trl" else ()
    asked = ("import", "mine.txt", "--gpu", "h100", *sized, "--prompt", "300", "--answer", "1k", "--strict", "--json")
    ran = run(*asked, cwd=Path.cwd())
    verdicts = {key["key"]: key["verdict"] for key in json.loads(ran.out)["keys"]}
    assert len(verdicts) == COUNTS[name], sorted(verdicts)
    lost = {key for key, verdict in verdicts.items() if verdict in ("approximated", "not expressible")}
    assert (lost, ran.code) == (set(), 0), ran.err


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("trainer.planted_key=3", "no effect"),
        ("actor_rollout_ref.actor.planted_key=3", "not expressible"),
        ("data.max_respons_length=3", "not expressible"),  # a slip, in a section whose keys have no effect
        ("data.val_batch_size=3", "no effect"),
        ("actor_rollout_ref.rollout.enforce_eager=True", "approximated"),
        ("actor_rollout_ref.model.lora_rank=32", "not expressible"),
        ("actor_rollout_ref.ref.ulysses_sequence_parallel_size=4", "approximated"),
        ("actor_rollout_ref.ref.ulysses_sequence_parallel_size=2", "read"),
        ("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4", "no effect"),
    ],
)
def test_what_becomes_of_a_word_of_verl(line: str, verdict: str) -> None:
    found = imported(texts.VERL.replace("trainer.nnodes", f"{line} trainer.nnodes")).found
    name = line.partition("=")[0]
    assert {key.name: key.verdict for key in found.keys}[name] == verdict


def test_values_that_stand_for_others_and_configurations_beneath() -> None:
    """Two rows of recipes; words of the command count most, what is computed by other code is listed as lost."""
    Path("base.yaml").write_text(texts.NEMO_BASE, "utf-8")
    Path("ahead.yaml").write_text(texts.NEMO_AHEAD, "utf-8")
    command = "uv run examples/run_grpo.py --config ahead.yaml grpo.num_prompts_per_step=8 ++policy.precision=float16"
    found = document(command)
    assert stated(found, "workload.prompts", "workload.samples", "workload.precision") == [8, 32, "fp16"]
    assert stated(found, "plan.rollout.ranks", "plan.micro_batch", "workload.response.limit") == [
        8,
        "4096 tokens",
        3796,
    ]
    computed = texts.NEMO_BASE.replace("num_prompts_per_step: 64", "num_prompts_per_step: ${env:PROMPTS}")
    lost = [loss for loss in imported(computed).found.losses if "num_prompts_per_step" in loss.sentence]
    assert [loss.kind for loss in lost] == ["not expressible"]


def test_a_configuration_that_is_not_there_is_a_fault_unless_its_values_are_the_defaults() -> None:
    with pytest.raises(CostModelError, match=r"base\.yaml"):
        imported(texts.NEMO_AHEAD)
    text = texts.NEMO_AHEAD.replace("base.yaml", "../../grpo_math_1B.yaml")
    with pytest.raises(CostModelError, match="separate engines have 8 of 1"):
        imported(text)
    found = imported(f"{text}cluster: {{gpus_per_node: 8, num_nodes: 2}}\n", load=SHORT).found
    assert stated(found.document, "workload.prompts", "workload.samples") == [32, 16]
    assert any("defaults of NeMo RL" in loss.sentence for loss in found.losses)


@pytest.mark.parametrize(
    ("text", "beside", "words"),
    [
        (texts.VERL, {"load": {}}, "the tokens of a prompt are not stated"),
        (texts.VERL, {"load": {"prompt": "300"}}, "the mean tokens of an answer are not stated"),
        (texts.VERL, {"load": GIVEN | {"rate": "4"}}, "--rate is for services"),
        (texts.VERL.replace("size=2", "size=3"), {}, "does not divide 16 accelerators"),
        (texts.VERL.replace("name=vllm", "name=hf"), {}, "no document describes it as an engine"),
        (texts.VERL.replace("estimator=grpo", "estimator=mine"), {}, "no workload expresses it"),
        (texts.VERL.replace("trainer.nnodes=${NNODES:-2}", "trainer.nnodes=${NODES}"), {}, "the text does not set"),
        (texts.VERL + texts.VERL.partition("max_response=")[2].partition("\n")[2], {}, "more than one training"),
        (texts.OPENRLHF.replace("--vllm.num_engines 4", ""), {}, "Transformers generates"),
        (texts.TRL.replace("use_vllm: true", "use_vllm: false"), {"gpus": 8}, "Transformers generates"),
        (texts.SLIME.replace("--colocate", ""), {}, "colocate neither"),
        (texts.AREAL.replace("fsdp:d6t1c2", "fsdp:6"), {}, "is no strategy"),
        (texts.AREAL.replace("batch_size: 128", "batch_size: many"), {}, "not a whole number"),
    ],
)
def test_what_cannot_be_read_is_a_fault(text: str, beside: Any, words: str) -> None:
    with pytest.raises(CostModelError, match=words):
        imported(text, **beside)
