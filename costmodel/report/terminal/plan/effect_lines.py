"""What choices of a scenario are worth, in lines and as plain values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.text import Text

from costmodel.ground.units import show_time
from costmodel.report.terminal.style.theme import styled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.explore.explain.effects import ExplainedAnswer
    from costmodel.report.terminal.style.layout import Line


def effect_lines(answer: ExplainedAnswer, *, fully: bool = False) -> list[Line]:
    """A line for each choice; fully with further remarks."""
    lines: list[Line] = []
    for each in answer.effects:
        name = each.key.rpartition(".")[2]
        if math.isnan(each.without):
            lines += [styled(f"  {name} {each.value}"), *(styled(f"    {words}") for words in each.words)]
            continue
        saves = f"{'saves' if each.saved >= 0 else 'costs'} {show_time(abs(each.saved))} a step"
        lines.append(styled(f"  {name} {each.value}: {saves}, {show_time(each.without)} without it"))
        lines += [styled(f"    {words}") for words in each.words if fully or each.always]
    return lines


def with_effects(result: dict[str, Any], answer: ExplainedAnswer) -> dict[str, Any]:
    """A result for programs, with the effects where there are any."""
    if not answer.effects:
        return result
    values = [
        {
            "key": each.key,
            "value": each.value,
            "step_time_s": each.step_time,
            "without_s": None if math.isnan(each.without) else each.without,
            "saved_s": None if math.isnan(each.without) else each.saved,
            "words": list(each.words),
        }
        for each in answer.effects
    ]
    return {**result, "effects": values}


def blank(lines: Sequence[Line]) -> list[Line]:
    """Lines, an empty one before them where there are any."""
    return [Text(), *lines] if lines else []
