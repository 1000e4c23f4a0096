"""The table of a ring all-reduce: a step a row, a rank a column."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from costmodel.evidence.measure.ring import RingRun
from costmodel.explore.explain.ring_steps import Ring
from costmodel.ground.units import show, show_time
from costmodel.report.terminal.style.layout import HEAD, WARN, CellTable, Line, head, styled

_ACROSS, _ACROSS_BESIDE = 8, 5  # ranks of which each has a column; beside measured times


def ring_table(found: Ring, origin: str = "", ran: RingRun | None = None) -> list[Line]:
    """Which rank sends which chunk in each step, and the total time; ran: a real run to compare with.

    origin: where the rate of a link comes from, if it is not stated
    """
    chunk = show(found.message / found.ranks, "B")
    link = f"{show(found.bandwidth, 'B/s')}{f' ({origin})' if origin else ''}"
    lines: list[Line] = [
        Text.assemble(("ring-all-reduce", HEAD), f"  {found.ranks} ranks, {show(found.message, 'B')} each"),
        Text(),
        styled(f"  The buffer is cut into {found.ranks} chunks of {chunk}. In each step every rank sends one chunk to"),
        styled("  the next rank: n − 1 steps add the chunks up, n − 1 more pass the sums on."),
        styled(f"  A step takes {show_time(found.each)}: {show_time(found.latency)} and {chunk} over {link}."),
        Text(),
    ]
    across = _ACROSS if ran is None else _ACROSS_BESIDE
    shown = range(min(found.ranks, across))
    took = [()] * len(found.steps) if ran is None else [(show_time(each),) for each in ran.steps]
    rows = [
        (
            f"{place}",
            "adds" if step.half == "scatter" else "passes on",
            show_time(step.starts),
            *took[place - 1],
            *(f"{step.chunks[rank]} → {(rank + 1) % found.ranks}" for rank in shown),
        )
        for place, step in enumerate(found.steps, 1)
    ]
    names = ("step", "", "starts", *(["took"] if ran else []), *(f"rank {rank}" for rank in shown))
    lines.append(CellTable(names, rows, f"rlr{'r' * (len(names) - 3)}"))
    if found.ranks > across:
        lines.append(styled(f"  ranks {across} to {found.ranks - 1} likewise: rank r sends one chunk further on"))
    sent = show(found.message * 2 * (found.ranks - 1) / found.ranks, "B")
    lines += [Text(), styled(f"  all {len(found.steps)} steps take {show_time(found.total)}; each rank sends {sent}")]
    lines += _measured_lines(found, ran) if ran else []
    lines += [styled("  a cell is the chunk and the rank it goes to; formula: costmodel explain ring_time")]
    return lines


def _measured_lines(found: Ring, ran: RingRun) -> list[Line]:
    """Lines on the measured time of the real run and on its results."""
    times = f"  measured here: {show_time(ran.total)}, predicted {found.total / ran.total - 1:+.0%}"
    sums = "every rank has the sums" if ran.summed else "a rank does not have the sums"
    lines: list[Line] = [styled(f"{times}; each rank sent {show(float(ran.sent), 'B')}; {sums}")]
    if found.ranks > ran.processors:
        sentence = f"  {found.ranks} processes share {ran.processors} processors, so steps vary"
        lines.append(styled(f"{sentence}; steps that add take longer", WARN))
    return lines


def ring_json(found: Ring, ran: RingRun | None = None) -> dict[str, Any]:
    """The ring all-reduce as plain values."""
    real: dict[str, Any] = {}
    if ran is not None:
        real = {"total_s": ran.total, "steps_s": list(ran.steps), "sent_bytes": ran.sent, "summed": ran.summed}
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
        **({"measured": real} if real else {}),
    }
