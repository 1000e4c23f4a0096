"""A reply: one answer in every form it can take, each made when it is asked for."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

import costmodel
from costmodel.ground.record import record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from costmodel.report.terminal.style.layout import Line


@record
class Filed:
    """A document for a file: its text and the lines to print, both for a path, or for None without a file.

    A reply whose answer is no is not written.
    """

    text: Callable[[Path], str]
    summary: Callable[[Path | None], Sequence[Line]]


@record
class Reply:
    """The answer of a command: lines for people, a result for programs, and whether the answer is yes.

    `rows` is the path in the result to the list that CSV prints as a table. `others` are forms that only this answer
    has, or that it makes differently; `stopped`: the user asked to end before the answer was complete.
    `filed` is for answers that are documents. `again` waits for a change and returns the new answer, for a file that
    is kept up to date. `found` is the value that the engine returned.
    """

    lines: Callable[[], Sequence[Line]]
    result: Callable[[], dict[str, Any]]
    rows: str = ""
    yes: bool = True
    others: Mapping[str, Callable[[], str | bytes]] = field(default_factory=dict)
    stopped: bool = False
    filed: Filed | None = None
    again: Callable[[], Reply] | None = None
    found: object = None


def head(schema: str) -> dict[str, str]:
    """The first fields of a result for programs: its schema and costmodel's version."""
    return {"schema": schema, "costmodel": costmodel.__version__}
