"""Several scenarios side by side on one page, of any workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rich.text import Text

from costmodel.documents.keys.workload_keys import WORKLOADS
from costmodel.documents.schemas.results import is_money
from costmodel.explore.explain.explain import ExplainedFigure
from costmodel.ground.record import record
from costmodel.report.document import Cell, Verdict
from costmodel.report.page.content import CellOf, HtmlPage, PageTable, Part
from costmodel.report.page.figures import Bars, FigureEntry, amounts
from costmodel.report.page.trace import PrefixedTraces, Traces
from costmodel.report.terminal.documents.tree import TreeDrawing
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.layout import CellTable, Line


@record
class ScenarioKind:
    """What scenarios of one workload are compared by: columns with their heads, and the one that ranks them."""

    name: str
    heads: tuple[tuple[str, str], ...]
    by: str
    words: str  # of the best of several
    of: str  # of the only one
    text_of: Callable[[str, float], str]


@record
class ScenarioEntry:
    """A scenario of any workload as the page of several shows it."""

    kind: ScenarioKind
    title: str
    plan: str
    conclusion: str
    valid: bool
    works: bool
    costs: Mapping[str, float]
    nodes: Callable[[], Mapping[str, ExplainedFigure]]
    drawing: Callable[[ExplainedFigure], TreeDrawing]
    cell_of: Callable[[Traces], CellOf]
    sections: Callable[[Traces], list[Part]]
    findings: Callable[[], Iterable[tuple[Verdict, str]]]
    rows: Callable[[], list[dict[str, Any]]]


def scenarios_page(entries: Sequence[ScenarioEntry], commands: Sequence[str]) -> HtmlPage:
    """Several scenarios side by side, then each with its own figures."""
    roots, drawings = dict[str, ExplainedFigure](), dict[int, Callable[[ExplainedFigure], TreeDrawing]]()
    for place, entry in enumerate(entries):
        own = entry.nodes() if entry.valid else {}
        roots |= {f"{place}.{name}": node for name, node in own.items()}
        drawings |= {id(node): entry.drawing for node in own.values()}
    traces = Traces(roots, lambda node: drawings[id(node)](node))
    own_traces = [PrefixedTraces(traces, f"{place}.") for place in range(len(entries))]
    parts = [_side_by_side([item for item in zip(entries, own_traces, strict=True) if item[0].kind == kind], kind)
             for kind in _kinds(entries)]  # fmt: skip
    for place, (entry, own_trace) in enumerate(zip(entries, own_traces, strict=True)):
        parts += _of_scenario(entry, f"s{place}", own_trace)
    working = [entry for entry in entries if entry.works]
    best = "".join(_best([entry for entry in working if entry.kind == kind], kind) for kind in _kinds(entries))
    return HtmlPage(
        f"{len(entries)} scenarios",
        [entry.title for entry in entries],
        f"{len(working)} of {len(entries)} scenarios have a plan that works{best}.",
        "good" if len(working) == len(entries) else "bad",
        [],
        parts,
        [(verdict, f"{entry.title}: {words}") for entry in entries for verdict, words in entry.findings()],
        commands,
        {"trace": traces.data()},
    )


def _kinds(entries: Sequence[ScenarioEntry]) -> list[ScenarioKind]:
    return list(dict.fromkeys(entry.kind for entry in entries))


def _best(working: Sequence[ScenarioEntry], kind: ScenarioKind) -> str:
    """Which of the scenarios of a kind is best, and by how much it is."""
    column = kind.by
    if not working:
        return ""
    best = max(working, key=lambda entry: entry.costs[column])
    value = kind.text_of(column, best.costs[column])
    return f"; {best.title} {kind.words}, {value}" if len(working) > 1 else f"; {best.title}: {value} {kind.of}"


def scenarios_figure(entries: Sequence[ScenarioEntry], key: str = "kind") -> Bars | None:
    """What scenarios of the first kind are ranked by, of each."""
    held = entries[0].kind
    shown = [entry for entry in entries if entry.valid and entry.kind == held]
    bars = [FigureEntry(entry.title, entry.costs[held.by], "first" if entry.works else "second", held.by)
            for entry in shown]  # fmt: skip
    if not bars:
        return None
    words = "The longer the better; orange does not fit or breaks a limit."
    text_of = partial(held.text_of, held.by)
    return amounts(f"by-{key}", f"{held.by} of each scenario", words, bars, "", text_of)


def scenarios_lines(entries: Sequence[ScenarioEntry]) -> list[Line]:
    """A line for each scenario, and what makes a page of them."""
    rows = [(entry.title, entry.conclusion) for entry in entries]
    grid = CellTable(("scenario", "conclusion"), rows, "kl", headed=False, indent="")
    return [grid, Text(), Text("Add -o page.html.")]


def scenarios_json(entries: Sequence[ScenarioEntry]) -> dict[str, Any]:
    """The plan of every scenario as plain values."""
    rows = []
    for entry in entries:
        stated = {"title": entry.title, "workload": entry.kind.name, "conclusion": entry.conclusion}
        rows += [{**stated, **plan} for plan in entry.rows() or [{}]]
    return {**head("costmodel/report/v1"), "plans": rows}


def _side_by_side(found: Sequence[tuple[ScenarioEntry, Traces]], held: ScenarioKind) -> Part:
    rows = list[list[Cell]]()
    for entry, traces in found:
        cell_of = entry.cell_of(traces)
        shown = [entry.valid and (entry.works or not is_money(column)) for _, column in held.heads]
        cells = [cell_of(column) if known else "" for known, (_, column) in zip(shown, held.heads, strict=True)]
        rows.append([entry.title, *cells, entry.plan])
    heads = ("scenario", *(words for words, _ in held.heads), "plan")
    figure = scenarios_figure([entry for entry, _ in found], held.name)
    tables = [PageTable(heads, rows, f"l{'r' * len(held.heads)}l")]
    return Part(
        f"scenarios-{held.name}",
        f"Side by side: {WORKLOADS[held.name]}",
        figures=[figure] if figure else [],
        tables=tables,
    )


def _of_scenario(entry: ScenarioEntry, key: str, traces: Traces) -> list[Part]:
    """A scenario's conclusion with its time and memory, and its inputs."""
    if not entry.valid:
        return [Part(key, entry.title, entry.conclusion)]
    cell_of = entry.cell_of(traces)
    rows: list[list[Cell]] = [[words, cell_of(column)] for words, column in entry.kind.heads]
    first = Part(key, entry.title, entry.conclusion, tables=[PageTable(("", ""), rows, "lr")])
    return [first, *(replace(part, key=f"{key}-{part.key}", title=f"{entry.title}: {part.title.lower()}")
                     for part in entry.sections(traces))]  # fmt: skip
