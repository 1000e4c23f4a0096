"""How unlike the times per token of requests are, and the rate of requests that stay within limits."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


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

    request_rate λ [1/s]: requests a second of one replica · tpot t [s]: mean time per token
    prompt_work [s]: time that a prompt adds to steps, γ s · output o: tokens that are generated, on average
    prompt_variation v_s: of the lengths of prompts · answer_variation v_o: of the lengths of answers
    prompt_utilisation: share of time that goes into prompts, ρ_p = λ γ s
    → variance [s·s]
    Source: hawkes-1971; composition
    Monotone: increasing in prompt_work, prompt_variation, answer_variation, prompt_utilisation
    >>> round(float(met_prompts_variance(4.0, 0.0206, 0.098, 512.0, 0.0, 0.0, 0.39)) ** 0.5 * 1e3, 2)
    2.04
    """
    unlike = (1 + prompt_variation**2) * (1 + answer_variation**2)
    free = np.maximum(1 - prompt_utilisation, 1e-3)
    return request_rate * tpot * prompt_work**2 * unlike / (output * free**2)


@equation
def crowd_deviation(base_load: Number, utilisation: Number, prompt_utilisation: Number) -> Number:
    """Standard deviation of how many others are in flight while a request is.

    √(⅔ (A + ρ)) / ((1 − ρ) (1 − ρ_p)): of a mean over the time for which they are there, whose variance is ⅔ of that at
    one moment

    base_load: requests in flight if none slowed another down, A = λ α o
    utilisation: share of time that goes into requests, ρ = λ w
    prompt_utilisation: share of time that goes into prompts, ρ_p = λ γ s
    → requests
    Source: kelly-1979; composition
    Monotone: increasing in base_load, utilisation, prompt_utilisation
    >>> round(float(crowd_deviation(20.0, 0.5, 0.39)), 1)
    12.1
    """
    free = np.maximum((1 - utilisation) * (1 - prompt_utilisation), 1e-3)
    return ((2 / 3) * (base_load + utilisation)) ** 0.5 / free


@equation
def goodput_rate(request_rate: Number, first_share: Number, token_share: Number) -> Number:
    """Requests a second whose first token and whose time per token are both within their limits.

    λ P₁ P₂

    request_rate λ [1/s] · first_share P₁ · token_share P₂: share of requests whose time per token is
    → requests a second [1/s]
    Source: zhong-2024 §2
    Holds: limits that are kept or broken independently
    Pitfall: it is of this load; the highest rate that keeps the limits is another
    Monotone: increasing in request_rate, first_share, token_share
    >>> goodput_rate(4.0, 0.5, 0.5)
    1.0
    """
    return request_rate * first_share * token_share
