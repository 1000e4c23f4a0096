"""Answers of solve: the values that reach a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from rich.text import Text

from costmodel.documents.schemas.default_values import SAFE
from costmodel.documents.schemas.results import is_money, machine_name
from costmodel.estimate.evaluate.answer_facts import facts_of, row_facts
from costmodel.explore.compare.plan_figures import choices
from costmodel.explore.search.target import Target
from costmodel.explore.serving.solve_serving import SolvedServing
from costmodel.explore.vary.solve import ReachableRange, SolveResult
from costmodel.ground.errors import Fault
from costmodel.ground.units import percent
from costmodel.report.machine.json_answer import conflicts, held, whole_plan
from costmodel.report.terminal.plan.plan_lines import searched
from costmodel.report.terminal.plan.plan_words import brief_words
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.formatting import listed, result, spaced
from costmodel.report.terminal.style.head import (
    fact_fields,
    head_of,
    price_fields,
    price_lines,
    price_varies,
    title,
    with_facts,
)
from costmodel.report.terminal.style.layout import Line, typed
from costmodel.report.terminal.style.next_command import command
from costmodel.report.terminal.style.theme import BAD, DIM, HEAD, WARN, styled


def solve(found: SolveResult) -> list[Line]:
    """The values that reach the target, or that none does and what comes nearest."""
    goal = found.target
    wanted = f"{goal.column} {'≥' if goal.at_least else '≤'} {result(goal.column, goal.bound)}"
    now = f" (now {spaced(found.now.text)})" if found.now is not None else ""
    lines: list[Line] = [*head_of(found.case, [found.path], priced=is_money(goal.column)), styled(wanted, HEAD)]
    lines += searched(found.case, [found.path]) if found.best else []
    counted = f"{found.evaluated:,} value{'' if found.evaluated == 1 else 's'}"
    if found.stopped:
        lines.append(styled(f"Stopped after {counted}.", BAD))
    first, last = map(spaced, found.tried)
    some = found.how == "scan" and not found.every
    if found.reaches:
        lines.append(styled(f"  {found.path} {_reaches(found.reaches)}{', of the values tried' if some else ''}{now}"))
    elif found.evaluated:
        where = f"{'tried ' if some else ''}from {first} to {last}"
        lines.append(styled(f"  No value of {found.path} {where} reaches it{chance_words(goal)}{now}.", BAD))
        if found.nearest is not None:
            text, point = found.nearest
            lines.append(styled(f"  nearest   {result(goal.column, goal.value(point))} at {spaced(text)}"))
        lines += trend_lines(found.leads_past)
    if found.reaches:
        lines += safety_lines(found, lambda each: _reaches(each.reaches), "fit")
    own = price_varies([found.path]) and found.path != "assume.price"
    if is_money(goal.column) and own and found.price is not None:
        lines += price_lines(found.price, "  ")
    if found.evaluated:
        tried = f"{counted} tried from {first} to {last}"
        tried += f", {found.invalid:,} of them without a valid plan" if found.invalid else ""
        lines.append(styled(f"  by {found.how}, {tried}", DIM))
        lines += _faulty(found.faulty)
    if found.answer is not None:
        answer, verb = spaced(found.answer), "search" if found.best else "estimate"
        if found.best and found.plan is not None:
            lines.append(styled(f"  at {answer} the best plan is {brief_words(found.plan)}"))
        settings = {found.path: answer.replace(",", "")}
        lines += [Text(), typed("Next:", command(found.case, verb, settings=settings))]
    return lines


def trend_lines(leads_past: str | None) -> list[Line]:
    """Whether values past those tried come nearer to a target that none of them reaches; nothing of a list."""
    if leads_past is None:
        return []
    if leads_past:
        return [styled(f"  values past {spaced(leads_past)} come nearer: state a range that includes them", WARN)]
    return [styled("  by their trend, no value outside of these reaches it", DIM)]


def chance_words(goal: Target) -> str:
    """The chance that a target should be reached with; nothing where the expected value rules."""
    return "" if goal.share is None or not goal.has_band else f" with a chance of {percent(goal.share, 2)}"


Solved = TypeVar("Solved", SolveResult, SolvedServing)


def safety_lines(found: Solved, values: Callable[[Solved], str], kept: str) -> Iterator[Line]:
    """Whether the target is reached with the chance that is asked for, and what reaches it by its expected value.

    values: in words, all that reach the target. kept: what plans do with that chance too
    """
    column = found.target.column
    if found.safe is None:
        return
    aim = f"reach it and to {kept}" if found.target.has_band else kept
    chance = f"with a chance of {percent(found.safe, 2)}"
    if not found.is_safe:
        yield styled(f"  at the expected value; no value tried has {chance.removeprefix('with ')} to {aim}", WARN)
    elif found.expected is None or values(found.expected) == values(found):
        yield styled(f"  {chance} to {aim}", DIM)
    else:
        edges = [spaced(each.answer or "") for each in (found.expected, found)]
        first, own = edges if edges[0] != edges[1] else map(values, (found.expected, found))
        both = f"{first} at the expected value, {own} {chance} to {aim}"
        yield styled(f"  {both} (--safe off takes the first)", DIM)
    if not found.target.has_band and not column.endswith(("_low", "_high")):
        yield styled(f"  {column} has no band: its expected value rules", DIM)
    elif found.is_safe and found.target.share is None and found.target.has_band:
        yield styled(f"  {column} is itself counted with that chance", DIM)
    elif found.target.share not in (None, SAFE):
        yield styled(f"  that chance of {column} by the spread of its band from 10 to 90 %", DIM)


def _faulty(faults: Mapping[str, Fault]) -> Iterator[Line]:
    """Values that cannot stand there: of each kind of fault the first, and how many more."""
    for code in dict.fromkeys(fault.code for fault in faults.values()):
        first, *others = (text for text, fault in faults.items() if fault.code == code)
        rest = f" and {len(others):,} more" if others else ""
        yield styled(f"  {spaced(first)}{rest} cannot be: {code} {faults[first].sentence}", DIM)


def _reaches(reaches: Sequence[ReachableRange]) -> str:
    """Stretches in one line; single values as a list."""
    single = [spaced(reach.low) for reach in reaches if reach.low == reach.high]
    others = [_reach(reach) for reach in reaches if reach.low != reach.high]
    return ", or ".join([*others, *([f"= {listed(single)}"] if single else [])])


def _reach(reach: ReachableRange) -> str:
    low, high = spaced(reach.low), spaced(reach.high)
    if reach.open_low and reach.open_high:
        return f"anywhere from {low} to {high}"
    if reach.open_high:
        return f"≥ {low}"
    return f"≤ {high}" if reach.open_low else f"from {low} to {high}"


def safe_json(found: SolveResult) -> dict[str, Any] | None:
    """The chance that plans are preferred to have, whether they do, and the answer without it."""
    if found.safe is None:
        return None
    expected = [] if found.expected is None else found.expected.reaches
    other = [{"low": reach.low, "high": reach.high} for reach in expected]
    return {"chance": found.safe, "met": found.is_safe, "without": other}


def solve_json(found: SolveResult) -> dict[str, Any]:
    """The same as plain values."""
    nearest = found.nearest
    return {
        **head("costmodel/solution/v1"),
        "title": title(found.case),
        "facts": fact_fields(facts_of(found.case), [found.path]),
        "path": found.path,
        "target": {
            "name": machine_name(found.target.column),
            "at_least": found.target.at_least,
            "bound": found.target.bound,
        },
        "safe": safe_json(found),
        "now": found.now.text if found.now else None,
        "answer": found.answer,
        **({} if found.price is None else price_fields(found.price)),
        "plan": whole_plan(choices(found.plan)) if found.best and found.plan is not None else None,
        "ranges": with_facts(
            row_facts(facts_of(found.case), [found.path]),
            ({"path": found.path, **asdict(reach)} for reach in found.reaches),
        ),
        "nearest": {"value": nearest[0], "reaches": found.target.value(nearest[1])} if nearest else None,
        "tried": {"from": found.tried[0], "to": found.tried[1]},
        "approaching": None if found.leads_past is None else bool(found.leads_past),
        "how": found.how,
        "every": found.every,
        "invalid": found.invalid,
        "faults": [{"value": text, "code": it.code, "text": it.sentence} for text, it in found.faulty.items()],
        "complete": not found.stopped,
        "evaluated": found.evaluated,
        "held": held(found.case, [found.path]) if found.best else {},
        "notes": conflicts(found.case) if found.best else [],
    }
