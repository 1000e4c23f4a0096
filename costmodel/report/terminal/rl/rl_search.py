"""The ranking of splits between training and generation."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.rl.rl_reason_codes import REFUSALS
from costmodel.estimate.shared.results import number
from costmodel.explore.kept_answers import both_words, rl_settings
from costmodel.explore.rl.search_splits import FoundSplits
from costmodel.ground.units import counted, gib, percent, rounded_percent, show_time
from costmodel.report.machine import rl_json
from costmodel.report.terminal.rl.rl_formatting import reason, result, titled
from costmodel.report.terminal.style.layout import CellTable, Line, typed
from costmodel.report.terminal.style.next_command import command
from costmodel.report.terminal.style.theme import BAD, DIM, HEAD, WARN, styled

_NAMES = ("", "train", "generate", "tp", "cp", "engine", "iteration", "generation", "training", "GiB", "")


def search(found: FoundSplits, *, why_not: bool = False) -> list[Line]:
    """The best plan of each split, the fastest first."""
    seen = f"{counted(found.evaluated)} plans, the best of each split · {found.elapsed:.2f} s"
    rows = [_row(str(place), each, risky=found.is_risky(each)) for place, each in enumerate(found.best, 1)]
    if found.yours is not None and not found.yours.refused:
        rows.append(_row("yours", found.yours, risky=found.is_risky(found.yours)))
    lines: list[Line] = [*titled(found.case, price=True), styled(seen, HEAD)]
    lines += [styled(none, WARN)] if (none := none_is_safe(found)) else []
    lines.append(CellTable(_NAMES, rows, "lrrrrlrrrrl") if rows else styled("  no plan is valid", BAD))
    lines += [styled(f"  {other}", DIM)] if (other := without_safety(found)) else []
    if why_not or not found.works:
        lines += _why_not(found)
    if found.works:
        lines += [Text(), typed("Next:", command(found.case, "estimate", settings=rl_settings(found.best[0])))]
    return lines


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


def _row(place: str, each: RlAnswer, *, risky: bool) -> tuple[str, ...]:
    inputs, costs = each.inputs, each.costs
    split, plan = inputs.split, inputs.plan
    generate = "in turns" if split.colocated else f"{split.rollout.ranks:.0f}"
    return (
        place,
        f"{split.trainer.ranks:.0f}",
        generate if inputs.engines is not None else "—",
        f"{float(plan.tp):.0f}",
        f"{float(plan.cp):.0f}",
        f"tp {float(plan.rollout.tp):.0f}" if inputs.engines is not None else "—",
        result("iteration_time", costs["iteration_time"]),
        result("generation", costs["generation"]),
        show_time(number(each.iteration.training)),
        gib(costs["memory_peak"]),
        f"✗ {' '.join(each.broken)}" if each.broken else _risk(each) if risky else "",
    )


def _risk(each: RlAnswer) -> str:
    """The chance of a plan that may not fit."""
    return f"at risk: {rounded_percent(each.costs['fit_chance'])} to fit"


def _why_not(found: FoundSplits) -> list[Line]:
    """Every reason against a plan, with an example."""
    rows = [
        (code, counted(count), REFUSALS[code].title, reason(found.examples[code], code))
        for code, count in found.refused.most_common()
    ]
    return [Text(), CellTable(("", "plans", "reason", "for example"), rows, "lrll")] if rows else []


def search_json(found: FoundSplits) -> dict[str, Any]:
    """The same as plain values."""
    result = rl_json.frame(found.case)
    result["evaluated"] = found.evaluated
    other = [] if found.expected is None else [rl_json.plan(found.expected)]
    preferred = {"chance": found.safe, "met": found.is_safe, "without": other}
    result["safe"] = None if found.safe is None else preferred
    result["plans"] = [{"rank": place, **rl_json.plan(each)} for place, each in enumerate(found.best, 1)]
    yours = found.yours
    result["yours"] = None if yours is None or yours.refused else {"rank": found.your_rank, **rl_json.plan(yours)}
    result["refused"] = [
        {"code": code, "count": count, "text": REFUSALS[code].meaning, "case": reason(found.examples[code], code)}
        for code, count in found.refused.most_common()
    ]
    return result
