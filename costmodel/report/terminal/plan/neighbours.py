"""Why a plan is what it is: its neighbours, each with the step, memory and price that it would have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from costmodel.estimate.machine.price import price_of
from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.explore.explain.neighbours import Neighbour, moved, written_value
from costmodel.ground.units import gib, show_time
from costmodel.report.answers.plan_answer import following
from costmodel.report.answers.training_view import TrainingView
from costmodel.report.machine.answer_fields import known
from costmodel.report.terminal.plan.plan_lines import problems, titled
from costmodel.report.terminal.style.formatting import TIME_TERMS, result
from costmodel.report.terminal.style.head import price_lines
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import styled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from costmodel.estimate.evaluate.predict import Answer
    from costmodel.explore.explain.explained_answer import ExplainedAnswer

_TERMS = {key: title for title, key in TIME_TERMS}


def plan(own: ExplainedAnswer, others: Sequence[Neighbour]) -> list[Line]:
    """The own plan, then its neighbours by the question they answer; last whether one of them is better."""
    costs = own.evaluation.costs.row()
    priced = costs["cost_per_mtoken"] == costs["cost_per_mtoken"]
    names = (
        "instead",
        "step",
        "",
        "memory",
        *(("per Mtoken",) if priced else ()),
        "what changes, or why it is rejected",
    )
    mine = ("this plan", show_time(costs["step_time"]), "", _memory(costs), *_price(costs, priced=priced), "")
    rows = [mine, *(_row(own, other, priced=priced) for other in others)]
    lines: list[Line] = [*titled(own), *problems(own), Text()]
    lines.append(CellTable(names, list(_asked(rows, others, len(names))), f"lrrr{'r' if priced else ''}l"))
    if priced:
        lines += [styled(f"  {line.plain.strip()}") for line in price_lines(price_of(own.inputs.case))]
    better = [other for other in others if other.works and _step(other) < costs["step_time"]]
    lines.append(Text())
    if not better:
        return [*lines, styled("No neighbour that fits is faster."), following(own.inputs.case, "search")]
    best = min(better, key=_step)
    words = f"{best.words} is {(1 - _step(best) / costs['step_time']) * 100:.1f} % faster and fits."
    settings = [
        part for key, value in best.settings.items() for part in ("--set", f"plan.{key}={written_value(value)}")
    ]
    return [*lines, styled(words), following(own.inputs.case, "explain", "plan", *settings)]


def _step(other: Neighbour) -> float:
    return other.found.evaluation.costs.row()["step_time"]


def _memory(costs: dict[str, float]) -> str:
    return f"{gib(costs['memory_peak'])} GiB"


def _price(costs: dict[str, float], *, priced: bool) -> tuple[str, ...]:
    return (result("cost_per_mtoken", costs["cost_per_mtoken"]),) if priced else ()


def _row(own: Answer, other: Neighbour, *, priced: bool) -> tuple[str, ...]:
    """A neighbour: its figures and the term that moves most, or the reason against it."""
    if other.found.refused:
        code = other.found.refused[0]
        return other.words, "", "", "", *(("",) if priced else ()), f"{code} {REFUSALS[code].title}"
    costs, step = other.found.evaluation.costs.row(), own.evaluation.costs.row()["step_time"]
    change = f"{(costs['step_time'] / step - 1) * 100:+.1f} %".replace("-", "−")
    name, by = moved(own, other.found)
    words = f"{_TERMS[name]} {'+' if by > 0 else '−'}{show_time(abs(by))}" if name else "nothing much"
    if other.found.broken:
        words = f"{other.found.broken[0]} {REFUSALS[other.found.broken[0]].title}; {words}"
    figures = other.words, show_time(costs["step_time"]), change, _memory(costs)
    price = ("—",) if priced and other.found.broken else _price(costs, priced=priced)
    return *figures, *price, words


def _asked(rows: Sequence[tuple[str, ...]], others: Sequence[Neighbour], width: int) -> Iterator[tuple[str, ...]]:
    """The rows, each question before its first neighbour."""
    own, *rest = rows
    yield own
    last = ""
    for row, other in zip(rest, others, strict=True):
        if other.asked != last:
            yield (other.asked, *("" for _ in range(width - 1)))
        last = other.asked
        yield (f"  {row[0]}", *row[1:])


def plan_json(own: ExplainedAnswer, others: Sequence[Neighbour]) -> dict[str, Any]:
    """The same as plain values."""
    shown = TrainingView(own).plain()
    shown["neighbours"] = [_neighbour(own, other) for other in others]
    return shown


def _neighbour(own: Answer, other: Neighbour) -> dict[str, Any]:
    base: dict[str, Any] = {
        "asked": other.asked,
        "set": {f"plan.{key}": value for key, value in other.settings.items()},
        "refused": list(other.found.refused),
        "broken": [] if other.found.refused else list(other.found.broken),
    }
    if other.found.refused:
        return base
    costs = other.found.evaluation.costs.row()
    name, by = moved(own, other.found)
    return base | {
        "step_time_s": costs["step_time"],
        "memory_peak_bytes": costs["memory_peak"],
        "cost_per_mtoken_usd": None if other.found.broken else known(costs["cost_per_mtoken"]),
        "moves": name or None,
        "by_s": by,
    }
