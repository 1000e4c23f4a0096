"""Every key that --set takes, from the schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from each import each

from costmodel.commands import completion
from costmodel.documents.keys.key_list import all_keys, keys_of, values_of
from costmodel.documents.keys.paths import at
from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.training_answer.predict_training import predict

KEYS = {key.path: key for key in all_keys()}
TRAINING = [path for path, key in KEYS.items() if not key.of]


def test_every_leaf_of_a_shipped_scenario_is_a_key() -> None:
    case = load("deepseek-v3-2048", ["workload.optimizer.moments=8 B"])  # written out in place

    def leaves(tree: Any, path: str) -> list[str]:
        if isinstance(tree, dict):
            return [leaf for key, value in tree.items() for leaf in leaves(value, f"{path}.{key}" if path else key)]
        return [path]

    found = [leaf for leaf in leaves(case.tree, "") if leaf.split(".")[-1] not in ("schema", "source", "check", "note")]
    assert len(found) > 10
    assert [leaf for leaf in found if leaf not in KEYS and "sources" not in leaf] == []


@each("path", [path for path in TRAINING if path.startswith("plan.") and not path.startswith("plan.sites.")])
def test_a_default_is_what_a_plan_takes_without_the_key(path: str) -> None:
    value = at(load("quickstart", ["plan={}"]).scenario.plan, path.removeprefix("plan."))
    default = KEYS[path].default
    assert (float(default) if default.isdigit() else default) == (value or "")


@pytest.mark.parametrize("path", ["plan.zero", "plan.recompute", "workload.precision", "plan.order", "objective"])
def test_every_choice_is_accepted(path: str) -> None:
    for value in values_of(path):
        assert str(at(load("quickstart", [f"{path}={value}"]).scenario, path)) in (value, f"{value}.0")


@pytest.mark.parametrize(
    ("path", "name"), [("model", "llama-3-8b"), ("stack", "fsdp2"), ("cluster.accelerator", "a100-sxm-80")]
)
def test_a_reference_completes_the_names_of_documents(path: str, name: str) -> None:
    assert name in values_of(path)
    assert f"{path}={name}" in completion.assignments(f"{path}={name[:4]}")


def test_paths_are_completed_before_the_sign_and_values_behind_it() -> None:
    assert "plan.recompute" in completion.assignments("plan.rec")
    assert completion.assignments("plan.recompute=s") == ["plan.recompute=selective"]
    assert completion.assignments("nowhere=") == []


def test_examples_of_quantities_are_read() -> None:
    for path in ("cluster.accelerator.memory.bandwidth", "cluster.fabric.bandwidth", "assume.price", "workload.tokens"):
        for example in values_of(path):
            predict(load("quickstart", [f"{path}={example}"]))


def test_keys_are_listed_by_their_beginning(run: Any, faults: Any) -> None:
    shown = json.loads(run("list", "keys", "assume.", "--json").out)["keys"]
    assert [key["path"] for key in shown] == [path for path in KEYS if path.startswith("assume.")]
    assert all(key["meaning"] for key in shown)
    assert keys_of("cluster.node.accelerator.memory") == keys_of("cluster.accelerator.memory")
    (found,) = faults(run("list", "keys", "plan.tpp"))
    assert (found.code, found.help) == ("C003", "did you mean plan.tp?")
    (found,) = faults(run("list", "models", "plan"))
    assert (found.code, found.help) == ("C003", "costmodel list models, or costmodel list keys plan")


@pytest.mark.parametrize(
    ("path", "of", "value"),
    [
        ("workload.rate", "serving", "8 requests/s"),
        ("workload.turns", "serving", ""),
        ("plan.prefill.tp", "serving", ""),
        ("workload.algorithm", "rl", "grpo"),
        ("workload.kind", "", "serving"),
        ("workload.precision", "", "bf16"),
    ],
)
def test_keys_of_every_workload_are_listed_and_completed(path: str, of: str, value: str, run: Any) -> None:
    found = next((key for key in keys_of(path) if key.of == of), None)
    assert found is not None
    assert path in completion.assignments(path) or keys_of(f"{path}.")
    assert not value or value in values_of(path)
    words = {"serving": "of serving: ", "rl": "of reinforcement learning: "}.get(of, "")
    assert words in run("list", "keys", path).out
