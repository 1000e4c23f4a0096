"""Time and live micro-batches of pipelines: GPipe, 1F1B, interleaved 1F1B.

Ranks are of three kinds: the first (embedding), the last (head), all between. Communication takes no time here.
"""

from __future__ import annotations

import numpy as np

from costmodel.ground.choices import PlainSchedule
from costmodel.ground.equation import Number, equation


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
