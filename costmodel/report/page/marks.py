"""The marks that every figure is made of, and the figure that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar

from costmodel.ground.record import record

LETTER = 6.9  # width of a letter at the size that figures are written in; a guess for all fonts
LINE = 15.0
TICK, TITLE = "soft tick", "soft axis-title"  # roles of words on an axis


@record
class Bar:
    """A rectangle of a figure; programs that read the page find its name and value."""

    kind: ClassVar[str] = "bar"
    x: float
    y: float
    width: float
    height: float
    role: str
    tip: str = ""
    name: str = ""
    value: float | None = None


@record
class Rule:
    """A straight line: an axis, a grid line, or a limit."""

    kind: ClassVar[str] = "rule"
    x1: float
    y1: float
    x2: float
    y2: float
    role: str = "grid"


@record
class Words:
    """A line of text; `x` is where it starts, ends or has its middle."""

    kind: ClassVar[str] = "words"
    x: float
    y: float
    text: str
    anchor: str = "start"
    role: str = "label"


@record
class Dot:
    """A point with both its values; the shape distinguishes roles without colour."""

    kind: ClassVar[str] = "dot"
    x: float
    y: float
    radius: float
    role: str
    tip: str = ""
    name: str = ""
    values: tuple[float, float] | None = None
    hollow: bool = False


@record
class Curve:
    """A line through points; `closed` fills its area."""

    kind: ClassVar[str] = "curve"
    points: tuple[tuple[float, float], ...]
    role: str
    closed: bool = False


Mark = Bar | Rule | Words | Dot | Curve


@record
class SvgFigure:
    """A drawing with its title and what it shows in a sentence."""

    key: str
    title: str
    description: str
    width: float
    height: float
    marks: Sequence[Mark] = field(default_factory=list)


def length(text: str) -> float:
    """The approximate width of a text."""
    return LETTER * len(text)


def shortened(text: str, room: float) -> str:
    """A text that has room, cut at the end where it does not.

    >>> shortened("matrix multiply", 200), shortened("matrix multiply", 60)
    ('matrix multiply', 'matrix m…')
    """
    letters = max(2, int(room / LETTER))
    return text if len(text) <= letters else f"{text[: letters - 1]}…"
