"""The answer of `solve`: the values of a key that reach a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.default_values import SAFE
from costmodel.documents.schemas.results import is_money, machine_name
from costmodel.estimate.answer_facts import row_facts
from costmodel.explore.search.rank import Target
from costmodel.explore.vary.solve import ExplainedTrial, ReachableRange, SolveResult
from costmodel.explore.workload_interface import Trial, Workload
from costmodel.ground.counts import number_of
from costmodel.ground.errors import Fault
from costmodel.ground.units import percent
from costmodel.report.data_formats.answer_fields import finite
from costmodel.report.document import AnswerDocument, Column, Section, Table, Verdict
from costmodel.report.terminal.formatting import ENDS, or_list, range_beside, readable
from costmodel.report.terminal.head import case_title, command, price_fields, price_lines, price_varies, with_facts
from costmodel.report.terminal.layout import BAD, DIM, HEAD, WARN, Abridged, Line, schema_head, shell_line, styled
from costmodel.report.trials import (
    held_fields,
    result_cells,
    result_columns,
    result_heads,
    result_words,
    short_path,
    trial_settings,
    trial_verdict,
    with_bands,
)
from costmodel.report.workload_words import fixed_key_lines, subject_fields, varied_head, words_of

_LONG_LINE = 100  # letters of a line from which a short answer counts the values
_TRIED_DIGITS = range(3, 7)  # of a result, as many as show that it is not its bound


def solve_document(found: SolveResult) -> AnswerDocument:
    """The values that reach the target; if none does, the nearest value."""
    goal, asked = found.target, found.asked
    bound = words_of(asked.case.kind).result(goal.column, goal.bound)
    wanted = f"{goal.column} {'≥' if goal.at_least else '≤'} {bound}"
    about: list[Line] = [*varied_head(asked, [found.path], priced=is_money(goal.column)), styled(wanted, HEAD)]
    about += fixed_key_lines(asked, [found.path]) if found.best else []
    if found.stopped:
        about.append(styled(f"Stopped after {number_of(found.evaluated, 'value')}.", BAD))
    answer, last = _answer_lines(found), list[Line]()
    if found.answer is not None:
        settings = {found.path: readable(found.answer).replace(",", "")}
        verb = "search" if found.best else "estimate"
        last = [shell_line("Next:", command(asked.case, verb, settings=settings))]
    words = next((line.plain.strip().rstrip(".") for line in answer if isinstance(line, Text)), "Nothing was tried")
    words = f"To have {wanted}: {words}" if found.reaches else words
    sections = [Section("reached", wanted, ahead=answer[:1], beneath=answer[1:], apart=False), *_ends_section(found)]
    verdict: Verdict = "bad" if not found.reaches else "good" if found.is_safe else "warn"
    return AnswerDocument(asked.case, case_title(asked.case), about, f"{words}.", verdict, sections, closing=last)


def _answer_lines(found: SolveResult) -> list[Line]:
    """Lines on the values that reach the target, the results there, and how costmodel searched."""
    goal, asked = found.target, found.asked
    say, lines = words_of(asked.case.kind).result, list[Line]()
    now = f" (now {readable(found.now.text)})" if found.now is not None else ""
    first, last = map(readable, found.tried)
    some = found.how == "scan" and not found.every
    if found.reaches:
        lines.append(_reached_values_line(found, f"{', of the values tried' if some else ''}{now}"))
        lines += safety_lines(found, lambda each: _ranges_words(each.reaches), asked.chance_event)
        lines += _lines_at_answer(found)
    elif found.evaluated:
        values = f"of the values tried of {found.path}" if some else f"value of {found.path}"
        none = f"{'None' if some else 'No'} {values} from {first} to {last} reaches it"
        lines.append(styled(f"  {none}{chance_words(goal)}{now}.", BAD))
        if found.nearest is not None:
            text, point = found.nearest
            lines.append(styled(f"  nearest   {say(goal.column, goal.value(point))} at {readable(text)}"))
        lines += trend_lines(found.leads_past)
        lines += _reason_lines(found)
    own = price_varies([found.path]) and found.path != "assume.price"
    if is_money(goal.column) and own and found.price is not None:
        lines += price_lines(found.price, "  ")
    if found.evaluated:
        tried = f"{number_of(found.evaluated, 'value')} tried from {first} to {last}"
        tried += f", {found.invalid:,} of them without a valid plan" if found.invalid else ""
        step = f" over multiples of {found.step:,.0f}" if found.step > 1 else ""
        lines.append(styled(f"  by {found.how}{step}, {tried}", DIM))
        lines += _invalid_value_lines(found.faulty)
    if found.answer is not None and found.best and found.plan is not None:
        lines.append(styled(f"  at {readable(found.answer)} the best plan is {found.plan.words}"))
    return lines


def _ends_section(found: SolveResult) -> list[Section]:
    """The section of a page with the results at both ends of each range of values that reaches the target."""
    trials = list({trial.written[0]: trial for pair in found.ends for trial in pair if trial.costs}.values())
    if not trials:
        return []
    asked, names = found.asked, with_bands(dict.fromkeys((found.target.column, *found.asked.shown_results)))
    columns = [Column(short_path(found.path)), *result_columns(asked, names), Column("verdict", "l")]
    rows = [
        [readable(each.written[0]), *result_cells(asked, each, names), trial_verdict(asked, each)] for each in trials
    ]
    settings = [trial_settings(each, searched=found.best) for each in trials]
    return [Section("ends", "At the ends", table=Table(columns, rows, settings=settings), face="page")]


def _lines_at_answer(found: SolveResult) -> list[Line]:
    """Lines with the results at the answer, and why values beyond it fail."""
    lines: list[Line] = []
    ends = {trial.written[0]: trial for pair in found.ends for trial in pair}
    trial = ends.get(found.answer or "")
    if trial is not None and trial.costs:
        heads = zip(result_heads(found.asked, found.asked.shown_results), found.asked.shown_results, strict=True)
        named = [f"{head} {_result_with_band(found.asked, trial, name)}" for head, name in heads]
        lines.append(styled(f"  at {readable(trial.written[0])}: {' · '.join(named)}"))
    if found.beyond is not None:
        lines.append(styled(f"  beyond it {_reason_against(found, found.beyond)}", DIM))
    return lines


def _result_with_band(asked: Workload, trial: Trial, name: str) -> str:
    """A result as text, followed by its P10–P90 band if it has one."""
    say, ends = words_of(asked.case.kind).result, [trial.costs.get(f"{name}_{end}", math.nan) for end in ENDS]
    text = result_words(asked, trial, name)
    if any(map(math.isnan, ends)):
        return text
    return f"{text} ({range_beside(partial(say, name), trial.costs.get(name, math.nan), *ends)})"


def _shortened_value(text: str) -> str:
    """A tried value as text with four digits."""
    number, _, unit = text.partition(" ")
    try:
        short = f"{float(number):.4g}"
    except ValueError:
        return readable(text)
    return readable(f"{short} {unit}".strip()) if len(short) < len(number) else readable(text)


def _reason_lines(found: SolveResult) -> list[Line]:
    """Lines on the reasons against tried values, each with a count and an example."""
    lines: list[Line] = []
    for code, (count, example) in found.against.items():
        if example.point.fault is not None:
            continue
        reasons = found.asked.reasons
        named = f"{code} {reasons[code].title}" if code else "misses the target"
        at = f"at {_shortened_value(example.text)}: {_reason_against(found, example, code)}"
        lines.append(styled(f"    {named}: {count:,} of {number_of(found.evaluated, 'value')}; {at}", DIM))
    return lines


def _reason_against(found: SolveResult, example: ExplainedTrial, code: str = "") -> str:
    """The reason against a tried value, with its numbers."""
    point, words, goal = example.point, words_of(found.asked.case.kind), found.target
    if point.fault is not None or example.answer is None:
        return "" if point.fault is None else point.fault.sentence
    code = code or next(iter(point.codes), "")
    if code:
        stated = words.reason(example.answer, code)
        return stated if example is not found.beyond else f"{code} {stated}"
    column, bound = goal.column, words.result(goal.column, goal.bound)
    value = goal.value(point)
    texts = ((each, [words.result_to(column, side, each) for side in (value, goal.bound)]) for each in _TRIED_DIGITS)
    digits = next((each for each, (one, other) in texts if one != other), 3)
    stated = words.result_to(column, value, digits)
    side = ("at least " if goal.at_least else "at most ") if chance_words(goal) else ""
    side = "just past " if stated == bound else side
    return f"{column} is {side}{stated}{chance_words(goal)}"


def trend_lines(leads_past: str | None) -> list[Line]:
    """A line on whether values beyond the tried range come nearer to the target; empty for a list of values."""
    if leads_past is None:
        return []
    if leads_past:
        return [styled(f"  values past {readable(leads_past)} come nearer: state a range that includes them", WARN)]
    return [styled("  values outside this range do not reach it either, by the trend", DIM)]


def chance_words(goal: Target) -> str:
    """The chance with which the target must be reached, in words; empty if the expected value decides."""
    return "" if goal.share is None or not goal.has_band else f" with a chance of {percent(goal.share, 2)}"


def safety_lines(found: SolveResult, values: Callable[[SolveResult], str], aim: str) -> Iterator[Line]:
    """Lines on whether the target is reached with the requested chance, and what reaches it as predicted.

    values: all values that reach the target, in words. aim: what the chance of plans refers to
    """
    column = found.target.column
    if found.safe is None:
        return
    aim = f"to reach it and {aim}" if found.target.has_band else aim
    chance = f"with a chance of {percent(found.safe, 2)}"
    if not found.is_safe:
        sure = f"no value tried has {chance.removeprefix('with ')} {aim}"
        yield styled(f"  on average only: {sure}", WARN)
    elif found.expected is None or values(found.expected) == values(found):
        yield styled(f"  {chance} {aim}", DIM)
    else:
        edges = [readable(each.answer or "") for each in (found.expected, found)]
        first, own = edges if edges[0] != edges[1] else map(values, (found.expected, found))
        both = f"{first} on average; {own} {chance} {aim}"
        yield styled(f"  {both} (--safe off gives {first})", DIM)
    if not found.target.has_band and not column.endswith(("_low", "_high")):
        yield styled(f"  {column} has no range: its average prediction counts", DIM)
    elif found.is_safe and found.target.share is None and found.target.has_band:
        yield styled(f"  {column} is itself counted with that chance", DIM)
    elif found.target.share not in (None, SAFE):
        yield styled(f"  that chance of {column} by the spread of its band from 10 to 90 %", DIM)


def _invalid_value_lines(faults: Mapping[str, Fault]) -> Iterator[Line]:
    """Lines on invalid values: the first for each kind of fault, and how many more."""
    for code in dict.fromkeys(fault.code for fault in faults.values()):
        first, *others = (text for text, fault in faults.items() if fault.code == code)
        rest = f" and {len(others):,} more" if others else ""
        yield styled(f"  {readable(first)}{rest} cannot be: {code} {faults[first].sentence}", DIM)


def _reached_values_line(found: SolveResult, tail: str) -> Line:
    """A line with the values that reach the target; short with the answer and the number of other ranges."""
    whole, others = f"  {found.path} {_ranges_words(found.reaches)}{tail}", len(found.reaches) - 1
    if len(whole) <= _LONG_LINE:
        return styled(whole)
    last = readable(found.reaches[-1].high)
    short = f"  {found.path} = {readable(found.answer or '')}, and {others} more values or ranges up to {last}{tail}"
    return Abridged(whole, short=short, added="all values")


def _ranges_words(reaches: Sequence[ReachableRange]) -> str:
    """Ranges of values in one line; single values as a list."""
    single = [readable(reach.low) for reach in reaches if reach.low == reach.high]
    others = [_range_words(reach) for reach in reaches if reach.low != reach.high]
    return ", or ".join([*others, *([f"= {or_list(single)}"] if single else [])])


def _range_words(reach: ReachableRange) -> str:
    """A range of values in words, such as `≥ 8` or `from 2 to 16`."""
    low, high = readable(reach.low), readable(reach.high)
    if reach.open_low and reach.open_high:
        return f"anywhere from {low} to {high}"
    if reach.open_high:
        return f"≥ {low}"
    return f"≤ {high}" if reach.open_low else f"from {low} to {high}"


def safety_fields(found: SolveResult) -> dict[str, Any] | None:
    """The preferred chance, whether the answer has it, and the answer without it, as plain values."""
    if found.safe is None:
        return None
    expected = [] if found.expected is None else found.expected.reaches
    other = [{"low": reach.low, "high": reach.high} for reach in expected]
    return {"chance": found.safe, "met": found.is_safe, "without": other}


def solve_json(found: SolveResult) -> dict[str, Any]:
    """The solution as plain values."""
    nearest, asked = found.nearest, found.asked
    ends: Sequence[tuple[Trial | None, Trial | None]] = found.ends or [(None, None)] * len(found.reaches)
    return {
        **schema_head("costmodel/solution/v2"),
        **subject_fields(asked, [found.path]),
        "path": found.path,
        "target": {
            "name": machine_name(found.target.column),
            "at_least": found.target.at_least,
            "bound": finite(found.target.bound),
        },
        "reached": bool(found.reaches),
        "safe": safety_fields(found),
        "now": found.now.text if found.now else None,
        "answer": found.answer,
        **({} if found.price is None else price_fields(found.price)),
        "plan": dict(found.plan.keys) if found.best and found.plan is not None else None,
        "ranges": with_facts(
            row_facts(asked.facts, [found.path]),
            (
                {
                    "path": found.path,
                    **asdict(reach),
                    "at_low": _at_end(asked, low),
                    "at_high": _at_end(asked, high),
                }
                for reach, (low, high) in zip(found.reaches, ends, strict=True)
            ),
        ),
        "nearest": {"value": nearest[0], "reaches": finite(found.target.value(nearest[1]))} if nearest else None,
        "tried": {"from": found.tried[0], "to": found.tried[1]},
        "approaching": None if found.leads_past is None else bool(found.leads_past),
        "how": found.how,
        "every": found.every,
        "step": found.step,
        "invalid": found.invalid,
        "against": [{"code": code or None, "values": count} for code, (count, _) in found.against.items()],
        "faults": [{"value": text, "code": it.code, "text": it.sentence} for text, it in found.faulty.items()],
        "complete": not found.stopped,
        "evaluated": found.evaluated,
        **held_fields(asked, [found.path], (), best=found.best),
    }


def _at_end(asked: Workload, trial: Trial | None) -> dict[str, Any] | None:
    """The value at one end of a range, with its plan and all its results."""
    if trial is None or trial.kept is None:
        return None
    results = {machine_name(name): finite(value) for name, value in trial.costs.items() if name in asked.columns}
    return {**trial.kept.keys, **results, "works": trial.works, "codes": list(trial.codes)}
