"""Layers with a state in place of keys and values: linear attention, state-space layers, selective scans."""

from __future__ import annotations

import numpy as np

from costmodel.equations.kernels.flop import FLOP_PER_MAC
from costmodel.ground.counts import LinearRule
from costmodel.ground.equation import Number, equation

EXPONENTIAL = 8.0  # multiply-adds in the time of one: 16 a clock beside 128 of them [cuda-guide]
SPAN = 2048.0  # tokens after which the kernel writes a state down [mamba]


# --- Linear attention: a state for each head in place of the keys and values of all tokens.


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
    """Bytes that linear attention saves of its streams, without its gates.

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
    """Cache bytes of one layer of linear attention for a sequence of any length: state, inputs of the convolution.

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


# --- State-space layers: parameters, work, bytes.


@equation
def state_space_width(heads: Number, head_dim: Number, groups: Number, state_size: Number) -> Number:
    """Columns of a Mamba-2 input projection: gate, input, both state matrices and a step for every head.

    2 a p + 2 g n + a

    heads a: heads · head_dim p · groups g: groups that share the state's matrices · state_size n → columns
    Source: dao-2024 §7
    Monotone: increasing in heads, head_dim, groups, state_size
    >>> state_space_width(128.0, 64.0, 8.0, 128.0)
    18560.0
    """
    return 2 * heads * head_dim + 2 * groups * state_size + heads


@equation
def state_space_parameters(
    hidden: Number, heads: Number, head_dim: Number, groups: Number, state_size: Number, conv: Number
) -> Number:
    """Parameters of a Mamba-2 mixer: both projections, the convolution with its bias, A, D, the step's bias, the norm.

    h (2 a p + 2 g n + a) + (a p + 2 g n) (c + 1) + 3 a + a p + a p h

    hidden h · heads a: heads of a rank · head_dim p · groups g: groups that share the state's matrices · state_size n
    conv c
    → parameters
    Source: dao-2024 §7
    Monotone: increasing in hidden, heads, head_dim, groups, state_size, conv
    >>> state_space_parameters(4096.0, 128.0, 64.0, 8.0, 128.0, 4.0)
    109635968.0
    """
    inner = heads * head_dim
    mixed = inner + 2 * groups * state_size
    return hidden * (inner + mixed + heads) + mixed * (conv + 1) + 3 * heads + inner + inner * hidden


@equation
def state_space_flop(
    tokens: Number, heads: Number, head_dim: Number, groups: Number, state_size: Number, chunk: Number, conv: Number
) -> Number:
    """Work of a Mamba-2 core, forward: within chunks as masked attention, between them through the state.

    per token q (g n + a p) + 4 a p n + 2 c (a p + 2 g n)

    tokens: tokens · heads a: heads of a rank · head_dim p · groups g: groups that share the state's matrices
    state_size n · chunk q · conv c
    → work [FLOP]
    Source: dao-2024 §6
    Holds: sequences of whole chunks; half of each chunk's square is masked
    Monotone: increasing in tokens, heads, head_dim, groups, state_size, chunk, conv
    >>> state_space_flop(1.0, 128.0, 64.0, 8.0, 128.0, 128.0, 4.0)
    5455872.0
    """
    inner, shared = heads * head_dim, groups * state_size
    macs = chunk * (shared + inner) / 2 + 2 * inner * state_size + conv * (inner + 2 * shared)
    return FLOP_PER_MAC * tokens * macs


@equation
def state_space_traffic(
    tokens: Number,
    heads: Number,
    head_dim: Number,
    groups: Number,
    state_size: Number,
    element: Number,
    *,
    backward: bool,
) -> Number:
    """Bytes of a Mamba-2 core through memory: convolution, scan, gate and norm each read and write their streams.

    forward e (8 a p + 6 g n) per token, backward twice that

    tokens: tokens · heads a: heads of a rank · head_dim p · groups g: groups that share the state's matrices
    state_size n · element e [B] · backward: the backward pass
    → bytes through memory [B]
    Source: count of reads and writes
    Monotone: increasing in tokens, heads, head_dim, groups, state_size, element
    >>> state_space_traffic(1.0, 128.0, 64.0, 8.0, 128.0, 2.0, backward=False)
    143360.0
    """
    return (2.0 if backward else 1.0) * element * tokens * (8 * heads * head_dim + 6 * groups * state_size)


@equation
def state_space_activations(
    tokens: Number, heads: Number, head_dim: Number, groups: Number, state_size: Number, element: Number
) -> Number:
    """Bytes that a Mamba-2 mixer saves: the projected input, and the outputs of scan, gate and norm.

    e (5 a p + 2 g n + a) per token; the convolution runs again in backward

    tokens: tokens of a micro-batch · heads a: heads of a rank · head_dim p
    groups g: groups that share the state's matrices · state_size n · element e [B]
    → bytes a layer keeps [B]
    Source: count of tensors; megatron-lm mamba_mixer.py; dao-2024
    Holds: convolution, scan and gate are one function, mamba_split_conv1d_scan_combined, and the norm comes behind it
    Monotone: increasing in tokens, heads, head_dim, groups, state_size, element
    >>> state_space_activations(1.0, 128.0, 64.0, 8.0, 128.0, 2.0)
    86272.0
    """
    return element * tokens * (5 * heads * head_dim + 2 * groups * state_size + heads)


# --- A Mamba-1 mixer: parameters, work, time, bytes.


@equation
def selective_scan_parameters(
    hidden: Number, inner: Number, state_size: Number, rank: Number, conv: Number, *, normalised: bool, biases: bool
) -> Number:
    """Parameters of a Mamba-1 mixer.

    3 h d + d (c + 1) + d (r + 2 n) + r d + d + d n + d; with norms r + 2 n more, with biases 2 d + h

    hidden h · inner d: channels of a rank · state_size n · rank r: width of the compressed steps · conv c
    normalised: steps, inputs and outputs of the state are normalised
    biases: the projections into the mixer and out of it have biases
    → parameters
    Source: gu-2023 §3.4; lieber-2024
    Monotone: increasing in hidden, inner, state_size, rank, conv
    >>> selective_scan_parameters(4096.0, 8192.0, 16.0, 256.0, 4.0, normalised=True, biases=False)
    105308448.0
    """
    made = rank + 2 * state_size
    found = 3 * hidden * inner + inner * (conv + 1) + inner * made + rank * inner + inner * state_size + 2 * inner
    return found + (made if normalised else 0.0) + (2 * inner + hidden if biases else 0.0)


@equation
def selective_scan_flop(tokens: Number, inner: Number, state_size: Number, conv: Number) -> Number:
    """Work of a Mamba-1 core, forward: convolution, scan, and the inputs passed by.

    per token 7 d n + 2 c d + 3 d: of each state a decay (a product, an exponential), what comes in, what is kept, what
    goes out

    tokens: tokens · inner d: channels of a rank · state_size n · conv c → work [FLOP]
    Source: gu-2023 §3.3; count of operations
    Monotone: increasing in tokens, inner, state_size, conv
    >>> selective_scan_flop(1.0, 8192.0, 16.0, 4.0)
    1007616.0
    """
    return FLOP_PER_MAC * tokens * inner * (3.5 * state_size + conv + 1.5)


@equation
def selective_scan_time(flop: Number, exponentials: Number, attainable: Number) -> Number:
    """Time of a scan on vector units, which share nothing with the matrix units.

    max(F, 16 E) / R: exponentials have units of their own

    flop F [FLOP] · exponentials E: exponentials in it · attainable R [FLOP/s]: rate of the vector units → time [s]
    Source: gu-2023 §3.3; cuda-guide
    Holds: a kernel that keeps states in registers; not fitted to measurements
    Monotone: increasing in flop, exponentials; decreasing in attainable
    >>> round(float(1e9 * selective_scan_time(1007616.0, 131072.0, 67e12)), 1)
    31.3
    """
    return np.maximum(flop, FLOP_PER_MAC * EXPONENTIAL * exponentials) / attainable


@equation
def selective_scan_traffic(
    tokens: Number,
    inner: Number,
    state_size: Number,
    rank: Number,
    element: Number,
    *,
    normalised: bool,
    backward: bool,
) -> Number:
    """Bytes of a Mamba-1 core through memory: the convolution, the scan with its gate, and norms.

    forward e (6 d + 2 n) per token, with norms 2 e (r + 2 n) more; backward twice that

    tokens: tokens · inner d: channels of a rank · state_size n · rank r: width of the compressed steps · element e [B]
    normalised: steps, inputs and outputs of the state are normalised · backward: the backward pass
    → bytes through memory [B]
    Source: count of reads and writes
    Monotone: increasing in tokens, inner, state_size, rank, element
    >>> selective_scan_traffic(1.0, 8192.0, 16.0, 256.0, 2.0, normalised=True, backward=False)
    99520.0
    """
    moved = 6 * inner + 2 * state_size + (2 * (rank + 2 * state_size) if normalised else 0.0)
    return (2.0 if backward else 1.0) * element * tokens * moved


@equation
def selective_scan_activations(
    tokens: Number, inner: Number, state_size: Number, rank: Number, element: Number, *, normalised: bool
) -> Number:
    """Bytes that a Mamba-1 mixer saves: its projected input, steps and matrices of the state, results of the scan.

    e (3 d + r + 4 n) per token in one function, which makes convolution, steps and gated result again; with norms in
    it they are functions apart, which keep e (8 d + 2 r + 4 n), the convolved input both by token and by channel and
    a copy of the gate; and 2 n d in fp32, or 4 e n d, every 2048 tokens

    tokens: tokens of a micro-batch · inner d: channels of a rank · state_size n · rank r: width of the compressed steps
    element e [B] · normalised: steps, inputs and outputs of the state are normalised
    → bytes a layer keeps [B]
    Source: mamba selective_scan_interface.py, MambaInnerFn and SelectiveScanFn; count of tensors
    Monotone: increasing in tokens, inner, state_size, rank, element
    >>> selective_scan_activations(2048.0, 8192.0, 16.0, 256.0, 2.0, normalised=True) / 2048
    132736.0
    """
    wide = 8 * inner + 2 * rank if normalised else 3 * inner + rank
    return element * tokens * (wide + 4 * state_size + 4 * state_size * inner / SPAN)


# --- Attention and a scan that end in one matrix, which reads the mean of their normalised results.


@equation
def shared_output_parameters(hidden: Number, inner: Number) -> Number:
    """Extra parameters of an output matrix that two mixers share: two norms more, one matrix less.

    2 d − h d

    hidden h · inner d: width of the results on a rank → parameters, below zero
    Source: dong-2024 §2
    Monotone: decreasing in hidden
    >>> shared_output_parameters(1600.0, 3200.0)
    -5113600.0
    """
    return 2 * inner - hidden * inner


@equation
def shared_output_traffic(tokens: Number, inner: Number, element: Number, *, backward: bool) -> Number:
    """Bytes through memory of two norms and the mean of what they write, in one function.

    forward 3 e d per token: both results are read, the mean is written; backward 5 e d: both results and the gradient
    of the mean are read, two gradients written

    tokens: tokens · inner d: width of the results on a rank · element e [B] · backward: the backward pass
    → bytes through memory [B]
    Source: count of reads and writes
    Monotone: increasing in tokens, inner, element
    >>> shared_output_traffic(1.0, 3200.0, 2.0, backward=False)
    19200.0
    """
    return (5.0 if backward else 3.0) * element * tokens * inner


@equation
def shared_output_activations(tokens: Number, inner: Number, element: Number) -> Number:
    """Bytes that the mean of two mixers saves beside their results: itself, the input of the output matrix.

    e d per token

    tokens: tokens of a micro-batch · inner d: width of the results on a rank · element e [B] → bytes a layer keeps [B]
    Source: count of tensors
    Monotone: increasing in tokens, inner, element
    >>> shared_output_activations(1.0, 3200.0, 2.0)
    6400.0
    """
    return element * tokens * inner
