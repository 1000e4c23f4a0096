"""Several scenarios side by side on one page: training, serving and reinforcement learning, in any mixture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.results import is_money
from costmodel.explore.explain.explain import ExplainedFigure
from costmodel.explore.kept_answers import both_words
from costmodel.explore.page.plan_facts import PlanFacts
from costmodel.explore.page.rl_facts import RlFacts
from costmodel.explore.page.serving_facts import ServingFacts
from costmodel.ground.record import record
from costmodel.report.document import Cell, Verdict
from costmodel.report.machine import json_answer, rl_json, serving_json
from costmodel.report.page import rl_page, rl_parts, serving_page
from costmodel.report.page.content import CellOf, HtmlPage, PageTable, Part
from costmodel.report.page.figures import Bars, FigureEntry, amounts
from costmodel.report.page.plan_page import conclusion, findings, plan_sections
from costmodel.report.page.trace import PrefixedTraces, Traces
from costmodel.report.page.values import Figures
from costmodel.report.terminal.documents.tree import TreeDrawing
from costmodel.report.terminal.plan.plan_words import plan_words
from costmodel.report.terminal.rl import rl_formatting
from costmodel.report.terminal.rl.rl_estimate import rl_conclusion
from costmodel.report.terminal.rl.rl_tree import RlDrawing
from costmodel.report.terminal.serving import serving_formatting
from costmodel.report.terminal.serving.serving_estimate import serving_conclusion
from costmodel.report.terminal.serving.serving_tree import ServingDrawing
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.formatting import result
from costmodel.report.terminal.style.head import title
from costmodel.report.terminal.style.layout import CellTable, Line


@record
class ScenarioKind:
    """What scenarios of one kind are compared by: columns with their heads, and the one that ranks them."""

    heads: tuple[tuple[str, str], ...]
    by: str
    words: str  # of the best of several
    of: str  # of the only one
    text_of: Callable[[str, float], str]


KINDS = {
    "training": ScenarioKind(
        (("step time", "step_time"), ("MFU", "mfu"), ("tok/s/GPU", "tokens_per_s_per_gpu"), ("memory", "memory_peak"),
         ("cost per Mtoken", "cost_per_mtoken")),
        "mfu", "has the highest MFU", "MFU", result,
    ),
    "serving": ScenarioKind(
        (("within limits", "rate_within_slo_per_s"), ("first token, p99", "ttft_p99"), ("per token", "tpot"),
         ("tok/s/GPU", "tokens_per_s_per_gpu"), ("memory", "memory_peak"),
         ("cost per M generated", "cost_per_moutput")),
        "tokens_per_gpu_within_limits", "generates most for each accelerator within limits",
        "for each accelerator within limits", serving_formatting.result,
    ),
    "rl": ScenarioKind(
        (("iteration", "iteration_time"), ("answers", "answers_per_s"), ("tok/s/GPU", "tokens_per_s_per_gpu"),
         ("memory", "memory_peak"), ("cost of an iteration", "iteration_cost")),
        "tokens_per_s_per_gpu", "handles most tokens for each accelerator", "for each accelerator",
        rl_formatting.result,
    ),
}  # fmt: skip


@record
class ScenarioEntry:
    """A scenario of any kind as the page of several shows it."""

    kind: str
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


def entry_of(facts: PlanFacts | ServingFacts | RlFacts) -> ScenarioEntry:
    """A scenario by the facts about it."""
    if isinstance(facts, ServingFacts):
        return _serving_entry(facts)
    return _rl_entry(facts) if isinstance(facts, RlFacts) else _training_entry(facts)


def _training_entry(facts: PlanFacts) -> ScenarioEntry:
    answer = facts.answer
    return ScenarioEntry(
        "training", title(answer.inputs.case), plan_words(answer), conclusion(answer), facts.valid,
        not (answer.refused or answer.broken), facts.costs if facts.valid else {}, lambda: facts.nodes, TreeDrawing,
        lambda traces: Figures(facts.costs, traces),
        lambda traces: plan_sections(facts, Figures(facts.costs, traces))[:2],
        lambda: findings(answer), lambda: json_answer.plan_rows(answer),
    )  # fmt: skip


def _serving_entry(facts: ServingFacts) -> ScenarioEntry:
    answer = facts.answer

    def sections(traces: Traces) -> list[Part]:
        cell_of = partial(serving_page.value_of, answer.costs, traces)
        token = [serving_page.token_part(answer, cell_of)] if facts.settled else []
        return [*token, serving_page.memory_part(answer, traces)]

    return ScenarioEntry(
        "serving", title(facts.case), serving_formatting.plan_words(answer), serving_conclusion(answer),
        not answer.refused, not (answer.refused or answer.broken), {} if answer.refused else answer.costs,
        lambda: facts.nodes, ServingDrawing, lambda traces: partial(serving_page.value_of, answer.costs, traces),
        sections, lambda: serving_page.findings(answer), lambda: serving_json.estimate(answer)["plans"],
    )  # fmt: skip


def _rl_entry(facts: RlFacts) -> ScenarioEntry:
    answer = facts.answer

    def sections(traces: Traces) -> list[Part]:
        cell_of = partial(rl_page.value_of, answer.costs, traces)
        return [rl_parts.phases_part(answer, cell_of, traces), rl_parts.memory_part(answer, cell_of, traces)]

    return ScenarioEntry(
        "rl", title(facts.case), both_words(answer), rl_conclusion(answer), not answer.refused,
        answer.works, {} if answer.refused else answer.costs, lambda: facts.nodes, RlDrawing,
        lambda traces: partial(rl_page.value_of, answer.costs, traces),
        sections,
        lambda: rl_page.findings(answer), lambda: rl_json.estimate(answer)["plans"],
    )  # fmt: skip


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


def _kinds(entries: Sequence[ScenarioEntry]) -> list[str]:
    return list(dict.fromkeys(entry.kind for entry in entries))


def _best(working: Sequence[ScenarioEntry], kind: str) -> str:
    """Which of the scenarios of a kind is best, and by how much it is."""
    column = KINDS[kind].by
    if not working:
        return ""
    best = max(working, key=lambda entry: entry.costs[column])
    value = KINDS[kind].text_of(column, best.costs[column])
    return (
        f"; {best.title} {KINDS[kind].words}, {value}"
        if len(working) > 1
        else f"; {best.title}: {value} {KINDS[kind].of}"
    )


def scenarios_figure(entries: Sequence[ScenarioEntry], kind: str = "") -> Bars | None:
    """What scenarios of one kind are ranked by, of each."""
    held = KINDS[kind or _kinds(entries)[0]]
    shown = [entry for entry in entries if entry.valid and entry.kind == (kind or _kinds(entries)[0])]
    bars = [FigureEntry(entry.title, entry.costs[held.by], "first" if entry.works else "second", held.by)
            for entry in shown]  # fmt: skip
    if not bars:
        return None
    words = "The longer the better; orange does not fit or breaks a limit."
    text_of = partial(held.text_of, held.by)
    return amounts(f"by-{kind or 'kind'}", f"{held.by} of each scenario", words, bars, "", text_of)


def scenarios_lines(entries: Sequence[ScenarioEntry]) -> list[Line]:
    """A line for each scenario, and what makes a page of them."""
    rows = [(entry.title, entry.conclusion) for entry in entries]
    grid = CellTable(("scenario", "conclusion"), rows, "kl", headed=False, indent="")
    return [grid, Text(), Text("Add -o page.html.")]


def scenarios_json(entries: Sequence[ScenarioEntry]) -> dict[str, Any]:
    """The plan of every scenario as plain values."""
    rows = []
    for entry in entries:
        stated = {"title": entry.title, "workload": entry.kind, "conclusion": entry.conclusion}
        rows += [{**stated, **plan} for plan in entry.rows() or [{}]]
    return {**head("costmodel/report/v1"), "plans": rows}


def _side_by_side(found: Sequence[tuple[ScenarioEntry, Traces]], kind: str) -> Part:
    held, rows = KINDS[kind], list[list[Cell]]()
    for entry, traces in found:
        cell_of = entry.cell_of(traces)
        shown = [entry.valid and (entry.works or not is_money(column)) for _, column in held.heads]
        cells = [cell_of(column) if known else "" for known, (_, column) in zip(shown, held.heads, strict=True)]
        rows.append([entry.title, *cells, entry.plan])
    heads = ("scenario", *(words for words, _ in held.heads), "plan")
    figure = scenarios_figure([entry for entry, _ in found], kind)
    tables = [PageTable(heads, rows, f"l{'r' * len(held.heads)}l")]
    name = {"rl": "reinforcement learning"}.get(kind, kind)
    return Part(f"scenarios-{kind}", f"Side by side: {name}", figures=[figure] if figure else [], tables=tables)


def _of_scenario(entry: ScenarioEntry, key: str, traces: Traces) -> list[Part]:
    """A scenario's conclusion with its time and memory, and its inputs."""
    if not entry.valid:
        return [Part(key, entry.title, entry.conclusion)]
    cell_of = entry.cell_of(traces)
    rows: list[list[Cell]] = [[words, cell_of(column)] for words, column in KINDS[entry.kind].heads]
    first = Part(key, entry.title, entry.conclusion, tables=[PageTable(("", ""), rows, "lr")])
    return [first, *(replace(part, key=f"{key}-{part.key}", title=f"{entry.title}: {part.title.lower()}")
                     for part in entry.sections(traces))]  # fmt: skip
