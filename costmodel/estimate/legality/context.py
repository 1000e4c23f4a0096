"""Which ways of sharing sequences, and of sharding in part, make sense."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.model import Layers
from costmodel.equation import Number
from costmodel.equations.counting import kv_heads_per_rank, remainder, repeated
from costmodel.estimate.block import Block, alone
from costmodel.estimate.setting import Setting

Mask = NDArray[np.bool_]


def _none(block: Block) -> Mask:
    return np.zeros(len(block), dtype=bool)


def _rest(amount: Number, parts: Number) -> Mask:
    return np.asarray(remainder(amount, parts) != 0)


def chunked_sequence(setting: Setting, block: Block) -> Mask:
    """Rows where ranks would hold chunks of unequal length."""
    if alone(block.cp):
        return _none(block)
    chunks = 1.0 if block.structure.cp_type == "a2a" else 2.0
    return (block.cp > 1) & _rest(setting.sequence, repeated(chunks, block.cp))


def heads_exchanged(setting: Setting, block: Block) -> Mask:
    """Rows where heads traded for tokens, by a2a and in state-space layers always, are not whole ones."""
    found = _none(block)
    if alone(block.cp):
        return found
    for kind in setting.model.layers:
        if block.structure.cp_type == "a2a" or kind.state_space is not None:
            found = found | _not_whole(kind, block)
    return (block.cp > 1) & found


def _not_whole(kind: Layers, block: Block) -> Mask:
    found = _rest(kind.heads or 0.0, repeated(block.tp, block.cp))
    if kind.attention is None:
        return found
    return found | _rest(kv_heads_per_rank(kind.attention.kv_heads, block.tp), block.cp)


def context_not_offered(setting: Setting, block: Block) -> Mask:
    """Rows that share sequences in a way the stack does not have."""
    return (block.cp > 1) & (block.structure.cp_type not in setting.stack.context_parallel)


def shard_replicas(setting: Setting, block: Block) -> Mask:
    """Rows with replicas of shards that dp does not hold, or of nothing sharded."""
    if alone(block.dp_replicate):
        return _none(block)
    return (block.dp_replicate > 1) & (_rest(block.dp, block.dp_replicate) | (block.structure.zero == 0))
