"""Compressed gradients: bytes of each kind of code, what crosses the network, and when it pays."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def quantised_share(element: Number, scale: Number, group: Number, gradient: Number) -> Number:
    """Bytes of gradients in a narrow type over those of the gradients themselves.

    c = (e + s/k) / g: 1/2 for fp16 or bf16 of fp32, 1/4 for int8, 1/32 for one bit, and their scales

    Args:
        element: bytes of a compressed element, e [B]
        scale: bytes of a scale, s [B]
        group: elements that share a scale, k [1]
        gradient: bytes of a gradient before, g [B]

    Returns:
        compressed over raw bytes, c [1]

    Example:
        >>> quantised_share(1.0, 4.0, 256.0, 4.0), quantised_share(2.0, 0.0, 1.0, 4.0)
        (0.25390625, 0.5)

    Source:
        tang-2021; composition

    Monotone: increasing in element, scale; decreasing in group, gradient
    """
    return (element + scale / group) / gradient


@equation
def sparse_share(kept_share: Number, element: Number, index: Number, gradient: Number) -> Number:
    """Bytes of the largest gradients with their places over those of all gradients (top-k).

    c = k (e + i) / g

    Args:
        kept_share: share of the gradients that is sent, k [1]
        element: bytes of one as it is sent, e [B]
        index: bytes of its place, i [B]
        gradient: bytes of a gradient before, g [B]

    Returns:
        compressed over raw bytes, c [1]

    Example:
        >>> sparse_share(0.001, 4.0, 4.0, 4.0)
        0.002

    Source:
        lin-2018; composition

    Monotone: increasing in kept_share, element, index; decreasing in gradient
    """
    return kept_share * (element + index) / gradient


@equation
def low_rank_share(rank: Number, m: Number, n: Number) -> Number:
    """Bytes of the two thin factors of a matrix of gradients over those of the matrix (PowerSGD).

    c = ρ (m + n) / (m n)

    Args:
        rank: inner width of the factors, ρ [1]
        m: rows of the matrix, m [1]
        n: columns of it, n [1]

    Returns:
        compressed over raw bytes, c; from 1 on the factors are no smaller [1]

    Example:
        >>> low_rank_share(4.0, 4096.0, 4096.0) == 1 / 512
        True

    Holds: factors in the type of the gradients; two all-reduces, one for each factor; vectors are sent whole

    Source:
        vogels-2019 §3

    Monotone: increasing in rank; decreasing in m, n
    """
    return rank * (m + n) / (m * n)


@equation
def warmed_up_share(warm_up_share: Number, compressed_share: Number) -> Number:
    """Bytes over a whole run that compresses only after a warm-up, over those without compression.

    u + (1 − u) c

    Args:
        warm_up_share: share of the steps before compression begins, u [1]
        compressed_share: compressed over raw bytes, c [1]

    Returns:
        bytes over bytes [1]

    Example:
        >>> round(1 / warmed_up_share(0.15, 1 / 16), 2)
        4.92

    Holds: no estimate calls it

    Source:
        tang-2021; composition

    Monotone: increasing in warm_up_share, compressed_share
    """
    return warm_up_share + (1 - warm_up_share) * compressed_share


@equation
def compressed_wire(message: Number, ranks: Number, compressed_share: Number, *, reducible: bool) -> Number:
    """Bytes that a rank sends to sum compressed gradients.

    2 (n − 1)/n c S where compressed gradients can be added, else (n − 1) c S: every rank gathers those of all others

    Args:
        message: bytes of the gradients before, S [B]
        ranks: ranks in the group, n [1]
        compressed_share: compressed over raw bytes, c [1]
        reducible: sums of compressed gradients are compressed gradients: narrow types with a common scale, factors

    Returns:
        bytes sent by a rank [B]

    Example:
        >>> compressed_wire(1e9, 8.0, 0.25, reducible=True), compressed_wire(1e9, 8.0, 0.25, reducible=False)
        (437500000.0, 1750000000.0)

    Holds: no estimate calls it

    Source:
        vogels-2019 §3; composition

    Pitfall:
        with sharded gradients most codes do not apply: a reduce-scatter adds on the way; sums of narrow types need an
        all-to-all instead

    Monotone: increasing in message, ranks, compressed_share
    """
    sent = 2 * (ranks - 1) / ranks if reducible else ranks - 1
    return sent * compressed_share * message


@equation
def largest_gathered_group(compressed_share: Number) -> Number:
    """Ranks beyond which gathering compressed gradients sends more bytes than an all-reduce of the raw ones.

    n = 2 / c

    Args:
        compressed_share: compressed over raw bytes, c [1]

    Returns:
        ranks, n [1]

    Example:
        >>> largest_gathered_group(0.002)
        1000.0

    Source:
        composition

    Monotone: decreasing in compressed_share
    """
    return 2 / compressed_share


@equation
def break_even_bandwidth(message: Number, ranks: Number, compressed_share: Number, codec: Number) -> Number:
    """Bandwidth of a rank under which compression takes less time than it saves, if no communication is hidden.

    B = 2 (n − 1)/n S (1 − c) / t

    Args:
        message: bytes of the gradients before, S [B]
        ranks: ranks in the group, n [1]
        compressed_share: compressed over raw bytes, c [1]
        codec: time to compress and decompress, t [s]

    Returns:
        bandwidth, B [B/s]

    Example:
        >>> round(break_even_bandwidth(28e9, 64.0, 0.25, 0.04) / 1e9, 1)
        1033.6

    Holds: compressed gradients can be added on the way; compressing is not hidden either

    Source:
        composition

    Monotone: increasing in message, ranks; decreasing in compressed_share, codec
    """
    return 2 * (ranks - 1) / ranks * message * (1 - compressed_share) / codec


@equation
def compression_saving(exposed: Number, communication: Number, compressed: Number, codec: Number) -> Number:
    """Time of a step that compression saves; negative where it costs time.

    min(X, N − N′) − t

    Args:
        exposed: communication that is not hidden without compression, X [s]
        communication: time of the communication without it, N [s]
        compressed: time of it with compression, N′ [s]
        codec: time to compress and decompress, t [s]

    Returns:
        time [s]

    Example:
        >>> round(float(compression_saving(0.05, 0.4, 0.1, 0.04)), 3)
        0.01

    Holds: what is hidden stays hidden; compressing is not hidden; no estimate calls it

    Source:
        composition

    Pitfall:
        "no speed-up" is what users report where little was exposed to begin with, or where the number of messages and
        not their size sets the time

    Monotone: increasing in exposed, communication; decreasing in compressed, codec
    """
    return np.minimum(exposed, communication - compressed) - codec


@equation
def codec_traffic(
    parameters: Number, gradient: Number, passes: Number, feedback: Number, compressed_share: Number, restored: Number
) -> Number:
    """Bytes that compressing gradients and restoring their sum move through the memory of a rank.

    P (k g + 2 f + (1 + n) c g): so many passes over the gradients, what was left out before read and written again,
    the compressed gradients written once and read from n

    Args:
        parameters: parameters with a gradient, P [1]
        gradient: bytes of a gradient before, g [B]
        passes: times that the gradients are read or written whole, k [1]
        feedback: bytes of a gradient that remember what was left out, f [B]
        compressed_share: compressed over raw bytes, c [1]
        restored: compressed gradients that a rank restores, n: 1 where sums travel, else one of each rank [1]

    Returns:
        bytes [B]

    Example:
        >>> codec_traffic(1e9, 4.0, 2.0, 0.0, 0.5, 1.0) / 1e9
        12.0

    Holds: kernels that are bound by memory; a sort or an orthogonalisation takes longer

    Source:
        composition

    Monotone: increasing in parameters, gradient, passes, feedback, compressed_share, restored
    """
    return parameters * (passes * gradient + 2 * feedback + (1 + restored) * compressed_share * gradient)


@equation
def feedback_bytes(parameters: Number, feedback: Number, shared_feedback: Number, ranks: Number) -> Number:
    """Memory of what compression leaves out of a step and adds to the next (error feedback).

    P (f + h / n)

    Args:
        parameters: parameters whose gradients a rank compresses, P [1]
        feedback: bytes of a gradient that each rank remembers of its own, f [B]
        shared_feedback: bytes of a gradient that is remembered of the sum, by the rank that made its part, h [B]
        ranks: ranks that sum gradients, n [1]

    Returns:
        bytes [B]

    Example:
        >>> feedback_bytes(1e9, 4.0, 4.0, 8.0) / 1e9
        4.5

    Source:
        tang-2021; vogels-2019 §3

    Pitfall:
        it is not sharded, so that it can cost the memory that sharding the optimizer saved

    Monotone: increasing in parameters, feedback, shared_feedback; decreasing in ranks
    """
    return parameters * (feedback + shared_feedback / ranks)
