"""Tables of measured runs: CSV, one run per row, an empty cell for an unknown value.

`COLUMNS` lists every column that is used, with its kind and meaning. Any other column is ignored, but `--where
tier=core` can select by it. A table must have the columns of `REQUIRED`, one for the accelerator, one for a measured
quantity, and names of shipped models or the columns of `SHAPE`. Other names of columns are in `ALIASES`; case does not
matter. A column may be named as a key of a scenario, `plan.order` or `assume.overlap.tp`: its cells are settings of the
row. A row stores the faults of its own cells: only that row is unusable.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from costmodel.documents.keys.suggestions import nearest
from costmodel.documents.text.files import LARGEST_TABLE, digest, file_text
from costmodel.exchange.tables.csv_cells import Column, CsvRow, hint_for_log, read_sheet, repeated_column_faults, row_of
from costmodel.ground.errors import CostModelError, Fault, Place, fail
from costmodel.ground.record import record

COLUMNS: dict[str, Column] = {
    "id": Column("text", "name of the run; file and line if left out"),
    "source": Column("text", "where it was published"),
    "source_family": Column("text", "sources that are not independent share one; else the source"),
    "year": Column("whole", "of the software, which decides between the stacks of Megatron"),
    "framework": Column("text", "training software: the name of a stack, or as its source names it"),
    "model_name": Column("text", "model"),
    "arch": Column("text", "dense or moe"),
    "layers": Column("count", "transformer layers"),
    "hidden": Column("count", "width of the residual stream"),
    "ffn": Column("count", "inner width of the MLP"),
    "heads": Column("count", "query heads"),
    "kv_heads": Column("count", "key and value heads"),
    "head_dim": Column("count", "width of a head"),
    "attention": Column("text", "MHA, GQA, MQA or MLA"),
    "vocab": Column("count", "vocabulary"),
    "glu": Column("flag", "gated MLP of three matrices"),
    "n_experts": Column("whole", "experts; empty or 0 for a dense model"),
    "topk": Column("count", "experts a token is sent to"),
    "moe_ffn": Column("count", "inner width of an expert"),
    "n_shared_experts": Column("whole", "shared experts"),
    "n_dense_layers": Column("whole", "first layers, which have an MLP in place of experts"),
    "tied_embeddings": Column("flag", "embedding and head share one matrix"),
    "seq_len": Column("count", "tokens in a sequence"),
    "gpu": Column("text", "accelerator as the source names it"),
    "accelerator": Column("text", "accelerator by the name of its document"),
    "gpu_mem_gb": Column("number", "its memory, GB, which distinguishes variants with the same name"),
    "gpus": Column("count", "accelerators"),
    "gpus_per_node": Column("count", "accelerators in a node"),
    "nic_gbps_per_gpu": Column("number", "network rate of each accelerator, Gb/s one way"),
    "tp": Column("count", "tensor-parallel degree"),
    "pp": Column("count", "pipeline stages"),
    "vp": Column("count", "model chunks per pipeline rank"),
    "cp": Column("count", "context-parallel degree"),
    "dp": Column("count", "data-parallel degree"),
    "ep": Column("count", "expert-parallel degree"),
    "etp": Column("count", "expert-tensor-parallel degree"),
    "zero_stage": Column("whole", "0 to 3"),
    "fsdp": Column("flag", "fully sharded data parallel of PyTorch"),
    "seq_parallel": Column("flag", "sequence parallelism"),
    "recompute": Column(
        "text", "none, selective or full; behind a colon modules between plus signs, or a number of layers"
    ),
    "micro_batch": Column("count", "sequences in a forward pass of one replica"),
    "global_batch": Column("count", "sequences in an optimizer step"),
    "grad_accum": Column("count", "micro-batches in an optimizer step"),
    "precision": Column("text", "as a workload names it, bf16 or fp8-cs; fp16/bf16 where the source leaves it open"),
    "step_time_s": Column("number", "measured time of a step, s"),
    "tokens_per_s_per_gpu": Column("number", "measured tokens a second of each accelerator"),
    "tflops_per_gpu": Column("number", "measured rate of each accelerator, TFLOP/s"),
    "mfu": Column("number", "measured model FLOP utilisation, percent"),
    "hfu": Column("number", "measured hardware FLOP utilisation, percent"),
    "mfu_peak_tflops": Column("number", "peak that mfu and hfu refer to, TFLOP/s"),
    "flops_convention": Column("text", "which FLOP tflops_per_gpu and mfu count"),
    "peak_mem_gb": Column("number", "measured memory, 10⁹ bytes"),
    "mem_metric": Column("text", "what peak_mem_gb is"),
    "value_gb": Column("number", "measured memory, 10⁹ bytes"),
    "metric": Column("text", "what value_gb is"),
    "kind": Column("text", "analytical for a figure that was computed, not measured"),
    "scope": Column("text", "which pipeline stage value_gb is of; else the worst"),
    "fits": Column("flag", "whether the run fitted in memory"),
    "kernel": Column("text", "attention: flash attention and its version; or torch, fused softmax, which write scores"),
    "features": Column("text", "schedule=…, fp32 grads, async TP, HSDP, zero1_group=… and the like"),
    "settings": Column(
        "text", "other keys of a scenario as --set takes them: assume.overlap.tp=0;plan.offload_to=nvme"
    ),
    "notes": Column("text", "fp32 grads, fp16 grads, token drop, capacity factor 1.0"),
}
ALIASES = {
    "model": "model_name",
    "seq": "seq_len",
    "sequence": "seq_len",
    "sequence_length": "seq_len",
    "batch": "global_batch",
    "batch_size": "global_batch",
    "global_batch_size": "global_batch",
    "micro_batch_size": "micro_batch",
    "num_gpus": "gpus",
    "step_time": "step_time_s",
    "sp": "seq_parallel",
    "mbs": "micro_batch",
    "gbs": "global_batch",
    "note": "notes",
    "stack": "framework",
    "software": "framework",
    "zero": "zero_stage",
    "vpp": "vp",
}
SETTINGS, BETWEEN = "settings", ";"
SETTABLE = ("model", "cluster", "workload", "stack", "plan", "assume")  # parts of a scenario that a row may set
REQUIRED = ("seq_len", "gpus", "global_batch")
SHAPE = ("layers", "hidden", "heads")  # required too, unless rows name shipped models
OF_SHAPE = (*SHAPE, "ffn", "kv_heads", "head_dim", "vocab", "glu", "n_experts", "topk", "moe_ffn", "tied_embeddings")
_FILLED = {"gpus": "tp · cp · pp · dp", "global_batch": "micro_batch · dp · grad_accum"}  # where a cell is empty
TIMES = ("step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu", "hfu")
_MOST_GUESSED = 100  # columns that are not used; of more, what they were meant as takes long to find
MEMORIES = ("value_gb", "peak_mem_gb", "fits")


@record
class Table:
    """The rows of one file of training runs."""

    file: str
    columns: tuple[str, ...]
    rows: tuple[CsvRow, ...]
    digest: str
    renamed: tuple[tuple[str, str], ...] = ()  # columns of another name, with what each is read as

    @property
    def known(self) -> Collection[str]:
        """The names of columns that tables of this kind can have."""
        return COLUMNS

    @property
    def unused(self) -> dict[str, str]:
        """Columns that are not used, each with a missing column whose name it resembles, or nothing."""
        lacking = [name for name in self.known if name not in self.columns]
        settable = SETTINGS in self.known
        unused = [name for name in self.columns if name not in self.known and not (settable and _is_setting(name))]
        return {name: nearest(name, lacking, 0.85) or "" for name in unused[:_MOST_GUESSED]}


def read_table(path: str) -> Table:
    """A table of measured runs; all faults of its header are raised at once, and each row records its own faults."""
    text = file_text(path, largest=LARGEST_TABLE)
    found = read_sheet(path, text, {*COLUMNS, *ALIASES})
    names = _header(found.place, found.names)
    keys = [name for name in names if _is_setting(name)]
    rows = tuple(_with_settings(row_of(place, names, record, COLUMNS), keys) for place, record in found.records)
    if not rows:
        raise fail("D014", "the table has no rows", Place(path, found.place.line, 1), "write a run below its header")
    return Table(path, tuple(name for name in names if name), rows, digest(text))


def _is_setting(name: str) -> bool:
    """Whether a column is named as a key of a scenario, for which there is no column.

    >>> [_is_setting(name) for name in ("plan.order", "plan.tp", "order", "env.hosts")]
    [True, False, False, False]
    """
    return name.partition(".")[0] in SETTABLE and "." in name and _column_of_key(name) == name


def _column_of_key(name: str) -> str:
    """The column for a key of a plan, a workload or software; any other name as it is.

    >>> [_column_of_key(name) for name in ("plan.zero", "workload.sequence", "assume.overlap.tp")]
    ['zero_stage', 'seq_len', 'assume.overlap.tp']
    """
    part, _, key = name.partition(".")
    plain = ALIASES.get(key, key)
    return plain if part in ("plan", "workload") and plain in COLUMNS else name


def _with_settings(row: CsvRow, keys: Collection[str]) -> CsvRow:
    """A row whose cells of columns named as keys are among its settings."""
    stated = [f"{key}={row.text(key)}" for key in keys if row.text(key)]
    if not stated:
        return row
    settings = BETWEEN.join(filter(None, (row.text(SETTINGS), *stated)))
    return replace(row, written={**row.written, SETTINGS: settings})


def _header(place: Place, header: list[str]) -> list[str]:
    """The column names as in `COLUMNS`; all faults of the header are raised at once."""
    plain = [_column_of_key(name) for name in header]
    renamed = [ALIASES[name] if name in ALIASES and ALIASES[name] not in plain else name for name in plain]
    if not set(COLUMNS) & set(renamed):
        hint = "cells are separated by commas; costmodel explain D014 names the columns"
        raise fail(
            "D014", "the first line names no column of a table of measured runs", place, hint_for_log(place, hint)
        )
    faults = repeated_column_faults(place, renamed)
    for name in REQUIRED if "model_name" in renamed else (*SHAPE, *REQUIRED):
        if name not in renamed:
            close = nearest(name, [other for other in renamed if other not in COLUMNS], 0.7)
            empty = f"; an empty cell is {_FILLED[name]}" if name in _FILLED else ""
            other = ", or a column model_name with the name of a shipped model" if name in SHAPE else ""
            hint = f"is it '{close}'?" if close else f"{name}: {COLUMNS[name].meaning}{empty}{other}"
            faults.append(Fault("D004", f"the column '{name}' is missing", place, hint))
    for wanted in (("accelerator", "gpu"), (*TIMES, *MEMORIES)):
        if not set(wanted) & set(renamed):
            sentence = f"one of the columns {', '.join(wanted)} is needed"
            faults.append(Fault("D004", sentence, place, f"{wanted[0]}: {COLUMNS[wanted[0]].meaning}"))
    if faults:
        raise CostModelError(*faults)
    return renamed
