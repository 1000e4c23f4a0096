"""Parts and pages about several serving plans: a search, a sweep, sizes by rate, limits."""

from __future__ import annotations

import math
from collections.abc import Sequence

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.serving.predict_serving import remarks
from costmodel.estimate.serving.reason_codes import REFUSALS
from costmodel.explore.serving.search_layouts import FoundPlans, reasons, share_of
from costmodel.explore.serving.vary_serving import ServingTrial, SweptServing, remarks_of
from costmodel.ground.units import show_time, significant
from costmodel.report.page.content import HtmlPage, PageTable, Part
from costmodel.report.page.figures import Bars, FigureEntry, amounts
from costmodel.report.page.plots import Plot, PlotAxis, PlotPoint
from costmodel.report.page.serving_page import remark_findings, trial_values
from costmodel.report.page.values import seconds
from costmodel.report.terminal.serving.serving_formatting import result
from costmodel.report.terminal.serving.serving_search import degree_words
from costmodel.report.terminal.style.formatting import percent
from costmodel.report.terminal.style.head import subject_words


def plans_part(found: FoundPlans) -> Part:
    """The best plans of a search, to sort and to filter."""
    heads = (
        "#",
        "tp",
        "pp",
        "ep",
        "replicas",
        "budget",
        "req/s",
        "tpot ms",
        "ttft p99 s",
        "tok/s/GPU",
        "binds",
        "breaks",
    )
    rows = []
    for place, ranked in enumerate(found.best, 1):
        costs = ranked.costs
        rows.append((
            str(place), *(degree_words(ranked, name) for name in ("tp", "pp", "ep", "replicas", "budget")),
            significant(costs["rate_within_slo_per_s"], 4), _bare(costs["tpot"] * 1e3), _bare(costs["ttft_p99"]),
            _bare(costs["tokens_per_gpu_within_limits"]), ranked.binding, " ".join(ranked.broken),
        ))  # fmt: skip
    counts = f"{found.candidates:,} plans, {found.valid:,} valid, {found.fit:,} fit, {found.kept:,} keep all limits."
    return Part("plans", "The best plans", counts, [plans_figure(found)] if found.best else [],
                [PageTable(heads, rows, "rrrrrrrrrrll", sortable=True)])  # fmt: skip


def _bare(value: float) -> str:
    return significant(value, 4) if math.isfinite(value) else "—"


def plans_figure(found: FoundPlans) -> Plot:
    """Time per token against what each accelerator generates within limits."""
    points = []
    for place, ranked in enumerate(found.best, 1):
        x, y = ranked.costs["tpot"], ranked.costs["tokens_per_gpu_within_limits"]
        if math.isfinite(x) and math.isfinite(y):
            words = f"plan {place}: {show_time(x)}, {result('tokens_per_gpu_within_limits', y)}"
            role = "second" if ranked.broken else "first"
            points.append(PlotPoint(x, y, role, words, f"plan {place}", "best" if place == 1 else "", 5))
    legend = [("first", "keeps the limits"), ("second", "breaks a limit")]
    seen = {point.role for point in points}
    y_axis = PlotAxis("token/s for each accelerator within limits", lambda value: significant(value, 3))
    return Plot("plans", "Plans: latency and throughput", f"{len(points)} plans; up and left is better.",
                PlotAxis("time per token", seconds), y_axis, points,
                legend=[entry for entry in legend if entry[0] in seen])  # fmt: skip


def why_part(found: FoundPlans) -> Part | None:
    """Reasons, and how many plans each refuses."""
    rows = [(code, REFUSALS[code].title, f"{count:,}", percent(share_of(found, code)), REFUSALS[code].meaning)
            for code, count in reasons(found)]  # fmt: skip
    heads = ("code", "why", "plans", "of all", "what it means")
    return Part("why-not", "Why not the others", tables=[PageTable(heads, rows, "llrrl")]) if rows else None


def search_page(found: FoundPlans, commands: Sequence[str]) -> HtmlPage:
    """A search of a serving scenario."""
    case = found.inputs.case
    if found.kept:
        best = found.best[0]
        words = f"The best plan, tp {best.sizes['tp']:.0f} · pp {best.sizes['pp']:.0f}, answers "
        words += f"{result('rate_within_slo_per_s', best.costs['rate_within_slo_per_s'])} within all limits."
    else:
        words = "No plan keeps all limits." if found.best else "No plan fits."
    parts = [part for part in (plans_part(found), why_part(found)) if part is not None]
    return HtmlPage(case.title, [subject_words(subject_of(case))], words, "good" if found.kept else "bad", [], parts,
                list(remark_findings(remarks(found.inputs))), commands)  # fmt: skip


def sweep_page(found: SweptServing, commands: Sequence[str]) -> HtmlPage:
    """A serving scenario at every combination."""
    works = sum(trial.works for trial in found.trials)
    heads = (*(axis.path.rpartition(".")[2] for axis in found.axes), *found.shown, "breaks")
    rows = [[*_values(trial, len(found.axes)), *trial_values(trial, found.shown), _against(trial)]
            for trial in found.trials]  # fmt: skip
    align = "r" * (len(heads) - 1) + "l"
    paths = [axis.path for axis in found.axes]
    subtitle = [words] if (words := subject_words(subject_of(found.case), paths)) else []
    table = PageTable(heads, rows, align, sortable=True)
    part = Part("sweep", "What changes", figures=[trials_figure(found.trials, found.shown[0])], tables=[table])
    return HtmlPage(found.case.title, subtitle, f"{works} of {len(found.trials)} combinations keep every limit.",
                "good" if works else "bad", [], [part], list(remark_findings(remarks_of(found.trials))),
                commands)  # fmt: skip


def scale_page(case: ServingCase, trials: Sequence[ServingTrial], commands: Sequence[str]) -> HtmlPage:
    """As many replicas as each rate needs."""
    names = ("requests_per_s", "replicas", "gpus", "utilisation", "tpot", "ttft_p99", "cost_per_mtoken")
    heads = ("rate", "answered", "replicas", "GPUs", "utilisation", "per token", "first token p99", "USD/M", "breaks")
    rows = [[*_values(trial, 1), *trial_values(trial, names), _against(trial)] for trial in trials]
    kept = [trial for trial in trials if trial.works and trial.answer is not None]
    most = kept[-1] if kept else None
    words = "No rate keeps every limit."
    if most is not None and most.answer is not None:
        words = f"{most.answer.costs['gpus']:,.0f} GPUs keep every limit at {_values(most, 1)[0]}."
    part = Part("scale", "Capacity by rate", figures=[trials_figure(trials, "gpus")],
                tables=[PageTable(heads, rows, "rrrrrrrrl", sortable=True)])  # fmt: skip
    about = [subject_words(subject_of(case), ["cluster.nodes"])]
    return HtmlPage(
        case.title,
        about,
        words,
        "good" if kept else "bad",
        [],
        [part],
        list(remark_findings(remarks_of(trials))),
        commands,
    )


def trials_figure(trials: Sequence[ServingTrial], name: str) -> Bars:
    """One result of every trial."""
    entries = []
    for trial in trials:
        words = " ".join(_values(trial, len(trial.settings)))
        if trial.answer is not None and not trial.answer.refused and math.isfinite(trial.answer.costs[name]):
            entries.append(FigureEntry(words, trial.answer.costs[name], "second" if trial.codes else "first", words))
    shown = entries or [FigureEntry("none has an answer", 0.0, "first")]
    return amounts("trials", name, f"{len(entries)} of {len(trials)} have an answer; orange breaks a limit.", shown, "",
                   lambda value: result(name, value))  # fmt: skip


def _values(trial: ServingTrial, count: int) -> list[str]:
    return [setting.partition("=")[2] for setting in trial.settings[:count]]


def _against(trial: ServingTrial) -> str:
    return " ".join(trial.codes) or (trial.fault.sentence if trial.fault else "")
