"""Adapters of latent attention and of experts: counted tensor by tensor, sharded, sent, kept, and limits on paper."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from each import each

from costmodel.documents.reader.find_documents import find
from costmodel.documents.schemas.scenario import adaptable
from costmodel.equations.network.collectives import wire_bytes
from costmodel.estimate.model.shards import counted_kinds, shard
from costmodel.estimate.shared.plan_batch import Block, Structure, one_row
from costmodel.estimate.training.layer_kernels import layer_pass, memory_bound_seconds
from costmodel.estimate.training.stage_parameters import (
    UNPACKING,
    adapter_activation_bytes,
    adapters,
    routed_adapters,
    trained_in_routed_experts,
    trained_per_layer,
)
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.estimate.training_answer.predict_training import Answer
from costmodel.ground.counts import SIZES
from costmodel.ground.errors import CostModelError
from estimate.cases import ask, costs, inputs, line, mixed, model, one, written_out

EQUAL = pytest.approx
Shapes = Iterator[tuple[int, int]]
ONE = written_out("node", "dgx-h100", name="one", accelerators=1, scale_out={"nics": 1})
TUNING = ("rank", "modules", "experts")
LAYER = ("matmul", "attention", "memory_bound", "launch", "optimizer", "memory_peak")
STATES = ("weights", "gradients", "optimizer", "gathered", "activations", "recompute")
CHOICES: list[dict[str, Any]] = [{}, {"modules": ["q", "v"]}, {"modules": ["down"]}, {"modules": ["gate", "up"]}]


def tuned(shape: str | dict[str, Any], method: str = "lora", precision: str = "bf16", **more: Any) -> TrainingInputs:
    tuning = {"method": method, **{name: more.pop(name) for name in TUNING if name in more}}
    return inputs(shape, workload={"tuning": tuning, "precision": precision}, **more)


def mlp(width: int, hidden: int) -> Shapes:
    yield from ((width, hidden), (width, hidden), (hidden, width))


def latent() -> Shapes:
    """Of DeepSeek-V3: q_a_proj, q_b_proj, kv_a_proj_with_mqa, kv_b_proj, o_proj."""
    yield from ((1536, 7168), (128 * 192, 1536), (512 + 64, 7168), (128 * 256, 512), (7168, 128 * 128))


def grouped(hidden: int, heads: int, kv_heads: int) -> Shapes:
    yield from ((heads * 128, hidden), (kv_heads * 128, hidden), (kv_heads * 128, hidden), (hidden, heads * 128))


def matrices(name: str) -> Iterator[tuple[bool, tuple[int, int]]]:
    """Every matrix of a model's layers with an adapter, outputs and inputs, and whether it is a routed expert's."""
    layers, dense, ahead, hidden, width, experts, shared = {
        "deepseek-v3": (61, 3, 1, 7168, 2048, 256, 1),
        "qwen-3-30b-a3b": (48, 0, 0, 2048, 768, 128, 0),
        "mixtral-8x7b": (32, 0, 0, 4096, 14336, 8, 0),
    }[name]
    for layer in range(layers + ahead):
        mixer = {
            "deepseek-v3": latent(),
            "qwen-3-30b-a3b": grouped(hidden, 32, 4),
            "mixtral-8x7b": grouped(hidden, 32, 8),
        }
        yield from ((False, shape) for shape in mixer[name])
        if layer < dense:
            yield from ((False, shape) for shape in mlp(18432, hidden))
            continue
        for expert in range(experts + shared):
            yield from ((expert < experts, shape) for shape in mlp(width, hidden))


def counted(name: str, rank: int) -> tuple[int, int]:
    """Elements of the thin matrices A, rank × inputs, and B, outputs × rank: of all but routed experts, and theirs."""
    sums = [0, 0]
    for routed, (n, k) in matrices(name):
        sums[routed] += sum(int(np.prod(thin)) for thin in ((rank, k), (n, rank)))
    return sums[0], sums[1]


def held(asked: TrainingInputs, tp: float = 1.0, ep: float = 1.0, etp: float = 1.0) -> tuple[float, float]:
    """Trained parameters of a rank that holds every layer: all but the routed experts', and theirs."""
    parts = [(count, shard(asked.model, kind, tp, ep, etp)) for kind, count in counted_kinds(asked.model)]
    rest = sum(float(count * trained_per_layer(asked, part)) for count, part in parts)
    return rest, sum(float(count * trained_in_routed_experts(asked, part.routed)) for count, part in parts)


@pytest.mark.parametrize("name", ["deepseek-v3", "qwen-3-30b-a3b", "mixtral-8x7b"])
@pytest.mark.parametrize("rank", [1, 16])
def test_trained_parameters_are_those_of_the_tensors(name: str, rank: int) -> None:
    asked = tuned(name, rank=rank)
    rest, routed = counted(name, rank)
    assert held(asked) == (rest, routed)
    assert held(asked, ep=8) == (rest, routed / 8)
    assert held(tuned(name, rank=rank, experts=False)) == (rest, 0)


@pytest.mark.parametrize(("stack", "cut"), [("fsdp2", 1), ("megatron-core", 4)])
def test_cut_by_tp_and_etp_one_matrix_of_a_pair_stays_whole_or_none(stack: str, cut: int) -> None:
    """Matrices down to the narrow vectors are held whole, and so are their adapters; of others outputs or inputs, and
    of Megatron-Bridge's both: a column-parallel pair, or one row-parallel and one column-parallel.
    """
    asked, rank = tuned("deepseek-v3", rank=8, stack=stack), 8
    whole, hidden = (1536 + 7168, 576 + 7168), 7168 // cut
    up = (128 * 192 // 4 + 1536 // cut, 128 * 256 // 4 + 512 // cut, hidden + 128 * 128 // 4)
    dense, shared, expert = (2 * (width // 4 + hidden) + hidden + width // 4 for width in (18432, 2048, 2048))
    rest = 62 * (sum(whole) + sum(up)) + 3 * dense + 59 * shared
    assert held(asked, tp=4, ep=2, etp=4) == (rank * rest, rank * 59 * 128 * expert)


@each("path", sorted(find("model", "deepseek-v3").parent.glob("*.yaml")))
def test_the_names_of_a_layer_are_those_of_its_adapters(path: Any) -> None:
    if re.search("(state_space|linear|selective_scan|compressed):", path.read_text("utf-8")):
        return  # adapters beside mixers that scan, and beside compressed attention, are refused
    for experts in (True, False):
        asked = tuned(path.stem, experts=experts)
        for kind, _ in counted_kinds(asked.model):
            part = shard(asked.model, kind, 1.0)
            found = {adapter.name for adapter in (*adapters(asked, part), *routed_adapters(asked, part.routed))}
            assert found == set(adaptable(kind, experts=experts))


@pytest.mark.parametrize(
    ("shape", "more", "words"),
    [
        ("deepseek-v3", {"modules": ["q", "k", "o"]}, "deepseek-v3 has no q, k to"),
        ("mixtral-8x7b", {"modules": ["kv-up"]}, "mixtral-8x7b has no kv-up to"),
        ("mixtral-8x7b", {"modules": ["gate", "up"], "experts": False}, "has gate, up only in its routed experts"),
        ("mixtral-8x7b", {"modules": ["q", "gate"], "experts": False}, "has gate only in its routed experts"),
        ("mixtral-8x7b", {"modules": ["q-up", "up"]}, "mixtral-8x7b has no q-up to"),
        ("gpt-3-175b", {"modules": ["gate"]}, "gpt-3-175b has no gate to"),
        ("nemotron-h-8b", {}, "not for mixers that scan"),
    ],
)
def test_what_a_model_has_not_is_a_fault(shape: str, more: dict[str, Any], words: str) -> None:
    with pytest.raises(CostModelError, match=words):
        tuned(shape, **more)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("method", ["lora", "qlora"])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_one_expert_is_an_mlp(recompute: str, method: str, choice: dict[str, Any]) -> None:
    shapes = (model(gated=True), mixed(count=1, top_k=1, ffn_hidden=4096))
    dense, single = (costs(tuned(shape, method, node=ONE, **choice), recompute=recompute) for shape in shapes)
    assert single == EQUAL(dense, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("pp", [1, 2])
def test_one_expert_is_sharded_as_an_mlp(zero: int, pp: int, choice: dict[str, Any]) -> None:
    shapes = (model(gated=True), mixed(count=1, top_k=1, ffn_hidden=4096))
    known, found = (ask(tuned(shape, "qlora", **choice), zero=zero, pp=pp) for shape in shapes)
    for name in STATES:
        assert line(found, name) == EQUAL(line(known, name), rel=1e-12)
    for name in LAYER:
        assert found.evaluation.costs.row()[name] == EQUAL(known.evaluation.costs.row()[name], rel=1e-12)


def test_frozen_experts_are_as_if_only_attention_were_named() -> None:
    left, named = tuned("mixtral-8x7b", experts=False), tuned("mixtral-8x7b", modules=["q", "k", "v", "o"])
    for zero in (0, 1, 2, 3):
        assert costs(left, ep=4, zero=zero) == EQUAL(costs(named, ep=4, zero=zero), nan_ok=True)


def sent(given: Answer, group: str) -> float:
    return sum(one(item.volume) for item in given.evaluation.step.transfers if item.group.name == group)


def test_gradients_of_experts_go_to_the_ranks_that_hold_the_same() -> None:
    """16 ranks, ep 4: adapters of 2 of 8 experts over 4 ranks, all others over 16."""
    given = ask(tuned("mixtral-8x7b", nodes=2), ep=4, zero=0)
    rest, routed = counted("mixtral-8x7b", 16)
    assert sent(given, "dp") == EQUAL(wire_bytes(4.0 * rest, 16.0, operation="all_reduce"))
    assert sent(given, "edp") == EQUAL(wire_bytes(4.0 * routed / 4, 4.0, operation="all_reduce"))


@pytest.mark.parametrize("zero", [0, 1, 2])
@pytest.mark.parametrize(("modules", "idle"), [(["o"], "edp"), (["down"], "dp")])
def test_what_trains_nothing_sends_nothing(zero: int, modules: list[str], idle: str) -> None:
    given = ask(tuned("mixtral-8x7b", modules=modules, nodes=2), ep=4, zero=zero)
    assert given.evaluation.costs.row()["step_time"] > 0
    assert sent(given, idle) == 0 < sent(given, {"dp": "edp", "edp": "dp"}[idle])
    spent = [item for item in given.evaluation.step.transfers if item.group.name == idle]
    assert sum(one(item.total_time) for item in spent) == 0


@pytest.mark.parametrize("zero", [0, 1])
def test_states_are_sharded_over_the_ranks_that_hold_the_same(zero: int) -> None:
    """16 ranks, ep 4 and so 4 with the same experts."""
    given = ask(tuned("mixtral-8x7b", nodes=2), ep=4, zero=zero)
    rest, routed = counted("mixtral-8x7b", 16)
    expert = 32 * 8 * 3 * 4096 * 14336
    frozen = 46_702_792_704 - expert + expert / 4
    cut = (16, 4) if zero else (1, 1)
    assert line(given, "gradients") == EQUAL(4 * (rest + routed / 4))
    assert line(given, "optimizer") == EQUAL(12 * (rest / cut[0] + routed / 4 / cut[1]))
    assert line(given, "weights") == EQUAL(2 * (frozen + rest + routed / 4), rel=1e-3)


def test_frozen_weights_are_packed_experts_and_all() -> None:
    """DeepSeek-V3, ep 8, with the layer that predicts a token further; the tables and the last norm stay wide."""
    rest, routed = counted("deepseek-v3", 16)
    expert = 58 * 256 * 3 * 7168 * 2048
    wide = 2 * 129280 * 7168 + 7168
    layer = (671_026_419_200 - expert - wide - 3 * 3 * 7168 * 18432 - 61 * 187_122_688) / 58 + 187_122_688
    ahead = layer + 2 * 7168 * 7168 + 3 * 7168
    packed = 671_026_419_200 - wide - expert + ahead + 59 / 58 * expert / 8
    weights = 4.127 / 8 * packed + 2 * (wide + rest + routed / 8)
    assert line(ask(tuned("deepseek-v3", "qlora"), ep=8, zero=0), "weights") == EQUAL(weights, rel=1e-3)


@pytest.mark.parametrize("shape", ["mixtral-8x7b", "deepseek-v3"])
def test_work_of_frozen_weights_and_of_adapters(shape: str) -> None:
    """It grows with the rank by 6 A T of the adapters a token meets; at rank 0 a third of that in weights lacks."""
    top_k, experts, hidden = {"mixtral-8x7b": (2, 8, 4096), "deepseek-v3": (8, 256, 7168)}[shape]
    found = [costs(asked, ep=8) for asked in (tuned(shape, rank=16), tuned(shape, rank=32), inputs(shape))]
    thin, twice, full = (row["mfu"] * row["step_time"] * 8 * 989.4e12 for row in found)
    tokens = 64 * 4096
    rest, routed = counted(shape, 16)
    assert twice - thin == EQUAL(6 * tokens * (rest + routed * top_k / experts))
    weights = sum(n * k * (top_k / experts if routed else 1) for routed, (n, k) in matrices(shape))
    ahead = shape == "deepseek-v3"
    routers = (59 if ahead else 32) * experts * hidden
    heads = (1 + ahead) * {"mixtral-8x7b": 32000, "deepseek-v3": 129280}[shape] * hidden
    linear = weights + routers + heads + ahead * 2 * hidden * hidden
    assert full - (2 * thin - twice) == EQUAL(2 * tokens * linear, rel=1e-3)


def test_inputs_that_only_frozen_experts_read_are_not_kept() -> None:
    """Of two rows a token the dispatched copy and the activation's output, and what is between the thin matrices; the
    norm's output before the router nobody reads either way.
    """
    every, two = (ask(tuned(mixed(), node=ONE, **more), recompute="none") for more in ({}, {"modules": ["q", "v"]}))
    between = 2 * 16 + 2 * 3 * 16
    spared = 8 * 4096 * 2 * (2 * (1024 + 1024) + between)
    assert line(every, "activations") - line(two, "activations") == EQUAL(spared)
    down = ask(tuned(mixed(), node=ONE, modules=["q", "v", "down"]), recompute="none")
    assert line(down, "activations") - line(two, "activations") == EQUAL(8 * 4096 * 2 * 2 * (1024 + 16))


@pytest.mark.parametrize("stack", ["megatron-core", "hai-llm"])
@pytest.mark.parametrize("again", [None, ["norms", "moe-activation"], ["moe", "shared-experts"]], ids=str)
def test_inputs_stay_wide_for_adapters_beside_narrow_products(stack: str, again: list[str] | None) -> None:
    plan = {"recompute": "selective", "recompute_modules": again} if again else {"recompute": "none"}
    shape = mixed(shared={"ffn_hidden": 1024, "gated": True})
    for more in CHOICES:
        rows = (tuned(shape, precision=kind, node=ONE, stack=stack, **more) for kind in ("bf16", "fp8-block"))
        wide, narrow = (line(ask(asked, **plan), "activations") for asked in rows)
        assert narrow == EQUAL(wide, rel=1e-12)


def test_what_is_between_thin_matrices_stays_under_recompute_of_operations() -> None:
    """Of q, k, v and o a rank's width a token, of each of two rows three; nothing that frozen weights spare."""
    full, thin = (asked(mixed(), node=ONE, stack="fsdp2") for asked in (inputs, tuned))
    kept = [line(ask(each, recompute="selective"), "activations") for each in (full, thin)]
    assert kept[1] - kept[0] == EQUAL(8 * 4096 * 2 * 16 * (4 + 2 * 3))


def test_narrow_vectors_that_no_gradient_reads_are_not_kept() -> None:
    """After their norms, 1536 and 512 wide, unless what grows from them is computed again."""
    plan = {"ep": 8, "recompute": "selective", "recompute_modules": ["norms"]}
    modules = {"down": ["o", "q-down"], "up": ["o", "q-up"], "kv": ["o", "kv-up"]}
    kept = {
        name: line(ask(tuned("deepseek-v3", modules=chosen), **plan), "activations") for name, chosen in modules.items()
    }
    assert kept["up"] - kept["down"] == EQUAL(61 * 4096 * 2 * 1536)
    assert kept["kv"] - kept["down"] == EQUAL(61 * 4096 * 2 * 512)
    again = {**plan, "recompute_modules": ["norms", "mla-up-projection"]}
    kept = {
        name: line(ask(tuned("deepseek-v3", modules=chosen), **again), "activations")
        for name, chosen in modules.items()
    }
    assert kept["up"] == kept["down"] == kept["kv"]


def test_what_is_computed_again_has_its_adapters_with_it() -> None:
    """All experts named, their thin products are run a second time as their own are."""
    again = {"ep": 4, "recompute": "selective", "recompute_modules": ["moe"]}
    for more in ({}, {"modules": ["o"]}):
        asked = tuned("mixtral-8x7b", **more)
        once, twice = costs(asked, ep=4, recompute="none"), costs(asked, **again)
        forward = 64 * 4096 * 2 * (2 * 3 * 4096 * 14336 + 8 * 4096)
        thin = 0 if more else 64 * 4096 * 2 * 2 * 16 * 3 * (4096 + 14336)
        work = [row["hfu"] * row["step_time"] * 8 * 989.4e12 for row in (once, twice)]
        assert work[1] - work[0] == EQUAL(32 * (forward + thin), rel=1e-6)


def test_frozen_experts_take_two_thirds_of_the_products() -> None:
    full, frozen = (costs(asked, ep=4) for asked in (inputs("mixtral-8x7b"), tuned("mixtral-8x7b", modules=["o"])))
    assert 0.6 < frozen["matmul"] / full["matmul"] < 0.75


def test_thin_products_of_experts_cost_the_host_its_time() -> None:
    """Each of three adapters six forward (copy, cast, two products, scaling, sum), ten backward; the frozen expert two
    each way, in fp8 converted first.
    """
    hosts = [{"experts": {"host": f"{host} s"}} for host in (10, 20)]
    for more, thin in (({}, 3), ({"modules": ["q", "down"]}, 1), ({"modules": ["q"]}, 0)):
        for precision, own in (("bf16", 4), ("fp8-cs", 4 + 12)):
            asked = (tuned(mixed(count=8), precision=precision, node=ONE, assume=said, **more) for said in hosts)
            found = [costs(each)["launch"] for each in asked]
            assert found[1] - found[0] == EQUAL(64 * 8 * 8 * (own + 16 * thin) * 10, rel=1e-9)


def test_a_written_host_time_is_of_every_operation_of_an_expert() -> None:
    hosts = [{"experts": {"host": f"{host} s"}} for host in (10, 20)]
    found = [costs(tuned(mixed(count=8), "qlora", node=ONE, assume=said))["launch"] for said in hosts]
    assert found[1] - found[0] == EQUAL(64 * 8 * 8 * (4 + 3 * 16 + 2 * 6) * 10, rel=1e-9)


@pytest.mark.parametrize(("plan", "times"), [({}, (1, 1)), ({"recompute": "full"}, (1, 2))], ids=["none", "full"])
def test_unpacking_costs_the_host_its_time(plan: dict[str, Any], times: tuple[int, int]) -> None:
    """Of a layer qkv, out and router, and in groups both of the experts'; of each expert both its weights, in three
    operations each.
    """
    stack = written_out("stack", "megatron-core", launch={"operation": "100 ms"})
    run = {"node": ONE, "stack": stack, "assume": {"experts": {"host": "10 ms"}}}
    found = [costs(tuned(mixed(count=8), method, **run), **plan) for method in ("lora", "qlora")]
    lora, qlora = (row["launch"] + row["memory_bound"] for row in found)
    assert qlora - lora == EQUAL(64 * 8 * sum(times) * (5 * 0.1 + 8 * 2 * 3 * 0.01), rel=1e-9)


def test_named_modules_unpack_what_they_multiply_again() -> None:
    stack = written_out("stack", "megatron-core", launch={"operation": "100 ms"})
    run = {"node": ONE, "stack": stack, "assume": {"experts": {"host": "10 ms"}}}
    shapes = ((mixed(count=8), "moe", 3 * 0.1 + 8 * 2 * 3 * 0.01), (model(gated=True), "mlp", 2 * 0.1))
    for shape, module, again in shapes:
        rows = []
        for method in ("lora", "qlora"):
            asked = tuned(shape, method, **run)
            plans = ({"recompute": "none"}, {"recompute": "selective", "recompute_modules": [module]})
            rows.append([found["launch"] + found["memory_bound"] for found in (costs(asked, **plan) for plan in plans)])
        (lora, lora_again), (qlora, qlora_again) = rows
        assert (qlora_again - qlora) - (lora_again - lora) == EQUAL(64 * 8 * again, rel=1e-9)


@pytest.mark.parametrize(
    ("shape", "module", "own", "adapters"),
    [
        (model(gated=True), "norms", 2, 0),
        (model(gated=True), "mlp", 4, 3),
        (mixed(count=8), "moe", 12, 3),
        (mixed(count=8, shared={"ffn_hidden": 1024, "gated": True}), "shared-experts", 4, 3),
        (mixed(count=8, shared={"ffn_hidden": 1024, "gated": True}), "moe", 12, 6),
    ],
)
def test_adapters_of_what_runs_again_are_issued_again(
    shape: dict[str, Any], module: str, own: int, adapters: int
) -> None:
    """Where all waits for the host: two thin products and a sum for each of gate, up and down."""
    stack = written_out("stack", "megatron-core", launch={"operation": "100 ms"})
    run = {"node": ONE, "stack": stack, "assume": {"experts": {"capacity": 1, "host": "0 s"}}}
    plans = {"recompute": "none"}, {"recompute": "selective", "recompute_modules": [module]}
    busy = ("matmul", "attention", "memory_bound", "launch")
    for make, issued in ((inputs, own), (tuned, own + 3 * adapters)):
        found = [costs(make(shape, **run), **plan) for plan in plans]
        once, twice = (sum(row[name] for name in busy) for row in found)
        assert twice - once == EQUAL(64 * 8 * issued * 0.1, rel=1e-9)


def test_what_tp_ranks_hold_whole_they_unpack_whole_and_multiply_by_their_tokens() -> None:
    """The first layers of DeepSeek-V3 on 4 ranks."""
    lora, qlora = (tuned("deepseek-v3", method, rank=8, modules=["q-down", "q-up"]) for method in ("lora", "qlora"))
    part, block = (
        shard(lora.model, lora.model.layers[0], 4.0),
        one_row(Structure(), dp=2.0, tp=4.0, pp=1.0, vpp=1.0, micro_batch=1.0),
    )
    forward = [one(layer_pass(asked, part, block).forward.memory_bound) for asked in (lora, qlora)]
    down, up = 7168 * (1536 + 576), 128 * 192 * 1536 + 128 * 256 * 512 + 7168 * 128 * 128 + 3 * 7168 * 18432
    nbytes = (4.127 / 8 + 2) * (down + up / 4)
    assert forward[1] - forward[0] == EQUAL(float(UNPACKING) * one(memory_bound_seconds(lora, nbytes)), rel=1e-3)
    assert one(adapter_activation_bytes(lora, part, 4096.0)) == 2 * 8 * (4096 / 4 + 4096)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_a_plan_alone_is_its_row_of_a_table(zero: Any) -> None:
    asked = tuned("deepseek-v2", "qlora", nodes=16, global_batch=256)
    structure = Structure(zero=zero)
    rows = [
        (128 / (tp * pp), tp, pp, 1.0, 1.0, ep, 1.0, 1.0, 1.0)
        for tp, pp, ep in itertools.product((1.0, 4.0), (1.0, 2.0), (1.0, 4.0, 16.0))
    ]
    many = evaluate(asked, Block(structure, *(np.array(column) for column in zip(*rows, strict=True))))
    for row in range(len(rows)):
        single = one_row(structure, **dict(zip(SIZES, rows[row], strict=True)))
        assert many.costs.row(row) == EQUAL(evaluate(asked, single).costs.row(), rel=1e-12, abs=1e-15, nan_ok=True)
