"""The whole of a run: planned stops, evaluation, wall time."""

from __future__ import annotations

import pytest

from costmodel.equations.run.economics import run_cost
from costmodel.equations.run.failures import planned_share, restart_share, run_goodput, steps_time, wall_time


def test_planned_stops_of_llama_3() -> None:
    """Llama 3 §3.3.4: 47 planned interruptions in 54 days; with 20 min each they take 1.2 % of the time."""
    assert planned_share(47.0, 1200.0, 54 * 86400.0) == pytest.approx(0.01209, abs=1e-5)


def test_goodput_of_the_run() -> None:
    assert run_goodput(0.9, 0.0, 0.0) == 0.9
    assert run_goodput(1.0, 0.01, 0.02) == pytest.approx(0.99 * 0.98)


def test_goodput_85_to_97_percent() -> None:
    """Gemini 1 report §3: goodput rose from 85 to 97 %: the same run in 0.876 of the wall time."""
    assert wall_time(1.0, 0.97) / wall_time(1.0, 0.85) == pytest.approx(0.8763, abs=1e-4)


def test_wall_time_is_steps_over_goodput() -> None:
    steps = steps_time(1.79e6, 16.2, 1.0)
    assert steps / 86400 == pytest.approx(335.6, abs=0.05)
    assert wall_time(steps, 0.995) * 0.995 == pytest.approx(steps)
    assert run_cost(wall_time(steps, 0.5), 512.0, 1e-3) == pytest.approx(2 * run_cost(steps, 512.0, 1e-3))


def test_restarts_take_all_where_they_are_as_long_as_the_time_between_failures() -> None:
    assert restart_share(1e6, 1.0) == 1
    assert restart_share(1.0, 1e6) == pytest.approx(1e-6, rel=1e-5)
