"""Pages of sweep, scale and sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rich.text import Text

from costmodel.explore.vary.scale import Scaled
from costmodel.explore.vary.sensitivity import Sensitivity
from costmodel.explore.vary.sweep import Swept
from costmodel.report.page.content import HtmlPage, chance_verdict
from costmodel.report.page.marks import SvgFigure
from costmodel.report.page.shared_parts import remark_findings
from costmodel.report.page.trace import Traces
from costmodel.report.page.trial_figure import sweep_figure
from costmodel.report.page.vary_parts import (
    scale_figure,
    scale_part,
    sweep_part,
    tornado_figure,
    tornado_part,
    trial_commands,
)
from costmodel.report.terminal.style.head import title
from costmodel.report.terminal.vary.scaled_sizes import bend
from costmodel.report.terminal.vary.sensitivity import bottleneck, settable
from costmodel.report.trials import figure_words, short_path
from costmodel.report.workload_words import plan_head, varied_head, words_of


def sweep_page(found: Swept, commands: Sequence[str]) -> HtmlPage:
    """Every combination, its best first in words."""
    asked, name, works = found.asked, found.shown[0], [point for point in found.points if point.works]
    better = asked.columns[name].better
    known = [point for point in works if math.isfinite(point.costs.get(name, math.nan))]
    words = f"{len(works)} of {len(found.points)} combinations work."
    if known and better != "neither":
        best = min(known, key=lambda point: point.costs[name] * (-1.0 if better == "higher" else 1.0))
        pairs = zip(map(short_path, found.paths), best.written, strict=True)
        settings = ", ".join(f"{path} {value}" for path, value in pairs)
        words += f" The {better.removesuffix('er')}est {name}, {figure_words(asked, best, name)}, is at {settings}."
    about = [line.plain for line in varied_head(asked, found.paths) if isinstance(line, Text)]
    verdict = chance_verdict(max(point.costs[asked.chance] for point in works)) if works else "bad"
    codes = dict.fromkeys(code for point in found.points for code in point.remarked)
    data = {"points": trial_commands(asked.case, found.points, searched=found.best)}
    return HtmlPage(title(asked.case), about, words, verdict, [], [sweep_part(found)], list(remark_findings(codes)),
                    commands, data)  # fmt: skip


def scale_page(found: Scaled, commands: Sequence[str]) -> HtmlPage:
    """Every size, and where it bends or what it takes."""
    asked, works = found.asked, [row for row in found.rows if row.found.point.works]
    about = [line.plain for line in varied_head(asked, found.scaling.varied) if isinstance(line, Text)]
    verdict = chance_verdict(max(row.found.point.costs[asked.chance] for row in works)) if works else "bad"
    traces = Traces({})
    parts, points = [scale_part(found, traces)], [row.found.point for row in found.rows]
    codes = dict.fromkeys(code for point in points for code in point.remarked)
    data = {"trace": traces.data(), "points": trial_commands(asked.case, points, searched=found.best)}
    return HtmlPage(title(asked.case), about, _scaling(found), "warn" if works and found.bend else verdict, [], parts,
                    list(remark_findings(codes)), commands, data)  # fmt: skip


def _scaling(found: Scaled) -> str:
    """How far it scales, in words for a reader of the page alone."""
    if not found.scaling.time:
        works = [row for row in found.rows if row.found.point.works]
        if not works:
            return "No rate keeps every limit."
        gpus = figure_words(found.asked, works[-1].found.point, "gpus")
        return f"{gpus} GPUs keep every limit at {works[-1].found.text}."
    compared = [row for row in found.known if row.efficiency >= 0]
    if found.bend is not None or len(compared) < 2:
        return bend(found)
    first, last = (row.found.text for row in (compared[0], compared[-1]))
    return f"From {first} to {last} accelerators every doubling keeps 95 % or more of what each one does."


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
