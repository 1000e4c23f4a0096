"""What a row says of recompute and offload."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.evidence.validate.modelled_rows import modelled
from evidence.validate.runs_of_22b import SHELF

pytestmark = pytest.mark.usefixtures("in_its_folder")


def test_modules_and_offloaded_layers_are_the_row_s(row: Any) -> None:
    cells = {"year": "2025", "framework": "Megatron-Bridge", "recompute": "selective:layernorm+mlp"}
    found = modelled(row(**cells, features="cpu_activation_offload_layers=40"), SHELF)
    structure = found.evaluation.block.structure
    assert structure.recompute_modules == ("norms", "mlp")
    assert (structure.offload, structure.offload_layers) == (("activations",), 40)
    assert modelled(row(**{**cells, "recompute": "selective"}), SHELF).evaluation.block.structure.offload == ()


@pytest.mark.parametrize(
    ("policy", "modules"),
    [
        ("save_dot_with_context_except_mlp", ("norms", "mlp")),
        ("save_dot_except_mlp", ("attention", "norms", "mlp")),
        ("save_qkv_proj", ("attention", "attention-output", "norms", "mlp")),
    ],
)
def test_a_policy_names_what_is_computed_again(row: Any, policy: str, modules: tuple[str, ...]) -> None:
    cells = {"framework": "MaxText", "year": 2024, "zero_stage": 3, "recompute": "selective"}
    for notes, expected in ((f"remat {policy}; FSDP", modules), ("remat minimal", None)):
        structure = modelled(row(**cells, notes=notes), SHELF).evaluation.block.structure
        assert (
            structure.recompute_modules is None if expected is None else set(structure.recompute_modules) == {*expected}
        )
