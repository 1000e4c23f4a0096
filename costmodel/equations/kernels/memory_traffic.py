"""Bytes through the accelerator's memory, and what matrix products in a narrow type add to them."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation

# --- Bytes each operation moves through the accelerator's memory.


@equation
def matmul_bytes(m: Number, n: Number, k: Number, operand: Number, element: Number) -> Number:
    """Bytes of a matrix product that reads both operands and writes the result once, whatever the type of either.

    o (m k + k n) + e m n

    m: rows of the result · n: columns of the result · k: inner dimension
    operand o [B]: bytes of an operand's element, of a narrow type with its share of the scales
    element e [B]: bytes of an element of the result
    → bytes through memory [B]
    Source: williams-2009; scaling-book; transformer-engine
    Monotone: increasing in m, n, k, operand, element
    >>> matmul_bytes(4096.0, 4096.0, 4096.0, 2.0, 2.0)
    100663296.0
    >>> matmul_bytes(4096.0, 4096.0, 4096.0, 1.0, 2.0)
    67108864.0
    """
    return operand * (m * k + k * n) + element * m * n


@equation
def accumulated_bytes(n: Number, k: Number, gradient: Number) -> Number:
    """Bytes of adding a weight-gradient product to the gradient that it finds.

    2 g k n

    n: columns of the weight · k: rows of the weight
    gradient [B]: bytes of an accumulated gradient, g, read and written
    → bytes through memory [B]
    Source: megatron-lm gradient_accumulation_fusion; training-runs-fit
    Holds: adding comes at the end of a product's tiles, which end together, or in a pass of its own: nothing hides it
    Pitfall: it grows with weights, not tokens: with fp8 products of 2,048 tokens it takes as long as the product itself
    Monotone: increasing in n, k, gradient
    >>> accumulated_bytes(3.0, 5.0, 4.0)
    120.0
    """
    return 2 * gradient * k * n


@equation
def norm_traffic(
    tokens: Number,
    hidden: Number,
    norms: Number,
    additions: Number,
    element: Number,
    *,
    dropout: bool,
    fused: bool,
    backward: bool,
) -> Number:
    """Bytes of the norms and the residual additions of a layer of two halves.

    forward 2 e h (n + r + 1) per token (a norm reads and writes, an addition reads and writes the stream, and both
    halves' outputs are read), backward e h (3 n + 2 r + 2) (a norm reads two and writes); dropout adds e h and 5 e h;
    a norm that is not fused moves 3.1 e h and 9.75 e h

    tokens: tokens · hidden h · norms n: normalisations of the stream in a layer
    additions: residual additions, r; one where the halves are parallel · element e [B]: bytes of a 16-bit element
    dropout: bias and dropout fused into each residual addition, masks of one byte
    fused: a norm in a single pass each way; else as measured of the kernels of 2021 to 2023
    backward: the backward pass
    → bytes through memory [B]
    Source: count of reads and writes; korthikanti-2022 table 4; training-operators layernorm on A100
    Monotone: increasing in tokens, hidden, norms, additions, element
    >>> norm_traffic(1.0, 8192.0, 2.0, 2.0, 2.0, dropout=False, fused=True, backward=False)
    163840.0
    """
    masked = 0.0 if not dropout else 5.0 if backward else 1.0  # masks of one byte, and the branch read and written back
    passes = (3.0 if backward else 2.0) if fused else (9.75 if backward else 3.1)
    return (passes * norms + 2 * additions + 2 + masked) * element * tokens * hidden


@equation
def head_norm_traffic(
    tokens: Number, heads: Number, kv_heads: Number, head_dim: Number, element: Number, *, backward: bool
) -> Number:
    """Bytes of normalising queries and keys head by head.

    forward 2 e (a + k) d per token, backward 3 e (a + k) d

    tokens: tokens · heads a · kv_heads k: key heads · head_dim d · element e [B] · backward: the backward pass
    → bytes through memory [B]
    Source: count of reads and writes
    Holds: fused kernels
    Monotone: increasing in tokens, heads, kv_heads, head_dim, element
    >>> head_norm_traffic(1.0, 64.0, 8.0, 128.0, 2.0, backward=False)
    36864.0
    """
    return (3.0 if backward else 2.0) * element * tokens * (heads + kv_heads) * head_dim


@equation
def mlp_traffic(tokens: Number, ffn_hidden: Number, element: Number, *, gated: bool, backward: bool) -> Number:
    """Bytes of the MLP's activation function.

    gated 3 e f per token forward and 5 e f backward, otherwise 2 e f and 3 e f

    tokens: tokens · ffn_hidden f: inner width · element e [B] · gated: SwiGLU and its kin instead of GELU
    backward: the backward pass
    → bytes through memory [B]
    Source: count of reads and writes
    Monotone: increasing in tokens, ffn_hidden, element
    >>> mlp_traffic(1.0, 28672.0, 2.0, gated=True, backward=False)
    172032.0
    """
    forward_passes, backward_passes = (3.0, 5.0) if gated else (2.0, 3.0)
    return (backward_passes if backward else forward_passes) * element * tokens * ffn_hidden


@equation
def rotary_traffic(tokens: Number, heads: Number, kv_heads: Number, head_dim: Number, element: Number) -> Number:
    """Bytes that rotating queries and keys moves; backward moves the same number.

    2 e (a + k) d per token

    tokens: tokens · heads a · kv_heads k: key heads · head_dim d · element e [B] → bytes through memory [B]
    Source: count of reads and writes
    Monotone: increasing in tokens, heads, kv_heads, head_dim, element
    >>> rotary_traffic(1.0, 64.0, 8.0, 128.0, 2.0)
    36864.0
    """
    return 2 * element * tokens * (heads + kv_heads) * head_dim


@equation
def score_traffic(micro_batch: Number, sequence: Number, heads: Number, element: Number, *, backward: bool) -> Number:
    """Bytes of an unfused softmax with mask and dropout.

    3 e b a s² forward, 4 e b a s² backward

    micro_batch b: sequences · sequence s · heads a · element e [B] · backward: the backward pass
    → bytes through memory [B]
    Source: training-runs-fit
    Holds: attention that writes the scores out; fused kernels do not
    Monotone: increasing in micro_batch, sequence, heads, element
    >>> score_traffic(1.0, 2048.0, 12.0, 2.0, backward=False)
    301989888.0
    """
    return (4.0 if backward else 3.0) * element * micro_batch * heads * sequence * sequence


@equation
def loss_traffic(tokens: Number, vocab: Number, element: Number, *, fused: bool) -> Number:
    """Bytes of the cross entropy over logits, forward and backward.

    10 e V per token, 18 e V where its parts are separate kernels

    tokens: tokens · vocab V: logits of a rank · element e [B]
    fused: few passes over the logits; else as measured of the vocabulary-parallel kernels of 2021 to 2023
    → bytes through memory [B]
    Source: training-runs-fit; training-operators parallel cross entropy on A100
    Monotone: increasing in tokens, vocab, element
    >>> loss_traffic(1.0, 1000.0, 2.0, fused=True)
    20000.0
    """
    return (10.0 if fused else 18.0) * element * tokens * vocab


@equation
def embedding_traffic(tokens: Number, hidden: Number, element: Number) -> Number:
    """Bytes that token look-up moves forward; backward adds the same number into the gradient.

    2 e h per token

    tokens: tokens · hidden h · element e [B] → bytes through memory [B]
    Source: count of reads and writes; composition
    Monotone: increasing in tokens, hidden, element
    >>> embedding_traffic(1.0, 8192.0, 2.0)
    32768.0
    """
    return 2 * element * tokens * hidden


@equation
def optimizer_traffic(updated: Number, held: Number, moments: Number, element: Number) -> Number:
    """Bytes of an optimizer step: the shard that is updated, and clearing and norm of what is held.

    (2 (w + s) + 1.5 w) per parameter updated (master and moments read and written, gradient read, 16-bit copy
    written), 2 w per parameter held

    updated: parameters this rank updates · held: parameters whose gradients this rank holds
    moments s [B]: bytes of the optimizer's states for a parameter · element w [B]: bytes of an fp32 number
    → bytes through memory [B]
    Source: kingma-2015; training-runs-fit
    Monotone: increasing in updated, held, moments, element
    >>> optimizer_traffic(100.0, 0.0, 8.0, 4.0)
    3000.0
    """
    return updated * (2 * moments + 3.5 * element) + 2 * held * element


@equation
def attention_traffic(
    micro_batch: Number, sequence: Number, heads: Number, kv_heads: Number, head_dim: Number, element: Number
) -> Number:
    """Bytes of fused attention, forward: queries, keys and values read once, the result written.

    2 e b s d (a + k)

    micro_batch b: sequences · sequence s: tokens of each · heads a · kv_heads k · head_dim d · element e [B]
    → bytes through memory [B]
    Source: dao-2022
    Monotone: increasing in micro_batch, sequence, heads, kv_heads, head_dim, element
    >>> attention_traffic(1.0, 4096.0, 32.0, 8.0, 128.0, 2.0) / 1e6
    83.88608
    """
    return 2 * element * micro_batch * sequence * head_dim * (heads + kv_heads)


# --- Bytes that matrix products in a narrow type read, keep, and pay for their conversion.


@equation
def quantise_traffic(elements: Number, quantised: Number) -> Number:
    """Bytes of converting a tensor to a narrow type, in both directions it is read in.

    q × elements

    elements: elements converted · quantised q [B]: bytes read and written for each → bytes through memory [B]
    Source: transformer-engine; count of reads and writes
    Holds: no fusion of the conversion with the operation before it
    Pitfall: the product shrinks with the width of the type and this does not: a matrix of n columns gains from fp8 only
        where n is well over the ridge of the accelerator
    Monotone: increasing in elements, quantised
    >>> quantise_traffic(4096.0 * 8192.0, 4.0)
    134217728.0
    """
    return quantised * elements


@equation
def shared_conversion(quantised: Number, transposed: Number, ranks: Number) -> Number:
    """Bytes of converting an element to a narrow type where each rank converts a part before it is gathered.

    (q − t / 2) / n + t: where one scale serves a tensor, what is gathered is transposed on each rank

    quantised q [B]: bytes read and written to convert an element both ways
    transposed t [B]: bytes read and written to transpose one that arrives converted; its write is in q too
    ranks: ranks that convert parts, n
    → bytes through memory [B]
    Source: transformer-engine; torchao
    Monotone: increasing in quantised
    >>> shared_conversion(6.0, 2.0, 8.0)
    2.625
    """
    return (quantised - transposed / 2) / ranks + transposed


@equation
def linear_inputs(
    tokens: Number, hidden: Number, additions: Number, inner: Number, operand: Number, split: Number
) -> Number:
    """Inputs of a layer's matrix products, as they are kept for the weight gradient.

    o (r h / t + w) per token

    tokens: tokens of a micro-batch · hidden h
    additions: halves of a layer with an input of their own, r; one where they are parallel
    inner: widths of the inner inputs of a rank, w: of the MLP's second product, of the attention output
    operand o [B]: bytes of an element kept
    split: ranks the sequence is split over, t with sequence parallelism, else 1
    → bytes a layer keeps [B]
    Source: transformer-engine; korthikanti-2022 §4.1
    Monotone: increasing in tokens, hidden, additions, inner, operand; decreasing in split
    >>> linear_inputs(1.0, 4096.0, 2.0, 14336.0, 1.0, 1.0)
    22528.0
    """
    return operand * tokens * (additions * hidden / split + inner)


@equation
def narrow_copy_bytes(parameters: Number, copies: Number, dp: Number, *, sharded: bool) -> Number:
    """Converted weights kept beside, or in place of, the 16-bit ones: one copy for each direction they are read in.

    κ Ψ, or κ Ψ / N under zero 3

    parameters Ψ: parameters of a rank's matrices before sharding over dp · copies κ [B]: bytes of the copies of one
    dp N · sharded: whether the copies are sharded over dp
    → bytes [B]
    Source: transformer-engine
    Pitfall: fp8 training takes more memory for weights than bf16, 2 + 1 + 1 bytes a parameter instead of 2, unless the
        16-bit weights are given up; what shrinks is activations
    Monotone: increasing in parameters, copies
    >>> narrow_copy_bytes(1e9, 2.0, 8.0, sharded=False) / 1e9
    2.0
    """
    return copies * parameters / (dp if sharded else 1.0)
