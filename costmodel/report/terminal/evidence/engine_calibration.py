"""Constants of a serving engine before and after the user's own runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.text import Text

from costmodel.evidence.calibrate.engine_constants import EngineFit, written
from costmodel.report.terminal.search.reasons import mistaken, not_modelled
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import styled


def refinement(found: EngineFit, files: Iterable[Path]) -> list[Line]:
    """Each constant, the errors before and after, and the files written."""
    shown = sum(constant.identified for constant in found.constants)
    lines: list[Line] = [
        styled(f"{shown} of {len(found.constants)} constants of the engine identified by {found.runs} runs"),
        Text(),
    ]
    rows = [
        (
            f"{constant.engine} {constant.leaf.name}",
            written(constant.leaf, constant.prior),
            written(constant.leaf, constant.value) if constant.identified else "as prior",
            f"{constant.spread:.0%}" if constant.identified else "",
        )
        for constant in found.constants
    ]
    lines.append(CellTable(("constant", "prior", "fitted", "known to"), rows, "lrrr"))
    errors = [(name, f"{value:.1%}", f"{found.after[name]:.1%}") for name, value in found.before.items()]
    lines += [Text(), CellTable(("median error", "as shipped", "fitted"), errors, "lrr")]
    if found.left:
        lines += [Text(), *not_modelled(found.left)]
    return [*lines, *mistaken(found.tables), *(styled(f"wrote {path}") for path in files)]


def refinement_json(found: EngineFit, files: Iterable[Path]) -> dict[str, Any]:
    """The same as plain values."""
    return {
        **head("costmodel/calibration/v1"),
        "tables": [table.file for table in found.tables],
        "rows": found.runs + len(found.left),
        "modelled": found.runs,
        "constants": [
            {
                "name": f"{constant.engine} {constant.leaf.name}",
                "documents": [constant.engine],
                "leaf": constant.leaf.name,
                "prior": constant.prior,
                "value": constant.value,
                "spread": constant.spread,
                "prior_spread": constant.leaf.spread,
                "scale": "log",
                "resolved": constant.identified,
            }
            for constant in found.constants
        ],
        "errors": {"shipped": dict(found.before), "in_sample": dict(found.after)},
        "refused": [{"id": left.run, "refused": left.refused, "why": left.why} for left in found.left],
        "written": [str(path) for path in files],
    }
