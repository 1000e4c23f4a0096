"""Requests of a load that waits for answers which are still without their first token: most of them in line."""

from __future__ import annotations

import math
from collections.abc import Mapping

from costmodel.documents.schemas.serving.serving_schema import Serving

_MOST_OF = 0.5  # of the time of an answer, which a line takes that is worth a word
_FULL = 0.99  # of saturation


def waiting_requests(workload: Serving, costs: Mapping[str, float]) -> float:
    """Requests that wait for their first token, by Little's law; 0 if engines are not full, or if few wait.

    Of a rate and of a batch none: the one has a line without end or a short one, the other a line by its nature.
    """
    if workload.users is None and workload.concurrency is None:
        return 0.0
    full = costs["saturation_share"] >= _FULL and costs["ttft"] > _MOST_OF * costs["latency"]
    waiting = costs["requests_per_s"] * costs["ttft"]
    return waiting if full and math.isfinite(waiting) and waiting > costs["replicas"] else 0.0
