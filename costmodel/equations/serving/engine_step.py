"""One step of an engine: decoding, prompts, weights, drafts, attention groups, communication and launches."""

from __future__ import annotations

import numpy as np

from costmodel.equations.kernels.flop import FLOP_PER_MAC
from costmodel.ground.equation import Number, equation

# --- What one step of decoding reads and computes beside its dense matrix products.


@equation
def expert_read_probability(tokens: Number, probability: Number) -> Number:
    """Probability that an expert gets at least one of a number of tokens.

    1 − (1 − p)^m

    tokens m: tokens of a step, of all ranks that share the experts · probability p: that one token is sent there
    → probability; the sum over experts of unlike p is how many are read
    Source: exact
    Holds: tokens choose independently; those of one sequence are more alike, and read fewer
    Monotone: increasing in tokens, probability
    >>> float(expert_read_probability(2.0, 0.25))
    0.4375
    """
    return 1 - np.maximum(1 - probability, 0.0) ** tokens


@equation
def experts_read(tokens: Number, top_k: Number, experts: Number) -> Number:
    """Experts whose weights a step reads, on average, when each token is sent to any of them as likely.

    E (1 − (1 − k / E)^m)

    tokens m: tokens of a step, of all ranks that share the experts · top_k k · experts E: routed experts → experts
    Source: exact
    Pitfall: as many as min(E, m k) is wrong by up to a half; uneven routing reads fewer, while its busiest rank has
        more
    Monotone: increasing in tokens, top_k, experts
    >>> [round(float(experts_read(tokens, 8.0, 256.0)), 2) for tokens in (1.0, 2.0, 64.0)]
    [8.0, 15.75, 222.44]
    """
    return experts * expert_read_probability(tokens, top_k / experts)


@equation
def expert_layer_bytes(
    read_experts: Number, rows: Number, hidden: Number, ffn_hidden: Number, operand: Number, element: Number
) -> Number:
    """Bytes through memory of a layer's gated experts: weights of those that are read, inputs and results of all rows.

    3 o E_t h f + 2 e r (h + f)

    read_experts E_t: experts whose weights are read · rows r: rows over all experts, tokens times top_k · hidden h
    ffn_hidden f: inner width of an expert · operand o [B]: bytes of a weight's element with its share of the scales
    element e [B]: bytes of an element of inputs and results
    → bytes [B]
    Source: count of reads and writes; serving-fit
    Holds: each token meets few of a layer's experts, so that weights are what counts
    Monotone: increasing in read_experts, rows, hidden, ffn_hidden, operand, element
    >>> round(expert_layer_bytes(163.314, 0.0, 7168.0, 2048.0, 1.0, 2.0) / 1e9, 2)
    7.19
    """
    return 3 * operand * read_experts * hidden * ffn_hidden + 2 * element * rows * (hidden + ffn_hidden)


@equation
def host_experts_time(nbytes: Number, flop: Number, bandwidth: Number, peak: Number) -> Number:
    """Time of experts that the CPUs of a node compute, with their weights in host memory.

    max(S / B, F / P)

    nbytes S [B]: bytes of the experts that a step reads · flop F [FLOP]: work of their rows
    bandwidth B [B/s]: of the host's memory · peak P [FLOP/s]: rate of the engine's kernels for processors
    → time [s]
    Source: ktransformers; williams-2009
    Holds: at best: all channels stream, no core waits, and rows cross the link unnoticed; no run was compared with it
    Monotone: increasing in nbytes, flop; decreasing in bandwidth, peak
    >>> round(float(host_experts_time(0.35e9, 7.0e8, 614.4e9, 21e12)) * 1e3, 2)
    0.57
    """
    return np.maximum(nbytes / bandwidth, flop / peak)


@equation
def weight_product_bytes(m: Number, n: Number, k: Number, weight: Number, operand: Number, element: Number) -> Number:
    """Bytes through memory of rows times a weight matrix whose elements are kept in a type of their own.

    w n k + o m k + e m n

    m: rows of the result · n: columns of the result · k: inner dimension
    weight w [B]: bytes of a weight as it is kept, with its share of the scales
    operand o [B]: bytes of an element of the rows that are multiplied
    element e [B]: bytes of an element of the result
    → bytes [B]
    Source: williams-2009; count of reads and writes
    Monotone: increasing in m, n, k, weight, operand, element
    >>> weight_product_bytes(1.0, 4096.0, 4096.0, 0.5, 2.0, 2.0)
    8404992.0
    """
    return weight * n * k + operand * m * k + element * m * n


@equation
def absorbed_attention_flop(
    cached_tokens: Number, queries: Number, heads: Number, kv_rank: Number, rope_dim: Number
) -> Number:
    """Work of latent attention (MLA) in decode, whose up-projections are absorbed into queries and outputs.

    2 a (2 r + d_r) q n

    cached_tokens n: tokens in the cache, of all sequences of a step
    queries q: query tokens of each sequence: 1, or the drafted ones and one · heads a: query heads of a rank
    kv_rank r · rope_dim d_r: width of the key with positions
    → work of a layer [FLOP]
    Source: deepseek-v2 §2.1; exact count
    Pitfall: "decode attention is bound by memory" is wrong here: 242 FLOP for each byte of a 16-bit cache is near the
        ridge of an H100, and two queries are over it; grouped queries of 64 heads over 8 make 8 FLOP a byte
    Monotone: increasing in cached_tokens, queries, heads, kv_rank, rope_dim
    >>> absorbed_attention_flop(1.0, 1.0, 128.0, 512.0, 64.0)
    278528.0
    """
    return FLOP_PER_MAC * heads * (2 * kv_rank + rope_dim) * queries * cached_tokens


@equation
def compute_bound_batch(operand: Number, peak: Number, bandwidth: Number) -> Number:
    """Tokens of a step from which dense matrix products take longer to compute than to read their weights.

    o P / (2 W)

    operand o [B]: bytes of a weight's element with its share of the scales
    peak P [FLOP/s]: datasheet rate of the type that is multiplied in · bandwidth W [B/s]: datasheet memory bandwidth
    → tokens
    Source: williams-2009; scaling-book chapter 7
    Holds: no estimate calls it
    Pitfall: weights of 4 bits that are multiplied in 16 gain nothing from 77 tokens on
    Monotone: increasing in operand, peak; decreasing in bandwidth
    >>> [round(compute_bound_batch(operand, 989.4e12, 3.35e12)) for operand in (2.0, 0.5195)]
    [295, 77]
    """
    return operand * peak / (FLOP_PER_MAC * bandwidth)


@equation
def fastest_user_rate(weight_memory: Number, ranks: Number, bandwidth: Number) -> Number:
    """Tokens a second that one user can get at most, since each token reads all weights once.

    n W / S

    weight_memory S [B]: bytes of the weights that a token reads, over all ranks
    ranks n: ranks that hold them between them · bandwidth W [B/s]: datasheet memory bandwidth of one
    → tokens a second [1/s]
    Source: williams-2009; pope-2023
    Holds: one token a step; speculation multiplies it by the tokens that a step accepts
    Monotone: increasing in ranks, bandwidth; decreasing in weight_memory
    >>> round(fastest_user_rate(70.55e9, 1.0, 3.35e12), 1)
    47.5
    """
    return ranks * bandwidth / weight_memory


# --- Work and cache reads of prompts, whole, in chunks, or behind a prefix that is already in the cache.


@equation
def chunk_count(prompt: Number, chunk: Number) -> Number:
    """Chunks that a prompt is cut into.

    ⌈s / c⌉

    prompt s: tokens of the prompt · chunk c → chunks
    Source: agrawal-2024
    Monotone: increasing in prompt; decreasing in chunk
    >>> float(chunk_count(32768.0, 2048.0))
    16.0
    """
    return np.ceil(prompt / chunk)


@equation
def reread_tokens(prompt: Number, chunk: Number) -> Number:
    """Tokens whose keys and values are read once more because a prompt comes in chunks.

    c n (n − 1) / 2, n = ⌈s / c⌉: each chunk reads all before it

    prompt s: tokens of the prompt · chunk c → tokens
    Source: agrawal-2024 §4.3; exact
    Pitfall: this is not what small chunks cost: chunks of 512 add 4 % to a prompt of 32,768; the fixed time of steps is
    Monotone: increasing in prompt
    >>> [float(reread_tokens(32768.0, chunk)) for chunk in (8192.0, 2048.0, 512.0)]
    [49152.0, 245760.0, 1032192.0]
    """
    chunks = np.ceil(prompt / chunk)
    tokens: Number = chunk * chunks * (chunks - 1) / 2
    return tokens


@equation
def appended_attention_flop(tokens: Number, cached_tokens: Number, heads: Number, head_dim: Number) -> Number:
    """Work of attention of new tokens that see all before them: of a chunk, or of what follows a cached prefix.

    4 a d n (c + (n + 1) / 2)

    tokens n: new tokens of one sequence · cached_tokens c: tokens before them that are already in the cache
    heads a: query heads of a rank · head_dim d
    → work of a layer [FLOP]
    Source: dao-2023; exact count
    Pitfall: a prefix of the share h spares h of the matrix products, but only h² of attention
    Monotone: increasing in tokens, cached_tokens, heads, head_dim
    >>> appended_attention_flop(8192.0, 0.0, 32.0, 128.0)
    549822922752.0
    """
    return 2 * FLOP_PER_MAC * heads * head_dim * tokens * (cached_tokens + (tokens + 1) / 2)


# --- Bytes of weights in narrow types, as they lie in memory and are read: the element and its share of the scales.


@equation
def scaled_element_bytes(packed: Number, scale: Number, group: Number) -> Number:
    """Bytes of one element of a type that shares scales, as a weight, a cached value or one on the network.

    q + s / g

    packed q [B]: bytes of the element alone · scale s [B]: bytes of a group's scale, its zero point counted
    group g: elements that share a scale
    → bytes of an element [B]
    Source: frantar-2022; nvidia-nvfp4; rouhani-2023
    Holds: int4 with a 16-bit scale and a 4-bit zero point of 128; nvfp4, an fp8 scale of 16; mxfp4, 8 bits of 32; fp8
        by blocks of 128 × 128 shares 4 bytes among 16,384. A tensor's own scale is nothing beside them
    Monotone: increasing in packed, scale; decreasing in group
    >>> [scaled_element_bytes(0.5, *shared) for shared in ((2.5, 128.0), (1.0, 16.0), (1.0, 32.0))]
    [0.51953125, 0.5625, 0.53125]
    """
    return packed + scale / group


@equation
def mixed_weight_bytes(parameters: Number, narrow_parameters: Number, operand: Number, element: Number) -> Number:
    """Weights of a model of which only the linear maps are in a narrow type.

    o Ψ_n + e (Ψ − Ψ_n)

    parameters Ψ: all parameters · narrow_parameters Ψ_n: of them in the narrow type
    operand o [B]: bytes of a narrow element with its share of the scales
    element e [B]: bytes of the others: embedding, head, norms, router, biases
    → bytes [B]
    Source: frantar-2022; composition
    Pitfall: a checkpoint in 4 bits is more than a quarter of one in 16; weights that are read narrow and multiplied in
        16 bits speed decode up only under compute_bound_batch
    Monotone: increasing in parameters, operand, element
    >>> round(float(mixed_weight_bytes(8.03e9, 6.98e9, 1.0, 2.0)) / 1e9, 2)
    9.08
    """
    return operand * narrow_parameters + element * np.maximum(parameters - narrow_parameters, 0.0)


# --- Speculative decoding: tokens of a verification, what it costs, where it stops to pay.


@equation
def accepted_tokens(acceptance_chance: Number, draft_tokens: Number) -> Number:
    """Tokens of a step that verifies drafted ones: those that are accepted, and one more.

    (1 − a^(g + 1)) / (1 − a), g + 1 at a = 1

    acceptance_chance a: of a drafted token, given that those before it are accepted · draft_tokens g → tokens
    Source: leviathan-2023 eq. 1
    Holds: drafts that are accepted independently of each other
    Monotone: increasing in acceptance_chance, draft_tokens
    >>> round(float(accepted_tokens(0.8, 4.0)), 2), float(accepted_tokens(1.0, 4.0))
    (3.36, 5.0)
    """
    sure = acceptance_chance >= 1
    missed = np.where(sure, 1.0, 1 - acceptance_chance)
    return np.where(sure, draft_tokens + 1, (1 - np.where(sure, 0.0, acceptance_chance) ** (draft_tokens + 1)) / missed)


@equation
def level_chance(acceptance_chance: Number, siblings: Number, draft_tokens: Number, levels: Number) -> Number:
    """Chance that a level of a tree of drafts has the token that is accepted: one of those that stand side by side.

    1 − (1 − a)^k, k = min(w, g / d): as many on the accepted path as the tokens of the tree leave to each level

    acceptance_chance a: of a drafted token, given that those before it are accepted
    siblings w: tokens beside each other at most · draft_tokens g: of the tree · levels d
    → chance
    Source: miao-2024 §4; chen-2024
    Holds: tokens beside each other are accepted independently of each other: the second most likely one is accepted
        less often, so that it is a bound from above; accepted_tokens of it and the levels has the tokens of a step
    Monotone: increasing in acceptance_chance, siblings, draft_tokens; decreasing in levels
    >>> [round(float(level_chance(0.6, width, 12.0, 4.0)), 3) for width in (1.0, 2.0, 8.0)]
    [0.6, 0.84, 0.936]
    """
    return 1 - np.maximum(1 - acceptance_chance, 0.0) ** np.minimum(siblings, draft_tokens / levels)


@equation
def tokens_of_acceptance(acceptance: Number, draft_tokens: Number) -> Number:
    """Tokens of a step that verifies drafted ones, by the share of all drafted tokens that engines print.

    1 + A g

    acceptance A · draft_tokens g → tokens
    Source: vllm-engine
    Pitfall: with more drafts the share is smaller, for later tokens are accepted less often
    Monotone: increasing in acceptance, draft_tokens
    >>> round(float(tokens_of_acceptance(0.42, 4.0)), 2)
    2.68
    """
    return 1 + acceptance * draft_tokens


@equation
def dense_verify_ratio(concurrency: Number, draft_tokens: Number, compute_bound_batch: Number) -> Number:
    """Ratio of the time of a step that verifies drafts to that of a plain step, for dense matrix products.

    max(1, b (g + 1) / B) / max(1, b / B)

    concurrency b: sequences of a step · draft_tokens g: tokens drafted for each
    compute_bound_batch B: tokens from which products take longer to compute than to read
    → ratio
    Source: leviathan-2023 §3; williams-2009
    Holds: dense models; a mixture's is the ratio of bytes read, for more tokens touch more experts even at batch 1; no
        estimate calls it
    Monotone: increasing in concurrency, draft_tokens; decreasing in compute_bound_batch
    >>> [round(float(dense_verify_ratio(batch, 4.0, 295.3)), 2) for batch in (16.0, 64.0, 256.0)]
    [1.0, 1.08, 4.33]
    """
    verified = np.maximum(1.0, concurrency * (draft_tokens + 1) / compute_bound_batch)
    return verified / np.maximum(1.0, concurrency / compute_bound_batch)


@equation
def speculation_speedup(accepted: Number, verify_ratio: Number, draft_tokens: Number, draft_cost: Number) -> Number:
    """Speed of decoding with drafts over that without; under 1 it is slower.

    E / (r + g c)

    accepted E: tokens of a step that verifies · verify_ratio r: ratio of a step that verifies to a plain one, in time
    draft_tokens g · draft_cost: ratio of the time to draft one token to a plain step, c; 0 where r holds the drafts too
    → speed-up
    Source: leviathan-2023 theorem 3.8
    Pitfall: the speed-up of batch 1 is none of a busy engine's; and mixtures gain least at batch 1, where two tokens
        read half as many bytes again as one
    Monotone: increasing in accepted; decreasing in verify_ratio, draft_tokens, draft_cost
    >>> [round(speculation_speedup(3.3616, ratio, 4.0, 0.05), 2) for ratio in (1.0, 4.33)]
    [2.8, 0.74]
    """
    return accepted / (verify_ratio + draft_tokens * draft_cost)


# --- Attention groups, each with requests of its own: a step lasts as long as the busiest of them takes.


@equation
def busiest_group_sequences(sequences: Number, groups: Number) -> Number:
    """Sequences of the attention group that has the most of them.

    ⌈b / d⌉ of whole b; between two whole numbers, on the line between them

    sequences b: sequences of all groups · groups d: attention groups → sequences
    Source: vllm-engine v1/engine/core_client.py; exact
    Holds: each request goes to the group with the fewest
    Pitfall: other groups wait, so one user takes one of them and d − 1 compute nothing
    Monotone: increasing in sequences; decreasing in groups
    >>> [float(busiest_group_sequences(many, 8.0)) for many in (1.0, 8.0, 8.5, 64.0)]
    [1.0, 1.0, 1.5, 8.0]
    """
    whole = np.floor(sequences)
    below, above = np.ceil(whole / groups), np.ceil((whole + 1.0) / groups)
    return np.where(groups > 1, below + (sequences - whole) * (above - below), sequences)


@equation
def busiest_group_prompts(prompts: Number, groups: Number) -> Number:
    """Prompts of a step that the busiest attention group computes, where prompts arrive at random.

    min(x, max(1, x/d + (1 − 1/d)/2 · (1 + e^(−2(x − 1))))): x at a time on average, one at least, spread evenly

    prompts x: prompts of all groups in a step that has any · groups d: attention groups → prompts
    Source: tensorrt-llm docs/blogs/tech_blog/blog10_ADP_Balance_Strategy; composition
    Holds: each request goes to the group with the fewest; the mean of ⌈n/d⌉ over a Poisson number n of prompts, given
        one, is met within 9 %
    Pitfall: one prompt lies on one group: of its time d groups save nothing
    Monotone: increasing in prompts
    >>> [round(float(busiest_group_prompts(many, 8.0)), 2) for many in (0.5, 1.0, 4.0, 16.0)]
    [0.5, 1.0, 1.0, 2.44]
    """
    spread = (1.0 - 1.0 / groups) / 2.0 * (1.0 + np.exp(-2.0 * np.maximum(prompts - 1.0, 0.0)))
    return np.minimum(prompts, np.maximum(prompts / groups + spread, 1.0))


@equation
def prompts_of_a_step_with_any(prompts: Number) -> Number:
    """Prompts of a step that carries any, where they arrive at random.

    x = p / (1 − e^(−p))

    prompts p: prompts of a step on average → prompts, one at least
    Source: exact
    Monotone: increasing in prompts
    >>> [round(float(prompts_of_a_step_with_any(mean)), 3) for mean in (0.0, 0.1, 1.0, 8.0)]
    [1.0, 1.051, 1.582, 8.003]
    """
    few = np.maximum(prompts, 1e-9)
    return few / -np.expm1(-few)


@equation
def polling_steps(poll: Number) -> Number:
    """Steps of decoding that a request waits, on average, until an engine looks for new ones.

    (p − 1) / 2

    poll p: steps between two looks → steps
    Source: sglang; exact
    Holds: requests that come at any time, beside half of the running step; an engine without requests looks at once
    Monotone: increasing in poll
    >>> [polling_steps(poll) for poll in (1.0, 30.0)]
    [0.0, 14.5]
    """
    return (poll - 1.0) / 2.0


@equation
def prompts_gathered(prompts: Number, groups: Number, wait_steps: Number) -> Number:
    """Prompts that begin in one step, where the engine waits until every attention group has one.

    max(min(d, 1 + p w), p): as many as groups, where they arrive within the wait

    prompts p: prompts of a step on average · groups d: attention groups
    wait_steps w: steps that the first of them waits at most
    → prompts
    Source: tensorrt-llm docs/blogs/tech_blog/blog10_ADP_Balance_Strategy; composition
    Monotone: increasing in prompts, wait_steps
    >>> [float(prompts_gathered(mean, 8.0, 50.0)) for mean in (0.01, 0.5, 16.0)]
    [1.5, 8.0, 16.0]
    """
    return np.maximum(np.minimum(groups, 1.0 + prompts * wait_steps), prompts)


@equation
def gathering_steps(prompts: Number, groups: Number, prompt_wait: Number) -> Number:
    """Steps that a prompt waits for those of other attention groups, on average.

    (d − 1) / 2p where d prompts come in time, (d − 1) / p ≤ w; else w (1 + p w / 2) / (1 + p w), as the first waits w

    prompts p: prompts of a step on average · groups d: attention groups
    prompt_wait w: steps that prompts wait at most
    → steps
    Source: composition
    Monotone: decreasing in prompts
    >>> [round(float(gathering_steps(mean, 8.0, 60.0)), 2) for mean in (1e-3, 0.05, 0.5)]
    [58.3, 37.5, 7.0]
    """
    mean = np.maximum(prompts, 1e-9)
    come = mean * prompt_wait
    return np.where(groups - 1 <= come, (groups - 1) / (2 * mean), prompt_wait * (1 + come / 2) / (1 + come))


# --- Communication of an engine's step: its own all-reduce, and what a prompt takes from the stages of a pipeline.


@equation
def engine_all_reduce_time(
    message: Number, ranks: Number, start: Number, hop: Number, bandwidth: Number, shot: Number
) -> Number:
    """Time of an engine's own all-reduce: each rank reads all buffers whole, or reduces its share and gathers the rest.

    a₀ + a₁ (n − 1) + min((n − 1) S, 2 (n − 1)/n S + S₀) / B; nothing for a group of one

    message S [B]: the full buffer · ranks n · start a₀ [s]: of a call · hop a₁ [s]: for each further rank
    bandwidth B [B/s]: that large messages reach · shot S₀ [B]: what the second step of the longer way costs, as bytes
    → time [s]
    Source: vllm-engine csrc/custom_all_reduce.cuh; kernel-fit
    Holds: messages up to some MB inside one NVLink domain; else engines call NCCL
    Pitfall: a ring with the fixed time of training makes decode twice as slow as it is
    Monotone: increasing in message, ranks, start, hop, shot; decreasing in bandwidth
    >>> fitted = (8.0, 4.15e-6, 0.11e-6, 263e9, 0.32e6)
    >>> [round(float(engine_all_reduce_time(message, *fitted)) * 1e6, 1) for message in (16384.0, 2.0**20)]
    [5.4, 13.1]
    """
    peers = ranks - 1
    moved = np.minimum(peers * message, 2 * peers / ranks * message + shot)
    return np.where(ranks > 1, start + hop * peers + moved / bandwidth, 0.0)


@equation
def pipelined_prompt_share(pp: Number, mixed_share: Number) -> Number:
    """Time by which a prompt delays each token of a pipeline, over what it takes in all stages.

    (1 − (1 − φ)^p) / (p φ): stages move in step, so that one micro-batch with a prompt holds up all of them; where
    every one has a prompt each delays the others by its own stage alone, 1/p

    pp p: pipeline stages, with a micro-batch in each · mixed_share φ: share of micro-batches that carry prompts → share
    Source: composition
    Holds: prompts of one length, spread over micro-batches at random; tokens of decode take little beside them
    Pitfall: a pipeline is no cure for prompts between tokens: until prompts fill it, each of them delays all users as
        it would on one device
    Monotone: decreasing in pp, mixed_share
    >>> [round(float(pipelined_prompt_share(4.0, share)), 3) for share in (1e-6, 0.5, 1.0)]
    [1.0, 0.469, 0.25]
    """
    busy = np.maximum(mixed_share, 1e-9)
    return (1 - (1 - busy) ** pp) / (pp * busy)


# --- The host's launches in steps that replay no captured graph.


@equation
def eager_launch_time(layers: Number, launches: Number, launch: Number) -> Number:
    """Time the host needs to launch the kernels of a step one by one, where it replays no captured graph.

    L k h

    layers L · launches k · launch h [s] → time [s]
    Source: count
    Holds: head, embedding and sampling left out; in host_bound_time with the device's time of the step
    Pitfall: a model of a billion parameters waits for its launches even at 6 us each: its device needs 0.9 ms of the
        1.3
    Monotone: increasing in layers, launches, launch
    >>> round(float(eager_launch_time(16.0, 14.0, 6e-6)) * 1e3, 3)
    1.344
    """
    return layers * launches * launch


@equation
def prompt_launch_time(
    layers: Number,
    layer_launch: Number,
    expert_layers: Number,
    expert_launch: Number,
    latent_layers: Number,
    latent_launch: Number,
) -> Number:
    """Time the host needs to launch a step with prompts, whose number of rows no graph was captured for.

    L h + L_e h_e + L_r h_r

    layers L · layer_launch h [s]: launches of a layer · expert_layers: of these with experts, L_e
    expert_launch h_e [s]: of routing, sorting and experts beside them · latent_layers: with latent attention, L_r
    latent_launch h_r [s]: of its projections, norms and copies beside them
    → time [s]
    Source: count; serving-fit
    Holds: in host_bound_time with the device's time of the step. Graphs are captured for sequences that decode, one row
        each; prompts are launched by Python
    Pitfall: of a prompt of some hundred tokens this is most of its time to the first token, and other users' decoding
        waits as long
    Monotone: increasing in layers, layer_launch, expert_layers, expert_launch, latent_layers, latent_launch
    >>> round(float(prompt_launch_time(61.0, 0.6e-3, 58.0, 1.2e-3, 61.0, 0.3e-3)) * 1e3, 1)
    124.5
    """
    return layers * layer_launch + expert_layers * expert_launch + latent_layers * latent_launch


@equation
def varying_prompt_time(prompt: Number, prompt_token_time: Number, filled_time: Number, mixed_share: Number) -> Number:
    """Time that a prompt adds to steps, as far as it varies between requests.

    s √(γ_f² + (1 − m) max(γ² − γ_f², 0)): what a step with prompts takes at least does not vary where all have some

    prompt s: tokens of the prompt that are computed, on average · prompt_token_time γ [s]: time each prompt token adds
    filled_time γ_f [s]: the same where prompts fill steps · mixed_share m
    → time [s]
    Source: composition
    Holds: prompts that come at random; m of all steps have some, whose number varies by m (1 − m)
    Monotone: increasing in prompt, prompt_token_time; decreasing in mixed_share
    >>> [round(float(varying_prompt_time(500.0, 2.4e-4, 2e-5, m)), 3) for m in (0.0, 0.5, 1.0)]
    [0.12, 0.085, 0.01]
    """
    launched = np.maximum(prompt_token_time**2 - filled_time**2, 0.0)
    time: Number = prompt * np.sqrt(filled_time**2 + (1 - mixed_share) * launched)
    return time
