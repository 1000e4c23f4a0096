"""Slots of an engine, one for each request that it holds: how often all are taken, and what requests see of it.

With n requests in flight each of them takes a + w n until it is answered, and the engine answers λ = n / (a + w n) a
second: a line whose service shares one machine, and where the lengths of requests change only the wait. Its
requests in flight follow a negative binomial law up to the last slot, and fall by one ratio for each beyond.
"""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.uncertainty import normal_share
from costmodel.ground.equation import Number, equation

COUNTED = 4  # slots, from the last one downwards, that are counted one by one


@equation
def spare_slots(request_slots: Number, base_load: Number, utilisation: Number) -> Number:
    """By how many standard deviations of the requests in flight there are more slots than requests.

    (c − m) / √(m / (1 − ρ)) with their mean m = (A + ρ) / (1 − ρ)

    request_slots c: requests that the engine holds at most
    base_load: requests in flight if none slowed another down, A = λ α o
    utilisation: share of time that goes into requests, ρ = λ w
    → standard deviations; −∞ where more arrives than is answered
    Source: kelly-1979; composition
    Monotone: increasing in request_slots; decreasing in base_load, utilisation
    >>> round(float(spare_slots(256.0, 40.0, 0.5)), 2)
    13.75
    """
    stable = utilisation < 1
    free = np.where(stable, 1 - utilisation, 1.0)
    load = base_load + utilisation
    spare: Number = (request_slots * free - load) / np.sqrt(load)
    return np.where(stable, spare, -np.inf)


@equation
def slots_taken(request_slots: Number, base_load: Number, utilisation: Number) -> Number:
    """Share of requests that find all slots taken.

    C = B / (B + (1 − B) (1 − q)), q = A / c + ρ, B = r B₋ / (1 + r B₋) with B₋ of one slot fewer, r = A / n + ρ; 1 from
    q = 1 on

    request_slots: requests that the engine holds at most, c, one at least
    base_load: requests in flight if none slowed another down, A = λ α o
    utilisation: share of time that goes into requests, ρ = λ w; with 0 it is Erlang's C
    → share
    Source: kelly-1979; harchol-balter-2013 §14; daniels-1954
    Holds: exact up to 4 slots for requests that share the engine evenly; the last 4 of more are counted from a value
        below them by the saddle point, which leaves 15 % at most. With the wait that follows, the mean first token of
        224 simulated loads of 1 to 256 slots is 4 % off in the median, 13 % in nine of ten and 35 % at worst, its p99
        13, 31 and 93 %, which is where one request in a hundred starts to wait
    Monotone: increasing in base_load, utilisation; decreasing in request_slots
    >>> round(float(slots_taken(4.0, 2.8, 0.0)), 4), round(float(slots_taken(16.0, 8.0, 0.35)), 3)
    (0.4287, 0.364)
    """
    free = np.maximum(1 - base_load / request_slots - utilisation, 0.0)
    found: Number = 1 / (1 + (_rarity(request_slots, base_load, utilisation, count=COUNTED) - 1) * free)
    return found


def _rarity(slots: Number, base_load: Number, utilisation: Number, *, count: int) -> Number:
    """1 / B: time in which no more than these slots are taken, over that in which all of them are."""
    if count == 0:
        return np.where(slots > 0, 1 / _full(np.maximum(slots, 0.5), base_load, utilisation), 1.0)
    fewer = _rarity(slots - 1, base_load, utilisation, count=count - 1)
    return np.where(slots > 0, 1 + fewer / (base_load / np.where(slots > 0, slots, 1.0) + utilisation), 1.0)


def _full(slots: Number, base_load: Number, utilisation: Number) -> Number:
    """Share of the time in which all of so many slots are taken, of that in which no more are: by the saddle point.

    √(r / (2π n (n + r))) e^(δ − D(n)) / Φ(±√(2 D(n + ½))), D(n) = n ln(n / m) − (n + r) ln((n + r) / (m + r)) with the
    mean m, δ = (1 / (n + r) − 1 / n − 1 / r) / 12, r = m (1 − ρ) / ρ
    """
    free = np.clip(1 - utilisation, 1e-6, 1 - 1e-6)
    mean = (base_load + utilisation) / free
    shape = mean * free / (1 - free)
    above = slots + 0.5
    factorials = (1 / (slots + shape) - 1 / slots - 1 / shape) / 12
    exponent = np.maximum(factorials - _distance(slots, mean, shape), -200.0)
    density = np.exp(exponent) * np.sqrt(shape / (2 * np.pi * slots * (slots + shape)))
    below = normal_share(np.copysign(np.sqrt(2 * np.maximum(_distance(above, mean, shape), 0.0)), above - mean))
    found: Number = np.clip(density / np.maximum(below, 1e-99), 1e-99, 1.0)
    return found


def _distance(many: Number, mean: Number, shape: Number) -> Number:
    apart: Number = many * np.log(many / mean) - (many + shape) * np.log1p((many - mean) / (mean + shape))
    return apart


@equation
def full_slot_time(base_time: Number, output: Number, request_work: Number, request_slots: Number) -> Number:
    """Time for which a request keeps its slot while all are taken.

    α o + w c

    base_time α [s]: fixed time of a step · output o: tokens that are generated, on average
    request_work w [s]: time a request adds to all the steps it is part of
    request_slots c: requests that the engine holds at most
    → time [s]
    Source: composition
    Monotone: increasing in base_time, output, request_work, request_slots
    >>> round(full_slot_time(0.01, 512.0, 0.129, 16.0), 2)
    7.18
    """
    return base_time * output + request_work * request_slots


@equation
def slot_variation(own_time: Number, slot_time: Number, prompt_variation: Number, answer_variation: Number) -> Number:
    """Variation of the times for which requests keep their slots, standard deviation over mean.

    √((v_s P)² + (v_o (T − P))²) / T

    own_time P [s]: steps of a prompt by itself · slot_time T [s] · prompt_variation v_s: of the lengths of prompts
    answer_variation v_o: of the lengths of answers
    → variation
    Source: composition
    Monotone: increasing in prompt_variation, answer_variation
    >>> round(float(slot_variation(1.0, 5.0, 0.5, 1.0)), 3)
    0.806
    """
    return np.sqrt((prompt_variation * own_time) ** 2 + (answer_variation * (slot_time - own_time)) ** 2) / slot_time


@equation
def slotted_token_time(
    tpot: Number,
    base_time: Number,
    sequence_time: Number,
    prompt_work: Number,
    output: Number,
    utilisation: Number,
    request_slots: Number,
    taken_share: Number,
) -> Number:
    """Time per token where few slots bound how many requests slow one another down.

    (1 − √C) min(t, D) + √C min(t, D, L), D = α + β c + γ s (c − 1) / o,
    L = (α + (1 − C) (β + γ s / o)) / (1 − ρ) − γ s / o
    D is a step with all slots taken, each by one request after the other. L is Little's law over the time in a slot,
    (a + w (1 − C)) / (1 − ρ), less the request's own prompt.

    tpot t [s]: time per token without a bound · base_time α [s]: fixed time of a step · sequence_time β [s]
    prompt_work [s]: time that a prompt adds to steps, γ s · output o: tokens that are generated, on average
    utilisation ρ: share of time that goes into requests · request_slots c: requests that the engine holds at most
    taken_share C
    → time [s]
    Source: little-1961; kelly-1979
    Holds: arrivals at random; of 96 simulated loads, half of them with prompts of 64,000 tokens and more, it is 1 % off
        in the median, 13 % in nine of ten and 23 % at worst
    Monotone: increasing in tpot
    >>> found = [slotted_token_time(0.031, 0.02, 4e-4, 0.56, 128.0, 0.3, 4.0, taken) for taken in (0.0, 0.5)]
    >>> [round(float(time) * 1e3, 1) for time in found]
    [31.0, 28.6]
    """
    prompts = prompt_work / output
    most = base_time + sequence_time * request_slots + prompts * np.maximum(request_slots - 1, 0.0)
    free = np.where(utilisation < 1, 1 - utilisation, 1.0)
    by_little = (base_time + (1 - taken_share) * (sequence_time + prompts)) / free - prompts
    apart, mixed = np.minimum(tpot, most), np.sqrt(taken_share)
    token: Number = (1 - mixed) * apart + mixed * np.where(utilisation < 1, np.minimum(apart, by_little), apart)
    return token
