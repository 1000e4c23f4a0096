"""What to set instead, each with the memory and the step that it gives and with what it costs the user."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from costmodel.documents.schemas.default_values import SAFE
from costmodel.ground.counts import number_of
from costmodel.ground.units import gib, rounded_percent, show_time
from costmodel.report.terminal.style.formatting import listed
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import styled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.explore.search.changes import Remedy

NONE_ALONE = "no single key is enough; these together are"


def remedy_lines(found: Sequence[Remedy], *, indent: str) -> list[Line]:
    """A row a remedy; a line before them where several settings must go together."""
    if not found:
        return []
    priced = any(remedy.price for remedy in found)
    together = not priced and all(len(remedy.settings) > 1 and not remedy.note for remedy in found)
    rows = [_row(remedy, first=not place, priced=priced) for place, remedy in enumerate(found)]
    names = ("costs" if priced else "", "what to set", "memory", "step", "")
    grid = CellTable(names, rows, "llrrl", headed=priced, indent=indent)
    return [*([styled(f"{indent}{NONE_ALONE}")] if together else []), grid]


def _row(remedy: Remedy, *, first: bool, priced: bool) -> tuple[str, ...]:
    mark = remedy.price if priced else "try" if first else ""
    memory = "" if remedy.memory_peak is None else f"{gib(remedy.memory_peak)} GiB"
    step = "" if remedy.step_time is None else show_time(remedy.step_time)
    return mark, settings_text(remedy), memory, step, _aside(remedy)


def settings_text(remedy: Remedy) -> str:
    """The first alternative as one would type it, and the values of the others."""
    text = " ".join(f"--set {shlex.quote(setting)}" for setting in remedy.settings)
    others = [settings[0].partition("=")[2] for settings in remedy.alternatives[1:]]
    return f"{text} (or {listed(others)})" if others else text


def _aside(remedy: Remedy) -> str:
    if remedy.left:
        return f"leaves {', '.join(remedy.left)}"
    too_large = remedy.memory_share is not None and remedy.memory_share > 1
    words = [f"{number_of(remedy.valid, 'plan')} valid"] if remedy.valid else []
    if remedy.chance is not None and not too_large and remedy.chance < SAFE:
        words.append(f"fits with a chance of {rounded_percent(remedy.chance)}")
    return " · ".join([*words, *(["does not fit"] if too_large else []), *([remedy.note] if remedy.note else [])])


def remedies_json(found: Sequence[Remedy]) -> list[dict[str, Any]]:
    """The same as plain values: each alternative a list of assignments; the figures are those of the first."""
    return [
        {
            "set": list(settings),
            "costs": remedy.price or None,
            "memory_peak_bytes": remedy.memory_peak if place == 0 else None,
            "step_time_s": remedy.step_time if place == 0 else None,
            "fit_chance": remedy.chance if place == 0 else None,
            "left": list(remedy.left) if place == 0 else None,
        }
        for remedy in found
        for place, settings in enumerate(remedy.alternatives)
    ]
