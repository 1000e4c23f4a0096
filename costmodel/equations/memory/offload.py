"""States and activations on the host or its drives: bytes over the link, and the update there."""

from __future__ import annotations

import numpy as np

from costmodel.equations.kernels.flop import FLOP_PER_MAC
from costmodel.ground.equation import Number, equation


@equation
def link_time(nbytes: Number, link: Number, share: Number) -> Number:
    """Time of bytes over the link to the host, or to its drives, one way.

    S / (η B)

    Args:
        nbytes: bytes of one rank, S [B]
        link: rate of the link, one way, B [B/s]
        share: share of it that large copies reach, η [1]

    Returns:
        time [s]

    Example:
        >>> round(link_time(2.0075e9, 55e9, 1.0), 4)
        0.0365

    Holds:
        large pinned buffers; no other rank on the same link

    Source:
        ren-2021; ml-engineering

    Monotone: increasing in nbytes; decreasing in link, share
    """
    return nbytes / (share * link)


@equation
def paged_bytes(amount: Number, allowance: Number, pageable: Number, page: Number) -> Number:
    """Optimizer states that unified memory keeps on the host, because the device is full.

    min(S, ⌈max(N − U, 0) / p⌉ p)

    Args:
        amount: bytes that a rank needs with all states on the device, N [B]
        allowance: bytes that it may use, U [B]
        pageable: bytes of the states in pages, S [B]
        page: bytes that move at once, p [B]

    Returns:
        bytes [B]

    Example:
        >>> [float(paged_bytes(amount, 24e9, 15e9, 2e6)) for amount in (20e9, 25e9, 50e9)]
        [0.0, 1000000000.0, 15000000000.0]

    Holds:
        pages that a step touches once; what moves in the order of its use evicts no page that is still wanted

    Source:
        dettmers-2023

    Monotone: increasing in amount, pageable; decreasing in allowance
    """
    return np.minimum(pageable, np.ceil(np.maximum(amount - allowance, 0.0) / page) * page)


@equation
def host_update_traffic(parameters: Number, gradient: Number, state: Number, compute: Number) -> Number:
    """Bytes of an optimizer step through the host's memory.

    (g + 2 s + c) Ψ: gradients read, states read and written, the 16-bit copy written

    Args:
        parameters: parameters updated, Ψ [1]
        gradient: bytes of a gradient, g [B]
        state: bytes of master copy and moments, s [B]
        compute: bytes of a weight as the matmuls read it, c [B]

    Returns:
        bytes [B]

    Example:
        >>> host_update_traffic(1.0, 4.0, 12.0, 2.0)
        30.0

    Source:
        ren-2021; composition

    Monotone: increasing in parameters, gradient, state, compute
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

    Args:
        nbytes: bytes of one rank through the host's memory, S [B]
        ranks: accelerators of the node, n [1]
        bandwidth: of all channels of the host's memory, B [B/s]
        share: share of it that the update reaches, η [1]
        parameters: parameters that one rank updates, Ψ [1]
        cores: cores of the host's processors, c [1]
        core_time: in which one core updates a parameter, τ [s]

    Returns:
        time [s]

    Example:
        >>> slow = host_update_time(30 * 1e9, 8.0, 409.6e9, 0.11, 1e9, 128.0, 12e-9)
        >>> round(float(slow), 2), round(8e9 / float(slow) / 1e9, 2)
        (5.33, 1.5)

    Holds:
        vectorised Adam; processes that share all cores without being bound to some of them reach far less than the
        memory gives

    Source:
        ren-2021; composition

    Monotone: increasing in nbytes, ranks, parameters, core_time; decreasing in bandwidth, share, cores
    """
    return np.maximum(ranks * nbytes / (share * bandwidth), ranks * parameters * core_time / cores)


@equation
def offload_intensity(sequence: Number, micro_batch: Number, nbytes: Number) -> Number:
    """FLOP for each byte that a parameter sends over the link in a step of one micro-batch, with full recompute.

    8 s b / S: s b for weights and gradients (8 B), a quarter of it for optimizer states (32 B)

    Args:
        sequence: tokens in a sequence, s [1]
        micro_batch: sequences in a forward pass, b [1]
        nbytes: bytes of a parameter over the link, both ways, S [B]

    Returns:
        intensity [FLOP/B]

    Example:
        >>> offload_intensity(1024.0, 1.0, 8.0), offload_intensity(1024.0, 1.0, 32.0)
        (1024.0, 256.0)

    Holds: 8 FLOP a token and parameter: forward twice, backward twice as much; for reference, no estimate calls it

    Source:
        rajbhandari-2021 §4

    Monotone: increasing in sequence, micro_batch; decreasing in nbytes
    """
    return 4 * FLOP_PER_MAC * sequence * micro_batch / nbytes


@equation
def checkpoint_intensity(hidden: Number, count: Number, element: Number) -> Number:
    """FLOP for each byte of activation checkpoints over the link.

    48 h c / e: 24 h c of 16-bit checkpoints

    Args:
        hidden: width of the residual stream, h [1]
        count: layers for each checkpoint, c [1]
        element: bytes of an element, e [B]

    Returns:
        intensity [FLOP/B]

    Example:
        >>> checkpoint_intensity(8192.0, 1.0, 2.0) / 8192
        24.0

    Holds: layers of 12 h² parameters; for reference, no estimate calls it

    Source:
        rajbhandari-2021 §4

    Monotone: increasing in hidden, count; decreasing in element
    """
    return 24 * FLOP_PER_MAC * hidden * count / element


@equation
def offload_efficiency(intensity: Number, bandwidth: Number, peak: Number) -> Number:
    """Share of the time a rank computes when its bytes over the link hide behind nothing.

    i B / (i B + P)

    Args:
        intensity: FLOP for each byte over the link, i [FLOP/B]
        bandwidth: of the link, for one rank, B [B/s]
        peak: rate the rank would reach without, P [FLOP/s]

    Returns:
        share [1]

    Example:
        >>> round(offload_efficiency(1024.0, 68.36e9, 70e12), 2)
        0.5

    Source:
        rajbhandari-2021 §4

    Holds: for reference, no estimate calls it

    Monotone: increasing in intensity, bandwidth; decreasing in peak
    """
    return intensity * bandwidth / (intensity * bandwidth + peak)
