"""The answer of `memory`: the memory breakdown of the stages, phases or devices of a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from costmodel.ground.counts import number_of
from costmodel.ground.units import counted, gib, gib_beside, percent, show_memory, significant
from costmodel.report.answers.plan_answer import PlanView, plan_document, plan_rows
from costmodel.report.answers.plan_parts import LedgerSum, MemoryLedger
from costmodel.report.data_formats.answer_fields import finite
from costmodel.report.document import AnswerDocument, Cell, Column, Draw, Section, Table, Value, computed, traced
from costmodel.report.terminal.formatting import BAND
from costmodel.report.terminal.head import assumed_lines
from costmodel.report.terminal.layout import HEAD, Detail, bar, styled

if TYPE_CHECKING:
    from costmodel.explore.serving.best_fleets import ServedOn

_BAR = 20
_LARGEST_LINES, _SMALL = 3, 0.05  # lines of an answer that does not fit, and the share of the sum each exceeds
_SPARED, _TITLE, _MACHINES = 4, 2, 3  # when it leaves out the others and its title; machines of a short answer


def memory_document(view: PlanView, served: Sequence[ServedOn] = ()) -> AnswerDocument:
    """The memory breakdown of a plan, and other machines that can serve the model if these were computed."""
    section = lambda: [memory_section(view.ledger(), crowded=bool(served)), *_machines_section(served)]  # noqa: E731
    return plan_document(view, "memory", section, assumed=assumed_lines(view.answer.assumed, shown=False))


_FIGURES: tuple[tuple[str, str, str, Callable[[ServedOn], float], Callable[[float], str]], ...] = (
    ("GPUs", "", "gpus", lambda row: row.result("gpus"), counted),
    ("GiB/GPU", "weights", "weights_bytes", lambda row: row.weights, gib),
    ("context", "longest", "longest_context", lambda row: row.context, lambda tokens: f"{tokens:,.0f}"),
    ("requests", "at a time", "concurrency_steady", lambda row: row.result("concurrency_steady"), significant),
    ("tok/s/user", "", "tokens_per_s_per_user", lambda row: row.result("tokens_per_s_per_user"), significant),
    ("tok/s", "at most", "output_tokens_per_s_at_most", lambda row: row.most, significant),
)


def _machines_section(served: Sequence[ServedOn]) -> list[Section]:
    """A section with the smallest number of GPUs of each kind that can serve the model; empty without any."""
    if not served:
        return []
    order = sorted(served, key=lambda row: (row.result("gpus"), row.machine.accelerator))
    columns = [Column("GPU", "k"), *(Column(head, legend=legend) for head, legend, *_ in _FIGURES)]
    cells: list[list[Cell]] = [
        [
            row.machine.accelerator,
            *(Value(words(value(row)), value(row), name) for _, _, name, value, words in _FIGURES),
        ]
        for row in order
        if row.answer is not None
    ]
    load = next((row.answer.inputs.load for row in order if row.answer is not None), None)
    tokens = (
        "" if load is None else f", a request of {counted(float(load.prompt))} + {counted(float(load.output))} tokens"
    )
    lead = f"To serve it, the fewest GPUs that fit it{tokens}"
    against = [styled(f"  ✗ {row.why}") for row in order if row.answer is None]
    table = Table(columns, cells, brief=_MACHINES, rest="GPU")
    beneath = [Detail(against, "GPUs that cannot")] if against else []
    detail = "the GPUs that can serve it"
    return [
        Section(
            "machines",
            "Machines that serve it",
            f"{lead}.",
            ahead=[styled(lead, HEAD)],
            table=table,
            beneath=beneath,
            detail=detail,
            spare=1,
        )
    ]


def memory_section(ledger: MemoryLedger, *, crowded: bool = False) -> Section:
    """The section with the memory breakdown of a plan.

    crowded: whether the answer has other sections, so that a short answer shows fewer lines
    """
    most, used = ledger.of(ledger.fullest), ledger.limit
    title = styled(ledger.where if len(ledger.holders) > 1 else f"{ledger.where}, in GiB", HEAD)
    band = styled(f"  {BAND} of the peak: {ledger.band}")
    spared = [Detail([band], spare=_SPARED) if crowded or not ledger.fits else band] if ledger.band else []
    room = [ledger.room if ledger.fits else Detail([ledger.room], spare=_SPARED), *spared]
    further = [Detail(ledger.further, "the cache by layers")] if ledger.further else []
    who = f"The fullest, {ledger.holders[ledger.fullest]}," if len(ledger.holders) > 1 else "It"
    return Section(
        "memory",
        "Where the memory goes",
        f"{ledger.where}. {who} needs {gib(most)} of {gib(ledger.usable)} GiB {used}.",
        [partial(_draw_memory, ledger)],
        [Detail([title], spare=_TITLE) if crowded or not ledger.fits else title],
        replace(ledger_table(ledger, ledger.sums), rest="what torch reports"),
        [*room, *ledger.beneath, *further],
        folded=True,
        short=ledger_table(ledger, ledger.sums[-1:]) if len(ledger.sums) > 2 else None,
        least=_largest_lines_table(ledger) if crowded or not ledger.fits else None,
    )


def _largest_lines_table(ledger: MemoryLedger) -> Table:
    """The largest lines of a breakdown and their sum, for a short answer about a plan that does not fit."""
    sizes = sorted((max(line.held) for line in ledger.lines), reverse=True)
    least = max(_SMALL * ledger.of(ledger.fullest), sizes[:_LARGEST_LINES][-1])
    total = replace(ledger.sums[-1], note=f"{BAND}: {ledger.band}" if ledger.band else "")
    total = replace(total, name=f"{total.name}, GiB") if len(ledger.holders) == 1 else total
    left = sum(1 for size in sizes if 0 < size < least)
    return replace(ledger_table(ledger, [total], least), sums=0, rest=number_of(left, "smaller line") if left else "")


def ledger_table(ledger: MemoryLedger, totals: Sequence[LedgerSum], least: float = 0.0) -> Table:
    """The memory breakdown as a table, with a column for each holder, or with bars if there is one holder.

    totals: sums at the end. least: bytes from which a line is shown
    """
    shown = [line for line in ledger.lines if any(line.held) and max(line.held) >= least]
    alone = len(ledger.holders) == 1
    largest, places = max(line.held[ledger.fullest] for line in shown), range(len(ledger.holders))
    bars = [Column("", "l", drop=1, face="terminal")] if alone else []
    heads = [Column("GiB")] if alone else [Column(name) for name in ledger.holders]
    rows = list[list[Cell]]()
    for line in shown:
        cells = [
            traced(gib(line.held[place]), line.held[place], f"{line.name}_bytes", ledger.trace(place, line.name))
            if line.held[place]
            else ""
            for place in places
        ]
        drawn = [bar(line.held[0] / largest, _BAR)] if alone else []
        rows.append([line.words or line.name, *cells, *drawn, line.note])
    for total in totals:
        sums = [_total_cell(ledger, total, place) for place in places]
        rows.append([total.name, *sums, *([""] if alone else []), total.note])
    noted = any(line.note for line in shown)
    columns = [Column("line" if alone else "GiB", "k"), *heads, *bars, *([Column("note", "l")] if noted else [])]
    rows = rows if noted else [row[:-1] for row in rows]
    return Table(columns, rows, headed=not alone, sums=len(totals), rest="line")


def _total_cell(ledger: MemoryLedger, each: LedgerSum, place: int) -> Cell:
    """A cell with the sum of the first lines of one holder in GiB, which opens these lines."""
    value = ledger.of(place, each.lines)
    if each.total and place == ledger.fullest:
        return traced(gib(value), value, f"{each.total}_bytes", each.total)
    names = [ledger.trace(place, line.name) for line in ledger.lines[: each.lines] if line.held[place]]
    return computed(each.name, gib(value), value, " + ", names)


def _draw_memory(ledger: MemoryLedger) -> Draw:
    """Stacked bars of the memory of each holder, and a line for the capacity."""
    from costmodel.report.page.figures import BarRow, Bars, Piece

    rows, roles = [], dict[str, list[str]]()
    for place, holder in enumerate(ledger.holders):
        at, pieces = 0.0, list[Piece]()
        for line in ledger.lines:
            value, words = line.held[place], line.words or line.name
            if value:
                tip = f"{words}: {show_memory(value)}"
                pieces.append(Piece(at, at + value, line.role, tip, ledger.trace(place, line.name), value))
                at += value
                named = roles.setdefault(line.role, [])
                named += [words] if words not in named else []
        rows.append(BarRow(holder, pieces, f"{gib(at)} GiB"))
    most, usable = max(map(ledger.of, range(len(ledger.holders)))), ledger.usable
    legend = [(role, ", ".join(names)) for role, names in roles.items()]
    limit = (usable, f"{gib(usable)} GiB {ledger.limit}")
    words = f"At most {show_memory(most)} of {show_memory(usable)}."
    return Bars("memory", "Memory against the capacity", words, rows, "memory, GiB", gib, limit, legend, 2.0**30)


def memory_json(view: PlanView, served: Sequence[ServedOn] = ()) -> dict[str, Any]:
    """A plan as plain values with a row for each holder of memory, in bytes."""
    if view.answer.refused:
        return {**view.plain(), "ledger": []}
    held = view.ledger()
    rows = (
        {
            "of": holder,
            **{f"{line.name}_bytes": line.held[place] for line in held.lines},
            "peak_bytes": held.of(place),
        }
        for place, holder in enumerate(held.holders)
    )
    machines = [
        {
            "accelerator": row.machine.accelerator,
            **{name: finite(value(row)) for _, _, name, value, _ in _FIGURES},
            "against": row.why or None,
        }
        for row in served
    ]
    plain = {**view.plain(), "ledger": plan_rows(view.case, rows), **held.plain}
    return {**plain, "machines": machines} if served else plain


def room_words(ledger_peak: float, usable: float) -> str:
    """The used share of the usable memory and the free memory in words; both arguments in bytes."""
    free = usable - ledger_peak
    margin = f"{gib_beside(abs(free), ledger_peak)} GiB {'free' if free >= 0 else 'too much'}"
    return f"of {gib(usable)} GiB usable: {percent(ledger_peak / usable)}, {margin}"
