"""Steady state of continuous batching, with prompts in parts or as a whole."""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.uncertainty import normal_share
from costmodel.equations.serving.service_level import normal_quantile
from costmodel.ground.equation import Number, equation

ROUNDED = 1e-9  # by which a quotient of whole numbers may lie under a whole one
SHARP = 1e-12  # spread of equal prompts, for a quotient by it


# --- Steady state of continuous batching, where a step takes α + β b + γ m with b sequences and m prompt tokens in it.
#
# The three constants belong to an operating point. Take them at a first concurrency, find the new concurrency, repeat a
# few times.


@equation
def time_slope(more_time: Number, fewer_time: Number, more: Number, fewer: Number) -> Number:
    """Time that each further sequence, or each prompt token, adds to a step: β or γ.

    (t₂ − t₁) / (n₂ − n₁)

    more_time t₂ [s]: of a step with more of them · fewer_time t₁ [s]: of a step with fewer
    more n₂: how many the first has · fewer: how many the second has, n₁, not as many
    → time for each [s]
    Source: composition
    >>> round(float(time_slope(13.8e-3, 10.0e-3, 64.0, 1.0)) * 1e6, 1)
    60.3
    """
    gap = more - fewer
    return (more_time - fewer_time) / np.where(gap == 0, 1.0, gap)


@equation
def step_intercept(step: Number, sequence_time: Number, concurrency: Number) -> Number:
    """Time of a step with nothing in it, α, from one at the operating point.

    t − β b

    step t [s]: time of a step without prompts · sequence_time β [s]: time each sequence adds
    concurrency b: sequences in it
    → fixed time of a step [s]
    Source: composition
    Monotone: increasing in step; decreasing in sequence_time, concurrency
    >>> round(step_intercept(13.8e-3, 60e-6, 64.0) * 1e3, 2)
    9.96
    """
    return step - sequence_time * concurrency


@equation
def mixed_step_time(
    base_time: Number, sequence_time: Number, concurrency: Number, prompt_token_time: Number, tokens: Number
) -> Number:
    """Time of a step that decodes sequences and carries tokens of prompts beside them.

    α + β b + γ m

    base_time α [s]: fixed time of a step · sequence_time β [s]: time each sequence adds
    concurrency b: sequences in it · prompt_token_time γ [s]: time each prompt token adds
    tokens: prompt tokens in it, m; all that the budget leaves make the longest gap a user sees
    → time [s]
    Source: agrawal-2024 §3; composition
    Monotone: increasing in base_time, sequence_time, concurrency, prompt_token_time, tokens
    >>> round(mixed_step_time(10e-3, 60e-6, 42.0, 48e-6, 8150.0) * 1e3)
    404
    """
    return base_time + sequence_time * concurrency + prompt_token_time * tokens


@equation
def request_work(sequence_time: Number, output: Number, prompt_token_time: Number, prompt: Number) -> Number:
    """Time that one request adds to all the steps it is part of.

    w = β o + γ s

    sequence_time β [s] · output o: tokens that are generated, on average
    prompt_token_time γ [s]: time each prompt token adds · prompt s: tokens of the prompt that are computed, on average
    → work of a request [s]
    Source: yu-2022; composition
    Monotone: increasing in sequence_time, output, prompt_token_time, prompt
    >>> round(request_work(60.7e-6, 512.0, 47.8e-6, 2048.0) * 1e3)
    129
    """
    return sequence_time * output + prompt_token_time * prompt


@equation
def engine_utilisation(request_rate: Number, request_work: Number) -> Number:
    """Share of time that goes into requests rather than into the fixed part of steps.

    ρ = λ w

    request_rate λ [1/s]: requests a second of one replica · request_work w [s]: time a request adds to all steps
    → utilisation; from 1 on the queue grows without end
    Source: harchol-balter-2013 §6
    Monotone: increasing in request_rate, request_work
    >>> engine_utilisation(4.0, 0.125)
    0.5
    """
    return request_rate * request_work


@equation
def mean_step_time(base_time: Number, utilisation: Number) -> Number:
    """Mean time of a step of an engine that never runs empty; to first order the time per token.

    t̄ = α / (1 − ρ), ∞ from ρ = 1 on: of α + β b + γ m, with b = λ o t̄ and m = λ s t̄ by Little's law

    base_time α [s]: fixed time of a step · utilisation ρ: share of time that goes into requests → time [s]
    Source: little-1961; exact
    Holds: exact for steps that are linear in their load, whatever the lengths; tokens are made in longer steps than the
        mean, see clustering_delay
    Pitfall: prompts of other users are a fifth to a third of a token's time; a decode step alone leaves them out
    Monotone: increasing in base_time, utilisation
    >>> round(float(mean_step_time(9.98e-3, 0.516)) * 1e3, 1), float(mean_step_time(9.98e-3, 1.0))
    (20.6, inf)
    """
    stable = utilisation < 1
    return base_time * np.where(stable, 1 / np.where(stable, 1 - utilisation, 1.0), np.inf)


@equation
def clustering_delay(
    sequence_time: Number,
    prompt_token_time: Number,
    prompt: Number,
    output: Number,
    prompt_utilisation: Number,
    utilisation: Number,
    variation: Number,
) -> Number:
    """Time by which a token's step is longer than the mean step: more tokens come out of steps with more sequences.

    (β / (1 − ρ) + γ (s / o) ρ_p (1 + v² ρ_p²) / (1 + ρ_p)) / (1 − ρ_p)²: more requests arrive during long steps and
    make the next ones long (a self-exciting process); without load it is the request's own β

    sequence_time β [s] · prompt_token_time γ [s]: time each prompt token adds
    prompt s: tokens of the prompt that are computed, on average · output o: tokens that are generated, on average
    prompt_utilisation: share of time that goes into prompts, ρ_p = λ γ s
    utilisation ρ: share of time that goes into requests · variation v: of the prompts, standard deviation over mean
    → time to be added to the mean step for the time per token [s]
    Source: hawkes-1971; exact to second order
    Holds: arrivals at random, and steps that carry all prompts that have come; clustered_token_time bounds it
    Monotone: increasing in sequence_time, prompt_token_time, prompt, utilisation, variation
    >>> round(float(clustering_delay(60.7e-6, 47.8e-6, 2048.0, 512.0, 0.39, 0.516, 0.0)) * 1e3, 2)
    0.48
    """
    stable = (utilisation < 1) & (prompt_utilisation < 1)
    free = np.where(stable, 1 - utilisation, 1.0)
    beside = np.where(stable, 1 - prompt_utilisation, 1.0)
    later = sequence_time / free
    crowd = prompt_utilisation * (1 + (variation * prompt_utilisation) ** 2) / (1 + prompt_utilisation)
    sooner = prompt_token_time * prompt / output * crowd
    return (later + sooner) * np.where(stable, 1 / beside**2, np.inf)


@equation
def clustered_token_time(
    mean_step: Number,
    clustering: Number,
    sequence_time: Number,
    step: Number,
    full_step: Number,
    busy_share: Number,
    prompt: Number,
    room: Number,
) -> Number:
    """Time per token: the mean step plus the extra length of the steps that carry tokens, limited by the token budget.

    t̄ + β + x h / (x + h), x = (d − β) (1 + k / (5 (1 + k))), k = s / r, h = f X + (1 − f) D − t̄
    Long prompts queue, and full steps follow each other. A request that leaves this queue finds others in it for the
    share of time f in which it is not empty; h is the most that this adds to the mean over all steps.

    mean_step t̄ [s]: mean step time
    clustering d [s]: time by which a token's step is longer if steps carry all prompts that have come
    sequence_time β [s] · step D [s]: a step without prompts at the operating point
    full_step X [s]: a step that prompts fill
    busy_share: share of time that prompts fill whole steps, f; 1 counts where it is more
    prompt s: tokens of the prompt that are computed, on average · room r: tokens that a step leaves to prompts
    → time per token [s]
    Source: composition
    Holds: arrivals at random; of 346 simulated loads with prompts of 300 to 64,000 tokens it is 1 % off in the median,
        6 % in nine of ten and 17 % at worst; of the 202 with prompts up to 16,000 and answers from 128 tokens, 4 % in
        nine of ten and 12 % at worst. The 5 is fitted to them
    Monotone: increasing in clustering, full_step
    >>> times = [clustered_token_time(0.045, more, 6e-5, 0.01, 0.4, 0.79, 16e3, 8e3) for more in (0.01, 1.0)]
    >>> [round(float(time) * 1e3, 1) for time in times]
    [55.9, 265.1]
    """
    fills = prompt / np.maximum(room, 1.0)
    longer = np.maximum(clustering - sequence_time, 0.0) * (1 + fills / (5 * (1 + fills)))
    busy, stable = np.minimum(busy_share, 1.0), np.isfinite(mean_step)
    mean, empty = np.where(stable, mean_step, sequence_time), np.where(stable, step, sequence_time)
    full = np.where(stable, full_step, sequence_time)
    most = np.maximum(busy * full + (1 - busy) * empty - mean, 0.0)
    longer = np.minimum(longer, 1e9 * most)
    together = longer + most
    share = longer / np.where(together > 0, together, mean)
    token: Number = (mean + sequence_time + share * most) * np.where(stable, 1.0, np.inf)
    return token


@equation
def requests_in_flight(request_rate: Number, output: Number, tpot: Number) -> Number:
    """Requests that are being decoded at a time, on average.

    b = λ o t

    request_rate λ [1/s]: requests a second of one replica · output o: tokens that are generated, on average
    tpot t [s]
    → requests
    Source: little-1961
    Monotone: increasing in request_rate, output, tpot
    >>> round(requests_in_flight(4.0, 512.0, 20.6e-3), 1)
    42.2
    """
    return request_rate * output * tpot


@equation
def interference_share(step: Number, tpot: Number) -> Number:
    """Share of the time per token that waits for other users' prompts.

    1 − D / t

    step D [s]: a step with as many sequences and no prompt · tpot t [s] → share
    Source: agrawal-2024 §3; composition
    Monotone: increasing in tpot; decreasing in step
    >>> round(interference_share(12.5e-3, 20.6e-3), 2)
    0.39
    """
    return 1 - step / tpot


# --- Engines that compute a prompt in one step: what of a step they fill, and prompts that wait for their own step.
#
# TensorRT-LLM and vLLM without chunked prefill take requests first come, first served: a step decodes every sequence,
# and its prompts are those in line up to the first that does not fit beside them. That is Next-Fit packing. A prompt
# that is longer than what decoding leaves of a step waits until enough answers end, and all behind it wait too.


@equation
def whole_prompt_room(room: Number, prompt: Number, variation: Number) -> Number:
    """Tokens of prompts in a step that holds whole prompts only, as many as fit.

    s max(n d + (k − (1 + v²) / 2) (1 − d), 1 + Φ((k − 2) / (v √2)), k / 2), k = max(r / s, 1),
    n = m − 1 + Φ((k − m) / (v √m)) with m the whole number next to k, d = e^(−2π² v² k)
    What is left in front of a prompt that does not fit is the age of a renewal process: the rest of a division for
    equal prompts, half of a length-biased prompt for unlike ones. A step that has any holds one prompt, and a second
    where two fit. Two steps that follow each other hold more than the room of one, so that it is half full at least.

    room r: tokens that a step leaves to prompts · prompt s: tokens of the prompt that are computed, on average
    variation v: of the prompts, standard deviation over mean
    → tokens
    Source: cox-1962; tensorrt-llm cpp/tensorrt_llm/batch_manager/microBatchScheduler.cpp; vllm-engine v1/core/sched
    Holds: equal prompts exactly; unlike ones that all fit to 7 %. Those longer than the room are counted by
        whole_prompt_slots and blocking_share, and by too_long_share
    Pitfall: two prompts of a little over half a step's budget never share a step
    >>> [float(whole_prompt_room(room, 2048.0, 0.0)) for room in (8150.0, 2047.0)]
    [6144.0, 2048.0]
    >>> round(float(whole_prompt_room(8150.0, 2048.0, 0.6)))
    6757
    """
    fills = np.maximum(room, prompt) / prompt
    near = np.round(fills)
    equal = near - 1 + normal_share((fills - near + ROUNDED) / np.maximum(variation * np.sqrt(near), SHARP))
    alike = np.exp(-2 * np.pi**2 * variation**2 * fills)
    held = equal * alike + (fills - (1 + variation**2) / 2) * (1 - alike)
    first_two = 1 + normal_share((fills - 2 + ROUNDED) / np.maximum(variation * np.sqrt(2.0), SHARP))
    tokens: Number = prompt * np.maximum(np.maximum(held, first_two), fills / 2)
    return tokens


@equation
def variation_in_room(variation: Number, room: Number, prompt: Number, room_variance: Number) -> Number:
    """Variation of prompts that fill a room as unevenly as they do one that changes from step to step.

    √(v² + V / (s max(r, s))): of r / s prompts, whose sum has the variance v² s r, and of the room, which adds its own

    variation v: of the prompts, standard deviation over mean · room r: tokens that a step leaves to prompts, on average
    prompt s: tokens of the prompt that are computed, on average
    room_variance V: variance of the room, as answers come and go
    → variation
    Source: composition
    Monotone: increasing in variation, room_variance; decreasing in room, prompt
    >>> [round(float(variation_in_room(v, 2000.0, 1000.0, 48.0)), 4) for v in (0.0, 0.3)]
    [0.0049, 0.3]
    """
    return np.sqrt(variation**2 + room_variance / (prompt * np.maximum(room, prompt)))


@equation
def whole_prompt_slots(token_budget: Number, prompt: Number) -> Number:
    """Requests that an engine holds at most where each prompt, all of one length, is computed in one step.

    M − s + 1: one more begins only where it fits beside those that are being decoded

    token_budget M: tokens of a step at most · prompt s: tokens of the prompt that are computed → requests
    Source: count; tensorrt-llm cpp/tensorrt_llm/batch_manager/microBatchScheduler.cpp; vllm-engine v1/core/sched
    Pitfall: a budget of just the prompt's tokens runs one request at a time
    Monotone: increasing in token_budget; decreasing in prompt
    >>> [float(whole_prompt_slots(8192.0, prompt)) for prompt in (2048.0, 8192.0)]
    [6145.0, 1.0]
    """
    return np.maximum(token_budget - prompt, 0.0) + 1


@equation
def whole_prompt_concurrency(token_budget: Number, prompt: Number, output: Number, variation: Number) -> Number:
    """Requests that are being decoded when steps hold as many whole prompts as fit; more users than that wait in line.

    b₀ d + b₁ (1 − d), d = e^(−2π² v² M / (s + o)); equal prompts: b₀ = max(n o, M − (n + 1) (s − 1)),
    n = ⌊M / (s + o)⌋; unlike ones: b₁ = max((M − w) o / (s + o), M o / (2 s + o)), w = s (1 + v²) / 2

    token_budget M: tokens of a step at most · prompt s: tokens of the prompt that are computed, on average
    output o: tokens that are generated, on average · variation v: of the prompts, standard deviation over mean
    → requests
    Source: little-1961; cox-1962
    Holds: n prompts in every step keep n o in flight; M − (n + 1) (s − 1) are in flight where steps take turns with n
        and with n + 1. Prompts that wait for a step of their own lower it further
    Monotone: increasing in token_budget
    >>> [float(whole_prompt_concurrency(8192.0, 2048.0, 512.0, v)) for v in (0.0, 1.0)]
    [1536.0, 1228.8]
    """
    each = prompt + output
    count = np.floor(token_budget / each + ROUNDED)
    equal = np.maximum(count * output, token_budget - (count + 1) * (prompt - 1))
    waste = prompt * (1 + variation**2) / 2
    unlike = np.maximum((token_budget - waste) * output / each, token_budget * output / (2 * prompt + output))
    alike = np.exp(-2 * np.pi**2 * variation**2 * token_budget / each)
    most: Number = equal * alike + unlike * (1 - alike)
    return most


@equation
def blocking_share(token_budget: Number, concurrency: Number, prompt: Number, variation: Number) -> Number:
    """Share of prompts that fit into a step, but not beside the sequences that are being decoded.

    Φ(z(M)) − Φ(z(M − b)), z(x) = ln(x / s) / σ + σ / 2, σ² = ln(1 + v²); 0 for equal prompts

    token_budget M: tokens of a step at most · concurrency b: sequences that are being decoded
    prompt s: tokens of the prompt that are computed, on average
    variation v: of the prompts, standard deviation over mean
    → share
    Source: limpert-2001; tensorrt-llm cpp/tensorrt_llm/batch_manager/microBatchScheduler.cpp
    Holds: log-normal lengths; an engine refuses prompts longer than a step
    Monotone: increasing in concurrency
    >>> [round(float(blocking_share(8192.0, 140.0, 2048.0, v)), 5) for v in (0.0, 0.6, 1.0)]
    [0.0, 0.00027, 0.00097]
    """
    left = np.maximum(token_budget - concurrency, 1.0)
    share = _share_up_to(token_budget, prompt, variation) - _share_up_to(left, prompt, variation)
    return np.where(variation > 0, np.maximum(share, 0.0), 0.0)


@equation
def too_long_share(token_budget: Number, prompt: Number, variation: Number) -> Number:
    """Share of prompts that are longer than a step, which an engine without chunked prefill refuses.

    1 − Φ(ln(M / s) / σ + σ / 2), σ² = ln(1 + v²); of equal prompts all or none

    token_budget M: tokens of a step at most · prompt s: tokens of the prompt that are computed, on average
    variation v: of the prompts, standard deviation over mean
    → share
    Source: limpert-2001; tensorrt-llm cpp/tensorrt_llm/batch_manager/microBatchScheduler.cpp
    Holds: log-normal lengths
    Monotone: decreasing in token_budget; increasing in prompt
    >>> [round(float(too_long_share(budget, 2048.0, 0.6)), 3) for budget in (2048.0, 4096.0, 8192.0)]
    [0.391, 0.063, 0.003]
    """
    return np.where(variation > 0, 1 - _share_up_to(token_budget, prompt, variation), prompt > token_budget)


@equation
def longest_prompt(prompt: Number, variation: Number, tail_share: Number) -> Number:
    """Length that only a share of all prompts exceeds.

    s max(1, e^(z σ − σ² / 2)), z = Φ⁻¹(1 − p), σ² = ln(1 + v²)

    prompt s: tokens of the prompt that are computed, on average
    variation v: of the prompts, standard deviation over mean · tail_share p: share of prompts beyond
    → tokens
    Source: limpert-2001
    Holds: log-normal lengths
    Monotone: increasing in prompt; decreasing in tail_share
    >>> [round(float(longest_prompt(2048.0, v, 0.01))) for v in (0.0, 0.6)]
    [2048, 6381]
    """
    spread = np.sqrt(np.log1p(variation**2))
    return prompt * np.maximum(np.exp(normal_quantile(tail_share) * spread - spread**2 / 2), 1.0)


def _share_up_to(length: Number, mean: Number, variation: Number) -> Number:
    """Share of log-normal lengths up to one of them; meaningless without a spread."""
    spread = np.sqrt(np.log1p(np.where(variation > 0, variation, 1.0) ** 2))
    share: Number = normal_share(np.log(length / mean) / spread + spread / 2)
    return share
