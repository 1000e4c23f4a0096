"""The page of `costmodel report`: one scenario whole, or several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.text import Text

from costmodel.estimate.shared.plan_batch import one_row
from costmodel.explore.page.plan_facts import PlanFacts
from costmodel.explore.page.report_facts import ReportFacts
from costmodel.report.machine import json_answer
from costmodel.report.page.content import Cell, HtmlPage, PageTable, Part, Value
from costmodel.report.page.evidence_part import measured_part
from costmodel.report.page.figures import Bars, FigureEntry, amounts
from costmodel.report.page.plan_page import (
    conclusion,
    findings,
    plan_page,
    plan_sections,
    scenario_part,
)
from costmodel.report.page.search_parts import choices_data, front_part, plans_data, ranking_part, why_part
from costmodel.report.page.trace import Traces
from costmodel.report.page.values import Figures
from costmodel.report.page.vary_parts import tornado_part
from costmodel.report.terminal.search.own_plan import ordinal
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.formatting import brief_words, plan_words, result
from costmodel.report.terminal.style.head import title
from costmodel.report.terminal.style.layout import CellTable, Line


def report_page(facts: ReportFacts, commands: Sequence[str]) -> HtmlPage:
    """A scenario: its plan, the plans around it, what moves it, and measured runs on its accelerator."""
    page = plan_page(facts.plan, commands)
    choices = choices_data(facts.found, facts.choices) if facts.found is not None and facts.choices else None
    data: dict[str, Any] = dict(page.data)
    data |= {"plans": plans_data(facts.found)} if facts.found is not None and facts.found.best else {}
    data |= {"choices": choices} if choices else {}
    case = facts.plan.answer.inputs.case
    return replace(
        page,
        conclusion=f"{page.conclusion}{_best_words(facts)}",
        parts=[*_parts(facts, page.parts, sliders=choices is not None), scenario_part(case)],
        data=data,
    )


def _best_words(facts: ReportFacts) -> str:
    """Where the plan stands among all, and what the best would gain."""
    found = facts.found
    if found is None or not found.best or found.yours is None or found.your_rank is None:
        return ""
    ratio = facts.plan.costs["step_time"] / found.best[0].costs["step_time"]
    if found.your_rank == 1 or ratio <= 1.0005:
        return " No plan of the search is better."
    best = brief_words(one_row(found.best[0].structure, **found.best[0].sizes))
    risky = ", though at P90 its memory does not fit" if "N023" in found.best[0].remarked else ""
    return f" It ranks {ordinal(found.your_rank)} of {found.tally.kept:,}: {best} is {ratio:.2f} × faster{risky}."


def _parts(facts: ReportFacts, own: Sequence[Part], *, sliders: bool) -> list[Part]:
    *ahead, last = own
    made: list[Part | None] = list(ahead[:-1] if facts.plan.valid else ahead)
    if facts.found is not None and facts.found.best:
        made += [front_part(facts.found), ranking_part(facts.found)]
        made += [choices_part()] if sliders else []
    made += [why_part(facts.found)] if facts.found is not None else []
    made += [tornado_part(facts.sensitive)] if facts.sensitive is not None and facts.sensitive.knobs else []
    made += [measured_part(facts.measured, facts.plan.answer.inputs.case.accelerator.name)]
    made += ahead[-1:] if facts.plan.valid else []
    return [part for part in (*made, last) if part is not None]


def choices_part() -> Part:
    """Sliders over computed plans."""
    lead = (
        "The sliders choose among plans that were computed: for each four settings the best plan that has them, "
        "its other settings below. The browser computes nothing."
    )
    return Part("what-if", "What if", lead, sliders=True, screen_only=True)


# ── several scenarios ────────────────────────────────────────────────────────────────────────────────────────────────


def scenarios_page(plans: Sequence[PlanFacts], commands: Sequence[str]) -> HtmlPage:
    """Several scenarios side by side, then each with its own figures."""
    valid = [facts for facts in plans if facts.valid]
    names = [title(facts.answer.inputs.case) for facts in plans]
    parts = [_side_by_side(plans, names)]
    roots = {f"{place}.{name}": node for place, facts in enumerate(plans) if facts.valid
             for name, node in facts.nodes.items()}  # fmt: skip
    traces = Traces(roots)
    for place, (facts, name) in enumerate(zip(plans, names, strict=True)):
        parts += _of_scenario(facts, name, f"s{place}", _Own(traces, f"{place}."))
    working = [facts for facts in valid if not facts.answer.broken]
    stated = f"{len(working)} of {len(plans)} scenarios have a plan that works"
    return HtmlPage(
        f"{len(plans)} scenarios",
        names,
        f"{stated}{_highest(working)}.",
        "good" if len(working) == len(plans) else "bad",
        [],
        parts,
        [finding for facts in plans for finding in findings(facts.answer)],
        commands,
        {"trace": traces.data()},
    )


class _Own(Traces):
    """The traces of one scenario among those of several."""

    def __init__(self, all_traces: Traces, prefix: str) -> None:
        self._all, self._prefix = all_traces, prefix

    def of(self, name: str) -> int | None:
        """The place of the trace of a figure of this scenario."""
        return self._all.of(self._prefix + name)


def _highest(working: Sequence[PlanFacts]) -> str:
    if len(working) < 2:
        return ""
    best = max(working, key=lambda facts: facts.costs["mfu"])
    return f"; {title(best.answer.inputs.case)} has the highest MFU, {result('mfu', best.costs['mfu'])}"


def scenarios_figure(plans: Sequence[PlanFacts]) -> Bars | None:
    """The MFU of every scenario."""
    entries = [FigureEntry(title(facts.answer.inputs.case), facts.costs["mfu"], "first", "mfu") for facts in plans
               if facts.valid]  # fmt: skip
    if not entries:
        return None
    return amounts("mfu", "MFU of each scenario", "Model FLOP over what the peak would allow.", entries, "",
                   lambda value: result("mfu", value))  # fmt: skip


def scenarios_lines(plans: Sequence[PlanFacts]) -> list[Line]:
    """A line for each scenario, and what makes a page of them."""
    rows = [(title(facts.answer.inputs.case), conclusion(facts.answer)) for facts in plans]
    return [
        CellTable(("scenario", "conclusion"), rows, "kl", headed=False, indent=""),
        Text(),
        Text("Add -o page.html."),
    ]


def scenarios_json(plans: Sequence[PlanFacts]) -> dict[str, Any]:
    """The plan of every scenario as plain values."""
    rows = []
    for facts in plans:
        stated = {"title": title(facts.answer.inputs.case), "conclusion": conclusion(facts.answer)}
        rows += [{**stated, **plan} for plan in json_answer.plan_rows(facts.answer) or [{}]]
    return {**head("costmodel/report/v1"), "plans": rows}


_COMPARED = ("step_time", "mfu", "tokens_per_s_per_gpu", "memory_peak", "cost_per_mtoken")


def _side_by_side(plans: Sequence[PlanFacts], names: Sequence[str]) -> Part:
    rows: list[list[Cell]] = []
    for facts, name in zip(plans, names, strict=True):
        figures = Figures(facts.costs) if facts.valid else None
        rows.append([name, *(figures(key) if figures else Value("") for key in _COMPARED), plan_words(facts.answer)])
    heads = ("scenario", "step", "MFU", "tok/s/GPU", "memory", "cost per Mtoken", "plan")
    figure = scenarios_figure(plans)
    tables = [PageTable(heads, rows, "lrrrrrl")]
    return Part("scenarios", "Side by side", figures=[figure] if figure else [], tables=tables)


def _of_scenario(facts: PlanFacts, name: str, key: str, traces: Traces) -> list[Part]:
    """A scenario's conclusion with its time and memory, and its inputs."""
    if not facts.valid:
        return [Part(key, name, conclusion(facts.answer))]
    figures = Figures(facts.costs, traces)
    time, memory, *_ = plan_sections(facts, figures)
    rows: list[list[Cell]] = [[head, figures(column)] for head, column in _HEADS]
    return [
        Part(key, name, conclusion(facts.answer), tables=[PageTable(("", ""), rows, "lr")]),
        replace(time, key=f"{key}-time", title=f"{name}: time"),
        replace(memory, key=f"{key}-memory", title=f"{name}: memory"),
    ]


_HEADS = (("step time", "step_time"), ("MFU", "mfu"), ("memory", "memory_peak"), ("cost per Mtoken", "cost_per_mtoken"))
