"""Two levels of checkpoints: runs played out, and the single level at both ends."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.equations.run.checkpoints import best_goodput, best_interval, checkpoint_goodput, two_level_goodput

from .run_simulation import play_two_levels

M = 3.093 * 3600
Triple = tuple[float, float, float]
EXAMPLE: tuple[Triple, int, Triple] = (120.0, 1.0, 120.0), 30, (60.0, 600.0, 0.0)


def two_levels(memory: Triple, saves: int, storage: Triple, mtbf: float, soft: float) -> float:
    """The equation with the arguments of the played run."""
    return float(two_level_goodput(*memory, float(saves), *storage, mtbf, soft))


def product(memory: Triple, saves: int, storage: Triple, mtbf: float, soft: float) -> float:
    """Each level alone with its own interruptions, multiplied: the approximation this equation replaces."""
    near = checkpoint_goodput(*memory, mtbf / soft, 0.0, 0.0)
    blocking, restart, write = storage
    return float(near * checkpoint_goodput(saves * memory[0], blocking, restart, mtbf / (1 - soft), write, 0.0))


def test_worked_example() -> None:
    """Memory each 2 min, storage each hour, 75 % soft: 0.912, where storage alone reaches 0.853 at best."""
    assert two_levels(*EXAMPLE, M, 0.75) == pytest.approx(0.912, rel=8e-3)
    assert two_levels(*EXAMPLE, M, 0.75) == pytest.approx(0.91168, abs=1e-5)
    assert product(*EXAMPLE, M, 0.75) == pytest.approx(0.9123, abs=5e-5)
    assert best_goodput(60.0, 600.0, M, 0.0, 0.0) == pytest.approx(0.8525, abs=1e-4)


def test_best_interval_of_memory() -> None:
    """√(2 δ M/q) = 172 s, with the interruptions that memory survives."""
    assert best_interval(1.0, M / 0.75, 0.0, 0.0) == pytest.approx(172.3, rel=5e-3)
    assert math.sqrt(2 * M / 0.75) == pytest.approx(172.3, abs=0.05)


@pytest.mark.parametrize(
    ("memory", "saves", "storage", "mtbf", "soft"),
    [
        (*EXAMPLE, M, 0.75),
        ((60.0, 5.0, 60.0), 10, (60.0, 900.0, 0.0), 3600.0, 0.5),
        ((60.0, 5.0, 60.0), 10, (60.0, 900.0, 0.0), 3600.0, 0.9),
        ((300.0, 10.0, 300.0), 4, (120.0, 1200.0, 0.0), 3600.0, 0.3),
        ((120.0, 1.0, 120.0), 30, (5.0, 600.0, 600.0), M, 0.75),
        ((60.0, 5.0, 60.0), 10, (10.0, 900.0, 400.0), 3600.0, 0.5),
    ],
)
def test_two_levels_played_out(memory: Triple, saves: int, storage: Triple, mtbf: float, soft: float) -> None:
    played = play_two_levels(memory, saves, storage, mtbf, soft)
    assert two_levels(memory, saves, storage, mtbf, soft) == pytest.approx(played, rel=3e-3)


@given(st.floats(10.0, 1e3), st.floats(0.1, 60.0), st.floats(1.0, 600.0), st.floats(600.0, 1e6), st.integers(1, 50))
def test_without_soft_interruptions_only_storage_counts(
    interval: float, blocking: float, restart: float, mtbf: float, saves: int
) -> None:
    """Saves to memory then block for nothing: one level with all of their blocking time."""
    both = two_levels((interval, blocking, 7.0), saves, (30.0, restart, 0.0), mtbf, 0.0)
    alone = checkpoint_goodput(saves * interval, saves * blocking + 30.0, restart, mtbf, 0.0, 0.0)
    assert both == pytest.approx(float(alone), rel=1e-9, abs=1e-300)


@given(st.floats(10.0, 1e3), st.floats(0.1, 60.0), st.floats(1.0, 600.0), st.floats(600.0, 1e6))
def test_with_soft_interruptions_alone_only_memory_counts(
    interval: float, blocking: float, restart: float, mtbf: float
) -> None:
    both = two_levels((interval, blocking, restart), 5, (0.0, 900.0, 0.0), mtbf, 1 - 1e-9)
    alone = checkpoint_goodput(interval, blocking, restart, mtbf, 0.0, 0.0)
    assert both == pytest.approx(float(alone), rel=1e-5)


@given(st.floats(10.0, 1e3), st.floats(0.1, 60.0), st.floats(1.0, 600.0), st.floats(600.0, 1e6), st.floats(0.01, 0.99))
def test_two_equal_levels_are_one(interval: float, blocking: float, restart: float, mtbf: float, soft: float) -> None:
    """Where each save goes to storage too and restarts take as long, the kind of interruption does not matter."""
    both = two_levels((interval, blocking, restart), 1, (0.0, restart, 0.0), mtbf, soft)
    alone = checkpoint_goodput(interval, blocking, restart, mtbf, 0.0, 0.0)
    assert both == pytest.approx(float(alone), rel=1e-9)
