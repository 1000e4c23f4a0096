"""Replicas that conversations need: with more of them a turn finds less in the cache, so that each answers less."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]

_ROUNDS = 40  # halvings: enough for any count up to a million million
_HOPELESS = 3  # replicas that are added where none seem to be enough


def enough_replicas(least: Values, needed: Callable[[Places, Values], tuple[Values, NDArray[np.bool_]]]) -> Values:
    """The fewest replicas that are as many as the fleet of them needs; without end where none are.

    Args:
        least: replicas that the rate needs where every turn finds its conversation
        needed: those that rows need by what turns find on so many; and whether turns come too late to find it, which
            more replicas may change. Else more replicas never need fewer.

    >>> hits = lambda rows, counts: (np.ceil(4.0 - 2.0 / counts), counts < 0)  # 2 with all hits, 4 without
    >>> enough_replicas(np.array([2.0]), hits).tolist()
    [4.0]
    """
    counts = np.maximum(least, 1.0)
    below = counts - 1.0  # too few
    enough, hopeless = np.full(len(least), np.inf), np.zeros(len(least))
    open_ = np.flatnonzero(np.isfinite(least))
    for _ in range(_ROUNDS):
        if not len(open_):
            break
        found, late = needed(open_, counts[open_])
        kept = found <= counts[open_]
        enough[open_[kept]] = counts[open_[kept]]
        short, more = open_[~kept], found[~kept]
        endless = ~np.isfinite(more)
        hopeless[short] += np.where(endless, np.where(late[~kept], 1.0, np.inf), 0.0)
        more = np.where(endless, counts[short] + 1.0, more)
        below[short] = np.where(late[~kept], counts[short], np.minimum(more, enough[short]) - 1.0)
        counts[short] = more
        counts = np.where(np.isfinite(enough), np.floor((below + enough) / 2.0), counts)
        open_ = open_[(enough[open_] - below[open_] > 1.0) & (hopeless[open_] <= _HOPELESS)]
    return enough
