"""What of tables of measured runs was not modelled or not used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from costmodel.evidence.validate.spelling import REASONS, SkippedRow
from costmodel.exchange.tables.run_table import Table
from costmodel.report.terminal.layout import DIM, WARN, styled


def titled(code: str) -> str:
    """The code of a reason with its title."""
    return f"{code} {REASONS[code].title}" if code in REASONS else code


def not_modelled(left: Iterable[SkippedRow]) -> Iterator[Text]:
    """A line for each reason to skip runs of measured tables, with its first run and a count."""
    runs: dict[str, list[SkippedRow]] = {}
    for first in left:
        runs.setdefault(first.refused, []).append(first)
    for code, (first, *rest) in sorted(runs.items()):
        also = f" and {len(rest)} more" if rest else ""
        yield styled(f"not modelled: {titled(code)}: {first.run}{also}: {first.why}", DIM)


def mistaken(tables: Iterable[Table]) -> Iterator[Text]:
    """Lines on columns read under another name, and on unused columns that look misspelt."""
    for table in tables:
        for name, meant in table.renamed:
            yield styled(f"{table.file}: the column '{name}' is read as {meant}", DIM)
        for name, meant in table.mistaken.items():
            yield styled(f"{table.file}: the column '{name}' is not used; is it '{meant}'?", WARN)
