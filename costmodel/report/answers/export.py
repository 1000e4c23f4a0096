"""The answer of `export`: a plan as a launch file or an engine command, with its origin at the head."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.text import Text

from costmodel.exchange.option_rows import comment_lines
from costmodel.explore.import_export.export_plan import ExportedIteration, ExportedPlan
from costmodel.explore.import_export.export_serving import ExportedEngine
from costmodel.report.document import AnswerDocument, Section
from costmodel.report.terminal.layout import BAD, DIM, WARN, Line, schema_head, shell_line, styled, unwrapped
from costmodel.report.workload_words import words_of

AnyExport = ExportedPlan | ExportedEngine | ExportedIteration


def export_document(exported: AnyExport, *, lossy: bool) -> AnswerDocument:
    """The exported file as text, or the keys that the format cannot express."""
    refused = bool(exported.file.faults) and not lossy
    lines = _refusal_lines(exported) if refused else [unwrapped(line) for line in file_text(exported).splitlines()]
    conclusion = "The format does not express every key." if exported.file.faults else "The file states the plan."
    return AnswerDocument(
        None,
        f"{exported.job.file} for {exported.file.target.full_name}",
        [],
        conclusion,
        "bad" if refused else "plain",
        [Section("file", "The file", beneath=lines, apart=False)],
    )


def file_text(exported: AnyExport) -> str:
    """The text of the exported file, with its origin as comments at the head if the format has comments."""
    target = exported.file.target
    if not target.comment:
        return exported.file.text
    first, newline, rest = exported.file.text.partition("\n")
    comments = "".join(f"{line}\n" for words in _head_texts(exported) for line in comment_lines(target.comment, words))
    return f"{first}{newline}{comments}{rest}" if first.startswith("#!") else f"{comments}{exported.file.text}"


def export_summary(exported: AnyExport, written: Path | None) -> list[Line]:
    """Lines on the written file, on what it cannot express, and the next command."""
    if written is None:
        return _refusal_lines(exported)
    lines = [styled(line, DIM) for line in _head_texts(exported)]
    return [*lines, Text(), shell_line("Next:", f"costmodel import {written}{_import_options(exported)}")]


def _import_options(exported: AnyExport) -> str:
    """Options that `import` needs to read the file back: the machine, and for some formats the model and the load."""
    node = exported.answer.inputs.case.scenario.cluster.node
    given = [f"--node {node}"] if isinstance(node, str) else []
    return "".join(f" {text}" for text in (*given, *exported.given))


def _head_texts(exported: AnyExport) -> Iterator[str]:
    """The comments at the head of the file: its origin, missing keys, and whether reading back gives the same plan."""
    target = exported.file.target
    yield f"Written by costmodel export from {exported.job.file}: {target.full_name}"
    yield from exported.described(words_of(exported.answer.inputs.case.kind).result)
    yield from (f"cannot be written: {fault.sentence}" for fault in exported.file.faults)
    yield from exported.file.notes
    if not exported.file.faults:
        yield "read back: the same plan"


def _refusal_lines(exported: AnyExport) -> list[Line]:
    """Lines on the keys because of which no file was written."""
    lines: list[Line] = [styled(f"{exported.file.target.full_name}: nothing written", BAD)]
    for fault in exported.file.faults:
        lines.append(styled(f"  ▲ {fault.code} {fault.sentence}", WARN))
        lines += [styled(f"    {fault.hint}", DIM)] if fault.hint else []
    remedies = any(fault.hint.startswith("--set plan.") for fault in exported.file.faults)
    best = "; with --rank 1 beside --set, a search finds the other keys" if remedies else ""
    return [*lines, unwrapped(f"--lossy writes the rest{best}")]


def export_json(exported: AnyExport) -> dict[str, Any]:
    """The export as plain values: text, version, keys that the format cannot express, and notes."""
    target = exported.file.target
    return {
        **schema_head("costmodel/export/v1"),
        "scenario": exported.job.file,
        "format": target.name,
        "version": target.version,
        "text": file_text(exported),
        "cannot_say": [
            {"code": fault.code, "path": fault.place.path if fault.place else "", "sentence": fault.sentence}
            for fault in exported.file.faults
        ],
        "notes": list(exported.file.notes),
    }
