"""Schedules that split backward, fold the pipeline or run it both ways: idle time and step.

F, B, W: forward, backward to the input, gradient of the weights of a middle rank, all its chunks, one micro-batch.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from costmodel.ground.choices import LaterSchedule
from costmodel.ground.equation import Number, equation


@equation
def zero_bubble_idle(
    pp: Number,
    forward_middle: Number,
    backward_middle: Number,
    weight_middle: Number,
    *,
    schedule: Literal["zb-h1", "zb-h2"],
    synchronous: bool,
) -> Number:
    """Idle time of a rank when W fills the gaps of 1F1B, under the warm-up of 1F1B (h1) or twice that (h2).

    zb-h1: (p − 1) max(B, F + B − W)
    zb-h2: (p − 1) max(0, B − F, F + B − 2 W)
    with a synchronous optimizer at least (p − 1) F

    pp p · forward_middle [s]: F · backward_middle B [s]: of the input alone · weight_middle [s]: W
    schedule: "zb-h1" or "zb-h2" · synchronous: every rank waits for the last before its optimizer step
    → idle time of a step [s]
    Source: qi-2023 §2.3; composition
    Holds: equal ranks, no communication time; zb-h1 from m = p, zb-h2 from m = 2 p − 1; then exact by simulation
    Pitfall: published as (p − 1) (F + B − W) and (p − 1) (F + B − 2 W), which are too small once W > F
    Monotone: increasing in pp, backward_middle; decreasing in weight_middle
    >>> float(zero_bubble_idle(8.0, 1.0, 1.0, 1.0, schedule="zb-h1", synchronous=True))
    7.0
    >>> float(zero_bubble_idle(8.0, 1.0, 1.0, 1.0, schedule="zb-h2", synchronous=False))
    0.0
    """
    over = pp - 1
    least = forward_middle if synchronous else 0 * forward_middle
    if schedule == "zb-h1":
        idle = np.maximum(backward_middle, forward_middle + backward_middle - weight_middle)
    else:
        idle = np.maximum(backward_middle - forward_middle, forward_middle + backward_middle - 2 * weight_middle)
    return over * np.maximum(idle, least)


@equation
def zb_v_idle(
    pp: Number, forward_middle: Number, backward_middle: Number, weight_middle: Number, *, synchronous: bool
) -> Number:
    """Idle time of a rank whose two chunks lie in a V, W filling the gaps.

    n = p − 1, h = n / 2, k = h − ½; the largest of n (B − W), (n − ½) F + B/2 − n W, n F − (n + ½) W and
    own clock: n F − h (B + W), h (B − F), B/2 + k W − h F, k (W − F), k (F − B)
    synchronous: (n − ½) F − k B, h B, B/2 + k W, F/2 + k W, n F − h B − W/2

    pp p · forward_middle [s]: F, of both chunks · backward_middle B [s]: of the input alone · weight_middle [s]: W
    synchronous: every rank waits for the last before its optimizer step
    → idle time of a step [s]
    Source: qi-2023 §6; composition
    Holds: equal ranks, no communication time, m ≥ 2 p − 1; then exact by simulation for p ≥ 2
    >>> float(zb_v_idle(8.0, 1.0, 1.0, 1.0, synchronous=False))
    0.0
    >>> float(zb_v_idle(8.0, 1.0, 1.0, 0.5, synchronous=True))
    3.5
    """
    f, b, w, n = forward_middle, backward_middle, weight_middle, pp - 1
    h = n / 2
    k = h - 0.5
    either = np.maximum(n * (b - w), np.maximum((n - 0.5) * f + b / 2 - n * w, n * f - (n + 0.5) * w))
    if synchronous:
        ends = np.maximum(np.maximum((n - 0.5) * f - k * b, h * b), n * f - h * b - w / 2)
        return np.where(pp > 1, np.maximum(either, np.maximum(ends, np.maximum(b, f) / 2 + k * w)), 0 * f)
    own = np.maximum(np.maximum(n * f - h * (b + w), h * (b - f)), b / 2 + k * w - h * f)
    own = np.maximum(own, np.maximum(k * (w - f), k * (f - b)))
    return np.where(pp > 1, np.maximum(np.maximum(either, own), 0 * f), 0 * f)


@equation
def controllable_idle(
    pp: Number,
    micro_batches: Number,
    forward_middle: Number,
    backward_middle: Number,
    weight_middle: Number,
    *,
    schedule: Literal["v-half", "v-min"],
) -> Number:
    """Idle time of a rank whose two chunks lie in a V and keep the offsets of the block with less memory.

    v-half: (7/4 p − 1) M / 3 + m (2 max(F, B) + W/2 − M)⁺
    v-min: (2 p − 5/2 + [3 divides p]) M / 3 + m (3 max(F, B) − M)⁺;  M = F + B + W

    pp p · micro_batches m: forwards per step and rank · forward_middle [s]: F, of both chunks
    backward_middle B [s]: of the input alone · weight_middle [s]: W · schedule: "v-half" or "v-min"
    → idle time of a step [s]
    Source: qi-2024 §4; composition
    Holds: equal ranks, no communication time, m ≥ 2 p, the order of equal F, B and W kept. By simulation exact if they
        are equal and p is even (v-half) or not 2 (v-min); else the whole step within 12 %
    Pitfall: where F, B and W differ every micro-batch adds to the gap, v-min's most
    Monotone: increasing in micro_batches
    >>> float(controllable_idle(8.0, 32.0, 1.0, 1.0, 1.0, schedule="v-half"))
    13.0
    """
    whole = forward_middle + backward_middle + weight_middle
    longer = np.maximum(forward_middle, backward_middle)
    if schedule == "v-half":
        idle = (1.75 * pp - 1) * whole / 3 + micro_batches * np.maximum(
            2 * longer + weight_middle / 2 - whole, 0 * whole
        )
    else:
        third = np.where(np.mod(pp, 3) == 0, 1.0, 0.0)
        idle = (2 * pp - 2.5 + third) * whole / 3 + micro_batches * np.maximum(3 * longer - whole, 0 * whole)
    return np.where(pp > 1, idle, 0 * whole)


@equation
def dual_idle(
    pp: Number,
    forward_middle: Number,
    backward_middle: Number,
    weight_middle: Number,
    *,
    schedule: Literal["dualpipe", "dualpipev"],
) -> Number:
    """Idle time of a rank that pairs forwards of one direction, or half of a V, with backwards of the other.

    dualpipe: (p/2 − 1) max(F + 2 B − W, 2 F);  dualpipev: (p − 1)/2 max(F + 2 B − W, 2 F)

    pp p: pipeline ranks · forward_middle [s]: F · backward_middle B [s]: of the input alone · weight_middle [s]: W
    schedule: "dualpipe" or "dualpipev"
    → idle time of a step [s]
    Source: deepseek-dualpipe README; composition
    Holds: equal ranks, no communication time, m ≥ 2 p, a pair takes F + B + W and ends as one; then exact by simulation
    Pitfall: published as (p/2 − 1) (F&B + B − 3 W) with B the whole backward
    Monotone: increasing in pp, forward_middle, backward_middle; decreasing in weight_middle
    >>> float(dual_idle(8.0, 1.0, 1.0, 1.0, schedule="dualpipe"))
    6.0
    """
    once = np.maximum(forward_middle + 2 * backward_middle - weight_middle, 2 * forward_middle)
    return (np.maximum(pp / 2 - 1, 0.0) if schedule == "dualpipe" else (pp - 1) / 2) * once


@equation
def chimera_idle(pp: Number, micro_batches: Number, forward_middle: Number, backward_middle: Number) -> Number:
    """Idle time of a rank that runs half the micro-batches down and half up, in units of as many as stages.

    (p − 2) (max(F, B) + (m/p − 1) max(B − F, (F − B)/2))

    pp p · micro_batches m: forwards per step and rank · forward_middle [s]: F · backward_middle B [s]: whole
    → idle time of a step [s]
    Source: li-2021 §3.1; composition
    Holds: equal ranks, no communication time, p even, m a multiple of p, units concatenated as they are. By simulation
        exact if F = B or m = p, else at most F too long
    Pitfall: published as (p − 2) / (2 m + p − 2) of the step, which holds for F = B
    >>> float(chimera_idle(8.0, 8.0, 1.0, 2.0))
    12.0
    """
    each = np.maximum(backward_middle - forward_middle, (forward_middle - backward_middle) / 2)
    units = np.maximum(micro_batches / pp - 1, 0.0)
    idle: Number = np.maximum(pp - 2, 0.0) * (np.maximum(forward_middle, backward_middle) + units * each)
    return idle


@equation
def breadth_first_idle(pp: Number, vpp: Number, forward_middle: Number, backward_middle: Number) -> Number:
    """Idle time of a rank that runs every micro-batch through a chunk before the next chunk.

    (p − 1) (F + B) / v

    pp p · vpp v · forward_middle [s]: F, of all chunks · backward_middle B [s]: whole, of all chunks
    → idle time of a step [s]
    Source: lamy-poirier-2023 §3
    Holds: equal ranks, no communication time, m ≥ p; then exact by simulation
    Monotone: increasing in pp, forward_middle, backward_middle; decreasing in vpp
    >>> breadth_first_idle(8.0, 4.0, 1.0, 2.0)
    5.25
    """
    return (pp - 1) * (forward_middle + backward_middle) / vpp


@equation
def later_schedule_time(
    pp: Number,
    micro_batches: Number,
    vpp: Number,
    busiest: Number,
    forward_middle: Number,
    backward_middle: Number,
    weight_middle: Number,
    *,
    schedule: LaterSchedule,
    synchronous: bool,
) -> Number:
    """Time of one step of a pipeline that splits backward, folds, or runs both ways.

    m M + idle of its schedule, M the busiest rank

    pp p · micro_batches m: forwards per step and rank · vpp v
    busiest M [s]: time of the busiest rank, all it does for a micro-batch · forward_middle F [s]: of a middle rank
    backward_middle B [s]: of a middle rank, to the input alone
    weight_middle W [s]: of a middle rank, gradient of the weights · schedule: its name
    synchronous: every rank waits for the last before its optimizer step
    → from first forward to last backward [s]
    Source: composition
    Holds: as the idle time of the schedule. With ends up to half a middle rank longer, by simulation (p from 4 to 8):
        zb-h1 and zb-h2 4 % low to 7 % high, looped-bfs exact, zb-v up to 10 % high, the others 5 % low to 26 % high
    Monotone: increasing in busiest
    >>> float(later_schedule_time(8.0, 32.0, 1.0, 3.0, 1.0, 1.0, 1.0, schedule="zb-h1", synchronous=True))
    103.0
    """
    f, b, w = forward_middle, backward_middle, weight_middle
    if schedule in ("zb-h1", "zb-h2"):
        idle = zero_bubble_idle(pp, f, b, w, schedule=schedule, synchronous=synchronous)
    elif schedule == "zb-v":
        idle = zb_v_idle(pp, f, b, w, synchronous=synchronous)
    elif schedule in ("v-half", "v-min"):
        idle = controllable_idle(pp, micro_batches, f, b, w, schedule=schedule)
    elif schedule in ("dualpipe", "dualpipev"):
        idle = dual_idle(pp, f, b, w, schedule=schedule)
    elif schedule == "chimera":
        idle = chimera_idle(pp, micro_batches, f, b + w)
    else:
        idle = breadth_first_idle(pp, vpp, f, b + w)
    time: Number = micro_batches * busiest + idle
    return time
