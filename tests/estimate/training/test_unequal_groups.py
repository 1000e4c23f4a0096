"""Nodes of several kinds: alike groups are the plain case, and the last replica ends as early as it can."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from costmodel.documents.schemas.scenario import Plan
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.pipeline import stage_layers
from costmodel.estimate.training.stage_parameters import stage_parameters
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training.training_step import training_step
from costmodel.estimate.training.unequal_nodes import micro_batches_of_groups
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.estimate.training_answer.predict_training import plan_block
from costmodel.ground.counts import SIZES
from estimate.cases import ask, costs, inputs, model, one, written_out

NAME = "mixed-llama-3-8b-96"


def grouped(*groups: tuple[Any, int], **more: Any) -> TrainingInputs:
    cluster = {"groups": [{"node": node, "nodes": nodes} for node, nodes in groups], **more.pop("cluster", {})}
    return inputs(more.pop("shape", model(hidden=2048)), cluster=cluster, **more)


def test_groups_of_one_kind_are_the_plain_case_bit_for_bit() -> None:
    more: dict[str, Any] = {"assume": {"price": "2 USD/GPU/h"}, "workload": {"tokens": "1 T"}}
    same, plain = grouped(("dgx-h100", 1), ("dgx-h100", 3), **more), inputs(model(hidden=2048), nodes=4, **more)
    for plan in ({}, {"tp": 8}, {"pp": 4, "zero": 0}, {"zero": 2}):
        assert costs(same, **plan) == costs(plain, **plan)


def test_kinds_that_are_alike_take_equal_shares() -> None:
    """The same node under two names goes through all that unequal ones do."""
    twin = written_out("node", "dgx-h100", name="twin")
    more: dict[str, Any] = {"assume": {"price": "2 USD/GPU/h"}, "workload": {"tokens": "1 T"}}
    pair, plain = grouped((twin, 2), ("dgx-h100", 2), **more), inputs(model(hidden=2048), nodes=4, **more)
    assert pair.groups
    for plan in ({}, {"tp": 8}, {"pp": 4, "zero": 0}, {"zero": 2, "shares": "equal"}):
        assert costs(pair, **plan) == pytest.approx(costs(plain, **plan), rel=1e-12)


@pytest.mark.parametrize("tp", [4, 8])
@pytest.mark.parametrize("batch", [12, 24, 96])
def test_the_last_replica_ends_as_early_as_any_split_allows(tp: int, batch: int) -> None:
    """Every split of the micro-batches, each replica of a kind alike."""
    asked = grouped(("dgx-h100", 1), ("dgx-a100", 2), global_batch=batch)
    block, _ = plan_block(asked, Plan(tp=tp))
    layers = stage_layers(asked.model, block)

    def played(kind: TrainingInputs, count: float) -> float:
        parameters = stage_parameters(kind, block, layers)
        return one(training_step(kind, block, layers, parameters, np.array([count])).total)

    (_, fast), (_, slow) = asked.groups
    replicas = 8 // tp, 16 // tp
    best = min(
        max(played(fast, first), played(slow, second))
        for first, second in itertools.product(range(1, batch), repeat=2)
        if 0 <= replicas[0] * first + replicas[1] * second - batch < max(replicas)
    )
    taken = [one(each) for each in micro_batches_of_groups(asked, block)]
    assert sum(count * each for count, each in zip(replicas, taken, strict=True)) >= batch
    assert costs(asked, tp=tp)["step_time"] == pytest.approx(best, rel=1e-9)


def test_proportional_shares_are_no_slower_than_equal_ones() -> None:
    asked = grouped(("dgx-h100", 2), ("dgx-a100", 2), global_batch=256)
    for plan in ({"tp": 2}, {"tp": 8}, {"pp": 2}, {"tp": 2, "pp": 4, "zero": 0}):
        uneven, equal = (costs(asked, **plan, shares=shares)["step_time"] for shares in ("proportional", "equal"))
        assert uneven <= equal
    both = [inputs(model(hidden=2048), node=node, nodes=4, global_batch=256) for node in ("dgx-h100", "dgx-a100")]
    fast, slow = (costs(each, tp=8)["step_time"] for each in both)
    assert fast < costs(asked, tp=8)["step_time"] < slow


def test_a_slow_link_between_groups_slows_gradients_alone() -> None:
    groups = ("dgx-h100", 2), ("dgx-a100", 2)
    wide, narrow = (grouped(*groups, cluster=more) for more in ({}, {"between": "10 Gb/s"}))
    for plan in ({"tp": 8}, {"pp": 2, "tp": 4}):
        one_way, other = costs(wide, **plan), costs(narrow, **plan)
        assert other["dp_exposed"] > one_way["dp_exposed"]
        assert other["pp_exposed"] == one_way["pp_exposed"]


def test_rows_of_a_search_are_those_of_each_plan() -> None:
    asked = grouped(
        ("dgx-h100", 2), ("dgx-a100", 2), global_batch=96, assume={"price": "2 USD/GPU/h"}, workload={"tokens": "1 T"}
    )
    blocks = [plan_block(asked, Plan(tp=tp))[0] for tp in (1, 2, 4, 8)]
    rows = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in SIZES}
    found = evaluate(asked, Block(blocks[0].structure, **rows)).costs
    for index, block in enumerate(blocks):
        alone = evaluate(asked, block).costs.row()
        assert found.row(index) == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"tp": 8, "pp": 2}, "does not divide the 8 accelerators of dgx-h100"),
        ({"zero": 2}, "communicates in each micro-batch"),
        ({"pp": 4, "vpp": 2}, "interleaved"),
        ({"zero": 0, "order": "tp-cp-pp-dp"}, "lays each stage over"),
    ],
)
def test_no_replica_lies_on_two_kinds(plan: dict[str, Any], words: str) -> None:
    from costmodel.report.terminal.refusals import reason

    given = ask(grouped(("dgx-h100", 1), ("dgx-a100", 3)), **plan)
    assert "R005" in given.refused
    assert words in reason(given, "R005")


def test_answers_name_the_groups_and_their_shares(run: Any) -> None:
    said = run("estimate", NAME)
    assert "96 accelerators, 4 × dgx-h100 + 8 × dgx-a100" in said.out
    assert "dgx-h100 × 4: " in said.out
    assert "% of the batch" in said.out
    assert run("explain", NAME, "step_time").code == 0
    assert "R005" in run("estimate", NAME, "--set", "plan.zero=3").out
    assert run("search", NAME, "--top", "2").code == 0
    assert "N033" in run("estimate", "quickstart", "--set", "plan.shares=equal").out


def test_groups_stand_in_the_place_of_a_node(run: Any) -> None:
    ran = run("estimate", NAME, "--set", "cluster.nodes=4")
    assert ran.code == 2
    assert "leave nodes out" in ran.err
    assert run("estimate", "quickstart", "--set", "cluster.between=10 Gb/s").code == 2
