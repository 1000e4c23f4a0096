"""A training plan in a line, and whether it fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from costmodel.estimate.evaluate.evaluate_plans import fits_at_p90, verdict
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.parallelism.pipeline.layer_split import stage_layers
from costmodel.ground.plan_sizes import OF_ITSELF_ONE, WAYS
from costmodel.ground.units import counted, gib, rounded_percent
from costmodel.report.terminal.search.choices import choice_words, short_words, split_words
from costmodel.report.terminal.style.formatting import between

if TYPE_CHECKING:
    from costmodel.estimate.evaluate.predict import Answer
    from costmodel.estimate.shared.plan_batch import Block


def memory_band(costs: dict[str, float]) -> str:
    """Both ends of the band of the peak."""
    return between(f"{gib(costs['memory_peak_low'])} GiB", f"{gib(costs['memory_peak_high'])} GiB")


def verdict_words(costs: Mapping[str, float]) -> str:
    """Whether a plan fits; where the P90 of its memory does not, its chance to."""
    if costs["memory_share"] > 1 or fits_at_p90(costs):
        return verdict(costs["memory_share"])
    return f"at risk: {rounded_percent(costs['fit_chance'])} to fit"


def plan_words(answer: Answer) -> str:
    """The plan in one line."""
    block, structure = answer.evaluation.block, answer.evaluation.block.structure
    sizes = _degrees(block)
    layers = stage_layers(answer.inputs.model, block)
    held = [f"{number(each):g}" for each in layers.stages(float(block.pp[0]))]
    over = answer.inputs.groups and structure.shares == "stages"  # each group's layers are lines of their own
    if len(set(held)) > 1 and not over:
        sizes.append(f"layers {' '.join(held)}")
    return " · ".join([*sizes, *_form(block), *choice_words(structure)])


def brief_words(block: Block) -> str:
    """A plan in a cell of a table."""
    again = short_words(block.structure)
    again = "" if again == "none" else f"recompute {again}"
    words = [*_degrees(block), *split_words(block.structure), *_form(block), again]
    return " · ".join(filter(None, words))


def _degrees(block: Block) -> list[str]:
    """How the ranks are divided."""
    structure = block.structure
    sizes = [f"{name} {counted(float(getattr(block, name)[0]))}" for name in ("tp", "pp", "dp")]
    for name in (*OF_ITSELF_ONE, "vpp"):
        if (degree := float(getattr(block, name)[0])) > 1:
            way = f" {getattr(structure, WAYS[name])}" if name in WAYS else ""
            sizes.append(f"{name} {degree:.0f}{way}")
    return sizes


def _form(block: Block) -> list[str]:
    """A schedule that does not follow from vpp, the micro-batch and the ZeRO stage."""
    schedule = block.structure.schedule
    named = [] if schedule in ("1f1b", "interleaved") else [str(schedule)]
    return [*named, f"mb {float(block.micro_batch[0]):.0f}", f"zero {block.structure.zero}"]
