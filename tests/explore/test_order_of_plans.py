"""A ranking says which of its first plans lie too close to be told apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from costmodel.documents.reader.resolved_scenario import load
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.explore.search.bands import alike, margin
from costmodel.explore.search.search import search


def test_as_many_as_nine_in_ten_orders_say() -> None:
    """Two plans drawn apart by the margin, each off by what runs of one source differ, stand the right way round."""
    inputs = training_inputs(load("quickstart"))
    draws, spread = np.random.default_rng(7), inputs.stack.spread.step
    faster, slower = (np.exp(spread * draws.normal(size=200_000)) * time for time in (1.0, 1 + margin(inputs)))
    assert np.mean(faster < slower) == pytest.approx(0.9, abs=0.005)


def test_the_count_is_of_the_first_plans() -> None:
    found = search(load("quickstart"), 20, workers=1)
    times = [plan.costs["step_time"] for plan in found.best]
    count = alike(found.inputs, found.best)
    assert 1 <= count <= len(times)
    assert all(time <= times[0] * (1 + margin(found.inputs)) for time in times[:count])
    assert all(time > times[0] * (1 + margin(found.inputs)) for time in times[count:])
    far = [found.best[0], replace(found.best[1], costs=found.best[1].costs | {"step_time": 2 * times[0]})]
    assert alike(found.inputs, far) == 1


def test_the_ranking_says_it(run: object) -> None:
    said = run("search", "llama-3-70b-512", "--top", "3").out  # type: ignore[operator]
    assert "all 3 lie within" in said
