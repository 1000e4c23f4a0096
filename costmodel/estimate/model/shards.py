"""Layers of a model as sharded on one rank, and the parameters of the whole model."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.schemas.model import Layers, Model
from costmodel.equations.layers.experts import active_parameters
from costmodel.equations.layers.parameters import mlp_parameters, norm_parameters, table_parameters
from costmodel.estimate.model.layer_embeddings import entry_matmuls, entry_parameters, entry_tables
from costmodel.estimate.model.mixers.mixer import Matmul, Mixer
from costmodel.estimate.model.mixers.table import mixer, mixer_matmuls
from costmodel.estimate.model.residual_streams import stream_head_held, stream_matmuls, stream_parameters
from costmodel.estimate.model.routed_experts import (
    Routed,
    expert_parameters,
    latent_matmuls,
    routed,
    routing_parameters,
)
from costmodel.estimate.model.side_branch import side_matmuls, side_parameters
from costmodel.estimate.model.vision_tower import patch_parameters, projector_parameters, tower_model
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class Shard:
    """One kind of layer on one rank: its mixers, its MLP or shared experts, and its routed experts.

    Of the parameters those of the routed experts are held apart: they are sharded over other ranks.
    """

    kind: Layers
    tp: Number
    mixer: Mixer | None
    ffn_hidden: Number
    parameters: Number
    routed: Routed | None

    @property
    def routed_parameters(self) -> Number:
        """Parameters of the routed experts of a rank."""
        return 0.0 if self.routed is None else self.routed.parameters


def shard(model: Model, kind: Layers, tp: Number, ep: Number = 1.0, etp: Number = 1.0) -> Shard:
    """A kind of layer as one rank stores it: sharded over tp, with routed experts over ep and etp."""
    mlp = kind.dense
    ffn_hidden: Number = 0.0 if mlp is None else mlp.ffn_hidden / tp
    with term("layer"):
        part = mixer(model, kind, tp)
        held = kind.norms * norm_parameters(model.hidden, norm=model.norm)
        if part is not None:
            held = held + part.parameters
        if mlp is not None:
            held = held + mlp_parameters(model.hidden, ffn_hidden, gated=mlp.gated, biases=mlp.biases)
        if model.layer_embedding is not None:
            held = held + entry_parameters(model)
        if kind.side_rank is not None:
            held = held + side_parameters(model, kind)
        if model.residual_streams is not None:
            held = held + stream_parameters(model, additions(kind))
        if kind.experts is not None:
            held = held + routing_parameters(model.hidden, kind.experts)
    return Shard(kind, tp, part, ffn_hidden, held, routed(model.hidden, kind, ep, etp))


def additions(kind: Layers) -> float:
    """Residual additions of a layer: one for each half, or one in all if the halves are parallel."""
    halves = (kind.heads is not None, kind.mlp is not None or kind.experts is not None)
    return 1.0 if kind.parallel else float(sum(halves))


def exchanges(kind: Layers) -> float:
    """Tensor-parallel exchanges of a layer per direction: one for each sharded half, or one for parallel halves."""
    halves = (kind.heads is not None, kind.dense is not None)
    return 1.0 if kind.parallel else float(sum(halves))


def matmuls(model: Model, part: Shard) -> Iterator[Matmul]:
    """The weight matrices of a layer as one rank holds them, without the routed experts'."""
    hidden, kind = model.hidden, part.kind
    yield from side_matmuls(model, kind, part.tp)
    yield from stream_matmuls(model, additions(kind), part.tp)
    if part.mixer is not None:
        yield from mixer_matmuls(hidden, kind, part.mixer, part.tp)
    if kind.dense is not None:
        yield Matmul("mlp up", 2.0 * part.ffn_hidden if kind.dense.gated else part.ffn_hidden, hidden)
        yield Matmul("mlp down", hidden, part.ffn_hidden)
    if kind.experts is not None and kind.experts.count > 1:
        yield Matmul("router", kind.experts.count / part.tp, hidden, part.tp)
    if kind.experts is not None:
        yield from latent_matmuls(hidden, kind.experts, part.tp)
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
            norms = norms + stream_head_held(model)
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
    found = stream_head_held(model)
    if model.head_transform:
        with term("head transform"):
            found = table_parameters(model.hidden, model.hidden) + model.hidden
    return found + rows if model.head_bias else found


def has_head_parts(model: Model) -> bool:
    """Whether the head has parameters besides its table."""
    return model.head_transform or model.head_bias or model.residual_streams is not None


def model_parameters(model: Model) -> Number:
    """Parameters of the whole model, as published counts have them: no padding, tied once."""
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
        if kind.experts is not None:
            each = expert_parameters(model.hidden, kind.experts)
            found = active_parameters(found, kind.count, kind.experts.count, kind.experts.top_k, each)
    return found


def counted_kinds(model: Model) -> Iterator[tuple[Layers, Number]]:
    """Every kind of layer with its count, that of multi-token prediction too."""
    for kind in model.layers:
        yield kind, kind.count
    if model.prediction is not None:
        yield model.prediction.layer, model.prediction.depth


def layer_count(model: Model) -> Number:
    """Layers of all kinds; with a single kind the stated number, which keeps its place."""
    first, *others = (kind.count for kind in model.layers)
    return sum(others, start=first)
