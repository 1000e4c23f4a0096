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

    Args:
        flop: work, F [FLOP]
        nbytes: bytes through memory, S [B]
        peak: datasheet rate, P [FLOP/s]
        bandwidth: datasheet memory bandwidth, W [B/s]
        compute_share: share of the peak that large products reach alone, c [1]
        memory_share: share of the bandwidth reached, b [1]
        start: fixed time of a call, t₀ [s]
        exponent: sharpness of the corner, p [1]
        sustained: slowdown in a real step by power and clocks, σ [1]

    Returns:
        time [s]

    Example:
        >>> round(float(matmul_time(1.37439e11, 1.00663e8, 989.4e12, 3.35e12, .776, .842, 4.2e-6, 3.2, 1.0)) * 1e6, 1)
        183.5

    Holds:
        n, k ≥ 256; F of rows filled up to whole tiles, see tiled_rows

    Source:
        williams-2009; kernel-fit

    Monotone: increasing in flop, nbytes, start, sustained; decreasing in peak, bandwidth, compute_share, memory_share
    """
    compute = sustained * flop / (compute_share * peak)
    memory = nbytes / (memory_share * bandwidth)
    longer, shorter = np.maximum(compute, memory), np.minimum(compute, memory)
    return start + longer * (1 + (shorter / longer) ** exponent) ** (1 / exponent)


@equation
def best_matmul_share(best: Number, peak: Number, gain: Number) -> Number:
    """Share of the peak that large matmuls reach, from the best one measured.

    0.95 g best / peak

    Args:
        best: best rate measured over many shapes [FLOP/s]
        peak: datasheet rate [FLOP/s]
        gain: rate of the products meant over that of forward ones, g [1]

    Returns:
        share [1]

    Example:
        >>> round(best_matmul_share(668.4e12, 1307.4e12, 1.0), 3)
        0.486

    Source:
        ml-engineering mamf-finder; kernel-fit

    Monotone: increasing in best, gain; decreasing in peak
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

    Args:
        peak: datasheet rate, P [FLOP/s]
        share: share of the peak at long sequences, a [1]
        sequence: tokens in a sequence, s [1]
        half_sequence: sequence at which half of it is reached, s½ [1]
        head_dim: width of a head [1]
        narrow_heads: share of the rate that heads of 64 and less reach, h [1]
        wide_heads: share of the rate that heads over 128 reach, H [1]

    Returns:
        attainable rate [FLOP/s]

    Example:
        >>> round(float(attention_rate(989.4e12, 0.60, 8192.0, 256.0, 128.0, 0.87, 1.0)) / 1e12)
        576

    Source:
        dao-2023; shah-2024; kernel-fit

    Monotone: increasing in peak, share, sequence, narrow_heads, wide_heads; decreasing in half_sequence
    """
    shape = np.where(head_dim <= 64, narrow_heads, np.where(head_dim > 128, wide_heads, 1.0))
    return peak * share * shape * sequence / (sequence + half_sequence)


@equation
def attention_forward_time(flop: Number, rate: Number, sustained: Number) -> Number:
    """Time of fused attention, forward.

    σ F / R

    Args:
        flop: causal work of the forward pass, F [FLOP]
        rate: attainable rate, R [FLOP/s]
        sustained: slowdown in a real step by power and clocks, σ [1]

    Returns:
        time [s]

    Example:
        >>> attention_forward_time(5e11, 5e14, 1.0)
        0.001

    Source:
        dao-2023; kernel-fit

    Monotone: increasing in flop, sustained; decreasing in rate
    """
    return sustained * flop / rate


@equation
def attention_backward_time(flop: Number, rate: Number, backward_share: Number, sustained: Number) -> Number:
    """Time of fused attention, backward: five products instead of two, at a lower rate.

    σ 2.5 F / (r R)

    Args:
        flop: causal work of the forward pass, F [FLOP]
        rate: attainable forward rate, R [FLOP/s]
        backward_share: backward rate over forward rate, r [1]
        sustained: slowdown in a real step by power and clocks, σ [1]

    Returns:
        time [s]

    Example:
        >>> attention_backward_time(4e11, 5e14, 0.8, 1.0)
        0.0025

    Source:
        dao-2022; dao-2023

    Monotone: increasing in flop, sustained; decreasing in rate, backward_share
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

    Args:
        flop: causal work, F [FLOP]
        rate: attainable rate of a busy chip, R [FLOP/s]
        slowdown: by units that run out of rows, κ [1]
        nbytes: queries and result, S [B]
        cached: keys and values, C [B]
        bandwidth: datasheet memory bandwidth, W [B/s]
        memory_share: share of the bandwidth that queries and result reach, b [1]
        start: fixed time of a call, t₀ [s]

    Returns:
        time [s]

    Example:
        >>> round(float(attention_kernel_time(1.374e11, 183e12, 1.0, 6.711e7, 1.678e7, 2.039e12, .6, 9e-6)) * 1e6)
        831

    Holds:
        sequences of 512 and more

    Source:
        kernel-fit

    Monotone: increasing in flop, slowdown, nbytes, cached, start; decreasing in rate, bandwidth, memory_share
    """
    return start + slowdown * flop / rate + nbytes / (memory_share * bandwidth) + 2 * cached / bandwidth


@equation
def stream_time(nbytes: Number, bandwidth: Number, share: Number) -> Number:
    """Time of a memory-bound operation.

    S / (b W)

    Args:
        nbytes: bytes through memory, S [B]
        bandwidth: datasheet memory bandwidth, W [B/s]
        share: share of the bandwidth reached, b [1]

    Returns:
        time [s]

    Example:
        >>> stream_time(2.68e9, 3.35e12, 0.8)
        0.001

    Source:
        williams-2009

    Monotone: increasing in nbytes; decreasing in bandwidth, share
    """
    return nbytes / (bandwidth * share)


@equation
def host_bound_time(device: Number, host: Number) -> Number:
    """Time of a run of operations that the host must issue while the device works.

    (D³ + H³)^(1/3): the longer of the two, with a soft corner, for some operations are short and others long

    Args:
        device: time the operations take on the device, D [s]
        host: time the host needs to issue them, H [s]

    Returns:
        time [s]

    Example:
        >>> round(float(host_bound_time(2.0, 1.0)), 4)
        2.0801

    Holds:
        one of them over 0; corner between a sum (1) and the longer of both (∞) set once, of 1.5 to 6 runs bear 2.5 to 3

    Source:
        training-runs-fit

    Monotone: increasing in device, host
    """
    longer, shorter = np.maximum(device, host), np.minimum(device, host)
    return longer * (1 + (shorter / longer) ** 3) ** (1 / 3)
