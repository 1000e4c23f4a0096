"""Multi-head latent attention: keys and values are computed from one narrow vector per token."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costmodel.documents.schemas.mixers import LatentAttention
from costmodel.documents.schemas.model import Model
from costmodel.equations.kernels.flop import attention_flop
from costmodel.equations.kernels.memory_traffic import rotary_traffic
from costmodel.equations.layers.attention import (
    compressed_query_parameters,
    latent_activations,
    latent_attention_parameters,
    mean_head_dim,
)
from costmodel.equations.layers.parameters import table_parameters
from costmodel.equations.layers.sparse_attention import (
    indexer_activations,
    indexer_flop,
    indexer_parameters,
    selected_activations,
    selected_attention_flop,
)
from costmodel.equations.memory.activations import attention_activations
from costmodel.equations.memory.kv_cache import latent_cache_bytes
from costmodel.estimate.model.mixers.mixer import CacheWidth, CoreSize, Matmul, Mixer
from costmodel.ground.equation import Number, term

INDEX = 4.0  # bytes of the index of a token, as kernels take them


def hold(model: Model, own: LatentAttention, tp: Number) -> Mixer:
    """The mixer on a rank: down projections are on every rank, up projections are sharded by heads."""
    heads = own.heads / tp
    query = own.nope_dim + own.rope_dim
    if own.query_rank is None:
        queries = table_parameters(heads * query, model.hidden)
    else:
        queries = compressed_query_parameters(model.hidden, heads, query, own.query_rank)
    rest = latent_attention_parameters(model.hidden, heads, own.kv_rank, own.nope_dim, own.rope_dim, own.value_dim)
    held = queries + rest
    if own.indexer is not None:
        with term("indexer"):
            sizes = (own.query_rank or 0.0, own.indexer.heads, own.indexer.head_dim)
            held = held + indexer_parameters(model.hidden, *sizes)
    return Mixer(heads, heads, mean_head_dim(query, own.value_dim), held)


def matrices(hidden: Number, own: LatentAttention, part: Mixer, tp: Number) -> Iterator[Matmul]:
    """The weight matrices; tp shards the down projections by the tokens of each rank."""
    query = part.heads * (own.nope_dim + own.rope_dim)
    if own.query_rank is None:
        yield Matmul("q", query, hidden)
    else:
        yield Matmul("q down", own.query_rank / tp, hidden, tp)
        yield Matmul("q up", query, own.query_rank)
    yield Matmul("kv down", (own.kv_rank + own.rope_dim) / tp, hidden, tp)
    yield Matmul("kv up", part.heads * (own.nope_dim + own.value_dim), own.kv_rank)
    if own.indexer is not None:
        yield Matmul("index queries", own.indexer.heads * own.indexer.head_dim / tp, own.query_rank or 0.0, tp)
        yield Matmul("index keys", (own.indexer.head_dim + own.indexer.heads) / tp, hidden, tp)
    yield Matmul("attention out", hidden, part.heads * own.value_dim)


def flop(own: LatentAttention, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
    """Forward FLOP of the core; tp ranks share the work of the indexer's queries."""
    sizes = (size.sequences, size.sequence)
    if own.indexer is None:
        return attention_flop(*sizes, size.heads, part.head_dim, causal=causal)
    core = selected_attention_flop(*sizes, size.heads, own.kv_rank, own.rope_dim, own.indexer.top_k, causal=causal)
    with term("indexer"):
        scores = indexer_flop(*sizes, own.indexer.heads, own.indexer.head_dim, causal=causal)
        return core + scores / _ranks(own, size.heads)


def appended_flop(own: LatentAttention, part: Mixer, computed: Number, hit: Number) -> tuple[Number, Number]:
    """FLOP of new tokens after cached ones: of the core, and of the indexer, whole on every rank of an engine."""
    assert own.indexer is not None
    widths = (own.kv_rank, own.rope_dim, own.indexer.top_k)
    found: list[tuple[Number, Number]] = []
    for tokens in (hit, hit + computed):
        core = selected_attention_flop(1.0, tokens, part.heads, *widths, causal=True)
        with term("indexer"):
            found.append((core, indexer_flop(1.0, tokens, own.indexer.heads, own.indexer.head_dim, causal=True)))
    return found[1][0] - found[0][0], found[1][1] - found[0][1]


def _ranks(own: LatentAttention, heads: Number) -> Number:
    """Ranks that shard the heads."""
    with term("ranks"):
        return own.heads / heads


def traffic(
    model: Model, own: LatentAttention, part: Mixer, tokens: Number, element: Number, *, backward: bool
) -> Number:
    """Memory traffic of rotary embedding, equal in forward and backward."""
    del backward
    if model.positions != "rotary":
        return 0.0
    return rotary_traffic(tokens, part.heads, part.kv_heads, own.rope_dim, element)


def activations(own: LatentAttention, part: Mixer, tokens: Number, element: Number, split: Number) -> Number:
    """Saved activations, without the residual stream and the scores."""
    with term("mixer"):
        narrow = (own.query_rank or 0.0, own.kv_rank, own.rope_dim)
        latents = latent_activations(tokens, *narrow, element) / split
        if own.indexer is None:
            return attention_activations(tokens, part.heads, part.kv_heads, part.head_dim, element) + latents
        widths = (own.nope_dim, own.value_dim, own.kv_rank, own.rope_dim)
        kept = selected_activations(tokens, part.heads, *widths, element)
        chosen = (own.indexer.heads, own.indexer.head_dim, own.indexer.top_k)
        return kept + latents + indexer_activations(tokens, *chosen, element, INDEX) / split


def cache(own: LatentAttention, _tp: Number, tokens: Number, width: CacheWidth) -> Number:
    """Cache bytes of a sequence with so many tokens; every rank stores the whole cache."""
    return latent_cache_bytes(tokens, own.kv_rank, own.rope_dim, width.cache, width.cache) + _keys(own, tokens, width)


def _keys(own: LatentAttention, tokens: Number, width: CacheWidth) -> Number:
    """Cache bytes of the indexer's keys, one for each token."""
    if own.indexer is None:
        return 0.0
    with term("index keys"):
        return latent_cache_bytes(tokens, own.indexer.head_dim, 0.0, width.cache, width.cache)


def read(own: LatentAttention, tokens: Number, width: CacheWidth) -> Number:
    """Cache bytes that one query reads: all index keys, and the latents of the selected tokens."""
    found = latent_cache_bytes(picked(own, tokens), own.kv_rank, own.rope_dim, width.cache, width.cache)
    return found + _keys(own, tokens, width)


def picked(own: LatentAttention, tokens: Number) -> Number:
    """Tokens that a query reads out of so many."""
    return tokens if own.indexer is None else np.minimum(tokens, own.indexer.top_k)


def gathered(own: LatentAttention, part: Mixer) -> tuple[tuple[Number, Number, float], ...]:
    """Heads, width and number of the vectors in an all-gather of a sequence: keys and values.

    With an indexer the core reads latents, so these are sent, and one index key a token.
    """
    if own.indexer is None:
        return ((part.kv_heads, part.head_dim, 2.0),)
    with term("latents"):
        latent = own.kv_rank + own.rope_dim
    return ((1.0, latent, 1.0), (1.0, own.indexer.head_dim, 1.0))


def exchanged(_own: LatentAttention, part: Mixer) -> tuple[tuple[Number, Number, float], ...]:
    """Shapes of queries and results, keys and values, for an exchange of heads for tokens."""
    return ((part.heads, part.head_dim, 2.0), (part.kv_heads, part.head_dim, 2.0))
