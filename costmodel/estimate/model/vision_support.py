"""Checks that a model accepts images, and that the images fit into their sequence or prompt."""

from __future__ import annotations

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.base import Images
from costmodel.documents.schemas.model import Model
from costmodel.estimate.shared.assumptions import AssumptionLog
from costmodel.ground.errors import fail


def seen(case: LoadedScenario, model: Model, images: Images | None, tokens: float) -> None:
    """An error for images without a vision tower, or with more tokens than the sequence or prompt."""
    if images is None:
        return
    place = case.place("workload.images")
    if model.vision is None:
        hint = "take a model with vision, or leave workload.images out"
        raise fail("D016", f"{model.name} has no vision tower for images to pass", place, hint)
    if images.count * images.tokens > tokens:
        sentence = f"{images.count:g} images of {images.tokens:g} tokens do not fit into {tokens:g} tokens"
        raise fail("D016", sentence, place, "take fewer images, or a longer sequence or prompt")


def note_unseen(log: AssumptionLog, model: Model, images: Images | None) -> None:
    """Records as an assumption that a model with a vision tower gets only text."""
    if model.vision is not None and images is None:
        log.note("workload.images", "none", "only text; the vision tower needs memory but has no input")
