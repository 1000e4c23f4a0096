"""Text for the choices of a training plan besides its degrees: recompute, offload, schedule, split of layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from costmodel.estimate.shared.plan_batch import Structure, plan_to_mapping

if TYPE_CHECKING:
    from costmodel.estimate.training.training_inputs import TrainingInputs

_SHORT = {
    "attention-output": "attn-out",
    "mla-up-projection": "mla-up",
    "mlp-activation": "mlp-act",
    "moe-activation": "moe-act",
    "shared-experts": "shared",
}


def recompute_and_offload_texts(structure: Structure) -> list[str]:
    """Recompute and offload of a plan as texts, with their modules or layers."""
    words = f"recompute {structure.recompute}"
    if structure.recompute_modules is not None:
        words += f" ({', '.join(structure.recompute_modules) or 'no module'})"
    elif structure.recompute_layers is not None:
        count = f"{structure.recompute_layers:.0f} layers"
        words += f" ({count} at once)" if structure.recompute_method == "uniform" else f" ({count} of a chunk)"
    compressed = [] if structure.compression == "none" else [f"compression {structure.compression}"]
    synced = [] if structure.sync == "all-reduce" else [f"sync {structure.sync}"]
    shared = [] if structure.shares == "proportional" else [f"shares {structure.shares}"]
    return [words, *_offload_words(structure), *compressed, *synced, *shared]


def _offload_words(structure: Structure) -> list[str]:
    """The offloaded states as text; empty if there are none."""
    if not structure.offload:
        return []
    drives = " to nvme" if structure.offload_to == "nvme" else ""
    layers = f" of {structure.offload_layers:.0f} layers" if structure.offload_layers is not None else ""
    return [f"offload {', '.join(structure.offload)}{drives}{layers}"]


def short_recompute_and_offload(structure: Structure) -> str:
    """Recompute and offload as a short text for a table column."""
    words: str = structure.recompute
    if structure.recompute_modules is not None:
        words = "+".join(_SHORT.get(module, module) for module in structure.recompute_modules) or words
    elif structure.recompute_layers is not None:
        words = f"{words} {structure.recompute_layers:.0f}"
    return words + "".join(f" ↑{name[:3]}" for name in structure.offload)


def schedule_text(structure: Structure) -> str:
    """The schedule (if vpp does not imply it) and stated layers of the first and last stage, as text."""
    words: list[str] = [] if structure.schedule in ("1f1b", "interleaved") else [structure.schedule]
    if structure.split == "stated":
        ends = (structure.first_stage_layers, structure.last_stage_layers)
        words.append("…".join("" if layers is None else f"{layers:.0f}" for layers in ends))
    return " ".join(words)


def split_texts(structure: Structure) -> list[str]:
    """The stated split of layers over stages, as texts."""
    if structure.split != "stated":
        return [] if structure.split == "fitting" else [f"split {structure.split}"]
    ends = {"first_stage_layers": structure.first_stage_layers, "last_stage_layers": structure.last_stage_layers}
    return [f"{name} {layers:.0f}" for name, layers in ends.items() if layers is not None]


# Choices that have a column of their own in a table of plans, in words.
CHOICES: dict[str, Callable[[Structure], str]] = {
    "schedule": schedule_text,
    "split": lambda structure: plan_to_mapping(structure).get("split", ""),
    "order": lambda structure: structure.order,
    "cp_type": lambda structure: structure.cp_type,
    "compression": lambda structure: structure.compression,
    "sync": lambda structure: structure.sync,
    "shares": lambda structure: structure.shares,
}


def adapter_notes(inputs: TrainingInputs) -> dict[str, str]:
    """Notes on memory lines for training of adapters only."""
    if inputs.tuning is None:
        return {}
    return {
        "weights": f"frozen in {_frozen_weight_words(inputs)}, and adapters",
        "gradients": "of adapters",
        "optimizer": "of adapters",
    }


def _frozen_weight_words(inputs: TrainingInputs) -> str:
    """The bits per frozen weight, as text."""
    narrow = inputs.narrow
    if inputs.has_packed_weights:
        from costmodel.estimate.training.stage_parameters import packed_weight_bytes

        return f"{8 * float(packed_weight_bytes()):.3g} bits in the layers"
    if narrow is None or not narrow.cached:
        return "16 bits"
    copies = f"{inputs.recipe.copies:.3g} B of {inputs.recipe.name}"
    return f"{copies} in the layers" if narrow.primary else f"16 bits, with {copies} in the layers"
