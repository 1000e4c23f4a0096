"""Answers that are generated together: their lengths, how many still run, and how long that takes."""

from __future__ import annotations

import numpy as np

from costmodel.equations.unequal.order_statistics import BELOW, GRID
from costmodel.ground.equation import Number, equation

# Standard deviations from −5 to 7 at which lengths are looked at, and the share of answers that are shorter.
DEVIATIONS, SHORTER = GRID[64:257:2], BELOW[64:257:2]


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
    """Part of an answer that is still to come when a steady stream of them is looked at.

    E[L²] / (2 E[L]²)

    output E[L]: tokens of an answer · square E[L²] → in mean answers
    Source: cox-1962 §5.4
    Monotone: decreasing in output; increasing in square
    >>> stream_left(4000.0, 16e6), stream_left(4000.0, 32e6)
    (0.5, 1.0)
    """
    return square / (2 * output * output)
