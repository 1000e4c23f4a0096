"""A vision tower on the first stage: work counted by hand, what a frozen one leaves out, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel.documents.reader.library import read
from costmodel.estimate.model.shards import tower_parameters
from costmodel.estimate.training.flop_count import flop_of_step
from costmodel.estimate.training_answer.predict_training import Answer
from costmodel.ground.errors import CostModelError
from estimate.cases import ask, inputs, one

MODEL, IMAGES, TOKENS, BATCH = "qwen-3-vl-32b", 2, 1024, 64
PATCHES = 4 * TOKENS
SEEN = {"images": {"count": IMAGES, "tokens": TOKENS}}
FROZEN = {"images": {"count": IMAGES, "tokens": TOKENS, "tower": "frozen"}}


def asked(workload: dict[str, Any] | None = None, **plan: Any) -> Answer:
    """A plan on 64 accelerators."""
    assume = {"flop_convention": "model-full"}
    found = inputs(MODEL, nodes=8, global_batch=BATCH, workload=workload or {}, assume=assume)
    given = ask(found, **{"tp": 8, "micro_batch": 1, **plan})
    assert given.refused == ()
    return given


def work(given: Answer) -> Any:
    """FLOP of a step: counted and executed."""
    found = flop_of_step(given.inputs, given.evaluation.block)
    return np.array([one(found.model), one(found.executed)])


# Forward FLOP of an image by hand: of the tower, and of the projectors.
TOWER = 2 * PATCHES * (27 * (4 * 1152**2 + 2 * 1152 * 4304) + 1536 * 1152) + 27 * 4 * PATCHES**2 * 1152
PROJECTORS = 4 * 2 * TOKENS * (4608**2 + 4608 * 5120)


def test_a_trained_tower_adds_three_times_its_forward_work_and_a_frozen_one_its_forward_work() -> None:
    alone, images = work(asked()), BATCH * IMAGES
    assert work(asked(SEEN)) - alone == pytest.approx(images * 3 * (TOWER + PROJECTORS), rel=1e-6)
    assert work(asked(FROZEN)) - alone == pytest.approx(images * (TOWER + 3 * PROJECTORS), rel=1e-6)


def test_full_recompute_runs_a_trained_tower_again_and_a_frozen_one_once() -> None:
    for workload, again in ((SEEN, TOWER), (FROZEN, 0.0)):
        full, none = work(asked(workload, recompute="full")), work(asked({}, recompute="full"))
        counted, executed = full - none
        assert executed - counted == pytest.approx(BATCH * IMAGES * again, rel=1e-6, abs=1e9)


def test_only_the_first_stage_holds_and_sees() -> None:
    alone, seen = asked(pp=2), asked(SEEN, pp=2)
    for name in ("weights", "optimizer"):
        assert one(seen.evaluation.ledger.line(name, 0)) == one(alone.evaluation.ledger.line(name, 0))
    first, last = (
        one(seen.evaluation.ledger.line("activations", stage)) - one(alone.evaluation.ledger.line("activations", stage))
        for stage in (0, 2)
    )
    assert first > 0
    assert last == 0


def test_a_frozen_tower_has_weights_of_16_bits_alone() -> None:
    """Megatron keeps a weight and an fp32 gradient, and of dp 8 an eighth of twelve bytes of states."""
    trained, frozen = asked(SEEN), asked(FROZEN)
    held = float(tower_parameters(read("model", MODEL), 8.0))
    spared = {
        name: one(trained.evaluation.ledger.line(name, 0)) - one(frozen.evaluation.ledger.line(name, 0))
        for name in ("weights", "gradients", "optimizer")
    }
    assert spared == {"weights": 0.0, "gradients": 4 * held, "optimizer": 12 * held / 8}


def test_time_grows_with_images_and_a_frozen_tower_takes_less() -> None:
    alone, frozen, trained = (
        given.evaluation.costs.row()["step_time"] for given in (asked(), asked(FROZEN), asked(SEEN))
    )
    assert alone < frozen < trained
    more = {"images": {"count": 4, "tokens": TOKENS}}
    assert asked(more).evaluation.costs.row()["step_time"] > trained


@pytest.mark.parametrize(
    ("model", "images", "words"),
    [
        ("llama-3-8b", SEEN, "llama-3-8b has no vision tower"),
        (MODEL, {"images": {"count": 5, "tokens": TOKENS}}, "5 images of 1024 tokens do not fit into 4096"),
    ],
)
def test_images_that_nothing_sees_or_that_do_not_fit_are_refused(model: str, images: Any, words: str) -> None:
    with pytest.raises(CostModelError, match=words) as raised:
        inputs(model, workload=images)
    assert raised.value.faults[0].code == "D016"


def test_a_tower_without_images_is_reported() -> None:
    assert any(item.path == "workload.images" for item in inputs(MODEL).assumed)
    assert not any(item.path == "workload.images" for item in inputs(MODEL, workload=SEEN).assumed)
