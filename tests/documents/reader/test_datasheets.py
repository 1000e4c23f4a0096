"""Accelerators that no shipped document describes, from figures of a datasheet in the working folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ACCELERATOR = """schema: costmodel/accelerator/v1
name: {name}
title: {name}
vendor: {vendor}
family: {name}
memory: {{capacity: {memory}, usable: {memory}, bandwidth: {bandwidth}, source: datasheet, check: seen}}
peak: {{bf16: {peak}, fp16: {peak}, source: datasheet, check: seen}}
power: {{max: {power}, source: datasheet, check: seen}}
found_in: {{node: box}}
sources: {{datasheet: {{title: Datasheet, authors: {vendor}, url: "https://example.org"}}}}
"""
NODE = """schema: costmodel/node/v1
name: box
title: Eight in a box
provider: mine
accelerator: {name}
accelerators: 8
scale_up: {{fabric: pcie5x16, domain: 8, source: datasheet, check: seen}}
scale_out: {{fabric: roce200, nics: 8, source: datasheet, check: seen}}
host: pcie5x16
sources: {{datasheet: {{title: Datasheet, authors: {vendor}, url: "https://example.org"}}}}
"""
COLUMNS = ("vendor", "memory", "bandwidth", "peak", "power")
PARTS = {
    name: dict(zip(COLUMNS, figures, strict=True))
    for name, figures in {
        "ascend-910b": ("Huawei", "64 GiB", "1.6 TB/s", "313 TFLOP/s", "400 W"),
        "ascend-910c": ("Huawei", "128 GiB", "3.2 TB/s", "780 TFLOP/s", "700 W"),
        "max-1550": ("Intel", "128 GiB", "3.2 TB/s", "839 TFLOP/s", "600 W"),
    }.items()
}
TRAINED = ("--model", "llama-3.1-8b", "--gpus", "8", "--sequence", "4096", "--batch", "64")
SERVED = ("--model", "llama-3.1-8b", "--gpus", "8", "--concurrency", "8", "--prompt", "512", "--answer", "128")


@pytest.mark.parametrize("name", PARTS)
def test_a_datasheet_in_the_folder_describes_an_accelerator(name: str, run: Any, tmp_path: Path) -> None:
    refused = run("estimate", *TRAINED, "--gpu", name, cwd=tmp_path)
    assert (refused.code, "costmodel show h100-sxm > hardware/accelerators/mine.yaml" in refused.err) == (2, True)
    for kind, file, text in (("accelerators", name, ACCELERATOR), ("nodes", "box", NODE)):
        (tmp_path / "hardware" / kind).mkdir(parents=True)
        (tmp_path / "hardware" / kind / f"{file}.yaml").write_text(text.format(name=name, **PARTS[name]), "utf-8")
    for asked in (TRAINED, SERVED):
        ran = run("estimate", *asked, "--gpu", name, cwd=tmp_path)
        assert (ran.code, f"8 × {name}, 1 × box" in ran.out, "N005" in ran.out) == (0, True, asked is TRAINED), ran.err


def test_an_engine_that_is_not_documented_for_a_maker_runs_there_if_that_is_stated(run: Any, tmp_path: Path) -> None:
    part = PARTS["ascend-910b"] | {"vendor": "Another"}
    for kind, file, text in (("accelerators", "another", ACCELERATOR), ("nodes", "box", NODE)):
        (tmp_path / "hardware" / kind).mkdir(parents=True)
        (tmp_path / "hardware" / kind / f"{file}.yaml").write_text(text.format(name="another", **part), "utf-8")
    ran = run("estimate", *SERVED, "--gpu", "another", cwd=tmp_path)
    assert (ran.code, "--set 'stack.runs_on=[Another]' states that it does" in ran.err) == (2, True)
    assert run("estimate", *SERVED, "--gpu", "another", "--set", "stack.runs_on=[Another]", cwd=tmp_path).code == 0
