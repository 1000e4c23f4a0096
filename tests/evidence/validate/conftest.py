"""A row of a table of measured runs with other cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.exchange.tables.run_table import read_table
from evidence.validate.runs_of_22b import (
    EMPTY,
    SELECTIVE,
    table,
)


@pytest.fixture
def row(tmp_path: Path) -> Any:
    """`row(cell=…)` is the base row with other cells."""
    return lambda **cells: read_table(table(tmp_path, cells)).rows[0]


@pytest.fixture
def runs(tmp_path: Path) -> str:
    refused = {"id": "fp8", "precision": "fp8", "tier": "bulk"}
    filled = {"id": "filled", "micro_batch": EMPTY, "tier": "core", "source": "another", "source_family": EMPTY}
    return table(tmp_path, {"tier": "core"}, {**SELECTIVE, "tier": "core"}, refused, filled)
