"""Serving scenarios for tests: the shipped one with other values."""

from __future__ import annotations

import functools

import numpy as np
from replies import REPLIES

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.estimate.serving.serving_error_band import is_of_bands
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of

SHIPPED = "serve-llama-3.1-70b"
UNLAUNCHED = (  # the device's part of prompts alone
    "stack.launch.prompts.layer=0 us", "stack.launch.prompts.experts=0 us", "stack.launch.prompts.latent=0 us",
)  # fmt: skip


@REPLIES.of_words
def case(*assignments: str) -> ServingCase:
    """The shipped scenario with other values."""
    return serving(load_any(SHIPPED, assignments))


@REPLIES.of_words
def inputs(*assignments: str) -> ServingInputs:
    """Its numbers."""
    return inputs_of(case(*assignments))


@REPLIES.of_words
def predicted(*assignments: str) -> ServingAnswer:
    """Its own plan."""
    return predict(case(*assignments))


class Figures:
    """The results of a plan by name; those that need its bands or its chances only once one of them is asked for."""

    def __init__(self, of: ServingCase) -> None:
        self.case = of
        self.plain = {name: value for name, value in predict(of, bands=False).costs.items() if not is_of_bands(name)}

    def __getitem__(self, name: str) -> float:
        return self.plain[name] if name in self.plain else self.banded[name]

    @functools.cached_property
    def banded(self) -> dict[str, float]:
        """All of them, by two or three times the work."""
        return predict(self.case).costs


@REPLIES.of_words
def costs(*assignments: str) -> Figures:
    """The results of its own plan."""
    return Figures(case(*assignments))


def one(value: object) -> float:
    """The plain number of a plan alone."""
    return float(np.asarray(value).flat[0])
