"""Plans whose ranks cannot divide the cache of a sequence by tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.model import Layers
from costmodel.documents.schemas.serving.engine import Engine
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.masks import leaves_rest
from costmodel.ground.equation import term


def undivided(
    inputs: ServingInputs, layout: PlanColumns, layers: Sequence[Layers]
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Rows with dcp that make no sense, by the reason; layers are those of the model and of its draft."""
    if not layout.shares_context:
        return
    shared = np.asarray(layout.dcp > 1)
    yield "L063", leaves_rest(layout.tp, layout.dcp)
    few = np.zeros(len(layout), dtype=bool)
    for kind in layers:
        if kind.attention is not None:
            heads, kv_heads = kind.attention.heads, kind.attention.kv_heads
            with term("copies of key-value heads"):
                alike = layout.dcp * kv_heads
                queries = heads / kv_heads
            few = few | np.asarray(alike > layout.tp) | leaves_rest(queries, layout.dcp)
    yield "L064", shared & few
    if not all(divisible(inputs.engine, kind) for kind in layers):
        yield "L065", shared


def divisible(engine: Engine, kind: Layers) -> bool:
    """Whether an engine divides the cache of a layer by tokens, and this project knows how.

    A window, states, the keys of an indexer, and keys of another layer are not divided.
    """
    own = engine.decode_context
    if kind.heads is None:
        return True
    if own is None or kind.scan_heads or kind.compressed is not None:
        return False
    if kind.latent is not None:
        return "latent" in own.caches and kind.latent.indexer is None
    whole = kind.attention is not None and kind.attention.window is None and not kind.attention.shared_kv
    return "attention" in own.caches and whole
