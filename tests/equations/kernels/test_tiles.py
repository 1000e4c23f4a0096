"""Tiles: whole ones, the last that one unit works at alone, and pages written a block to a token."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.kernels.roofline import page_writing_time, tail_slowdown, tiled_rows


def test_rows_fill_whole_tiles() -> None:
    assert tiled_rows(np.array([1.0, 64.0, 65.0, 4096.0])).tolist() == [64.0, 64.0, 128.0, 4096.0]


def test_a_chip_with_rows_for_all_units_is_busy_to_the_end() -> None:
    assert tail_slowdown(1e6, 64.0, 4096.0, 128.0, 132.0) == pytest.approx(1.0, abs=1e-6)
    assert tail_slowdown(1.0, 1.0, 512.0, 128.0, 0.0) == 1.0, "of a chip whose units are not known nothing is told"


def test_one_head_waits_for_the_unit_with_the_last_rows() -> None:
    """One unit goes through s keys of 128 rows, 4 · 128 · s · d FLOP, with 1/U of the chip's rate."""
    sequence, units, rate = 16384.0, 132.0, 5e14
    whole = 2 * sequence**2 * 128.0 / rate
    last = 4 * 128.0 * sequence * 128.0 / (rate / units)
    time = whole * tail_slowdown(1.0, 1.0, sequence, 128.0, units)
    assert max(whole, last) < time < whole + last


def test_a_unit_holds_more_blocks_of_narrow_heads() -> None:
    """2,048 threads of a unit are four blocks of 512 or sixteen of 128; a block takes as long with few threads."""
    tokens, units, block = 8192.0, 132.0, 2e-6
    for kv_heads, threads in ((1.0, 128), (2.0, 256), (4.0, 512), (32.0, 512)):
        rounds = tokens / (units * (2048 // threads))
        found = page_writing_time(4.0, tokens / 4, kv_heads, 128.0, block / (2048 / 512), units)
        assert found == pytest.approx(rounds * block), kv_heads


def test_of_unknown_units_the_writing_is_that_of_the_chip() -> None:
    assert page_writing_time(1.0, 1000.0, 8.0, 64.0, 4e-9, 0.0) == pytest.approx(4e-6)
