"""What several residual streams multiply, and what they leave as it is."""

from __future__ import annotations

from costmodel.estimate.model.shards import model_parameters
from estimate.cases import ask, inputs, line, mixed, model, one

HIDDEN, LAYERS, STREAMS = 1024, 8, 4
SEVERAL = {**model(), "residual_streams": STREAMS}


def test_parameters_are_a_matrix_biases_and_factors_for_each_half_and_a_mean_at_the_end() -> None:
    plain, several = (float(model_parameters(inputs(shape).model)) for shape in (model(), SEVERAL))
    columns = STREAMS * (STREAMS + 2)
    each = columns * STREAMS * HIDDEN + columns + 3
    assert several - plain == 2 * LAYERS * each + STREAMS * STREAMS * HIDDEN + STREAMS + 1


def test_all_streams_are_kept_by_recompute_and_sent_between_stages() -> None:
    plain, several = (ask(inputs(shape), recompute="full", pp=2) for shape in (model(), SEVERAL))
    assert line(several, "activations") == STREAMS * line(plain, "activations")
    sent = [
        next(one(item.message) for item in given.evaluation.step.transfers if item.axis == "pp")
        for given in (plain, several)
    ]
    assert sent[1] == STREAMS * sent[0]


def test_ranks_of_tp_exchange_what_a_half_reads_and_writes_alone() -> None:
    plain, several = (ask(inputs(shape), tp=4) for shape in (model(), SEVERAL))
    sent = [
        {(item.operation, one(item.message)) for item in given.evaluation.step.transfers if item.axis == "tp"}
        for given in (plain, several)
    ]
    assert sent[0] == sent[1]


def test_a_half_keeps_all_streams_and_its_result() -> None:
    """Over ranks of sequence parallelism as the stream is."""
    found = [[line(ask(inputs(shape), tp=tp), "activations") for tp in (1, 4)] for shape in (model(), SEVERAL)]
    more = 2 * LAYERS * 2 * (STREAMS + 1) * HIDDEN * 4096
    assert [wide - narrow for narrow, wide in zip(*found, strict=True)] == [more, more / 4]


def test_a_table_of_experts_is_memory_and_no_parameter() -> None:
    plain, hashed = (mixed(top_k=2, **more) for more in ({}, {"hashed": True}))
    assert model_parameters(inputs(plain).model) == model_parameters(inputs(hashed).model)
    held = [line(ask(inputs(shape)), "weights") for shape in (plain, hashed)]
    assert held[1] - held[0] == LAYERS * 32768 * 2 * 4
