"""Routed experts on one rank: parameters, work, bytes, and the traffic of their tokens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costmodel.documents.schemas.feed_forward import Experts
from costmodel.documents.schemas.model import Layers, Model
from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.layers.experts import (
    dispatched_activations,
    distinct_destinations,
    expert_table_bytes,
    routed_rows,
    router_parameters,
)
from costmodel.equations.layers.parameters import mlp_parameters, table_parameters
from costmodel.equations.memory.activations import mlp_activations
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

INDEX = 4.0  # bytes of the number of an expert in a table of hashed routing
LATENT = ("experts narrow", "experts widen")  # matrices from the stream to narrower experts and back


@record
class Routed:
    """The routed experts of one layer on one rank: so many, of these widths outside and inside."""

    of: Experts
    hidden: Number
    local: Number
    etp: Number
    ffn_hidden: Number
    parameters: Number


def expert_hidden(hidden: Number, experts: Experts) -> Number:
    """Width that routed experts read and write: the stream's, or a narrower one that two matrices lead to and from."""
    return hidden if experts.latent_dim is None else experts.latent_dim


def latent_matmuls(hidden: Number, experts: Experts, tp: Number) -> Iterator[Matmul]:
    """The matrices from the stream to narrower experts and back; a rank holds them whole, as it does the router."""
    if experts.latent_dim is not None:
        yield Matmul(LATENT[0], experts.latent_dim / tp, hidden, tp)
        yield Matmul(LATENT[1], hidden / tp, experts.latent_dim, tp)


def expert_parameters(hidden: Number, experts: Experts) -> Number:
    """Parameters of one routed expert."""
    hidden = expert_hidden(hidden, experts)
    return mlp_parameters(hidden, experts.ffn_hidden, gated=experts.gated, biases=experts.biases)


def routing_parameters(hidden: Number, experts: Experts) -> Number:
    """Parameters of the router, of the shared expert's gate, and of the way to narrower experts and back."""
    with term("router"):
        found = router_parameters(hidden, experts.count, biases=experts.router_bias)
    for matrix in latent_matmuls(hidden, experts, 1.0):
        found = found + table_parameters(matrix.n, matrix.k)
    return found + hidden if experts.shared_gate else found


def routed(hidden: Number, kind: Layers, ep: Number, etp: Number) -> Routed | None:
    """The routed experts of a layer cut over ep ranks, each over etp."""
    experts = kind.experts
    if experts is None:
        return None
    local, width = experts.count / ep, experts.ffn_hidden / etp
    hidden = expert_hidden(hidden, experts)
    with term("experts"):
        each = mlp_parameters(hidden, width, gated=experts.gated, biases=experts.biases)
        return Routed(experts, hidden, local, etp, width, local * each)


def expert_matmuls(hidden: Number, experts: Experts, ffn_hidden: Number) -> tuple[Matmul, Matmul]:
    """The weight matrices of one routed expert of that width."""
    up = 2.0 * ffn_hidden if experts.gated else ffn_hidden
    hidden = expert_hidden(hidden, experts)
    return Matmul("experts up", up, hidden), Matmul("experts down", hidden, ffn_hidden)


def expert_flop(hidden: Number, experts: Experts, tokens: Number) -> Number:
    """Forward work of the routed experts on so many tokens, each in top_k of them."""
    rows = experts.top_k * tokens
    with term("experts"):
        up, down = expert_matmuls(hidden, experts, experts.ffn_hidden)
        return matmul_flop(rows, up.n, up.k) + matmul_flop(rows, down.n, down.k)


def rows_of(part: Routed, tokens: Number, load: Number) -> Number:
    """Rows that the experts of a rank work on."""
    return routed_rows(tokens, part.of.top_k, part.etp, load)


def expert_activations(part: Routed, rows: Number, element: Number) -> Number:
    """What the routed experts of a rank keep for backward."""
    with term("experts"):
        inputs = dispatched_activations(rows, part.hidden, part.of.count, element)
        return inputs + mlp_activations(rows, part.ffn_hidden, element, gated=part.of.gated)


def looped(part: Routed) -> Number:
    """Experts that the host deals with one by one; a single expert of a layer is an MLP."""
    return part.local if part.of.count > 1 else 0.0


def reached(experts: Experts, parts: Number) -> Number:
    """Ranks or domains with experts of a token; routing may be limited to a few groups of adjacent experts."""
    groups, limit = experts.groups, experts.group_limit
    if groups is None or limit is None:
        return distinct_destinations(parts, experts.top_k, experts.count)
    with term("groups of experts"):
        among = limit * experts.count / groups
        spread = np.maximum(parts / groups, 1.0)
        each = distinct_destinations(limit * spread, experts.top_k, among)
        return np.where(parts < groups, distinct_destinations(np.minimum(parts, groups), each, groups), each)


def expert_tables(model: Model) -> Number:
    """Bytes of the tables of layers whose experts are found by the number of a token; no parameters."""
    found: Number = 0.0
    for kind in model.layers:
        if kind.experts is not None and kind.experts.hashed:
            with term("tables of hashed experts"):
                found = found + kind.count * expert_table_bytes(model.vocab, kind.experts.top_k, INDEX)
    return found


def has_hashed_experts(model: Model) -> bool:
    """Whether any layer has a table of experts."""
    return any(kind.experts is not None and kind.experts.hashed for kind in model.layers)
