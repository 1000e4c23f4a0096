"""Copies of routed experts, which even out what the ranks of expert parallelism have to do."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def placed_experts(experts: Number, redundant: Number) -> Number:
    """Experts of a layer that stand on ranks: each of the model's once, and further copies of those in demand.

    E + r

    experts E: routed experts of the model · redundant r: further copies → experts
    Source: deepseek-2024 §3.4; vllm-engine distributed/eplb
    Holds: every rank holds as many, so ep divides them
    Pitfall: copies even the load, they do not shrink it: how far the busiest rank still exceeds the mean is measured
    Monotone: increasing in experts, redundant
    >>> [placed_experts(256.0, 32.0) / ranks for ranks in (32.0, 144.0)]
    [9.0, 2.0]
    """
    return experts + redundant


@equation
def placed_weights(nbytes: Number, experts: Number, placed: Number) -> Number:
    """Bytes of a rank's routed experts with the copies that it holds.

    W E_p / E

    nbytes W [B]: bytes of its part of the model's own experts · experts E: routed experts of the model
    placed E_p: those that stand on ranks, copies counted
    → bytes [B]
    Source: exact
    Monotone: increasing in nbytes, placed; decreasing in experts
    >>> placed_weights(8e9, 256.0, 288.0) / 1e9
    9.0
    """
    return nbytes * placed / experts
