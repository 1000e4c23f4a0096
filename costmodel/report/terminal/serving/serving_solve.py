"""Answers of solve about serving: the values that reach a target, or what speaks against those that were tried."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from costmodel.documents.schemas.results import machine_name
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.serving.reason_codes import REFUSALS
from costmodel.explore.safety import preferred_chance
from costmodel.explore.serving.solve_serving import SolvedServing
from costmodel.explore.serving.vary_serving import ServingTrial
from costmodel.ground.counts import number_of
from costmodel.report.machine.serving_json import number
from costmodel.report.terminal.serving.serving_formatting import (
    bound_words,
    chance_of,
    digits_apart,
    has_limits,
    layout_words,
    result,
    with_band,
)
from costmodel.report.terminal.serving.serving_reasons import reason
from costmodel.report.terminal.serving.serving_vary import row, subject
from costmodel.report.terminal.serving.vary_columns import HEADS
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.head import subject_fields, title
from costmodel.report.terminal.style.layout import Line, typed
from costmodel.report.terminal.style.next_command import command
from costmodel.report.terminal.style.theme import BAD, DIM, styled
from costmodel.report.terminal.vary.solve import chance_words, safety_lines, trend_lines

_MOST_REASONS = 4
_HEADS = {**HEADS, "ttft_p99": "first token p99"}  # beside which no column of the first token stands


def solve(found: SolvedServing) -> list[Line]:
    """The values that reach the target, what breaks beyond them, and what it is like there."""
    goal, path = found.target, found.path
    sign = "≥" if goal.at_least else "≤"
    lines: list[Line] = [
        *subject(found.case, [path]),
        styled(f"{goal.column} {sign} {result(goal.column, goal.bound)}"),
    ]
    if not found.reaches:
        first, last = found.tried
        kept = " and meets every limit" if has_limits(found.case) else ""
        none = styled(f"  No value of {path} from {first} to {last} reaches it{kept}{chance_words(goal)}.", BAD)
        return [*lines, none, *_nearest(found), *trend_lines(found.leads_past), *_against(found)]
    lines += [styled(f"  {path} {words}") for words in _stretches(found)]
    lines += safety_lines(found, lambda each: ", ".join(_stretches(each)), chance_of(found.case))
    lines += [styled("  at the expected value", DIM)] if found.safe is None and preferred_chance(found.case) else []
    lowest, highest = found.inside[-1]
    lines += [*_at_an_end(found, lowest), *(_at_an_end(found, highest) if highest is not lowest else [])]
    if found.beyond is not None:
        lines.append(styled(f"  beyond it {_beyond(found, found.beyond)}", DIM))
    lines.append(
        styled(f"  {number_of(found.evaluated, 'value')} tried from {found.tried[0]} to {found.tried[1]}", DIM)
    )
    settings = {path: found.answer or ""}
    return [*lines, Text(), typed("Next:", command(found.case, "estimate", settings=settings))]


def _nearest(found: SolvedServing) -> list[Line]:
    if found.nearest is None:
        return []
    value, reached = found.nearest
    return [styled(f"  nearest   {result(found.target.column, reached)} at {value}")]


def _stretches(found: SolvedServing) -> list[str]:
    """The values that reach the target."""
    return [f"{low} to {high}" if high != low else low for low, high in found.reaches]


def _against(found: SolvedServing) -> list[Line]:
    """What speaks against the values tried, each with how many of them and the words of one."""
    rows: list[Line] = []
    tried = len(found.trials)
    for code, count in found.against.most_common(_MOST_REASONS):
        trial = next(each for each in found.trials if code in (each.codes or ("",)))
        title = REFUSALS[code].title if code in REFUSALS else "cannot stand there" if code else "misses the target"
        named = f"{code} {title}".strip()
        at = f"at {trial.settings[0].partition('=')[2]}: {_words(found, trial)}"
        rows.append(styled(f"    {named}: {count} of {number_of(tried, 'value')}; {at}", DIM))
    return rows


def _at_an_end(found: SolvedServing, trial: ServingTrial) -> list[Line]:
    """What it is like at one end of the stretch."""
    if trial.answer is None:
        return []
    shown = ("tpot", "ttft_p99", "saturation_share", "gpus")
    costs = trial.answer.costs
    words = [f"{_HEADS.get(name, name)} {with_band(costs, name)}" for name in shown]
    words += [layout_words(trial.answer)] if found.best else []
    return [styled(f"  at {trial.settings[0].partition('=')[2]}: {' · '.join(words)}")]


def _beyond(found: SolvedServing, trial: ServingTrial) -> str:
    """What stops at the far end, with its code."""
    code = trial.codes[0] if trial.answer is not None and trial.codes else ""
    return f"{code} {_words(found, trial)}".strip()


def _words(found: SolvedServing, trial: ServingTrial) -> str:
    """What speaks against a value."""
    if trial.fault is not None:
        return trial.fault.sentence
    assert trial.answer is not None
    if trial.codes:
        return reason(trial.answer, trial.codes[0])
    goal, column, bound = found.target, found.target.column, found.target.bound
    value = goal.value(trial)
    stated = result(column, value, digits_apart(column, value, bound))
    side = ("at least " if goal.at_least else "at most ") if chance_words(goal) else ""
    side = "just past " if stated == bound_words(column, bound) else side
    return f"{column} is {side}{stated}{chance_words(goal)}"


def solve_json(found: SolvedServing) -> dict[str, Any]:
    """The same as plain values."""
    facts = {"workload": "serving", "facts": subject_fields(subject_of(found.case)), "title": title(found.case)}
    goal = found.target
    return {
        **head("costmodel/solution/v1"),
        **facts,
        "path": found.path,
        "result": machine_name(goal.column),
        "at_least": goal.at_least,
        "bound": number(goal.bound),
        "reached": bool(found.reaches),
        "safe": None
        if found.safe is None
        else {
            "chance": found.safe,
            "met": found.is_safe,
            "without": [{"low": low, "high": high} for low, high in found.expected.reaches] if found.expected else None,
        },
        "ranges": [
            {
                "low": low,
                "high": high,
                **{f"at_{end}": row(trial, {}) for end, trial in zip(("low", "high"), ends, strict=True)},
            }
            for (low, high), ends in zip(found.reaches, found.inside, strict=True)
        ],
        "nearest": found.nearest and {"value": found.nearest[0], "reaches": number(found.nearest[1])},
        "tried": {"from": found.tried[0], "to": found.tried[1]},
        "approaching": None if found.leads_past is None else bool(found.leads_past),
        "evaluated": found.evaluated,
    }
