"""Of one accelerator no answer shows a row that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ALONE = ("cluster.nodes=1", "cluster.node.accelerators=1", "model=llama-3.2-1b", "workload.sequence=2048", "plan.tp=1")
SET = tuple(part for item in ALONE for part in ("--set", item))
STACKS = ("megatron-core", "fsdp2", "fsdp1", "ddp", "deepspeed")


def rows(text: str) -> list[str]:
    """The first word, or two, of each line."""
    return [" ".join(line.split()[:2]) for line in text.splitlines()]


@pytest.mark.parametrize("stack", STACKS)
def test_an_estimate_has_no_term_of_several(stack: str, run: Any) -> None:
    ran = run("estimate", "quickstart", *SET, "--set", f"stack={stack}", "-v")
    assert ran.code == 0, ran.err
    found = rows(ran.out)
    assert not [row for row in found if "exposed" in row or row.startswith(("pipeline bubble", "scaling"))]
    assert not [line for line in ran.out.splitlines() if "overlap" in line or "network" in line]
    assert {"matrix multiply", "memory-bound ops"} <= {*found}


@pytest.mark.parametrize("stack", STACKS)
def test_a_ledger_has_nothing_of_others(stack: str, run: Any) -> None:
    """Copies in 16 bits are made by one rank too, but it gathers nothing; nobody shares its states."""
    ran = run("memory", "quickstart", *SET, "--set", f"stack={stack}")
    assert ran.code == 0, ran.err
    names = {row.split()[0] for row in rows(ran.out) if row}
    assert not names & {"gathered", "buckets"}
    assert ("copies" in names) is (stack in ("fsdp2", "fsdp1", "ddp"))
    assert "communicators" not in ran.out
    assert "sharded" not in ran.out
    two = run("memory", "quickstart", *SET, "--set", f"stack={stack}", "--set", "cluster.node.accelerators=2").out
    assert "context and communicators" in two
    assert ("gathered" in two) is stack.startswith("fsdp")


def test_nothing_is_sent(run: Any) -> None:
    ran = run("comm", "quickstart", *SET)
    assert "Nothing is sent: one rank in every group." in ran.out
    assert "busbw" not in ran.out
    assert json.loads(run("comm", "quickstart", *SET, "--json").out)["plans"][0]["dp_volume_bytes"] == 0


def test_one_stage_has_one_schedule(run: Any) -> None:
    """Others are shown where they are asked for."""
    assert [row["schedule"] for row in json.loads(run("pipeline", "quickstart", *SET, "--json").out)["schedules"]] == [
        "1f1b"
    ]
    asked = json.loads(run("pipeline", "quickstart", *SET, "--schedule", "1f1b,interleaved", "--json").out)
    assert [row["schedule"] for row in asked["schedules"]] == ["1f1b", "interleaved"]


def test_a_search_on_one_accelerator(run: Any) -> None:
    ran = run("search", "quickstart", *SET, "--top", "3")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("Llama 3.2 1B on 1 × h100-sxm, 1 × dgx-h100 (1 of 8 in use)\n")
    found = json.loads(run("search", "quickstart", *SET, "--json").out)
    assert {(plan["tp"], plan["pp"], plan["dp"]) for plan in found["plans"]} == {(1, 1, 1)}
    assert not [item for item in found["assumed"] if "overlap" in item["path"] or "network" in item["path"]]


@pytest.mark.parametrize("accelerators", [3, 4])
def test_a_search_on_a_part_of_each_node_keeps_inside_the_domain(accelerators: int, run: Any) -> None:
    """tp goes no further than the accelerators in use of a node."""
    settings = (f"cluster.node.accelerators={accelerators}", "workload.global_batch=288")
    options = tuple(part for item in settings for part in ("--set", item))
    found = json.loads(run("search", "quickstart", *options, "--top", "1000", "--json").out)
    assert found["plans"]
    assert max(plan["tp"] for plan in found["plans"]) <= accelerators


def test_programs_get_no_transfers_of_one_and_compare_them_with_those_of_several(run: Any, tmp_path: Path) -> None:
    """A stored result says that nothing is sent: what several send is then more, and what one sends the same."""
    stored = run("comm", "quickstart", *SET, "--json").out
    assert json.loads(stored)["transfers"] == []
    (tmp_path / "one.json").write_text(stored, "utf-8")
    assert json.loads(run("diff", "one.json", "quickstart", *SET, "--json", cwd=tmp_path).out)["same"] is True
    moved = json.loads(run("diff", "one.json", "quickstart", "--json", cwd=tmp_path).out)["figures"]
    sent = [row for row in moved if "tp all-gather" in row["name"]]
    assert sent
    assert all(row["before"] == 0 < row["after"] for row in sent)
