"""The search of reinforcement learning: splits between training and generation, at values of keys, and a front."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from costmodel.documents.schemas.results import RL_COLUMNS, machine_name
from costmodel.documents.schemas.rl.rl_results import PHASES
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.rl.rl_reason_codes import REFUSALS
from costmodel.estimate.shared.results import number
from costmodel.explore.kept_answers import both_words, rl_settings
from costmodel.explore.rl.search_splits import FoundSplits, SplitsAtValue
from costmodel.ground.units import counted, gib, percent, rounded_percent, show_time
from costmodel.report.document import AnswerDocument, Cell, Column, Draw, Section, Table, Value, Verdict, chance_verdict
from costmodel.report.machine import rl_json
from costmodel.report.machine.answer_fields import frame, known
from costmodel.report.terminal.rl.rl_formatting import NAMES, reason, result, titled
from costmodel.report.terminal.search.varied_keys import few, headings
from costmodel.report.terminal.style.formatting import spaced
from costmodel.report.terminal.style.head import title
from costmodel.report.terminal.style.layout import Line, typed
from costmodel.report.terminal.style.next_command import command
from costmodel.report.terminal.style.scatter import ScatterPoint, scatter
from costmodel.report.terminal.style.theme import BAD, DIM, HEAD, WARN, styled


def search(found: FoundSplits, *, why_not: bool = False) -> AnswerDocument:
    """The best plan of each split, the fastest first; or the plans that none beats in two results."""
    seen = f"{counted(found.evaluated)} plans, the best of each split · {found.elapsed:.2f} s"
    about: list[Line] = [*titled(found.case, price=True)]
    about += [styled(f"over {axis.path}: {few(axis.values)}", HEAD) for axis in found.over]
    about += [styled(seen, HEAD), *([styled(none, WARN)] if (none := none_is_safe(found)) else [])]
    sections = [splits(found) if found.axes is None else front(found)]
    sections += [at_values(found)] if found.over else []
    sections += [why_section(found, face="all" if why_not or not found.works else "page")] if found.refused else []
    verdict: Verdict = "bad" if not found.works else chance_verdict(found.best[0].costs["fit_chance"])
    last: list[Line] = []
    if found.works:
        settings = {**found.values_of(found.best[0]), **rl_settings(found.best[0])}
        last = [typed("Next:", command(found.case, "estimate", settings=settings))]
    return AnswerDocument(found.case, title(found.case), about, _conclusion(found), verdict, sections, closing=last)


def _conclusion(found: FoundSplits) -> str:
    """The best plan in words."""
    if not found.works:
        return "No plan keeps all limits." if found.best else "No plan is valid."
    best = found.best[0]
    at = "".join(f"{path} {spaced(value)}, " for path, value in found.values_of(best).items())
    words = f"Best of {found.evaluated:,} plans: {at}{both_words(best)}, "
    words += f"{result('iteration_time', best.costs['iteration_time'])} an iteration."
    words = f"{none}. {words}" if (none := none_is_safe(found)) else words
    return f"{words} {other}." if (other := without_safety(found)) else words


def splits(found: FoundSplits) -> Section:
    """The best plan of each split of the accelerators."""
    yours = [found.yours] if found.yours is not None and not found.yours.refused else []
    marked = [*((str(place), each) for place, each in enumerate(found.best, 1)), *(("yours", each) for each in yours)]
    rows = [_row(found, place, each) for place, each in marked]
    columns = [Column("", "l"), *_varied(found), Column("train"), Column("generate"), Column("tp"), Column("cp"),
               Column("engine", "l"), Column("iteration", result="iteration_time"),
               Column("generation", result="generation"), Column("training"), Column("GiB", result="memory_peak"),
               Column("", "l")]  # fmt: skip
    words = f"{counted(found.evaluated)} plans were tried; the best of each split of the accelerators is here."
    beneath = [styled(f"  {other}", DIM)] if (other := without_safety(found)) else []
    table = Table(
        columns, rows, sortable=True, whole=True, data=partial(_rows_data, found, [each for _, each in marked])
    )
    return Section(
        "plans",
        "How to divide the accelerators",
        words,
        [partial(_splits_figure, found)] if found.best else [],
        [] if rows else [styled("  no plan is valid", BAD)],
        table if rows else None,
        beneath,
        apart=False,
    )


def _row(found: FoundSplits, place: str, each: RlAnswer) -> list[Cell]:
    inputs, costs = each.inputs, each.costs
    split, plan = inputs.split, inputs.plan
    generate = "in turns" if split.colocated else f"{split.rollout.ranks:.0f}"
    return [
        place,
        *_values(found, each),
        f"{split.trainer.ranks:.0f}",
        generate if inputs.engines is not None else "—",
        f"{float(plan.tp):.0f}",
        f"{float(plan.cp):.0f}",
        f"tp {float(plan.rollout.tp):.0f}" if inputs.engines is not None else "—",
        *(_figure_cell(each, name) for name in ("iteration_time", "generation")),
        show_time(number(each.iteration.training)),
        Value(gib(costs["memory_peak"]), costs["memory_peak"], "memory_peak_bytes"),
        f"✗ {' '.join(each.broken)}" if each.broken else _risk(each) if found.is_risky(each) else "",
    ]


def _figure_cell(each: RlAnswer, name: str) -> Value:
    value = each.costs[name]
    return Value(result(name, value), value if math.isfinite(value) else None, machine_name(name))


def _varied(found: FoundSplits) -> list[Column]:
    return [Column(head) for head in headings([axis.path for axis in found.over])]


def _values(found: FoundSplits, each: RlAnswer) -> list[str]:
    """The values of the keys that vary; of the scenario's own plan those that are written."""
    if each is found.yours:
        return ["" for _ in found.over]
    return [spaced(value) for value in found.values_of(each).values()]


def front(found: FoundSplits) -> Section:
    """The plans that none beats in both results, drawn and listed."""
    assert found.axes is not None
    kept, x, y = found.front, *found.axes
    if not kept:
        return Section("front", "The front", ahead=[styled("  no plan keeps all limits", BAD)], apart=False)
    points = [ScatterPoint(each.costs[x], each.costs[y], "●") for each in kept]
    titles = [f"{name} ({RL_COLUMNS[name].better} is better)" for name in (x, y)]
    columns = [Column("#"), *_varied(found), Column("plan", "l"), Column(x, result=x), Column(y, result=y)]
    rows: list[list[Cell]] = []
    for place, each in enumerate(kept, 1):
        rows.append(
            [str(place), *_values(found, each), both_words(each), *(_figure_cell(each, name) for name in (x, y))]
        )
    drawing = scatter(points, (titles[0], titles[1]), (partial(result, x), partial(result, y)))
    table = Table(columns, rows, sortable=True, whole=True, data=partial(_rows_data, found, kept))
    lead = f"{len(kept)} of {len(found.compared):,} plans that work are beaten by no other in both."
    return Section("front", f"{x} and {y}", lead, [partial(_front_figure, found)], [drawing], table, apart=False)


def at_values(found: FoundSplits) -> Section:
    """What became of the plans at each value of the keys that vary, and the best plan there."""
    objective = found.case.scenario.objective
    columns = [*_varied(found), Column("plans"), Column("best plan", "l"), Column(objective), Column("", "l")]
    rows = [_value_row(each, objective) for each in found.at]
    return Section("values", "At each value", "The best plan at each value.", table=Table(columns, rows))


def _value_row(at: SplitsAtValue, objective: str) -> list[Cell]:
    values: list[Cell] = [*map(spaced, at.values.values())]
    if at.fault is not None:
        return [*values, "—", "—", "—", f"✗ {at.fault.code} {at.fault.sentence}"]
    if at.best is None:
        return [*values, counted(at.evaluated), "none is valid", "—", ""]
    broken = f"✗ {' '.join(at.best.broken)}" if at.best.broken else ""
    return [*values, counted(at.evaluated), both_words(at.best), _figure_cell(at.best, objective), broken]


def why_section(found: FoundSplits, *, face: Any = "page") -> Section:
    """Every reason against a plan, with an example."""
    columns = [Column("", "l"), Column("plans"), Column("reason", "l"), Column("for example", "l"),
               Column("what it means", "l", face="page")]  # fmt: skip
    rows = [
        (code, counted(count), REFUSALS[code].title, reason(found.examples[code], code), REFUSALS[code].meaning)
        for code, count in found.refused.most_common()
    ]
    return Section("why-not", "Why not the others", table=Table(columns, rows), face=face)


def none_is_safe(found: FoundSplits) -> str:
    """That no plan fits with the chance that the search prefers, and which is the surest; empty where one does."""
    if found.is_safe or found.safe is None or not found.works:
        return ""
    surest = rounded_percent(found.best[0].costs["fit_chance"])
    return f"No plan fits with a chance of {percent(found.safe, 2)}. Plan 1 is the surest: {surest}"


def without_safety(found: FoundSplits) -> str:
    """The best plan whatever its chance to fit, what that gains, and its chance; empty where it is the best one."""
    other = found.expected
    if other is None or not found.works:
        return ""
    name = found.case.scenario.objective
    figures = f"{name} {result(name, other.costs[name])}, {result(name, found.best[0].costs[name])} in row 1"
    chance = rounded_percent(other.costs["fit_chance"])
    return f"Without --safe: {both_words(other)}: {figures}; fits with a chance of {chance} (--safe off)"


def _risk(each: RlAnswer) -> str:
    """The chance of a plan that may not fit."""
    return f"at risk: {rounded_percent(each.costs['fit_chance'])} to fit"


def _rows_data(found: FoundSplits, plans: Sequence[RlAnswer]) -> dict[str, Any]:
    """Each plan of a table whole, and the command that shows it."""
    from costmodel.report.page.row_commands import row_commands

    columns = [
        {"name": machine_name(name), "label": NAMES.get(name, name), "unit": RL_COLUMNS[name].unit,
         "figure": name, "values": [known(each.costs[name]) for each in plans]}
        for name in RL_COLUMNS if all(name in each.costs for each in plans)
    ]  # fmt: skip
    settings = ({} if each is found.yours else {**found.values_of(each), **rl_settings(each)} for each in plans)
    notes = [_against(each, plans[0]) for each in plans]
    return {"columns": columns, **row_commands(found.case, settings), "notes": notes}


def _against(each: RlAnswer, best: RlAnswer) -> list[str]:
    """What a plan breaks, and the phases in which it loses against the first."""
    stated = [f"{code} {REFUSALS[code].title}: {reason(each, code)}" for code in each.broken]
    if each is best:
        return stated
    moved = [(each.costs[name] - best.costs[name], NAMES[name]) for name in PHASES]
    moved.append((best.costs["overlapped"] - each.costs["overlapped"], "hidden"))
    shown = sorted((item for item in moved if item[0]), key=lambda item: -abs(item[0]))[:3]
    terms = ", ".join(f"{words} {_signed(value)}" for value, words in shown)
    gap = each.costs["iteration_time"] - best.costs["iteration_time"]
    return [f"Against plan 1: {_signed(gap)} an iteration: {terms}.", *stated]


def _signed(time: float) -> str:
    return f"{'+' if time >= 0 else '−'}{show_time(abs(time))}"


def _splits_figure(found: FoundSplits) -> Draw:
    from costmodel.report.page.plots import points_figure

    points = []
    for place, each in enumerate(found.best, 1):
        split = each.inputs.split
        words = "in turns" if split.colocated else f"{split.rollout.ranks:.0f} generate"
        words = ", ".join([*(f"{path} {value}" for path, value in found.values_of(each).items()), words])
        tip = f"{words}: {result('iteration_time', each.costs['iteration_time'])}"
        label = "best" if place == 1 else "in turns" if split.colocated and not found.over else ""
        points.append((number(each.iteration.training), each.costs["generation"], not each.broken, tip, words, label))
    title = "Splits: training and generation"
    return points_figure("plans", title, f"{len(points)} splits; down and left is better.",
                         (("training time", "s", show_time), ("generation time", "s", show_time)), points)  # fmt: skip


def _front_figure(found: FoundSplits) -> Draw:
    from costmodel.report.page.plots import points_figure

    assert found.axes is not None
    x, y = found.axes
    points = []
    for each in found.front:
        words, values = both_words(each), (each.costs[x], each.costs[y])
        points.append((*values, True, f"{words}: {result(x, values[0])}, {result(y, values[1])}", words, ""))
    axes = ((x, RL_COLUMNS[x].unit, partial(result, x)), (y, RL_COLUMNS[y].unit, partial(result, y)))
    return points_figure("front", f"{x} and {y}", "No other plan that was tried is better in both.", axes, points)


def search_json(found: FoundSplits) -> dict[str, Any]:
    """The same as plain values."""
    shown = frame(found.case, RL_COLUMNS)
    shown["evaluated"] = found.evaluated
    shown["elapsed_s"] = found.elapsed
    other = [] if found.expected is None else [rl_json.plan(found.expected)]
    preferred = {"chance": found.safe, "met": found.is_safe, "without": other}
    shown["safe"] = None if found.safe is None else preferred
    shown["plans"] = _ranked(found, found.best)
    yours = found.yours
    shown["yours"] = None if yours is None or yours.refused else {"rank": found.your_rank, **rl_json.plan(yours)}
    shown["over"] = [{"path": axis.path, "values": list(axis.values)} for axis in found.over]
    if found.axes is not None:
        shown["pareto"] = {"axes": [machine_name(name) for name in found.axes], "plans": _ranked(found, found.front)}
    shown["values"] = [
        {
            **each.values,
            "evaluated": each.evaluated,
            "best": None if each.best is None else rl_json.plan(each.best),
            "fault": None if each.fault is None else each.fault.sentence,
        }
        for each in (found.at if found.over else ())
    ]
    shown["refused"] = [
        {"code": code, "count": count, "text": REFUSALS[code].meaning, "case": reason(found.examples[code], code)}
        for code, count in found.refused.most_common()
    ]
    return shown


def _ranked(found: FoundSplits, plans: Iterable[RlAnswer]) -> list[dict[str, Any]]:
    return [{"rank": place, **found.values_of(each), **rl_json.plan(each)} for place, each in enumerate(plans, 1)]
