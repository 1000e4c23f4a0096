"""Context parallelism in a step: the plain case at cp = 1, what it cuts, what it sends, and its limits."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.estimate.training_answer.predict_training import plan_block
from costmodel.explore.search.search import search
from costmodel.explore.search.training_candidates import grids
from costmodel.report.answers.search import plans_section
from costmodel.report.answers.search_training import TrainingWords
from estimate.cases import Plan, ask, costs, inputs, line, model, one, without_network

LONG = 32768
SHAPE = model(kv_heads=4)
KINDS = ("p2p", "all-gather", "a2a")
LONG_CASE = {"sequence": LONG, "global_batch": 8}


def long(**more: Any) -> Any:
    return inputs(SHAPE, **{**LONG_CASE, **more})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_one_rank_a_sequence_is_the_plain_case_to_the_bit(kind: str, recompute: str) -> None:
    plain, same = (costs(long(), tp=2, recompute=recompute, **more) for more in ({}, {"cp": 1, "cp_type": kind}))
    assert {name: value for name, value in plain.items() if value == value} == {
        name: value for name, value in same.items() if value == value
    }


@pytest.mark.parametrize("kind", KINDS)
def test_infinite_links_leave_compute(kind: str) -> None:
    row = costs(without_network(long(assume={"overlap": {"cp": 0}})), cp=4, cp_type=kind)
    assert row["cp_exposed"] == pytest.approx(0, abs=1e-12)
    assert row["cp_volume"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_work_is_shared_and_none_is_lost(kind: str) -> None:
    """Twice the replicas or twice the ranks of a sequence: the same FLOP, half the tokens a micro-batch."""
    asked = inputs(model(layers=2, hidden=8192, heads=64, kv_heads=8), **LONG_CASE)
    wide, shared = costs(asked, dp=8), costs(asked, cp=4, cp_type=kind)
    assert wide["mfu"] * wide["step_time"] == pytest.approx(shared["mfu"] * shared["step_time"])
    assert wide["matmul"] == pytest.approx(shared["matmul"], rel=0.02)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zero", [1, 2, 3])
def test_states_are_cut_over_dp_and_cp(kind: str, zero: int) -> None:
    plain, shared = ask(long(), zero=zero), ask(long(), zero=zero, cp=4, cp_type=kind)
    for name in ("weights", "gradients", "optimizer"):
        assert line(shared, name) == line(plain, name)
    for name in ("activations", "logits"):
        assert line(shared, name) == pytest.approx(line(plain, name) / 4)
    assert line(plain, "context") == 0 < line(shared, "context")
    volumes = [given.evaluation.costs.row()["dp_volume"] for given in (plain, shared)]
    # of four times as many micro-batches zero 2 scatters each (4 B) and gathers once (2 B), zero 3 moves all in each
    assert volumes[1] == pytest.approx(volumes[0] * {1: 1, 2: (4 * 4 + 2) / 6, 3: 4}[zero])


@pytest.mark.parametrize(("kind", "layer"), [("p2p", 3 * 2), ("all-gather", 3 * 2), ("a2a", 2 * 2 * (1 + 16 / 4) / 4)])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_volume_counted_by_hand(kind: str, layer: float, recompute: str) -> None:
    """Keys and values around a ring once forward, twice backward; heads for tokens four times each way."""
    heads = 2 * LONG * 1 * (1024 // 16) * 4  # bytes of the keys of a sequence: 4 heads of 64, two bytes each
    batches = 8 / (8 / 4)
    again = (layer / 3 if kind != "a2a" else layer / 2) if recompute == "full" else 0
    row = costs(long(), cp=4, cp_type=kind, recompute=recompute)
    assert row["cp_volume"] == pytest.approx(8 * batches * (layer + again) * 3 / 4 * heads)


def test_exposed_time_is_that_of_the_step() -> None:
    """A ring shows less than a gather, and a ring with nothing to hide behind shows all."""
    ring = costs(long(), cp=4)
    bare = ask(long(assume={"overlap": {"cp": 0}}), cp=4).evaluation
    assert ring["cp_exposed"] < bare.costs.row()["cp_exposed"]
    sent = sum(one(item.total_time) for item in bare.step.transfers if item.axis == "cp")
    assert bare.costs.row()["cp_exposed"] == pytest.approx(sent)


@pytest.mark.parametrize("kind", KINDS)
def test_it_works_with_sharded_weights_and_a_pipeline(kind: str) -> None:
    row = costs(long(), cp=2, pp=2, cp_type=kind, zero=3, recompute="full")
    assert row["cp_exposed"] >= 0
    assert row["dp_volume"] > 0


def test_a_search_looks_at_it_only_when_sequences_are_long() -> None:
    """Of one rank the first way stands for all, so the others start at two."""
    assert {grid.sizes["cp"] for grid in grids(inputs(SHAPE, sequence=4096))} == {(1.0,)}
    assert {grid.sizes["cp"] for grid in grids(inputs(SHAPE, sequence=8192))} == {(1.0, 2.0), (2.0,)}
    assert {grid.sizes["cp"] for grid in grids(long())} == {(1.0, 2.0, 4.0, 8.0), (2.0, 4.0, 8.0)}
    assert {grid.sizes["cp"] for grid in grids(long(search={"cp": [1, 2]}))} == {(1.0, 2.0), (2.0,)}


def test_of_all_ways_at_one_rank_a_search_keeps_one() -> None:
    space = {"tp": [1], "pp": [1], "vpp": [1], "micro_batch": [1], "zero": [1], "cp": [1, 2]}
    space |= {"recompute": ["full"], "schedule": ["1f1b"]}
    tally = search(long(search=space).case, workers=1).tally
    assert tally.evaluated == tally.candidates == 1 + 3


def test_dp_follows_from_the_rest() -> None:
    assert one(plan_block(long(), Plan(cp=4, tp=2))[0].dp) == 1


def test_a_ranking_of_long_sequences_names_its_ranks() -> None:
    """A column cp where a plan has one, none where none has."""
    for cp, shown in (([1, 2], True), ([1], False)):
        found = search(long(search={"tp": [1, 2], "cp": cp, "recompute": ["full"]}).case, workers=1)
        assert found.best
        table = plans_section(TrainingWords(found)).table
        assert table is not None
        assert ("cp" in [column.head for column in table.columns]) == shown
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_experts_see_the_tokens_of_their_rank() -> None:
    """With cp = 2 every rank sends half of its sequence to the experts, twice as often."""
    asked = inputs("mixtral-8x7b", nodes=4, sequence=LONG, global_batch=32)
    plain, shared = (costs(asked, ep=8, recompute="full", cp=cp) for cp in (1, 2))
    assert shared["ep_volume"] == pytest.approx(plain["ep_volume"])
    assert line(ask(asked, ep=8, cp=2), "activations") == pytest.approx(line(ask(asked, ep=8), "activations") / 2)
    states = [line(ask(asked, ep=8, cp=cp), "optimizer") for cp in (1, 2)]
    assert states[0] == states[1], "their states are cut over as many ranks"


def test_state_space_layers_trade_heads_whatever_the_way_of_the_others() -> None:
    asked = inputs("nemotron-h-8b", nodes=2, sequence=LONG, global_batch=16)
    given = ask(asked, tp=2, cp=2, recompute="full")
    assert given.refused == ()
    sent = {item.operation for item in given.evaluation.step.transfers if item.axis == "cp"}
    assert sent == {"send", "all_to_all"}


def test_an_indexer_picks_among_gathered_latents() -> None:
    """A latent of 512, a rotary key of 64 and an index key of 128, thrice a layer; a ring and a2a are refused."""
    asked = inputs("deepseek-v3.2", nodes=32, sequence=LONG, global_batch=64, stack="megatron-core")
    plan = {"cp": 4, "pp": 1, "ep": 64, "recompute": "none"}
    for kind in ("p2p", "a2a"):
        assert ask(asked, **plan, cp_type=kind).refused == ("L034",)
    given = ask(asked, **plan, cp_type="all-gather")
    assert "L034" not in given.refused
    sent = [(item.operation, one(item.message)) for item in given.evaluation.step.transfers if item.axis == "cp"]
    sizes = (2 * LONG * (512 + 64), 2 * LONG * 128)
    assert set(sent) == {(kind, size) for kind in ("all_gather", "reduce_scatter") for size in sizes}
    assert line(given, "context") == 2 * sum(sizes)


def test_entries_alone_are_gathered() -> None:
    """Of four tokens an entry of 512 and a key of 128, of 128 an entry of 512; a window sends nothing."""
    asked = inputs("deepseek-v4-flash", nodes=32, sequence=LONG, global_batch=64, stack="megatron-core")
    plan = {"cp": 4, "pp": 1, "ep": 64, "recompute": "none"}
    for kind in ("p2p", "a2a"):
        assert ask(asked, **plan, cp_type=kind).refused == ("L034",)
    given = ask(asked, **plan, cp_type="all-gather")
    sent = {(item.operation, one(item.message)) for item in given.evaluation.step.transfers if item.axis == "cp"}
    sizes = (2 * LONG * (512 + 128) / 4, 2 * LONG * 512 / 128)
    assert sent == {(kind, size) for kind in ("all_gather", "reduce_scatter") for size in sizes}
    assert line(given, "context") == 2 * sizes[0]


def test_ranks_of_tp_gather_what_an_indexer_picks_once() -> None:
    """Numbers of 4 B: of 2,048 tokens in every layer, or of 512 entries in those that have an indexer."""
    for name, top_k, layers in (("deepseek-v3.2", 2048, 62), ("deepseek-v4-flash", 512, 21)):
        asked = inputs(name, nodes=32, sequence=4096, global_batch=64, stack="megatron-core")
        given = ask(asked, tp=4, pp=1, ep=64, etp=1, recompute="none").evaluation.step.transfers
        picks = [item for item in given if item.axis == "tp" and one(item.message) == 4 * top_k * 4096]
        assert {item.operation for item in picks} == {"all_gather"}
        assert sum(one(item.count) for item in picks) == layers
