"""Runs that known constants would have given."""

from __future__ import annotations

import csv

import pytest

from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.run_table import read_table
from evidence.calibrate.planted_runs import FOLDER, SIZES


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[CsvRow]:
    """Runs on one node from host-bound to compute-bound, in two families."""
    with (FOLDER / "mine.csv").open() as file:
        base = next(iter(csv.DictReader(file)))
    path = tmp_path_factory.mktemp("runs") / "sizes.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(base))
        writer.writeheader()
        for place, (layers, hidden, size) in enumerate(SIZES):
            shape = {"layers": layers, "hidden": hidden, "ffn": 4 * hidden, "head_dim": hidden // 64}
            batch = {"micro_batch": size, "global_batch": 4 * size, "source_family": f"family-{place % 2}"}
            writer.writerow({**base, **shape, **batch, "id": f"run-{place}", "step_time_s": 1.0})
    return list(read_table(str(path)).rows)
