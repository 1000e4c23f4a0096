"""Serving plans as columns, one row a plan: where engines lie, and replicas evaluated once for plans alike."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import field, fields, is_dataclass, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.model import Layers, Model
from costmodel.equations.network.topology import domains_filled, groups_beside
from costmodel.estimate.machine.process_groups import Group, group
from costmodel.estimate.model.shards import Shard, shard
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.results import Costs
from costmodel.ground.equation import Number, term, tracing, untraced
from costmodel.ground.record import record
from costmodel.ground.shared_columns import BATCH, CUT, Factored, Plans
from costmodel.ground.solvers import Curves, Line

# --- serving plans as columns: one row a plan


Rows = NDArray[np.float64]
P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")

RARE = {"redundant_experts": 0.0, "dcp": 1.0}  # sizes that a plan names only where they differ from these


@record
class PlanColumns:
    """Serving plans as float columns of equal length, one row per plan.

    time_factor: factor on all times of the hardware and the engine, for the ends of error bands; 1 if None
    straddles: 1 if no domain has room for every whole engine, so that ranks are placed in order; 0 if None
    variant: number of each row, if the inputs are columns with one number per row; no two rows are equal then
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


# --- evaluates replicas once for all plans that differ only in the number of replicas


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
    if isinstance(found, Costs):
        return Costs(_take_rows(found.columns, which, count), len(which))
    if not is_dataclass(found) or isinstance(found, type):
        return found
    return replace(found, **{part.name: _take_rows(getattr(found, part.name), which, count) for part in fields(found)})


# --- engines on scale-up domains


@once_for_sizes
def engine_group(inputs: ServingInputs, layout: PlanColumns, name: str, ranks: Number, stride: Number = 1.0) -> Group:
    """A process group of an engine; its replica, stage or tp group lies in one domain if the domain has room."""
    return group(inputs, name, ranks, stride, _unit_ranks(inputs, layout))


def _unit_ranks(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Ranks of an engine that a scheduler places in one domain: replica, stage or tp group."""
    if layout.straddles is not None and np.any(layout.straddles):
        return np.where(layout.straddles, 1.0, _whole_ranks(layout, inputs.domain))
    return _whole_ranks(layout, inputs.domain)


def _whole_ranks(layout: PlanColumns, domain: Number) -> Number:
    """Ranks of the largest unit that fits in a domain: replica, pipeline stage or tp group; 1 if none fits."""
    found: Number = np.where(layout.tp <= domain, layout.tp, 1.0)
    if layout.grouped:
        found = np.where(layout.stage_ranks <= domain, layout.stage_ranks, found)
    if layout.staged or layout.grouped:
        found = np.where(layout.ranks <= domain, layout.ranks, found)
    return found


def crosses_domains(inputs: ServingInputs, layout: PlanColumns) -> NDArray[np.bool_]:
    """Which of these plans have a tensor-parallel group over several domains."""
    if layout.straddles is None and np.all(np.asarray(layout.tp) <= inputs.domain):
        return np.zeros(len(layout), dtype=bool)
    with untraced():
        domains = engine_group(inputs, layout, "tp", layout.tp).domains
    return np.broadcast_to(np.asarray(domains) > 1, (len(layout),))


def filled_with(inputs: ServingInputs, layout: PlanColumns, most: float | None = None) -> PlanColumns:
    """The layout with as many replicas as fit on the accelerators without crossing domains; at least one.

    most: accelerators that they may have, where those are fewer than all
    """
    accelerators, domain = float(inputs.ranks) if most is None else most, float(inputs.domain)
    each, ranks = _whole_ranks(layout, domain), np.asarray(layout.ranks, dtype=np.float64)
    with untraced():
        room = np.asarray(groups_beside(np.ceil(accelerators / domain), domain, each, 0.0, each))
        whole, found = np.floor(room * each / ranks), np.floor(accelerators / ranks)
    replicas = np.where(whole >= 1, np.minimum(found, whole), found)
    return replace(layout, replicas=np.maximum(replicas, 1.0))


def prefill_beside(inputs: ServingInputs, prefill: PlanColumns, decode: PlanColumns) -> PlanColumns:
    """Prefill instances, at most as many as fit in domains beside the decode instances; at least one."""
    domain = float(inputs.domain)
    if float(inputs.ranks) <= domain:
        return prefill
    with untraced():
        domains = float(domains_filled(inputs.ranks, domain))
        (each, wanted), (larger, count) = (_units_in_one_domain(half, domain) for half in (prefill, decode))
        room = np.asarray(groups_beside(domains, domain, larger, count, each))
    fewer = np.floor(room / (wanted / prefill.replicas))
    return replace(prefill, replicas=np.where(fewer >= 1, np.minimum(prefill.replicas, fewer), prefill.replicas))


def with_straddling(inputs: ServingInputs, *layouts: PlanColumns) -> tuple[PlanColumns, ...]:
    """Layouts marked where the domains cannot place every engine in one domain."""
    layouts = tuple(layout if layout.straddles is None else replace(layout, straddles=None) for layout in layouts)
    if float(inputs.ranks) <= float(inputs.domain):
        return layouts
    straddles = np.logical_not(_have_room(inputs, *layouts))
    if not np.any(straddles):
        return layouts
    return tuple(replace(layout, straddles=straddles.astype(np.float64)) for layout in layouts)


def _have_room(inputs: ServingInputs, *layouts: PlanColumns) -> NDArray[np.bool_]:
    """Whether first fit places all engines of a plan in the domains without splitting any.

    A plan with more accelerators than there are gets the domains that it fills.
    """
    domain = float(inputs.domain)
    with untraced(), term("room of domains"):
        placed = sum(np.asarray(layout.replicas * layout.ranks, dtype=np.float64) for layout in layouts)
        domains = np.asarray(domains_filled(np.maximum(float(inputs.ranks), placed), domain))
        first, second = (_units_in_one_domain(layout, domain) for layout in (layouts[0], layouts[-1]))
        if len(layouts) == 1:
            second = (second[0], np.zeros(len(layouts[0])))
        room: NDArray[np.bool_] = np.zeros(len(layouts[0]), dtype=bool)
        for (larger, count), (ranks, wanted) in ((first, second), (second, first)):
            room |= np.asarray(groups_beside(domains, domain, larger, count, ranks)) >= wanted
    return room


def _units_in_one_domain(layout: PlanColumns, domain: float) -> tuple[Rows, Rows]:
    """Number of ranks in each unit that must lie in one domain, and the number of such units."""
    each = np.asarray(_whole_ranks(layout, domain), dtype=np.float64)
    return each, np.asarray(layout.replicas * layout.ranks, dtype=np.float64) / each
