"""A log as a measured run: its figures, its layout, and what stands in neither."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from costmodel.exchange.tables.run_table import COLUMNS
from costmodel.explore.import_runs import ImportedRun
from costmodel.ground.units import percent
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.layout import CellTable, Line, drawn
from costmodel.report.terminal.style.theme import HEAD, WARN, styled


def summary(found: ImportedRun) -> list[Line]:
    """What was read of a log, and what is open."""
    run = found.run
    lines = f"lines behind the warm-up: {run.lines}, which cover {run.steps} steps up to step {run.last}"
    cells = [(name, _plain(value), COLUMNS[name].meaning) for name, value in found.row.items()]
    stated: list[Line] = [
        styled(f"{found.file}: log of {run.format}", HEAD),
        drawn(f"{lines}; they differ by {percent(run.spread)}"),
        *([drawn(run.remark)] if run.remark else []),
        Text(),
        CellTable(("column", "value", ""), cells, "kll"),
    ]
    stated += [styled(f"  ▲ {fault.code} {fault.with_near_word}", WARN) for fault in found.warnings]
    if found.open:
        names = ", ".join(found.open)
        stated.append(styled(f"  ? neither the log nor a file beside it states {names}: --config train.sh", WARN))
    return [*stated, Text(), drawn("With -o runs.csv a table. Next: costmodel validate runs.csv")]


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.6g}" if isinstance(value, float) else str(value)


def as_json(found: ImportedRun) -> dict[str, Any]:
    """The row under the names of a table of measured runs, and how it came about."""
    run = found.run
    return {
        **head("costmodel/import-runs/v1"),
        "file": found.file,
        "format": run.format,
        "runs": [found.row],
        "lines": run.lines,
        "steps": run.steps,
        "spread": run.spread,
        "remark": run.remark,
        "open": list(found.open),
        "warnings": [{"code": fault.code, "sentence": fault.sentence} for fault in found.warnings],
    }
