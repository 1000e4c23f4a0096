"""Rates that an engine stands: the resource that fills first, the limit that breaks first."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def saturation_rate(supply: Number, demand: Number, base_time: Number, request_work: Number) -> Number:
    """Rate at which a resource of every step is used up, on average.

    C / (α q + C w), 1/w of a resource without end; of λ q t̄ ≤ C with the mean step t̄ = α / (1 − λ w). A step's
    tokens: C = M, q = s + o. The cache: C its tokens, q = o × those a request holds. Sequences: C their limit, q = o

    Args:
        supply: of the resource, C [1]
        demand: of it, by one request over all its steps, q [1]
        base_time: fixed time of a step, α [s]
        request_work: time a request adds to all steps, w [s]

    Returns:
        requests a second [1/s]

    Example:
        >>> [round(saturation_rate(M, 2560.0, 9.981e-3, 0.12902), 2) for M in (512.0, 2048.0, 8192.0)]
        [5.59, 7.07, 7.57]

    Holds:
        no estimate calls it

    Source:
        little-1961; exact

    Pitfall:
        utilisation under 1 is not enough: a step's budget of tokens, or the cache, is full before

    Monotone: increasing in supply; decreasing in demand, base_time, request_work
    """
    return supply / (base_time * demand + supply * request_work)


@equation
def token_limit_rate(base_time: Number, limit: Number, request_work: Number) -> Number:
    """Rate up to which the mean step keeps a limit on the time per token.

    (1 − α / τ) / w, 0 where not even an empty step keeps it

    Args:
        base_time: fixed time of a step, α [s]
        limit: time per token that is allowed, τ [s]
        request_work: time a request adds to all steps, w [s]

    Returns:
        requests a second [1/s]

    Example:
        >>> round(float(token_limit_rate(9.981e-3, 0.025, 0.12902)), 2)
        4.66

    Holds:
        without clustering_delay, which takes 1 to 4 % of it; with it the rate is found by halving; no estimate calls it

    Source:
        exact

    Monotone: increasing in limit; decreasing in base_time, request_work
    """
    return np.maximum(1 - base_time / limit, 0.0) / request_work


@equation
def met_prompts_variance(
    request_rate: Number,
    tpot: Number,
    prompt_work: Number,
    output: Number,
    prompt_variation: Number,
    answer_variation: Number,
    prompt_utilisation: Number,
) -> Number:
    """Variance of a request's time per token, by how many prompts of others its tokens meet.

    λ t (γ s)² (1 + v_s²) (1 + v_o²) / (o (1 − ρ_p)²): it meets λ o t of them at random, each in its own length, and
    those that come meanwhile make them longer; short answers are means over fewer steps

    Args:
        request_rate: requests a second of one replica, λ [1/s]
        tpot: mean time per token, t [s]
        prompt_work: time that a prompt adds to steps, γ s [s]
        output: tokens that are generated, on average, o [1]
        prompt_variation: of the lengths of prompts, v_s [1]
        answer_variation: of the lengths of answers, v_o [1]
        prompt_utilisation: share of time that goes into prompts, ρ_p = λ γ s [1]

    Returns:
        variance [s·s]

    Example:
        >>> round(float(met_prompts_variance(4.0, 0.0206, 0.098, 512.0, 0.0, 0.0, 0.39)) ** 0.5 * 1e3, 2)
        2.04

    Source:
        hawkes-1971; composition

    Monotone: increasing in prompt_work, prompt_variation, answer_variation, prompt_utilisation
    """
    unlike = (1 + prompt_variation**2) * (1 + answer_variation**2)
    free = np.maximum(1 - prompt_utilisation, 1e-3)
    return request_rate * tpot * prompt_work**2 * unlike / (output * free**2)


@equation
def crowd_variance(sequence_time: Number, base_load: Number, utilisation: Number, prompt_utilisation: Number) -> Number:
    """Variance of a request's time per token, by how many others are in flight while it is.

    ⅔ β² (A + ρ) / ((1 − ρ) (1 − ρ_p))²: of a mean over the time for which they are there, ⅔ of that at one moment

    Args:
        sequence_time: time each sequence adds to a step, β [s]
        base_load: requests in flight if none slowed another down, A = λ α o [1]
        utilisation: share of time that goes into requests, ρ = λ w [1]
        prompt_utilisation: share of time that goes into prompts, ρ_p = λ γ s [1]

    Returns:
        variance [s·s]

    Example:
        >>> round(float(crowd_variance(60e-6, 20.0, 0.5, 0.39)) ** 0.5 * 1e3, 2)
        0.73

    Source:
        kelly-1979; composition

    Monotone: increasing in sequence_time, base_load, utilisation, prompt_utilisation
    """
    free = np.maximum((1 - utilisation) * (1 - prompt_utilisation), 1e-3)
    return (2 / 3) * sequence_time**2 * (base_load + utilisation) / free**2


@equation
def goodput_rate(request_rate: Number, first_share: Number, token_share: Number) -> Number:
    """Requests a second that keep both limits, on the first token and on those after it.

    λ P₁ P₂

    Args:
        request_rate: requests a second, λ [1/s]
        first_share: share of requests whose first token is in time, P₁ [1]
        token_share: share of requests whose time per token is, P₂ [1]

    Returns:
        requests a second [1/s]

    Example:
        >>> goodput_rate(4.0, 0.5, 0.5)
        1.0

    Holds:
        limits that are kept or broken independently; no estimate calls it

    Source:
        zhong-2024 §2

    Monotone: increasing in request_rate, first_share, token_share
    """
    return request_rate * first_share * token_share
