"""Evaluation: a plan alone is its row of a table, a traced one is an untraced one, every column is a number."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from costmodel.documents.schemas.results import BAND_ENDS, OF_STEP, TRAINING_COLUMNS, machine_name
from costmodel.estimate.shared.plan_batch import Block, Structure, one_row
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.memory_breakdown import LINES
from costmodel.estimate.training.plan_constraints import micro_batches
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.estimate.training_answer.training_error_band import banded
from costmodel.ground.counts import SIZES
from costmodel.ground.equation import trace
from estimate.cases import inputs, model

STRUCTURES = [
    ("megatron-core", Structure()),
    ("megatron-core", Structure(zero=0, sequence_parallel=False, order="tp-cp-pp-dp")),
    ("megatron-core", Structure(zero=2, recompute="full")),
    ("megatron-core", Structure(zero=3, schedule="gpipe")),
    ("megatron-2021", Structure(zero=0, recompute="selective", sequence_parallel=False)),
    ("fsdp2", Structure(zero=3, recompute="selective")),
    ("fsdp2", Structure(zero=2, schedule="interleaved")),
]
every_structure = pytest.mark.parametrize(("stack", "structure"), STRUCTURES, ids=str)


def priced(stack: str, **more: Any) -> TrainingInputs:
    shape = model(layers=32, hidden=2048, kv_heads=8, gated=True, tied=True)
    workload, assume = {"tokens": "1 T"}, {"price": "2 USD/GPU/h"}
    return inputs(shape, nodes=16, global_batch=256, stack=stack, workload=workload, assume=assume, **more)


def table(structure: Structure) -> Block:
    """Over a hundred rows."""
    chunks = (2.0, 4.0) if structure.schedule == "interleaved" else (1.0,)
    rows = [
        (128 / (tp * pp), tp, pp, vpp, micro_batch, 1.0, 1.0)
        for tp, pp, vpp, micro_batch in itertools.product((1.0, 2.0, 8.0, 16.0), (1.0, 2.0, 4.0), chunks, (1.0, 2.0))
    ] * (5 if structure.schedule != "interleaved" else 3)
    ones = np.ones(len(rows))
    return Block(structure, *(np.array(column) for column in zip(*rows, strict=True)), ones, ones)


@every_structure
def test_a_plan_alone_is_its_row_of_a_table(stack: str, structure: Structure) -> None:
    asked, block = priced(stack), table(structure)
    assert len(block) > 100
    many = banded(asked, evaluate(asked, block))
    for row in range(0, len(block), 7):
        plan = one_row(structure, **{name: float(getattr(block, name)[row]) for name in SIZES})
        alone = banded(asked, evaluate(asked, plan))
        assert many.costs.row(row) == pytest.approx(alone.costs.row(), rel=1e-12, abs=1e-15)


@every_structure
def test_a_traced_evaluation_is_an_untraced_one(stack: str, structure: Structure) -> None:
    asked = priced(stack)
    block = one_row(structure, dp=8.0, tp=4.0, pp=4.0, vpp=2.0, micro_batch=2.0)
    plain = banded(asked, evaluate(asked, block))
    with trace() as recorder:
        traced = banded(asked, evaluate(asked, block))
    assert traced.costs.row() == plain.costs.row()
    assert len(recorder.steps) > 100
    for name in LINES:
        for stage in range(3):
            assert number(traced.ledger.line(name, stage)) == number(plain.ledger.line(name, stage))


@every_structure
def test_every_column_is_there_finite_and_no_less_than_nothing(stack: str, structure: Structure) -> None:
    asked, block = priced(stack), table(structure)
    assert set(evaluate(asked, block).costs.columns) == {*OF_STEP} - {*BAND_ENDS}
    given = banded(asked, evaluate(asked, block)).costs
    assert list(given.columns) == [name for name in OF_STEP if name in given.columns]
    assert set(given.columns) == set(OF_STEP)
    for name in OF_STEP:
        column = given.column(name)
        assert column.shape == (given.rows,)
        assert np.all(np.isfinite(column)), name
        assert np.all(column >= 0) or name == "memory_free"


def test_a_run_without_tokens_or_price_says_so() -> None:
    asked = inputs(model())
    row = evaluate(asked, one_row(Structure(), dp=8.0, tp=1.0, pp=1.0, vpp=1.0, micro_batch=1.0)).costs.row()
    unknown = {name for name, value in row.items() if np.isnan(value)}
    assert {"run_time", "run_cost"} <= unknown <= {"run_time", "run_cost", "cost_per_mtoken"}


def test_columns_carry_unit_meaning_and_direction() -> None:
    assert all(
        column.meaning and column.better in ("lower", "higher", "neither") for column in TRAINING_COLUMNS.values()
    )
    assert machine_name("step_time") == "step_time_s"
    assert machine_name("memory_peak") == "memory_peak_bytes"
    assert machine_name("mfu") == "mfu"


def test_micro_batches_share_out_the_global_batch() -> None:
    asked, block = priced("megatron-core"), table(Structure())
    count = np.asarray(micro_batches(asked, block))
    np.testing.assert_allclose(count * block.dp * block.micro_batch, 256)
