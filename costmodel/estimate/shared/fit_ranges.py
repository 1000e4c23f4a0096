"""Sizes outside the range that a fit was made on: the wider error there, and what an answer states of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.efficiency import Fitted
from costmodel.equations.run.uncertainty import doublings_outside, spread_outside, term_error
from costmodel.ground.equation import Number, term, untraced
from costmodel.ground.record import record
from costmodel.ground.units import show

NOTICEABLE = 0.01  # share of the time of an answer from which on a term outside its fit is remarked
_LEAST = 1e-9  # of a size, which is divided by
_UNITS = {"bytes": "B", "nbytes": "B"}
_NEAR = 0.5  # doublings: a size that is less than 1.4 times outside counts as inside
# Sizes of products, and bytes of memory-bound kernels, which only run slower where they are small: of the 1,110 GELUs
# and residual additions of estimate-train-time on A100 and GH200 those of 32 MB reach 79 and 86 % of the bandwidth that
# those of 256 MB do, and those of 8 GB all of it.
_SATURATING = frozenset({"m", "n", "k", "nbytes"})


@record
class OutsideFit:
    """A size outside the range of a fit, and the share of the answer's time that is computed there."""

    what: str
    size: str
    fitted: str
    share: float

    @property
    def words(self) -> str:
        """The size with the fitted range, in words.

        >>> OutsideFit("all-reduce", "72 ranks", "2 to 4", 0.5).words
        'all-reduce over 72 ranks; fitted on 2 to 4'
        """
        return f"{self.what} {'over' if self.size.endswith('ranks') else 'of'} {self.size}; fitted on {self.fitted}"

    def assumption(self) -> Assumption:
        """The size as an assumption of the answer."""
        return Assumption(f"{self.what} outside its fit", self.size, f"fitted on {self.fitted}; wider band")


def outside_assumptions(outside_fits: Iterable[OutsideFit]) -> tuple[Assumption, ...]:
    """The sizes outside fits as assumptions, without duplicates."""
    return tuple(dict.fromkeys(each.assumption() for each in outside_fits))


def widened(spread: Number, fitted: Fitted | None, **sizes: Number) -> Number:
    """The spread of a fit, wider if some sizes lie outside its range; a single rank counts as inside."""
    beyond = {name: _doublings_outside(fitted, name, size) for name, size in sizes.items()}
    if not any(np.any(np.asarray(doublings) > 0) for doublings in beyond.values()):
        return spread
    with term("outside the fit"):
        others: Number = 0.0
        for name, doublings in beyond.items():
            others = others if name == "ranks" else np.maximum(others, doublings)
        return spread_outside(spread, beyond.get("ranks", 0.0), others)


def is_outside(fitted: Fitted | None, **sizes: Number) -> bool:
    """Whether a size of any row lies outside the range of its fit."""
    return any(np.any(np.asarray(_doublings_outside(fitted, name, size)) > 0) for name, size in sizes.items())


def error_outside(spread: Number, fitted: Fitted | None, part: Number, **sizes: Number) -> Number:
    """Error of a whole by a term with a size outside the range of its fit; 0 inside, and where its share is small."""
    if not is_outside(fitted, **sizes):
        return 0.0
    beyond = np.any([np.asarray(_doublings_outside(fitted, name, size)) > 0 for name, size in sizes.items()], axis=0)
    noticed = beyond & (np.asarray(part) >= NOTICEABLE)
    return np.where(noticed, term_error(widened(spread, fitted, **sizes), part), 0.0)


def outside(fitted: Fitted | None, what: str, share: float, **sizes: float) -> Iterable[OutsideFit]:
    """Each size outside the range of its fit, if the term takes a noticeable share of the time."""
    for name, size in sizes.items():
        if fitted is None or share < NOTICEABLE or not np.any(np.asarray(_doublings_outside(fitted, name, size)) > 0):
            continue
        low, high = fitted.bounds[name]
        unit = _UNITS.get(name, "1")
        word = "" if unit == "B" else f" {name}"
        ends = f"{show(low, unit)} and more" if np.isinf(high) else f"{show(low, unit)} to {show(high, unit)}"
        yield OutsideFit(what, f"{show(size, unit)}{word}", ends, share)


def _doublings_outside(fitted: Fitted | None, name: str, size: Number) -> Number:
    """Doublings by which a size lies outside the fitted range; 0 if the fit states no range."""
    bounds = None if fitted is None else fitted.bounds.get(name)
    if bounds is None:
        return 0.0
    low, high = bounds[0], np.inf if name in _SATURATING else bounds[1]
    amount = np.asarray(size, dtype=np.float64)
    with untraced():
        doublings = np.asarray(doublings_outside(np.maximum(amount, _LEAST), low, high))
    counts = (amount > 1 if name == "ranks" else amount > 0) & (doublings > _NEAR)
    return np.where(counts, doublings, 0.0)
