"""Result columns of an engine's memory."""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.economics import share
from costmodel.estimate.serving.engine_memory import EngineMemoryUse
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term


def memory_columns(inputs: ServingInputs, memory: EngineMemoryUse) -> dict[str, Number]:
    """What the memory holds."""
    usable = memory.fraction * memory.total
    with term("least"):
        least = memory.weights + memory.activations + memory.runtime + memory.one_request
        if inputs.engine.memory.definition != "share-of-total":
            least, usable = memory.one_request, np.maximum(memory.pool, 1.0)
    return {
        "cache_pool": np.maximum(memory.pool, 0.0),
        "cache_pool_tokens": memory.tokens,
        "kv_bytes_per_token": memory.per_token,
        "concurrency_worst": memory.requests_worst,
        "concurrency_steady": memory.requests_steady,
        "memory_peak": memory.asked,
        "memory_share": share(least, usable),
    }
