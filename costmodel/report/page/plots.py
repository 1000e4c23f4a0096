"""Figures of pages: plots of points and lines over two axes, and timelines."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import ClassVar

from costmodel.documents.schemas.results import ResultColumn
from costmodel.ground.record import record
from costmodel.ground.units import show_time, time_unit
from costmodel.report.terminal.formatting import TIME_TERMS, is_memory

# The marks that every figure is made of, and the figure that holds them.

LETTER = 6.9  # width of a letter at the size that figures are written in; a guess for all fonts
LINE = 15.0
TICK, TITLE = "soft tick", "soft axis-title"  # roles of words on an axis


@record
class Bar:
    """A rectangle of a figure; programs that read the page find its name and value."""

    kind: ClassVar[str] = "bar"
    x: float
    y: float
    width: float
    height: float
    role: str
    tip: str = ""
    name: str = ""
    value: float | None = None


@record
class Rule:
    """A straight line: an axis, a grid line, or a limit."""

    kind: ClassVar[str] = "rule"
    x1: float
    y1: float
    x2: float
    y2: float
    role: str = "grid"


@record
class Words:
    """A line of text; `x` is where it starts, ends or has its middle."""

    kind: ClassVar[str] = "words"
    x: float
    y: float
    text: str
    anchor: str = "start"
    role: str = "label"


@record
class Dot:
    """A point with both its values; the shape distinguishes roles without colour."""

    kind: ClassVar[str] = "dot"
    x: float
    y: float
    radius: float
    role: str
    tip: str = ""
    name: str = ""
    values: tuple[float, float] | None = None
    hollow: bool = False


@record
class Curve:
    """A line through points; `closed` fills its area."""

    kind: ClassVar[str] = "curve"
    points: tuple[tuple[float, float], ...]
    role: str
    closed: bool = False


Mark = Bar | Rule | Words | Dot | Curve


@record
class SvgFigure:
    """A drawing with its title and what it shows in a sentence."""

    key: str
    title: str
    description: str
    width: float
    height: float
    marks: Sequence[Mark] = field(default_factory=list)


def text_width(text: str) -> float:
    """The approximate width of a text."""
    return LETTER * len(text)


def shortened_to(text: str, room: float) -> str:
    """A text cut to a width, with … at its end; unchanged if it fits.

    >>> shortened_to("matrix multiply", 200), shortened_to("matrix multiply", 60)
    ('matrix multiply', 'matrix …')
    """
    letters = max(2, int(room / LETTER))
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


# Axes: from values to places on a drawing, and ticks at round numbers.

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_WITHIN_A_DECADE = (1.0, 2.0, 5.0)
_WITHIN_ONE = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
_ONE_DECADE, _MANY_DECADES = 1.2, 4.0
_DIGITS = 3  # of a figure on an axis
_LEAST_SPAN = 0.04  # of the largest value, so that three digits distinguish ticks
_NOUGHTS = re.compile(r"(\d)\.0+(?!\d)|(\.\d*?[1-9])0+(?!\d)")


@record
class Scale:
    """A straight or logarithmic axis from `low` to `high`, drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value; what lies outside is drawn at the end."""
        low, high, here = (self._measure(item) for item in (self.low, self.high, value))
        share = 0.0 if high == low else min(1.0, max(0.0, (here - low) / (high - low)))
        return self.start + share * (self.end - self.start)

    def _measure(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.logarithmic else value

    def ticks(self, count: int = 5) -> list[float]:
        """About `count` round values on the axis."""
        if self.logarithmic:
            return log_ticks(self.low, self.high)
        return ticks(self.low, self.high, count)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round values from the first at or above `low` to the last at or below `high`.

    >>> ticks(0, 16.15, 4), ticks(34.9, 44.8, 4)
    ([0.0, 5.0, 10.0, 15.0], [35.0, 37.5, 40.0, 42.5])
    >>> ticks(100.5, 109.9, 4)
    [102.0, 104.0, 106.0, 108.0]
    """
    if not high > low:
        return [low]
    step = _step((high - low) / max(1, count), max(abs(low), abs(high)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 12) + 0.0 for place in range(first, last + 1)]


def _step(rough: float, largest: float) -> float:
    """The round step that is nearest from above; 2 for 2.5 where three digits do not state its multiples."""
    finest = 10.0 ** (math.floor(math.log10(largest)) - _DIGITS + 1)
    rough = max(rough, finest)
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(step * decade for step in _STEPS if step * decade >= rough * (1 - 1e-9))
    return 2 * decade if step == 2.5 * decade and decade < 1.5 * finest else step


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten, with multiples between them if the axis is short.

    >>> log_ticks(30, 3000), log_ticks(1, 1e6)
    ([50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0], [1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0, 1000000.0])
    >>> log_ticks(180, 1500)
    [200.0, 300.0, 500.0, 700.0, 1000.0, 1500.0]
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    few = _WITHIN_ONE if decades < _ONE_DECADE else _WITHIN_A_DECADE
    within = few if decades < _MANY_DECADES else (1.0,)
    every = (factor * 10.0**decade for decade in range(first, last + 1) for factor in within)
    return [value for value in every if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]


def trimmed(text: str) -> str:
    """The label of a round value, without zeros after the decimal point.

    >>> trimmed("5.00 s"), trimmed("2.50 ms"), trimmed("10.0 s"), trimmed("1,000 GiB")
    ('5 s', '2.5 ms', '10 s', '1,000 GiB')
    """
    return _NOUGHTS.sub(lambda found: found[1] or found[2], text)


def axis_ends(values: Iterable[float], *, logarithmic: bool = False, margin: float = 0.06) -> tuple[float, float]:
    """The ends of an axis that shows all values with a margin."""
    held = [value for value in values if math.isfinite(value) and (value > 0 or not logarithmic)]
    low, high = (min(held), max(held)) if held else (1.0, 1.0)
    if logarithmic:
        factor = max((high / low) ** margin, 1.15)
        return low / factor, high * factor
    room = max((high - low) * margin, (_LEAST_SPAN * abs(high) - (high - low)) / 2) or 1.0
    return low - room, high + room


_TALL, _BELOW = 300.0, 44.0

ValueText = Callable[[float], str]


@record
class PlotAxis:
    """An axis: its title, and how its values are written."""

    title: str
    text_of: ValueText
    logarithmic: bool = False
    ends: tuple[float, float] | None = None
    unit: float = 1.0  # in which ticks are round
    at: Mapping[float, str] = field(default_factory=dict)  # values that were asked for, as they were written

    @property
    def words(self) -> str:
        """The label of the axis."""
        return f"{self.title}, logarithmic" if self.logarithmic else self.title

    def tick(self, value: float) -> str:
        """The label at a value: the given text, or else a round number."""
        return self.at.get(value) or trimmed(self.text_of(value))

    def ticks(self, scale: Scale, count: int) -> list[float]:
        """The given values, or else round ones."""
        if self.at:
            return sorted(self.at)
        if self.unit == 1.0:
            return scale.ticks(count)
        inner = Scale(scale.low / self.unit, scale.high / self.unit, scale.start, scale.end, scale.logarithmic)
        return [tick * self.unit for tick in inner.ticks(count)]


@record
class PlotPoint:
    """A point with a label next to it and a tip for hovering."""

    x: float
    y: float
    role: str
    tip: str = ""
    name: str = ""
    label: str = ""
    radius: float = 4.0
    hollow: bool = False


@record
class PlotLine:
    """A line through values, with the ends of its band where it has one."""

    points: Sequence[tuple[float, float]]
    role: str
    label: str = ""
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@record
class Plot:
    """Points and lines over two axes."""

    key: str
    title: str
    description: str
    x: PlotAxis
    y: PlotAxis
    points: Sequence[PlotPoint] = ()
    lines: Sequence[PlotLine] = ()
    legend: Sequence[tuple[str, str]] = ()
    marks: Sequence[Mark] = field(default_factory=list)

    def __call__(self, width: float) -> SvgFigure:
        """Draw the figure at a width."""
        hollow = {point.role for point in self.points if point.hollow}
        legend, top = _legend(self.legend, width, hollow)
        top += LINE + 6
        low, high = self._ends(self.y, [point.y for point in self.points], 1)
        bottom = top + _TALL
        y = Scale(low, high, bottom, top, self.y.logarithmic)
        steps = self.y.ticks(y, 5)
        left = max(text_width(self.y.tick(step)) for step in steps) + 10 if steps else 40.0
        x = Scale(*self._ends(self.x, [point.x for point in self.points], 0), left, width - 14, self.x.logarithmic)
        marks: list[Mark] = [*legend, Words(0, top - 8, self.y.words, role=TITLE)]
        marks += [Rule(left, y(step), width - 14, y(step)) for step in steps]
        marks += [Words(left - 6, y(step) + 4, self.y.tick(step), "end", TICK) for step in steps]
        marks += self._below(x, bottom, width)
        for line in self.lines:
            marks += _line_marks(line, x, y)
        marks += self._points(x, y, width)
        return SvgFigure(self.key, self.title, self.description, width, bottom + _BELOW, marks)

    def _ends(self, axis: PlotAxis, values: list[float], place: int) -> tuple[float, float]:
        """The two ends of an axis."""
        if axis.ends is not None:
            return axis.ends
        every = [*values, *(point[place] for line in self.lines for point in line.points)]
        if place:
            every += [value for line in self.lines for value in (*line.low, *line.high)]
        return axis_ends(every, logarithmic=axis.logarithmic)

    def _below(self, x: Scale, bottom: float, width: float) -> list[Mark]:
        """Draw the horizontal axis: ticks that have room, and its title."""
        marks: list[Mark] = [Rule(x.start, bottom, x.end, bottom, "axis")]
        free = -1e9
        for value in self.x.ticks(x, max(2, int((x.end - x.start) / 90))):
            words, place = self.x.tick(value), x(value)
            if place - text_width(words) / 2 < free:
                continue
            free = place + text_width(words) / 2 + 8
            marks.append(Rule(place, bottom, place, bottom + 5, "axis"))
            anchor = "end" if place + text_width(words) / 2 > width else "middle"
            marks.append(Words(place, bottom + 18, words, anchor, TICK))
        return [*marks, Words(x.end, bottom + 36, self.x.words, "end", TITLE)]

    def _points(self, x: Scale, y: Scale, width: float) -> list[Mark]:
        """Draw the points, with labels where they cover nothing; other labels are only in the tips."""
        marks: list[Mark] = []
        places = [(x(point.x), y(point.y)) for point in self.points]
        covered = [(at - point.radius, to - point.radius, at + point.radius, to + point.radius)
                   for point, (at, to) in zip(self.points, places, strict=True)]  # fmt: skip
        for point, (at, to) in zip(self.points, places, strict=True):
            values, off = (point.x, point.y), point.radius + 4
            marks.append(Dot(at, to, point.radius, point.role, point.tip, point.name, values, point.hollow))
            wide, middle = text_width(point.label), at - text_width(point.label) / 2
            sides = [(at + off, to - 6, "start"), (at - off - wide, to - 6, "end")]
            sides += [(middle, to - off - 12, "middle"), (middle, to + off, "middle")]
            for left, top, anchor in sides if point.label else ():
                box = left, top, left + wide, top + 12
                inside = left >= 0 and box[2] <= width and box[3] <= y.start
                if inside and not any(_boxes_overlap(box, other) for other in covered):
                    marks.append(Words(*_anchored_x(box, anchor), point.label, anchor))
                    covered.append(box)
                    break
        return marks


_Box = tuple[float, float, float, float]  # left, top, right, bottom


def _boxes_overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _anchored_x(box: _Box, anchor: str) -> tuple[float, float]:
    """The x at which a text with an anchor fills a box."""
    return {"start": box[0], "middle": (box[0] + box[2]) / 2, "end": box[2]}[anchor], box[1] + 10


def _line_marks(line: PlotLine, x: Scale, y: Scale) -> list[Mark]:
    """A line with its band and label, as marks."""
    places = [x(at) for at, _ in line.points]
    marks: list[Mark] = []
    if line.low:
        upper = [(place, y(value)) for place, value in zip(places, line.high, strict=True)]
        lower = [(place, y(value)) for place, value in zip(places, line.low, strict=True)]
        marks.append(Curve((*upper, *reversed(lower)), line.role, closed=True))
    drawn = tuple((place, y(value)) for place, (_, value) in zip(places, line.points, strict=True))
    marks.append(Curve(drawn, line.role))
    if line.label and drawn:
        marks.append(Words(drawn[-1][0], drawn[-1][1] - 8, line.label, "end"))
    return marks


def _legend(entries: Sequence[tuple[str, str]], width: float, hollow: Collection[str] = ()) -> tuple[list[Mark], float]:
    """The legend as dots and words in lines, and the height where it ends."""
    marks: list[Mark] = []
    x, y = 0.0, 10.0
    for role, words in entries:
        wide = 16 + text_width(words) + 12
        if x and x + wide > width:
            x, y = 0.0, y + LINE + 3
        marks += [Dot(x + 5, y, 5, role, hollow=role in hollow), Words(x + 15, y + 4, words)]
        x += wide
    return marks, y + 12 if entries else 0.0


@record
class PlotSpan:
    """A span of time on one lane of a timeline."""

    lane: int
    start: float
    end: float
    role: str
    label: str
    tip: str


@record
class Timeline:
    """Lanes of spans over time."""

    key: str
    title: str
    description: str
    lanes: Sequence[str]
    spans: Sequence[PlotSpan]
    ends: tuple[float, float]
    text_of: ValueText
    legend: Sequence[tuple[str, str]] = ()

    def __call__(self, width: float) -> SvgFigure:
        """Draw the figure at a width."""
        tall, gap = 18.0, 4.0
        left = max(text_width(lane) for lane in self.lanes) + 10
        legend, top = _legend(self.legend, width)
        top += 8
        scale = Scale(*self.ends, left, width - 4)
        bottom = top + len(self.lanes) * (tall + gap)
        marks: list[Mark] = list(legend)
        for place, lane in enumerate(self.lanes):
            y = top + place * (tall + gap)
            marks.append(Bar(left, y, scale.end - left, tall, "quiet"))
            marks.append(Words(left - 6, y + 13, shortened_to(lane, left), "end"))
        for span in self.spans:
            at, until = scale(span.start), scale(span.end)
            y = top + span.lane * (tall + gap)
            wide = max(until - at - 0.6, 0.6)
            marks.append(Bar(at, y, wide, tall, span.role, span.tip, "", span.start))
            if wide > text_width(span.label) + 2:
                marks.append(Words((at + until) / 2, y + 13, span.label, "middle", "in"))
        unit = time_unit(self.ends[1])
        inner = Scale(self.ends[0] / unit, self.ends[1] / unit, left, width - 4)
        for value in (tick * unit for tick in inner.ticks(max(2, int((scale.end - left) / 110)))):
            marks.append(Rule(scale(value), bottom, scale(value), bottom + 5, "axis"))
            last = scale(value) > scale.end - 30
            marks.append(
                Words(scale(value), bottom + 18, trimmed(self.text_of(value)), "end" if last else "middle", TICK)
            )
        marks.append(Words(scale.end, bottom + 34, "time", "end", TITLE))
        return SvgFigure(self.key, self.title, self.description, width, bottom + 42, marks)


TERM_WORDS = {key: words for words, key in TIME_TERMS}
TERM_ROLES = {
    "matmul": "matmul",
    "attention": "attention",
    "memory_bound": "memory_bound",
    "launch": "launch",
    "bubble": "bubble",
    "optimizer": "optimizer",
    "offload_exposed": "offload",
    "host_time": "launch",
    "prompts_between": "recomputed",
}


def round_unit(name: str, unit: str, highest: float) -> float:
    """The unit of an axis for a result of this size, in which ticks are round numbers."""
    if unit == "s":
        return time_unit(highest)
    if unit == "B" and is_memory(name):
        return 2.0**30
    return 0.01 if unit == "1" else 1.0


def term_role(name: str) -> str:
    """The colour of a term of the step; all exposed communication has the same one."""
    return TERM_ROLES.get(name, "network")


def time_text(value: float) -> str:
    """A time as text in a fitting unit."""
    return show_time(value)


_LOST = 4  # terms of the time that a plan loses
_LEGEND = [("first", "on the front"), ("quiet", "among the best"), ("third", "best"), ("second", "yours")]
_WORKS = [("first", "works"), ("second", "breaks a limit, or may not work")]


@record
class DrawnPlan:
    """A plan of a figure: its results, its words, its colour and its label."""

    costs: Mapping[str, float]
    words: str
    role: str
    label: str = ""


def plans_plot(
    axes: tuple[str, str],
    plans: Sequence[DrawnPlan],
    columns: Mapping[str, ResultColumn],
    result: Callable[[str, float], str],
    *,
    front: bool,
) -> Plot:
    """A plot of plans by two results; front: whether they are a Pareto front and other plans, or a ranking."""
    points = [_plot_point(plan, axes, result, front=front) for plan in plans]
    points = [point for point in points if math.isfinite(point.x) and math.isfinite(point.y)]
    across, up = (
        PlotAxis(
            f"{name.replace('_', ' ')}, {columns[name].better} is better",
            partial(result, name),
            unit=round_unit(name, columns[name].unit, max(values, default=1.0)),
        )
        for name, values in zip(axes, ([p.x for p in points], [p.y for p in points]), strict=True)
    )
    better = " and ".join(f"{columns[name].better} {name}" for name in axes)
    seen = {point.role for point in points}
    legend = [entry for entry in (_LEGEND if front else _WORKS) if entry[0] in seen]
    title, key = " against ".join(axes), "front" if front else "plans"
    return Plot(key, title, f"{len(points)} plans; {better} are better.", across, up, points, legend=legend)


def _plot_point(
    plan: DrawnPlan, axes: tuple[str, str], result: Callable[[str, float], str], *, front: bool
) -> PlotPoint:
    """The point of a plan in a plot of two results."""
    x, y = (plan.costs.get(name, math.nan) for name in axes)
    tip = f"{plan.words}: {result(axes[0], x)}, {result(axes[1], y)}"
    large = 7 if plan.label else 4 if front else 5
    return PlotPoint(x, y, plan.role, tip, plan.words, plan.label, large, plan.label == "yours")


def lost_words(
    costs: Mapping[str, float], best: Mapping[str, float], name: str, terms: Mapping[str, str], per: str
) -> str:
    """A sentence on the time that a plan loses against the best, by term; empty if unknown."""
    gap = costs[name] - best[name]
    if not math.isfinite(gap):
        return ""
    moved = [
        (-1.0 if key == "overlapped" else 1.0, costs.get(key, math.nan) - best.get(key, math.nan), words)
        for key, words in terms.items()
    ]
    known = [(sign * value, words) for sign, value, words in moved if abs(value) > abs(gap) / 20]
    shown = ", ".join(
        f"{words} {_signed_time(value)}" for value, words in sorted(known, key=lambda it: -abs(it[0]))[:_LOST]
    )
    more = f" {shown[:1].upper()}{shown[1:]}." if shown else ""
    return f"Against plan 1: {_signed_time(gap)} {per}.{more}"


def _signed_time(value: float) -> str:
    return f"{'+' if value >= 0 else '−'}{show_time(abs(value))}"
