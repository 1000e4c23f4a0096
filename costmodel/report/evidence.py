"""Predicted beside measured."""

from __future__ import annotations

import statistics
from typing import Any

from rich.text import Text

import costmodel
from costmodel.estimate.costs import COLUMNS
from costmodel.explore.validate import Compared, Validated
from costmodel.report.theme import BAD, HEAD, columns, styled
from costmodel.units import show


def validation(found: list[Validated]) -> list[Text]:
    """Every figure of every table, and how far off they are together."""
    lines: list[Text] = []
    for table, figures in found:
        lines.append(styled(f"{table.title}  [{table.source.key}, {table.source.where}]", HEAD))
        rows = [("run", "measured", "ours", "error", "")]
        rows += [_row(figure) for figure in figures]
        for line, figure in zip(columns(rows, right=[False, True, True, True, False]), [None, *figures], strict=True):
            lines.append(styled(line, BAD if figure is not None and not figure.within else ""))
    errors = [abs(figure.error) for _, figures in found for figure in figures]
    summary = f"{len(errors)} figures: median |error| {statistics.median(errors):.1%}, worst {max(errors):.1%}"
    return [*lines, Text(), styled(summary)]


def _row(figure: Compared) -> tuple[str, str, str, str, str]:
    bound = "" if figure.tolerance is None else f"{'✓' if figure.within else '✗'} {figure.tolerance:.0%}"
    unit = COLUMNS[figure.quantity].unit
    measured, predicted = show(figure.measured, unit, 4), show(figure.predicted, unit, 4)
    return figure.run, measured, predicted, f"{figure.error:+.1%}", bound


def validation_json(found: list[Validated]) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "schema": "costmodel/validation/v1",
        "costmodel": costmodel.__version__,
        "rows": [
            {
                "id": f"{table.name}/{figure.run}",
                "quantity": figure.quantity,
                "measured": float(figure.measured),
                "predicted": figure.predicted,
                "error": figure.error,
                "within": figure.within,
            }
            for table, figures in found
            for figure in figures
        ],
    }
