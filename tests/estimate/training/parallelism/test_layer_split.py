"""Layers of stages: dealt out one by one, published layouts, and what an uneven split changes and what not."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from costmodel.documents.reader.library import read
from costmodel.documents.schemas.model import Model
from costmodel.equations.parallelism.pipeline import live_micro_batches, mirrored_layers
from costmodel.estimate.model.shards import model_parameters
from costmodel.estimate.shared.plan_batch import Block, Split, Structure, one_row
from costmodel.estimate.training.parallelism.pipeline import BOTH_WAYS, FOLDED, indivisible, stage_layers
from costmodel.estimate.training.stage_parameters import stage_parameters
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.explore.explain.pipeline_schedules import operations_of_rank
from costmodel.ground.counts import SIZES
from estimate.cases import ask, inputs, mixed, model, one

ENDS: dict[Split, tuple[int, int]] = {
    "even": (0, 0),
    "lighter-ends": (1, 1),
    "lighter-first": (1, 0),
    "lighter-last": (0, 1),
}


def row(split: Split, pp: int, vpp: int = 1, **stated: float) -> Block:
    return one_row(Structure(split=split, **stated), dp=1.0, tp=1.0, pp=float(pp), vpp=float(vpp), micro_batch=1.0)


def shape(layers: int) -> Model:
    return Model.model_validate(model(layers=layers))


def dealt(layers: int, pp: int, vpp: int, split: Split) -> list[int] | None:
    """Layers of every rank, dealt out chunk by chunk; none where the chunks would be unequal."""
    first, last = ENDS.get(split, (0, 0)) if pp > 1 else (0, 0)
    items = ["embedding"] * first + ["layer"] * layers + ["head"] * last
    chunks: list[list[str]] = [[] for _ in range(pp * vpp)]
    base, more = divmod(len(items), pp * vpp)
    if (more or not base) and (split != "spread" or layers < pp * vpp):
        return None
    for position, chunk in enumerate(chunks):
        for _ in range(base + (position < more)):
            chunk.append(items.pop(0))
    return [sum(chunk.count("layer") for chunk in chunks[rank::pp]) for rank in range(pp)]


@pytest.mark.parametrize("split", [*ENDS, "spread"])
def test_every_rank_as_dealt_out(split: Split) -> None:
    for layers in range(6, 40):
        for pp, vpp in ((1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (4, 2), (6, 1)):
            found, asked = dealt(layers, pp, vpp, split), row(split, pp, vpp)
            assert indivisible(shape(layers), asked)[0] == (found is None)
            if found is None:
                continue
            held = stage_layers(shape(layers), asked)
            middle = found[1] if pp > 2 else min(found)
            assert [one(part) for part in (held.first, held.middle, held.last)] == [found[0], middle, found[-1]]
            assert one(held.fullest) == max(found)


def test_left_open_the_fewest_ends_are_lighter() -> None:
    for layers in range(6, 40):
        for pp, vpp in ((2, 1), (3, 1), (4, 1), (4, 2), (6, 1)):
            words: tuple[Split, ...] = ("even", "lighter-ends", "lighter-last")
            first = next((found for word in words if (found := dealt(layers, pp, vpp, word))), None)
            asked = row("fitting", pp, vpp)
            assert indivisible(shape(layers), asked)[0] == (first is None)
            if first:
                held = stage_layers(shape(layers), asked)
                assert (one(held.first), one(held.last)) == (first[0], first[-1])


@pytest.mark.parametrize(
    ("name", "layers", "pp", "ends"), [("llama-3.1-405b", 126, 16, (7, 8, 7)), ("bloom-176b", 70, 12, (5, 6, 5))]
)
def test_published_layouts(name: str, layers: int, pp: int, ends: tuple[int, ...]) -> None:
    shipped = read("model", name)
    held = stage_layers(shipped, row("fitting", pp))
    assert held.total == layers
    assert tuple(one(part) for part in (held.first, held.middle, held.last)) == ends
    assert held.first + (pp - 2) * held.middle + held.last == layers


def test_stated_ends() -> None:
    stated = stage_layers(shape(61), row("stated", 16, first_stage_layers=3.0, last_stage_layers=2.0))
    assert [one(part) for part in (stated.first, stated.middle, stated.last)] == [3, 4, 2]
    only_last = stage_layers(shape(61), row("stated", 5, last_stage_layers=13.0))
    assert [one(part) for part in (only_last.first, only_last.middle, only_last.last)] == [12, 12, 13]


@pytest.mark.parametrize(
    ("pp", "vpp", "ranks"),
    [
        (4, 1, (16, 16, 13)),
        (8, 1, (8, 8, 5)),
        (8, 2, (8, 8, 5)),
        (4, 4, (16, 16, 13)),
        (16, 1, (4, 4, 1)),
        (8, 4, (7, 8, 6)),  # one layer in the first chunk, none in the last
        (16, 2, (3, 4, 2)),
    ],
)
def test_full_chunks_as_recipes_lay_out_61_layers(pp: int, vpp: int, ranks: tuple[int, ...]) -> None:
    """Megatron-Bridge, recipes of DeepSeek-V3 and Kimi K2."""
    held = stage_layers(shape(61), row("full-chunks", pp, vpp))
    assert (one(held.first), one(held.middle), one(held.last)) == ranks
    assert one(held.first) + (pp - 2) * one(held.middle) + one(held.last) == 61


def test_full_chunks_where_layers_divide_and_where_an_end_would_be_empty() -> None:
    even = stage_layers(shape(16), row("full-chunks", 4, 2))
    assert (one(even.first), one(even.middle), one(even.last)) == (4, 4, 4)
    for layers in range(2, 40):
        for pp, vpp in ((2, 1), (3, 1), (4, 2), (6, 1)):
            asked, chunks = row("full-chunks", pp, vpp), pp * vpp
            each = -(-layers // chunks)
            assert indivisible(shape(layers), asked)[0] == (each * (chunks - 2) >= layers)
            held = stage_layers(shape(layers), asked)
            if not indivisible(shape(layers), asked)[0] and pp > 2:
                assert one(held.first) + (pp - 2) * one(held.middle) + one(held.last) == layers


FOUR: dict[str, Any] = {"tp": 2, "pp": 4}


def test_layers_moved_from_the_head_shorten_the_step() -> None:
    asked = inputs(model(layers=14, vocab=262144, hidden=2048))
    ledgers = {}
    steps = {}
    for split in ("lighter-ends", "spread"):
        given = ask(asked, **FOUR, split=split)
        ledgers[split], steps[split] = given.evaluation.ledger, given.evaluation.costs.row()["step_time"]
    assert steps["lighter-ends"] < steps["spread"]  # 3 4 4 3 against 4 4 3 3 layers
    assert one(ledgers["lighter-ends"].line("weights", 0)) < one(ledgers["spread"].line("weights", 0))
    assert one(ledgers["lighter-ends"].line("weights", 1)) == one(ledgers["spread"].line("weights", 1))


def test_a_block_of_even_and_uneven_rows_is_its_rows() -> None:
    asked = inputs(model(layers=14), nodes=7, global_batch=112)
    pp = np.array([1.0, 2.0, 4.0, 7.0, 14.0, 8.0, 1.0])
    ones = np.ones_like(pp)
    block = Block(
        Structure(),
        dp=56 / pp,
        tp=ones,
        pp=pp,
        vpp=ones,
        micro_batch=ones,
        ep=ones,
        etp=ones,
        cp=ones,
        dp_replicate=ones,
    )
    whole = evaluate(asked, block).costs
    for place in range(len(block)):
        single = evaluate(asked, Block(block.structure, *(getattr(block, name)[place : place + 1] for name in SIZES)))
        for name in whole.columns:
            assert whole.column(name)[place] == pytest.approx(single.costs.column(name)[0], rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("schedule", FOLDED)
def test_a_folded_pipeline_spread_as_dealt_out(schedule: Any) -> None:
    """Stages of the whole V are dealt out one by one; a rank holds one of the way down and one of the way up."""
    for layers in range(8, 40):
        for pp in (2, 3, 4, 6):
            asked = row("spread", pp, 2, schedule=schedule)
            base, more = divmod(layers, 2 * pp)
            assert indivisible(shape(layers), asked)[0] == (base == 0)
            stages = [base + (place < more) for place in range(2 * pp)]
            ranks = [stages[rank] + stages[-1 - rank] for rank in range(pp)]
            held = stage_layers(shape(layers), asked)
            assert [one(part) for part in (held.first, held.middle, held.last)] == [ranks[0], ranks[1], ranks[-1]]
            assert one(held.fullest) == max(ranks)


@pytest.mark.parametrize("schedule", BOTH_WAYS)
def test_stated_ends_both_ways_share_their_ranks(schedule: Any) -> None:
    asked = row("stated", 16, schedule=schedule, first_stage_layers=3.0, last_stage_layers=2.0)
    held = stage_layers(shape(61), asked)
    assert not indivisible(shape(61), asked)[0]
    assert [one(part) for part in (held.first, held.middle, held.last)] == [2.5, 4, 2.5]
    assert [one(part) for part in held.mirrored or ()] == [3, 2]
    assert indivisible(shape(60), asked)[0]


@pytest.mark.parametrize("schedule", BOTH_WAYS)
def test_live_layers_of_an_end_both_ways_are_those_of_its_order(schedule: Any) -> None:
    """Walked through operation by operation: how many layers' activations the first rank holds at its peak."""
    for pp in (4, 8):
        for first, last in ((4.0, 1.0), (1.0, 4.0), (3.0, 3.0)):
            held = most = 0.0
            for group in operations_of_rank(schedule, pp, 4 * pp, 1, 0):
                for kind, chunk, _ in group:
                    held += {"F": 1, "B": 0, "W": -1}[kind] * (last if chunk else first)
                    most = max(most, held)
            live = float(live_micro_batches(float(pp), 4.0 * pp, schedule=schedule))
            assert live * float(mirrored_layers(live, first, last)) == pytest.approx(most)


@functools.cache
def led(layers: int, leading: int) -> Model:
    """A model whose first layers have an MLP and all others experts."""
    dense, experts = model(gated=True)["layers"][0], mixed()["layers"][0]
    kinds = [{**dense, "count": leading, "leading": True}, {**experts, "count": layers - leading}]
    return Model.model_validate({**mixed(), "layers": kinds})


def chunks_of(layers: int, pp: int, vpp: int, split: Split) -> list[int] | None:
    """Layers of every chunk in the order of the model, dealt out one by one."""
    first, last = ENDS.get(split, (0, 0)) if pp > 1 else (0, 0)
    chunks = pp * vpp
    if split == "full-chunks":
        each = -(-layers // chunks)
        missing = each * chunks - layers
        last = min(missing, each)
        first = missing - last
        sizes = [each] * chunks
    elif split == "spread":
        sizes = [layers // chunks + (place < layers % chunks) for place in range(chunks)]
        return sizes if min(sizes) > 0 else None
    elif (layers + first + last) % chunks:
        return None
    else:
        sizes = [(layers + first + last) // chunks] * chunks
    sizes[0] -= first
    sizes[-1] -= last
    return sizes if min(sizes[:-1], default=1) > 0 and sizes[-1] >= (0 if split == "full-chunks" else 1) else None


@pytest.mark.parametrize("split", [*ENDS, "spread", "full-chunks"])
@pytest.mark.parametrize("schedule", ["1f1b", *FOLDED])
def test_leading_layers_as_dealt_out(schedule: Any, split: Split) -> None:
    folded = schedule in FOLDED
    if folded and split == "full-chunks":
        pytest.skip("not divided like that")
    for pp, vpp in itertools.product((1, 2, 3, 4, 5), (2,) if folded else (1, 2, 3)):
        if pp == 1 and vpp > 1:
            continue
        for layers in range(2, min(28, 4 * pp * vpp + 2)):  # up to four in a chunk
            sizes = chunks_of(layers, pp, vpp, split)
            if sizes is None:
                continue
            ends = list(itertools.accumulate(sizes))
            for leading in range(1, layers):
                inside = [max(0, min(leading - (end - size), size)) for end, size in zip(ends, sizes, strict=True)]
                found = [sum(inside[rank::pp]) for rank in range(pp)]
                if folded:
                    found = [inside[rank] + inside[-1 - rank] for rank in range(pp)]
                held = stage_layers(led(layers, leading), row(split, pp, vpp, schedule=schedule))
                first, middle, last = (one(part) for part in held.leading or ())
                assert (first, last) == (found[0], found[-1]), (pp, vpp, layers, leading)
                ends_of_two = found[0] if one(held.first) <= one(held.last) else found[-1]
                between = min(found[1], found[-2], one(held.middle)) if pp > 2 else ends_of_two
                assert middle == between, (pp, vpp, layers, leading)


@pytest.mark.parametrize("schedule", BOTH_WAYS)
def test_an_end_both_ways_has_half_of_the_leading_layers(schedule: Any) -> None:
    asked = row("stated", 16, schedule=schedule, first_stage_layers=4.0, last_stage_layers=1.0)
    held = stage_layers(led(61, 3), asked)
    assert [one(part) for part in held.leading or ()] == [1.5, 0, 1.5]
    over = stage_layers(led(61, 6), asked)  # two of them on the second stage
    assert [one(part) for part in over.leading or ()] == [2, 0, 2]


@pytest.mark.parametrize("stated", [{"first_stage_layers": 3.0, "last_stage_layers": 5.0}, {"last_stage_layers": 4.0}])
@pytest.mark.parametrize("leading", range(1, 16))
def test_leading_layers_of_stated_ends(stated: dict[str, float], leading: int) -> None:
    """Four stages of sixteen layers, of which the two in the middle hold as many."""
    held = stage_layers(led(16, leading), row("stated", 4, **stated))
    sizes = [one(held.first), one(held.middle), one(held.middle), one(held.last)]
    found = [max(0, min(leading - sum(sizes[:at]), sizes[at])) for at in range(4)]
    assert [one(part) for part in held.leading or ()] == [found[0], found[2], found[3]]
    assert sum(sizes) == 16


def test_a_rank_holds_the_layers_that_it_runs() -> None:
    """Four layers on two ranks, the first without experts: what a layer of each kind adds to a model."""
    asked = inputs(led(4, 1).model_dump(by_alias=True, exclude_none=True), nodes=1)
    block = one_row(Structure(), dp=4.0, tp=1.0, pp=2.0, vpp=1.0, micro_batch=1.0)
    held = stage_parameters(asked, block, stage_layers(asked.model, block))
    whole = model_parameters(led(2, 1))
    dense, experts = model_parameters(led(3, 2)) - whole, model_parameters(led(3, 1)) - whole
    assert one(held.ranks.first + held.routed_ranks.first) == dense + experts
    assert one(held.ranks.last + held.routed_ranks.last) == 2 * experts


def documents(layers: int, leading: int, *, experts_first: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """The led model and the same with its kinds spread evenly; with experts in the leading layers or the others."""
    mixture = led(layers, leading).model_dump(by_alias=True, exclude_none=True)
    if experts_first:
        dense, experts = mixture["layers"]
        halves = [{**experts, "count": leading, "leading": True}, {**dense, "count": layers - leading}]
        mixture = {**mixture, "layers": [halves[0], {**halves[1], "leading": False}]}
    spread = {**mixture, "layers": [{**kind, "leading": False} for kind in mixture["layers"]]}
    return mixture, spread


def test_ranks_of_experts_alone_are_the_fullest_and_slowest() -> None:
    """Spread evenly every rank would hold the mean of both kinds."""
    found, even = (ask(inputs(shape, global_batch=256), pp=4, ep=2) for shape in documents(16, 2))
    weights = [one(found.evaluation.ledger.line("weights", stage)) for stage in range(3)]
    assert weights[0] < one(even.evaluation.ledger.line("weights", 0))
    assert weights[1] > one(even.evaluation.ledger.line("weights", 1))
    assert found.evaluation.costs.row()["step_time"] > even.evaluation.costs.row()["step_time"]


@pytest.mark.parametrize("experts_first", [False, True])
@pytest.mark.parametrize("plan", [{"pp": 2}, {"pp": 4}, {"pp": 4, "split": "full-chunks"}])
def test_what_experts_exchange_is_that_of_the_rank_with_most(experts_first: bool, plan: dict[str, Any]) -> None:
    led_by, even = documents(16, 4, experts_first=experts_first)
    most = {2: (4 if experts_first else 8), 4: 4}[plan["pp"]]
    mean = (4 if experts_first else 12) / plan["pp"]
    volumes = [ask(inputs(shape, global_batch=256), ep=2, **plan).evaluation.costs.row() for shape in (led_by, even)]
    assert volumes[0]["ep_volume"] == pytest.approx(most / mean * volumes[1]["ep_volume"])


@pytest.mark.parametrize("experts_first", [False, True])
@pytest.mark.parametrize("leading", [1, 3, 5, 8])
@pytest.mark.parametrize("plan", [{"pp": 2}, {"pp": 4}, {"pp": 4, "split": "lighter-ends"}])
def test_what_replicas_sum_is_all_of_one_rank(plan: dict[str, Any], leading: int, experts_first: bool) -> None:
    """Layers dealt out one by one: experts of one rank are not summed beside the MLPs of another."""
    layers = 14 if plan.get("split") else 16
    shape = Model.model_validate(documents(layers, leading, experts_first=experts_first)[0])
    kinds = [model_parameters(of_one_kind(shape, at)) for at in (0, 1)]
    table = float(shape.vocab * shape.hidden)
    of_layer = [one(kind) - 2 * table - shape.hidden for kind in kinds]
    sizes = chunks_of(layers, plan["pp"], 1, plan.get("split", "even"))
    assert sizes is not None
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    held = [sum(of_layer[place >= leading] for place in range(a, a + n)) for a, n in zip(starts, sizes, strict=True)]
    held[0] += table
    held[-1] += table + shape.hidden
    asked, dp = inputs(shape.model_dump(by_alias=True, exclude_none=True), nodes=4, global_batch=256), 32 / plan["pp"]
    volume = ask(asked, ep=1, zero=0, **plan).evaluation.costs.row()["dp_volume"]
    assert volume == pytest.approx(2 * (dp - 1) / dp * max(held) * asked.widths.reduced)


def of_one_kind(shape: Model, at: int) -> Model:
    """A model of a single layer of a kind."""
    kind = shape.layers[at].model_copy(update={"count": 1, "leading": False})
    return shape.model_copy(update={"layers": (kind,)})


@pytest.mark.parametrize("experts_first", [False, True])
@pytest.mark.parametrize("layers", [5, 7, 9, 13, 15])
@pytest.mark.parametrize("split", [*ENDS, "fitting", "spread", "full-chunks"])
def test_every_valid_plan_of_a_led_model_has_finite_costs(layers: int, split: Split, experts_first: bool) -> None:
    """An end may hold the embedding or the head alone, and no rank that is looked at the one layer with experts."""
    asked = inputs(documents(layers, 1, experts_first=experts_first)[0], nodes=2, global_batch=64)
    pp, ones = np.array([1.0, 2.0, 4.0, 8.0]), np.ones(4)
    sizes = dict.fromkeys(SIZES, ones) | {"pp": pp, "dp": 16 / pp}
    block = Block(Structure(split=split), **sizes)
    costs, valid = evaluate(asked, block).costs, ~indivisible(asked.model, block)
    for name in ("step_time", "memory_peak", "mfu", "ep_volume"):
        assert np.isfinite(np.asarray(costs.column(name))[valid]).all()


@pytest.mark.parametrize("mixture", [False, True])
@pytest.mark.parametrize(
    "plan",
    [
        {"pp": 1},
        {"pp": 4, "split": "lighter-ends"},
        {"pp": 2, "split": "spread"},
        {"pp": 4, "schedule": "interleaved", "vpp": 2, "split": "full-chunks"},
        {"pp": 2, "split": "lighter-last", "recompute": "full", "recompute_method": "block", "recompute_layers": 1},
    ],
)
def test_layers_all_alike_may_be_said_to_lead(mixture: bool, plan: dict[str, Any]) -> None:
    """One kind of layers, and the same layers as two kinds of which the first leads: every cost is the same."""
    whole = mixed(layers=14) if mixture else model(layers=14)
    kind = whole["layers"][0]
    parted = {**whole, "layers": [{**kind, "count": 3, "leading": True}, {**kind, "count": 11}]}
    rows = [ask(inputs(shape, global_batch=64), **plan).evaluation.costs.row() for shape in (whole, parted)]
    for name, value in rows[0].items():
        assert rows[1][name] == pytest.approx(value, rel=1e-9, nan_ok=True), name


@pytest.mark.parametrize("schedule", BOTH_WAYS)
def test_what_both_ways_keeps_is_of_either_stage(schedule: Any) -> None:
    """The first stage of the model has its leading layers, the last none: most live micro-batches are of the first."""
    asked = row("stated", 16, schedule=schedule, first_stage_layers=4.0, last_stage_layers=1.0)
    shape = led(61, 3)
    held = stage_layers(shape, asked)
    assert [tuple(map(one, held.of_stages(shape, kind))) for kind in shape.layers] == [(3, 0), (1, 1)]


@pytest.mark.parametrize("kinds", [[True], [False, True], [True, True]])
def test_only_the_first_of_several_kinds_leads(kinds: list[bool]) -> None:
    layers = [{**model()["layers"][0], "leading": leads} for leads in kinds]
    with pytest.raises(ValidationError, match="may be leading"):
        Model.model_validate({**model(), "layers": layers})
