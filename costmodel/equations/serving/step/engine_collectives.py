"""Communication of an engine's step: its own all-reduce, and what a prompt takes from the stages of a pipeline."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def engine_all_reduce_time(
    message: Number, ranks: Number, start: Number, hop: Number, bandwidth: Number, shot: Number
) -> Number:
    """Time of an engine's own all-reduce: each rank reads all buffers whole, or reduces its share and gathers the rest.

    a₀ + a₁ (n − 1) + min((n − 1) S, 2 (n − 1)/n S + S₀) / B; nothing for a group of one

    message S [B]: the full buffer · ranks n · start a₀ [s]: of a call · hop a₁ [s]: for each further rank
    bandwidth B [B/s]: that large messages reach · shot S₀ [B]: what the second step of the longer way costs, as bytes
    → time [s]
    Source: vllm-engine csrc/custom_all_reduce.cuh; kernel-fit
    Holds: messages up to some MB inside one NVLink domain; else engines call NCCL
    Pitfall: a ring with the fixed time of training makes decode twice as slow as it is
    Monotone: increasing in message, ranks, start, hop, shot; decreasing in bandwidth
    >>> fitted = (8.0, 4.15e-6, 0.11e-6, 263e9, 0.32e6)
    >>> [round(float(engine_all_reduce_time(message, *fitted)) * 1e6, 1) for message in (16384.0, 2.0**20)]
    [5.4, 13.1]
    """
    peers = ranks - 1
    moved = np.minimum(peers * message, 2 * peers / ranks * message + shot)
    return np.where(ranks > 1, start + hop * peers + moved / bandwidth, 0.0)


@equation
def pipelined_prompt_share(pp: Number, mixed_share: Number) -> Number:
    """Time by which a prompt delays each token of a pipeline, over what it takes in all stages.

    (1 − (1 − φ)^p) / (p φ): stages move in step, so that one micro-batch with a prompt holds up all of them; where
    every one has a prompt each delays the others by its own stage alone, 1/p

    pp p: pipeline stages, with a micro-batch in each · mixed_share φ: share of micro-batches that carry prompts → share
    Source: composition
    Holds: prompts of one length, spread over micro-batches at random; tokens of decode take little beside them
    Pitfall: a pipeline is no cure for prompts between tokens: until prompts fill it, each of them delays all users as
        it would on one device
    Monotone: decreasing in pp, mixed_share
    >>> [round(float(pipelined_prompt_share(4.0, share)), 3) for share in (1e-6, 0.5, 1.0)]
    [1.0, 0.469, 0.25]
    """
    busy = np.maximum(mixed_share, 1e-9)
    return (1 - (1 - busy) ** pp) / (pp * busy)
