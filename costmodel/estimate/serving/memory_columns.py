"""Result columns of an engine's memory."""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.economics import share
from costmodel.estimate.serving.bandwidth_bound import bandwidth_bound
from costmodel.estimate.serving.engine_memory import EngineMemoryUse
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term


def memory_columns(inputs: ServingInputs, layout: PlanColumns, memory: EngineMemoryUse) -> dict[str, Number]:
    """What the memory holds, and how fast the weights in it can be read for one user."""
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
        "bandwidth_bound": bandwidth_bound(inputs, layout),
    }
