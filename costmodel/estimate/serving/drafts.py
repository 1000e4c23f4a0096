"""The draft model of speculative decoding, with its own inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.model import Layers, Model
from costmodel.documents.schemas.serving.serving_plan import Speculation
from costmodel.equations.serving.engine_step import accepted_tokens
from costmodel.estimate.shared.assumptions import AssumptionLog
from costmodel.ground.equation import term
from costmodel.ground.errors import fail

if TYPE_CHECKING:
    from costmodel.estimate.serving.serving_inputs import Load, ServingInputs

OF_ONE_LAYER = ("eagle", "mtp")  # they share the model's embedding and head


def speculation_of(case: ServingCase) -> Speculation | None:
    """How the scenario's plan speculates, if it does."""
    plan = case.scenario.plan
    return None if plan is None else plan.speculation


def verifying(load: Load, wanted: Speculation) -> Load:
    """A load whose steps verify drafts."""
    with term("speculation"):
        accepted = accepted_tokens(wanted.acceptance, wanted.tokens)
    return replace(load, verified=1.0 + wanted.tokens, accepted=accepted)


def draft_inputs(inputs: ServingInputs, wanted: Speculation, log: AssumptionLog) -> ServingInputs | None:
    """The numbers of the draft; nothing where text that repeats is copied."""
    if wanted.draft == "ngram":
        log.note("plan.speculation.draft", "ngram", "looking up repeated text takes no time of the accelerator")
        return None
    model = draft_model(inputs.case, wanted)
    launched = "its launches take no host time of their own" if inputs.engine.graphs else "launched without graphs"
    log.note("draft", model.title, f"in the types of the model; {launched}")
    host = inputs.engine.host.model_copy(update={"step": 0.0, "sequence": 0.0})
    engine = inputs.engine.model_copy(update={"host": host})
    load = replace(inputs.load, verified=1.0, accepted=1.0)
    return replace(inputs, model=model, engine=engine, load=load, draft=None)


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
