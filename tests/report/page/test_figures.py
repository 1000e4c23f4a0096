"""Every figure of every kind of page as it is drawn: axes, ticks, legends and labels are read back from the SVG."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import turn_few_knobs

PAGES = {
    "plan": ("report", "llama-3-70b-512"),
    "serving": ("report", "serve-llama-3.1-70b", "--safe", "off"),
    "rl": ("report", "grpo-qwen-2.5-7b-64"),
    "run": ("run", "llama-3-70b-512"),
    "search": ("search", "llama-3-70b-512", "--top", "30", "--pareto", "memory_peak,step_time"),
    "sweep": ("sweep", "ddp-llama-3.2-1b-32", "--over", "cluster.fabric.bandwidth=100 Gb/s,200 Gb/s,1 Tb/s"),
    "sizes": ("sweep", "llama-3-70b-512", "--over", "plan.micro_batch=1,2,4,8,16"),
    "served": ("sweep", "serve-llama-3.1-70b", "--over", "workload.prompt.mean=500,1k,2k"),
    "scale": ("scale", "llama-3-70b-512", "--ranks", "64..512"),
    "sensitivity": ("sensitivity", "llama-3-70b-512"),
}
MARKS = {"rl": pytest.mark.whole}
FIGURE = re.compile(r'<svg[^>]*class="figure wide".*?</svg>', re.DOTALL)
NUMBER = re.compile(r"([+−-]?[\d,]*\.?\d+) ?([A-Za-z%/]*)")
UNITS = {
    "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "days": 86400.0, "%": 0.01, "": 1.0,
    "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "GB": 1e9, "Gb/s": 1e9 / 8, "Tb/s": 1e12 / 8,
    "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
}  # fmt: skip


@dataclass(frozen=True)
class Drawing:
    """The marks of a figure, by what they are for."""

    title: str
    marks: list[ElementTree.Element]

    def texts(self, role: str) -> list[ElementTree.Element]:
        return [mark for mark in self.marks if mark.tag == "text" and role in mark.get("class", "").split()]

    @property
    def dots(self) -> list[ElementTree.Element]:
        return [mark for mark in self.marks if mark.tag == "circle" and mark.get("data-x") is not None]

    @property
    def bars(self) -> list[ElementTree.Element]:
        return [mark for mark in self.marks if mark.tag == "rect" and mark.get("data-value") is not None]


def drawings(page: str) -> Iterator[Drawing]:
    for text in FIGURE.findall(page):
        root = ElementTree.fromstring(re.sub(r' xmlns="[^"]*"', "", text))
        yield Drawing(root.findtext("title") or "", list(root))


def at(mark: ElementTree.Element, name: str) -> float:
    return float(mark.get(name, "nan"))


def numbers_in(text: str, unit: str = "") -> list[float]:
    """Every number of a text in its base unit; `unit` is that of an axis whose ticks have none."""
    found = NUMBER.findall(text)
    return [float(value.replace(",", "").replace("−", "-")) * UNITS.get(of or unit, 1.0) for value, of in found]


def unit_of(titles: list[ElementTree.Element]) -> str:
    return "GiB" if any("GiB" in (title.text or "") for title in titles) else ""


@pytest.fixture(scope="module", params=[pytest.param(name, marks=MARKS.get(name, ())) for name in PAGES])
def drawn(request: pytest.FixtureRequest, run: Any) -> tuple[str, list[Drawing]]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "sensitivity":
            turn_few_knobs(patch)
        page = run(*PAGES[request.param], "--format", "html").out
    found = list(drawings(page))
    assert found, request.param
    return page, found


def test_every_axis_has_a_title_and_ticks_where_their_values_are(drawn: tuple[str, list[Drawing]]) -> None:
    for figure in drawn[1]:
        titles = figure.texts("axis-title")
        assert all(title.text for title in titles), figure.title
        assert len(titles) == (2 if figure.dots else 1), figure.title
        if figure.dots:
            below, beside = titles[-1], titles[0]
            ticks = figure.texts("tick")
            lowest = max(at(tick, "y") for tick in ticks)
            _fit(figure, "x", "cx", below, [(at(t, "x"), t) for t in ticks if at(t, "y") == lowest])
            _fit(figure, "y", "cy", beside, [(at(t, "y") - 4, t) for t in ticks if at(t, "y") < lowest])
        elif figure.bars:
            _along_bars(figure, unit_of(titles))


def _fit(
    figure: Drawing, axis: str, place: str, title: ElementTree.Element, ticks: list[tuple[float, ElementTree.Element]]
) -> None:
    """The values of dots give the law of the axis, which the words of ticks must keep."""
    logarithmic = (title.text or "").endswith(", logarithmic")
    values = np.array([at(dot, f"data-{axis}") for dot in figure.dots])
    if len(set(values)) < 2 or values.max() < 1.02 * values.min():
        return
    law = np.log if logarithmic else np.asarray
    slope, start = np.polyfit(law(values), [at(dot, place) for dot in figure.dots], 1)
    assert len(ticks) >= 2, (figure.title, axis)
    for where, tick in ticks:
        (stated,) = numbers_in(tick.text or "")
        assert slope * law(np.array(stated)) + start == pytest.approx(where, abs=1.5), (figure.title, tick.text)


def _along_bars(figure: Drawing, unit: str) -> None:
    """The widths of bars give the law of their axis."""
    longest = max(figure.bars, key=lambda bar: at(bar, "width"))
    slope = at(longest, "width") / abs(at(longest, "data-value"))
    ticks = [(at(tick, "x"), numbers_in(tick.text or "", unit)[0]) for tick in figure.texts("tick")]
    nought = next(x for x, value in ticks if value == 0)
    for x, value in ticks:
        assert x - nought == pytest.approx(slope * value, abs=2), (figure.title, value)
    for bar in figure.bars:
        assert at(bar, "width") == pytest.approx(max(slope * abs(at(bar, "data-value")), 1), abs=1.1), figure.title


def test_the_label_of_a_bar_is_its_value(drawn: tuple[str, list[Drawing]]) -> None:
    for figure in drawn[1]:
        unit = unit_of(figure.texts("axis-title"))
        for top in sorted({at(bar, "y") for bar in figure.bars}):
            row = [bar for bar in figure.bars if at(bar, "y") == top]
            values = [at(bar, "data-value") for bar in row]
            right = max(at(bar, "x") + at(bar, "width") for bar in row)
            beside = [mark for mark in figure.marks if mark.tag == "text" and abs(at(mark, "y") - top - 12) < 0.2]
            label = next(mark.text or "" for mark in beside if at(mark, "x") > right)
            known = [*values, *np.cumsum(values)]
            for stated in numbers_in(label, unit):
                near = [value for value in known if value == pytest.approx(stated, rel=6e-3)]
                assert near, (figure.title, label, known)


def colour(page: str, shape: str, roles: str) -> tuple[str, str]:
    """Fill and stroke of a mark by the rules of the page for the light side, the last one that applies."""
    fill, stroke = "black", "none"
    style = page[page.index("<style>") : page.index("@media")]
    for selector, body in re.findall(r"(?m)^\s*([^{}@]+)\{([^}]*)\}", style):
        for part in selector.split(","):
            match = re.fullmatch(r"\s*(\w*)\.([\w-]+)(\[class\^=f-\])?\s*", part)
            if match is None or match[1] not in ("", shape) or match[2] not in roles.split():
                continue
            if match[3] and not roles.startswith("f-"):
                continue
            fill = next(iter(re.findall(r"(?:^|;)fill:([^;]+)", body)), fill)
            stroke = next(iter(re.findall(r"(?:^|;)stroke:([^;]+)", body)), stroke)
    return fill, stroke


def test_a_legend_has_the_colours_of_its_marks(drawn: tuple[str, list[Drawing]]) -> None:
    page, figures = drawn
    for figure in figures:
        shapes = [mark for mark in figure.marks if mark.tag in ("circle", "rect")]
        followed = [
            (mark, after)
            for mark, after in zip(figure.marks, figure.marks[1:], strict=False)
            if mark in shapes and mark.find("title") is None and after.tag == "text" and mark.get("data-x") is None
        ]
        entries = [(mark, text.text) for mark, text in followed if 10 <= at(text, "x") - _left(mark) <= 20]
        others = [mark for mark in shapes if mark not in [entry for entry, _ in entries]]
        drawn_colours = {colour(page, mark.tag, mark.get("class", "")) for mark in others}
        plain = {fill if fill != "none" else stroke for fill, stroke in drawn_colours}
        for mark, words in entries:
            fill, stroke = colour(page, mark.tag, mark.get("class", ""))
            assert (fill if fill != "none" else stroke) in plain, (figure.title, words)
            named = [other for other in others if other.get("data-name") == words]
            for other in named:
                assert colour(page, other.tag, other.get("class", "")) == (fill, stroke), (figure.title, words)


def _left(mark: ElementTree.Element) -> float:
    return at(mark, "cx") - at(mark, "r") if mark.tag == "circle" else at(mark, "x")


def test_ticks_are_what_was_asked_for(run: Any) -> None:
    """100 Gb/s stay 100 Gb/s, in the order and at the distance of their values; doublings lie on a logarithmic axis."""
    (rates,) = drawings(run(*PAGES["sweep"], "--format", "html").out)
    assert {"100 Gb/s", "200 Gb/s", "1 Tb/s"} <= {tick.text for tick in rates.texts("tick")}
    (sizes,) = drawings(run(*PAGES["sizes"], "--format", "html").out)
    assert sizes.texts("axis-title")[-1].text == "plan.micro_batch, logarithmic"
    chart = run(*PAGES["sizes"], "--chart").out
    assert "plan.micro_batch, logarithmic" in chart
    assert re.search(r"(?m)^ +1 +2 +4 +8 +16$", chart)
    assert "100 Gb/s" in run(*PAGES["sweep"], "--chart").out
