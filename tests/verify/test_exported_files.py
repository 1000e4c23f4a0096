"""Exported files are those that the real parsers took, and say to them what the plan says.

The texts and what the parsers made of them are kept; the parsers of accelerate, DeepSpeed, transformers, Megatron-Core
and torchtitan themselves run where the extra [exchange] is installed: python -m pytest tests/verify -k exported
"""

from __future__ import annotations

import functools
import warnings

import pytest

from costmodel.explore.import_export.export_plan import ExportedPlan

from .make import counted, kept, reference, written
from .real.exported_files import CASES, best, installed

KEPT = reference("exported_files")
best_plan = functools.cache(best)


def sizes(plan: ExportedPlan) -> dict[str, int]:
    """Sizes of a plan that parsers show."""
    job = plan.job
    return {
        "micro_batch": job.count("micro_batch"),
        "accumulation": job.accumulation,
        "global_batch": round(job.workload.global_batch),
        "ranks": job.accelerators,
    }


@pytest.mark.parametrize("target", CASES)
def test_the_file_is_the_one_that_its_parser_took(target: str) -> None:
    assert best_plan(target).file.text == KEPT[target]["text"]


def test_what_the_parsers_read_is_the_plan() -> None:
    found = {target: (KEPT[target]["parsed"], best_plan(target).job.plan, sizes(best_plan(target))) for target in CASES}
    parsed, plan, ours = found["deepspeed"]
    assert [parsed[key] for key in ("train_batch_size", "micro_batch", "accumulation", "stage")] == [
        ours["global_batch"], ours["micro_batch"], ours["accumulation"], plan.zero,
    ]  # fmt: skip
    parsed, plan, ours = found["accelerate"]
    assert parsed["processes"] == ours["ranks"]
    assert parsed["fsdp_config"]["fsdp_reshard_after_forward"] == (plan.zero == 3)
    parsed, plan, ours = found["hf"]
    assert (parsed["micro_batch"], parsed["accumulation"]) == (ours["micro_batch"], ours["accumulation"])
    parsed, plan, ours = found["torchtitan"]
    assert parsed["shard"] * parsed["replicate"] == plan.dp
    assert (parsed["tp"], parsed["pp"], parsed["global_batch"]) == (plan.tp, plan.pp, ours["global_batch"])
    parsed, plan, ours = found["bridge"]
    assert parsed["tensor_model_parallel_size"] == plan.tp
    assert parsed["unknown"] == ["seq_length"]  # a field of Megatron-Bridge's own


@pytest.mark.skipif(not installed(), reason="needs the extra [exchange]")
@pytest.mark.filterwarnings("ignore")
def test_the_parsers_still_read_what_is_kept() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert written(counted("exported_files")) == kept("exported_files").read_text("utf-8")
