"""Batch size: the law's own identities, its best batch by search, and published fits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.equations.data_parallel import (
    best_batch,
    carried_batch,
    carried_learning_rate,
    critical_batch_of_loss,
    fitted_batch,
    samples_for_batch,
    steps_for_batch,
)
from costmodel.equations.kernels.flop import six_n_flop

batches = st.floats(1e3, 1e9)


@given(batches, batches)
def test_steps_and_samples_are_one_law(critical: float, batch: float) -> None:
    """(S/S_min − 1)(E/E_min − 1) = 1, and samples are steps times batch."""
    steps, samples = steps_for_batch(1.0, critical, batch), samples_for_batch(critical, critical, batch)
    assert (steps - 1) * (samples / critical - 1) == pytest.approx(1)
    assert samples == pytest.approx(steps * batch)


def test_a_quarter_of_the_critical_batch() -> None:
    """Five times the least steps, 1.25 times the least samples; at the critical batch twice both."""
    assert steps_for_batch(1.0, 1.0, 0.25) == 5
    assert samples_for_batch(1.0, 1.0, 0.25) == 1.25
    assert steps_for_batch(1.0, 1.0, 1.0) == samples_for_batch(1.0, 1.0, 1.0) == 2


@pytest.mark.parametrize(("fixed", "ranks", "token_time"), [(0.4, 1024.0, 1e-3), (0.05, 64.0, 2e-4), (5.0, 16.0, 1e-2)])
def test_best_batch_by_search(fixed: float, ranks: float, token_time: float) -> None:
    critical = 4e6
    batch = np.geomspace(1e3, 1e9, 200_001)
    wall = steps_for_batch(1e5, critical, batch) * (batch * token_time / ranks + fixed)
    assert best_batch(critical, fixed, ranks, token_time) == pytest.approx(batch[np.argmin(wall)], rel=1e-3)
    assert best_batch(critical, fixed, ranks, token_time) == pytest.approx(
        math.sqrt(critical * fixed * ranks / token_time)
    )


def test_twice_the_batch_always_costs_samples() -> None:
    assert samples_for_batch(1.0, 4e6, 2e6) > samples_for_batch(1.0, 4e6, 1e6)


def test_critical_batch_of_kaplan() -> None:
    """Kaplan et al. (2020): 7.4 M tokens at a loss of 2.0; it doubles whenever the loss falls by 13 %."""
    assert critical_batch_of_loss(2.0) == pytest.approx(7.37e6, rel=1e-3)
    assert critical_batch_of_loss(2.0 * (1 - 0.1355)) / critical_batch_of_loss(2.0) == pytest.approx(2, rel=5e-3)


@pytest.mark.parametrize(("parameters", "sequences", "rate"), [(67e9, 4608, 3.2e-4), (6.9e9, 2304, 4.2e-4)])
def test_batches_of_deepseek(parameters: float, sequences: int, rate: float) -> None:
    """DeepSeek LLM table 2: 67 B and 7 B on 2 T tokens with 4,608 and 2,304 sequences of 4,096 tokens."""
    flop = six_n_flop(parameters, 2e12)
    assert fitted_batch(flop) == pytest.approx(sequences * 4096, rel=0.05)


def test_learning_rate_of_goyal() -> None:
    """Goyal et al. (2017): 0.1 for 256 images becomes 3.2 for 8,192."""
    assert carried_learning_rate(0.1, 8192.0, 256.0, rule="linear") == pytest.approx(3.2)
    assert carried_learning_rate(1e-4, 4e6, 1e6, rule="square root") == pytest.approx(2e-4)


@given(batches, st.floats(1e9, 1e13), st.floats(1e9, 1e13), st.floats(0.3, 0.5))
def test_a_batch_carried_there_and_back(batch: float, tokens: float, known: float, exponent: float) -> None:
    there = carried_batch(batch, tokens, known, exponent)
    assert carried_batch(there, known, tokens, exponent) == pytest.approx(batch)
    assert carried_batch(batch, known, known, exponent) == batch
