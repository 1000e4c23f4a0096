"""Slots: against Erlang's line, against a chain of births and deaths, and their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations.serving.queues import (
    full_slot_time,
    slots_taken,
    slotted_token_time,
    spare_slots,
    waiting_probability,
)


def chain(slots: int, alone: float, work: float, rate: float) -> tuple[float, float]:
    """Share of requests that find all slots taken, and requests in slots on average, of the chain state by state."""
    states = np.arange(1, 40 * slots + 4000)
    held = np.minimum(states, slots)
    answered = held / (alone + work * held)  # answers a second
    log = np.concatenate([[0.0], np.cumsum(np.log(rate / answered))])
    shares = np.exp(log - log.max())
    shares /= shares.sum()
    return float(shares[slots:].sum()), float(shares[1:] @ held)


@pytest.mark.parametrize("slots", [1, 2, 7, 16, 40, 200])
@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_the_chain_has_these_shares(slots: int, share: float) -> None:
    for alone, work in ((5.0, 0.1), (5.0, 1.0), (1.0, 0.0)):
        rate = share * slots / float(full_slot_time(alone, 1.0, work, slots))
        base, utilisation = rate * alone, rate * work
        taken, held = chain(slots, alone, work, rate)
        found = float(slots_taken(float(slots), base, utilisation))
        assert found == pytest.approx(taken, rel=1e-6 if slots <= 4 else 0.15)
        assert (base + utilisation * (1 - taken)) / (1 - utilisation) == pytest.approx(held, rel=1e-6)  # Little's law


def test_without_sharing_it_is_erlangs_line() -> None:
    slots = np.array([1.0, 3.0, 16.0, 64.0, 128.0])
    for busy in (0.4, 0.7, 0.95):
        expected = np.asarray(waiting_probability(slots, busy))
        assert np.asarray(slots_taken(slots, busy * slots, 0.0)) == pytest.approx(expected, rel=0.02)


@settings(max_examples=60)
@given(st.floats(1.0, 2000.0), st.floats(1e-3, 500.0), st.floats(0.0, 1.5))
def test_it_is_a_share_and_more_slots_are_taken_less_often(slots: float, base: float, utilisation: float) -> None:
    slots = float(round(slots))
    found = np.asarray(slots_taken(np.array([slots, slots + 1, 2 * slots]), base, utilisation))
    assert np.all((found >= 0) & (found <= 1))
    assert np.all(np.diff(found) <= 1e-9)
    assert base / slots + utilisation < 1 or found[0] == 1
    spare = np.asarray(spare_slots(np.array([slots, slots + 1]), base, utilisation))
    assert spare[1] > spare[0] or utilisation >= 1


def test_a_lone_slot_is_slowed_down_by_nobody() -> None:
    """Whatever prompts of others would do without a bound: its tokens take α + β."""
    for free in (0.02, 0.05, 5.0):
        found = slotted_token_time(free, 0.01, 1e-4, 3.0, 500.0, 0.4, 1.0, 0.5)
        assert 0.009 < float(found) <= 0.01 + 1e-4 + 1e-12
