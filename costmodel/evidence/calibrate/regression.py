"""Constants of a closed form from measured times: robust, damped Gauss-Newton on the logarithm of the error.

The loss of a residual r = ln(predicted / measured) is soft-L1, 2 c² (√(1 + (r/c)²) − 1), so that a few rows far off
do not bend the fit. Constants are fitted as logarithms inside their bounds. A constant that the rows hardly determine
stays near its usual value, the nearer the noisier the rows. The fit is deterministic: no random numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.ground.record import record

Array = NDArray[np.float64]
Columns = Mapping[str, Array | float]
SCALE = 0.08
DRAWS = 5
NORMAL = 1.4826  # standard deviation over the median of the absolute value, of a normal distribution
NOISE = (0.01, SCALE)
_STEPS, _TRIES, _NUDGE = 200, 14, 1e-5


@record
class Constant:
    """A constant to fit: its name in the document, its unit, its usual value, its bounds and its spread.

    `spread` is in logarithms: 0.7 is a factor of two.
    """

    name: str
    unit: str
    start: float
    low: float
    high: float
    spread: float = 1.0


@record
class FittedForm:
    """A closed form with its constants, and its times for columns of shapes."""

    title: str
    constants: tuple[Constant, ...]
    time: Callable[[Mapping[str, float], Columns], Array]


@record
class Error:
    """Errors of times: median and P90 of |predicted / measured − 1|, the signed median, and the loss of the fit."""

    median: float
    p90: float
    bias: float
    loss: float


def subset(columns: Columns, chosen: NDArray[np.bool_]) -> Columns:
    """The rows of the columns where `chosen` is true; single numbers stay."""
    return {name: value[chosen] if isinstance(value, np.ndarray) else value for name, value in columns.items()}


def error_of(predicted: Array, measured: Array) -> Error:
    """The errors of these times."""
    off = predicted / measured - 1
    loss = float(np.mean(_loss_of_residuals(np.log(predicted / measured))))
    far = np.abs(off)
    return Error(float(np.percentile(far, 50)), float(np.percentile(far, 90)), float(np.median(off)), loss)


def _loss_of_residuals(residuals: Array) -> Array:
    """The robust loss of each residual, which grows more slowly for outliers."""
    losses: Array = 2 * SCALE**2 * (np.sqrt(1 + (residuals / SCALE) ** 2) - 1)
    return losses


def fitted(form: FittedForm, columns: Columns, measured: Array, groups: Sequence[str] = ()) -> dict[str, float]:
    """The constants that fit these times best; the noisier the times, the stronger the usual values count.

    Times of one group (a shape) share their error, so together they count as one against the usual values.
    """
    names = [constant.name for constant in form.constants]
    low, high = (np.log([getattr(constant, end) for constant in form.constants]) for end in ("low", "high"))

    usual = np.log([constant.start for constant in form.constants])
    alike = len(measured) / len(set(groups)) if groups else 1.0
    spread = np.array([constant.spread for constant in form.constants]) / np.sqrt(alike)

    def off(point: Array) -> Array:
        """The logarithms of predicted over measured times at a point."""
        return np.log(form.time(dict(zip(names, np.exp(point).tolist(), strict=True)), columns) / measured)

    def best(point: Array, noise: float) -> Array:
        """The point with the least loss from a starting point; `noise` scales the pull to the usual values."""
        return _minimise(lambda at: np.concatenate([off(at), noise * (at - usual) / spread]), point, low, high)

    point = best(np.clip(usual, low, high), SCALE)
    noise = float(np.clip(NORMAL * np.median(np.abs(off(point))), *NOISE))
    return dict(zip(names, np.exp(best(point, noise)).tolist(), strict=True))


def _minimise(residuals: Callable[[Array], Array], point: Array, low: Array, high: Array) -> Array:
    """The point at which the loss stops falling (Levenberg-Marquardt, iteratively reweighted)."""
    here = residuals(point)
    loss, damping = float(np.sum(_loss_of_residuals(here))), 1e-2
    for _ in range(_STEPS):
        slopes = _slopes(residuals, point, here, high)
        weights = 1 / np.sqrt(1 + (here / SCALE) ** 2)
        curvature, gradient = slopes.T @ (weights[:, None] * slopes), slopes.T @ (weights * here)
        before = loss
        for _ in range(_TRIES):
            damped = curvature + damping * np.diag(np.diag(curvature) + 1e-9)
            there = np.clip(point - np.linalg.solve(damped, gradient), low, high)
            errors = residuals(there)
            if (fallen := float(np.sum(_loss_of_residuals(errors)))) < loss:
                point, here, loss, damping = there, errors, fallen, max(damping / 3, 1e-9)
                break
            damping *= 4
        if before - loss <= 1e-10 * before:
            return point
    return point


def _slopes(residuals: Callable[[Array], Array], point: Array, here: Array, high: Array) -> Array:
    """The change of each residual with each constant, by finite differences inside the bounds."""
    columns = []
    for index in range(len(point)):
        nudge = _NUDGE if point[index] + _NUDGE <= high[index] else -_NUDGE
        moved = point.copy()
        moved[index] += nudge
        columns.append((residuals(moved) - here) / nudge)
    return np.stack(columns, axis=1)


def second_half(groups: Sequence[str], draw: int) -> NDArray[np.bool_]:
    """The rows in the second half of the groups; a digest of draw and name orders the groups."""
    names = sorted(set(groups), key=lambda name: hashlib.blake2b(f"{draw} {name}".encode(), digest_size=8).digest())
    second = set(names[len(names) // 2 :])
    return np.array([group in second for group in groups], dtype=bool)


def held_out(form: FittedForm, columns: Columns, measured: Array, groups: Sequence[str]) -> Error | None:
    """The error on one half of the groups with constants fitted to the other half, over several draws; None if too few.

    None where a half would hold no more rows than there are constants.
    """
    predicted, named = [], np.array(groups)
    for draw in range(DRAWS):
        second = second_half(groups, draw)
        if min(int(second.sum()), int((~second).sum())) <= len(form.constants):
            return None
        shown = np.empty_like(measured)
        for half in (second, ~second):
            constants = fitted(form, subset(columns, ~half), measured[~half], named[~half].tolist())
            shown[half] = form.time(constants, subset(columns, half))
        predicted.append(shown)
    return error_of(np.concatenate(predicted), np.tile(measured, DRAWS))
