"""Plans under the later schedules: valid where they can run, memory by their live micro-batches, limits, the clock."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from costmodel.documents.reader.library import read
from costmodel.documents.schemas.scenario import Plan
from costmodel.estimate.training.parallelism.pipeline import BOTH_WAYS, FOLDED, PLAIN
from costmodel.explore.explain.pipeline_schedules import events, pipeline_of
from costmodel.ground.counts import Schedule
from estimate.cases import TRAINING_STACKS, ask, costs, inputs, model, one, written_out

LATER: list[Any] = [name for name in get_args(Schedule) if name not in PLAIN]
SHAPE = model(layers=16, vocab=8192)


def stack(**changes: Any) -> dict[str, Any]:
    return written_out("stack", "megatron-core", schedules=[*get_args(Schedule)], **changes)


def plan(schedule: str, **more: Any) -> dict[str, Any]:
    vpp = 2 if schedule in FOLDED or schedule == "looped-bfs" else 1
    return {"tp": 2, "pp": 4, "vpp": vpp, "schedule": schedule, **more}


@pytest.mark.parametrize("schedule", LATER)
def test_the_clock_ends_when_the_estimate_says(schedule: str) -> None:
    asked = inputs(SHAPE, stack=stack(), global_batch=16)
    ran = events(pipeline_of(asked, Plan(**plan(schedule))))
    total = max(event.end for rank in ran for event in rank)
    terms = ask(asked, **plan(schedule)).evaluation.step.terms
    ours = sum(one(terms[name]) for name in ("matmul", "attention", "memory_bound", "launch", "tp", "bubble"))
    assert ours == pytest.approx(total, rel=0.12)


@pytest.mark.parametrize("schedule", LATER)
def test_too_few_micro_batches_or_other_chunks_are_refused(schedule: str) -> None:
    asked = inputs(SHAPE, stack=stack(), global_batch=3)
    assert "L006" in ask(asked, **plan(schedule)).refused
    assert ask(asked, **plan(schedule, pp=1, tp=8)).refused[-1] == "L009"
    chunks = {**plan(schedule), "vpp": 3 - plan(schedule)["vpp"]}
    assert "L009" in ask(inputs(SHAPE, stack=stack(), global_batch=16), **chunks).refused


def test_weights_are_held_twice_both_ways() -> None:
    asked = inputs(SHAPE, stack=stack(), global_batch=16)
    for schedule in BOTH_WAYS:
        twice, once = (ask(asked, **plan(name)).evaluation.ledger for name in (schedule, "1f1b"))
        for line, copies in (("weights", 2), ("gradients", 2), ("optimizer", 1)):
            assert one(twice.line(line, 1)) == pytest.approx(copies * one(once.line(line, 1)))
        both = one(once.line("weights", 0)) + one(once.line("weights", 2))
        assert one(twice.line("weights", 0)) == pytest.approx(both)


def test_the_first_rank_of_a_v_holds_both_ends() -> None:
    asked = inputs(SHAPE, stack=stack(), global_batch=16)
    ledger = ask(asked, **plan("zb-v")).evaluation.ledger
    assert one(ledger.line("logits", 0)) > 0
    assert one(ledger.line("logits", 2)) == 0
    assert one(ledger.line("weights", 0)) > one(ledger.line("weights", 2)) == one(ledger.line("weights", 1))


def test_less_memory_for_more_time() -> None:
    asked = inputs(SHAPE, stack=stack(), global_batch=32)
    kept = {name: costs(asked, **plan(name)) for name in ("v-min", "v-half", "1f1b", "zb-h1", "zb-h2")}
    memory = [row["memory_peak"] for row in kept.values()]
    assert memory == sorted(memory)
    assert kept["v-min"]["step_time"] > kept["v-half"]["step_time"] > kept["zb-h1"]["step_time"]
    assert kept["1f1b"]["step_time"] > kept["zb-h1"]["step_time"] > kept["zb-h2"]["step_time"]


def test_a_synchronous_optimizer_costs_a_folded_pipeline_its_zero() -> None:
    wide = model(layers=16, hidden=8192, heads=64, vocab=8192)
    steps = [
        costs(inputs(wide, stack=stack(post_validation=late), global_batch=64), **plan("zb-v", tp=1))["step_time"]
        for late in (True, False)
    ]
    assert steps[0] < steps[1]


@pytest.mark.parametrize("schedule", LATER)
def test_some_stack_offers_it(schedule: str) -> None:
    assert any(schedule in read("stack", name).schedules for name in TRAINING_STACKS)


FEWEST = {"zb-h1": 4, "zb-h2": 7, "zb-v": 7, "v-half": 8, "v-min": 8, "dualpipev": 8, "dualpipe": 8, "chimera": 4}


@pytest.mark.parametrize("schedule", FEWEST)
def test_the_fewest_micro_batches_of_four_stages(schedule: str) -> None:
    def refused(batches: int) -> bool:
        asked = inputs(SHAPE, stack=stack(), global_batch=batches)
        return "L006" in ask(asked, **plan(schedule)).refused

    assert [refused(batches) for batches in (FEWEST[schedule] - 1, FEWEST[schedule])] == [True, False]
