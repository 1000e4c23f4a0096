"""The answer of `scale`: results by cluster size or by request rate, and where efficiency falls."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from costmodel.documents.schemas.results import is_money
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.vary.scale import ScaledSize, ScalingResult
from costmodel.ground.counts import number_of
from costmodel.ground.units import percent, significant
from costmodel.report.data_formats.answer_fields import finite
from costmodel.report.document import AnswerDocument, Cell, Column, Draw, Section, Table, TraceWriter, Value
from costmodel.report.terminal.formatting import and_list
from costmodel.report.terminal.head import assumed_lines_of_all, command, subject_words
from costmodel.report.terminal.layout import BAD, Line, bar, schema_head, styled
from costmodel.report.trials import (
    best_chance,
    held_fields,
    known_results,
    missed_lines,
    next_lines,
    remark_codes,
    remark_lines,
    result_cells,
    result_columns,
    result_note_lines,
    trial_fields,
    trial_settings,
    trial_verdict,
    with_bands,
)
from costmodel.report.workload_words import fixed_key_lines, subject_fields, varied_head, words_of

_BAR = 10


def scale_document(found: ScalingResult) -> AnswerDocument:
    """A table with a row for each size, and a sentence on where and why efficiency falls."""
    asked, scaling, words = found.asked, found.scaling, words_of(found.asked.case.kind)
    points = [row.found.point for row in found.rows]
    about: list[Line] = [*varied_head(asked, scaling.varied, priced=any(map(is_money, scaling.shown_results)))]
    about += [styled(scaling.words)] if scaling.words else []
    about += fixed_key_lines(asked, scaling.varied) if found.best else words.unsized(found)
    about += [styled("Stopped before the last size.", BAD)] if found.stopped else []
    remarks: list[Line] = [*remark_lines(points, "N003")]
    remarks += assumed_lines_of_all(row.found.assumed for row in found.rows)
    bends = [styled(bend_sentence(found))] if scaling.time_result or not found.known else []
    sized = words.sized(found)
    verdict = best_chance(asked, points)
    return AnswerDocument(
        asked.case,
        subject_words(asked.facts, scaling.varied),
        about,
        _conclusion_sentence(found),
        "warn" if verdict != "bad" and found.bend else verdict,
        [sizes_section(found), *([Section("needs", "What it takes", beneath=sized, face="page")] if sized else [])],
        remarks,
        remark_codes(points, "N003"),
        [*bends, *sized, *_next_lines(found)],
    )


def _next_lines(found: ScalingResult) -> list[Line]:
    """The command for the size before efficiency falls, or for the largest that works: for sizes, a search there."""
    works = [row.found.point for row in found.rows if row.found.point.works]
    before = found.bend[0].found.point if found.bend is not None else None
    point = before if before in works else next(reversed(works), None)
    return next_lines(found.asked, point, searched=found.best or bool(found.scaling.time_result))


def sizes_section(found: ScalingResult) -> Section:
    """The section with the table of sizes; it has efficiencies if throughputs can be compared."""
    asked, scaling, points = found.asked, found.scaling, [row.found.point for row in found.rows]
    shown, compared = with_bands(scaling.shown_results), bool(scaling.time_result)
    to_loss = any(not math.isnan(row.to_loss) for row in found.rows)
    columns = [Column(scaling.name.rpartition(".")[2]), *result_columns(asked, shown)]
    if compared:
        columns += [
            Column("", "l", drop=1, face="terminal"),
            Column("efficiency"),
            Column("terms that grow (share)", "l"),
        ]
    columns += [
        *([Column("best plan", "l")] if found.best else []),
        *([Column("to the loss")] if to_loss else []),
    ]
    rows = []
    for row in found.rows:
        point = row.found.point
        cells: list[Cell] = [row.found.text, *result_cells(asked, point, shown)]
        if compared:
            cells += [bar(row.efficiency, _BAR) if row.efficiency >= 0 else "", _efficiency_cell(found, row)]
            cells.append(", ".join(f"{_term_words(found, term)} {share * 100:.1f} %" for term, share in row.grew))
        cells += [point.kept.words if point.kept is not None and point.costs else ""] if found.best else []
        cells += [("" if math.isnan(row.to_loss) else percent(row.to_loss))] if to_loss else []
        rows.append([*cells, trial_verdict(asked, point)])
    settings = [trial_settings(point, searched=found.best) for point in points]
    how = f"{scaling.words[0].upper()}{scaling.words[1:]}. " if scaling.words and compared else ""
    return Section(
        "scale",
        "Scaling" if compared else "Capacity by rate",
        f"{how}{bend_sentence(found)}" if compared else "The fewest replicas that meet every limit at each rate.",
        [partial(_draw_sizes, found)],
        table=Table([*columns, Column("verdict", "l")], rows, settings=settings, sortable=True),
        beneath=[*missed_lines(asked, points), *result_note_lines(points, scaling.shown_results)],
        asked=True,
    )


def _draw_sizes(found: ScalingResult) -> Draw:
    """The plot of a result by size."""
    from costmodel.report.page.question_figures import scale_figure

    return scale_figure(found)


def _efficiency_cell(found: ScalingResult, row: ScaledSize) -> Cell:
    """A cell with the throughput per accelerator over that of the smallest size with an answer."""
    if not row.efficiency >= 0:
        return "—"
    text = percent(row.efficiency)
    return Value(text, row.efficiency, "efficiency", opens=partial(_efficiency_trace, found, row, text))


def _efficiency_trace(found: ScalingResult, row: ScaledSize, text: str, traces: TraceWriter) -> int:
    """The trace of an efficiency, as a quotient of two throughputs."""
    leaves = []
    for other in (row, found.known[0]):
        settings = trial_settings(other.found.point, searched=found.best)
        line = command(found.asked.case, "explain", found.scaling.throughput_result, settings=settings)
        each = (
            f"{significant(found.scaling.throughput_per_accelerator(other.found.point.costs, other.found.size), 4)} /s"
        )
        leaves.append(traces.add("for each accelerator", each, f"{line} prints how it was made"))
    return traces.add("efficiency", text, ("= ", " / ", ""), leaves)


def _conclusion_sentence(found: ScalingResult) -> str:
    """A sentence for a page on how far the workload scales."""
    if not found.scaling.time_result:
        works = [row for row in found.rows if row.found.point.works]
        if not works:
            return "No rate meets every limit."
        gpus, limited = works[-1].found.point.costs["gpus"], any(stated_limits(found.asked.case.scenario.limits))
        does = "meet every limit" if limited else "answer all requests"
        return f"{number_of(gpus, 'GPU')} {does} at {works[-1].found.text}."
    compared = [row for row in found.known if row.efficiency >= 0]
    if found.bend is not None or len(compared) < 2:
        return bend_sentence(found)
    first, last = (row.found.text for row in (compared[0], compared[-1]))
    return f"From {first} to {last} accelerators every doubling keeps 95 % or more of the speed of each."


def _term_words(found: ScalingResult, term: str) -> str:
    """The name of a term in words."""
    return words_of(found.asked.case.kind).terms.get(term, term)


def bend_sentence(found: ScalingResult) -> str:
    """A sentence on the size from which a doubling keeps under 95 % of the throughput per GPU, and on the cause."""
    compared = [row for row in found.known if row.efficiency >= 0]
    if len(compared) < 2:
        return "With one size there is no trend." if compared else "No size has an answer."
    if found.bend is None:
        return f"No bend up to {compared[-1].found.text}: every doubling keeps 95 % or more."
    before, after = found.bend
    stated = [_term_words(found, term) for term, _ in after.grew[:2]]
    reason = f"{and_list(stated)} grow{'s' if len(stated) == 1 else ''}" if stated else "no single term grows"
    if "bubble" in dict(after.grew) and before.found.waves != after.found.waves:
        reason += f"; micro-batches per replica fall from {_waves_text(before)} × pp to {_waves_text(after)} × pp"
    return f"Efficiency drops after {before.found.text} GPUs: {reason}."


def _waves_text(row: ScaledSize) -> str:
    """The micro-batches of a replica over its pipeline stages, as text."""
    waves = row.found.waves
    return significant(waves) if not waves.is_integer() else f"{waves:.0f}"


def scale_json(found: ScalingResult) -> dict[str, Any]:
    """All sizes as plain values."""
    asked, scaling = found.asked, found.scaling
    return {
        **schema_head("costmodel/scale/v2"),
        **subject_fields(asked, scaling.varied),
        "size": scaling.name,
        "kind": "weak" if found.weak else "strong",
        "bends_after": None if found.bend is None else found.bend[0].found.size,
        "why": bend_sentence(found) if scaling.time_result else None,
        "cautions": words_of(asked.case.kind).cautions(found),
        "complete": not found.stopped,
        "sizes": [_size_fields(found, row) for row in found.rows],
        **held_fields(asked, scaling.varied, [row.found.point.remarked for row in found.rows], best=found.best),
    }


def _size_fields(found: ScalingResult, row: ScaledSize) -> dict[str, Any]:
    """One size as plain values: its results, plan and efficiency."""
    point = row.found.point
    return {
        **trial_fields(found.asked, point, known_results(found.asked), found.scaling.varied),
        **({} if point.kept is None else point.kept.keys),
        found.scaling.name: finite(row.found.size),
        "efficiency": finite(row.efficiency),
        "time_to_loss": finite(row.to_loss),
        "grew": " ".join(term for term, _ in row.grew),
        **words_of(found.asked.case.kind).more(row),
    }
