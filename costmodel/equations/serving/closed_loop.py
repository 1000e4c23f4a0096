"""Closed loops of users, by their mean values and counted in steps."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation

# --- Closed loops: a fixed number of users, each of whom sends a request as soon as the last one is answered.


@equation
def interfered_token_time(
    step: Number, mixed_step: Number, concurrency: Number, output: Number, prompt_steps: Number
) -> Number:
    """Time per token of one of c users, where the others' prompts ride in some steps, whose time need not be linear.

    D + min(f, 1) (X − D), f = n (c − 1) / o mixed steps of all steps

    step D [s]: a step without prompts
    mixed_step X [s]: a step that carries one prompt, or the part of it that fits, or all that come in a step
    concurrency c: requests in flight, the user's own counted · output o: tokens that are generated, on average
    prompt_steps: such mixed steps for each prompt, n: its tokens over those in the step
    → time per token [s]
    Source: agrawal-2024; serving-fit
    Pitfall: a prompt over the token budget delays the others once for each of its parts
    Monotone: increasing in concurrency, prompt_steps; decreasing in output
    >>> round(float(interfered_token_time(15.65e-3, 15.65e-3 + 125.2e-3, 64.0, 922.0, 1.0)) * 1e3, 1)
    24.2
    """
    mixed = prompt_steps * np.maximum(concurrency - 1, 0.0) / output
    return step + np.minimum(mixed, 1.0) * np.maximum(mixed_step - step, 0.0)


@equation
def full_step_concurrency(token_budget: Number, prompt: Number, output: Number) -> Number:
    """Requests that are being decoded when every step is full; more users than that wait in line.

    M o / (s + o): of the tokens of a step, as many are decoded as of the tokens of a request

    token_budget M: tokens of a step at most · prompt s: tokens of the prompt that are computed, on average
    output o: tokens that are generated, on average
    → requests
    Source: little-1961; exact
    Monotone: increasing in token_budget, output; decreasing in prompt
    >>> round(full_step_concurrency(512.0, 2048.0, 512.0), 1)
    102.4
    """
    return token_budget * output / (prompt + output)


@equation
def surplus_wait(users: Number, concurrency: Number, request_rate: Number) -> Number:
    """Time that a request waits in line because there are more users than an engine decodes at once.

    max(c − b, 0) / λ

    users c: users
    concurrency b: requests that are being decoded at most: by steps, by the cache, by the engine's limit
    request_rate λ [1/s]: requests a second that the engine answers meanwhile
    → wait [s]
    Source: little-1961
    Monotone: increasing in users; decreasing in concurrency, request_rate
    >>> round(float(surplus_wait(136.0, 102.4, 5.589)), 2)
    6.01
    """
    return np.maximum(users - concurrency, 0.0) / request_rate


@equation
def answer_time_of_users(users: Number, request_rate: Number, pause: Number) -> Number:
    """Time from a request to its last token, by the rate of all users' requests (Little's law).

    N / λ − Z

    users N: users · request_rate λ [1/s]: requests a second that all of them send
    pause Z [s]: between an answer and the next request of its user
    → time [s]
    Source: little-1961; exact
    Holds: users who do not think for far longer than they wait: else the rate hardly depends on the answer
    Monotone: increasing in users; decreasing in request_rate, pause
    >>> answer_time_of_users(400.0, 10.0, 30.0)
    10.0
    """
    return users / request_rate - pause


@equation
def burst_first_token_time(
    host: Number,
    host_each: Number,
    users: Number,
    step: Number,
    steps: Number,
    prompt_time: Number,
    burst_share: Number,
) -> Number:
    """Mean time to the first token in a benchmark that starts all its users at once and keeps their number.

    h + v c + (g + a) D + t_p + t_p ρ (c − 1) / 2: g, half a step where others run, the steps of the prompt, its own
    time, and the start, when half of all other prompts are ahead, spread over 1/ρ rounds

    host h [s]: fixed time of the front end · host_each v [s]: of the front end for each request in flight
    users c: users · step D [s]: a step without prompts · steps a: steps that carry a prompt
    prompt_time t_p [s]: that one prompt adds to steps
    burst_share: share of a user's requests that are the first, ρ: one in R rounds, 0 of a steady loop
    → time to the first token [s]
    Source: serving-fit; composition
    Pitfall: it is another quantity than that of a steady stream of requests: never set one beside the other. A prompt a
        little over the budget takes two steps, but not twice its time
    Monotone: increasing in host, host_each, users, step, steps, prompt_time, burst_share
    >>> round(float(burst_first_token_time(0.0, 0.0, 64.0, 0.016, 1.0, 0.125, 0.1)), 3)
    0.543
    """
    missed = np.clip(users - 1, 0.0, 1.0) / 2
    start = prompt_time * burst_share * np.maximum(users - 1, 0.0) / 2
    return host + host_each * users + (missed + steps) * step + prompt_time + start


@equation
def time_under_cap(time: Number, loop_time: Number, waiting_probability: Number) -> Number:
    """Time of a request at a stated rate, when the client caps the requests in flight.

    t (min(t, t_c) / t)^√C

    time t [s]: at that rate without the cap, not 0 · loop_time t_c [s]: with as many in flight all the time
    waiting_probability C: that so many are in flight, and a request waits at the client
    → time [s]
    Source: serving-fit
    Holds: the two ends are exact; of 75 simulated loads of 1 to 64 in flight, at 0.3 to 1.5 times the rate of the loop,
        first tokens are 4 % off in the median, 27 % at worst, times per token 0.4 and 13 %
    Monotone: increasing in time; decreasing in waiting_probability
    >>> round(float(time_under_cap(0.4, 0.1, 0.25)), 3)
    0.2
    """
    return time * (np.minimum(loop_time, time) / time) ** np.sqrt(waiting_probability)


@equation
def loop_tokens_per_gpu(users: Number, output: Number, ttft: Number, tpot: Number, ranks: Number) -> Number:
    """Tokens per second of each accelerator in a closed loop of users.

    c o / ((f + (o − 1) t) n)

    users c: users · output o: tokens that are generated, on average · ttft f [s]: mean time to the first token
    tpot t [s]: mean time per token after the first · ranks n: accelerators
    → tokens a second [1/s]
    Source: little-1961
    Monotone: increasing in users; decreasing in ttft, tpot, ranks
    >>> round(float(loop_tokens_per_gpu(64.0, 1024.0, 0.5, 0.015, 8.0)), 1)
    517.0
    """
    return users * output / ((ttft + (output - 1) * tpot) * ranks)


# --- A closed loop counted in steps: what a user's request passes from one first token to the next.
#
# With N users a request meets the load of the other N − 1, as if it came at random among them (the arrival theorem).
# Its prompt waits until those ahead fill their share of steps, and rides on one or several steps; then every step adds
# a token. Put together: requests_per_step is where N users and steps_of_a_request agree.


@equation
def steps_in_line(prompt: Number, room: Number, utilisation: Number, variation: Number) -> Number:
    """Whole steps that a prompt waits while prompts ahead of it fill the token budget.

    ρ^e k (1 + v²) / (2 (1 − ρ)), e = √(2 max(1/k, 1) + 2) − 1, k = s / r; ∞ from ρ = 1 on: prompts over the room pass
    one at a time, shorter ones as before 1/k servers

    prompt s: tokens of the prompt that are computed, on average · room r: tokens that a step leaves to prompts
    utilisation ρ: share of the room that others' prompts take
    variation v: of the prompts, standard deviation over mean
    → steps
    Source: sakasegawa-1977; composition
    Monotone: increasing in utilisation, variation
    >>> [round(float(steps_in_line(s, 2048.0, 0.6, 0.0)), 2) for s in (8192.0, 2048.0, 256.0)]
    [3.0, 0.75, 0.03]
    """
    stable = utilisation < 1
    fills = prompt / np.maximum(room, 1e-9)
    at_once = np.maximum(1 / fills, 1.0)
    crowd = np.minimum(utilisation, 1.0) ** (np.sqrt(2 * at_once + 2) - 1)
    idle = np.where(stable, 1 - utilisation, 1.0)
    return fills * (1 + variation**2) / 2 * np.where(stable, crowd / idle, np.inf)


@equation
def steps_of_a_request(line_steps: Number, prompt_steps: Number, later_steps: Number, missed_steps: Number) -> Number:
    """Steps from one request of a user to the next: missed, in line, with its prompt, and for its later tokens.

    K = g + L + a + n

    line_steps L: steps in line · prompt_steps a: steps that carry the prompt, the last of which gives the first token
    later_steps n: steps that give the later tokens
    missed_steps: steps that begin before a request is there, g: one half where it comes at any time
    → steps
    Source: count
    Monotone: increasing in line_steps, prompt_steps, later_steps, missed_steps
    >>> steps_of_a_request(0.5, 2.0, 511.0, 0.5)
    514.0
    """
    return missed_steps + line_steps + prompt_steps + later_steps


@equation
def requests_per_step(users: Number, steps: Number, token_budget: Number, tokens: Number) -> Number:
    """Requests that are answered in each step: as many as users send, and as steps have room for.

    x = min(N / K, M / (s + o))

    users N: users · steps K: of a request · token_budget M: tokens of a step at most
    tokens: that a request takes of steps, prompt and answer, s + o
    → requests
    Source: little-1961; exact
    Monotone: increasing in users, token_budget; decreasing in steps, tokens
    >>> [float(requests_per_step(users, 512.0, 2048.0, 2560.0)) for users in (64.0, 640.0)]
    [0.125, 0.8]
    """
    return np.minimum(users / steps, token_budget / tokens)


@equation
def of_others(amount: Number, users: Number) -> Number:
    """Load that a request meets in a closed loop: that of all users but its own.

    a (N − 1) / N

    amount a: of all users · users: users, N, at least one → amount of the others
    Source: reiser-1980
    Holds: by the arrival theorem for lengths that are spread; an open loop of the same rate meets all of it, so that
        the two differ by 1/N of what others add
    Monotone: increasing in amount, users
    >>> [float(of_others(8.0, users)) for users in (1.0, 2.0, 8.0)]
    [0.0, 4.0, 7.0]
    """
    return amount * np.maximum(users - 1, 0.0) / users


@equation
def tokens_beside(
    prompt: Number,
    room: Number,
    line_steps: Number,
    prompt_steps: Number,
    arriving_tokens: Number,
    *,
    in_parts: bool = True,
) -> Number:
    """Tokens of others' prompts in the steps from a prompt's first chance to its first token.

    L r + m min(1, r / s) / 2 + f u / (f + u), f = m (L + a − ½), u = max(r / 2, r − s): ahead in line, ahead among
    those that came for the same step, and later ones in what its last step has left; of whole prompts u = max(0, r − s)

    prompt s: tokens of the prompt that are computed, on average · room r: tokens that a step leaves to prompts
    line_steps L: steps in line · prompt_steps a: steps that carry the prompt
    arriving_tokens m: tokens of others' prompts that come in a step · in_parts
    → tokens
    Source: composition
    Monotone: increasing in line_steps, prompt_steps, arriving_tokens
    >>> round(float(tokens_beside(1024.0, 8128.0, 0.0, 1.0, 1000.0)))
    967
    """
    fill = np.maximum(room, 1e-9)
    together = arriving_tokens / 2 * np.minimum(1.0, fill / prompt)
    came = arriving_tokens * (line_steps + prompt_steps - 0.5)
    left = np.maximum(fill / 2 if in_parts else 0.0, fill - prompt)
    return line_steps * room + together + left * (1 - left / np.maximum(came + left, 1e-9))


@equation
def loop_first_token_time(
    missed_steps: Number,
    mean_step: Number,
    steps: Number,
    step: Number,
    sequence_time: Number,
    prompt_token_time: Number,
    tokens: Number,
) -> Number:
    """Mean time to the first token in a closed loop that has long run.

    g t̄ + (L + a) D + β + γ (s + B)

    missed_steps g · mean_step t̄ [s]: mean step that others' requests make · steps: in line and with the prompt, L + a
    step D [s]: a step of the others without prompts · sequence_time β [s]
    prompt_token_time γ [s]: time each prompt token adds · tokens: of the prompt and of others' beside it, s + B
    → time to the first token [s]
    Source: composition
    Holds: users whose answers differ in length, so that their prompts are spread over time; of 132 simulated loops it
        is 1 % off in the median, 15 % at worst
    Pitfall: a prompt a little over the room takes two steps, but not twice its time
    Monotone: increasing in missed_steps, mean_step, steps, step, sequence_time, prompt_token_time, tokens
    >>> round(loop_first_token_time(0.5, 0.015, 2.0, 0.012, 60e-6, 48e-6, 8192.0 + 300.0), 3)
    0.439
    """
    return missed_steps * mean_step + steps * step + sequence_time + prompt_token_time * tokens


@equation
def loop_token_time(steps: Number, mean_step: Number, ttft: Number, later_steps: Number, met_step: Number) -> Number:
    """Mean time per token behind the first in a closed loop: what a request's steps take, less its first token.

    max((K t̄ − f) / n, t₋ + β): no less than others' mean step with its own row

    steps K: steps of a request · mean_step t̄ [s]: mean step · ttft f [s]
    later_steps: steps that give the later tokens, n; without any, the least stands for them
    met_step [s]: mean step that others' requests make, with one more sequence, t₋ + β
    → time of a step in which it decodes [s]
    Source: little-1961; reiser-1980
    Monotone: increasing in steps, mean_step, met_step; decreasing in ttft
    >>> round(float(loop_token_time(512.0, 0.02, 0.13, 511.0, 0.0195)) * 1e3, 2)
    19.78
    """
    some = later_steps > 0
    return np.maximum(np.where(some, (steps * mean_step - ttft) / np.where(some, later_steps, 1.0), met_step), met_step)


@equation
def crowded_first_token_time(
    ttft: Number, steps: Number, mean_step: Number, later_steps: Number, tpot: Number
) -> Number:
    """Time to the first token where users may be more than full steps answer: the rest of what a request passes.

    max(f, K t̄ − n t)

    ttft f [s]: with a line that others leave · steps: steps from one request of a user to the next, K = N / x
    mean_step t̄ [s]: mean step · later_steps n: steps that give the later tokens · tpot t [s]: time of each
    → time to the first token [s]
    Source: little-1961
    Monotone: increasing in ttft, steps, mean_step; decreasing in later_steps, tpot
    >>> round(float(crowded_first_token_time(0.5, 640.0, 0.05, 511.0, 0.05)), 2)
    6.45
    """
    return np.maximum(ttft, steps * mean_step - later_steps * tpot)


@equation
def loop_first_token_variance(
    ttft: Number, own_time: Number, service: Number, users: Number, variation: Number
) -> Number:
    """Variance of the time to the first token in a closed loop: of the own prompt, and of how many others are met.

    S² (v² + μ (1 − μ / N) (1 + v²)), μ = min((f − f₀) / S, N − 1): each of N users is met or not

    ttft f [s]: mean time to the first token · own_time f₀ [s]: the same without others' prompts
    service S [s]: time of a prompt in full steps · users N: users
    variation v: of the prompts, standard deviation over mean
    → variance [s·s]
    Source: composition
    Holds: the p99 of a log-normal time with it is 4 % off in the median of 132 simulated loops and 33 % in the worst,
        but half too long where two users with very short answers meet in every other step
    Monotone: increasing in service, variation
    >>> round(float(loop_first_token_variance(0.2, 0.12, 0.1, 64.0, 0.0)), 4)
    0.0079
    """
    met = np.clip((ttft - own_time) / service, 0.0, np.maximum(users - 1, 0.0))
    return service**2 * (variation**2 + met * (1 - met / users) * (1 + variation**2))
