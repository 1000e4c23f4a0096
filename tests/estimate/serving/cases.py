"""Serving scenarios for tests: the shipped one with other values."""

from __future__ import annotations

import numpy as np

from costmodel.documents.reader.resolved_scenario import load_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of

SHIPPED = "serve-llama-3.1-70b"


def case(*assignments: str) -> ServingCase:
    """The shipped scenario with other values."""
    return serving(load_any(SHIPPED, assignments))


def inputs(*assignments: str) -> ServingInputs:
    """Its numbers."""
    return inputs_of(case(*assignments))


def predicted(*assignments: str) -> ServingAnswer:
    """Its own plan."""
    return predict(case(*assignments))


def costs(*assignments: str) -> dict[str, float]:
    """The results of its own plan."""
    return predicted(*assignments).costs


def one(value: object) -> float:
    """The plain number of a plan alone."""
    return float(np.asarray(value).flat[0])
