"""The trace of a pipeline, as Perfetto and chrome://tracing read it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest


def test_a_trace_holds_every_pass_of_every_rank(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert run("pipeline", "llama-3-70b-512", "--format", "trace", "-o", str(path)).code == 0
    trace = json.loads(path.read_text("utf-8"))
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    result = json.loads(run("pipeline", "llama-3-70b-512", "--json").out)
    (plan,) = result["plans"]
    batches = 1024 / (plan["dp"] * plan["micro_batch"])
    assert len(spans) == 2 * batches * plan["pp"]
    by_key = {(span["tid"], span["args"]["pass"], span["args"]["micro_batch"]): span for span in spans}
    for event in result["timeline"]:
        span = by_key[event["rank"], event["pass"], event["micro_batch"]]
        assert span["ts"] == pytest.approx(event["start_s"] * 1e6)
        assert span["ts"] + span["dur"] == pytest.approx(event["end_s"] * 1e6)
    for rank in range(int(plan["pp"])):
        own = sorted((span["ts"], span["ts"] + span["dur"]) for span in spans if span["tid"] == rank)
        assert all(after[0] >= before[1] - 1e-3 for before, after in itertools.pairwise(own))
    last = max(span["ts"] + span["dur"] for span in spans) / 1e6
    beside = plan["pp_exposed_s"] + plan["dp_exposed_s"] + plan["optimizer_s"]
    assert last == pytest.approx(plan["step_time_s"] - beside, rel=1e-6)


def test_slices_do_not_overlap_as_perfetto_reads_them(run: Any) -> None:
    """Its importer takes start and duration to whole nanoseconds, each apart; what overlaps leaves its track.

    perfetto src/trace_processor/importers/json: CoerceToTs, and case 'X' of ParseJsonPacket.
    """
    written = run("pipeline", "llama-3-70b-512", "--format", "trace").out
    trace = json.loads(written)
    assert trace["traceEvents"][0]["args"]["name"] in written, "Perfetto takes \\u00d7 of a name as six letters"
    names = {(event["name"], event["tid"]) for event in trace["traceEvents"] if event["ph"] == "M" and "tid" in event}
    assert names == {(name, tid) for name in ("thread_name", "thread_sort_index") for tid in range(4)}
    for tid in range(4):
        own = sorted(
            (round(event["ts"] * 1000), round(event["dur"] * 1000))
            for event in trace["traceEvents"]
            if event["ph"] == "X" and event["tid"] == tid
        )
        assert all(start + lasts <= after for (start, lasts), (after, _) in itertools.pairwise(own))


def test_a_plan_that_is_not_valid_has_no_trace(run: Any) -> None:
    ran = run("pipeline", "llama-3-70b-512", "--set", "plan.tp=3", "--format", "trace")
    assert ran.code == 2
    assert "C007" in ran.err
