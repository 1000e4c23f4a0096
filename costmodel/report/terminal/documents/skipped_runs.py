"""What of tables of measured runs was not modelled or not used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from costmodel.evidence.validate.spelling import REASONS, SkippedRow
from costmodel.exchange.tables.run_table import Table
from costmodel.report.terminal.style.layout import DIM, WARN, styled


def titled(code: str) -> str:
    """A reason with its title."""
    return f"{code} {REASONS[code].title}" if code in REASONS else code


def not_modelled(left: Iterable[SkippedRow]) -> Iterator[Text]:
    """Lines on skipped runs: each reason with its first run."""
    runs: dict[str, list[SkippedRow]] = {}
    for one in left:
        runs.setdefault(one.refused, []).append(one)
    for code, (one, *others) in sorted(runs.items()):
        also = f" and {len(others)} more" if others else ""
        yield styled(f"not modelled: {titled(code)}: {one.run}{also}: {one.why}", DIM)


def mistaken(tables: Iterable[Table]) -> Iterator[Text]:
    """Columns read under another name, and unused columns that look like misspelt ones."""
    for table in tables:
        for name, meant in table.renamed:
            yield styled(f"{table.file}: the column '{name}' is read as {meant}", DIM)
        for name, meant in table.mistaken.items():
            yield styled(f"{table.file}: the column '{name}' is not used; is it '{meant}'?", WARN)
