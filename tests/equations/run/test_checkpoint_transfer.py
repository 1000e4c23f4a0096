"""Checkpoints on their way: published sizes and times, and resharding counted cell by cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.equations.memory.offload import link_time
from costmodel.equations.run.checkpoints import (
    checkpoint_bytes,
    checkpoint_load_time,
    checkpoint_write_time,
    checkpoint_writers,
    moved_share,
    reshard_time,
)

ranks = st.integers(1, 120)


def cells(before: int, after: int) -> tuple[float, float, float]:
    """Share of cells that change rank, and the largest share that a rank sends and that one receives."""
    cell = np.arange(before * after)
    source, target = cell // after, cell // before
    away = source != target
    count = before * after
    sent, received = (np.bincount(owner[away], minlength=1).max() / count for owner in (source, target))
    return float(np.mean(away)), float(sent), float(received)


@given(ranks, ranks)
def test_resharding_counted(before: int, after: int) -> None:
    """The share that moves, and the time of the rank that sends or receives most, for any two numbers of ranks."""
    moved, sent, received = cells(before, after)
    assert moved_share(float(before), float(after)) == pytest.approx(moved, abs=1e-12)
    assert reshard_time(1.0, float(before), float(after), 1.0) == pytest.approx(max(sent, received), abs=1e-12)


def test_resharding_of_known_numbers() -> None:
    """70 to 64 moves 92 %, 16 to 15 half; and half to one half."""
    known = {(70.0, 64.0): 0.9166, (16.0, 15.0): 0.5, (2.0, 1.0): 0.5, (8.0, 8.0): 0.0}
    for (before, after), share in known.items():
        assert moved_share(before, after) == pytest.approx(share, abs=1e-4)
        assert moved_share(after, before) == moved_share(before, after)


def test_the_mean_over_ranks_is_too_fast() -> None:
    """Half of the states over 15 ranks is 1/30 of them for each; the last rank receives 15/16 of its shard."""
    mean = float(moved_share(16.0, 15.0)) / 15
    assert reshard_time(1.0, 16.0, 15.0, 1.0) / mean == pytest.approx(1.875)


def test_bytes_of_known_checkpoints() -> None:
    """14 B a parameter: 5.67 TB for 405 B; BLOOM 2.47 TB where 2.3 TB lay on the disk (in TiB 2.24)."""
    assert checkpoint_bytes(405e9, 2.0, 12.0) / 1e12 == pytest.approx(5.67)
    assert checkpoint_bytes(176.2e9, 2.0, 12.0) / 1e12 == pytest.approx(2.3, rel=0.08)
    assert checkpoint_bytes(176.2e9, 2.0, 12.0) / 2**40 == pytest.approx(2.24, abs=5e-3)
    assert checkpoint_bytes(1.0, 0.0, 12.0) == 12


def test_mt_nlg_takes_42_minutes() -> None:
    """GEMINI (2023): 530 B parameters to storage of 20 Gbit/s; 12 B a parameter give 42 min."""
    nbytes = checkpoint_bytes(530e9, 0.0, 12.0)
    assert checkpoint_write_time(nbytes, 1.0, 1e12, 2.5e9) / 60 == pytest.approx(42, rel=0.03)


@pytest.mark.parametrize(("gigabytes", "measured", "tolerance"), [(24.0, 242.0, 0.02), (18.0, 151.0, 0.20)])
def test_saves_of_dlrover(gigabytes: float, measured: float, tolerance: float) -> None:
    """DLRover, GPT 1.5B on 16 A100 to a store of 100 MB/s."""
    assert checkpoint_write_time(gigabytes * 1e9, 16.0, 1e9, 100e6) == pytest.approx(measured, rel=tolerance)


@pytest.mark.parametrize(("gigabytes", "measured", "tolerance"), [(24.0, 242.0, 0.02), (18.0, 205.0, 0.20)])
def test_loads_of_dlrover(gigabytes: float, measured: float, tolerance: float) -> None:
    assert checkpoint_load_time(gigabytes * 1e9, 1.0, 100e6) == pytest.approx(measured, rel=tolerance)


def test_rates_of_bytecheckpoint() -> None:
    """ByteCheckpoint table 8: 405 B on 8,960 GPUs saved in 51.06 s, loaded in 129.49 s: 111 and 43.8 GB/s.

    A rank's 633 MB over PCIe take 25 ms of the 0.59 s for which training stopped.
    """
    nbytes = checkpoint_bytes(405e9, 2.0, 12.0)
    assert checkpoint_write_time(nbytes, 8960.0, 1e9, 111.0e9) == pytest.approx(51.06, rel=1e-3)
    assert checkpoint_load_time(nbytes, 1.0, 43.8e9) == pytest.approx(129.49, rel=1e-3)
    per_rank = nbytes / checkpoint_writers(8960.0, 70.0, sharded=True)
    assert per_rank / 1e6 == pytest.approx(633, abs=0.5)
    assert link_time(per_rank, 25e9, 1.0) * 1e3 == pytest.approx(25.3, abs=0.05)


@given(st.integers(1, 64), st.integers(1, 8), st.integers(1, 16), st.booleans())
def test_bytes_do_not_depend_on_the_plan(dp: int, tp: int, pp: int, sharded: bool) -> None:
    """What each writer writes times the writers is the checkpoint; replicas are not written twice."""
    nbytes = checkpoint_bytes(70e9, 2.0, 12.0)
    writers = checkpoint_writers(float(dp * tp * pp), float(dp), sharded=sharded)
    assert writers == tp * pp * (dp if sharded else 1)
    assert writers * (nbytes / writers) == pytest.approx(nbytes, rel=1e-12)


def test_one_writer_is_slow_however_fast_the_store() -> None:
    assert checkpoint_write_time(1e12, 1.0, 2e9, 100e9) == 500
    assert checkpoint_write_time(1e12, 1e3, 2e9, 100e9) == 10
    assert checkpoint_load_time(1e12, 16.0, 100e9) == 16 * checkpoint_load_time(1e12, 1.0, 100e9)
