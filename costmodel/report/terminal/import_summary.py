"""What `import` shows: the document, the origin of each value, what was left out, and measured rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.text import Text

from costmodel.exchange.foreign_models import loss_words
from costmodel.exchange.import_result import VERDICTS, Imported, Loss, LossKind
from costmodel.exchange.tables.run_table import COLUMNS
from costmodel.explore.import_export.import_file import ImportedFile, is_metadata, values_with_origins
from costmodel.explore.import_export.import_logs import ImportedResults, ImportedRun
from costmodel.ground.counts import number_of
from costmodel.ground.units import percent
from costmodel.report.terminal.layout import DIM, HEAD, WARN, CellTable, Line, schema_head, styled, unwrapped

_KINDS: tuple[LossKind, ...] = ("not expressible", "approximated", "ignored")
_WORDS = {
    "not expressible": "not in the document, and changes the cost",
    "approximated": "nearly in the document",
    "ignored": "changes no time, memory or cost",
}


def document_lines_of(read: ImportedFile) -> list[Line]:
    """The imported document as lines of YAML."""
    return [unwrapped(line) for line in read.text_of(None).splitlines()]


def summary(read: ImportedFile, written: Path | None) -> list[Line]:
    """What was read from a file and what was lost; the next command if a document was written."""
    found = read.found
    values = [
        (path, _plain_text(value), str(origin))
        for path, value, origin in values_with_origins(read)
        if not is_metadata(path)
    ]
    lines: list[Line] = [styled(f"{read.file}: {found.format}", HEAD), *_model_lines(read)]
    lines += [line for kind in _KINDS[:-1] for line in _losses(found, kind)]  # what matters comes first
    lines += [styled(f"  ▲ {fault.code} {fault.with_near_word}", WARN) for fault in found.warnings]
    lines += [styled(f"  ? {fault.sentence}: {fault.hint}", WARN) for fault in found.missing]
    lines += [Text(), CellTable(("key", "value", "from"), values, "kll")]
    lines += [*_keys_read(found), *_losses(found, _KINDS[-1])]
    if written is not None:
        verb = "estimate" if "model" in found.document else "memory"
        after = "fill in what is missing first" if found.missing else f"costmodel {verb} {written}"
        if list(found.document) == ["cluster"]:
            after = "replace the cluster of a scenario with it"
        lines += [Text(), unwrapped(f"Next: {after}")]
    return lines


def _model_lines(read: ImportedFile) -> list[Line]:
    if read.parameters is None:
        return []
    of = f", the shape of {read.twin} of the library" if read.twin else ""
    return [styled(f"{read.parameters:,.0f} parameters{of}")]


def _plain_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "[" + ", ".join(map(str, value)) + "]" if isinstance(value, list) else str(value)


def _keys_read(found: Imported | ImportedResults) -> list[Line]:
    """The keys that were read, in few lines."""
    names = [key.name for key in found.keys if key.verdict == "read"]
    return [styled("  read: in the document", HEAD), styled(f"    {', '.join(names)}", DIM)] if names else []


def _losses(found: Imported | ImportedResults, kind: LossKind) -> list[Line]:
    """Lines on the losses of one class; ignored keys without a reason share a line."""
    losses = [loss for loss in found.losses if loss.kind == kind]
    sentences = [loss.sentence for loss in losses]
    stated = " ".join(sentences)
    named = [key for key in found.keys if key.verdict == VERDICTS[kind] and key.name not in stated]
    title = styled(f"  {VERDICTS[kind]}: {_WORDS[kind]}", HEAD)
    if not (losses or named):
        return []
    if kind == "ignored":
        reasoned = [each for each in sentences if ": " in each]
        plain = [*(each for each in sentences if ": " not in each), *(key.name for key in named)]
        rows_below = [*([", ".join(plain)] if plain else []), *reasoned]
        return [title, *(styled(f"    {row}", DIM) for row in rows_below)]
    losses += [Loss(kind, f"{key.name}: not known", key.place) for key in named]
    places = [f"{loss.place.file}:{loss.place.line}" if loss.place and loss.place.line else "" for loss in losses]
    rows = [(place, loss_words(loss).removeprefix(f"{kind}: ")) for place, loss in zip(places, losses, strict=True)]
    return [title, CellTable(("", ""), rows, "kl", headed=False, indent="    ", style=WARN)]


def import_json(read: ImportedFile, document_tree: Any) -> dict[str, Any]:
    """An imported document as plain values: origin of each value, losses by class, warnings, what is missing."""
    found = read.found
    return {
        **schema_head("costmodel/import/v1"),
        "file": read.file,
        "format": found.format,
        "parameters": None if read.parameters is None else int(read.parameters),
        "library_model": read.twin or None,
        "document": document_tree,
        "origins": [
            {
                "path": path,
                "kind": origin.kind,
                "text": origin.text,
                "line": (origin.place.line or None) if origin.place else None,
            }
            for path, _, origin in values_with_origins(read)
        ],
        "losses": [
            {"kind": loss.kind, "sentence": loss.sentence, "line": loss.place.line if loss.place else None}
            for loss in found.losses
        ],
        "keys": _key_fields(found),
        "warnings": [{"code": fault.code, "sentence": fault.sentence} for fault in found.warnings],
        "missing": [{"code": fault.code, "sentence": fault.sentence, "help": fault.hint} for fault in found.missing],
    }


def _key_fields(found: Imported | ImportedResults) -> list[dict[str, Any]]:
    return [
        {"key": key.name, "verdict": key.verdict, "line": key.place.line if key.place else None} for key in found.keys
    ]


def run_summary(found: ImportedRun) -> list[Line]:
    """What was read from a log, and which columns are still missing."""
    run = found.run
    lines = f"{number_of(run.lines, 'line')} after the warm-up cover {run.steps} steps, the last {run.last}"
    cells = [(name, _cell_text(value), COLUMNS[name].meaning) for name, value in found.row.items()]
    stated: list[Line] = [
        styled(f"{found.file}: log of {run.format}", HEAD),
        unwrapped(f"{lines}; the slowest takes {percent(run.spread)} longer than the fastest"),
        *([unwrapped(run.remark)] if run.remark else []),
        Text(),
        CellTable(("column", "value", ""), cells, "kll"),
    ]
    stated += [styled(f"  ▲ {fault.code} {fault.with_near_word}", WARN) for fault in found.warnings]
    if found.open:
        names = ", ".join(found.open)
        stated.append(styled(f"  ? neither the log nor a file beside it states {names}: --config train.sh", WARN))
    return [*stated, Text(), unwrapped("With -o runs.csv a table. Next: costmodel validate runs.csv")]


def _cell_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.6g}" if isinstance(value, float) else str(value)


def results_summary(found: ImportedResults) -> list[Line]:
    """The rows read from a benchmark's results, and which columns are still missing."""
    names = list(dict.fromkeys(name for row in found.rows for name in row if name not in ("id", "source")))
    cells = [tuple(_cell_text(row.get(name, "")) for name in names) for row in found.rows]
    stated: list[Line] = [
        styled(f"{found.file}: {number_of(len(found.rows), 'result')} of {found.program}", HEAD),
        *map(unwrapped, found.remarks),
        Text(),
        CellTable(tuple(names), cells, "l" * len(names)),
        *_keys_read(found),
        *(line for kind in _KINDS for line in _losses(found, kind)),
    ]
    if found.open:
        sentence = (
            f"neither the results nor a file beside them state {', '.join(found.open)}: --config serve.sh --gpu NAME"
        )
        stated.append(styled(f"  ? {sentence}", WARN))
    return [*stated, Text(), unwrapped("With -o runs.csv a table. Next: costmodel validate runs.csv")]


def results_json(found: ImportedResults) -> dict[str, Any]:
    """The rows under the names of a table of serving runs."""
    return {
        **schema_head("costmodel/import-runs/v1"),
        "file": found.file,
        "format": found.program,
        "runs": list(found.rows),
        "remarks": list(found.remarks),
        "keys": _key_fields(found),
        "open": list(found.open),
    }


def run_json(found: ImportedRun) -> dict[str, Any]:
    """The row under the names of a table of measured runs, and how it came about."""
    run = found.run
    return {
        **schema_head("costmodel/import-runs/v1"),
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
