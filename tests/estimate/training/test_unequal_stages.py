"""Pipelines over nodes of several kinds: alike kinds are the plain case, and layers go where they are done first."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from conftest import ledgers

from costmodel.documents.schemas.scenario import Plan
from costmodel.estimate.shared.plan_batch import SIZES, Block
from costmodel.estimate.training.plan_constraints import micro_batches
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training.unequal_nodes import inputs_over_stages, stages_of_groups
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.estimate.training_answer.predict_training import plan_block
from costmodel.report.terminal.refusals import reason
from estimate.cases import ask, costs, inputs, mixed, model, one, written_out

NAME = "mixed-llama-3-8b-96"


def grouped(*groups: tuple[Any, int], **more: Any) -> TrainingInputs:
    cluster = {"groups": [{"node": node, "nodes": nodes} for node, nodes in groups]}
    return inputs(more.pop("shape", model(hidden=4096, layers=24)), cluster=cluster, global_batch=64, **more)


def over(asked: TrainingInputs, **plan: Any) -> dict[str, float]:
    return costs(asked, shares="stages", **plan)


@pytest.mark.parametrize("plan", [{"pp": 2, "tp": 8}, {"pp": 4, "zero": 0}, {"pp": 4, "tp": 2, "zero": 2}])
def test_kinds_that_are_alike_are_the_plain_pipeline(plan: dict[str, Any]) -> None:
    """As the plain case with the layers that the last stage, which has the head too, is spared."""
    twin = written_out("node", "dgx-h100", name="twin")
    pair = grouped((twin, 2), ("dgx-h100", 2))
    block, _ = plan_block(pair, Plan(shares="stages", **plan))
    found = [layers for kind in stages_of_groups(pair, block) for layers in kind.stages[0]]
    assert sum(found) == 24
    plain = inputs(model(hidden=4096, layers=24), nodes=4, global_batch=64)
    first, last = found[0], found[-1]
    assert {*found[:-1]} <= {first, first - 1}
    if {*found[:-1]} == {first}:
        stated = costs(plain, **plan, first_stage_layers=first, last_stage_layers=last)
        assert over(pair, **plan)["step_time"] == pytest.approx(stated["step_time"], rel=2e-3)


def played(forward: list[float], count: int) -> float:
    """Time of a 1F1B pipeline with such stages, event by event; backward takes twice as long as forward."""
    stages = len(forward)
    orders = []
    for stage in range(stages):
        warm = min(stages - stage - 1, count)
        order = [("f", each) for each in range(warm)]
        for each in range(count - warm):
            order += [("f", warm + each), ("b", each)]
        orders.append(order + [("b", each) for each in range(count - warm, count)])
    ends: dict[tuple[str, int, int], float] = {}
    clocks, places = [0.0] * stages, [0] * stages
    while any(place < len(order) for place, order in zip(places, orders, strict=True)):
        for stage in range(stages):
            if places[stage] == len(orders[stage]):
                continue
            what, each = orders[stage][places[stage]]
            if what == "f":
                needs = ("f", each, stage - 1) if stage else None
            else:
                needs = ("b", each, stage + 1) if stage < stages - 1 else ("f", each, stage)
            if needs is not None and needs not in ends:
                continue
            begin = max(clocks[stage], ends.get(needs, 0.0) if needs else 0.0)
            clocks[stage] = ends[what, each, stage] = begin + forward[stage] * (1 if what == "f" else 2)
            places[stage] += 1
    return max(clocks)


@pytest.mark.parametrize(("nodes", "pp", "tp"), [((1, 1), 2, 8), ((1, 3), 4, 8), ((2, 4), 3, 8), ((2, 1), 3, 4)])
def test_no_other_layers_make_the_pipeline_faster(nodes: tuple[int, int], pp: int, tp: int) -> None:
    """Every split of the layers played out, with the time of a layer and of the head on each kind."""
    asked = grouped(("dgx-h100", nodes[0]), ("dgx-a100", nodes[1]))
    block, _ = plan_block(asked, Plan(pp=pp, tp=tp, shares="stages"))
    kinds = [place for place, count in enumerate(nodes) for _ in range(pp * count // sum(nodes))]
    count = int(one(micro_batches(asked, block)))
    times = [layer_time(asked, place, pp=pp, tp=tp) for place in range(2)]

    def time(layers: tuple[int, ...]) -> float:
        each = [times[kind][0] * held for kind, held in zip(kinds, layers, strict=True)]
        each[-1] += times[kinds[-1]][1]
        return played([one / 3 for one in each], count)

    taken = tuple(layers for kind in stages_of_groups(asked, block) for layers in kind.stages[0])
    rest = list(itertools.product(range(max(1, min(taken) - 2), max(taken) + 3), repeat=pp - 1))
    best = min(time((*held, 24 - sum(held))) for held in rest if sum(held) < 24)
    assert time(taken) <= best * 1.02
    equal = tuple([24 // pp] * pp)
    assert time(taken) < time(equal)
    found = over(asked, pp=pp, tp=tp)
    assert found["step_time"] - found["dp_exposed"] - found["optimizer"] == pytest.approx(time(taken), rel=0.04)


def layer_time(asked: TrainingInputs, place: int, **plan: Any) -> tuple[float, float]:
    """Seconds of a layer, and of the head, for one micro-batch on one kind alone, by plain pipelines of it."""
    from dataclasses import replace

    kind = replace(inputs_over_stages(asked).groups[place][1], case=asked.groups[place][1].case)

    def each(layers: int, last: int) -> float:
        shape = model(hidden=4096, layers=layers * (plan["pp"] - 1) + last)
        alone = inputs(shape, node=kind.case.node.name, nodes=int(asked.case.cluster.nodes), global_batch=64)
        stated = {"last_stage_layers": last} if plan["pp"] > 1 else {}
        one, two = (
            costs(alone if not twice else inputs(
                shape, node=kind.case.node.name, nodes=int(asked.case.cluster.nodes), global_batch=128,
            ), **plan, **stated)["step_time"]
            for twice in (False, True)
        )  # fmt: skip
        return (two - one) / one_count(asked, **plan)

    layer = (each(12, 1) - each(6, 1)) / 6
    return layer, max(each(1, 12) - 12 * layer, 0.0)


def one_count(asked: TrainingInputs, **plan: Any) -> float:
    return one(micro_batches(asked, plan_block(asked, Plan(**plan, shares="stages"))[0]))


def test_rows_of_a_search_are_those_of_each_plan() -> None:
    asked = grouped(("dgx-h100", 2), ("dgx-a100", 2), assume={"price": "2 USD/GPU/h"}, workload={"tokens": "1 T"})
    blocks = [plan_block(asked, Plan(tp=tp, pp=pp, shares="stages"))[0] for tp, pp in ((8, 2), (4, 2), (4, 4))]
    rows = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in SIZES}
    found = evaluate(asked, Block(blocks[0].structure, **rows)).costs
    for index, block in enumerate(blocks):
        assert found.row(index) == pytest.approx(evaluate(asked, block).costs.row(), rel=1e-9)


def test_a_small_memory_holds_fewer_layers() -> None:
    """A100 of 40 GB take fewer layers than their speed allows where those of 80 GB hold them."""
    large, small = (
        stages_of_groups(asked, plan_block(asked, Plan(pp=2, tp=8, shares="stages", micro_batch=4))[0])[1].stages[0][0]
        for asked in (
            grouped(("dgx-h100", 1), (node, 1), shape=model(hidden=12288, heads=96, layers=24))
            for node in ("dgx-a100", written_out("node", "dgx-a100", name="small", accelerator="a100-sxm-40"))
        )
    )
    assert small < large


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"pp": 3}, "not a whole number of stages"),
        ({"pp": 4, "vpp": 2}, "needs equal stages"),
        ({"pp": 4, "zero": 0, "order": "tp-cp-pp-dp"}, "lays each stage over"),
        ({"pp": 4, "split": "lighter-last"}, "follow from the speeds"),
    ],
)
def test_stages_lie_whole_on_one_kind(plan: dict[str, Any], words: str) -> None:
    given = ask(grouped(("dgx-h100", 1), ("dgx-a100", 3)), shares="stages", **plan)
    assert "R005" in given.refused
    assert words in reason(given, "R005")


def test_experts_and_sharded_states_go_over_groups_by_stages() -> None:
    """Replicas of a stage are of one kind, so that experts and ZeRO tie no unequal ones together."""
    shape = mixed(layers=24)
    asked = grouped(("dgx-h100", 2), ("dgx-a100", 2), shape=shape)
    assert ask(asked, ep=8).refused == ("R005",)
    assert ask(asked, ep=8, pp=2, shares="stages").refused == ()
    assert ask(grouped(("dgx-h100", 2), ("dgx-a100", 2), stack="fsdp2"), zero=3, pp=2, shares="stages").refused == ()


def test_answers_name_the_layers_of_each_kind(run: Any) -> None:
    said = run("estimate", NAME, "--set", "plan={tp: 8, pp: 6, micro_batch: 1, shares: stages}")
    assert "dgx-h100 × 4: stages of 9, 9 layers" in said.out
    assert "dgx-a100 × 8: stages of 4, 4, 4, 2 layers" in said.out
    found = run("search", NAME, "--set", "search.shares=[proportional, stages]", "--top", "3")
    assert found.code == 0


def test_memory_states_the_stages_of_the_fullest_nodes_alone(run: Any) -> None:
    """One stage on each H100, two on A100s: of these the ledger of an H100 knows nothing."""
    settings = ("--set=plan.shares=stages", "--set=plan.pp=3", "--json")
    answer = json.loads(run("memory", NAME, *settings).out)
    (lines,) = ledgers(answer).values()
    assert sum(lines.values()) == pytest.approx(answer["plans"][0]["memory_peak_bytes"])
    assert "stages on other nodes take less" in run("memory", NAME, *settings[:2]).out
