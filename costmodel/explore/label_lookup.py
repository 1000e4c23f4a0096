"""Finds what a label of an answer stands for: figures with equation trees, a scenario key, or a page.

`explain SCENARIO LABEL` accepts every label as printed. A label used for several figures leads to all of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from costmodel.documents.keys.overrides import full
from costmodel.estimate.training_answer.predict_training import TOO_LARGE
from costmodel.explore.answer_labels import meaning_of
from costmodel.explore.compare.input_paths import input_values
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.explore.explain.equation_trees import ExplainedFigure
    from costmodel.explore.explain.word_explanations import Page
    from costmodel.explore.workload_interface import PlanAnswer, Workload


# Of services, by labels in small letters. One that is the name of a result, or has the page of one, need not be here.
OF_SERVICES: dict[str, tuple[str, ...]] = {
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
    """What a label stands for: figures to trace, or its page and the scenario key with its value and origin."""

    label: str
    figures: tuple[str, ...]
    page: Page | None = None
    values: tuple[tuple[str, str, str], ...] = ()


def meaning_in_answer(workload: Workload, answer: PlanAnswer, label: str) -> LabelledFigures:
    """What a label stands for in an answer; raises a fault for unknown words."""
    figures = figures_of(label, workload.quantities, workload.labels)
    if figures:
        with_value = tuple(name for name in figures if not math.isnan(answer.costs.get(name, 0.0)))
        return LabelledFigures(label, with_value or figures[:1])
    from costmodel.explore.explain.word_explanations import page

    path = label.casefold() if "." in label else label  # keys are written in small letters
    return LabelledFigures(label, (), page(path), tuple(_key_of_label(workload.case, answer, path.casefold())))


def has_no_figure(workload: Workload, answer: PlanAnswer, names: Sequence[str]) -> bool:
    """Whether a plan has none of these figures because it does not fit."""
    return not TOO_LARGE.isdisjoint(answer.broken) and all(_is_unknown(workload, answer, name) for name in names)


def trees_of_figures(workload: Workload, answer: PlanAnswer, names: Sequence[str]) -> list[ExplainedFigure]:
    """The equation trees of figures of a plan.

    Raises:
        CostModelError: a figure is unknown, and a scenario key would make it known
    """
    for name in names:
        wanted = workload.missing_input(name) if _is_unknown(workload, answer, name) else ""
        if wanted:
            raise fail("C004", f"{name} is not known", Place(workload.case.file), wanted)
    return workload.explain(answer, *names)


def _is_unknown(workload: Workload, answer: PlanAnswer, name: str) -> bool:
    """Whether a figure is a result without a value."""
    return name in workload.columns and math.isnan(answer.costs.get(name, math.nan))


def figures_of(label: str, known: Collection[str], named: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The figures that a label stands for and that can be traced; `named` maps labels to figures.

    >>> known = ("concurrency", "ttft")
    >>> [figures_of(each, known, OF_SERVICES) for each in ("In flight", "first token", "link")]
    [('concurrency',), ('ttft',), ()]
    """
    plain = label.casefold().strip()
    if plain in known:
        return (plain,)
    if plain in named:
        return named[plain]
    see = (meaning_of(plain) or ("", ""))[1]
    return next(((name,) for name in (plain.replace(" ", "_"), see) if name in known), ())


def _key_of_label(case: LoadedScenario, answer: PlanAnswer, label: str) -> Iterator[tuple[str, str, str]]:
    """The scenario key that a label stands for, with its value and the origin of the value."""
    written = input_values(case)
    fitted = [path for path in written if path.endswith(f".efficiency.{label.removeprefix(_OF_FITS)}")]
    for path in (full(label), f"plan.{label}", *(fitted if label.startswith(_OF_FITS) else ())):
        value = written.get(path)
        stated = next((item for item in answer.assumed if item.path == path), None)
        if stated is not None:
            yield path, stated.value, stated.origin
        elif value is not None:
            yield path, value.text, str(value.place) if value.place is not None else "default"
