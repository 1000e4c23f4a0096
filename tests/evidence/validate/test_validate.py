"""Validate: rows to cases, what is filled and what refused, the figures of a table, and the promise of its JSON."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.library import names, read
from costmodel.estimate.model.shards import model_parameters
from costmodel.evidence.validate.imputation import RULES
from costmodel.evidence.validate.launch_defaults import launch_says
from costmodel.evidence.validate.outcomes import FITS, measured, total_of
from costmodel.evidence.validate.recompute_cells import MODULES
from costmodel.evidence.validate.rows import modelled
from costmodel.evidence.validate.skip_reasons import REASONS, CannotModel
from costmodel.evidence.validate.spelling import precision_of, recompute_of
from costmodel.evidence.validate.validate import GROUPINGS, Compared, outcomes, score, scores, validated, worst
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.run_table import COLUMNS, read_table
from costmodel.exchange.tables.serving_table import COLUMNS as SERVED
from evidence.validate.test_validate_serving import REFUSED as REFUSED_SERVING

# Korthikanti et al. 2022 (arXiv 2205.05198), table 5: Megatron-LM 22B on 8 A100 of 80 GB, batch 4, tensor parallel 8:
# 1.42 s a step with full recompute, 1.10 s with selective recompute and sequence parallelism.
pytestmark = pytest.mark.usefixtures("in_its_folder")

BASE = {
    "id": "22b-full",
    "source": "Korthikanti et al. 2022 (arXiv 2205.05198) Table 5",
    "source_family": "korthikanti",
    "year": 2022,
    "framework": "Megatron-LM",
    "model_name": "GPT-22B",
    "arch": "dense",
    "layers": 48,
    "hidden": 6144,
    "ffn": 24576,
    "heads": 64,
    "kv_heads": 64,
    "head_dim": 96,
    "vocab": 51200,
    "glu": "false",
    "tied_embeddings": "true",
    "seq_len": 2048,
    "gpu": "A100-80GB",
    "accelerator": "a100-sxm-80",
    "gpus": 8,
    "gpus_per_node": 8,
    "tp": 8,
    "pp": 1,
    "vp": 1,
    "cp": 1,
    "zero_stage": 0,
    "fsdp": "false",
    "seq_parallel": "false",
    "recompute": "full",
    "micro_batch": 4,
    "global_batch": 4,
    "precision": "fp16",
    "step_time_s": 1.42,
    "features": "fp32 grads",
}
SELECTIVE = {"id": "22b-selective", "recompute": "selective", "seq_parallel": "true", "step_time_s": 1.10}
EMPTY = ""
OTHERS = {"nic_gbps_per_gpu", "dp", "grad_accum", "n_experts", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu", "hfu"}
OTHERS |= {
    "attention",
    "gpu_mem_gb",
    "mfu_peak_tflops",
    "flops_convention",
    "peak_mem_gb",
    "mem_metric",
    "value_gb",
    "metric",
    "kind",
    "scope",
}
EXPERTS = {"topk", "moe_ffn", "n_shared_experts", "n_dense_layers", "ep", "etp"}
NAMES = [*BASE, *sorted(OTHERS | EXPERTS | {"fits", "kernel", "notes", "tier"})]


def table(folder: Path, *rows: dict[str, Any]) -> str:
    """A table of rows that differ from the base in these cells."""
    path = folder / "runs.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, NAMES, restval="")
        writer.writeheader()
        writer.writerows({**BASE, **row} for row in rows)
    return str(path)


@pytest.fixture
def row(tmp_path: Path) -> Any:
    """`row(cell=…)` is the base row with other cells."""
    return lambda **cells: read_table(table(tmp_path, cells)).rows[0]


SHELF = CachedReader()
FUSED, EAGER = (read("stack", name).kernels.traffic_factor for name in ("fsdp2", "fsdp1"))
ISSUED = read("stack", "megatron-core").launch.operation
HIDES = read("stack", "megatron-core").overlap.dp


def figure(row: CsvRow, quantity: Any = "time") -> Compared:
    (found,) = validated([row.place.file], quantity=quantity)[0].figures
    return found


def test_a_stated_row_is_modelled_as_stated(row: Any) -> None:
    found = modelled(row(), SHELF)
    block, case = found.answer.evaluation.block, found.answer.inputs.case
    assert found.filled == {"stack": "megatron-2021"}
    assert [float(column[0]) for column in (block.dp, block.tp, block.pp, block.vpp, block.micro_batch)] == [
        1,
        8,
        1,
        1,
        4,
    ]
    assert (block.structure.zero, block.structure.recompute, block.structure.sequence_parallel) == (0, "full", False)
    assert (case.stack.name, case.accelerator.name, case.scenario.workload.precision) == (
        "megatron-2021", "a100-sxm-80", "fp16",
    )  # fmt: skip
    assert (case.scenario.workload.gradients, case.model.vocab, case.model.tied) == ("fp32", 51200, True)
    assert figure(row()).error == pytest.approx(0.068, abs=0.1)


@pytest.mark.parametrize(
    ("cells", "sizes"),
    [
        ({"cp": 4, "dp": EMPTY}, (2, 4, 1)),
        ({"notes": "FSDP+DP FSDP group=4"}, (8, 1, 2)),
        ({"notes": "FSDP group=8"}, (8, 1, 1)),
        ({"features": "zero1_group=2"}, (8, 1, 4)),
        ({"features": "zero1_group=all"}, (8, 1, 1)),
        ({"features": "zero1_group=0"}, (8, 1, 1)),
        ({"features": "zero1_group=3"}, (8, 1, 1)),
        ({"features": "HSDP;torch.compile", "gpus_per_node": 2}, (8, 1, 4)),
    ],
)
def test_who_shares_a_sequence_and_who_shards(row: Any, cells: dict[str, Any], sizes: tuple[int, int, int]) -> None:
    modern = {"year": 2024, "framework": "NeMo", "zero_stage": 1, "precision": "bf16"}
    block = modelled(row(**{**modern, "tp": 1, "dp": 8, "global_batch": 64, **cells}), SHELF).answer.evaluation.block
    assert (block.dp[0], block.cp[0], block.dp_replicate[0]) == sizes


def test_a_row_of_ulysses_says_so(row: Any) -> None:
    cells = {"year": 2024, "framework": "NeMo", "zero_stage": 1, "tp": 1, "dp": EMPTY, "cp": 8}
    assert modelled(row(**cells), SHELF).answer.evaluation.block.structure.cp_type == "p2p"
    said = row(**cells, notes="CP=Ulysses a2a")
    assert modelled(said, SHELF).answer.evaluation.block.structure.cp_type == "a2a"


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
    assert found.answer.inputs.stack.name == stack
    assert found.filled.get("stack", cells.get("framework")) == stack


STANDS = "stack=megatron-2021"
MODERN = {"year": 2024, "framework": "NeMo", "zero_stage": EMPTY, "precision": "bf16"}
TITAN = {"fsdp": "true", "year": 2024, "framework": "torchtitan"}
CUT = {"cp": EMPTY, "tp": 4, "dp": 1}
HOPPER = {"accelerator": "h100-sxm", "zero_stage": 3, "features": "compile;fp32 grads"}
VOLTA = {"accelerator": "v100-sxm2-32", "precision": EMPTY}
WIRED = {"nic_gbps_per_gpu": 200}
PIPELINE = {"gpus": 16, "tp": 2, "pp": 4, "dp": EMPTY, "vp": EMPTY, "micro_batch": EMPTY, "global_batch": 16}


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
    assert {"stack": found.answer.inputs.stack.name, **filled} == found.filled
    assert set(found.filled) <= set(RULES)
    assert found.answer.refused == ()


def test_a_table_without_that_column_has_no_chunks(tmp_path: Path) -> None:
    path = Path(table(tmp_path, {**PIPELINE, "year": 2024}))
    path.write_text(path.read_text().replace(",vp,", ",chunks,", 1))
    found = modelled(read_table(str(path)).rows[0], SHELF)
    assert (found.answer.evaluation.block.vpp[0], found.filled["vp"]) == (1, "1")
    path.write_text(path.read_text().replace("fp32 grads", "schedule=interleaved"))
    said = modelled(read_table(str(path)).rows[0], SHELF)
    assert (said.answer.evaluation.block.vpp[0], said.answer.refused) == (6, ())


@pytest.mark.parametrize(
    ("cells", "schedule", "vpp"),
    [
        ({"features": "schedule=ZB-1p"}, "zb-h1", 1),
        ({"framework": "Megatron-LM + ZB-2p"}, "zb-h2", 1),
        ({"features": "schedule=ZB-V"}, "zb-v", 2),
    ],
)
def test_a_schedule_is_read_from_features_or_framework(row: Any, cells: Any, schedule: str, vpp: int) -> None:
    block = modelled(row(**PIPELINE | {"nic_gbps_per_gpu": 200} | cells), SHELF).answer.evaluation.block
    assert (block.structure.schedule, block.vpp[0]) == (schedule, vpp)


def test_modules_and_offloaded_layers_are_the_row_s(row: Any) -> None:
    cells = {"year": "2025", "framework": "Megatron-Bridge", "recompute": "selective:layernorm+mlp"}
    found = modelled(row(**cells, features="cpu_activation_offload_layers=40"), SHELF)
    structure = found.answer.evaluation.block.structure
    assert structure.recompute_modules == ("norms", "mlp")
    assert (structure.offload, structure.offload_layers) == (("activations",), 40)
    assert modelled(row(**{**cells, "recompute": "selective"}), SHELF).answer.evaluation.block.structure.offload == ()


@pytest.mark.parametrize(
    ("policy", "modules"),
    [
        ("save_dot_with_context_except_mlp", ("norms", "mlp")),
        ("save_dot_except_mlp", ("attention", "norms", "mlp")),
        ("save_qkv_proj", ("attention", "attention-output", "norms", "mlp")),
    ],
)
def test_a_policy_names_what_is_computed_again(row: Any, policy: str, modules: tuple[str, ...]) -> None:
    cells = {"framework": "MaxText", "year": 2024, "zero_stage": 3, "recompute": "selective"}
    for notes, expected in ((f"remat {policy}; FSDP", modules), ("remat minimal", None)):
        structure = modelled(row(**cells, notes=notes), SHELF).answer.evaluation.block.structure
        assert (
            structure.recompute_modules is None if expected is None else set(structure.recompute_modules) == {*expected}
        )


def test_the_network_is_the_row_s(row: Any) -> None:
    case = modelled(row(gpus=16, gpus_per_node=4, nic_gbps_per_gpu=50, global_batch=8), SHELF).answer.inputs.case
    assert (case.scenario.cluster.nodes, case.node.accelerators, case.node.scale_up.domain) == (4, 4, 4)
    assert (case.scale_out.bandwidth, case.node.scale_out.nics, case.network.of) == (6.25e9, 4, "ib-hdr")
    rack = {"accelerator": "gb200", "gpus": 72, "gpus_per_node": 4, "global_batch": 36, "tp": 8}
    assert modelled(row(**MODERN, **rack), SHELF).answer.inputs.domain == 72
    odd = modelled(row(gpus=12, tp=4, global_batch=12), SHELF).answer.inputs.case
    assert (odd.node.accelerators, odd.scenario.cluster.nodes) == (4, 3)


FP8 = {"year": 2024, "precision": "fp8", "accelerator": "h100-sxm"}


@pytest.mark.parametrize(
    ("cells", "name", "value"),
    [
        ({"zero_stage": 3}, "zero", 3),  # Megatron-LM of 2022 offers no zero stage 3; a run that states it had it
        ({"cp": 2, "tp": 4, "framework": "InternEvo"}, "cp_type", "p2p"),
        ({"cp": 2, "tp": 4, "features": "CP=Ulysses"}, "cp_type", "a2a"),
        ({"pp": 2, "tp": 4, "global_batch": 16, "features": "schedule=DualPipe"}, "schedule", "dualpipe"),
        ({"recompute": "full:12 layers"}, "recompute_layers", 12),
    ],
)
def test_what_ran_was_on_offer(row: Any, cells: dict[str, Any], name: str, value: Any) -> None:
    found = modelled(row(**cells), SHELF).answer
    assert (getattr(found.evaluation.block.structure, name), found.refused) == (value, ())


def test_a_stack_without_narrow_kernels_has_those_of_the_run(row: Any) -> None:
    cells = {"framework": "DeepSpeed", "precision": "fp8-delayed", "accelerator": "h100-sxm", "year": 2024}
    inputs = modelled(row(**cells), SHELF).answer.inputs
    assert (inputs.stack.name, inputs.case.scenario.workload.precision) == ("deepspeed", "fp8")


@pytest.mark.parametrize(
    ("framework", "stack"), [("HAI-LLM", "hai-llm"), ("PyTorch DDP", "ddp"), ("torchtitan", "fsdp2")]
)
def test_a_stack_by_the_name_of_its_software(row: Any, framework: str, stack: str) -> None:
    cells = {"framework": framework, "fsdp": EMPTY, "tp": 1, "dp": 8, "global_batch": 32, "year": 2024}
    assert modelled(row(**cells), SHELF).answer.inputs.stack.name == stack


def test_an_empty_shape_is_the_shipped_model_s(row: Any) -> None:
    """Where every cell that is there agrees; with another width it is another model."""
    cells = {"model_name": "Llama 3 8B", "layers": 32, "hidden": 4096, "heads": 32, "year": 2024, "zero_stage": 1}
    empty = dict.fromkeys(("kv_heads", "head_dim", "ffn", "vocab", "glu", "tied_embeddings"), EMPTY)
    found = modelled(row(**cells, **empty), SHELF)
    inputs = found.answer.inputs
    (layer,) = inputs.model.layers
    assert layer.attention is not None
    assert layer.mlp is not None
    assert (layer.attention.kv_heads, layer.mlp.ffn_hidden, layer.mlp.gated, inputs.model.vocab) == (
        8,
        14336,
        True,
        128256,
    )
    assert set(empty) <= set(found.filled)
    assert found.filled["shape"] == "llama-3-8b"
    for change in ({"hidden": 4608, "head_dim": 144}, {"attention": "MHA"}, {"vocab": 32000}):
        other = modelled(row(**cells | empty | change), SHELF)
        assert "shape" not in other.filled
        assert other.answer.inputs.model.vocab == change.get("vocab", 50257)


def test_experts_of_a_name(row: Any) -> None:
    """Mixtral 8x7B, of which nobody says that it has experts."""
    cells = {"model_name": "Mixtral 8x7B", "layers": 32, "hidden": 4096, "heads": 32, "year": 2024, "zero_stage": 1}
    cells |= {"accelerator": "h100-sxm", "arch": EMPTY}
    empty = dict.fromkeys(("kv_heads", "head_dim", "ffn", "vocab", "glu", "tied_embeddings"), EMPTY)
    found = modelled(row(**cells, **empty), SHELF)
    experts = found.answer.inputs.model.layers[0].experts
    assert experts is not None
    assert (experts.count, experts.top_k, experts.ffn_hidden) == (8, 2, 14336)
    assert (found.filled["n_experts"], found.filled["ep"]) == ("8", "1")
    spread = modelled(row(**cells, **empty, tp=1, etp=1, global_batch=32), SHELF)
    assert spread.filled["ep"] == "8"
    sharded = modelled(row(**cells | empty | {"zero_stage": 3, "tp": 1, "etp": 1, "global_batch": 32} | TITAN), SHELF)
    assert sharded.filled["ep"] == "1"
    apart = modelled(row(**cells, **empty, **WIRED, tp=2, ep=8, gpus=16, global_batch=32), SHELF)
    assert apart.filled["etp"] == "2"
    cut = modelled(row(**cells, **empty, tp=2, ep=8, gpus=8, global_batch=32), SHELF)
    assert cut.filled["etp"] == "1"
    dense = modelled(row(**cells | empty | {"arch": "dense"}), SHELF)
    assert not dense.answer.inputs.model.has_experts


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
        ({**TITAN, "features": "torch.compile;async TP"}, {"overlap.tp": 0.4}),
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
    stack = modelled(row(**{"zero_stage": 1, **cells}), SHELF).answer.inputs.stack
    for path, value in leaves.items():
        group, leaf = path.split(".")
        assert getattr(getattr(stack, group), leaf) == value


def test_notes_that_change_the_model(row: Any) -> None:
    assert modelled(row(notes="with parallel transformer block"), SHELF).answer.inputs.model.layers[0].parallel
    assert not modelled(row(), SHELF).answer.inputs.model.layers[0].parallel


MIXTRAL = {
    "year": 2025,
    "framework": "Megatron-Core",
    "model_name": "Mixtral-8x22B",
    "arch": "moe",
    "layers": 56,
    "hidden": 6144,
    "ffn": 16384,
    "heads": 48,
    "kv_heads": 8,
    "head_dim": 128,
    "vocab": 32768,
    "glu": "true",
    "tied_embeddings": "false",
    "n_experts": 8,
    "topk": 2,
    "moe_ffn": 16384,
    "gpu": "H100",
    "accelerator": "h100-sxm",
    "gpus": 128,
    "seq_len": 4096,
    "global_batch": 256,
    "micro_batch": 1,
    "tp": 2,
    "pp": 8,
    "vp": 7,
    "ep": 8,
    "etp": 1,
    "zero_stage": 1,
    "seq_parallel": "true",
    "recompute": "none",
    "precision": "bf16",
    "step_time_s": 4.211,
    "nic_gbps_per_gpu": 400,
    "notes": "token-drop training with capacity factor 1",
}
GRAPHED = "cuda_graph=full_iteration;moe_a2a_overlap;moe_dispatcher=hybridep"
DEEPSEEK = {
    "model_name": "DeepSeek-V3",
    "layers": 61,
    "hidden": 7168,
    "ffn": 18432,
    "heads": 128,
    "kv_heads": 128,
    "n_experts": 256,
    "topk": 8,
    "moe_ffn": 2048,
    "n_shared_experts": 1,
    "n_dense_layers": 3,
    "vocab": 129280,
    "ep": 16,
    "vp": 1,
    "notes": "dropless",
}


def test_a_row_with_experts_is_the_shipped_scenario(row: Any) -> None:
    """Mixtral 8x22B, the same run as a row and as a document: the same prediction."""
    found = modelled(row(**MIXTRAL), SHELF)
    assert set(found.filled) <= {"stack", "gradients", "deduplicated", "shape"}
    name = "mixtral-8x22b-128-folded-bf16"
    ours = next(figure for figure in validated(["liu-2025"])[0].figures if figure.run == name).predicted
    assert float(found.answer.evaluation.costs.column("step_time")[0]) == pytest.approx(ours, rel=1e-3)


def test_what_no_column_says_is_the_shipped_model(row: Any) -> None:
    found = modelled(row(**{**MIXTRAL, **DEEPSEEK}), SHELF)
    shape = found.answer.inputs.model
    assert (found.filled["shape"], found.filled["mtp"]) == ("deepseek-v3", "1")
    assert model_parameters(shape) == model_parameters(read("model", "deepseek-v3"))
    assert shape.prediction is not None


@pytest.mark.parametrize("note", ["w/o MTP", "MoE dropless; without MTP; recipe X", "no mtp"])
def test_a_note_says_that_nothing_is_predicted_further(row: Any, note: str) -> None:
    found = modelled(row(**{**MIXTRAL, **DEEPSEEK, "notes": note}), SHELF)
    assert found.answer.inputs.model.prediction is None
    assert "mtp" not in found.filled
    assert found.answer.inputs.model.layers == read("model", "deepseek-v3").layers


@pytest.mark.parametrize(
    ("framework", "accelerator", "host", "hidden"),
    [
        ("Megatron-Bridge 25.09", "h100-sxm", ISSUED, HIDES),
        ("Megatron-Bridge 26.02", "h100-sxm", ISSUED, 0.0),
        ("Megatron-Bridge 25.09", "gb200", ISSUED, 0.0),
        ("Megatron-Bridge 26.04", "gb200", ISSUED, 0.0),
        ("Megatron-Bridge 26.08.01", "gb200", 0.0, HIDES),
    ],
)
def test_recipes_that_nobody_matched(row: Any, framework: str, accelerator: str, host: float, hidden: float) -> None:
    cells = {"framework": framework, "accelerator": accelerator, "gpu": accelerator, "arch": "moe", "features": EMPTY}
    narrow = {"precision": "fp8-cs" if accelerator == "h100-sxm" else "mxfp8", "year": 2025}
    found = modelled(row(**{**MIXTRAL, **DEEPSEEK, **cells, **narrow}), SHELF)
    assert found.answer.inputs.experts.host == pytest.approx(host)
    assert found.answer.inputs.experts.overlap == hidden


@pytest.mark.parametrize(("accelerator", "attention"), [("h100-sxm", "flash-3"), ("gb200", "unfused")])
def test_nemo_dropped_tokens_of_deepseek(row: Any, accelerator: str, attention: str) -> None:
    """And with heads of 192 its attention was not fused on Blackwell."""
    run = {"accelerator": accelerator, "gpu": accelerator, "arch": "moe", "features": EMPTY, "precision": "bf16"}
    software = {"framework": "NeMo (dgxc-benchmarking v25.05.05)", "notes": "", "year": 2025}
    found = modelled(row(**{**MIXTRAL, **DEEPSEEK, **run, **software}), SHELF).answer.inputs
    assert (found.experts.dropless, found.experts.deduplicated) == (False, False)
    assert found.stack.kernels.attention == attention


@pytest.mark.parametrize(
    ("framework", "accelerator", "modules"),
    [
        ("NeMo 25.07", "h100-sxm", ["mla-up-projection", "norms", "mlp", "moe"]),
        ("NeMo (dgxc-benchmarking v25.05.05)", "h100-sxm", ["mla-up-projection"]),
        ("NeMo (dgxc-benchmarking v25.05.05)", "gb200", ["attention"]),
        ("NeMo/Megatron-Bridge", "h100-sxm", ["mla-up-projection", "mlp"]),
        ("Megatron-Bridge 26.02", "gb200", ["mla-up-projection"]),
        ("Megatron-LM", "h100-sxm", None),
    ],
)
def test_what_recipes_of_deepseek_v3_compute_again(row: Any, framework: str, accelerator: str, modules: Any) -> None:
    cells = {"framework": framework, "accelerator": accelerator, "gpu": accelerator, "recompute": EMPTY, "etp": 1}
    found = modelled(row(**{**MIXTRAL, **DEEPSEEK, **cells, "year": 2025}), SHELF)
    structure = found.answer.evaluation.block.structure
    assert (structure.recompute_modules and list(structure.recompute_modules)) == modules
    assert structure.recompute == ("none" if modules is None else "selective")
    assert found.filled["recompute"].partition(":")[0] == structure.recompute
    other = modelled(row(**{**MIXTRAL, **cells, "year": 2025}), SHELF)
    assert other.filled["recompute"] == "none"


@pytest.mark.parametrize(
    ("framework", "model", "modules"),
    [
        ("MaxText (dgxc-benchmarking v25.02.02)", "Llama3-70B", ["attention", "attention-output", "norms", "mlp"]),
        ("MaxText (dgxc-benchmarking v24.11.1)", "Llama2-70B", ["attention", "norms", "mlp"]),
        ("Paxml (dgxc-benchmarking v24.11.1)", "GPT3-175B", ["attention", "norms", "mlp"]),
        ("Paxml (dgxc-benchmarking v24.11.1)", "GPT3-5B", ["attention", "norms", "mlp-activation"]),
        ("MaxText", "Llama3-70B", None),
    ],
)
def test_what_launch_scripts_compute_again(row: Any, framework: str, model: str, modules: Any) -> None:
    cells = {
        "framework": framework,
        "model_name": model,
        "recompute": EMPTY,
        "fsdp": "true",
        "tp": 1,
        "global_batch": 32,
    }
    found = modelled(row(**cells, year=2025, precision="bf16", zero_stage=EMPTY), SHELF)
    structure = found.answer.evaluation.block.structure
    assert (structure.recompute_modules and list(structure.recompute_modules)) == modules
    assert structure.recompute == "selective"


@pytest.mark.parametrize(
    ("model", "gpus", "shards"), [("GPT3-5B", 64, 8), ("GPT3-175B", 256, 128), ("GPT3-1B", 64, 64)]
)
def test_ranks_that_share_a_copy_by_launch_script(row: Any, model: str, gpus: int, shards: int) -> None:
    unsaid = {"features": EMPTY, "zero_stage": EMPTY, "dp": EMPTY, "fsdp": "true", "tp": 1}
    named = {"framework": "Paxml (dgxc-benchmarking v24.11.1)", "model_name": model}
    found = modelled(row(**named, **unsaid, gpus=gpus, global_batch=1024, year=2024), SHELF)
    block = found.answer.evaluation.block
    assert block.dp[0] / block.dp_replicate[0] == shards


@pytest.mark.parametrize(
    ("framework", "layers", "split"),
    [
        ("Megatron-LM", 61, "spread"),
        ("NeMo", 61, "full-chunks"),
        ("Megatron-Bridge 25.11", 61, "full-chunks"),
        ("NeMo", 62, "lighter-ends"),
        ("NeMo", 63, "lighter-last"),
        ("NeMo", 64, "even"),
    ],
)
def test_layers_that_do_not_divide(row: Any, framework: str, layers: int, split: str) -> None:
    cells = {"framework": framework, "layers": layers, "pp": 8, "tp": 1, "ep": 8, "gpus": 128, "year": 2025}
    found = modelled(row(**{**MIXTRAL, **DEEPSEEK, **cells}), SHELF)
    assert found.answer.evaluation.block.structure.split == split
    assert found.filled.get("stages", "even") == split


def test_a_truncated_model_has_no_prediction_and_another_no_shape(row: Any) -> None:
    short = modelled(row(**{**MIXTRAL, **DEEPSEEK, "layers": 8}), SHELF)
    assert short.answer.inputs.model.prediction is None
    other = modelled(row(**{**MIXTRAL, **DEEPSEEK, "hidden": 8192, "head_dim": 64}), SHELF)
    assert "shape" not in other.filled
    assert other.answer.inputs.model.layers[1].experts.shared.ffn_hidden == 2048


@pytest.mark.parametrize(
    ("cells", "name"),
    [
        ({"model_name": "GPT OSS 120B (pretrain)", "layers": 36, "hidden": 2880, "heads": 64, "kv_heads": 8,
          "n_experts": 128, "topk": 4, "moe_ffn": 2880, "vp": 1, "pp": 2}, "gpt-oss-120b"),
        ({"model_name": "Gemma-3-12B", "layers": 48, "hidden": 3840, "heads": 16, "kv_heads": 8, "ffn": 15360,
          "glu": "true", "pp": 1}, "gemma-3-12b"),
        ({"model_name": "Nemotron-H-8B", "layers": 52, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 21504,
          "pp": 1}, "nemotron-h-8b"),
    ],
)  # fmt: skip
def test_layers_that_are_not_all_alike_are_the_shipped_model_s(row: Any, cells: dict[str, Any], name: str) -> None:
    modern = {"year": 2025, "framework": "NeMo", "zero_stage": 1, "precision": "bf16", "recompute": "none"}
    found = modelled(row(**{**modern, "tp": 2, "global_batch": 64, "head_dim": EMPTY, **cells}), SHELF)
    assert found.filled["shape"] == name
    assert found.answer.inputs.model.layers == read("model", name).layers
    for other in ({"hidden": 4608, "moe_ffn": EMPTY}, {"layers": 2 * cells["layers"]}, {"heads": cells["heads"] // 2}):
        changed = modelled(row(**{**modern, "tp": 2, "global_batch": 64, "head_dim": 64, **cells, **other}), SHELF)
        assert changed.answer.inputs.model.layers != read("model", name).layers


QWEN = {
    "model_name": "Qwen2.5-7B", "layers": 28, "hidden": 3584, "heads": 28, "kv_heads": 4, "ffn": 18944, "glu": "true",
    "head_dim": 128, "vocab": 152064, "tied_embeddings": "false", "tp": 2, "pp": 1, "global_batch": 64,
}  # fmt: skip


def test_what_no_column_says_of_a_dense_model_is_the_shipped_one_s(row: Any) -> None:
    """Qwen 2.5 has biases on queries, keys and values alone; a wider one of that name is another model."""
    found = modelled(row(**QWEN), SHELF)
    (kind,) = found.answer.inputs.model.layers
    assert (found.filled["shape"], kind) == ("qwen-2.5-7b", read("model", "qwen-2.5-7b").layers[0])
    (fewer,) = modelled(row(**{**QWEN, "layers": 14}), SHELF).answer.inputs.model.layers
    assert fewer == kind.model_copy(update={"count": 14})
    other = modelled(row(**{**QWEN, "ffn": 16384}), SHELF)
    assert "shape" not in other.filled
    assert not other.answer.inputs.model.layers[0].attention.biases


@pytest.mark.parametrize(
    ("cells", "positions"),
    [
        ({}, "learned"),
        ({"notes": "parallel residual, rotary; mp from yml"}, "rotary"),
        ({"features": "ALiBi"}, "alibi"),
        ({"glu": "true", "notes": "no ALiBics"}, "rotary"),
        ({"model_name": "MPT-7B", "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 32, "ffn": 16384,
          "head_dim": 128, "glu": "false"}, "alibi"),
    ],
)  # fmt: skip
def test_positions_are_what_a_row_says_or_its_model_has(row: Any, cells: dict[str, Any], positions: str) -> None:
    assert modelled(row(**cells), SHELF).answer.inputs.model.positions == positions


def test_tokens_dropped_pad_to_a_capacity(row: Any) -> None:
    padded, even = (modelled(row(**{**MIXTRAL, "notes": notes}), SHELF) for notes in
                    ("MoE tokendrop, capacity factor 1.25", ""))  # fmt: skip
    said = [found.answer.inputs.experts for found in (padded, even)]
    assert [part.load for part in said] == [1.25, 1.0]
    assert [part.dropless for part in said] == [False, True]


@pytest.mark.parametrize(
    ("features", "notes", "once", "host", "hidden"),
    [
        ("", "dropless", True, ISSUED, 0.0),
        ("", "token-drop", False, ISSUED, 0.0),
        ("", "dropless; recipe MIXTRAL@r0.3.0", False, ISSUED, 0.0),
        ("", "dropless; no exactly matching recipe found @r0.3.0", True, ISSUED, 0.0),
        ("moe_dispatcher=alltoall", "dropless", False, ISSUED, 0.0),
        ("moe_dispatcher=hybridep", "dropless; recipe MIXTRAL@r0.3.0", True, ISSUED, 0.0),
        ("moe_dispatcher=deepep;moe_a2a_overlap", "", True, ISSUED, HIDES),
        ("cuda_graph=transformer_engine:['attn', 'moe_router']", "", True, ISSUED, 0.0),
        ("cuda_graph=full_iteration:[]", "", True, 0.0, 0.0),
        ("CUDA_GRAPH_SCOPE=full_iteration", "", True, 0.0, 0.0),
        ("", "run with cuda_graph=full_iteration", True, 0.0, 0.0),
        ("cuda_graph=local", "", True, 0.0, 0.0),
        ("cuda_graph=local:['attn']", "", True, ISSUED, 0.0),
    ],
)
def test_what_features_say_of_experts(
    features: str, notes: str, once: bool, host: float, hidden: float, row: Any
) -> None:
    found = modelled(row(**{**MIXTRAL, "features": features or EMPTY, "notes": notes}), SHELF).answer
    said = found.inputs.experts
    assert said is not None
    assert (said.deduplicated, said.host, said.overlap) == (once, pytest.approx(host), hidden)
    assert (found.inputs.stack.launch.operation == 0) == (host == 0)


@pytest.mark.parametrize(
    ("framework", "accelerator", "precision", "notes", "said", "graphed"),
    [
        ("Megatron-Bridge 26.08", "gb200", "mxfp8", "", GRAPHED, True),
        ("Megatron-Bridge 25.09", "b200-sxm", "fp8-cs", "", "cuda_graph=local;moe_dispatcher=alltoall", True),
        ("Megatron-Bridge 26.02", "h100-sxm", "fp8-cs", "", "moe_a2a_overlap;moe_dispatcher=deepep", False),
        ("Megatron-Bridge 26.08", "gb200", "mxfp8", "MoE dropless; recipe QWEN3@r0.6.0", None, False),
        ("Megatron-Core", "gb200", "bf16", "MoE dropless", None, False),
    ],
)
def test_recipes_of_a_release(
    framework: str, accelerator: str, precision: str, notes: str, said: str | None, graphed: bool, row: Any
) -> None:
    run = {"gpu": accelerator, "accelerator": accelerator, "arch": "moe", "gpus_per_node": 4, "features": EMPTY}
    software = {"framework": framework, "precision": precision, "year": 2026, "notes": notes}
    found = modelled(row(**{**MIXTRAL, **run, **software, "model_name": "Qwen3-30B-A3B"}), SHELF)
    assert found.filled.get("features") == said
    assert (found.answer.inputs.experts.host == 0) == graphed


SWITCHED_ON = {  # model, accelerator, release and precision
    GRAPHED: """
        DeepSeek-V3        b300-sxm  26.06.01  mxfp8
        Qwen3-30B-A3B      b300-sxm  26.06     mxfp8
        Qwen3-235B-A22B    gb300     26.06     mxfp8
        Qwen3-235B-A22B    b300-sxm  26.06.01  mxfp8
        GPT-OSS-120B       gb300     26.06     mxfp8
        Qwen3-30B-A3B      b200-sxm  26.06.01  mxfp8
    """,
    "moe_dispatcher=hybridep": """
        DeepSeek-V3        b300-sxm  26.06     mxfp8
        deepseek-v3-671b   gb300     25.11     bf16
        Qwen3-30B-A3B      gb300     26.02     bf16
        Qwen3-235B-A22B    gb200     25.11     bf16
        Qwen3-235B-A22B    b300-sxm  26.06     bf16
        Qwen3-Next-80B-A3B gb200     26.04     bf16
        GPT-OSS-120B       b200-sxm  26.04.01  bf16
        GPT-OSS-120B       b300-sxm  26.06     bf16
        Kimi-K2            gb200     26.04     bf16
        Qwen3-30B-A3B      b200-sxm  26.06     mxfp8
        Qwen3-30B-A3B      gb200     26.08     bf16
        Qwen3-30B-A3B      h100-sxm  26.02.01  fp8-cs
    """,
    "moe_a2a_overlap;moe_dispatcher=deepep": """
        DeepSeek-V3        b200-sxm  26.06     nvfp4
        DeepSeek-V3        h100-sxm  25.11.01  fp8-cs
        Qwen3-235B-A22B    h100-sxm  26.02.01  fp8-cs
    """,
    "moe_dispatcher=alltoall": """
        DeepSeek-V3        b200-sxm  25.11     bf16
        Qwen3-235B-A22B    b200-sxm  26.04     mxfp8
        GPT-OSS-120B       h100-sxm  26.06     bf16
        Qwen3-30B-A3B      b200-sxm  26.02     mxfp8
    """,
    "moe_a2a_overlap;moe_dispatcher=alltoall": """
        Qwen3-235B-A22B    h100-sxm  26.04     fp8-cs
        Qwen3-235B-A22B    b200-sxm  25.11     mxfp8
        Qwen3-235B-A22B    b300-sxm  26.02     mxfp8
        GPT-OSS-120B       gb200     26.06     bf16
        Qwen3-30B-A3B      h100-sxm  25.11.01  fp8-cs
    """,
    "moe_dispatcher=deepep": """
        Qwen3-235B-A22B    b200-sxm  26.02.01  mxfp8
        Qwen3-Next-80B-A3B b200-sxm  26.04     bf16
    """,
    "moe_a2a_overlap;moe_dispatcher=hybridep": """
        GPT-OSS-120B       gb200     26.04     bf16
    """,
    "": """
        Mixtral-8x22B      gb200     26.04     bf16
    """,
    "cuda_graph=local;moe_dispatcher=alltoall": """
        Qwen3-30B-A3B      b200-sxm  25.09.01  fp8-cs
    """,
}


@pytest.mark.parametrize(
    ("run", "said"), [(line.split(), said) for said, runs in SWITCHED_ON.items() for line in runs.strip().splitlines()]
)
def test_what_a_release_switches_on(run: list[str], said: str) -> None:
    model_name, accelerator, release, precision = run
    assert launch_says("features", f"Megatron-Bridge {release}", model_name, accelerator, precision, SHELF) == said


def test_launches_name_accelerators_there_are_and_modules_that_can_be_computed_again() -> None:
    launched = [launched for name in names("release") for launched in read("release", name).launches]
    of = {part for one in launched for launch in one.features + one.recompute for part in launch.accelerators}
    again = {name for one in launched for launch in one.recompute for name in recompute_of(launch.value).names}
    assert of <= set(names("accelerator"))
    assert again, "no release says what it recomputes"
    assert again - {""} <= set(MODULES)
    plans = [launch.value for one in launched for launch in one.plan]
    cells = [cell.partition("=") for plan in plans for cell in plan.split(";")]
    assert {name for name, _, _ in cells} <= set(COLUMNS)
    assert all(float(value.removesuffix("/gpu")) > 0 for _, _, value in cells)


OWN_LAUNCHES = """
schema: costmodel/release/v1
name: mine
title: Ours
launches:
  - software: Ours
    source: megatron-lm
    features:
      - {model: Mixtral, first: "26.02", last: "26.04", value: moe_dispatcher=deepep}
"""


def test_launches_of_one_s_own_stand_beside_those_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scenarios/releases").mkdir(parents=True)
    (tmp_path / "scenarios/releases/mine.yaml").write_text(OWN_LAUNCHES, "utf-8")
    monkeypatch.chdir(tmp_path)
    shelf = CachedReader()
    cells = ("Ours", "Ours 25.12", "Ours v26.02", "Ours 26.04.01", "Ours 26.06")
    said = [launch_says("features", cell, "Mixtral 8x7B", "h100-sxm", "bf16", shelf) for cell in cells]
    assert said == ["", "", "moe_dispatcher=deepep", "moe_dispatcher=deepep", ""]
    assert launch_says("features", "Megatron-Bridge 26.04", "Kimi-K2", "gb200", "bf16", shelf) != ""


SPELT = {
    "bf16": "bf16 BF16 bfloat16 torch.bfloat16 bf16-true bf16-mixed bf16_mixed_precision",
    "fp16": "fp16 FP16 float16 half 16-mixed 16-true fp16-true fp16-mixed",
    "fp16/bf16": "fp16/bf16 bf16/fp16",
    "fp8": "fp8 FP8 float8 fp8_e4m3 fp8-e5m2 float8_e4m3fn fp8-hybrid bf16_with_fp8_mixed",
    "fp8-delayed": "fp8-delayed fp8_delayed_scaling FP8-DS bf16_with_fp8_delayed_scaling_mixed",
    "fp8-cs": "fp8-cs FP8_current_scaling fp8-tensorwise float8_tensorwise bf16_with_fp8_current_scaling_mixed",
    "fp8-row": "fp8-row fp8_rowwise float8-rowwise",
    "fp8-block": "fp8-block fp8_blockwise FP8-SC bf16_with_fp8_subchannel_scaling_mixed",
    "mxfp8": "mxfp8 MXFP8 fp8-mx mxfp8_e4m3 bf16_with_mxfp8_mixed",
    "nvfp4": "nvfp4 NVFP4 bf16_with_nvfp4_mixed",
}


@pytest.mark.parametrize(("named", "spelt"), [(name, word) for name, words in SPELT.items() for word in words.split()])
def test_spellings_of_a_precision(named: str, spelt: str, row: Any) -> None:
    assert precision_of(row(precision=spelt)) == named


@pytest.mark.parametrize("spelt", ["16", "fp64", "fp4", "bf16-e4m3", "int4"])
def test_precisions_that_say_too_little_or_are_not_modelled(spelt: str, row: Any) -> None:
    with pytest.raises(CannotModel, match=f"V004: precision {spelt}"):
        precision_of(row(precision=spelt))


@pytest.mark.parametrize(
    ("words", "dropped"),
    [
        ("MoE tokendrop", True),
        ("token drop", True),
        ("Token-Drop", True),
        ("moe_token_drop=true", True),
        ("moe_token_drop=false", False),
        ("token_dropping=off", False),
        ("no token drop", False),
        ("dropless", False),
    ],
)
def test_words_of_dropped_tokens(words: str, dropped: bool, row: Any) -> None:
    found = modelled(row(**{**MIXTRAL, "notes": words}), SHELF).answer.inputs.experts
    assert found is not None
    assert found.dropless == (not dropped)


@pytest.mark.parametrize(
    ("framework", "year", "etp"), [("Megatron-Core", 2025, 2), ("Megatron-Bridge 26.02", 2026, 1), ("NeMo", 2025, 2)]
)
def test_etp_unsaid(framework: str, year: int, etp: int, row: Any) -> None:
    found = modelled(row(**{**MIXTRAL, "framework": framework, "year": year, "etp": EMPTY}), SHELF)
    assert found.answer.evaluation.block.etp[0] == etp


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    # Chowdhery et al. 2022: PaLM on 6144 TPU v4; no node of it is named here
    "another accelerator": ({"gpu": "Cerebras CS-3", "accelerator": EMPTY, "gpus": 64}, "V001", "Cerebras CS-3"),
    "a typing slip": ({"accelerator": "h100-sxn"}, "V001", "h100-sxn"),
    "no accelerator": ({"gpu": EMPTY, "accelerator": EMPTY}, "V001", "(not named)"),
    "another size": ({"gpu": "B200", "accelerator": EMPTY, "gpu_mem_gb": 80}, "V001", "B200 with 80 GB"),
    "experts": ({"n_experts": 8}, "V002", "does not describe experts"),  # Mixtral 8x7B has 8
    "a mixture unsaid": ({"arch": "moe"}, "V002", "experts"),
    "fp8": ({"precision": "fp8"}, "V004", "fp8"),
    "mxfp8": ({"precision": "mxfp8", "accelerator": "h100-sxm"}, "V004", "cannot multiply in mxfp8"),
    "fp8 by feature": ({"features": "torch.compile;float8 linear"}, "V004", ""),
    "nothing measured": ({"step_time_s": EMPTY}, "V005", "step_time_s"),
    "no sequence": ({"seq_len": EMPTY}, "V006", "seq_len empty"),
    "no shape": ({"layers": EMPTY, "heads": EMPTY}, "V006", "layers, heads empty"),
    "gated of unknown width": ({"glu": "true", "ffn": EMPTY}, "V006", "ffn empty"),
    "no layout": ({"tp": EMPTY, "pp": EMPTY}, "V006", "tp, pp empty"),
    "no batch": ({"global_batch": EMPTY}, "V006", "global_batch empty"),
    "no count": ({"gpus": EMPTY}, "V006", "dp empty"),
    "heads of no whole width": ({"heads": 7, "kv_heads": 7, "head_dim": EMPTY}, "V006", "head_dim: a whole number is"),
    "stage 4": ({"zero_stage": 4}, "V006", "zero_stage: 4 is not one of 0, 1, 2 or 3"),
    "a network without bounds": ({"nic_gbps_per_gpu": "1e17"}, "V006", "nic_gbps_per_gpu: 1e+17 Gb/s is out of range"),
    "no time at all": ({"step_time_s": 0}, "V010", "line 2, step_time_s: '0' is out of range: a number above 0"),
    "a time of two numbers": ({"step_time_s": "1,234.5"}, "V010", "line 2, step_time_s: a number above 0 is wanted"),
    "half a rank": ({"tp": 8.5}, "V010", "line 2, tp: '8.5' is out of range: a whole number from 1 is wanted here"),
    "no year": ({"year": "abc"}, "V010", "line 2, year: a whole number from 0 is wanted here, not 'abc'"),
    "degrees that do not divide": ({"gpus": 12}, "V007", "L001"),
    "degrees of another world": ({"dp": 2}, "V007", "L001"),
    "heads that tp does not divide": ({"heads": 63, "kv_heads": 63}, "V007", "L003"),
    "a batch of another size": ({"global_batch": 6}, "V007", "L005"),
    "half of the optimizer offloaded": ({"features": "optimizer_offload_fraction=0.5"}, "V009", "offloaded"),
    "precision of two": ({"precision": "bf16+fp32"}, "V004", "bf16+fp32"),
    "a dense layer of unknown width": (
        {"glu": "true", "ffn": EMPTY, "n_experts": 8, "topk": 2, "moe_ffn": 1408, "n_dense_layers": 1, **TITAN},
        "V006",
        "ffn empty",
    ),
    "adapters": ({"notes": "LoRA of rank 16"}, "V009", "adapters"),
    "latent attention of nobody": ({"attention": "MLA", "model_name": "Moonlight"}, "V006", "latent attention"),
    "mixers of nobody": ({"arch": "hybrid"}, "V006", "arch hybrid"),
    "recompute unknown": ({"recompute": "every-other"}, "V009", "every-other"),
    "offload of more": ({"features": "cpu_offload=optimizer"}, "V009", "offloaded"),
    "offload not offered": ({"features": "cpu_activation_offload_layers=40"}, "V007", "L011"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_modelled_says_why(name: str, row: Any) -> None:
    cells, code, why = REFUSED[name]
    given = row(**cells)
    found = figure(given)
    assert (found.refused, found.predicted, found.error) == (code, None, None)
    assert found.measured == (1.42 if "step_time_s" not in cells else None)
    assert why in found.why
    if code not in ("V005", "V010"):
        with pytest.raises(CannotModel, match=code):
            modelled(given, SHELF)


def test_one_unreadable_row_leaves_the_others_be(tmp_path: Path, run: Any) -> None:
    """All of them are counted; a cell that is not asked about does no harm; calibrate passes it over as well."""
    rows = [BASE, {"step_time_s": "inf"}, {"id": "more", "fits": "OOM"}, {"id": "two", "tp": "x", "vocab": "-3"}]
    path = table(tmp_path, *rows)
    with open(path, "a", encoding="utf-8") as file:
        file.write("short,1\n")
    (part,) = validated([path])
    assert [figure.refused for figure in part.figures] == [None, "V010", None, "V010", "V010"]
    assert [figure.measured for figure in part.figures] == [1.42, None, 1.42, 1.42, None]
    assert [figure.why for figure in part.figures[3:]] == [
        "line 5, vocab: '-3' is out of range: a whole number from 1 is wanted here; "
        "tp: a whole number from 1 is wanted here, not 'x'",
        f"line 6, this row has 2 cells and the header {len(NAMES)}",
    ]
    total = score(part.figures)
    assert (total.rows, total.modelled) == (5, 2)
    ran = run("validate", path, "--quantity", "memory", cwd=tmp_path)
    assert (ran.code, "line 4, fits: true or false is wanted here, not 'OOM'" in ran.out) == (0, True)
    ran = run("calibrate", path)
    assert (ran.code, ran.err) == (0, "")


def test_columns_and_rules_are_told(run: Any) -> None:
    told = run("explain", "D014").out
    assert all(f"  {name}: {column.meaning}" in told for name, column in [*COLUMNS.items(), *SERVED.items()])
    told = run("explain", "V006").out
    assert all(f"  {name}: {rule}" in told for name, rule in RULES.items())


def test_every_reason_is_tried_and_explained(run: Any) -> None:
    tried = [*REFUSED.values(), *REFUSED_SERVING.values()]
    assert {code for _, code, _ in tried} == set(REASONS)
    for code, reason in REASONS.items():
        ran = run("explain", code)
        assert (ran.code, ran.err) == (0, "")
        assert reason.meaning in ran.out
        assert code in run("explain").out


TOKENS = 4 * 2048
MODEL_FLOP = (
    72 * TOKENS * 48 * 6144**2 * (1 + 2048 / (6 * 6144) + 51200 / (12 * 6144 * 48))
)  # Korthikanti eq. 7 at full
HARDWARE_FLOP = 96 * TOKENS * 48 * 6144**2 * (1 + 2048 / (6 * 6144) + 51200 / (16 * 6144 * 48))  # Narayanan eq. 3
CAUSAL_FLOP = 72 * TOKENS * 48 * 6144**2 * (1 + 2048 / (12 * 6144) + 51200 / (12 * 6144 * 48))
PEAK = 312e12


@pytest.mark.parametrize(
    ("cells", "seconds"),
    [
        ({"tokens_per_s_per_gpu": 512}, TOKENS / 8 / 512),
        ({"tflops_per_gpu": 150, "flops_convention": "HARDWARE incl. full recompute"}, HARDWARE_FLOP / 8 / 150e12),
        ({"tflops_per_gpu": 150, "flops_convention": "model FLOPs, full attention"}, MODEL_FLOP / 8 / 150e12),
        ({"tflops_per_gpu": 150, "flops_convention": "model: causal-halved attention"}, CAUSAL_FLOP / 8 / 150e12),
        ({"tflops_per_gpu": 150, "flops_convention": "full (non-causal) attention"}, MODEL_FLOP / 8 / 150e12),
        ({"tflops_per_gpu": 150}, MODEL_FLOP / 8 / 150e12),
        ({"mfu": 40, "flops_convention": "model FLOPs full attention"}, MODEL_FLOP / 8 / (0.40 * PEAK)),
        ({"mfu": 40, "mfu_peak_tflops": 300}, MODEL_FLOP / 8 / (0.40 * 300e12)),
        ({"hfu": 50}, HARDWARE_FLOP / 8 / (0.50 * PEAK)),
        ({"mfu": 40, "hfu": 50, "tokens_per_s_per_gpu": 512}, TOKENS / 8 / 512),
    ],
)
def test_measured_time_from_what_is_stated(row: Any, cells: dict[str, Any], seconds: float) -> None:
    found = figure(row(**{"step_time_s": EMPTY, **cells}))
    assert found.measured == pytest.approx(seconds, rel=2e-3)
    open_question = {"mfu", "hfu", "tflops_per_gpu"} & set(cells) and "flops_convention" not in cells
    told = "tokens_per_s_per_gpu" not in cells and bool(open_question)
    assert ("flops_convention" in found.filled) == told


def test_6n_and_korthikanti_are_conventions_too(row: Any) -> None:
    measured = {
        words: figure(row(step_time_s=EMPTY, mfu=40, flops_convention=words)).measured
        for words in ("model 6N+12*L*d*s (full attention)", "MFU model FLOPs=72BLsh^2(1+s/6h+V/12hL)")
    }
    for seconds in measured.values():
        assert seconds == pytest.approx(MODEL_FLOP / 8 / (0.4 * PEAK), rel=0.01)
    assert len(set(measured.values())) == 2


def test_metrics_are_totals_of_the_ledger() -> None:
    told = {
        "torch.cuda.max_allocated": "memory_allocated",
        "max_allocated of busiest rank (reported 66.55 GiB; reserved 70.88 GiB)": "memory_allocated",
        "mem-max-allocated-bytes (median over steps)": "memory_allocated",
        "peak_memory_usage": "memory_allocated",
        "memory_allocated (steady, between steps)": "memory_states",
        "mem-allocated-bytes (median over steps)": "memory_states",
        "torch.cuda.max_reserved": "memory_reserved",
        "max_reserved, reported 82.4 GiB": "memory_reserved",
        "nvidia-smi used": "memory_peak",
        'reported "Memory (GB)"': "memory_allocated",
        "": "memory_peak",
    }
    assert {metric: total_of(metric) for metric in told} == told


def test_memory_is_the_total_its_metric_means(row: Any) -> None:
    ledger = modelled(row(), SHELF).answer.evaluation.ledger
    for metric in ("steady allocated", "max_allocated", "max_reserved", "nvidia-smi used"):
        found = figure(row(value_gb=50, metric=metric), "memory")
        assert (found.quantity, found.measured) == (total_of(metric), 50e9)
        assert found.predicted is not None
        assert found.predicted <= float(ledger.worst[0])
    assert found.predicted == float(ledger.worst[0])
    assert figure(row(peak_mem_gb=50), "memory").measured == 50e9
    assert figure(row(value_gb=50, kind="analytical"), "memory").refused == "V005"
    assert figure(row(micro_batch=EMPTY), "memory").refused == "V005"


def test_a_scope_names_a_stage(row: Any) -> None:
    cells = {"pp": 2, "tp": 4, "micro_batch": 1, "value_gb": 50, "metric": "max_allocated"}
    first, last, worst_ = (
        figure(row(**cells, scope=scope), "memory").predicted
        for scope in ("pp_stage 0/2 (max over its ranks)", "pp_stage 1/2 (max over its ranks)", "max over GPUs")
    )
    assert first is not None
    assert last is not None
    assert first != last
    assert worst_ == max(first, last)
    assert figure(row(**cells, scope="rank 0 log"), "memory").predicted == first


def test_what_ran_fitted(row: Any) -> None:
    assert figure(row(), "memory") == figure(row(fits=1), "memory")
    large = {"tp": 1, "gpus": 1, "zero_stage": 0}
    assert [figure(row(**cells), "memory").predicted for cells in ({}, large)] == [1.0, 0.0]
    found = [
        figure(row(**cells), "memory") for cells in ({}, large, {"fits": 0}, {**large, "fits": 0}, {"value_gb": 9})
    ]
    told = outcomes(found)
    assert (told.fit, told.called_unfit, told.unfit, told.called_fit) == (3, 1, 2, 1)
    assert [item.error for item in found[:4]] == [0.0, -1.0, 1.0, 0.0]
    assert score(found).median_error == abs(found[4].error or 0)
    alone = score(found[:4])
    assert (alone.median_error, alone.bias) == (0.5, None)


@pytest.mark.parametrize(
    ("cells", "quantity"),
    [
        (
            {"recompute": "selective", "notes": "selective AC = a fraction of blocks (fraction not stated)"},
            "memory_peak",
        ),
        ({"recompute": "none", "notes": "selective AC = a fraction of blocks (fraction not stated)"}, FITS),
        ({"notes": "value in parentheses (alternative quantisation) of same table row"}, "memory_peak"),
        ({"recompute": ""}, "memory_peak"),
        ({"micro_batch": ""}, "memory_peak"),
        ({}, FITS),
    ],
)
def test_only_what_is_told_shows_what_fits(row: Any, cells: dict[str, Any], quantity: str) -> None:
    assert measured(row(**cells), "memory")[0] == quantity


def compared(ratio: float | None, group: str = "a", **more: Any) -> Compared:
    predicted = None if ratio is None else 2 * ratio
    return Compared("run", "step_time", 2.0, predicted, groups={"source": group}, **more)


def test_statistics_by_hand() -> None:
    """Errors −20, −10, +5, +10, +40 %: |error| 5, 10, 10, 20, 40; P90 lies 0.6 of the way from 20 to 40."""
    figures = [compared(ratio) for ratio in (0.8, 0.9, 1.05, 1.1, 1.4)] + [compared(None, refused="V004")]
    found = score(figures)
    assert (found.rows, found.modelled, found.inside_band) == (6, 5, None)
    assert found.median_error == pytest.approx(0.10)
    assert found.p90_error == pytest.approx(0.32)
    assert found.bias == pytest.approx(0.05)
    nothing = score(figures[5:])
    assert (nothing.rows, nothing.modelled, nothing.median_error, nothing.p90_error, nothing.bias) == (
        1,
        0,
        None,
        None,
        None,
    )
    banded = [compared(1.0, low=1.5, high=2.5), compared(1.0, low=2.1, high=3.0)]
    assert score(banded).inside_band == 0.5


def test_groups_keep_the_order_of_the_table() -> None:
    figures = [compared(1.1, "b"), compared(0.8, "a"), compared(1.3, "b")]
    found = scores(figures, "source")
    assert list(found) == ["b", "a"]
    assert [part.rows for part in found.values()] == [2, 1]
    assert found["b"].bias == pytest.approx(0.2)
    assert [item.predicted for item in worst(figures, 2)] == [pytest.approx(2.6), pytest.approx(1.6)]


SCORE = {"rows", "modelled", "median_error", "p90_error", "bias", "inside_band"}


@pytest.mark.parametrize(
    ("cells", "groups"),
    [
        ({"gpu": EMPTY}, {"gpu": "a100-sxm-80", "accelerator": "a100-sxm-80"}),
        ({"accelerator": EMPTY}, {"gpu": BASE["gpu"], "accelerator": "a100-sxm-80"}),
        ({"source_family": EMPTY}, {"source_family": BASE["source"]}),
        ({"arch": EMPTY}, {"arch": "dense"}),
        ({"arch": EMPTY, "n_experts": 8}, {"arch": "moe"}),
        ({"arch": "dense", "n_experts": 8}, {"arch": "dense"}),
    ],
)
def test_groups_follow_from_other_cells_where_theirs_is_empty(row: Any, cells: Any, groups: dict[str, str]) -> None:
    found = figure(row(**cells)).groups
    assert {name: found[name] for name in groups} == groups


@pytest.fixture
def runs(tmp_path: Path) -> str:
    refused = {"id": "fp8", "precision": "fp8", "tier": "bulk"}
    filled = {"id": "filled", "micro_batch": EMPTY, "tier": "core", "source": "another", "source_family": EMPTY}
    return table(tmp_path, {"tier": "core"}, {**SELECTIVE, "tier": "core"}, refused, filled)


def test_the_json_keeps_its_promise(runs: str, run: Any) -> None:
    ran = run("validate", runs, "--json")
    assert (ran.code, ran.err) == (0, "")
    result = json.loads(ran.out)
    assert result["schema"] == "costmodel/validation/v1"
    assert set(result["overall"]) == SCORE
    assert set(result["by"]) == set(GROUPINGS)
    for groups in result["by"].values():
        assert all(set(part) == SCORE for part in groups.values())
        assert sum(part["rows"] for part in groups.values()) == 4
    assert [entry["id"] for entry in result["rows"]] == ["22b-full", "22b-selective", "fp8", "filled"]
    full, _, fp8, filled = result["rows"]
    assert set(full) >= {"id", "quantity", "measured", "predicted", "low", "high", "error", "refused"}
    assert (full["quantity"], full["measured"], full["refused"], full["filled"]) == ("step_time", 1.42, None, STANDS)
    assert full["error"] == pytest.approx(full["predicted"] / 1.42 - 1)
    assert (fp8["predicted"], fp8["error"], fp8["refused"], fp8["measured"]) == (None, None, "V004", 1.42)
    assert filled["filled"] == f"{STANDS}, micro_batch=4 or 1 or 2"
    assert result["rules"] == {name: RULES[name] for name in ("stack", "micro_batch")}
    errors = sorted(abs(entry["error"]) for entry in result["rows"] if entry["error"] is not None)
    assert result["overall"]["median_error"] == pytest.approx(errors[1])
    assert (result["overall"]["rows"], result["overall"]["modelled"]) == (4, 3)
    assert set(result["by"]["reason"]) == {"modelled", "V004"}
    assert set(result["by"]["source_family"]) == {"korthikanti", "another"}
    assert result["by"]["precision"]["fp8"]["modelled"] == 0


def test_the_csv_has_the_same_rows(runs: str, run: Any) -> None:
    rows = json.loads(run("validate", runs, "--json").out)["rows"]
    ran = run("validate", runs, "--format", "csv")
    assert (ran.code, ran.err) == (0, "")
    found = list(csv.DictReader(io.StringIO(ran.out)))
    assert list(found[0]) == list(rows[0])
    for line, entry in zip(found, rows, strict=True):
        assert line["id"] == entry["id"]
        assert line["error"] == ("" if entry["error"] is None else repr(entry["error"]))
        assert line["refused"] == (entry["refused"] or "")


def test_the_table_for_people(runs: str, run: Any) -> None:
    plain = run("validate", runs)
    assert plain.code == 0
    assert "another" in plain.out
    assert "not modelled: V004 precision without a fit: fp8: a100-sxm-80 has no fp8" in plain.out
    told = run("validate", runs, "--by", "reason", "--worst", "2").out
    assert "V004 precision without a fit" in told
    assert told.count("22b-") == 2 or "micro_batch 4" in told
    memory = run("validate", runs, "--quantity", "memory").out
    assert "2 runs fitted, 0 of them called too large" in memory
    assert "0 of 2 wrong on whether it fits" in memory
    assert "wrong on whether" not in plain.out


def test_a_column_that_looks_like_another_is_told(runs: str, run: Any) -> None:
    path = Path(runs)
    assert "is not used" not in run("validate", runs).out
    path.write_text(path.read_text().replace("micro_batch", "micro_bach", 1))
    assert "the column 'micro_bach' is not used; is it 'micro_batch'?" in run("validate", runs).out


def test_rows_are_chosen_by_their_cells(runs: str, run: Any) -> None:
    def ids(*where: str) -> list[str]:
        options = [word for part in where for word in ("--where", part)]
        return [entry["id"] for entry in json.loads(run("validate", runs, "--json", *options).out)["rows"]]

    assert ids("tier=bulk") == ["fp8"]
    assert ids("tier=core", "precision=fp16", "step_time_s=1.10") == ["22b-selective"]
    assert ids("tier=core", "tier=bulk") == ["22b-full", "22b-selective", "fp8", "filled"]
    assert ids("source_family=another") == ["filled"]
    assert ids("model=GPT-22B", "gpus=8.0", "tier=bulk") == ["fp8"]


@pytest.mark.parametrize(
    ("where", "sentence"),
    [("tier", "not column=value"), ("=core", "not column=value"), ("teir=core", "no table has"), ("tier=x", "tier=x")],
)
def test_a_choice_of_nothing_is_a_fault(where: str, sentence: str, runs: str, run: Any, faults: Any) -> None:
    (found,) = faults(run("validate", runs, "--where", where))
    assert found.code == "C005"
    assert sentence in found.sentence


def test_documents_and_tables_stand_together(runs: str, run: Any) -> None:
    result = json.loads(run("validate", "korthikanti-2022", runs, "--json").out)
    assert result["overall"]["rows"] == 8
    assert result["rows"][0]["id"] == "korthikanti-2022/22b-full"
    assert (result["rows"][0]["within"], result["rows"][4]["within"]) == (True, None)
    assert set(result["by"]["framework"]) == {"megatron-2021", "Megatron-LM"} | set(result["by"]["framework"])
    chosen = json.loads(run("validate", "korthikanti-2022", "--where", "model=gpt-3-175b", "--json").out)
    assert chosen["overall"]["rows"] == 2
    assert run("validate", "korthikanti-2022", "--quantity", "memory").out == "no figures of that quantity\n"


def test_a_table_out_of_bounds_is_no_failure(row: Any, run: Any) -> None:
    assert run("validate", row(step_time_s=1000).place.file).code == 0


def test_cells_at_their_limits_do_not_crash(row: Any) -> None:
    for cells in (
        {"layers": 10**18}, {"hidden": 64 * 10**16}, {"seq_len": 10**18}, {"global_batch": 10**18, "micro_batch": ""},
        {"gpus": 10**18, "global_batch": 10**18}, {"nic_gbps_per_gpu": 1e-17, "gpus": 16}, {"vocab": 1},
        {"step_time_s": 1e-17}, {"heads": 1, "kv_heads": 1, "tp": 1, "gpus": 1}, {"gpus_per_node": 10**18},
    ):  # fmt: skip
        found = figure(row(**cells))
        assert found.refused or found.error is not None


def test_rows_share_their_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path, *({"id": str(index)} for index in range(100)))
    reads = []
    original = CachedReader.tree
    monkeypatch.setattr(
        CachedReader, "tree", lambda self, *given, **more: reads.append(given) or original(self, *given, **more)
    )
    (found,) = validated([path])
    assert (len(found.figures), len(reads)) == (100, len(set(reads)))
    assert len(reads) < 12
