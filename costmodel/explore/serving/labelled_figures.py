"""What the labels of answers about a serving plan mean there: figures to trace, values of keys, or a page.

`explain SCENARIO LABEL` takes every label as it is printed. One that answers use for several figures has all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from costmodel.documents.keys.overrides import full
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.explore.compare.input_paths import leaves
from costmodel.explore.explain.pages import Page, page
from costmodel.explore.labels import meaning_of
from costmodel.explore.serving.explain_serving import quantities
from costmodel.ground.record import record

# By labels in small letters. One that is the name of a result, or has the page of one, need not be here.
_FIGURES: dict[str, tuple[str, ...]] = {
    "p99": ("ttft_p99", "tpot_p99"),
    "p90": ("tpot_high",),
    "tpot p90": ("tpot_high",),
    "p99 p90": ("ttft_p99_high",),
    "worst gap": ("worst_gap",),
    "requests": ("requests_per_s", "concurrency_worst", "concurrency_steady"),
    "within limits": ("rate_within_slo_per_s",),
    "req/s": ("rate_within_slo_per_s", "requests_per_s"),
    "most req/s": ("rate_within_slo_per_s",),
    "most tok/s/gpu": ("tokens_per_gpu_within_limits",),
    "least rent/m out": ("cost_within_limits",),
    "rate": ("requests_per_s",),
    "goodput": ("in_time_per_s",),
    "chance": ("limits_chance",),
    "saturation": ("saturation_per_s",),
    "in flight": ("concurrency",),
    "throughput": ("output_tokens_per_s",),
    "per gpu": ("tokens_per_s_per_gpu",),
    "tok/s/gpu": ("tokens_per_gpu_within_limits", "tokens_per_s_per_gpu"),
    "cache": ("cache_pool",),
    "kv cache": ("cache_pool",),
    "context": ("cache_pool_tokens",),
    "a token": ("kv_bytes_per_token",),
    "cost": ("cost_per_minput", "cost_per_moutput", "cost_per_mtoken"),
    "cached": ("cost_per_mcached",),
    "generated": ("cost_per_moutput",),
    "rent": ("rent_per_month",),
    "rent/month": ("rent_needed",),
    "rent/m out": ("cost_per_mtoken", "cost_within_limits"),
    "energy": ("energy_per_token",),
    "drafts": ("accepted_tokens", "draft_time"),
    "gain": ("speculation_gain", "disaggregation_gain"),
    "balance": ("prefill_per_decode",),
    "exposed": ("transfer_exposed",),
    "kept for": ("prefix_residency", "host_residency"),
}
_OF_FITS = "fit."


@record
class LabelledFigures:
    """What a label means: figures to trace; or its page, and each value of a key with its origin."""

    label: str
    figures: tuple[str, ...]
    page: Page | None = None
    values: tuple[tuple[str, str, str], ...] = ()


def labelled(answer: ServingAnswer, label: str) -> LabelledFigures:
    """What a label means in an answer; a fault for words that nothing explains."""
    figures = figures_of(label)
    known = tuple(name for name in figures if not math.isnan(answer.costs.get(name, 0.0)))
    if figures:
        return LabelledFigures(label, known or figures[:1])
    path = label.casefold() if "." in label else label  # keys are written in small letters
    return LabelledFigures(label, (), page(path), tuple(_values(answer, path.casefold())))


def figures_of(label: str) -> tuple[str, ...]:
    """The figures that a label names.

    >>> figures_of("In flight"), figures_of("first token"), figures_of("link")
    (('concurrency',), ('ttft',), ())
    """
    plain, known = label.casefold().strip(), quantities()
    if plain in known:
        return (plain,)
    if plain in _FIGURES:
        return _FIGURES[plain]
    see = (meaning_of(plain) or ("", ""))[1]
    return next(((name,) for name in (plain.replace(" ", "_"), see) if name in known), ())


def _values(answer: ServingAnswer, label: str) -> Iterator[tuple[str, str, str]]:
    """The key that has a label as its path or, in the plan, as its name; with its value and where that is from."""
    written = leaves(answer.inputs.case)
    fitted = [path for path in written if path.endswith(f".efficiency.{label.removeprefix(_OF_FITS)}")]
    for path in (full(label), f"plan.{label}", *(fitted if label.startswith(_OF_FITS) else ())):
        found = written.get(path)
        stated = next((item for item in answer.assumed if item.path == path), None)
        if stated is not None:
            yield path, stated.value, stated.origin
        elif found is not None:
            yield path, found.text, str(found.place) if found.place is not None else "default"
