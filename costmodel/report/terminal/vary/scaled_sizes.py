"""Answers of scale."""

from __future__ import annotations

import math
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.results import is_money
from costmodel.explore.vary.scale import Scaled, ScaledSize
from costmodel.ground.units import percent, significant
from costmodel.report.machine.answer_fields import known, notes
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.formatting import joined
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.remark_lines import assumed_of_all
from costmodel.report.terminal.style.theme import BAD, bar, styled
from costmodel.report.trials import (
    NARROW,
    against_words,
    aside_lines,
    figure_words,
    heads_of,
    known_results,
    missed_lines,
    remark_lines,
    trial_fields,
    with_ends,
)
from costmodel.report.workload_words import held_lines, subject_fields, varied_head, words_of

_BAR = 10


def scale(found: Scaled, *, verbose: bool = False) -> list[Line]:
    """A row a size, and where and why it bends; verbose, all assumptions too."""
    asked, scaling, words = found.asked, found.scaling, words_of(found.asked.case.kind)
    points = [row.found.point for row in found.rows]
    lines: list[Line] = [*varied_head(asked, scaling.varied, priced=any(map(is_money, scaling.shown)))]
    lines += [styled(scaling.words)] if scaling.words else []
    lines += held_lines(asked, scaling.varied) if found.best else words.unsized(found)
    lines += [styled("Stopped before the last size.", BAD)] if found.stopped else []
    lines += [Text(), _sizes(found), *missed_lines(asked, points), *aside_lines(points, scaling.shown)]
    lines += remark_lines(points, "N003")
    lines += [Text(), *assumed_of_all(row.found.assumed for row in found.rows)] if verbose else []
    bends = [styled(bend(found))] if scaling.time or not found.known else []
    return [*lines, Text(), *bends, *words.sized(found)]


def _sizes(found: Scaled) -> CellTable:
    """The table of sizes."""
    asked, scaling = found.asked, found.scaling
    shown, compared = with_ends(scaling.shown), bool(scaling.time)
    to_loss = any(not math.isnan(row.to_loss) for row in found.rows)
    rows = []
    for row in found.rows:
        point, cells = row.found.point, [row.found.text]
        cells += [figure_words(asked, point, name) for name in shown]
        if compared:
            is_known = row.efficiency >= 0
            cells += [bar(row.efficiency, _BAR), percent(row.efficiency)] if is_known else ["", "—"]
            cells.append(", ".join(f"{_term(found, term)} {share * 100:.1f} %" for term, share in row.grew))
        cells += [point.kept.words if point.kept is not None and point.costs else ""] if found.best else []
        cells += [("" if math.isnan(row.to_loss) else percent(row.to_loss))] if to_loss else []
        rows.append((*cells, against_words(asked, point)))
    heads, align = [scaling.name.rpartition(".")[2], *heads_of(asked, shown)], "r" * (1 + len(shown))
    if compared:
        heads, align = [*heads, "", "efficiency", "what grows, of the time"], f"{align}lrl"
    if found.best:
        heads, align = [*heads, "best plan"], f"{align}l"
    if to_loss:
        heads, align = [*heads, "to the loss"], f"{align}r"
    heads, align = [*heads, "verdict"], f"{align}l"
    return CellTable(heads, rows, align, drop=[head for head in ("", *NARROW) if head in heads])


def _term(found: Scaled, term: str) -> str:
    return words_of(found.asked.case.kind).terms.get(term, term)


def bend(found: Scaled) -> str:
    """Where a doubling first keeps less than 95 %, and why."""
    compared = [row for row in found.known if row.efficiency >= 0]
    if len(compared) < 2:
        return "With one size there is no trend." if compared else "No size has an answer."
    if found.bend is None:
        return f"No bend up to {compared[-1].found.text}: every doubling keeps 95 % or more."
    before, after = found.bend
    stated = [_term(found, term) for term, _ in after.grew[:2]]
    reason = f"{joined(stated)} grow{'s' if len(stated) == 1 else ''}" if stated else "no single term grows"
    if "bubble" in dict(after.grew) and before.found.waves != after.found.waves:
        reason += f"; micro-batches of a replica fall from {_waves(before)} to {_waves(after)} × pp"
    return f"Bends after {before.found.text}: {reason}."


def _waves(row: ScaledSize) -> str:
    waves = row.found.waves
    return significant(waves) if not waves.is_integer() else f"{waves:.0f}"


def scale_json(found: Scaled) -> dict[str, Any]:
    """All sizes as plain values."""
    asked, scaling = found.asked, found.scaling
    held, conflicts = asked.held(scaling.varied) if found.best else ({}, ())
    return {
        **head("costmodel/scale/v2"),
        **subject_fields(asked, scaling.varied),
        "size": scaling.name,
        "kind": "weak" if found.weak else "strong",
        "bends_after": None if found.bend is None else found.bend[0].found.size,
        "why": bend(found) if scaling.time else None,
        "cautions": words_of(asked.case.kind).cautions(found),
        "complete": not found.stopped,
        "sizes": [_row(found, row) for row in found.rows],
        "held": dict(held),
        "notes": [
            *({"code": "N024", "text": sentence} for sentence in conflicts),
            *notes(row.found.point.remarked for row in found.rows),
        ],
    }


def _row(found: Scaled, row: ScaledSize) -> dict[str, Any]:
    point = row.found.point
    return {
        **trial_fields(found.asked, point, known_results(found.asked), found.scaling.varied),
        **({} if point.kept is None else point.kept.keys),
        found.scaling.name: known(row.found.size),
        "efficiency": known(row.efficiency),
        "time_to_loss": known(row.to_loss),
        "grew": " ".join(term for term, _ in row.grew),
        **words_of(found.asked.case.kind).more(row),
    }
