"""Checkpoints in the memory of other hosts, which some failures spare, and rarer ones in storage."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def two_level_goodput(
    interval: Number,
    blocking: Number,
    restart: Number,
    saves: Number,
    storage_blocking: Number,
    storage_restart: Number,
    background: Number,
    mtbf: Number,
    soft_share: Number,
) -> Number:
    """Useful share of a run that saves to memory often and to storage each k-th time.

    E = k τ (1 − q) (q a + (1 − q) b) / (M D (1/Π − 1)) · e^(−(1 − q) w/M), a = e^(−R₁/M), b = e^(−R₂/M),
    D = 1 − q + q a, Π = ρ(τ + δ₁)^(k − 1) ρ(τ + δ₁ + δ₂), ρ(s) = D e^(−s/M) / (1 − q + q a e^(−s/M))

    interval τ [s]: useful work between two saves to memory · blocking δ₁ [s]: time for which one stops training
    restart R₁ [s]: from an interruption until training continues from memory
    saves k: saves to memory for each one to storage
    storage_blocking δ₂ [s]: time for which one to storage stops training besides
    storage_restart R₂ [s]: from an interruption until training continues from storage
    background [s]: until a checkpoint in storage can be used, w; 0 where training waits for it
    mtbf M [s]: mean time between interruptions of all kinds
    soft_share q: share of them that leaves the copies in memory usable
    → goodput, E
    Source: composition; wang-2023-gemini
    Holds: exponential interruptions that strike work, saves and restarts alike, each of them soft with the same
        probability q < 1; exact for w = 0, and within 0.2 % of runs played out for w > 0
    Pitfall: a copy in one peer's memory survives the loss of one node; a rack or a switch that takes both makes q
        smaller
    Monotone: increasing in mtbf; decreasing in blocking, restart, storage_blocking, storage_restart, background
    >>> round(float(two_level_goodput(120.0, 1.0, 120.0, 30.0, 60.0, 600.0, 0.0, 11134.8, 0.75)), 3)
    0.912
    """
    hard_share = 1 - soft_share
    near, far = np.exp(-restart / mtbf), np.exp(-storage_restart / mtbf)
    back = hard_share + soft_share * near
    segment, last = (interval + blocking) / mtbf, (interval + blocking + storage_blocking) / mtbf
    lost = soft_share * near / back
    log_kept = -segment - np.log1p(lost * np.expm1(-segment))
    log_last = -last - np.log1p(lost * np.expm1(-last))
    log_all = (saves - 1) * log_kept + log_last
    useful = saves * interval / mtbf * hard_share * (soft_share * near + hard_share * far) / back
    return useful * np.exp(log_all - hard_share * background / mtbf) / -np.expm1(log_all)
