"""Overrides of Megatron-Bridge, and of NeMo before it, with the trainer's own accelerators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.exchange.import_result import Imported
from costmodel.explore.import_export.import_file import GivenBesideFile, import_files
from costmodel.ground.errors import CostModelError

BRIDGE = """torchrun --nproc_per_node=8 run_recipe.py --recipe llama3_70b model.tensor_model_parallel_size=4 \\
  model.pipeline_model_parallel_size=4 model.virtual_pipeline_model_parallel_size=5 model.sequence_parallel=true \\
  train.global_batch_size=128 train.micro_batch_size=1 model.seq_length=8192 ddp.use_distributed_optimizer=true \\
  mixed_precision=bf16_with_mxfp8_mixed
"""
NEMO = """python megatron_gpt_pretraining.py trainer.devices=8 trainer.num_nodes=4 trainer.precision=bf16 \\
  trainer.max_steps=1000 model.micro_batch_size=2 model.global_batch_size=256 model.encoder_seq_length=4096 \\
  model.tensor_model_parallel_size=4 model.pipeline_model_parallel_size=2 +model.sequence_parallel=True \\
  model.activations_checkpoint_granularity=selective model.optim.name=distributed_fused_adam
"""
NEMO_2 = """nemo llm pretrain --factory llama3_8b trainer.num_nodes=2 trainer.devices=8 data.global_batch_size=64 \\
  data.micro_batch_size=1 data.seq_length=8192 trainer.strategy.tensor_model_parallel_size=2 \\
  trainer.strategy.context_parallel_size=2 trainer.precision=bf16-mixed
"""


def read(text: str, path: Path, nodes: int | None = None, *more: str) -> Imported:
    (path / "run.sh").write_text(text, "utf-8")
    given = ("model=llama-3.1-70b", *more)
    return import_files([str(path / "run.sh")], GivenBesideFile("dgx-h100", nodes, None, False, given)).found


def has(found: Imported, section: str, **expected: Any) -> None:
    assert {key: found.document[section].get(key) for key in expected} == expected


def test_overrides_of_megatron_bridge(tmp_path: Path) -> None:
    found = read(BRIDGE, tmp_path, 4)
    has(found, "plan", tp=4, pp=4, vpp=5, dp=2, zero=1, sequence_parallel=True, micro_batch=1)
    has(found, "workload", precision="mxfp8", global_batch=128, sequence=8192)
    assert any("what the recipe states" in loss.sentence for loss in found.losses if loss.kind == "not expressible")


def test_overrides_of_nemo_have_older_names_and_accelerators(tmp_path: Path) -> None:
    found = read(NEMO, tmp_path)
    has(found, "plan", tp=4, pp=2, dp=4, zero=1, recompute="selective", sequence_parallel=True, micro_batch=2)
    has(found, "workload", precision="bf16", global_batch=256, sequence=4096, tokens=1000 * 256 * 4096)
    assert (found.document["cluster"]["nodes"], {fault.code for fault in found.warnings}) == (4, {"X006"})
    found = read(NEMO_2, tmp_path)
    has(found, "plan", tp=2, cp=2, dp=4, micro_batch=1)
    has(found, "workload", precision="bf16", global_batch=64, sequence=8192)


def test_two_names_of_one_size_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(CostModelError) as caught:
        read(f"{NEMO.rstrip()} train.micro_batch_size=1\n", tmp_path)
    assert [fault.code for fault in caught.value.faults] == ["X004"]
    with pytest.raises(CostModelError) as caught:
        read(NEMO.replace("precision=bf16", "precision=64"), tmp_path)
    assert caught.value.faults[0].code == "X003"
