"""A training plan in a line, and whether it fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from costmodel.estimate.evaluate.evaluate_plans import fits_at_p90, verdict
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.parallelism.pipeline import stage_layers
from costmodel.explore.kept_answers import degree_words, form_words
from costmodel.explore.structure_words import choice_words
from costmodel.ground.units import gib, rounded_percent
from costmodel.report.terminal.style.formatting import between

if TYPE_CHECKING:
    from costmodel.estimate.evaluate.predict import Answer


def memory_band(costs: dict[str, float]) -> str:
    """The P10–P90 band of peak memory."""
    return between(f"{gib(costs['memory_peak_low'])} GiB", f"{gib(costs['memory_peak_high'])} GiB")


def verdict_words(costs: Mapping[str, float]) -> str:
    """Whether a plan fits; where the P90 of its memory does not, its chance to."""
    if costs["memory_share"] > 1 or fits_at_p90(costs):
        return verdict(costs["memory_share"])
    return f"at risk: {rounded_percent(costs['fit_chance'])} to fit"


def plan_words(answer: Answer) -> str:
    """The plan in one line."""
    block, structure = answer.evaluation.block, answer.evaluation.block.structure
    sizes = degree_words(block)
    layers = stage_layers(answer.inputs.model, block)
    held = [f"{number(each):g}" for each in layers.stages(float(block.pp[0]))]
    over = answer.inputs.groups and structure.shares == "stages"  # each group's layers are lines of their own
    if len(set(held)) > 1 and not over:
        sizes.append(f"layers {' '.join(held)}")
    return " · ".join([*sizes, *form_words(block), *choice_words(structure)])
