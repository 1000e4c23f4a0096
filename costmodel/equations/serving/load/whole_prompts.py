"""Engines that compute a prompt in one step: what of a step they fill, and prompts that wait for a step of their own.

TensorRT-LLM and vLLM without chunked prefill take requests first come, first served: a step decodes every sequence, and
its prompts are those in line up to the first that does not fit beside them. That is Next-Fit packing. A prompt that is
longer than what decoding leaves of a step waits until enough answers end, and all behind it wait too.
"""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.uncertainty import normal_share
from costmodel.equations.serving.load.percentiles import normal_quantile
from costmodel.ground.equation import Number, equation

ROUNDED = 1e-9  # by which a quotient of whole numbers may lie under a whole one
SHARP = 1e-12  # spread of equal prompts, for a quotient by it


@equation
def whole_prompt_room(room: Number, prompt: Number, variation: Number) -> Number:
    """Tokens of prompts in a step that holds whole prompts only, as many as fit.

    s max(n d + (k − (1 + v²) / 2) (1 − d), 1 + Φ((k − 2) / (v √2)), k / 2), k = max(r / s, 1),
    n = m − 1 + Φ((k − m) / (v √m)) with m the whole number next to k, d = e^(−2π² v² k)
    What is left in front of a prompt that does not fit is the age of a renewal process: the rest of a division for
    equal prompts, half of a length-biased prompt for unlike ones. A step that has any holds one prompt, and a second
    where two fit. Two steps that follow each other hold more than the room of one, so that it is half full at least.

    room r: tokens that a step leaves to prompts · prompt s: tokens of the prompt that are computed, on average
    variation v: of the prompts, standard deviation over mean
    → tokens
    Source: cox-1962; tensorrt-llm cpp/tensorrt_llm/batch_manager/microBatchScheduler.cpp; vllm-engine v1/core/sched
    Holds: equal prompts exactly; unlike ones that all fit to 7 %. Those longer than the room are counted by
        whole_prompt_slots and blocking_share, and by too_long_share
    Pitfall: two prompts of a little over half a step's budget never share a step
    >>> [float(whole_prompt_room(room, 2048.0, 0.0)) for room in (8150.0, 2047.0)]
    [6144.0, 2048.0]
    >>> round(float(whole_prompt_room(8150.0, 2048.0, 0.6)))
    6757
    """
    fills = np.maximum(room, prompt) / prompt
    near = np.round(fills)
    equal = near - 1 + normal_share((fills - near + ROUNDED) / np.maximum(variation * np.sqrt(near), SHARP))
    alike = np.exp(-2 * np.pi**2 * variation**2 * fills)
    held = equal * alike + (fills - (1 + variation**2) / 2) * (1 - alike)
    first_two = 1 + normal_share((fills - 2 + ROUNDED) / np.maximum(variation * np.sqrt(2.0), SHARP))
    tokens: Number = prompt * np.maximum(np.maximum(held, first_two), fills / 2)
    return tokens


@equation
def variation_in_room(variation: Number, room: Number, prompt: Number, room_variance: Number) -> Number:
    """Variation of prompts that fill a room as unevenly as they do one that changes from step to step.

    √(v² + V / (s max(r, s))): of r / s prompts, whose sum has the variance v² s r, and of the room, which adds its own

    variation v: of the prompts, standard deviation over mean · room r: tokens that a step leaves to prompts, on average
    prompt s: tokens of the prompt that are computed, on average
    room_variance V: variance of the room, as answers come and go
    → variation
    Source: composition
    Monotone: increasing in variation, room_variance; decreasing in room, prompt
    >>> [round(float(variation_in_room(v, 2000.0, 1000.0, 48.0)), 4) for v in (0.0, 0.3)]
    [0.0049, 0.3]
    """
    return np.sqrt(variation**2 + room_variance / (prompt * np.maximum(room, prompt)))


@equation
def whole_prompt_slots(token_budget: Number, prompt: Number) -> Number:
    """Requests that an engine holds at most where each prompt, all of one length, is computed in one step.

    M − s + 1: one more begins only where it fits beside those that are being decoded

    token_budget M: tokens of a step at most · prompt s: tokens of the prompt that are computed → requests
    Source: count; tensorrt-llm cpp/tensorrt_llm/batch_manager/microBatchScheduler.cpp; vllm-engine v1/core/sched
    Pitfall: a budget of just the prompt's tokens runs one request at a time
    Monotone: increasing in token_budget; decreasing in prompt
    >>> [float(whole_prompt_slots(8192.0, prompt)) for prompt in (2048.0, 8192.0)]
    [6145.0, 1.0]
    """
    return np.maximum(token_budget - prompt, 0.0) + 1


@equation
def whole_prompt_concurrency(token_budget: Number, prompt: Number, output: Number, variation: Number) -> Number:
    """Requests that are being decoded when steps hold as many whole prompts as fit; more users than that wait in line.

    b₀ d + b₁ (1 − d), d = e^(−2π² v² M / (s + o)); equal prompts: b₀ = max(n o, M − (n + 1) (s − 1)),
    n = ⌊M / (s + o)⌋; unlike ones: b₁ = max((M − w) o / (s + o), M o / (2 s + o)), w = s (1 + v²) / 2

    token_budget M: tokens of a step at most · prompt s: tokens of the prompt that are computed, on average
    output o: tokens that are generated, on average · variation v: of the prompts, standard deviation over mean
    → requests
    Source: little-1961; cox-1962
    Holds: n prompts in every step keep n o in flight; M − (n + 1) (s − 1) are in flight where steps take turns with n
        and with n + 1. Prompts that wait for a step of their own lower it further
    Monotone: increasing in token_budget
    >>> [float(whole_prompt_concurrency(8192.0, 2048.0, 512.0, v)) for v in (0.0, 1.0)]
    [1536.0, 1228.8]
    """
    each = prompt + output
    count = np.floor(token_budget / each + ROUNDED)
    equal = np.maximum(count * output, token_budget - (count + 1) * (prompt - 1))
    waste = prompt * (1 + variation**2) / 2
    unlike = np.maximum((token_budget - waste) * output / each, token_budget * output / (2 * prompt + output))
    alike = np.exp(-2 * np.pi**2 * variation**2 * token_budget / each)
    most: Number = equal * alike + unlike * (1 - alike)
    return most


@equation
def blocking_share(token_budget: Number, concurrency: Number, prompt: Number, variation: Number) -> Number:
    """Share of prompts that fit into a step, but not beside the sequences that are being decoded.

    Φ(z(M)) − Φ(z(M − b)), z(x) = ln(x / s) / σ + σ / 2, σ² = ln(1 + v²); 0 for equal prompts

    token_budget M: tokens of a step at most · concurrency b: sequences that are being decoded
    prompt s: tokens of the prompt that are computed, on average
    variation v: of the prompts, standard deviation over mean
    → share
    Source: limpert-2001; tensorrt-llm cpp/tensorrt_llm/batch_manager/microBatchScheduler.cpp
    Holds: log-normal lengths; an engine refuses prompts longer than a step
    Monotone: increasing in concurrency
    >>> [round(float(blocking_share(8192.0, 140.0, 2048.0, v)), 5) for v in (0.0, 0.6, 1.0)]
    [0.0, 0.00027, 0.00097]
    """
    left = np.maximum(token_budget - concurrency, 1.0)
    share = _share_up_to(token_budget, prompt, variation) - _share_up_to(left, prompt, variation)
    return np.where(variation > 0, np.maximum(share, 0.0), 0.0)


@equation
def too_long_share(token_budget: Number, prompt: Number, variation: Number) -> Number:
    """Share of prompts that are longer than a step, which an engine without chunked prefill refuses.

    1 − Φ(ln(M / s) / σ + σ / 2), σ² = ln(1 + v²); of equal prompts all or none

    token_budget M: tokens of a step at most · prompt s: tokens of the prompt that are computed, on average
    variation v: of the prompts, standard deviation over mean
    → share
    Source: limpert-2001; tensorrt-llm cpp/tensorrt_llm/batch_manager/microBatchScheduler.cpp
    Holds: log-normal lengths
    Monotone: decreasing in token_budget; increasing in prompt
    >>> [round(float(too_long_share(budget, 2048.0, 0.6)), 3) for budget in (2048.0, 4096.0, 8192.0)]
    [0.391, 0.063, 0.003]
    """
    return np.where(variation > 0, 1 - _share_up_to(token_budget, prompt, variation), prompt > token_budget)


@equation
def longest_prompt(prompt: Number, variation: Number, tail_share: Number) -> Number:
    """Length that only a share of all prompts exceeds.

    s max(1, e^(z σ − σ² / 2)), z = Φ⁻¹(1 − p), σ² = ln(1 + v²)

    prompt s: tokens of the prompt that are computed, on average
    variation v: of the prompts, standard deviation over mean · tail_share p: share of prompts beyond
    → tokens
    Source: limpert-2001
    Holds: log-normal lengths
    Monotone: increasing in prompt; decreasing in tail_share
    >>> [round(float(longest_prompt(2048.0, v, 0.01))) for v in (0.0, 0.6)]
    [2048, 6381]
    """
    spread = np.sqrt(np.log1p(variation**2))
    return prompt * np.maximum(np.exp(normal_quantile(tail_share) * spread - spread**2 / 2), 1.0)


def _share_up_to(length: Number, mean: Number, variation: Number) -> Number:
    """Share of log-normal lengths up to one of them; meaningless without a spread."""
    spread = np.sqrt(np.log1p(np.where(variation > 0, variation, 1.0) ** 2))
    share: Number = normal_share(np.log(length / mean) / spread + spread / 2)
    return share
