"""Closed loops: a fixed number of users, each of whom sends a request as soon as the last one is answered."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


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
    """Time of an answer, from the request to its last token, where all users together send so many requests.

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

    h + v c + (½ + a) D + t_p + t_p ρ (c + 1) / 2: half a step, the steps that carry the prompt, its own time, and the
    start, when half of all prompts are ahead, spread over 1/ρ rounds

    host h [s]: fixed time of the front end · host_each v [s]: of the front end for each request in flight
    users c: users · step D [s]: a step without prompts · steps a: steps that carry a prompt
    prompt_time t_p [s]: that one prompt adds to steps
    burst_share: share of a user's requests that are the first, ρ: one in R rounds, 0 of a steady loop
    → time to the first token [s]
    Source: serving-fit; composition
    Pitfall: it is another quantity than that of a steady stream of requests: never set one beside the other. A prompt a
        little over the budget takes two steps, but not twice its time
    Monotone: increasing in host, host_each, users, step, steps, prompt_time, burst_share
    >>> round(burst_first_token_time(0.0, 0.0, 64.0, 0.016, 1.0, 0.125, 0.1), 3)
    0.555
    """
    start = prompt_time * burst_share * (users + 1) / 2
    return host + host_each * users + (0.5 + steps) * step + prompt_time + start


@equation
def loop_tokens_per_gpu(users: Number, output: Number, ttft: Number, tpot: Number, ranks: Number) -> Number:
    """Tokens generated a second by each accelerator where so many users wait for one answer after the other.

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
