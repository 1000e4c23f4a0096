"""Attention over a window of tokens and over compressed entries: one vector is key and value of all heads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costmodel.documents.schemas.mixers import CompressedAttention, Entries
from costmodel.documents.schemas.model import Model
from costmodel.equations.kernels.flop import windowed_attention_flop
from costmodel.equations.kernels.memory_traffic import head_norm_traffic, rotary_traffic
from costmodel.equations.layers.parameters import table_parameters
from costmodel.equations.layers.sparse_attention import (
    compressed_attention_activations,
    compressed_attention_parameters,
    compressor_activations,
    compressor_parameters,
    compressor_traffic,
    entry_attention_flop,
    entry_choice_activations,
    entry_pairs,
    entry_scores_flop,
    narrow_activations,
)
from costmodel.equations.memory.kv_cache import (
    compressor_state_bytes,
    entry_cache_bytes,
    latent_cache_bytes,
    window_tokens,
)
from costmodel.estimate.model.mixers.latent_attention import INDEX
from costmodel.estimate.model.mixers.mixer import CacheWidth, CoreSize, Matmul, Mixer
from costmodel.ground.equation import Number, term


def hold(model: Model, own: CompressedAttention, tp: Number) -> Mixer:
    """Attention on a rank: tp shards heads by whole groups; narrow queries, keys and compressors are on every rank."""
    heads = own.heads / tp
    sizes = (own.query_rank, own.output_groups / tp, own.output_rank)
    held = compressed_attention_parameters(model.hidden, heads, own.head_dim, *sizes)
    if own.sinks:
        held = held + heads
    if own.entries is not None:
        with term("entries"):
            held = held + _entry_parameters(model.hidden, own, own.entries)
    return Mixer(heads, 1.0, own.head_dim, held)


def _entry_parameters(hidden: Number, own: CompressedAttention, entries: Entries) -> Number:
    """Parameters of the compressor that makes entries, and of the indexer, which has a compressor for its keys."""
    found = compressor_parameters(hidden, own.head_dim, entries.rate, entries.series)
    indexer = entries.indexer
    if indexer is None:
        return found
    with term("indexer"):
        found = found + compressor_parameters(hidden, indexer.head_dim, entries.rate, entries.series)
        found = found + table_parameters(own.query_rank, indexer.heads * indexer.head_dim)
        return found + table_parameters(hidden, indexer.heads)


def matrices(hidden: Number, own: CompressedAttention, part: Mixer, tp: Number) -> Iterator[Matmul]:
    """The weight matrices; tp shards the ones applied before the heads by the tokens of each rank.

    The first output matrix is one for each group, which reads the heads of its group alone.
    """
    yield Matmul("q down", own.query_rank / tp, hidden, tp)
    yield Matmul("q up", part.heads * part.head_dim, own.query_rank)
    yield Matmul("kv", own.head_dim / tp, hidden, tp)
    if own.entries is not None:
        series, indexer = 2.0 * own.entries.series, own.entries.indexer
        yield Matmul("entries", series * own.head_dim / tp, hidden, tp)
        if indexer is not None:
            yield Matmul("index queries", indexer.heads * indexer.head_dim / tp, own.query_rank, tp)
            yield Matmul("index keys", (series * indexer.head_dim + indexer.heads) / tp, hidden, tp)
    yield Matmul("attention out down", own.output_rank, part.heads * part.head_dim)
    yield Matmul("attention out", hidden, _groups(own, part) * own.output_rank)


def _groups(own: CompressedAttention, part: Mixer) -> Number:
    """Groups of heads on a rank."""
    with term("groups"):
        return own.output_groups * (part.heads / own.heads)


def flop(own: CompressedAttention, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
    """Forward FLOP of the core; tp ranks share the work of the indexer's queries."""
    core, scores = _core_flop(own, part, size, causal=causal), _scores_flop(own, size, causal=causal)
    return core + scores * (size.heads / own.heads)


def _core_flop(own: CompressedAttention, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
    """Forward FLOP of scores and values, over the window and over compressed entries."""
    sizes = (size.sequences, size.sequence, size.heads, part.head_dim)
    core = windowed_attention_flop(*sizes, own.window, causal=causal)
    if own.entries is None:
        return core
    most = np.inf if own.entries.indexer is None else own.entries.indexer.top_k
    with term("entries"):
        read = entry_pairs(size.sequence, own.entries.rate, most, causal=causal)
        return core + entry_attention_flop(size.sequences, read, size.heads, part.head_dim)


def _scores_flop(own: CompressedAttention, size: CoreSize, *, causal: bool) -> Number:
    """Forward FLOP of the indexer, with all its heads."""
    if own.entries is None or own.entries.indexer is None:
        return 0.0
    with term("indexer"):
        scored = entry_pairs(size.sequence, own.entries.rate, np.inf, causal=causal)
        return entry_scores_flop(size.sequences, scored, own.entries.indexer.heads, own.entries.indexer.head_dim)


def appended_flop(own: CompressedAttention, part: Mixer, computed: Number, hit: Number) -> Number:
    """FLOP of new tokens after cached ones, on a rank of an engine; each rank runs the whole indexer."""
    found: list[Number] = []
    for tokens in (hit, hit + computed):
        size = CoreSize(1.0, tokens, part.heads)
        found.append(_core_flop(own, part, size, causal=True) + _scores_flop(own, size, causal=True))
    return found[1] - found[0]


def traffic(
    model: Model, own: CompressedAttention, part: Mixer, tokens: Number, element: Number, *, backward: bool
) -> Number:
    """Memory traffic of norms, of rotary embedding, and of the compressor."""
    del model
    nbytes = head_norm_traffic(tokens, part.heads, 1.0, part.head_dim, element, backward=backward)
    with term("rotation"):
        nbytes = nbytes + rotary_traffic(tokens, part.heads + part.heads, 1.0, own.rope_dim, element)
    if own.entries is not None:
        with term("entries"):
            sizes = (own.entries.rate, own.entries.series, element)
            nbytes = nbytes + compressor_traffic(tokens, _width(own, own.entries), *sizes, backward=backward)
    return nbytes


def _width(own: CompressedAttention, entries: Entries) -> float:
    """Width of a compressed entry with its indexer key."""
    return own.head_dim + (0.0 if entries.indexer is None else entries.indexer.head_dim)


def activations(own: CompressedAttention, part: Mixer, tokens: Number, element: Number, split: Number) -> Number:
    """Saved activations, without the residual stream and the scores."""
    with term("mixer"):
        groups = _groups(own, part)
        kept = compressed_attention_activations(tokens, part.heads, part.head_dim, groups, own.output_rank, element)
        narrow = narrow_activations(tokens, own.query_rank, own.head_dim, element)
        if own.entries is not None:
            sizes = (own.entries.rate, own.entries.series, element)
            narrow = narrow + compressor_activations(tokens, _width(own, own.entries), *sizes)
            if (indexer := own.entries.indexer) is not None:
                chosen = (indexer.heads, indexer.head_dim, indexer.top_k)
                narrow = narrow + entry_choice_activations(tokens, *chosen, element, INDEX)
        return kept + narrow / split


def cache(own: CompressedAttention, _tp: Number, tokens: Number, width: CacheWidth) -> Number:
    """Cache bytes of a sequence with so many tokens; every rank stores the whole cache."""
    return held(own, window_tokens(tokens, own.window), tokens, width)


def held(own: CompressedAttention, windowed: Number, tokens: Number, width: CacheWidth) -> Number:
    """Cache bytes of so many window tokens, of entries and index keys, and of tokens not yet compressed."""
    with term("window"):
        found = latent_cache_bytes(windowed, own.head_dim, 0.0, width.cache, width.cache)
    if own.entries is None:
        return found
    with term("run at hand"):
        sizes = (own.entries.rate, _width(own, own.entries), own.entries.series)
        return found + grown(own, tokens, width) + compressor_state_bytes(*sizes, width.state)


def grown(own: CompressedAttention, tokens: Number, width: CacheWidth) -> Number:
    """Cache bytes of the entries and index keys for so many tokens."""
    if own.entries is None:
        return 0.0
    with term("entries"):
        return entry_cache_bytes(tokens, own.entries.rate, _width(own, own.entries), width.cache)


def read(own: CompressedAttention, tokens: Number, width: CacheWidth) -> Number:
    """Cache bytes that one query reads: its window, all index keys, and the selected entries."""
    with term("window"):
        found = latent_cache_bytes(window_tokens(tokens, own.window), own.head_dim, 0.0, width.cache, width.cache)
    if own.entries is None:
        return found
    with term("entries"):
        found = found + latent_cache_bytes(_picked(own.entries, tokens), own.head_dim, 0.0, width.cache, width.cache)
    if own.entries.indexer is None:
        return found
    with term("index keys"):
        return found + entry_cache_bytes(tokens, own.entries.rate, own.entries.indexer.head_dim, width.cache)


def _picked(entries: Entries, tokens: Number) -> Number:
    """Compressed entries that a query reads, out of those for so many tokens."""
    with term("entries"):
        made = tokens / entries.rate
    return made if entries.indexer is None else np.minimum(made, entries.indexer.top_k)


def picked(own: CompressedAttention, tokens: Number) -> Number:
    """Keys that a query reads out of so many tokens: of its window, and compressed entries."""
    seen = window_tokens(tokens, own.window)
    return seen if own.entries is None else seen + _picked(own.entries, tokens)


def gathered(own: CompressedAttention) -> tuple[tuple[Number, Number, float], ...]:
    """Heads, width and number of the vectors in an all-gather of a sequence: only compressed entries.

    A window reaches over a few tokens of the rank before, which is negligible.
    """
    if own.entries is None:
        return ()
    return ((1.0, sent(own), 1.0),)


def sent(own: CompressedAttention) -> Number:
    """Width per token of the compressed entries that context-parallel ranks exchange."""
    if own.entries is None:
        return 0.0
    with term("entries"):
        return _width(own, own.entries) / own.entries.rate


def exchanged(own: CompressedAttention, part: Mixer) -> tuple[tuple[Number, Number, float], ...]:
    """Queries and results. Each rank needs all keys, so heads cannot be exchanged for tokens."""
    del own
    return ((part.heads, part.head_dim, 2.0),)
