"""The parts of a page about one plan of reinforcement learning: phases, memory, what moves, the splits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costmodel.documents.schemas.results import RL_COLUMNS, machine_name
from costmodel.documents.schemas.rl.rl_results import PHASES
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.rl.rl_memory import RlMemory
from costmodel.estimate.rl.rl_reason_codes import REFUSALS
from costmodel.estimate.shared.results import number
from costmodel.explore.kept_answers import rl_settings
from costmodel.explore.rl.search_splits import FoundSplits
from costmodel.ground.units import counted, gib, percent, show, show_memory, show_time, significant, time_unit
from costmodel.report.document import Cell, Value
from costmodel.report.page.content import CellOf, PageTable, Part
from costmodel.report.page.figures import BarRow, Bars, FigureEntry, Piece, waterfall
from costmodel.report.page.network_part import transfer_value
from costmodel.report.page.plots import Plot, PlotAxis, PlotPoint
from costmodel.report.page.row_commands import row_commands
from costmodel.report.page.trace import Traces
from costmodel.report.page.values import seconds
from costmodel.report.terminal.rl.rl_communication import within
from costmodel.report.terminal.rl.rl_estimate import bound_by, of_generation
from costmodel.report.terminal.rl.rl_formatting import NAMES, reason, result

_TEN_MINUTES = 600.0
_ROLES = {
    "generation": "third",
    "update_time": "activations",
    "switch": "raw",
    "weight_sync": "network",
    "critic_time": "recomputed",
}
_MEMORY = {
    "policy weights": "weights",
    "policy gradients": "gradients",
    "policy optimizer": "optimizer",
    "activations and buffers": "activations",
    "critic states": "bad",
    "engine weights": "weights",
    "engine step": "activations",
    "cache": "ideal",
    "training runtime": "runtime",
    "engine runtime": "runtime",
}


def phases_part(answer: RlAnswer, cell_of: CellOf, traces: Traces) -> Part:
    """Where the iteration goes."""
    costs = answer.costs

    def share(name: str) -> Value:
        value = costs[name] / costs["iteration_time"]
        return traces.ratio("part", percent(value), value, (name, "iteration_time"))

    rows: list[list[Cell]] = [
        [NAMES[name], cell_of(name), share(name)]
        for name in sorted(PHASES, key=lambda name: -costs[name])
        if costs[name]
    ]
    rows += [["of generation: the tail", cell_of("tail"), share("tail")]]
    rows += [["hidden behind another", cell_of("overlapped"), ""]] if costs["overlapped"] else []
    words = f"Bound by {bound_by(answer)}."
    if answer.inputs.engines is not None:
        stated = "; ".join(of_generation(answer))
        words += f" {stated[0].upper()}{stated[1:]}."
    table = PageTable(("phase", "time", "of the iteration"), rows, "lrr")
    return Part("time", "Where the iteration goes", words, [phases_figure(answer)], figures_as_table=table)


def phases_figure(answer: RlAnswer) -> Bars:
    """The phases, one after the other, and what they come to."""
    costs = answer.costs
    entries = [
        FigureEntry(NAMES[name], costs[name], _ROLES.get(name, "attention"), machine_name(name))
        for name in PHASES
        if costs[name]
    ]
    if costs["overlapped"]:
        entries.append(FigureEntry("hidden", -costs["overlapped"], "good", "hidden_s"))
    total = FigureEntry("iteration", costs["iteration_time"], "total", "iteration_time_s")
    words = f"An iteration takes {seconds(total.value)}, of which {seconds(costs['generation'])} is generation."
    return waterfall("time", "Where the iteration goes", words, entries, total, seconds)


def memory_part(answer: RlAnswer, cell_of: CellOf, traces: Traces) -> Part:
    """The ledger of an accelerator in both phases."""
    found = answer.memory
    rows: list[list[Cell]] = [
        [part.name, *(Value(gib(value), value, f"{name}_bytes", traces.of(f"{name}.{part.name}_bytes")) if value else ""
                      for name, value in (("generating", part.generating), ("updating", part.updating)))]
        for part in found.parts
        if part.generating or part.updating
    ]  # fmt: skip
    rows.append(["in all", *(_sum(traces, name, found) for name in ("generating", "updating"))])
    rows.append(["peak", cell_of("memory_peak"), f"of {gib(found.usable)} GiB"])
    where = "Each accelerator does both in turns" if found.colocated else "Some accelerators generate, others train"
    words = f"{where}; the fuller phase needs {show_memory(found.peak)} of {show_memory(found.usable)}."
    table = PageTable(("GiB", "generating", "updating"), rows, "lrr")
    return Part("memory", "Where the memory goes", words, [memory_figure(answer)], figures_as_table=table)


def _sum(traces: Traces, phase: str, found: RlMemory) -> Value:
    """What a phase holds in all, of its lines."""
    names = [f"{phase}.{part.name}_bytes" for part in found.parts if getattr(part, phase)]
    lines = [place for place in map(traces.of, names) if place is not None]
    value = getattr(found, phase)
    return Value(gib(value), value, "", traces.add(phase, f"{gib(value)} GiB", ("= ", " + ", ""), lines))


def memory_figure(answer: RlAnswer) -> Bars:
    """Both phases stacked by the lines of the ledger, and the capacity."""
    found, rows, seen = answer.memory, [], dict[str, list[str]]()
    for phase in ("generating", "updating"):
        at, pieces = 0.0, []
        for part in found.parts:
            value, role = number(getattr(part, phase)), _MEMORY.get(part.name, "buffers")
            if value:
                tip = f"{part.name}: {show_memory(value)}"
                pieces.append(Piece(at, at + value, role, tip, f"{phase}.{part.name}_bytes", value))
                at += value
                named = seen.setdefault(role, [])
                named += [part.name] if part.name not in named else []
        rows.append(BarRow(phase, pieces, f"{gib(at)} GiB"))
    legend = [(role, ", ".join(names)) for role, names in seen.items()]
    words = f"The fuller phase needs {show_memory(found.peak)} of {show_memory(found.usable)}."
    limit = (found.usable, f"usable {gib(found.usable)} GiB")
    return Bars("memory", "Memory of an accelerator by phase", words, rows, "memory, GiB",
                gib, limit, legend, 2.0**30)  # fmt: skip


def network_part(answer: RlAnswer, traces: Traces) -> Part:
    """What moves between trainer and engines, and what each sends within."""
    sync, tables, words = answer.iteration.sync, [], "Nothing moves between trainer and engines."
    if sync is not None:
        time, nbytes = number(sync.time), number(sync.nbytes)
        words = f"New weights, {show(nbytes, 'B')}, take {show_time(time)} to the engines, bound by {sync.link}."
    rows: list[Sequence[Cell]] = [
        (moment, item.group.name, f"{number(item.group.ranks):.0f}", item.operation.replace("_", "-"),
         *(transfer_value(item, place, name, traces.value) for name in ("message", "count", "time")))
        for place, (moment, item) in enumerate(within(answer))
    ]  # fmt: skip
    heads = ("of", "group", "ranks", "operation", "size", "count", "time of one")
    if rows:
        tables = [PageTable(heads, rows, "llrlrrr", "Each optimizer step, and each step of an engine")]
    return Part("network", "Communication", words, tables=tables)


# ── splits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def splits_part(found: FoundSplits) -> Part:
    """The best plan of each split, to sort and to filter."""
    heads = ("#", "train", "generate", "tp", "cp", "engine tp", "iteration s", "generation s", "training s", "GiB",
             "breaks")  # fmt: skip
    rows = []
    for place, each in enumerate(found.best, 1):
        split, plan = each.inputs.split, each.inputs.plan
        rows.append((
            str(place), f"{split.trainer.ranks:.0f}", "in turns" if split.colocated else f"{split.rollout.ranks:.0f}",
            f"{plan.tp:.0f}", f"{plan.cp:.0f}", f"{plan.rollout.tp:.0f}",
            significant(each.costs["iteration_time"], 4), significant(each.costs["generation"], 4),
            significant(number(each.iteration.training), 4), gib(each.costs["memory_peak"]), " ".join(each.broken),
        ))  # fmt: skip
    words = f"{counted(found.evaluated)} plans were tried; the best of each split of the accelerators is here."
    table = PageTable(heads, rows, "rrlrrrrrrrl", sortable=True, rows_data="plans", whole=True,
                      figures=[*[""] * 6, "iteration_time", "generation", "", "memory_peak", ""])  # fmt: skip
    return Part("plans", "How to divide the accelerators", words, [splits_figure(found)], [table])


def splits_figure(found: FoundSplits) -> Plot:
    """Generation against training of the best plan of each split."""
    points = []
    for place, each in enumerate(found.best, 1):
        x, y = number(each.iteration.training), each.costs["generation"]
        split = each.inputs.split
        words = "in turns" if split.colocated else f"{split.rollout.ranks:.0f} generate"
        tip = f"{words}: {result('iteration_time', each.costs['iteration_time'])}"
        label = "best" if place == 1 else "in turns" if split.colocated else ""
        points.append(PlotPoint(x, y, "second" if each.broken else "first", tip, words, label, 5))
    legend = [("first", "works"), ("second", "breaks a limit")]
    seen = {point.role for point in points}
    words = f"{len(points)} splits; down and left is better."
    training = _time_axis("training", [point.x for point in points])
    generation = _time_axis("generation", [point.y for point in points])
    return Plot("plans", "Splits: training and generation", words, training, generation, points,
                legend=[entry for entry in legend if entry[0] in seen])  # fmt: skip


def _time_axis(words: str, values: list[float]) -> PlotAxis:
    """An axis of time, round in the unit that its values are shown in."""
    return PlotAxis(f"{words} time", seconds, unit=time_unit(max(values, default=1.0)))


def splits_data(found: FoundSplits) -> dict[str, Any]:
    """Each split whole, and the command that shows it."""
    best = found.best
    names = [name for name in RL_COLUMNS if all(name in each.costs for each in best)]
    columns = [
        {"name": machine_name(name), "label": NAMES.get(name, name), "unit": RL_COLUMNS[name].unit,
         "figure": name, "values": [_known(each.costs[name]) for each in best]}
        for name in names
    ]  # fmt: skip
    notes = [_why_not(found, each) for each in best]
    return {"columns": columns, **row_commands(found.case, [rl_settings(each) for each in best]), "notes": notes}


def _why_not(found: FoundSplits, each: RlAnswer) -> list[str]:
    """What a split breaks, and the phases in which it loses against the best."""
    stated, best = [f"{code} {REFUSALS[code].title}: {reason(each, code)}" for code in each.broken], found.best[0]
    if each is best:
        return stated
    moved = [(each.costs[name] - best.costs[name], NAMES[name]) for name in PHASES]
    moved.append((best.costs["overlapped"] - each.costs["overlapped"], "hidden"))
    shown = sorted((item for item in moved if item[0]), key=lambda item: -abs(item[0]))[:3]
    terms = ", ".join(f"{words} {'+' if value >= 0 else '−'}{seconds(abs(value))}" for value, words in shown)
    gap = each.costs["iteration_time"] - best.costs["iteration_time"]
    return [f"Against plan 1: {'+' if gap >= 0 else '−'}{seconds(abs(gap))} an iteration: {terms}.", *stated]


def _known(value: float) -> float | None:
    return value if value == value else None


def why_part(found: FoundSplits) -> Part | None:
    """Every reason against a plan, with an example."""
    rows = [
        (code, REFUSALS[code].title, counted(count), reason(found.examples[code], code), REFUSALS[code].meaning)
        for code, count in found.refused.most_common()
    ]
    heads = ("code", "why", "plans", "for example", "what it means")
    return Part("why-not", "Why not the others", tables=[PageTable(heads, rows, "llrll")]) if rows else None
