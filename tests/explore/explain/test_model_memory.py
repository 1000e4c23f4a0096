"""The KV cache of a model alone: a token's bytes, and what each kind of layers keeps."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("llama-2-13b", 819_200),
        ("llama-3.1-8b", 131_072),
        ("llama-3.1-70b", 327_680),
        ("llama-3.1-405b", 516_096),
        ("deepseek-v3", 70_272),
    ],
)
def test_bytes_that_a_token_adds(run: Any, model: str, expected: int) -> None:
    """In bf16, over all layers, all heads once: `memory MODEL --json`, without a plan."""
    assert json.loads(run("memory", model, "--json").out)["kv_bytes_per_token"] == expected


def test_every_kind_of_layers_keeps_its_own(run: Any) -> None:
    """Gemma 3 27B has 10 full layers and 52 windows of 1,024; Nemotron-H 24 states beside 4 of attention."""
    gemma = {kind["kind"]: kind for kind in json.loads(run("memory", "gemma-3-27b", "--json").out)["cache"]}
    full, window = gemma["full attention"], gemma["window of 1,024"]
    assert (full["layers"], window["layers"]) == (10, 52)
    assert (full["sequence_bytes"] + window["sequence_bytes"]) / 1e9 == pytest.approx(1.1073, rel=1e-3)
    assert window["kv_bytes_per_token"] == 0
    kinds = {kind["kind"]: kind for kind in json.loads(run("memory", "nemotron-h-8b", "--json").out)["cache"]}
    states = 24 * 128 * 64 * 128 * 4 / 1e6  # in fp32, and inputs of the convolutions in 16 bits
    assert kinds["state space"]["sequence_bytes"] / 1e6 == pytest.approx(states + 1.4746, rel=2e-3)
    assert kinds["full attention"]["kv_bytes_per_token"] == 16_384
    assert "window of 1,024" in run("memory", "gemma-3-27b", "-v").out


def test_admitted_and_mean_cache_stand_side_by_side(run: Any) -> None:
    """gpt-oss-20b: of 8,192 tokens vLLM sets 0.375 GiB aside, 12 for 32 requests; its windows then hold 3 MiB."""
    load = ("--prompt", "8191", "--answer", "1", "--concurrency", "32")
    out = run("memory", "--model", "gpt-oss-20b", "--gpu", "h100", "--gpus", "1", *load, "-v").out
    rows = [line.split() for line in out.splitlines()]
    assert ["window", "of", "128", "12", "—", "0.188", "GiB", "3.00", "MiB"] in rows
    assert ["all", "24", "24.0", "KiB", "0.375", "GiB", "0.190", "GiB"] in rows  # × 32: 12.00 and 6.09 GiB
