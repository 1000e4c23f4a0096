"""Engines on accelerators of makers whose cards they do not run on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from costmodel.ground.errors import CostModelError
from estimate.serving.cases import inputs

AMD = (
    "--model",
    "llama-3.1-8b",
    "--gpu",
    "mi300x",
    "--gpus",
    "8",
    "--rate",
    "2",
    "--prompt",
    "1000",
    "--answer",
    "200",
)


def test_an_engine_for_one_maker_is_refused_on_another() -> None:
    with pytest.raises(CostModelError, match="trt-llm runs on accelerators of NVIDIA alone, not on AMD's"):
        inputs("cluster.node=hgx-mi300x", "stack=trt-llm")
    with pytest.raises(CostModelError, match="own runs on"):
        inputs("cluster.node=hgx-mi300x", "stack={name: own, like: trt-llm}")
    assert inputs("cluster.node=hgx-mi300x", "stack=vllm").engine.name == "vllm"


def test_a_search_over_engines_ranks_none_that_cannot_run(run: Any) -> None:
    ran = run("search", *AMD, "--over", "stack=vllm,trt-llm", "--json")
    found = json.loads(ran.out)
    assert {row["stack"] for row in found["plans"]} == {"vllm"}


def test_an_export_to_an_engine_that_cannot_run_is_refused(run: Any) -> None:
    ran = run("export", *AMD, "--set", "plan.tp=1", "--to", "trt-llm")
    assert ran.code == 2
    assert "engines that do: sglang, vllm" in ran.err
