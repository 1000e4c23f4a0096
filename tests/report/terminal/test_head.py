"""The head of every answer says what was computed: nothing of the scenario's title, nothing that varies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from costmodel.documents.reader.library import names
from costmodel.documents.reader.load_scenario import load, load_any
from costmodel.estimate.answer_facts import facts_of
from costmodel.report.terminal.head import case_title, fact_fields, head_lines, scenario_head

NAME, TITLE = "llama-3-70b-512", "Llama 3 70B on 512 H100"
CHANGED = ("cluster.nodes=32", "workload.sequence=16k", "workload.global_batch=256", "workload.optimizer=lion")
SET = tuple(part for item in CHANGED for part in ("--set", item))
FIRST = "Llama 3 70B on 256 × h100-sxm, 32 × dgx-h100"
SECOND = "batch 256 × 16,000 tokens · bf16 · lion · megatron-core"

ONE_CASE = {
    "estimate": (),
    "memory": (),
    "comm": (),
    "pipeline": (),
    "search": ("--top", "1"),
    "sweep": ("--over", "plan.micro_batch=1,2"),
    "sensitivity": ("--top", "1"),
    "solve": ("--over", "assume.network_share=0.5..1", "--for", "mfu>=1 %"),
    "diff": ("--set", "plan.micro_batch=2"),
    "check": (),
    "explain": ("step_time", "--depth", "1"),
}


def heads(lines: str) -> list[str]:
    return [line.strip(" +−") for line in lines.splitlines()]


@pytest.mark.parametrize("command", ONE_CASE)
def test_every_command_says_what_it_computed(command: str, run: Any) -> None:
    """The number of a sequence, so that 16k and 16Ki are told apart; never the title of what was changed."""
    name, more = (NAME, *ONE_CASE[command][:1]) if command == "explain" else (NAME,), ONE_CASE[command]
    more = more[1:] if command == "explain" else more
    ran = run(command, *name, *more, *SET)
    assert ran.code in (0, 1), ran.err
    found = heads(ran.out)
    assert FIRST in found
    assert found[found.index(FIRST) + 1].startswith(SECOND)
    assert TITLE not in ran.out


@pytest.mark.parametrize("command", ONE_CASE)
def test_programs_read_the_same_facts(command: str, run: Any) -> None:
    name, more = (NAME, *ONE_CASE[command][:1]) if command == "explain" else (NAME,), ONE_CASE[command]
    more = more[1:] if command == "explain" else more
    found = json.loads(run(command, *name, *more, *SET, "--json").out)
    facts = found["after" if command == "diff" else "scenarios"] if command in ("diff", "check") else found
    facts = (facts[0] if isinstance(facts, list) else facts)["facts"]
    wanted = fact_fields(facts_of(load(NAME, CHANGED)))
    assert facts == wanted
    assert (facts["gpus"], facts["sequence"], facts["global_batch"], facts["nodes"]) == (256, 16000, 256, 32)
    assert TITLE not in json.dumps(found)


def test_what_varies_is_null_in_the_facts(run: Any) -> None:
    asked = ("--over", "cluster.nodes=32,64", "--over", "workload.sequence=4096,8192", "--json")
    for command, more in (("sweep", asked), ("search", ("--top", "1", *asked))):
        facts = json.loads(run(command, NAME, *more).out)["facts"]
        nulls = {name for name, value in facts.items() if value is None}
        assert nulls == {"gpus", "nodes", "sequence", "tuning", "price_date", "price_others_usd_per_gpu_h"}
    facts = json.loads(run("sweep", NAME, "--over", "cluster.node=dgx-h100,p5", "--json").out)["facts"]
    assert {facts[name] for name in ("accelerator", "cluster", "gpus", "accelerators", "price_usd_per_gpu_h")} == {None}


def test_what_varies_is_not_claimed(run: Any) -> None:
    """Its column says it, row by row."""
    swept = run("sweep", NAME, "--over", "cluster.node=dgx-h100,p5", "--over", "workload.sequence=4096,8192").out
    assert heads(swept)[:2] == ["Llama 3 70B on 64 nodes", "batch 1,024 × … tokens · bf16 · adamw · megatron-core"]
    scaled = run("scale", NAME, "--ranks", "256,512", "--weak").out
    first, second, *_ = heads(scaled)
    assert first == "Llama 3 70B on h100-sxm, dgx-h100"
    assert second == "batch … × 8,192 tokens · bf16 · adamw · megatron-core"
    models = run("sweep", NAME, "--over", "model=llama-3-70b,llama-3-8b", "--over", "workload.precision=bf16,fp8").out
    assert heads(models)[:2] == ["512 × h100-sxm, 64 × dgx-h100", "batch 1,024 × 8,192 tokens · adamw · megatron-core"]
    solved = run("solve", NAME, "--over", "cluster.nodes=32,64", "--for", "mfu>=1 %").out
    assert heads(solved)[0] == "Llama 3 70B on h100-sxm, dgx-h100"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model.layers.0.count=64", "Llama 3 70B (changed) on 512"),
        ("cluster.fabric.bandwidth=200 Gb/s", "64 × dgx-h100 (changed)"),
        ("cluster.accelerator.memory.bandwidth=4 TB/s", "512 × h100-sxm (changed), 64 × dgx-h100"),
        ("stack.buckets.size=16 MB", "megatron-core (changed)"),
        ("workload.optimizer.moments=4 B", "adamw (changed)"),
        ("cluster.node.accelerators=4", "256 × h100-sxm, 64 × dgx-h100 (4 of 8 in use)"),
        ("cluster.node.accelerators=16", "1,024 × h100-sxm, 64 × dgx-h100 (16 in each)"),
        ("cluster.node.accelerator=h200-sxm", "512 × h200-sxm, 64 × dgx-h100"),
        ("workload.tuning={method: lora, rank: 8}", "adamw · lora of rank 8 · megatron-core"),
        ("model.title=Mine", "Mine on 512"),
    ],
)
def test_a_changed_document_is_called_so(setting: str, said: str) -> None:
    assert said in "\n".join(line.plain for line in scenario_head(load(NAME, (setting,))))


def test_a_changed_document_stays_so_in_a_stored_result(run: Any, tmp_path: Path) -> None:
    changed = ("--set", "stack.buckets.size=16 MB", "--set", "cluster.node.accelerators=4")
    (tmp_path / "r.json").write_text(run("estimate", NAME, *changed, "--json").out, "utf-8")
    assert run("estimate", "r.json", cwd=tmp_path).answer == run("estimate", NAME, *changed).answer


def test_the_title_stands_where_nothing_was_set() -> None:
    assert case_title(load(NAME)) == TITLE
    assert case_title(load(NAME, ("cluster.nodes=32",))) == "Llama 3 70B on 256 × h100-sxm, 32 × dgx-h100"
    assert case_title(load(NAME, ("title=Mine", "cluster.nodes=32"))) == "Mine"


@pytest.mark.parametrize("name", [name for name in names("scenario") if load_any(name).kind == "training"])
def test_a_head_is_two_lines_of_80_columns(name: str) -> None:
    lines = head_lines(facts_of(load(name)))
    assert len(lines) == 2
    assert max(cell_len(line.plain) for line in lines) <= 80
