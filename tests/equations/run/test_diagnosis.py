"""Diagnosis: causes planted into a step, and found again from its time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.equations.memory.offload import link_time
from costmodel.equations.network.overlap import exposed_time
from costmodel.equations.run.economics import flop_utilisation
from costmodel.equations.run.uncertainty import (
    cause_distance,
    fixed_part,
    implied_bandwidth,
    implied_overlap,
    implied_slowdown,
)

parts = st.floats(0.01, 10.0)


@given(parts, parts, st.floats(1.0, 64.0))
def test_a_planted_fixed_time_is_found(fixed: float, per_sample: float, batch: float) -> None:
    once, twice = (fixed + per_sample * size for size in (batch, 2 * batch))
    assert fixed_part(once, twice) == pytest.approx(fixed, abs=1e-9)


@given(parts, st.floats(0.1, 0.99))
def test_a_planted_slow_link_is_found(gigabytes: float, slower: float) -> None:
    predicted, measured = (float(link_time(gigabytes * 1e9, rate, 1.0)) for rate in (50e9, 50e9 * slower))
    found = implied_bandwidth(gigabytes * 1e9, predicted, measured - predicted)
    assert found == pytest.approx(50e9 * slower)


@given(parts, st.floats(0.05, 0.95), st.floats(0.0, 1.0))
def test_a_planted_loss_of_overlap_is_found(communication: float, overlap: float, lost: float) -> None:
    predicted, measured = (
        float(exposed_time(communication, 2 * communication, share, 0.0)) for share in (overlap, overlap * lost)
    )
    assert implied_overlap(predicted + (measured - predicted), communication) == pytest.approx(overlap * lost, abs=1e-9)


@given(parts, st.floats(1.0, 3.0))
def test_a_planted_slow_part_is_found(time: float, slower: float) -> None:
    assert implied_slowdown(time, time * slower - time) == pytest.approx(slower)


def test_worked_examples() -> None:
    """300 ms more on 12.8 GB in 380 ms: 18.8 GB/s; 211 of 380 ms exposed: 44.5 % hidden; 2.0 and 3.5 s: 0.5 s fixed."""
    assert implied_bandwidth(12.8e9, 0.380, 0.300) / 1e9 == pytest.approx(18.8, abs=0.05)
    assert implied_overlap(0.211, 0.380) == pytest.approx(0.4447, abs=1e-4)
    assert fixed_part(2.0, 3.5) == 0.5
    assert flop_utilisation(6 * 69.5e9 * 8.389e6, 16.2, 512.0, 989.4e12) == pytest.approx(0.426, rel=5e-3)


def test_the_likeliest_cause_is_the_nearest_to_what_is_expected() -> None:
    """A link at half its rate, known to 10 %, is less likely than parts 23 % slower, known to 5 % … by 6.9 to 4.1."""
    link, clock = cause_distance(25e9, 50e9, 0.10), cause_distance(1.23, 1.0, 0.05)
    assert (float(link), float(clock)) == pytest.approx((6.93, 4.14), abs=5e-3)
    assert cause_distance(50e9, 25e9, 0.10) == pytest.approx(float(link))
    assert cause_distance(1.0, 1.0, 0.05) == 0
