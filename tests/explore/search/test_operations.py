"""A plan of a large search takes so many array operations and no more; a time would say it less surely."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load, vary
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training_answer import evaluate_training
from costmodel.estimate.training_answer.evaluate_training import Evaluation, evaluate
from costmodel.explore.search import training_remedies, training_space
from costmodel.explore.search.search import search, with_remedies
from costmodel.ground.shared_columns import Factored

# Of scenarios/speed.yaml. Lower them where a change takes less; raise them only in a commit that gives the reason.
MOST_ELEMENTS = 222  # results that a plan computes, of which many are shared with others; of outranked ones memory,
# which at P10 is not less than weights and states
MOST_OPERATIONS = 10_000  # on columns, of plans that share figures; 1,400 of NCCL's protocols, 0.01 s of 0.32 s


def test_a_plan_takes_no_more_array_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    elements, shared, made = [], set(), Factored.__init__

    def counting(self: Factored, values: Any, level: int, plans: Any) -> None:
        made(self, values, level, plans)
        elements.append(np.size(values))
        shared.add(plans)

    monkeypatch.setattr(Factored, "__init__", counting)
    found = search(load("speed"), workers=1).tally
    per_plan, per_set = sum(elements) / found.evaluated, len(elements) / len(shared)
    assert 0.97 * MOST_ELEMENTS < per_plan <= MOST_ELEMENTS
    assert 0.97 * MOST_OPERATIONS < per_set <= MOST_OPERATIONS


MOST_EVALUATIONS = 124  # of blocks of plans, of searches that changes of a scenario ask for


def test_remedies_time_plans_of_those_searches_alone_in_which_one_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most changes make no plan fit, which the memory of the smallest micro-batch shows in a sixth of the time."""
    found = search(vary(load("llama-3-70b-512"), ["cluster.nodes=2"]), workers=1)
    blocks = list[int]()

    def counted(inputs: TrainingInputs, block: Block) -> Evaluation:
        blocks.append(len(block))
        return evaluate(inputs, block)

    monkeypatch.setattr(training_space, "evaluate", counted)
    assert with_remedies(found).remedies
    assert 0.8 * MOST_EVALUATIONS < len(blocks) <= MOST_EVALUATIONS


def test_remedies_look_at_the_states_alone_where_those_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 405B parameters on 8 accelerators: no layout holds the weights, so activations need not be counted."""
    found = search(vary(load("llama-3-70b-512"), ["cluster.nodes=1", "model=llama-3.1-405b"]), workers=1)
    blocks, whole, shares = list[int](), list[int](), evaluate_training.memory_shares
    fits = training_remedies.one_fits

    def counted(inputs: TrainingInputs, block: Block, counts: Any) -> bool:
        blocks.append(len(block))
        possible = fits(inputs, block, counts)
        assert possible == bool(np.any(counts & (shares(inputs, block) <= 1)))
        return possible

    monkeypatch.setattr(training_remedies, "one_fits", counted)
    monkeypatch.setattr(evaluate_training, "memory_shares", lambda *given: whole.append(1) or shares(*given))
    with_remedies(found)
    assert len(blocks) > 20
    assert len(whole) < 0.5 * len(blocks)
