"""Compressed gradients: bytes of each kind of code, what crosses the network, and when it pays."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def quantised_share(element: Number, scale: Number, group: Number, gradient: Number) -> Number:
    """Bytes of gradients in a narrow type over those of the gradients themselves.

    c = (e + s/k) / g: 1/2 for fp16 or bf16 of fp32, 1/4 for int8, 1/32 for one bit, and their scales

    element e [B]: bytes of a compressed element · scale s [B] · group k: elements that share a scale
    gradient g [B]: bytes of a gradient before
    → compressed over raw bytes, c
    Source: tang-2021; composition
    Monotone: increasing in element, scale; decreasing in group, gradient
    >>> quantised_share(1.0, 4.0, 256.0, 4.0), quantised_share(2.0, 0.0, 1.0, 4.0)
    (0.25390625, 0.5)
    """
    return (element + scale / group) / gradient


@equation
def sparse_share(kept_share: Number, element: Number, index: Number, gradient: Number) -> Number:
    """Bytes of the largest gradients with their places over those of all gradients (top-k).

    c = k (e + i) / g

    kept_share k · element e [B]: bytes of one as it is sent · index i [B]: bytes of its place
    gradient g [B]: bytes of a gradient before
    → compressed over raw bytes, c
    Source: lin-2018; composition
    Monotone: increasing in kept_share, element, index; decreasing in gradient
    >>> sparse_share(0.001, 4.0, 4.0, 4.0)
    0.002
    """
    return kept_share * (element + index) / gradient


@equation
def low_rank_share(rank: Number, m: Number, n: Number) -> Number:
    """Bytes of the two thin factors of a matrix of gradients over those of the matrix (PowerSGD).

    c = ρ (m + n) / (m n)

    rank ρ: inner width of the factors · m m: rows of the matrix · n n: columns of it
    → compressed over raw bytes, c; from 1 on the factors are no smaller
    Source: vogels-2019 §3
    Holds: factors in the type of the gradients; two all-reduces, one for each factor; vectors are sent whole
    Monotone: increasing in rank; decreasing in m, n
    >>> low_rank_share(4.0, 4096.0, 4096.0) == 1 / 512
    True
    """
    return rank * (m + n) / (m * n)


@equation
def compressed_wire(message: Number, ranks: Number, compressed_share: Number, *, reducible: bool) -> Number:
    """Bytes that a rank sends to sum compressed gradients.

    2 (n − 1)/n c S where compressed gradients can be added, else (n − 1) c S: every rank gathers those of all others

    message S [B]: bytes of the gradients before · ranks n · compressed_share c: compressed over raw bytes
    reducible: sums of compressed gradients are compressed gradients: narrow types with a common scale, factors
    → bytes sent by a rank [B]
    Source: vogels-2019 §3; composition
    Holds: no estimate calls it
    Pitfall: with sharded gradients most codes do not apply: a reduce-scatter adds on the way; sums of narrow types need
        an all-to-all instead
    Monotone: increasing in message, ranks, compressed_share
    >>> compressed_wire(1e9, 8.0, 0.25, reducible=True), compressed_wire(1e9, 8.0, 0.25, reducible=False)
    (437500000.0, 1750000000.0)
    """
    sent = 2 * (ranks - 1) / ranks if reducible else ranks - 1
    return sent * compressed_share * message


@equation
def largest_gathered_group(compressed_share: Number) -> Number:
    """Ranks beyond which gathering compressed gradients sends more bytes than an all-reduce of the raw ones.

    n = 2 / c

    compressed_share c: compressed over raw bytes → ranks, n
    Source: composition
    Monotone: decreasing in compressed_share
    >>> largest_gathered_group(0.002)
    1000.0
    """
    return 2 / compressed_share


@equation
def break_even_bandwidth(message: Number, ranks: Number, compressed_share: Number, codec: Number) -> Number:
    """Bandwidth of a rank under which compression takes less time than it saves, if no communication is hidden.

    B = 2 (n − 1)/n S (1 − c) / t

    message S [B]: bytes of the gradients before · ranks n · compressed_share c: compressed over raw bytes · codec t [s]
    → bandwidth, B [B/s]
    Source: composition
    Holds: compressed gradients can be added on the way; compressing is not hidden either
    Monotone: increasing in message, ranks; decreasing in compressed_share, codec
    >>> round(break_even_bandwidth(28e9, 64.0, 0.25, 0.04) / 1e9, 1)
    1033.6
    """
    return 2 * (ranks - 1) / ranks * message * (1 - compressed_share) / codec


@equation
def codec_traffic(
    parameters: Number, gradient: Number, passes: Number, feedback: Number, compressed_share: Number, restored: Number
) -> Number:
    """Bytes that compressing gradients and restoring their sum move through the memory of a rank.

    P (k g + 2 f + (1 + n) c g): so many passes over the gradients, what was left out before read and written again,
    the compressed gradients written once and read from n

    parameters P: parameters with a gradient · gradient g [B]: bytes of a gradient before
    passes k: times that the gradients are read or written whole
    feedback f [B]: bytes of a gradient that remember what was left out · compressed_share c: compressed over raw bytes
    restored: compressed gradients that a rank restores, n: 1 where sums travel, else one of each rank
    → bytes [B]
    Source: composition
    Holds: kernels that are bound by memory; a sort or an orthogonalisation takes longer
    Monotone: increasing in parameters, gradient, passes, feedback, compressed_share, restored
    >>> codec_traffic(1e9, 4.0, 2.0, 0.0, 0.5, 1.0) / 1e9
    12.0
    """
    return parameters * (passes * gradient + 2 * feedback + (1 + restored) * compressed_share * gradient)


@equation
def feedback_bytes(parameters: Number, feedback: Number, shared_feedback: Number, ranks: Number) -> Number:
    """Memory of what compression leaves out of a step and adds to the next (error feedback).

    P (f + h / n)

    parameters P: parameters whose gradients a rank compresses
    feedback f [B]: bytes of a gradient that each rank remembers of its own
    shared_feedback h [B]: bytes of a gradient that is remembered of the sum, by the rank that made its part
    ranks n: ranks that sum gradients
    → bytes [B]
    Source: tang-2021; vogels-2019 §3
    Pitfall: it is not sharded, so that it can cost the memory that sharding the optimizer saved
    Monotone: increasing in parameters, feedback, shared_feedback; decreasing in ranks
    >>> feedback_bytes(1e9, 4.0, 4.0, 8.0) / 1e9
    4.5
    """
    return parameters * (feedback + shared_feedback / ranks)
