"""Mixture of experts: parameters, routing, grouped matmuls, dispatch, combine, and how evenly tokens fall on them."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation

# --- Mixture of experts: parameters, routing, grouped matmuls, dispatch and combine.


@equation
def router_parameters(hidden: Number, experts: Number, *, biases: bool) -> Number:
    """Parameters of a router; a single expert needs none.

    h E, with biases h E + E; 0 if E = 1

    hidden h · experts E: routed experts · biases: one for every expert → parameters
    Source: shazeer-2017; deepseek-2024 §2.1
    Monotone: increasing in hidden, experts
    >>> float(router_parameters(7168.0, 256.0, biases=True))
    1835264.0
    """
    return np.where(experts > 1, hidden * experts + (experts if biases else 0.0), 0.0)


@equation
def active_parameters(parameters: Number, layers: Number, experts: Number, top_k: Number, expert: Number) -> Number:
    """Parameters one token meets: all but those of the routed experts it is not sent to.

    P − L max(E − k, 0) P_e

    parameters P: parameters of the model · layers L: layers with experts · experts E: routed experts of such a layer
    top_k k · expert P_e
    → parameters
    Source: jiang-2024 §2.1
    Monotone: increasing in parameters, top_k; decreasing in layers, experts, expert
    >>> float(active_parameters(46702792704.0, 32.0, 8.0, 2.0, 176160768.0))
    12879925248.0
    """
    return parameters - layers * np.maximum(experts - top_k, 0.0) * expert


@equation
def expert_data_degree(ranks: Number, pp: Number, ep: Number, etp: Number) -> Number:
    """Ranks that hold the same experts: experts are a second factorisation of the same ranks.

    edp = N / (pp ep etp)

    ranks N: ranks of the job · pp · ep · etp → expert-data-parallel degree
    Source: megatron-lm parallel_state.py; liu-2025
    Monotone: increasing in ranks; decreasing in pp, ep, etp
    >>> expert_data_degree(2048.0, 16.0, 64.0, 1.0)
    2.0
    """
    return ranks / (pp * ep * etp)


@equation
def routed_rows(tokens: Number, top_k: Number, etp: Number, load: Number) -> Number:
    """Rows the experts of a rank work on: its tokens k times, and those of ranks it shares experts with.

    T k t_e l

    tokens T: tokens of a rank · top_k k · etp t_e
    load l: rows of the busiest rank over the mean, or the capacity factor padded to
    → rows
    Source: shazeer-2017; megatron-lm token_dispatcher.py
    Monotone: increasing in tokens, top_k, etp, load
    >>> routed_rows(4096.0, 8.0, 1.0, 1.0)
    32768.0
    """
    return tokens * top_k * etp * load


@equation
def grouped_flop(flop: Number, m: Number, groups: Number, half_rows: Number) -> Number:
    """Work of a grouped matmul as the time of a plain one sees it: short groups fill their tiles badly.

    F (1 + (1 − 1/G) r / m)

    flop F [FLOP]: work of all groups · m: rows of a group · groups: groups, G; of one group the plain matmul
    half_rows r: rows at which half of the rate is reached
    → work that a plain matmul would do in the time [FLOP]
    Source: grouped-fit
    Monotone: increasing in flop, groups, half_rows; decreasing in m
    >>> grouped_flop(1e12, 1024.0, 1.0, 128.0), grouped_flop(1e12, 1024.0, 4.0, 128.0)
    (1000000000000.0, 1093750000000.0)
    """
    return flop * (1 + (1 - 1 / groups) * half_rows / m)


@equation
def expert_operations(
    experts: Number, conversions: Number, adapters: Number, unpacked: Number, *, trained: bool, backward: bool
) -> Number:
    """Operations the host issues in one direction for the experts of a rank, one expert after the other.

    forward E (2 + 2 c + 6 a + 6 u); backward E (4 + 2 c + 10 a + 6 u), of frozen experts E (2 + 2 c + 10 a + 6 u):
    an adapter is a copy, a cast, two products, a scaling and a sum, and backward four products; a weight in 4 bits is
    unpacked in three, its scales, their offset, then itself

    experts E: experts of the rank that are dealt with one by one · conversions c · adapters a
    unpacked u: 1 where both weights are unpacked first · trained: gradients of the weights too
    backward: of backward, else of forward
    → operations
    Source: transformer-engine; peft
    Holds: gate and up are one product; converted are the inputs of both products, or the gradients of their outputs
    Monotone: increasing in experts, conversions, adapters, unpacked
    >>> [expert_operations(8.0, 3.0, 0.0, 0.0, trained=True, backward=way) for way in (False, True)]
    [64.0, 80.0]
    """
    products = (4 if trained else 2) + 10 * adapters if backward else 2 + 6 * adapters
    return experts * (products + 2 * conversions + 6 * unpacked)


@equation
def fetch_operations(matrices: Number, fetched: Number) -> Number:
    """Operations in which the host gathers, and frees, the matrices of the experts of a layer one after the other.

    m f

    matrices m: matrices of the experts of a layer · fetched f: operations of one → operations
    Source: deepspeed partitioned_param_coordinator.py fetch_sub_module, release_sub_module
    Monotone: increasing in matrices, fetched
    >>> fetch_operations(384.0, 20.0)
    7680.0
    """
    return matrices * fetched


@equation
def distinct_destinations(parts: Number, top_k: Number, experts: Number) -> Number:
    """Different ranks or nodes the experts of a token lie on, on average, when any k of E are as likely.

    n (1 − C(E − E/n, k) / C(E, k)), where x (x − 1) … of k factors is (c² − (k² − 1) / 12)^(k/2), c = x − (k − 1) / 2

    parts n: ranks or nodes the experts are spread over · top_k k · experts E: routed experts
    → copies of a token that are sent, its own place counted
    Source: zhao-2025-deepep; exact
    Holds: the product of up to two factors is exact, of more to 1e-4 where k is at most half of the experts
    >>> [round(float(distinct_destinations(8.0, *routed)), 3) for routed in ((2.0, 8.0), (4.0, 16.0), (8.0, 256.0))]
    [2.0, 3.6, 5.295]
    """
    elsewhere, most = experts * (1 - 1 / parts), np.maximum(experts, top_k)
    middle, apart = (top_k - 1) / 2, (top_k**2 - 1) / 12
    left = np.maximum((np.maximum(elsewhere, top_k - 1) - middle) ** 2 - apart, 0)
    missed = (left / ((most - middle) ** 2 - apart)) ** (top_k / 2)
    return parts * (1 - np.where(elsewhere > top_k - 1, missed, 0.0))


@equation
def dispatch_bytes(tokens: Number, hidden: Number, sent: Number, parts: Number, element: Number) -> Number:
    """Bytes a rank sends to dispatch its tokens, or to combine what comes back.

    T h c (1 − 1/n) e

    tokens T: tokens of a rank · hidden h · sent c: copies of a token sent over this link, its own place counted
    parts n: ranks or nodes the copies are spread over · element e [B]: bytes of an element on the network
    → bytes that leave [B]
    Source: deepseek-2024 §3.2.2; exact
    Monotone: increasing in tokens, hidden, sent, parts, element
    >>> round(dispatch_bytes(4096.0, 7168.0, 8.0, 64.0, 1.0) / 1e6, 1)
    231.2
    """
    return tokens * hidden * sent * (1 - 1 / parts) * element


@equation
def permute_traffic(tokens: Number, hidden: Number, top_k: Number, experts: Number, element: Number) -> Number:
    """Bytes of ordering tokens by expert and of adding their outputs up again; a single expert needs neither.

    2 e h (1 + k) per token, backward as much; 0 if E = 1

    tokens: tokens of a rank · hidden h · top_k k · experts E: routed experts · element e [B] → bytes through memory [B]
    Source: count of reads and writes
    Monotone: increasing in tokens, hidden, top_k, element
    >>> float(permute_traffic(1.0, 7168.0, 8.0, 256.0, 2.0))
    258048.0
    """
    return np.where(experts > 1, 2 * element * hidden * (1 + top_k) * tokens, 0.0)


@equation
def mask_rows(tokens: Number, top_k: Number, load: Number) -> Number:
    """Places of all experts that a product with a mask fills from the tokens of a rank, or empties into them.

    T k l; each is a sum over the tokens of one sequence

    tokens T: tokens of a rank · top_k k · load l: capacity factor that experts are padded to → rows of that product
    Source: maxtext moe.py
    Monotone: increasing in tokens, top_k, load
    >>> mask_rows(4096.0, 8.0, 1.25)
    40960.0
    """
    return tokens * top_k * load


@equation
def dispatched_activations(rows: Number, hidden: Number, experts: Number, element: Number) -> Number:
    """Dispatched inputs of the experts, a copy for each expert of a token; a single expert reads the norm's output.

    e h a row; 0 if E = 1

    rows: rows the experts of a rank work on · hidden h · experts E: routed experts · element e [B]
    → bytes a layer keeps [B]
    Source: count of tensors; korthikanti-2022 §4.1
    Monotone: increasing in rows, hidden, element
    >>> float(dispatched_activations(8.0, 7168.0, 256.0, 2.0))
    114688.0
    """
    return np.where(experts > 1, element * hidden * rows, 0.0)


# --- How tokens fall on experts when they are not spread evenly.


@equation
def load_variation(tokens: Number, top_k: Number, experts: Number, skew: Number) -> Number:
    """Variation of the rows of an expert over their mean, where they are drawn by a power law between two ends.

    √(E[x²] / E[x]² − 1), p(x) ∝ x^−α from 1 to 0.8 T, from 0.01 to 2 if T k ≤ E

    tokens T: tokens routed · top_k k · experts E: routed experts · skew: exponent of the power law, α, between 1 and 2
    → standard deviation over mean
    Source: aiconfigurator collector/helper.py; exact
    >>> round(float(load_variation(16384.0, 8.0, 160.0, 1.2)), 2)
    3.01
    """
    least, most = _search_bracket(tokens, top_k, experts)
    mean = _moment(1.0, least, most, skew)
    spread = _moment(2.0, least, most, skew) * _moment(0.0, least, most, skew) / mean**2
    return np.maximum(spread - 1, 0) ** 0.5


@equation
def rank_variation(variation: Number, experts: Number, ep: Number) -> Number:
    """Variation of the rows of a rank that holds several experts of a layer, the rows of all ranks being given.

    v √((n − 1) / E)

    variation v: variation of one expert · experts E: routed experts · ep n → standard deviation over mean
    Source: exact
    Monotone: increasing in variation, ep; decreasing in experts
    >>> float(rank_variation(2.0, 64.0, 17.0))
    1.0
    """
    return variation * ((ep - 1) / experts) ** 0.5


@equation
def drawing_share(tokens: Number, top_k: Number, experts: Number, skew: Number) -> Number:
    """Share of experts that draw a row at all, where rows are drawn by the power law of load_variation.

    P(x > E E[x] / (2 T k)): fewer than half a row is none

    tokens T: tokens routed · top_k k · experts E: routed experts · skew: exponent of the power law, between 1 and 2
    → share
    Source: aiconfigurator collector/helper.py; exact
    >>> [round(float(drawing_share(tokens, 8.0, 160.0, 1.2)), 2) for tokens in (8.0, 64.0, 16384.0)]
    [0.23, 0.84, 1.0]
    """
    least, most = _search_bracket(tokens, top_k, experts)
    total = _moment(0.0, least, most, skew)
    half = experts * _moment(1.0, least, most, skew) / total / (2 * tokens * top_k)
    return _moment(0.0, np.minimum(np.maximum(half, least), most), most, skew) / total


def _search_bracket(tokens: Number, top_k: Number, experts: Number) -> tuple[Number, Number]:
    many = tokens * top_k > experts
    return np.where(many, 1.0, 0.01), np.where(many, np.maximum(0.8 * tokens, 1.01), 2.0)


def _moment(power: float, least: Number, most: Number, skew: Number) -> Number:
    """Integral of x^(power − skew) from least to most.

    Where power + 1 − skew is near 0 it would be a logarithm; 1e-6 in its place comes close to that.
    """
    near = power + 1 - skew
    grown = np.where(np.abs(near) < 1e-6, 1e-6, near)
    return (most**grown - least**grown) / grown


# --- Routing by a fixed table: the experts of a token stand there by its number.


@equation
def expert_table_bytes(vocab: Number, top_k: Number, index: Number) -> Number:
    """Bytes of the table of one layer: the experts of every token of the vocabulary.

    i V k

    vocab V: tokens of the vocabulary · top_k k: experts that a token is sent to
    index i [B]: bytes of the number of an expert
    → bytes that every rank with the layer holds [B]
    Source: deepseek-v4 §2.1, released code
    Monotone: increasing in vocab, top_k, index
    >>> expert_table_bytes(129280.0, 6.0, 4.0)
    3102720.0
    """
    return index * vocab * top_k


# --- Copies of routed experts, which even out what the ranks of expert parallelism have to do.


@equation
def placed_experts(experts: Number, redundant: Number) -> Number:
    """Experts of a layer that stand on ranks: each of the model's once, and further copies of those in demand.

    E + r

    experts E: routed experts of the model · redundant r: further copies → experts
    Source: deepseek-2024 §3.4; vllm-engine distributed/eplb
    Holds: every rank holds as many, so ep divides them
    Pitfall: copies even the load, they do not shrink it: how far the busiest rank still exceeds the mean is measured
    Monotone: increasing in experts, redundant
    >>> [placed_experts(256.0, 32.0) / ranks for ranks in (32.0, 144.0)]
    [9.0, 2.0]
    """
    return experts + redundant


@equation
def placed_weights(nbytes: Number, experts: Number, placed: Number) -> Number:
    """Bytes of a rank's routed experts with the copies that it holds.

    W E_p / E

    nbytes W [B]: bytes of its part of the model's own experts · experts E: routed experts of the model
    placed E_p: those that stand on ranks, copies counted
    → bytes [B]
    Source: exact
    Monotone: increasing in nbytes, placed; decreasing in experts
    >>> placed_weights(8e9, 256.0, 288.0) / 1e9
    9.0
    """
    return nbytes * placed / experts
