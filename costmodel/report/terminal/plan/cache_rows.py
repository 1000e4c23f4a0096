"""What the layers of each kind keep of a sequence, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.estimate.model.cache_kinds import CacheKind
from costmodel.ground.units import counted, show_memory
from costmodel.report.terminal.style.layout import CellTable


def cache_rows(kinds: Sequence[CacheKind], columns: Sequence[str]) -> CellTable:
    """A row of each kind, and of several their sum; kinds without a share in a column have a dash there."""
    shown = list(kinds)
    if len(kinds) > 1:
        sums = tuple(map(sum, zip(*(kind.held for kind in kinds), strict=True)))
        shown.append(CacheKind("all", sum(kind.layers for kind in kinds), sums))
    rows = [(kind.name, counted(kind.layers), *map(_held, kind.held)) for kind in shown]
    return CellTable(("cache by layers", "layers", *columns), rows, "lr" + "r" * len(columns), indent="  ")


def _held(nbytes: float) -> str:
    return show_memory(nbytes) if nbytes else "—"
