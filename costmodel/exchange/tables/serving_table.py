"""Tables of measured serving runs and of engines' start-up logs: CSV, one a row, an empty cell where nothing is known.

A table is one of serving runs when it has a column that only these have, those of `MARKS`. Any other column is left
alone, and can still be selected by (`--where tier=core`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from costmodel.documents.keys.suggestions import nearest
from costmodel.documents.text.files import LARGEST_TABLE, digest, file_text
from costmodel.exchange.logs.benchmark_result import benchmark_results
from costmodel.exchange.logs.trainer_log import is_engine_start, start_as_table
from costmodel.exchange.tables.csv_cells import Column, CsvRow, read_sheet, repeated_column_faults, row_of
from costmodel.exchange.tables.run_table import Table
from costmodel.ground.errors import CostModelError, Fault, Place, fail
from costmodel.ground.record import record

COLUMNS: dict[str, Column] = {
    "id": Column("text", "name of the run; file and line if left out"),
    "source": Column("text", "where it was published"),
    "source_family": Column("text", "sources that are not independent share one; else the source"),
    "engine": Column("text", "vllm, sglang or trtllm, or the name of a stack"),
    "engine_version": Column("text", "its release"),
    "model": Column("text", "model: its name on the hub, or that of a document"),
    "gpu": Column("text", "accelerator: the name of its document, or one that explain D015 lists"),
    "gpus": Column("count", "accelerators of one replica"),
    "tp": Column("count", "tensor-parallel degree; of attention times dp_attention"),
    "pp": Column("count", "pipeline stages"),
    "dp_attention": Column("count", "groups that attend apart"),
    "ep": Column("count", "expert-parallel degree"),
    "precision": Column("text", "of the checkpoint: bf16, fp16, fp8, fp8_block, fp4 or int4"),
    "gemm_type": Column("text", "of the dense products, where known"),
    "expert_type": Column("text", "of the experts, where known"),
    "cache_type": Column("text", "of keys and values; else bf16"),
    "prompt": Column("count", "tokens of a prompt"),
    "output": Column("count", "tokens of an answer"),
    "length_share": Column("number", "real lengths over those stated, on average; else 1"),
    "length_spread": Column("number", "of both lengths: standard deviation over mean; else 0"),
    "concurrency": Column("count", "requests in flight of one replica"),
    "requests": Column("count", "in place of a concurrency: requests sent at once, until the last is answered"),
    "requests_per_s": Column("number", "requests answered a second by one replica"),
    "traffic": Column("text", "burst, as benchmarks that start all at once, or steady"),
    "ttft_s": Column("number", "measured mean time to the first token, s"),
    "tpot_s": Column("number", "measured mean time per token after the first, s"),
    "tokens_per_s_per_gpu": Column("number", "measured tokens generated a second by each accelerator"),
    "version": Column("text", "of a start-up log: engine_version"),
    "total_gib": Column("number", "of a start-up log: memory of the device as CUDA reports it, GiB"),
    "u": Column("number", "of a start-up log: the share of memory that the engine may take"),
    "max_model_len": Column("count", "of a start-up log: tokens of the longest request"),
    "max_num_batched_tokens": Column("count", "tokens of a step at most; else by the engine"),
    "max_num_seqs": Column("count", "of a start-up log: sequences of a step at most"),
    "weight_bytes_per_param": Column("text", "of a start-up log: 2 in 16 bits, 1 in fp8, mx of mxfp4 experts"),
    "kv_bytes": Column("text", "of a start-up log: 2 in 16 bits, 1 in fp8"),
    "log_kv_gib": Column("number", "of a start-up log: memory of a device for keys and values, GiB"),
    "log_kv_tokens": Column("count", "of a start-up log: tokens that the cache holds, where no GiB are stated"),
    "tier": Column("text", "core, or doubtful"),
    "doubt": Column("text", "why a row is doubtful"),
}
# Columns as benchmarks call them, with the column that each stands for and its unit in that of the column.
_MS = 1e-3
ALIASES: dict[str, tuple[str, float]] = {
    **dict.fromkeys(("ttft_ms", "mean_ttft_ms"), ("ttft_s", _MS)),
    **dict.fromkeys(("tpot_ms", "mean_tpot_ms"), ("tpot_s", _MS)),
    **dict.fromkeys(("isl", "input_len", "input_tokens", "prompt_tokens"), ("prompt", 1.0)),
    **dict.fromkeys(("osl", "output_len", "output_tokens", "answer_tokens"), ("output", 1.0)),
    **dict.fromkeys(("accelerator", "device"), ("gpu", 1.0)),
    "max_concurrency": ("concurrency", 1.0),
    "num_prompts": ("requests", 1.0),
    **dict.fromkeys(("max_num_tokens", "chunked_prefill_size"), ("max_num_batched_tokens", 1.0)),
    "framework": ("engine", 1.0),
    "tp_size": ("tp", 1.0),
}
MARKS = ("ttft_s", "tpot_s", "log_kv_gib")
LOGGED = "log_kv_gib"
OF_ALL = ("engine", "model", "gpu", "tp")
OF_RUNS = (*OF_ALL, "prompt", "output", "concurrency")
REPLACES = {"concurrency": "requests"}  # a column that may stand in place of another


@record
class ServingTable(Table):
    """The rows of one file of serving runs."""

    @property
    def known(self) -> Collection[str]:
        """The names of columns that tables of serving runs can have."""
        return COLUMNS


def is_serving(names: Collection[str]) -> bool:
    """Whether column names are those of a table of serving runs."""
    return any(name in MARKS or ALIASES.get(name.lower(), ("",))[0] in MARKS for name in names)


def read_serving_runs(path: str) -> ServingTable:
    """A table of serving runs, or the start-up log of an engine; all faults of its header are raised at once.

    Each row records its own faults.
    """
    text = file_text(path, largest=LARGEST_TABLE)
    if benchmark_results(text, path) is not None:
        hint = f"costmodel import {path} --as runs --config serve.sh --gpu NAME -o runs.csv makes a table"
        raise fail("D004", "results of a benchmark do not state the engine's plan and machine", Place(path), hint)
    found = read_sheet(path, start_as_table(text) if is_engine_start(text) else text, COLUMNS)
    names, renamed = _renamed_columns(found.names)
    faults = repeated_column_faults(found.place, names)
    for name in OF_ALL if LOGGED in names else OF_RUNS:
        if name not in names and REPLACES.get(name) not in names:
            close = nearest(name, [other for other in names if other not in COLUMNS], 0.7)
            hint = f"is it '{close}'?" if close else f"{name}: {COLUMNS[name].meaning}"
            faults.append(Fault("D004", f"the column '{name}' is missing", found.place, hint))
    if faults:
        raise CostModelError(*faults)
    scales = {ours: scale for ours, scale in map(ALIASES.__getitem__, map(str.lower, renamed)) if scale != 1}
    rows = tuple(_scaled_row(row_of(place, names, record, COLUMNS), scales) for place, record in found.records)
    if not rows:
        raise fail("D014", "the table has no rows", Place(path, found.place.line, 1), "write a run below its header")
    said = tuple((name, _renaming_words(name)) for name in renamed)
    return ServingTable(path, tuple(name for name in names if name), rows, digest(text), said)


def _renamed_columns(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns under costmodel's names, and the renamed ones; if both names occur, costmodel's counts."""
    other = [name for name in names if name.lower() in ALIASES and ALIASES[name.lower()][0] not in names]
    return [ALIASES[name.lower()][0] if name in other else name for name in names], other


def _renaming_words(name: str) -> str:
    """The description of how a renamed column is read."""
    ours, scale = ALIASES[name.lower()]
    return f"{ours}, from milliseconds" if scale == _MS else ours


def _scaled_row(row: CsvRow, scales: Mapping[str, float]) -> CsvRow:
    """A row with its cells converted to costmodel's units."""
    if not scales:
        return row
    return replace(row, cells={name: value * scales.get(name, 1) for name, value in row.cells.items()})
