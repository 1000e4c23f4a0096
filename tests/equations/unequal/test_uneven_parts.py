"""Parts of unequal speed: known splits, a measured pair, and both algorithms against all splits there are."""

from __future__ import annotations

import doctest
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.equations import unequal
from costmodel.equations.unequal import (
    balanced_share,
    balanced_shares,
    balanced_time,
    equal_share_time,
    fixed_work,
    whole_shares,
)

speeds = st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.12, 5.0]), min_size=1, max_size=4)


def ends(shares: Any, speed: Any, fixed: Any) -> Any:
    """When each part ends."""
    return np.asarray(shares) / np.asarray(speed) + np.asarray(fixed)


def equal_time(batch: float, parts: list[float], fixed: float) -> float:
    """Time of the slowest with equal shares."""
    return max(float(equal_share_time(batch, float(len(parts)), speed, fixed)) for speed in parts)


def test_two_fast_parts_and_one_half_as_fast() -> None:
    """Speeds 1, 1, 0.5: 0.400 against 0.667 with equal shares; with 0.05 fixed in each 0.45."""
    assert balanced_time(1.0, 2.5, 0.0) == pytest.approx(0.4, rel=1e-15)
    assert equal_time(1.0, [1.0, 1.0, 0.5], 0.0) == pytest.approx(2 / 3)
    work = sum(float(fixed_work(speed, 0.05)) for speed in (1.0, 1.0, 0.5))
    assert balanced_time(1.0, 2.5, work) == pytest.approx(0.45)


def test_two_a6000_and_two_2080_ti() -> None:
    """timm, pull request 580: 200 images each, 2,000 a second; 300 and 200 each, 2,500 a second as measured.

    The slower pair set the time of the equal split, and keeps it.
    """
    step = 800 / 2000
    slow = 200 / step
    assert equal_share_time(800.0, 4.0, slow, 0.0) == pytest.approx(step)
    assert (300 + 300 + 200 + 200) / float(equal_share_time(400.0, 2.0, slow, 0.0)) == pytest.approx(2500, rel=1e-9)


def test_alike_parts_take_equal_shares() -> None:
    """With one kind of part the balanced time is that of equal shares, to the last digit."""
    for parts, batch, speed in ((4.0, 1024.0, 2.5), (7.0, 100.0, 0.3), (64.0, 4096.0, 11.7)):
        assert balanced_time(batch, parts * speed, 0.0) == equal_share_time(batch, parts, speed, 0.0)
        np.testing.assert_allclose(
            balanced_shares(batch, np.full(int(parts), speed), np.zeros(int(parts)), np.full(int(parts), batch)),
            batch / parts,
        )


@given(speeds, st.floats(1.0, 100.0), st.floats(0.0, 2.0))
def test_balanced_parts_end_together(parts: list[float], batch: float, fixed: float) -> None:
    """Their shares sum to the batch, and the time is the least: between that of the fastest alone and equal shares."""
    work = sum(float(fixed_work(speed, fixed)) for speed in parts)
    time = float(balanced_time(batch, sum(parts), work))
    shares = [float(balanced_share(speed, time, fixed)) for speed in parts]
    assert sum(shares) == pytest.approx(batch)
    np.testing.assert_allclose(ends(shares, parts, fixed), time)
    assert time <= equal_time(batch, parts, fixed) * (1 + 1e-12)


@settings(max_examples=100)
@given(st.data())
def test_balanced_shares_under_caps_are_the_best_there_are(data: st.DataObject) -> None:
    """No part ends earlier and could take more; one that ends later has no share at all."""
    parts = np.array(data.draw(speeds))
    count = parts.size
    fixed = np.array(data.draw(st.lists(st.floats(0.0, 3.0), min_size=count, max_size=count)))
    caps = np.array(data.draw(st.lists(st.floats(0.1, 20.0), min_size=count, max_size=count)))
    total = data.draw(st.floats(0.01, 1.0)) * float(caps.sum())
    shares = balanced_shares(total, parts, fixed, caps)
    assert shares.sum() == pytest.approx(total, rel=1e-9)
    assert np.all((shares >= 0) & (shares <= caps))
    last = np.max(np.where(shares > 1e-9, ends(shares, parts, fixed), 0.0))
    early = ends(shares, parts, fixed) < last - 1e-9
    np.testing.assert_allclose(shares[early], caps[early])


def test_without_room_every_part_is_at_its_cap() -> None:
    caps = np.array([1.0, 2.0])
    np.testing.assert_array_equal(balanced_shares(9.0, np.ones(2), np.zeros(2), caps), caps)
    np.testing.assert_array_equal(whole_shares(9, np.ones(2), np.zeros(2), caps, 1), [1, 2])


def test_layers_over_a100_and_v100() -> None:
    """80 layers over 312, 312, 125, 125: 29, 29, 11, 11; slowest 0.0929 where 20 each take 0.160, divisible 0.0915."""
    parts = np.array([312.0, 312.0, 125.0, 125.0])
    layers = whole_shares(80, parts, np.zeros(4), np.full(4, 80.0), 1)
    assert layers.tolist() == [29, 29, 11, 11]
    assert ends(layers, parts, 0.0).max() == pytest.approx(0.09295, abs=5e-6)
    assert equal_time(80.0, parts.tolist(), 0.0) == 0.16
    assert balanced_time(80.0, parts.sum(), 0.0) == pytest.approx(0.0915, abs=5e-5)


def every_split(total: int, caps: list[int], least: int) -> list[tuple[int, ...]]:
    """All ways to hand out whole items within the caps."""
    ranges = [range(least, cap + 1) for cap in caps]
    return [split for split in itertools.product(*ranges) if sum(split) == total]


@settings(max_examples=150)
@given(st.data())
def test_whole_shares_are_the_best_of_all_splits(data: st.DataObject) -> None:
    parts = data.draw(speeds)
    fixed = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=len(parts), max_size=len(parts)))
    caps = data.draw(st.lists(st.integers(1, 9), min_size=len(parts), max_size=len(parts)))
    least = data.draw(st.integers(0, 1))
    total = data.draw(st.integers(max(1, least * len(parts)), sum(caps)))
    found = whole_shares(total, np.array(parts), np.array(fixed), np.array(caps, dtype=float), least)
    assert tuple(found) in (splits := every_split(total, caps, least))

    def last(split: Any) -> float:
        busy = np.asarray(split) > 0
        return float(np.max(np.where(busy, ends(split, parts, fixed), 0.0)))

    assert last(found) == pytest.approx(min(map(last, splits)))


def test_whole_shares_are_within_one_of_balanced_shares() -> None:
    parts, fixed = np.array([3.1, 3.1, 1.2, 0.7]), np.array([0.2, 0.2, 0.5, 0.1])
    caps = np.full(4, 1e9)
    whole, any_size = (f(512, parts, fixed, caps) for f in (lambda *a: whole_shares(*a, 0), balanced_shares))
    assert np.all(np.abs(whole - any_size) <= 1)


def test_examples_of_the_algorithms_run() -> None:
    found = {item.name.rpartition(".")[2] for item in doctest.DocTestFinder().find(unequal) if item.examples}
    assert {"balanced_shares", "whole_shares"} <= found
    assert doctest.testmod(unequal).failed == 0
