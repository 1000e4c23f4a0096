"""Widths of the band that kernels and links do not explain: how far runs of one source, and sources, lie apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.prior import Prior
from costmodel.equations.run.uncertainty import FREEDOM, combined_error, heavy_tail_spread
from costmodel.ground.record import record

Array = NDArray[np.float64]
STEP, UNSEEN, EXPERTS = "spread.step", "spread.unseen", "spread.experts"

MOST = 20  # runs that one source counts as, at most: more of them repeat each other
_OFFSETS = 0.002 * np.sinh(np.linspace(-7, 7, 141))  # of a source, as a logarithm: dense around none
_RATIOS = np.exp(np.linspace(-2, 2, 41))  # tried widths over the priors
_TURNS = 3


@record
class Unexplained:
    """Runs whose sources are left out: log errors, spreads by kernels and links, which have experts, their sources."""

    errors: Array
    kinds: Array
    mixed: NDArray[np.bool_]
    sources: Sequence[str]

    def without(self, which: NDArray[np.bool_]) -> Unexplained:
        """All but these runs."""
        kept = ~which
        sources = [source for source, keep in zip(self.sources, kept, strict=True) if keep]
        return Unexplained(self.errors[kept], self.kinds[kept], self.mixed[kept], sources)


def spreads(widths: Mapping[str, float], kinds: Array, mixed: NDArray[np.bool_], *, unseen: bool = True) -> Array:
    """Spreads of runs by these widths: of runs from any other source, or from one that was fitted."""
    found = combined_error(kinds, widths[STEP])
    found = np.where(mixed, combined_error(found, widths[EXPERTS]), found)
    return np.asarray(combined_error(found, heavy_tail_spread(widths[UNSEEN], FREEDOM)) if unseen else found)


def fitted_widths(runs: Unexplained, priors: Sequence[Prior]) -> dict[str, float]:
    """The widths under which these errors are likeliest, each drawn to its prior."""
    prior_means: dict[str, float] = {prior.leaf: float(prior.mean) for prior in priors}
    found = dict(prior_means)
    for _ in range(_TURNS):
        for prior in priors:
            tried = [{**found, prior.leaf: float(ratio * prior_means[prior.leaf])} for ratio in _RATIOS]
            found = max(tried, key=lambda widths: _likelihood(widths, runs) + _prior(widths, priors))
    return found


def _prior(widths: Mapping[str, float], priors: Sequence[Prior]) -> float:
    """Log of how likely the widths are before any run."""
    return -sum((math.log(widths[one.leaf] / one.mean) / one.spread) ** 2 for one in priors) / 2


def _likelihood(widths: Mapping[str, float], runs: Unexplained) -> float:
    """Log of how likely the errors are: runs of a source lie around an offset of its own.

    Both are Student t, so that no wild run and no wild source decides; a run's has the P10 and P90 of its spread.
    """
    unit = float(heavy_tail_spread(1.0, FREEDOM))
    own = np.asarray(spreads(widths, runs.kinds, runs.mixed, unseen=False) / unit)
    each = _log_student((runs.errors[:, None] - _OFFSETS) / own[:, None]) - np.log(own)[:, None]
    offsets = _log_student(_OFFSETS / widths[UNSEEN]) - math.log(widths[UNSEEN]) + np.log(np.gradient(_OFFSETS))
    total, sources = 0.0, np.array(runs.sources)
    for source in dict.fromkeys(runs.sources):
        members = sources == source
        log = min(1.0, MOST / float(members.sum())) * each[members].sum(axis=0) + offsets
        total += float(np.logaddexp.reduce(log))
    return total


def _log_student(away: Array) -> Array:
    """Log of the density of a Student t, but for a constant."""
    density: Array = -(FREEDOM + 1) / 2 * np.log1p(away**2 / FREEDOM)
    return density
