"""What answers about one plan share: the plan at their head, what speaks against it, what was assumed, what to type."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from costmodel.documents.keys.overrides import value_text
from costmodel.estimate.evaluate.evaluate_plans import missing_input
from costmodel.estimate.shared.limits import stated_limits
from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.estimate.shared.remarks import REMARKS
from costmodel.report.terminal.plan.next_commands import command
from costmodel.report.terminal.search.refusals import reason
from costmodel.report.terminal.search.remedies import remedy_lines
from costmodel.report.terminal.style.formatting import plan_words
from costmodel.report.terminal.style.head import head_of
from costmodel.report.terminal.style.layout import CellTable, Line, WidthDrawing, typed
from costmodel.report.terminal.style.theme import BAD, DIM, HEAD, WARN, styled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from costmodel.documents.reader.resolved_scenario import ResolvedScenario
    from costmodel.documents.schemas.default_values import Assumption
    from costmodel.estimate.evaluate.predict import Answer
    from costmodel.explore.explain.explained_answer import ExplainedAnswer

_FEW = 5  # assumptions shown unasked
_NOTHING = "no single key fixes this; costmodel search shows whether several together do"


def titled(answer: Answer) -> list[Line]:
    """What was computed, and the plan."""
    return [*head_of(answer.inputs.case), styled(plan_words(answer))]


def searched(case: ResolvedScenario, varied: Iterable[str] = ()) -> list[Line]:
    """What a search holds because --set gave it, but for what varies, and where the plan and the search disagree."""
    keys = {key: value for key, value in case.held.values.items() if f"plan.{key}" not in {*varied}}
    words = " · ".join(f"{key} {value_text(value)}" for key, value in keys.items())
    held = [styled(f"held by --set: {words}", HEAD)] if keys else []
    return [*held, *(styled(f"▲ N024 {REMARKS['N024'].title}: {words}", WARN) for words in case.held.conflicts)]


def refusal(answer: ExplainedAnswer) -> list[Line]:
    """The answer for an invalid plan: only the reasons."""
    stated = styled("Invalid plan; nothing was computed.", BAD)
    return [*titled(answer), *problems(answer), Text(), stated, following(answer, "search")]


def following(answer: Answer, verb: str, *words: str, before: str = "Next:") -> WidthDrawing:
    """The command to type next; after one plan a search is free to find another: it does not hold the keys of this."""
    return typed(before, command(answer.inputs.case, verb, *words, free=verb == "search"))


def assumed_lines(assumed: tuple[Assumption, ...], *, verbose: bool) -> list[Line]:
    """Values that the user did not state, and where each came from."""
    shown = assumed if verbose else assumed[:_FEW]
    rows = [(("assumed" if index == 0 else ""), item.path, item.value, item.origin) for index, item in enumerate(shown)]
    lines: list[Line] = (
        [CellTable(("", "path", "value", "from"), rows, "llll", headed=False, style=DIM)] if rows else []
    )
    if len(shown) < len(assumed):
        lines.append(styled(f"  {len(assumed) - len(shown)} more with -v", DIM))
    return lines


def problems(answer: ExplainedAnswer) -> list[Line]:
    """What speaks against one plan and what to set instead, and what there is to remark, with their codes."""
    lines: list[Line] = []
    codes = answer.refused or answer.broken
    for found, alike in itertools.groupby(codes, key=answer.fixes.__getitem__):
        lines += [styled(f"  ✗ {code} {REFUSALS[code].title}: {reason(answer, code)}", BAD) for code in alike]
        lines += remedy_lines(found, indent="    ") or [styled(f"    {_unknown(answer) or _NOTHING}")]
    lines += [] if answer.refused else remarks([answer.remarked])
    return [Text(), *lines] if lines else []


def _unknown(answer: Answer) -> str:
    """What to set where a limit is on a result that is not known."""
    limits = () if answer.refused else stated_limits(answer.inputs.case.scenario.limits)
    return next((wanted for limit in limits if (wanted := missing_input(answer.inputs, limit.column))), "")


def remarks(plans: Sequence[Sequence[str]], costs: Sequence[Mapping[str, float]] = ()) -> list[Line]:
    """Every remark on one of the plans once, and on how many where not on all; by their costs, whether the order of
    measured and unmeasured accelerators is known.
    """
    counts = Counter(code for codes in plans for code in codes)
    lines: list[Line] = []
    for code, count in counts.items():
        some = f" ({count:,} of {len(plans):,})" if count < len(plans) else ""
        lines.append(styled(f"  ▲ {code} {REMARKS[code].title}{some}: {REMARKS[code].meaning}", WARN))
    if 0 < counts["N005"] < len(plans):
        lines.append(styled(f"  ▲ N005 ranking: {_order(plans, costs)}", WARN))
    return lines


def _order(plans: Sequence[Sequence[str]], costs: Sequence[Mapping[str, float]]) -> str:
    """Whether the bands of fitted and never fitted accelerators are apart."""
    who = "the order of fitted and never fitted accelerators"
    bands = [(found.get("step_time_low"), found.get("step_time_high")) for found in costs]
    if len(bands) != len(plans) or any(None in band for band in bands):
        return f"{who} is sure only where their bands are apart"
    sides: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for codes, (low, high) in zip(plans, bands, strict=True):
        sides["N005" in codes].append((low or 0.0, high or 0.0))
    overlap = sum(low <= top and bottom <= high for low, high in sides[True] for bottom, top in sides[False])
    pairs = len(sides[True]) * len(sides[False])
    if not overlap:
        return f"{who} is known: their bands of step time are apart"
    some = "" if overlap == pairs else f" in {overlap:,} of {pairs:,} pairs"
    return f"{who} is not known{some}: their bands of step time overlap"
