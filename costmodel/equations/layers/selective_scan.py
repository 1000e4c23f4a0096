"""A Mamba-1 mixer: parameters, work, time, bytes."""

from __future__ import annotations

import numpy as np

from costmodel.equations.kernels.flop import FLOP_PER_MAC
from costmodel.ground.equation import Number, equation

EXPONENTIAL = 8.0  # multiply-adds in the time of one: 16 a clock beside 128 of them [cuda-guide]
SPAN = 2048.0  # tokens after which the kernel writes a state down [mamba]


@equation
def selective_scan_parameters(
    hidden: Number, inner: Number, state_size: Number, rank: Number, conv: Number, *, normalised: bool, biases: bool
) -> Number:
    """Parameters of a Mamba-1 mixer.

    3 h d + d (c + 1) + d (r + 2 n) + r d + d + d n + d; with norms r + 2 n more, with biases 2 d + h

    hidden h · inner d: channels of a rank · state_size n · rank r: width of the compressed steps · conv c
    normalised: steps, inputs and outputs of the state are normalised
    biases: the projections into the mixer and out of it have biases
    → parameters
    Source: gu-2023 §3.4; lieber-2024
    Monotone: increasing in hidden, inner, state_size, rank, conv
    >>> selective_scan_parameters(4096.0, 8192.0, 16.0, 256.0, 4.0, normalised=True, biases=False)
    105308448.0
    """
    made = rank + 2 * state_size
    found = 3 * hidden * inner + inner * (conv + 1) + inner * made + rank * inner + inner * state_size + 2 * inner
    return found + (made if normalised else 0.0) + (2 * inner + hidden if biases else 0.0)


@equation
def selective_scan_flop(tokens: Number, inner: Number, state_size: Number, conv: Number) -> Number:
    """Work of a Mamba-1 core, forward: convolution, scan, and the inputs passed by.

    per token 7 d n + 2 c d + 3 d: of each state a decay (a product, an exponential), what comes in, what is kept, what
    goes out

    tokens: tokens · inner d: channels of a rank · state_size n · conv c → work [FLOP]
    Source: gu-2023 §3.3; count of operations
    Monotone: increasing in tokens, inner, state_size, conv
    >>> selective_scan_flop(1.0, 8192.0, 16.0, 4.0)
    1007616.0
    """
    return FLOP_PER_MAC * tokens * inner * (3.5 * state_size + conv + 1.5)


@equation
def selective_scan_time(flop: Number, exponentials: Number, attainable: Number) -> Number:
    """Time of a scan on vector units, which share nothing with the matrix units.

    max(F, 16 E) / R: exponentials have units of their own

    flop F [FLOP] · exponentials E: exponentials in it · attainable R [FLOP/s]: rate of the vector units → time [s]
    Source: gu-2023 §3.3; cuda-guide
    Holds: a kernel that keeps states in registers; not fitted to measurements
    Monotone: increasing in flop, exponentials; decreasing in attainable
    >>> round(float(1e9 * selective_scan_time(1007616.0, 131072.0, 67e12)), 1)
    31.3
    """
    return np.maximum(flop, FLOP_PER_MAC * EXPONENTIAL * exponentials) / attainable


@equation
def selective_scan_traffic(
    tokens: Number,
    inner: Number,
    state_size: Number,
    rank: Number,
    element: Number,
    *,
    normalised: bool,
    backward: bool,
) -> Number:
    """Bytes of a Mamba-1 core through memory: the convolution, the scan with its gate, and norms.

    forward e (6 d + 2 n) per token, with norms 2 e (r + 2 n) more; backward twice that

    tokens: tokens · inner d: channels of a rank · state_size n · rank r: width of the compressed steps · element e [B]
    normalised: steps, inputs and outputs of the state are normalised · backward: the backward pass
    → bytes through memory [B]
    Source: count of reads and writes
    Monotone: increasing in tokens, inner, state_size, rank, element
    >>> selective_scan_traffic(1.0, 8192.0, 16.0, 256.0, 2.0, normalised=True, backward=False)
    99520.0
    """
    moved = 6 * inner + 2 * state_size + (2 * (rank + 2 * state_size) if normalised else 0.0)
    return (2.0 if backward else 1.0) * element * tokens * moved


@equation
def selective_scan_activations(
    tokens: Number, inner: Number, state_size: Number, rank: Number, element: Number, *, normalised: bool
) -> Number:
    """What a Mamba-1 mixer keeps: its projected input, steps and matrices of the state, and results of the scan.

    e (3 d + r + 4 n) per token in one function, which makes convolution, steps and gated result again; with norms in
    it they are functions apart, which keep e (8 d + 2 r + 4 n), the convolved input both by token and by channel and
    a copy of the gate; and 2 n d in fp32, or 4 e n d, every 2048 tokens

    tokens: tokens of a micro-batch · inner d: channels of a rank · state_size n · rank r: width of the compressed steps
    element e [B] · normalised: steps, inputs and outputs of the state are normalised
    → bytes a layer keeps [B]
    Source: mamba selective_scan_interface.py, MambaInnerFn and SelectiveScanFn; count of tensors
    Monotone: increasing in tokens, inner, state_size, rank, element
    >>> selective_scan_activations(2048.0, 8192.0, 16.0, 256.0, 2.0, normalised=True) / 2048
    132736.0
    """
    wide = 8 * inner + 2 * rank if normalised else 3 * inner + rank
    return element * tokens * (wide + 4 * state_size + 4 * state_size * inner / SPAN)
