"""Rows that differ in sizes alone are one block of plans, and each is predicted as if it were alone."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from costmodel.evidence.validate import modelled_rows
from costmodel.evidence.validate.outcomes import Compared
from costmodel.evidence.validate.validate import validated
from evidence.validate.runs_of_22b import MIXTRAL, table

LLAMA = {
    "year": 2025,
    "framework": "Megatron-Core",
    "model_name": "Llama-2-70B",
    "layers": 80,
    "hidden": 8192,
    "ffn": 28672,
    "heads": 64,
    "kv_heads": 8,
    "head_dim": 128,
    "vocab": 32000,
    "glu": "true",
    "tied_embeddings": "false",
    "seq_len": 4096,
    "gpu": "H100",
    "accelerator": "h100-sxm",
    "gpus": 64,
    "tp": 8,
    "pp": 4,
    "global_batch": 128,
    "micro_batch": 1,
    "zero_stage": 1,
    "seq_parallel": "true",
    "recompute": "full",
    "precision": "bf16",
    "nic_gbps_per_gpu": 400,
    "step_time_s": 20,
}
MEASURED: dict[str, dict[str, Any]] = {
    "time": {},
    "rate": {"step_time_s": "", "tokens_per_s_per_gpu": 400},
    "FLOP": {"step_time_s": "", "mfu": 40, "flops_convention": "6N"},
    "memory": {"peak_mem_gb": 50, "mem_metric": "max_allocated", "value_gb": "", "scope": "pp_stage 0/4"},
}


def sizes(name: str, *values: float) -> list[dict[str, float]]:
    return [{name: value} for value in values]


def alone_and_together(folder: Path, rows: list[dict[str, Any]], quantity: Any) -> tuple[list[Compared], ...]:
    """The figures of the same rows, each in a table of its own, and all in one."""
    named = [row | {"id": str(place)} for place, row in enumerate(rows)]
    alone = [validated([table(folder, row)], quantity=quantity)[0].figures[0] for row in named]
    return alone, validated([table(folder, *named)], quantity=quantity)[0].figures


@pytest.mark.share(3)
@pytest.mark.parametrize("measured", MEASURED)
@pytest.mark.parametrize("base", [LLAMA, LLAMA | {"vp": "", "micro_batch": ""}, MIXTRAL], ids=["dense", "open", "moe"])
def test_a_row_is_predicted_as_if_it_were_alone(base: dict[str, Any], measured: str, tmp_path: Path) -> None:
    """Of sizes, columns of the inputs, and rows that break a rule or cannot be read between them.

    A share of models with figures, unless --whole asks for all.
    """
    varied = [*sizes("global_batch", 128, 256, 512), *sizes("seq_len", 2048, 8192), *sizes("gpus", 128, 32)]
    varied += [
        {"tp": 4},
        {"pp": 2, "gpus": 128},
        {"micro_batch": "", "grad_accum": 3},
        {"global_batch": 101},
        {"layers": 40},
        {"gpus": 96, "tp": 24},
    ]
    quantity = "memory" if measured == "memory" else "time"
    alone, together = alone_and_together(tmp_path, [base | MEASURED[measured] | cells for cells in varied], quantity)
    assert sum(figure.error is not None for figure in alone) > 6
    assert sum(figure.refused is not None for figure in alone) > 1
    assert together == alone


def test_a_refused_first_row_lends_its_sizes_to_no_other(tmp_path: Path) -> None:
    """The inputs are those of the first row, which breaks a rule; all others differ from it, and not among them."""
    rows = [LLAMA | {"global_batch": 101, "seq_len": 2048, "gpus": 128}, LLAMA | {"tp": 4}, LLAMA]
    alone, together = alone_and_together(tmp_path, rows, "time")
    assert [figure.refused for figure in alone] == ["V007", None, None]
    assert together == alone


def test_rows_of_one_structure_are_evaluated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """400 runs of one model on one machine: their batches, sequences, nodes and degrees are columns of one block."""
    blocks: list[int] = []
    evaluate = modelled_rows.evaluate

    def counted(inputs: Any, block: Any) -> Any:
        blocks.append(len(block))
        return evaluate(inputs, block)

    monkeypatch.setattr(modelled_rows, "evaluate", counted)
    grid = itertools.product((128, 256, 384, 512, 768), (2048, 4096, 6144, 8192), (64, 128, 256, 512, 1024), (2, 4, 8))
    rows = [
        LLAMA | {"id": f"{place}", "global_batch": batch, "seq_len": sequence, "gpus": gpus, "tp": tp}
        for place, (batch, sequence, gpus, tp) in enumerate(grid)
    ]
    (found,) = validated([table(tmp_path, *rows)])
    assert len(blocks) == 1
    assert blocks[0] == sum(figure.error is not None for figure in found.figures) > 250


def test_learned_positions_and_parts_of_racks_are_no_columns(tmp_path: Path) -> None:
    """The table of learned positions has as many rows as the sequence; few nodes use a part of a rack."""
    rows = [{"seq_len": length, "global_batch": 8} for length in (1024, 2048, 4096)]
    racks = [
        LLAMA | {"gpu": "GB200", "accelerator": "gb200", "gpus": gpus, "gpus_per_node": 4, "tp": 4, "pp": 1}
        for gpus in (8, 16, 64, 128)
    ]
    alone, together = alone_and_together(tmp_path, [*rows, *racks], "memory")
    assert together == alone
    alone, together = alone_and_together(tmp_path, [*rows, *racks], "time")
    assert together == alone
    assert all(figure.refused is None for figure in alone)
