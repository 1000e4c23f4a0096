"""Rows of tables of measured runs: one of Korthikanti et al., with other cells, and runs of mixtures beside it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from costmodel.documents.reader.library import CachedReader
from costmodel.evidence.validate.outcomes import Compared
from costmodel.evidence.validate.validate import validated
from costmodel.exchange.tables.csv_cells import CsvRow

# Korthikanti et al. 2022 (arXiv 2205.05198), table 5: Megatron-LM 22B on 8 A100 of 80 GB, batch 4, tensor parallel 8:
# 1.42 s a step with full recompute, 1.10 s with selective recompute and sequence parallelism.
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


SHELF = CachedReader()


def figure(row: CsvRow, quantity: Any = "time") -> Compared:
    (found,) = validated([row.place.file], quantity=quantity)[0].figures
    return found


MODERN = {"year": 2024, "framework": "NeMo", "zero_stage": EMPTY, "precision": "bf16"}
TITAN = {"fsdp": "true", "year": 2024, "framework": "torchtitan"}
WIRED = {"nic_gbps_per_gpu": 200}
PIPELINE = {"gpus": 16, "tp": 2, "pp": 4, "dp": EMPTY, "vp": EMPTY, "micro_batch": EMPTY, "global_batch": 16}
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
