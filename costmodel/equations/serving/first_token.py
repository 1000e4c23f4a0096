"""Time to the first token in a steady stream of requests: the wait for a step, and the steps of the prompt itself.

An engine that decodes all the time takes prompts in between two steps: what came during one step goes into the next, as
far as its budget allows. In the terms of queueing it is one server with gated vacations; its vacation is the part of a
step that no prompt causes. Mean: prompt_service_time, queue_wait + gate_wait, own_prompt_time. Percentiles:
first_token_variance, then the longer of lognormal_percentile and first_token_tail.
"""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.uncertainty import normal_share
from costmodel.equations.serving.queues import wait_percentile
from costmodel.ground.equation import Number, equation


@equation
def prompt_room(token_budget: Number, concurrency: Number) -> Number:
    """Tokens that a step's budget leaves to prompts.

    max(M − b, 0)

    token_budget M: tokens of a step at most · concurrency b: sequences that are being decoded → tokens
    Source: agrawal-2024 §4
    Monotone: increasing in token_budget; decreasing in concurrency
    >>> float(prompt_room(512.0, 42.0))
    470.0
    """
    return np.maximum(token_budget - concurrency, 0.0)


@equation
def prompt_service_time(prompt: Number, prompt_token_time: Number, step: Number, room: Number) -> Number:
    """Time of a prompt in steps that prompts fill to the last token.

    S = s (γ + D / r), ∞ without room

    prompt s: tokens of the prompt that are computed, on average · prompt_token_time γ [s]: time each prompt token adds
    step D [s]: a step without prompts at the operating point · room r: tokens that a step leaves to prompts
    → time [s]
    Source: agrawal-2024; composition
    Pitfall: an engine whose utilisation is under 1 may still be beyond saturation, for its token budget binds first
    Monotone: increasing in prompt, prompt_token_time, step; decreasing in room
    >>> [round(float(prompt_service_time(2048.0, 47.8e-6, 12.55e-3, room)) * 1e3) for room in (470.0, 8150.0)]
    [153, 101]
    """
    open_room = room > 0
    return prompt * (prompt_token_time + step * np.where(open_room, 1 / np.where(open_room, room, 1.0), np.inf))


@equation
def gate_wait(
    step: Number, launching: Number, mixed_share: Number, prompt_utilisation: Number, grown: Number
) -> Number:
    """Wait for the end of the running step, and for the decoding that comes before each batch of prompts.

    (V + q (1 − q) L² / V) / 2 + g ρ_p V / (1 − ρ_p), V = D + q L: half a step without load; ∞ from ρ_p = 1 on

    step D [s]: a step without prompts at the operating point, not 0
    launching L [s]: what prompts add to a step whatever their number, as launches; under 0 where D waits for them too
    mixed_share: share of steps that carry prompts, q
    prompt_utilisation: share of time that goes into tokens of prompts, ρ_p = λ γ s
    grown g: of what prompts add, 1 where arrivals are at random, 0 where no prompt comes while another is in a step
    → wait [s]
    Source: fuhrmann-1985, gated vacations; composition
    Holds: of bursts g is 1, since requests of one burst wait in line for each other
    Pitfall: launches counted with each prompt make it twice as long where all steps have prompts
    Monotone: increasing in launching, prompt_utilisation, grown
    >>> float(gate_wait(0.012, 0.0, 0.0, 0.0, 1.0)), round(float(gate_wait(0.012, 0.0, 0.0, 0.5, 1.0)), 3)
    (0.006, 0.018)
    >>> [round(float(gate_wait(0.006, 0.014, share, 0.0, 1.0)), 4) for share in (0.0, 0.5, 1.0)]
    [0.003, 0.0084, 0.01]
    """
    stable = prompt_utilisation < 1
    mean = step + mixed_share * launching
    uneven = (1 - mixed_share) * launching * (mixed_share * launching / mean)
    behind = grown * mean * prompt_utilisation / np.where(stable, 1 - prompt_utilisation, 1.0)
    return ((mean + uneven) / 2 + behind) * np.where(stable, 1.0, np.inf)


@equation
def prompt_steps(prompt: Number, room: Number, utilisation: Number) -> Number:
    """Steps that carry a prompt, on average.

    (1 − ρ) ⌈k⌉ + ρ max(1, k + ½), k = s / r: alone it begins a step, behind others it begins anywhere in one

    prompt s: tokens of the prompt that are computed, on average
    room r: tokens that a step leaves to prompts, one at least
    utilisation: share of time that prompts fill whole steps, ρ = λ S, 1 at most
    → steps
    Source: composition
    Monotone: increasing in prompt; decreasing in room
    >>> [round(float(prompt_steps(2048.0, 470.0, busy)), 2) for busy in (0.0, 1.0)]
    [5.0, 4.86]
    """
    fills = prompt / np.maximum(room, 1.0)
    busy = np.minimum(utilisation, 1.0)
    # A mean of less than one sequence in flight is mostly none: alone, a prompt finds the whole budget.
    alone = np.ceil(prompt / np.maximum(np.ceil(room), 1.0))
    steps: Number = (1 - busy) * alone + busy * np.maximum(fills + 0.5, 1.0)
    return steps


@equation
def later_prompt_tokens(
    request_rate: Number,
    prompt: Number,
    wait: Number,
    prompt_utilisation: Number,
    room: Number,
    followers: Number,
    *,
    in_parts: bool = True,
) -> Number:
    """Tokens of later prompts in the step that ends a prompt: they came while it waited, and the step has room.

    f u / (f + u), f = λ s W / (1 + ρ_p) + s n, u = max(r / 2, r − s); of whole prompts max(0, r − s)

    request_rate λ [1/s]: requests a second of one replica · prompt s: tokens of a prompt that are computed, on average
    wait W [s]: before a prompt's first step · prompt_utilisation: share of time that goes into prompts, ρ_p = λ γ s
    room r: tokens that a step leaves to prompts · followers n: requests of its own burst behind it · in_parts
    → tokens
    Source: fuhrmann-1985; composition
    Holds: a soft minimum of f and u, for f is random; without a budget it is f, that of a gate. Of 180 simulated loads
        the mean time to the first token is 2 % off in the median, 15 % at worst
    Monotone: increasing in wait, followers
    >>> round(float(later_prompt_tokens(4.0, 2048.0, 0.045, 0.39, 8150.0, 0.0)))
    254
    """
    came = request_rate * prompt * wait / (1 + prompt_utilisation) + prompt * followers
    left = np.maximum(room / 2 if in_parts else 0.0, room - prompt)
    return left * (1 - left / np.maximum(came + left, 1e-9))


@equation
def burst_followers(wait: Number, random_wait: Number, service: Number) -> Number:
    """Requests of a burst that come behind one of them: on average as many as stand in line before it.

    max(W − W₁, 0) / S

    wait W [s]: mean wait in line · random_wait W₁ [s]: the same with arrivals at random
    service S [s]: time of a prompt in full steps
    → requests
    Source: cox-1962; composition
    Holds: gaps have the same law backwards. Of 48 simulated loads with gaps of variation 2 and 3 the mean first token
        is then 4 % off in the median and 12 % at worst; without these requests it is up to 26 % too short
    Monotone: increasing in wait; decreasing in random_wait, service
    >>> round(float(burst_followers(0.036, 0.001, 0.0143)), 2), float(burst_followers(0.0, 0.001, 0.0143))
    (2.45, 0.0)
    """
    stable = np.isfinite(wait)
    more = np.where(stable, wait, 0.0) - np.where(stable, random_wait, 0.0)
    behind: Number = np.maximum(more, 0.0) / service
    return behind


@equation
def gap_share(time: Number, request_rate: Number, gap_variation: Number) -> Number:
    """Share of the gaps between arrivals that are shorter than a time, of gaps that follow a gamma law.

    Φ(3 (∛(λ t) − 1 + c² / 9) / c)

    time t [s] · request_rate λ [1/s]: requests a second of one replica
    gap_variation c: of the gaps between arrivals, 1 at most
    → share
    Source: wilson-1931
    Holds: c up to 1, to 0.01
    Monotone: increasing in time, request_rate
    >>> [round(float(gap_share(time, 1.0, 0.5)), 3) for time in (0.25, 0.5, 1.0)]
    [0.02, 0.142, 0.566]
    """
    varied = np.maximum(gap_variation, 1e-2)
    share: Number = normal_share(3 * (np.cbrt(request_rate * time) - 1 + varied**2 / 9) / varied)
    return share


@equation
def own_prompt_time(
    steps: Number, step: Number, prompt_token_time: Number, prompt: Number, later_tokens: Number
) -> Number:
    """Time from a prompt's first step to the end of its last, where its first token comes out.

    n D + γ (s + F)

    steps n: steps that carry the prompt · step D [s]: a step without prompts at the operating point
    prompt_token_time γ [s]: time each prompt token adds · prompt s: tokens of the prompt that are computed, on average
    later_tokens F: tokens of later prompts in its last step
    → time [s]
    Source: composition
    Pitfall: prompt and step alone are 80 % too short for what benchmarks print, which start all their users at once
    Monotone: increasing in steps, step, prompt_token_time, prompt, later_tokens
    >>> round(own_prompt_time(1.0, 12.55e-3, 47.8e-6, 2048.0, 254.0), 3)
    0.123
    """
    return steps * step + prompt_token_time * (prompt + later_tokens)


@equation
def first_token_variance(
    queue_variance: Number,
    wait: Number,
    later_time: Number,
    burst_time: Number,
    gate: Number,
    service: Number,
    variation: Number,
) -> Number:
    """Variance of the time to the first token.

    V ((1 + G / W)² + (B / W)²) + g² / 3 + (v S)²

    queue_variance V [s·s]: of the wait in line · wait W [s]: mean wait before a prompt's first step, gate and line
    later_time G [s]: time of later prompts in its last step, which grows with the wait
    burst_time B [s]: the same of requests of its own burst, as many whatever came before it
    gate g [s]: mean wait for the gate, without the line · service S [s]: time of a prompt in full steps
    variation v: of the prompts, standard deviation over mean
    → variance [s·s]
    Source: composition
    Holds: a wait for the gate that is spread evenly
    Monotone: increasing in queue_variance, later_time, burst_time, service, variation
    >>> round(float(first_token_variance(0.004, 0.045, 0.012, 0.0, 0.014, 0.1, 0.6)), 5)
    0.01008
    """
    finite = np.where(np.isfinite(service), service, 0.0)  # else the wait in line is not finite either
    behind = (1 + later_time / wait) ** 2 + (burst_time / wait) ** 2
    return queue_variance * behind + gate**2 / 3 + (finite * variation) ** 2


@equation
def first_token_tail(
    own_time: Number, wait: Number, utilisation: Number, mixed_step: Number, met_share: Number, tail_share: Number
) -> Number:
    """Time to the first token that few requests exceed, where prompts have one length: behind others, or a long step.

    P + max(w, X max(1 − p / m, 0)), w as in wait_percentile; what is left of a step that is met is spread evenly

    own_time P [s]: steps of a prompt by itself · wait [s]: mean wait in line
    utilisation: share of time that prompts fill whole steps
    mixed_step X [s]: a step that carries a prompt, or as much of it as fits
    met_share: share of requests that come while another prompt is in a step, m, all of them from 1 on
    tail_share: share of requests beyond, p, 0.05 at most
    → time [s]
    Source: composition
    Holds: a lower bound where prompts differ in length, whose p99 is the log-normal one: take the longer of both. Of
        180 simulated loads that p99 is 6 % off in the median, 26 % at worst
    Pitfall: the p99 of unlike prompts is mostly the long prompt itself, not the line before it; where fewer than a
        share p meet another prompt, it is a prompt alone
    Monotone: increasing in own_time, wait, mixed_step, met_share
    >>> [round(float(first_token_tail(0.11, 0.0, 0.0, 0.11, met, 0.01)), 3) for met in (0.005, 0.02, 0.4)]
    [0.11, 0.165, 0.217]
    """
    left = mixed_step * (1 - tail_share / np.clip(met_share, tail_share, 1.0))
    return own_time + np.maximum(wait_percentile(wait, utilisation, tail_share), left)
