"""Tables of serving runs with the columns and units of benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.exchange.tables.serving_table import ALIASES, COLUMNS, is_serving, read_serving_runs
from costmodel.ground.errors import CostModelError

HEADER = "engine,model,accelerator,tp,ISL,osl,max_concurrency,ttft_ms,tpot_ms"
RUN = "vllm,meta-llama/Llama-3.1-70B-Instruct,h100-sxm,8,2048,512,64,420,24.5"


def test_columns_of_benchmarks_are_read_in_our_units(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(f"{HEADER}\n{RUN}\n", "utf-8")
    assert is_serving(HEADER.split(","))
    found = read_serving_runs(str(path))
    (row,) = found.rows
    assert row.text("gpu") == "h100-sxm"
    assert [row.number(name) for name in ("prompt", "output", "concurrency")] == [2048, 512, 64]
    assert (row.number("ttft_s"), row.number("tpot_s")) == (pytest.approx(0.42), pytest.approx(0.0245))
    assert ("ttft_ms", "ttft_s, from milliseconds") in found.renamed
    assert ("ISL", "prompt") in found.renamed


def test_a_column_of_ours_counts_more_than_one_of_another_name(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(f"{HEADER},tpot_s\n{RUN},0.02\n", "utf-8")
    found = read_serving_runs(str(path))
    assert found.rows[0].number("tpot_s") == 0.02
    assert "tpot_ms" not in dict(found.renamed)
    path.write_text(f"{HEADER},mean_tpot_ms\n{RUN},20\n", "utf-8")
    with pytest.raises(CostModelError, match="D005"):
        read_serving_runs(str(path))


def test_every_name_of_others_stands_for_a_column() -> None:
    assert {ours for ours, _ in ALIASES.values()} <= COLUMNS.keys()
    assert not ALIASES.keys() & COLUMNS.keys()
