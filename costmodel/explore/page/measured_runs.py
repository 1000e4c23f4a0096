"""Shipped runs on one accelerator, measured beside predicted."""

from __future__ import annotations

from costmodel.documents.reader.library import names, read
from costmodel.evidence.validate.validate import Compared, compared


def runs_on(accelerator: str) -> list[Compared]:
    """Step times of every shipped run on that accelerator that can be modelled, beside the predicted time."""
    tables = [read("measured", name) for name in names("measured")]
    found = [figure for table in tables for figure in compared(table, "time", accelerator)]
    return [figure for figure in found if figure.error is not None and figure.quantity == "step_time"]
