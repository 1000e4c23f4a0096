"""The answer of `run`: how long a whole run takes, what it costs, what interrupts it, and what would help."""

from __future__ import annotations

import functools
import math
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.results import machine_name
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.purchase.smallest_size import chance_to_keep
from costmodel.ground.units import chance_words, percent, show_time
from costmodel.report.answers.plan_answer import PlanView, parts_section, plan_document
from costmodel.report.answers.plan_parts import PlanRun, TimePart
from costmodel.report.document import (
    AnswerDocument,
    Cell,
    Column,
    Draw,
    Headline,
    Section,
    Table,
    TraceWriter,
    computed,
    traced,
)
from costmodel.report.page.document_page import settings_of
from costmodel.report.terminal.formatting import BAND, ENDS, range_of
from costmodel.report.terminal.head import assumed_lines, command
from costmodel.report.terminal.layout import Line, styled
from costmodel.report.trials import range_figures
from costmodel.report.workload_words import words_of

_SHOWN = 3  # changes that would help, in a terminal
_LIMITED = {"run_time": "the run ends within", "run_cost": "the run costs at most"}
_RUN_KEYS = (
    "steps", "interruptions", "shares", "saves_to_memory", "memory_interval_s", "load_s", "best_interval_s",
    "best_goodput", "electricity_usd", "spares", "spares_for_99_percent", "experience_bytes", "levers",
)  # fmt: skip


def run_document(view: PlanView) -> AnswerDocument:
    """The whole run of a plan: time, cost, goodput, losses, and possible improvements."""
    assumed = sorted(view.answer.assumed, key=lambda item: not item.path.startswith("run."))
    whole = functools.cache(view.whole_run)

    def ahead() -> list[Line]:
        """Lines above the answer: what the run loses, and the chances to meet its limits."""
        if (plan_run := whole()) is None:
            return []
        return [
            *_lost_lines(plan_run, view.answer.costs),
            *(styled(f"{words[0].upper()}{words[1:]}.") for words in _limit_chances(view)),
        ]

    return plan_document(view, "run", lambda: run_sections(view, whole()), ahead, assumed=assumed_lines(assumed))


def _lost_lines(plan_run: PlanRun, costs: Mapping[str, float]) -> list[Line]:
    """A line on the time that a run loses, and on what goodput is."""
    share = costs["goodput"]
    if not math.isfinite(share):
        return []
    lost = f", {show_time((1 - share) * costs['run_time'])} are lost" if math.isfinite(costs["run_time"]) else ""
    most = f", most to {plan_run.largest}" if plan_run.largest not in ("", plan_run.steps) else ""
    return [styled(f"{percent(share, 3)} of the time are {plan_run.steps} that count (goodput){lost}{most}.")]


def _limit_chances(view: PlanView) -> Iterator[str]:
    """For each limit on the time or cost of the run, the chance to meet it, in words."""
    costs, say = view.answer.costs, words_of(view.case.kind).result
    for limit in stated_limits(view.case.scenario.limits):
        if limit.column in _LIMITED and limit.kind == "at_most" and math.isfinite(costs.get(limit.column, math.nan)):
            chance = chance_words(chance_to_keep(limit, costs))
            yield f"{_LIMITED[limit.column]} {say(limit.column, limit.value)} with a chance of {chance}"


def run_sections(view: PlanView, plan_run: PlanRun | None) -> list[Section]:
    """Sections on the results of a run, the parts of its time, interruptions, and possible improvements."""
    if plan_run is None:
        return []
    costs = view.answer.costs
    rows: list[list[Cell]] = [
        [figure.words, traced(figure.text, costs[figure.name], machine_name(figure.name), figure.name), figure.band]
        for figure in plan_run.figures
    ]
    figures = Table([Column("", "k"), Column("", "l"), Column(BAND, "l")], rows, brief=3, rest="result")
    pictures = range_figures(view.case.kind, "run", [("the run", lambda name: costs.get(name, math.nan))])
    facts = Table(
        [Column("", "k"), Column("", "l")], [list(fact) for fact in plan_run.facts], headed=False, brief=5, rest="row"
    )
    parts = [] if math.isnan(costs["goodput"]) else [run_time_section(plan_run, costs["run_time"])]
    return [
        Section("run-figures", "The whole run", figures=pictures, table=figures, beneath=plan_run.price),
        *parts,
        Section("run-facts", "What interrupts it", table=facts),
        *improvements_section(view.case, plan_run),
    ]


def run_time_section(plan_run: PlanRun, wall: float) -> Section:
    """The section with the shares of the run time: useful work and losses; wall: the run time in seconds."""
    parts = [
        TimePart(
            name,
            value,
            computed("time", show_time(value * wall), value * wall, " × ", [f"shares.{name}", "run_time"])
            if math.isfinite(wall)
            else "",
            traced(percent(value, 3), value, f"shares.{name}"),
        )
        for name, value in plan_run.shares.items()
        if value or name == plan_run.steps
    ]
    lead = f"Shares of the run time: {plan_run.steps} that count, and what failures and checkpoints take."
    title, figures = (
        ("Where the run time goes", "where the run goes"),
        [partial(_draw_shares, plan_run.shares, plan_run.steps)],
    )
    return parts_section(title, lead, parts, "of the run", figures, key="run", brief=3)


def _draw_shares(shares: Mapping[str, float], steps: str) -> Draw:
    """Bars with the shares of the run time, the longest first."""
    from costmodel.report.page.figures import FigureEntry, amount_bars

    entries = [
        FigureEntry(name, value, "good" if name == steps else "network", f"shares.{name}")
        for name, value in sorted(shares.items(), key=lambda item: -item[1])
        if value
    ]
    words = f"{percent(shares[steps])} of the run time are {steps} that count."
    return amount_bars("run", "Where the run time goes", words, entries, "share of the run time", percent, 0.01)


def improvements_section(case: LoadedScenario, plan_run: PlanRun) -> list[Section]:
    """A section with a table of changes that raise the goodput; empty without any."""
    if not plan_run.helping:
        return []
    rows = [
        [each.words, percent(each.goodput), " ".join(f"--set {shlex.quote(setting)}" for setting in each.settings)]
        for each in plan_run.helping
    ]
    columns = [Column("what helps", "k"), Column("goodput", result="goodput"), Column("set", "l")]
    table = Table(columns, rows, most=_SHOWN, data=partial(_improvement_commands, case, plan_run))
    return [Section("levers", "What would help", table=table)]


def _improvement_commands(case: LoadedScenario, plan_run: PlanRun, traces: TraceWriter) -> dict[str, Any]:
    """For each change that raises the goodput, the `run` command with it."""
    settings = [settings_of(each.settings) for each in plan_run.helping]
    lines = [command(case, "run", settings=setting) for setting in settings]
    return {"lines": lines, "words": "This command shows the run with that change."}


def run_json(view: PlanView) -> dict[str, Any]:
    """A plan as plain values, with its run under the key `run`."""
    known = not view.answer.refused and not math.isnan(view.answer.costs["goodput"])
    plan_run = view.whole_run() if known else None
    if plan_run is None:
        return {**view.plain(), "run": None}
    return {**view.plain(), "run": {**dict.fromkeys(_RUN_KEYS), "shares": dict(plan_run.shares), **plan_run.plain}}


def run_sentence(view: PlanView, plan_run: PlanRun) -> str:
    """A sentence on the time, cost and goodput of a run, with bands and the chance to fit."""
    costs = view.answer.costs
    known = {
        figure.name: f"{figure.text} ({figure.band})" if figure.band else figure.text for figure in plan_run.figures
    }
    cost = "" if math.isnan(costs.get("run_cost", math.nan)) else f" and costs {known['run_cost']}"
    chance = f"; it fits with a chance of {chance_words(costs['fit_chance'])}" if "fit_chance" in costs else ""
    chance += "".join(f"; {words}" for words in _limit_chances(view))
    time = "" if math.isnan(costs["run_time"]) else f"The run takes {known['run_time']}{cost}{chance}. "
    lost = (
        f", and most of the rest goes into {plan_run.largest}" if plan_run.largest not in ("", plan_run.steps) else ""
    )
    return f"{time}{percent(costs['goodput'])} of its time are {plan_run.steps} that count{lost}."


def job_sentence(view: PlanView) -> str:
    """A sentence on the time and cost of all tokens with bands, and its risks; empty where these are not known."""
    costs, say = view.answer.costs, words_of(view.case.kind).result
    if not math.isfinite(costs.get("run_time_high", math.nan)) or costs.get("memory_share", 0.0) > 1:
        return ""

    def banded(name: str) -> str:
        """A result with its band."""
        low, high = (say(name, costs[f"{name}_{end}"]) for end in ENDS)
        return f"{say(name, costs[name])} ({range_of(low, high)})"

    cost = f" and costs {banded('run_cost')}" if math.isfinite(costs.get("run_cost_high", math.nan)) else ""
    rare = "" if math.isfinite(costs.get("goodput", math.nan)) else ", without failures, which costmodel run adds"
    risks = [f"it fits in memory with a chance of {chance_words(costs['fit_chance'])}", *_limit_chances(view)]
    return f"The whole job takes {banded('run_time')}{cost}{rare}; {'; '.join(risks)}. "


def run_headlines(view: PlanView, plan_run: PlanRun) -> list[Headline]:
    """The results of a run for the head of a page."""
    costs = view.answer.costs
    rows = ((each, costs[each.name]) for each in sorted(plan_run.figures, key=lambda each: each.name != "run_cost"))
    return [
        Headline(each.words[0].upper() + each.words[1:], traced(each.text, value, machine_name(each.name), each.name),
                 f"{BAND}: {each.band}" if each.band and not math.isnan(value) else each.band or "not known")
        for each, value in rows
    ]  # fmt: skip
