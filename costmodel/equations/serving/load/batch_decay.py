"""Offline batches and rollouts: all requests are there at the start, and the batch shrinks as they end."""

from __future__ import annotations

import numpy as np

from costmodel.equations.serving.load.percentiles import normal_quantile
from costmodel.ground.equation import Number, equation

EULER_MASCHERONI = 0.5772156649
ROUNDED = 1e-9  # by which a quotient of whole numbers may lie above a whole one


@equation
def offline_time(
    base_time: Number,
    steps: Number,
    sequence_time: Number,
    output_tokens: Number,
    prompt_token_time: Number,
    prompt_tokens: Number,
) -> Number:
    """Time of a batch of requests, from the first step to the last: each token and each step counts once.

    α n + β T_o + γ T_s

    base_time α [s]: fixed time of a step
    steps: steps, n: the longest answer where all run together, refilled_steps where they take turns
    sequence_time β [s] · output_tokens T_o · prompt_token_time γ [s]: time each prompt token adds
    prompt_tokens T_s: prompt tokens that are computed, those of several samples of one prompt once
    → time [s]
    Source: exact
    Pitfall: the throughput of a full batch is not that of a rollout: here the fixed part of steps is 61 % of the time,
        and most steps run with a small rest of the batch
    Monotone: increasing in base_time, steps, sequence_time, output_tokens, prompt_token_time, prompt_tokens
    >>> round(offline_time(10e-3, 32000.0, 50e-6, 512 * 8000.0, 0.0, 0.0), 1)
    524.8
    """
    return base_time * steps + sequence_time * output_tokens + prompt_token_time * prompt_tokens


@equation
def refilled_steps(requests: Number, concurrency: Number, output: Number, longest: Number, shortest: Number) -> Number:
    """Steps of a batch larger than what runs at once, where each answer that ends makes room for the next.

    max(max(N − c, 0) o / c + L, ⌈N / c⌉ l): all that waits passes at full width, then the longest runs out; some place
    has ⌈N / c⌉ answers, none of which is shorter than l

    requests N: requests · concurrency c: sequences that run at once · output o: tokens of an answer, on average
    longest L: tokens of the longest of c answers · shortest l: tokens of the shortest answer
    → steps
    Source: exact; composition
    Holds: exact for answers of one length; for exponential ones by their lack of memory; a sixth too few where lengths
        differ by a tenth and the last wave is not full
    Monotone: increasing in requests, output, longest, shortest
    >>> float(refilled_steps(2048.0, 512.0, 8000.0, 32000.0, 100.0))
    56000.0
    """
    waves = np.ceil(requests / concurrency - ROUNDED)
    return np.maximum(np.maximum(requests - concurrency, 0.0) * output / concurrency + longest, waves * shortest)


@equation
def prompts_met(requests: Number, concurrency: Number) -> Number:
    """Requests whose prompts one of a batch meets while it decodes, itself counted, in the mean.

    1 + (c − 1) (1 − c / 2N): the last c meet those behind them alone, which are half of them on average

    requests N: requests of the batch · concurrency: sequences that run at once, c, at most N → requests
    Source: count; composition
    Monotone: increasing in requests
    >>> prompts_met(1000.0, 100.0)
    95.05
    """
    return 1 + (concurrency - 1) * (1 - concurrency / (2 * requests))


@equation
def shortest_output(output: Number, variation: Number, requests: Number) -> Number:
    """Tokens of the shortest of many answers whose lengths are log-normal, as a typical batch has it.

    o e^(−σ z − σ²/2), σ² = ln(1 + v²), z what e^(−0.577) / N of a normal variable exceed; at most o

    output o: tokens of an answer, on average · variation v: of the answers, standard deviation over mean
    requests N: answers
    → tokens
    Source: gumbel-1958; limpert-2001
    Monotone: increasing in output; decreasing in requests
    >>> round(float(shortest_output(8000.0, 0.1, 512.0)))
    5865
    """
    spread = np.sqrt(np.log1p(variation**2))
    far = normal_quantile(np.exp(-EULER_MASCHERONI) / requests)
    return output * np.minimum(np.exp(-spread * far - spread**2 / 2), 1.0)


@equation
def longest_output(output: Number, variation: Number, requests: Number) -> Number:
    """Tokens of the longest of many answers whose lengths are log-normal, as a typical batch has it.

    o e^(σ z − σ²/2), σ² = ln(1 + v²), z what e^(−0.577) / N of a normal variable exceed; at least o

    output o: tokens of an answer, on average · variation v: of the answers, standard deviation over mean
    requests N: answers
    → tokens, not cut at a limit
    Source: gumbel-1958; limpert-2001
    Holds: the mean of the largest logarithm; the mean of the longest itself is up to a fifth more
    Monotone: increasing in output, requests
    >>> round(float(longest_output(8000.0, 1.0, 512.0)))
    72459
    """
    spread = np.sqrt(np.log1p(variation**2))
    far = normal_quantile(np.exp(-EULER_MASCHERONI) / requests)
    return output * np.maximum(np.exp(spread * far - spread**2 / 2), 1.0)


@equation
def static_batch_use(sequences: Number) -> Number:
    """Share of a static batch's places that still work, on average, when it runs until its longest answer ends.

    1 / H_b, H_b = 1 + 1/2 + … + 1/b ≈ ln b + 0.577 + 1/(2 b) − 1/(12 b²)

    sequences b: sequences of the batch → share
    Source: exact; yu-2022
    Holds: answers whose lengths are exponential; the series to 1 % from b = 1 on; no estimate calls it
    Pitfall: this, and reserved caches, are most of what the first numbers of paged engines were set against; every
        engine of today refills its batch
    Monotone: decreasing in sequences
    >>> round(float(static_batch_use(8.0)), 3)
    0.368
    """
    harmonic = np.log(sequences) + EULER_MASCHERONI + 1 / (2 * sequences) - 1 / (12 * sequences**2)
    return 1 / harmonic


@equation
def wave_time(concurrency: Number, prompt_time: Number, output: Number, steps: Number, step: Number) -> Number:
    """Time from the start of a wave of equal answers to that of the next, which takes over their places in their order.

    b t_p + max(o − k, 0) D: a wave of prompts, in which the first answers get k tokens, then the rest

    concurrency b: answers of a wave · prompt_time t_p [s]: of one prompt among steps that are full
    output o: tokens of each answer · steps k: steps that the prompts of a wave take
    step D [s]: a step without prompts
    → time [s]
    Source: composition; exact
    Monotone: increasing in concurrency, prompt_time, output, step; decreasing in steps
    >>> round(float(wave_time(600.0, 0.1, 512.0, 150.0, 0.045)), 2)
    76.29
    """
    return concurrency * prompt_time + np.maximum(output - steps, 0.0) * step
