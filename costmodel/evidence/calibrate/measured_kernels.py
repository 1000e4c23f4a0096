"""Measured kernels as columns of closed forms; rows without a form are counted by reason."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from costmodel.documents.reader.library import CachedReader, accelerator_named
from costmodel.documents.schemas.hardware import Accelerator, Node
from costmodel.documents.schemas.precision import RECIPES
from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.memory_traffic import attention_traffic, mlp_traffic
from costmodel.equations.kernels.roofline import (
    attention_backward_time,
    cached_reading_time,
    decode_attention_time,
    matmul_time,
    reading_heads,
    slowest_part,
    stream_time,
    tiled_rows,
)
from costmodel.equations.layers.experts import (
    dispatched_activations,
    drawing_share,
    load_variation,
    rank_variation,
    routed_rows,
)
from costmodel.equations.layers.parameters import mlp_parameters, table_parameters
from costmodel.equations.network.collectives import Operation, wire_bytes
from costmodel.equations.parallelism.counts import tokens_in_micro_batch
from costmodel.evidence.calibrate.regression import Array, Columns, Constant, FittedForm
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.kernel_table import Timings, file_stem
from costmodel.ground.record import record

# Closed forms of fused inference kernels, over columns of measured shapes.

EVEN, ANY_SKEW = 0.0, 1.5  # of tokens that are spread evenly; what stands there where a law is asked for all the same
CORNER = 2.0  # between compute and memory, as products usually have it: not fitted
PACKED_UP_TO = ("torch_flow",)  # kernels that pack the queries of narrow groups only


def decode_columns(table: Mapping[str, Array], accelerator: Accelerator, precision: str, kernel: str) -> Columns:
    """Columns that determine the time of decode attention; the KV cache has the bytes of its own type."""
    batch, sequence, heads, kv_heads = (table[name] for name in ("batch", "seq", "heads", "kv_heads"))
    readers = reading_heads(heads, kv_heads) if kernel in PACKED_UP_TO else kv_heads
    cached = attention_traffic(batch, sequence, 0.0, kv_heads, table["head_dim"], RECIPES[precision].operand)
    chip = accelerator.chip
    return {
        "batch": batch,
        "sequence": sequence,
        "readers": np.asarray(readers),
        "cached": np.asarray(cached),
        "passes": np.asarray(readers / kv_heads),
        "units": float((chip and chip.units) or 0),
        "l2": float((chip and chip.l2) or 0),
        "bandwidth": float(accelerator.memory.bandwidth),
    }


def group_kind(kernel: str, heads: float, kv_heads: float) -> str:
    """The kernel variant behind a name; engines use several under one name, with different constants."""
    if kernel not in PACKED_UP_TO:
        return ""
    if heads == kv_heads:
        return "ungrouped"
    return "grouped" if float(reading_heads(heads, kv_heads)) == kv_heads else "wide"


def _decode_time(constants: Mapping[str, float], columns: Columns) -> Array:
    """Seconds of decode attention with these constants."""
    share, hot = constants["memory_share"], constants["hot_share"]
    once = cached_reading_time(columns["cached"], columns["bandwidth"], share, columns["l2"], hot)
    return np.asarray(
        decode_attention_time(
            columns["batch"],
            columns["sequence"],
            columns["readers"],
            columns["units"],
            columns["passes"] * once,
            constants["row"],
            constants["joining"],
            constants["start"],
        )
    )


DECODE = FittedForm(
    "start, reading, rows and parts",
    (
        Constant("memory_share", "1", 0.8, 0.02, 1.5),
        Constant("hot_share", "1", 0.4, 0.02, 1.0),
        Constant("start", "s", 1e-5, 1e-8, 1e-3),
        Constant("row", "s", 1e-6, 1e-10, 1e-4),
        Constant("joining", "s", 2e-6, 1e-8, 1e-4),
    ),
    _decode_time,
)


def expert_columns(table: Mapping[str, Array], accelerator: Accelerator, precision: str) -> Columns:
    """Work, weights and rows of the most loaded rank in a layer of experts; only weights of used experts are read."""
    hidden, inner, recipe = table["hidden"], np.asarray(table["inter"] / table["tp"]), RECIPES[precision]
    held = np.asarray(table["experts"] / table["ep"])
    rows, hit = _busiest_rank_rows(table, held)
    gated, chip = bool(np.all(table["gated"])), accelerator.chip
    expert = np.asarray(mlp_parameters(hidden, inner, gated=gated, biases=False))
    through = dispatched_activations(rows, hidden, table["experts"], 2.0)
    weights = held * (recipe.operand * expert)
    return {
        "flop": np.asarray(hit * matmul_flop(tiled_rows(rows / hit), expert, 1.0)),
        "weights": np.asarray(hit * (recipe.operand * expert)),
        "hot": np.asarray(weights <= float((chip and chip.l2) or 0)),
        "streamed": np.asarray(2.0 * through + mlp_traffic(rows, inner, 2.0, gated=gated, backward=False)),
        "peak": float(getattr(accelerator.peak, recipe.type)),
        "bandwidth": float(accelerator.memory.bandwidth),
    }


def _busiest_rank_rows(table: Mapping[str, Array], held: Array) -> tuple[Array, Array]:
    """Rows of the most loaded rank, and the number of its experts that they use."""
    tokens, top_k, experts, ep = (table[name] for name in ("tokens", "topk", "experts", "ep"))
    even = table["skew"] == EVEN
    routing = (tokens, top_k, experts, np.where(even, ANY_SKEW, table["skew"]))
    load = np.where(even, 1.0, slowest_part(ep, rank_variation(load_variation(*routing), experts, ep)))
    mean = routed_rows(tokens, top_k, 1.0, load) / ep
    rows = np.clip(mean, 1.0, tokens * np.minimum(top_k, held))
    drawn = np.where(even, held, held * drawing_share(*routing))
    return rows, np.clip(drawn, 1.0, np.minimum(held, rows))


def _experts_time(constants: Mapping[str, float], columns: Columns) -> Array:
    """Seconds of a layer of fused experts with these constants."""
    bandwidth = columns["bandwidth"]
    read = columns["weights"] * np.where(columns["hot"], constants["hot_share"], 1.0)
    shares = constants["compute_share"], constants["memory_share"]
    rates = columns["peak"], bandwidth
    product = matmul_time(columns["flop"], read, *rates, *shares, constants["start"], CORNER, 1.0)
    return np.asarray(product + constants["passes"] * stream_time(columns["streamed"], bandwidth, 1.0))


EXPERTS = FittedForm(
    "start, rounded roofline of the experts hit, and their rows",
    (
        Constant("compute_share", "1", 0.6, 0.02, 1.0),
        Constant("memory_share", "1", 0.7, 0.02, 1.0),
        Constant("hot_share", "1", 0.5, 0.02, 1.0),
        Constant("start", "s", 4e-5, 1e-8, 1e-3),
        Constant("passes", "1", 1.0, 0.01, 30.0),
    ),
    _experts_time,
)


LINKS = {
    "NVLink3 + EFA 4x100Gb (p4de)": "p4de",
    "NVLink4 + EFAv2 32x100Gb (p5)": "p5",
    "NVLink4 + EFAv2 (p5, EKS)": "p5",
    "NVLink5 + EFAv4 8x400Gb": "p6-b200",
    "NVL72 x2 racks (+IB)": "gb200-nvl72",
    "NVL72 x20 racks + IB NDR": "gb200-nvl72",
    "Infinity Fabric + RoCE 8x400G": "hgx-mi300x",
}
PRECISIONS = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "fp16": "fp16",
    "fp8": "fp8",
    "fp8_block": "fp8-block",
    "nvfp4": "nvfp4",
}
CLASSES = {
    "vllm_flash_attn": "flash-2",
    "vllm_flash_attn_fa2": "flash-2",
    "vllm_flash_attn_fa3": "flash-3",
    "torch_flow": "flash-3",
    "vllm_flashinfer_trtllmprefill": "flash-3",
    "vllm_flashinfer_fiprefill": "flash-2",
    "vllm_triton_attn": "flash-1",
    "sdpa_flash": "flash-2",
    "sdpa_cudnn": "flash-3",
}
COLLECTIVES = {"alltoall": "all_to_all"}
FITTED_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
LINEAR = ("linear1", "linear2", "linear3", "linear4")
STREAMED = {"res_add": (6.0, None), "gelu": (4.0, 6.0)}
DOUBTED = "of low confidence: not fitted"
_LAW = re.compile(r"balanced|power_law_(\d+(?:\.\d+)?)")
NARROWEST, SHORTEST, HOT_COPIES = 256, 512, 5.0

UNFITTED = {
    "dispatch": "dispatch of tokens to experts: depends on a routing that the table does not state",
}


@record
class FitKey:
    """The target of a group of timings: the document, its part, the entry, and the method of measurement.

    `aside` gives the reason why they are compared with predictions only.
    """

    of: str
    part: str
    entry: str
    detail: str = ""
    aside: str = ""


@dataclass
class Gathered:
    """Shapes and times by key, the files of each, and the skipped rows with their reasons."""

    shapes: dict[FitKey, list[dict[str, float]]] = field(default_factory=lambda: defaultdict(list))
    files: dict[FitKey, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    left_out: Counter[str] = field(default_factory=Counter)


class UnusedRow(Exception):
    """A row that no form describes, with the reason."""


def gathered(tables: list[Timings], shelf: CachedReader, node: str | None = None) -> Gathered:
    """Shapes and times of all rows, by the document entry that they determine."""
    samples = Gathered()
    tables = [replace(table, rows=tuple(_row_on_machine(row, shelf, node) for row in table.rows)) for table in tables]
    for table in tables:
        if table.kind in UNFITTED:
            samples.left_out[UNFITTED[table.kind]] += len(table.rows)
            continue
        for row in table.rows:
            try:
                for key, shape in _READERS[table.kind](row, shelf):
                    samples.shapes[key].append(shape)
                    samples.files[key][file_stem(table.file)] = table.digest
            except UnusedRow as reason:
                samples.left_out[str(reason)] += 1
    return samples


def _row_on_machine(row: CsvRow, shelf: CachedReader, node: str | None) -> CsvRow:
    """A row with its node and accelerator, from the row or the command line."""
    if node is None:
        return row
    document: Node = shelf.document("node", node)
    known = _name_of(row.text("gpu"), shelf) or str(getattr(document.accelerator, "name", document.accelerator))
    return replace(row, written={**row.written, "node": row.text("node") or node, "gpu": known})


def accelerator_of(row: CsvRow, shelf: CachedReader) -> Accelerator:
    """The accelerator a row was measured on."""
    gpu = row.text("gpu")
    name = _name_of(gpu, shelf)
    if not name:
        raise UnusedRow(f"no accelerator document for '{gpu}'" if gpu else "the accelerator is not named")
    return cast(Accelerator, shelf.document("accelerator", name))


def _name_of(gpu: str, shelf: CachedReader) -> str:
    return gpu if shelf.has("accelerator", gpu) else accelerator_named(gpu, shelf=shelf)


def _size_columns(row: CsvRow, *names: str) -> dict[str, float]:
    return {name: float(row.number(name) or 0.0) for name in names}


Shapes = Iterator[tuple[FitKey, dict[str, float]]]


def _precision_of(row: CsvRow, column: str = "dtype") -> str:
    if row.text(column) not in PRECISIONS:
        raise UnusedRow(f"elements of type '{row.text(column)}'")
    return PRECISIONS[row.text(column)]


def _check_weights(accelerator: Accelerator, precision: str, shape: Mapping[str, float]) -> None:
    """Skips rows with narrow products, and with weights that were still in the cache."""
    recipe = RECIPES[precision]
    if getattr(accelerator.peak, recipe.type) is None:
        raise UnusedRow(f"{accelerator.name} has no {recipe.type} peak in its document")
    if min(shape["n"], shape["k"]) < NARROWEST:
        raise UnusedRow(f"matmuls with n or k below {NARROWEST}")
    cache = accelerator.chip.l2 if accelerator.chip else None
    weight = recipe.operand * table_parameters(shape["n"], shape["k"])
    if cache and HOT_COPIES * weight <= cache:
        raise UnusedRow("matmuls whose weights fit in the cache")


def _matmul_shapes(row: CsvRow, shelf: CachedReader) -> Shapes:
    accelerator, precision = accelerator_of(row, shelf), _precision_of(row)
    shape = _size_columns(row, "m", "n", "k", "time_us")
    _check_weights(accelerator, precision, shape)
    yield FitKey(accelerator.name, "matmul", precision), shape


def _grouped_shapes(row: CsvRow, shelf: CachedReader) -> Shapes:
    accelerator, precision = accelerator_of(row, shelf), _precision_of(row)
    shape = _size_columns(row, "m", "n", "k", "groups", "time_us")
    _check_weights(accelerator, precision, shape)
    yield FitKey(accelerator.name, "matmul", precision, f"grouped {row.text('stage')}"), shape


def _attention_shapes(row: CsvRow, shelf: CachedReader) -> Shapes:
    """Key, sizes and time of one row of attention; skips kernels that no fitted equation describes."""
    accelerator, precision = accelerator_of(row, shelf), _precision_of(row, "q_dtype")
    kernel = row.text("kernel")
    if kernel not in CLASSES:
        raise UnusedRow(f"attention kernel '{kernel}': of no class")
    if _precision_of(row, "kv_dtype") != precision:
        raise UnusedRow("attention with keys and values of another type than the queries")
    shape = _size_columns(row, "batch", "seq", "heads", "kv_heads", "head_dim", "time_us")
    if shape["seq"] < SHORTEST:
        raise UnusedRow(f"attention over fewer than {SHORTEST} tokens")
    detail = [kernel] + [precision] * (precision not in ("bf16", "fp16"))
    detail += [f"d{shape['head_dim']:.0f}"] * (shape["head_dim"] != 128)
    yield FitKey(accelerator.name, "attention", CLASSES[kernel], " ".join(detail)), shape


def _decode_shapes(row: CsvRow, shelf: CachedReader) -> Shapes:
    """Key, sizes and time of decode attention in a row; bytes are in the type of the KV cache."""
    accelerator, precision, kernel = accelerator_of(row, shelf), _precision_of(row, "kv_dtype"), row.text("kernel")
    shape = _size_columns(row, "batch", "seq", "heads", "kv_heads", "head_dim", "time_us")
    detail = " ".join(filter(None, (kernel, group_kind(kernel, shape["heads"], shape["kv_heads"]))))
    yield FitKey(accelerator.name, "decode", precision, detail), shape


def _expert_shapes(row: CsvRow, shelf: CachedReader) -> Shapes:
    """Key, sizes and time of a layer of fused experts in a row, with the skew of its token distribution."""
    accelerator, precision, kernel = accelerator_of(row, shelf), _precision_of(row), row.text("kernel")
    if getattr(accelerator.peak, RECIPES[precision].type) is None:
        raise UnusedRow(f"{accelerator.name} has no {RECIPES[precision].type} peak in its document")
    shape = _size_columns(row, "tokens", "hidden", "inter", "topk", "experts", "time_us")
    shape |= {name: float(row.number(name) or 1) for name in ("tp", "ep")}
    law = _LAW.fullmatch(row.text("distribution") or "balanced")
    if not law or (law[1] and not 1 < float(law[1]) < 2):
        raise UnusedRow(f"experts under the distribution '{row.text('distribution')}'")
    gated = 0.0 if "nongated" in kernel else 1.0
    yield FitKey(accelerator.name, "experts", precision, kernel), shape | {"skew": float(law[1] or 0), "gated": gated}


def _collective_operation(row: CsvRow) -> Operation:
    operation = COLLECTIVES.get(row.text("op"), row.text("op"))
    if operation not in FITTED_COLLECTIVES:
        raise UnusedRow(f"collective '{operation}'")
    return cast(Operation, operation)


def _collective_shapes(row: CsvRow, shelf: CachedReader) -> Shapes:
    """Key, sizes and time of a collective inside one node."""
    accelerator, operation = accelerator_of(row, shelf), _collective_operation(row)
    shape = {"ranks": float(row.number("n_gpus") or 0), **_size_columns(row, "bytes", "time_us")}
    if shape["ranks"] < 2:
        raise UnusedRow("collectives of one rank")
    yield FitKey(accelerator.name, "collectives", operation, row.text("kernel")), shape


def _cluster_shapes(row: CsvRow, shelf: CachedReader) -> Shapes:
    """Key, sizes and time of a collective; between nodes it belongs to the network of its node."""
    operation = _collective_operation(row)
    aside = DOUBTED if row.text("confidence") == "low" else ""
    ranks, nodes, size = (float(row.number(name) or 0) for name in ("gpus", "nodes", "bytes"))
    if not size or ranks < 2:
        raise UnusedRow("collectives of unknown size, or of one rank")
    shape = {"ranks": ranks, "nodes": nodes, "bytes": size, "time_us": _time_of(row, ranks, size, operation)}
    node = row.text("node") or LINKS.get(row.text("link"), "")
    if nodes == 1 or row.text("link") == "NVL72 NVLink5":
        yield FitKey(accelerator_of(row, shelf).name, "collectives", operation, aside=aside), shape
    elif not node or not shelf.has("node", node):
        raise UnusedRow("collectives across nodes of no known kind (column 'node')")
    else:
        yield FitKey(node, "network", operation, aside=aside), shape


def _time_of(row: CsvRow, ranks: float, size: float, operation: Operation) -> float:
    """Microseconds of a collective in a row: as stated, else from its bus bandwidth."""
    time, busbw = row.number("time_us"), row.text("busbw_gbps")
    if time:
        return float(time)
    try:
        rate = float(busbw) * 1e9
    except ValueError:
        rate = 0.0
    if rate <= 0:
        raise UnusedRow("collectives with neither a time nor a bus bandwidth")
    sent = wire_bytes(size, ranks, operation=operation)
    return float(sent / rate) * 1e6


def _operator_shapes(row: CsvRow, shelf: CachedReader) -> Shapes:
    """Linear layers and their backward products, fused attention, and memory-bound operators."""
    accelerator, operator = accelerator_of(row, shelf), row.text("op")
    if row.text("kind") == "processor":
        raise UnusedRow("times of a processor")
    if row.text("skipped"):
        raise UnusedRow("shapes that measure skipped")
    precision, detail = (_precision_of(row), "") if row.text("dtype") else ("fp16", "linear layers")
    times = {column: float(row.number(column) or 0) for column in ("fwd_us", "bwd_us")}
    if operator in LINEAR and row.number("m"):
        shape = _size_columns(row, "m", "n", "k")
        _check_weights(accelerator, precision, shape)
        yield FitKey(accelerator.name, "matmul", precision, detail), {**shape, "time_us": times["fwd_us"]}
        if times["bwd_us"]:
            yield FitKey(accelerator.name, "matmul", precision, "backward"), {**shape, "time_us": times["bwd_us"]}
    elif operator == "attention" and row.number("h") and (row.number("l") or 0) >= SHORTEST:
        size = _size_columns(row, "b", "h", "l", "dim")
        shape = {"batch": size["b"], "seq": size["l"], "heads": size["h"], "kv_heads": size["h"]}
        shape |= {"head_dim": size["dim"] / size["h"]}
        yield from _fused_times(FitKey(accelerator.name, "attention", "flash-2"), row.text("kernel"), shape, times)
    elif operator in STREAMED:
        yield from _streamed_shapes(row, accelerator.name, operator)
    else:
        raise UnusedRow(f"operator '{operator}' of a step")


def _fused_times(key: FitKey, kernel: str, shape: dict[str, float], times: dict[str, float]) -> Shapes:
    """Forward time; for a named kernel also backward, relative to forward at the same rate."""
    width = f"d{shape['head_dim']:.0f}"
    if not kernel:
        yield replace(key, detail=f"sdpa {width}"), {**shape, "time_us": times["fwd_us"]}
        return
    if kernel not in CLASSES:
        raise UnusedRow(f"attention kernel '{kernel}': of no class")
    detail = " ".join([kernel] + [width] * (width != "d128"))
    key = replace(key, entry=CLASSES[kernel])
    yield replace(key, detail=detail), {**shape, "time_us": times["fwd_us"]}
    if times["bwd_us"]:
        forward = float(times["bwd_us"] / attention_backward_time(1.0, 1.0, 1.0, 1.0))
        yield replace(key, detail=f"{detail} backward"), {**shape, "time_us": forward}


def _streamed_shapes(row: CsvRow, name: str, operator: str) -> Shapes:
    """Key, bytes and time of a memory-bound operator in a row, forward and backward."""
    size = _size_columns(row, "b", "l", "dim")
    inner = 4.0 * size["dim"] / (row.number("mp") or 1.0)
    elements = tokens_in_micro_batch(size["b"], size["l"]) * (inner if operator == "gelu" else size["dim"])
    for column, width in zip(("fwd_us", "bwd_us"), STREAMED[operator], strict=True):
        if width and row.number(column):
            yield (
                FitKey(name, "memory", "share"),
                {"nbytes": float(width * elements), "time_us": float(row.number(column) or 0)},
            )


_READERS = {
    "matmul": _matmul_shapes,
    "grouped": _grouped_shapes,
    "attention": _attention_shapes,
    "decode": _decode_shapes,
    "experts": _expert_shapes,
    "collective": _collective_shapes,
    "cluster": _cluster_shapes,
    "operator": _operator_shapes,
}
