"""Launchers and variables in front of a program: what they state is read or listed, and counts of a file stand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costmodel.exchange.import_result import COUNTS, GivenSize, Origin, OriginValue, accelerators_of_nodes
from costmodel.exchange.launcher_options import launcher_verdicts
from costmodel.exchange.shell.script import Word
from costmodel.ground.errors import CostModelError, Fault, Place

from .test_every_key import verdicts_of

ARGUMENTS = "train.py --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2 --bf16 --max_length 2048"
MACHINE = ("--node", "dgx-h100")


def imported(text: str, run: Any, tmp_path: Path, *given: str) -> dict[str, Any]:
    """What import makes of a script, as JSON: values by their keys, and verdicts of options by their names."""
    file = tmp_path / "train.sh"
    file.write_text(text, "utf-8")
    ran = run("import", str(file), *given, "--format", "json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    return {**dict(leaves(found["document"], "")), **{key["key"]: key["verdict"] for key in found["keys"]}}


def leaves(tree: dict[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    """Values by their dotted paths."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


@pytest.mark.parametrize(
    ("launcher", "expected"),
    [
        ("accelerate launch --num_processes 8 --use_fsdp --fsdp_version 2", {"stack": "fsdp2", "plan.zero": 3}),
        ("accelerate launch --num_processes=8 --use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP",
         {"stack": "transformers-fsdp", "plan.zero": 2}),
        ("accelerate launch --num_processes 8 --use_fsdp --fsdp_version 2 --fsdp_offload_params true",
         {"stack": "fsdp2", "plan.offload": ["optimizer", "parameters"]}),
        ("accelerate launch --num_processes 8 --use_deepspeed --zero_stage 3 --offload_optimizer_device cpu",
         {"stack": "transformers-deepspeed", "plan.zero": 3, "plan.offload": ["optimizer"]}),
        ("accelerate launch --multi_gpu --num_processes 8", {"stack": "ddp", "plan.zero": 0}),
        ("accelerate launch --num_processes 8 --use_fsdp --fsdp_version 2 --fsdp_activation_checkpointing true",
         {"plan.recompute": "full"}),
        ("torchrun --nproc_per_node 4 --nnodes 2", {"plan.dp": 8, "cluster.nodes": 2, "stack": "ddp"}),
        ("deepspeed --include localhost:0,1,2,3", {"plan.dp": 4, "cluster.node.accelerators": 4}),
        ("deepspeed --include=a:0,1,2,3@b:4,5,6,7", {"plan.dp": 8, "cluster.nodes": 2, "cluster.node.accelerators": 4}),
        ("deepspeed --include a@b@c", {"plan.dp": 24, "cluster.nodes": 3}),
        ("deepspeed --include a:0,1,2,3@b:0,1", {"plan.dp": 6, "--include": "approximated"}),
        ("CUDA_VISIBLE_DEVICES=0,1,2,3 python", {"plan.dp": 4}),
    ],
)  # fmt: skip
def test_options_of_a_launcher_are_those_of_its_configuration(
    launcher: str, expected: dict[str, Any], run: Any, tmp_path: Path
) -> None:
    found = imported(f"{launcher} {ARGUMENTS}\n", run, tmp_path, *MACHINE)
    assert {key: found[key] for key in expected} == expected
    assert found["workload.global_batch"] == 2 * found["plan.dp"]


@pytest.mark.parametrize(
    ("ahead", "option", "verdict"),
    [
        ("accelerate launch --num_processes 8 --use_fsdp", "--use_fsdp", "read"),
        ("accelerate launch --num_processes 8 --main_process_port 29501", "--main_process_port", "no effect"),
        ("accelerate launch --num_processes 8 --dynamo_backend inductor", "--dynamo_backend", "approximated"),
        ("accelerate launch --num_processes 8 --planted_key 3", "--planted-key", "not expressible"),
        ("torchrun --nproc_per_node 8 --rdzv_backend c10d", "--rdzv_backend", "no effect"),
        ("torchrun --nproc_per_node 8 --planted_key 3", "--planted_key", "not expressible"),
        ("NCCL_P2P_DISABLE=1 torchrun --nproc_per_node 8", "NCCL_P2P_DISABLE", "not expressible"),
        ("export NCCL_ALGO=Ring\ntorchrun --nproc_per_node 8", "NCCL_ALGO", "approximated"),
        ("export ACCELERATE_PLANTED=1; torchrun --nproc_per_node 8", "ACCELERATE_PLANTED", "not expressible"),
    ],
)
def test_each_option_and_variable_in_front_of_a_program_is_listed(
    ahead: str, option: str, verdict: str, run: Any, tmp_path: Path
) -> None:
    found = imported(f"{ahead} {ARGUMENTS}\n", run, tmp_path, *MACHINE)
    assert found.get(option, found.get(option.replace("-", "_").replace("__", "--"))) == verdict
    file = tmp_path / "train.sh"
    assert run("import", str(file), *MACHINE, "--strict").code == (verdict in ("approximated", "not expressible"))


def test_variables_that_no_program_here_reads_are_left_out(run: Any, tmp_path: Path) -> None:
    found = imported(f"export MODEL=x HF_HOME=/tmp\ntorchrun --nproc_per_node 8 {ARGUMENTS}\n", run, tmp_path, *MACHINE)
    assert not {"MODEL", "HF_HOME"} & found.keys()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 8", "of which CUDA_VISIBLE_DEVICES names 2"),
        ("accelerate launch --num_processes 8 --mixed_precision fp16", "workload.precision is"),
        ("accelerate launch --num_processes 8 --use_fsdp --use_deepspeed", "--use_fsdp and --use_deepspeed exclude"),
    ],
)
def test_a_contradiction_is_a_fault_with_both_places(command: str, words: str, run: Any, tmp_path: Path) -> None:
    file = tmp_path / "train.sh"
    file.write_text(f"{command} {ARGUMENTS}\n", "utf-8")
    ran = run("import", str(file), *MACHINE)
    assert ran.code == 2
    assert "error[X004]" in ran.err
    assert words in " ".join(ran.err.split())
    assert "train.sh:1" in ran.err


COUNT = Origin("file", "num_processes", Place("a.yaml", 3, 1))
NPROC = Origin("file", "nproc_per_node of the launcher", Place("a.yaml", 3, 1))


@pytest.mark.parametrize(
    ("size", "count", "nodes", "expected"),
    [
        (GivenSize(nodes=4, each=8), NPROC, 2, "2 nodes by num_processes, and --nodes 4"),
        (GivenSize(nodes=2, each=8), NPROC, 2, 16),
        (GivenSize(nodes=4, each=8), NPROC, None, 32),
        (GivenSize(gpus=16), NPROC, None, 16),
        (GivenSize(gpus=32), NPROC, 2, "16 accelerators by nodes × accelerators of each, and --gpus 32"),
        (GivenSize(gpus=12), NPROC, None, "8 accelerators by nodes × accelerators of each, and --gpus 12"),
        (GivenSize(), 4, None, 4),
        (GivenSize(), None, 2, None),
        (GivenSize(each=8), None, 2, 16),
        (GivenSize(gpus=9, each=8), None, 2, "2 nodes by num_processes, and --gpus 9"),
        (GivenSize(nodes=1, each=8), 4, None, 4),
        (GivenSize(nodes=2, each=8), 12, None, 12),
        (GivenSize(nodes=2, each=8), 8, 2, 8),
        (GivenSize(nodes=2, each=8), None, None, 16),
        (GivenSize(gpus=4), None, None, 4),
        (GivenSize(gpus=4), 4, None, 4),
        (GivenSize(gpus=8), 4, None, "4 accelerators by num_processes, and --gpus 8"),
        (GivenSize(nodes=1, each=8), 16, None, "16 accelerators by num_processes, and --nodes 1 of 8 are 8"),
        (GivenSize(nodes=4, each=8), 8, 2, "2 nodes by num_processes, and --nodes 4"),
    ],
)
def test_a_count_of_a_file_stands_for_itself(
    size: GivenSize, count: int | Origin | None, nodes: int | None, expected: int | str | None
) -> None:
    """Eight by a launcher that states how many each node has are as many of each node that is given."""
    of_nodes = None if nodes is None else OriginValue(nodes, COUNT)
    stated = dict(zip(COUNTS, (None if count is None else OriginValue(count, COUNT), of_nodes), strict=False))
    if isinstance(count, Origin):
        stated = {**accelerators_of_nodes(OriginValue(8, count), of_nodes, "launcher")}
    found = size.accelerators({name: value for name, value in stated.items() if value is not None})
    if isinstance(found, Fault):
        assert (found.sentence, found.place) == (expected, COUNT.place)
    else:
        assert (None if found is None else found.value) == expected


def test_nodes_that_the_given_accelerators_do_not_fit_on_are_refused(run: Any, tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(f"python {ARGUMENTS}\n", "utf-8")
    for gpus, nodes in ((32, 2), (15, 2), (4, 3)):
        ran = run("import", str(tmp_path / "train.sh"), *MACHINE, "--gpus", str(gpus), "--nodes", str(nodes))
        assert ran.code == 2
        assert f"error[C001]: --gpus {gpus} are not on --nodes {nodes} of 8" in ran.err


def test_a_part_of_a_node_stays_a_part(run: Any, tmp_path: Path) -> None:
    text = f"accelerate launch --num_processes 4 {ARGUMENTS}\n"
    for given in ((), ("--nodes", "1"), ("--gpus", "4")):
        found = imported(text, run, tmp_path, *MACHINE, *given)
        assert (found["plan.dp"], found["workload.global_batch"], found["cluster.nodes"]) == (4, 8, 1)
        assert found["cluster.node.accelerators"] == 4
    written = tmp_path / "mine.yaml"
    assert run("import", str(tmp_path / "train.sh"), *MACHINE, "-o", str(written)).code == 0
    assert "4 of 8 in use" in run("memory", str(written)).out


def test_one_accelerator_serves(run: Any, tmp_path: Path) -> None:
    load = ("--rate", "1", "--prompt", "1000", "--answer", "100")
    for given, used in (((), None), (("--gpus", "1"), 1), (("--gpus", "2"), 2)):
        found = imported("vllm serve Qwen/Qwen3-8B\n", run, tmp_path, *MACHINE, *given, *load)
        assert (found.get("cluster.node.accelerators"), found["plan.replicas"]) == (used, used or 1)


@pytest.mark.parametrize(
    ("text", "name", "verdict"),
    [
        ("VLLM_PP_LAYER_PARTITION=20,16 vllm serve Qwen/Qwen3-8B -pp 2", "VLLM_PP_LAYER_PARTITION", "not expressible"),
        ("VLLM_ATTENTION_BACKEND=FLASHINFER vllm serve Qwen/Qwen3-8B", "VLLM_ATTENTION_BACKEND", "approximated"),
        ("VLLM_PLANTED=1 vllm serve Qwen/Qwen3-8B", "VLLM_PLANTED", "not expressible"),
        ("VLLM_LOGGING_LEVEL=DEBUG vllm serve Qwen/Qwen3-8B", "VLLM_LOGGING_LEVEL", "no effect"),
        ("bash -c 'export NCCL_IB_DISABLE=1; vllm serve Qwen/Qwen3-8B'", "NCCL_IB_DISABLE", "not expressible"),
    ],
)
def test_variables_in_front_of_an_engine_are_listed(
    text: str, name: str, verdict: str, run: Any, tmp_path: Path
) -> None:
    load = ("--rate", "1", "--prompt", "1000", "--answer", "100")
    assert imported(f"{text}\n", run, tmp_path, *MACHINE, *load)[name] == verdict


def test_variables_in_front_of_megatron_are_listed() -> None:
    from .scripts import LLAMA_8B, read

    text = LLAMA_8B.replace("torchrun", "NCCL_P2P_DISABLE=1 torchrun", 1)
    assert verdicts_of(read(text))["NCCL_P2P_DISABLE"] == "not expressible"
    with pytest.raises(CostModelError) as caught:
        read(LLAMA_8B, 12)
    assert [fault.code for fault in caught.value.faults] == ["X004"]


def test_slurm_options_without_cost_are_no_losses() -> None:
    """Names, logs and times of a job change nothing; an option that no launcher has may."""
    words = (
        "torchrun",
        "--job-name=x",
        "--output=o.log",
        "--time=48:00:00",
        "--mail-user=a@b.c",
        "--nodes=8",
        "--strange=1",
    )
    found = launcher_verdicts([Word(text, Place("train.sh", 1)) for text in words])
    verdicts = {key.name: key.verdict for key in found.keys}
    assert verdicts.pop("--strange") == "not expressible"
    assert verdicts.pop("--nodes") == "read"
    assert set(verdicts.values()) == {"no effect"}
