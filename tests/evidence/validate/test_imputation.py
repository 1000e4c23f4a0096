"""What a row leaves empty is filled by a named rule."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.evidence.validate.imputation import RULES
from costmodel.evidence.validate.modelled_rows import modelled
from evidence.validate.runs_of_22b import EMPTY, MIXTRAL, MODERN, PIPELINE, SHELF, TITAN, WIRED

pytestmark = pytest.mark.usefixtures("in_its_folder")


CUT = {"cp": EMPTY, "tp": 4, "dp": 1}
HOPPER = {"accelerator": "h100-sxm", "zero_stage": 3, "features": "compile;fp32 grads"}
VOLTA = {"accelerator": "v100-sxm2-32", "precision": EMPTY}


@pytest.mark.parametrize(
    ("cells", "filled"),
    [
        ({"accelerator": EMPTY}, {"accelerator": "a100-sxm-80"}),
        ({"accelerator": EMPTY, "gpu": "A100"}, {"accelerator": "a100-sxm-80"}),
        ({"year": EMPTY}, {"year": "2022"}),
        ({"gpus": EMPTY, "dp": 1}, {"gpus": "8"}),
        ({"gpus": 16, "gpus_per_node": EMPTY, "nic_gbps_per_gpu": 100, "global_batch": 8}, {"gpus_per_node": "8"}),
        ({"gpus": 16, "global_batch": 8}, {"nic_gbps_per_gpu": "200"}),
        ({"precision": "fp16/bf16"}, {"precision": "bf16"}),
        ({"precision": EMPTY}, {"precision": "bf16"}),
        ({"ffn": EMPTY}, {"ffn": "24576"}),
        ({"kv_heads": EMPTY, "head_dim": EMPTY}, {"kv_heads": "64", "head_dim": "96"}),
        ({"vocab": EMPTY}, {"vocab": "50257"}),
        ({"vocab": EMPTY, "glu": "true"}, {"vocab": "32000"}),
        ({"glu": EMPTY}, {"glu": "false"}),
        ({"tied_embeddings": EMPTY}, {"tied_embeddings": "true"}),
        ({"tied_embeddings": EMPTY, "glu": "true"}, {"tied_embeddings": "false"}),
        ({"fsdp": "true", "tp": EMPTY, "pp": EMPTY, "zero_stage": 3, "global_batch": 32}, {"tp": "1", "pp": "1"}),
        ({"global_batch": EMPTY, "grad_accum": 2}, {"global_batch": "8"}),
        ({"micro_batch": EMPTY, "grad_accum": 4}, {"micro_batch": "1"}),
        ({"micro_batch": EMPTY}, {"micro_batch": "4"}),
        ({"micro_batch": EMPTY, "global_batch": 64}, {"micro_batch": "16"}),
        ({"micro_batch": EMPTY, "global_batch": 64, "tp": 2, "dp": 4}, {"micro_batch": "4"}),
        ({"micro_batch": EMPTY, "global_batch": 3}, {"micro_batch": "3"}),
        ({**PIPELINE, "nic_gbps_per_gpu": 200}, {"micro_batch": "1", "vp": "6"}),
        ({**PIPELINE, "nic_gbps_per_gpu": 200, "year": 2021}, {"micro_batch": "1", "vp": "2"}),
        ({**PIPELINE, "nic_gbps_per_gpu": 200, "global_batch": 6}, {"micro_batch": "1", "vp": "1"}),
        ({**PIPELINE, "nic_gbps_per_gpu": 200, "global_batch": 24, "micro_batch": 2}, {"vp": "1"}),  # six of them
        ({"vp": 2}, {"vp": "1"}),
        ({"layers": 47, "pp": 2, "gpus": 16, "nic_gbps_per_gpu": 200}, {"stages": "lighter-last"}),
        (MODERN, {"zero_stage": "1"}),
        ({**MODERN, "zero_stage": 1, "seq_parallel": EMPTY}, {"seq_parallel": "true"}),
        ({**MODERN, "zero_stage": 1, "recompute": EMPTY}, {"recompute": "none"}),
        ({"recompute": EMPTY}, {"recompute": "full"}),
        ({"features": EMPTY}, {"gradients": "fp32"}),
        ({"features": EMPTY, "framework": EMPTY, "year": 2023, "precision": "bf16"}, {"gradients": "bf16"}),
        ({"features": EMPTY, "framework": EMPTY, "year": 2023}, {"gradients": "fp16"}),
        ({"features": EMPTY, "framework": EMPTY, "year": 2023, "source": "Megatron-Core"}, {"gradients": "fp32"}),
        ({"features": EMPTY, "framework": "InternEvo", "zero_stage": 1}, {"gradients": "fp16"}),
        ({"kernel": "flash attention"}, {"kernel": "flash-1"}),
        ({"kernel": "nonsense"}, {"kernel": "unfused"}),
        ({"kernel": "flash attention 2"}, {}),
        (
            {**PIPELINE, "nic_gbps_per_gpu": 200, "features": "schedule=1F1B;fp32 grads"},
            {"micro_batch": "1", "vp": "1"},
        ),
        (
            {**PIPELINE, **WIRED, **MODERN, "framework": "Megatron-LM + 1F1B", "zero_stage": 1},
            {"micro_batch": "1", "vp": "1"},
        ),
        (
            {**PIPELINE, **WIRED, **MODERN, "framework": "HAI-LLM", "zero_stage": 1},
            {"micro_batch": "1", "schedule": "dualpipe"},
        ),
        (
            {**PIPELINE, **WIRED, **MODERN, "framework": "HAI-LLM", "zero_stage": 1, "layers": 50},
            {"micro_batch": "1", "vp": "1", "stages": "lighter-ends"},
        ),
        (
            {**PIPELINE, **WIRED, "layers": 50, "features": "schedule=1F1B-I;fp32 grads"},
            {"micro_batch": "1", "vp": "2", "stages": "spread"},
        ),
        (
            {**PIPELINE, "nic_gbps_per_gpu": 200, "layers": 12, "pp": 8},
            {"micro_batch": "1", "vp": "1", "stages": "spread"},
        ),
        ({"tp": EMPTY, "dp": 1}, {"tp": "8"}),
        ({"pp": EMPTY, "dp": 1}, {"pp": "1"}),
        ({"tp": EMPTY, "pp": EMPTY, "dp": 8, "global_batch": 32}, {"tp": "1", "pp": "1"}),
        ({"fsdp": "true", "tp": EMPTY, "dp": 1}, {"tp": "8"}),
        ({"fsdp": "true", "pp": EMPTY, "tp": 4, "dp": 1, "zero_stage": EMPTY}, {"pp": "2", "zero_stage": "2"}),
        ({**CUT, "framework": "InternEvo", "zero_stage": 1}, {"cp": "2"}),
        ({"fsdp": "true", "zero_stage": EMPTY}, {"zero_stage": "3"}),
        ({"fsdp": "true", "zero_stage": EMPTY, "pp": 2, "tp": 4}, {"zero_stage": "2"}),
        ({"framework": "DeepSpeed ZeRO-3", "zero_stage": EMPTY, "tp": 1, "global_batch": 32}, {"zero_stage": "3"}),
        (
            {"framework": "torchtitan", "fsdp": EMPTY, "zero_stage": 3, "features": "compile;fp32 grads"},
            {"fsdp": "true"},
        ),
        ({"accelerator": EMPTY, "gpu": "A100", "gpu_mem_gb": 40}, {"accelerator": "a100-sxm-40"}),
        ({"attention": "MQA", "kv_heads": EMPTY, "tp": 1, "global_batch": 32}, {"kv_heads": "1"}),
        ({"accelerator": "v100-sxm2-32", "precision": EMPTY}, {"precision": "fp16"}),
        *(({"precision": said}, {"precision": "bf16"}) for said in ("BF16", "bfloat16", "bf16-mixed", "bf16/fp16")),
        ({**HOPPER, **TITAN, "precision": "FP8"}, {"precision": "fp8-cs"}),
        ({**HOPPER, **TITAN, "precision": "fp8-mixed"}, {"precision": "fp8-cs"}),
        ({**HOPPER, **TITAN, "precision": "fp8 rowwise"}, {"precision": "fp8-row"}),
        ({**HOPPER, **TITAN, "precision": "FP8 (delayed scaling)"}, {"precision": "fp8"}),
        ({**VOLTA, **MODERN, **VOLTA, "zero_stage": 1, "features": EMPTY}, {"precision": "fp16", "gradients": "fp16"}),
        *(({"recompute": said}, {}) for said in ("Full", "full;all layers", "uniform", "block", "full:48 layers")),
        ({"features": "fp32 grads;no offload"}, {}),
        ({"features": "fp32 grads;cpu_offload=false", "notes": "full fine-tuning, no LoRA"}, {}),
        ({"recompute": "uniform:1"}, {}),
        ({"ep": "N/A", "vp": "null", "zero_stage": "-", "year": 2024, "framework": "NeMo"}, {"zero_stage": "1"}),
    ],
)
def test_empty_cells_are_filled_and_told(row: Any, cells: dict[str, Any], filled: dict[str, str]) -> None:
    found = modelled(row(**cells), SHELF)
    assert {"stack": found.inputs.stack.name, **filled} == found.filled
    assert set(found.filled) <= set(RULES)


@pytest.mark.parametrize(
    ("framework", "year", "etp"), [("Megatron-Core", 2025, 2), ("Megatron-Bridge 26.02", 2026, 1), ("NeMo", 2025, 2)]
)
def test_etp_unsaid(framework: str, year: int, etp: int, row: Any) -> None:
    found = modelled(row(**{**MIXTRAL, "framework": framework, "year": year, "etp": EMPTY}), SHELF)
    assert found.evaluation.block.etp[0] == etp
