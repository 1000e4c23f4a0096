"""Mixture of experts: parameters, routing, grouped matmuls, dispatch and combine."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def router_parameters(hidden: Number, experts: Number, *, biases: bool) -> Number:
    """Parameters of a router; a single expert needs none.

    h E, with biases h E + E; 0 if E = 1

    Args:
        hidden: width of the residual stream, h [1]
        experts: routed experts, E [1]
        biases: one for every expert

    Returns:
        parameters [1]

    Example:
        >>> float(router_parameters(7168.0, 256.0, biases=True))
        1835264.0

    Source:
        shazeer-2017; deepseek-2024 §2.1

    Monotone: increasing in hidden, experts
    """
    return np.where(experts > 1, hidden * experts + (experts if biases else 0.0), 0.0)


@equation
def active_parameters(parameters: Number, layers: Number, experts: Number, top_k: Number, expert: Number) -> Number:
    """Parameters one token meets: all but those of the routed experts it is not sent to.

    P − L max(E − k, 0) P_e

    Args:
        parameters: parameters of the model, P [1]
        layers: layers with experts, L [1]
        experts: routed experts of such a layer, E [1]
        top_k: experts a token is sent to, k [1]
        expert: parameters of one expert, P_e [1]

    Returns:
        parameters [1]

    Example:
        >>> float(active_parameters(46702792704.0, 32.0, 8.0, 2.0, 176160768.0))
        12879925248.0

    Source:
        jiang-2024 §2.1

    Monotone: increasing in parameters, top_k; decreasing in layers, experts, expert
    """
    return parameters - layers * np.maximum(experts - top_k, 0.0) * expert


@equation
def expert_data_degree(ranks: Number, pp: Number, ep: Number, etp: Number) -> Number:
    """Ranks that hold the same experts: experts are a second factorisation of the same ranks.

    edp = N / (pp ep etp)

    Args:
        ranks: ranks of the job, N [1]
        pp: pipeline stages [1]
        ep: expert-parallel degree [1]
        etp: expert-tensor-parallel degree [1]

    Returns:
        expert-data-parallel degree [1]

    Example:
        >>> expert_data_degree(2048.0, 16.0, 64.0, 1.0)
        2.0

    Source:
        megatron-lm parallel_state.py; liu-2025

    Monotone: increasing in ranks; decreasing in pp, ep, etp
    """
    return ranks / (pp * ep * etp)


@equation
def routed_rows(tokens: Number, top_k: Number, etp: Number, load: Number) -> Number:
    """Rows the experts of a rank work on: its tokens k times, and those of ranks it shares experts with.

    T k t_e l

    Args:
        tokens: tokens of a rank, T [1]
        top_k: experts a token is sent to, k [1]
        etp: expert-tensor-parallel degree, t_e [1]
        load: rows of the busiest rank over the mean, or the capacity factor padded to, l [1]

    Returns:
        rows [1]

    Example:
        >>> routed_rows(4096.0, 8.0, 1.0, 1.0)
        32768.0

    Source:
        shazeer-2017; megatron-lm token_dispatcher.py

    Monotone: increasing in tokens, top_k, etp, load
    """
    return tokens * top_k * etp * load


@equation
def grouped_flop(flop: Number, m: Number, groups: Number, half_rows: Number) -> Number:
    """Work of a grouped matmul as the time of a plain one sees it: short groups fill their tiles badly.

    F (1 + (1 − 1/G) r / m)

    Args:
        flop: work of all groups, F [FLOP]
        m: rows of a group [1]
        groups: groups, G; of one group the plain matmul [1]
        half_rows: rows at which half of the rate is reached, r [1]

    Returns:
        work that a plain matmul would do in the time [FLOP]

    Example:
        >>> grouped_flop(1e12, 1024.0, 1.0, 128.0), grouped_flop(1e12, 1024.0, 4.0, 128.0)
        (1000000000000.0, 1093750000000.0)

    Source:
        grouped-fit

    Monotone: increasing in flop, groups, half_rows; decreasing in m
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

    Args:
        experts: experts of the rank that are dealt with one by one, E [1]
        conversions: operations that convert one tensor to a narrow type, c [1]
        adapters: adapters of an expert, each of two thin products, a [1]
        unpacked: 1 where both weights are unpacked first, u [1]
        trained: gradients of the weights too
        backward: of backward, else of forward

    Returns:
        operations [1]

    Example:
        >>> [expert_operations(8.0, 3.0, 0.0, 0.0, trained=True, backward=way) for way in (False, True)]
        [64.0, 80.0]

    Holds:
        gate and up are one product; converted are the inputs of both products, or the gradients of their outputs

    Source:
        transformer-engine; peft

    Monotone: increasing in experts, conversions, adapters, unpacked
    """
    products = (4 if trained else 2) + 10 * adapters if backward else 2 + 6 * adapters
    return experts * (products + 2 * conversions + 6 * unpacked)


@equation
def distinct_destinations(parts: Number, top_k: Number, experts: Number) -> Number:
    """Different ranks or nodes the experts of a token lie on, on average, when any k of E are as likely.

    n (1 − C(E − E/n, k) / C(E, k)), where x (x − 1) … of k factors is (c² − (k² − 1) / 12)^(k/2), c = x − (k − 1) / 2

    Args:
        parts: ranks or nodes the experts are spread over, n [1]
        top_k: experts a token is sent to, k [1]
        experts: routed experts, E [1]

    Returns:
        copies of a token that are sent, its own place counted [1]

    Example:
        >>> [round(float(distinct_destinations(8.0, *routed)), 3) for routed in ((2.0, 8.0), (4.0, 16.0), (8.0, 256.0))]
        [2.0, 3.6, 5.295]

    Holds:
        the product of up to two factors is exact, of more to 1e-4 where k is at most half of the experts

    Source:
        zhao-2025-deepep; exact
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

    Args:
        tokens: tokens of a rank, T [1]
        hidden: width of the residual stream, h [1]
        sent: copies of a token sent over this link, its own place counted, c [1]
        parts: ranks or nodes the copies are spread over, n [1]
        element: bytes of an element on the network, e [B]

    Returns:
        bytes that leave [B]

    Example:
        >>> round(dispatch_bytes(4096.0, 7168.0, 8.0, 64.0, 1.0) / 1e6, 1)
        231.2

    Source:
        deepseek-2024 §3.2.2; exact

    Monotone: increasing in tokens, hidden, sent, parts, element
    """
    return tokens * hidden * sent * (1 - 1 / parts) * element


@equation
def permute_traffic(tokens: Number, hidden: Number, top_k: Number, experts: Number, element: Number) -> Number:
    """Bytes of ordering tokens by expert and of adding their outputs up again; a single expert needs neither.

    2 e h (1 + k) per token, backward as much; 0 if E = 1

    Args:
        tokens: tokens of a rank [1]
        hidden: width of the residual stream, h [1]
        top_k: experts a token is sent to, k [1]
        experts: routed experts, E [1]
        element: bytes of an element, e [B]

    Returns:
        bytes through memory [B]

    Example:
        >>> float(permute_traffic(1.0, 7168.0, 8.0, 256.0, 2.0))
        258048.0

    Source:
        count of reads and writes

    Monotone: increasing in tokens, hidden, top_k, element
    """
    return np.where(experts > 1, 2 * element * hidden * (1 + top_k) * tokens, 0.0)


@equation
def mask_rows(tokens: Number, top_k: Number, load: Number) -> Number:
    """Places of all experts that a product with a mask fills from the tokens of a rank, or empties into them.

    T k l; each is a sum over the tokens of one sequence

    Args:
        tokens: tokens of a rank, T [1]
        top_k: experts a token is sent to, k [1]
        load: capacity factor that experts are padded to, l [1]

    Returns:
        rows of that product [1]

    Example:
        >>> mask_rows(4096.0, 8.0, 1.25)
        40960.0

    Source:
        maxtext moe.py

    Monotone: increasing in tokens, top_k, load
    """
    return tokens * top_k * load


@equation
def dispatched_activations(rows: Number, hidden: Number, experts: Number, element: Number) -> Number:
    """Dispatched inputs of the experts, a copy for each expert of a token; a single expert reads the norm's output.

    e h a row; 0 if E = 1

    Args:
        rows: rows the experts of a rank work on [1]
        hidden: width of the residual stream, h [1]
        experts: routed experts, E [1]
        element: bytes of an element, e [B]

    Returns:
        bytes a layer keeps [B]

    Example:
        >>> float(dispatched_activations(8.0, 7168.0, 256.0, 2.0))
        114688.0

    Source:
        count of tensors; korthikanti-2022 §4.1

    Monotone: increasing in rows, hidden, element
    """
    return np.where(experts > 1, element * hidden * rows, 0.0)
