"""Arguments of transformers in a command and in Python: as in a YAML, with what starts the program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.exchange.import_result import Imported
from costmodel.explore.import_export.import_file import GivenBesideFile, import_files
from costmodel.ground.errors import CostModelError

SCRIPT = """#!/bin/bash
BATCH=4
MODEL=Qwen/Qwen3-8B
deepspeed --num_gpus 8 finetune.py \\
    --model_name_or_path $MODEL --bf16 True --per_device_train_batch_size $BATCH \\
    --gradient_accumulation_steps 2 --gradient_checkpointing True --model_max_length 4096 \\
    --max_steps 100 --deepspeed ds.json --output_dir out --learning_rate 2e-5
"""
CALL = """import os
os.system("touch /tmp/planted-by-arguments")
BATCH = 2
args = SFTConfig(
    output_dir="out", per_device_train_batch_size=2 * BATCH, gradient_accumulation_steps=4, bf16=True,
    gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False}, max_length=2048,
    fsdp=True, fsdp_config={"version": 2, "reshard_after_forward": False}, optim="adamw_bnb_8bit",
)
peft = LoraConfig(r=32, target_modules="all-linear")
SFTTrainer(model="Qwen/Qwen3-8B", args=args, peft_config=peft).train()
"""
ZERO = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}, "train_batch_size": "auto"}
FACTORY = """FORCE_TORCHRUN=1 llamafactory-cli train --stage sft --do_train --finetuning_type lora --lora_rank 16 \\
  --model_name_or_path Qwen/Qwen3-8B --cutoff_len 2048 --per_device_train_batch_size 1 \\
  --gradient_accumulation_steps 8 --quantization_bit 4 --bf16 --template qwen
"""


def read(text: str, path: Path, *given: str, name: str = "run.sh", nodes: int | None = None) -> Imported:
    (path / name).write_text(text, "utf-8")
    (path / "ds.json").write_text(json.dumps(ZERO), "utf-8")
    return import_files([str(path / name)], GivenBesideFile("dgx-h100", nodes, None, False, given)).found


def fault(text: str, path: Path, name: str = "run.sh") -> str:
    with pytest.raises(CostModelError) as caught:
        read(text, path, name=name, nodes=1)
    return f"{caught.value.faults[0].code} {caught.value.faults[0].sentence}"


def has(found: Imported, section: str, **expected: Any) -> None:
    assert {key: found.document[section].get(key) for key in expected} == expected


def test_words_of_a_command_and_the_file_that_they_name(tmp_path: Path) -> None:
    found = read(SCRIPT, tmp_path)
    has(found, "plan", micro_batch=4, zero=3, recompute="full", dp=8)
    has(found, "workload", global_batch=4 * 2 * 8, sequence=4096, precision="bf16", tokens=100 * 64 * 4096)
    assert (found.document["model"], found.document["stack"]) == ("Qwen/Qwen3-8B", "transformers-deepspeed")
    assert found.facts["accelerators"].value == 8
    assert fault(SCRIPT.replace("BATCH=4", ""), tmp_path).startswith("X002 ")  # $BATCH, which nothing sets
    twice = SCRIPT + SCRIPT.partition("Qwen3-8B\n")[2]
    assert fault(twice, tmp_path) == "X004 the script starts more than one training"


def test_a_launcher_names_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "acc").mkdir()
    (tmp_path / "acc" / "fsdp.yaml").write_text(
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 16\nfsdp_config:\n  fsdp_version: 2\n", "utf-8"
    )
    text = SCRIPT.replace("deepspeed --num_gpus 8", "accelerate launch --config_file acc/fsdp.yaml")
    found = read(text.replace("--deepspeed ds.json ", ""), tmp_path)
    has(found, "plan", zero=3, dp=16, recompute="full")
    assert (found.document["stack"], found.document["cluster"]["nodes"]) == ("fsdp2", 2)
    assert fault(text.replace("acc/fsdp", "fsdp"), tmp_path) == "X002 the file names fsdp.yaml, which cannot be read"


def test_a_call_is_read_and_not_run(tmp_path: Path) -> None:
    found = read(CALL, tmp_path, name="train.py", nodes=1)
    assert not Path("/tmp/planted-by-arguments").exists()
    has(found, "plan", micro_batch=4, zero=2, recompute="full")
    has(found, "workload", sequence=2048, optimizer="adam-8bit", tuning={"method": "lora", "rank": 32})
    assert found.document["model"] == "Qwen/Qwen3-8B"
    open_value = CALL.replace("2 * BATCH", "cli.batch")
    assert fault(open_value, tmp_path, "train.py") == (
        "X008 per_device_train_batch_size hangs on cli.batch: nothing is run here"
    )
    assert fault(CALL.replace("bf16=True", "**more"), tmp_path, "train.py").startswith("X008 ** hands arguments on")
    quiet = read(CALL.replace('"out"', "cli.folder"), tmp_path, name="train.py", nodes=1)  # costs nothing
    assert quiet.document == found.document


def test_words_of_llama_factory(tmp_path: Path) -> None:
    found = read(FACTORY, tmp_path, nodes=1)
    has(found, "workload", sequence=2048, global_batch=64, tuning={"method": "qlora", "rank": 16})
    has(found, "plan", recompute="full", micro_batch=1)
    rated = read(FACTORY.replace("--stage sft", "--stage dpo"), tmp_path, nodes=1)
    assert any("stage dpo" in loss.sentence for loss in rated.losses if loss.kind == "not expressible")
    eight = read(FACTORY.replace("bit 4", "bit 8"), tmp_path, nodes=1)
    has(eight, "workload", tuning={"method": "lora", "rank": 16})
    assert any("weights of the base in 8 bits" in loss.sentence for loss in eight.losses)


@pytest.mark.parametrize(
    ("words", "stack", "zero"),
    [
        ("full_shard auto_wrap", "fsdp2", 3), ("shard_grad_op", "fsdp2", 2),
        ("hybrid_shard_zero2", "transformers-fsdp", 2), ("no_shard", "transformers-fsdp", 0),
    ],
)  # fmt: skip
def test_older_words_of_fsdp_warn_of_their_version(words: str, stack: str, zero: int, tmp_path: Path) -> None:
    text = f"per_device_train_batch_size: 1\nbf16: true\ngradient_checkpointing: true\nfsdp: {words}\nmax_length: 512\n"
    found = read(text, tmp_path, "model=llama-3.1-8b", name="args.yaml", nodes=1)
    assert (found.document["stack"], found.document["plan"]["zero"]) == (stack, zero)
    assert [warning.code for warning in found.warnings] == ["X006"]
