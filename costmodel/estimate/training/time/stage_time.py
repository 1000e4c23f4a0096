"""Work of a pipeline stage for one micro-batch: a mean layer, embedding and head, and their exchanges."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.model import Model, TokenPrediction
from costmodel.equations.kernels.memory_traffic import embedding_traffic, loss_traffic
from costmodel.estimate.machine.process_groups import Exchange
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.estimate.model.residual_streams import stream_head, stream_width
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.per_stage import RECOMPUTE, PerStage, memoized, same_on_all_stages
from costmodel.estimate.shared.plan_batch import Block, ForwardBackward, TimeByCategory
from costmodel.estimate.training.parallelism.pipeline import FOLDED, StageLayers, is_later
from costmodel.estimate.training.parallelism.tensor import EndsTraffic, ends_traffic
from costmodel.estimate.training.recompute import partial, reached
from costmodel.estimate.training.stage_parameters import head_tokens, local_tokens, vocab_per_rank
from costmodel.estimate.training.time.layer_kernels import plain_product, stream
from costmodel.estimate.training.time.layer_time import LayerWork, layer_work
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training.vision_front import front_work
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

Exchanged = tuple[Number, Exchange, Number]


@record
class Stages:
    """Work for one micro-batch: of the mean layer, and of embedding and head; and the layers of each rank.

    The mean layer depends on the rank if recompute covers only some layers, or if one kind comes first. So there is one
    for the first, a middle and the last rank. `layer` is that of the middle, with the recompute share of the largest
    rank. The exchanges of each kind of layer are stored with its number on the largest rank and the recomputed share.
    """

    layer: ForwardBackward
    each: PerStage[ForwardBackward]
    embedding: ForwardBackward
    head: ForwardBackward
    exchanged: tuple[Exchanged, ...]
    at_ends: EndsTraffic
    held: StageLayers

    @functools.cached_property
    def fullest(self) -> tuple[Number, Number]:
        """Seconds of forward and of backward for the layers on the largest rank."""
        layers = self.held.fullest
        return layers * self.layer.forward.total, layers * self.layer.backward.total


@memoized(*RECOMPUTE, "sequence_parallel", "cp_type", "order", "schedule")
def stages(inputs: TrainingInputs, block: Block, held: StageLayers) -> Stages:
    """The mean layer, embedding and head, for one micro-batch."""
    later, structure = is_later(block.structure.schedule), block.structure
    ends = ends_traffic(inputs, block)
    works, kept, exchanged = [], [], list[Exchanged]()
    for kind in inputs.model.layers:
        work = layer_work(inputs, block, kind)
        works.append(work.both if later else work.both.undeferred)
        if partial(structure):
            plain = layer_work(inputs, block.under(replace(structure, recompute="none")), kind).both
            kept.append(plain if later else plain.undeferred)
        fullest = held.on_fullest(inputs.model, kind)
        exchanged += _exchanges(work, fullest, reached(block, held.fullest))
    head = head_pass(inputs, block) + ends.head
    ahead = inputs.model.prediction
    if ahead is not None:
        predicting = layer_work(inputs, block, ahead.layer)
        head = head + _prediction(inputs, ahead, block, predicting, head)
        exchanged += _exchanges(predicting, _more(inputs.model, block, held, ahead), 1.0)
    embedding = embedding_pass(inputs, block) + ends.embedding
    if inputs.front is not None:
        seen = front_work(inputs, block)
        embedding = embedding + (seen.both if later else seen.both.undeferred)
        for count, work in seen.layers:
            exchanged += _exchanges(work, count, 1.0)
    head = head if later else head.undeferred
    layer, each = _reached(block, held, _means(inputs, held, works), _means(inputs, held, kept or works))
    return Stages(layer, each, embedding, head, tuple(exchanged), ends, held)


def _more(model: Model, block: Block, held: StageLayers, ahead: TokenPrediction) -> Number:
    """Layers that multi-token prediction adds to the model's last kind, on the rank with most of them."""
    position, like = 0 if block.structure.schedule in FOLDED else 2, model.layers[-1]
    beside = held.of_kind(model, like, held.held(position), position)
    return np.maximum(beside + ahead.depth - held.on_fullest(model, like), 0.0)


def _exchanges(work: LayerWork, layers: Number, recomputed: Number) -> Iterator[Exchanged]:
    """Collectives of so many layers of a kind, with the share of the layers that is recomputed."""
    for item in (item for axis in work.traffic for item in axis.exchanges):
        yield layers, item, recomputed


def _means(inputs: TrainingInputs, held: StageLayers, works: Sequence[ForwardBackward]) -> PerStage[ForwardBackward]:
    """The mean layer of the first, a middle and the last rank, from the time of each kind."""
    if len(works) == 1:
        return same_on_all_stages(works[0])

    def mean(position: int) -> ForwardBackward:
        found = ForwardBackward(TimeByCategory(), TimeByCategory())
        for kind, work in zip(inputs.model.layers, works, strict=True):
            found = found + work.each(functools.partial(operator.mul, held.share_of(inputs.model, kind, position)))
        return found

    return held.at_each(mean)


def _reached(
    block: Block, held: StageLayers, again: PerStage[ForwardBackward], plain: PerStage[ForwardBackward]
) -> tuple[ForwardBackward, PerStage[ForwardBackward]]:
    """The mean layer of the largest, the first, a middle and the last rank, if recompute covers some layers."""
    if not partial(block.structure):
        return again.middle, again
    with term("layers recomputed"):
        fullest = again.middle.mixed(plain.middle, reached(block, held.fullest))
        if held.equal:
            return fullest, same_on_all_stages(fullest)
        mixed = (
            mean.mixed(whole, reached(block, layers))
            for mean, whole, layers in zip(again, plain, (held.first, held.middle, held.last), strict=True)
        )
    return fullest, PerStage(*mixed)


def _prediction(
    inputs: TrainingInputs, ahead: TokenPrediction, block: Block, work: LayerWork, head: ForwardBackward
) -> ForwardBackward:
    """Time of multi-token prediction: for each module a projection, a layer, and the head again."""
    with term("multi-token prediction"):
        hidden, tokens = inputs.model.hidden, local_tokens(inputs, block)
        joined = Matmul("projection", hidden / block.tp, hidden + stream_width(inputs.model))
        each = work.both + plain_product(inputs, tokens, joined, trained=inputs.tuning is None) + head
        return each.each(functools.partial(operator.mul, ahead.depth))


@memoized()
def head_pass(inputs: TrainingInputs, block: Block) -> ForwardBackward:
    """Time of the head and the loss."""
    tokens = head_tokens(inputs, block)
    vocab = vocab_per_rank(inputs, block.tp)
    with term("head"):
        table = Matmul("head", vocab, inputs.model.hidden)
        head = plain_product(inputs, tokens, table, trained=inputs.tuning is None)
        if inputs.model.head_transform:
            square = Matmul("head transform", inputs.model.hidden / block.tp, inputs.model.hidden, block.tp)
            head = head + plain_product(inputs, tokens, square, trained=inputs.tuning is None)
        for matrix in stream_head(inputs.model, block.tp):
            head = head + plain_product(inputs, tokens, matrix, trained=inputs.tuning is None)
        fused = inputs.stack.kernels.streams == "fused"
        loss = stream(inputs, loss_traffic(tokens, vocab, inputs.widths.element, fused=fused))
    return head + ForwardBackward(TimeByCategory(memory_bound=loss), TimeByCategory())


@memoized()
def embedding_pass(inputs: TrainingInputs, block: Block) -> ForwardBackward:
    """Time of the embedding lookup and of its gradient."""
    tokens = local_tokens(inputs, block)
    with term("embedding"):
        nbytes = embedding_traffic(tokens, inputs.model.hidden, inputs.widths.element)
        if inputs.model.layer_embedding is not None:
            entries = layer_count(inputs.model) * inputs.model.layer_embedding.width
            nbytes = nbytes + embedding_traffic(tokens, entries, inputs.widths.element)
        lookup = stream(inputs, nbytes)
    return ForwardBackward(
        TimeByCategory(memory_bound=lookup),
        TimeByCategory(memory_bound=lookup) if inputs.tuning is None else TimeByCategory(),
    )
