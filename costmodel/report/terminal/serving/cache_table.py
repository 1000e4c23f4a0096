"""The KV cache of a request by kinds of layers: a token's, what an engine sets aside, and what a mean request holds."""

from __future__ import annotations

import numpy as np
from rich.text import Text

from costmodel.equations.memory.kv_cache import mean_context
from costmodel.estimate.model.cache_kinds import cache_kinds
from costmodel.estimate.model.mixers.table import token_bytes
from costmodel.estimate.serving.engine_memory import stage_share
from costmodel.estimate.serving.kv_cache import admitted_layer, cache_width, layer_cache, own_tokens
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.report.terminal.plan.cache_rows import cache_rows
from costmodel.report.terminal.style.layout import Line


def cache_table(answer: ServingAnswer) -> list[Line]:
    """One row of each kind of layers, and their sum; of a rank, but of all heads a token's."""
    inputs, layout = answer.inputs, answer.evaluation.layout
    load, share = inputs.load, float(np.asarray(stage_share(inputs, layout)).flat[0])
    mean = mean_context(load.prompt, load.output, load.output_spread)
    kinds = cache_kinds(
        inputs.model,
        (
            lambda kind: token_bytes(kind, cache_width(inputs)),
            lambda kind: _first(share * admitted_layer(inputs, layout, kind)),
            lambda kind: _first(share * layer_cache(inputs, kind, layout.tp, own_tokens(layout, mean))),
        ),
    )
    if not kinds:
        return []
    return [Text(), cache_rows(kinds, ("a token", f"set aside for {load.longest:,.0f}", "mean request"))]


def _first(value: object) -> float:
    return float(np.asarray(value).flat[0])
