"""Cache on the host: what is in reach, how fast it comes back, and how unequal the loads of turns are."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.equations.serving.cache_pool import history_variation, shared_host_rate, tokens_in_reach


def test_copies_lie_twice_and_what_is_evicted_once() -> None:
    """A host of twice the device triples what is in reach where it holds other tokens, and doubles it where copies."""
    assert tokens_in_reach(100.0, 200.0, keeps="evicted") == 300
    assert tokens_in_reach(100.0, 200.0, keeps="copies") == 200
    assert tokens_in_reach(100.0, 50.0, keeps="copies") == 100  # all of them are on the device too


def test_links_of_a_node_share_the_memory_of_its_host() -> None:
    assert shared_host_rate(64e9, 0.86, np.inf, 8.0) == pytest.approx(55.04e9)
    assert 8 * shared_host_rate(450e9, 0.9, 614.4e9, 8.0) == pytest.approx(614.4e9)


@pytest.mark.parametrize(("turns", "found"), [(2, 1.0), (4, 1.0), (4, 0.5), (20, 0.25)])
def test_variation_is_that_of_the_parts_themselves(turns: int, found: float) -> None:
    parts = np.arange(turns)
    mean, square = found * parts.mean(), found * (parts**2).mean()
    assert history_variation(float(turns), found) == pytest.approx(np.sqrt(square - mean**2) / mean)
