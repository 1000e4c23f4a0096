"""Closed forms of fused inference kernels, over columns of measured shapes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from costmodel.documents.schemas.hardware import Accelerator
from costmodel.documents.schemas.precision import RECIPES
from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.memory_traffic import attention_traffic, mlp_traffic
from costmodel.equations.kernels.roofline import (
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
from costmodel.equations.layers.parameters import mlp_parameters
from costmodel.evidence.calibrate.regression import Array, Columns, Constant, FittedForm

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
    rows, hit = _fallen(table, held)
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


def _fallen(table: Mapping[str, Array], held: Array) -> tuple[Array, Array]:
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
