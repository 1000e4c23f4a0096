"""The stack of a row, and what the row switches in it."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.documents.reader.library import read
from costmodel.evidence.validate.modelled_rows import modelled
from evidence.validate.runs_of_22b import EMPTY, SHELF, TITAN

pytestmark = pytest.mark.usefixtures("in_its_folder")


FUSED, EAGER = (getattr(read("stack", "fsdp2").kernels, name) for name in ("traffic_factor", "eager_factor"))


@pytest.mark.parametrize(
    ("cells", "stack"),
    [
        ({"fsdp": "true", "zero_stage": 3, "framework": "PyTorch", "year": 2023}, "fsdp1"),
        ({"fsdp": "true", "zero_stage": 3, "framework": "torchtitan", "year": 2024}, "fsdp2"),
        ({"fsdp": "true", "zero_stage": 3, "framework": "PyTorch FSDP", "year": 2024}, "fsdp1"),
        ({"fsdp": "true", "zero_stage": 3, "framework": "Megatron-Bridge 25.09", "year": 2025}, "megatron-core"),
        ({"fsdp": "true", "zero_stage": 3, "framework": "DeepSpeed ZeRO-3", "year": 2021}, "deepspeed"),
        ({"framework": "Megatron-DeepSpeed", "zero_stage": 1}, "megatron-deepspeed"),
        ({"framework": "GPT-NeoX (DeepSpeed)", "year": 2024, "zero_stage": 1}, "gpt-neox"),
        ({"framework": "InternEvo", "year": 2023, "zero_stage": 1}, "internevo"),
        ({"framework": "llm-foundry/Composer FSDP", "fsdp": "true", "zero_stage": 3}, "llm-foundry"),
        ({"framework": "MaxText", "fsdp": "true", "zero_stage": 3, "year": 2024}, "maxtext"),
        ({"year": 2022}, "megatron-2021"),
        ({"year": 2023, "zero_stage": 1}, "megatron-lm"),
        ({"year": 2023, "zero_stage": 1, "notes": "DP/TP/PP comm overlap enabled"}, "megatron-core"),
        ({"framework": "NeMo", "year": 2024}, "megatron-core"),
        ({"framework": "megatron-2021", "year": 2024}, "megatron-2021"),
        ({"framework": "fsdp1", "year": 2024, "zero_stage": 3}, "fsdp1"),
        ({"framework": "zero-bubble", "year": 2024}, "zero-bubble"),
    ],
)
def test_the_stack_follows_from_framework_and_year(row: Any, cells: dict[str, Any], stack: str) -> None:
    found = modelled(row(**cells), SHELF)
    assert found.inputs.stack.name == stack
    assert found.filled.get("stack", cells.get("framework")) == stack


FP8 = {"year": 2024, "precision": "fp8", "accelerator": "h100-sxm"}


def test_a_stack_without_narrow_kernels_has_those_of_the_run(row: Any) -> None:
    cells = {"framework": "DeepSpeed", "precision": "fp8-delayed", "accelerator": "h100-sxm", "year": 2024}
    inputs = modelled(row(**cells), SHELF).inputs
    assert (inputs.stack.name, inputs.case.scenario.workload.precision) == ("deepspeed", "fp8")


@pytest.mark.parametrize(
    ("framework", "stack"), [("HAI-LLM", "hai-llm"), ("PyTorch DDP", "ddp"), ("torchtitan", "fsdp2")]
)
def test_a_stack_by_the_name_of_its_software(row: Any, framework: str, stack: str) -> None:
    cells = {"framework": framework, "fsdp": EMPTY, "tp": 1, "dp": 8, "global_batch": 32, "year": 2024}
    assert modelled(row(**cells), SHELF).inputs.stack.name == stack


@pytest.mark.parametrize(
    ("framework", "features", "like"),
    [
        ("PyTorch DDP (nanochat)", "torch.compile", "nanochat"),
        ("PyTorch DDP (nanochat)", "without torch.compile", "ddp"),
        ("PyTorch DDP", "bf16", "ddp"),
        ("PyTorch DDP", EMPTY, "ddp"),
        ("nanochat", EMPTY, "nanochat"),
    ],
)
def test_torch_compile_of_data_parallel_is_of_the_whole_model(
    row: Any, framework: str, features: str, like: str
) -> None:
    """Compiled it has the kernels and the loss of nanochat, which is compiled by default; else those of ddp."""
    cells = {"framework": framework, "fsdp": EMPTY, "tp": 1, "dp": 8, "global_batch": 32, "year": 2024}
    stack, wanted = modelled(row(**cells, features=features), SHELF).inputs.stack, SHELF.document("stack", like)
    assert stack.name == ("nanochat" if framework == "nanochat" else "ddp")
    assert (stack.kernels, stack.buckets) == (wanted.kernels, wanted.buckets)


@pytest.mark.parametrize(
    ("cells", "leaves"),
    [
        ({"year": 2024, "framework": "Megatron-LM"}, {"overlap.tp": 0, "overlap.dp": 0}),
        ({"year": 2024, "framework": "NeMo", "features": "grad/param comm overlap off"}, {"overlap.dp": 0}),
        ({"framework": "MaxText", "year": 2024, "notes": "no flash attention"}, {"kernels.attention": "unfused"}),
        ({"framework": "MaxText", "year": 2024}, {"kernels.attention": "flash-3"}),
        ({"framework": "Pax/JAX", "year": 2024}, {"kernels.attention": "unfused"}),
        ({"framework": "Pax/JAX", "year": 2024, "kernel": "cudnn flash"}, {"kernels.attention": "flash-3"}),
        ({"framework": "Pax/JAX", "year": 2024, "notes": "FlashAttention"}, {"kernels.attention": "flash-3"}),
        *(({"framework": f"pax/JAX + {engine}", "year": 2024}, {"kernels.attention": "flash-3"}) for engine in
          ("TransformerEngine", "Transformer Engine")),
        ({"framework": "DeepSpeed", "notes": "FlashAttention"}, {"kernels.attention": "flash-1"}),
        ({"framework": "DeepSpeed", "notes": "FlashAttention", "year": 2025}, {"kernels.attention": "flash-2"}),
        ({**TITAN, "features": "torch.compile"}, {"kernels.traffic_factor": FUSED}),
        ({**TITAN, "features": "bf16"}, {"kernels.traffic_factor": EAGER}),
        ({**TITAN, "features": ""}, {"kernels.traffic_factor": EAGER}),
        ({**TITAN, "features": "", "notes": "torch.compile on"}, {"kernels.traffic_factor": FUSED}),
        ({**TITAN, "features": "without torch.compile"}, {"kernels.traffic_factor": EAGER}),
        ({**TITAN, "features": "", "framework": "mine"}, {"kernels.traffic_factor": FUSED}),
        ({**TITAN, "year": 2023, "features": "torch.compile"}, {"kernels.traffic_factor": FUSED}),
        ({**TITAN, "features": "torch.compile;async TP"}, {"kernels.copied": False}),
        ({"kernel": "flash_attn 1.0.8"}, {"kernels.attention": "flash-1"}),
        ({"kernel": "Flash Attention 2, RMSNorm"}, {"kernels.attention": "flash-2"}),
        ({"kernel": "flash attention"}, {"kernels.attention": "flash-1"}),
        ({"kernel": "flash attention", "year": 2025}, {"kernels.attention": "flash-3"}),
        ({"kernel": "Megatron fused softmax", "year": 2025}, {"kernels.attention": "unfused"}),
        ({"kernel": "torch", "year": 2023}, {"kernels.attention": "unfused"}),
        *(({"kernel": kernel, "year": 2025}, {"kernels.attention": "unfused"}) for kernel in
          ("no flash attention", "without FlashAttention 2", "eager")),
        *(({"kernel": kernel, "year": 2025}, {"kernels.attention": "flash-3"}) for kernel in
          ("flash attention 16 heads", "flash attention, head_dim 128", "Megatron-Core TE DotProductAttention",
           "torch sdpa", "torch.compile", "fast RMSNorm", "nonsense")),
        *(({"kernel": kernel}, {"kernels.attention": "flash-1"}) for kernel in
          ("xformers", "cuDNN fused attention", "flash attention; apex 3", "FA 1")),
        *(({"kernel": kernel}, {"kernels.attention": "flash-2"}) for kernel in
          ("FlashAttention-2", "flash_attn2", "flash-attention v2", "FA2")),
        ({"year": 2025, "framework": "Megatron-Bridge 25.11"}, {"buckets.loss": 2}),
        ({"year": 2025, "framework": "NeMo 25.02"}, {"buckets.loss": 6}),
        *(({**FP8, "framework": f"{name} (dgxc-benchmarking v24.11.1)"}, {"low_precision.gather": gathered}) for
          name, gathered in (("NeMo", ["fp8"]), ("Paxml", []), ("MaxText", []))),
    ],
)  # fmt: skip
def test_a_row_switches_its_stack(row: Any, cells: dict[str, Any], leaves: dict[str, Any]) -> None:
    stack = modelled(row(**{"zero_stage": 1, **cells}), SHELF).inputs.stack
    for path, value in leaves.items():
        group, leaf = path.split(".")
        assert getattr(getattr(stack, group), leaf) == value


def test_software_has_the_axes_that_a_run_of_it_had(row: Any) -> None:
    """Whatever the release that its document describes."""
    asked = modelled(row(framework="PyTorch FSDP", year=2023, zero_stage=3, cp=2, tp=1, pp=1, micro_batch=1), SHELF)
    assert asked.inputs.stack.has("cp")
    assert not read("stack", "fsdp1").has("cp")


@pytest.mark.parametrize(("year", "loss"), [(2025, None), (2026, "chunked")])
def test_the_loss_of_torchtitan_is_chunked_from_2026_on(row: Any, year: int, loss: str | None) -> None:
    found = modelled(row(**TITAN | {"year": year}), SHELF)
    assert found.filled.get("loss") == loss
