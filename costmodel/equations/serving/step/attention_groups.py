"""Attention groups, each with requests of its own: a step lasts as long as the busiest of them takes."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def busiest_group_sequences(sequences: Number, groups: Number) -> Number:
    """Sequences of the attention group that has the most of them.

    ⌈b / d⌉ of whole b; between two whole numbers, on the line between them

    sequences b: sequences of all groups · groups d: attention groups → sequences
    Source: vllm-engine v1/engine/core_client.py; exact
    Holds: each request goes to the group with the fewest
    Pitfall: other groups wait, so one user takes one of them and d − 1 compute nothing
    Monotone: increasing in sequences; decreasing in groups
    >>> [float(busiest_group_sequences(many, 8.0)) for many in (1.0, 8.0, 8.5, 64.0)]
    [1.0, 1.0, 1.5, 8.0]
    """
    whole = np.floor(sequences)
    below, above = np.ceil(whole / groups), np.ceil((whole + 1.0) / groups)
    return np.where(groups > 1, below + (sequences - whole) * (above - below), sequences)


@equation
def busiest_group_prompts(prompts: Number, groups: Number) -> Number:
    """Prompts of a step that the busiest attention group computes, where prompts arrive at random.

    min(x, max(1, x/d + (1 − 1/d)/2 · (1 + e^(−2(x − 1))))): x at a time on average, one at least, spread evenly

    prompts x: prompts of all groups in a step that has any · groups d: attention groups → prompts
    Source: tensorrt-llm docs/blogs/tech_blog/blog10_ADP_Balance_Strategy; composition
    Holds: each request goes to the group with the fewest; the mean of ⌈n/d⌉ over a Poisson number n of prompts, given
        one, is met within 9 %
    Pitfall: one prompt lies on one group: of its time d groups save nothing
    Monotone: increasing in prompts
    >>> [round(float(busiest_group_prompts(many, 8.0)), 2) for many in (0.5, 1.0, 4.0, 16.0)]
    [0.5, 1.0, 1.0, 2.44]
    """
    spread = (1.0 - 1.0 / groups) / 2.0 * (1.0 + np.exp(-2.0 * np.maximum(prompts - 1.0, 0.0)))
    return np.minimum(prompts, np.maximum(prompts / groups + spread, 1.0))


@equation
def prompts_of_a_step_with_any(prompts: Number) -> Number:
    """Prompts of a step that carries any, where they arrive at random.

    x = p / (1 − e^(−p))

    prompts p: prompts of a step on average → prompts, one at least
    Source: exact
    Monotone: increasing in prompts
    >>> [round(float(prompts_of_a_step_with_any(mean)), 3) for mean in (0.0, 0.1, 1.0, 8.0)]
    [1.0, 1.051, 1.582, 8.003]
    """
    few = np.maximum(prompts, 1e-9)
    return few / -np.expm1(-few)


@equation
def prompts_gathered(prompts: Number, groups: Number, wait_steps: Number) -> Number:
    """Prompts that begin in one step, where the engine waits until every attention group has one.

    max(min(d, 1 + p w), p): as many as groups, where they arrive within the wait

    prompts p: prompts of a step on average · groups d: attention groups
    wait_steps w: steps that the first of them waits at most
    → prompts
    Source: tensorrt-llm docs/blogs/tech_blog/blog10_ADP_Balance_Strategy; composition
    Monotone: increasing in prompts, wait_steps
    >>> [float(prompts_gathered(mean, 8.0, 50.0)) for mean in (0.01, 0.5, 16.0)]
    [1.5, 8.0, 16.0]
    """
    return np.maximum(np.minimum(groups, 1.0 + prompts * wait_steps), prompts)


@equation
def gathering_steps(prompts: Number, groups: Number, prompt_wait: Number) -> Number:
    """Steps that a prompt waits for those of other attention groups, on average.

    (d − 1) / 2p where d prompts come in time, (d − 1) / p ≤ w; else w (1 + p w / 2) / (1 + p w), as the first waits w

    prompts p: prompts of a step on average · groups d: attention groups
    prompt_wait w: steps that prompts wait at most
    → steps
    Source: composition
    Monotone: decreasing in prompts
    >>> [round(float(gathering_steps(mean, 8.0, 60.0)), 2) for mean in (1e-3, 0.05, 0.5)]
    [58.3, 37.5, 7.0]
    """
    mean = np.maximum(prompts, 1e-9)
    come = mean * prompt_wait
    return np.where(groups - 1 <= come, (groups - 1) / (2 * mean), prompt_wait * (1 + come / 2) / (1 + come))
