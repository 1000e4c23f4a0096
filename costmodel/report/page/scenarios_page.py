"""The HTML page with several scenarios side by side, of any workloads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rich.text import Text

from costmodel.documents.keys.workload_keys import WORKLOADS
from costmodel.documents.schemas.results import is_money
from costmodel.explore.explain.equation_trees import ExplainedFigure
from costmodel.explore.workloads import workload_of
from costmodel.report.answers.memory import memory_section
from costmodel.report.answers.plan_answer import PlanView, result_cell, works
from costmodel.report.document import Cell
from costmodel.report.page.document_page import HtmlPage, PagePart, PageTable, section_part
from costmodel.report.page.figures import Bars, FigureEntry, amount_bars
from costmodel.report.page.plan_page import findings
from costmodel.report.page.trace import PrefixedTraces, Traces, with_trace
from costmodel.report.terminal.head import case_title, hourly_price, price_fields
from costmodel.report.terminal.layout import CellTable, Line, schema_head
from costmodel.report.workload_words import money_words, words_of


def scenarios_page(views: Sequence[PlanView], commands: Sequence[str]) -> HtmlPage:
    """A page with several scenarios side by side, then the figures of each."""
    roots = dict[str, ExplainedFigure]()
    for place, view in enumerate(views):
        own = {} if view.answer.refused else view.nodes
        roots |= {f"{place}.{name}": node for name, node in own.items()}
    traces = Traces(roots)
    own_traces = [PrefixedTraces(traces, f"{place}.") for place in range(len(views))]
    traced = dict(zip(map(id, views), own_traces, strict=True))
    parts = [
        _comparison_part([(view, traced[id(view)]) for view in same], kind)
        for kind, same in views_by_kind(views).items()
    ]
    for place, (view, own_trace) in enumerate(zip(views, own_traces, strict=True)):
        parts += _scenario_parts(view, f"s{place}", own_trace)
    working = [*filter(works, views)]
    best = "".join(_best_words([*filter(works, same)], kind) for kind, same in views_by_kind(views).items())
    return HtmlPage(
        f"{len(views)} scenarios",
        [*map(_scenario_title, views)],
        [f"{len(working)} of {len(views)} scenarios have a plan that works{best}."],
        "good" if len(working) == len(views) else "bad",
        [],
        parts,
        [(verdict, f"{_scenario_title(view)}: {words}") for view in views for verdict, words in findings(view)],
        commands,
        {"trace": traces.data()},
    )


def _scenario_title(view: PlanView) -> str:
    return case_title(view.case)


def _conclusion(view: PlanView) -> str:
    """The cost and the time of the job, then the conclusion on its plan."""
    money = money_words(view.answer.costs) if works(view) else ""
    return f"{f'{money}. ' if money else ''}{words_of(view.case.kind).conclusion(view.answer)}"


def views_by_kind(views: Sequence[PlanView]) -> dict[str, list[PlanView]]:
    """The scenarios of each kind of workload."""
    found: dict[str, list[PlanView]] = {}
    for view in views:
        found.setdefault(view.case.kind, []).append(view)
    return found


def _best_words(working: Sequence[PlanView], kind: str) -> str:
    """A phrase on the best scenario of a kind and on its value."""
    compared = words_of(kind).compared
    column = compared.by
    if not working:
        return ""
    best = max(working, key=lambda view: view.answer.costs[column])
    value = words_of(kind).result(column, best.answer.costs[column])
    if len(working) > 1:
        return f"; {_scenario_title(best)} {compared.words}, {value}"
    return f"; {_scenario_title(best)}: {value} {compared.of}"


def scenarios_figure(views: Sequence[PlanView]) -> Bars | None:
    """Bars with the result by which scenarios of one kind are ranked: of the first kind."""
    kind, same = next(iter(views_by_kind(views).items()))
    by = words_of(kind).compared.by
    shown = [view for view in same if not view.answer.refused]
    bars = [FigureEntry(_scenario_title(view), view.answer.costs[by], "first" if works(view) else "second", by)
            for view in shown]  # fmt: skip
    if not bars:
        return None
    words = "The longer the better; orange does not fit or breaks a limit."
    return amount_bars(f"by-{kind}", f"{by} of each scenario", words, bars, "", partial(words_of(kind).result, by))


def scenarios_lines(views: Sequence[PlanView]) -> list[Line]:
    """A line for each scenario, and how to write a page of them."""
    rows = [(_scenario_title(view), _conclusion(view)) for view in views]
    grid = CellTable(("scenario", "conclusion"), rows, "kl", headed=False, indent="")
    return [grid, Text(), Text("Add -o page.html.")]


def scenarios_json(views: Sequence[PlanView]) -> dict[str, Any]:
    """The plan of every scenario as plain values."""
    rows = []
    for view in views:
        stated = {"title": _scenario_title(view), "workload": view.case.kind, "conclusion": _conclusion(view)}
        price = price_fields(workload_of(view.case).facts.price)
        rows += [{**stated, **plan, **price} for plan in view.plain()["plans"] or [{}]]
    return {**schema_head("costmodel/report/v1"), "plans": rows}


def _result_cells(view: PlanView, traces: Traces, heads: Heads, *, working: bool = True) -> list[Cell]:
    """The cells of some results of a plan; none of money where the plan does not work."""
    known = [not view.answer.refused and (working or not is_money(name)) for _, name in heads]
    cells = zip(known, heads, strict=True)
    return [with_trace(result_cell(view, name), traces) if shown and _is_known(view, name) else ""
            for shown, (_, name) in cells]  # fmt: skip


Heads = Sequence[tuple[str, str]]  # of columns, with the results that they show


def _is_known(view: PlanView, name: str) -> bool:
    return math.isfinite(view.answer.costs.get(name, math.nan))


def _money_heads(views: Sequence[PlanView]) -> Heads:
    """The columns of money and chance that a plan of these scenarios has."""
    money = words_of(views[0].case.kind).compared.money
    return [(words, name) for words, name in money if any(_is_known(view, name) for view in views)]


def _comparison_part(views: Sequence[tuple[PlanView, Traces]], kind: str) -> PagePart:
    """The part of a page that compares scenarios of one workload."""
    shown, rows = [view for view, _ in views], list[list[Cell]]()
    held = [*_money_heads(shown), *words_of(kind).compared.heads]
    for view, traces in views:
        asked = workload_of(view.case)
        cells = _result_cells(view, traces, held, working=works(view))
        rows.append([_scenario_title(view), hourly_price(asked.facts.price), *cells, asked.summary(view.answer).words])
    heads = ("scenario", "price", *(words for words, _ in held), "plan")
    figure = scenarios_figure(shown)
    tables = [PageTable(heads, rows, f"l{'r' * (len(held) + 1)}l")]
    return PagePart(
        f"scenarios-{kind}",
        f"Side by side: {WORKLOADS[kind]}",
        figures=[figure] if figure else [],
        tables=tables,
    )


def _scenario_parts(view: PlanView, key: str, traces: Traces) -> list[PagePart]:
    """The parts of a page on one scenario: its conclusion, time and memory."""
    if view.answer.refused:
        return [PagePart(key, _scenario_title(view), _conclusion(view))]
    heads = [*_money_heads([view]), *words_of(view.case.kind).compared.heads]
    cells = _result_cells(view, traces, heads)
    rows: list[list[Cell]] = [[words, cell] for (words, _), cell in zip(heads, cells, strict=True)]
    first = PagePart(key, _scenario_title(view), _conclusion(view), tables=[PageTable(("", ""), rows, "lr")])
    sections = [*view.time(), memory_section(view.ledger())]
    parts = [section_part(section, traces) for section in sections if section.face != "terminal"]
    return [first, *(replace(part, key=f"{key}-{part.key}", title=f"{_scenario_title(view)}: {part.title.lower()}")
                     for part in parts)]  # fmt: skip
