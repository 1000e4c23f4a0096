"""The kinds of feed-forward halves: an entry for each, with everything that time, memory and serving ask of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np

from costmodel.documents.schemas.model import AnyFeed, Experts, Layers, Mlp, Model
from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.memory_traffic import mlp_traffic
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
ROUTED = ("experts up", "experts down")
Own = TypeVar("Own")


class Feed(Generic[Own]):
    """A feed-forward half of a layer on one of `ranks` ranks; `own` is its description in the model document.

    A half that every token uses states the methods without a body; the others have the values of one.
    """

    label = ""  # its name in answers, beside those of the mixers

    def __init__(self, own: Own, ranks: Number) -> None:
        self.own, self.ranks = own, ranks

    @property
    def inner(self) -> Number:
        """Inner (intermediate) width on one rank."""
        raise NotImplementedError

    def parameters(self, hidden: Number) -> Number:
        """Parameters on a rank, without those of routing and of routed experts."""
        raise NotImplementedError

    def matrices(self, hidden: Number) -> Iterable[Matmul]:
        """The weight matrices as one rank multiplies them, without those of routed experts.

        `mlp up` and `mlp down` are the names of the first and the last, which recompute and adapters ask for.
        """
        raise NotImplementedError

    def traffic(self, tokens: Number, element: Number, *, backward: bool) -> Number:
        """Bytes read and written by the activation function for this many tokens, without matrix products."""
        raise NotImplementedError

    def activations(self, tokens: Number, element: Number) -> Number:
        """Bytes saved for backward by this half, without the residual stream."""
        raise NotImplementedError

    @property
    def narrow_width(self) -> Number:
        """Elements per token that are saved in a narrow type if inputs of the activation function are saved so."""
        return self.inner

    @property
    def input_matrices(self) -> tuple[str, ...]:
        """Names of the matrices that read the half's input; each may have its own adapter."""
        return ("up",)

    @property
    def dense(self) -> Feed[Any] | None:
        """The feed-forward network that every token passes through; None if there are only routed experts."""
        return self

    def routing_parameters(self, hidden: Number) -> Number:
        """Parameters of the router and of projections to narrower experts, which every rank stores whole."""
        return 0.0

    def routed(self, hidden: Number, ep: Number, etp: Number) -> RoutedExperts | None:
        """The routed experts on a rank: their number is sharded over ep, and each over etp."""
        return None


class MlpFeed(Feed[Mlp | Experts]):
    """An MLP, gated or plain: a layer's own, shared experts, or one of the routed experts."""

    @property
    def inner(self) -> Number:
        """Inner (intermediate) width on one rank."""
        return self.own.ffn_hidden / self.ranks

    def parameters(self, hidden: Number) -> Number:
        """Parameters on a rank."""
        return mlp_parameters(hidden, self.inner, gated=self.own.gated, biases=self.own.biases)

    def matrices(self, hidden: Number) -> tuple[Matmul, Matmul]:
        """The weight matrices as one rank multiplies them; the gate is fused with the first."""
        up, down = ROUTED if isinstance(self.own, Experts) else ("mlp up", "mlp down")
        inner = self.inner
        return Matmul(up, 2.0 * inner if self.own.gated else inner, hidden), Matmul(down, hidden, inner)

    def traffic(self, tokens: Number, element: Number, *, backward: bool) -> Number:
        """Bytes read and written by the activation function for this many tokens."""
        return mlp_traffic(tokens, self.inner, element, gated=self.own.gated, backward=backward)

    def activations(self, tokens: Number, element: Number) -> Number:
        """Bytes saved for backward, without the residual stream."""
        return mlp_activations(tokens, self.inner, element, gated=self.own.gated)

    @property
    def narrow_width(self) -> Number:
        """Width of three saved tensors of a gated MLP: gate, value and their product."""
        return 3.0 * self.inner if self.own.gated else self.inner

    @property
    def input_matrices(self) -> tuple[str, ...]:
        """Names of the matrices that read the MLP's input."""
        return self.own.projected


@record
class RoutedExperts:
    """The routed experts of one layer on one rank: `local` of them, with input width `hidden`; `each` is one."""

    of: Experts
    hidden: Number
    local: Number
    etp: Number
    each: MlpFeed
    parameters: Number

    def matrices(self) -> tuple[Matmul, Matmul]:
        """The weight matrices of one expert."""
        return self.each.matrices(self.hidden)

    def rows(self, tokens: Number, load: Number) -> Number:
        """Token rows that the experts of a rank process."""
        return routed_rows(tokens, self.of.top_k, self.etp, load)

    def flop(self, tokens: Number) -> Number:
        """Forward FLOP for so many tokens, each processed by top_k experts."""
        rows = self.of.top_k * tokens
        with term("experts"):
            up, down = self.matrices()
            return matmul_flop(rows, up.n, up.k) + matmul_flop(rows, down.n, down.k)

    def activations(self, rows: Number, element: Number) -> Number:
        """Bytes saved for backward by the experts of a rank for this many token rows."""
        with term("experts"):
            inputs = dispatched_activations(rows, self.hidden, self.of.count, element)
            return inputs + self.each.activations(rows, element)

    def looped(self) -> Number:
        """Number of experts for which the host launches separate kernels; a single expert counts as a plain MLP."""
        return self.local if self.of.count > 1 else 0.0


class ExpertsFeed(Feed[Experts]):
    """Routed experts, with a router and perhaps shared experts; each expert is an MLP."""

    @property
    def label(self) -> str:  # type: ignore[override]
        """Name of the experts in answers, such as `MoE`; a single expert is named as a plain MLP."""
        return "experts" if self.own.count > 1 else ""

    @property
    def dense(self) -> MlpFeed | None:
        """The shared experts, which every token passes through."""
        return None if self.own.shared is None else MlpFeed(self.own.shared, self.ranks)

    def matrices(self, hidden: Number) -> Iterator[Matmul]:
        """The weight matrices of shared experts and of routing; every rank stores those of routing whole."""
        if self.dense is not None:
            yield from self.dense.matrices(hidden)
        if self.own.count > 1:
            yield Matmul("router", self.own.count / self.ranks, hidden, self.ranks)
        yield from self._latent_matrices(hidden, self.ranks)

    def _latent_matrices(self, hidden: Number, tp: Number) -> Iterator[Matmul]:
        """The weight matrices that project tokens to narrower experts and back."""
        if self.own.latent_dim is not None:
            yield Matmul(LATENT[0], self.own.latent_dim / tp, hidden, tp)
            yield Matmul(LATENT[1], hidden / tp, self.own.latent_dim, tp)

    def routing_parameters(self, hidden: Number) -> Number:
        """Parameters of the router, of the shared expert's gate, and of the projections to narrower experts."""
        with term("router"):
            found = router_parameters(hidden, self.own.count, biases=self.own.router_bias)
        for matrix in self._latent_matrices(hidden, 1.0):
            found = found + table_parameters(matrix.n, matrix.k)
        return found + hidden if self.own.shared_gate else found

    def routed(self, hidden: Number, ep: Number, etp: Number) -> RoutedExperts:
        """The routed experts on a rank."""
        own, hidden = self.own, expert_hidden(hidden, self.own)
        local, each = own.count / ep, MlpFeed(own, etp)
        with term("experts"):
            return RoutedExperts(own, hidden, local, etp, each, local * each.parameters(hidden))


FEEDS: dict[type[AnyFeed], type[Feed[Any]]] = {Mlp: MlpFeed, Experts: ExpertsFeed}


def feed_of(kind: Layers, ranks: Number) -> Feed[Any] | None:
    """The feed-forward half of a layer, as one of `ranks` tensor-parallel ranks stores it."""
    own = kind.feed
    return None if own is None else FEEDS[type(own)](own, ranks)


def dense_inner_widths(kinds: Iterable[Layers]) -> list[float]:
    """Widths of the feed-forward parts that every token uses, which tensor parallelism must divide."""
    feeds = [feed_of(kind, 1.0) for kind in kinds]
    return [float(feed.dense.inner) for feed in feeds if feed is not None and feed.dense is not None]


def expert_hidden(hidden: Number, experts: Experts) -> Number:
    """Input and output width of routed experts: the residual stream's, or a narrower latent width."""
    return hidden if experts.latent_dim is None else experts.latent_dim


def token_destinations(experts: Experts, parts: Number) -> Number:
    """Number of ranks or domains to which a token is sent; group-limited routing bounds it."""
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
    total: Number = 0.0
    for kind in model.layers:
        if kind.experts is not None and kind.experts.hashed:
            with term("tables of hashed experts"):
                total = total + kind.count * expert_table_bytes(model.vocab, kind.experts.top_k, INDEX)
    return total


def has_hashed_experts(model: Model) -> bool:
    """Whether any layer routes tokens by a hash table."""
    return any(kind.experts is not None and kind.experts.hashed for kind in model.layers)
