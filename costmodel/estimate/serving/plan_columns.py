"""Serving plans as columns: one row a plan."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import field
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.model import Layers, Model
from costmodel.estimate.model.shards import Shard, shard
from costmodel.ground.equation import Number, tracing, untraced
from costmodel.ground.record import record

Rows = NDArray[np.float64]
P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")

RARE = {"redundant_experts": 0.0, "dcp": 1.0}  # sizes that a plan names only where they differ from these


@record
class PlanColumns:
    """A batch of layouts as float columns of equal length.

    time_factor: on all times of the hardware and the engine, for the ends of bands; left out, 1
    straddles: 1 where domains have no room for every engine whole, so that ranks follow one another; left out, 0
    variant: the number of each row, where inputs have columns with a number for each row; no rows are alike then
    """

    tp: Rows
    pp: Rows
    ep: Rows
    dp_attention: Rows
    replicas: Rows
    budget: Rows
    redundant_experts: Rows = field(default_factory=lambda: np.zeros(1))  # of a layer; left out, none
    dcp: Rows = field(default_factory=lambda: np.ones(1))  # left out, every rank keeps whole sequences
    time_factor: Rows | None = None
    straddles: Rows | None = None
    variant: Rows | None = None

    def __post_init__(self) -> None:
        for name, none in RARE.items():
            if len(getattr(self, name)) != len(self.tp):
                object.__setattr__(self, name, np.full(len(self.tp), none))

    def __len__(self) -> int:
        return len(self.tp)

    @functools.cached_property
    def results_by_call(self) -> dict[tuple[object, ...], tuple[object, ...]]:
        """Cache for functions decorated with `once_for_sizes`: results, and the arguments whose ids are in the key."""
        return {}

    @functools.cached_property
    def stage_ranks(self) -> Number:
        """Accelerators of one pipeline stage of a replica; they share its experts."""
        return self.tp * self.dp_attention

    @functools.cached_property
    def ranks(self) -> Number:
        """Accelerators of a replica."""
        return self.pp * self.stage_ranks

    @functools.cached_property
    def shares_context(self) -> bool:
        """Whether any plan divides the KV cache of a sequence over ranks (dcp)."""
        return bool(np.any(np.asarray(self.dcp) > 1))

    @functools.cached_property
    def grouped(self) -> bool:
        """Whether any of the plans has several attention groups."""
        return bool(np.any(np.asarray(self.dp_attention) > 1))

    @functools.cached_property
    def staged(self) -> bool:
        """Whether any of the plans has several pipeline stages."""
        return bool(np.any(np.asarray(self.pp) > 1))

    def at(self, rows: NDArray[np.bool_] | NDArray[np.intp] | slice) -> PlanColumns:
        """The layouts in these rows."""
        return self._each(lambda column: column[rows])

    def beside(self, others: PlanColumns) -> PlanColumns:
        """These rows followed by the rows of others."""
        assert self.time_factor is None
        assert others.time_factor is None
        return PlanColumns(*(np.concatenate([getattr(each, name) for each in (self, others)]) for name in SIZES))

    def bare(self) -> PlanColumns:
        """The same plans with columns that a trace does not record."""
        with untraced():
            return self._each(lambda column: np.asarray(column).view(np.ndarray))

    def _each(self, of: Callable[[Rows], Rows]) -> PlanColumns:
        """The plans with a function applied to every column."""
        return PlanColumns(**{name: of(column) for name in _PARTS if (column := getattr(self, name)) is not None})

    def longer(self, time: Number) -> Number:
        """A time of the hardware or engine, multiplied by each row's time factor."""
        return longer(time, self.time_factor)


SIZES = ("tp", "pp", "ep", "dp_attention", "replicas", "budget", *RARE)
_PARTS = (*SIZES, "time_factor", "straddles", "variant")


def once_for_sizes(work: Callable[Concatenate[S, PlanColumns, P], R]) -> Callable[Concatenate[S, PlanColumns, P], R]:
    """Decorator that memoises a function of plan columns on these columns, but not while figures are traced.

    Other arguments are compared by identity, floats by value: a second call with the same model and layout returns the
    first result.
    """

    @functools.wraps(work)
    def call(first: S, layout: PlanColumns, /, *others: P.args, **named: P.kwargs) -> R:
        """The result for these plans, from the cache if it was computed for the same arguments."""
        if tracing():
            return work(first, layout, *others, **named)
        values = (*others, *named.values())
        key = (work, id(first), *named, *((each,) if type(each) is float else id(each) for each in values))
        if key not in layout.results_by_call:
            layout.results_by_call[key] = work(first, layout, *others, **named), first, values
        result: R = layout.results_by_call[key][0]  # type: ignore[assignment]
        return result

    return call


@once_for_sizes
def shard_of(model: Model, layout: PlanColumns, kind: Layers) -> Shard:
    """A layer kind as one rank of each plan stores it."""
    return shard(model, kind, layout.tp, layout.stage_ranks)


def longer(time: Number, factor: Number | None) -> Number:
    """A time multiplied by a factor, if there is one."""
    return time if factor is None else factor * time


def sizes_of(layout: PlanColumns, row: int = 0) -> dict[str, float]:
    """A plan's sizes; without rare ones at their default."""
    found = {name: float(getattr(layout, name)[row]) for name in SIZES}
    return {name: size for name, size in found.items() if size != RARE.get(name)}
