"""Bytes that an engine keeps of a sequence, by kind of layer, and the blocks that it keeps them in."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def attention_cache_bytes(tokens: Number, kv_heads: Number, head_dim: Number, element: Number) -> Number:
    """Keys and values that one attention layer keeps.

    2 e k d n

    Args:
        tokens: tokens kept, of one sequence or of all, n [1]
        kv_heads: key and value heads of a rank, k [1]
        head_dim: width of a head, d [1]
        element: bytes of an element in the cache, e [B]

    Returns:
        bytes of a layer [B]

    Example:
        >>> 80 * attention_cache_bytes(1.0, 8.0, 128.0, 2.0)
        327680.0

    Holds:
        keys and values of one width; of two widths d is their mean, mean_head_dim

    Source:
        ainslie-2023; kwon-2023

    Pitfall:
        a fp8 cache doubles the tokens that fit, not the bytes of the pool

    Monotone: increasing in tokens, kv_heads, head_dim, element
    """
    return 2 * element * kv_heads * head_dim * tokens


@equation
def latent_cache_bytes(tokens: Number, kv_rank: Number, rope_dim: Number, packed: Number, element: Number) -> Number:
    """What one layer of latent attention (MLA) keeps: the compressed vector and the key with positions.

    (q r + e d_r) n: 1,152 B a token in 16 bits; 656 B in vLLM's fp8_ds_mla, of which q = 1 + 4/128

    Args:
        tokens: tokens kept, n [1]
        kv_rank: width that keys and values are compressed to, r [1]
        rope_dim: width of the key with positions, d_r [1]
        packed: bytes of an element of the compressed vector, with its share of the scales, q [B]
        element: bytes of an element of the key with positions, e [B]

    Returns:
        bytes of a layer [B]

    Example:
        >>> latent_cache_bytes(1.0, 512.0, 64.0, 2.0, 2.0), latent_cache_bytes(1.0, 512.0, 64.0, 1.03125, 2.0)
        (1152.0, 656.0)

    Holds:
        an indexer's keys (DeepSeek sparse attention) are one more such vector, of 128 elements and rope_dim 0

    Source:
        deepseek-v2 §2.1.2; vllm-engine v1/kv_cache_interface.py

    Pitfall:
        tensor parallelism does not divide it, since every head reads the whole vector: eight ranks keep eight copies,
        unless attention is data parallel

    Monotone: increasing in tokens, kv_rank, rope_dim, packed, element
    """
    return (packed * kv_rank + element * rope_dim) * tokens


@equation
def state_cache_bytes(
    heads: Number,
    head_dim: Number,
    groups: Number,
    state_size: Number,
    conv: Number,
    state_element: Number,
    element: Number,
) -> Number:
    """What one state-space layer keeps of a sequence, however long: its state, and the last inputs of its convolution.

    a p n e_s + (a p + 2 g n) (c − 1) e

    Args:
        heads: heads, a [1]
        head_dim: width of a head, p [1]
        groups: groups that share the state's matrices, g [1]
        state_size: size of a state for each channel, n [1]
        conv: taps of the convolution, c [1]
        state_element: bytes of an element of the state, e_s [B]
        element: bytes of an element of the convolution's inputs, e [B]

    Returns:
        bytes of a layer and sequence [B]

    Example:
        >>> 24 * state_cache_bytes(128.0, 64.0, 8.0, 128.0, 1.0, 2.0, 2.0)
        50331648.0

    Source:
        dao-2024 §7; count of tensors

    Pitfall:
        bytes of a token times tokens is wrong here; a cached prefix costs one state for each checkpoint of it

    Monotone: increasing in heads, head_dim, groups, state_size, conv, state_element, element
    """
    inner = heads * head_dim
    return inner * state_size * state_element + (inner + 2 * groups * state_size) * (conv - 1) * element


@equation
def window_tokens(sequence: Number, window: Number) -> Number:
    """Tokens that a layer with a sliding window keeps of a sequence in the long run.

    min(n, w)

    Args:
        sequence: tokens of the sequence so far, n [1]
        window: keys a query sees, its own the last, w [1]

    Returns:
        tokens [1]

    Example:
        >>> float(window_tokens(8192.0, 1024.0))
        1024.0

    Source:
        vllm-engine v1/core/single_type_kv_cache_manager.py

    Pitfall:
        a model whose cache is counted as if all its layers were full: Gemma 3 27B at 8,192 tokens is then 3.8 times
        as large

    Monotone: increasing in sequence, window
    """
    return np.minimum(sequence, window)


@equation
def admitted_window_tokens(sequence: Number, window: Number, token_budget: Number, block: Number) -> Number:
    """Tokens that vLLM sets aside in a layer with a sliding window before it admits a sequence.

    q (⌈min(n, w − 1 + M) / q⌉ + 1): a prompt may arrive M tokens at a time, and a window may begin inside a block

    Args:
        sequence: tokens of the longest sequence, n [1]
        window: keys a query sees, its own the last, w [1]
        token_budget: tokens of a step at most, M [1]
        block: tokens of a block of the cache, q [1]

    Returns:
        tokens [1]

    Example:
        >>> [float(admitted_window_tokens(32768.0, 1024.0, budget, 16.0)) for budget in (2048.0, 8192.0)]
        [3088.0, 9232.0]

    Source:
        vllm-engine v1/kv_cache_interface.py SlidingWindowSpec

    Pitfall:
        vLLM's log has the concurrency of what is admitted: with M at the longest sequence a window saves nothing there

    Monotone: increasing in sequence, window, token_budget
    """
    return block * (np.ceil(np.minimum(sequence, window - 1 + token_budget) / block) + 1)


@equation
def block_tokens(tokens: Number, block: Number) -> Number:
    """Tokens of the whole blocks that a sequence takes.

    q ⌈n / q⌉

    Args:
        tokens: tokens of the sequence, n [1]
        block: tokens of a block, q [1]

    Returns:
        tokens [1]

    Example:
        >>> float(block_tokens(500.0, 16.0))
        512.0

    Source:
        kwon-2023 §4.1

    Monotone: increasing in tokens
    """
    return block * np.ceil(tokens / block)


@equation
def block_waste(block: Number) -> Number:
    """Tokens of the last block that a sequence leaves empty, on average.

    (q − 1) / 2

    Args:
        block: tokens of a block, q [1]

    Returns:
        tokens [1]

    Example:
        >>> block_waste(16.0)
        7.5

    Holds:
        sequences that end anywhere in a block

    Source:
        kwon-2023 §4.1; exact

    Monotone: increasing in block
    """
    return (block - 1) / 2


@equation
def reserved_waste(tokens: Number, longest: Number) -> Number:
    """Share of the cache that is never written where every sequence reserves the longest, as engines did before paging.

    1 − n / n_max, nothing where n is longer

    Args:
        tokens: tokens of a sequence, on average, n [1]
        longest: tokens reserved for each, n_max [1]

    Returns:
        share [1]

    Example:
        >>> round(float(reserved_waste(500.0, 2048.0)), 3)
        0.756

    Holds:
        no estimate calls it

    Source:
        kwon-2023 §3; yu-2022

    Monotone: increasing in longest; decreasing in tokens
    """
    return np.maximum(1 - tokens / longest, 0.0)


@equation
def mean_context(prompt: Number, output: Number, variation: Number) -> Number:
    """Tokens that a sequence in flight holds, on average over time.

    s + o (1 + v²) / 2: a long answer is in flight for longer, so that it counts by its length

    Args:
        prompt: tokens that are given, on average, s [1]
        output: tokens that are generated, on average, o [1]
        variation: of the generated tokens, standard deviation over mean, v [1]

    Returns:
        tokens [1]

    Example:
        >>> mean_context(4000.0, 500.0, 0.0), mean_context(4000.0, 500.0, 1.0)
        (4250.0, 4500.0)

    Holds:
        answers as long whatever the prompt

    Source:
        harchol-balter-2013 §23; exact

    Pitfall:
        "half of the answer" is for answers of one length; where lengths are exponential a sequence holds all of it

    Monotone: increasing in prompt, output, variation
    """
    return prompt + output * (1 + variation**2) / 2
