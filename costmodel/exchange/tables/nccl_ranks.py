"""How many ranks took part in a run of nccl-tests, from the ratio of its two rates, where no line states it."""

from __future__ import annotations

import math
from collections.abc import Iterable

_ROUNDED = 0.0051  # rates are printed to hundredths
_MOST = 1_000_000


def ranks_of(rates: Iterable[tuple[float, float]], passes: int, per_node: int) -> list[int]:
    """Numbers of ranks, of whole nodes or within one, at which a bus carries that much more than an algorithm gets.

    busbw over algbw is passes × (n − 1) / n; each pair, which is rounded, leaves a range of n.

    >>> ranks_of([(91.2, 170.99)], 2, 8), ranks_of([(90.0, 90.0)], 2, 8), ranks_of([(0.1, 0.2)], 2, 8)
    ([16], [2], [])
    """
    low, high = 2.0, float(_MOST)
    for algbw, busbw in rates:
        if algbw <= 2 * _ROUNDED or not passes:
            continue
        least, most = (busbw - _ROUNDED) / (algbw + _ROUNDED), (busbw + _ROUNDED) / (algbw - _ROUNDED)
        low = max(low, 1 / (1 - least / passes) if least < passes else math.inf)
        high = min(high, 1 / (1 - most / passes) if most < passes else math.inf)
    if not high - low < per_node * 4 or high >= _MOST:
        return []
    counts = range(math.ceil(low), math.floor(high) + 1)
    return [count for count in counts if count <= per_node or count % per_node == 0]
