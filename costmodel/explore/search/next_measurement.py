"""How sure the first line of a search is, and which measurements would improve the choice of a plan.

Errors that all plans share in equal parts do not affect their order. So each kind of error counts by how much it moves
each plan, together with each plan's own error. Logarithms of figures are jointly normal. Means are taken over fixed
points, so that an answer never varies.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.results import COLUMNS
from costmodel.documents.text.files import file_text
from costmodel.equations.run.uncertainty import (
    chance_within,
    covariance_left,
    end_spread,
    expected_error,
    expected_move,
    pays_after,
)
from costmodel.explore.search.stream import PlanErrors, PoolError, SearchResult
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

Array = NDArray[np.float64]
SECONDS = 600.0  # that a measurement takes: ten minutes, as the question states
KERNELS = "kernels"  # the table of costmodel measure, and the kinds of error that it shows
TIMED = ("matmul", "attention", "memory-bound")
START = "start-up"  # the log of an engine that starts, and the kind of error that it shows: of the cache's pool
_MOST = 12  # plans
_POINTS = 2048  # in so many dimensions; as many again mirrored
_NOTHING = 1e-12  # variance: a spread of a millionth
_LEAST_GAIN = 1e-5  # as a share of the figure


@record
class Expected:
    """Logarithms of the figures of plans, lower is better, and their uncertainty.

    covariance: of the errors of all plans, then of the kinds of error, each with variance 1
    """

    places: Array
    covariance: Array
    kinds: tuple[str, ...]

    @property
    def first(self) -> int:
        """The index of the plan that is expected to be best."""
        return int(np.argmin(self.places))

    def shift(self, entry: int) -> Array:
        """How much each plan's prediction is expected to change when a plan or kind of error is measured."""
        return np.asarray(
            expected_move(self.covariance[: len(self.places), entry], self.covariance[entry, entry] ** 0.5)
        )

    def after(self, entry: int, error: float = 0.0) -> Expected:
        """A copy updated by a measurement.

        error: logarithm of measured over expected; positive if worse
        """
        shared, spread = self.covariance[:, entry], self.covariance[entry, entry] ** 0.5
        places = self.places + expected_error(error, shared[: len(self.places)], spread)
        left = covariance_left(self.covariance, shared[:, None], shared[None, :], spread)
        return Expected(places, np.asarray(left), self.kinds)

    def is_open(self, entry: int) -> bool:
        """Whether a plan or a kind of error is still uncertain."""
        return bool(self.covariance[entry, entry] > _NOTHING)


@record
class Measurement:
    """A possible measurement and what it is expected to save.

    name: kernels, start-up, or a kind of collectives; empty if plans are run. lines: of the plans that run, from 1.
    busy: accelerators times seconds. gain: share of the figure. pays_after: the shortest job [s] for which it pays.
    saved: seconds saved of a job of known length
    """

    name: str
    lines: tuple[int, ...]
    ranks: float
    busy: float
    gain: float
    pays_after: float
    saved: float


@record
class Advice:
    """The chance that line 1 is best, and the measurements to make, most useful first.

    chance: that line 1 is the best of those compared. loss: the average loss of choosing it, as a share of its figure.
    measured: lines with measured over predicted time. order: lines by what is expected now, each with its figure over
    the predicted one. pools: lines with logged over predicted cache size
    """

    compared: int
    chance: float
    loss: float
    measurements: tuple[Measurement, ...]
    measured: Mapping[int, float]
    order: tuple[tuple[int, float], ...]
    pools: Mapping[int, float]


def advised(
    found: SearchResult[Any, Any], measured: Mapping[int, float], pools: Mapping[int, float] | None = None
) -> Advice:
    """The measurements to make before choosing a plan of a search.

    measured: lines with measured over predicted time. pools: lines with logged over predicted cache size

    Raises:
        CostModelError: the ranked result has no band, fewer than two plans work, or a line is not in the ranking
    """
    plans = [*itertools.takewhile(lambda plan: not plan.broken, found.best[:_MOST])]
    objective = found.ranked_by
    if len(plans) < 2:
        sentence = "fewer than two plans that work are shown, so that there is none to choose"
        raise fail("C025", sentence, None, "--top 10 shows more, where more work")
    if not all(worse_spread(plan.costs, objective) for plan in plans):
        hint = "--set objective=… names a result with P10 and P90"
        raise fail("C025", f"plans are ranked by {objective}, which has no band here", None, hint)
    errors = [found.errors(plan) for plan in plans]
    prior = expected(found, plans, errors)
    now, pools = prior, pools or {}
    for line in (*pools, *measured):
        if not 1 <= line <= len(plans):
            sentence = f"line {line} is none of the {len(plans)} that work and are compared"
            raise fail("C025", sentence, None, "name one of these")
    for line, ratio in pools.items():
        now = _after_start(now, errors[line - 1], found.inputs_of(plans[line - 1].variant).case.accelerator.name, ratio)
    for line, ratio in measured.items():
        now = now.after(line - 1, math.log(ratio) - float(now.places[line - 1] - prior.places[line - 1]))
    whole = _factor(now.covariance[: len(plans), : len(plans)])
    sign = COLUMNS[found.inputs.case.kind][objective].sign
    drawn, changes = now.places + _points(whole), np.exp(sign * (now.places - prior.places))
    return Advice(
        len(plans),
        float(np.mean(drawn.argmin(axis=1) == now.first)),
        expected_gain(now, whole),
        tuple(_worthwhile(now, errors, plans[now.first].costs.get("run_time", math.nan))),
        measured,
        tuple((int(place) + 1, float(changes[place])) for place in np.argsort(now.places, kind="stable")),
        pools,
    )


def logged_pool_ratio(found: SearchResult[Any, Any], line: int, name: str, place: Place) -> float:
    """The KV-cache size in a start-up log over the predicted one; a fault if the log is of another plan."""
    from costmodel.evidence.validate.validate_serving import logged_pool
    from costmodel.exchange.logs.trainer_log import is_engine_start
    from costmodel.exchange.tables.serving_table import read_serving_runs

    plan, text = found.best[line - 1], file_text(name)
    (row,) = read_serving_runs(name).rows if is_engine_start(text) else (None,)
    held = None if row is None else logged_pool(row)
    if row is None or held is None:
        raise fail("C025", f"{name} states no memory of a KV cache", place, "name the start-up log of an engine")
    stated = {"tp": row.number("tp"), "pp": row.number("pp") or 1.0}
    if other := [f"{key} {value:g}" for key, value in stated.items() if value not in (None, plan.sizes[key])]:
        raise fail("C025", f"{name} is of {other[0]}, not of line {line}", place, "name the log of this line's engine")
    pool = found.errors(plan).pool
    if pool is None:
        what = f"the pool of its cache does not move the {found.ranked_by} of line {line}"
        raise fail("C025", what, place, "state its time")
    return held / pool.held


def first_better(found: SearchResult[Any, Any]) -> list[float]:
    """The chance that the best plan beats each of the best plans; errors that plans share cancel."""
    plans = found.best
    if not plans or any(plan.variant for plan in plans):
        return []
    now = expected(found, plans, [found.errors(plan) for plan in plans])
    own = np.diagonal(now.covariance)[: len(plans)]
    apart = np.sqrt(np.maximum(own[0] + own - 2 * now.covariance[0, : len(plans)], 0.0))
    return [*map(float, np.asarray(chance_within(1.0, np.exp(now.places - now.places[0]), apart)))]


def _after_start(now: Expected, errors: PlanErrors, part: str, ratio: float) -> Expected:
    """The expectation after a start-up log whose cache is `ratio` times the predicted one."""
    assert errors.pool is not None  # of a line whose log is read
    kinds = [_of_start(errors.pool), f"{_of_start(errors.pool)} of {part}"]
    entry = next(at for at, kind in enumerate(now.kinds, len(now.places)) if kind in kinds)
    z = -math.log(ratio) / errors.pool.spread
    return now.after(entry, z) if now.is_open(entry) else now


def _of_start(pool: PoolError) -> str:
    """The name of the kind of error that a start-up log of this engine reveals."""
    return f"{START} {pool.engine}"


def worse_spread(costs: Mapping[str, float], name: str) -> float:
    """The larger of the spreads of a result towards both ends of its band; 0 without a band."""
    value, *ends = (costs.get(each, math.nan) for each in (name, f"{name}_low", f"{name}_high"))
    known = all(0 < each < math.inf for each in (value, *ends))
    return max(float(end_spread(value, end)) for end in ends) if known else 0.0


def expected(found: SearchResult[Any, Any], plans: Sequence[Any], errors: Sequence[PlanErrors]) -> Expected:
    """The expected figures of some plans, with the errors that they share and each plan's own."""
    objective = found.ranked_by
    sign = COLUMNS[found.inputs.case.kind][objective].sign
    parts = [found.inputs_of(plan.variant).case.accelerator.name for plan in plans]
    kinds: dict[str, Array] = {}
    shown = [{**each.kinds, **({} if each.pool is None else {_of_start(each.pool): each.pool.move})} for each in errors]
    for kind in dict.fromkeys(kind for each in shown for kind in each):
        for part in dict.fromkeys(parts):
            shares = np.array([each.get(kind, 0.0) * (own == part) for each, own in zip(shown, parts, strict=True)])
            if shares.any():
                kinds[kind if len({*parts}) == 1 else f"{kind} of {part}"] = shares
    moves = np.stack([*kinds.values()], axis=1) if kinds else np.zeros((len(plans), 0))
    own = np.array([each.own for each in errors])
    spreads = np.array([worse_spread(plan.costs, objective) for plan in plans])
    banded = np.array([sum(move**2 for move in each.kinds.values()) for each in errors])
    common = np.sqrt(np.maximum(spreads**2 - own**2 - banded, 0.0))
    together = moves @ moves.T + np.outer(common, common) + np.diag(own**2)
    covariance = np.block([[together, moves], [moves.T, np.eye(moves.shape[1])]])
    return Expected(sign * np.log([plan.costs[objective] for plan in plans]), covariance, tuple(kinds))


def _worthwhile(now: Expected, errors: Sequence[PlanErrors], job: float) -> Iterator[Measurement]:
    """The measurements that gain more than they cost in a job of `job` seconds (NaN if endless), best first."""
    ranks, found = errors[now.first].job, list[Measurement]()
    for name, lines, count, entries in _possible(now, errors):
        shifts, then = list[Array](), now
        for entry in entries:
            shifts.append(then.shift(entry))
            then = then.after(entry)
        gain = expected_gain(now, np.stack(shifts, axis=1)) if shifts else 0.0
        busy = count * SECONDS * max(len(lines), 1)
        if gain >= _LEAST_GAIN:
            found.append(Measurement(name, lines, count, busy, gain, float(pays_after(busy, gain, ranks)), gain * job))

    def worth(each: Measurement) -> float:
        return each.gain if math.isnan(job) else each.saved * ranks - each.busy

    yield from sorted((each for each in found if worth(each) > 0), key=worth, reverse=True)


def _possible(now: Expected, errors: Sequence[PlanErrors]) -> Iterator[tuple[str, tuple[int, ...], float, list[int]]]:
    """Every possible measurement: its name or lines, accelerators, and the errors that it reveals."""
    unknown = [place for place in range(len(errors)) if now.is_open(place)]
    for places in ([place] for place in unknown):
        yield "", (places[0] + 1,), errors[places[0]].ranks, places
    first = now.first
    for other in unknown if first in unknown else ():
        if other != first:
            ranks = max(errors[first].ranks, errors[other].ranks)
            yield "", (first + 1, other + 1), ranks, [first, other]
    groups = {name: max(each.groups.get(name, 0.0) for each in errors) for each in errors for name in each.groups}
    pool = errors[first].pool
    starts = {} if pool is None else {START: pool.ranks}
    for name, ranks in {KERNELS: 1.0, **groups, **starts}.items():
        shown = TIMED if name == KERNELS else (_of_start(pool) if pool is not None and name == START else name,)
        kinds = [place for place, kind in enumerate(now.kinds, len(errors)) if kind.partition(" of ")[0] in shown]
        yield name, (first + 1,) if name == START else (), ranks, [entry for entry in kinds if now.is_open(entry)]


def expected_gain(now: Expected, shifts: Array) -> float:
    """The expected gain of choosing after a measurement instead of before it, as a logarithm.

    shifts: how it may move each plan, one column for each independent part
    """
    moved = now.places + _points(shifts)
    return float(np.mean(moved[:, now.first] - moved.min(axis=1)))


def _factor(covariance: Array) -> Array:
    """The symmetric square root of a covariance, which does not depend on the choice of eigenvectors."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _points(factor: Array) -> Array:
    """Fixed sample points of a normal distribution with this square root of its covariance, one per row."""
    return np.asarray(_standard(factor.shape[1]) @ factor.T)


@functools.cache
def _standard(dimensions: int) -> Array:
    """Points that fill a standard normal distribution evenly, with their mirror images."""
    root = 1.5
    for _ in range(64):  # of x^(d + 1) = x + 1: steps by its powers leave no gaps
        root = (1.0 + root) ** (1.0 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    shares = (0.5 + np.outer(np.arange(1, _POINTS + 1), steps)) % 1.0
    half = np.reshape([NormalDist().inv_cdf(share) for share in shares.flat], shares.shape)
    points = np.concatenate([half, -half])
    return np.asarray(points @ np.linalg.inv(np.linalg.cholesky(points.T @ points / len(points))).T)
