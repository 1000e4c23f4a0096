"""The parts of a page about one plan of reinforcement learning: phases, memory, what moves, the splits."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.documents.schemas.results import machine_name
from costmodel.documents.schemas.rl.rl_results import PHASES
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.rl.rl_memory import RlMemory
from costmodel.estimate.shared.results import number
from costmodel.ground.units import gib, percent, show, show_memory, show_time
from costmodel.report.document import Cell, Value
from costmodel.report.page.content import CellOf, PageTable, Part
from costmodel.report.page.figures import BarRow, Bars, FigureEntry, Piece, waterfall
from costmodel.report.page.network_part import transfer_value
from costmodel.report.page.trace import Traces
from costmodel.report.page.values import seconds
from costmodel.report.terminal.rl.rl_communication import within
from costmodel.report.terminal.rl.rl_estimate import bound_by, of_generation
from costmodel.report.terminal.rl.rl_formatting import NAMES

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
