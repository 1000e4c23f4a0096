"""What selective recompute drops and does again, module by module, and recompute of some layers only."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def norm_output_bytes(tokens: Number, hidden: Number, additions: Number, element: Number, split: Number) -> Number:
    """Outputs of the norms before the halves of a layer, which the linear maps behind them read again in backward.

    e h r per token, over t with sequence parallelism

    Args:
        tokens: tokens of a micro-batch [1]
        hidden: width of the residual stream, h [1]
        additions: halves of the layer, r; one where they are parallel [1]
        element: bytes of an element, e [B]
        split: ranks the sequence is split over, t with sequence parallelism, else 1 [1]

    Returns:
        bytes [B]

    Example:
        >>> norm_output_bytes(1.0, 4096.0, 2.0, 2.0, 1.0)
        16384.0

    Source:
        megatron-lm transformer_layer.py, recompute of layernorm

    Monotone: increasing in tokens, hidden, additions, element; decreasing in split
    """
    return element * hidden * additions * tokens / split


@equation
def norm_again_traffic(tokens: Number, hidden: Number, additions: Number, element: Number, split: Number) -> Number:
    """Bytes of the norms before the halves, done once more.

    2 e h r per token: each reads its input and writes its output

    Args:
        tokens: tokens of a micro-batch [1]
        hidden: width of the residual stream, h [1]
        additions: halves of the layer, r [1]
        element: bytes of an element, e [B]
        split: ranks the sequence is split over [1]

    Returns:
        bytes through memory [B]

    Example:
        >>> norm_again_traffic(1.0, 4096.0, 2.0, 2.0, 1.0)
        32768.0

    Source:
        count of reads and writes

    Monotone: increasing in tokens, hidden, additions, element; decreasing in split
    """
    return 2 * element * hidden * additions * tokens / split


@equation
def activation_output_bytes(tokens: Number, ffn_hidden: Number, element: Number) -> Number:
    """Output of the activation function, which the second matrix of the MLP reads again in backward.

    e f per token

    Args:
        tokens: tokens of a micro-batch [1]
        ffn_hidden: inner width of a rank, f [1]
        element: bytes of an element, e [B]

    Returns:
        bytes [B]

    Example:
        >>> activation_output_bytes(1.0, 14336.0, 2.0)
        28672.0

    Source:
        megatron-lm mlp.py

    Monotone: increasing in tokens, ffn_hidden, element
    """
    return element * ffn_hidden * tokens


@equation
def attention_output_bytes(tokens: Number, heads: Number, head_dim: Number, element: Number) -> Number:
    """Output of the attention core, which the output projection reads again in backward.

    e a d per token

    Args:
        tokens: tokens of a micro-batch [1]
        heads: query heads of a rank, a [1]
        head_dim: width of a value, d [1]
        element: bytes of an element, e [B]

    Returns:
        bytes [B]

    Example:
        >>> attention_output_bytes(1.0, 32.0, 128.0, 2.0)
        8192.0

    Source:
        maxtext models.py, remat policies: kept is what they name

    Monotone: increasing in tokens, heads, head_dim, element
    """
    return element * heads * head_dim * tokens


@equation
def up_projection_bytes(tokens: Number, heads: Number, qk_dim: Number, value_dim: Number, element: Number) -> Number:
    """Queries, keys and values of latent attention, which the core reads again in backward.

    e a (2 d_qk + d_v) per token

    Args:
        tokens: tokens of a micro-batch [1]
        heads: heads of a rank, a [1]
        qk_dim: width of a query or key, d_qk [1]
        value_dim: width of a value, d_v [1]
        element: bytes of an element, e [B]

    Returns:
        bytes [B]

    Example:
        >>> up_projection_bytes(1.0, 128.0, 192.0, 128.0, 2.0)
        131072.0

    Source:
        deepseek-2024 §3.2.3; megatron-lm multi_latent_attention.py, recompute of mla_up_proj

    Monotone: increasing in tokens, heads, qk_dim, value_dim, element
    """
    return element * heads * (2 * qk_dim + value_dim) * tokens


@equation
def recomputed_share(recompute_layers: Number, vpp: Number, layers: Number) -> Number:
    """Share of a rank's layers that recompute of the first so many of every model chunk reaches.

    min(N v / max(L, 1), 1)

    Args:
        recompute_layers: layers computed again in each chunk, N [1]
        vpp: model chunks of the rank, v [1]
        layers: layers of the rank, none where it holds the head alone, L [1]

    Returns:
        share [1]

    Example:
        >>> float(recomputed_share(2.0, 1.0, 8.0))
        0.25

    Source:
        megatron-lm transformer_block.py, recompute method block

    Monotone: increasing in recompute_layers, vpp; decreasing in layers
    """
    return np.minimum(recompute_layers * vpp / np.maximum(layers, 1.0), 1.0)


@equation
def mixed(share: Number, part: Number, rest: Number) -> Number:
    """Mean of two kinds of layers, or of steps, of which one has a share.

    x a + (1 − x) b

    Args:
        share: share of the first kind, x [1]
        part: of one of the first kind, a [u]
        rest: of one of the other kind, b [u]

    Returns:
        of a layer or step in the mean [u]

    Example:
        >>> mixed(0.25, 4.0, 8.0)
        7.0

    Source:
        composition

    Monotone: increasing in part, rest
    """
    return share * part + (1 - share) * rest
