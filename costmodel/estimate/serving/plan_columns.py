"""Serving plans as columns: one row a plan."""

from __future__ import annotations

import functools
from dataclasses import field, fields

import numpy as np
from numpy.typing import NDArray

from costmodel.ground.equation import Number
from costmodel.ground.record import record

Rows = NDArray[np.float64]

RARE = {"redundant_experts": 0.0, "dcp": 1.0}  # sizes that a plan names only where they differ from these


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
    dcp: Rows = field(default_factory=lambda: np.ones(1))  # left out, every rank keeps whole sequences

    def __post_init__(self) -> None:
        for name, none in RARE.items():
            if len(getattr(self, name)) != len(self.tp):
                object.__setattr__(self, name, np.full(len(self.tp), none))

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

    @functools.cached_property
    def shares_context(self) -> bool:
        """Whether ranks of any of the plans divide the cache of a sequence by tokens."""
        return bool(np.any(np.asarray(self.dcp) > 1))

    def at(self, rows: NDArray[np.bool_] | NDArray[np.intp] | slice) -> PlanColumns:
        """Some of the rows."""
        return PlanColumns(*(getattr(self, name)[rows] for name in SIZES))

    def beside(self, others: PlanColumns) -> PlanColumns:
        """These rows and others."""
        return PlanColumns(*(np.concatenate([getattr(each, name) for each in (self, others)]) for name in SIZES))


SIZES = tuple(part.name for part in fields(PlanColumns))


def sizes_of(layout: PlanColumns, row: int = 0) -> dict[str, float]:
    """A plan's sizes; those that are rare where it has them."""
    found = {name: float(getattr(layout, name)[row]) for name in SIZES}
    return {name: size for name, size in found.items() if size != RARE.get(name)}
