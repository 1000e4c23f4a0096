"""Predicted against measured of serving: times and throughput of benchmarks, and the pool of the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.equations.run.economics import share
from costmodel.equations.serving.load.closed_loop import loop_tokens_per_gpu
from costmodel.evidence.validate.outcomes import ServingQuantity
from costmodel.evidence.validate.serving.benchmarks import Predicted, predictions
from costmodel.evidence.validate.serving.serving_rows import ServingRow, serving_row
from costmodel.evidence.validate.serving.start_logs import logged_pool, predicted_pool
from costmodel.evidence.validate.skip_reasons import CannotModel
from costmodel.exchange.tables.csv_cells import CsvRow

COLUMN: dict[str, str] = {
    "tpot": "tpot",
    "ttft": "ttft",
    "throughput": "tokens_per_s_per_gpu",
    "cache": "cache_pool",
}
MOST_APART = 0.2  # of requests in flight by Little's law over those stated
Answer = tuple[float | None, Mapping[str, float], Mapping[str, str], CannotModel | None]


def serving_answers(
    rows: Sequence[CsvRow],
    quantity: ServingQuantity,
    shelf: CachedReader,
    count: Callable[[int, int], None] = lambda done, rows: None,
) -> Iterator[Answer]:
    """Of each row what was measured, what is predicted, which cells were filled, and why nothing is.

    count: is given the rows that are done, and all of them
    """
    if quantity == "cache":
        for done, row in enumerate(rows):
            count(done, len(rows))
            yield _cached(row, shelf)
        return
    asked = [_asked(row, shelf) for row in rows]
    found = iter(predictions([row for row in asked if isinstance(row, ServingRow)], shelf, count))
    for row, question in zip(rows, asked, strict=True):
        if isinstance(question, CannotModel):
            yield stated(row, quantity), {}, {}, question
            continue
        predicted = next(found)
        yield _answer(question, quantity, predicted)


def _asked(row: CsvRow, shelf: CachedReader) -> ServingRow | CannotModel:
    try:
        return serving_row(row, shelf)
    except CannotModel as refused:
        return refused


def _cached(row: CsvRow, shelf: CachedReader) -> Answer:
    """The pool of a start-up log."""
    value = logged_pool(row)
    try:
        if value is None:
            raise CannotModel("V005", "log_kv_gib empty")
        predicted, filled = predicted_pool(row, shelf)
    except CannotModel as refused:
        return value, {}, {}, refused
    return value, predicted, filled, None


def _answer(question: ServingRow, quantity: ServingQuantity, predicted: Predicted) -> Answer:
    """A row's figure beside the predicted one, unless the row cannot be true."""
    value = measured(question, quantity)
    try:
        if isinstance(predicted, CannotModel):
            raise predicted
        if value is None:
            raise CannotModel("V005", f"nothing measured of {quantity}")
        plausible(question, predicted)
    except CannotModel as refused:
        return value, {}, {}, refused
    return value, predicted, question.filled, None


def plausible(question: ServingRow, predicted: Mapping[str, float]) -> None:
    """Refuse a row whose figures cannot be true together."""
    _possible(question.row, predicted["floor"])
    _consistent(question)


def stated(row: CsvRow, quantity: ServingQuantity) -> float | None:
    """The measured cell of a quantity."""
    cells = {"tpot": "tpot_s", "ttft": "ttft_s", "throughput": "tokens_per_s_per_gpu"}
    return row.number(cells[quantity]) if quantity in cells else None


def measured(question: ServingRow, quantity: ServingQuantity) -> float | None:
    """The measured figure; tokens a second of a closed loop follow from its times where no cell states them."""
    row = question.row
    value = stated(row, quantity)
    first, token = row.number("ttft_s"), row.number("tpot_s")
    if quantity != "throughput" or value is not None or first is None or token is None:
        return value
    output = question.scenario["workload"]["output"]
    return float(loop_tokens_per_gpu(question.users, output, first, token, question.gpus))


def _possible(row: CsvRow, floor: float) -> None:
    """Refuse a row whose tokens come faster than weights can be read; speculation looks like a typo."""
    for name in ("tpot_s", "ttft_s"):
        value = row.number(name)
        if value is not None and value < floor:
            sentence = f"{name} {value:.3g} is less than {floor:.3g} s, in which the weights are read once"
            raise CannotModel("V014", f"{sentence}: tokens drafted beside, or another layout")


def _consistent(question: ServingRow) -> None:
    """Refuse a row whose requests in flight, rate and latency are not of one run."""
    row, output = question.row, question.scenario["workload"]["output"]
    first, token, rate = row.number("ttft_s"), row.number("tpot_s"), row.number("requests_per_s")
    tokens = row.number("tokens_per_s_per_gpu")
    if first is None or token is None or (rate is None and tokens is None):
        return
    with np.errstate(all="ignore"):
        closed = float(loop_tokens_per_gpu(question.users, output, first, token, question.gpus))
    given = tokens if tokens is not None else (rate or 0.0) * output / question.gpus
    flying = question.users * float(share(given, closed))
    if abs(flying / question.users - 1) > MOST_APART:
        words = f"rate and latency keep {flying:.3g} requests in flight, and concurrency is {question.users:g}"
        raise CannotModel("V015", f"{words}: is the rate a second's, and of one replica?")
