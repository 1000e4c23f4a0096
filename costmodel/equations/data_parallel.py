"""Data parallelism: batch size, compressed gradients, and synchronisation without an all-reduce in every step."""

from __future__ import annotations

from typing import Literal

import numpy as np

from costmodel.ground.equation import Number, equation

# --- batch size: how many steps and samples a loss takes, and the batch with the least wall time


# Fits: Kaplan et al. 2020, eq. 1.4, for the critical batch in tokens; DeepSeek LLM 2024, eq. 1, for the best batch in
# tokens and the best learning rate, of the work in FLOP.
LOSS_BATCH, LOSS_EXPONENT = 2e8, 0.21
BATCH_FACTOR, BATCH_EXPONENT = 0.2920, 0.3271
RATE_FACTOR, RATE_EXPONENT = 0.3118, -0.1250
FITTED_FLOP = 1.0


@equation
def steps_for_batch(least_steps: Number, critical_batch: Number, batch: Number) -> Number:
    """Steps to a loss with a batch.

    S = S_min (1 + B_c/B), which with the samples E gives (S/S_min − 1)(E/E_min − 1) = 1

    least_steps S_min: steps that no batch, however large, can do without
    critical_batch B_c: batch with twice the least steps and twice the least samples
    batch B: of a step, in tokens or samples as the critical one
    → steps, S
    Source: mccandlish-2018
    Holds: learning rates set for each batch; one critical batch for the whole run, where it really grows as loss falls
    Monotone: increasing in least_steps, critical_batch; decreasing in batch
    >>> steps_for_batch(1000.0, 4e6, 1e6)
    5000.0
    """
    return least_steps * (1 + critical_batch / batch)


@equation
def samples_for_batch(least_samples: Number, critical_batch: Number, batch: Number) -> Number:
    """Samples to a loss with a batch.

    E = E_min (1 + B/B_c)

    least_samples E_min: samples that no batch, however small, can do without
    critical_batch B_c: batch with twice the least steps and twice the least samples
    batch B: of a step, in tokens or samples as the critical one
    → samples, E
    Source: mccandlish-2018
    Holds: as steps_for_batch
    Monotone: increasing in least_samples, batch; decreasing in critical_batch
    >>> samples_for_batch(1e12, 4e6, 1e6) / 1e12
    1.25
    """
    return least_samples * (1 + batch / critical_batch)


@equation
def best_batch(critical_batch: Number, fixed: Number, ranks: Number, token_time: Number) -> Number:
    """Batch with the least wall time to a loss.

    B* = √(B_c f n / t)

    critical_batch: batch with twice the least steps and twice the least samples, B_c, in tokens
    fixed f [s]: time of a step that the batch does not change · ranks n: accelerators that share the batch
    token_time t [s]: of a token on one rank
    → tokens of a step, B*
    Source: mccandlish-2018; composition
    Holds: steps as steps_for_batch, each of a time B t / n + f
    Pitfall: twice the batch always costs samples; it saves time only while the fixed part of a step counts
    Monotone: increasing in critical_batch, fixed, ranks; decreasing in token_time
    >>> round(float(best_batch(4e6, 0.4, 1024.0, 1e-3)))
    1280000
    """
    return np.sqrt(critical_batch * (fixed * ranks / token_time))


@equation
def critical_batch_of_loss(loss: Number) -> Number:
    """Critical batch of language models at a loss, as fitted in 2020.

    B_c = 2e8 / L^(1/0.21)

    loss: cross-entropy, L, in nats a token → tokens, B_c
    Source: kaplan-2020 eq. 1.4
    Holds: a fit on WebText2 with its tokenizer; with other data the constant is 2 to 3 times off, so that the answer is
        a band. Later fits find that it depends on the data seen, and not on the model
    Monotone: decreasing in loss
    >>> round(float(critical_batch_of_loss(2.0)) / 1e6, 1)
    7.4
    """
    return LOSS_BATCH / loss ** (1 / LOSS_EXPONENT)


@equation
def fitted_batch(flop: Number) -> Number:
    """Best batch of a training run, as DeepSeek fitted it.

    B = 0.292 C^0.3271

    flop C [FLOP]: work of the whole run → tokens of a step, B
    Source: bi-2024 eq. 1
    Holds: a fit of one team on its data from 1e17 to 2e19 FLOP, within 5 % of the batches of its 7B and 67B models
    Monotone: increasing in flop
    >>> round(float(fitted_batch(6 * 67e9 * 2e12)) / 1e6, 1)
    19.3
    """
    return BATCH_FACTOR * (flop / FITTED_FLOP) ** BATCH_EXPONENT


@equation
def carried_batch(batch: Number, tokens: Number, known_tokens: Number, growth_exponent: Number) -> Number:
    """Batch for more tokens from one that is known to be good for fewer.

    B (D/D₀)^α

    batch: known to be good, B, in tokens · tokens D: of the run to come · known_tokens D₀: of the run it was good for
    growth_exponent: α: 0.38 for the best, 0.46 for the critical batch
    → tokens of a step
    Source: bergsma-2025; zhang-2024
    Holds: the same data and tokenizer; fitted exponents are 0.383 for the best batch, 0.462 and 0.47 for the critical;
        no estimate calls it
    Monotone: increasing in batch, tokens; decreasing in known_tokens
    >>> float(carried_batch(1e6, 16e9, 1e9, 0.5)) / 1e6
    4.0
    """
    return batch * (tokens / known_tokens) ** growth_exponent


@equation
def carried_learning_rate(
    learning_rate: Number, batch: Number, known_batch: Number, *, rule: Literal["linear", "square root"]
) -> Number:
    """Learning rate for another batch from one that is known to be good.

    η B/B₀ for SGD with a warm-up; η √(B/B₀) for Adam

    learning_rate η: known to be good · batch B: of the run to come · known_batch B₀: of the run it was good for
    rule: how it grows
    → learning rate
    Source: goyal-2017; malladi-2022
    Holds: below the critical batch; the linear rule was seen to hold up to 8,192 images for ResNet-50
    Monotone: increasing in learning_rate, batch; decreasing in known_batch
    >>> float(carried_learning_rate(0.1, 8192.0, 256.0, rule="linear"))
    3.2
    """
    return learning_rate * (batch / known_batch) ** (1.0 if rule == "linear" else 0.5)


# --- compressed gradients: bytes of each kind of code, what crosses the network, and when it pays


@equation
def quantised_share(element: Number, scale: Number, group: Number, gradient: Number) -> Number:
    """Bytes of gradients in a narrow type over those of the gradients themselves.

    c = (e + s/k) / g: 1/2 for fp16 or bf16 of fp32, 1/4 for int8, 1/32 for one bit, and their scales

    element e [B]: bytes of a compressed element · scale s [B] · group k: elements that share a scale
    gradient g [B]: bytes of a gradient before
    → compressed over raw bytes, c
    Source: tang-2021; composition
    Monotone: increasing in element, scale; decreasing in group, gradient
    >>> quantised_share(1.0, 4.0, 256.0, 4.0), quantised_share(2.0, 0.0, 1.0, 4.0)
    (0.25390625, 0.5)
    """
    return (element + scale / group) / gradient


@equation
def sparse_share(kept_share: Number, element: Number, index: Number, gradient: Number) -> Number:
    """Bytes of the largest gradients with their places over those of all gradients (top-k).

    c = k (e + i) / g

    kept_share k · element e [B]: bytes of one as it is sent · index i [B]: bytes of its place
    gradient g [B]: bytes of a gradient before
    → compressed over raw bytes, c
    Source: lin-2018; composition
    Monotone: increasing in kept_share, element, index; decreasing in gradient
    >>> sparse_share(0.001, 4.0, 4.0, 4.0)
    0.002
    """
    return kept_share * (element + index) / gradient


@equation
def low_rank_share(rank: Number, m: Number, n: Number) -> Number:
    """Bytes of the two thin factors of a matrix of gradients over those of the matrix (PowerSGD).

    c = ρ (m + n) / (m n)

    rank ρ: inner width of the factors · m m: rows of the matrix · n n: columns of it
    → compressed over raw bytes, c; from 1 on the factors are no smaller
    Source: vogels-2019 §3
    Holds: factors in the type of the gradients; two all-reduces, one for each factor; vectors are sent whole
    Monotone: increasing in rank; decreasing in m, n
    >>> low_rank_share(4.0, 4096.0, 4096.0) == 1 / 512
    True
    """
    return rank * (m + n) / (m * n)


@equation
def compressed_wire(message: Number, ranks: Number, compressed_share: Number, *, reducible: bool) -> Number:
    """Bytes that a rank sends to sum compressed gradients.

    2 (n − 1)/n c S where compressed gradients can be added, else (n − 1) c S: every rank gathers those of all others

    message S [B]: bytes of the gradients before · ranks n · compressed_share c: compressed over raw bytes
    reducible: sums of compressed gradients are compressed gradients: narrow types with a common scale, factors
    → bytes sent by a rank [B]
    Source: vogels-2019 §3; composition
    Holds: no estimate calls it
    Pitfall: with sharded gradients most codes do not apply: a reduce-scatter adds on the way; sums of narrow types need
        an all-to-all instead
    Monotone: increasing in message, ranks, compressed_share
    >>> compressed_wire(1e9, 8.0, 0.25, reducible=True), compressed_wire(1e9, 8.0, 0.25, reducible=False)
    (437500000.0, 1750000000.0)
    """
    sent = 2 * (ranks - 1) / ranks if reducible else ranks - 1
    return sent * compressed_share * message


@equation
def largest_gathered_group(compressed_share: Number) -> Number:
    """Ranks beyond which gathering compressed gradients sends more bytes than an all-reduce of the raw ones.

    n = 2 / c

    compressed_share c: compressed over raw bytes → ranks, n
    Source: composition
    Monotone: decreasing in compressed_share
    >>> largest_gathered_group(0.002)
    1000.0
    """
    return 2 / compressed_share


@equation
def break_even_bandwidth(message: Number, ranks: Number, compressed_share: Number, codec: Number) -> Number:
    """Bandwidth of a rank under which compression takes less time than it saves, if no communication is hidden.

    B = 2 (n − 1)/n S (1 − c) / t

    message S [B]: bytes of the gradients before · ranks n · compressed_share c: compressed over raw bytes · codec t [s]
    → bandwidth, B [B/s]
    Source: composition
    Holds: compressed gradients can be added on the way; compressing is not hidden either
    Monotone: increasing in message, ranks; decreasing in compressed_share, codec
    >>> round(break_even_bandwidth(28e9, 64.0, 0.25, 0.04) / 1e9, 1)
    1033.6
    """
    return 2 * (ranks - 1) / ranks * message * (1 - compressed_share) / codec


@equation
def codec_traffic(
    parameters: Number, gradient: Number, passes: Number, feedback: Number, compressed_share: Number, restored: Number
) -> Number:
    """Bytes that compressing gradients and restoring their sum move through the memory of a rank.

    P (k g + 2 f + (1 + n) c g): so many passes over the gradients, what was left out before read and written again,
    the compressed gradients written once and read from n

    parameters P: parameters with a gradient · gradient g [B]: bytes of a gradient before
    passes k: times that the gradients are read or written whole
    feedback f [B]: bytes of a gradient that remember what was left out · compressed_share c: compressed over raw bytes
    restored: compressed gradients that a rank restores, n: 1 where sums travel, else one of each rank
    → bytes [B]
    Source: composition
    Holds: kernels that are bound by memory; a sort or an orthogonalisation takes longer
    Monotone: increasing in parameters, gradient, passes, feedback, compressed_share, restored
    >>> codec_traffic(1e9, 4.0, 2.0, 0.0, 0.5, 1.0) / 1e9
    12.0
    """
    return parameters * (passes * gradient + 2 * feedback + (1 + restored) * compressed_share * gradient)


@equation
def feedback_bytes(parameters: Number, feedback: Number, shared_feedback: Number, ranks: Number) -> Number:
    """Memory of what compression leaves out of a step and adds to the next (error feedback).

    P (f + h / n)

    parameters P: parameters whose gradients a rank compresses
    feedback f [B]: bytes of a gradient that each rank remembers of its own
    shared_feedback h [B]: bytes of a gradient that is remembered of the sum, by the rank that made its part
    ranks n: ranks that sum gradients
    → bytes [B]
    Source: tang-2021; vogels-2019 §3
    Pitfall: it is not sharded, so that it can cost the memory that sharding the optimizer saved
    Monotone: increasing in parameters, feedback, shared_feedback; decreasing in ranks
    >>> feedback_bytes(1e9, 4.0, 4.0, 8.0) / 1e9
    4.5
    """
    return parameters * (feedback + shared_feedback / ranks)


# --- data parallelism without an all-reduce in every step


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
