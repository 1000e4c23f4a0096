"""Serving plans as columns: one row a plan."""

from __future__ import annotations

import functools
from dataclasses import field, fields

import numpy as np
from numpy.typing import NDArray

from costmodel.ground.equation import Number
from costmodel.ground.record import record

Rows = NDArray[np.float64]


@record
class PlanColumns:
    """Equal-length float columns; `share` is of the load, that of one replica."""

    tp: Rows
    pp: Rows
    ep: Rows
    dp_attention: Rows
    replicas: Rows
    budget: Rows
    redundant_experts: Rows = field(default_factory=lambda: np.zeros(1))  # of a layer; left out, none

    def __post_init__(self) -> None:
        if len(self.redundant_experts) != len(self.tp):
            object.__setattr__(self, "redundant_experts", np.zeros(len(self.tp)))

    def __len__(self) -> int:
        return len(self.tp)

    @functools.cached_property
    def stage_ranks(self) -> Number:
        """Accelerators of one pipeline stage of a replica, which share its experts."""
        return self.tp * self.dp_attention

    @functools.cached_property
    def ranks(self) -> Number:
        """Accelerators of a replica."""
        return self.pp * self.stage_ranks

    def at(self, rows: NDArray[np.bool_] | NDArray[np.intp] | slice) -> PlanColumns:
        """Some of the rows."""
        return PlanColumns(*(getattr(self, name)[rows] for name in SIZES))

    def own(self, tokens: Number) -> Number:
        """Of the tokens, or sequences, of a step those of one group of attention."""
        return tokens / self.dp_attention


SIZES = tuple(part.name for part in fields(PlanColumns))


def sizes_of(layout: PlanColumns, row: int = 0) -> dict[str, float]:
    """A plan's sizes; copies of experts where it has any."""
    found = {name: float(getattr(layout, name)[row]) for name in SIZES}
    return found if found["redundant_experts"] else {name: found[name] for name in SIZES[:-1]}
