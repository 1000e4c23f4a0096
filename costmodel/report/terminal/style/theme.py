"""Colours, bars and columns: one place."""

from __future__ import annotations

import contextlib
import os
import sys
import unicodedata
from typing import TYPE_CHECKING, Any, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text
from rich.theme import Theme

from costmodel.documents.schemas.default_values import SAFE

if TYPE_CHECKING:
    from collections.abc import Sequence

GOOD, WARN, BAD, DIM, HEAD = "good", "warn", "bad", "dim", "bold"
# Colours that are legible on white and on black; where there are sixteen, yellow and green are too light on white.
PALETTE = {GOOD: "color(28)", WARN: "color(130)", BAD: "color(160)"}
FEW_COLOURS = {GOOD: "none", WARN: "magenta", BAD: "red"}
VERDICT_STYLE = {"fits": GOOD, "tight": WARN, "does not fit": BAD}
_USUAL = 80  # columns, where the terminal does not report its width
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, direction and invisible, halves of letters, ends of lines
_NO_LETTERS = "\ufffe\uffff"  # which XML does not have


_switches = {"colour": True}


def colour(*, on: bool) -> None:
    """Whether answers may be coloured at all; NO_COLOR, FORCE_COLOR and TERM count besides."""
    _switches["colour"] = on


def is_plain() -> bool:
    """Whether --no-color, NO_COLOR or the terminal wants text without colours or other attributes."""
    return not _switches["colour"] or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")


def console(*, stderr: bool = False) -> Console:
    """A console that neither cuts nor wraps; without colour it writes plain text."""
    return _console(stderr=stderr, width=10_000, height=50, soft_wrap=True)


def live_console() -> Console:
    """A console on standard error as wide as its terminal, for a line that is drawn again and again."""
    return _console(stderr=True)


def _console(*, stderr: bool, **layout: Any) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    system: Literal["auto"] | None = None if is_plain() else "auto"
    screen = Console(file=stream, color_system=system, highlight=False, markup=False, **layout)
    screen.push_theme(Theme(FEW_COLOURS if screen.color_system in ("standard", "windows") else PALETTE))
    return screen


def terminal_width(*, stderr: bool = False) -> int | None:
    """The width of the terminal; None if the stream is not a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    if not stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns[:6]) > 0:
        return int(columns[:6])
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or _USUAL
    return _USUAL


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
    widths = [max((cell_len(row[index]) for row in rows), default=0) for index in range(len(right))]
    lines = []
    for row in rows:
        cells = [
            " " * (width - cell_len(cell)) + cell if flush else cell + " " * (width - cell_len(cell))
            for cell, width, flush in zip(row, widths, right, strict=True)
        ]
        lines.append((indent + gap.join(cells)).rstrip())
    return lines


def chance_style(chance: float) -> str:
    """Green from the chance on that searches prefer, amber below."""
    return GOOD if chance >= SAFE else WARN


def styled(line: str, style: str = "") -> Text:
    """A line of text in a style."""
    return Text(line, style=style)


def visible(text: str) -> str:
    """A line of text without characters that move the cursor, hide text or reverse it.

    >>> visible("a\\x1b[31m\\tb\\u202e")
    'a�[31m b�'
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(letter: str) -> str:
    category = unicodedata.category(letter)
    if letter in "\t\n\r" or category == "Zs":
        return " "
    return "�" if category in _HARMFUL or letter in _NO_LETTERS else letter


def harmless(text: str) -> str:
    """Text of several lines without anything that moves the cursor, hides or reverses it."""
    return "\n".join(map(visible, text.split("\n")))
