"""Multi-head latent attention: keys and values grow from one narrow vector a token."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.schemas.model import LatentAttention, Model
from costmodel.equations.kernels.flop import attention_flop
from costmodel.equations.kernels.memory_traffic import rotary_traffic
from costmodel.equations.layers.parameters import table_parameters
from costmodel.equations.layers.sequence_mixers import (
    compressed_query_parameters,
    latent_activations,
    latent_attention_parameters,
    mean_head_dim,
)
from costmodel.equations.memory.activations import attention_activations
from costmodel.equations.serving.memory.kv_cache import latent_cache_bytes
from costmodel.estimate.model.mixers.mixer import CacheWidth, CoreSize, Matmul, Mixer
from costmodel.ground.equation import Number, term


def hold(model: Model, own: LatentAttention, tp: Number) -> Mixer:
    """Every rank holds the matrices down to the narrow vectors whole, its heads of those up from them."""
    heads = own.heads / tp
    query = own.nope_dim + own.rope_dim
    if own.query_rank is None:
        queries = table_parameters(heads * query, model.hidden)
    else:
        queries = compressed_query_parameters(model.hidden, heads, query, own.query_rank)
    rest = latent_attention_parameters(model.hidden, heads, own.kv_rank, own.nope_dim, own.rope_dim, own.value_dim)
    return Mixer(heads, heads, mean_head_dim(query, own.value_dim), queries + rest)


def matrices(hidden: Number, own: LatentAttention, part: Mixer, tp: Number) -> Iterator[Matmul]:
    """Its weight matrices; what every rank does on its part of the sequence is cut over tp too."""
    query = part.heads * (own.nope_dim + own.rope_dim)
    if own.query_rank is None:
        yield Matmul("q", query, hidden)
    else:
        yield Matmul("q down", own.query_rank / tp, hidden, tp)
        yield Matmul("q up", query, own.query_rank)
    yield Matmul("kv down", (own.kv_rank + own.rope_dim) / tp, hidden, tp)
    yield Matmul("kv up", part.heads * (own.nope_dim + own.value_dim), own.kv_rank)
    yield Matmul("attention out", hidden, part.heads * own.value_dim)


def flop(_own: LatentAttention, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
    """Work of its core, forward."""
    return attention_flop(size.sequences, size.sequence, size.heads, part.head_dim, causal=causal)


def traffic(
    model: Model, own: LatentAttention, part: Mixer, tokens: Number, element: Number, *, backward: bool
) -> Number:
    """Bytes of rotation, which both passes move alike."""
    del backward
    if model.positions != "rotary":
        return 0.0
    return rotary_traffic(tokens, part.heads, part.kv_heads, own.rope_dim, element)


def activations(own: LatentAttention, part: Mixer, tokens: Number, element: Number, split: Number) -> Number:
    """Bytes it keeps for backward beside the stream and the scores."""
    with term("mixer"):
        kept = attention_activations(tokens, part.heads, part.kv_heads, part.head_dim, element)
        narrow = (own.query_rank or 0.0, own.kv_rank, own.rope_dim)
        return kept + latent_activations(tokens, *narrow, element) / split


def cache(own: LatentAttention, _tp: Number, tokens: Number, width: CacheWidth) -> Number:
    """Bytes it keeps of a sequence of so many tokens while it serves; every rank keeps all."""
    return latent_cache_bytes(tokens, own.kv_rank, own.rope_dim, width.cache, width.cache)


def exchanged(_own: LatentAttention, part: Mixer) -> tuple[tuple[Number, Number, float], ...]:
    """Queries and results, keys and values."""
    return ((part.heads, part.head_dim, 2.0), (part.kv_heads, part.head_dim, 2.0))
