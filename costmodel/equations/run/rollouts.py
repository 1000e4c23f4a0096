"""Answers that are generated together: how many still run, how long that takes, how unevenly ranks train on them."""

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

    Args:
        variation: standard deviation of the lengths over their mean, v [1]

    Returns:
        of the logarithm, σ [1]

    Example:
        >>> round(float(log_spread(0.95)), 3)
        0.802

    Source:
        composition

    Monotone: increasing in variation
    """
    return np.sqrt(np.log(1 + variation * variation))


@equation
def length_at(mean_length: Number, spread: Number, deviations: Number, length_limit: Number) -> Number:
    """Length that log-normal answers have at some standard deviations of their logarithm, cut at a limit.

    min(l, m e^(σ z − σ²/2))

    Args:
        mean_length: of answers before they are cut, m [1]
        spread: standard deviation of their logarithm, σ [1]
        deviations: from the median, z [1]
        length_limit: tokens at which answers are cut, l [1]

    Returns:
        tokens [1]

    Example:
        >>> [round(float(length_at(4000.0, 0.8, z, 28000.0))) for z in (0.0, 1.0, 5.0)]
        [2905, 6464, 28000]

    Source:
        composition

    Monotone: increasing in mean_length, deviations, length_limit
    """
    return np.minimum(length_limit, mean_length * np.exp(spread * (deviations - spread / 2)))


@equation
def mean_square_length(mean_length: Number, spread: Number, length_limit: Number) -> Number:
    """Mean of the squares of log-normal lengths that are cut at a limit.

    E[L²] = Σ (l² at the next z − l² at z) (1 − Φ between)

    Args:
        mean_length: of answers before they are cut, m [1]
        spread: standard deviation of their logarithm, σ [1]
        length_limit: tokens at which answers are cut, l [1]

    Returns:
        tokens squared [1]

    Example:
        >>> round(float(mean_square_length(4000.0, 0.8, 1e12)) / 4000**2, 1)
        1.9

    Holds: to 1 % for σ up to 1.2

    Source:
        composition

    Monotone: increasing in mean_length, length_limit
    """
    wide, factor = np.expand_dims(spread, -1), np.expand_dims(np.log(length_limit / mean_length), -1)
    relative = np.exp(2 * np.minimum(wide * (GRID - wide / 2), factor))
    longer = 1 - (BELOW[1:] + BELOW[:-1]) / 2
    square: Number = relative[..., 0] + np.sum((relative[..., 1:] - relative[..., :-1]) * longer, axis=-1)
    return mean_length * mean_length * square


@equation
def token_weighted_length(prompt: Number, mean_answer: Number, square: Number) -> Number:
    """Length of the sequence that a token lies in, on average over the tokens: sequences of this length have the same
    tokens and the same attention as those of all lengths.

    E[(p + L)²] / E[p + L]

    Args:
        prompt: tokens of a prompt, p [1]
        mean_answer: tokens of an answer, E[L] [1]
        square: mean square of the tokens of an answer, E[L²] [1]

    Returns:
        tokens [1]

    Example:
        >>> token_weighted_length(1000.0, 4000.0, 30e6)
        7800.0

    Source:
        composition

    Monotone: increasing in square
    """
    return (prompt * (prompt + 2 * mean_answer) + square) / (prompt + mean_answer)


@equation
def length_variation(prompt: Number, mean_answer: Number, square: Number) -> Number:
    """Standard deviation of the tokens of prompt and answer over their mean.

    √(E[L²] − E[L]²) / (p + E[L])

    Args:
        prompt: tokens of a prompt, p [1]
        mean_answer: tokens of an answer, E[L] [1]
        square: mean square of the tokens of an answer, E[L²] [1]

    Returns:
        relative [1]

    Example:
        >>> round(float(length_variation(0.0, 4000.0, 1.9 * 16e6)), 3)
        0.949

    Source:
        composition

    Monotone: decreasing in prompt; increasing in square
    """
    return np.sqrt(np.maximum(square - mean_answer * mean_answer, 0.0)) / (prompt + mean_answer)


@equation
def any_running(sequences: Number, shorter: Number) -> Number:
    """Chance that any of many answers is longer than a length.

    1 − Φᵇ

    Args:
        sequences: answers, b [1]
        shorter: share of answers that are shorter, Φ [1]

    Returns:
        chance [1]

    Example:
        >>> any_running(2.0, 0.5)
        0.75

    Source:
        david-2003 §2.1

    Monotone: increasing in sequences; decreasing in shorter
    """
    return 1 - shorter**sequences


@equation
def running_answers(sequences: Number, shorter: Number) -> Number:
    """Answers still running at a length, on average over the batches in which any runs.

    b (1 − Φ) / (1 − Φᵇ), at least 1

    Args:
        sequences: answers, b [1]
        shorter: share of answers that are shorter, Φ [1]

    Returns:
        answers [1]

    Example:
        >>> round(float(running_answers(64.0, 0.5)), 3), float(running_answers(64.0, 1.0))
        (32.0, 1.0)

    Source:
        composition

    Monotone: increasing in sequences; decreasing in shorter
    """
    return np.maximum(sequences * (1 - shorter) / np.maximum(1 - shorter**sequences, 1e-300), 1.0)


@equation
def decoding_time(step_times: Number, lengths: Number, chance: Number) -> Number:
    """Time to decode answers together until the longest ends, each step at its own length and with what still runs.

    Σ (l at the next point − l) × mean of P t over both, from 0

    Args:
        step_times: time of a step at each length, of the answers that run there, t [s]
        lengths: tokens, rising along the last axis [1]
        chance: that any answer is longer, P [1]

    Returns:
        time [s]

    Example:
        >>> float(decoding_time(np.array([2.0, 1.0]), np.array([100.0, 200.0]), np.array([1.0, 1.0])))
        350.0

    Holds: with steps of t₀ + t₁ × running answers it is generation_time to 0.5 %

    Source:
        composition

    Monotone: increasing in step_times, chance
    """
    taken = step_times * chance
    first = lengths[..., 0] * taken[..., 0]
    later: Number = np.sum((lengths[..., 1:] - lengths[..., :-1]) * (taken[..., 1:] + taken[..., :-1]) / 2, axis=-1)
    return first + later


@equation
def remaining_share(lengths: Number, shorter: Number) -> Number:
    """Share of answers in a steady stream that have fewer tokens left than each of some lengths.

    1 − ∫ from x (1 − Φ) dl / ∫ from 0 (1 − Φ) dl

    Args:
        lengths: x, rising along the last axis [1]
        shorter: share of answers that are shorter, Φ, along the same axis [1]

    Returns:
        share at each length [1]

    Example:
        >>> remaining_share(np.array([0.0, 50.0, 100.0]), np.array([0.0, 0.0, 1.0])).round(3)
        array([0.   , 0.667, 1.   ])

    Source:
        cox-1962 §5.4
    """
    parts = (lengths[..., 1:] - lengths[..., :-1]) * (1 - (shorter[..., 1:] + shorter[..., :-1]) / 2)
    before = np.concatenate([lengths[..., :1], lengths[..., :1] + np.cumsum(parts, axis=-1)], axis=-1)
    return before / before[..., -1:]


@equation
def stream_left(mean_answer: Number, square: Number) -> Number:
    """Part of an answer that is still to come when a steady stream of them is looked at.

    E[L²] / (2 E[L]²)

    Args:
        mean_answer: tokens of an answer, E[L] [1]
        square: mean square of the tokens of an answer, E[L²] [1]

    Returns:
        in mean answers [1]

    Example:
        >>> stream_left(4000.0, 16e6), stream_left(4000.0, 32e6)
        (0.5, 1.0)

    Source:
        cox-1962 §5.4

    Monotone: decreasing in mean_answer; increasing in square
    """
    return square / (2 * mean_answer * mean_answer)


@equation
def rate_with_waits(answer_rate: Number, concurrency: Number, waiting: Number) -> Number:
    """Answers a second of an engine whose sequences also wait for tools.

    c / (c / r + w)

    Args:
        answer_rate: without waits, r [1/s]
        concurrency: sequences that are held at a time, waiting ones too, c [1]
        waiting: time that each answer waits in all, w [s]

    Returns:
        answers a second [1/s]

    Example:
        >>> rate_with_waits(2.0, 64.0, 32.0)
        1.0

    Holds: a sequence keeps its place while it waits

    Source:
        little-1961

    Monotone: increasing in answer_rate, concurrency; decreasing in waiting
    """
    return concurrency / (concurrency / answer_rate + waiting)


@equation
def environments_time(answers: Number, turns: Number, call_time: Number, environments: Number) -> Number:
    """Least time of an iteration whose calls share a number of environments.

    n k t / e

    Args:
        answers: of an iteration, n [1]
        turns: calls of an answer, k [1]
        call_time: of one, t [s]
        environments: that run at a time, e [1]

    Returns:
        time [s]

    Example:
        >>> environments_time(8192.0, 4.0, 2.0, 256.0)
        256.0

    Source:
        composition

    Monotone: increasing in answers, turns, call_time; decreasing in environments
    """
    return answers * turns * call_time / environments


@equation
def uneven_share(variation: Number, answers: Number, largest: Number) -> Number:
    """Tokens of the fullest rank over the mean, where answers are dealt at random.

    1 + v z / √k

    Args:
        variation: standard deviation of the tokens of an answer over their mean, v [1]
        answers: of each rank, k [1]
        largest: of as many normal variables as there are ranks, expected, z [1]

    Returns:
        factor [1]

    Example:
        >>> float(uneven_share(0.8, 16.0, 2.0))
        1.4

    Holds: sums of answers are taken as normal, which a few long ones are not

    Source:
        david-2003 §3.1; composition

    Monotone: increasing in variation, largest; decreasing in answers
    """
    return 1 + variation * largest / np.sqrt(answers)


@equation
def forward_passes_time(slowest: Number, micro_batches: Number, stages: Number) -> Number:
    """Time of forward passes alone through a pipeline.

    (m + p − 1) t

    Args:
        slowest: forward time of the slowest stage, t [s]
        micro_batches: m [1]
        stages: p [1]

    Returns:
        time [s]

    Example:
        >>> forward_passes_time(0.5, 8.0, 1.0), forward_passes_time(0.5, 8.0, 4.0)
        (4.0, 5.5)

    Source:
        narayanan-2021

    Monotone: increasing in slowest, micro_batches, stages
    """
    return (micro_batches + stages - 1) * slowest


@equation
def experience_bytes(answers: Number, tokens: Number, token_bytes: Number) -> Number:
    """Bytes of answers with their probabilities, as engines hand them to the trainer.

    n l b

    Args:
        answers: n [1]
        tokens: of each with its prompt, l [1]
        token_bytes: of a token, its number and its log-probability, b [B]

    Returns:
        bytes [B]

    Example:
        >>> experience_bytes(8192.0, 5000.0, 8.0) / 1e6
        327.68

    Source:
        composition

    Monotone: increasing in answers, tokens, token_bytes
    """
    return answers * tokens * token_bytes
