"""Exports read back: the plan that a file was made from, or a key that its format cannot say.

The suite takes the best plans of each search; `pytest tests/exchange/training -k comes_back --fuzz 100000` takes all.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from estimate.cases import case, mixed, model

from costmodel.documents.reader.library import DocumentReader, read
from costmodel.documents.reader.load_scenario import any_from, load_any
from costmodel.documents.reader.resolved_scenario import ResolvedScenario, training
from costmodel.documents.schemas.scenario import Plan
from costmodel.documents.text.yaml_tree import copied
from costmodel.estimate.training_answer.predict_training import answer, predict
from costmodel.exchange.megatron.scenario import read_options
from costmodel.exchange.training.formats import TARGETS, Exported, exported_training
from costmodel.exchange.training.job import Job
from costmodel.exchange.write_yaml import model_shape
from costmodel.explore.compare.select_plan import plan_of_row
from costmodel.explore.import_export.export_plan import training_job_of
from costmodel.explore.search.search import search

EVERY = {
    "tp": [1, 2, 4], "pp": [1, 2, 4], "vpp": [1, 2], "cp": [1, 2], "zero": [0, 1, 2, 3],
    "recompute": ["none", "selective", "full"], "sequence_parallel": [True, False],
}  # fmt: skip
SEARCHES: dict[str, dict[str, Any]] = {
    "dense": {"shape": model(gated=True), "nodes": 4, "search": EVERY},
    "uneven": {"shape": model(layers=14), "nodes": 2, "search": {"pp": [2, 4, 8], "split": ["lighter-ends", "even"]}},
    "experts": {"shape": mixed(count=8), "nodes": 2, "search": {"ep": [1, 2, 4, 8], "etp": [1, 2], "zero": [1]}},
    "sharded": {"shape": model(gated=True), "nodes": 2, "stack": "fsdp2", "search": EVERY | {"dp_replicate": [1, 2]}},
    "host": {"shape": model(), "stack": "deepspeed", "search": {"zero": [1, 2, 3], "offload": [[], ["optimizer"]]}},
    "staged": {"shape": model(), "nodes": 2, "stack": "deepspeed", "search": EVERY | {"vpp": [1]}},
}
STACKS = {
    "megatron": ("dense", "uneven", "experts"), "bridge": ("dense", "experts"), "torchtitan": ("sharded",),
    "accelerate": ("sharded",), "hf": ("sharded",), "deepspeed": ("host", "staged"),
}  # fmt: skip


@functools.cache
def jobs(name: str, most: int = 48) -> list[Job]:
    """A job for each of the best plans of a search."""
    asked = case(**SEARCHES[name])
    found = search(asked, most, workers=1)
    return [training_job_of(answer(found.inputs_of(row.variant), plan_of_row(row))) for row in found.best]


def document(found: Exported, job: Job) -> dict[str, Any]:
    """The scenario that a Megatron-LM script says, on the job's machine."""
    read_again = read_options(found.text, "train.sh")
    assert not read_again.missing
    cluster = {"node": "dgx-h100", "nodes": job.nodes}
    return {"schema": "costmodel/scenario/v1", "title": "back", "cluster": cluster, **copied(read_again.document)}


@pytest.mark.parametrize(("target", "name"), [(target, name) for target, names in STACKS.items() for name in names])
def test_every_plan_of_a_search_comes_back_or_its_key_is_named(
    target: str, name: str, request: pytest.FixtureRequest
) -> None:
    refused: Counter[str] = Counter()
    plans = jobs(name, request.config.getoption("--fuzz") or 48)
    for job in plans:
        found = exported_training(TARGETS[target], job)
        for fault in found.faults:
            assert fault.code == "X009"
            assert fault.place is not None
            assert "comes back" not in fault.sentence, fault.sentence  # read back, and not what a table names
            assert "break a rule" not in fault.sentence, fault.sentence
            refused[fault.place.path] += 1
    assert len(plans) > 20
    assert request.config.getoption("--fuzz") or sum(refused.values()) < len(plans), refused


@pytest.mark.parametrize("name", ["dense", "uneven", "experts"])
def test_a_script_that_is_imported_costs_what_the_plan_costs(name: str) -> None:
    """Not the keys are compared here but what the equations make of them."""
    for job in jobs(name)[::17]:
        found = exported_training(TARGETS["megatron"], job)
        if found.faults or any("assume.overlap" in note for note in found.notes):
            continue  # with tensor parallelism that nothing hides, as the note says
        back = training(any_from(DocumentReader(), document(found, job), "back", ()))
        ours = predict_job(name, job)
        for column in ("step_time", "memory_peak"):
            assert predict(back).evaluation.costs.row()[column] == pytest.approx(ours[column], rel=1e-9), found.text


def predict_job(name: str, job: Job) -> dict[str, float]:
    asked: ResolvedScenario = case(**{**SEARCHES[name], "plan": job.plan.model_dump(exclude_none=True)})
    return predict(asked).evaluation.costs.row()


@pytest.mark.parametrize("shape", ["llama-3-70b", "mixtral-8x7b", "deepseek-v3", "gpt-3-175b", "gpt-oss-120b"])
def test_models_of_the_library_come_back_from_options_of_megatron(shape: str) -> None:
    layers = sum(kind.count for kind in read("model", shape).layers)
    asked = case(shape, nodes=8 * round(layers), sequence=2048, plan={"zero": 1}, global_batch=64 * round(layers))
    job = training_job_of(answer(predict(asked).inputs, Plan(zero=1, recompute="none")))
    found = exported_training(TARGETS["megatron"], job)
    assert not [fault.sentence for fault in found.faults]
    corrected = "--moe-router-enable-expert-bias" in found.text  # Megatron-LM has it beside sigmoid scores alone
    assert corrected == ("--moe-router-score-function sigmoid" in found.text) == (shape == "deepseek-v3")
    assert any("router's bias" in note for note in found.notes) == (shape == "gpt-oss-120b")
    own = " ".join(note for note in found.notes if "of the model" in note)
    assert ("--rotary-base" in own, "--norm-epsilon" in own) == (shape != "gpt-3-175b", True)
    assert not {"--rotary-base", "--norm-epsilon"} & {*found.text.split()}


@pytest.mark.parametrize(("shape", "flavor"), [("llama-3-70b", "70B"), ("llama-3.1-70b", "70B"), ("gpt-3-175b", "")])
def test_a_flavor_of_torchtitan_is_a_shape_whatever_its_longest_sequence(shape: str, flavor: str) -> None:
    asked = case(shape, nodes=64, sequence=2048, plan={"zero": 3}, global_batch=512, stack="fsdp2")
    job = training_job_of(answer(predict(asked).inputs, Plan(zero=3, recompute="full", micro_batch=1)))
    found = exported_training(TARGETS["torchtitan"], job)
    assert (f'model_registry("{flavor}")' in found.text) == bool(flavor)
    assert any("no flavor of torchtitan" in note for note in found.notes) != bool(flavor)


def test_a_shipped_scenario_is_exported() -> None:
    found = training(load_any("llama-3-70b-512", ()))
    text = exported_training(TARGETS["megatron"], training_job_of(predict(found))).text
    assert "--nproc-per-node 8 --nnodes 64" in text
    assert "--tensor-model-parallel-size 8" in text


OF_SEARCH = ("--gpu", "h100", "--gpus", "32", "--sequence", "4096", "--batch", "4Mi-tokens", "--rank", "1")


OF_TORCHTITAN = (
    *("llama-3.2-1b", "llama-3.1-8b", "llama-3-70b", "llama-3.1-405b", "qwen-3-0.6b", "qwen-3-8b", "qwen-3-32b"),
    *("qwen-3-30b-a3b", "qwen-3-235b-a22b", "deepseek-v2-lite", "gpt-oss-20b", "gpt-oss-120b"),
    *("mixtral-8x7b", "mistral-7b", "gemma-2-27b", "qwen-2.5-72b"),  # by the backend of transformers
)


@pytest.mark.parametrize("name", OF_TORCHTITAN)
def test_a_recipe_of_torchtitan_comes_back_with_its_model(name: str, run: Any, tmp_path: Path) -> None:
    wide = ("--gpus", "512") if name in ("llama-3.1-405b", "qwen-3-235b-a22b") else ()
    asked = ("--model", name, "--stack", "fsdp2", *OF_SEARCH, *wide)
    done = run("export", *asked, "--to", "torchtitan", "-o", "recipe.py", cwd=tmp_path)
    assert done.code == 0, done.out
    [again] = [line.split() for line in done.out.splitlines() if line.startswith("Next: costmodel import")]
    assert not any(word.startswith("model=") for word in again)
    back = run(*again[2:], "--json", cwd=tmp_path)
    assert back.code == 0, back.err
    found = json.loads(back.out)["document"]
    assert model_shape(read("model", found["model"])) == model_shape(read("model", name))
    assert (found["workload"]["sequence"], found["workload"]["global_batch"]) == (4096, 1024)


@pytest.mark.parametrize("stack", ["deepspeed", "transformers-deepspeed"])
@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen-3-32b", "llama-3.1-70b", "gpt-oss-20b"])
def test_the_best_plan_of_a_search_over_deepspeed_is_written_and_comes_back(
    name: str, stack: str, run: Any, tmp_path: Path
) -> None:
    asked = ("--model", name, "--stack", stack, *OF_SEARCH)
    done = run("export", *asked, "--to", "deepspeed", "-o", "ds.json", cwd=tmp_path)
    assert done.code == 0, done.out
    [again] = [line.split() for line in done.out.splitlines() if line.startswith("Next: costmodel import")]
    back = run(*again[2:], "-o", "back.yaml", cwd=tmp_path)
    assert back.code == 0, back.err
    [expected] = re.findall(r"32 accelerators; (.+?) a step expected", done.out)
    estimated = run("estimate", "back.yaml", cwd=tmp_path)
    assert re.search(rf"step time +{re.escape(expected)}(?: |$)", estimated.out, re.MULTILINE), estimated.out
