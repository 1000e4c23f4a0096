"""What a failed node takes away: every rank of small jobs is placed, and every node fails once."""

from __future__ import annotations

import functools
import itertools
from typing import Any, cast

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load, load_any
from costmodel.documents.reader.rl_scenario import reinforced
from costmodel.estimate.rl.predict_rl import predict as predict_rl
from costmodel.estimate.shared.plan_batch import Block, Structure, one_row
from costmodel.estimate.training.failed_node import most_replicas_lost, replicas_lost, whole_replicas
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training_answer.predict_training import Answer, predict
from costmodel.explore.explain.plan_choice_effects import explained_plan
from costmodel.ground.counts import Order
from costmodel.ground.record import record
from costmodel.report.answers.run import run_document
from costmodel.report.answers.training_view import TrainingView
from costmodel.report.terminal.document_lines import document_lines
from costmodel.report.terminal.layout import laid_out

DDP = "ddp-llama-3.2-1b-32"  # 32 GPUs in nodes of 8, each GPU a replica
REPAIR = "run.failures.repair=2 days"
ORDERS: tuple[Order, ...] = ("tp-cp-dp-pp", "tp-cp-pp-dp", "tp-dp-cp-pp")


@record
class Nodes:
    """So many accelerators in each node."""

    accelerators: float


@record
class Job:
    """What places a plan."""

    node: Nodes
    ranks: float

    @property
    def case(self) -> Job:
        return self


def lost_by_hand(block: Block, accelerators: int) -> tuple[int, list[int]]:
    """Whole replicas, and how many of them have a rank on each node: one rank after the other."""
    sizes = {name: int(getattr(block, name)[0]) for name in ("tp", "cp", "dp", "pp")}
    shards = sizes["dp"] // int(block.dp_replicate[0]) if block.structure.zero else 1
    names = block.structure.order.split("-")
    of_node: dict[int, set[int]] = {}
    places = itertools.product(*(range(sizes[name]) for name in reversed(names)))  # the innermost turns fastest
    for rank, place in enumerate(places):
        of_node.setdefault(rank // accelerators, set()).add(place[names[::-1].index("dp")] // shards)
    return sizes["dp"] // shards, [len(replicas) for replicas in of_node.values()]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("accelerators", [1, 2, 4, 6, 8, 12])
def test_replicas_on_every_node_are_those_counted_rank_by_rank(order: Order, accelerators: int) -> None:
    seen = 0
    sizes = itertools.product((1, 2, 3), (1, 2), (2, 4, 6, 12, 16), (1, 2, 3), (1, 2, 4))
    for (tp, cp, dp, pp, replicas), zero in itertools.product(sizes, (0, 1, 3)):
        world = tp * cp * dp * pp
        if world % accelerators or dp % replicas or (zero == 0 and replicas > 1):
            continue
        structure = Structure(zero=cast(Any, zero), order=order)
        made = {"dp": dp, "tp": tp, "cp": cp, "pp": pp, "vpp": 1, "micro_batch": 1, "dp_replicate": replicas}
        block = one_row(structure, **made)
        inputs = cast(TrainingInputs, Job(Nodes(accelerators), world))
        units, on_nodes = lost_by_hand(block, accelerators)
        assert float(whole_replicas(block)[0]) == units  # type: ignore[index]
        survives = float(most_replicas_lost(inputs, block)[0]) < units  # type: ignore[index]
        assert survives == (max(on_nodes) < units), (made, accelerators)
        if survives:
            assert float(replicas_lost(inputs, block)[0]) == pytest.approx(np.mean(on_nodes))  # type: ignore[index]
            seen += 1
    assert seen > 80


@pytest.mark.parametrize(("ep", "units"), [(1, 8), (4, 4), (8, 2), (16, 1)])
def test_replicas_that_share_experts_leave_together(ep: int, units: int) -> None:
    """With tp 2, experts over 8 ranks lie on 4 replicas, which hold all experts only together."""
    block = one_row(Structure(zero=0), dp=8, tp=2, cp=1, pp=1, vpp=1, micro_batch=1, ep=ep)
    assert float(whole_replicas(block)[0]) == units  # type: ignore[index]


@functools.cache
def asked(*assignments: str) -> Answer:
    return predict(load(DDP, assignments))


def printed(*assignments: str) -> str:
    document = run_document(TrainingView(explained_plan(load(DDP, assignments))))
    return "\n".join(line.plain for line in laid_out(document_lines(document), 200))


def test_a_node_of_eight_replicas_costs_eight_times_one() -> None:
    """99.90 % without 1 of 32 replicas for two days each 66 days, 99.23 % without the 8 of a node: 0.095 and 0.758 %
    for the replicas, 0.01 % for the pause of all.
    """
    whole = asked(REPAIR, "run.elastic=true").evaluation.costs.row()
    days = whole["mtbf"] / 86400
    assert days == pytest.approx(1 / (4 * 3.789e-3), rel=1e-4)
    pause = np.exp(-600 / whole["mtbf"])
    assert round((1 - 2 / (32 * days)) * pause, 4) == 0.9989
    assert whole["goodput"] == pytest.approx((1 - 8 * 2 / (32 * days)) * pause, rel=1e-12)
    assert round(whole["goodput"], 4) == 0.9923
    assert "failed node  takes 8 of 32 replicas away until its repair, 2.00 days" in printed(REPAIR, "run.elastic=true")


def test_replicas_of_whole_nodes_are_lost_one_by_one() -> None:
    """With tp 8 a node is a replica, so that a failure takes 1 of 4 away: the same share as 8 of 32."""
    few, many = ("plan.tp=8", "stack=megatron-core", "plan.zero=0"), ()
    found = [asked(REPAIR, "run.elastic=true", *each).evaluation.costs.row()["goodput"] for each in (few, many)]
    assert found[0] == pytest.approx(found[1], rel=1e-12)


def test_a_node_with_ranks_of_all_replicas_leaves_none() -> None:
    alone = (REPAIR, "run.elastic=true", "cluster.nodes=1")
    assert asked(*alone).refused == ("R003",)
    assert "a node of 8 has ranks of 8 replicas of dp 8, so its failure leaves none whole" in printed(*alone)
    across = (REPAIR, "run.elastic=true", "stack=megatron-core", "plan.zero=0", "plan.pp=4")
    assert asked(*across).refused == ("R003",)  # each node is a stage of all replicas
    assert asked(*across, "plan.order=tp-cp-pp-dp").refused == ()


@pytest.mark.parametrize(
    ("ranks", "values"),
    [(31, "24"), (28, "24"), (25, "24"), (20, "16 or 24"), (9, "8 or 16"), (7, "8"), (32, "24"), (40, "24")],
)
def test_ranks_that_split_a_node_are_refused_with_those_that_do_not(ranks: int, values: str) -> None:
    wanted = (REPAIR, f"run.restart.ranks={ranks}")
    assert asked(*wanted).refused == ("R013",)
    left = "are not whole replicas of 1 on whole nodes of 8, of which 3 are left when one fails"
    assert f"{ranks} ranks {left}; use {values}" in printed(*wanted)
    assert f"try  --set run.restart.ranks={values} " in printed(*wanted).replace(" (or ", " or ").replace(")", "")
    for value in values.split(" or "):
        assert asked(REPAIR, f"run.restart.ranks={value}").refused == ()


@pytest.mark.parametrize(("ranks", "valid"), [(36, True), (24, True), (12, True), (40, False), (48, False)])
def test_replicas_across_nodes_continue_on_the_nodes_that_are_left(ranks: int, valid: bool) -> None:
    """Replicas of 12 ranks on 6 nodes of 8: five nodes hold three of them, and 4 ranks idle."""
    split = ("cluster.nodes=6", "stack=megatron-core", "plan.zero=0", "plan.pp=3", "plan.tp=4", "plan.split=spread")
    found = asked(REPAIR, f"run.restart.ranks={ranks}", "workload.global_batch=48", *split).refused
    assert ("R013" not in found) == valid, found


def test_a_job_on_one_node_cannot_continue_on_a_part_of_it() -> None:
    alone = (REPAIR, "run.restart.ranks=7", "cluster.nodes=1")
    assert "a failed node takes its 8 ranks away, and the job has no other node" in printed(*alone)


@pytest.mark.parametrize(
    ("apart", "share"), [((), 1 / 4), (("plan.rollout.colocated=false", "plan.rollout.ranks=32"), 1 / 8)]
)
def test_engines_share_the_loss_of_their_nodes(apart: tuple[str, ...], share: float) -> None:
    """Four copies of the states: over 8 nodes a failure takes one copy of two nodes; over the 4 nodes of a trainer
    beside engines it takes a node of the 8, wherever it is.
    """
    failures = "run.failures={rate: 20 /1000 node-days, repair: {time: 1 day}}"
    elastic = ("run.elastic={regroup: 0 s}", "plan.dp_replicate=4", failures, *apart)
    found = predict_rl(reinforced(load_any("grpo-qwen-2.5-7b-64", elastic))).costs
    assert found["mtbf"] == pytest.approx(86400 / 0.16)
    assert found["goodput"] == pytest.approx(1 - share * 0.16)
