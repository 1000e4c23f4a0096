"""What launch scripts and recipes of a release switch on where a row says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from each import each

from costmodel.documents.reader.library import CachedReader, names, read
from costmodel.evidence.validate.imputation import launch_says
from costmodel.evidence.validate.modelled_rows import modelled
from costmodel.evidence.validate.spelling import MODULES, recompute_of
from costmodel.exchange.tables.run_table import COLUMNS
from evidence.validate.runs_of_22b import DEEPSEEK, EMPTY, MIXTRAL, SHELF

pytestmark = pytest.mark.usefixtures("in_its_folder")


GRAPHED = "cuda_graph=full_iteration;moe_a2a_overlap;moe_dispatcher=hybridep"


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
    structure = found.evaluation.block.structure
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
    structure = found.evaluation.block.structure
    assert (structure.recompute_modules and list(structure.recompute_modules)) == modules
    assert structure.recompute == "selective"


@pytest.mark.parametrize(
    ("model", "gpus", "shards"), [("GPT3-5B", 64, 8), ("GPT3-175B", 256, 128), ("GPT3-1B", 64, 64)]
)
def test_ranks_that_share_a_copy_by_launch_script(row: Any, model: str, gpus: int, shards: int) -> None:
    unsaid = {"features": EMPTY, "zero_stage": EMPTY, "dp": EMPTY, "fsdp": "true", "tp": 1}
    named = {"framework": "Paxml (dgxc-benchmarking v24.11.1)", "model_name": model}
    found = modelled(row(**named, **unsaid, gpus=gpus, global_batch=1024, year=2024), SHELF)
    block = found.evaluation.block
    assert block.dp[0] / block.dp_replicate[0] == shards


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
    assert (found.inputs.experts.host == 0) == graphed


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


@each("run, said", [(line.split(), said) for said, runs in SWITCHED_ON.items() for line in runs.strip().splitlines()])
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
