"""An iteration of reinforcement learning: generation, its longest answers, and the split of ranks."""

from __future__ import annotations

import numpy as np

from costmodel.equations.unequal.order_statistics import BELOW, GRID
from costmodel.ground.equation import Number, equation


@equation
def generation_time(fixed: Number, sequence_time: Number, longest: Number, tokens: Number) -> Number:
    """Time to generate a batch of answers together, until the longest ends.

    t₀ L_max + t₁ Σ L

    Args:
        fixed: time of a decoding step that the sequences do not change, t₀: weights and launches [s]
        sequence_time: time that each sequence adds to a step, t₁ [s]
        longest: tokens of the longest answer, L_max [1]
        tokens: tokens of all answers, Σ L [1]

    Returns:
        time [s]

    Example:
        >>> round(generation_time(0.02, 1e-4, 28000.0, 64 * 8000.0), 1)
        611.2

    Holds: exact for steps of t₀ + t₁ × sequences still running; all begin together; no estimate calls it

    Source:
        composition

    Monotone: increasing in fixed, sequence_time, longest, tokens
    """
    return fixed * longest + sequence_time * tokens


@equation
def refilled_generation_time(fixed: Number, sequence_time: Number, tokens: Number, concurrency: Number) -> Number:
    """Time to generate answers when a new one takes the place of each that ends.

    (t₀/c + t₁) Σ L

    Args:
        fixed: time of a decoding step that the sequences do not change, t₀ [s]
        sequence_time: time that each sequence adds to a step, t₁ [s]
        tokens: tokens of all answers, Σ L [1]
        concurrency: sequences that run at a time, c [1]

    Returns:
        time [s]

    Example:
        >>> round(refilled_generation_time(0.02, 1e-4, 64 * 8000.0, 64.0), 1)
        211.2

    Holds: enough prompts to refill from: continuous batching over several batches, or answers cut and resumed;
        no estimate calls it

    Source:
        fu-2025; composition

    Monotone: increasing in fixed, sequence_time, tokens; decreasing in concurrency
    """
    return (fixed / concurrency + sequence_time) * tokens


@equation
def expected_longest(mean_length: Number, spread: Number, sequences: Number, length_limit: Number) -> Number:
    """Expected tokens of the longest of many answers with log-normal lengths that are cut at a limit.

    E[min(l, m e^(σ z − σ²/2))], z the largest of b standard normal variables; b = 1 gives the mean after cutting

    Args:
        mean_length: of answers before they are cut, m [1]
        spread: standard deviation of their logarithm, σ [1]
        sequences: answers that end together, b [1]
        length_limit: tokens at which answers are cut, l [1]

    Returns:
        tokens [1]

    Example:
        >>> round(float(expected_longest(8000.0, 0.8, 64.0, 28000.0)))
        27222
        >>> round(float(expected_longest(8000.0, 0.8, 1.0, 28000.0)))
        7718

    Holds: lengths that are independent and log-normal; to 0.1 %

    Source:
        david-2003 §3.1; composition

    Pitfall:
        the quantile 1 − 1/b of the lengths is no estimate of the longest: 20 % low for b = 64 and σ = 0.8

    Monotone: increasing in sequences, length_limit
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

    Args:
        ranks: accelerators of both, N [1]
        generation_work: time of generation times the ranks it was on, W_g [s]
        training_work: time of training times the ranks it was on, W_t [s]

    Returns:
        ranks that generate, a [1]

    Example:
        >>> generation_ranks(64.0, 3000.0, 1000.0)
        48.0

    Holds: times that fall in proportion to the ranks; then the iteration is as long as both one after the other on all
        ranks, and only what does not scale is gained; no estimate calls it

    Source:
        sheng-2025; fu-2025; composition

    Monotone: increasing in ranks, generation_work; decreasing in training_work
    """
    return ranks * generation_work / (generation_work + training_work)
