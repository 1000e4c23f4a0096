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
def token_time_variance(step: Number, mixed_step: Number, mixed_share: Number, output: Number) -> Number:
    """Variance of a request's time per token, which is a mean over its steps.

    φ (1 − φ) (X − D)² / o

    Args:
        step: a step without prompts, D [s]
        mixed_step: a step with a prompt in it, X [s]
        mixed_share: share of steps that carry prompts, φ [1]
        output: tokens of the request, o [1]

    Returns:
        variance [s·s]

    Example:
        >>> round(token_time_variance(0.01, 0.11, 0.5, 100.0), 6)
        2.5e-05

    Holds:
        steps that carry prompts fall independently of each other; no estimate calls it

    Source:
        exact

    Monotone: decreasing in output
    """
    return mixed_share * (1 - mixed_share) * (mixed_step - step) ** 2 / output


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
