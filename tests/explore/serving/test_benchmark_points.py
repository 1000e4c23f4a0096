"""The benchmarks that determine an engine's constants: their results are read back, and identify what they are for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCENARIO = """schema: costmodel/scenario/v1
title: mine
model: llama-3.1-8b
cluster: {node: dgx-h100, nodes: 1}
workload: {kind: serving, prompt: 1024, output: 256, concurrency: 16}
stack: vllm
plan: {tp: 1}
"""


def test_points_lead_from_a_scenario_to_constants(run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "points"
    folder.mkdir()
    (folder / "mine.yaml").write_text(SCENARIO, "utf-8")
    said = json.loads(run("measure", "--engine", "points/mine.yaml", "--json", cwd=tmp_path).out)
    points = said["points"]
    assert {each["prompt"] for each in points} == {1024, 4096}
    assert [each["users"] for each in points][:4] == [1, 4, 16, 64]
    noise = np.random.default_rng(4)
    for each in points:  # as measured by an engine whose host takes 2 ms more a step
        words = each["command"].split()
        count = int(words[words.index("--num-prompts") + 1])
        tree = {"backend": "vllm", "max_concurrency": each["users"], "request_rate": "inf", "completed": count}
        tree |= {"total_input_tokens": count * each["prompt"], "total_output_tokens": count * each["output"]}
        token = (each["predicted_tpot_s"] + 2e-3) * np.exp(noise.normal(0, 0.01))
        tree |= {"mean_ttft_ms": 1e3 * each["predicted_ttft_s"], "mean_tpot_ms": 1e3 * token}
        (tmp_path / words[-1]).write_text(json.dumps(tree), "utf-8")
    found = json.loads(run("calibrate", "--follow", "points", "--json", cwd=tmp_path).out)
    assert found["modelled"] == len(points)
    host = found["parts"][0]["constants"][0]
    assert host["resolved"]
    assert host["value"] == pytest.approx(host["prior"] + 2e-3, rel=0.35)


@pytest.mark.parametrize(
    ("args", "code"),
    [(("quickstart",), "C030"), (("serve-llama-3.1-70b", "--brief"), "C009")],
)
def test_what_is_no_engine_is_refused(args: tuple[str, ...], code: str, run: Any) -> None:
    said = run("measure", "--engine", *args)
    assert (said.code, f"error[{code}]" in said.err) == (2, True)
