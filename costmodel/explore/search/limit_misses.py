"""How far plans are beyond the limits of a scenario: what makes one of them the nearest."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from costmodel.estimate.shared.limits import Limit

Values = NDArray[np.float64]


def limit_misses(limits: Iterable[Limit], result: Callable[[str], Values], rows: int) -> Values:
    """The largest excess over a limit, as a share of it, of each row; 0 where it keeps all.

    >>> limits = [Limit("tpot", "tpot", "at_most", 0.025), Limit("ttft", "ttft", "at_most", 1.0)]
    >>> columns = {"tpot": np.array([0.020, 0.030, 0.025]), "ttft": np.array([0.5, 1.1, np.nan])}
    >>> limit_misses(limits, columns.__getitem__, 3).round(3).tolist()
    [0.0, 0.2, inf]
    """
    found = np.zeros(rows)
    for limit in limits:
        values = np.asarray(result(limit.column), dtype=np.float64)
        over = {"at_most": values - limit.value, "at_least": limit.value - values}.get(limit.kind)
        if over is None:
            over = np.abs(values - limit.value) - limit.within * limit.value
        beyond = np.nan_to_num(over / (abs(limit.value) or 1.0), nan=np.inf, posinf=np.inf)
        found = np.maximum(found, np.where(limit.kept(values), 0.0, beyond))
    return found
