"""The kinds of mixers: an entry for each, with everything that time, memory and serving ask of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from costmodel.documents.schemas.model import (
    AnyMixer,
    Attention,
    CompressedAttention,
    Entries,
    LatentAttention,
    LinearAttention,
    Model,
    SelectiveScan,
    StateSpace,
)
from costmodel.equations.kernels.flop import attention_flop, windowed_attention_flop
from costmodel.equations.kernels.memory_traffic import head_norm_traffic, rotary_traffic
from costmodel.equations.layers.attention import (
    compressed_attention_activations,
    compressed_attention_parameters,
    compressed_query_parameters,
    compressor_activations,
    compressor_parameters,
    compressor_traffic,
    entry_attention_flop,
    entry_choice_activations,
    entry_pairs,
    entry_scores_flop,
    indexer_activations,
    indexer_flop,
    indexer_parameters,
    latent_activations,
    latent_attention_parameters,
    mean_head_dim,
    narrow_activations,
    output_gate_activations,
    output_gate_traffic,
    selected_activations,
    selected_attention_flop,
)
from costmodel.equations.layers.parameters import attention_parameters, norm_parameters, table_parameters
from costmodel.equations.layers.state_space import (
    linear_attention_activations,
    linear_attention_flop,
    linear_attention_traffic,
    linear_attention_width,
    linear_gate_columns,
    linear_gate_parameters,
    linear_state_bytes,
    selective_scan_activations,
    selective_scan_flop,
    selective_scan_parameters,
    selective_scan_time,
    selective_scan_traffic,
    state_space_activations,
    state_space_flop,
    state_space_parameters,
    state_space_traffic,
    state_space_width,
)
from costmodel.equations.memory.activations import attention_activations, head_norm_activations
from costmodel.equations.memory.kv_cache import (
    attention_cache_bytes,
    compressor_state_bytes,
    entry_cache_bytes,
    latent_cache_bytes,
    state_cache_bytes,
    window_tokens,
)
from costmodel.equations.parallelism.counts import kv_heads_per_rank, tokens_in_micro_batch
from costmodel.equations.parallelism.recompute import attention_output_bytes
from costmodel.estimate.model.mixers.mixer import CacheWidth, CoreSize, Matmul, Mixer, MixerKind, Shapes, SharedKeys
from costmodel.ground.equation import Number, term


def _projected_pairs(attn: Attention, kv_heads: Number) -> Number:
    """Number of key-value head pairs that the layer projects; keys that are also the values count as half a pair."""
    if attn.shared_kv:
        return 0.0
    with term("projected keys and values"):
        return kv_heads / 2.0 if attn.keys_as_values else kv_heads


def _computed_kv_heads(attn: Attention, part: Mixer) -> Number:
    """KV heads that the layer computes; 0 if it reads those of an earlier layer."""
    return 0.0 if attn.shared_kv else part.kv_heads


class GroupedKind(MixerKind[Attention]):
    """Multi-head and grouped-query attention, over all tokens or in a window."""

    def label(self, attn: Attention) -> str:
        """Name of the attention in answers."""
        return "attention with sinks" if attn.sinks else "attention"

    def cache_label(self, attn: Attention) -> str:
        """The name of this layer kind's cache, for tables.

        >>> GroupedKind().cache_label(Attention.model_construct(window=1024.0, shared_kv=False))
        'window of 1,024'
        """
        shared = ", keys shared" if attn.shared_kv else ""
        return (f"window of {attn.window:,.0f}" if attn.window is not None else "full attention") + shared

    def token_bytes(self, attn: Attention, width: CacheWidth) -> Number:
        """KV-cache bytes that one more token adds; 0 with a sliding window, whose cache has a constant size."""
        return 0.0 if attn.window is not None else self.cache(attn, 1.0, 1.0, width)

    def shard(self, model: Model, attn: Attention, tp: Number) -> Mixer:
        """Heads, widths and parameters of the attention on one of `tp` ranks."""
        heads = attn.heads / tp
        kv_heads = kv_heads_per_rank(attn.kv_heads, tp)
        biases = {"biases": attn.biases, "output_bias": attn.output_bias}
        held = attention_parameters(model.hidden, heads, _projected_pairs(attn, kv_heads), attn.core_width, **biases)
        if attn.biases and attn.value_dim is not None:
            with term("biases of queries"):
                held = held + heads * (attn.head_dim - attn.core_width)
        if attn.qk_norm:
            held = held + (1.0 if attn.shared_kv else 2.0) * norm_parameters(attn.head_dim, norm=model.norm)
        if attn.qk_norm_whole:
            widths = heads * attn.head_dim + kv_heads * attn.head_dim
            held = held + norm_parameters(widths, norm=model.norm)
        if attn.sinks:
            held = held + heads
        if attn.output_gate:
            with term("output gate"):
                held = held + table_parameters(heads * attn.value_width, model.hidden)
                held = held + heads * attn.value_width if attn.biases else held
        return Mixer(heads, kv_heads, attn.core_width, held)

    def matrices(self, hidden: Number, attn: Attention, part: Mixer, _tp: Number) -> Iterator[Matmul]:
        """The weight matrices as one rank multiplies them; the output gate is fused with queries, keys and values."""
        inner = part.heads * attn.value_width
        keys_and_values = 2.0 * (_projected_pairs(attn, part.kv_heads) * part.head_dim)
        queries = part.heads * attn.head_dim
        yield Matmul(
            "qkv", queries + inner + keys_and_values if attn.output_gate else queries + keys_and_values, hidden
        )
        yield Matmul("attention out", hidden, inner)

    def flop(self, attn: Attention, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
        """Forward FLOP of attention scores and weighted values, inside the sliding window if there is one."""
        sizes = (size.sequences, size.sequence, size.heads, part.head_dim)
        causal = causal and not attn.bidirectional
        if attn.window is None:
            return attention_flop(*sizes, causal=causal)
        return windowed_attention_flop(*sizes, attn.window, causal=causal)

    def traffic(
        self, model: Model, attn: Attention, part: Mixer, tokens: Number, element: Number, *, backward: bool
    ) -> Number:
        """Memory traffic of rotary embedding, QK norm and output gate."""
        nbytes: Number = 0.0
        sizes = (tokens, part.heads, _computed_kv_heads(attn, part), attn.head_dim, element)
        if model.positions == "rotary":
            nbytes = rotary_traffic(*sizes)
        if attn.qk_norm or attn.qk_norm_whole:
            nbytes = nbytes + head_norm_traffic(*sizes, backward=backward)
        if attn.value_norm:
            values = (tokens, 0.0, _computed_kv_heads(attn, part), attn.value_width, element)
            nbytes = nbytes + head_norm_traffic(*values, backward=backward)
        if attn.output_gate:
            nbytes = nbytes + output_gate_traffic(tokens, part.heads, attn.value_width, element, backward=backward)
        return nbytes

    def activations(self, attn: Attention, part: Mixer, tokens: Number, element: Number, _split: Number) -> Number:
        """Bytes saved for backward, without the residual stream and the attention scores."""
        with term("mixer"):
            made = _computed_kv_heads(attn, part)
            kept = attention_activations(tokens, part.heads, made, part.head_dim, element)
            if attn.qk_norm or attn.qk_norm_whole:
                kept = kept + head_norm_activations(tokens, part.heads, made, attn.head_dim, element)
            if attn.value_norm and not attn.keys_as_values:
                kept = kept + head_norm_activations(tokens, 0.0, made, attn.value_width, element)
            if attn.output_gate:
                kept = kept + output_gate_activations(tokens, part.heads, attn.value_width, element)
            return kept

    def cache(self, attn: Attention, tp: Number, tokens: Number, width: CacheWidth) -> Number:
        """KV-cache bytes of a sequence with so many tokens; 0 if the layer reads the cache of another layer."""
        return 0.0 if attn.shared_kv else self.cache_read(attn, tp, tokens, width)

    def cache_read(self, attn: Attention, tp: Number, tokens: Number, width: CacheWidth) -> Number:
        """KV-cache bytes that one decode query reads."""
        kept = tokens if attn.window is None else window_tokens(tokens, attn.window)
        return attention_cache_bytes(kept, kv_heads_per_rank(attn.kv_heads, tp), attn.core_width, width.cache)

    def all_to_all_shape(self, _own: Attention, part: Mixer) -> Shapes:
        """Heads, width and number of the tensors that an all-to-all of heads for tokens moves."""
        return ((part.heads, part.head_dim, 2.0), (part.kv_heads, part.head_dim, 2.0))


INDEX = 4.0  # bytes of the index of a token, as kernels take them


def _head_ranks(mla: LatentAttention, heads: Number) -> Number:
    """Number of ranks over which the heads are sharded."""
    with term("ranks"):
        return mla.heads / heads


def _indexer_cache(mla: LatentAttention, tokens: Number, width: CacheWidth) -> Number:
    """Cache bytes of the indexer's keys, one for each token."""
    if mla.indexer is None:
        return 0.0
    with term("index keys"):
        return latent_cache_bytes(tokens, mla.indexer.head_dim, 0.0, width.cache, width.cache)


class LatentKind(MixerKind[LatentAttention]):
    """Multi-head latent attention: keys and values are computed from one narrow vector per token."""

    def label(self, mla: LatentAttention) -> str:
        """Name of latent attention in answers."""
        return "latent attention" if mla.indexer is None else "attention to selected tokens"

    def cache_label(self, mla: LatentAttention) -> str:
        """The name of this layer kind's cache, for tables."""
        return "latent attention" + (" with indexer" if mla.indexer is not None else "")

    def narrow_width(self, hidden: Number, mla: LatentAttention) -> Number:
        """Width of the compressed queries and keys, which tp ranks gather."""
        with term("latents"):
            return (mla.query_rank or hidden) + mla.kv_rank + mla.rope_dim

    def picked_keys(self, mla: LatentAttention) -> float:
        """Keys that the indexer selects per token."""
        return 0.0 if mla.indexer is None else mla.indexer.top_k

    def shared_keys(self, mla: LatentAttention, tokens: Number) -> SharedKeys:
        """The latent vectors that one query reads."""
        return SharedKeys(self.keys_read(mla, tokens), mla.kv_rank, mla.rope_dim)

    def gathered_widths(self, mla: LatentAttention) -> tuple[Number, Number, Number] | None:
        """Widths per token (latent, rotary part, index key) that a rank with an indexer needs of all tokens."""
        return None if mla.indexer is None else (mla.kv_rank, mla.rope_dim, mla.indexer.head_dim)

    def shard(self, model: Model, mla: LatentAttention, tp: Number) -> Mixer:
        """Heads and parameters of MLA on one rank: it has all down projections, and its heads of up projections."""
        heads = mla.heads / tp
        query = mla.nope_dim + mla.rope_dim
        if mla.query_rank is None:
            queries = table_parameters(heads * query, model.hidden)
        else:
            queries = compressed_query_parameters(model.hidden, heads, query, mla.query_rank)
        rest = latent_attention_parameters(model.hidden, heads, mla.kv_rank, mla.nope_dim, mla.rope_dim, mla.value_dim)
        held = queries + rest
        if mla.indexer is not None:
            with term("indexer"):
                sizes = (mla.query_rank or 0.0, mla.indexer.heads, mla.indexer.head_dim)
                held = held + indexer_parameters(model.hidden, *sizes)
        return Mixer(heads, heads, mean_head_dim(query, mla.value_dim), held)

    def matrices(self, hidden: Number, mla: LatentAttention, part: Mixer, tp: Number) -> Iterator[Matmul]:
        """The weight matrices; tp shards the down projections by the tokens of each rank."""
        query = part.heads * (mla.nope_dim + mla.rope_dim)
        if mla.query_rank is None:
            yield Matmul("q", query, hidden)
        else:
            yield Matmul("q down", mla.query_rank / tp, hidden, tp)
            yield Matmul("q up", query, mla.query_rank)
        yield Matmul("kv down", (mla.kv_rank + mla.rope_dim) / tp, hidden, tp)
        yield Matmul("kv up", part.heads * (mla.nope_dim + mla.value_dim), mla.kv_rank)
        if mla.indexer is not None:
            yield Matmul("index queries", mla.indexer.heads * mla.indexer.head_dim / tp, mla.query_rank or 0.0, tp)
            yield Matmul("index keys", (mla.indexer.head_dim + mla.indexer.heads) / tp, hidden, tp)
        yield Matmul("attention out", hidden, part.heads * mla.value_dim)

    def flop(self, mla: LatentAttention, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
        """Forward FLOP of attention scores and values; tp ranks divide the work of the sparse-attention indexer."""
        sizes = (size.sequences, size.sequence)
        if mla.indexer is None:
            return attention_flop(*sizes, size.heads, part.head_dim, causal=causal)
        core = selected_attention_flop(*sizes, size.heads, mla.kv_rank, mla.rope_dim, mla.indexer.top_k, causal=causal)
        with term("indexer"):
            scores = indexer_flop(*sizes, mla.indexer.heads, mla.indexer.head_dim, causal=causal)
            return core + scores / _head_ranks(mla, size.heads)

    def appended_flop(self, mla: LatentAttention, part: Mixer, computed: Number, hit: Number) -> tuple[Number, Number]:
        """Forward FLOP of new prompt tokens after cached ones: of attention, and of the unsharded indexer."""
        assert mla.indexer is not None
        widths = (mla.kv_rank, mla.rope_dim, mla.indexer.top_k)
        found: list[tuple[Number, Number]] = []
        for tokens in (hit, hit + computed):
            core = selected_attention_flop(1.0, tokens, part.heads, *widths, causal=True)
            with term("indexer"):
                found.append((core, indexer_flop(1.0, tokens, mla.indexer.heads, mla.indexer.head_dim, causal=True)))
        return found[1][0] - found[0][0], found[1][1] - found[0][1]

    def traffic(
        self, model: Model, mla: LatentAttention, part: Mixer, tokens: Number, element: Number, *, backward: bool
    ) -> Number:
        """Memory traffic of rotary embedding, equal in forward and backward."""
        del backward
        if model.positions != "rotary":
            return 0.0
        return rotary_traffic(tokens, part.heads, part.kv_heads, mla.rope_dim, element)

    def activations(self, mla: LatentAttention, part: Mixer, tokens: Number, element: Number, split: Number) -> Number:
        """Bytes saved for backward, without the residual stream and the attention scores."""
        with term("mixer"):
            narrow = (mla.query_rank or 0.0, mla.kv_rank, mla.rope_dim)
            latents = latent_activations(tokens, *narrow, element) / split
            if mla.indexer is None:
                return attention_activations(tokens, part.heads, part.kv_heads, part.head_dim, element) + latents
            widths = (mla.nope_dim, mla.value_dim, mla.kv_rank, mla.rope_dim)
            kept = selected_activations(tokens, part.heads, *widths, element)
            chosen = (mla.indexer.heads, mla.indexer.head_dim, mla.indexer.top_k)
            return kept + latents + indexer_activations(tokens, *chosen, element, INDEX) / split

    def cache(self, mla: LatentAttention, _tp: Number, tokens: Number, width: CacheWidth) -> Number:
        """Cache bytes of a sequence with the given number of tokens; every rank stores the whole cache."""
        return latent_cache_bytes(tokens, mla.kv_rank, mla.rope_dim, width.cache, width.cache) + _indexer_cache(
            mla, tokens, width
        )

    def cache_read(self, mla: LatentAttention, _tp: Number, tokens: Number, width: CacheWidth) -> Number:
        """Cache bytes that one query reads: all index keys, and the latents of the selected tokens."""
        found = latent_cache_bytes(self.keys_read(mla, tokens), mla.kv_rank, mla.rope_dim, width.cache, width.cache)
        return found + _indexer_cache(mla, tokens, width)

    def keys_read(self, mla: LatentAttention, tokens: Number) -> Number:
        """Number of tokens that one query reads of a context of `tokens` tokens."""
        return tokens if mla.indexer is None else np.minimum(tokens, mla.indexer.top_k)

    def all_gather_shape(self, mla: LatentAttention, part: Mixer) -> Shapes:
        """Heads, width and number of the vectors in an all-gather of a sequence: keys and values.

        With an indexer the core reads latents, so these are sent, and one index key a token.
        """
        if mla.indexer is None:
            return ((part.kv_heads, part.head_dim, 2.0),)
        with term("latents"):
            latent = mla.kv_rank + mla.rope_dim
        return ((1.0, latent, 1.0), (1.0, mla.indexer.head_dim, 1.0))

    def all_to_all_shape(self, _own: LatentAttention, part: Mixer) -> Shapes:
        """Heads, width and number of the tensors that an all-to-all of heads for tokens moves."""
        return ((part.heads, part.head_dim, 2.0), (part.kv_heads, part.head_dim, 2.0))


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


def _head_groups(own: CompressedAttention, part: Mixer) -> Number:
    """Number of groups of heads on one rank."""
    with term("groups"):
        return own.output_groups * (part.heads / own.heads)


def _core_flop(own: CompressedAttention, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
    """Forward FLOP of attention scores and weighted values, over the window and over compressed entries."""
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


def _entry_width(own: CompressedAttention, entries: Entries) -> float:
    """Width of a compressed entry with its indexer key."""
    return own.head_dim + (0.0 if entries.indexer is None else entries.indexer.head_dim)


def _picked_entries(entries: Entries, tokens: Number) -> Number:
    """Compressed entries that a query reads, out of those for the given number of tokens."""
    with term("entries"):
        made = tokens / entries.rate
    return made if entries.indexer is None else np.minimum(made, entries.indexer.top_k)


class CompressedKind(MixerKind[CompressedAttention]):
    """Attention over a window of tokens and over compressed entries: one vector is key and value of all heads."""

    def label(self, own: CompressedAttention) -> str:
        """Name of compressed attention in answers."""
        return "compressed attention"

    def cache_label(self, own: CompressedAttention) -> str:
        """The name of this layer kind's cache, for tables."""
        indexed = own.entries is not None and own.entries.indexer is not None
        return "compressed attention" + (" with indexer" if indexed else "")

    def narrow_width(self, hidden: Number, own: CompressedAttention) -> Number:
        """Width of narrow queries, keys and entries, which tp ranks gather."""
        with term("narrow queries and keys"):
            return own.query_rank + own.head_dim + self.entry_width_per_token(own)

    def picked_keys(self, own: CompressedAttention) -> float:
        """Entries that the indexer selects per token."""
        return 0.0 if own.entries is None or own.entries.indexer is None else own.entries.indexer.top_k

    def score_heads(self, own: CompressedAttention, part: Mixer) -> Number:
        """Heads that write scores, of tokens and of entries."""
        if own.entries is None:
            return part.heads
        with term("scores of entries"):
            return part.heads + part.heads / own.entries.rate

    def shared_keys(self, own: CompressedAttention, tokens: Number) -> SharedKeys:
        """The tokens and entries that one query reads."""
        return SharedKeys(self.keys_read(own, tokens), own.head_dim, 0.0)

    def token_bytes(self, own: CompressedAttention, width: CacheWidth) -> Number:
        """Cache bytes of entries that each token adds."""
        return self.entries_cache(own, 1.0, width)

    def gathered_widths(self, own: CompressedAttention) -> tuple[Number, Number, Number]:
        """Widths of the compressed entries per token that a context-parallel rank needs of the whole sequence."""
        return self.entry_width_per_token(own), 0.0, 0.0

    def shard(self, model: Model, own: CompressedAttention, tp: Number) -> Mixer:
        """Heads and parameters on one rank: tp shards groups of heads, but not the narrow matrices."""
        heads = own.heads / tp
        sizes = (own.query_rank, own.output_groups / tp, own.output_rank)
        held = compressed_attention_parameters(model.hidden, heads, own.head_dim, *sizes)
        if own.sinks:
            held = held + heads
        if own.entries is not None:
            with term("entries"):
                held = held + _entry_parameters(model.hidden, own, own.entries)
        return Mixer(heads, 1.0, own.head_dim, held)

    def matrices(self, hidden: Number, own: CompressedAttention, part: Mixer, tp: Number) -> Iterator[Matmul]:
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
        yield Matmul("attention out", hidden, _head_groups(own, part) * own.output_rank)

    def flop(self, own: CompressedAttention, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
        """Forward FLOP of attention scores and values; tp ranks divide the work of the indexer."""
        core, scores = _core_flop(own, part, size, causal=causal), _scores_flop(own, size, causal=causal)
        return core + scores * (size.heads / own.heads)

    def appended_flop(self, own: CompressedAttention, part: Mixer, computed: Number, hit: Number) -> Number:
        """FLOP of new tokens after cached ones, on a rank of an engine; each rank runs the whole indexer."""
        found: list[Number] = []
        for tokens in (hit, hit + computed):
            size = CoreSize(1.0, tokens, part.heads)
            found.append(_core_flop(own, part, size, causal=True) + _scores_flop(own, size, causal=True))
        return found[1] - found[0]

    def traffic(
        self, model: Model, own: CompressedAttention, part: Mixer, tokens: Number, element: Number, *, backward: bool
    ) -> Number:
        """Memory traffic of norms, of rotary embedding, and of the compressor."""
        del model
        nbytes = head_norm_traffic(tokens, part.heads, 1.0, part.head_dim, element, backward=backward)
        with term("rotation"):
            nbytes = nbytes + rotary_traffic(tokens, part.heads + part.heads, 1.0, own.rope_dim, element)
        if own.entries is not None:
            with term("entries"):
                sizes = (own.entries.rate, own.entries.series, element)
                nbytes = nbytes + compressor_traffic(tokens, _entry_width(own, own.entries), *sizes, backward=backward)
        return nbytes

    def activations(
        self, own: CompressedAttention, part: Mixer, tokens: Number, element: Number, split: Number
    ) -> Number:
        """Bytes saved for backward, without the residual stream and the attention scores."""
        with term("mixer"):
            groups = _head_groups(own, part)
            kept = compressed_attention_activations(tokens, part.heads, part.head_dim, groups, own.output_rank, element)
            narrow = narrow_activations(tokens, own.query_rank, own.head_dim, element)
            if own.entries is not None:
                sizes = (own.entries.rate, own.entries.series, element)
                narrow = narrow + compressor_activations(tokens, _entry_width(own, own.entries), *sizes)
                if (indexer := own.entries.indexer) is not None:
                    chosen = (indexer.heads, indexer.head_dim, indexer.top_k)
                    narrow = narrow + entry_choice_activations(tokens, *chosen, element, INDEX)
            return kept + narrow / split

    def cache(self, own: CompressedAttention, _tp: Number, tokens: Number, width: CacheWidth) -> Number:
        """Cache bytes of a sequence with the given number of tokens; every rank stores the whole cache."""
        return self.cache_parts(own, window_tokens(tokens, own.window), tokens, width)

    def cache_parts(self, own: CompressedAttention, windowed: Number, tokens: Number, width: CacheWidth) -> Number:
        """KV-cache bytes of `windowed` window tokens, of compressed entries with keys, and of the tokens since."""
        with term("window"):
            found = latent_cache_bytes(windowed, own.head_dim, 0.0, width.cache, width.cache)
        if own.entries is None:
            return found
        with term("run at hand"):
            sizes = (own.entries.rate, _entry_width(own, own.entries), own.entries.series)
            return found + self.entries_cache(own, tokens, width) + compressor_state_bytes(*sizes, width.state)

    def entries_cache(self, own: CompressedAttention, tokens: Number, width: CacheWidth) -> Number:
        """KV-cache bytes of the compressed entries and index keys for a context of `tokens` tokens."""
        if own.entries is None:
            return 0.0
        with term("entries"):
            return entry_cache_bytes(tokens, own.entries.rate, _entry_width(own, own.entries), width.cache)

    def cache_read(self, own: CompressedAttention, _tp: Number, tokens: Number, width: CacheWidth) -> Number:
        """Cache bytes that one query reads: its window, all index keys, and the selected entries."""
        with term("window"):
            found = latent_cache_bytes(window_tokens(tokens, own.window), own.head_dim, 0.0, width.cache, width.cache)
        if own.entries is None:
            return found
        with term("entries"):
            found = found + latent_cache_bytes(
                _picked_entries(own.entries, tokens), own.head_dim, 0.0, width.cache, width.cache
            )
        if own.entries.indexer is None:
            return found
        with term("index keys"):
            return found + entry_cache_bytes(tokens, own.entries.rate, own.entries.indexer.head_dim, width.cache)

    def keys_read(self, own: CompressedAttention, tokens: Number) -> Number:
        """Number of keys that one query reads of a context of `tokens` tokens: its window, and selected entries."""
        seen = window_tokens(tokens, own.window)
        return seen if own.entries is None else seen + _picked_entries(own.entries, tokens)

    def all_gather_shape(self, own: CompressedAttention, _part: Mixer) -> Shapes:
        """Heads, width and number of the vectors in an all-gather of a sequence: only compressed entries.

        A window reaches over a few tokens of the rank before, which is negligible.
        """
        if own.entries is None:
            return ()
        return ((1.0, self.entry_width_per_token(own), 1.0),)

    def entry_width_per_token(self, own: CompressedAttention) -> Number:
        """Width per token of the compressed entries that context-parallel ranks send each other."""
        if own.entries is None:
            return 0.0
        with term("entries"):
            return _entry_width(own, own.entries) / own.entries.rate

    def all_to_all_shape(self, own: CompressedAttention, part: Mixer) -> Shapes:
        """Sizes of queries and results: each rank needs all keys, so heads and tokens are not exchanged."""
        del own
        return ((part.heads, part.head_dim, 2.0),)


class StateSpaceKind(MixerKind[StateSpace]):
    """A Mamba-2 mixer."""

    def label(self, ssm: StateSpace) -> str:
        """Name of Mamba-2 layers in answers."""
        return "state space"

    def shard(self, model: Model, ssm: StateSpace, tp: Number) -> Mixer:
        """Heads and parameters of a Mamba-2 layer on one of `tp` ranks."""
        heads, groups = ssm.heads / tp, kv_heads_per_rank(ssm.groups, tp)
        held = state_space_parameters(model.hidden, heads, ssm.head_dim, groups, ssm.state, ssm.conv)
        if not ssm.norm:
            held = held - heads * ssm.head_dim
        return Mixer(heads, groups, ssm.head_dim, held)

    def matrices(self, hidden: Number, ssm: StateSpace, part: Mixer, _tp: Number) -> Iterator[Matmul]:
        """The weight matrices as one rank multiplies them."""
        yield Matmul("state in", state_space_width(part.heads, part.head_dim, part.kv_heads, ssm.state), hidden)
        yield Matmul("state out", hidden, part.heads * part.head_dim)

    def flop(self, ssm: StateSpace, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
        """Forward FLOP of the scan, which is always causal."""
        del causal
        tokens = tokens_in_micro_batch(size.sequences, size.sequence)
        return state_space_flop(tokens, size.heads, ssm.head_dim, part.kv_heads, ssm.state, ssm.chunk, ssm.conv)

    def traffic(
        self, _model: Model, ssm: StateSpace, part: Mixer, tokens: Number, element: Number, *, backward: bool
    ) -> Number:
        """Bytes read and written by convolution, scan, gate and norm for this many tokens."""
        sizes = (ssm.head_dim, part.kv_heads, ssm.state)
        return state_space_traffic(tokens, part.heads, *sizes, element, backward=backward)

    def activations(self, ssm: StateSpace, part: Mixer, tokens: Number, element: Number, _split: Number) -> Number:
        """Bytes saved for backward, without the residual stream."""
        kept = state_space_activations(tokens, part.heads, ssm.head_dim, part.kv_heads, ssm.state, element)
        if ssm.norm:
            return kept
        with term("norm left out"):
            return kept - attention_output_bytes(tokens, part.heads, ssm.head_dim, element)

    def cache(self, ssm: StateSpace, tp: Number, _tokens: Number, width: CacheWidth) -> Number:
        """Bytes of the state of a sequence in serving, whatever its length."""
        heads, groups = ssm.heads / tp, kv_heads_per_rank(ssm.groups, tp)
        return state_cache_bytes(heads, ssm.head_dim, groups, ssm.state, ssm.conv, width.state, width.wide)

    def all_to_all_shape(self, ssm: StateSpace, part: Mixer) -> Shapes:
        """Heads, width and number of the tensors (inputs, gates, outputs, B, C) that an all-to-all moves."""
        return ((part.heads, part.head_dim, 3.0), (part.kv_heads, ssm.state, 2.0))


def _linear_projections(hidden: Number, linear: LinearAttention, part: Mixer) -> Iterator[Matmul]:
    """The weight matrices of linear attention: of queries, keys and values, of the gates, of the output."""
    yield Matmul(
        "linear qkv", linear_attention_width(part.heads, linear.value_dim, part.kv_heads, linear.key_dim), hidden
    )
    columns = linear_gate_columns(part.heads, linear.value_dim, linear.key_dim, rule=linear.rule)
    yield Matmul("linear gates", columns, hidden)
    yield Matmul("linear out", hidden, part.heads * linear.value_dim)


class LinearKind(MixerKind[LinearAttention]):
    """Linear attention: Gated DeltaNet, Kimi Delta Attention, lightning attention."""

    def label(self, linear: LinearAttention) -> str:
        """Name of the linear attention in answers."""
        return f"linear attention ({linear.rule})"

    def cache_label(self, linear: LinearAttention) -> str:
        """The name of this layer kind's cache, for tables."""
        return "linear attention"

    def shard(self, model: Model, linear: LinearAttention, tp: Number) -> Mixer:
        """Heads and parameters of linear attention on one of `tp` ranks, which shard the key heads."""
        heads, key_heads = linear.heads / tp, linear.key_heads / tp
        part = Mixer(heads, key_heads, linear.value_dim, 0.0)
        with term("linear attention"):
            held = linear_gate_parameters(
                heads, linear.value_dim, key_heads, linear.key_dim, linear.conv or 0.0, rule=linear.rule
            )
            for matrix in _linear_projections(model.hidden, linear, part):
                held = held + table_parameters(matrix.n, matrix.k)
        return Mixer(heads, key_heads, linear.value_dim, held)

    def matrices(self, hidden: Number, linear: LinearAttention, part: Mixer, _tp: Number) -> Iterator[Matmul]:
        """The weight matrices as one rank multiplies them."""
        *ahead, out = _linear_projections(hidden, linear, part)
        yield from ahead
        if linear.rule == "kimi-delta":
            yield Matmul("linear decay up", part.kv_heads * linear.key_dim, linear.key_dim)
            yield Matmul("linear gate up", part.heads * linear.value_dim, linear.value_dim)
        yield out

    def flop(self, linear: LinearAttention, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
        """Forward FLOP of the recurrence, which is always causal."""
        del causal
        tokens = tokens_in_micro_batch(size.sequences, size.sequence)
        sizes = (linear.value_dim, part.kv_heads, linear.key_dim, linear.chunk, linear.conv or 0.0)
        return linear_attention_flop(tokens, size.heads, *sizes, rule=linear.rule)

    def traffic(
        self, _model: Model, linear: LinearAttention, part: Mixer, tokens: Number, element: Number, *, backward: bool
    ) -> Number:
        """Bytes read and written by convolution, scan, gate and norm for this many tokens."""
        sizes = (part.heads, linear.value_dim, part.kv_heads, linear.key_dim, linear.chunk)
        return linear_attention_traffic(tokens, *sizes, element, rule=linear.rule, backward=backward)

    def activations(
        self, linear: LinearAttention, part: Mixer, tokens: Number, element: Number, _split: Number
    ) -> Number:
        """Bytes saved for backward, without the residual stream."""
        sizes = (part.heads, linear.value_dim, part.kv_heads, linear.key_dim, linear.chunk)
        return linear_attention_activations(tokens, *sizes, element, rule=linear.rule)

    def cache(self, linear: LinearAttention, tp: Number, _tokens: Number, width: CacheWidth) -> Number:
        """Bytes of the state of a sequence in serving, whatever its length."""
        sizes = (linear.heads / tp, linear.value_dim, linear.key_heads / tp, linear.key_dim, linear.conv or 1.0)
        return linear_state_bytes(*sizes, width.state, width.wide)

    def all_to_all_shape(self, linear: LinearAttention, part: Mixer) -> Shapes:
        """Heads, width and number of the tensors (values, gates, results, queries, keys) that an all-to-all moves."""
        return ((part.heads, linear.value_dim, 3.0), (part.kv_heads, linear.key_dim, 2.0))


class SelectiveScanKind(MixerKind[SelectiveScan]):
    """A Mamba-1 mixer. Each channel counts as a head of width 1."""

    def label(self, scan: SelectiveScan) -> str:
        """Name of Mamba-1 layers in answers."""
        return "selective scan"

    def shard(self, model: Model, scan: SelectiveScan, tp: Number) -> Mixer:
        """Channels and parameters of a Mamba-1 layer on one of `tp` ranks, which shard the channels."""
        inner = scan.inner / tp
        options = {"normalised": scan.norms, "biases": scan.biases}
        held = selective_scan_parameters(model.hidden, inner, scan.state, scan.rank, scan.conv, **options)
        return Mixer(inner, 0.0, 1.0, held)

    def matrices(self, hidden: Number, scan: SelectiveScan, part: Mixer, _tp: Number) -> Iterator[Matmul]:
        """The weight matrices as one rank multiplies them."""
        yield Matmul("scan in", 2.0 * part.heads, hidden)
        yield Matmul("scan steps", self.inner_all_reduce_width(scan), part.heads)
        yield Matmul("scan steps up", part.heads, scan.rank)
        yield Matmul("scan out", hidden, part.heads)

    def inner_all_reduce_width(self, scan: SelectiveScan) -> float:
        """Width of the scan's inputs that each token computes from all channels: low-rank step sizes, B and C.

        Ranks of tp hold some channels each, and sum it up.
        """
        return scan.rank + 2.0 * scan.state

    def flop(self, scan: SelectiveScan, _part: Mixer, size: CoreSize, *, causal: bool) -> Number:
        """Forward FLOP of the scan, which is always causal."""
        del causal
        tokens = tokens_in_micro_batch(size.sequences, size.sequence)
        return selective_scan_flop(tokens, size.heads, scan.state, scan.conv)

    def scan_time(
        self, scan: SelectiveScan, part: Mixer, tokens: Number, attainable: Number, *, backward: bool
    ) -> Number:
        """Time of the scan on the vector units; backward repeats the forward scan and has twice its work."""
        with term("exponentials"):
            decays = tokens * (part.heads * scan.state)
        work = selective_scan_flop(tokens, part.heads, scan.state, scan.conv)
        return selective_scan_time(3.0 * work if backward else work, decays, attainable)

    def traffic(
        self, _model: Model, scan: SelectiveScan, part: Mixer, tokens: Number, element: Number, *, backward: bool
    ) -> Number:
        """Bytes read and written by convolution, scan, gate and norms for this many tokens."""
        sizes = (part.heads, scan.state, scan.rank, element)
        return selective_scan_traffic(tokens, *sizes, normalised=scan.norms, backward=backward)

    def activations(self, scan: SelectiveScan, part: Mixer, tokens: Number, element: Number, _split: Number) -> Number:
        """Bytes saved for backward, without the residual stream."""
        return selective_scan_activations(tokens, part.heads, scan.state, scan.rank, element, normalised=scan.norms)

    def cache(self, scan: SelectiveScan, tp: Number, _tokens: Number, width: CacheWidth) -> Number:
        """Bytes of the state of a sequence in serving, whatever its length."""
        return state_cache_bytes(scan.inner / tp, 1.0, 0.0, scan.state, scan.conv, width.state, width.wide)

    def all_to_all_shape(self, _own: SelectiveScan, part: Mixer) -> Shapes:
        """Heads, width and number of tensors in an all-to-all of heads for tokens; plans with cp are refused."""
        return ((part.heads, part.head_dim, 4.0),)


GROUPED, LATENT, COMPRESSED, SELECTIVE_SCAN = GroupedKind(), LatentKind(), CompressedKind(), SelectiveScanKind()
KINDS: dict[type[AnyMixer], MixerKind[Any]] = {
    Attention: GROUPED,
    LatentAttention: LATENT,
    CompressedAttention: COMPRESSED,
    StateSpace: StateSpaceKind(),
    LinearAttention: LinearKind(),
    SelectiveScan: SELECTIVE_SCAN,
}
