"""Engines that compute a prompt in one step: what of a step they fill, and prompts that wait for a step of their own.

TensorRT-LLM and vLLM without chunked prefill take requests first come, first served: a step decodes every sequence, and
its prompts are those in line up to the first that does not fit beside them. That is Next-Fit packing. A prompt that is
longer than what decoding leaves of a step waits until enough answers end, and all behind it wait too.
"""

from __future__ import annotations

import numpy as np

from costmodel.equations.serving.load.percentiles import normal_share
from costmodel.equations.serving.load.queues import SATURATED
from costmodel.ground.equation import Number, equation

ROUNDED = 1e-9  # by which a quotient of whole numbers may lie under a whole one
SHARP = 1e-12  # spread of equal prompts, for a quotient by it


@equation
def whole_prompt_room(room: Number, prompt: Number, variation: Number) -> Number:
    """Tokens of prompts in a step that holds whole prompts only, as many as fit.

    s max(n d + (k − (1 + v²) / 2) (1 − d), k / 2), k = max(r / s, 1), n = m − 1 + Φ((k − m) / (v √m)) with m the whole
    number next to k, d = e^(−2π² v² k)

    What is left in front of a prompt that does not fit is the age of a renewal process: the rest of a division for
    equal prompts, half of a length-biased prompt for unlike ones. Two steps that follow each other hold more than the
    room of one, so that a step is half full at least.

    Args:
        room: tokens that a step leaves to prompts, r [1]
        prompt: tokens of the prompt that are computed, on average, s [1]
        variation: of the prompts, standard deviation over mean, v [1]

    Returns:
        tokens [1]

    Example:
        >>> [float(whole_prompt_room(room, 2048.0, 0.0)) for room in (8150.0, 2047.0)]
        [6144.0, 2048.0]
        >>> round(float(whole_prompt_room(8150.0, 2048.0, 0.6)))
        6757

    Holds:
        equal prompts exactly; unlike ones where few are longer than the room. A step that has any holds one at least;
        whole_prompt_slots and blocking_share count those that wait

    Source:
        cox-1962; tensorrt-llm cpp/tensorrt_llm/batch_manager/microBatchScheduler.cpp; vllm-engine v1/core/sched

    Pitfall:
        two prompts of a little over half a step's budget never share a step
    """
    fills = np.maximum(room, prompt) / prompt
    near = np.round(fills)
    equal = near - 1 + normal_share((fills - near + ROUNDED) / np.maximum(variation * np.sqrt(near), SHARP))
    alike = np.exp(-2 * np.pi**2 * variation**2 * fills)
    held = equal * alike + (fills - (1 + variation**2) / 2) * (1 - alike)
    tokens: Number = prompt * np.maximum(held, fills / 2)
    return tokens


@equation
def whole_prompt_slots(token_budget: Number, prompt: Number) -> Number:
    """Requests that an engine holds at most where each prompt, all of one length, is computed in one step.

    M − s + 1: one more begins only where it fits beside those that are being decoded

    Args:
        token_budget: tokens of a step at most, M [1]
        prompt: tokens of the prompt that are computed, s [1]

    Returns:
        requests [1]

    Example:
        >>> [float(whole_prompt_slots(8192.0, prompt)) for prompt in (2048.0, 8192.0)]
        [6145.0, 1.0]

    Source:
        count; tensorrt-llm cpp/tensorrt_llm/batch_manager/microBatchScheduler.cpp; vllm-engine v1/core/sched

    Pitfall:
        a budget of just the prompt's tokens runs one request at a time

    Monotone: increasing in token_budget; decreasing in prompt
    """
    return np.maximum(token_budget - prompt, 0.0) + 1


@equation
def whole_prompt_concurrency(token_budget: Number, prompt: Number, output: Number, variation: Number) -> Number:
    """Requests that are being decoded when steps hold as many whole prompts as fit; more users than that wait in line.

    b₀ d + b₁ (1 − d), d = e^(−2π² v² M / (s + o)); equal prompts: b₀ = max(n o, M − (n + 1) (s − 1)),
    n = ⌊M / (s + o)⌋; unlike ones: b₁ = max((M − w) o / (s + o), M o / (2 s + o)), w = s (1 + v²) / 2

    Args:
        token_budget: tokens of a step at most, M [1]
        prompt: tokens of the prompt that are computed, on average, s [1]
        output: tokens that are generated, on average, o [1]
        variation: of the prompts, standard deviation over mean, v [1]

    Returns:
        requests [1]

    Example:
        >>> [float(whole_prompt_concurrency(8192.0, 2048.0, 512.0, v)) for v in (0.0, 1.0)]
        [1536.0, 1228.8]

    Holds:
        n prompts in every step keep n o in flight; M − (n + 1) (s − 1) are in flight where steps take turns with n and
        with n + 1. Prompts that wait for a step of their own lower it further

    Source:
        little-1961; cox-1962

    Monotone: increasing in token_budget
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

    Args:
        token_budget: tokens of a step at most, M [1]
        concurrency: sequences that are being decoded, b [1]
        prompt: tokens of the prompt that are computed, on average, s [1]
        variation: of the prompts, standard deviation over mean, v [1]

    Returns:
        share [1]

    Example:
        >>> [round(float(blocking_share(8192.0, 140.0, 2048.0, v)), 5) for v in (0.0, 0.6, 1.0)]
        [0.0, 0.00027, 0.00097]

    Holds:
        log-normal lengths; an engine refuses prompts longer than a step

    Source:
        limpert-2001; tensorrt-llm cpp/tensorrt_llm/batch_manager/microBatchScheduler.cpp

    Monotone: increasing in concurrency
    """
    left = np.maximum(token_budget - concurrency, 1.0)
    share = _share_up_to(token_budget, prompt, variation) - _share_up_to(left, prompt, variation)
    return np.where(variation > 0, np.maximum(share, 0.0), 0.0)


@equation
def too_long_share(token_budget: Number, prompt: Number, variation: Number) -> Number:
    """Share of prompts that are longer than a step, which an engine without chunked prefill refuses.

    1 − Φ(ln(M / s) / σ + σ / 2), σ² = ln(1 + v²); of equal prompts all or none

    Args:
        token_budget: tokens of a step at most, M [1]
        prompt: tokens of the prompt that are computed, on average, s [1]
        variation: of the prompts, standard deviation over mean, v [1]

    Returns:
        share [1]

    Example:
        >>> [round(float(too_long_share(budget, 2048.0, 0.6)), 3) for budget in (2048.0, 4096.0, 8192.0)]
        [0.391, 0.063, 0.003]

    Holds:
        log-normal lengths

    Source:
        limpert-2001; tensorrt-llm cpp/tensorrt_llm/batch_manager/microBatchScheduler.cpp

    Monotone: decreasing in token_budget; increasing in prompt
    """
    return np.where(variation > 0, 1 - _share_up_to(token_budget, prompt, variation), prompt > token_budget)


def _share_up_to(length: Number, mean: Number, variation: Number) -> Number:
    """Share of log-normal lengths up to one of them; meaningless without a spread."""
    spread = np.sqrt(np.log1p(np.where(variation > 0, variation, 1.0) ** 2))
    share: Number = normal_share(np.log(length / mean) / spread + spread / 2)
    return share


@equation
def drain_time(output: Number, variation: Number, step: Number) -> Number:
    """Mean time for which a prompt waits until enough answers have ended for it to fit.

    D o (1 + v²) / 2: what is left of a running answer, for the sequences that must end are any share of all

    Args:
        output: tokens that are generated, on average, o [1]
        variation: of the answers, standard deviation over mean, v [1]
        step: a step without prompts with half of the sequences, D [s]

    Returns:
        time [s]

    Example:
        >>> round(drain_time(512.0, 0.6, 0.014), 2)
        4.87

    Source:
        cox-1962

    Monotone: increasing in output, variation, step
    """
    return step * output * (1 + variation**2) / 2


@equation
def drain_square(output: Number, variation: Number, step: Number) -> Number:
    """Mean square of the time for which a prompt waits until enough answers have ended.

    (D o)² (1 + v²)³ / 3

    Args:
        output: tokens that are generated, on average, o [1]
        variation: of the answers, log-normal, standard deviation over mean, v [1]
        step: a step without prompts with half of the sequences, D [s]

    Returns:
        mean square [s·s]

    Example:
        >>> round(drain_square(512.0, 0.6, 0.014), 1)
        43.1

    Source:
        cox-1962; limpert-2001

    Monotone: increasing in output, variation, step
    """
    return (step * output) ** 2 * (1 + variation**2) ** 3 / 3


@equation
def blocked_wait(drain_rate: Number, mean_square: Number, busy_share: Number) -> Number:
    """Mean wait of all requests behind prompts that wait until answers end: those that come meanwhile wait in line.

    λ_q T₂ / (2 (1 − ρ)), ∞ from ρ = 1 on

    Args:
        drain_rate: prompts a second that wait until answers end, λ_q [1/s]
        mean_square: of that time, T₂ [s·s]
        busy_share: share of time that prompts fill whole steps, or that one waits, ρ [1]

    Returns:
        wait [s]

    Example:
        >>> round(float(blocked_wait(0.0015, 43.1, 0.62)), 3)
        0.085

    Holds:
        prompts of log-normal lengths whose refused tail is small: of 25 simulated loads to 80 % of saturation the mean
        time to the first token is 8 % off in the median, 36 % at worst; without this wait it is up to 83 % too short

    Source:
        fuhrmann-1985

    Monotone: increasing in drain_rate, mean_square, busy_share
    """
    stable = 1 - busy_share > SATURATED
    return drain_rate * mean_square / 2 * np.where(stable, 1 / np.where(stable, 1 - busy_share, 1.0), np.inf)


@equation
def blocked_loop_wait(users: Number, latency: Number, service: Number, mean_square: Number) -> Number:
    """The same wait where so many users each send a request as soon as the last one is answered.

    (N c − R + √((R − N c)² + 2 N T₂)) / 2: by Little's law λ = N / (R + W), with W = λ T₂ / (2 (1 − λ c))

    Args:
        users: users, N [1]
        latency: of a request that waits for no such prompt, R [s]
        service: time of the line that a request takes, its prompt and its part of such waits, c [s]
        mean_square: mean square of such waits, times the share of requests that wait so, T₂ [s·s]

    Returns:
        wait [s]

    Example:
        >>> round(float(blocked_loop_wait(64.0, 8.0, 0.11, 0.26)), 2)
        2.44

    Holds:
        users who are all admitted; of loops simulated with up to 256 users the rate is 12 % off at most, first tokens
        47 %, where prompts that wait so take a fifth of the time

    Source:
        fuhrmann-1985; little-1961; composition

    Monotone: increasing in users, service, mean_square; decreasing in latency
    """
    over = users * service - latency
    return (over + np.sqrt(over**2 + 2 * users * mean_square)) / 2
