"""Pages of sweep, scale and sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rich.text import Text

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.results import TRAINING_COLUMNS
from costmodel.explore.vary.scale import Scaled
from costmodel.explore.vary.sensitivity import Sensitivity
from costmodel.explore.vary.sweep import Swept
from costmodel.report.page.content import HtmlPage, Verdict, chance_verdict
from costmodel.report.page.marks import SvgFigure
from costmodel.report.page.trace import Traces
from costmodel.report.page.vary_parts import (
    point_commands,
    scale_figure,
    scale_part,
    sweep_figure,
    sweep_part,
    tornado_figure,
    tornado_part,
)
from costmodel.report.terminal.style.formatting import result
from costmodel.report.terminal.style.head import head_of, title
from costmodel.report.terminal.vary.sensitivity import bottleneck, settable
from costmodel.report.terminal.vary.vary import bend, short_path
from costmodel.report.workload_words import plan_head, words_of


def sweep_page(found: Swept, commands: Sequence[str]) -> HtmlPage:
    """Every combination, its best first in words."""
    name, works = found.shown[0], [point for point in found.points if point.works]
    known = [point for point in works if math.isfinite(point.costs.get(name, math.nan))]
    sign = -1.0 if TRAINING_COLUMNS[name].better == "higher" else 1.0
    words = f"{len(works)} of {len(found.points)} combinations work."
    if known and TRAINING_COLUMNS[name].better != "neither":
        best = min(known, key=lambda point: sign * point.costs[name])
        settings = ", ".join(f"{short_path(path)} {value}" for path, _, value in
                             (setting.partition("=") for setting in best.settings))  # fmt: skip
        most = f"{TRAINING_COLUMNS[name].better.removesuffix('er')}est {name}, {result(name, best.costs[name])}"
        words += f" The {most}, is at {settings}."
    subtitle = [line.plain for line in head_of(found.case, [axis.path for axis in found.axes])]
    verdict = chance_verdict(max(point.costs["fit_chance"] for point in works)) if works else "bad"
    data = {"points": point_commands(found.case, found.points, searched=_is_searched(found.case, best=found.best))}
    return HtmlPage(title(found.case), subtitle, words, verdict, [], [sweep_part(found)], commands=commands, data=data)


def scale_page(found: Scaled, commands: Sequence[str]) -> HtmlPage:
    """Every size, and where it bends."""
    works = any(row.point.works for row in found.rows)
    subtitle = [line.plain for line in head_of(found.case, ["cluster.nodes"])]
    verdict: Verdict = "bad" if not works else "good" if found.bend is None else "warn"
    searched = _is_searched(found.case, best=found.best)
    traces = Traces({})
    parts = [scale_part(found, traces, searched=searched)]
    points = point_commands(found.case, [row.point for row in found.rows], searched=searched)
    data = {"trace": traces.data(), "points": points}
    return HtmlPage(title(found.case), subtitle, _scaling(found), verdict, [], parts, commands=commands, data=data)


def _scaling(found: Scaled) -> str:
    """How far it scales, in words for a reader of the page alone."""
    known = [row for row in found.rows if row.point.costs]
    if found.bend is not None or len(known) < 2:
        return bend(found)
    first, last = (row.ranks for row in (known[0], known[-1]))
    return f"From {first:,.0f} to {last:,.0f} accelerators every doubling keeps 95 % or more of what each one does."


def _is_searched(case: ResolvedScenario, *, best: bool) -> bool:
    """Whether every point has a plan of its own."""
    return best or case.scenario.plan is None


def sensitivity_page(found: Sensitivity, commands: Sequence[str]) -> HtmlPage:
    """What moves a result, the bottleneck first."""
    about = [line.plain for line in plan_head(found.asked, found.answer) if isinstance(line, Text)]
    first = f" {settable(found.knobs[0])} moves it most." if found.knobs else ""
    value = words_of(found.asked.case.kind).result(found.result, found.value)
    words = f"{found.result} is {value}.{first} {bottleneck(found)[0]}"
    traces = Traces({})
    part, data = tornado_part(found, traces), {"trace": traces.data()}
    return HtmlPage(title(found.asked.case), about, words, "plain", [], [part], commands=commands, data=data)


PAGES: dict[str, tuple[Callable[[Any, Sequence[str]], HtmlPage], Callable[[Any], Callable[[float], SvgFigure]]]] = {
    "sweep": (sweep_page, sweep_figure),
    "scale": (scale_page, scale_figure),
    "sensitivity": (sensitivity_page, tornado_figure),
}
