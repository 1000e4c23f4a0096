"""Going on without a replica: worked examples, and runs played out."""

from __future__ import annotations

import pytest

from costmodel.equations.run.failures import (
    elastic_goodput,
    elastic_loss,
    longest_elastic_repair,
    restart_loss,
)

from .run_simulation import play_elastic

M = 3.093 * 3600


def test_worked_example() -> None:
    """16 replicas, an hour to a new node, a minute to regroup: 285 s against 1,158 s; equal at 4.9 h of repair."""
    restart = restart_loss(600.0, 1116.0, 0.0)
    assert (elastic_loss(3600.0, 16.0, 60.0), restart) == (285, 1158)
    longest = longest_elastic_repair(restart, 16.0, 60.0)
    assert longest / 3600 == pytest.approx(4.88)
    assert elastic_loss(longest, 16.0, 60.0) == restart


@pytest.mark.parametrize(
    ("repair", "replicas", "regroup", "mtbf"),
    [(3600.0, 16, 60.0, M), (7200.0, 8, 120.0, 7200.0), (86400.0, 16, 60.0, M), (36000.0, 64, 30.0, 3600.0)],
)
def test_elastic_runs_played_out(repair: float, replicas: int, regroup: float, mtbf: float) -> None:
    played = play_elastic(repair, replicas, regroup, mtbf)
    assert elastic_goodput(repair, float(replicas), regroup, mtbf) == pytest.approx(played, rel=5e-3)


def test_a_failure_that_takes_several_replicas_counts_each() -> None:
    """8 of 128 replicas are as much of a job as 1 of 16, whose runs are played out above."""
    one, eight = elastic_goodput(3600.0, 16.0, 60.0, M), elastic_goodput(3600.0, 128.0, 60.0, M, 8.0)
    assert eight == pytest.approx(one, rel=1e-12)
    assert elastic_loss(3600.0, 128.0, 60.0, 8.0) == elastic_loss(3600.0, 16.0, 60.0) == 285
    assert longest_elastic_repair(1158.0, 128.0, 60.0, 8.0) == longest_elastic_repair(1158.0, 16.0, 60.0)


def test_elastic_goodput_is_first_order_in_its_loss() -> None:
    """Where interruptions are rare, each costs what elastic_loss says."""
    mtbf = 1e7
    assert 1 - elastic_goodput(3600.0, 16.0, 60.0, mtbf) == pytest.approx(285 / mtbf, rel=1e-4)


def test_more_repairs_than_replicas_leave_nothing() -> None:
    assert elastic_goodput(1e6, 4.0, 60.0, 1e3) == 0
