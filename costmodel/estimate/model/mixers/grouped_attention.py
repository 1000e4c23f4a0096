"""Multi-head and grouped-query attention, over all tokens or in a window."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.schemas.mixers import Attention
from costmodel.documents.schemas.model import Model
from costmodel.equations.kernels.flop import attention_flop, windowed_attention_flop
from costmodel.equations.kernels.memory_traffic import head_norm_traffic, rotary_traffic
from costmodel.equations.layers.attention import output_gate_activations, output_gate_traffic
from costmodel.equations.layers.parameters import attention_parameters, norm_parameters, table_parameters
from costmodel.equations.memory.activations import attention_activations, head_norm_activations
from costmodel.equations.memory.kv_cache import attention_cache_bytes, window_tokens
from costmodel.equations.parallelism.counts import kv_heads_per_rank
from costmodel.estimate.model.mixers.mixer import CacheWidth, CoreSize, Matmul, Mixer
from costmodel.ground.equation import Number, term


def hold(model: Model, own: Attention, tp: Number) -> Mixer:
    """The mixer as one of tp ranks stores it."""
    heads = own.heads / tp
    kv_heads = kv_heads_per_rank(own.kv_heads, tp)
    biases = {"biases": own.biases, "output_bias": own.output_bias}
    held = attention_parameters(model.hidden, heads, _projected(own, kv_heads), own.core_width, **biases)
    if own.biases and own.value_dim is not None:
        with term("biases of queries"):
            held = held + heads * (own.head_dim - own.core_width)
    if own.qk_norm:
        held = held + (1.0 if own.shared_kv else 2.0) * norm_parameters(own.head_dim, norm=model.norm)
    if own.qk_norm_whole:
        widths = heads * own.head_dim + kv_heads * own.head_dim
        held = held + norm_parameters(widths, norm=model.norm)
    if own.sinks:
        held = held + heads
    if own.output_gate:
        with term("output gate"):
            held = held + table_parameters(heads * own.value_width, model.hidden)
            held = held + heads * own.value_width if own.biases else held
    return Mixer(heads, kv_heads, own.core_width, held)


def _projected(own: Attention, kv_heads: Number) -> Number:
    """Pairs of keys and values that are projected; if keys are also the values, a key counts as half a pair."""
    if own.shared_kv:
        return 0.0
    with term("projected keys and values"):
        return kv_heads / 2.0 if own.keys_as_values else kv_heads


def _made(own: Attention, part: Mixer) -> Number:
    """KV heads that the layer computes; 0 if it reads those of an earlier layer."""
    return 0.0 if own.shared_kv else part.kv_heads


def matrices(hidden: Number, own: Attention, part: Mixer, _tp: Number) -> Iterator[Matmul]:
    """The weight matrices as one rank multiplies them; the output gate is fused with queries, keys and values."""
    inner = part.heads * own.value_width
    keys_and_values = 2.0 * (_projected(own, part.kv_heads) * part.head_dim)
    queries = part.heads * own.head_dim
    yield Matmul("qkv", queries + inner + keys_and_values if own.output_gate else queries + keys_and_values, hidden)
    yield Matmul("attention out", hidden, inner)


def flop(own: Attention, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
    """Forward FLOP of the core, inside the window if there is one."""
    sizes = (size.sequences, size.sequence, size.heads, part.head_dim)
    causal = causal and not own.bidirectional
    if own.window is None:
        return attention_flop(*sizes, causal=causal)
    return windowed_attention_flop(*sizes, own.window, causal=causal)


def traffic(model: Model, own: Attention, part: Mixer, tokens: Number, element: Number, *, backward: bool) -> Number:
    """Memory traffic of rotary embedding, QK norm and output gate."""
    nbytes: Number = 0.0
    sizes = (tokens, part.heads, _made(own, part), own.head_dim, element)
    if model.positions == "rotary":
        nbytes = rotary_traffic(*sizes)
    if own.qk_norm or own.qk_norm_whole:
        nbytes = nbytes + head_norm_traffic(*sizes, backward=backward)
    if own.value_norm:
        values = (tokens, 0.0, _made(own, part), own.value_width, element)
        nbytes = nbytes + head_norm_traffic(*values, backward=backward)
    if own.output_gate:
        nbytes = nbytes + output_gate_traffic(tokens, part.heads, own.value_width, element, backward=backward)
    return nbytes


def activations(own: Attention, part: Mixer, tokens: Number, element: Number, _split: Number) -> Number:
    """Saved activations, without the residual stream and the scores."""
    with term("mixer"):
        made = _made(own, part)
        kept = attention_activations(tokens, part.heads, made, part.head_dim, element)
        if own.qk_norm or own.qk_norm_whole:
            kept = kept + head_norm_activations(tokens, part.heads, made, own.head_dim, element)
        if own.value_norm and not own.keys_as_values:
            kept = kept + head_norm_activations(tokens, 0.0, made, own.value_width, element)
        if own.output_gate:
            kept = kept + output_gate_activations(tokens, part.heads, own.value_width, element)
        return kept


def cache(own: Attention, tp: Number, tokens: Number, width: CacheWidth) -> Number:
    """KV-cache bytes of a sequence with so many tokens; 0 if the layer reads the cache of another layer."""
    return 0.0 if own.shared_kv else read(own, tp, tokens, width)


def read(own: Attention, tp: Number, tokens: Number, width: CacheWidth) -> Number:
    """KV-cache bytes that a query reads."""
    kept = tokens if own.window is None else window_tokens(tokens, own.window)
    return attention_cache_bytes(kept, kv_heads_per_rank(own.kv_heads, tp), own.core_width, width.cache)


def exchanged(_own: Attention, part: Mixer) -> tuple[tuple[Number, Number, float], ...]:
    """Shapes of queries and results, keys and values, for an exchange of heads for tokens."""
    return ((part.heads, part.head_dim, 2.0), (part.kv_heads, part.head_dim, 2.0))
