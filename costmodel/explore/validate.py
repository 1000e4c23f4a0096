"""Predicted against measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from costmodel.documents.library import cases, names, read
from costmodel.documents.measurement import Measured
from costmodel.equations.economics import share
from costmodel.explore.face import predict

QUANTITIES = ("step_time", "memory_peak")


@dataclass(frozen=True)
class Compared:
    """One measured figure beside ours."""

    run: str
    quantity: str
    measured: float
    predicted: float
    tolerance: float | None

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return float(share(self.predicted, self.measured)) - 1

    @property
    def within(self) -> bool:
        """Whether the error is within the document's own tolerance."""
        return self.tolerance is None or abs(self.error) <= self.tolerance


def compared(measured: Measured) -> Iterator[Compared]:
    """Every measured figure of a table beside our prediction."""
    for run, case in cases(measured):
        costs = predict(case).evaluation.costs.row()
        for quantity in QUANTITIES:
            value = getattr(run.measured, quantity)
            if value is not None:
                yield Compared(run.name, quantity, value, costs[quantity], getattr(measured.tolerance, quantity))


Validated = tuple[Measured, list[Compared]]


def validated(tables: Sequence[str] | None = None) -> list[Validated]:
    """Every table named, or every one that can be found, with its figures beside ours."""
    found = [read("measured", table) for table in tables or names("measured")]
    return [(table, list(compared(table))) for table in found]
