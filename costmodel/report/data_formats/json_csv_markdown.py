"""An answer as JSON, JSON Lines, CSV or Markdown."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from costmodel.documents.text.digest import sealed
from costmodel.ground.errors import fail
from costmodel.ground.parsing import late_pattern
from costmodel.report.terminal.layout import (
    HEAD,
    CellTable,
    Line,
    Reply,
    WidthDrawing,
    lines_of_length,
    safe_text,
    visible_text,
)

READ_AGAIN = {"costmodel/result/v1", "costmodel/search/v2", "costmodel/baseline/v1"}  # schemas of files with a digest
_SPECIAL = late_pattern(r"([\\`*_\[\]<>|~#])")
_FORMULA = late_pattern(r"\s*[=+\-@＝＋－＠]")  # what a spreadsheet takes a cell for that begins so
_NUMBER = late_pattern(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_EXACT = 2**53  # whole numbers up to here are the same as floats


def json_value(value: Any) -> Any:
    """A value as JSON has it: harmless text, whole numbers without a decimal point."""
    if isinstance(value, str):
        return safe_text(value)
    if isinstance(value, Mapping):
        return {safe_text(str(key)): json_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(inner) for inner in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    return value


def json_text(result: Mapping[str, Any]) -> str:
    """A result as JSON text, with a digest if costmodel can read it again."""
    plain = json_value(result)
    plain = sealed(plain) if plain.get("schema") in READ_AGAIN else plain
    return json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def jsonl_text(reply: Reply) -> str:
    """The table as JSON Lines, one row per line."""
    return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in json_value(table_rows(reply)))


def table_rows(reply: Reply) -> list[dict[str, Any]]:
    """The table of an answer; a fault where it has none."""
    if not reply.rows:
        raise fail("C007", "this answer has no table of rows", None, "take --format json, or markdown")
    here: Any = reply.result()
    for part in reply.rows.split("."):
        here = here[part]
    return list(here)


def csv_text(reply: Reply) -> str:
    """The table of an answer as CSV: a line of names, then one line per row."""
    rows = [flat for row in json_value(table_rows(reply)) for flat in _flat_rows(row)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    names = names or [column["name"] for column in reply.result().get("columns", [])]
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(map(_csv_cell, names))
    writer.writerows([_csv_cell(row.get(name, "")) for name in names] for row in rows)
    return written.getvalue()


def _csv_cell(value: Any) -> Any:
    """A CSV cell: text that a spreadsheet would take for a formula gets an apostrophe in front."""
    if isinstance(value, bool):
        return str(value).lower()
    text = isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    return f"'{value}" if text else value


def _flat_rows(row: dict[str, Any], before: str = "") -> list[dict[str, Any]]:
    """Rows without nested values: keys joined by dots; a list of mappings becomes several rows."""
    rows: list[dict[str, Any]] = [{}]
    for name, value in row.items():
        if value and isinstance(value, list) and all(isinstance(item, dict) for item in value):
            inner = [flat for item in value for flat in _flat_rows(item)]
        elif isinstance(value, list):
            inner = [{f"{before}{name}": f"[{', '.join(map(str, value))}]" if value else ""}]
        elif isinstance(value, dict):
            inner = _flat_rows(value, f"{before}{name}.")
        else:
            inner = [{f"{before}{name}": value}]
        rows = [{**outer, **more} for outer in rows for more in inner or [{}]]
    return rows


def common_facts(reply: Reply) -> dict[str, str]:
    """Facts that are equal in all rows of an answer."""
    rows = json_value(table_rows(reply)) if reply.rows else []
    stated: dict[str, str] = {}
    for name in ("model", "nodes", "cluster", "sequence", "global_batch"):
        values = {row.get(name) for row in rows}
        if len(values) == 1 and None not in values:
            stated[name] = str(*values)
    nodes = stated.pop("nodes", "")
    if nodes and "cluster" in stated:
        stated["cluster"] = f"{nodes} × {stated['cluster']}"
    return stated


def markdown_text(items: Iterable[Line], facts: Mapping[str, str] | None = None) -> str:
    """An answer as Markdown: tables, paragraphs, and code blocks for figures and commands.

    facts: the identifying columns of every named table, ahead of its results
    """
    parts = list(_markdown_parts(items, facts or {}))
    return "\n".join(parts[1:] if parts and not parts[0] else parts) + "\n"


def _markdown_parts(items: Iterable[Line], facts: Mapping[str, str]) -> Iterator[str]:
    """The Markdown of an answer, part by part."""
    fence: list[str] = []
    for item in lines_of_length(items):
        if isinstance(item, WidthDrawing) or (isinstance(item, Text) and item.no_wrap):
            fence += [visible_text(line.plain) for line in ([item] if isinstance(item, Text) else item.lines())]
            continue
        yield from _fenced_lines(fence)
        fence = []
        if isinstance(item, CellTable):
            yield from ["", *_markdown_table(item, facts if any(item.names) else {})]
            words = item.legend_words(range(len(item.names)))
            yield from ["", _escape_markdown(words)] if words else []
        elif item.plain.strip():
            words = _escape_markdown(item.plain)
            yield from ["", f"**{words}**" if item.style == HEAD else words]
    yield from _fenced_lines(fence)


def _fenced_lines(lines: Sequence[str]) -> Iterator[str]:
    """Lines as a code block of Markdown."""
    if any(line.strip() for line in lines):
        longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
        fence = "`" * max(3, longest + 1)
        yield from ["", fence, *lines, fence]


def _markdown_table(grid: CellTable, facts: Mapping[str, str]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield f"| {' | '.join(map(_escape_markdown, (*facts, *grid.names)))} |"
    yield f"| {' | '.join('---:' if side == 'r' else '---' for side in 'l' * len(facts) + grid.align)} |"
    for row in grid.rows:
        if {*"".join(row)} != {"─"}:  # the rule over a sum
            yield f"| {' | '.join(map(_escape_markdown, (*facts.values(), *row)))} |"


def _escape_markdown(cell: str) -> str:
    """The text of a cell with characters escaped that Markdown would take for a table or emphasis."""
    return _SPECIAL.sub(r"\\\1", " ".join(visible_text(cell).split()))
