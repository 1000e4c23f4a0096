"""Stacks that a scenario writes out by how they differ from another one: their names are labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.ground.errors import CostModelError

ROOT = Path(__file__).resolve().parents[3]
SERVICE, JOB = "serve-llama-3.1-70b", "quickstart"


@pytest.mark.parametrize(("like", "name"), [("vllm", "sglang"), ("sglang", "vllm-0.16"), ("vllm", "megatron-core")])
def test_the_name_of_another_stack_is_refused(like: str, name: str, run: Any, faults: Any) -> None:
    """Its figures would be those of its parent, under the name of another engine."""
    stack = f"{{like: {like}, name: {name}}}"
    (found,) = faults(run("estimate", SERVICE, "--set", f"stack={stack}"))
    assert (found.code, found.marked.strip(), found.help) == ("C033", stack, f"like: {name}, or a name of your own")
    assert (
        found.sentence == f"this stack has the name of {name} and takes nothing from it; its keys are those of {like}"
    )


def test_in_a_file_the_name_is_marked(run: Any, faults: Any, tmp_path: Path) -> None:
    text = (
        (ROOT / f"scenarios/{SERVICE}.yaml")
        .read_text("utf-8")
        .replace("stack: vllm ", "stack: {like: vllm, name: sglang} ")
    )
    (tmp_path / "mine.yaml").write_text(text, "utf-8")
    (found,) = faults(run("estimate", "mine.yaml", cwd=tmp_path))
    assert (found.code, found.marked.strip()) == ("C033", "sglang")


@pytest.mark.parametrize(
    ("scenario", "like", "name"),
    [(SERVICE, "vllm", "mine"), (SERVICE, "vllm", "vllm"), (JOB, "nemo", "megatron-core")],
)
def test_a_label_and_the_name_of_the_parent_are_no_fault(scenario: str, like: str, name: str) -> None:
    assert load_any(scenario, [f"stack={{like: {like}, name: {name}}}"]).stack.name == name


def test_a_document_that_is_like_another_may_be_changed_and_read_again(run: Any, tmp_path: Path) -> None:
    """A shipped stack with a parent has its own name where a result writes it out."""
    done = run("estimate", JOB, "--set", "stack=torchtune", "--set", "stack.title=mine", "--json")
    written = tmp_path / "result.json"
    written.write_text(done.out, "utf-8")
    stack = json.loads(done.out)["scenario"]["document"]["stack"]
    assert (stack["like"], stack["name"]) == ("fsdp2", "torchtune")
    assert load_any(str(written)).stack.name == "torchtune"


def test_a_stack_of_reinforcement_learning_and_those_within_it_differ_from_others() -> None:
    """TRL's trainer is another one without sequence parallelism; a scenario changes the engine of a stack alone."""
    engine = "{like: sglang, name: my-engine, prefix_cache: false}"
    stack = f"{{like: verl, name: mine, rollout: {engine}, trainer: megatron-core}}"
    mine: Any = load_any("grpo-qwen-2.5-7b-64", [f"stack={stack}"])
    own: Any = load_any("grpo-qwen-2.5-7b-64", ["stack=verl", "stack.rollout=sglang"])
    assert (mine.stack.name, mine.rollout.name, mine.rollout.prefix_cache) == ("mine", "my-engine", False)
    assert (mine.trainer.name, mine.stack.sync) == ("megatron-core", own.stack.sync)
    assert own.rollout.prefix_cache
    assert mine.rollout.kernels == own.rollout.kernels
    trl: Any = load_any("grpo-qwen-2.5-7b-64", ["stack=trl"])
    assert (trl.trainer.layouts.cp, trl.trainer.like) == (None, "transformers-deepspeed")
    with pytest.raises(CostModelError, match="this stack has the name of sglang"):
        load_any("grpo-qwen-2.5-7b-64", ["stack={like: verl, rollout: {like: vllm, name: sglang}}"])
