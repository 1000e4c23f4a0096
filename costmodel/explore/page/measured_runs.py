"""Shipped runs on one accelerator, measured beside predicted."""

from __future__ import annotations

from costmodel.documents.reader.library import names, read
from costmodel.evidence.validate.validate import Compared, compared


def runs_on(accelerator: str) -> list[Compared]:
    """Every shipped run on that accelerator that is modelled, beside its prediction: step times, then FLOP rates."""
    tables = [read("measured", name) for name in names("measured")]
    found = [figure for table in tables for figure in compared(table, "time", accelerator)]
    modelled = [figure for figure in found if figure.error is not None]
    return sorted(modelled, key=lambda figure: figure.quantity != "step_time")
