"""Linear attention: a state for each head in place of the keys and values of all tokens."""

from __future__ import annotations

from costmodel.equations.kernels.flop import FLOP_PER_MAC
from costmodel.ground.choices import LinearRule
from costmodel.ground.equation import Number, equation


@equation
def linear_attention_width(heads: Number, value_dim: Number, key_heads: Number, key_dim: Number) -> Number:
    """Columns of queries, keys and values, which the short convolution runs over where there is one.

    2 k d_k + a d_v

    heads a: value heads · value_dim d_v · key_heads k: query and key heads · key_dim d_k → columns
    Source: yang-2024 §4
    Monotone: increasing in heads, value_dim, key_heads, key_dim
    >>> linear_attention_width(32.0, 128.0, 16.0, 128.0)
    8192.0
    """
    return 2 * key_heads * key_dim + heads * value_dim


@equation
def linear_gate_columns(heads: Number, value_dim: Number, key_dim: Number, *, rule: LinearRule) -> Number:
    """Columns that are projected from the stream for gates, decay and learning rate.

    gated-delta a d_v + 2 a; kimi-delta d_k + d_v + a, the narrow inputs of decay and gate; lightning a d_v

    heads a: value heads · value_dim d_v · key_dim d_k · rule: "gated-delta", "kimi-delta" or "lightning" → columns
    Source: yang-2024 §4; kimi-linear §3; minimax-01 §2
    Monotone: increasing in heads, value_dim, key_dim
    >>> linear_gate_columns(32.0, 128.0, 128.0, rule="gated-delta")
    4160.0
    """
    if rule == "kimi-delta":
        return key_dim + value_dim + heads
    return heads * value_dim + (2 * heads if rule == "gated-delta" else 0.0)


@equation
def linear_gate_parameters(
    heads: Number, value_dim: Number, key_heads: Number, key_dim: Number, conv: Number, *, rule: LinearRule
) -> Number:
    """Parameters of linear attention beside its projections from and to the stream.

    gated-delta c q + 2 a + d_v, q = 2 k d_k + a d_v; kimi-delta c q + d_k k d_k + k d_k + d_v a d_v + a + d_v;
    lightning a d_v

    heads a: value heads · value_dim d_v · key_heads k: query and key heads · key_dim d_k
    conv: taps of the convolution, c; 0 without one · rule: "gated-delta", "kimi-delta" or "lightning"
    → parameters
    Source: yang-2024 §4; kimi-linear §3; minimax-01 §2
    Monotone: increasing in heads, value_dim, key_heads, key_dim, conv
    >>> linear_gate_parameters(32.0, 128.0, 16.0, 128.0, 4.0, rule="gated-delta")
    32960.0
    """
    taps = conv * (2 * key_heads * key_dim + heads * value_dim)
    if rule == "gated-delta":
        return taps + 2 * heads + value_dim
    if rule == "kimi-delta":
        decay = key_dim * key_heads * key_dim + key_heads * key_dim
        return taps + decay + value_dim * heads * value_dim + heads + value_dim
    return taps + heads * value_dim


@equation
def linear_attention_flop(
    tokens: Number,
    heads: Number,
    value_dim: Number,
    key_heads: Number,
    key_dim: Number,
    chunk: Number,
    conv: Number,
    *,
    rule: LinearRule,
) -> Number:
    """Work of a chunked core, forward: within chunks as masked attention, between them through the state.

    per token 2 a (q (d_k + d_v) / 2 + 2 d_k d_v) + 2 c (2 k d_k + a d_v); the delta rules add to the first sum
    q (2 d_k + d_v) / 2 + q² / 6 + d_k d_v: the products of keys, the triangular system, and what the state takes back

    tokens: tokens · heads a: value heads of a rank · value_dim d_v · key_heads k: query and key heads · key_dim d_k
    chunk q · conv: taps of the convolution, c; 0 without one · rule: "gated-delta", "kimi-delta" or "lightning"
    → work [FLOP]
    Source: yang-2024 §3.2; qin-2024
    Holds: sequences of whole chunks; half of each chunk's square is masked
    Monotone: increasing in tokens, heads, value_dim, key_heads, key_dim, chunk, conv
    >>> linear_attention_flop(1.0, 1.0, 128.0, 1.0, 128.0, 60.0, 0.0, rule="gated-delta")
    137904.0
    """
    macs = chunk * (key_dim + value_dim) / 2 + 2 * key_dim * value_dim
    if rule != "lightning":
        macs = macs + chunk * (2 * key_dim + value_dim) / 2 + chunk * chunk / 6 + key_dim * value_dim
    taps = conv * (2 * key_heads * key_dim + heads * value_dim)
    return FLOP_PER_MAC * tokens * (heads * macs + taps)


@equation
def linear_attention_traffic(
    tokens: Number,
    heads: Number,
    value_dim: Number,
    key_heads: Number,
    key_dim: Number,
    chunk: Number,
    element: Number,
    *,
    rule: LinearRule,
    backward: bool,
) -> Number:
    """Bytes of a chunked core through memory: kernels read and write their streams, and a state for every chunk.

    forward e (12 k d_k + 11 a d_v + 2 a d_k + 2 a d_k d_v / q) per token with a delta rule (convolution, norms of
    queries and keys, transformed keys and values, states, output, gated norm), lightning
    e (6 k d_k + 7 a d_v + 2 a d_k d_v / q), its SiLU included; backward twice that

    tokens: tokens · heads a: value heads of a rank · value_dim d_v · key_heads k: query and key heads · key_dim d_k
    chunk q · element e [B] · rule: "gated-delta", "kimi-delta" or "lightning" · backward: the backward pass
    → bytes through memory [B]
    Source: count of reads and writes; flash-linear-attention
    Monotone: increasing in tokens, heads, value_dim, key_heads, key_dim, element
    >>> linear_attention_traffic(1.0, 1.0, 64.0, 1.0, 64.0, 64.0, 2.0, rule="lightning", backward=False)
    1920.0
    """
    keys, values = key_heads * key_dim, heads * value_dim
    states = 2 * heads * key_dim * value_dim / chunk
    moved = 6 * keys + 7 * values if rule == "lightning" else 12 * keys + 11 * values + 2 * heads * key_dim
    return (2.0 if backward else 1.0) * element * tokens * (moved + states)


@equation
def linear_attention_activations(
    tokens: Number,
    heads: Number,
    value_dim: Number,
    key_heads: Number,
    key_dim: Number,
    chunk: Number,
    element: Number,
    *,
    rule: LinearRule,
) -> Number:
    """What linear attention keeps of its streams, its gates apart.

    lightning e (4 k d_k + 5 a d_v) per token: queries, keys and values before and behind their SiLU, the core's
    output, the gate, and the gated output; gated-delta the same around a convolution and e a q more, the triangular
    system of each chunk; kimi-delta another e a (q + d_k), the scores of each chunk and a decay of every channel

    tokens: tokens of a micro-batch · heads a: value heads of a rank · value_dim d_v · key_heads k: query and key heads
    key_dim d_k · chunk q · element e [B] · rule: "gated-delta", "kimi-delta" or "lightning"
    → bytes a layer keeps [B]
    Source: count of tensors; flash-linear-attention
    Monotone: increasing in tokens, heads, value_dim, key_heads, key_dim, chunk, element
    >>> linear_attention_activations(1.0, 2.0, 8.0, 1.0, 8.0, 4.0, 2.0, rule="gated-delta")
    240.0
    """
    keys, values = key_heads * key_dim, heads * value_dim
    kept = 4 * keys + 5 * values
    if rule != "lightning":
        kept = kept + heads * chunk
    if rule == "kimi-delta":
        kept = kept + heads * (chunk + key_dim)
    return element * tokens * kept


@equation
def linear_state_bytes(
    heads: Number,
    value_dim: Number,
    key_heads: Number,
    key_dim: Number,
    conv: Number,
    state_element: Number,
    element: Number,
) -> Number:
    """What one layer of linear attention keeps of a sequence, however long: its state, and the convolution's inputs.

    a d_k d_v e_s + (2 k d_k + a d_v) (c − 1) e

    heads a: value heads of a rank · value_dim d_v · key_heads k: query and key heads · key_dim d_k
    conv: taps of the convolution, c; 1 without one · state_element e_s [B]: bytes of an element of the state
    element e [B]: bytes of an element of the convolution's inputs
    → bytes of a layer and sequence [B]
    Source: yang-2024 §3; count of tensors
    Monotone: increasing in heads, value_dim, key_heads, key_dim, conv, state_element, element
    >>> linear_state_bytes(32.0, 128.0, 16.0, 128.0, 4.0, 4.0, 2.0)
    2146304.0
    """
    taps = (2 * key_heads * key_dim + heads * value_dim) * (conv - 1)
    return heads * key_dim * value_dim * state_element + taps * element
