"""Pages of sweep, scale and sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.shared.results import COLUMNS
from costmodel.explore.vary.scale import Scaled
from costmodel.explore.vary.sensitivity import Sensitivity
from costmodel.explore.vary.sweep import Swept
from costmodel.report.page.content import HtmlPage, Verdict
from costmodel.report.page.marks import SvgFigure
from costmodel.report.page.vary_parts import (
    knobs_part,
    scale_figure,
    scale_part,
    sweep_figure,
    sweep_part,
    tornado_figure,
    tornado_part,
)
from costmodel.report.terminal.plan.plan_words import brief_words
from costmodel.report.terminal.style.formatting import result
from costmodel.report.terminal.style.head import head_of, subject_words, title
from costmodel.report.terminal.vary.sensitivity import bottleneck, settable
from costmodel.report.terminal.vary.vary import bend, short_path


def sweep_page(found: Swept, commands: Sequence[str]) -> HtmlPage:
    """Every combination, its best first in words."""
    name, works = found.shown[0], [point for point in found.points if point.works]
    known = [point for point in works if math.isfinite(point.costs.get(name, math.nan))]
    sign = -1.0 if COLUMNS[name].better == "higher" else 1.0
    words = f"{len(works)} of {len(found.points)} combinations work."
    if known and COLUMNS[name].better != "neither":
        best = min(known, key=lambda point: sign * point.costs[name])
        settings = ", ".join(f"{short_path(path)} {value}" for path, _, value in
                             (setting.partition("=") for setting in best.settings))  # fmt: skip
        most = f"{COLUMNS[name].better.removesuffix('er')}est {name}, {result(name, best.costs[name])}"
        words += f" The {most}, is at {settings}."
    subtitle = [line.plain for line in head_of(found.case, [axis.path for axis in found.axes])]
    verdict: Verdict = "good" if works else "bad"
    return HtmlPage(title(found.case), subtitle, words, verdict, [], [sweep_part(found)], commands=commands)


def scale_page(found: Scaled, commands: Sequence[str]) -> HtmlPage:
    """Every size, and where it bends."""
    works = any(row.point.works for row in found.rows)
    subtitle = [line.plain for line in head_of(found.case, ["cluster.nodes"])]
    verdict: Verdict = "bad" if not works else "good" if found.bend is None else "warn"
    return HtmlPage(title(found.case), subtitle, bend(found), verdict, [], [scale_part(found)], commands=commands)


def sensitivity_page(found: Sensitivity, commands: Sequence[str]) -> HtmlPage:
    """What moves a result, the bottleneck first."""
    subtitle = [*(line.plain for line in head_of(found.case)), brief_words(found.plan)]
    first = f" {settable(found.knobs[0])} moves it most." if found.knobs else ""
    words = f"{found.result} is {result(found.result, found.value)}.{first} {bottleneck(found)[0]}"
    return HtmlPage(title(found.case), subtitle, words, "plain", [], [tornado_part(found)], commands=commands)


def knobs_page(
    found: Any, plan: str, text_of: Callable[[str, float], str], gains: Sequence[str], commands: Sequence[str]
) -> HtmlPage:
    """What moves a result of serving or of reinforcement learning, the bottleneck first."""
    case = found.answer.inputs.case
    first = f" {settable(found.knobs[0])} moves it most." if found.knobs else ""
    words = f"{found.result} is {text_of(found.result, found.value)}.{first} {gains[0]}"
    part = knobs_part(found.result, found.knobs, gains)
    about = [subject_words(subject_of(case)), plan]
    return HtmlPage(title(case), about, words, "plain", [], [part], commands=commands)


PAGES: dict[str, tuple[Callable[[Any, Sequence[str]], HtmlPage], Callable[[Any], Callable[[float], SvgFigure]]]] = {
    "sweep": (sweep_page, sweep_figure),
    "scale": (scale_page, scale_figure),
    "sensitivity": (sensitivity_page, tornado_figure),
}
