"""Time of a pipeline stage, and the wait for the slowest rank."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.model import Model, TokenPrediction
from costmodel.documents.schemas.sync import Sync, sync_of
from costmodel.equations.kernels.memory_traffic import embedding_traffic, loss_traffic
from costmodel.equations.unequal import (
    averaged_jitter,
    jitter_slowdown,
    maximum_spread,
    partial_wait_slowdown,
    slow_part_slowdown,
)
from costmodel.estimate.machine.process_groups import Exchange
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.estimate.model.shards import layer_count, stream_head_matmuls, stream_width
from costmodel.estimate.shared.plan_batch import (
    RECOMPUTE,
    Block,
    ForwardBackward,
    PerStage,
    TimeByCategory,
    memoized,
    same_on_all_stages,
)
from costmodel.estimate.training.flop_count import front_work
from costmodel.estimate.training.layer_kernels import memory_bound_seconds, token_matmul
from costmodel.estimate.training.layer_time import LayerWork, layer_work
from costmodel.estimate.training.parallelism.pipeline import FOLDED, Rank, StageLayers, is_later_schedule
from costmodel.estimate.training.parallelism.tensor import EndsTraffic, ends_traffic
from costmodel.estimate.training.recompute import is_partial_recompute, recomputed_share_of_rank
from costmodel.estimate.training.stage_parameters import head_tokens, local_tokens, vocab_per_rank
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

Exchanged = tuple[Number, Exchange, Number]


@record
class Stages:
    """Work of a pipeline for one micro-batch: of the mean layer, of embedding and head, and the layers of each rank.

    The mean layer depends on the rank if recompute covers only some layers, or if layers of one kind come first. So
    there is one for the first, a middle and the last rank. `layer` is that of the middle, with the recompute share of
    the largest rank. The exchanges of each kind of layer are stored with its number on the largest rank and the
    recomputed share.
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
def stages(inputs: TrainingInputs, block: Block, layers: StageLayers) -> Stages:
    """The mean layer, embedding and head, for one micro-batch."""
    later, structure = is_later_schedule(block.structure.schedule), block.structure
    ends = ends_traffic(inputs, block)
    works, kept, exchanged = [], [], list[Exchanged]()
    for kind in inputs.model.layers:
        work = layer_work(inputs, block, kind)
        works.append(work.both if later else work.both.undeferred)
        if is_partial_recompute(structure):
            plain = layer_work(inputs, block.under(replace(structure, recompute="none")), kind).both
            kept.append(plain if later else plain.undeferred)
        fullest = layers.on_fullest(inputs.model, kind)
        exchanged += _counted_exchanges(work, fullest, recomputed_share_of_rank(block, layers.fullest))
    head = head_pass(inputs, block) + ends.head
    ahead = inputs.model.prediction
    if ahead is not None:
        predicting = layer_work(inputs, block, ahead.layer)
        head = head + _prediction_time(inputs, ahead, block, predicting, head)
        exchanged += _counted_exchanges(predicting, _prediction_layers(inputs.model, block, layers, ahead), 1.0)
    embedding = embedding_pass(inputs, block) + ends.embedding
    if inputs.front is not None:
        seen = front_work(inputs, block)
        embedding = embedding + (seen.both if later else seen.both.undeferred)
        for count, work in seen.layers:
            exchanged += _counted_exchanges(work, count, 1.0)
    head = head if later else head.undeferred
    layer, recomputed = _mean_recomputed_layer(
        block, layers, _mean_layers(inputs, layers, works), _mean_layers(inputs, layers, kept or works)
    )
    return Stages(layer, recomputed, embedding, head, tuple(exchanged), ends, layers)


def _prediction_layers(model: Model, block: Block, layers: StageLayers, ahead: TokenPrediction) -> Number:
    """Layers that multi-token prediction adds to the model's last kind, on the rank with most of them."""
    position, like = 0 if block.structure.schedule in FOLDED else 2, model.layers[-1]
    beside = layers.of_kind(model, like, layers.held(position), position)
    return np.maximum(beside + ahead.depth - layers.on_fullest(model, like), 0.0)


def _counted_exchanges(work: LayerWork, layers: Number, recomputed: Number) -> Iterator[Exchanged]:
    """Collectives of the given number of layers of a kind, with the share of the layers that is recomputed."""
    for item in (exchange for axis in work.traffic for exchange in axis.exchanges):
        yield layers, item, recomputed


def _mean_layers(
    inputs: TrainingInputs, layers: StageLayers, works: Sequence[ForwardBackward]
) -> PerStage[ForwardBackward]:
    """The mean layer of the first, a middle and the last rank, from the time of each kind."""
    if len(works) == 1:
        return same_on_all_stages(works[0])

    def mean(position: int) -> ForwardBackward:
        """The mean time of a layer on one rank, weighted by the kinds of layers there."""
        mean_layer = ForwardBackward(TimeByCategory(), TimeByCategory())
        for kind, work in zip(inputs.model.layers, works, strict=True):
            mean_layer = mean_layer + work.each(
                functools.partial(operator.mul, layers.share_of(inputs.model, kind, position))
            )
        return mean_layer

    return layers.at_each(mean)


def _mean_recomputed_layer(
    block: Block, held: StageLayers, again: PerStage[ForwardBackward], plain: PerStage[ForwardBackward]
) -> tuple[ForwardBackward, PerStage[ForwardBackward]]:
    """The mean layer of the largest, the first, a middle and the last rank, if recompute covers some layers."""
    if not is_partial_recompute(block.structure):
        return again.middle, again
    with term("layers recomputed"):
        fullest = again.middle.mixed(plain.middle, recomputed_share_of_rank(block, held.fullest))
        if held.equal:
            return fullest, same_on_all_stages(fullest)
        mixed = (
            mean.mixed(whole, recomputed_share_of_rank(block, layers))
            for mean, whole, layers in zip(again, plain, (held.first, held.middle, held.last), strict=True)
        )
    return fullest, PerStage(*mixed)


def _prediction_time(
    inputs: TrainingInputs, ahead: TokenPrediction, block: Block, work: LayerWork, head: ForwardBackward
) -> ForwardBackward:
    """Time of multi-token prediction: for each module a projection, a layer, and the head again."""
    with term("multi-token prediction"):
        hidden, tokens = inputs.model.hidden, local_tokens(inputs, block)
        joined = Matmul("projection", hidden / block.tp, hidden + stream_width(inputs.model))
        each = work.both + token_matmul(inputs, tokens, joined, trained=inputs.tuning is None) + head
        return each.each(functools.partial(operator.mul, ahead.depth))


@memoized()
def head_pass(inputs: TrainingInputs, block: Block) -> ForwardBackward:
    """Time of the head and the loss."""
    tokens = head_tokens(inputs, block)
    vocab = vocab_per_rank(inputs, block.tp)
    with term("head"):
        table = Matmul("head", vocab, inputs.model.hidden)
        head = token_matmul(inputs, tokens, table, trained=inputs.tuning is None)
        if inputs.model.head_transform:
            square = Matmul("head transform", inputs.model.hidden / block.tp, inputs.model.hidden, block.tp)
            head = head + token_matmul(inputs, tokens, square, trained=inputs.tuning is None)
        for matrix in stream_head_matmuls(inputs.model, block.tp):
            head = head + token_matmul(inputs, tokens, matrix, trained=inputs.tuning is None)
        fused = inputs.stack.kernels.streams == "fused"
        loss = memory_bound_seconds(inputs, loss_traffic(tokens, vocab, inputs.widths.element, fused=fused))
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
        lookup = memory_bound_seconds(inputs, nbytes)
    return ForwardBackward(
        TimeByCategory(memory_bound=lookup),
        TimeByCategory(memory_bound=lookup) if inputs.tuning is None else TimeByCategory(),
    )


WAITING = ("zero", "schedule", "sync")  # the choices that decide who waits for whom


@record
class Slowed:
    """Slowdown of compute on all ranks, and a further slowdown of the rank with the slow GPU (factors)."""

    ranks: Number
    slow: Number


def straggler_slowdown(inputs: TrainingInputs, block: Block, micro_batches: Number) -> Slowed | None:
    """Slowdown of compute by the stragglers that the scenario assumes; None if it assumes none."""
    stated = inputs.case.scenario.assume.stragglers
    if stated.jitter is None and stated.spread is None and stated.slow_part is None:
        return None
    return _assumed_slowdown(inputs, block, micro_batches)


@memoized(*WAITING)
def _assumed_slowdown(inputs: TrainingInputs, block: Block, micro_batches: Number) -> Slowed:
    """Slowdown by jitter, device-to-device spread and one slow GPU, as the scenario assumes them."""
    stated, sync = inputs.case.scenario.assume.stragglers, sync_of(block.structure.sync)
    with term("stragglers"):
        ranks: Number = np.ones(len(block))
        if stated.jitter:
            ranks = ranks + _jitter_slowdown(inputs, block, micro_batches, sync)
        if stated.spread:
            with term("spread"):
                ranks = ranks + (jitter_slowdown(inputs.ranks, stated.spread, 1.0) - 1.0)
        slow: Number = 1.0
        if stated.slow_part is not None:
            slow = _slow_gpu_slowdown(block, stated.slow_part, sync)
    return Slowed(ranks, slow)


def _jitter_slowdown(inputs: TrainingInputs, block: Block, micro_batches: Number, sync: Sync) -> Number:
    """Relative compute time that jitter adds to a step.

    Ranks of a replica wait for each other in each micro-batch, replicas at the end of a step, or in each micro-batch as
    well where they share weights or gradients layer by layer.
    """
    stated = inputs.case.scenario.assume.stragglers
    assert stated.jitter is not None
    with term("ranks of a replica"):
        inner = block.tp * block.cp * block.pp
        inner = inner * block.dp if _wait_in_each_micro_batch(inputs, block) else inner
    with term("in a replica"):
        within = jitter_slowdown(inner, stated.jitter, 1.0) - 1.0
        left = stated.jitter * maximum_spread(inner)
    if sync.way in ("async", "stale") or _wait_in_each_micro_batch(inputs, block):
        return within
    with term("between replicas"):
        left = left if stated.each == "step" else averaged_jitter(left, micro_batches)
        if sync.way == "first":
            return within + (partial_wait_slowdown(sync.number, block.dp, left) - 1.0)
        return within + (jitter_slowdown(block.dp, left, 1.0) - 1.0)


def _wait_in_each_micro_batch(inputs: TrainingInputs, block: Block) -> bool:
    """Whether replicas wait for each other in each micro-batch."""
    zero = block.structure.zero
    return zero >= 2 or (zero >= 1 and inputs.stack.states.sharded_master)


def _slow_gpu_slowdown(block: Block, share: float, sync: Sync) -> Number:
    """Slowdown of the stage with the slow GPU; asynchronous or partial updates do not wait for it."""
    with term("slow part"):
        if sync.way == "async":
            return slow_part_slowdown(share, block.dp, waits=False)
        alone = slow_part_slowdown(share, 1.0, waits=True)
        return np.where(sync.number < block.dp, 1.0, alone) if sync.way == "first" else alone


def with_stragglers(ranks: PerStage[Rank], slow: Slowed) -> PerStage[Rank]:
    """The ranks of a pipeline with slower compute; the slow GPU is in the last rank."""
    with term("stragglers"):
        every = PerStage(*(_slowed_rank(rank, slow.ranks) for rank in ranks))
        return PerStage(every.first, every.middle, _slowed_rank(every.last, slow.slow))


def _slowed_rank(rank: Rank, slowdown: Number) -> Rank:
    """A rank with compute multiplied by a slowdown."""
    return replace(
        rank,
        layer=rank.layer.computing(slowdown),
        ends=rank.ends.computing(slowdown),
        all_ends=rank.all_ends.computing(slowdown),
    )


def used_sample_share(block: Block) -> Number | None:
    """Share of the samples used by a step that only waits for the first replicas; None if it waits for all."""
    sync = sync_of(block.structure.sync)
    if sync.way != "first":
        return None
    with term("replicas in time"):
        return sync.number / block.dp
