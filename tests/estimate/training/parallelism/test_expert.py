"""Mixture of experts: limits known on paper, sharding, exchanges, and a row of a table against a plan alone."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from costmodel.equations.network.collectives import wire_bytes
from costmodel.estimate.machine.collective_time import collective_time
from costmodel.estimate.model.feed_forward_kinds import token_destinations
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.estimate.model.shards import shard
from costmodel.estimate.shared.plan_batch import Block, Structure, one_row
from costmodel.estimate.training.layer_kernels import matmul_both_ways
from costmodel.estimate.training.layer_time import layer_work
from costmodel.estimate.training.parallelism.expert import expert_groups, expert_pass
from costmodel.estimate.training.recompute import recomputed_work
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.ground.counts import SIZES
from estimate.cases import (
    ask,
    costs,
    inputs,
    line,
    mixed,
    model,
    one,
    with_rates,
    without_network,
    written_out,
)

EQUAL = pytest.approx
LAYER = ("matmul", "attention", "memory_bound", "launch", "optimizer", "memory_peak")
STATES = ("weights", "gradients", "optimizer", "activations", "recompute")
DEEPSEEK = {"nodes": 256, "global_batch": 4096}


def alone(shape: dict[str, Any], **more: Any) -> TrainingInputs:
    """A node with one accelerator."""
    node = written_out("node", "dgx-h100", name="one", accelerators=1, scale_out={"nics": 1})
    return inputs(shape, node=node, **more)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("pp", [1, 2])
def test_one_expert_is_sharded_as_an_mlp(zero: int, pp: int) -> None:
    dense, single = (inputs(shape) for shape in (model(gated=True), mixed(count=1, top_k=1, ffn_hidden=4096)))
    found, known = (ask(asked, zero=zero, pp=pp) for asked in (single, dense))
    for name in STATES:
        assert line(found, name) == EQUAL(line(known, name), rel=1e-12)
    for name in LAYER:
        assert found.evaluation.costs.row()[name] == EQUAL(known.evaluation.costs.row()[name], rel=1e-12)


def test_one_expert_over_tp_ranks_does_the_work_of_an_mlp() -> None:
    dense, single = (inputs(shape) for shape in (model(gated=True), mixed(count=1, top_k=1, ffn_hidden=4096)))
    found, known = costs(single, tp=4, etp=4), costs(dense, tp=4)
    for name in ("matmul", "memory_bound"):
        assert found[name] == EQUAL(known[name], rel=1e-12)
    assert line(ask(single, tp=4, etp=4), "weights") == line(ask(dense, tp=4), "weights")


def test_without_expert_parallelism_nothing_is_sent() -> None:
    asked = inputs(mixed())
    found = ask(asked, ep=1)
    assert found.evaluation.costs.row()["ep_volume"] == found.evaluation.costs.row()["ep_exposed"] == 0
    assert costs(asked, ep=8)["ep_volume"] > 0


@pytest.mark.parametrize(("stack", "degree"), [("megatron-core", 4), ("megatron-lm", 4), ("fsdp2", 1), ("hai-llm", 1)])
def test_an_expert_is_cut_as_far_as_the_stack_cuts_it_unsaid(stack: str, degree: int) -> None:
    """Megatron's arguments take tp where no expert-tensor-parallel size is given; the answer says what was taken."""
    asked = inputs(mixed(), stack=stack)
    unsaid = ask(asked, tp=4, pp=1, ep=2)
    assert unsaid.evaluation.costs.row() == EQUAL(costs(asked, tp=4, pp=1, ep=2, etp=degree), nan_ok=True)
    assert [each.value for each in unsaid.assumed if each.path == "plan.etp"] == [str(degree)]
    for evaluated in (ask(asked, tp=4, pp=1, ep=2, etp=2), ask(asked, ep=2), ask(inputs(model(), stack=stack), tp=4)):
        assert not [each for each in evaluated.assumed if each.path == "plan.etp"]
    assert ask(inputs(model(), stack=stack), tp=4).refused == ()


def test_infinite_links_leave_only_the_start_of_a_dispatch() -> None:
    asked = without_network(inputs(mixed(count=16), nodes=2))
    fast = replace(asked.case, scale_up=asked.case.scale_up.model_copy(update={"bandwidth": 1e300}))
    assert asked.experts is not None
    kernels = asked.experts.kernels.model_copy(update={"start": 0.0})
    free = replace(asked, case=fast, experts=replace(asked.experts, kernels=kernels))
    assert costs(asked, ep=16)["ep_exposed"] > 0
    assert costs(free, ep=16)["ep_exposed"] == EQUAL(0, abs=1e-12)


def test_overlap_hides_what_the_scenario_says() -> None:
    exposed = [costs(inputs(mixed(), assume={"overlap": {"ep": share}}), ep=8)["ep_exposed"] for share in (0, 0.5, 1)]
    assert exposed[0] > exposed[1] > exposed[2]
    assert exposed[1] == EQUAL((exposed[0] + exposed[2]) / 2, rel=1e-9)


def test_experts_are_sharded_over_the_ranks_that_hold_the_same() -> None:
    """16 ranks: ep 8 leaves 2 ranks with the same experts, so 12 bytes of optimizer states are cut in two, not 16."""
    asked = inputs(mixed(layers=8, count=8, ffn_hidden=4096), nodes=2)
    expert = 3 * 1024 * 4096
    whole, cut = (line(ask(asked, ep=ep, zero=1), "optimizer") for ep in (1, 8))
    assert whole == EQUAL(cut, rel=1e-12)  # 8 experts over 16 ranks, or 1 over 2: the same share
    weights = [line(ask(asked, ep=ep, zero=1), "weights") for ep in (1, 8)]
    assert weights[0] - weights[1] == EQUAL(2 * 8 * 7 * expert)


def test_ep_adds_no_ranks() -> None:
    asked = inputs(mixed(), nodes=2)
    assert ask(asked, ep=8, tp=2).evaluation.block.dp[0] == 8
    assert ask(asked, ep=8, tp=2).refused == ()


def test_volume_of_dispatch_and_combine() -> None:
    """DeepSeek-V3, 4096 tokens of a rank, ep 64: 8 copies sent, one a byte wide and one two, in both directions."""
    stack = written_out("stack", "megatron-core", experts={"deduplicated": False, "dispatch": "fp8"})
    asked = inputs("deepseek-v3", stack=stack, **DEEPSEEK)
    found = [item for item in ask(asked, pp=1, ep=64).evaluation.step.transfers if item.group.name == "ep"]
    dispatch, combine = found[-2:]
    assert one(dispatch.message) / 1.03125 == EQUAL(4096 * 7168 * 8)
    assert one(combine.message) == EQUAL(2 * 4096 * 7168 * 8)
    assert one(combine.volume) == EQUAL(one(combine.count * wire_bytes(combine.message, 64.0, operation="all_to_all")))


def test_the_plain_all_to_all_is_the_collective() -> None:
    """A token to each of its experts, in bf16 both ways, as any all-to-all of so many bytes takes."""
    asked = inputs(mixed(top_k=8, count=64), nodes=4, assume={"experts": {"deduplicated": False}})
    found = [item for item in ask(asked, ep=32).evaluation.step.transfers if item.group.name == "ep"]
    assert len(found) == 2
    for item in found:
        assert one(item.message) == EQUAL(8 * 4096 * 1024 * 2)
        assert one(item.time) == EQUAL(one(collective_time(asked, item.message, item.group, "all_to_all")))


def test_what_runs_beside_shared_experts_hides() -> None:
    """All of it behind large ones, behind small ones in proportion to the share, nothing where there are none."""

    def exposed(shape: dict[str, Any], share: str) -> float:
        return costs(inputs(shape, nodes=4, assume={"experts": {"shared_overlap": share}}), ep=32)["ep_exposed"]

    routed = mixed(top_k=8, count=64)
    narrow, wide = (mixed(top_k=8, count=64, shared={"ffn_hidden": width, "gated": True}) for width in (512, 1 << 20))
    assert exposed(routed, "100 %") == exposed(routed, "0 %") > 0
    assert exposed(wide, "100 %") == 0
    none, half, all_of_it = (exposed(narrow, share) for share in ("0 %", "50 %", "100 %"))
    assert 0 < all_of_it < none
    assert half == EQUAL((none + all_of_it) / 2)


def test_deduplicated_copies_send_less() -> None:
    plain = written_out("stack", "megatron-core", experts={"deduplicated": False})
    sent = [costs(inputs(mixed(top_k=8, count=64), nodes=4, stack=stack), ep=32)["ep_volume"] for stack in
            (plain, "megatron-core")]  # fmt: skip
    assert sent[1] < sent[0]


def test_fp8_dispatch_halves_what_is_dispatched() -> None:
    sent = [
        costs(inputs(mixed(), assume={"experts": {"dispatch": kind}}), ep=8)["ep_volume"] for kind in ("bf16", "fp8")
    ]
    assert sent[1] / sent[0] == EQUAL((2 + 1.03125) / 4)


def test_imbalance_and_capacity_stretch_the_busiest_rank() -> None:
    said = ({}, {"imbalance": 1.5}, {"capacity": 1.5})
    stack = written_out("stack", "megatron-core", launch={"operation": "0 s"})
    even, uneven, padded = (costs(inputs(mixed(), stack=stack, assume={"experts": one}), ep=8) for one in said)
    assert uneven["matmul"] > even["matmul"]
    assert uneven["memory_peak"] > even["memory_peak"]
    assert uneven["ep_volume"] == EQUAL(1.5 * even["ep_volume"])
    assert padded == EQUAL(uneven, nan_ok=True)


def test_short_groups_run_slower() -> None:
    """The same work in more experts takes longer."""
    few, many = (costs(inputs(mixed(count=count, top_k=2)), ep=1)["matmul"] for count in (4, 64))
    assert many > few


@pytest.mark.parametrize(("capacity", "passes"), [({}, 2 * (1 + 2)), ({"capacity": 1}, 0)], ids=["sorted", "masked"])
def test_maxtext_orders_tokens_unless_masks_fill_its_experts(capacity: dict[str, Any], passes: int) -> None:
    """Two passes over a token and its two copies in each direction, times the stack's factor; masks are products."""
    asked = inputs(mixed(), node="tpu-v5p-slice", stack="maxtext-tpu", assume={"experts": {"imbalance": 1, **capacity}})
    assert asked.experts is not None
    more = replace(asked.experts, kernels=asked.experts.kernels.model_copy(update={"permute": 4}))
    plan = {"zero": 3, "ep": 1, "recompute": "none", "micro_batch": 1}
    found = [costs(each, **plan)["memory_bound"] for each in (asked, replace(asked, experts=more))]
    tokens = 64 * 4096 / asked.ranks
    seconds = 2 * 2 * passes * tokens * 1024 / asked.rates.memory_bandwidth / asked.rates.memory_share
    assert found[1] - found[0] == EQUAL(8 * asked.stack.kernels.traffic_factor * seconds)


def test_host_time_grows_with_the_experts_of_a_rank() -> None:
    asked = inputs(mixed(count=64, ffn_hidden=128))
    assert costs(asked, ep=1)["launch"] > costs(asked, ep=8)["launch"] > 0


CONVERSIONS = {"bf16": 0, "fp8": 0, "fp8-block": 1, "mxfp8": 1, "fp8-cs": 3, "nvfp4": 0}


@pytest.mark.parametrize("capacity", [{}, {"capacity": 1}], ids=["dropless", "padded"])
@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("precision", CONVERSIONS)
def test_the_host_issues_products_and_conversions_of_every_expert(
    precision: str, recompute: str, capacity: dict[str, Any]
) -> None:
    """Where all waits for it: two products forward, four backward, conversions of two inputs and of two gradients."""
    run = {"node": "dgx-b200", "workload": {"precision": precision}}
    said = ({"experts": {"host": f"{host} s", **capacity}} for host in (10, 20))
    found = [costs(inputs(mixed(), **run, assume=one), ep=1, recompute=recompute)["launch"] for one in said]
    forward, backward = 2 + 2 * CONVERSIONS[precision], 4 + 2 * CONVERSIONS[precision]
    times = 2 if recompute == "full" else 1
    assert found[1] - found[0] == EQUAL(8 * 8 * 8 * (times * forward + backward) * 10, rel=1e-6)


@pytest.mark.parametrize(("recompute", "again"), [("none", 0), ("full", 1)])
def test_without_capacity_the_host_cannot_run_ahead(recompute: Any, again: int) -> None:
    """Before the experts it waits for how many tokens each has: what it issues there hides behind them alone. Forward
    that is, also where it is computed again; backward it knows.
    """

    def held_up(device: float, host: float) -> float:
        return (device**3 + host**3) ** (1 / 3) - device

    stack = written_out("stack", "megatron-core", launch={"operation": "0 s"})
    idle, dropless, padded = (
        inputs(mixed(), node="dgx-b200", stack=stack, assume={"experts": said})
        for said in ({"host": "0 s"}, {"host": "20 us"}, {"host": "20 us", "capacity": 1.0})
    )
    kind = idle.model.layers[0]
    block = one_row(Structure(recompute=recompute), dp=8.0, tp=1.0, pp=1.0, vpp=1.0, micro_batch=1.0)
    layer = layer_work(idle, block, kind).both
    forward, backward = one(layer.forward.total), one(layer.backward.total)
    anew = recomputed_work(dropless, block.structure, kind)
    work = expert_pass(dropless, shard(dropless.model, kind, 1.0), block, anew)
    assert work is not None
    inside, ahead, behind = one(work.both.forward.device), one(work.ahead), one(work.behind)
    wait = held_up(inside, ahead)
    apart = wait + again * wait + held_up(backward - again * inside, behind)
    joint = held_up(forward, ahead) + held_up(backward, behind + again * ahead)
    for asked, each in ((dropless, apart), (padded, joint)):
        assert costs(asked, ep=1, recompute=recompute)["launch"] == EQUAL(8 * 8 * each, rel=1e-9)
    assert apart > joint > 0


def test_multi_token_prediction_costs_a_layer_and_a_head() -> None:
    shape = mixed()
    ahead = {**shape, "prediction": {"depth": 1, "layer": {**shape["layers"][0], "count": 1}}}
    without, with_it = (costs(alone(one_of)) for one_of in (shape, ahead))
    each = (with_it["matmul"] - without["matmul"]) / without["matmul"]
    head = 32768 * 1024
    layer = 4 * 1024 * 1024 + 2 * 3 * 1024 * 1024 + 1024 * 8
    assert each == EQUAL((head + layer + 2 * 1024 * 1024) / (head + 8 * layer), rel=0.12)
    assert with_it["memory_peak"] > without["memory_peak"]


@pytest.mark.parametrize(("tp", "ep", "etp"), [(8, 8, 1), (8, 4, 2), (4, 8, 1), (2, 4, 2), (2, 8, 1), (1, 8, 1)])
def test_expert_groups_take_the_ranks_of_a_stage(tp: int, ep: int, etp: int) -> None:
    """With the pipeline inside data parallelism tp · cp ranks of a stage lie side by side, the next pp times as far."""
    asked, pp = inputs(mixed(ffn_hidden=1024), nodes=4), 2
    block = ask(asked, tp=tp, pp=pp, ep=ep, etp=etp, order="tp-cp-pp-dp").evaluation.block
    placed = expert_groups(asked, block)
    stage = [rank for rank in range(32) if rank // tp % pp == 0]
    whole = ep * etp
    groups = [stage[first : first + whole] for first in range(0, len(stage), whole)]
    worst = max(len({rank // 8 for rank in each[::etp]}) for each in groups)
    assert (one(placed.ep.ranks), one(placed.ep.domains)) == (ep, worst)


STRUCTURES = [(zero, order) for zero in range(4) for order in ("tp-cp-dp-pp", "tp-cp-pp-dp", "tp-dp-cp-pp")]


@pytest.mark.share(3)
@pytest.mark.parametrize(("zero", "order"), STRUCTURES)
def test_a_plan_alone_is_its_row_of_a_table(zero: Any, order: Any) -> None:
    """Each structure with other rows, so that together they have all; a share of them, unless --whole asks for all."""
    asked = inputs("deepseek-v2", nodes=16, global_batch=256)
    structure = Structure(zero=zero, order=order, recompute="full" if zero == 2 else "none")
    rows = [
        (128 / (tp * pp * cp), tp, pp, 1.0, micro_batch, ep, etp, cp, replicas)
        for tp, pp, micro_batch, ep, etp, (cp, replicas) in itertools.product(
            (1.0, 2.0, 4.0), (1.0, 2.0), (1.0, 2.0), (1.0, 4.0, 16.0), (1.0, 2.0), ((1.0, 1.0), (1.0, 4.0), (2.0, 2.0))
        )
        if 128 / pp >= ep * etp * replicas
    ]
    block = Block(structure, *(np.array(column) for column in zip(*rows, strict=True)))
    assert len(block) > 64
    many = evaluate(asked, block)
    for row in range(STRUCTURES.index((zero, order)), len(block), len(STRUCTURES)):
        single = one_row(structure, **{name: float(getattr(block, name)[row]) for name in SIZES})
        assert many.costs.row(row) == EQUAL(evaluate(asked, single).costs.row(), rel=1e-12, abs=1e-15, nan_ok=True)


@pytest.mark.parametrize("narrow", [False, True])
def test_groups_of_rows_take_as_long_as_each_group_alone(narrow: bool) -> None:
    """Where memory alone takes time: operands, results, gradients added to and conversions of every group."""
    asked = inputs(mixed(), workload={"precision": "fp8-row"}, stack="fsdp2")
    fits = [fit.model_copy(update={"start": 0.0}) for fit in (asked.rates.matmul, asked.rates.linear.fit)]
    linear = replace(asked.rates.linear, fit=fits[1], peak=1e30)
    asked = with_rates(asked, matmul=fits[0], linear=linear, peak=1e30)
    matrix = Matmul("any", 512.0, 2048.0)
    alone = matmul_both_ways(asked, matrix, 96.0, 1.0, narrow=narrow)
    grouped = matmul_both_ways(asked, matrix, 8 * 96.0, 8.0, groups=8.0, narrow=narrow)
    for one_group, all_groups in ((alone.forward, grouped.forward), (alone.backward, grouped.backward)):
        assert all_groups.matmul == pytest.approx(8 * one_group.matmul)
        assert all_groups.memory_bound == pytest.approx(8 * one_group.memory_bound)
    frozen = matmul_both_ways(asked, matrix, 8 * 96.0, 8.0, groups=8.0, narrow=narrow, trained=False)
    added = (grouped.backward.memory_bound - frozen.backward.memory_bound) * asked.rates.memory_bandwidth
    assert added * asked.rates.memory_share == pytest.approx(8 * 2 * asked.widths.gradient * 512 * 2048)
    assert frozen.backward.memory_bound == pytest.approx(frozen.forward.memory_bound * 512 / 2048)


@functools.cache
def routed(count: int, top_k: int, groups: int, group_limit: int, tokens: int = 40_000) -> Any:
    """The experts of tokens, drawn: first the groups, then in these the experts."""
    generator = np.random.default_rng(1)
    scores = generator.random((tokens, count), dtype=np.float32)
    if groups > 1:
        order = np.argsort(np.argsort(generator.random((tokens, groups)), axis=1), axis=1)
        scores[np.repeat(order >= group_limit, count // groups, axis=1)] = -1
    return np.argpartition(-scores, top_k - 1, axis=1)[:, :top_k]


def drawn(experts: Any, parts: int) -> float:
    """Ranks that the experts of a token lie on, drawn."""
    groups = (1, 1) if experts.groups is None else (int(experts.groups), int(experts.group_limit))
    chosen = routed(int(experts.count), int(experts.top_k), *groups) // (int(experts.count) // parts)
    return float(np.mean([np.any(chosen == part, axis=1) for part in range(parts)]) * parts)


@pytest.mark.parametrize(
    ("shape", "parts", "copies"),
    [
        ("mixtral-8x7b", 8, 2.0),
        ("dbrx", 8, 3.6),
        ("deepseek-v3", 8, 3.63),
        ("deepseek-v3", 16, 5.34),
        ("deepseek-v3", 32, 6.60),
        ("deepseek-v3", 64, 7.36),
        ("deepseek-v3", 2, 1.93),
        ("deepseek-v3", 4, 2.93),
        ("deepseek-v2", 4, 2.41),
        ("kimi-k2", 16, 6.50),
    ],
)
def test_a_token_is_sent_once_to_each_rank_that_holds_some_of_its_experts(
    shape: str, parts: int, copies: float
) -> None:
    """As many as routing drawn at random reaches: experts without replacement, within so many groups."""
    asked = inputs(shape, nodes=16, global_batch=1024)
    answer = ask(asked, ep=parts, dp=128)
    sent = [item.message for item in answer.evaluation.step.transfers if item.operation == "all_to_all"]
    kind = next(kind for kind in asked.model.layers if kind.experts is not None)
    held = shard(asked.model, kind, 1.0, parts, 1.0).routed
    assert held is not None
    few = held.of.groups is not None and parts < held.of.groups
    assert drawn(held.of, parts) == EQUAL(copies, rel=5e-3)
    near = EQUAL(copies, rel=1e-2 if few else 2e-3)
    assert one(sent[0]) / (asked.sequence * asked.model.hidden * 2) == near
    assert token_destinations(held.of, np.array([1.0, parts])) == EQUAL([1, one(token_destinations(held.of, parts))])


@pytest.mark.parametrize(("ep", "nodes"), [(64, 3.63), (128, 5.34)])
def test_a_token_crosses_to_the_nodes_that_its_groups_lie_on(ep: int, nodes: float) -> None:
    """DeepSeek-V3: four of its eight groups, each on a node, or on two of sixteen."""
    asked = inputs("deepseek-v3", nodes=16, global_batch=1024)
    block = ask(asked, ep=ep, dp=128).evaluation.block
    kind = next(kind for kind in asked.model.layers if kind.experts is not None)
    held = shard(asked.model, kind, block.tp, block.ep, block.etp).routed
    assert held is not None
    assert one(token_destinations(held.of, expert_groups(asked, block).ep.domains)) == EQUAL(nodes, rel=1e-3)
