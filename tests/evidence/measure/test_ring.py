"""The ring all-reduce that processes of this machine run: bytes, sums and steps, never how long they take."""

from __future__ import annotations

import json
from typing import Any

import pytest


def test_a_real_ring_sums_and_sends_what_the_equation_gives(run: Any) -> None:
    """Three ranks and chunks of unlike sizes: 2 · (n − 1) steps, and nearly 2 · (n − 1) / n of the buffer."""
    asked = ("explain", "ring-all-reduce", "--ranks", "3", "--message", "80 kB", "--run")
    found = json.loads(run(*asked, "--json").out)
    real = found["measured"]
    assert real["summed"]
    assert len(real["steps_s"]) == len(found["steps"]) == 4
    assert real["total_s"] == pytest.approx(sum(real["steps_s"]))
    assert min(real["steps_s"]) >= 0
    assert real["sent_bytes"] == pytest.approx(80_000 * 4 / 3, abs=2 * 8)
    assert found["bandwidth_bytes_per_s"] > 0
    assert found["total_s"] == pytest.approx(
        4 * (found["latency_s"] + 80_000 / 3 / found["bandwidth_bytes_per_s"]), rel=1e-9
    )


@pytest.mark.parametrize(
    "wrong", [("ring-all-reduce", "--ranks", "8", "--message", "1 GB"), ("gpipe", "--ranks", "2"), ("ring_time",)]
)
def test_what_cannot_be_run_is_refused(run: Any, faults: Any, wrong: tuple[str, ...]) -> None:
    assert [fault.code for fault in faults(run("explain", *wrong, "--run"))] == ["C003"]
