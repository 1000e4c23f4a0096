"""Blocks of a search: what plans share is held once, and every plan costs what it costs alone, bit for bit."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.shared.plan_batch import Block, one_row
from costmodel.estimate.training.plan_constraints import Mask
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.explore.search import training_candidates as plan_batches
from costmodel.explore.search.search import search
from costmodel.explore.search.training_candidates import grids, stem
from costmodel.ground.counts import SIZES
from costmodel.ground.shared_columns import Factored

DENSE = [
    "search.tp=[1,2,4,8]",
    "search.zero=[0,1,2,3]",
    "search.schedule=[gpipe,1f1b,interleaved,zb-h1]",
    "search.sequence_parallel=[true,false]",
    "search.order=[tp-cp-dp-pp,tp-cp-pp-dp]",
]
EXPERTS = [
    "stack=megatron-core",
    "workload.global_batch=61440",
    "search.tp=[1,2,4]",
    "search.cp=[1,2]",
    "search.cp_type=[p2p,a2a]",
    "search.pp=[1,4,16]",
    "search.ep=[1,8,64]",
    "search.etp=[1,2]",
    "search.split=[spread]",
    "search.schedule=[1f1b,interleaved]",
    "search.sequence_parallel=[true]",
    "search.recompute_modules=null",
    "search.first_stage_layers=null",
    "search.last_stage_layers=null",
    "search.zero=[1,3]",
    "search.recompute=[none,full]",
    "search.order=[tp-cp-dp-pp,tp-cp-pp-dp]",
]
SEARCHES = {"gpt-3-175b-1024": DENSE, "llama-3-70b-512": DENSE, "deepseek-v3-2048": EXPERTS}
every_search = pytest.mark.parametrize("name", SEARCHES)


@pytest.fixture(autouse=True)
def _always_factored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_batches, "WORTH_FACTORING", 1)


def case(name: str) -> Any:
    return load(name, [*SEARCHES[name], "workload.tokens=1 T", "assume.price=2 USD/GPU/h"])


def found(asked: TrainingInputs) -> Iterator[tuple[Block, Mask]]:
    for grid in grids(asked):
        yield from plan_batches.valid_blocks(asked, grid, stem(asked, grid, Counter()), Counter())


@every_search
def test_a_plan_costs_what_it_costs_alone(name: str) -> None:
    asked = training_inputs(case(name))
    compared = 0
    for block, _ in itertools.islice(found(asked), 0, None, 3):
        assert isinstance(block.tp, Factored)
        costs = evaluate(asked, block).costs
        for place in range(0, len(block), 1 + len(block) // 12):
            alone = one_row(block.structure, **{name: float(getattr(block, name)[place]) for name in SIZES})
            row = evaluate(asked, alone).costs.row()
            assert {key: costs.column(key)[place] for key in row} == pytest.approx(row, rel=0, abs=0, nan_ok=True)
            compared += 1
    assert compared > 50


@every_search
def test_every_plan_is_there_once(name: str) -> None:
    asked = training_inputs(case(name))
    seen = Counter(
        (block.structure, *sizes)
        for block, counts in found(asked)
        for sizes in zip(*(np.asarray(getattr(block, size))[counts] for size in SIZES), strict=True)
    )
    assert set(seen.values()) == {1}
    assert seen.total() == search(case(name), workers=1).tally.evaluated


@every_search
def test_figures_are_held_once(name: str) -> None:
    """Degrees that cut a layer have few values, and a micro-batch comes with each of them."""
    block = max((block for block, _ in found(training_inputs(case(name)))), key=len)
    held = {size: len(getattr(block, size).values) for size in SIZES}
    assert held["tp"] < held["dp"] <= held["vpp"] < len(block)
    assert held["tp"] < held["micro_batch"] < len(block)


@every_search
def test_structures_that_allow_the_same_plans_share_them(name: str) -> None:
    asked = training_inputs(case(name))
    shared: dict[int, list[Block]] = {}
    for block, _ in found(asked):
        shared.setdefault(id(block.known), []).append(block)
    of_sizes = Counter(len(blocks) for blocks in shared.values())
    for blocks in shared.values():
        assert len({block.structure for block in blocks}) == len(blocks), "one structure would be evaluated twice"
        for block in blocks[1:]:
            assert all(np.array_equal(getattr(block, size), getattr(blocks[0], size)) for size in SIZES)
    assert sum(count * blocks for blocks, count in of_sizes.items()) > 3 * len(shared), of_sizes


@every_search
def test_structures_of_a_grid_agree_in_what_micro_batches_are_asked_for(name: str) -> None:
    for grid in grids(training_inputs(case(name))):
        for check in plan_batches.LATE:
            assert len({tuple(getattr(each, choice) for choice in check.choices) for each in grid.structures}) == 1


@every_search
def test_it_makes_no_difference_to_the_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    factored = search(case(name), 20, workers=1)
    monkeypatch.setattr(plan_batches, "WORTH_FACTORING", 1 << 30)
    plain = search(case(name), 20, workers=1)
    assert factored.best == plain.best
    assert factored.tally == plain.tally
