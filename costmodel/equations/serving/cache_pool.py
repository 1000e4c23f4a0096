"""Memory for keys and values of requests: the pool of an engine, prefixes found in it, and the host behind it."""

from __future__ import annotations

from typing import Literal

import numpy as np

from costmodel.equations.memory.kv_cache import block_tokens
from costmodel.ground.equation import Number, equation

Keeps = Literal["copies", "evicted"]


# --- The pool that engines give to the cache: three definitions of one share, and what fits into the pool.


@equation
def pool_of_total(
    memory: Number, memory_fraction: Number, weight_memory: Number, activation_memory: Number, runtime_memory: Number
) -> Number:
    """Cache of an engine whose share is of the whole device: vLLM's gpu_memory_utilization.

    u T − W − A − R; below 0 by what is missing

    memory T [B]: memory of the device as its driver reports it · memory_fraction u: share that the engine claims
    weight_memory W [B]: weights of the rank · activation_memory A [B]: peak of a step at its full budget
    runtime_memory R [B]: what no tensor holds: context, communicators, since vLLM 0.21 also graphs
    → pool of a rank [B]
    Source: vllm-engine v1/worker/gpu_worker.py; llm-d-planner
    Pitfall: the driver of an H100 reports 79.19 GiB, nvidia-smi 79.65, the datasheet 80; the same share of another
        engine is another pool
    Monotone: increasing in memory, memory_fraction; decreasing in weight_memory, activation_memory, runtime_memory
    >>> round(pool_of_total(79.19, 0.95, 14.99, 1.89, 0.25), 2)
    58.1
    """
    return memory_fraction * memory - weight_memory - activation_memory - runtime_memory


@equation
def pool_of_free_before(free_before: Number, free_after: Number, memory_fraction: Number) -> Number:
    """Cache of an engine whose share is of what was free before it loaded: SGLang's mem_fraction_static.

    F₁ − (1 − f) F₀: weights and pool together take f of F₀

    free_before F₀ [B]: free before loading · free_after F₁ [B]: free after loading
    memory_fraction f: share for weights and pool
    → pool of a rank [B]
    Source: sglang srt/model_executor/model_runner.py
    Monotone: increasing in free_after, memory_fraction; decreasing in free_before
    >>> round(pool_of_free_before(78.68, 78.68 - 14.99, 0.83), 2)
    50.31
    """
    return free_after - (1 - memory_fraction) * free_before


@equation
def pool_of_free_after(memory: Number, used: Number, memory_fraction: Number) -> Number:
    """Cache of an engine whose share is of what is left: TensorRT-LLM's free_gpu_memory_fraction.

    f (T − U)

    memory T [B]: memory of the device · used U [B]: weights and the peak of a dry run
    memory_fraction f: share of the rest
    → pool of a rank [B]
    Source: tensorrt-llm _torch/pyexecutor/_util.py
    Monotone: increasing in memory; decreasing in used
    >>> round(pool_of_free_after(79.19, 17.5, 0.9), 2)
    55.52
    """
    return memory_fraction * (memory - used)


@equation
def activation_peak(sequences: Number, vocab: Number, kept: Number, layer_peak: Number) -> Number:
    """Activations of an engine's largest step: of the sampler or of a layer, whichever is more.

    max(κ S V, A)

    sequences S: sequences of a step at most, each with a row of logits · vocab V
    kept [B]: bytes kept per logit, κ: 15.5 of vLLM from 0.17 on, 38.9 before
    layer_peak A [B]: peak of a layer at the step's full budget
    → bytes [B]
    Source: llm-d-planner; serving-fit
    Holds: dense models to 4 % in the median and 12 % at worst; mixtures take 15 % more; of a pipeline the last stage
    Pitfall: the limit on sequences costs memory: 1,024 of them with a vocabulary of 128,256 take 1.9 GiB
    Monotone: increasing in sequences, vocab, kept, layer_peak
    >>> round(float(activation_peak(1024.0, 128256.0, 15.5, 0.75 * 2**30)) / 2**30, 2)
    1.9
    """
    return np.maximum(kept * sequences * vocab, layer_peak)


@equation
def captured_sizes(sequences: Number, captured: Number) -> Number:
    """Batch sizes that an engine captures graphs for: 1, 2, 4, each 8th to 256, each 16th beyond.

    3 + ⌊min(b, 256) / 8⌋ + ⌊max(b − 256, 0) / 16⌋ with b = min(2 S, c); of small b those of 1, 2 and 4 up to it

    sequences S: sequences of a step at most · captured c → count
    Source: vllm-engine config/vllm.py
    Monotone: increasing in sequences, captured
    >>> [float(captured_sizes(each, 512.0)) for each in (1024.0, 32.0, 1.0)]
    [51.0, 11.0, 2.0]
    """
    largest = np.minimum(2 * sequences, captured)
    small = 1.0 + (largest >= 2.0) + (largest >= 4.0)
    sizes: Number = small + np.minimum(largest, 256.0) // 8 + np.maximum(largest - 256.0, 0.0) // 16
    return sizes


@equation
def layer_peak_bytes(token_budget: Number, hidden: Number, ffn_hidden: Number, element: Number) -> Number:
    """Activations of one layer that are alive together at a step's full budget.

    3 e M (h + f)

    token_budget M: tokens of a step at most · hidden h · ffn_hidden f: inner width of the MLP on a rank · element e [B]
    → bytes [B]
    Source: count of tensors; serving-fit
    Holds: gate, up and their product beside the stream, its norm and the result
    Monotone: increasing in token_budget, hidden, ffn_hidden, element
    >>> round(layer_peak_bytes(8192.0, 4096.0, 14336.0, 2.0) / 2**30, 2)
    0.84
    """
    return 3 * element * token_budget * (hidden + ffn_hidden)


@equation
def reserve_bytes(
    reserve_base: Number,
    chunk: Number,
    per_chunk_token: Number,
    ranks: Number,
    per_rank: Number,
    sequences: Number,
    per_sequence: Number,
    graph_sizes: Number,
    per_graph_size: Number,
) -> Number:
    """Memory that SGLang's rule of thumb leaves to activations and graphs.

    R = R₀ + c x_c + n x_n + b x_b + g x_g

    reserve_base [B]: whatever the plan, R₀: 512 MiB · chunk c: tokens of a chunk of prompts, 2,048 at least
    per_chunk_token [B]: for each of them, x_c: 1.5 MiB · ranks n: tensor-parallel ranks times pipeline stages
    per_rank [B]: for each rank, x_n: 128 MiB · sequences b: largest batch of a captured graph
    per_sequence [B]: for each of its sequences, x_b: 2 MiB, and 3 to 4.5 for each rank of data-parallel attention
    graph_sizes g: sizes that graphs of prompts are captured at, in releases that have them
    per_graph_size [B]: for each of them, x_g: 8 MiB
    → bytes [B]
    Source: sglang srt/server_args.py
    Pitfall: these numbers change with the release, and none of them is measured on the device
    Monotone: increasing in reserve_base, chunk, per_chunk_token, ranks, per_rank, sequences, per_sequence, graph_sizes
    >>> mib = 2.0**20
    >>> reserve_bytes(512 * mib, 8192.0, 1.5 * mib, 8.0, 128 * mib, 512.0, 2 * mib, 58.0, 8 * mib) / mib
    15312.0
    """
    graphs = sequences * per_sequence + graph_sizes * per_graph_size
    return reserve_base + chunk * per_chunk_token + ranks * per_rank + graphs


@equation
def static_fraction(memory: Number, reserve: Number, least: Number, extra: Number) -> Number:
    """Share for weights and cache that SGLang sets where the user sets none.

    1 − (max(R, R_min) + X) / T

    memory T [B]: memory of the device · reserve R [B]: what the rule of thumb leaves
    least [B]: what it leaves at least, R_min: 10 GiB on devices of more than 60 GiB, else 0
    extra [B]: on top of it, X: 2 GiB for a draft head, 6 GiB for a draft model, else 0
    → share
    Source: sglang srt/server_args.py
    Monotone: increasing in memory; decreasing in reserve, least, extra
    >>> round(float(static_fraction(81559.0, 15312.0, 10240.0, 0.0)), 3)
    0.812
    """
    return 1 - (np.maximum(reserve, least) + extra) / memory


@equation
def pool_tokens(pool: Number, per_token: Number, block: Number) -> Number:
    """Tokens that a pool holds, in whole blocks.

    q ⌊S / (c q)⌋

    pool S [B]: bytes of the pool · per_token c [B]: bytes of a token over all layers of a rank
    block q: tokens of a block
    → tokens
    Source: kwon-2023 §4; vllm-engine v1/core/kv_cache_utils.py
    Pitfall: the pool does not depend on the longest sequence that is allowed
    Monotone: increasing in pool; decreasing in per_token
    >>> float(pool_tokens(3.81 * 2**30, 131072.0, 16.0))
    31200.0
    """
    return block * np.floor(pool / (per_token * block))


@equation
def worst_concurrency(pool_held: Number, longest: Number, block: Number) -> Number:
    """Requests of the longest kind that fit at once: what vLLM prints as its maximum concurrency.

    N / (q ⌈n_max / q⌉)

    pool_held N: tokens that the pool holds · longest n_max: tokens of the longest request, prompt and answer
    block q: tokens of a block
    → requests
    Source: vllm-engine v1/core/kv_cache_utils.py
    Pitfall: it is no limit on requests: most are shorter, and hold half of their answer (mean_context)
    Monotone: increasing in pool_held; decreasing in longest
    >>> round(float(worst_concurrency(16 * 1952.0, 20000.0, 16.0)), 2)
    1.56
    """
    return pool_held / block_tokens(longest, block)


# --- Prompts that are in the cache already: whole blocks, conversations, how long a prefix stays.


@equation
def hit_tokens(shared_tokens: Number, prompt: Number, block: Number) -> Number:
    """Tokens of a prompt that an engine finds in its cache.

    q min(⌊h / q⌋, ⌊(s − 1) / q⌋): whole blocks, and the last token is computed in any case

    shared_tokens h: tokens the prompt begins with that were seen before · prompt s: tokens of the prompt
    block q: tokens of a block
    → tokens
    Source: vllm-engine v1/core/kv_cache_manager.py
    Pitfall: a benchmark of random prompts shares nothing: a prediction with a prefix is then off by a multiple
    Monotone: increasing in shared_tokens, prompt
    >>> [float(hit_tokens(shared, 4000.0, 16.0)) for shared in (1000.0, 4000.0)]
    [992.0, 3984.0]
    """
    return block * np.minimum(np.floor(shared_tokens / block), np.floor((prompt - 1) / block))


@equation
def residency_time(pool_held: Number, request_rate: Number, tokens: Number) -> Number:
    """Time that an unused prefix stays in the cache before newer tokens push it out.

    N / (λ n)

    pool_held N: tokens that the pool holds · request_rate λ [1/s]: requests a second of one replica
    tokens n: tokens that a request adds, what it finds in the cache not counted
    → time [s]
    Source: little-1961; composition
    Holds: the least recently used goes first
    Pitfall: a hit rate that is given hides that the pool may be too small for it: a later turn finds nothing
    Monotone: increasing in pool_held; decreasing in request_rate, tokens
    >>> round(residency_time(476016.0, 4.0, 1280.0))
    93
    """
    return pool_held / (request_rate * tokens)


@equation
def kept_chance(lasting: Number, spacing: Number) -> Number:
    """Chance that a beginning is still in the cache when it comes back.

    1 − e^(−N / d)

    lasting N: requests after which an unused beginning is pushed out · spacing d: requests from use to use, on average
    → chance
    Source: che-2002; fricker-2012
    Holds: the least recently used goes first, and beginnings come back at random
    Monotone: increasing in lasting; decreasing in spacing
    >>> [round(float(kept_chance(300.0, spacing)), 3) for spacing in (10.0, 300.0, 3000.0)]
    [1.0, 0.632, 0.095]
    """
    return -np.expm1(-lasting / spacing)


@equation
def kept_beginning_tokens(share: Number, tokens: Number, spacing: Number, kept_chance: Number) -> Number:
    """Tokens of a kind of shared prompt beginnings that stay in the cache.

    p n d h, as p d different ones are in use

    share p: share of requests that begin with one · tokens n: of a beginning
    spacing d: requests from use to use, on average · kept_chance h: chance that one is in the cache
    → tokens
    Source: che-2002
    Monotone: increasing in share, tokens, spacing, kept_chance
    >>> kept_beginning_tokens(0.5, 2000.0, 200.0, 0.75)
    150000.0
    """
    return share * tokens * spacing * kept_chance


@equation
def scattered_hit(hit_share: Number, replicas: Number) -> Number:
    """Share of prompts found in the cache where a router sends requests to any of several replicas.

    h / r

    hit_share h: share that is found where a conversation stays on its replica · replicas r: replicas → share
    Source: composition
    Holds: the last turn alone is looked for; what all requests share is found on every replica
    Monotone: increasing in hit_share; decreasing in replicas
    >>> scattered_hit(0.5, 4.0)
    0.125
    """
    return hit_share / replicas


# --- Keys and values in the memory of the host: how long they stay there, and how fast they come back.


@equation
def shared_host_rate(link: Number, share: Number, bandwidth: Number, ranks: Number) -> Number:
    """Rate at which each accelerator reads from the host while all accelerators of the node read.

    min(η B, M / n)

    link B [B/s]: rate of one accelerator's link to the host, one way · share η: share of it that large copies reach
    bandwidth [B/s]: of all channels of the host's memory, M; infinite where no document states it
    ranks n: accelerators of the node
    → rate of each [B/s]
    Source: ml-engineering; composition
    Holds: every accelerator has a link of its own; where two share a switch, state half the link
    Monotone: increasing in link, share, bandwidth; decreasing in ranks
    >>> [float(shared_host_rate(64e9, 0.86, memory, 8.0)) / 1e9 for memory in (614.4e9, 204.8e9)]
    [55.04, 25.6]
    """
    return np.minimum(share * link, bandwidth / ranks)


@equation
def tokens_in_reach(pool_held: Number, host_held: Number, *, keeps: Keeps) -> Number:
    """Tokens whose keys and values are on the device or on the host.

    copies: max(N, H); evicted: N + H

    pool_held N: tokens that the device's pool holds · host_held H: tokens that the host's memory holds
    keeps: "copies" of all that is computed, the device's among it, or what the device "evicted"
    → tokens
    Source: vllm-engine v1/kv_offload; tensorrt-llm; exact
    Holds: the least recently used goes first, on both
    Pitfall: a host that keeps copies and holds less than the device adds nothing
    Monotone: increasing in pool_held, host_held
    >>> [float(tokens_in_reach(476e3, 952e3, keeps=keeps)) / 1e3 for keeps in ("copies", "evicted")]
    [952.0, 1428.0]
    """
    if keeps == "copies":
        return np.maximum(pool_held, host_held)
    return pool_held + host_held


@equation
def history_variation(turns: Number, hit_share: Number) -> Number:
    """Coefficient of variation of the history that requests of conversations load, equal turns.

    √((4 n − 2) / (3 (n − 1) p) − 1): turn k of n loads k − 1 parts with probability p

    turns n: turns of a conversation, 2 at least · hit_share p: share of later turns that load
    → standard deviation over the mean
    Source: composition; exact
    Monotone: decreasing in turns, hit_share
    >>> round(float(history_variation(4.0, 1.0)), 3)  # 0, 1, 2, 3 parts: mean 1.5, variance 1.25
    0.745
    """
    turns = np.maximum(turns, 2.0)
    return np.sqrt((4.0 * turns - 2.0) / (3.0 * (turns - 1.0) * hit_share) - 1.0)


@equation
def recomputed_tokens(prompt: Number, output: Number, concurrency: Number) -> Number:
    """Tokens that a request computes again in a full cache, where others wait and only its prompt had to fit.

    o²/s (1 − e^(−s/o)) e^(−b/2o): each answer that ends makes room for new prompts until less than a prompt is free, U;
    then b answers grow by X, exponential of mean o, before the next one ends, and what U lacks is taken from the
    youngest, E max(X − U, 0), but in steps in which answers end already, half of them in time

    prompt s: tokens that a request takes when it begins, at least one · output o: tokens by which it grows, on average
    concurrency b: sequences in flight
    → tokens
    Source: vllm; composition
    Holds: with prefix caching, so that only what others have overwritten is computed again; of 12 simulated engines
        with prompts of 0.1 to 10 answers it is 4 % off in the median, 20 % at worst
    Pitfall: with short prompts and long answers nearly every token is computed twice
    >>> [round(float(recomputed_tokens(s, o, 64.0))) for s, o in ((8192.0, 1024.0), (1024.0, 1024.0), (1024.0, 8192.0))]
    [124, 627, 7671]
    """
    share = prompt / output
    return output / share * -np.expm1(-share) * np.exp(-concurrency / (2 * output))
