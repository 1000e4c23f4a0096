"""The steps of a ring all-reduce: played out with numbers they give all ranks all sums, in the time of the formula."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from costmodel.explore.collective import ring_all_reduce


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8])
def test_every_rank_ends_with_every_sum(ranks: int) -> None:
    given = np.random.default_rng(ranks).integers(0, 100, (ranks, ranks))
    held = given.copy()
    for step in ring_all_reduce(ranks, 1e9, 50e9, 5e-6).steps:
        sent = [(rank, step.chunks[rank], held[rank, step.chunks[rank]]) for rank in range(ranks)]
        for rank, chunk, value in sent:
            to = (rank + 1) % ranks
            held[to, chunk] = held[to, chunk] + value if step.half == "scatter" else value
    assert (held == given.sum(axis=0)).all()


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_steps_follow_each_other(ranks: int) -> None:
    found = ring_all_reduce(ranks, 8e8, 50e9, 5e-6)
    assert len(found.steps) == 2 * (ranks - 1)
    assert found.each == pytest.approx(5e-6 + 8e8 / ranks / 50e9)
    assert found.total == pytest.approx(len(found.steps) * found.each)
    assert [step.starts for step in found.steps] == pytest.approx([at * found.each for at in range(len(found.steps))])


def test_the_command_takes_sizes_with_their_units(run: Any, faults: Any) -> None:
    asked = ("explain", "ring-all-reduce", "--ranks", "4")
    found = json.loads(run(*asked, "--message", "1 GB", "--bandwidth", "50 GB/s", "--latency", "5 us", "--json").out)
    assert found["total_s"] == pytest.approx(6 * (5e-6 + 0.25e9 / 50e9))
    for wrong in (("--message", "1"), ("--bandwidth", "50 GB"), ("--latency", "-5 us"), ("--message", "0 B")):
        assert [fault.code for fault in faults(run(*asked, *wrong))] == ["C003"]
    assert [fault.code for fault in faults(run("explain", "gpipe", "--ranks", "4"))] == ["C003"]
    assert run("explain", "ring-all-reduce", "--ranks", "1").code == 2
    for option in (("--message", "2 GB"), ("--bandwidth", "50 GB/s"), ("--latency", "5 us")):
        assert run("explain", "ring_time", *option).code == 2, "without --ranks they have no effect"


@pytest.mark.parametrize(("node", "ranks", "inside", "between"), [
    ("dgx-h100", 64, 450e9, 8 * 50e9),  # NVLink 4, and eight ports of 400 Gb/s
    ("p4d", 16, 300e9, 4 * 12.5e9),  # NVLink 3, and four ports of 100 Gb/s
    ("dgx-h100", 8, 450e9, np.inf),
])  # fmt: skip
def test_a_ring_over_nodes_waits_for_its_slowest_hop(
    node: str, ranks: int, inside: float, between: float, run: Any
) -> None:
    asked = ("explain", "ring-all-reduce", "--ranks", str(ranks), "--node", node)
    found = json.loads(run(*asked, "--json").out)
    assert found["bandwidth_bytes_per_s"] == pytest.approx(min(inside, between))
    assert found["step_s"] == pytest.approx(1e9 / ranks / min(inside, between))
    shown = run(*asked, brief=True).out.splitlines()
    assert any("cross the network" in line for line in shown) is (ranks > 8)
    assert len([line for line in shown if " → " in line and line.split()[0].isdigit()]) == 6
    assert max(map(len, shown)) <= 110
