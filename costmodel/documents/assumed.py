"""Values that no document states."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Assumed:
    """A value that is not in the scenario: its path there, the value in words, and where it is from."""

    path: str
    value: str
    origin: str
