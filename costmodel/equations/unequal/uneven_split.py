"""Shares of unequal parts under limits: algorithms on whole lists of parts, in place of equations on single numbers.

Both find the shares with which the last part ends first. Neither loops: one inverts a piecewise linear function, the
other takes the earliest ends of all that could be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Parts = NDArray[np.float64]


def balanced_shares(total: float, speeds: Parts, fixed: Parts, caps: Parts) -> Parts:
    """Shares of any size that sum to the total and end together, none under 0 or over its cap.

    Part i does min(cap, s (t − c)) by the time t. The sum over the parts grows with t along straight lines that bend
    where a part starts or reaches its cap, so that t is read off between two bends. Without room for the total every
    part is at its cap.

    >>> balanced_shares(1.0, np.array([1.0, 1.0, 0.5]), np.zeros(3), np.array([0.3, 1.0, 1.0])).round(3).tolist()
    [0.3, 0.467, 0.233]
    """
    bends = np.sort(np.concatenate([fixed, fixed + caps / speeds]))
    done = np.clip(speeds * (bends[:, np.newaxis] - fixed), 0.0, caps)
    time = np.interp(total, np.sum(done, axis=1), bends)
    shares: Parts = np.clip(speeds * (time - fixed), 0.0, caps)
    return shares


def whole_shares(total: int, speeds: Parts, fixed: Parts, caps: Parts, least: int) -> NDArray[np.int64]:
    """Whole shares that sum to the total, with the earliest last end: layers of stages, micro-batches of replicas.

    Part i would end its j-th item at c + j/s. Each next item goes to the part that would end it first; that takes the
    earliest of all these ends, so they are sorted and the first are taken; `least` items of each part come before
    all others, and none lies beyond a cap. Without room for the total every part is at its cap.

    >>> whole_shares(80, np.array([312.0, 312.0, 125.0, 125.0]), np.zeros(4), np.full(4, 80.0), 1).tolist()
    [29, 29, 11, 11]
    """
    item = np.arange(1, total + 1)
    ends = fixed[:, np.newaxis] + item / speeds[:, np.newaxis]
    ends = np.where(item <= least, -np.inf, ends)
    ends = np.where(item <= caps[:, np.newaxis], ends, np.inf)
    first = np.argsort(ends, axis=None, kind="stable")[:total]
    taken = first[np.isfinite(ends.ravel()[first]) | (ends.ravel()[first] < 0)]
    return np.bincount(taken // total, minlength=speeds.size)
