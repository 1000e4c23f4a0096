"""Options of a foreign format as a table: how each is spelt, what stands where it is left out, since which version.

A table is data. The reader of its format walks it, and `explain` can print it. Tests hold it complete both ways: every
option of the format is in it, and every costmodel key is filled by one or named as one that the format lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from costmodel.exchange.imported import OriginValue
from costmodel.ground.record import record


@record
class DerivedValue:
    """A value computed from others; `text` describes the rule, for the origin and the printed table."""

    text: str
    apply: Callable[[Any], OriginValue | None] = field(repr=False)


@record
class Fact:
    """A value that no option changes: it is fixed in the code that the format configures."""

    value: Any


@record
class ForeignOption:
    """One option.

    names: its spellings, today's first. default: what stands where the file leaves it out. null: the rule for a value
    of null, written or by default; without one, null means that there is no such thing. old: the last version of a
    spelling that is not today's. was: earlier defaults, each with the version before which it held.
    """

    names: tuple[str, ...]
    default: Any = None
    null: DerivedValue | None = None
    since: str = ""
    old: Mapping[str, str] = field(default_factory=dict)
    was: tuple[tuple[str, Any], ...] = ()


def option(*names: str, default: Any = None, null: DerivedValue | None = None, **more: Any) -> ForeignOption:
    """An option by its spellings."""
    return ForeignOption(names, default, null, **more)


def version(text: Any) -> tuple[int, ...]:
    """A version as numbers to compare: (4, 31, 0) of '4.31.0.dev0'; () of what is none."""
    numbers = []
    for part in str(text).split(".")[:3]:
        if not part.isascii() or not part.isdigit() or len(part) > 9:
            break
        numbers.append(int(part))
    return tuple(numbers)
