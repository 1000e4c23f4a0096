"""The table of a ring all-reduce: a step a row, a rank a column."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from costmodel.explore.explain.ring_steps import USUAL, Ring
from costmodel.ground.units import show, show_time
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import HEAD, styled

_ACROSS = 8  # ranks of which each has a column


def ring_table(found: Ring, *, stated: bool) -> list[Line]:
    """Who sends which chunk when, and how long all of it takes."""
    chunk = show(found.message / found.ranks, "B")
    link = f"{show(found.bandwidth, 'B/s')}{'' if stated else f' ({USUAL}; --bandwidth sets another)'}"
    lines: list[Line] = [
        Text.assemble(("ring-all-reduce", HEAD), f"  {found.ranks} ranks, {show(found.message, 'B')} each"),
        Text(),
        styled(f"  The buffer is cut into {found.ranks} chunks of {chunk}. In each step every rank sends one chunk to"),
        styled("  the next rank: n − 1 steps add the chunks up, n − 1 more pass the sums on."),
        styled(f"  A step takes {show_time(found.each)}: {show_time(found.latency)} and {chunk} over {link}."),
        Text(),
    ]
    shown = range(min(found.ranks, _ACROSS))
    rows = [
        (
            f"{place}",
            "adds" if step.half == "scatter" else "passes on",
            show_time(step.starts),
            *(f"{step.chunks[rank]} → {(rank + 1) % found.ranks}" for rank in shown),
        )
        for place, step in enumerate(found.steps, 1)
    ]
    names = ("step", "", "starts", *(f"rank {rank}" for rank in shown))
    lines.append(CellTable(names, rows, f"rlr{'r' * len(shown)}"))
    if found.ranks > _ACROSS:
        lines.append(styled(f"  ranks {_ACROSS} to {found.ranks - 1} likewise: rank r sends one chunk further on"))
    sent = show(found.message * 2 * (found.ranks - 1) / found.ranks, "B")
    lines += [Text(), styled(f"  all {len(found.steps)} steps take {show_time(found.total)}; each rank sends {sent}")]
    lines += [styled("  a cell is the chunk and the rank it goes to; formula: costmodel explain ring_time")]
    return lines


def ring_json(found: Ring) -> dict[str, Any]:
    """The same as plain values."""
    return {
        **head("costmodel/ring/v1"),
        "ranks": found.ranks,
        "message_bytes": found.message,
        "bandwidth_bytes_per_s": found.bandwidth,
        "latency_s": found.latency,
        "step_s": found.each,
        "total_s": found.total,
        "steps": [
            {"half": step.half, "step": step.number, "starts_s": step.starts, "chunks": list(step.chunks)}
            for step in found.steps
        ],
    }
