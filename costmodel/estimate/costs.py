"""Costs: columns of results, each with its unit, its meaning and which way is better."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from costmodel.equation import Number
from costmodel.factored import Factored

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Column:
    """What a column of results says."""

    unit: str
    meaning: str
    better: Literal["lower", "higher", "neither"]


_COLUMNS: dict[str, Column] = {
    "step_time": Column("s", "wall-clock time of an optimizer step", "lower"),
    "tokens_per_s": Column("1/s", "tokens trained a second by the whole job", "higher"),
    "tokens_per_s_per_gpu": Column("1/s", "tokens trained a second by each accelerator", "higher"),
    "flop_rate": Column("FLOP/s", "model FLOP a second of each accelerator", "higher"),
    "mfu": Column("1", "model FLOP over what the peak would allow; hfu counts recomputed ones too", "higher"),
    "hfu": Column("1", "executed FLOP, recomputed ones too, over what the peak would allow", "higher"),
    "matmul": Column("s", "matrix products of the busiest stage", "lower"),
    "attention": Column("s", "attention cores of the busiest stage", "lower"),
    "memory_bound": Column("s", "norms, activation functions, loss: operations bound by memory bandwidth", "lower"),
    "launch": Column("s", "time the device waits for the host to issue operations", "lower"),
    "tp_exposed": Column("s", "tensor-parallel communication that compute does not hide", "lower"),
    "cp_exposed": Column("s", "context-parallel communication that attention does not hide", "lower"),
    "pp_exposed": Column("s", "sends between stages that compute does not hide", "lower"),
    "ep_exposed": Column("s", "tokens on their way to experts and back that compute does not hide", "lower"),
    "dp_exposed": Column("s", "data-parallel communication that compute does not hide", "lower"),
    "bubble": Column("s", "time the busiest stage waits for others", "lower"),
    "bubble_share": Column("1", "bubble over the step", "lower"),
    "offload_exposed": Column("s", "traffic over the host link that compute does not hide", "lower"),
    "optimizer": Column("s", "optimizer step", "lower"),
    "memory_peak": Column("B", "memory of the worst stage as the driver shows it", "lower"),
    "memory_share": Column("1", "memory_peak over usable memory; limits bound it as memory", "lower"),
    "memory_free": Column("B", "usable memory less memory_peak", "higher"),
    "host_memory": Column("B", "host memory and drives of a node that offload takes", "lower"),
    "host_share": Column("1", "host_memory over what the node has, of memory or drives the fuller", "lower"),
    "tp_volume": Column("B", "bytes a rank sends a step for tensor parallelism", "lower"),
    "cp_volume": Column("B", "bytes a rank sends a step for context parallelism", "lower"),
    "ep_volume": Column("B", "bytes a rank sends a step for tokens to their experts and back", "lower"),
    "pp_volume": Column("B", "bytes a rank sends a step between stages", "lower"),
    "dp_volume": Column("B", "bytes a rank sends a step for data parallelism", "lower"),
    "communication_efficiency": Column("1", "compute over compute and exposed communication", "higher"),
    "scaling_efficiency": Column(
        "1", "speed over that of as many accelerators without exposed communication and bubble", "higher"
    ),
    "cost_per_mtoken": Column("USD", "rent for a million tokens", "lower"),
    "run_time": Column("s", "wall-clock time of the token budget, without failures", "lower"),
    "run_cost": Column("USD", "rent for the token budget", "lower"),
}

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
)


def _with_bands() -> Iterator[tuple[str, Column]]:
    """Every column, and behind a banded one the ends of its band."""
    for name, column in _COLUMNS.items():
        yield name, column
        if name in BANDED:
            yield f"{name}_low", Column(column.unit, f"P10 of {name}: one run in ten lies below", "neither")
            yield f"{name}_high", Column(column.unit, f"P90 of {name}: one run in ten lies above", "neither")


COLUMNS: dict[str, Column] = dict(_with_bands())
BAND_ENDS = tuple(name for name in COLUMNS if name not in _COLUMNS)


def number(value: Number) -> float:
    """The plain number of a block of one row."""
    return float(np.asarray(value).flat[0])


def _at(value: Any, index: int) -> float:
    """One plan's figure of a column; what all share is held once."""
    column = value if isinstance(value, Factored) else np.atleast_1d(value)
    return float(column[index if len(column) > 1 else 0])


@dataclass(frozen=True)
class Costs:
    """Results of a block of plans, one array a column."""

    columns: dict[str, Number]
    rows: int

    def column(self, name: str) -> NDArray[np.float64]:
        """One column, as long as the block."""
        return np.broadcast_to(np.asarray(self.columns[name], dtype=np.float64), (self.rows,))

    def row(self, index: int = 0) -> dict[str, float]:
        """One plan's results as plain numbers."""
        return {name: _at(value, index) for name, value in self.columns.items()}

    def frame(self) -> pandas.DataFrame:
        """All of it as a pandas frame, column names with their unit."""
        import pandas

        data: dict[str, Any] = {machine_name(name): self.column(name) for name in self.columns}
        return pandas.DataFrame(data)


_SUFFIXES = {"s": "_s", "B": "_bytes", "FLOP/s": "_flop_per_s", "USD": "_usd", "1": "", "1/s": ""}


def machine_name(name: str) -> str:
    """The name of a column in machine output, with its unit as suffix."""
    return name + _SUFFIXES[COLUMNS[name].unit]
