"""Pipelines: time, idle time and live micro-batches of every schedule, and layers that do not divide evenly."""

from __future__ import annotations

from typing import Literal

import numpy as np

from costmodel.ground.counts import LaterSchedule, PlainSchedule
from costmodel.ground.equation import Number, equation

# --- pipelines: time, idle time and live micro-batches of every schedule


# --- Time and live micro-batches of pipelines: GPipe, 1F1B, interleaved 1F1B.
#
# Ranks are of three kinds: the first (embedding), the last (head), all between. Communication takes no time here.


@equation
def bubble_of_ideal(pp: Number, micro_batches: Number, vpp: Number) -> Number:
    """Idle time of a pipeline of equal stages over its busy time.

    (p − 1) / (v m)

    pp p · micro_batches m: forwards per step and rank · vpp: model chunks per rank, v; 1 for gpipe and 1f1b
    → idle over busy time
    Source: huang-2019 §2.3; narayanan-2021 §2.2
    Holds: equal stages; interleaved: m a multiple of p; for reference, no estimate calls it
    Pitfall: of the busy time, not of the step; p = m = 8 gives 87.5 % here, 46.7 % of the total
    Monotone: increasing in pp; decreasing in micro_batches, vpp
    >>> bubble_of_ideal(8.0, 32.0, 4.0)
    0.0546875
    """
    return (pp - 1) / (vpp * micro_batches)


@equation
def bubble_of_total(pp: Number, micro_batches: Number, vpp: Number) -> Number:
    """Idle share of the time of a pipeline of equal stages.

    (p − 1) / (v m + p − 1)

    pp p · micro_batches m: forwards per step and rank · vpp: model chunks per rank, v; 1 for gpipe and 1f1b
    → idle over total time
    Source: huang-2019 §2.3; narayanan-2021 §2.2
    Holds: equal stages; interleaved: m a multiple of p; for reference, no estimate calls it
    Pitfall: (p − 1)/m is of the busy time; of the total it is (p − 1)/(m + p − 1): 46.7 %, not 87.5 %, at p = m = 8
    Monotone: increasing in pp; decreasing in micro_batches, vpp
    >>> round(bubble_of_total(8.0, 8.0, 1.0), 7)
    0.4666667
    """
    return (pp - 1) / (vpp * micro_batches + pp - 1)


@equation
def in_flight(pp: Number, micro_batches: Number, vpp: Number, stage: Number, *, schedule: PlainSchedule) -> Number:
    """Live micro-batches of a stage at its peak, in whole stages' worth of activations.

    gpipe: m
    1f1b: min(m, p − i)
    interleaved: min(v m, 2 (p − 1 − i) + (v − 1) p + 1) / v

    pp p · micro_batches m: forwards per step and rank · vpp: model chunks per rank, v; unused by gpipe and 1f1b
    stage i: position in the pipeline from 0 · schedule: "gpipe", "1f1b" or "interleaved"
    → forwards not yet followed by their backward; a chunk counts 1/v
    Source: narayanan-2021 §2.2
    Holds: interleaved: groups of p micro-batches per chunk, as Megatron-LM does by default
    Monotone: increasing in pp, micro_batches; decreasing in stage
    >>> float(in_flight(8.0, 32.0, 1.0, 0.0, schedule="1f1b"))
    8.0
    >>> float(in_flight(8.0, 32.0, 4.0, 0.0, schedule="interleaved"))
    9.75
    """
    if schedule == "gpipe":
        return micro_batches
    if schedule == "1f1b":
        return np.minimum(micro_batches, pp - stage)
    return np.minimum(vpp * micro_batches, 2 * (pp - 1 - stage) + (vpp - 1) * pp + 1) / vpp


@equation
def gpipe_time(
    pp: Number,
    micro_batches: Number,
    forward_first: Number,
    backward_first: Number,
    forward_middle: Number,
    backward_middle: Number,
    forward_last: Number,
    backward_last: Number,
) -> Number:
    """Time of one step when all forwards come before all backwards.

    T = Σⱼ (Fⱼ + Bⱼ) + (m − 1) (maxⱼ Fⱼ + maxⱼ Bⱼ)

    pp p · micro_batches m: forwards per step and rank
    forward_first [s]: of the first stage, per micro-batch; of the only one if p = 1
    backward_first [s]: of the first stage, per micro-batch; of the only one if p = 1
    forward_middle [s]: of each stage between, per micro-batch; unused if p < 3
    backward_middle [s]: of each stage between, per micro-batch; unused if p < 3
    forward_last [s]: of the last stage, per micro-batch; unused if p = 1
    backward_last [s]: of the last stage, per micro-batch; unused if p = 1
    → from first forward to last backward [s]
    Source: huang-2019 §2.3; composition
    Holds: no communication time; then exact for any stage times and any m
    Monotone: increasing in micro_batches, forward_first, backward_first, forward_middle, forward_last, backward_last
    >>> float(gpipe_time(4.0, 8.0, 1.0, 2.0, 1.0, 2.0, 2.0, 4.0))
    57.0
    """
    f_middle = np.where(pp < 3, forward_first, forward_middle)
    b_middle = np.where(pp < 3, backward_first, backward_middle)
    f_last, b_last = np.where(pp < 2, forward_first, forward_last), np.where(pp < 2, backward_first, backward_last)
    through = forward_first + backward_first + (pp - 2) * (f_middle + b_middle) + f_last + b_last
    f_slowest = np.maximum(np.maximum(forward_first, f_middle), f_last)
    b_slowest = np.maximum(np.maximum(backward_first, b_middle), b_last)
    return through + (micro_batches - 1) * (f_slowest + b_slowest)


@equation
def one_forward_one_backward_time(
    pp: Number,
    micro_batches: Number,
    forward_first: Number,
    backward_first: Number,
    forward_middle: Number,
    backward_middle: Number,
    forward_last: Number,
    backward_last: Number,
) -> Number:
    """Time of one step under 1F1B.

    M = F + B;  T = maxₛ Σ_{j≤s} Mⱼ + (m − p + s) Mₛ + e(F) + e(B)
    e(X) = max_{a≥s} Σ_{s<j≤a} Mⱼ + (p − 1 − a) max_{j≤a} Xⱼ
    the longest path: it stays on stage s while steady; e is its way there (F) and back (B).
    Of s only max(0, p − m), p − 2 and p − 1 count, of a only s, p − 2 and p − 1; m = 1: Σⱼ Mⱼ

    pp p · micro_batches m: forwards per step and rank
    forward_first [s]: of the first stage, per micro-batch; of the only one if p = 1
    backward_first [s]: of the first stage, per micro-batch; of the only one if p = 1
    forward_middle [s]: of each stage between, per micro-batch; unused if p < 3
    backward_middle [s]: of each stage between, per micro-batch; unused if p < 3
    forward_last [s]: of the last stage, per micro-batch; unused if p = 1
    backward_last [s]: of the last stage, per micro-batch; unused if p = 1
    → from first forward to last backward [s]
    Source: narayanan-2021 §2.2; composition
    Holds: no communication time; then exact for any first, middle and last times and any m
    Monotone: increasing in micro_batches, forward_first, backward_first, forward_middle, forward_last, backward_last
    >>> float(one_forward_one_backward_time(4.0, 8.0, 2.0, 2.0, 1.0, 2.0, 1.0, 2.0))
    38.0
    """
    f_middle = np.where(pp < 3, forward_first, forward_middle)
    b_middle = np.where(pp < 3, backward_first, backward_middle)
    f_last, b_last = np.where(pp < 2, forward_first, forward_last), np.where(pp < 2, backward_first, backward_last)
    first, middle, last = forward_first + backward_first, f_middle + b_middle, f_last + b_last
    f_slower, b_slower = np.maximum(forward_first, f_middle), np.maximum(backward_first, b_middle)
    early = np.maximum(pp - micro_batches, 0)
    behind = pp - 1 - early
    on_first = (
        (micro_batches - behind) * first
        + early * middle
        + np.maximum(behind * f_slower, (behind - 1) * middle + np.maximum(f_slower, last))
        + np.maximum(behind * b_slower, (behind - 1) * middle + np.maximum(b_slower, last))
    )
    on_middle = first + (pp + micro_batches - 4) * middle + np.maximum(f_slower, last) + np.maximum(b_slower, last)
    on_last = first + (pp - 2) * middle + micro_batches * last
    return np.maximum(on_last, np.where(micro_batches < 2, on_last, np.maximum(on_first, on_middle)))


@equation
def interleaved_time(
    pp: Number,
    micro_batches: Number,
    vpp: Number,
    forward_first: Number,
    backward_first: Number,
    forward_middle: Number,
    backward_middle: Number,
    forward_last: Number,
    backward_last: Number,
) -> Number:
    """Time of one step under interleaved 1F1B.

    T = max(m Mₗ + (p − 1) c + w,  m Mₘ + (p − 2) c + w + (b − f + λ)⁺ + (f − b + λ)⁺,  m M₁ + e(f, b, φ) + e(b, f, β))
    M = F + B of the first, a middle, the last rank (1, m, l);  f, b = Fₘ/v, Bₘ/v;  c = f + b;  x⁺ = max(0, x)
    φ = F₁ − Fₘ, β = B₁ − Bₘ lie in the first chunk of all, λ = Mₗ − Mₘ in the last of all;  λ′ = λ min(p, m/2)
    w = max(φ, p φ, −f) + max(β, p β, −b)
    e(x, y, ε) = max(0, λ′ + (p − 2) y − p ε⁺, (p − 4) y − p ε⁺, λ + (p − 1) (y − x − ε⁺), (p − 2) (y − x − ε⁺))
    the longest paths that stay on the last, a middle, the first rank

    pp p · micro_batches m: forwards per step and rank · vpp v
    forward_first [s]: of all chunks of the first rank, per micro-batch; of the only rank if p = 1
    backward_first [s]: of all chunks of the first rank, per micro-batch; of the only rank if p = 1
    forward_middle [s]: of all chunks of each rank between; if p = 2, of a rank with neither embedding nor head
    backward_middle [s]: of all chunks of each rank between; if p = 2, of a rank with neither embedding nor head
    forward_last [s]: of all chunks of the last rank, per micro-batch; unused if p = 1
    backward_last [s]: of all chunks of the last rank, per micro-batch; unused if p = 1
    → from first forward to last backward [s]
    Source: narayanan-2021 §2.2; composition
    Holds: no communication time; chunks alike but for the ends (N010); m a multiple of p; an end shorter by no more
        than a chunk, if p = 2 not at all. By simulation (p ≤ 12, v ≤ 8, ends ≤ 3 times a middle rank): exact if m = p,
        or the first is no longer than a middle rank, or the last equals one; else 3 % low to 2 % high; 15 % low if an
        end's forward is longer and its backward shorter. Not monotone in the middle: at equal ends a longer one means
        less embedding and head
    Monotone: increasing in micro_batches, forward_first, backward_first, forward_last, backward_last
    >>> float(interleaved_time(4.0, 8.0, 2.0, 1.0, 2.0, 1.0, 2.0, 2.0, 4.0))
    52.5
    """
    f_last, b_last = np.where(pp < 2, forward_first, forward_last), np.where(pp < 2, backward_first, backward_last)
    f_least, b_least = np.minimum(forward_first, f_last), np.minimum(backward_first, b_last)
    f_middle = np.where(pp < 3, np.minimum(f_least, np.where(pp < 2, f_least, forward_middle)), forward_middle)
    b_middle = np.where(pp < 3, np.minimum(b_least, np.where(pp < 2, b_least, backward_middle)), backward_middle)
    f, b = f_middle / vpp, b_middle / vpp
    f_more, b_more = forward_first - f_middle, backward_first - b_middle
    last_more = f_last + b_last - f_middle - b_middle
    group_more = np.minimum(pp, micro_batches / 2) * last_more
    wait = np.maximum(np.maximum(f_more, pp * f_more), -f) + np.maximum(np.maximum(b_more, pp * b_more), -b)
    on_last = micro_batches * (f_last + b_last) + (pp - 1) * (f + b) + wait
    on_middle = micro_batches * (f_middle + b_middle) + (pp - 2) * (f + b) + wait
    on_middle = on_middle + np.maximum(b - f + last_more, 0) + np.maximum(f - b + last_more, 0)
    f_over, b_over = np.maximum(f_more, 0), np.maximum(b_more, 0)
    f_far = np.maximum(group_more + (pp - 2) * b, (pp - 4) * b) - pp * f_over
    b_far = np.maximum(group_more + (pp - 2) * f, (pp - 4) * f) - pp * b_over
    f_gap, b_gap = b - f - f_over, f - b - b_over
    f_near = np.maximum(last_more + (pp - 1) * f_gap, np.maximum(pp - 2, 0) * f_gap)
    b_near = np.maximum(last_more + (pp - 1) * b_gap, np.maximum(pp - 2, 0) * b_gap)
    on_first = micro_batches * (forward_first + backward_first)
    on_first = on_first + np.maximum(np.maximum(f_far, f_near), 0) + np.maximum(np.maximum(b_far, b_near), 0)
    slowest: Number = np.maximum(np.maximum(on_first, on_middle), on_last)
    return slowest


@equation
def pipeline_time(
    pp: Number,
    micro_batches: Number,
    vpp: Number,
    forward_first: Number,
    backward_first: Number,
    forward_middle: Number,
    backward_middle: Number,
    forward_last: Number,
    backward_last: Number,
    *,
    schedule: PlainSchedule,
) -> Number:
    """Time of one step of a pipeline whose first and last ranks differ from those between.

    equal ranks: T = (m + (p − 1) / v) (F + B); else as gpipe_time, one_forward_one_backward_time, interleaved_time

    pp p · micro_batches m: forwards per step and rank · vpp: model chunks per rank, v; unused by gpipe and 1f1b
    forward_first [s]: of all chunks of the first rank, per micro-batch; of the only rank if p = 1
    backward_first [s]: of all chunks of the first rank, per micro-batch; of the only rank if p = 1
    forward_middle [s]: of all chunks of each rank between; if p = 2, of a rank with neither embedding nor head
    backward_middle [s]: of all chunks of each rank between; if p = 2, of a rank with neither embedding nor head
    forward_last [s]: of all chunks of the last rank, per micro-batch; unused if p = 1
    backward_last [s]: of all chunks of the last rank, per micro-batch; unused if p = 1
    schedule: "gpipe", "1f1b" or "interleaved"
    → from first forward to last backward [s]
    Source: composition
    Holds: no communication time; gpipe and 1f1b exact, interleaved within the bound of interleaved_time
    Monotone: increasing in micro_batches, forward_first, backward_first, forward_last, backward_last
    >>> float(pipeline_time(8.0, 32.0, 1.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, schedule="1f1b"))
    117.0
    >>> float(pipeline_time(8.0, 32.0, 4.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, schedule="interleaved"))
    101.25
    """
    ends = (forward_first, backward_first, forward_middle, backward_middle, forward_last, backward_last)
    if schedule == "gpipe":
        return gpipe_time(pp, micro_batches, *ends)
    if schedule == "1f1b":
        return one_forward_one_backward_time(pp, micro_batches, *ends)
    return interleaved_time(pp, micro_batches, vpp, *ends)


# --- Schedules that split backward, fold the pipeline or run it both ways: idle time and step.
#
# F, B, W: forward, backward to the input, gradient of the weights of a middle rank, all its chunks, one micro-batch.


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

    pp p · vpp v · forward_middle F [s]: one micro-batch through all chunks of a middle rank
    backward_middle B [s]: the same, whole backward
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


# --- Live micro-batches of the schedules that split backward, fold the pipeline or run it both ways.


@equation
def live_micro_batches(pp: Number, micro_batches: Number, *, schedule: LaterSchedule) -> Number:
    """Live micro-batches of a rank at its peak, in whole stages' worth of activations, until their W is done.

    zb-h1, zb-v, chimera: p;  zb-h2: 2 p − 1;  v-half: ⌈p/2⌉ + 1;  v-min: ⌊(p + 4)/3⌋
    dualpipe: p + 1;  dualpipev: p + ½;  looped-bfs: m; never more than m

    pp p · micro_batches m: forwards per step and rank · schedule: its name → forwards whose activations are still held
    Source: qi-2023 §2.3; qi-2024 §4; deepseek-dualpipe README; li-2021 §3.1; lamy-poirier-2023 §3
    Holds: an upper bound on every rank; by simulation the peak of the most loaded
    Monotone: increasing in pp, micro_batches
    >>> float(live_micro_batches(8.0, 32.0, schedule="v-min"))
    4.0
    """
    held = {
        "zb-h1": pp,
        "zb-v": pp,
        "chimera": pp,
        "zb-h2": 2 * pp - 1,
        "v-half": np.ceil(pp / 2) + 1,
        "v-min": np.floor((pp + 4) / 3),
        "dualpipe": pp + 1,
        "dualpipev": pp + 0.5,
        "looped-bfs": micro_batches,
    }
    live: Number = np.minimum(micro_batches, held[schedule])
    return live


# --- layers of pipeline ranks where the layers do not divide evenly


@equation
def layers_beside_ends(layers: Number, pp: Number, slots: Number) -> Number:
    """Layers of a rank between the ends when embedding, head or both count as a layer.

    (L + e) / pp

    layers L · pp · slots: ends that count as a layer, e; each of their ranks holds one layer fewer
    → layers of a rank between, in all its chunks
    Source: megatron-lm --account-for-embedding-in-pipeline-split; llama-3-2024 §3.3.2
    Monotone: increasing in layers, slots; decreasing in pp
    >>> layers_beside_ends(126.0, 16.0, 2.0)
    8.0
    """
    return (layers + slots) / pp


@equation
def layers_between(layers: Number, pp: Number, layers_first: Number, layers_last: Number) -> Number:
    """Layers of a rank between two ends whose layers are stated.

    (L − L₁ − Lₗ) / (pp − 2); if pp < 3, the smaller of the two

    layers L · pp · layers_first L₁: layers of the first rank · layers_last Lₗ: layers of the last rank
    → layers of a rank between, in all its chunks
    Source: megatron-lm --decoder-first-pipeline-num-layers
    >>> float(layers_between(61.0, 16.0, 3.0, 2.0))
    4.0
    """
    between = (layers - layers_first - layers_last) / np.maximum(pp - 2, 1)
    return np.where(pp < 3, np.minimum(layers_first, layers_last), between)


@equation
def full_chunk_layers(layers: Number, pp: Number, vpp: Number) -> Number:
    """Layers of a model chunk where all but those at the ends hold as many.

    ⌈L / (pp v)⌉

    layers L · pp · vpp v → layers of a chunk between the ends
    Source: megatron-bridge recipes/deepseek
    Monotone: increasing in layers
    >>> float(full_chunk_layers(61.0, 4.0, 4.0))
    4.0
    """
    return np.ceil(layers / (pp * vpp))


@equation
def cut_before(chunk_layers: Number, missing_first: Number, stage: Number) -> Number:
    """Layers before a chunk where all hold as many but the first, which holds fewer.

    max(i C − e, 0)

    chunk_layers C: layers of a chunk between the ends · missing_first e: layers that the first chunk has less
    stage i: position of the chunk in the model from 0
    → layers
    Source: composition
    Monotone: increasing in chunk_layers, stage; decreasing in missing_first
    >>> float(cut_before(2.0, 1.0, 3.0))
    5.0
    """
    return np.maximum(stage * chunk_layers - missing_first, 0.0)


@equation
def stated_before(
    layers: Number, pp: Number, vpp: Number, layers_first: Number, layers_middle: Number, stage: Number
) -> Number:
    """Layers before a chunk where the ranks hold stated numbers, in as many chunks each.

    (⌊i / pp⌋ L + B) / v; B = 0 if r = 0, else L₁ + (r − 1) Lₘ, r = i mod pp

    layers L · pp · vpp v · layers_first L₁: layers of the first rank
    layers_middle Lₘ: layers of a rank between the ends · stage i: position of the chunk in the model from 0
    → layers
    Source: megatron-lm --decoder-first-pipeline-num-layers
    >>> float(stated_before(61.0, 16.0, 1.0, 3.0, 4.0, 15.0))
    59.0
    """
    rank = np.mod(stage, pp)
    inside = np.where(rank > 0, layers_first + (rank - 1) * layers_middle, 0.0)
    return (np.floor(stage / pp) * layers + inside) / vpp


@equation
def leading_layers(layers_leading: Number, layers_before: Number, layers: Number) -> Number:
    """Layers of a chunk that are of the leading kind, which comes before all others.

    min(max(Lₐ − B, 0), L)

    layers_leading Lₐ: layers of the model that come first · layers_before B: layers of the chunks before it
    layers L: layers of the chunk
    → layers of the leading kind
    Source: deepseek-2024 §4.2
    Monotone: increasing in layers_leading, layers; decreasing in layers_before
    >>> float(leading_layers(3.0, 2.0, 2.0))
    1.0
    """
    return np.minimum(np.maximum(layers_leading - layers_before, 0.0), layers)


@equation
def spread_before(layers: Number, pp: Number, vpp: Number, stage: Number) -> Number:
    """Layers before a chunk when the chunks take them in turn, from the first.

    i ⌊L / (pp v)⌋ + min(i, L mod (pp v))

    layers L · pp · vpp v · stage i: position of the chunk in the model from 0 → layers
    Source: torchtitan pipeline_parallel.py
    Monotone: increasing in layers, stage
    >>> float(spread_before(70.0, 12.0, 1.0, 11.0))
    65.0
    """
    return stage * np.floor(layers / (pp * vpp)) + np.minimum(stage, np.mod(layers, pp * vpp))


@equation
def mirrored_layers(in_flight: Number, layers_first: Number, layers_last: Number) -> Number:
    """Layers that an end rank of a pipeline run both ways keeps activations of, in the mean of its live micro-batches.

    ((x − 1) L₁ + Lₗ) / x

    in_flight x: micro-batches live at the peak · layers_first L₁: layers of the first stage
    layers_last Lₗ: layers of the last stage, which the same rank runs for the other direction
    → layers
    Source: deepseek-dualpipe; li-2021; composition
    Holds: dualpipe and chimera, by simulation for p from 4 to 16: one micro-batch is live in the last stage
    Monotone: increasing in layers_first, layers_last
    >>> mirrored_layers(17.0, 4.0, 1.0) * 17
    65.0
    """
    return ((in_flight - 1) * layers_first + layers_last) / in_flight


@equation
def spread_layers(layers: Number, pp: Number, vpp: Number, stage: Number) -> Number:
    """Layers of a rank when the chunks take them in turn, from the first.

    v ⌊L / (pp v)⌋ + ⌈(r − i) / pp⌉,  r = L mod (pp v)

    layers L · pp · vpp v · stage i: position in the pipeline from 0 → layers of that rank, in all its chunks
    Source: torchtitan pipeline_parallel.py
    Monotone: increasing in layers; decreasing in stage
    >>> float(spread_layers(70.0, 12.0, 1.0, 0.0)), float(spread_layers(70.0, 12.0, 1.0, 11.0))
    (6.0, 5.0)
    """
    chunks = pp * vpp
    left = np.mod(layers, chunks)
    return vpp * np.floor(layers / chunks) + np.maximum(np.ceil((left - stage) / pp), 0.0)
