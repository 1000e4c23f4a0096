"""Formats of other tools, and the options of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from costmodel.explore.launch_formats import LaunchFormat
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.layout import CellTable, Line, drawn
from costmodel.report.terminal.style.theme import HEAD, styled


def listed(found: Sequence[LaunchFormat]) -> list[Line]:
    """All formats, or of a single one its options."""
    if len(found) == 1:
        return _one(found[0])
    rows = [(entry.name, entry.title, "yes" if entry.written else "") for entry in found]
    return [
        CellTable(("name", "format", "exported"), rows, "kll"),
        Text(),
        drawn("Next: costmodel list formats torchtitan"),
    ]


def _one(entry: LaunchFormat) -> list[Line]:
    """Options with the keys they fill or what is lost, then keys that no option states."""
    counted = [option for option in entry.options if option.fills or option.lost]
    without = len(entry.options) - len(counted)
    rows = [(option.option, ", ".join(option.fills.split()) or option.lost) for option in counted]
    lines: list[Line] = [styled(entry.title, HEAD), CellTable(("option", "key, or what is lost"), rows, "kl")]
    if entry.not_stated:
        not_stated = list(entry.not_stated.items())
        lines += [Text(), CellTable(("key that it does not state", "because"), not_stated, "kl")]
    return [*lines, Text(), drawn(f"{without} more options cost nothing")]


def as_json(found: Sequence[LaunchFormat]) -> dict[str, Any]:
    """The same as plain values."""
    return {
        **head("costmodel/formats/v1"),
        "formats": [
            {
                **entry._asdict(),
                "options": [option._asdict() for option in entry.options],
                "not_stated": dict(entry.not_stated),
            }
            for entry in found
        ],
    }
