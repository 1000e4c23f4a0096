"""Reinforcement learning: answers generated together, tools, passes of the trainer, and the split of ranks."""

from __future__ import annotations

import numpy as np

from costmodel.equations.unequal import BELOW, GRID
from costmodel.ground.equation import Number, equation

# Standard deviations from −5 to 7 at which lengths are looked at, and the share of answers that are shorter.
DEVIATIONS, SHORTER = GRID[64:257:2], BELOW[64:257:2]


# --- An iteration of reinforcement learning: generation, its longest answers, and the split of ranks.


@equation
def generation_time(fixed: Number, sequence_time: Number, longest: Number, tokens: Number) -> Number:
    """Time to generate a batch of answers together, until the longest ends.

    t₀ L_max + t₁ Σ L

    fixed [s]: time of a decoding step that the sequences do not change, t₀: weights and launches
    sequence_time t₁ [s]: time that each sequence adds to a step · longest L_max: tokens of the longest answer
    tokens Σ L: tokens of all answers
    → time [s]
    Source: composition
    Holds: exact for steps of t₀ + t₁ × sequences still running; all begin together; no estimate calls it
    Monotone: increasing in fixed, sequence_time, longest, tokens
    >>> round(generation_time(0.02, 1e-4, 28000.0, 64 * 8000.0), 1)
    611.2
    """
    return fixed * longest + sequence_time * tokens


@equation
def refilled_generation_time(fixed: Number, sequence_time: Number, tokens: Number, concurrency: Number) -> Number:
    """Time to generate answers when a new one takes the place of each that ends.

    (t₀/c + t₁) Σ L

    fixed t₀ [s]: time of a decoding step that the sequences do not change
    sequence_time t₁ [s]: time that each sequence adds to a step · tokens Σ L: tokens of all answers · concurrency c
    → time [s]
    Source: fu-2025; composition
    Holds: enough prompts to refill from: continuous batching over several batches, or answers cut and resumed; no
        estimate calls it
    Monotone: increasing in fixed, sequence_time, tokens; decreasing in concurrency
    >>> round(refilled_generation_time(0.02, 1e-4, 64 * 8000.0, 64.0), 1)
    211.2
    """
    return (fixed / concurrency + sequence_time) * tokens


@equation
def expected_longest(mean_length: Number, spread: Number, sequences: Number, length_limit: Number) -> Number:
    """Expected tokens of the longest of many answers with log-normal lengths that are cut at a limit.

    E[min(l, m e^(σ z − σ²/2))], z the largest of b standard normal variables; b = 1 gives the mean after cutting

    mean_length m: of answers before they are cut · spread σ: standard deviation of their logarithm
    sequences b: answers that end together · length_limit l: tokens at which answers are cut
    → tokens
    Source: david-2003 §3.1; composition
    Holds: lengths that are independent and log-normal; to 0.1 %
    Pitfall: the quantile 1 − 1/b of the lengths is no estimate of the longest: 20 % low for b = 64 and σ = 0.8
    Monotone: increasing in sequences, length_limit
    >>> round(float(expected_longest(8000.0, 0.8, 64.0, 28000.0)))
    27222
    >>> round(float(expected_longest(8000.0, 0.8, 1.0, 28000.0)))
    7718
    """
    wide, factor = np.expand_dims(spread, -1), np.expand_dims(np.log(length_limit / mean_length), -1)
    lengths = np.expand_dims(mean_length, -1) * np.exp(np.minimum(wide * (GRID - wide / 2), factor))
    below = BELOW ** np.expand_dims(sequences, -1)
    reached = 1 - (below[..., 1:] + below[..., :-1]) / 2
    expected: Number = lengths[..., 0] + np.sum((lengths[..., 1:] - lengths[..., :-1]) * reached, axis=-1)
    return expected


@equation
def generation_ranks(ranks: Number, generation_work: Number, training_work: Number) -> Number:
    """Ranks that generate, of those that generate and those that train at the same time, with which both take as long.

    a = N W_g / (W_g + W_t)

    ranks N: accelerators of both · generation_work W_g [s] · training_work W_t [s] → ranks that generate, a
    Source: sheng-2025; fu-2025; composition
    Holds: times that fall in proportion to the ranks; then the iteration is as long as both one after the other on all
        ranks, and only what does not scale is gained; no estimate calls it
    Monotone: increasing in ranks, generation_work; decreasing in training_work
    >>> generation_ranks(64.0, 3000.0, 1000.0)
    48.0
    """
    return ranks * generation_work / (generation_work + training_work)


# --- Answers that are generated together: their lengths, how many still run, and how long that takes.


@equation
def log_spread(variation: Number) -> Number:
    """Standard deviation of the logarithm of log-normal lengths.

    σ = √ln(1 + v²)

    variation v: standard deviation of the lengths over their mean → of the logarithm, σ
    Source: composition
    Monotone: increasing in variation
    >>> round(float(log_spread(0.95)), 3)
    0.802
    """
    return np.sqrt(np.log(1 + variation * variation))


@equation
def length_at(mean_length: Number, spread: Number, deviations: Number, length_limit: Number) -> Number:
    """Length that log-normal answers have at some standard deviations of their logarithm, cut at a limit.

    min(l, m e^(σ z − σ²/2))

    mean_length m: of answers before they are cut · spread σ: standard deviation of their logarithm
    deviations z: from the median · length_limit l: tokens at which answers are cut
    → tokens
    Source: composition
    Monotone: increasing in mean_length, deviations, length_limit
    >>> [round(float(length_at(4000.0, 0.8, z, 28000.0))) for z in (0.0, 1.0, 5.0)]
    [2905, 6464, 28000]
    """
    factor = np.minimum(spread * (deviations - spread / 2), np.log(length_limit / mean_length))
    return mean_length * np.exp(factor)


@equation
def mean_square_length(mean_length: Number, spread: Number, length_limit: Number) -> Number:
    """Mean of the squares of log-normal lengths that are cut at a limit.

    E[L²] = Σ (l² at the next z − l² at z) (1 − Φ between)

    mean_length m: of answers before they are cut · spread σ: standard deviation of their logarithm
    length_limit l: tokens at which answers are cut
    → tokens squared
    Source: composition
    Holds: to 1 % for σ up to 1.2
    Monotone: increasing in mean_length, length_limit
    >>> round(float(mean_square_length(4000.0, 0.8, 1e12)) / 4000**2, 1)
    1.9
    """
    wide, factor = np.expand_dims(spread, -1), np.expand_dims(np.log(length_limit / mean_length), -1)
    relative = np.exp(2 * np.minimum(wide * (GRID - wide / 2), factor))
    longer = 1 - (BELOW[1:] + BELOW[:-1]) / 2
    square: Number = relative[..., 0] + np.sum((relative[..., 1:] - relative[..., :-1]) * longer, axis=-1)
    return mean_length * mean_length * square


@equation
def token_weighted_length(prompt: Number, output: Number, square: Number) -> Number:
    """Length of the sequence that a token lies in, on average over the tokens.

    E[(p + L)²] / E[p + L]: sequences of it have the tokens and the attention of those of all lengths

    prompt p: tokens of a prompt · output E[L]: tokens of an answer · square E[L²] → tokens
    Source: composition
    Monotone: increasing in square
    >>> token_weighted_length(1000.0, 4000.0, 30e6)
    7800.0
    """
    return (prompt * (prompt + 2 * output) + square) / (prompt + output)


@equation
def length_variation(prompt: Number, output: Number, square: Number) -> Number:
    """Standard deviation of the tokens of prompt and answer over their mean.

    √(E[L²] − E[L]²) / (p + E[L])

    prompt p: tokens of a prompt · output E[L]: tokens of an answer · square E[L²] → relative
    Source: composition
    Monotone: decreasing in prompt; increasing in square
    >>> round(float(length_variation(0.0, 4000.0, 1.9 * 16e6)), 3)
    0.949
    """
    return np.sqrt(np.maximum(square - output * output, 0.0)) / (prompt + output)


@equation
def any_running(sequences: Number, probability: Number) -> Number:
    """Chance that any of many answers is longer than a length.

    1 − Φᵇ

    sequences b: answers · probability Φ: that an answer is shorter → chance
    Source: david-2003 §2.1
    Monotone: increasing in sequences; decreasing in probability
    >>> any_running(2.0, 0.5)
    0.75
    """
    return 1 - probability**sequences


@equation
def running_answers(sequences: Number, probability: Number) -> Number:
    """Answers still running at a length, on average over the batches in which any runs.

    b (1 − Φ) / (1 − Φᵇ), at least 1

    sequences b: answers · probability Φ: that an answer is shorter → answers
    Source: composition
    Monotone: increasing in sequences; decreasing in probability
    >>> round(float(running_answers(64.0, 0.5)), 3), float(running_answers(64.0, 1.0))
    (32.0, 1.0)
    """
    return np.maximum(sequences * (1 - probability) / np.maximum(1 - probability**sequences, 1e-300), 1.0)


@equation
def decoding_time(shorter_length: Number, longer_length: Number, shorter_time: Number, longer_time: Number) -> Number:
    """Time to decode answers together from one length to the next.

    (l₁ − l₀) (P₀ t₀ + P₁ t₁) / 2

    shorter_length l₀: tokens before · longer_length l₁: tokens after
    shorter_time [s]: of a step at the first length, times the chance that any answer still runs there, P₀ t₀
    longer_time [s]: the same at the second, P₁ t₁
    → time [s]
    Source: composition
    Holds: summed over all lengths, with steps of t₀ + t₁ × running answers, it is generation_time to 0.5 %
    Monotone: increasing in shorter_time, longer_time
    >>> float(decoding_time(100.0, 200.0, 2.0, 1.0))
    150.0
    """
    return np.maximum(longer_length - shorter_length, 0.0) * (shorter_time + longer_time) / 2


@equation
def stream_left(output: Number, square: Number) -> Number:
    """Mean part of an answer that is still to be generated, in a steady stream of answers.

    E[L²] / (2 E[L]²)

    output E[L]: tokens of an answer · square E[L²] → in mean answers
    Source: cox-1962 §5.4
    Monotone: decreasing in output; increasing in square
    >>> stream_left(4000.0, 16e6), stream_left(4000.0, 32e6)
    (0.5, 1.0)
    """
    return square / (2 * output * output)


# --- What surrounds generation: tools that answers wait for, passes of the trainer over answers, bytes of experience.


@equation
def rate_with_waits(request_rate: Number, concurrency: Number, wait: Number) -> Number:
    """Answers a second of an engine whose sequences also wait for tools.

    c / (c / r + w)

    request_rate r [1/s]: without waits · concurrency c: sequences that are held at a time, waiting ones too
    wait w [s]: that each answer has in all
    → answers a second [1/s]
    Source: little-1961
    Holds: a sequence keeps its place while it waits
    Monotone: increasing in request_rate, concurrency; decreasing in wait
    >>> rate_with_waits(2.0, 64.0, 32.0)
    1.0
    """
    return concurrency / (concurrency / request_rate + wait)


@equation
def environments_time(requests: Number, turns: Number, time: Number, environments: Number) -> Number:
    """Least time of an iteration whose calls share a number of environments.

    n k t / e

    requests n: of an iteration · turns k: calls of an answer · time t [s]: of a call
    environments e: that run at a time
    → time [s]
    Source: composition
    Monotone: increasing in requests, turns, time; decreasing in environments
    >>> environments_time(8192.0, 4.0, 2.0, 256.0)
    256.0
    """
    return requests * turns * time / environments


@equation
def returning_time(requests: Number, output: Number, each: Number) -> Number:
    """Time of an engine's host for the tokens that it samples and returns, in which its accelerators wait.

    k y t

    requests k: answers of the engine · output y: of an answer, on average · each t [s]: time for one token → time [s]
    Source: composition
    Holds: hosts that do not prepare a step while the one before runs
    Monotone: increasing in requests, output, each
    >>> returning_time(256.0, 1000.0, 0.0001)
    25.6
    """
    return requests * output * each


@equation
def drawn_prompts(prompts: Number, kept_prompts: Number) -> Number:
    """Prompts that are generated until enough of them are kept.

    p / κ

    prompts p: that are kept · kept_prompts κ → prompts that are drawn
    Source: yu-2025; composition
    Holds: prompts whose answers all have the same reward are replaced one by one
    Monotone: increasing in prompts; decreasing in kept_prompts
    >>> drawn_prompts(512.0, 0.5)
    1024.0
    """
    return prompts / kept_prompts


@equation
def generation_rounds(prompts: Number, batch: Number, kept_prompts: Number) -> Number:
    """Rounds of generation until enough prompts are kept, each of which waits for its longest answer.

    ⌈p / (b κ)⌉

    prompts p: that are kept · batch b: prompts that are drawn at a time · kept_prompts κ: share of them that is kept
    → rounds
    Source: yu-2025; verl-dapo
    Holds: every round keeps the same share; what the last one has too many is dropped
    Monotone: increasing in prompts; decreasing in batch, kept_prompts
    >>> float(generation_rounds(512.0, 512.0, 0.7)), float(generation_rounds(512.0, 1536.0, 0.4))
    (2.0, 1.0)
    """
    rounds: Number = np.ceil(np.round(prompts / (batch * kept_prompts), 9))
    return rounds


@equation
def uneven_share(variation: Number, requests: Number, deviations: Number) -> Number:
    """Tokens of the most loaded rank over the mean, where answers are dealt at random.

    1 + v z / √k

    variation v: standard deviation of the tokens of an answer over their mean · requests k: of each rank
    deviations z: of the largest of as many normal variables as there are ranks
    → factor
    Source: david-2003 §3.1; composition
    Holds: sums of answers are taken as normal, which a few long ones are not
    Monotone: increasing in variation, deviations; decreasing in requests
    >>> float(uneven_share(0.8, 16.0, 2.0))
    1.4
    """
    return 1 + variation * deviations / np.sqrt(requests)


@equation
def forward_passes_time(pass_time: Number, micro_batches: Number, pp: Number) -> Number:
    """Time of forward passes alone through a pipeline.

    (m + p − 1) t

    pass_time t [s]: forward time of the slowest stage · micro_batches: m · pp p → time [s]
    Source: narayanan-2021
    Monotone: increasing in pass_time, micro_batches, pp
    >>> forward_passes_time(0.5, 8.0, 1.0), forward_passes_time(0.5, 8.0, 4.0)
    (4.0, 5.5)
    """
    return (micro_batches + pp - 1) * pass_time


@equation
def experience_bytes(requests: Number, tokens: Number, element: Number) -> Number:
    """Bytes of answers with their probabilities, as engines hand them to the trainer.

    n l b

    requests: n · tokens l: of each with its prompt · element b [B]: of a token, its number and its log-probability
    → bytes [B]
    Source: composition
    Monotone: increasing in requests, tokens, element
    >>> experience_bytes(8192.0, 5000.0, 8.0) / 1e6
    327.68
    """
    return requests * tokens * element
