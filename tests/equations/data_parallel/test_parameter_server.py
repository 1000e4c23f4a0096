"""Parameter servers: the bound against a search over all divisions of the work, and its ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.equations.data_parallel import central_server_time, parameter_server_time
from costmodel.equations.network.collectives import ring_time


def searched(workers: int, servers: int) -> float:
    """Least load of the busiest interface over all divisions: each server sums x, each worker y of the gradients.

    A server receives x from each worker. A worker sends what others sum and, of what it sums itself, the result to
    each other worker. Both directions carry as much.
    """
    y = np.linspace(0.0, 1 / workers, 200_001)
    x = (1 - workers * y) / servers if servers else np.zeros_like(y)
    sent = servers * x + (workers - 1) * y + (workers - 1) * y
    possible = np.abs(servers * x + workers * y - 1) < 1e-9
    return float(np.min(np.where(possible, np.maximum(workers * x, sent), np.inf)))


@pytest.mark.parametrize(("workers", "servers"), [(2, 1), (8, 0), (8, 1), (8, 4), (8, 7), (8, 8), (32, 16), (64, 3)])
def test_the_bound_is_the_best_division(workers: int, servers: int) -> None:
    found = float(parameter_server_time(1.0, float(workers), float(servers), 1.0))
    assert found == pytest.approx(searched(workers, servers), rel=1e-4)


@pytest.mark.parametrize("servers", [8.0, 12.0, 100.0])
def test_more_servers_than_workers_do_not_help(servers: float) -> None:
    """A worker sends its gradients whole then."""
    assert parameter_server_time(1.0, 8.0, servers, 1.0) == 1


@given(st.integers(2, 4096).map(float))
def test_without_servers_it_is_an_all_reduce(workers: float) -> None:
    ring = ring_time(1e9, workers, 50e9, 0.0, operation="all_reduce")
    assert parameter_server_time(1e9, workers, 0.0, 50e9) == pytest.approx(float(ring), rel=1e-12)


def test_as_many_servers_as_workers_halve_it_in_the_limit() -> None:
    for workers in (8.0, 1e6):
        ratio = float(parameter_server_time(1.0, workers, workers, 1.0) / parameter_server_time(1.0, workers, 0.0, 1.0))
        assert ratio == pytest.approx(workers / (2 * (workers - 1)), rel=1e-12)
    assert ratio == pytest.approx(0.5, rel=2e-6)


def test_worked_example() -> None:
    """32 workers and 16 servers: 1.319 S/B, against 1.9375 of an all-reduce and 32 of one server."""
    assert parameter_server_time(1.0, 32.0, 16.0, 1.0) == pytest.approx(1.3191, abs=5e-5)
    assert parameter_server_time(1.0, 32.0, 0.0, 1.0) == 1.9375
    assert central_server_time(1.0, 32.0, 1.0) == 32


def test_one_worker_has_nobody_to_add() -> None:
    np.testing.assert_array_equal(parameter_server_time(1.0, 1.0, np.array([0.0, 1.0, 5.0]), 1.0), 0.0)
