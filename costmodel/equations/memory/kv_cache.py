"""Bytes that an engine keeps of a sequence, by kind of layer, and the blocks that it keeps them in."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def attention_cache_bytes(tokens: Number, kv_heads: Number, head_dim: Number, element: Number) -> Number:
    """Cache bytes of one attention layer: keys and values.

    2 e k d n

    tokens n: tokens kept, of one sequence or of all · kv_heads k: key and value heads of a rank · head_dim d
    element e [B]: bytes of an element in the cache
    → bytes of a layer [B]
    Source: ainslie-2023; kwon-2023
    Holds: keys and values of one width; of two widths d is their mean, mean_head_dim
    Pitfall: a fp8 cache doubles the tokens that fit, not the bytes of the pool
    Monotone: increasing in tokens, kv_heads, head_dim, element
    >>> 80 * attention_cache_bytes(1.0, 8.0, 128.0, 2.0)
    327680.0
    """
    return 2 * element * kv_heads * head_dim * tokens


@equation
def latent_cache_bytes(tokens: Number, kv_rank: Number, rope_dim: Number, packed: Number, element: Number) -> Number:
    """Cache bytes of one layer of latent attention (MLA): the compressed vector and the key with positions.

    (q r + e d_r) n: 1,152 B a token in 16 bits; 656 B in vLLM's fp8_ds_mla, of which q = 1 + 4/128

    tokens n: tokens kept · kv_rank r · rope_dim d_r: width of the key with positions
    packed q [B]: bytes of an element of the compressed vector, with its share of the scales
    element e [B]: bytes of an element of the key with positions
    → bytes of a layer [B]
    Source: deepseek-v2 §2.1.2; vllm-engine v1/kv_cache_interface.py
    Holds: an indexer's keys (DeepSeek sparse attention) are one more such vector, of 128 elements and rope_dim 0
    Pitfall: tensor parallelism does not divide it, since every head reads the whole vector: eight ranks keep eight
        copies, unless attention is data parallel
    Monotone: increasing in tokens, kv_rank, rope_dim, packed, element
    >>> latent_cache_bytes(1.0, 512.0, 64.0, 2.0, 2.0), latent_cache_bytes(1.0, 512.0, 64.0, 1.03125, 2.0)
    (1152.0, 656.0)
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
    """Cache bytes of one state-space layer for a sequence of any length: state and last inputs of the convolution.

    a p n e_s + (a p + 2 g n) (c − 1) e

    heads a: heads · head_dim p · groups g: groups that share the state's matrices · state_size n · conv c
    state_element e_s [B]: bytes of an element of the state
    element e [B]: bytes of an element of the convolution's inputs
    → bytes of a layer and sequence [B]
    Source: dao-2024 §7; count of tensors
    Pitfall: bytes of a token times tokens is wrong here; a cached prefix costs one state for each checkpoint of it
    Monotone: increasing in heads, head_dim, groups, state_size, conv, state_element, element
    >>> 24 * state_cache_bytes(128.0, 64.0, 8.0, 128.0, 1.0, 2.0, 2.0)
    50331648.0
    """
    inner = heads * head_dim
    return inner * state_size * state_element + (inner + 2 * groups * state_size) * (conv - 1) * element


@equation
def window_tokens(sequence: Number, window: Number) -> Number:
    """Tokens that a layer with a sliding window keeps of a sequence in the long run.

    min(n, w)

    sequence n: tokens of the sequence so far · window w → tokens
    Source: vllm-engine v1/core/single_type_kv_cache_manager.py
    Pitfall: a model whose cache is counted as if all its layers were full: Gemma 3 27B at 8,192 tokens is then 3.8
        times as large
    Monotone: increasing in sequence, window
    >>> float(window_tokens(8192.0, 1024.0))
    1024.0
    """
    return np.minimum(sequence, window)


@equation
def admitted_window_tokens(sequence: Number, window: Number, token_budget: Number, block: Number) -> Number:
    """Tokens that vLLM sets aside in a layer with a sliding window before it admits a sequence.

    q (⌈min(n, w − 1 + M) / q⌉ + 1): a prompt may arrive M tokens at a time, and a window may begin inside a block

    sequence n: tokens of the longest sequence · window w · token_budget M: tokens of a step at most · block q → tokens
    Source: vllm-engine v1/kv_cache_interface.py SlidingWindowSpec
    Pitfall: vLLM's log has the concurrency of what is admitted: with M at the longest sequence a window saves nothing
        there
    Monotone: increasing in sequence, window, token_budget
    >>> [float(admitted_window_tokens(32768.0, 1024.0, budget, 16.0)) for budget in (2048.0, 8192.0)]
    [3088.0, 9232.0]
    """
    return block * (np.ceil(np.minimum(sequence, window - 1 + token_budget) / block) + 1)


@equation
def entry_block_bytes(
    block: Number, entry_tokens: Number, entry_bytes: Number, key_bytes: Number, alignment: Number
) -> Number:
    """A block of compressed entries of one layer and of the keys that pick them, each as a whole number of units.

    a (⌈q e / (m a)⌉ + ⌈q k / (m a)⌉)

    block q: tokens whose entries share a block · entry_tokens m · entry_bytes e [B]: of an entry
    key_bytes k [B]: of the key of an indexer, 0 without one · alignment a [B]
    → bytes of a layer [B]
    Source: vllm-engine v1/kv_cache_interface.py MLAAttentionSpec
    Monotone: increasing in block, entry_bytes, key_bytes; decreasing in entry_tokens
    >>> float(entry_block_bytes(256.0, 4.0, 584.0, 132.0, 576.0))
    46080.0
    """
    entries = block / entry_tokens
    return alignment * (np.ceil(entries * entry_bytes / alignment) + np.ceil(entries * key_bytes / alignment))


@equation
def block_tokens(tokens: Number, block: Number) -> Number:
    """Tokens of the whole blocks that a sequence takes.

    q ⌈n / q⌉

    tokens n: tokens of the sequence · block q: tokens of a block → tokens
    Source: kwon-2023 §4.1
    Monotone: increasing in tokens
    >>> float(block_tokens(500.0, 16.0))
    512.0
    """
    return block * np.ceil(tokens / block)


@equation
def block_waste(block: Number) -> Number:
    """Tokens of the last block that a sequence leaves empty, on average.

    (q − 1) / 2

    block q: tokens of a block → tokens
    Source: kwon-2023 §4.1; exact
    Holds: sequences that end anywhere in a block
    Monotone: increasing in block
    >>> block_waste(16.0)
    7.5
    """
    return (block - 1) / 2


@equation
def reserved_waste(tokens: Number, longest: Number) -> Number:
    """Share of the cache that is never written where every sequence reserves the longest, as engines did before paging.

    1 − n / n_max, nothing where n is longer

    tokens n: tokens of a sequence, on average · longest n_max: tokens reserved for each → share
    Source: kwon-2023 §3; yu-2022
    Holds: no estimate calls it
    Monotone: increasing in longest; decreasing in tokens
    >>> round(float(reserved_waste(500.0, 2048.0)), 3)
    0.756
    """
    return np.maximum(1 - tokens / longest, 0.0)


@equation
def mean_context(prompt: Number, output: Number, variation: Number) -> Number:
    """Tokens that a sequence in flight holds, on average over time.

    s + o (1 + v²) / 2: a long answer is in flight for longer, so that it counts by its length

    prompt s: tokens that are given, on average · output o: tokens that are generated, on average
    variation v: of the generated tokens, standard deviation over mean
    → tokens
    Source: harchol-balter-2013 §23; exact
    Holds: answers as long whatever the prompt
    Pitfall: "half of the answer" is for answers of one length; where lengths are exponential a sequence holds all of it
    Monotone: increasing in prompt, output, variation
    >>> mean_context(4000.0, 500.0, 0.0), mean_context(4000.0, 500.0, 1.0)
    (4250.0, 4500.0)
    """
    return prompt + output * (1 + variation**2) / 2


# --- Bytes of a sequence in a layer of compressed attention, beside its window.


@equation
def entry_cache_bytes(tokens: Number, entry_tokens: Number, head_dim: Number, element: Number) -> Number:
    """Cache bytes of one layer for the compressed entries of a sequence: one vector for a run of tokens.

    e d n / m

    tokens n: tokens of the sequence · entry_tokens m: tokens that an entry stands for
    head_dim: width of an entry, d; with the indexer's key the width of both · element e [B]
    → bytes [B]
    Source: deepseek-v4 §2.3
    Monotone: increasing in tokens, head_dim, element; decreasing in entry_tokens
    >>> entry_cache_bytes(1048576.0, 128.0, 512.0, 1.0)
    4194304.0
    """
    return element * head_dim * tokens / entry_tokens


@equation
def compressor_state_bytes(entry_tokens: Number, head_dim: Number, series: Number, element: Number) -> Number:
    """Cache bytes of tokens whose compressed entry is not made yet: their vectors and gates.

    2 e m c² d

    entry_tokens m: tokens that an entry stands for · head_dim d: width of an entry
    series: vectors of a token, c; two where entries overlap, which reach over two runs
    element e [B]: bytes of an element, fp32 in engines
    → bytes of a sequence [B]
    Source: deepseek-v4, released code
    Monotone: increasing in entry_tokens, head_dim, series, element
    >>> compressor_state_bytes(128.0, 512.0, 1.0, 4.0), compressor_state_bytes(4.0, 512.0, 2.0, 4.0)
    (524288.0, 65536.0)
    """
    return 2 * element * entry_tokens * series * series * head_dim
