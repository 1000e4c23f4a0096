"""The part of a page about the pipeline: when each rank works on which micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from costmodel.explore.page.plan_facts import PlanFacts, Window
from costmodel.ground.units import percent
from costmodel.report.document import Cell
from costmodel.report.page.content import PageTable, Part
from costmodel.report.page.marks import SvgFigure
from costmodel.report.page.plots import PlotSpan, Timeline
from costmodel.report.page.values import Figures, seconds

_ROLES = {"F": "forward", "B": "backward", "W": "weight"}
_WORDS = {"F": "forward", "B": "backward", "W": "weight gradient"}


def pipeline_part(facts: PlanFacts, figures: Figures) -> Part | None:
    """The timeline of the stages; none of a plan of one stage."""
    clock = facts.pipeline
    if clock is None:
        return None
    whole = "" if len(facts.windows) == 1 else ": its beginning and its end"
    counts = f"{clock.micro_batches:,} micro-batches through {clock.ranks} stages, {clock.schedule}{whole}."
    shown = len({event.rank for event in facts.windows[0].events})
    less = "" if shown == clock.ranks else f" The first {shown} stages are drawn."
    stages = (("first", clock.first), ("middle", clock.middle), ("last", clock.last))
    rows: list[Sequence[Cell]] = []
    for stage, part in stages:
        if clock.ranks > 2 or stage != "middle":
            times = {"forward": part.forward, "backward": part.backward, "both": part.forward + part.backward}
            rows.append((stage, *(figures.other(f"stages.{stage}.{name}", time, seconds(time))
                                  for name, time in times.items())))  # fmt: skip
    return Part(
        "pipeline",
        "Pipeline",
        f"{percent(facts.costs['bubble_share'])} of the step is the bubble. {counts}{less}",
        timeline_figures(facts),
        figures_as_table=PageTable(("stage", "forward", "backward", "both"), rows, "lrrr", "Time of a micro-batch"),
        zoom=True,
    )


def timeline_figures(facts: PlanFacts) -> list[Callable[[float], SvgFigure]]:
    """A timeline of every window that is drawn."""
    return [_timeline(facts, window, place) for place, window in enumerate(facts.windows)]


def _timeline(facts: PlanFacts, window: Window, place: int) -> Timeline:
    ranks = sorted({event.rank for event in window.events})
    spans = [
        PlotSpan(
            ranks.index(event.rank),
            event.start,
            event.end,
            _ROLES[event.kind],
            str(event.micro_batch),
            f"rank {event.rank}, {_WORDS[event.kind]} of micro-batch {event.micro_batch}: "
            f"{seconds(event.start)} to {seconds(event.end)}",
        )
        for event in window.events
    ]
    kinds = dict.fromkeys(event.kind for event in window.events)
    alone = len(facts.windows) == 1
    title = "Timeline of the pipeline" if alone else f"Timeline of the pipeline, its {('beginning', 'end')[place]}"
    return Timeline(
        f"pipeline-{place}",
        title,
        f"{len(ranks)} ranks from {seconds(window.start)} to {seconds(window.end)}; grey is waiting.",
        [f"rank {rank}" for rank in ranks],
        spans,
        (window.start, window.end),
        seconds,
        [*((_ROLES[kind], _WORDS[kind]) for kind in "FBW" if kind in kinds), ("quiet", "waits")],
    )
