"""accelerate and DeepSpeed in older spellings: what counts in which version, and what is refused or said aloud."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.exchange.import_result import Imported
from costmodel.explore.import_export.import_file import GivenBesideFile, import_files
from costmodel.ground.errors import CostModelError

ASKED = ("model=llama-3.1-8b", "workload.sequence=4096", "plan.micro_batch=1")
FSDP = "distributed_type: FSDP\nnum_machines: 2\nnum_processes: 16\nmixed_precision: bf16\nfsdp_config:\n"
MEGATRON = """distributed_type: MEGATRON_LM
num_processes: 16
mixed_precision: bf16
megatron_lm_config:
  megatron_lm_tp_degree: 2
  megatron_lm_pp_degree: 4
  megatron_lm_num_micro_batches: 8
  megatron_lm_sequence_parallelism: true
  megatron_lm_recompute_activations: true
  megatron_lm_use_distributed_optimizer: true
"""


def read(text: Any, path: Path, *given: str, nodes: int | None = 2) -> Imported:
    file = path / ("a.yaml" if isinstance(text, str) else "ds.json")
    file.write_text(text if isinstance(text, str) else json.dumps(text), "utf-8")
    return import_files([str(file)], GivenBesideFile("dgx-h100", nodes, None, False, (*ASKED, *given))).found


def plan(found: Imported, *keys: str) -> list[Any]:
    return [found.document["plan"].get(key) for key in keys]


def codes(text: Any, path: Path) -> list[str]:
    with pytest.raises(CostModelError) as caught:
        read(text, path)
    return [fault.code for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("keys", "zero", "replicas", "warned"),
    [
        ("fsdp_sharding_strategy: HYBRID_SHARD", 3, 2, []),
        ("fsdp_sharding_strategy: 5", 2, 2, []),
        ("fsdp_sharding_strategy: shard_grad_op", 2, None, []),
        ("fsdp_reshard_after_forward: FULL_SHARD", 3, None, []),
        ("fsdp_reshard_after_forward: SHARD_GRAD_OP", 3, None, ["X006"]),  # which accelerate 1.15 passes over
        ("fsdp_version: 2\n  fsdp_reshard_after_forward: false", 2, None, []),
        ("fsdp_version: 2\n  fsdp_sharding_strategy: SHARD_GRAD_OP", 3, None, ["X006"]),
    ],
)
def test_how_fsdp_shards(keys: str, zero: int, replicas: int | None, warned: list[str], tmp_path: Path) -> None:
    found = read(f"{FSDP}  {keys}\n", tmp_path)
    assert plan(found, "zero", "dp_replicate") == [zero, replicas]
    assert [fault.code for fault in found.warnings] == warned


def test_replicas_of_shards_need_the_number_of_machines(tmp_path: Path) -> None:
    text = FSDP.replace("num_machines: 2\n", "") + "  fsdp_sharding_strategy: HYBRID_SHARD\n"
    assert codes(text, tmp_path) == ["X002"]
    assert codes(FSDP + "  fsdp_sharding_strategy: HALF\n", tmp_path) == ["X005"]


@pytest.mark.parametrize("line", ["mixed_precision: no", "mixed_precision: 'no'"])
def test_no_mixed_precision_is_fp32(line: str, tmp_path: Path) -> None:
    found = read(FSDP.replace("mixed_precision: bf16", line) + "  fsdp_version: 2\n", tmp_path)
    assert found.document["workload"]["precision"] == "fp32"


def test_megatron_behind_accelerate(tmp_path: Path) -> None:
    found = read(MEGATRON, tmp_path)
    assert plan(found, "tp", "pp", "dp", "zero", "recompute", "sequence_parallel") == [2, 4, 2, 1, "selective", True]
    assert (found.document["stack"], found.document["workload"]["global_batch"]) == ("megatron-lm", 16)


SHARDS = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1}, "bf16": {"enabled": True}}


@pytest.mark.parametrize(
    ("text", "today"),
    [
        (f"{FSDP}  sharding_strategy: 2\n", "fsdp_config.fsdp_sharding_strategy"),
        (FSDP.replace("mixed_precision: bf16", "fp16: true"), "mixed_precision: fp16"),
        (SHARDS | {"zero_optimization": True}, "zero_optimization.stage"),
        (SHARDS | {"bfloat16": {"enabled": True}}, "bf16.enabled"),
        (
            "output_dir: a\nper_gpu_train_batch_size: 2\nlearning_rate: 1e-4\nbf16: true\nmax_steps: 9\noptim: lion\n",
            "per_device_train_batch_size",
        ),
    ],
)
def test_options_of_before_2023_are_refused_with_those_of_today(text: Any, today: str, tmp_path: Path) -> None:
    with pytest.raises(CostModelError) as caught:
        read(text, tmp_path)
    assert ("X005", f"write {today} in its place") in [(fault.code, fault.hint) for fault in caught.value.faults]


def test_types_of_deepspeed_in_16_bits(tmp_path: Path) -> None:
    lean: dict[str, Any] = SHARDS | {"bf16": {"enabled": True, "bf16_optimizer_states": True}}
    assert "in 16 bits" in " ".join(loss.sentence for loss in read(lean, tmp_path).losses)
    off = {**lean, "bf16": {"enabled": True}, "elasticity": {"enabled": False}}
    assert not [loss for loss in read(off, tmp_path).losses if loss.kind != "ignored"]
