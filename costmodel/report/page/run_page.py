"""The page about a whole run: where its wall time goes, what it costs, and what would help."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from costmodel.estimate.shared.results import number
from costmodel.explore.explain.run_levers import RunLever, RunOutlook
from costmodel.explore.page.plan_facts import PlanFacts
from costmodel.ground.units import percent, show_time
from costmodel.report.document import Headline, Value
from costmodel.report.page.content import HtmlPage, PageTable, Part
from costmodel.report.page.figures import Bars, FigureEntry, amounts
from costmodel.report.page.plan_page import plan_page
from costmodel.report.page.row_commands import settings_of
from costmodel.report.page.trace import Traces
from costmodel.report.terminal.plan.run import largest_part, run_parts, whole_of
from costmodel.report.terminal.style.formatting import BAND, between, result
from costmodel.report.terminal.style.next_command import command

_FIGURES = (("Wall time", "run_time"), ("Cost", "run_cost"), ("Energy", "energy"), ("Goodput", "goodput"))


def run_page(facts: PlanFacts, outlook: RunOutlook | None, commands: Sequence[str]) -> HtmlPage:
    """The run, then the step that it is made of."""
    if not facts.valid or outlook is None or math.isnan(facts.costs["goodput"]):
        return plan_page(facts, commands)
    traces = Traces(facts.nodes)
    page = plan_page(facts, commands, traces)
    by_name = {value.name: value for part in page.parts if part.key == "results" for table in part.tables
               for row in table.rows for value in row if isinstance(value, Value)}  # fmt: skip
    costs = facts.costs
    headlines = []
    for words, name in _FIGURES:
        known = next((value for key, value in by_name.items() if key.startswith(f"{name}_") or key == name), None)
        band = between(*(result(name, costs[f"{name}_{end}"]) for end in ("low", "high")))
        headlines.append(Headline(words, known or Value("unknown"), f"{BAND}: {band}" if known else "not known"))
    conclusion = f"{_run_words(facts)} {page.conclusion}"
    parts = [*_run_parts(facts, outlook, traces), *page.parts]
    data = {**page.data, "trace": traces.data(), "levers": _lever_commands(facts, outlook)}
    return replace(page, headlines=headlines, conclusion=conclusion, parts=parts, data=data)


def _helping(facts: PlanFacts, outlook: RunOutlook) -> list[RunLever]:
    return [lever for lever in outlook.levers if lever.goodput > facts.costs["goodput"]]


def _lever_commands(facts: PlanFacts, outlook: RunOutlook) -> dict[str, Any]:
    """The command that shows the run with each change."""
    case = facts.answer.inputs.case
    lines = [command(case, "run", settings=settings_of(lever.settings)) for lever in _helping(facts, outlook)]
    return {"lines": lines, "words": "This command shows the run with that change."}


def _run_words(facts: PlanFacts) -> str:
    costs = facts.costs
    lasts = costs["run_time"]
    time = f"The run takes {show_time(lasts)}; " if lasts == lasts else ""
    share = percent(costs["goodput"])
    largest = largest_part(facts.answer, whole_of(facts.answer))
    lost = "" if largest == "steps" else f", and most of the rest goes into {largest}"
    stated = f"{time}{share} of its time are steps that count{lost}."
    return stated[0].upper() + stated[1:]


def wall_part(shares: Mapping[str, float], wall: float, traces: Traces, steps: str) -> Part:
    """Where the wall time of a run goes, in steps or iterations and in what interrupts them."""
    rows = [
        (name, Value(percent(value), value, f"shares.{name}", traces.of(f"shares.{name}")),
         "" if wall != wall else traces.product("time", show_time(value * wall), value * wall,
                                                (f"shares.{name}", "run_time")))
        for name, value in sorted(shares.items(), key=lambda item: -item[1])
        if value
    ]  # fmt: skip
    lead = f"Shares of the wall time: {steps} that count, and what failures and checkpoints take."
    return Part("run", "Where the wall time goes", lead, [wall_figure(shares, steps)],
                figures_as_table=PageTable(("part", "of the run", "time"), rows, "lrr"))  # fmt: skip


def _run_parts(facts: PlanFacts, outlook: RunOutlook, traces: Traces) -> list[Part]:
    shares = run_parts(facts.answer, whole_of(facts.answer))
    wall = number(whole_of(facts.answer).columns["run_time"])
    parts = [wall_part(shares, wall, traces, "steps")]
    found = _helping(facts, outlook)
    if found:
        helps = [(lever.words, percent(lever.goodput), " ".join(f"--set {item}" for item in lever.settings))
                 for lever in found]  # fmt: skip
        table = PageTable(("change", "goodput", "set"), helps, "lrl", rows_data="levers", figures=("", "goodput", ""))
        parts.append(Part("levers", "What would help", tables=[table]))
    return parts


def run_figure(facts: PlanFacts) -> Bars:
    """Parts of the wall time of a run of training."""
    return wall_figure(run_parts(facts.answer, whole_of(facts.answer)), "steps")


def wall_figure(shares: Mapping[str, float], steps: str) -> Bars:
    """Parts of the wall time, longest first."""
    entries = [
        FigureEntry(name, value, "good" if name == steps else "network", f"shares.{name}")
        for name, value in sorted(shares.items(), key=lambda item: -item[1])
        if value
    ]
    words = f"{percent(shares[steps])} of the wall time are {steps} that count."
    return amounts("run", "Where the wall time goes", words, entries, "share of the wall time", percent, 0.01)
