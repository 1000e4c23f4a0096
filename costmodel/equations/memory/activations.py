"""Bytes of activations kept for backward, 16-bit, per micro-batch and layer."""

from __future__ import annotations

import numpy as np

from costmodel.ground.counts import AttentionKernel, Recompute
from costmodel.ground.equation import Number, equation


@equation
def stream_activations(
    tokens: Number, hidden: Number, norms: Number, additions: Number, element: Number, split: Number, *, dropout: bool
) -> Number:
    """Inputs of the norms and of the two halves of a layer, and the dropout masks.

    e h (n + r) per token: the stream before each addition, the output of a norm before a half, the input of one behind
    it; e h more with dropout, whose two masks take a byte an element; over t with sequence parallelism

    tokens: tokens of a micro-batch · hidden h · norms n: normalisations of the stream in a layer
    additions: residual additions, r; one where the halves are parallel · element e [B]: bytes of a 16-bit element
    split: ranks the sequence is split over, t with sequence parallelism, else 1
    dropout: masks of one byte after attention and after the MLP
    → bytes a layer keeps [B]
    Source: korthikanti-2022 eq. 1
    Monotone: increasing in tokens, hidden, norms, additions, element; decreasing in split
    >>> stream_activations(1.0, 12288.0, 2.0, 2.0, 2.0, 1.0, dropout=True) / 12288
    10.0
    """
    return (norms + additions + (1.0 if dropout else 0.0)) * element * hidden * tokens / split


@equation
def attention_activations(tokens: Number, heads: Number, kv_heads: Number, head_dim: Number, element: Number) -> Number:
    """Queries, keys, values and the input of the output projection.

    2 e (a + k) d per token

    tokens: tokens of a micro-batch · heads a: query heads of a rank · kv_heads k: key and value heads of a rank
    head_dim d · element e [B]
    → bytes a layer keeps [B]
    Source: korthikanti-2022 §4.1; ainslie-2023
    Monotone: increasing in tokens, heads, kv_heads, head_dim, element
    >>> attention_activations(1.0, 32.0, 8.0, 128.0, 2.0)
    20480.0
    """
    return 2 * element * (heads + kv_heads) * head_dim * tokens


@equation
def head_norm_activations(tokens: Number, heads: Number, kv_heads: Number, head_dim: Number, element: Number) -> Number:
    """Queries and keys before they are normalised head by head.

    e (a + k) d per token

    tokens: tokens of a micro-batch · heads a: query heads of a rank · kv_heads k: key heads of a rank · head_dim d
    element e [B]
    → bytes a layer keeps [B]
    Source: count of tensors
    Monotone: increasing in tokens, heads, kv_heads, head_dim, element
    >>> head_norm_activations(1.0, 32.0, 8.0, 128.0, 2.0)
    10240.0
    """
    return element * (heads + kv_heads) * head_dim * tokens


@equation
def score_activations(
    micro_batch: Number,
    sequence: Number,
    heads: Number,
    element: Number,
    *,
    kernel: AttentionKernel,
    dropout: bool,
    recompute: Recompute,
) -> Number:
    """Bytes that the attention core saves: the scores, or with a fused kernel one statistic per row.

    unfused e a s² b, with dropout 2.5 e a s² b; recomputed nothing; fused 2 e a s b

    micro_batch b: sequences · sequence s · heads a: query heads of a rank · element e [B]
    kernel: class of the attention kernel · dropout: dropout on the scores, its output and mask kept
    recompute: whether the core is computed again
    → bytes a layer keeps [B]
    Source: korthikanti-2022 eq. 1; dao-2022
    Monotone: increasing in micro_batch, sequence, heads, element
    >>> score_activations(1.0, 2048.0, 96.0, 2.0, kernel="unfused", dropout=True, recompute="none") / 1e9
    2.01326592
    """
    rows = micro_batch * sequence * heads
    if kernel != "unfused":
        return 2 * element * rows
    if recompute != "none":
        return 0.0 * element * rows
    return (2.5 if dropout else 1.0) * element * rows * sequence


@equation
def mlp_activations(tokens: Number, ffn_hidden: Number, element: Number, *, gated: bool) -> Number:
    """Input and output of the activation function; a gate adds one more.

    2 e f per token, gated 3 e f

    tokens: tokens of a micro-batch · ffn_hidden f: inner width of a rank · element e [B] · gated: SwiGLU and its kin
    → bytes a layer keeps [B]
    Source: korthikanti-2022 §4.1; shazeer-2020
    Monotone: increasing in tokens, ffn_hidden, element
    >>> mlp_activations(1.0, 14336.0, 2.0, gated=True)
    86016.0
    """
    return (3.0 if gated else 2.0) * element * ffn_hidden * tokens


@equation
def checkpoint_activations(tokens: Number, hidden: Number, element: Number, split: Number) -> Number:
    """The input of a layer, all that full recompute keeps.

    e h per token, over t with sequence parallelism

    tokens: tokens of a micro-batch · hidden h · element e [B] · split → bytes a layer keeps [B]
    Source: korthikanti-2022 §5; chen-2016
    Monotone: increasing in tokens, hidden, element; decreasing in split
    >>> checkpoint_activations(2048.0, 12288.0, 2.0, 1.0)
    50331648.0
    """
    return element * hidden * tokens / split


@equation
def op_level_activations(
    tokens: Number,
    hidden: Number,
    heads: Number,
    kv_heads: Number,
    head_dim: Number,
    ffn_hidden: Number,
    element: Number,
    split: Number,
) -> Number:
    """Bytes saved under per-operation recompute: the layer's input, attention's output, every second matmul's output.

    e (c h / t + h + (2 a + k) d + f + 2 a) per token;  c = 1, with t > 1 three, for scattered sums are kept

    tokens: tokens of a micro-batch · hidden h · heads a: query heads of a rank
    kv_heads k: key and value heads of a rank · head_dim d · ffn_hidden f: inner width of a rank · element e [B]
    split: ranks the sequence is split over, t with sequence parallelism, else 1
    → bytes a layer keeps [B]
    Source: torchtitan activation_checkpoint.py
    Holds: gated MLP; of seven matmuls the outputs of query, value, gate and down are kept, and one fp32 figure a query
    Monotone: increasing in tokens, hidden, heads, kv_heads, ffn_hidden, element
    >>> float(op_level_activations(1.0, 4096.0, 32.0, 8.0, 128.0, 14336.0, 2.0, 1.0))
    63616.0
    """
    streams = hidden * (1 + np.where(split > 1, 3.0, 1.0) / split)
    kept = streams + (2 * heads + kv_heads) * head_dim + ffn_hidden + 2 * heads
    return element * tokens * kept


@equation
def logit_bytes(tokens: Number, vocab: Number, kept: Number) -> Number:
    """Bytes of logits, and of the tensors that the loss computes from them.

    q V per token

    tokens: tokens of a micro-batch · vocab V: logits of a rank · kept q [B]: bytes per logit → bytes [B]
    Source: megatron-lm cross_entropy.py; composition
    Monotone: increasing in tokens, vocab, kept
    >>> logit_bytes(8192.0, 128256.0, 6.0) / 1e9
    6.304038912
    """
    return kept * vocab * tokens


@equation
def chunked_logit_bytes(logit_memory: Number, loss_limit: Number) -> Number:
    """Bytes of logits that a loss keeps which takes more chunks of tokens rather than more memory.

    min(L, m)

    logit_memory L [B] · loss_limit m [B] → bytes [B]
    Source: unsloth-zoo cross_entropy_loss.py; composition
    Monotone: increasing in logit_memory, loss_limit
    >>> float(chunked_logit_bytes(15e9, 4.0 * 2**30)) / 2**30
    4.0
    """
    return np.minimum(logit_memory, loss_limit)


@equation
def head_activations(tokens: Number, hidden: Number, element: Number, split: Number) -> Number:
    """Inputs of the last norm and of the head.

    2 e h per token, over t with sequence parallelism

    tokens: tokens of a micro-batch · hidden h · element e [B] · split → bytes [B]
    Source: korthikanti-2022 §4.3
    Monotone: increasing in tokens, hidden, element; decreasing in split
    >>> head_activations(1.0, 8192.0, 2.0, 1.0)
    32768.0
    """
    return 2 * element * hidden * tokens / split


@equation
def mask_bytes(tokens: Number, hidden: Number, element: Number, split: Number) -> Number:
    """The mask of the dropout that follows the embedding.

    e h / 2 per token, over t with sequence parallelism

    tokens: tokens of a micro-batch · hidden h · element e [B]: bytes of a 16-bit element · split → bytes [B]
    Source: korthikanti-2022 §4.3
    Monotone: increasing in tokens, hidden, element; decreasing in split
    >>> mask_bytes(1.0, 8192.0, 2.0, 1.0)
    8192.0
    """
    return element * hidden * tokens / (2 * split)
