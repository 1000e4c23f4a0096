"""CSV tables of measured kernels, one timing per row; the columns determine the kind of table.

A table is of the first kind of `KINDS` whose columns it has; one with the columns of training runs is read as such. Any
other column is ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

from costmodel.documents.keys.suggestions import nearest
from costmodel.documents.text.files import LARGEST_TABLE, digest, file_text
from costmodel.exchange.logs.benchmark_result import is_result_file
from costmodel.exchange.logs.trainer_log import is_engine_start, is_trainer_state
from costmodel.exchange.tables.csv_cells import (
    Column,
    CsvRow,
    cell_at,
    hint_for_log,
    read_sheet,
    repeated_column_faults,
    row_of,
)
from costmodel.exchange.tables.nccl_tests import is_nccl_text, nccl_remarks, nccl_rows
from costmodel.exchange.tables.run_table import ALIASES, Table, read_table
from costmodel.exchange.tables.run_table import COLUMNS as RUN_COLUMNS
from costmodel.exchange.tables.run_table import REQUIRED as RUN_REQUIRED
from costmodel.exchange.tables.run_table import SHAPE as RUN_SHAPE
from costmodel.exchange.tables.serving_table import COLUMNS as SERVING_COLUMNS
from costmodel.exchange.tables.serving_table import is_serving, read_serving_runs
from costmodel.ground.errors import CostModelError, Fault, Place, fail
from costmodel.ground.record import record

Kind = Literal["matmul", "attention", "decode", "collective", "cluster", "operator", "experts", "grouped", "dispatch"]

_TIME = Column("number", "time of one call, µs")
_GPU = Column("text", "accelerator: the name of its document, or one that explain D015 lists")
_TYPE = Column("text", "type of the elements")


@record
class TableColumns:
    """The columns of one kind of table: required ones, which have a value in every row, and optional ones."""

    meaning: str
    columns: dict[str, Column]
    optional: dict[str, Column]


def _count_columns(**meanings: str) -> dict[str, Column]:
    return {name: Column("count", meaning) for name, meaning in meanings.items()}


_MATMUL = _count_columns(m="rows of the result", n="its columns", k="inner dimension")
_ATTENTION = _count_columns(
    batch="sequences", seq="tokens of each", heads="query heads", kv_heads="key and value heads", head_dim="their width"
)
KINDS: dict[Kind, TableColumns] = {
    "grouped": TableColumns(
        "matmuls of experts",
        {"gpu": _GPU, "dtype": _TYPE, "stage": Column("text", "fwd, bwd_grad_act or bwd_grad_w")}
        | _count_columns(groups="matmuls in one call")
        | _MATMUL
        | {"time_us": _TIME},
        {},
    ),
    "operator": TableColumns(
        "operators of a training step, forward and backward",
        {"gpu": _GPU, "op": Column("text", "operator")},
        _count_columns(
            mp="tensor-parallel degree", b="sequences", h="heads", l="tokens of each", dim="hidden", layers="layers"
        )
        | _MATMUL
        | {"dtype": Column("text", "type of the elements; fp16 if left out")}
        | {"kind": Column("text", "processor if it was no accelerator")}
        | {"kernel": Column("text", "attention: sdpa_flash or sdpa_cudnn")}
        | {"skipped": Column("text", "why there are no times")}
        | {"fwd_us": Column("number", "forward, µs"), "bwd_us": Column("number", "backward, µs")},
    ),
    "experts": TableColumns(
        "fused layers of experts",
        {"gpu": _GPU, "dtype": _TYPE}
        | _count_columns(
            tokens="tokens", hidden="hidden", inter="inner width", topk="experts of a token", experts="experts"
        )
        | {"time_us": _TIME},
        _count_columns(tp="tensor-parallel degree", ep="expert-parallel degree")
        | {"distribution": Column("text", "balanced, or power_law_ and its exponent: the busiest rank is timed")}
        | {"kernel": Column("text", "kernel")},
    ),
    "dispatch": TableColumns(
        "tokens sent to experts and back",
        {"gpu": _GPU}
        | _count_columns(node_num="nodes", hidden_size="hidden", num_token="tokens", num_topk="experts of a token")
        | {name: Column("number", "µs") for name in ("dispatch_transmit_us", "combine_transmit_us")},
        {},
    ),
    "matmul": TableColumns("matmuls", {"gpu": _GPU, "dtype": _TYPE, **_MATMUL, "time_us": _TIME}, {}),
    "attention": TableColumns(
        "prefill attention, causal",
        {"gpu": _GPU, "q_dtype": _TYPE, "kv_dtype": _TYPE, **_ATTENTION, "kernel": Column("text", "kernel")}
        | {"time_us": _TIME},
        {},
    ),
    "decode": TableColumns(
        "decode attention, one new token to a sequence; without 'decode' in the file's name it is read as prefill",
        {"gpu": _GPU, "q_dtype": _TYPE, "kv_dtype": _TYPE, **_ATTENTION, "kernel": Column("text", "kernel")}
        | {"time_us": _TIME},
        {},
    ),
    "collective": TableColumns(
        "collectives inside a node",
        {"gpu": _GPU, "op": Column("text", "operation, as nccl-tests names it")}
        | {"n_gpus": Column("count", "ranks"), "bytes": Column("number", "size, as nccl-tests counts it")}
        | {"time_us": _TIME},
        {"kernel": Column("text", "kernel, where it is not NCCL's")},
    ),
    "cluster": TableColumns(
        "collectives inside and across nodes",
        {"gpu": _GPU, "op": Column("text", "operation"), **_count_columns(gpus="ranks", nodes="nodes")},
        {
            "bytes": Column("number", "size, as nccl-tests counts it"),
            "time_us": _TIME,
            "busbw_gbps": Column("text", "bus bandwidth, GB/s, where there is no time"),
            "link": Column("text", "links, in words that explain D015 lists"),
            "node": Column("text", "node by the name of its document"),
            "confidence": Column("text", "low for figures that are not to be fitted"),
        },
    ),
}
_MARKS: dict[Kind, tuple[str, ...]] = {
    "grouped": ("groups", "stage"),
    "operator": ("fwd_us", "op"),
    "experts": ("experts", "inter"),
    "dispatch": ("dispatch_transmit_us",),
    "attention": ("heads", "head_dim", "kernel"),
    "collective": ("op", "n_gpus"),
    "cluster": ("op", "gpus", "nodes"),
    "matmul": ("m", "n", "k"),
}
_KNOWN = {*RUN_COLUMNS, *(name for layout in KINDS.values() for name in (*layout.columns, *layout.optional))}
_RUNS = 3  # so many of the columns that runs must have make a table one of runs; no kind of kernels has them


@record
class Timings:
    """The timings in one file, and their kind."""

    file: str
    kind: Kind
    digest: str
    rows: tuple[CsvRow, ...]
    remarks: tuple[str, ...] = ()


def read_timings(path: str, per_node: int = 0) -> Timings:
    """The timings in a kernel table or in the output of nccl-tests; all its faults are raised at once.

    per_node: accelerators per node, if the user names the node; else 0.
    """
    text = file_text(path, largest=LARGEST_TABLE)
    if is_nccl_text(text):
        printed = nccl_rows(path, text, per_node)
        return Timings(path, "cluster", digest(text), printed, nccl_remarks(path, text, printed))
    found = read_sheet(path, text, _KNOWN)
    place, names = found.place, found.names
    if _are_run_columns(names):
        hint = f"costmodel calibrate {path} fits constants to it, without tables of kernels beside it"
        raise fail("D015", "this is a table of training runs, not of kernels", Place(path, 1, 1), hint)
    kind = _kind_of(place, names)
    if kind == "attention" and "decode" in Path(path).name:
        kind = "decode"
    _check_columns(place, names, KINDS[kind])
    faults: list[Fault] = []
    rows = []
    for where, cells in found.records:
        row = row_of(where, names, cells, {**KINDS[kind].columns, **KINDS[kind].optional})
        rows.append(row)
        faults += row.faults or _empty_cell_faults(where, names, row, KINDS[kind])
    if faults:
        raise CostModelError(*faults)
    if not rows:
        raise fail("D015", "the table has no rows", place)
    return Timings(path, kind, digest(text), tuple(rows))


def is_run_table(path: str) -> bool:
    """Whether a file is a table of training runs, by its header."""
    text = file_text(path, largest=LARGEST_TABLE)
    return not is_nccl_text(text) and _are_run_columns(read_sheet(path, text, _KNOWN).names)


def is_serving_table(path: str) -> bool:
    """Whether a file is a table of serving runs, by its header."""
    text = file_text(path, largest=LARGEST_TABLE)
    return (
        is_engine_start(text)
        or (is_result_file(path) and not is_trainer_state(text))
        or (not is_nccl_text(text) and is_serving(read_sheet(path, text, SERVING_COLUMNS).names))
    )


def _are_run_columns(names: Collection[str]) -> bool:
    found = {ALIASES.get(name, name) for name in names}
    return len(found & {*RUN_SHAPE, *RUN_REQUIRED}) >= _RUNS and not found.isdisjoint(("layers", "gpus"))


def read_measured(path: str) -> Table:
    """A table of training runs, of serving runs or of start-up logs."""
    return read_serving_runs(path) if is_serving_table(path) else read_runs(path)


def read_runs(path: str) -> Table:
    """A table of training runs; a kernel table is a fault that names its kind."""
    text = file_text(path, largest=LARGEST_TABLE)
    if is_nccl_text(text):
        place, what = Place(path, 1, 1), "the output of nccl-tests"
    else:
        found = read_sheet(path, text, _KNOWN)
        kind = _kind_by_columns(found.names)
        if kind is None or _are_run_columns(found.names):
            return read_table(path)
        place, what = found.place, f"a table of {KINDS[kind].meaning}"
    hint = f"costmodel calibrate {path} fits constants to it, without tables of runs beside it"
    raise fail("D014", f"this is {what}, not a table of training runs", place, hint)


def _kind_by_columns(names: Collection[str]) -> Kind | None:
    return next((kind for kind, marks in _MARKS.items() if set(marks) <= set(names)), None)


def _kind_of(place: Place, names: list[str]) -> Kind:
    """The kind of table that the columns identify; a fault if none fits, with the nearest kind."""
    if kind := _kind_by_columns(names):
        return kind
    shared = {kind: len(set(names) & {*layout.columns, *layout.optional}) for kind, layout in KINDS.items()}
    best = max(_MARKS, key=lambda kind: (len(set(names) & set(_MARKS[kind])) / len(_MARKS[kind]), shared[kind]))
    if shared[best] < 2:
        hint = "costmodel explain D015 names the columns of kernels, D014 those of training runs"
        if set(names) & set(RUN_COLUMNS):
            hint = f"a table of training runs also needs {', '.join(RUN_REQUIRED)}"
        raise fail(
            "D015", "the first line names no columns of a table of kernels or of runs", place, hint_for_log(place, hint)
        )
    missing = ", ".join(f"'{name}'" for name in _MARKS[best] if name not in names)
    close = nearest(next(name for name in _MARKS[best] if name not in names), names, 0.5)
    hint = f"is it '{close}'?" if close else "costmodel explain D015 names the columns"
    raise fail("D015", f"for a table of {KINDS[best].meaning} the column {missing} is missing", place, hint)


def _check_columns(place: Place, names: list[str], layout: TableColumns) -> None:
    """Raises a fault for columns that are missing or repeated."""
    faults = repeated_column_faults(place, names)
    for name, column in layout.columns.items():
        if name not in names:
            close = nearest(name, [other for other in names if other not in layout.columns], 0.6)
            hint = f"is it '{close}'?" if close else f"{name}: {column.meaning}"
            faults.append(Fault("D004", f"a table of {layout.meaning} needs the column '{name}'", place, hint))
    if faults:
        raise CostModelError(*faults)


def _empty_cell_faults(place: Place, names: list[str], row: CsvRow, layout: TableColumns) -> list[Fault]:
    """A fault for every required cell that is empty."""
    return [
        Fault("D006", f"'{name}' is empty: {column.meaning}", cell_at(place, names.index(name), name), "fill it in")
        for name, column in layout.columns.items()
        if not row.text(name)
    ]


def file_stem(path: str) -> str:
    """The name of a file without its folders; "standard input" for -."""
    return "standard input" if path == "-" else Path(path).name


def table_kind_lines() -> Iterator[str]:
    """A line for every kind of table with its columns; optional columns are in parentheses."""
    for layout in KINDS.values():
        yield f"{layout.meaning}: {', '.join([*layout.columns, *(f'({name})' for name in layout.optional)])}"
    yield "training runs, which calibrate takes too: costmodel explain D014 names their columns"
