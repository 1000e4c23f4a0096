"""The memory ledger: limits, published figures, and each line derived again from the documents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel.documents.reader.library import read
from costmodel.documents.schemas.model import Model
from costmodel.estimate.model.shards import model_parameters
from costmodel.estimate.training.memory_breakdown import ALLOCATED, LINES, OF_BACKWARD, RESERVED
from costmodel.estimate.training_answer.evaluate_training import FITS, TIGHT, verdict
from costmodel.estimate.training_answer.predict_training import Answer
from estimate.cases import ask, inputs, line, machine, mixed, model, one, written_out

GIB = 2.0**30
STATES = ("weights", "gradients", "optimizer")

# Korthikanti et al. (2022), figure 1 and the shapes of table 3: one replica on A100, fp16, dropout, unfused attention.
PAPER: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "22B": ("megatron-22b", 1, 4, {"tp": 8, "micro_batch": 4}),
    "175B": ("gpt-3-175b", 8, 64, {"tp": 8, "pp": 8, "vpp": 3, "micro_batch": 1}),
}


def paper(name: str, recompute: str, *, sequence_parallel: bool) -> Answer:
    shape, nodes, global_batch, plan = PAPER[name]
    asked = inputs(shape, node="dgx-a100", nodes=nodes, sequence=2048, global_batch=global_batch, stack="megatron-2021")
    given = ask(asked, recompute=recompute, sequence_parallel=sequence_parallel, **plan)
    assert given.refused == ()
    return given


def states(given: Answer) -> float:
    return sum(line(given, name) for name in STATES)


def peak(given: Answer) -> float:
    return given.evaluation.costs.row()["memory_peak"]


# ── The figure of the paper ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "recompute", "sequence_parallel", "gibibytes"),
    [
        ("22B", "none", False, 59.25),
        ("175B", "none", False, 66.84),
        ("22B", "selective", True, 9.56),
        ("175B", "selective", True, 12.35),
    ],
)
def test_activations_of_korthikantis_figure_1(
    name: str, recompute: str, sequence_parallel: bool, gibibytes: float
) -> None:
    """Within 0.5 %: our line also holds the masks of the dropout after the embedding, under 0.4 %."""
    kept = line(paper(name, recompute, sequence_parallel=sequence_parallel), "activations") / GIB
    assert kept == pytest.approx(gibibytes, rel=5e-3)
    assert kept > gibibytes - 5e-3, "the masks only add"


@pytest.mark.parametrize(("name", "layers", "hidden", "pp"), [("22B", 48, 6144, 1), ("175B", 96, 12288, 8)])
def test_states_are_18_bytes_a_parameter_and_the_worst_stage_holds_more_than_layers(
    name: str, layers: int, hidden: int, pp: int
) -> None:
    """45.56 GiB = 18 B × 12 L h² / (t p) of both shapes leaves out embeddings, biases and norms."""
    matrices = 18 * 12 * layers * hidden**2 / (8 * pp)
    assert matrices / GIB == pytest.approx(45.56, abs=5e-3)
    t, f = 8, 4 * hidden
    biases = 3 * hidden / t + hidden + f / t + hidden
    layer = 12 * hidden**2 / t + biases + 2 * 2 * hidden
    embedding = 51200 * hidden / t + 2048 * hidden
    final_norm = 2 * hidden if pp == 1 else 0
    held = states(paper(name, "full", sequence_parallel=False))
    assert held == pytest.approx(18 * (layers / pp * layer + embedding + final_norm), rel=1e-12)
    assert held / matrices == pytest.approx(1.02, abs=0.02)


def test_a_tied_table_is_held_once_by_a_stage_with_both_ends() -> None:
    held = {tied: states(ask(inputs(model(tied=tied)), zero=0)) for tied in (True, False)}
    assert held[False] - held[True] == pytest.approx(18 * 32768 * 1024)
    split = {tied: states(ask(inputs(model(tied=tied)), zero=0, pp=2)) for tied in (True, False)}
    assert split[True] == split[False], "at either end of a pipeline it is held all the same"


AHEAD = {"depth": 1, "layer": {**model()["layers"][0], "count": 1}}


def of_stages(shape: dict[str, Any], **plan: Any) -> list[float]:
    """States of the first and of the last stage."""
    lines = ask(inputs(shape), **plan).evaluation.ledger.lines
    return [sum(one(lines[name][stage]) for name in ("weights", "gradients", "optimizer")) for stage in (0, 2)]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    ("plan", "copied"),
    [({"pp": 2}, True), ({"pp": 2, "vpp": 2}, True), ({}, False), ({"pp": 2, "vpp": 2, "schedule": "zb-v"}, False)],
    ids=str,
)
def test_prediction_holds_a_copy_of_the_embedding_behind_the_last_stage(
    plan: dict[str, Any], copied: bool, tied: bool
) -> None:
    """Its layer, projection and three norms, and 18 B more of a table where nothing else has one at the end."""
    added = [ahead - plain for plain, ahead in zip(*(
        of_stages({**model(tied=tied), **more}, zero=0, tp=2, **plan) for more in ({}, {"prediction": AHEAD})
    ), strict=True)]  # fmt: skip
    module = 12 * 1024**2 / 2 + 2 * 1024 + 2 * 1024 * 1024 / 2 + 3 * 1024  # eh_proj is column-parallel
    table = 32768 * 1024 / 2 if copied and not tied else 0
    assert added[0 if plan.get("schedule") == "zb-v" else 1] == pytest.approx(18 * (module + table))


def test_one_stage_holds_the_whole_model() -> None:
    """18 bytes of every published parameter, the vocabulary being a multiple of 128."""
    for name in ("llama-3-8b", "llama-3.2-1b"):
        shape: Model = read("model", name)
        assert shape.published is not None
        assert states(ask(inputs(name), zero=0)) == 18 * shape.published.parameters


# ── Limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stack", ["megatron-core", "fsdp2"])
def test_memory_falls_with_zero(stack: str) -> None:
    asked = inputs(nodes=8, global_batch=512, stack=stack)
    offered = sorted(asked.stack.zero)
    given = [ask(asked, zero=zero) for zero in offered]
    assert np.all(np.diff([states(each) for each in given]) < 0)
    assert np.all(np.diff([peak(each) for each in given]) < 0)


def test_states_under_each_zero() -> None:
    """Megatron's recipe on 64 ranks: 18, 6 + 12/64, 2 + 16/64, 18/64 bytes a parameter."""
    asked, parameters = inputs(nodes=8, global_batch=512), 8030261248
    each = [states(ask(asked, zero=zero)) / parameters for zero in range(4)]
    assert each == pytest.approx([18, 6 + 12 / 64, 2 + 16 / 64, 18 / 64])


@pytest.mark.parametrize("sequence_parallel", [True, False])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_memory_falls_with_tp(sequence_parallel: bool, recompute: str) -> None:
    asked = inputs(nodes=8, global_batch=512)
    peaks = [
        peak(ask(asked, tp=tp, sequence_parallel=sequence_parallel, recompute=recompute, zero=1)) for tp in (1, 2, 4, 8)
    ]
    assert np.all(np.diff(peaks) < 0)


def test_memory_falls_with_pp_in_states_and_not_in_activations() -> None:
    """1F1B holds p micro-batches of L/p layers on its first stage: activations stay, states go."""
    asked = inputs(model(vocab=1024), global_batch=64)
    given = {pp: ask(asked, pp=pp, zero=0) for pp in (1, 2, 4, 8)}
    kept = [one(each.evaluation.ledger.line("activations", 0)) for each in given.values()]
    assert kept == pytest.approx(kept[0] + np.zeros(4))
    assert np.all(np.diff([states(each) for each in given.values()]) < 0)


@pytest.mark.parametrize("stack", ["megatron-2021", "fsdp2"])
def test_recompute_keeps_less(stack: str) -> None:
    asked = inputs(stack=stack)
    modes = [ask(asked, recompute=mode) for mode in ("none", "selective", "full")]
    kept = [line(each, "activations") + line(each, "recompute") for each in modes]
    assert kept[0] > kept[1] > kept[2]
    assert line(modes[0], "recompute") == 0


def test_selective_recompute_of_fused_attention_keeps_as_much() -> None:
    asked = inputs()
    assert peak(ask(asked, recompute="none")) == peak(ask(asked, recompute="selective"))


def test_full_recompute_keeps_one_input_a_layer_and_one_layer_whole() -> None:
    asked = inputs(model(vocab=1024), sequence=4096)
    none, full = ask(asked, recompute="none"), ask(asked, recompute="full")
    tokens, hidden, layers = 4096, 1024, 8
    assert line(full, "activations") == 2 * tokens * hidden * layers
    assert line(full, "recompute") == pytest.approx(line(none, "activations") / layers)


def test_a_loss_and_a_layer_that_runs_again_are_never_held_at_once() -> None:
    """The head's backward lets the loss go before the last layer is computed again: the larger of both counts."""
    small, large = (inputs(model(vocab=vocab)) for vocab in (1024, 131072))
    lines = [[line(ask(asked, recompute="full"), name) for name in ("recompute", "logits")] for asked in (small, large)]
    assert [[value > 0 for value in each] for each in lines] == [[True, False], [False, True]]
    none = [line(ask(asked, recompute="none"), "logits") for asked in (small, large)]
    assert none[0] < lines[0][0]
    assert none[1] == lines[1][1] > lines[0][0]


@pytest.mark.parametrize(("schedule", "first", "vpp"), [("gpipe", "1f1b", 1), ("looped-bfs", "interleaved", 2)])
def test_losses_of_all_micro_batches_wait_where_every_forward_comes_first(schedule: str, first: str, vpp: int) -> None:
    """Of each but the one at work: an fp32 softmax, and what the head and the norm before it read, 2 bytes each."""
    asked = inputs(model(), stack="fsdp2", nodes=1)
    plan = {"pp": 4, "vpp": vpp, "zero": 2, "recompute": "none"}
    ledgers = [ask(asked, schedule=name, **plan).evaluation.ledger for name in (first, schedule)]
    alone, all_of_them = (one(ledger.line("logits", 2)) for ledger in ledgers)
    micro_batches, tokens = 64 / 2, 4096
    waiting = tokens * (4 * 32768 + 2 * 2 * 1024)
    assert all_of_them - alone == pytest.approx((micro_batches - 1) * waiting)


def test_sequence_parallelism_splits_what_tensor_parallelism_repeats() -> None:
    """Of a modern block 8 h a token repeats over tp without it."""
    asked = inputs(model())
    kept = {on: line(ask(asked, tp=8, sequence_parallel=on), "activations") for on in (True, False)}
    assert kept[False] - kept[True] == pytest.approx(8 * (8 * 1024 * 4096) * (1 - 1 / 8))


@pytest.mark.parametrize(
    ("schedule", "vpp", "live"),
    [("1f1b", 1, (4, 3, 1)), ("gpipe", 1, (16, 16, 16)), ("interleaved", 2, (11 / 2, 9 / 2, 5 / 2))],
)
def test_live_micro_batches_by_stage(schedule: str, vpp: int, live: tuple[float, ...]) -> None:
    """First, second and last stage of four with sixteen micro-batches; interleaved counts chunks of half a stage."""
    asked = inputs(model(), global_batch=32)
    ledger = ask(asked, pp=4, vpp=vpp, schedule=schedule).evaluation.ledger
    layers = line(ask(asked, pp=1), "activations") / 4
    assert [one(ledger.line("activations", stage)) / layers for stage in range(3)] == pytest.approx(live)


def test_one_stage_holds_one_micro_batch_under_any_schedule() -> None:
    asked = inputs(model(), global_batch=64)
    assert peak(ask(asked, schedule="gpipe")) == peak(ask(asked, schedule="1f1b"))


# ── Lines and verdicts ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("stack", "plan"),
    [
        ("megatron-core", {"tp": 2, "pp": 2}),
        ("megatron-2021", {"tp": 4, "pp": 2, "vpp": 2}),
        ("fsdp2", {"tp": 2, "recompute": "none"}),
    ],
)
def test_lines_sum_to_the_peak_of_the_worst_stage(stack: str, plan: dict[str, Any]) -> None:
    given = ask(inputs(stack=stack), **plan)
    ledger, row = given.evaluation.ledger, given.evaluation.costs.row()
    peaks = [sum(one(ledger.line(name, stage)) for name in LINES) for stage in range(3)]
    assert peaks == pytest.approx([one(each) for each in ledger.peaks])
    assert row["memory_peak"] == pytest.approx(max(peaks))
    assert row["memory_free"] == pytest.approx(given.inputs.usable_memory - max(peaks))
    assert row["memory_share"] == pytest.approx(max(peaks) / given.inputs.usable_memory)
    assert all(one(ledger.line(name, stage)) >= 0 for name in LINES for stage in range(3))
    assert set(ALLOCATED) < set(RESERVED) < set(LINES)


def test_no_peak_is_less_than_its_weights_and_optimizer_states() -> None:
    """Of a model of 87 GiB of frozen weights on GPUs of 79.6 GiB: it cannot fit."""
    workload = {"tuning": {"method": "lora"}}
    given = ask(inputs("mixtral-8x7b", sequence=32768, global_batch=8, stack="axolotl", workload=workload), zero=2)
    row, ledger = given.evaluation.costs.row(), given.evaluation.ledger
    resident = max(sum(one(ledger.line(name, stage)) for name in ("weights", "optimizer")) for stage in range(3))
    assert resident > given.inputs.usable_memory
    assert resident <= row["memory_peak_low"] < row["memory_peak"] < row["memory_peak_high"]
    assert row["fit_chance"] == 0


@pytest.mark.parametrize(
    ("hidden", "vocab", "unit", "matrix"),
    [
        (1024, 32768, 12 * 1024**2, 32768 * 1024),
        (16384, 32768, 1e9, 4 * 16384**2),
        (32768, 32768, 4 * 32768**2, 4 * 32768**2),
    ],
)
def test_deepspeed_gathers_no_more_than_a_billion(hidden: int, vocab: int, unit: float, matrix: float) -> None:
    """Weights in 2 bytes of a layer, or of 1e9 parameters, or of one larger matrix; the gradient of one as well."""
    asked = inputs(model(hidden=hidden, heads=hidden // 64, vocab=vocab), stack="deepspeed")
    assert line(ask(asked, zero=3), "gathered") == pytest.approx(2 * max(unit, matrix) + 2 * matrix, rel=1e-4)


@pytest.mark.parametrize(
    ("stack", "gradients", "nbytes"),
    [
        ("megatron-deepspeed", "fp32", 2 * 500e6 * 4),
        ("megatron-deepspeed", "bf16", 2 * 500e6 * 2),
        ("ddp", "fp32", 2 * 25 * 2**20),  # 25 MiB of whatever type
        ("ddp", "bf16", 2 * 25 * 2**20),
    ],
)
def test_buckets_hold_so_many_gradients_or_so_many_bytes(stack: str, gradients: str, nbytes: float) -> None:
    asked = inputs(stack=stack, workload={"gradients": gradients})
    assert line(ask(asked), "buckets") == nbytes
    assert line(ask(asked, tp=8), "buckets") == 0  # nobody to send to


def test_fragmentation_and_runtime() -> None:
    asked = inputs(assume={"fragmentation": 0.1})
    given = ask(asked, tp=2)
    assert line(given, "fragmentation") == pytest.approx(0.1 * sum(line(given, name) for name in ALLOCATED))
    assert line(given, "runtime") == 2**30 + 4 * 400 * 2**20
    assert line(ask(inputs(assume={"fragmentation": 0}), tp=2), "fragmentation") == 0


def test_gathered_layers_under_zero_3_alone() -> None:
    """FSDP holds two layers in bf16 and gradients of one twice, and both tables; on one rank one layer and gradient."""
    asked = inputs(stack="fsdp2", nodes=2, global_batch=64)
    layer, both_tables = 218_112_000, 2 * 128256 * 4096 + 4096
    assert line(ask(asked, zero=3), "gathered") == 2 * 2 * layer + 2 * 4 * layer + 2 * both_tables
    assert line(ask(asked, zero=2), "gathered") == 0
    alone = machine(1, "llama-3-8b", stack="fsdp2")
    assert line(ask(alone, zero=3), "gathered") == 2 * layer + 4 * layer + 2 * both_tables
    assert line(ask(alone, zero=2), "gathered") == 0


@pytest.mark.parametrize(("gradients", "units"), [("bf16", (2 * 2 + 2 * 2, 2 + 2 * 2)), ("fp32", (4 + 8, 2 + 8))])
def test_weights_not_gathered_ahead_meet_no_gradients_of_others(gradients: str, units: tuple[int, int]) -> None:
    """Bytes a parameter of a layer: two units ahead of each other, or one, beside two gradients on their way."""
    shape, workload = model(layers=8, vocab=1024), {"gradients": gradients}
    stacks = [written_out("stack", "fsdp2", overlap={"ahead": ahead}) for ahead in (True, False)]
    both, one_at_a_time = (
        line(ask(inputs(shape, stack=stack, workload=workload), zero=3), "gathered") for stack in stacks
    )
    assert both - one_at_a_time == pytest.approx((units[0] - units[1]) * (12 * 1024**2 + 2 * 1024), rel=1e-3)


def test_what_no_rank_shares_is_read_as_it_is_kept() -> None:
    """DeepSpeed keeps 16-bit weights, and on one rank reads those."""
    assert line(ask(machine(1, stack="deepspeed"), zero=3), "gathered") == 0
    assert line(ask(machine(2, stack="deepspeed"), zero=3), "gathered") > 0


def test_logits_lie_on_the_last_stage() -> None:
    """6 bytes a logit and the inputs of the last norm and of the head."""
    ledger = ask(inputs(), pp=2, tp=2, micro_batch=2).evaluation.ledger
    tokens = 2 * 4096
    assert one(ledger.line("logits", 0)) == 0
    assert one(ledger.line("logits", 2)) == 6 * tokens * 128256 / 2 + 2 * 2 * tokens * 4096 / 2


@pytest.mark.parametrize(
    ("shape", "plan"),
    [
        (model(hidden=4096), {"zero": 0}),
        (model(hidden=4096), {"zero": 1}),
        (model(hidden=4096), {"zero": 0, "pp": 2}),
        (mixed(count=8, ffn_hidden=65536), {"zero": 1, "ep": 2}),
    ],
    ids=["whole", "sharded", "pipeline", "experts"],
)
def test_a_step_takes_the_place_of_backward(shape: dict[str, Any], plan: dict[str, Any]) -> None:
    """InternEvo's makes 12 bytes for each parameter it updates, as many as its states are; of other optimizers 4."""
    asked = [inputs(shape, stack="internevo", workload={"optimizer": name}) for name in ("adamw", "lion")]
    adamw, lion = (ask(each, recompute="full", **plan).evaluation.ledger for each in asked)
    for stage in range(3):
        gone = sum(one(adamw.line(name, stage)) for name in OF_BACKWARD)
        states = one(adamw.line("optimizer", stage))
        assert one(adamw.line("update", stage)) == pytest.approx(max(states - gone, 0))
        assert one(lion.line("update", stage)) == pytest.approx(max(states / 3 - gone, 0))
    assert one(adamw.line("update", 0)) > 0


def test_a_step_in_place_makes_nothing() -> None:
    """As Megatron's, which is fused; PyTorch's own makes 4 of its 8 bytes of states."""
    assert line(ask(inputs(model(hidden=4096)), zero=0, recompute="full"), "update") == 0
    asked = inputs(model(hidden=4096), stack="ddp")
    gone = sum(line(given := ask(asked, zero=0, recompute="full"), name) for name in OF_BACKWARD)
    assert line(given, "update") == pytest.approx(max(line(given, "optimizer") / 2 - gone, 0))


@pytest.mark.parametrize("pp", [1, 2])
def test_autocast_holds_a_copy_of_every_matrix_till_the_loss(pp: int) -> None:
    """2 bytes a parameter of layers and head; the embedding has none, and a tied table one as the head."""
    for tied in (False, True):
        given = ask(inputs(model(tied=tied), stack="ddp"), pp=pp, recompute="none").evaluation.ledger
        layers, table = 8 / pp * (12 * 1024**2 + 2 * 1024), 32768 * 1024 + 1024
        found = [one(given.line("gathered", stage)) for stage in (0, 2)]
        assert found == [2 * (layers + (table if pp == 1 else 0)), 2 * (layers + table)]


def test_activations_grow_with_the_micro_batch_and_states_do_not() -> None:
    asked = inputs()
    one_, two = ask(asked, micro_batch=1), ask(asked, micro_batch=2)
    assert line(two, "activations") == 2 * line(one_, "activations")
    assert states(two) == states(one_)


def test_written_out_stacks_are_the_shipped_ones() -> None:
    assert peak(ask(inputs(stack=written_out("stack", "megatron-core")), tp=2)) == peak(ask(inputs(), tp=2))


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0, "fits"),
        (0.90, "fits"),
        (0.9001, "tight"),
        (1.0, "tight"),
        (1.0001, "does not fit"),
        (7.0, "does not fit"),
    ],
)
def test_verdicts(share: float, said: str) -> None:
    assert verdict(share) == said
    assert (FITS, TIGHT) == (0.90, 1.00)


def test_scores_that_are_computed_again_are_held_once() -> None:
    """Selective recompute of unfused attention: while backward is in a layer its scores are there after all."""
    asked = inputs("megatron-22b", sequence=2048, stack="megatron-2021", global_batch=4)
    none, selective = (ask(asked, tp=8, recompute=mode) for mode in ("none", "selective"))
    scores = (line(none, "activations") - line(selective, "activations")) / 48
    assert line(selective, "recompute") == pytest.approx(scores)
    assert line(none, "recompute") == 0


@pytest.mark.parametrize("shape", ["nemotron-h-8b", "mpt-7b", "llama-3-8b", "mixtral-8x7b"])
@pytest.mark.parametrize("tp", [1, 8])
def test_recompute_of_operations_never_keeps_more(shape: str, tp: int) -> None:
    none, selective = (ask(inputs(shape, stack="maxtext"), tp=tp, recompute=mode) for mode in ("none", "selective"))
    assert line(selective, "activations") <= line(none, "activations")


ALONE = written_out("stack", "fsdp1", name="alone", weights="bf16")


@pytest.mark.parametrize(("stack", "width"), [("fsdp1", 4), ("fsdp2", 4), (ALONE, 2)], ids=["fsdp1", "fsdp2", "bf16"])
@pytest.mark.parametrize("zero", [2, 3])
def test_a_sharded_gradient_has_the_type_of_the_weight_that_is_kept(stack: Any, width: int, zero: int) -> None:
    """Seen on PyTorch 2.13: `.grad` of a flat parameter in fp32 is fp32, whatever it is reduced in."""
    given = ask(machine(8, model(), stack=stack), zero=zero, pp=1)
    assert line(given, "gradients") == width * float(model_parameters(given.inputs.model)) / 8
