"""The closed forms of what engines do for one new token, over columns of measured shapes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from costmodel.documents.hardware import Accelerator
from costmodel.documents.precision import RECIPES
from costmodel.equations.counting import divided, repeated
from costmodel.equations.decoding import cached_reading_time, decode_attention_time, reading_heads
from costmodel.equations.traffic import attention_traffic
from costmodel.explore.calibrate.regression import Array, Columns, Constant, Form

PACKED_UP_TO = ("torch_flow",)  # kernels that pack the queries of narrow groups only


def decode_columns(table: Mapping[str, Array], accelerator: Accelerator, precision: str, kernel: str) -> Columns:
    """What the time of decode attention depends on; keys and values weigh what their own type does."""
    batch, sequence, heads, kv_heads = (table[name] for name in ("batch", "seq", "heads", "kv_heads"))
    readers = reading_heads(heads, kv_heads) if kernel in PACKED_UP_TO else kv_heads
    cached = attention_traffic(batch, sequence, 0.0, kv_heads, table["head_dim"], RECIPES[precision].operand)
    chip = accelerator.chip
    return {
        "batch": batch,
        "sequence": sequence,
        "readers": np.asarray(readers),
        "cached": np.asarray(cached),
        "passes": np.asarray(divided(readers, kv_heads)),
        "units": float((chip and chip.units) or 0),
        "l2": float((chip and chip.l2) or 0),
        "bandwidth": float(accelerator.memory.bandwidth),
    }


def group_kind(kernel: str, heads: float, kv_heads: float) -> str:
    """Which kernel of several an engine takes under one name: their constants differ."""
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
            repeated(columns["passes"], once),
            constants["row"],
            constants["joining"],
            constants["start"],
        )
    )


DECODE = Form(
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
