"""The answer of `pipeline`: schedules side by side, the times of the stages, and a timeline of ranks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.text import Text

from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.estimate.training_answer.evaluate_training import fits_at_p90
from costmodel.explore.explain.pipeline_schedules import Event, Pipeline, events
from costmodel.ground.errors import fail
from costmodel.ground.units import gib, percent, show_time
from costmodel.report.answers.plan_answer import plan_document, plan_rows
from costmodel.report.answers.training_view import TrainingView, named_stages, stage_cells
from costmodel.report.document import AnswerDocument, Cell, Column, Section, Table
from costmodel.report.terminal.head import case_title
from costmodel.report.terminal.layout import DIM, HEAD, WidthDrawing, bar, laid_out, styled, unwrapped, visible_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from costmodel.explore.explain.pipeline_schedules import Kind, PipelineComparison, ScheduleOption

MOST_RANKS, MOST_CELLS, FEWEST_CELLS = 8, 62, 16
_TRACE_STYLE = {"F": ("forward", "good"), "B": ("backward", "bad"), "W": ("weight gradient", "yellow")}
_MOST_EVENTS = 200_000  # events of one file
_PASSES = {"F": "forward", "B": "backward", "W": "weight gradient"}


def pipeline_document(timelines: PipelineComparison) -> AnswerDocument:
    """The schedules of a pipeline, the times of its stages, and a timeline of its ranks."""
    return plan_document(TrainingView(timelines.own), "pipeline", lambda: pipeline_sections(timelines))


def pipeline_sections(timelines: PipelineComparison) -> list[Section]:
    """Sections with the schedules, the stages and the timeline; empty for an invalid plan."""
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


def _schedule_row(timelines: PipelineComparison, offer: ScheduleOption) -> list[Cell]:
    """The table row of a schedule: bubble, micro-batches in flight, time, memory, remark."""
    name, vpp = offer.schedule, f"{offer.vpp}"
    if offer.answer.refused:
        code = offer.answer.refused[0]
        return [name, vpp, "", "", "", "", f"✗ {code} {REFUSALS[code].title}"]
    costs = offer.answer.evaluation.costs.row()
    flight, memory = f"{offer.in_flight:.4g}", f"{gib(costs['memory_peak'])} GiB"
    bubble, step = percent(costs["bubble_share"], 2), show_time(costs["step_time"])
    return [name, vpp, bubble, flight, step, memory, _schedule_remark(timelines, offer)]


def _schedule_remark(timelines: PipelineComparison, offer: ScheduleOption) -> str:
    """A remark on a schedule: whether it is the plan's own, fits in memory, or is the fastest and by how much."""
    words = ["yours"] if offer.own else []
    words += ["P90 does not fit"] if "N023" in offer.answer.remarked else []
    if offer.refused:
        words.append(f"✗ {offer.refused[0]} {REFUSALS[offer.refused[0]].title}")
    elif offer is timelines.fastest:
        ours, theirs = (item.evaluation.costs.row()["step_time"] for item in (timelines.own, offer.answer))
        faster = f", {percent(ours / theirs - 1, 2)} faster" if theirs < ours else ""
        words.append(f"← fastest{faster}")
    return " · ".join(words)


def _stage_rows(clock: Pipeline) -> list[list[Cell]]:
    """The table rows of the stages: seconds forward, backward and both, with a bar."""
    parts = named_stages(clock)
    longest = max(part.forward + part.backward for _, part in parts)
    return [[*stage_cells(name, part), bar((part.forward + part.backward) / longest, 24)] for name, part in parts]


def _pass_kinds(clock: Pipeline) -> tuple[Kind, ...]:
    """The kinds of operations: F forward, B backward, and W for a separate weight gradient."""
    return ("F", "B", "W") if clock.middle.weight else ("F", "B")


def cell_seconds(clock: Pipeline, count: int = MOST_CELLS) -> float:
    """The seconds that a character of the timeline stands for, so that also the shortest operation is visible."""
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
    """The timeline of the first ranks as a drawing for any width."""
    return WidthDrawing(lambda width: list(_timeline_lines(clock, width)))


def _timeline_lines(clock: Pipeline, width: int | None) -> Iterator[Text]:
    """The timeline as lines: a title, a line of characters for each rank, and a legend."""
    margin = len(str(min(clock.ranks, MOST_RANKS) - 1))
    count = MOST_CELLS if width is None else max(FEWEST_CELLS, min(MOST_CELLS, width - margin - len("  rank   ")))
    cell = cell_seconds(clock, count)
    rank_events = events(clock, count * cell, MOST_RANKS)
    batches = len({event.micro_batch for rank in rank_events for event in rank})
    ranks = f"first {MOST_RANKS} of {clock.ranks} ranks, " if clock.ranks > MOST_RANKS else ""
    title = f"  timeline: {ranks}first {batches} of {clock.micro_batches} micro-batches, {clock.schedule}"
    deferred = " W weight gradients," if clock.middle.weight else ""
    yield from laid_out([styled(title, HEAD)], width)
    for rank, shown in enumerate(rank_events):
        yield unwrapped(f"  rank {rank:>{margin}}  {rank_characters(shown, cell, count)}")
    yield from laid_out([styled(f"  F forward, B backward,{deferred} · idle; a cell is {show_time(cell)}", DIM)], width)


def rank_characters(shown: Sequence[Event], cell: float, count: int = MOST_CELLS) -> str:
    """The operations of one rank as characters of `cell` seconds each: F3── is forward of micro-batch 3."""
    line = ["·"] * count
    for event in shown:
        start, end = round(event.start / cell), round(event.end / cell)
        label = f"{event.kind}{event.micro_batch % 10}"
        for place in range(start, min(end, count)):
            line[place] = label[place - start] if place - start < len(label) else "─"
    return "".join(line)


def pipeline_json(timelines: PipelineComparison) -> dict[str, Any]:
    """The plan with its schedules, stages and timeline as plain values."""
    result = TrainingView(timelines.own).plain()
    clock = timelines.clock
    result["schedules"] = plan_rows(
        timelines.own.inputs.case, (_schedule_fields(timelines, offer) for offer in timelines.offers)
    )
    stages = [] if clock is None else [
        {"stage": name, "forward_s": part.forward, "backward_s": part.backward} for name, part in named_stages(clock)
    ]  # fmt: skip
    result["stages"] = plan_rows(timelines.own.inputs.case, stages)
    result["timeline"] = [] if clock is None else list(_timeline_fields(clock))
    return result


def _schedule_fields(timelines: PipelineComparison, offer: ScheduleOption) -> dict[str, Any]:
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


def _timeline_fields(clock: Pipeline) -> Iterator[dict[str, Any]]:
    """The operations of the first ranks as plain values, in seconds from the start of the step."""
    for rank in events(clock, MOST_CELLS * cell_seconds(clock), MOST_RANKS) if clock.ranks > 1 else []:
        for event in rank:
            yield {
                "rank": event.rank,
                "pass": _PASSES[event.kind],
                "chunk": event.chunk,
                "micro_batch": event.micro_batch,
                "start_s": event.start,
                "end_s": event.end,
            }


def trace_text(timelines: PipelineComparison) -> str:
    """All operations of all ranks in the trace event format of Perfetto, in µs from the start of the step."""
    if timelines.clock is None:
        raise fail("C007", "there is no pipeline to trace", None, "take --format table, which gives the reason")
    rows: list[dict[str, Any]] = [
        {
            "name": "process_name",
            "ph": "M",
            "pid": 0,
            "args": {"name": visible_text(case_title(timelines.own.inputs.case))},
        }
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
            words, colour = _TRACE_STYLE[event.kind]
            rows.append({
                "name": f"{event.kind}{event.micro_batch}", "cat": words, "ph": "X", "pid": 0, "tid": rank,
                **_trace_times(event), "cname": colour,
                "args": {"pass": words, "micro_batch": event.micro_batch, "chunk": event.chunk},
            })  # fmt: skip
    written = {"displayTimeUnit": "ms", "traceEvents": rows}
    return json.dumps(written, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def _trace_times(event: Event) -> dict[str, float]:
    """The start and duration of an operation in µs, rounded to ns so that neighbours do not overlap in Perfetto."""
    start, end = round(event.start * 1e9), round(event.end * 1e9)
    return {"ts": start / 1e3, "dur": (end - start) / 1e3}
