"""What a change of one key would do to the cache of a serving plan, each tried."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.element_types import stored_types
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record


@record
class CacheLever:
    """A change of one key, and the tokens of a replica's KV-cache pool after it; 0 where it does not fit."""

    assignment: str
    tokens: float


def levers(answer: ServingAnswer) -> list[CacheLever]:
    """Changes of the KV-cache pool: a narrower cache or weights, twice the ranks of a replica, and half if it fits."""
    return [CacheLever(each, tokens) for each, tokens in _cache_sizes_tried(answer)]


def _cache_sizes_tried(answer: ServingAnswer) -> Iterator[tuple[str, float]]:
    workload, tp = answer.inputs.case.scenario.workload, float(answer.plan.tp)
    wanted = ["workload.cache=fp8"] if workload.cache != "fp8" else []
    wide = workload.weights is None and workload.precision in ("bf16", "fp16")
    stored = any(stored_types(answer.inputs.case))
    wanted += ["workload.weights=fp8"] if wide and not stored else []
    fewer = [tp / 2] if tp > 1 and "M001" not in answer.broken else []
    wanted += [f"plan.tp={degree:g}" for degree in (*fewer, tp * 2)]
    for assignment in wanted:
        try:
            found = predict(serving(vary_any(answer.inputs.case, [assignment])), bands=False)
        except CostModelError:  # a type that the accelerator or the engine lacks
            continue
        if not found.refused:
            yield assignment, 0.0 if "M001" in found.broken else found.costs["cache_pool_tokens"]
