"""One input of an answer, turned down and up."""

from __future__ import annotations

import re
from typing import Literal

from costmodel.documents.keys.overrides import short
from costmodel.ground.record import record

TENTH = 0.10


@record
class Knob:
    """One input turned down and up by its spread, and the relative changes of the result."""

    path: str
    text: str
    kind: Literal["hardware", "assumption", "fitted", "workload", "plan"]
    spread: float
    low: float
    high: float
    turned: tuple[str, str] = ("", "")  # down and up, as they would be written

    @property
    def swing(self) -> float:
        """The whole range of the change of the result."""
        return max(self.low, self.high, 0.0) - min(self.low, self.high, 0.0)

    @property
    def settable(self) -> str:
        """The path that --set takes; for a fitted constant, its name in the fit."""
        return f"fit.{self.path.partition('.efficiency.')[2]}" if self.kind == "fitted" else short(self.path)


def scaled(text: str, factor: float) -> str:
    """A figure as text, multiplied by a factor: 3.35 TB/s by 0.9 is 3.015 TB/s."""
    number, unit = re.fullmatch(r"([\d.,eE+-]*)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    return f"{float(number.replace(',', '')) * factor:.12g}{unit}" if number else ""
