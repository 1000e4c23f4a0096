"""Widths of the band are found again in errors that were drawn with them, and hold as many unseen runs as they say."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.documents.reader.library import CachedReader
from costmodel.equations.run.uncertainty import TENTH
from costmodel.evidence.calibrate.fit_from_runs import EXPERTS, STEP, UNSEEN, Unexplained, fitted_widths, spreads
from costmodel.evidence.calibrate.regression_problem import width_priors

PRIORS = width_priors(CachedReader())
MADE = {STEP: 0.04, UNSEEN: 0.09, EXPERTS: 0.12}


def drawn(seed: int, sources: int, runs: int) -> Unexplained:
    """Errors of runs of many sources, a third of them with experts, by known widths and a known spread of kernels."""
    draws, size = np.random.default_rng(seed), sources * runs
    offsets = np.repeat(MADE[UNSEEN] * draws.standard_t(3, size=sources), runs)
    mixed, kinds = draws.random(size) < 1 / 3, draws.uniform(0.02, 0.05, size)
    own = spreads(MADE, kinds, mixed, unseen=False)
    names = [f"source-{place // runs}" for place in range(size)]
    return Unexplained(offsets + own * draws.normal(size=size), kinds, mixed, names)


def test_widths_are_found_again() -> None:
    found = fitted_widths(drawn(1, 60, 12), PRIORS)
    assert found == {name: pytest.approx(value, rel=0.3) for name, value in MADE.items()}


def test_sources_that_were_not_fitted_lie_inside_as_often_as_they_should() -> None:
    """Eight in ten; a band that forgets the sources holds many fewer."""
    widths, unseen = fitted_widths(drawn(1, 60, 12), PRIORS), drawn(2, 400, 5)
    sizes = np.abs(unseen.errors) / TENTH
    whole, alone = (spreads(widths, unseen.kinds, unseen.mixed, unseen=each) for each in (True, False))
    assert np.mean(sizes <= whole) == pytest.approx(0.8, abs=0.04)
    assert np.mean(sizes <= alone) < 0.65


def test_few_runs_leave_the_widths_near_their_priors() -> None:
    found = fitted_widths(drawn(3, 1, 2), PRIORS)
    assert all(abs(np.log(found[one.leaf] / one.mean)) < 1.5 * one.spread for one in PRIORS)


def test_the_runs_left_out_say_nothing() -> None:
    runs = drawn(4, 6, 4)
    which = np.array([source == "source-0" for source in runs.sources])
    wild = Unexplained(np.where(which, 3.0, runs.errors), runs.kinds, runs.mixed, runs.sources)
    assert fitted_widths(wild.without(which), PRIORS) == fitted_widths(runs.without(which), PRIORS)
