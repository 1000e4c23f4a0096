"""Costs: columns of results, each with its unit, its meaning and which way is better."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.results import RESULTS, RUN_RESULTS, ResultColumn, results
from costmodel.ground.equation import Number
from costmodel.ground.record import record
from costmodel.ground.shared_columns import Factored

if TYPE_CHECKING:
    import pandas


BANDED = (
    "step_time",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "flop_rate",
    "mfu",
    "memory_peak",
    "cost_per_mtoken",
    "run_time",
    "run_cost",
    "goodput",
    "energy",
    "emissions",
    "mtbf",
)


def _with_bands(*, of_run: bool) -> Iterator[tuple[str, ResultColumn]]:
    """Every column; a banded column is followed by the ends of its band."""
    for name, column in results(of_run=of_run).items():
        yield name, column
        if name in BANDED:
            yield f"{name}_low", replace(column, meaning=f"P10 of {name}: one run in ten lies below", better="neither")
            yield f"{name}_high", replace(column, meaning=f"P90 of {name}: one run in ten lies above", better="neither")


OF_STEP: dict[str, ResultColumn] = dict(_with_bands(of_run=False))
OF_RUN: dict[str, ResultColumn] = dict(_with_bands(of_run=True))
COLUMNS = OF_RUN | OF_STEP  # all there are; the meaning of those that any scenario has is that of one without run
BAND_ENDS = tuple(name for name in COLUMNS if name not in RESULTS and name not in RUN_RESULTS)


def number(value: Number) -> float:
    """The value of a block of one row."""
    return float(np.asarray(value).flat[0])


def _at(value: Any, index: int) -> float:
    """One plan's value of a column; a shared value is stored once."""
    column = value if isinstance(value, Factored) else np.atleast_1d(value)
    return float(column[index if len(column) > 1 else 0])


@record
class Costs:
    """Results of a block of plans, one array per column."""

    columns: dict[str, Number]
    rows: int

    def column(self, name: str) -> NDArray[np.float64]:
        """One column with a value per plan; NaN where the scenario does not ask for it."""
        return np.broadcast_to(np.asarray(self.columns.get(name, math.nan), dtype=np.float64), (self.rows,))

    def row(self, index: int = 0) -> dict[str, float]:
        """One plan's results as plain numbers: seconds, bytes, FLOP/s, shares of one, USD."""
        return {name: _at(value, index) for name, value in self.columns.items()}

    def frame(self) -> pandas.DataFrame:
        """All results as a pandas frame; column names contain the unit."""
        import pandas

        data: dict[str, Any] = {machine_name(name): self.column(name) for name in self.columns}
        return pandas.DataFrame(data)


_SUFFIXES = {
    "s": "_s",
    "B": "_bytes",
    "FLOP/s": "_flop_per_s",
    "USD": "_usd",
    "J": "_j",
    "kg": "_kg",
    "1": "",
    "1/s": "",
}


def machine_name(name: str) -> str:
    """The name of a column in machine output, with its unit as suffix."""
    return with_unit(name, COLUMNS[name].unit)


def with_unit(name: str, unit: str) -> str:
    """A name with its unit as suffix; unchanged if it already contains the unit."""
    return name if "_bytes_" in name else name + _SUFFIXES[unit]
