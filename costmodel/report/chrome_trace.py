"""The timeline of a pipeline in the trace event format that Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from typing import Any

from costmodel.explore.explain.pipelines import Pipelines
from costmodel.explore.explain.timeline import Event, events
from costmodel.ground.errors import fail
from costmodel.report.terminal.style.head import title
from costmodel.report.terminal.style.theme import visible

_KINDS = {"F": ("forward", "good"), "B": ("backward", "bad"), "W": ("weight gradient", "yellow")}
_MOST = 200_000  # events of one file


def trace_text(found: Pipelines) -> str:
    """Every forward and backward of every rank, microseconds from the start of the step."""
    if found.clock is None:
        raise fail("C007", "there is no pipeline to trace", None, "take --format table, which gives the reason")
    rows: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": visible(title(found.own.inputs.case))}}
    ]
    ranks = events(found.clock)
    if sum(map(len, ranks)) > _MOST:
        raise fail("C007", f"the trace has more than {_MOST:,} events", None, "a smaller batch shows the same pattern")
    for rank, shown in enumerate(ranks):
        rows.append({"name": "thread_name", "ph": "M", "pid": 0, "tid": rank, "args": {"name": f"stage {rank}"}})
        rows.append({"name": "thread_sort_index", "ph": "M", "pid": 0, "tid": rank, "args": {"sort_index": rank}})
        for event in shown:
            words, colour = _KINDS[event.kind]
            rows.append({
                "name": f"{event.kind}{event.micro_batch}", "cat": words, "ph": "X", "pid": 0, "tid": rank,
                **_times(event), "cname": colour,
                "args": {"pass": words, "micro_batch": event.micro_batch, "chunk": event.chunk},
            })  # fmt: skip
    written = {"displayTimeUnit": "ms", "traceEvents": rows}
    return json.dumps(written, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def _times(event: Event) -> dict[str, float]:
    """Microseconds in whole nanoseconds: Perfetto rounds start and duration apart, and would see neighbours overlap."""
    start, end = round(event.start * 1e9), round(event.end * 1e9)
    return {"ts": start / 1e3, "dur": (end - start) / 1e3}
