"""Colours, bars and columns: one place."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

GOOD, WARN, BAD, DIM, HEAD = "green", "yellow", "red", "dim", "bold"
VERDICT_STYLE = {"fits": GOOD, "tight": WARN, "does not fit": BAD}
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def console(*, stderr: bool = False) -> Console:
    """A console that never cuts: styled on a terminal, the same words in plain text when piped."""
    stream = sys.stderr if stderr else sys.stdout
    dumb = os.environ.get("TERM") == "dumb"
    width = None if stream.isatty() and not dumb else 10_000
    return Console(
        file=stream, width=width, height=50 if width else None, soft_wrap=True, highlight=False, markup=False
    )


def bar(share: float, width: int = 36) -> str:
    """A bar of eighths of a cell.

    >>> bar(0.5, 4), bar(0.0, 4), bar(0.3, 4)
    ('██', '', '█▎')
    """
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def columns(rows: Sequence[Sequence[str]], *, right: Sequence[bool], gap: str = "  ", indent: str = "  ") -> list[str]:
    """Rows of cells as aligned lines, each column as wide as its widest cell."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(right))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        ]
        lines.append((indent + gap.join(cells)).rstrip())
    return lines


def styled(line: str, style: str = "") -> Text:
    """A line of text in a style."""
    return Text(line, style=style)
