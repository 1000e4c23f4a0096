"""States and activations on the host or its drives: bytes over the link, and the update there."""

from __future__ import annotations

import numpy as np

from costmodel.equations.kernels.flop import FLOP_PER_MAC
from costmodel.ground.equation import Number, equation


@equation
def link_time(nbytes: Number, link: Number, share: Number) -> Number:
    """Time of bytes over the link to the host, or to its drives, one way.

    S / (η B)

    nbytes S [B]: bytes of one rank · link B [B/s]: rate of the link, one way
    share η: share of it that large copies reach
    → time [s]
    Source: ren-2021; ml-engineering
    Holds: large pinned buffers; no other rank on the same link
    Monotone: increasing in nbytes; decreasing in link, share
    >>> round(link_time(2.0075e9, 55e9, 1.0), 4)
    0.0365
    """
    return nbytes / (share * link)


@equation
def paged_bytes(amount: Number, allowance: Number, pageable: Number, page: Number) -> Number:
    """Optimizer states that unified memory keeps on the host, because the device is full.

    min(S, ⌈max(N − U, 0) / p⌉ p)

    amount N [B]: bytes that a rank needs with all states on the device · allowance U [B]: bytes that it may use
    pageable S [B]: bytes of the states in pages · page p [B]: bytes that move at once
    → bytes [B]
    Source: dettmers-2023
    Holds: pages that a step touches once; what moves in the order of its use evicts no page that is still wanted
    Monotone: increasing in amount, pageable; decreasing in allowance
    >>> [float(paged_bytes(amount, 24e9, 15e9, 2e6)) for amount in (20e9, 25e9, 50e9)]
    [0.0, 1000000000.0, 15000000000.0]
    """
    return np.minimum(pageable, np.ceil(np.maximum(amount - allowance, 0.0) / page) * page)


@equation
def pinned_bytes(amount: Number) -> Number:
    """Host memory that buffers in pinned memory take, each rounded up to a power of two.

    S / ln 2: the mean over sizes that are spread evenly on the scale of logarithms; of one buffer S to 2 S

    amount S [B]: bytes of all buffers → bytes [B]
    Source: pytorch-host-allocator CachingHostAllocator.h PowerOf2Ceil
    Monotone: increasing in amount
    >>> round(float(pinned_bytes(100.0)), 1)
    144.3
    """
    return amount / float(np.log(2))


@equation
def host_update_traffic(parameters: Number, gradient: Number, state: Number, compute: Number) -> Number:
    """Bytes of an optimizer step through the host's memory.

    (g + 2 s + c) Ψ: gradients read, states read and written, the 16-bit copy written

    parameters Ψ: parameters updated · gradient g [B] · state s [B]: bytes of master copy and moments
    compute c [B]: bytes of a weight as the matmuls read it
    → bytes [B]
    Source: ren-2021; composition
    Monotone: increasing in parameters, gradient, state, compute
    >>> host_update_traffic(1.0, 4.0, 12.0, 2.0)
    30.0
    """
    return (gradient + 2 * state + compute) * parameters


@equation
def host_update_time(
    nbytes: Number,
    ranks: Number,
    bandwidth: Number,
    share: Number,
    parameters: Number,
    cores: Number,
    core_time: Number,
) -> Number:
    """Time of the optimizer step of all ranks of a node on their one host: bound by its memory or by its cores.

    max(n S / (η B), n Ψ τ / c)

    nbytes S [B]: bytes of one rank through the host's memory · ranks n: accelerators of the node
    bandwidth B [B/s]: of all channels of the host's memory · share η: share of it that the update reaches
    parameters Ψ: parameters that one rank updates · cores c: cores of the host's processors
    core_time τ [s]: in which one core updates a parameter
    → time [s]
    Source: ren-2021; composition
    Holds: vectorised Adam; processes that share all cores without being bound to some of them reach far less than the
        memory gives
    Monotone: increasing in nbytes, ranks, parameters, core_time; decreasing in bandwidth, share, cores
    >>> slow = host_update_time(30 * 1e9, 8.0, 409.6e9, 0.11, 1e9, 128.0, 12e-9)
    >>> round(float(slow), 2), round(8e9 / float(slow) / 1e9, 2)
    (5.33, 1.5)
    """
    return np.maximum(ranks * nbytes / (share * bandwidth), ranks * parameters * core_time / cores)


@equation
def offload_intensity(sequence: Number, micro_batch: Number, nbytes: Number) -> Number:
    """FLOP for each byte that a parameter sends over the link in a step of one micro-batch, with full recompute.

    8 s b / S: s b for weights and gradients (8 B), a quarter of it for optimizer states (32 B)

    sequence s · micro_batch b · nbytes S [B]: bytes of a parameter over the link, both ways → intensity [FLOP/B]
    Source: rajbhandari-2021 §4
    Holds: 8 FLOP a token and parameter: forward twice, backward twice as much; for reference, no estimate calls it
    Monotone: increasing in sequence, micro_batch; decreasing in nbytes
    >>> offload_intensity(1024.0, 1.0, 8.0), offload_intensity(1024.0, 1.0, 32.0)
    (1024.0, 256.0)
    """
    return 4 * FLOP_PER_MAC * sequence * micro_batch / nbytes


@equation
def checkpoint_intensity(hidden: Number, count: Number, element: Number) -> Number:
    """FLOP for each byte of activation checkpoints over the link.

    48 h c / e: 24 h c of 16-bit checkpoints

    hidden h · count c: layers for each checkpoint · element e [B] → intensity [FLOP/B]
    Source: rajbhandari-2021 §4
    Holds: layers of 12 h² parameters; for reference, no estimate calls it
    Monotone: increasing in hidden, count; decreasing in element
    >>> checkpoint_intensity(8192.0, 1.0, 2.0) / 8192
    24.0
    """
    return 24 * FLOP_PER_MAC * hidden * count / element


@equation
def offload_efficiency(intensity: Number, bandwidth: Number, peak: Number) -> Number:
    """Share of the time a rank computes when its bytes over the link hide behind nothing.

    i B / (i B + P)

    intensity i [FLOP/B]: FLOP for each byte over the link · bandwidth B [B/s]: of the link, for one rank
    peak P [FLOP/s]: rate the rank would reach without
    → share
    Source: rajbhandari-2021 §4
    Holds: for reference, no estimate calls it
    Monotone: increasing in intensity, bandwidth; decreasing in peak
    >>> round(offload_efficiency(1024.0, 68.36e9, 70e12), 2)
    0.5
    """
    return intensity * bandwidth / (intensity * bandwidth + peak)
