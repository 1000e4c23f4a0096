"""Engines on scale-up domains against engines that are placed one after another."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.rl_scenario import reinforced
from costmodel.estimate.rl.predict_rl import predict as predict_rl
from costmodel.estimate.serving.evaluate_layouts import evaluate
from costmodel.estimate.serving.expert_step import expert_transfers
from costmodel.estimate.serving.plan_columns import (
    PlanColumns,
    engine_group,
    filled_with,
    prefill_beside,
    with_straddling,
)
from costmodel.estimate.serving.serving_inputs import ServingInputs
from estimate.serving.cases import inputs, one, predicted

RACK, TRAY = 72, 4
NVL72 = ("model=llama-3.1-405b", "limits={}", "workload={kind: serving, prompt: 2048, output: 512, concurrency: 64}")
EXPERTS = ("model=deepseek-v3", "limits={}", "workload={kind: serving, prompt: 64, output: 2048, concurrency: 512}")


def racks(ranks: int) -> str:
    """So many accelerators of NVL72 racks."""
    return f"cluster={{node: gb200-nvl72, nodes: {ranks // TRAY}}}"


def layout(tp: int, groups: int = 1, stages: int = 1, replicas: int = 1) -> PlanColumns:
    """Engines of so many ranks."""
    sizes = (tp, stages, 1, groups, replicas, 8192)
    return PlanColumns(*(np.array([float(size)]) for size in sizes))


def most_placed(ranks: int, size: int) -> int:
    """Engines that find room whole, each in the first rack that has it, of no more accelerators than there are."""
    rooms, placed = [RACK] * -(-ranks // RACK), 0
    while (placed + 1) * size <= ranks:
        rack = next((each for each, left in enumerate(rooms) if left >= size), None)
        if rack is None:
            break
        rooms[rack] -= size
        placed += 1
    return placed


@pytest.fixture(scope="module")
def by_size() -> dict[int, ServingInputs]:
    """Clusters of one to four racks, whole ones and parts."""
    return {ranks: inputs(*NVL72, "plan={tp: 4}", racks(ranks)) for ranks in (48, 64, 72, 80, 144, 216, 240)}


def test_as_many_engines_as_racks_hold_whole(by_size: dict[int, ServingInputs]) -> None:
    for ranks, found in by_size.items():
        for size in (1, 4, 8, 10, 16, 20, 24, 28, 32, 36, 40, 48, 56, 64, 72):
            if size <= ranks:
                assert one(filled_with(found, layout(size)).replicas) == most_placed(ranks, size), (ranks, size)


def test_collectives_of_engines_with_room_stay_in_their_rack(by_size: dict[int, ServingInputs]) -> None:
    """tp groups, experts of all attention groups and stages of a replica that a rack holds."""
    for ranks, found in by_size.items():
        for tp, groups, stages in ((16, 1, 1), (16, 1, 3), (1, 48, 1), (4, 10, 1), (8, 1, 7), (24, 2, 1)):
            plan = layout(tp, groups, stages)
            if tp * groups * stages > min(ranks, RACK):
                continue
            for name, size, stride in (("tp", tp, 1), ("ep", tp * groups, 1), ("pp", stages, tp * groups)):
                placed = engine_group(found, plan, name, float(size), float(stride))
                assert (one(placed.domains), one(placed.inside)) == (1, size), (ranks, tp, groups, stages, name)


def test_an_engine_larger_than_a_rack_places_its_stages_whole(by_size: dict[int, ServingInputs]) -> None:
    """Two stages of 48 take a rack each, which leaves 24 of each idle; sends between them go over the network."""
    plan = layout(48, stages=2)
    assert one(engine_group(by_size[144], plan, "tp", plan.tp).domains) == 1
    assert one(engine_group(by_size[144], plan, "pp", plan.pp, plan.stage_ranks).domains) == 2
    assert one(filled_with(by_size[216], plan).replicas) == 1
    assert one(filled_with(by_size[240], plan).replicas) == 2


def test_more_engines_than_racks_hold_whole_straddle(by_size: dict[int, ServingInputs]) -> None:
    """Nine engines of 16 on two racks: one lies on both, and every figure is that of such an engine."""
    (nine,), (eight,) = (with_straddling(by_size[144], layout(16, replicas=count)) for count in (9, 8))
    assert eight.straddles is None
    assert one(engine_group(by_size[144], nine, "tp", nine.tp).domains) == 2
    answer = predicted(*NVL72, "plan={tp: 16, replicas: 9}", racks(144))
    assert "N053" in answer.remarked
    whole = predicted(*NVL72, "plan={tp: 16, replicas: 8}", racks(144))
    assert "N053" not in whole.remarked
    assert whole.costs["tp_exposed"] < 0.5 * answer.costs["tp_exposed"]


def test_a_fleet_larger_than_the_cluster_gets_as_many_racks_as_it_fills(by_size: dict[int, ServingInputs]) -> None:
    """Nine engines of 24, counted on two racks, lie whole in three, as `estimate` finds them on three."""
    fleet = layout(24, replicas=9)
    counted, there = (evaluate(by_size[ranks], fleet) for ranks in (144, 216))
    assert counted.layout.straddles is None
    assert repr(counted.results.row()) == repr(there.results.row())


def test_idle_accelerators_of_a_rack_change_no_time() -> None:
    """tp 16 on a whole rack, of which 8 are idle, is tp 16 on 64 of it, to the last digit."""
    part, whole = (predicted(*NVL72, "plan={tp: 16}", racks(ranks)) for ranks in (64, 72))
    assert repr(part.costs) == repr(whole.costs)
    assert [item.origin for item in whole.assumed if item.path == "plan.replicas"] == [
        "72 GPUs ÷ 16 per replica, 8 idle"
    ]


def test_a_decode_group_of_48_in_a_rack_takes_no_network() -> None:
    """The same step beside three prefill instances of 8 as alone on 48, and with a network that carries nothing."""
    decode = "decode: {dp_attention: 48, ep: 48}"
    plan = f"plan={{redundant_experts: 32, prefill: {{tp: 8, ep: 8, replicas: 3}}, {decode}}}"
    more = ("stack=sglang", "workload.weights=nvfp4")
    found = predicted(*EXPERTS, plan, racks(72), *more)
    slow = predicted(*EXPERTS, plan, racks(72), *more, "assume.network_share=0.001")
    alone = predicted(*EXPERTS, "plan={redundant_experts: 32, dp_attention: 48, ep: 48}", racks(48), *more)
    assert found.costs["tpot"] == slow.costs["tpot"]
    assert found.costs["ep_exposed"] == pytest.approx(alone.costs["ep_exposed"], rel=0.01)
    assert 12.5e-3 < found.costs["tpot"] < 14.5e-3


def test_tokens_for_experts_on_many_trays_of_a_rack_are_dispatched() -> None:
    """As deployments of racks do; on one tray, and where the stack says so, they are gathered."""
    for ranks, settings, operation in ((48, (), "all_to_all"), (4, (), "all_gather")):
        found = inputs(*EXPERTS, "plan={tp: 4}", racks(72), "stack=sglang", *settings)
        plan = layout(1, ranks)
        plan = PlanColumns(plan.tp, plan.pp, plan.stage_ranks, plan.dp_attention, plan.replicas, plan.budget)
        experts = found.model.layers[-1].experts
        assert experts is not None
        sent = next(expert_transfers(found, plan, experts, 64.0 * ranks, prompts=False))
        assert sent.operation == operation
        assert one(sent.group.domains) == 1


def test_instances_apart_find_room_beside_each_other() -> None:
    """Left out, as many as lie whole in two racks beside decode instances of 64: two of 8, and none of 16."""
    decode = "decode: {tp: 64, replicas: 2}"
    found = predicted(*NVL72, f"plan={{prefill: {{tp: 8}}, {decode}}}", racks(144))
    assert found.plan.prefill is not None
    assert found.plan.prefill.replicas == 2
    assert "N053" not in found.remarked
    assert "N053" in predicted(*NVL72, f"plan={{prefill: {{tp: 16}}, {decode}}}", racks(144)).remarked
    few = prefill_beside(inputs(*NVL72, "plan={tp: 4}", racks(144)), layout(16, replicas=5), layout(48, replicas=2))
    assert one(few.replicas) == 2


def test_engines_of_reinforcement_learning_lie_whole_in_a_rack() -> None:
    """Engines of 16 on a rack: four, with the step of 64 accelerators, and 8 idle."""
    machine = "cluster={node: gb200-nvl72, nodes: 36}"
    settings = ("model=llama-3.1-405b", machine, "plan={zero: 3, rollout: {tp: 16, colocated: false, ranks: 72}}")
    found = predict_rl(reinforced(load_any("grpo-qwen-2.5-7b-64", settings))).inputs
    assert found.engines is not None
    assert one(found.engines.layout.replicas) == 4
    assert one(engine_group(found.engines.inputs, found.engines.layout, "tp", 16.0).domains) == 1
    assert any(item.path == "idle GPUs of engines" and item.value == "8" for item in found.assumed)
