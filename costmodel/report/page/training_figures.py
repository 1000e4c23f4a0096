"""Figures of a training plan: its products under the roofs, and the timeline of its stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from costmodel.explore.page.plan_facts import Operation, PlanFacts, Window, roofs
from costmodel.ground.units import show, show_time, significant
from costmodel.report.page.plots import Plot, PlotAxis, PlotLine, PlotPoint, PlotSpan, SvgFigure, Timeline, seconds

_ROLES = {"F": "forward", "B": "backward", "W": "weight"}
_WORDS = {"F": "forward", "B": "backward", "W": "weight gradient"}


def roofline_figure(operations: Sequence[Operation]) -> Plot:
    """A roofline: FLOP per byte against FLOP per second, both logarithmic."""
    limits, longest = roofs(list(operations)), max(item.seconds for item in operations)
    intensities = [item.intensity for item in operations] + [roof.ridge for roof in limits]
    low, high = min(intensities) / 3, max(intensities) * 2.5
    fastest = show(max(operation.attained for operation in operations), "FLOP/s")
    lines = []
    for roof in limits:
        corners = [(low, low * roof.bandwidth), (roof.ridge, roof.peak), (high, roof.peak)]
        lines.append(PlotLine([corner for corner in corners if low <= corner[0] <= high], "fourth",
                              f"peak {show(roof.peak, 'FLOP/s')}"))  # fmt: skip
    points = [
        PlotPoint(item.intensity, item.attained, _role_of_direction(item.name),
                  f"{item.name}: {show(item.attained, 'FLOP/s')}, {show_time(item.seconds)}", item.name,
                  radius=3 + 8 * (item.seconds / longest) ** 0.5)
        for item in operations
    ]  # fmt: skip
    bottom = min([item.attained for item in operations] + [low * limits[-1].bandwidth]) / 1.5
    seen = dict.fromkeys(point.role for point in points)
    return Plot(
        "roofline",
        "Roofline of the matrix products",
        f"{len(operations)} matrix products; the fastest reaches {fastest}.",
        PlotAxis("FLOP for each byte", lambda value: significant(value, 3).removesuffix(".0"), True, (low, high)),
        PlotAxis("FLOP/s", lambda value: show(value, ""), True, (bottom, limits[0].peak * 1.5)),
        points,
        lines,
        [(role, _DIRECTIONS[role]) for role in _DIRECTIONS if role in seen],
    )


_DIRECTIONS = {"first": "forward", "second": "input gradient", "third": "weight gradient"}


def _role_of_direction(name: str) -> str:
    return next((role for role, words in _DIRECTIONS.items() if name.endswith(words)), "first")


def timeline_figures(facts: PlanFacts) -> list[Callable[[float], SvgFigure]]:
    """A timeline of every window that is drawn."""
    return [_pipeline_timeline(facts, window, place) for place, window in enumerate(facts.windows)]


def _pipeline_timeline(facts: PlanFacts, window: Window, place: int) -> Timeline:
    """The timeline of a window of the pipeline: a lane per rank, a span per operation."""
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
