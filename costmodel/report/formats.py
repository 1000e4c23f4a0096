"""The same answer as JSON, CSV or Markdown."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.text import Text

from costmodel.errors import fail
from costmodel.report.layout import Drawing, Grid, Line
from costmodel.report.reply import Reply
from costmodel.report.theme import HEAD

_SPECIAL = re.compile(r"([\\`*_\[\]<>|])")


def json_text(result: dict[str, Any]) -> str:
    """JSON as it is written."""
    return json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def csv_text(reply: Reply) -> str:
    """The table of an answer: a line of names, then a row an entry; what is in no row is not written."""
    if not reply.rows:
        raise fail("C007", "this answer has no table that CSV could hold", None, "take --format json, or markdown")
    result = reply.result()
    here: Any = result
    for part in reply.rows.split("."):
        here = here[part]
    rows = [flat for row in here for flat in _flat(row)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    names = names or [column["name"] for column in result.get("columns", [])]
    written = io.StringIO()
    writer = csv.DictWriter(written, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


def _flat(row: dict[str, Any], before: str = "") -> list[dict[str, Any]]:
    """A row without anything nested: keys joined by dots; a list of mappings repeats it, any other is one cell."""
    rows: list[dict[str, Any]] = [{}]
    for name, value in row.items():
        if value and isinstance(value, list) and all(isinstance(item, dict) for item in value):
            inner = [flat for item in value for flat in _flat(item)]
        elif isinstance(value, list):
            inner = [{f"{before}{name}": f"[{', '.join(map(str, value))}]" if value else ""}]
        elif isinstance(value, dict):
            inner = _flat(value, f"{before}{name}.")
        else:
            inner = [{f"{before}{name}": str(value).lower() if isinstance(value, bool) else value}]
        rows = [{**outer, **more} for outer in rows for more in inner or [{}]]
    return rows


def markdown_text(items: Iterable[Line]) -> str:
    """Tables as GitHub writes them, lines as paragraphs, figures and commands as they are."""
    parts = list(_parts(items))
    return "\n".join(parts[1:] if parts and not parts[0] else parts) + "\n"


def _parts(items: Iterable[Line]) -> Iterator[str]:
    fence: list[str] = []
    for item in items:
        if isinstance(item, Drawing) or (isinstance(item, Text) and item.no_wrap):
            fence += [item.plain] if isinstance(item, Text) else [line.plain for line in item.lines()]
            continue
        yield from _fenced(fence)
        fence = []
        if isinstance(item, Grid):
            yield from ["", *_table(item)]
        elif item.plain.strip():
            words = _escaped(item.plain)
            yield from ["", f"**{words}**" if item.style == HEAD else words]
    yield from _fenced(fence)


def _fenced(lines: Sequence[str]) -> Iterator[str]:
    if any(line.strip() for line in lines):
        yield from ["", "```", *lines, "```"]


def _table(grid: Grid) -> Iterator[str]:
    yield f"| {' | '.join(map(_escaped, grid.names))} |"
    yield f"| {' | '.join('---:' if side == 'r' else '---' for side in grid.align)} |"
    for row in grid.rows:
        yield f"| {' | '.join(map(_escaped, row))} |"


def _escaped(cell: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(cell.split()))
