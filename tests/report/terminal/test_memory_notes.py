"""The words of a ledger line give its figure when they are multiplied out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from conftest import ledgers

CASE = """schema: costmodel/scenario/v1
title: Llama 3 70B, FSDP in a pipeline of 8
model: llama-3-70b
cluster: {node: dgx-h100, nodes: 4}
workload: {kind: training, sequence: 1024, global_batch: 32, precision: bf16, gradients: bf16, optimizer: adamw-bf16}
stack: fsdp2
plan: {tp: 1, pp: 8, micro_batch: 4, zero: 3, recompute: none}
"""
PARAMETERS = 8_030_261_248  # of Llama 3 8B, as published


def notes(out: str) -> dict[str, str]:
    """The words of every line of a ledger as it is printed."""
    rows = re.findall(r"(?m)^  (\w+) +[\d.]+(?: +[\d.]+)*  [█▏▎▍▌▋▊▉ ]*?(?<=  )([^\s█▏▎▍▌▋▊▉].*)$", out)
    return {name: words.strip() for name, words in rows}


def test_gradients_of_fsdp_in_a_pipeline_are_whole(run: Any) -> None:
    """17.9 GiB are 2 B of all 9.6 G parameters of the stage, of which the weights hold 4 B sharded over 4."""
    said = notes(run("memory", "-", stdin=CASE).out)
    assert said["gradients"] == "2 B a parameter, whole until the last micro-batch"
    assert said["weights"] == "4 B a parameter, sharded over dp"
    worst = ledgers(json.loads(run("memory", "-", "--json", stdin=CASE).out))["first"]
    parameters = worst["weights"] / 4 * 4
    assert worst["gradients"] == pytest.approx(2 * parameters)
    one_stage = notes(run("memory", "-", "--set", "plan.pp=1", "--set", "plan.micro_batch=1", stdin=CASE).out)
    assert one_stage["gradients"] == "2 B a parameter, sharded over dp"


@pytest.mark.parametrize(
    ("stack", "settings"),
    [
        ("megatron-core", ["plan.tp=1"]),
        ("megatron-core", ["plan.zero=0"]),
        ("ddp", []),
        ("fsdp2", ["plan.zero=3"]),
        ("fsdp2", ["plan.zero=2"]),
        ("fsdp2", ["plan.zero=3", "plan.dp_replicate=4"]),
        ("deepspeed", ["plan.zero=1"]),
        ("deepspeed", ["plan.zero=2"]),
        ("deepspeed", ["plan.zero=3"]),
        ("deepspeed", ["plan.zero=1", "workload.gradients=bf16"]),
    ],
)
def test_the_words_multiply_out(stack: str, settings: list[str], run: Any) -> None:
    """Bytes a parameter, of all that a rank of 32 holds or of the part that its shard is."""
    options = ["--set", "model=llama-3-8b", "--set", f"stack={stack}", "--set", "plan={micro_batch: 1}"]
    options += [part for setting in settings for part in ("--set", setting)]
    out, answer = run("memory", "quickstart", *options).out, run("memory", "quickstart", *options, "--json").out
    ledger = ledgers(json.loads(answer))["first"]
    shards = 8 if "plan.dp_replicate=4" in settings else 32
    said = notes(out)
    for line in ("weights", "gradients", "optimizer"):
        assert ledger[line] == pytest.approx(_multiplied(said[line], shards) * PARAMETERS, rel=2e-3), said


def _multiplied(words: str, shards: int) -> float:
    """Bytes a parameter that a rank holds, by the words."""
    found = 0.0
    first, *rest = words.split(", and ")
    width, _, where = first.partition(" B a parameter")
    found += float(width) / (shards if "sharded over dp" in where else 1)
    for more in rest:
        width, _, where = more.partition(" B ")
        found += float(width) / (shards if where == "of the shard" else 1)
    return found
