"""What accelerators hold, line by line: of stages, of phases, or of the only one there is."""

from __future__ import annotations

from functools import partial
from typing import Any

from costmodel.ground.units import gib, percent, show_memory
from costmodel.report.answers.plan_answer import all_assumed, plan_answer, plan_rows
from costmodel.report.answers.plan_parts import LedgerSum, MemoryLedger
from costmodel.report.answers.plan_view import PlanView
from costmodel.report.document import AnswerDocument, Cell, Column, Draw, Section, Table, made_of, traced
from costmodel.report.terminal.style.theme import HEAD, bar, styled

_BAR = 20


def memory(view: PlanView, *, verbose: bool) -> AnswerDocument:
    """The ledger of a plan."""
    section = lambda: [memory_section(view.ledger(), verbose=verbose)]  # noqa: E731
    return plan_answer(view, "memory", section, all_assumed(view.answer, verbose=verbose))


def memory_section(ledger: MemoryLedger, *, verbose: bool = False) -> Section:
    """The lines that are not empty, their sums, and whether they fit."""
    most, used = ledger.of(ledger.fullest), ledger.limit
    who = f"The fullest, {ledger.holders[ledger.fullest]}," if len(ledger.holders) > 1 else "It"
    return Section(
        "memory",
        "Where the memory goes",
        f"{ledger.where}. {who} needs {gib(most)} of {gib(ledger.usable)} GiB {used}.",
        [partial(_figure, ledger)],
        [styled(ledger.where, HEAD)],
        ledger_table(ledger),
        [ledger.room, *ledger.beneath, *(ledger.further if verbose else [])],
        folded=True,
    )


def ledger_table(ledger: MemoryLedger) -> Table:
    """A column for each holder; of a single one bars."""
    shown, alone = [line for line in ledger.lines if any(line.held)], len(ledger.holders) == 1
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
    for each in ledger.sums:
        sums = [_sum(ledger, each, place) for place in places]
        rows.append([each.name, *sums, *([""] if alone else []), each.note])
    noted = any(line.note for line in shown)
    columns = [Column("line" if alone else "GiB", "k"), *heads, *bars, *([Column("note", "l")] if noted else [])]
    rows = rows if noted else [row[:-1] for row in rows]
    return Table(columns, rows, headed=not alone, sums=len(ledger.sums))


def _sum(ledger: MemoryLedger, each: LedgerSum, place: int) -> Cell:
    value = ledger.of(place, each.lines)
    if each.total and place == ledger.fullest:
        return traced(gib(value), value, f"{each.total}_bytes", each.total)
    names = [ledger.trace(place, line.name) for line in ledger.lines[: each.lines] if line.held[place]]
    return made_of(each.name, gib(value), value, " + ", names)


def _figure(ledger: MemoryLedger) -> Draw:
    """Holders stacked by the lines of their ledger, and the capacity."""
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


def memory_json(view: PlanView) -> dict[str, Any]:
    """A plan with a row for each holder, as plain values."""
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
    return {**view.plain(), "ledger": plan_rows(view.case, rows), **held.plain}


def room_words(ledger_peak: float, usable: float) -> str:
    """How much of what is usable is taken, and how much is free."""
    free = usable - ledger_peak
    margin = f"{gib(free)} GiB free" if free >= 0 else f"{gib(-free)} GiB too much"
    return f"of {gib(usable)} GiB usable: {percent(ledger_peak / usable)}, {margin}"
