"""Groups on scale-up domains against placements that are counted one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from costmodel.equations.network.topology import groups_beside, ranks_in_whole_groups


def first_fit(rooms: list[int], size: int, count: int) -> int:
    """Groups, of so many, that find a domain with room for all of their ranks; takes that room away."""
    for placed in range(count):
        room = next((each for each, left in enumerate(rooms) if left >= size), None)
        if room is None:
            return placed
        rooms[room] -= size
    return count


@given(st.integers(1, 8), st.integers(1, 80), st.integers(1, 96), st.integers(0, 12), st.integers(1, 96))
def test_groups_beside_larger_ones_are_those_of_first_fit(
    domains: int, domain: int, larger: int, count: int, ranks: int
) -> None:
    rooms = [domain] * domains
    placed = first_fit(rooms, larger, count)
    found = float(groups_beside(float(domains), float(domain), float(larger), float(count), float(ranks)))
    if placed < count:
        assert found < 0
    else:
        assert found == first_fit(rooms, ranks, domains * domain)


@given(st.integers(1, 96), st.integers(1, 96))
def test_what_whole_groups_leave_of_a_domain_is_less_than_one(domain: int, ranks: int) -> None:
    rooms = [domain]
    placed = first_fit(rooms, ranks, domain)
    found = float(ranks_in_whole_groups(float(domain), float(ranks)))
    assert found == (placed * ranks if placed else domain)


def test_columns_are_counted_row_by_row() -> None:
    found = groups_beside(2.0, 72.0, np.array([48.0, 24.0, 16.0]), np.array([2.0, 6.0, 0.0]), 16.0)
    assert np.asarray(found).tolist() == [2.0, 0.0, 8.0]
