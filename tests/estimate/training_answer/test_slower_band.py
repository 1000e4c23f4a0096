"""What can only make a step slower widens the band upwards, and is named."""

from __future__ import annotations

import math

import numpy as np
import pytest
from each import each
from hypothesis import given
from hypothesis import strategies as st

from costmodel.documents.reader.library import UNMEASURED, names, read
from costmodel.documents.schemas.model import Model
from costmodel.equations.run.uncertainty import TENTH, slower_spread
from costmodel.estimate.model.mixers.mixing_half import mixer_kinds
from costmodel.estimate.training_answer.predict_training import Answer
from estimate.cases import ask, inputs

EVEN = {"experts": {"imbalance": 1.0}}


def band(found: Answer) -> tuple[float, float]:
    """How far P10 and P90 lie from the prediction, in logarithms."""
    costs = found.evaluation.costs.row()
    middle = costs["step_time"]
    return math.log(middle / costs["step_time_low"]), math.log(costs["step_time_high"] / middle)


def asked(shape: str, **changes: object) -> Answer:
    return ask(inputs(shape, node="dgx-h100", nodes=2, **changes), tp=1, pp=1, micro_batch=1)


def test_a_band_of_measured_layers_is_as_wide_below_as_above() -> None:
    low, high = band(asked("llama-3-8b"))
    assert low == pytest.approx(high, rel=1e-9)


@each("shape, name", [("gpt-oss-20b", "attention with sinks"), ("nemotron-3-nano-30b-a3b", "state space")])
def test_layers_without_runs_widen_the_band_upwards_and_are_named(shape: str, name: str) -> None:
    found = asked(shape, assume=EVEN)
    low, high = band(found)
    assert high > 2 * low
    assert "N056" in found.remarked
    (line,) = (each for each in found.assumed if each.path == name)
    assert line.value == "never measured on NVIDIA"
    assert "of the step" in line.origin


def test_stated_balance_of_experts_leaves_no_uneven_routing() -> None:
    even, unknown = asked("mixtral-8x7b", assume=EVEN), asked("mixtral-8x7b")
    assert band(even)[0] == pytest.approx(band(unknown)[0], rel=1e-9)
    assert band(even)[1] == pytest.approx(band(even)[0], rel=1e-9)
    fit = read("efficiency", UNMEASURED).routing
    assert band(unknown)[1] ** 2 - band(even)[1] ** 2 == pytest.approx((TENTH * fit.slower) ** 2, rel=1e-6)


def test_every_shipped_model_has_words_for_its_mixers() -> None:
    runs = read("efficiency", UNMEASURED).mixers.runs
    found = set()
    for name in names("model"):
        model = read("model", name)
        assert isinstance(model, Model)
        for kind in model.layers:
            words = list(mixer_kinds(kind))
            assert len(words) == len(kind.mixers)
            found.update(words)
    assert set(runs) < found  # others are shipped too, of which no run is known


@given(st.floats(0.01, 0.5), st.floats(0, 1), st.floats(0.01, 3))
def test_the_spread_lies_between_that_without_and_that_of_the_part_alone(
    spread: float, part: float, slower: float
) -> None:
    found = float(slower_spread(spread, part, slower))
    alone = 1.64485 * slower / TENTH  # were all of the time such a part
    assert spread - 1e-12 <= found <= np.hypot(spread, alone) + 1e-9
    assert float(slower_spread(spread, 0.0, slower)) == pytest.approx(spread)
    assert float(slower_spread(spread, 1.0, slower)) == pytest.approx(np.hypot(spread, alone), rel=1e-6)
