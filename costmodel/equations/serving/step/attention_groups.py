"""Attention groups, each with requests of its own: a step lasts as long as the busiest of them takes."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def busiest_group_sequences(sequences: Number, groups: Number) -> Number:
    """Sequences of the attention group that has the most of them.

    ⌈b / d⌉ of whole b; between two whole numbers, on the line between them

    Args:
        sequences: sequences of all groups, b [1]
        groups: attention groups, d [1]

    Returns:
        sequences [1]

    Example:
        >>> [float(busiest_group_sequences(many, 8.0)) for many in (1.0, 8.0, 8.5, 64.0)]
        [1.0, 1.0, 1.5, 8.0]

    Holds:
        each request goes to the group with the fewest

    Source:
        vllm-engine v1/engine/core_client.py; exact

    Pitfall:
        other groups wait, so one user takes one of them and d − 1 compute nothing

    Monotone: increasing in sequences; decreasing in groups
    """
    whole = np.floor(sequences)
    below, above = np.ceil(whole / groups), np.ceil((whole + 1.0) / groups)
    return np.where(groups > 1, below + (sequences - whole) * (above - below), sequences)


@equation
def busiest_group_prompts(prompts: Number, groups: Number) -> Number:
    """Prompts of a step that the busiest attention group computes, where prompts arrive at random.

    min(x, max(1, x/d + (1 − 1/d)/2 · (1 + e^(−2(x − 1))))): x at a time on average, one at least, spread evenly

    Args:
        prompts: prompts of all groups in a step that has any, x [1]
        groups: attention groups, d [1]

    Returns:
        prompts [1]

    Example:
        >>> [round(float(busiest_group_prompts(many, 8.0)), 2) for many in (0.5, 1.0, 4.0, 16.0)]
        [0.5, 1.0, 1.0, 2.44]

    Holds:
        each request goes to the group with the fewest; the mean of ⌈n/d⌉ over a Poisson number n of prompts, given one,
        is met within 9 %

    Source:
        tensorrt-llm docs/blogs/tech_blog/blog10_ADP_Balance_Strategy; composition

    Pitfall:
        one prompt lies on one group: of its time d groups save nothing

    Monotone: increasing in prompts
    """
    spread = (1.0 - 1.0 / groups) / 2.0 * (1.0 + np.exp(-2.0 * np.maximum(prompts - 1.0, 0.0)))
    return np.minimum(prompts, np.maximum(prompts / groups + spread, 1.0))


@equation
def prompts_of_a_prompted_step(prompts: Number) -> Number:
    """Prompts of a step that carries any, where they arrive at random.

    x = p / (1 − e^(−p))

    Args:
        prompts: prompts of a step on average, p [1]

    Returns:
        prompts, one at least [1]

    Example:
        >>> [round(float(prompts_of_a_prompted_step(mean)), 3) for mean in (0.0, 0.1, 1.0, 8.0)]
        [1.0, 1.051, 1.582, 8.003]

    Source:
        exact

    Monotone: increasing in prompts
    """
    few = np.maximum(prompts, 1e-9)
    return few / -np.expm1(-few)


@equation
def prompts_gathered(prompts: Number, groups: Number, wait_steps: Number) -> Number:
    """Prompts that begin in one step, where the engine waits until every attention group has one.

    max(min(d, 1 + p w), p): as many as groups, where they arrive within the wait

    Args:
        prompts: prompts of a step on average, p [1]
        groups: attention groups, d [1]
        wait_steps: steps that the first of them waits at most, w [1]

    Returns:
        prompts [1]

    Example:
        >>> [float(prompts_gathered(mean, 8.0, 50.0)) for mean in (0.01, 0.5, 16.0)]
        [1.5, 8.0, 16.0]

    Source:
        tensorrt-llm docs/blogs/tech_blog/blog10_ADP_Balance_Strategy; composition

    Monotone: increasing in prompts, wait_steps
    """
    return np.maximum(np.minimum(groups, 1.0 + prompts * wait_steps), prompts)


@equation
def gathering_steps(gathered_prompts: Number, prompts: Number, groups: Number) -> Number:
    """Steps that a prompt waits for those of other attention groups, on average.

    (min(n, d) − 1) / 2p: the first waits for all others, the last for none

    Args:
        gathered_prompts: prompts that begin in one step, n [1]
        prompts: prompts of a step on average, p [1]
        groups: attention groups, d [1]

    Returns:
        steps [1]

    Example:
        >>> [float(gathering_steps(many, mean, 8.0)) for many, mean in ((1.5, 0.01), (8.0, 0.5), (16.0, 16.0))]
        [25.0, 7.0, 0.21875]

    Source:
        composition

    Monotone: increasing in gathered_prompts; decreasing in prompts
    """
    return (np.minimum(gathered_prompts, groups) - 1.0) / (2.0 * np.maximum(prompts, 1e-9))
