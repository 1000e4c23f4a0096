"""The answer of `diff`: two answers side by side, with changed inputs and changed results."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.results import COLUMNS, is_money, machine_name
from costmodel.estimate.answer_facts import row_facts
from costmodel.explore.compare.compare import (
    MEMORY,
    TRAFFIC,
    ChangedInput,
    Difference,
    MovedFigure,
    Side,
    name_without_unit,
    unit_of,
)
from costmodel.ground.counts import number_of
from costmodel.ground.units import gib, percent, show, significant
from costmodel.report.data_formats.answer_fields import flag_fields
from costmodel.report.document import AnswerDocument, Column, Section, Table, Verdict, table_of, with_explain_command
from costmodel.report.terminal.formatting import ENDS, TIME_TERMS, result
from costmodel.report.terminal.head import (
    command,
    fact_fields,
    flag_lines,
    head_lines,
    job_lines,
    left_out_words,
    with_facts,
)
from costmodel.report.terminal.layout import BAD, DIM, HEAD, WARN, Abridged, Detail, Line, schema_head, styled
from costmodel.report.trials import range_figures
from costmodel.report.workload_words import money_words, words_of

_TITLES = {
    "step_time": "step time",
    "memory_peak": "memory",
    "mfu": "MFU",
    "tokens_per_s_per_gpu": "tokens per GPU",
    "cost_per_mtoken": "cost per Mtoken",
}
_RUN_TITLES = {
    "goodput": "goodput",
    "run_time": "run time",
    "run_cost": "cost of the run",
    "energy": "energy",
    "emissions": "emissions",
}
_TERMS = {key: title for title, key in TIME_TERMS}
_MONEY = ("run_cost", "run_time", "rent_per_month")  # the first two with bands
_INPUTS_SHOWN, _BRIEF_INPUTS = 24, 5
_BRIEF, _BRIEF_TERMS = 12, 3  # results, and terms of each, in a short answer
_LEAST_CHANGE, _SAME_PEAK = 1e-4, 0.01
SAME = "same"


def diff_document(found: Difference, name: str) -> AnswerDocument:
    """The comparison of two answers: changed inputs, changed results, and a conclusion."""
    about: list[Line] = [styled(name, HEAD), *_unfit_lines(found), *_head_lines(found), *_flag_lines(found)]
    about += [styled("Nothing differs.")] if found.same else []
    refused = [*_refusal_lines(found)]
    about += [] if refused else [*_money_line(found)]
    sections = [] if found.same else [inputs_section(found.inputs, [*_prices_left_out(found), *refused])]
    sections += [] if found.same or refused else [*_moved_sections(found)]
    adds_up = not found.same and not refused and words_of(found.before.kind).adds_up
    words = "Nothing differs." if found.same else conclusion(found)
    words = refused[0].plain.strip().removeprefix("✗ ") + "." if refused else words
    fails = bool(refused or found.after.overload or [*_unfit_lines(found)])
    verdict: Verdict = "bad" if fails else "plain"
    last = [styled(words)] if adds_up else []
    return AnswerDocument(None, name, about, words, verdict, sections, closing=last)


def _money_line(found: Difference) -> Iterator[Line]:
    """A line on the cost and the time of both jobs, or on the rents of both services; none if they are equal."""
    sides = [(found.before, "before"), (found.after, "after")]
    banded = [*_MONEY, *(f"{name}_{end}" for name in _MONEY[:2] for end in ENDS)]
    whole, few = (
        [money_words({name: _figure_of_side(side, name) for name in names}) for side, _ in sides]
        for names in (banded, [*_MONEY, *(name for name in banded if is_money(name))])
    )
    named = [side.name if found.before.name != found.after.name else when for side, when in sides]
    bare = any("run_time_s" in side.figures and "goodput" not in side.figures for side, _ in sides)
    note = " (without failures; --set run={} counts them)" if bare else ""
    if all(whole) and whole[0] != whole[1]:
        long, short = ("; ".join(map(": ".join, zip(named, each, strict=True))) for each in (whole, few))
        yield Abridged(f"{long}{note}", short=short, added="ranges of time")


def _unfit_lines(found: Difference) -> Iterator[Text]:
    """A line for each side whose plan does not fit in memory."""
    for side, name in ((found.before, "A"), (found.after, "B")):
        share = side.figures.get("memory_share", 0.0)
        if share > 1:
            peak = f"{gib(side.figures['memory_peak_bytes'])} GiB, {percent(share)} of the memory"
            yield styled(f"  ✗ M001: the plan of {name} does not fit: {peak}", BAD)


def _refusal_lines(found: Difference) -> Iterator[Text]:
    """A line for each side that has no results because its plan is invalid."""
    for side, other in ((found.before, "before"), (found.after, "after")):
        if side.refused:
            why = "is invalid" if "M001" not in side.refused else "does not fit, so its figures mean nothing"
            yield styled(f"  ✗ {', '.join(side.refused)}: {other}, the plan {why}", BAD)


def _moved_sections(found: Difference) -> list[Section]:
    """Sections with the changed results and their terms or bands, each figure linked to its explanation."""
    sections = [
        _with_explain_commands(found, section)
        for section in change_sections(found.before.kind, found.figures, [*_overload_lines(found), *_peak_line(found)])
    ]
    sides = [
        (name, partial(_figure_of_side, side)) for name, side in (("before", found.before), ("after", found.after))
    ]
    pictures = range_figures(found.before.kind, "moved", sides)
    return [*sections, *([Section("pictures", "Time and money", figures=pictures, face="page")] if pictures else [])]


def _figure_of_side(side: Side, name: str) -> float:
    """A result of one side; NaN if it does not have it."""
    return float(side.figures.get(machine_name(name), math.nan))


def _with_explain_commands(found: Difference, section: Section) -> Section:
    """The section with each figure linked to the `explain` command of its side."""
    table = table_of(section)
    if table is None:
        return section
    named = {_result_title(name): name for name in COLUMNS[found.before.kind]}
    heads = [column.head for column in table.columns]
    places = [(heads.index("before"), found.before, "before"), (heads.index("after"), found.after, "after")]
    moves = {name_without_unit(move.name): move for move in found.figures}
    rows = []
    for row in table.rows:
        cells, name = [*row], named.get(str(row[0]).strip(), "")
        for place, side, when in places if name in moves else ():
            if side.case is not None:
                line = command(side.case, "explain", name)
                cells[place] = with_explain_command(str(row[place]), getattr(moves[name], when), name, line)
        rows.append(cells)
    return replace(section, table=replace(table, rows=rows))


def _result_title(name: str) -> str:
    """The row title of a result."""
    return {**_TITLES, **_RUN_TITLES, **_TERMS}.get(name, name)


def change_sections(
    kind: str, figures: Sequence[MovedFigure], beneath: Sequence[Line] = (), *, apart: bool = True
) -> list[Section]:
    """Sections with the changed results: with their terms if these add up to them, else with their bands."""
    if words_of(kind).adds_up:
        return term_sections(figures, beneath, apart=apart)
    columns = [Column("result", "k"), Column("before"), Column("P10 – P90 before", drop=1), Column("after"),
               Column("P10 – P90 after", drop=2), Column("change"), Column("", "k")]  # fmt: skip
    rows = [*_result_rows(kind, figures)]
    table = Table(columns, rows, brief=_BRIEF, rest="result")
    return [Section("moved", "What moved", table=table if rows else None, beneath=beneath, apart=apart)]


def _result_rows(kind: str, figures: Sequence[MovedFigure]) -> Iterator[tuple[str, ...]]:
    """Table rows of the results that changed, in the order of their columns."""
    words, named = words_of(kind), {name_without_unit(move.name): move for move in figures}
    for name, column in COLUMNS[kind].items():
        move = named.get(name)
        if move is None or move.before is None or move.after is None:
            continue
        if name.endswith(("_low", "_high")) or abs(move.change) < _LEAST_CHANGE:
            continue
        change = change_words(move.change) if math.isfinite(move.before) and math.isfinite(move.after) else ""
        better = (move.change > 0) == (column.better == "higher")
        mark = "" if column.better == "neither" or change == SAME else "better" if better else "worse"
        before, after = (_changed_band(named, name, side) for side in ("before", "after"))
        values = words.result(name, move.before), words.band(before, name), words.result(name, move.after)
        yield name, *values, words.band(after, name), change, mark


def _changed_band(named: Mapping[str, MovedFigure], name: str, side: str) -> dict[str, float]:
    """A result and the ends of its P10–P90 band on one side; only ends that changed."""
    known = {key: getattr(named[key], side) for key in (name, *(f"{name}_{end}" for end in ENDS)) if key in named}
    return {key: math.nan if value is None else value for key, value in known.items()}


def _overload_lines(found: Difference) -> Iterator[Line]:
    """A line for each side whose load exceeds its capacity, with the highest rate that it can serve."""
    for when, side in (("before", found.before), ("after", found.after)):
        if side.overload:
            most = words_of(side.kind).result("saturation_per_s", side.figures[machine_name("saturation_per_s")])
            words = f"{when}, more arrives than is answered; its figures are at {most}, the most that is"
            yield styled(f"  ✗ {' '.join(side.overload)}: {words}", BAD)


def _peak_line(found: Difference) -> Iterator[Line]:
    """A line on the peak FLOP/s behind MFU, if both sides have different peaks, such as bf16 and fp8."""
    rates = [(_figure_of_side(side, "flop_rate"), _figure_of_side(side, "mfu")) for side in (found.before, found.after)]
    one, other = (rate / share if share else math.nan for rate, share in rates)
    if abs(other / one - 1) > _SAME_PEAK:
        yield styled(f"  MFU is a share of {show(other, 'FLOP/s')}; before, of {show(one, 'FLOP/s')}", DIM)


def _head_lines(found: Difference) -> Iterator[Line]:
    """The head lines of both sides, equal ones only once."""
    priced = any(is_money(name_without_unit(move.name)) for move in found.figures)
    sides = [side.facts for side in (found.before, found.after) if side.facts is not None]
    heads = [head_lines(facts, priced=priced) for facts in sides]
    if len(heads) == 2 and heads[0] == heads[1]:
        yield from heads[0]
        return
    for pair in itertools.zip_longest(*heads):
        same = len(pair) > 1 and pair[0] == pair[1]
        yield from (_marked(mark, line) for mark, line in zip(" " if same else "−+", pair, strict=False) if line)


def _marked(mark: str, line: Text) -> Text:
    """A line of one side, or of both without a mark."""
    if isinstance(line, Abridged):
        return Abridged(f"  {mark} {line.plain}", DIM, short=line.short and f"  {mark} {line.short}", added=line.added)
    return styled(f"  {mark} {line.plain}", DIM)


def _flag_lines(found: Difference) -> Iterator[Line]:
    """Lines on the flags of both sides and their defaults, marked − or + if only one side has them."""
    one, other = ([*job_lines(side.asked.assumed), *flag_lines(side.asked)] for side in (found.before, found.after))
    for mark, lines, beside in (("−", one, other), ("+", other, one)):
        for line in lines:
            if line not in beside or mark == "−":
                shown = styled(f"  {' ' if line in beside else mark} {line.plain}", str(line.style))
                yield Detail([shown], "why each default", spare=0 if line in beside else 3)


def inputs_section(changes: Sequence[ChangedInput], beneath: Sequence[Line] = ()) -> Section:
    """A section with changed, added and removed inputs, each with the place of the new value."""
    columns = [*(Column(head, "l") for head in ("", "path", "change")), Column("written", "l", drop=1)]
    rows = [
        (_change_sign(change), change.path, _values_words(change), _place_words(change))
        for change in changes[:_INPUTS_SHOWN]
    ]
    lines: list[Line] = [] if changes else [styled("  no input differs; the predictions themselves do", WARN)]
    if len(changes) > _INPUTS_SHOWN:
        lines.append(styled(f"  and {len(changes) - _INPUTS_SHOWN} more; --json has them all", DIM))
    table = Table(columns, rows, headed=False, brief=_BRIEF_INPUTS, rest="input") if rows else None
    return Section("inputs", "What was changed", table=table, beneath=[*lines, *beneath], apart=False)


def _prices_left_out(found: Difference) -> list[Line]:
    """Lines on prices that one side does not use because they are for another machine."""
    known = dict.fromkeys(map(left_out_words, (*found.before.left_out, *found.after.left_out)))
    return [styled(f"  {words}", WARN) for words in known]


def _change_sign(change: ChangedInput) -> str:
    """The mark of a changed input: + for new, − for removed, ~ for changed."""
    return "+" if change.before is None else "−" if change.after is None else "~"


def _values_words(change: ChangedInput) -> str:
    """The old and the new value of an input, as text."""
    return " → ".join(_shortened(text) for text in (change.before, change.after) if text is not None)


def _shortened(text: str) -> str:
    """A text cut to 40 letters."""
    return text if len(text) <= 40 else f"{text[:40]}…"


def _place_words(change: ChangedInput) -> str:
    """The file and line of an input; empty if it has none."""
    place = change.place
    return f"{place.file}:{place.line}" if place is not None and place.line else ""


def term_sections(moves: Sequence[MovedFigure], beneath: Sequence[Line] = (), *, apart: bool = True) -> list[Section]:
    """Sections with the changed results, each followed by its changed terms."""
    named = {name_without_unit(move.name): move for move in moves}
    moves = [move for move in moves if _is_notable(move, named)]
    rows, short, least = (list[Sequence[str]]() for _ in range(3))
    of_run = named.keys() & {"goodput", "energy"}  # results that only a scenario with run has
    for name, title in (_TITLES | (_RUN_TITLES if of_run else {})).items():
        if name in named:
            result_row = change_row(named[name], title, share=True)
            rows.append(result_row)
            if name != "tokens_per_s_per_gpu":
                short, least = [*short, result_row], [*least, result_row]
        beneath_it = list[Sequence[str]]()
        if name == "step_time":
            times = [move for move in moves if name_without_unit(move.name) in _TERMS]
            beneath_it = [*_term_rows([(move, _TERMS[name_without_unit(move.name)]) for move in times])]
        if name == "memory_peak":
            lines = [move for move in moves if move.name.startswith(MEMORY)]
            beneath_it = [*_term_rows([(move, name_without_unit(move.name).removeprefix(MEMORY)) for move in lines])]
        rows, short, least = [*rows, *beneath_it], [*short, *beneath_it[:_BRIEF_TERMS]], [*least, *beneath_it[:1]]
    columns = [Column("", "l"), *map(Column, ("before", "after", "change")), Column("", "l")]
    whole, few, fewest = (Table(columns, each, headed=False, rest="smaller changes") for each in (rows, short, least))
    few = replace(few, rest="row")
    made = [Section("moved", "What moved", table=whole, apart=apart, short=few, least=fewest)] if rows else []
    traffic = [move for move in moves if move.name.startswith(TRAFFIC)]
    if traffic:
        shown = [(move, name_without_unit(move.name).removeprefix(TRAFFIC).replace(".", " ")) for move in traffic]
        table, ahead = Table(columns, _term_rows(shown), headed=False), [styled("  communication", HEAD)]
        words = "communication"
        made.append(Section(words, "Communication", ahead=ahead, table=table, detail=words))
    return [*made, *([Section("further", "Further", beneath=beneath, apart=False)] if beneath else [])]


def _is_notable(move: MovedFigure, named: Mapping[str, MovedFigure]) -> bool:
    """Whether a term changed by more than 0.01 % of the result it belongs to."""
    whole = named.get("memory_peak" if unit_of(move.name) == "B" else "step_time")
    least = _LEAST_CHANGE * (whole.before or 0.0) if whole and not move.name.startswith(TRAFFIC) else 0.0
    return abs(signed_difference(move)) > least


def _term_rows(moves: Sequence[tuple[MovedFigure, str]]) -> list[tuple[str, str, str, str, str]]:
    """The table rows of a result's terms, the largest change first."""
    ordered = sorted(moves, key=lambda item: -abs(signed_difference(item[0])))
    return [change_row(move, f"  {title}", share=False) for move, title in ordered]


def change_row(move: MovedFigure, title: str, *, share: bool) -> tuple[str, str, str, str, str]:
    """The table row of a figure before and after; share: whether the change is shown in percent."""
    unit = unit_of(move.name)
    before, after = (result(name_without_unit(move.name), value, unit) for value in (move.before, move.after))
    worse = (move.after or 0.0) > (move.before or 0.0)
    mark = ("▼" if not worse else "▲") if share else ""
    if move.before is None or move.after is None:
        return title, before, after, "came" if move.before is None else "went", ""
    delta = move.after - move.before
    if not share:
        return title, before, after, _signed_change(move, delta), mark
    if unit == "1":
        return title, before, after, f"{delta * 100:+.1f} pt".replace("-", "−"), mark
    change = change_words(move.change)
    return title, before, after, change, "" if change == SAME else mark


def change_words(change: float) -> str:
    """The relative change of a figure; `same` if it rounds to zero, `new` if the figure was zero before.

    >>> change_words(-0.021), change_words(0.0004), change_words(math.inf)
    ('−2.1 %', 'same', 'new')
    """
    if math.isinf(change):
        return "new"
    words = f"{change * 100:+.1f} %"
    return SAME if words[1:] == "0.0 %" else words.replace("-", "−")


def signed_difference(move: MovedFigure) -> float:
    """The change of a figure from the first side to the second; a missing value counts as zero."""
    return (move.after or 0.0) - (move.before or 0.0)


def _signed_change(move: MovedFigure, delta: float) -> str:
    """The change of a figure as text with its sign and unit."""
    return f"{'+' if delta > 0 else '−'}{result(name_without_unit(move.name), abs(delta), unit_of(move.name))}"


def conclusion(found: Difference) -> str:
    """The conclusion in one line: speed, memory, fit, and time of the run."""
    before, after = found.before.figures, found.after.figures
    if not all("step_time_s" in side and "memory_peak_bytes" in side for side in (before, after)):
        return f"{number_of(len(found.figures), 'figure')} differ{'s' if len(found.figures) == 1 else ''}."
    ratio = before["step_time_s"] / after["step_time_s"]
    more = after["memory_peak_bytes"] - before["memory_peak_bytes"]
    unfit = "A does not fit. " if before.get("memory_share", 0.0) > 1 else ""
    speed = "As fast" if math.isclose(ratio, 1, rel_tol=1e-4) else _speed_words(ratio)
    memory = f"{gib(abs(more))} GiB {'more' if more > 0 else 'less'}" if abs(more) > 2**20 else "the same memory"
    return f"{unfit}{speed} for {memory}{_fit_change_words(before, after)}{_run_change_words(before, after)}."


def _run_change_words(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Words on the change of the whole run's length, if both sides have a run."""
    if not all("goodput" in side and side.get("run_time_s") for side in (before, after)):
        return ""
    change = after["run_time_s"] / before["run_time_s"] - 1
    if abs(change) < _LEAST_CHANGE:
        return "; the run is as long"
    return f"; the run is {significant(abs(change) * 100, 2)} % {'longer' if change > 0 else 'shorter'}"


def _fit_change_words(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Words on whether the plan now fits in memory, or no longer fits; empty if that did not change."""
    fits = [side.get("memory_share", 0.0) <= 1 for side in (before, after)]
    return "" if fits[0] == fits[1] else ", and fits now" if fits[1] else ", and does not fit any more"


def _speed_words(ratio: float) -> str:
    """A ratio of speeds in words: as a factor, or in percent if it is near 1."""
    times, word = (ratio, "faster") if ratio > 1 else (1 / ratio, "slower")
    near = times < 1.01  # judged
    return f"{significant((times - 1) * 100, 2)} % {word}" if near else f"{significant(ratio)} × as fast"


def diff_json(found: Difference) -> dict[str, Any]:
    """The comparison as plain values."""
    return {
        **schema_head("costmodel/diff/v2"),
        "workload": found.before.kind,
        "before": _side_fields(found.before),
        "after": _side_fields(found.after),
        "same": found.same,
        "inputs": inputs_json(found.inputs),
        "figures": with_facts(_side_facts(found), figures_json(found.figures)),
    }


def _side_facts(found: Difference) -> dict[str, Any]:
    """The names and the jobs of both sides as plain values, for every row."""
    return {
        f"{when}_{name}": value
        for when, side in (("before", found.before), ("after", found.after))
        for name, value in {"name": side.name, **({} if side.facts is None else row_facts(side.facts))}.items()
    }


def _side_fields(side: Side) -> dict[str, Any]:
    """One of the two compared answers as plain values."""
    facts = None if side.facts is None else fact_fields(side.facts)
    refused, overload = list(side.refused), list(side.overload)
    return {
        "name": side.name,
        "refused": refused,
        "overload": overload,
        "facts": facts,
        "flags": flag_fields(side.asked),
    }


def _finite_or_none(value: float | None) -> float | None:
    """The value; None if it is infinite or NaN."""
    return value if value is None or math.isfinite(value) else None


def inputs_json(changes: Sequence[ChangedInput]) -> list[dict[str, Any]]:
    """Changed inputs as plain values."""
    return [
        {
            "path": change.path,
            "before": change.before,
            "after": change.after,
            "place": str(change.place) if change.place else None,
        }
        for change in changes
    ]


def figures_json(moves: Sequence[MovedFigure]) -> list[dict[str, Any]]:
    """Moved figures as plain values."""
    return [
        {
            "name": move.name,
            "unit": unit_of(move.name),
            "before": _finite_or_none(move.before),
            "after": _finite_or_none(move.after),
            "change": move.change if math.isfinite(move.change) else None,
        }
        for move in moves
    ]
