"""Power, energy and emissions against model cards, papers and a measured sweep of power limits."""

from __future__ import annotations

import pytest

from costmodel.equations.kernels.roofline import part_slowdown
from costmodel.equations.run.economics import (
    capped_clock,
    drawn_power,
    emissions,
    energy_cost,
    mean_power,
    run_energy,
)

HOUR, KWH, MWH = 3600.0, 3.6e6, 3.6e9


def tonnes(gpu_hours: float, watts: float, pue: float, kg_per_kwh: float) -> float:
    """Emissions as a model card reckons them."""
    return float(emissions(run_energy(HOUR, gpu_hours, watts, pue), kg_per_kwh / KWH)) / 1e3


@pytest.mark.parametrize(("gpu_hours", "known"), [(184320, 31.22), (368640, 62.44), (1720320, 291.42)])
def test_emissions_of_llama_2(gpu_hours: float, known: float) -> None:
    """Llama 2 model card, 7B, 13B, 70B at 400 W; PUE 1.1 and 0.385 kg/kWh as in LLaMA reproduce it."""
    assert tonnes(gpu_hours, 400.0, 1.1, 0.385) == pytest.approx(known, rel=2e-3)


@pytest.mark.parametrize(
    ("gpu_hours", "megawatt_hours", "known"),
    [
        (82432, 36, 14),
        (135168, 59, 23),
        (530432, 233, 90),
        (1022362, 449, 173),
        (809472, 356, 137),
        (1082880, 475, 183),
    ],
)
def test_table_of_llama(gpu_hours: float, megawatt_hours: float, known: float) -> None:
    """LLaMA table 15: 7B, 13B, 33B, 65B, OPT-175B and BLOOM-175B at 400 W, PUE 1.1, 0.385 kg/kWh."""
    assert run_energy(HOUR, gpu_hours, 400.0, 1.1) / MWH == pytest.approx(megawatt_hours, rel=0.01)
    assert tonnes(gpu_hours, 400.0, 1.1, 0.385) == pytest.approx(known, rel=0.01)


@pytest.mark.parametrize(("gpu_hours", "known"), [(1.46e6, 420), (7.0e6, 2040), (30.84e6, 8930)])
def test_emissions_of_llama_3_1(gpu_hours: float, known: float) -> None:
    """Llama 3.1 model card, 8B, 70B, 405B at 700 W: 0.414 kg for each kWh of the accelerators, PUE and all."""
    assert tonnes(gpu_hours, 700.0, 1.0, 0.414) == pytest.approx(known, rel=0.01)


def test_bloom() -> None:
    """Luccioni et al. (2023): 1,082,990 h at 400 W are 433.196 MWh, 24.69 t; with PUE 1.2 29.6 t, with idle 39.3 t."""
    energy = run_energy(HOUR, 1082990.0, 400.0, 1.0)
    assert energy / MWH == pytest.approx(433.196, rel=1e-5)
    assert emissions(energy, 0.057 / KWH) / 1e3 == pytest.approx(24.69, rel=5e-4)
    assert tonnes(1082990, 400.0, 1.2, 0.057) == pytest.approx(29.6, rel=5e-3)
    assert emissions(689.842 * MWH, 0.057 / KWH) / 1e3 == pytest.approx(39.3, rel=5e-3)


def test_node_draws_more_than_its_accelerators_are_rated() -> None:
    """DGX H100, 76 % of 10.2 kW: 969 W a GPU, 1.4 times 700 W. Llama 3.1 405B: 21.6 GWh by rating, 29.9 by draw."""
    draw = drawn_power(10200.0, 0.76, 8.0)
    assert draw == pytest.approx(969)
    assert draw / 700 == pytest.approx(1.4, abs=0.02)
    assert run_energy(HOUR, 30.84e6, 700.0, 1.0) / MWH / 1e3 == pytest.approx(21.59, rel=5e-4)
    assert run_energy(HOUR, 30.84e6, draw, 1.0) / MWH / 1e3 == pytest.approx(29.9, abs=0.05)


def test_mean_power_between_idle_and_busy() -> None:
    assert mean_power(1000.0, 1.0, 0.3) == 1000
    assert mean_power(1000.0, 0.0, 0.3) == 300
    assert mean_power(1000.0, 0.9, 0.5) == pytest.approx(950)


def test_h100_at_500_watts() -> None:
    """200 of 700 W static, 70 % of a step bound by the clock: clock 0.843, step 13 % longer, 19 % less energy."""
    clock = capped_clock(500.0, 700.0, 2 / 7)
    step = 0.7 / clock + 0.3
    assert clock == pytest.approx(0.8434, abs=5e-5)
    assert step == pytest.approx(1.130, abs=5e-4)
    assert run_energy(step, 1.0, 500.0, 1.0) / run_energy(1.0, 1.0, 700.0, 1.0) == pytest.approx(0.807, abs=5e-4)


def test_without_static_power_it_is_the_slowdown_of_a_part() -> None:
    """part_slowdown of products at 500 of 700 W: 1.119."""
    by_clock = 1 / float(capped_clock(500.0, 700.0, 0.0))
    assert by_clock == pytest.approx(1.1187, abs=5e-5)
    assert by_clock == pytest.approx(float(part_slowdown(1.0, 500.0, 989.4e12, 700.0, 989.4e12)))


PREFILL = {350: 9893, 300: 9326, 250: 8436, 200: 5941, 150: 2549}


@pytest.mark.parametrize("watts", [300, 250])
def test_six_rtx_3090_down_to_70_percent(watts: int) -> None:
    """llmgarage.ai, 2026: prefill of six RTX 3090 under power limits; the cube with 60 W static holds to 2 %."""
    kept = capped_clock(float(watts), 350.0, 60 / 350)
    assert kept == pytest.approx(PREFILL[watts] / PREFILL[350], rel=0.02)


@pytest.mark.parametrize(("watts", "over"), [(200, 0.30), (150, 1.6)])
def test_the_cube_fails_below_70_percent(watts: int, over: float) -> None:
    """The voltage cannot fall further: at 200 and 150 W the cube is 30 and 160 % high, as the docstring warns."""
    kept = float(capped_clock(float(watts), 350.0, 60 / 350))
    assert kept / (PREFILL[watts] / PREFILL[350]) - 1 == pytest.approx(over, abs=0.05)


def test_a_cap_above_the_power_does_nothing() -> None:
    assert capped_clock(900.0, 700.0, 0.3) == 1
    assert capped_clock(100.0, 700.0, 0.3) == 0


def test_price_of_energy() -> None:
    """4.8 GWh at 8 cents a kWh are 384,000 USD."""
    assert energy_cost(4800 * MWH, 0.08 / KWH) == pytest.approx(384e3)
