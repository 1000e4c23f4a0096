"""Data parallelism without an all-reduce in every step: parameter servers, asynchronous SGD, rare exchanges."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation

# --- Gradients summed on servers instead of in a ring.


@equation
def parameter_server_time(message: Number, workers: Number, servers: Number, bandwidth: Number) -> Number:
    """Least time to sum gradients of n machines on themselves and k further machines.

    t = 2 n (n − 1) / (n² + k n − 2 k) S/B, with k = n at most: that of an all-reduce for k = 0, S/B for k = n

    message S [B]: bytes of the gradients of one machine · workers n: machines that compute
    servers k: further machines that only sum · bandwidth B [B/s]: of one machine, one way
    → time, t [s]
    Source: jiang-2020; composition
    Holds: one full duplex interface for each machine; gradients are summed within the machine first; the processor of a
        server adds as fast as they arrive, about three times as many bytes through its memory
    Monotone: increasing in message; decreasing in servers, bandwidth
    >>> round(float(parameter_server_time(1e9, 32.0, 16.0, 1e9)), 4)
    1.3191
    """
    further = np.minimum(servers, workers)
    balance = workers**2 + further * np.maximum(workers - 2, 0.0)
    return 2 * workers * (workers - 1) / balance * message / bandwidth


@equation
def central_server_time(message: Number, workers: Number, bandwidth: Number) -> Number:
    """Time to sum gradients on one server, whose interface all workers share.

    n S / B

    message S [B]: bytes of the gradients of one worker · workers n: machines that compute
    bandwidth B [B/s]: of the server, one way
    → time [s]
    Source: jiang-2020; composition
    Holds: full duplex, results go out as sums come in; reliable senders, for incast loses packets; no estimate calls it
    Monotone: increasing in message, workers; decreasing in bandwidth
    >>> central_server_time(1e9, 32.0, 1e9)
    32.0
    """
    return workers * message / bandwidth


@equation
def parameter_server_wire(message: Number, workers: Number, servers: Number) -> Number:
    """Bytes that a worker sends to have its gradients summed on n workers and k further servers.

    2 n (n − 1) / (n² + k n − 2 k) S, with k = n at most

    message S [B]: bytes of the gradients of one worker · workers n: workers
    servers k: further interfaces that only sum
    → bytes sent by a worker [B]
    Source: jiang-2020; composition
    Holds: as parameter_server_time, whose interfaces are all busy to the end
    Monotone: increasing in message; decreasing in servers
    >>> float(parameter_server_wire(1e9, 8.0, 0.0)), float(parameter_server_wire(1e9, 8.0, 8.0))
    (1750000000.0, 1000000000.0)
    """
    further = np.minimum(servers, workers)
    balance = workers**2 + further * np.maximum(workers - 2, 0.0)
    return 2 * workers * (workers - 1) / balance * message


# --- Updates without waiting for all workers: how many more there are, and how stale their gradients are.


@equation
def gradient_rate(workers: Number, time: Number, slowdown: Number) -> Number:
    """Gradients a second that alike workers bring in.

    n / (μ f): f = 1 if no worker waits, else the time of the one that is waited for over the mean

    workers n: workers · time μ [s]: mean time of a gradient on one worker
    slowdown: what a worker waits for, f; the expected slowest where each waits for all
    → gradients a second [1/s]
    Source: ho-2013; composition
    Holds: bounded staleness (stale synchronous) hides jitter, but a worker that stays slow sets the pace of all; no
        estimate calls it
    Monotone: increasing in workers; decreasing in time, slowdown
    >>> gradient_rate(64.0, 2.0, 1.0)
    32.0
    """
    return workers / (time * slowdown)


@equation
def mean_staleness(workers: Number) -> Number:
    """Updates by others between the weights that a gradient was made with and those it is applied to.

    n − 1

    workers n: alike workers that update without waiting → updates
    Source: ho-2013; composition
    Holds: exact in the mean: between two updates of a worker each other worker makes one on average
    Monotone: increasing in workers
    >>> mean_staleness(64.0)
    63.0
    """
    return workers - 1


@equation
def staleness_break_even(slowdown: Number, staleness: Number) -> Number:
    """Growth of the number of steps with each unit of staleness up to which asynchronous updates save time.

    (f − 1) / η

    slowdown f: time of a synchronous step over the mean of a worker · staleness η: mean staleness of the gradients
    → share of the steps
    Source: composition
    Holds: steps that grow in proportion to the staleness; no law states this for language models, nor gives the factor
    Monotone: increasing in slowdown; decreasing in staleness
    >>> round(staleness_break_even(1.469, 63.0), 5)
    0.00744
    """
    return (slowdown - 1) / staleness


# --- Many steps between exchanges, as local SGD and DiLoCo train over slow links between sites.


@equation
def local_utilisation(inner_steps: Number, time: Number, exchange: Number, hidden_time: Number) -> Number:
    """Share of the time in which sites compute that exchange once in H steps.

    U = H t / (H t + max(0, X − h))

    inner_steps H: steps between two exchanges · time t [s]: of one step · exchange X [s]: time of an exchange
    hidden_time h [s]: of it, what overlaps with steps
    → utilisation, U
    Source: jaghouar-2024; douillard-2023
    Pitfall: sites multiply the batch: at equal tokens the loss rises with their number
    Monotone: increasing in inner_steps, time, hidden_time; decreasing in exchange
    >>> round(float(local_utilisation(100.0, 22.8, 382.0, 0.0)), 3)
    0.856
    """
    computing = inner_steps * time
    return computing / (computing + np.maximum(exchange - hidden_time, 0.0))


@equation
def local_bandwidth(
    wire: Number, inner_steps: Number, time: Number, utilisation: Number, hidden_time: Number
) -> Number:
    """Bandwidth between sites that a utilisation needs.

    B = w / (H t (1/U − 1) + h)

    wire w [B]: bytes that a site sends in an exchange · inner_steps H: steps between two exchanges
    time t [s]: of one step · utilisation: share of the time in which sites compute, U, under 1 or with hidden time
    hidden_time h [s]: time of an exchange that overlaps with steps
    → bandwidth of a site, one way, B [B/s]
    Source: douillard-2025 §2; composition
    Holds: no latency
    Monotone: increasing in wire, utilisation; decreasing in inner_steps, time, hidden_time
    >>> round(8 * local_bandwidth(17.5e9, 100.0, 22.8, 0.95, 0.0) / 1e9, 3)
    1.167
    """
    return wire / (inner_steps * time * (1 / utilisation - 1) + hidden_time)


@equation
def inner_steps_needed(time: Number, exchange: Number, utilisation: Number, hidden_time: Number) -> Number:
    """Steps between exchanges that a utilisation needs.

    H = max(0, X − h) / (t (1/U − 1))

    time t [s]: of one step · exchange X [s]: time of an exchange
    utilisation: share of the time in which sites compute, U, under 1
    hidden_time h [s]: of the exchange, what overlaps with steps
    → steps, H
    Source: composition
    Monotone: increasing in exchange, utilisation; decreasing in time, hidden_time
    >>> round(float(inner_steps_needed(22.8, 120.0, 0.95, 0.0)), 1)
    100.0
    """
    return np.maximum(exchange - hidden_time, 0.0) / (time * (1 / utilisation - 1))


@equation
def local_traffic_share(compressed_share: Number, inner_steps: Number) -> Number:
    """Bytes between sites over those of an all-reduce of raw gradients in each step.

    c / H

    compressed_share c: compressed over raw bytes of an exchange · inner_steps H: steps between two exchanges
    → bytes over bytes
    Source: jaghouar-2024; composition
    Monotone: increasing in compressed_share; decreasing in inner_steps
    >>> local_traffic_share(0.25, 100.0)
    0.0025
    """
    return compressed_share / inner_steps
