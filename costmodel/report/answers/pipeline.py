"""The pipeline of one plan: schedules side by side, balance of its stages, and a timeline of cells."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.text import Text

from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.estimate.training_answer.evaluate_training import fits_at_p90
from costmodel.explore.explain.schedule_order import Event, ForwardBackwardTime, Pipeline, events
from costmodel.ground.errors import fail
from costmodel.ground.units import gib, percent, show_time
from costmodel.report.answers.plan_answer import plan_answer, plan_rows
from costmodel.report.answers.training_view import TrainingView
from costmodel.report.document import AnswerDocument, Cell, Column, Section, Table, traced
from costmodel.report.terminal.head import title
from costmodel.report.terminal.layout import DIM, HEAD, WidthDrawing, bar, drawn, laid, styled, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from costmodel.explore.explain.schedule_order import Kind, Offer, Pipelines

MOST_RANKS, CELLS, FEWEST_CELLS = 8, 62, 16
_TRACED = {"F": ("forward", "good"), "B": ("backward", "bad"), "W": ("weight gradient", "yellow")}
_MOST_EVENTS = 200_000  # events of one file
_PASSES = {"F": "forward", "B": "backward", "W": "weight gradient"}


def pipeline(timelines: Pipelines) -> AnswerDocument:
    """The answer about a pipeline: schedules, the balance of stages, and a timeline of ranks."""
    return plan_answer(TrainingView(timelines.own), "pipeline", lambda: pipeline_sections(timelines))


def pipeline_sections(timelines: Pipelines) -> list[Section]:
    """A table of schedules, a table of stages, and the timeline in a terminal."""
    clock = timelines.clock
    if clock is None:
        return []
    names = [Column("schedule", "k"), Column("vpp"), Column("bubble"), Column("in flight", drop=1), Column("step")]
    schedules = Table(
        [*names, Column("memory"), Column("", "l")],
        [_schedule_row(timelines, offer) for offer in timelines.offers],
    )
    heads = [
        Column("stage", "k"),
        *map(Column, ("forward", "backward", "both")),
        Column("", "l", drop=1, face="terminal"),
    ]
    ahead, stages = [styled("  stages, time of a micro-batch", HEAD)], Table(heads, _stage_rows(clock))
    alone = styled("One stage is no pipeline: nothing waits.")
    drawing = [timeline(clock)] if clock.ranks > 1 else [alone]
    return [
        Section("schedules", "Schedules", table=schedules),
        Section("stages", "Stages", ahead=ahead, table=stages, detail="times of the stages"),
        Section("timeline", "Timeline", ahead=drawing, face="terminal", detail="the timeline", spare=1),
    ]


def _schedule_row(timelines: Pipelines, offer: Offer) -> list[Cell]:
    """The table row of a schedule: bubble, micro-batches in flight, time, memory, remark."""
    name, vpp = offer.schedule, f"{offer.vpp}"
    if offer.answer.refused:
        code = offer.answer.refused[0]
        return [name, vpp, "", "", "", "", f"✗ {code} {REFUSALS[code].title}"]
    costs = offer.answer.evaluation.costs.row()
    flight, memory = f"{offer.in_flight:.4g}", f"{gib(costs['memory_peak'])} GiB"
    bubble, step = percent(costs["bubble_share"], 2), show_time(costs["step_time"])
    return [name, vpp, bubble, flight, step, memory, _remark(timelines, offer)]


def _remark(timelines: Pipelines, offer: Offer) -> str:
    """A remark on a schedule: whether it is the plan's own, does not fit, or is the fastest and by how much."""
    words = ["yours"] if offer.own else []
    words += ["P90 does not fit"] if "N023" in offer.answer.remarked else []
    if offer.refused:
        words.append(f"✗ {offer.refused[0]} {REFUSALS[offer.refused[0]].title}")
    elif offer is timelines.fastest:
        ours, theirs = (item.evaluation.costs.row()["step_time"] for item in (timelines.own, offer.answer))
        faster = f", {percent(ours / theirs - 1, 2)} faster" if theirs < ours else ""
        words.append(f"← fastest{faster}")
    return " · ".join(words)


def _parts(clock: Pipeline) -> list[tuple[str, ForwardBackwardTime]]:
    """The stages there are, by name."""
    if clock.ranks == 1:
        return [("only", clock.first)]
    middle = [("middle", clock.middle)] if clock.ranks > 2 else []
    return [("first", clock.first), *middle, ("last", clock.last)]


def _stage_rows(clock: Pipeline) -> list[list[Cell]]:
    """The table rows of the stages: seconds forward and backward, with a bar."""
    parts = _parts(clock)
    longest = max(part.forward + part.backward for _, part in parts)
    return [
        [
            name,
            traced(show_time(part.forward), part.forward, f"stages.{name}.forward"),
            traced(show_time(part.backward), part.backward, f"stages.{name}.backward"),
            traced(show_time(part.forward + part.backward), part.forward + part.backward, f"stages.{name}.both"),
            bar((part.forward + part.backward) / longest, 24),
        ]
        for name, part in parts
    ]


def _pass_kinds(clock: Pipeline) -> tuple[Kind, ...]:
    return ("F", "B", "W") if clock.middle.weight else ("F", "B")


def cell_of(clock: Pipeline, count: int = CELLS) -> float:
    """Seconds of a cell: half the shortest operation, or all of it if no backward would be visible else."""
    ranks = range(min(clock.ranks, MOST_RANKS))
    shortest = min(
        clock.duration(rank, chunk, kind)
        for rank in ranks
        for chunk in range(clock.chunks)
        for kind in _pass_kinds(clock)
    )
    shortest = max(shortest, 1e-3 * (clock.first.forward + clock.first.backward))
    shown = events(clock, count * shortest / 2, 1)[0]
    return shortest / 2 if any(event.kind == "B" for event in shown) else shortest


def timeline(clock: Pipeline) -> WidthDrawing:
    """Ranks as lines of cells: a letter and the last digit of the micro-batch, then a stroke as long as it lasts."""
    return WidthDrawing(lambda width: list(_timeline_lines(clock, width)))


def _timeline_lines(clock: Pipeline, width: int | None) -> Iterator[Text]:
    """The timeline as lines: one row of letters per rank."""
    margin = len(str(min(clock.ranks, MOST_RANKS) - 1))
    count = CELLS if width is None else max(FEWEST_CELLS, min(CELLS, width - margin - len("  rank   ")))
    cell = cell_of(clock, count)
    rank_events = events(clock, count * cell, MOST_RANKS)
    batches = len({event.micro_batch for rank in rank_events for event in rank})
    ranks = f"first {MOST_RANKS} of {clock.ranks} ranks, " if clock.ranks > MOST_RANKS else ""
    title = f"  timeline: {ranks}first {batches} of {clock.micro_batches} micro-batches, {clock.schedule}"
    deferred = " W weight gradients," if clock.middle.weight else ""
    yield from laid([styled(title, HEAD)], width)
    for rank, shown in enumerate(rank_events):
        yield drawn(f"  rank {rank:>{margin}}  {cells(shown, cell, count)}")
    yield from laid([styled(f"  F forward, B backward,{deferred} · idle; a cell is {show_time(cell)}", DIM)], width)


def cells(shown: Sequence[Event], cell: float, count: int = CELLS) -> str:
    """The operations of one rank, a letter for each cell."""
    line = ["·"] * count
    for event in shown:
        start, end = round(event.start / cell), round(event.end / cell)
        label = f"{event.kind}{event.micro_batch % 10}"
        for place in range(start, min(end, count)):
            line[place] = label[place - start] if place - start < len(label) else "─"
    return "".join(line)


def pipeline_json(timelines: Pipelines) -> dict[str, Any]:
    """The plan with its schedules, stages and timeline as plain values."""
    result = TrainingView(timelines.own).plain()
    clock = timelines.clock
    result["schedules"] = plan_rows(
        timelines.own.inputs.case, (_offer_fields(timelines, offer) for offer in timelines.offers)
    )
    stages = [] if clock is None else [
        {"stage": name, "forward_s": part.forward, "backward_s": part.backward} for name, part in _parts(clock)
    ]  # fmt: skip
    result["stages"] = plan_rows(timelines.own.inputs.case, stages)
    result["timeline"] = [] if clock is None else list(_chrome_events(clock))
    return result


def _offer_fields(timelines: Pipelines, offer: Offer) -> dict[str, Any]:
    """A schedule as plain values."""
    costs = offer.answer.evaluation.costs.row()
    valid = not offer.answer.refused
    figures = {
        "bubble_share": costs["bubble_share"],
        "in_flight": offer.in_flight,
        "step_time_s": costs["step_time"],
        "memory_peak_bytes": costs["memory_peak"],
        "memory_share": costs["memory_share"],
        "fits_p90": fits_at_p90(costs),
    }
    return {
        "schedule": offer.schedule,
        "vpp": offer.vpp,
        **{name: value if valid else None for name, value in figures.items()},
        "refused": ", ".join(offer.refused) or None,
        "yours": offer.own,
        "fastest": offer is timelines.fastest,
    }


def _chrome_events(clock: Pipeline) -> Iterator[dict[str, Any]]:
    """The operations of the timeline as plain values, for the first ranks."""
    for rank in events(clock, CELLS * cell_of(clock), MOST_RANKS) if clock.ranks > 1 else []:
        for event in rank:
            yield {
                "rank": event.rank,
                "pass": _PASSES[event.kind],
                "chunk": event.chunk,
                "micro_batch": event.micro_batch,
                "start_s": event.start,
                "end_s": event.end,
            }


def trace_text(timelines: Pipelines) -> str:
    """The trace event format of Perfetto: every forward and backward of every rank, in microseconds of the step."""
    if timelines.clock is None:
        raise fail("C007", "there is no pipeline to trace", None, "take --format table, which gives the reason")
    rows: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": visible(title(timelines.own.inputs.case))}}
    ]
    ranks = events(timelines.clock)
    if sum(map(len, ranks)) > _MOST_EVENTS:
        raise fail(
            "C007", f"the trace has more than {_MOST_EVENTS:,} events", None, "a smaller batch shows the same pattern"
        )
    for rank, shown in enumerate(ranks):
        rows.append({"name": "thread_name", "ph": "M", "pid": 0, "tid": rank, "args": {"name": f"stage {rank}"}})
        rows.append({"name": "thread_sort_index", "ph": "M", "pid": 0, "tid": rank, "args": {"sort_index": rank}})
        for event in shown:
            words, colour = _TRACED[event.kind]
            rows.append({
                "name": f"{event.kind}{event.micro_batch}", "cat": words, "ph": "X", "pid": 0, "tid": rank,
                **_times(event), "cname": colour,
                "args": {"pass": words, "micro_batch": event.micro_batch, "chunk": event.chunk},
            })  # fmt: skip
    written = {"displayTimeUnit": "ms", "traceEvents": rows}
    return json.dumps(written, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def _times(event: Event) -> dict[str, float]:
    """Start and duration in µs, as whole ns: Perfetto rounds both, and neighbours would seem to overlap."""
    start, end = round(event.start * 1e9), round(event.end * 1e9)
    return {"ts": start / 1e3, "dur": (end - start) / 1e3}
