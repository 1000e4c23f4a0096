"""Bytes of weights, gradients and optimizer states by precision and sharding stage."""

from __future__ import annotations

from typing import Literal

import numpy as np

from costmodel.ground.counts import Zero
from costmodel.ground.equation import Number, equation


@equation
def weight_bytes(
    parameters: Number, weight: Number, compute: Number, dp: Number, *, zero: Zero, sharded_master: bool
) -> Number:
    """Weights a rank keeps for the whole step.

    zero 3: w Ψ / N; otherwise w Ψ, or w Ψ / N + c Ψ where only the 16-bit copy is whole

    parameters Ψ: parameters of the rank before sharding over dp · weight w [B]
    compute c [B]: bytes of a weight as the matmuls read it · dp N · zero: sharding stage
    sharded_master: the kept weight is the optimizer's, always sharded, and the matmuls read a copy (FSDP)
    → bytes [B]
    Source: rajbhandari-2020 table 1; zhao-2023
    Pitfall: weights are not the states: 70 B are 140 GB in bf16 but 1120 GB to train (16 B a parameter), 17.5 GB a rank
        under zero 3 at N = 64, before activations and gathered layers
    Monotone: increasing in parameters, weight
    >>> weight_bytes(7.5e9, 2.0, 2.0, 64.0, zero=3, sharded_master=False) / 1e9
    0.234375
    """
    if zero == 3:
        return weight * parameters / dp
    if sharded_master and zero > 0:
        return weight * parameters / dp + compute * parameters
    return weight * parameters


@equation
def gradient_bytes(parameters: Number, gradient: Number, dp: Number, *, zero: Zero) -> Number:
    """Gradients a rank keeps until the optimizer step.

    g Ψ, from stage 2 on g Ψ / N

    parameters Ψ: parameters of the rank before sharding over dp · gradient g [B]: bytes of an accumulated gradient
    dp N · zero: sharding stage
    → bytes [B]
    Source: rajbhandari-2020 table 1; megatron-lm dist_optimizer.md
    Holds: Megatron's distributed optimizer keeps the whole buffer and counts as stage 1
    Monotone: increasing in parameters, gradient
    >>> gradient_bytes(7.5e9, 2.0, 64.0, zero=2) / 1e9
    0.234375
    """
    return gradient * parameters / (dp if zero >= 2 else 1.0)


@equation
def gradient_copy_bytes(parameters: Number, gradient: Number, dp: Number, *, of: Literal["all", "shard"]) -> Number:
    """The same gradients in the other width, where the optimizer keeps both.

    all: g Ψ / 2, those of backward in 16 bits beside their fp32 sum; shard: 2 g Ψ / N, in fp32 for the update

    parameters Ψ: parameters of the rank before sharding over dp · gradient g [B]: bytes of an accumulated gradient
    dp N · of
    → bytes [B]
    Source: deepspeed runtime/bf16_optimizer.py, runtime/zero/stage_1_and_2.py
    Monotone: increasing in parameters, gradient
    >>> gradient_copy_bytes(1e9, 4.0, 8.0, of="all") / 1e9, gradient_copy_bytes(1e9, 2.0, 8.0, of="shard") / 1e9
    (2.0, 0.5)
    """
    return gradient * parameters / 2 if of == "all" else 2 * gradient * parameters / dp


@equation
def optimizer_bytes(parameters: Number, master: Number, moments: Number, dp: Number, *, zero: Zero) -> Number:
    """Master weights and moments a rank keeps.

    (w + s) Ψ, from stage 1 on (w + s) Ψ / N

    parameters Ψ: parameters of the rank before sharding over dp
    master [B]: bytes of the master copy, w; 0 where the kept weight is it
    moments s [B]: bytes of the optimizer's states for a parameter · dp N · zero: sharding stage
    → bytes [B]
    Source: rajbhandari-2020 table 1
    Pitfall: "zero 1 saves 4×, zero 2 8×" are limits at N → ∞ of 2 + 2 + 12 bytes: 3.82× and 7.21× at N = 64, 2.91× and
        4.27× at N = 8; with fp32 gradients (2 + 4 + 12) zero 1 never reaches 3×
    Monotone: increasing in parameters, master, moments
    >>> optimizer_bytes(7.5e9, 4.0, 8.0, 64.0, zero=1) / 1e9
    1.40625
    """
    return (master + moments) * parameters / (dp if zero >= 1 else 1.0)


@equation
def gathered_bytes(unit: Number, compute: Number, gradient: Number, prefetch: Number) -> Number:
    """Unsharded units in flight under stage 3: weights in use and prefetched, gradients being reduced.

    (1 + q) c P + 2 g P

    unit P: parameters of one unit · compute c [B]: bytes of a gathered weight
    gradient g [B]: bytes of a gradient on the wire · prefetch q: units gathered ahead
    → bytes [B]
    Source: zhao-2023; torchtitan fsdp.md
    Monotone: increasing in unit, compute, gradient, prefetch
    >>> gathered_bytes(855654400.0, 2.0, 2.0, 1.0) / 1e9
    6.8452352
    """
    return (1 + prefetch) * compute * unit + 2 * gradient * unit


@equation
def matrices_bytes(unit: Number, matrix: Number, compute: Number, gradient: Number) -> Number:
    """Bytes of unsharded weights under ZeRO 3 without prefetch, with the gradient of the largest of them.

    c P + g M

    unit P: parameters that are whole at a time · matrix M · compute c [B]: bytes of a gathered weight
    gradient g [B]: bytes of a gradient on the wire
    → bytes [B]
    Source: deepspeed
    Pitfall: the copy that is reduced is counted apart: in its bucket, or on one rank as the gradient that is kept
    Monotone: increasing in unit, matrix, compute, gradient
    >>> matrices_bytes(1677721600.0, 1677721600.0, 2.0, 2.0) / 1e9
    6.7108864
    """
    return compute * unit + gradient * matrix


@equation
def gradient_traffic(parameters: Number, gradient: Number) -> Number:
    """Gradients handed to the network once, as one buffer.

    g Ψ

    parameters Ψ: parameters of the rank before sharding over dp · gradient g [B]: bytes of a gradient on the wire
    → buffer [B]
    Source: li-2020; rajbhandari-2020 §7
    Pitfall: "DDP 2×, FSDP 3× the model" is bytes sent a rank, times (N − 1)/N, of bf16 weights and gradients in one
        micro-batch; fp32 gradients make both 8 bytes a parameter, more micro-batches repeat FSDP's gathers
    Monotone: increasing in parameters, gradient
    >>> gradient_traffic(8.03e9, 2.0)
    16060000000.0
    """
    return gradient * parameters


@equation
def update_bytes(updated: Number, step_gradient: Number, roots: Number, root: Number, of_backward: Number) -> Number:
    """Temporary bytes of the optimizer's step, beyond those of backward, which are freed by then.

    max((g + n r) Ψ − A, 0)

    updated Ψ: parameters that the rank updates · step_gradient g [B]: bytes of the gradient that the step makes of each
    roots n: tensors as large as the root of the second moment that it holds of all · root r [B]: bytes of that root
    of_backward A [B]: activations, logits and gathered weights of backward
    → bytes [B]
    Source: internevo hybrid_zero_optim.py, fsdp_optimizer.py; torch-2.0 optim/adamw.py
    Pitfall: a step that is fused works in place; one by lists of tensors holds the root for all of them
    Monotone: increasing in updated, step_gradient, roots, root; decreasing in of_backward
    >>> round(float(update_bytes(1.8e9, 4.0, 2.0, 4.0, 4e9)) / 1e9, 1)
    17.6
    """
    return np.maximum((step_gradient + roots * root) * updated - of_backward, 0.0)


@equation
def overhead_bytes(context: Number, communicators: Number, communicator: Number) -> Number:
    """Memory that no tensor holds: driver context, libraries, communicators.

    context + n × communicator

    context [B] · communicators n: communicators a rank opens · communicator [B]: buffers of one
    → bytes outside the caching allocator [B]
    Source: ml-engineering; aiconfigurator
    Monotone: increasing in context, communicators, communicator
    >>> overhead_bytes(2.0**30, 4.0, 4e8) / 2**30
    2.4901161193847656
    """
    return context + communicators * communicator


@equation
def reserved_bytes(allocated: Number, fragmentation: Number) -> Number:
    """Bytes that the caching allocator reserves beyond those that tensors use.

    φ × allocated

    allocated [B]: bytes tensors use at the peak · fragmentation φ: share held back → bytes [B]
    Source: composition
    Monotone: increasing in allocated, fragmentation
    >>> reserved_bytes(40e9, 0.05)
    2000000000.0
    """
    return fragmentation * allocated


# --- States of an optimizer that keeps those of matrices in a subspace of low rank.


@equation
def projected_state_bytes(rank: Number, n: Number, k: Number, moments: Number, element: Number) -> Number:
    """States of a weight matrix whose gradient is projected on a subspace of its short side, with the basis of it.

    r (s max(n, k) + e min(n, k)), where a rank over the short side counts as that

    rank r: rank of the subspace · n: outputs of the matrix · k: inputs of it
    moments s [B]: bytes of the optimizer's states for an element of the projected gradient
    element e [B]: bytes of an element of the basis
    → bytes [B]
    Source: zhao-2024 table 1
    Pitfall: embedding, head and norms are not projected; where they are large, little is spared
    Monotone: increasing in rank, n, k, moments, element
    >>> round(float(projected_state_bytes(512.0, 2048.0, 5461.0, 4.0, 2.0)) / (4.0 * 2048 * 5461), 3)
    0.297
    """
    short = np.minimum(n, k)
    return np.minimum(rank, short) * (moments * np.maximum(n, k) + element * short)


@equation
def mean_state_bytes(projected: Number, unprojected: Number, kept: Number, moments: Number) -> Number:
    """States for a parameter, in the mean over a model of whose matrices some are projected.

    (K + s Ψ_r) / (Ψ_p + Ψ_r)

    projected Ψ_p: parameters of projected matrices · unprojected Ψ_r: all other parameters
    kept K [B]: states of these with their bases
    moments s [B]: bytes of the states of a parameter that is not projected
    → bytes [B]
    Source: exact
    Monotone: increasing in kept, moments
    >>> mean_state_bytes(7e9, 1e9, 4e9, 4.0)
    1.0
    """
    return (kept + moments * unprojected) / (projected + unprojected)
