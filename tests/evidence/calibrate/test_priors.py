"""Priors of constants: their scales, what is shipped, and those of your own that make no sense."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from estimate.cases import TRAINING_STACKS

from costmodel.documents.keys.schema_paths import key_of
from costmodel.documents.reader.find_documents import find
from costmodel.documents.reader.library import document_class, names, read
from costmodel.documents.schemas.prior import Prior
from costmodel.evidence.calibrate.regression_problem import STEPS, off_scale, on_scale, shipped
from evidence.calibrate.planted_runs import FOLDER, HIDDEN, PRIORS, SHELF, SUSTAINED


def test_scales_and_what_is_shipped() -> None:
    assert on_scale(HIDDEN, 0.5) == 0
    assert on_scale(SUSTAINED, math.e) == 1
    for prior in PRIORS:
        assert off_scale(prior, on_scale(prior, 0.7)) == pytest.approx(0.7)


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.name)
def test_the_documents_of_a_constant_ship_one_value_of_it(prior: Prior) -> None:
    assert key_of(document_class(prior.kind), prior.leaf)
    alone = [prior.model_copy(update={"documents": [name]}) for name in prior.documents]
    assert {shipped(one, SHELF) for one in alone} == {shipped(prior, SHELF)}
    assert prior.like in ("", *(other.name for other in PRIORS))


@pytest.mark.parametrize(
    ("leaf", "untuned"),
    [
        ("kernels.traffic_factor", 1.0),
        ("launch.operation", 0.0),
        ("overlap.dp", 0.0),
        ("overlap.tp", 0.0),
    ],
)
def test_a_stack_has_no_value_tuned_to_it_alone(leaf: str, untuned: float) -> None:
    """Each says nothing of a constant, or what all of its constant say."""
    held = {name for prior in PRIORS if prior.leaf == leaf for name in prior.documents}
    group, _, key = leaf.partition(".")
    for name in set(TRAINING_STACKS) - held:
        if read("stack", name).like is not None:
            continue  # it has the values of another, and changes with it
        assert getattr(getattr(read("stack", name), group), key, untuned) == untuned, name


def test_no_attention_kernel_is_fitted_to_training_runs() -> None:
    for name in names("efficiency"):
        for kernel in (read("efficiency", name).attention or {}).values():
            assert kernel.source != "training-runs-fit", name


@pytest.mark.parametrize(
    ("said", "instead", "code"),
    [
        ("leaf: overlap.dp", "leaf: overlap.db", "D010"),
        ("mean: 81 %", "mean: 100 %", "D006"),
        ("mean: 30 us", "mean: 0 us", "D006"),
        ("mean: 30 us", "mean: 35 ms of it", "D007"),
        ("[a100-sxm-80]", "[a100-sxm-81]", "D009"),
        ("[a100-sxm-80]", "[ib-hdr]", "D013"),
    ],
)
def test_priors_of_your_own_that_make_no_sense(
    run: Any, faults: Any, tmp_path: Path, said: str, instead: str, code: str
) -> None:
    own_priors = tmp_path / "hardware/priors/steps.yaml"
    own_priors.parent.mkdir(parents=True)
    text = find("prior", STEPS).read_text("utf-8")
    assert said in text
    own_priors.write_text(text.replace(said, instead, 1), "utf-8")
    (found,) = faults(run("calibrate", str(FOLDER / "mine.csv"), "--afresh", cwd=tmp_path))
    assert found.code == code


def test_at_most_fifteen() -> None:
    assert len(PRIORS) <= 15
    assert len({prior.name for prior in PRIORS}) == len(PRIORS)
