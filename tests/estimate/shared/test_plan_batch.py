"""A plan and the choices it makes: one written as the other, and read back."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from costmodel.documents.schemas.scenario import Plan
from costmodel.estimate.shared.plan_batch import Structure, plan_to_mapping
from costmodel.estimate.training_answer.predict_training import structure_of
from costmodel.explore.search.training_candidates import grids
from costmodel.ground.counts import SIZES
from estimate.cases import inputs, model

SPACE = {
    "tp": [2],
    "pp": [1, 4],
    "cp": [1, 2],
    "cp_type": ["p2p", "a2a"],
    "zero": [0, 3],
    "recompute": ["none", "selective", "full"],
    "recompute_modules": [[], ["norms"], ["norms", "mlp"]],
    "recompute_layers": [0, 2],
    "offload": [[], ["optimizer"], ["parameters", "activations"]],
    "schedule": ["1f1b", "interleaved", "dualpipe"],
    "sequence_parallel": [True, False],
    "order": ["tp-cp-dp-pp", "tp-dp-cp-pp"],
    "split": ["even", "lighter-last", "spread"],
    "first_stage_layers": [1, 2],
    "last_stage_layers": [3],
}


@pytest.mark.parametrize("space", [SPACE, {key: value for key, value in SPACE.items() if key != "split"}])
def test_a_structure_written_as_a_plan_is_that_structure_again(space: dict[str, list[object]]) -> None:
    asked = inputs(model(layers=16), search=space)
    structures = [structure for grid in grids(asked) for structure in grid.structures]
    structures += [replace(each, recompute_method="uniform") for each in structures if each.recompute_layers]
    structures += [replace(each, offload_to="nvme", offload_layers=3.0) for each in structures if each.offload]
    assert len(set(structures)) > 1000
    for structure in structures:
        again, assumed = structure_of(asked, Plan.model_validate(plan_to_mapping(structure)))
        assert (again, assumed) == (structure, ())


def test_what_follows_is_not_written() -> None:
    said = {"zero", "recompute", "schedule", "sequence_parallel", "order", "cp_type"}
    assert plan_to_mapping(Structure()).keys() == said
    assert plan_to_mapping(Structure(split="stated", last_stage_layers=3.0)).keys() == said | {"last_stage_layers"}


def test_a_plan_is_made_of_sizes_and_choices() -> None:
    apart = {"sites"}  # each is a plan
    assert Plan.model_fields.keys() == {*SIZES, *(choice.name for choice in fields(Structure)), *apart}
