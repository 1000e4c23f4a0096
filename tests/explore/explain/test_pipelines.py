"""Schedules side by side: each is the plan asked alone, and the stages' times are those of the estimate."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.training_answer.predict_training import predict
from costmodel.explore.explain.pipeline_schedules import (
    SCHEDULES,
    PipelineComparison,
    compare_schedules,
    events,
    schedules_named,
)
from costmodel.ground.errors import CostModelError

NAME = "llama-3-70b-512"


def asked(*assignments: str, **options: Any) -> PipelineComparison:
    return compare_schedules(load(NAME, assignments), **options)


def test_the_schedules_of_the_stack() -> None:
    found = asked()
    assert {offer.schedule for offer in found.offers} == set(found.own.inputs.stack.schedules)
    assert [offer.vpp for offer in found.offers if offer.schedule == "interleaved"] == [2, 4, 5]
    assert [offer.schedule for offer in found.offers if offer.own] == ["1f1b"]
    assert found.fastest is not None
    assert (found.fastest.schedule, found.fastest.vpp) == ("interleaved", 5)


def test_every_offer_is_the_plan_asked_alone() -> None:
    for offer in asked().offers:
        alone = predict(load(NAME, (f"plan.schedule={offer.schedule}", f"plan.vpp={offer.vpp}")))
        own = alone.evaluation.costs.row()
        assert offer.answer.evaluation.costs.row() == pytest.approx(own, rel=0, abs=0, nan_ok=True)


def test_interleaved_has_the_chunks_of_the_plan() -> None:
    found = asked("plan.vpp=4")
    assert [(offer.vpp, offer.own) for offer in found.offers if offer.schedule == "interleaved"] == [(4, True)]


def test_a_schedule_that_cannot_be_says_why() -> None:
    (offer,) = asked("plan.pp=1", schedules=schedules_named("interleaved")).offers
    assert offer.refused == ("L009",)
    full = next(offer for offer in asked().offers if offer.schedule == "gpipe")
    assert full.refused == ("M001",)


def test_one_stage_holds_one_micro_batch() -> None:
    found = asked("plan.pp=1")
    assert {offer.in_flight for offer in found.offers if not offer.refused} == {1.0}


@pytest.mark.parametrize("assignments", [(), ("plan.schedule=gpipe",), ("plan.pp=2",), ("plan.pp=8", "plan.tp=4")])
def test_the_clock_shows_the_bubble_of_the_estimate(assignments: tuple[str, ...]) -> None:
    found = asked(*assignments)
    assert found.clock is not None
    printed = events(found.clock)
    busy = max(sum(event.end - event.start for event in rank) for rank in printed)
    bubble = max(rank[-1].end for rank in printed) - busy
    assert bubble == pytest.approx(found.own.evaluation.costs.row()["bubble"], rel=1e-6)


def test_a_plan_that_is_invalid_has_no_pipeline() -> None:
    found = asked("plan.tp=3")
    assert (found.offers, found.clock, found.fastest) == ([], None, None)


def test_names() -> None:
    for words in itertools.permutations(SCHEDULES, 3):
        assert schedules_named(",".join(words)) == list(words)
    assert schedules_named(" 1F1B ,, 1f1b") == ["1f1b"]
    with pytest.raises(CostModelError) as caught:
        schedules_named("1f1b,zigzag")
    assert caught.value.faults[0].code == "D010"
