"""Speculative decoding: tokens of a verification, what it costs, where it stops to pay."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def accepted_tokens(acceptance: Number, draft_tokens: Number) -> Number:
    """Tokens of a step that verifies drafted ones: those that are accepted, and one more.

    (1 − a^(g + 1)) / (1 − a), g + 1 at a = 1

    acceptance a · draft_tokens g → tokens
    Source: leviathan-2023 eq. 1
    Holds: drafts that are accepted independently of each other
    Monotone: increasing in acceptance, draft_tokens
    >>> round(float(accepted_tokens(0.8, 4.0)), 2), float(accepted_tokens(1.0, 4.0))
    (3.36, 5.0)
    """
    sure = acceptance >= 1
    missed = np.where(sure, 1.0, 1 - acceptance)
    return np.where(sure, draft_tokens + 1, (1 - acceptance ** (draft_tokens + 1)) / missed)


@equation
def dense_verify_ratio(concurrency: Number, draft_tokens: Number, compute_bound_batch: Number) -> Number:
    """Ratio of the time of a step that verifies drafts to that of a plain step, for dense matrix products.

    max(1, b (g + 1) / B) / max(1, b / B)

    concurrency b: sequences of a step · draft_tokens g: tokens drafted for each
    compute_bound_batch B: tokens from which products take longer to compute than to read
    → ratio
    Source: leviathan-2023 §3; williams-2009
    Holds: dense models; a mixture's is the ratio of bytes read, for more tokens touch more experts even at batch 1; no
        estimate calls it
    Monotone: increasing in concurrency, draft_tokens; decreasing in compute_bound_batch
    >>> [round(float(dense_verify_ratio(batch, 4.0, 295.3)), 2) for batch in (16.0, 64.0, 256.0)]
    [1.0, 1.08, 4.33]
    """
    verified = np.maximum(1.0, concurrency * (draft_tokens + 1) / compute_bound_batch)
    return verified / np.maximum(1.0, concurrency / compute_bound_batch)


@equation
def speculation_speedup(accepted: Number, verify_ratio: Number, draft_tokens: Number, draft_cost: Number) -> Number:
    """Speed of decoding with drafts over that without; under 1 it is slower.

    E / (r + g c)

    accepted E: tokens of a step that verifies · verify_ratio r: ratio of a step that verifies to a plain one, in time
    draft_tokens g · draft_cost: ratio of the time to draft one token to a plain step, c; 0 where r holds the drafts too
    → speed-up
    Source: leviathan-2023 theorem 3.8
    Pitfall: the speed-up of batch 1 is none of a busy engine's; and mixtures gain least at batch 1, where two tokens
        read half as many bytes again as one
    Monotone: increasing in accepted; decreasing in verify_ratio, draft_tokens, draft_cost
    >>> [round(speculation_speedup(3.3616, ratio, 4.0, 0.05), 2) for ratio in (1.0, 4.33)]
    [2.8, 0.74]
    """
    return accepted / (verify_ratio + draft_tokens * draft_cost)
