"""Time of an operation on one accelerator."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def matmul_time(
    flop: Number,
    nbytes: Number,
    peak: Number,
    bandwidth: Number,
    compute_share: Number,
    memory_share: Number,
    start: Number,
    exponent: Number,
    sustained: Number,
) -> Number:
    """Time of a matrix product on a roofline with a rounded corner.

    t₀ + (C^p + M^p)^(1/p), C = σ F / (c P), M = S / (b W)

    flop F [FLOP] · nbytes S [B]: bytes through memory · peak P [FLOP/s] · bandwidth W [B/s]: datasheet memory bandwidth
    compute_share c: share of the peak that large products reach alone · memory_share b: share of the bandwidth reached
    start t₀ [s] · exponent p: sharpness of the corner · sustained σ
    → time [s]
    Source: williams-2009; kernel-fit
    Holds: n, k ≥ 256; F of rows filled up to whole tiles, see tiled_rows
    Monotone: increasing in flop, nbytes, start, sustained; decreasing in peak, bandwidth, compute_share, memory_share
    >>> round(float(matmul_time(1.37439e11, 1.00663e8, 989.4e12, 3.35e12, .776, .842, 4.2e-6, 3.2, 1.0)) * 1e6, 1)
    183.5
    """
    compute = sustained * flop / (compute_share * peak)
    memory = nbytes / (memory_share * bandwidth)
    longer, shorter = np.maximum(compute, memory), np.minimum(compute, memory)
    return start + longer * (1 + (shorter / longer) ** exponent) ** (1 / exponent)


@equation
def best_matmul_share(best: Number, peak: Number, gain: Number) -> Number:
    """Share of the peak that large matmuls reach, from the best one measured.

    0.95 g best / peak

    best [FLOP/s] · peak [FLOP/s] · gain g: rate of the products meant over that of forward ones → share
    Source: ml-engineering mamf-finder; kernel-fit
    Monotone: increasing in best, gain; decreasing in peak
    >>> round(best_matmul_share(668.4e12, 1307.4e12, 1.0), 3)
    0.486
    """
    return 0.95 * gain * best / peak


@equation
def attention_rate(
    peak: Number,
    share: Number,
    sequence: Number,
    half_sequence: Number,
    head_dim: Number,
    narrow_heads: Number,
    wide_heads: Number,
) -> Number:
    """Rate of a fused attention kernel on causal work.

    a P s / (s + s½) × (h for heads of 64 and less, H for heads over 128)

    peak P [FLOP/s] · share a: share of the peak at long sequences · sequence s
    half_sequence s½: sequence at which half of it is reached · head_dim · narrow_heads h · wide_heads H
    → attainable rate [FLOP/s]
    Source: dao-2023; shah-2024; kernel-fit
    Monotone: increasing in peak, share, sequence, narrow_heads, wide_heads; decreasing in half_sequence
    >>> round(float(attention_rate(989.4e12, 0.60, 8192.0, 256.0, 128.0, 0.87, 1.0)) / 1e12)
    576
    """
    shape = np.where(head_dim <= 64, narrow_heads, np.where(head_dim > 128, wide_heads, 1.0))
    return peak * share * shape * sequence / (sequence + half_sequence)


@equation
def attention_forward_time(flop: Number, rate: Number, sustained: Number) -> Number:
    """Time of fused attention, forward.

    σ F / R

    flop F [FLOP]: causal work of the forward pass · rate R [FLOP/s]: attainable rate · sustained σ → time [s]
    Source: dao-2023; kernel-fit
    Monotone: increasing in flop, sustained; decreasing in rate
    >>> attention_forward_time(5e11, 5e14, 1.0)
    0.001
    """
    return sustained * flop / rate


@equation
def attention_backward_time(flop: Number, rate: Number, backward_share: Number, sustained: Number) -> Number:
    """Time of fused attention, backward: five products instead of two, at a lower rate.

    σ 2.5 F / (r R)

    flop F [FLOP]: causal work of the forward pass · rate R [FLOP/s]: attainable forward rate · backward_share r
    sustained σ
    → time [s]
    Source: dao-2022; dao-2023
    Monotone: increasing in flop, sustained; decreasing in rate, backward_share
    >>> attention_backward_time(4e11, 5e14, 0.8, 1.0)
    0.0025
    """
    return sustained * 2.5 * flop / (backward_share * rate)


@equation
def attention_kernel_time(
    flop: Number,
    rate: Number,
    slowdown: Number,
    nbytes: Number,
    cached: Number,
    bandwidth: Number,
    memory_share: Number,
    start: Number,
) -> Number:
    """Time of one call of a fused attention kernel, alone on the device, as an engine makes it.

    t₀ + κ F / R + S / (b W) + 2 C / W: keys and values pass twice, into the cache and out of it; what else a row of
    queries costs, its diagonal tile and the start and end of its tile, is in b

    flop F [FLOP]: causal work · rate R [FLOP/s]: attainable rate of a busy chip
    slowdown κ: by units that run out of rows · nbytes S [B]: queries and result · cached C [B]
    bandwidth W [B/s]: datasheet memory bandwidth · memory_share b: share of the bandwidth that queries and result reach
    start t₀ [s]
    → time [s]
    Source: kernel-fit
    Holds: sequences of 512 and more
    Monotone: increasing in flop, slowdown, nbytes, cached, start; decreasing in rate, bandwidth, memory_share
    >>> round(float(attention_kernel_time(1.374e11, 183e12, 1.0, 6.711e7, 1.678e7, 2.039e12, .6, 9e-6)) * 1e6)
    831
    """
    return start + slowdown * flop / rate + nbytes / (memory_share * bandwidth) + 2 * cached / bandwidth


@equation
def stream_time(nbytes: Number, bandwidth: Number, share: Number) -> Number:
    """Time of a memory-bound operation.

    S / (b W)

    nbytes S [B]: bytes through memory · bandwidth W [B/s]: datasheet memory bandwidth
    share b: share of the bandwidth reached
    → time [s]
    Source: williams-2009
    Monotone: increasing in nbytes; decreasing in bandwidth, share
    >>> stream_time(2.68e9, 3.35e12, 0.8)
    0.001
    """
    return nbytes / (bandwidth * share)


@equation
def host_bound_time(device: Number, host: Number) -> Number:
    """Time of a run of operations that the host must issue while the device works.

    (D³ + H³)^(1/3): the longer of the two, with a soft corner, for some operations are short and others long

    device D [s] · host H [s]: time the host needs to issue them → time [s]
    Source: training-runs-fit
    Holds: one of them over 0; corner between a sum (1) and the longer of both (∞) set once, of 1.5 to 6 runs bear 2.5
        to 3
    Monotone: increasing in device, host
    >>> round(float(host_bound_time(2.0, 1.0)), 4)
    2.0801
    """
    longer, shorter = np.maximum(device, host), np.minimum(device, host)
    return longer * (1 + (shorter / longer) ** 3) ** (1 / 3)
