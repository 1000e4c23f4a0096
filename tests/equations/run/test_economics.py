"""Throughput, utilisation and money: figures that were published."""

from __future__ import annotations

import pytest

from costmodel.equations.kernels.flop import six_n_flop
from costmodel.equations.run.economics import (
    communication_efficiency,
    compute_rate,
    flop_utilisation,
    rate,
    run_cost,
    run_time,
    share,
    token_cost,
    tokens_per_step,
)

HOUR, DAY = 3600.0, 86400.0


def test_gpt_3_in_34_days() -> None:
    """Narayanan et al. (2021), equation 4: 8 T N / (n X) with full recompute, 1,024 A100 at 140 TFLOP/s."""
    tokens_per_second = 1024 * 140e12 / (8 * 175e9)
    assert run_time(300e9, tokens_per_second) / DAY == pytest.approx(33.9, abs=0.05)


def test_llama_3_1_405b() -> None:
    """26.4 M GPU-hours at 400 TFLOP/s; the 30.84 M of the model card are 342, 34.6 % of the peak."""
    flop = float(six_n_flop(405.85e9, 15.6e12))
    assert flop / 400e12 / HOUR / 1e6 == pytest.approx(26.4, abs=0.05)
    achieved = compute_rate(flop, 30.84e6 * HOUR / 16384, 16384.0)
    assert achieved / 1e12 == pytest.approx(342, abs=0.5)
    assert flop_utilisation(flop, 30.84e6 * HOUR / 16384, 16384.0, 989.4e12) == pytest.approx(0.346, abs=5e-4)


def test_deepseek_v3() -> None:
    """348 TFLOP/s over 2.664 M H800-hours; 2.788 M hours at 2 USD are 5.576 M USD of rent."""
    flop = six_n_flop(37.552e9, 14.8e12)
    assert compute_rate(flop, 2.664e6 * HOUR / 2048, 2048.0) / 1e12 == pytest.approx(348, abs=0.5)
    assert run_cost(2.788e6 * HOUR / 2048, 2048.0, 2 / HOUR) / 1e6 == pytest.approx(5.576)


def test_price_of_a_million_tokens() -> None:
    assert token_cost(1e6, 1.0, 2 / HOUR, 2500.0) == pytest.approx(0.222, abs=5e-4)


def test_a_token_costs_the_same_by_either_way() -> None:
    """Rent of the whole run over its tokens, and rent of a second over the tokens of a second."""
    tokens, speed, ranks, price = 300e9, 1.5e5, 512.0, 2.5 / HOUR
    whole = run_cost(run_time(tokens, speed), ranks, price)
    assert whole / tokens == pytest.approx(float(token_cost(1.0, ranks, price, speed)))


def test_utilisation_is_achieved_over_peak() -> None:
    achieved = compute_rate(4e18, 10.0, 1000.0)
    assert flop_utilisation(4e18, 10.0, 1000.0, 989.4e12) == pytest.approx(float(achieved) / 989.4e12)
    assert flop_utilisation(4e18, 20.0, 1000.0, 989.4e12) == pytest.approx(float(achieved) / 989.4e12 / 2)


def test_steps_and_rates() -> None:
    assert tokens_per_step(1024.0, 8192.0) == 2**23
    assert rate(tokens_per_step(1024.0, 8192.0), 16.0) == 2**19


def test_communication_efficiency() -> None:
    assert communication_efficiency(1.0, 0.0) == 1
    assert communication_efficiency(1.0, 1.0) == 0.5
    assert communication_efficiency(9.0, 1.0) == pytest.approx(1 / (1 + 1 / 9))
    assert share(1.0, 4.0) == 0.25
