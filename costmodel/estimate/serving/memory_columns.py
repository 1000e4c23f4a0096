"""Result columns of an engine's memory."""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.economics import share
from costmodel.estimate.serving.engine_memory import EngineMemoryUse
from costmodel.ground.equation import Number, term


def memory_columns(memory: EngineMemoryUse) -> dict[str, Number]:
    """What the memory holds."""
    with term("least"):
        least = memory.least
    with term("allowed"):
        allowed = memory.allowed
    return {
        "cache_pool": np.maximum(memory.pool, 0.0),
        "cache_pool_tokens": memory.tokens,
        "kv_bytes_per_token": memory.per_token,
        "concurrency_worst": memory.requests_worst,
        "concurrency_steady": memory.requests_steady,
        "memory_peak": memory.asked,
        "memory_share": share(least, allowed),
    }
