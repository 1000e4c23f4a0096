"""Work done once sees only the choices it names, and what agrees in them is done once."""

from __future__ import annotations

import dataclasses
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.machine.process_groups import groups
from costmodel.estimate.shared import plan_batch as blocks
from costmodel.estimate.shared.plan_batch import Structure, one_row
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.estimate.training_answer.predict_training import plan_block
from costmodel.ground.equation import trace
from estimate.cases import inputs, mixed, model

SIZES = {"dp": 4.0, "tp": 2.0, "pp": 2.0, "vpp": 1.0, "micro_batch": 1.0}
SHIPPED = ("deepseek-v3-2048", "llama-3-70b-512", "lora-llama-3-70b-8", "offload-llama-2-13b-8", "megatron-22b-8")
CHOICES: list[dict[str, Any]] = [
    {},
    {"zero": 3, "recompute": "full"},
    {"recompute": "full", "recompute_layers": 1.0},
    {"recompute": "selective", "recompute_modules": ("norms", "mlp")},
    {"schedule": "zb-h1", "split": "spread"},
    {"schedule": "dualpipe"},
    {"order": "tp-cp-pp-dp", "sequence_parallel": False},
    {"offload": ("optimizer", "activations"), "offload_layers": 1.0},
]


def _bare(structure: Any, choices: tuple[str, ...]) -> Any:
    """A structure without the choices that are not named: to read one of those is an error."""
    named = [(field.name, Any) for field in fields(Structure) if field.name in choices]
    seen = dataclasses.make_dataclass("Seen", named, frozen=True)
    return seen(**{name: getattr(structure, name) for name, _ in named})


@pytest.mark.parametrize("choices", CHOICES, ids=str)
@pytest.mark.parametrize("tuning", ["full", {"method": "qlora"}], ids=["full", "adapters"])
@pytest.mark.parametrize("shape", [model(), mixed()], ids=["dense", "experts"])
def test_it_reads_no_choice_that_it_does_not_name(
    choices: dict[str, Any], shape: dict[str, Any], tuning: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, block = inputs(shape, workload={"tuning": tuning}), one_row(Structure(**choices), **SIZES)
    expected = evaluate(asked, dataclasses.replace(block, known={})).costs.row()
    monkeypatch.setattr(blocks, "_structure_of_choices", _bare)
    assert evaluate(asked, block).costs.row() == pytest.approx(expected, rel=0, abs=0, nan_ok=True)


@pytest.mark.parametrize("name", SHIPPED)
def test_nor_does_a_shipped_plan(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = training_inputs(load(name))
    plan = asked.case.scenario.plan
    assert plan is not None
    monkeypatch.setattr(blocks, "_structure_of_choices", _bare)
    assert np.isfinite(evaluate(asked, plan_block(asked, plan)[0]).costs.row()["step_time"])


def test_what_agrees_is_done_once() -> None:
    asked, block = inputs(), one_row(Structure(), **SIZES)
    again = dataclasses.replace(block, structure=Structure(zero=3, recompute="full"))
    other = dataclasses.replace(block, structure=Structure(order="tp-cp-pp-dp"))
    assert groups(asked, block) is groups(asked, again)
    assert groups(asked, block) is not groups(asked, other)
    assert groups(asked, block) is not groups(inputs(), block)


def test_a_trace_has_all_of_it() -> None:
    asked, block = inputs(), one_row(Structure(), **SIZES)
    evaluate(asked, block)
    counts = []
    for _ in range(2):
        with trace() as recorder:
            evaluate(asked, block)
        counts.append(len(recorder.steps))
    assert counts[0] == counts[1] > 100
