"""What stands below a ranking: how sure its order is, and the first plan with room to spare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from costmodel.estimate.evaluate.evaluate_plans import verdict
from costmodel.estimate.shared.plan_batch import one_row
from costmodel.explore.kept_answers import brief_words
from costmodel.explore.search.bands import SCORED, unsure
from costmodel.explore.search.rank import Ranked
from costmodel.explore.search.search import SearchResult
from costmodel.ground.units import gib, percent, rounded_percent
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import DIM, styled

_ALIKE = 0.01  # share below which two plans count as equal


def unsure_order(found: SearchResult, shown: int) -> list[Line]:
    """How many of the plans shown may be the fastest, with the chances that the first one is."""
    chances = found.chances[:shown]
    count = unsure(chances)
    if count < 2:
        return []
    stated = f"these {count}" if count == len(chances) else f"the first {count}"
    last = f", than {count} with {chances[count - 1]:.0%}" if count > 2 else ""
    return [styled(f"any of {stated} may be fastest: 1 is faster than 2 with a chance of {chances[1]:.0%}{last}")]


def roomier(found: SearchResult) -> Iterator[Line]:
    """The first plan that surely fits behind one at risk, or behind one that is tight and hardly faster."""
    winner, *others = found.best
    alike = [plan for plan in others if plan.variant == winner.variant]
    if "N023" in winner.remarked:
        yield _behind_risk(found, winner, [plan for plan in alike if "N023" not in plan.remarked])
        return
    free = [plan for plan in alike if verdict(plan.costs["memory_share"]) == "fits"]
    if verdict(winner.costs["memory_share"]) != "tight" or not free:
        return
    slower = free[0].costs["step_time"] / winner.costs["step_time"] - 1
    if 0 <= slower < _ALIKE:
        room = gib(winner.costs["memory_peak"] - free[0].costs["memory_peak"])
        yield styled(
            f"  1 is tight: {found.best.index(free[0]) + 1} takes {percent(slower)} longer and {room} GiB less", DIM
        )


def _behind_risk(found: SearchResult, winner: Ranked, safe: Sequence[Ranked]) -> Line:
    """What surely fits costs over the first plan, which may not fit."""
    risk = f"  1 fits with a chance of {rounded_percent(winner.costs['fit_chance'])}"
    if not safe:
        return styled(f"{risk}; --safe 90% ranks only plans that fit with 90 %", DIM)
    slower = safe[0].costs["step_time"] / winner.costs["step_time"] - 1
    more = f"takes {percent(slower)} longer" if slower >= 0 else f"is {percent(-slower)} faster"
    return styled(f"{risk}; {found.best.index(safe[0]) + 1} fits at P90 and {more} (--safe 90%)", DIM)


def none_is_safe(found: SearchResult) -> str:
    """That no plan has the chance to fit that the search prefers, and which is the surest; empty where one has."""
    if found.is_safe or found.safe is None or not found.best:
        return ""
    surest = rounded_percent(found.best[0].costs["fit_chance"])
    return f"No plan fits with a chance of {percent(found.safe, 2)}. Plan 1 is the surest: {surest}; surest first."


def without_safety(found: SearchResult) -> str:
    """The best plan whatever its chance to fit, what that gains, and its chance; empty where it is the best one."""
    other = found.expected
    if found.safe is None or other is None:
        return ""
    best, objective = found.best[0], found.inputs.case.scenario.objective
    words = brief_words(one_row(other.structure, **other.sizes))
    timed = objective in SCORED
    ratio = best.costs["step_time" if timed else objective] / other.costs["step_time" if timed else objective]
    gained = f"{percent(abs(ratio - 1), 2)} {'faster' if timed else f'less {objective}'}"
    chance = rounded_percent(other.costs["fit_chance"])
    return f"Without --safe: {words}: {gained}, fits with a chance of {chance} (--safe off)"
