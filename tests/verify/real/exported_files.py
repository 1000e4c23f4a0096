"""Exported files through the parsers of the software they start; no GPU is needed.

accelerate, DeepSpeed, transformers, Megatron-Core and torchtitan 0.3 parse; `[exchange]` installs them.
"""

from __future__ import annotations

import importlib.util
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ruamel.yaml import YAML

from costmodel.documents.reader.load_scenario import load
from costmodel.explore.import_export.export_plan import ExportedPlan, export_plan

# Format, stack and what is set beside it: the best plan of the search that the format can express.
CASES = {
    "deepspeed": (
        "deepspeed",
        [
            "search={zero: [1, 2, 3], recompute: [none], tp: [1], pp: [1]}",
            "model=llama-3.2-1b",
            "workload.sequence=2048",
        ],
    ),
    "accelerate": ("fsdp2", []),
    "hf": ("fsdp2", []),
    "torchtitan": ("fsdp2", []),
    "bridge": ("megatron-core", []),
}
NEEDED = ("torch", "accelerate", "deepspeed", "transformers", "megatron.core", "torchtitan")
MOST = 20  # ranks that are tried


def best(target: str) -> ExportedPlan:
    """The best plan of a search that a format can express, as its file."""
    stack, more = CASES[target]
    case = load("quickstart", [f"stack={stack}", *more])
    for rank in range(1, MOST):
        found = export_plan(case, target, rank)
        if not found.file.faults:
            return found
    raise AssertionError(target)


def counted() -> dict[str, Any]:
    """Of each file its text and what the real parser makes of it."""
    found = {}
    for target in CASES:
        plan = best(target)
        found[target] = {"text": plan.file.text, "parsed": PARSERS[target](plan.file.text, plan)}
    return found


def _file(text: str, name: str) -> str:
    path = Path(tempfile.mkdtemp()) / name
    path.write_text(text, "utf-8")
    return str(path)


def _deepspeed(text: str, plan: ExportedPlan) -> dict[str, Any]:
    from deepspeed.runtime import config

    ranks = SimpleNamespace(get_rank=lambda: 0, get_world_size=lambda: plan.job.accelerators)
    with mock.patch.object(config, "dist", ranks):  # as many ranks as the plan has, of which none is started
        found = config.DeepSpeedConfig(json.loads(text))
    return {
        "train_batch_size": found.train_batch_size,
        "micro_batch": found.train_micro_batch_size_per_gpu,
        "accumulation": found.gradient_accumulation_steps,
        "stage": int(found.zero_config.stage),
        "bf16": found.bfloat16_config.enabled,
    }


def _accelerate(text: str, _: ExportedPlan) -> dict[str, Any]:
    from accelerate.commands.config.config_args import load_config_from_file

    found = load_config_from_file(_file(text, "a.yaml"))
    return {
        "processes": found.num_processes,
        "distributed_type": str(found.distributed_type).rpartition(".")[2],
        "mixed_precision": str(found.mixed_precision),
        "fsdp_config": found.fsdp_config,
        "parallelism_config": found.parallelism_config,
    }


def _arguments(text: str, _: ExportedPlan) -> dict[str, Any]:
    from transformers import TrainingArguments

    found = TrainingArguments(**YAML(typ="safe").load(text), use_cpu=True)
    return {
        "micro_batch": found.per_device_train_batch_size,
        "accumulation": found.gradient_accumulation_steps,
        "optim": str(found.optim.value),
        "bf16": found.bf16,
        "max_steps": found.max_steps,
    }


def _torchtitan(text: str, _: ExportedPlan) -> dict[str, Any]:
    """The configuration that the recipe builds, which torchtitan itself checks."""
    built: dict[str, Any] = {}
    exec(compile(text, "recipe.py", "exec"), built)
    [recipe] = [value for name, value in built.items() if f"def {name}()" in text]
    found = recipe()
    layout, training, policy = found.parallelism, found.training, found.activation_checkpoint
    return {
        "model": f"{found.model_spec.name} {found.model_spec.flavor}",
        "shard": layout.data_parallel_shard_degree,
        "replicate": layout.data_parallel_replicate_degree,
        "tp": layout.tensor_parallel_degree,
        "pp": layout.pipeline_parallel_degree,
        "reshard": layout.fsdp_reshard_after_forward,
        "local_batch": training.local_batch_size,
        "global_batch": training.global_batch_size,
        "sequence": training.seq_len,
        "recompute": "none" if policy is None else type(policy).__qualname__,
        "compiled": found.compile.enable,
    }


def _bridge(text: str, plan: ExportedPlan) -> dict[str, Any]:
    """Overrides of the model are fields of Megatron-Core's configuration, which checks them."""
    from dataclasses import fields

    from megatron.core.transformer import TransformerConfig

    known = {field.name for field in fields(TransformerConfig)}
    stated = {
        key: YAML(typ="safe").load(value) for key, value in re.findall(r"^model\.(\w+)=(\S+)$", text, re.MULTILINE)
    }
    own = {key: value for key, value in stated.items() if key in known}
    kinds = plan.job.model.layers
    heads = next(kind.attention.heads for kind in kinds if kind.attention is not None)
    depth = round(sum(kind.count for kind in kinds))
    shape = {"num_layers": depth, "hidden_size": round(plan.job.model.hidden), "num_attention_heads": round(heads)}
    own |= {"pipeline_dtype": "bf16"} if (own.get("pipeline_model_parallel_size") or 1) > 1 else {}
    TransformerConfig(**shape, **own)
    return {"unknown": sorted(stated.keys() - known), **own}


PARSERS: dict[str, Callable[[str, ExportedPlan], dict[str, Any]]] = {
    "deepspeed": _deepspeed,
    "accelerate": _accelerate,
    "hf": _arguments,
    "torchtitan": _torchtitan,
    "bridge": _bridge,
}


def installed() -> bool:
    """Whether everything that parses is there."""
    return all(importlib.util.find_spec(name.split(".")[0]) is not None for name in NEEDED)
