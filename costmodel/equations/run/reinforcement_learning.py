"""An iteration of reinforcement learning: generation, its longest answers, and the split of ranks."""

from __future__ import annotations

import numpy as np

from costmodel.equations.unequal.order_statistics import BELOW, GRID
from costmodel.ground.equation import Number, equation


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
