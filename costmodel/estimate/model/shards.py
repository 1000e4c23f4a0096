"""A layer as one rank stores it: mixer, feed-forward half or experts, and what stands beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from costmodel.documents.schemas.model import Layers, Model, Projector, VisionTower
from costmodel.equations.layers.experts import active_parameters
from costmodel.equations.layers.parameters import norm_parameters, table_parameters
from costmodel.equations.layers.residual_streams import (
    alternating_activations,
    alternating_coefficients,
    alternating_parameters,
    alternating_traffic,
    hyper_connection_activations,
    hyper_connection_parameters,
    hyper_connection_traffic,
    layer_embedding_activations,
    layer_embedding_traffic,
    mixing_weights,
    side_branch_activations,
    side_branch_traffic,
    stream_ends_activations,
    stream_ends_columns,
    stream_head_parameters,
)
from costmodel.equations.network.collectives import activation_message
from costmodel.estimate.model.feed_forward_kinds import Feed, RoutedExperts, feed_of
from costmodel.estimate.model.mixers.mixer import Matmul, Mixer
from costmodel.estimate.model.mixers.mixing_half import mixer_matmuls, mixer_shard
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


def entry_matmuls(model: Model, tp: Number) -> Iterator[Matmul]:
    """The weight matrices of a per-layer embedding, which each rank stores whole: projection, gate and output.

    The projection of all layers is one product behind the embedding; each layer is given its own share.
    """
    own = model.layer_embedding
    if own is not None:
        yield Matmul("entry projection", own.width / tp, model.hidden, tp)
        yield Matmul("entry gate", own.width / tp, model.hidden, tp)
        yield Matmul("entry out", model.hidden / tp, own.width, tp)


def entry_parameters(model: Model) -> Number:
    """Parameters of a layer's own embedding path: its matrices, and the norm after them."""
    total: Number = 0.0
    if model.layer_embedding is None:
        return total
    with term("entry of the layer"):
        for matrix in entry_matmuls(model, 1.0):
            total = total + table_parameters(matrix.n, matrix.k)
        return total + norm_parameters(model.hidden, norm=model.norm)


def entry_tables(model: Model, layers: Number, tp: Number) -> Number:
    """Parameters of the per-layer embedding tables, sharded like the embedding, and of their common norm."""
    own = model.layer_embedding
    if own is None:
        return 0.0
    with term("tables of the layers"):
        return table_parameters(own.rows / tp, layers * own.width) + norm_parameters(own.width, norm=model.norm)


def entry_traffic(model: Model, tokens: Number, element: Number, *, backward: bool) -> Number:
    """Memory traffic of a per-layer embedding, without its matrix products."""
    own = model.layer_embedding
    if own is None:
        return 0.0
    return layer_embedding_traffic(tokens, model.hidden, own.width, element, backward=backward)


def entry_activations(model: Model, tokens: Number, element: Number) -> Number:
    """Saved activations of a per-layer embedding."""
    own = model.layer_embedding
    if own is None:
        return 0.0
    return layer_embedding_activations(tokens, model.hidden, own.width, element)


MIXING = "stream mixing"


def stream_width(model: Model) -> Number:
    """Width of a layer's output: all residual streams together."""
    if model.residual_streams is None:
        return model.hidden
    with term("streams"):
        return model.residual_streams * model.hidden


def _has_alternating_updates(model: Model) -> bool:
    return model.stream_rule == "alternating"


def stream_additions(model: Model, halves: float) -> float:
    """Number of residual additions in a layer; 0 with hyper-connections, whose stream mixing replaces them."""
    return 0.0 if model.residual_streams is not None and not _has_alternating_updates(model) else halves


def stream_matmuls(model: Model, halves: Number, tp: Number) -> Iterator[Matmul]:
    """The matrices that compute how hyper-connections mix residual streams, for all halves of a layer; stored whole."""
    if model.residual_streams is None:
        return
    if _has_alternating_updates(model):  # one router for the prediction and for the correction, and their coefficients
        yield Matmul(MIXING, 2.0 * model.residual_streams / tp, model.hidden, tp)
        yield Matmul(MIXING, alternating_coefficients(model.residual_streams) / tp, model.residual_streams, tp)
    else:
        columns = halves * mixing_weights(model.residual_streams)
        yield Matmul(MIXING, columns / tp, stream_width(model), tp)


def stream_parameters(model: Model, halves: Number) -> Number:
    """Parameters of a layer for mixing the residual streams."""
    if model.residual_streams is None:
        return 0.0
    if _has_alternating_updates(model):
        return alternating_parameters(model.hidden, model.residual_streams)
    return halves * hyper_connection_parameters(model.hidden, model.residual_streams)


def stream_head_matmuls(model: Model, tp: Number) -> Iterator[Matmul]:
    """The matrices that merge parallel residual streams before the last norm, and that split them."""
    if model.residual_streams is None:
        return
    if _has_alternating_updates(model):
        yield Matmul("stream ends", stream_ends_columns(model.hidden, model.residual_streams) / tp, model.hidden, tp)
    else:
        yield Matmul("stream head", model.residual_streams / tp, stream_width(model), tp)


def stream_ends_parameters(model: Model) -> Number:
    """Parameters that split the embedding into parallel residual streams, and that merge them before the last norm."""
    if model.residual_streams is None:
        return 0.0
    if _has_alternating_updates(model):
        return table_parameters(stream_ends_columns(model.hidden, model.residual_streams), model.hidden)
    return stream_head_parameters(model.hidden, model.residual_streams)


def stream_head_activations(model: Model, tokens: Number, element: Number) -> Number:
    """Saved activations where streams are merged; with alternating updates also where they are split."""
    if model.residual_streams is None:
        return 0.0
    if _has_alternating_updates(model):
        return stream_ends_activations(tokens, model.hidden, model.residual_streams, element)
    return activation_message(tokens, stream_width(model), element)


def stream_traffic(model: Model, halves: Number, tokens: Number, element: Number, *, backward: bool) -> Number:
    """Memory traffic of mixing a layer's residual streams; hyper-connections have it instead of additions."""
    if model.residual_streams is None:
        return 0.0
    sizes = (model.hidden, model.residual_streams, element)
    if _has_alternating_updates(model):
        return alternating_traffic(tokens, *sizes, backward=backward)
    return halves * hyper_connection_traffic(tokens, *sizes, backward=backward)


def stream_mixing_activations(model: Model, halves: Number, tokens: Number, element: Number) -> Number:
    """Saved activations of a layer for mixing the residual streams."""
    if model.residual_streams is None:
        return 0.0
    if _has_alternating_updates(model):
        return alternating_activations(tokens, model.hidden, model.residual_streams, element)
    return halves * hyper_connection_activations(tokens, model.hidden, model.residual_streams, element)


def side_matmuls(model: Model, kind: Layers, tp: Number) -> Iterator[Matmul]:
    """The two weight matrices of a layer's side branch; tp ranks divide its tokens."""
    if kind.side_rank is not None:
        yield Matmul("side down", kind.side_rank / tp, model.hidden, tp)
        yield Matmul("side up", model.hidden / tp, kind.side_rank, tp)


def side_parameters(model: Model, kind: Layers) -> Number:
    """Parameters of the side branch: both matrices, and the norm after them."""
    total: Number = 0.0
    if kind.side_rank is None:
        return total
    with term("side branch"):
        for matrix in side_matmuls(model, kind, 1.0):
            total = total + table_parameters(matrix.n, matrix.k)
        return total + norm_parameters(model.hidden, norm=model.norm)


def side_traffic(model: Model, kind: Layers, tokens: Number, element: Number, *, backward: bool) -> Number:
    """Memory traffic of the side branch, without its matrix products."""
    if kind.side_rank is None:
        return 0.0
    return side_branch_traffic(tokens, model.hidden, element, backward=backward)


def side_activations(model: Model, kind: Layers, tokens: Number, element: Number) -> Number:
    """Saved activations of the side branch."""
    if kind.side_rank is None:
        return 0.0
    return side_branch_activations(tokens, model.hidden, kind.side_rank, element)


def tower_model(model: Model, tower: VisionTower) -> Model:
    """The vision tower's layers as a model, with the tower's hidden width."""
    shape = {"hidden": tower.hidden, "positions": tower.positions, "norm": tower.norm, "layers": tower.layers}
    without = {"vision": None, "prediction": None, "layer_embedding": None}
    return model.model_copy(update={**shape, **without, "name": f"{model.name} (vision)"})


def patch_matmul(tower: VisionTower) -> Matmul:
    """The matrix that embeds patches; every tp rank stores it whole."""
    return Matmul("patches", tower.hidden, tower.patch)


def projector_matmuls(model: Model, projector: Projector, tp: Number) -> Iterator[Matmul]:
    """The matrices of a projector, sharded over tp."""
    if projector.inner is None:
        yield Matmul("projector", model.hidden / tp, projector.inputs)
        return
    yield Matmul("projector up", projector.inner / tp, projector.inputs)
    yield Matmul("projector down", model.hidden, projector.inner / tp)


def projector_parameters(model: Model, tower: VisionTower, tp: Number) -> Number:
    """Parameters of all projectors on a rank."""
    total: Number = 0.0
    with term("projectors"):
        for own in tower.projectors:
            one_projector: Number = 0.0
            for matrix in projector_matmuls(model, own, tp):
                one_projector = one_projector + table_parameters(matrix.n, matrix.k)
            if own.biases:
                one_projector = one_projector + model.hidden + (0.0 if own.inner is None else own.inner / tp)
            if own.norm is not None:
                one_projector = one_projector + norm_parameters(own.norm_width or own.inputs, norm=own.norm)
            total = total + own.count * one_projector
    return total


def patch_parameters(tower: VisionTower) -> Number:
    """Parameters of the vision tower besides its layers: patch embedding, positions, and norms."""
    held = table_parameters(tower.patch, tower.hidden)
    held = held + tower.hidden if tower.patch_bias else held
    if tower.position_rows is not None:
        held = held + table_parameters(tower.position_rows, tower.hidden)
    return held + tower.norms * norm_parameters(tower.hidden, norm=tower.norm)


@record
class Shard:
    """One kind of layer as one rank stores it: its mixers, its feed-forward half, its routed experts.

    Of the parameters those of the routed experts are held apart: they are sharded over other ranks.
    """

    kind: Layers
    tp: Number
    mixer: Mixer | None
    feed: Feed[Any] | None
    parameters: Number
    routed: RoutedExperts | None

    @property
    def ffn_hidden(self) -> Number:
        """Inner width of the feed-forward part that every token uses; 0 without one."""
        return 0.0 if self.dense is None else self.dense.inner

    @property
    def dense(self) -> Feed[Any] | None:
        """The feed-forward network that every token passes through; None if there are only routed experts."""
        return None if self.feed is None else self.feed.dense

    @property
    def routed_parameters(self) -> Number:
        """Parameters of the routed experts of a rank."""
        return 0.0 if self.routed is None else self.routed.parameters


def shard(model: Model, kind: Layers, tp: Number, ep: Number = 1.0, etp: Number = 1.0) -> Shard:
    """A kind of layer as one rank stores it: sharded over tp, with routed experts over ep and etp."""
    feed = feed_of(kind, tp)
    with term("layer"):
        part = mixer_shard(model, kind, tp)
        held = kind.norms * norm_parameters(model.hidden, norm=model.norm)
        if part is not None:
            held = held + part.parameters
        if feed is not None and feed.dense is not None:
            held = held + feed.dense.parameters(model.hidden)
        if model.layer_embedding is not None:
            held = held + entry_parameters(model)
        if kind.side_rank is not None:
            held = held + side_parameters(model, kind)
        if model.residual_streams is not None:
            held = held + stream_parameters(model, residual_additions(kind))
        if feed is not None:
            held = held + feed.routing_parameters(model.hidden)
    routed = None if feed is None else feed.routed(model.hidden, ep, etp)
    return Shard(kind, tp, part, feed, held, routed)


def residual_additions(kind: Layers) -> float:
    """Residual additions of a layer: one for each half, or one in all if the halves are parallel."""
    halves = (kind.heads is not None, kind.feed is not None)
    return 1.0 if kind.parallel else float(sum(halves))


def tensor_parallel_exchanges(kind: Layers) -> float:
    """Number of tensor-parallel collectives of a layer per direction: one per half, or one for parallel halves."""
    halves = (kind.heads is not None, kind.dense is not None)
    return 1.0 if kind.parallel else float(sum(halves))


def layer_matmuls(model: Model, part: Shard) -> Iterator[Matmul]:
    """The weight matrices of a layer as one rank holds them, without the routed experts'."""
    hidden, kind = model.hidden, part.kind
    yield from side_matmuls(model, kind, part.tp)
    yield from stream_matmuls(model, residual_additions(kind), part.tp)
    if part.mixer is not None:
        yield from mixer_matmuls(hidden, kind, part.mixer, part.tp)
    if part.feed is not None:
        yield from part.feed.matrices(hidden)
    yield from entry_matmuls(model, part.tp)


def prediction_parameters(model: Model, tp: Number) -> Number:
    """Parameters of multi-token prediction that dp replicates: its layers, three norms, and a projection."""
    if model.prediction is None:
        return 0.0
    with term("multi-token prediction"):
        joined = table_parameters(2.0 * model.hidden, model.hidden / tp)
        norms = 3.0 * norm_parameters(model.hidden, norm=model.norm)
        layer = shard(model, model.prediction.layer, tp).parameters
        if model.residual_streams is not None:
            norms = norms + stream_ends_parameters(model)
        return model.prediction.depth * (joined + norms + layer)


def position_rows(model: Model) -> float:
    """Rows of a learned table of positions."""
    return model.max_sequence if model.position_rows is None else model.position_rows


def tower_parameters(model: Model, tp: Number) -> Number:
    """Parameters of the vision tower on a rank, without its projectors."""
    tower = model.vision
    if tower is None:
        return 0.0
    inside = tower_model(model, tower)
    with term("vision tower"):
        held = patch_parameters(tower)
        for kind in tower.layers:
            held = held + kind.count * shard(inside, kind, tp).parameters
        return held


def vision_parameters(model: Model, tp: Number) -> Number:
    """Parameters of the vision tower and of its projectors on a rank."""
    if model.vision is None:
        return 0.0
    return tower_parameters(model, tp) + projector_parameters(model, model.vision, tp)


def head_parameters(model: Model, rows: Number) -> Number:
    """Parameters of the head besides its table: a transform, a bias for each row, and the merge of residual streams."""
    found = stream_ends_parameters(model)
    if model.head_transform:
        with term("head transform"):
            found = table_parameters(model.hidden, model.hidden) + model.hidden
    return found + rows if model.head_bias else found


def has_head_parts(model: Model) -> bool:
    """Whether the head has parameters besides its table."""
    return model.head_transform or model.head_bias or model.residual_streams is not None


def model_parameters(model: Model) -> Number:
    """Parameters of the whole model as published counts have them: without padding, a tied embedding once."""
    total = norm_parameters(model.hidden, norm=model.norm)
    for kind in model.layers:
        held = shard(model, kind, 1.0)
        total = total + kind.count * (held.parameters + held.routed_parameters)
    total = total + (1.0 if model.tied else 2.0) * table_parameters(model.vocab, model.hidden)
    if model.positions == "learned":
        total = total + table_parameters(position_rows(model), model.hidden)
    if model.layer_embedding is not None:
        total = total + entry_tables(model, layer_count(model), 1.0)
    if model.vision is not None:
        total = total + vision_parameters(model, 1.0)
    if has_head_parts(model):
        total = total + head_parameters(model, model.vocab)
    if model.meta_tokens is not None:
        total = total + table_parameters(model.meta_tokens, model.hidden)
    if model.token_types is not None:
        total = total + table_parameters(model.token_types, model.hidden)
    if model.embedding_norm:
        total = total + norm_parameters(model.hidden, norm=model.norm)
    return total


def model_active_parameters(model: Model) -> Number:
    """Parameters that one token uses, with embedding and head."""
    found = model_parameters(model)
    for kind in model.layers:
        held = shard(model, kind, 1.0).routed
        if held is not None:
            each = held.each.parameters(held.hidden)
            found = active_parameters(found, kind.count, held.of.count, held.of.top_k, each)
    return found


def counted_kinds(model: Model) -> Iterator[tuple[Layers, Number]]:
    """Every kind of layer with the number of such layers, also those of multi-token prediction."""
    for kind in model.layers:
        yield kind, kind.count
    if model.prediction is not None:
        yield model.prediction.layer, model.prediction.depth


def layer_count(model: Model) -> Number:
    """Layers of all kinds; with a single kind the stated number, which keeps its place."""
    first, *others = (kind.count for kind in model.layers)
    return sum(others, start=first)
