"""Predictions for rows of tables: rows that differ in sizes alone are one block of plans, evaluated together."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from costmodel.documents.reader.library import CachedReader
from costmodel.estimate.shared.plan_batch import Block, Rows
from costmodel.estimate.training.plan_constraints import refused_rows
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training_answer.evaluate_training import Evaluation, evaluate
from costmodel.estimate.training_answer.predict_training import own_plan, plan_block
from costmodel.estimate.training_answer.training_error_band import banded
from costmodel.evidence.validate.spelling import CannotModel, invalid
from costmodel.evidence.validate.training_rows import RowScenario, row_inputs, row_scenario
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.run_table import SETTINGS
from costmodel.ground.counts import SIZES
from costmodel.ground.equation import Number
from costmodel.ground.record import record

RowCount = Callable[[int, int], None]  # rows that are done, of so many
Key = tuple[str, str]  # of a scenario: a part and a key in it
NODES: Key = ("cluster", "nodes")
SEQUENCE: Key = ("workload", "sequence")
BATCH: Key = ("workload", "global_batch")
LONGEST: Key = ("model", "max_sequence")
PLAN: dict[Key, str] = {("plan", name): name for name in SIZES}
SIZED = (*PLAN, NODES, SEQUENCE, BATCH, LONGEST)
TITLE: Key = ("model", "title")
_LARGEST = 1e12  # of a size that no check of a document refuses


@record
class Modelled:
    """The prediction for a row: its place in the block of plans that are evaluated together, and its imputed cells."""

    inputs: TrainingInputs
    evaluation: Evaluation
    place: int = 0
    filled: dict[str, str] = field(default_factory=dict)

    def figure(self, name: str) -> float:
        """The value of the row in a column of results."""
        return float(self.evaluation.costs.column(name)[self.place])

    def of_row(self, value: Number) -> float:
        """The value of the row in a number of the block, which may be an array over all rows."""
        return float(np.broadcast_to(value, len(self.evaluation.block))[self.place])


def modelled(row: CsvRow, shelf: CachedReader) -> Modelled:
    """The prediction for one row, or the reason why there is none."""
    (models,) = modelled_rows([row], shelf)
    if isinstance(models, CannotModel):
        raise models
    return models


def uncounted(done: int, rows: int) -> None:
    """A progress callback that does nothing."""


def modelled_rows(
    rows: Sequence[CsvRow], shelf: CachedReader, count: RowCount = uncounted
) -> list[Modelled | CannotModel]:
    """The prediction for each row, or the reason why there is none.

    count: is given the rows that are done, and all of them
    """
    models = dict[int, Modelled | CannotModel]()
    blocks = dict[str, list[tuple[int, RowScenario]]]()
    for place, row in enumerate(rows):
        count(place // 2, len(rows))  # to read a row is half the work
        try:
            asked = row_scenario(row, shelf)
        except CannotModel as refused:
            models[place] = refused
            continue
        blocks.setdefault(_structure(asked), []).append((place, asked))
    for block in blocks.values():
        count((len(rows) + len(models)) // 2, len(rows))
        models.update(zip((place for place, _ in block), _of_block([asked for _, asked in block], shelf), strict=True))
    return [models[place] for place in range(len(rows))]


def _structure(asked: RowScenario) -> str:
    """A key that rows of one batch share: the whole scenario except titles and sizes that become columns."""
    tree, left_out = {**asked.tree, "title": ""}, sorted({TITLE, *_columns(asked)})
    for part, key in left_out:
        if isinstance(tree[part], dict):
            tree[part] = {**tree[part], key: None}
    return json.dumps([tree, left_out], default=repr)


def _columns(asked: RowScenario) -> set[Key]:
    """The sizes that may differ inside a batch of rows; none if they affect the checks of documents."""
    tree = asked.tree
    if asked.row.text(SETTINGS):
        return set()
    sizes = {(part, key) for part, key in SIZED if tree[part].get(key) is not None}
    if not all(_is_plain(tree[part][key]) for part, key in sizes):
        return set()
    if tree["model"]["positions"] == "learned":  # whose table has as many rows
        sizes -= {SEQUENCE, LONGEST}
    node = tree["cluster"]["node"]
    if node["scale_up"]["domain"] > node["accelerators"]:  # a job of few nodes uses a part of a rack
        sizes.discard(NODES)
    return sizes


def _is_plain(size: float) -> bool:
    return 1 <= size <= _LARGEST and size == int(size)


def _of_block(row_scenarios: Sequence[RowScenario], shelf: CachedReader) -> list[Modelled | CannotModel]:
    """The predictions for rows with equal structure, evaluated as one block of plans."""
    try:
        inputs = row_inputs(row_scenarios[0], shelf)
    except CannotModel as refused:
        return [refused] * len(row_scenarios)
    own, _ = plan_block(inputs, own_plan(inputs))
    columns = {
        (part, key): np.array([one.tree[part][key] for one in row_scenarios], dtype=np.float64)
        for part, key in _columns(row_scenarios[0])
    }
    sizes = (columns.get(key, np.full(len(row_scenarios), getattr(own, name)[0])) for key, name in PLAN.items())
    block = Block(own.structure, *sizes)
    masks = refused_rows(_with_columns(inputs, columns), block)
    first = {int(place): code for code in reversed(masks) for place in np.flatnonzero(masks[code])}
    models: dict[int, Modelled | CannotModel] = {place: invalid(code) for place, code in first.items()}
    valid = [place for place in range(len(row_scenarios)) if place not in first]
    if valid:
        inputs = _with_columns(inputs, {key: column[valid] for key, column in columns.items()})
        evaluation = banded(inputs, evaluate(inputs, block.at(np.array(valid))))
        models |= {
            place: Modelled(inputs, evaluation, at, row_scenarios[place].filled) for at, place in enumerate(valid)
        }
    return [models[place] for place in range(len(row_scenarios))]


def _with_columns(inputs: TrainingInputs, columns: Mapping[Key, Rows]) -> TrainingInputs:
    """The inputs with a value for each row of a block, where any has another than the inputs."""
    nodes, sequence, batch = (
        usual if key not in columns or np.all(columns[key] == usual) else columns[key]
        for key, usual in ((NODES, inputs.nodes), (SEQUENCE, inputs.sequence), (BATCH, inputs.global_batch))
    )
    return replace(inputs, nodes=nodes, sequence=sequence, global_batch=batch)
