"""Routed experts on one rank: parameters, work, bytes, and the traffic of their tokens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costmodel.documents.schemas.model import Experts, Layers, Model
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
    """The routed experts of one layer on one rank: `local` experts of width `hidden` and inner width `ffn_hidden`."""

    of: Experts
    hidden: Number
    local: Number
    etp: Number
    ffn_hidden: Number
    parameters: Number


def expert_hidden(hidden: Number, experts: Experts) -> Number:
    """Input and output width of routed experts: the residual stream's, or a narrower latent width."""
    return hidden if experts.latent_dim is None else experts.latent_dim


def latent_matmuls(hidden: Number, experts: Experts, tp: Number) -> Iterator[Matmul]:
    """The projections to narrower experts and back; each rank stores them whole, like the router."""
    if experts.latent_dim is not None:
        yield Matmul(LATENT[0], experts.latent_dim / tp, hidden, tp)
        yield Matmul(LATENT[1], hidden / tp, experts.latent_dim, tp)


def expert_parameters(hidden: Number, experts: Experts) -> Number:
    """Parameters of one routed expert."""
    hidden = expert_hidden(hidden, experts)
    return mlp_parameters(hidden, experts.ffn_hidden, gated=experts.gated, biases=experts.biases)


def routing_parameters(hidden: Number, experts: Experts) -> Number:
    """Parameters of the router, of the shared expert's gate, and of the projections to narrower experts."""
    with term("router"):
        found = router_parameters(hidden, experts.count, biases=experts.router_bias)
    for matrix in latent_matmuls(hidden, experts, 1.0):
        found = found + table_parameters(matrix.n, matrix.k)
    return found + hidden if experts.shared_gate else found


def routed(hidden: Number, kind: Layers, ep: Number, etp: Number) -> Routed | None:
    """The routed experts of a layer on a rank: experts sharded over ep, and each over etp."""
    experts = kind.experts
    if experts is None:
        return None
    local, width = experts.count / ep, experts.ffn_hidden / etp
    hidden = expert_hidden(hidden, experts)
    with term("experts"):
        each = mlp_parameters(hidden, width, gated=experts.gated, biases=experts.biases)
        return Routed(experts, hidden, local, etp, width, local * each)


def expert_matmuls(hidden: Number, experts: Experts, ffn_hidden: Number) -> tuple[Matmul, Matmul]:
    """The weight matrices of one routed expert with this inner width."""
    up = 2.0 * ffn_hidden if experts.gated else ffn_hidden
    hidden = expert_hidden(hidden, experts)
    return Matmul("experts up", up, hidden), Matmul("experts down", hidden, ffn_hidden)


def expert_flop(hidden: Number, experts: Experts, tokens: Number) -> Number:
    """Forward FLOP of the routed experts for so many tokens, each processed by top_k experts."""
    rows = experts.top_k * tokens
    with term("experts"):
        up, down = expert_matmuls(hidden, experts, experts.ffn_hidden)
        return matmul_flop(rows, up.n, up.k) + matmul_flop(rows, down.n, down.k)


def rows_of(part: Routed, tokens: Number, load: Number) -> Number:
    """Token rows that the experts of a rank process."""
    return routed_rows(tokens, part.of.top_k, part.etp, load)


def expert_activations(part: Routed, rows: Number, element: Number) -> Number:
    """Saved activations of the routed experts on a rank."""
    with term("experts"):
        inputs = dispatched_activations(rows, part.hidden, part.of.count, element)
        return inputs + mlp_activations(rows, part.ffn_hidden, element, gated=part.of.gated)


def looped(part: Routed) -> Number:
    """Experts for which the host launches separate work; a single expert is a plain MLP."""
    return part.local if part.of.count > 1 else 0.0


def reached(experts: Experts, parts: Number) -> Number:
    """Number of ranks or domains that have experts of a token; routing may be limited to some groups of experts."""
    groups, limit = experts.groups, experts.group_limit
    if groups is None or limit is None:
        return distinct_destinations(parts, experts.top_k, experts.count)
    with term("groups of experts"):
        among = limit * experts.count / groups
        spread = np.maximum(parts / groups, 1.0)
        each = distinct_destinations(limit * spread, experts.top_k, among)
        return np.where(parts < groups, distinct_destinations(np.minimum(parts, groups), each, groups), each)


def expert_tables(model: Model) -> Number:
    """Bytes of the tables that map token ids to experts, in layers with hash routing; they are no parameters."""
    found: Number = 0.0
    for kind in model.layers:
        if kind.experts is not None and kind.experts.hashed:
            with term("tables of hashed experts"):
                found = found + kind.count * expert_table_bytes(model.vocab, kind.experts.top_k, INDEX)
    return found


def has_hashed_experts(model: Model) -> bool:
    """Whether any layer routes tokens by a hash table."""
    return any(kind.experts is not None and kind.experts.hashed for kind in model.layers)
