"""What a token costs, and how many replicas or instances a rate takes."""

from __future__ import annotations

import numpy as np

from costmodel.equations.serving.service_level import normal_quantile
from costmodel.ground.equation import Number, equation

MONTH = 730 * 3600.0  # s, a twelfth of 365 days: what clouds count as a month
MOST_SPARES = 64  # up to which spare replicas are counted one by one


# --- How long a replica takes to start.


@equation
def engine_start_time(
    fixed: Number,
    weight_memory: Number,
    bandwidth: Number,
    layers: Number,
    layer_time: Number,
    graph_sizes: Number,
    graph_time: Number,
) -> Number:
    """Time from starting the process of an engine until it answers.

    t₀ + W / B + L (t_L + g t_g)

    fixed t₀ [s]: libraries, processes, tokenizer · weight_memory W [B]: of a rank
    bandwidth B [B/s]: of reading weights · layers L
    layer_time t_L [s]: compiling, or loading what was compiled, and a dry run, each layer
    graph_sizes g: batch sizes that graphs are captured for · graph_time t_g [s]: capturing one, each layer
    → time [s]
    Source: kabakibo-2026 section 4
    Holds: vLLM 0.10 on A100 with its cache of compilations; ranks start side by side
    Monotone: increasing in fixed, weight_memory, layers, layer_time, graph_sizes, graph_time; decreasing in bandwidth
    >>> round(engine_start_time(21.0, 13.5e9, 1.8e9, 32.0, 0.45, 67.0, 1.2e-3), 1)  # Llama 2 7B: 46.1 s
    45.5
    """
    return fixed + weight_memory / bandwidth + layers * (layer_time + graph_sizes * graph_time)


# --- What a token costs, and how many replicas a rate takes.


@equation
def prompt_cost(tokens: Number, ranks: Number, price: Number, prompt_token_time: Number) -> Number:
    """Rent that prompt tokens are due to, by the time they add to steps.

    T N price γ

    tokens T: prompt tokens to pay for · ranks N: accelerators of a replica · price [USD/s]
    prompt_token_time γ [s]: time each prompt token adds to a step
    → cost [USD]
    Source: composition
    Holds: tokens that are computed; one that is in the cache is due only to its share of attention
    Monotone: increasing in tokens, ranks, price, prompt_token_time
    >>> round(prompt_cost(1e6, 8.0, 2.5 / 3600, 47.8e-6), 3)
    0.266
    """
    return tokens * ranks * price * prompt_token_time


@equation
def output_cost(
    tokens: Number, ranks: Number, price: Number, base_time: Number, sequence_time: Number, concurrency: Number
) -> Number:
    """Rent that generated tokens are due to: their own time, and the fixed part of steps, which they share.

    T N price (α / b + β); with the b of the mean load, this and prompt_cost are the whole rent

    tokens T: generated tokens to pay for · ranks N: accelerators of a replica · price [USD/s]
    base_time α [s]: fixed time of a step · sequence_time β [s] · concurrency b: sequences of a step
    → cost [USD]
    Source: little-1961; composition
    Pitfall: with the b of a full engine it is the price of a fleet that is always full; most are at half of it
    Monotone: increasing in tokens, ranks, price, base_time, sequence_time; decreasing in concurrency
    >>> round(output_cost(1e6, 8.0, 2.5 / 3600, 9.98e-3, 60.7e-6, 64.0), 2)
    1.2
    """
    return tokens * ranks * price * (base_time / concurrency + sequence_time)


@equation
def token_energy(power: Number, tokens_per_second: Number) -> Number:
    """Energy of one token.

    P / rate

    power P [W]: of all that serves them · tokens_per_second [1/s]: tokens a second → energy [J]
    Source: composition
    Monotone: increasing in power; decreasing in tokens_per_second
    >>> round(token_energy(10200.0, 14.8e3), 3)
    0.689
    """
    return power / tokens_per_second


@equation
def replicas_needed(request_rate: Number, headroom: Number, replica_rate: Number) -> Number:
    """Replicas for a rate and some more.

    ⌈λ (1 + h) / λ*⌉

    request_rate λ [1/s]: requests a second at the peak · headroom h: share on top of it
    replica_rate λ* [1/s]: requests a second that one replica stands within its limits
    → replicas
    Source: composition
    Monotone: increasing in request_rate, headroom; decreasing in replica_rate
    >>> float(replicas_needed(50.0, 0.2, 7.4))
    9.0
    """
    return np.ceil(request_rate * (1 + headroom) / replica_rate)


@equation
def accelerators_rented(ranks: Number, accelerators: Number) -> Number:
    """Accelerators that are paid for where whole nodes are rented.

    n ⌈N / n⌉

    ranks N: accelerators in use · accelerators n: of a node → accelerators
    Source: exact
    Monotone: increasing in ranks
    >>> float(accelerators_rented(60.0, 8.0))
    64.0
    """
    return np.ceil(ranks / accelerators) * accelerators


@equation
def spare_replicas(required: Number, availability: Number, probability: Number) -> Number:
    """Replicas on top of those required, so that enough are up with a wanted probability.

    least j with Σ_(i ≤ j) C(n + i − 1, i) aⁿ (1 − a)^i ≥ P: of n + j, at least n are up

    required n · availability a: share of time that one is up · probability P: that enough are → replicas
    Source: exact; cornish-fisher-1938
    Holds: replicas fail independently; exact up to 64. More follow from the first four moments (Cornish and Fisher):
        never too few, and one too many at most from availability 20 % on and to probability 99.99 %
    Monotone: increasing in required, probability; decreasing in availability
    >>> float(spare_replicas(9.0, 0.995, 0.999))
    2.0
    """
    counted = _spares_sum(required, availability, probability, spares=MOST_SPARES)[2]
    many = np.ceil(_failures(required, availability, normal_quantile(1 - probability)))
    return np.where(counted < MOST_SPARES, counted, np.maximum(many, float(MOST_SPARES)))


def _failures(required: Number, availability: Number, deviations: Number) -> Number:
    """Quantile of the replicas that are down where so many are up (negative binomial), from its first four moments."""
    down = required * (1 - availability)
    skewness = (2 - availability) / np.sqrt(np.where(down > 0, down, 1.0))
    excess = 6 / required + availability**2 / np.where(down > 0, down, 1.0)
    bent = (deviations**2 - 1) * skewness / 6
    bent = bent + (deviations**3 - 3 * deviations) * excess / 24
    bent = bent - (2 * deviations**3 - 5 * deviations) * skewness**2 / 36
    failures: Number = (down + np.sqrt(down) * (deviations + bent)) / availability
    return failures


def _spares_sum(
    required: Number, availability: Number, probability: Number, *, spares: int
) -> tuple[Number, Number, Number]:
    """The term of so many spares, the sum up to it, and how many sums of fewer spares are under the probability."""
    if spares == 0:
        alone = availability**required
        return alone, alone, 0 * alone
    term, total, short = _spares_sum(required, availability, probability, spares=spares - 1)
    term = term * (required + spares - 1) / spares * (1 - availability)
    return term, total + term, short + np.where(total < probability, 1.0, 0.0)


@equation
def enough_of_each(probability: Number, kinds: Number) -> Number:
    """Probability with which enough replicas of each kind must be up, so that enough of all kinds are.

    P^(1/k)

    probability P: that enough of all kinds are up · kinds k: of replicas, that fail independently → probability
    Source: exact
    Monotone: increasing in probability, kinds
    >>> round(enough_of_each(0.81, 2.0), 3)
    0.9
    """
    return probability ** (1 / kinds)


@equation
def spare_rate(growth: Number, startup: Number) -> Number:
    """Rate to hold in reserve while new replicas start.

    λ' t₀

    growth λ' [1/s/s]: by which the rate rises, requests a second in a second
    startup t₀ [s]: from the decision to a replica that serves
    → requests a second [1/s]
    Source: composition
    Monotone: increasing in growth, startup
    >>> round(spare_rate(0.1, 180.0))
    18
    """
    return growth * startup


# --- Prefill and decode on different instances: how many of each, and the cache that moves between them.


@equation
def prefill_decode_ratio(prompt: Number, prefill_rate: Number, output: Number, decode_rate: Number) -> Number:
    """Prefill instances for each decode instance, so that neither waits for the other.

    (s / μ_P) / (o / μ_D)

    prompt s: tokens of a prompt that are computed, on average · prefill_rate μ_P [1/s]
    output o: tokens that are generated, on average · decode_rate μ_D [1/s]
    → ratio
    Source: zhong-2024; patel-2024
    Monotone: increasing in prompt, decode_rate; decreasing in prefill_rate, output
    >>> round(prefill_decode_ratio(2048.0, 30e3, 512.0, 6e3), 3)
    0.8
    """
    return (prompt / prefill_rate) / (output / decode_rate)


@equation
def cache_transfer_time(nbytes: Number, sending: Number, receiving: Number) -> Number:
    """Time to move the cache of one prompt to the instance that decodes it.

    S / min(B_P, B_D)

    nbytes S [B]: cache of the prompt over all ranks
    sending B_P [B/s]: rate of all interfaces of the prefill instance together
    receiving B_D [B/s]: rate of all interfaces of the decode instance together
    → time [s]
    Source: zhong-2024 §3; patel-2024
    Monotone: increasing in nbytes; decreasing in sending, receiving
    >>> [round(float(cache_transfer_time(2.684e9, rate, rate)) * 1e3, 1) for rate in (50e9, 400e9)]
    [53.7, 6.7]
    """
    return nbytes / np.minimum(sending, receiving)


@equation
def exposed_transfer_time(transfer: Number, prefill: Number, layers: Number) -> Number:
    """Time from the end of a prefill to the arrival of its cache, when each layer is sent as soon as it is computed.

    max(T, P) + min(T, P) / L − P: the last layer, or all but what the first layer's prefill delays

    transfer T [s]: time to move the whole cache · prefill P [s]: time of the prefill
    layers: layers that are sent one by one, L; 1 where the cache is sent whole
    → exposed time [s]
    Source: patel-2024 §4; exact
    Holds: layers alike; no other prompt on the links
    Monotone: increasing in transfer; decreasing in layers
    >>> round(float(exposed_transfer_time(53.7e-3, 222e-3, 80.0)) * 1e3, 2)
    0.67
    """
    return np.maximum(transfer, prefill) + np.minimum(transfer, prefill) / layers - prefill
