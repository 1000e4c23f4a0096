"""Local SGD and DiLoCo: published utilisations and hours, and exchanges played out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.equations.data_parallel import (
    compressed_wire,
    inner_steps_needed,
    local_bandwidth,
    local_traffic_share,
    local_utilisation,
    quantised_share,
)
from costmodel.equations.memory.states import optimizer_bytes
from costmodel.equations.network.collectives import blended_time

HOUR, GIGABIT = 3600.0, 1e9 / 8
PARAMETERS, STEP = 1e9, 0.1  # Streaming DiLoCo: a model of 1 B, steps of 0.1 s


@pytest.mark.parametrize(
    ("exchange", "utilised", "mfu"), [(103.0, 0.957, 0.414), (382.0, 0.856, 0.371), (469.0, 0.830, 0.360)]
)
def test_utilisation_of_intellect_1(exchange: float, utilised: float, mfu: float) -> None:
    """INTELLECT-1 table 2: 100 steps in 38 min, then an all-reduce; MFU falls from 0.433 in proportion."""
    found = float(local_utilisation(100.0, 38 * 60 / 100, exchange, 0.0))
    assert found == pytest.approx(utilised, abs=2e-3)
    assert 0.433 * found == pytest.approx(mfu, rel=0.01)


def hours(steps: float, utilisation: float) -> float:
    """Hours of steps of 0.1 s at a utilisation."""
    return steps * STEP / utilisation / HOUR


@pytest.mark.parametrize(("alone", "data_parallel"), [(0.67, 109.0), (2.7, 438.0)])
def test_data_parallelism_over_one_gigabit(alone: float, data_parallel: float) -> None:
    """Streaming DiLoCo table 1: 0.67 and 2.7 h without a network take 109 and 438 h over 1 Gbit/s.

    Two sites exchange bf16 gradients of 1 B parameters each step; the number of steps is that of the first column.
    """
    steps = alone * HOUR / STEP
    wire = compressed_wire(4 * PARAMETERS, 2.0, quantised_share(2.0, 0.0, 1.0, 4.0), reducible=True)
    exchange = blended_time(0.0, wire, GIGABIT, 0.0)
    assert exchange == 16
    assert hours(steps, float(local_utilisation(1.0, STEP, exchange, 0.0))) == pytest.approx(data_parallel, rel=0.015)


@pytest.mark.parametrize(("alone", "streaming"), [(0.67, 0.88), (2.7, 3.5)])
def test_streaming_over_one_gigabit(alone: float, streaming: float) -> None:
    """Streaming DiLoCo table 1: 0.88 and 3.5 h with 4 bits, each 100 steps, nine fragments hidden for a step each.

    The number of fragments is inferred: 24 layers by three, and the embedding.
    """
    wire = compressed_wire(4 * PARAMETERS, 2.0, quantised_share(0.5, 0.0, 1.0, 4.0), reducible=True)
    utilised = local_utilisation(100.0, STEP, blended_time(0.0, wire, GIGABIT, 0.0), 9.0 * STEP)
    assert hours(alone * HOUR / STEP, float(utilised)) == pytest.approx(streaming, rel=0.02)


@pytest.mark.parametrize(("all_reduced", "streamed"), [(441.0, 1.10), (1767.0, 4.42), (4418.0, 11.05)])
def test_bytes_of_streaming(all_reduced: float, streamed: float) -> None:
    """Streaming DiLoCo table 1: a four-hundredth of the bytes: 4 bits for bf16, once in 100 steps."""
    share = local_traffic_share(quantised_share(0.5, 0.0, 1.0, 2.0), 100.0)
    assert share * all_reduced == pytest.approx(streamed, rel=5e-3)


def test_bandwidth_of_ten_billion_parameters() -> None:
    """10 B in int8, eight replicas, 100 steps of 22.8 s, 95 %: 1.17 Gbit/s."""
    wire = compressed_wire(40e9, 8.0, 0.25, reducible=True)
    assert 8 * local_bandwidth(wire, 100.0, 22.8, 0.95, 0.0) / 1e9 == pytest.approx(1.167, rel=1e-3)


@given(st.integers(1, 1000).map(float), st.floats(0.01, 60.0), st.floats(0.1, 0.99), st.floats(0.0, 10.0))
def test_bandwidth_and_steps_are_inverses_of_utilisation(h: float, step: float, wanted: float, hidden: float) -> None:
    bandwidth = local_bandwidth(1e9, h, step, wanted, hidden)
    exchange = blended_time(0.0, 1e9, bandwidth, 0.0)
    assert local_utilisation(h, step, exchange, hidden) == pytest.approx(wanted, rel=1e-9)
    assert inner_steps_needed(step, exchange, wanted, hidden) == pytest.approx(h, rel=1e-6)


@pytest.mark.parametrize("fragments", [1, 3, 9])
@pytest.mark.parametrize("exchange", [0.5, 4.0, 20.0])
def test_exchanges_of_fragments_played_out(fragments: int, exchange: float) -> None:
    """Each fragment is sent at its turn, may overlap with one step, and blocks until it has arrived."""
    steps, clock = 90, 0.0
    for _cycle in range(20):
        for step in range(steps):
            arrives = clock + exchange / fragments if step % (steps // fragments) == 0 else 0.0
            clock = max(clock + STEP, arrives)
    found = local_utilisation(float(steps), STEP, exchange, float(fragments) * STEP)
    assert steps * STEP * 20 / clock == pytest.approx(float(found), rel=1e-9)


def test_hidden_exchanges_cost_nothing() -> None:
    assert local_utilisation(100.0, 0.1, 0.5, 0.9) == 1


def test_the_outer_optimizer_holds_eight_bytes_more() -> None:
    """An fp32 copy and an fp32 momentum, on every site whole."""
    assert optimizer_bytes(1.0, 4.0, 4.0, 8.0, zero=0) == 8
