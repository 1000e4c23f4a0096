"""As many GPUs as --gpus asks for, whatever the node: of eight, of sixteen or of four."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

SERVING = ("--model", "llama-3.1-70b", "--prompt", "2000", "--answer", "500", "--rate", "12")
TRAINING = ("--model", "llama-3.1-8b", "--sequence", "8192", "--batch", "1Mi-tokens")
NODES = ("--over", "cluster.node=dgx-h100,a2-megagpu-16g,gb200-nvl72")


def test_every_node_of_a_sweep_has_the_gpus_asked_for(run: Any) -> None:
    out = run("sweep", *SERVING, "--gpus", "16", *NODES, "--show", "gpus,nodes").out
    assert out.startswith("Llama 3.1 70B on 16 GPUs\n")
    assert re.findall(r"^ +(\S+) +(16) [^\d]+(\d+) ", out, re.M) == [
        ("dgx-h100", "16", "2"),
        ("a2-megagpu-16g", "16", "1"),
        ("gb200-nvl72", "16", "4"),
    ]


@pytest.mark.parametrize("job", [SERVING, TRAINING])
def test_the_command_of_the_best_plan_is_of_as_many(job: tuple[str, ...], run: Any) -> None:
    """It names the node alone, so that the number of nodes follows as it did in the search."""
    asked = ("search", *job, "--gpus", "16", *NODES, "--top", "3")
    out = run(*asked).out
    first = json.loads(run(*asked, "--json").out)["plans"][0]
    typed = re.findall(r"^(?:Next|Best|Surest)\b[^:]*: costmodel (estimate .*)", out, re.M)[-1]
    answer = json.loads(run(*shlex.split(typed), "--json").out)["plans"][0]
    if job is TRAINING:
        assert answer["step_time_s"] == pytest.approx(first["step_time_s"])
        return
    (stated,) = re.findall(r"With 3 replicas: (\S+) ms per token", out)  # fewer GPUs than asked for answer the rate
    assert answer["tpot_s"] * 1e3 == pytest.approx(float(stated), abs=0.05)


def test_a_node_that_they_do_not_fill_has_a_fault_of_its_own(run: Any) -> None:
    found = run("sweep", *SERVING, "--gpus", "12", *NODES, "--show", "gpus")
    assert found.code == 0
    assert "dgx-h100 has 8 GPUs, and 12 is not a multiple of 8" in found.out
    assert re.search(r"gb200-nvl72 +12 ", found.out)


def test_nodes_that_are_set_count(run: Any) -> None:
    found = run(
        "sweep", *SERVING, "--gpu", "h100", "--gpus", "16", "--set", "cluster.nodes=3", *NODES, "--show", "gpus,nodes"
    )
    assert "--gpus 16 has no effect: --set cluster.nodes counts" in found.out
    assert re.findall(r"^ +\S+ +(\d+) [^\d]+3 ", found.out, re.M) == ["24", "48", "12"]
