"""The columns of serving's results, with the ends of bands, and their names in machine output."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.schemas.results import ResultColumn
from costmodel.documents.schemas.serving.serving_results import BANDED, BANDED_TERMS, RESULTS
from costmodel.estimate.shared.results import with_unit


def _with_bands() -> Iterator[tuple[str, ResultColumn]]:
    """Every column, and behind a banded one the ends of its band."""
    for name, column in RESULTS.items():
        yield name, column
        if name in BANDED:
            yield f"{name}_low", ResultColumn(column.unit, f"P10 of {name}: one run in ten is below", "neither")
            yield f"{name}_high", ResultColumn(column.unit, f"P90 of {name}: one run in ten is above", "neither")
        if name in BANDED_TERMS:
            for end, place in (("low", "P10"), ("high", "P90")):
                meaning = f"{place} of {name} by the residual of its kernels; bands of terms do not add up"
                yield f"{name}_{end}", ResultColumn(column.unit, meaning, "neither")


COLUMNS: dict[str, ResultColumn] = dict(_with_bands())


def machine_name(name: str) -> str:
    """The name of a column in machine output, with its unit as suffix."""
    return with_unit(name, COLUMNS[name].unit)
