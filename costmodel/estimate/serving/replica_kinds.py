"""Evaluates replicas once for all plans that differ only in the number of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.estimate.serving.plan_columns import PlanColumns, Rows
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.record import record
from costmodel.ground.shared_columns import BATCH, CUT, Factored, Plans
from costmodel.ground.solvers import Curves, Line

T = TypeVar("T")
CUTS = ("tp", "pp", "ep", "dp_attention", "redundant_experts", "dcp")  # how a replica cuts the model
_UNSHARED = CUTS[:-1]
WORTH_STORING = 4  # plans of a cut, from which on it pays to store it once
FEWEST_STORED = 1000  # plans under which arrays are so short that it never does


@record
class ReplicaKinds:
    """Distinct replicas, and the index of each plan's replica; `which` is None if every plan has its own."""

    layout: PlanColumns
    which: NDArray[np.intp] | None = None

    def of_plans(self, found: T) -> T:
        """Results of the distinct replicas, as one row for each plan."""
        return found if self.which is None else rows_of(found, self.which, len(self.layout))


def cuts_of(layout: PlanColumns) -> tuple[str, ...]:
    """Names of the columns that decide how a replica shards the model."""
    cuts = CUTS if layout.shares_context else _UNSHARED
    return (*cuts, *(name for name in ("straddles", "variant") if getattr(layout, name) is not None))


def replica_kinds(inputs: ServingInputs, layout: PlanColumns) -> ReplicaKinds:
    """The distinct replicas of some plans; with a shared queue or bursts every plan counts as distinct."""
    if len(layout) == 1 or inputs.case.scenario.assume.routing == "least-loaded" or inputs.gaps != 1:
        return ReplicaKinds(layout)
    sizes = [np.asarray(getattr(layout, name)) for name in (*cuts_of(layout), "budget")]
    first, which = distinct([*sizes, *numbered_factors(layout)])
    return ReplicaKinds(layout) if len(first) == len(layout) else ReplicaKinds(layout.at(first), which)


def numbered_factors(layout: PlanColumns) -> list[NDArray[np.intp]]:
    """The index of each row's time factor among the distinct factors; an empty list without factors."""
    return [] if layout.time_factor is None else [np.unique(layout.time_factor, return_inverse=True)[1]]


def shared_cuts(layout: PlanColumns) -> PlanColumns:
    """The plans, in which equal values of model sharding are stored once."""
    cuts = cuts_of(layout)
    first, which = distinct([np.asarray(getattr(layout, name)) for name in cuts])
    if len(layout) < max(WORTH_STORING * len(first), FEWEST_STORED):
        return layout
    plans = Plans({CUT: which}, BATCH)
    columns: dict[str, Any] = {name: Factored(np.asarray(getattr(layout, name))[first], CUT, plans) for name in cuts}
    return replace(layout, **columns)


def of_each_plan(found: T) -> T:
    """A result with shared columns expanded to one value per plan."""
    columns: Any = found
    plain: T = replace(
        columns, **{part.name: _without_factors(getattr(columns, part.name)) for part in fields(columns)}
    )
    return plain


def _without_factors(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, Factored) else value


def distinct(columns: Sequence[Rows | NDArray[np.intp]]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first row of each distinct combination, and the index of each row's combination.

    >>> [places.tolist() for places in distinct([np.array([2.0, 1.0, 2.0]), np.array([5.0, 5.0, 5.0])])]
    [[1, 0], [1, 0, 1]]
    """
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values = column.astype(np.int64)
        code = code * (int(values.max()) + 1) + values if len(values) else code
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


def where_rows(mask: NDArray[np.bool_], one: T, other: T) -> T:
    """Rows of `one` where the mask is true, else rows of `other`."""
    found: T = one if mask.all() else _choose_rows(mask, one, other)
    return found


def _choose_rows(mask: NDArray[np.bool_], one: Any, other: Any) -> Any:
    """Values of `one` where the mask is true, else of `other`, inside dicts and dataclasses too."""
    if isinstance(one, dict):
        return {key: _choose_rows(mask, one[key], other[key]) for key in one}
    if is_dataclass(one) and not isinstance(one, type):
        names = [part.name for part in fields(one)]
        return replace(one, **{name: _choose_rows(mask, getattr(one, name), getattr(other, name)) for name in names})
    if isinstance(one, str | int | bool | None) or one is other:
        return one
    return np.where(mask, one, other)


def rows_of(found: T, which: NDArray[np.intp], count: int) -> T:
    """The rows `which` of a result, in each of its parts."""
    taken: T = _take_rows(found, which, count)
    return taken


def _take_rows(found: Any, which: NDArray[np.intp], count: int) -> Any:
    """The rows `which` of every array inside a value, such as a dataclass of columns."""
    if isinstance(found, np.ndarray):
        if found.shape[-1:] != (count,):
            return found
        return found[which] if found.ndim == 1 else found[..., which]  # the second takes half as long again
    if found is None or isinstance(found, float):
        return found
    if isinstance(found, (Curves, Line)):
        return found.rows(which)
    if isinstance(found, tuple):
        return tuple(_take_rows(part, which, count) for part in found)
    if isinstance(found, dict):
        return {name: _take_rows(part, which, count) for name, part in found.items()}
    if not is_dataclass(found) or isinstance(found, type):
        return found
    return replace(found, **{part.name: _take_rows(getattr(found, part.name), which, count) for part in fields(found)})
