"""The draft model of speculative decoding."""

from __future__ import annotations

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.model import Layers, Model
from costmodel.documents.schemas.serving.serving_plan import Speculation
from costmodel.ground.errors import fail


def speculation_of(case: ServingCase) -> Speculation | None:
    """How the scenario's plan speculates, if it does."""
    plan = case.scenario.plan
    return None if plan is None else plan.speculation


def draft_model(case: ServingCase, wanted: Speculation) -> Model:
    """The draft as a model: of one layer, or the one that is named."""
    model, place = case.model, case.place("plan.speculation.draft")
    if wanted.draft == "mtp":
        if model.prediction is None:
            sentence = f"{model.title} predicts one token: it has no layer for mtp"
            raise fail("D016", sentence, place, "draft: eagle, a layer trained for that, or a small model")
        return _of_layer(model, model.prediction.layer, "its layer of multi-token prediction")
    if wanted.draft == "eagle":
        return _of_layer(model, model.layers[-1], "one layer as the last, and the head")
    found = case.draft
    assert found is not None  # read with the scenario
    if found.vocab > model.vocab or found.has_experts:
        fault = (
            "has experts" if found.has_experts else f"has {found.vocab:,.0f} tokens, {model.title} {model.vocab:,.0f}"
        )
        hint = "a dense model of the same family and vocabulary"
        raise fail("D016", f"{found.title} cannot draft: it {fault}", place, hint)
    return found


def _of_layer(model: Model, kind: Layers, title: str) -> Model:
    layer = kind.model_copy(update={"count": 1.0, "leading": False})
    return model.model_copy(update={"title": title, "layers": [layer], "prediction": None})
