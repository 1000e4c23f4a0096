"""What selective recompute drops and does again, module by module, and recompute of some layers only."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def norm_output_bytes(tokens: Number, hidden: Number, additions: Number, element: Number, split: Number) -> Number:
    """Outputs of the norms before the halves of a layer, which the linear maps behind them read again in backward.

    e h r per token, over t with sequence parallelism

    tokens: tokens of a micro-batch · hidden h · additions: halves of the layer, r; one where they are parallel
    element e [B] · split: ranks the sequence is split over, t with sequence parallelism, else 1
    → bytes [B]
    Source: megatron-lm transformer_layer.py, recompute of layernorm
    Monotone: increasing in tokens, hidden, additions, element; decreasing in split
    >>> norm_output_bytes(1.0, 4096.0, 2.0, 2.0, 1.0)
    16384.0
    """
    return element * hidden * additions * tokens / split


@equation
def norm_again_traffic(tokens: Number, hidden: Number, additions: Number, element: Number, split: Number) -> Number:
    """Bytes of the norms before the halves, done once more.

    2 e h r per token: each reads its input and writes its output

    tokens: tokens of a micro-batch · hidden h · additions r: halves of the layer · element e [B] · split
    → bytes through memory [B]
    Source: count of reads and writes
    Monotone: increasing in tokens, hidden, additions, element; decreasing in split
    >>> norm_again_traffic(1.0, 4096.0, 2.0, 2.0, 1.0)
    32768.0
    """
    return 2 * element * hidden * additions * tokens / split


@equation
def activation_output_bytes(tokens: Number, ffn_hidden: Number, element: Number) -> Number:
    """Output of the activation function, which the second matrix of the MLP reads again in backward.

    e f per token

    tokens: tokens of a micro-batch · ffn_hidden f: inner width of a rank · element e [B] → bytes [B]
    Source: megatron-lm mlp.py
    Monotone: increasing in tokens, ffn_hidden, element
    >>> activation_output_bytes(1.0, 14336.0, 2.0)
    28672.0
    """
    return element * ffn_hidden * tokens


@equation
def attention_output_bytes(tokens: Number, heads: Number, head_dim: Number, element: Number) -> Number:
    """Output of the attention core, which the output projection reads again in backward.

    e a d per token

    tokens: tokens of a micro-batch · heads a: query heads of a rank · head_dim d: width of a value · element e [B]
    → bytes [B]
    Source: maxtext models.py, remat policies: kept is what they name
    Monotone: increasing in tokens, heads, head_dim, element
    >>> attention_output_bytes(1.0, 32.0, 128.0, 2.0)
    8192.0
    """
    return element * heads * head_dim * tokens


@equation
def up_projection_bytes(tokens: Number, heads: Number, qk_dim: Number, value_dim: Number, element: Number) -> Number:
    """Queries, keys and values of latent attention, which the core reads again in backward.

    e a (2 d_qk + d_v) per token

    tokens: tokens of a micro-batch · heads a: heads of a rank · qk_dim d_qk: width of a query or key
    value_dim d_v: width of a value · element e [B]
    → bytes [B]
    Source: deepseek-2024 §3.2.3; megatron-lm multi_latent_attention.py, recompute of mla_up_proj
    Monotone: increasing in tokens, heads, qk_dim, value_dim, element
    >>> up_projection_bytes(1.0, 128.0, 192.0, 128.0, 2.0)
    131072.0
    """
    return element * heads * (2 * qk_dim + value_dim) * tokens


@equation
def recomputed_share(recompute_layers: Number, vpp: Number, layers: Number) -> Number:
    """Share of a rank's layers that are recomputed, if the first few of every model chunk are.

    min(N v / max(L, 1), 1)

    recompute_layers N: layers computed again in each chunk · vpp v: model chunks of the rank
    layers L: layers of the rank, none where it holds the head alone
    → share
    Source: megatron-lm transformer_block.py, recompute method block
    Monotone: increasing in recompute_layers, vpp; decreasing in layers
    >>> float(recomputed_share(2.0, 1.0, 8.0))
    0.25
    """
    return np.minimum(recompute_layers * vpp / np.maximum(layers, 1.0), 1.0)


@equation
def mixed(share: Number, part: Number, rest: Number) -> Number:
    """Mean of two kinds of layers, or of steps, of which one has a share.

    x a + (1 − x) b

    share x: share of the first kind · part a [u]: of one of the first kind · rest b [u]: of one of the other kind
    → of a layer or step in the mean [u]
    Source: composition
    Monotone: increasing in part, rest
    >>> mixed(0.25, 4.0, 8.0)
    7.0
    """
    return share * part + (1 - share) * rest
