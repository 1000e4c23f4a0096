"""Time of an operation on one accelerator: roofline, tiles, decoding, and the slowdown of a real step."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation

PIECE_BYTES = 16.0  # what tensor cores read at once
WIDEST_GROUP = 32  # query heads that one pass over keys and values serves at most


# --- Time of an operation on one accelerator.


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
def issuing_time(launches: Number, launch: Number, layers: Number, micro_batches: Number) -> Number:
    """Time in which the host issues the layers of a rank, forward and backward.

    3 k h L m: backward issues twice as many

    launches k: that a layer issues forward · launch h [s] · layers L: of the rank · micro_batches m → time [s]
    Source: training-runs-fit
    Monotone: increasing in launches, launch, layers, micro_batches
    >>> round(issuing_time(20.0, 39e-6, 32.0, 1.0), 5)
    0.07488
    """
    return 3 * launches * launch * layers * micro_batches


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


# --- Work cut into tiles, each done by one unit of the chip: what is done for nothing, and what waits for the last.


@equation
def tiled_rows(rows: Number) -> Number:
    """Rows that tensor cores work on: whole tiles of 64.

    64 ⌈m / 64⌉

    rows m: rows of the result → rows with those that only fill the last tile
    Source: kernel-fit
    Holds: bf16 libraries of NVIDIA, Ampere to Blackwell: held-out errors fall on A100, L40S and GB200 and rise nowhere
        by a point; rounding the columns or the waves of tiles over the chip as well does not lower them further
    >>> float(tiled_rows(257.0))
    320.0
    """
    return 64 * np.ceil(rows / 64)


@equation
def peak_of_heads(peak: Number, vector_peak: Number, head_dim: Number, element: Number) -> Number:
    """Datasheet rate of the unit that multiplies heads side by side, as unfused attention does.

    tensor cores take rows of whole pieces of 16 bytes; others are left to the vector units

    peak [FLOP/s]: of tensor cores · vector_peak [FLOP/s]: of vector units in fp32
    head_dim: width of a head, the elements of a row · element [B]: bytes of one
    → rate [FLOP/s]
    Source: anthony-2024; training-runs-fit
    Holds: cuBLAS 11 on batches; fused attention pads its heads, and other vendors' libraries are taken to do so
    Pitfall: a hidden size of 13,824 has heads of 144 if there are 96, of 108 if 128: BigScience's steps took a third
        longer
    Monotone: increasing in peak, vector_peak
    >>> float(peak_of_heads(312e12, 19.5e12, 108.0, 2.0)) / 1e12
    19.5
    """
    return np.where(np.remainder(head_dim, PIECE_BYTES / element) == 0, peak, vector_peak)


@equation
def tail_slowdown(micro_batch: Number, heads: Number, sequence: Number, tile: Number, units: Number) -> Number:
    """Time of causal attention over that of a chip that is busy to the end.

    (1 + x^(3/2))^(2/3), x = 2 U r / (b a s): the last rows see every key, twice the mean, and one unit works at them
    alone while the others run out of rows

    micro_batch b: sequences · heads a · sequence s: tokens of each · tile r: rows a unit works at together
    units U: multiprocessors of the chip
    → slowdown
    Source: dao-2023 §3.2; kernel-fit
    Holds: kernels that do not split the keys of one row among units; corner between a sum (1) and the longer of both
        (∞) set once for all kernels
    Monotone: increasing in tile, units; decreasing in micro_batch, heads, sequence
    >>> round(float(tail_slowdown(1.0, 1.0, 8192.0, 128.0, 132.0)), 2)
    4.45
    """
    return (1 + (2 * units * tile / (micro_batch * heads * sequence)) ** 1.5) ** (2 / 3)


@equation
def page_writing_time(
    micro_batch: Number, sequence: Number, kv_heads: Number, head_dim: Number, write: Number, units: Number
) -> Number:
    """Time in which a kernel of its own writes the keys and values of new tokens into the pages of a cache.

    w b s min(1, k d / 512) / U: each token is a block of threads, one for each element of its keys and at most 512; the
    fewer there are, the more blocks a unit holds at once

    micro_batch b: sequences · sequence s: tokens of each · kv_heads k · head_dim d
    write w [s]: time of a unit for a token of 512 elements and more
    units: multiprocessors of the chip, U; where they are not known, w is that of the chip
    → time [s]
    Source: vllm; kernel-fit
    Holds: engines that keep pages, and write them ahead of attention; where a kernel does both, w is near nothing
    Monotone: increasing in micro_batch, sequence, kv_heads, head_dim, write; decreasing in units
    >>> round(float(page_writing_time(8.0, 3072.0, 4.0, 128.0, 0.57e-6, 132.0)) * 1e6)
    106
    """
    return write * micro_batch * sequence * np.minimum(kv_heads * head_dim / 512, 1) / np.maximum(units, 1)


# --- Time of what an engine does for one new token of each sequence.


@equation
def reading_heads(heads: Number, kv_heads: Number) -> Number:
    """Heads that pass over keys and values of a sequence, where a kernel packs the queries of a group into a tile.

    k; a if a / k > 32, for then every query head reads on its own

    heads a · kv_heads k → heads that read
    Source: kernel-fit
    Holds: TensorRT-LLM 1.3, whose times grow by the number of query heads from 48 to a group; vLLM's kernels pack any
    >>> float(reading_heads(32.0, 8.0)), float(reading_heads(64.0, 1.0))
    (8.0, 64.0)
    """
    return np.where(heads / kv_heads > WIDEST_GROUP, heads, kv_heads)


@equation
def cached_reading_time(
    cached: Number, bandwidth: Number, memory_share: Number, l2: Number, hot_share: Number
) -> Number:
    """Time to read keys and values, faster where they still lie in the cache from the last call.

    C / (b W), where C ≤ L times h

    cached C [B]: keys and values of all passes · bandwidth W [B/s]: datasheet memory bandwidth
    memory_share b: share of the bandwidth reached · l2 [B]: last-level cache, L; 0 where it is not known
    hot_share h: time out of the cache over that out of memory
    → time [s]
    Source: williams-2009; kernel-fit
    Holds: a call repeated on the same keys, as benchmarks do; in a step other layers pass between two calls
    Monotone: decreasing in bandwidth, memory_share
    >>> [round(float(cached_reading_time(size, 2e12, 0.8, 50e6, 0.4)) * 1e6) for size in (1.6e9, 16e6)]
    [1000, 4]
    """
    return cached / (memory_share * bandwidth) * np.where(cached <= l2, hot_share, 1.0)


@equation
def decode_attention_time(
    micro_batch: Number,
    sequence: Number,
    readers: Number,
    units: Number,
    reading: Number,
    row: Number,
    joining: Number,
    start: Number,
) -> Number:
    """Time of one call of decode attention, one new token to a sequence.

    t₀ + (M^(3/2) + R^(3/2))^(2/3), R = r b k / U: every head of a sequence is a row of work for one unit. Where there
    are fewer rows than units and more than 128 tokens, the tokens are split among units, and u adds the parts up

    micro_batch b: sequences · sequence s: tokens of each · readers k: heads that read keys and values
    units: multiprocessors of the chip, U; where they are not known, r is that of the chip · reading M [s]
    row r [s]: time of a unit for one head of one sequence · joining u [s]: time to add up the parts of a row
    start t₀ [s]
    → time [s]
    Source: dao-2023 §3.2; kernel-fit
    Holds: corner between a sum (1) and the longer of both (∞) set once for all kernels
    Monotone: increasing in reading, row, joining, start
    >>> round(float(decode_attention_time(64.0, 8192.0, 8.0, 132.0, 550e-6, 3e-6, 4e-6, 9e-6)) * 1e6)
    560
    >>> round(float(decode_attention_time(1.0, 8192.0, 8.0, 132.0, 9e-6, 3e-6, 4e-6, 9e-6)) * 1e6)
    22
    """
    rows = row * micro_batch * readers / np.maximum(units, 1)
    longer, shorter = np.maximum(reading, rows), np.minimum(reading, rows)
    parts = np.where((micro_batch * readers < units) & (sequence > 128), joining, 0.0)
    return start + parts + longer * (1 + (shorter / longer) ** 1.5) ** (2 / 3)


# --- How much slower an accelerator is in a real step than its kernels are alone.


@equation
def part_slowdown(
    fitted_slowdown: Number, power: Number, peak: Number, fitted_power: Number, fitted_peak: Number
) -> Number:
    """Slowdown of matrix products on a GPU that its power cap throttles, scaled from a GPU that was fitted.

    f ((P₀ / R₀) / (P / R))^(1/3), but not under min(f, 1)

    fitted_slowdown f: slowdown of the part that was fitted · power P [W]: sustained power of the part
    peak R [FLOP/s]: its datasheet rate · fitted_power P₀ [W]: power of the part that was fitted
    fitted_peak R₀ [FLOP/s]: its datasheet rate
    → slowdown
    Source: hennessy-2017 §1.5; composition
    Holds: tensor cores at the power limit, where power grows with the cube of the clock; an A100 has 81 % more, a B200
        37 % less power for its peak than an H100, and runs bear it to 3 %; no run is known of a part with more than an
        A100
    Monotone: increasing in fitted_slowdown, peak, fitted_power; decreasing in power, fitted_peak
    >>> round(float(part_slowdown(1.29, 500.0, 989.4e12, 700.0, 989.4e12)), 3)
    1.443
    """
    by_power = fitted_slowdown * ((fitted_power / fitted_peak) / (power / peak)) ** (1 / 3)
    return np.maximum(by_power, np.minimum(fitted_slowdown, 1.0))


@equation
def narrow_slowdown(sustained: Number, narrow_sustained: Number) -> Number:
    """Slowdown of fp8 or fp4 matrix products by power and clocks, from the assumed slowdown in 16 bits.

    n σ, under 1 only if σ is

    sustained σ: slowdown of products of 16 bits · narrow_sustained n: that of the narrow type over it → slowdown
    Source: training-runs-fit
    Holds: parts with and without a limit on their power; without a slowdown in 16 bits there is none in a narrow type
    Monotone: increasing in sustained, narrow_sustained
    >>> round(float(narrow_slowdown(1.46, 0.85)), 3), float(narrow_slowdown(1.0, 0.85))
    (1.241, 1.0)
    """
    return np.maximum(narrow_sustained * sustained, np.minimum(sustained, 1.0))


@equation
def capped_slowdown(slowdown: Number, clock_share: Number) -> Number:
    """Slowdown of products by power and clocks, under a cap on power.

    σ / f

    slowdown σ: without the cap · clock_share f: clock under the cap over the clock without it → slowdown
    Source: hennessy-2017 §1.5; composition
    Holds: products that run at the limit of power, as those of a training step do; memory and network keep their rates
    Monotone: increasing in slowdown; decreasing in clock_share
    >>> round(capped_slowdown(1.29, (5 / 7) ** (1 / 3)), 3)
    1.443
    """
    return slowdown / clock_share


@equation
def slowest_part(ranks: Number, variation: Number) -> Number:
    """Slowdown of the slowest of many equal parts, for which a common step waits.

    1 + v √(2 ln n)

    ranks n: parts that wait for each other · variation v: standard deviation of their speed → slowdown
    Source: sinha-2022; gumbel-1958; training-runs-fit
    Holds: what alike parts take is spread as a normal variable; from 8 parts on the expected slowest is 0.6 v less at
        any number, which is as if one part were faster
    Pitfall: weak scaling without any communication to wait for is not perfect either
    Monotone: increasing in ranks, variation
    >>> round(float(slowest_part(1024.0, 0.02)), 4)
    1.0745
    """
    return 1 + variation * (2 * np.log(ranks)) ** 0.5
