"""Tensor-parallel exchanges of a layer and of embedding and head, and their exposed part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from costmodel.documents.schemas.model import Layers
from costmodel.equations.kernels.memory_traffic import rotary_traffic
from costmodel.equations.kernels.roofline import stream_time
from costmodel.equations.network.collectives import Operation, activation_message
from costmodel.equations.network.overlap import exposed_time
from costmodel.estimate.machine.collective_time import collective_time
from costmodel.estimate.machine.process_groups import Exchange, Group, LayerTraffic, group
from costmodel.estimate.model.mixers.mixer_kinds import INDEX
from costmodel.estimate.model.mixers.mixing_half import inner_all_reduce_width, narrow_width, picked_keys
from costmodel.estimate.model.shards import shard, tensor_parallel_exchanges
from costmodel.estimate.shared.plan_batch import Block, ForwardBackward, TimeByCategory, memoized
from costmodel.estimate.training.layer_kernels import memory_bound_seconds
from costmodel.estimate.training.recompute import RecomputedWork
from costmodel.estimate.training.stage_parameters import adapters, local_tokens
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class EndsExchange:
    """One kind of collective of a micro-batch for embedding and head, with its count for each."""

    operation: Operation
    time: Number
    head: float
    embedding: float


@record
class EndsTraffic:
    """Seconds of the tensor-parallel collectives of embedding and head for one micro-batch, and the collectives."""

    embedding: ForwardBackward
    head: ForwardBackward
    message: Number
    exchanges: tuple[EndsExchange, ...]


def tensor_traffic(
    inputs: TrainingInputs,
    tp: Group,
    tokens: Number,
    layer: ForwardBackward,
    kind: Layers,
    again: RecomputedWork,
    micro_batch: Number,
    *,
    sequence_parallel: bool,
) -> LayerTraffic:
    """Tensor-parallel traffic of a layer: two exchanges per direction, one if its halves are parallel."""
    made = list((_gathers_and_scatters if sequence_parallel else _all_reduces)(inputs, tp, tokens, kind, again))
    made.extend(_normed_head_gathers(inputs, tp, tokens, kind, again))
    pairs = list(_adapter_exchanges(inputs, tp, tokens, kind, again, sequence_parallel=sequence_parallel))
    pairs.extend(_index_gathers(inputs, tp, tokens, kind, again))
    every, beside = [*made, *pairs], layer.forward.matmul
    forward, backward = (exposed_time(_total_seconds(every, part), beside, inputs.overlap.tp, 0.0) for part in ONCE)
    if again.gathers or again.scatters or again.latents:
        halves = (
            min(again.halves, tensor_parallel_exchanges(kind))
            if again.dropped == "modules"
            else tensor_parallel_exchanges(kind)
        )
        room = halves * (beside / tensor_parallel_exchanges(kind))
        backward = backward + exposed_time(_total_seconds(every, "again"), room, inputs.overlap.tp, 0.0)
    if sequence_parallel and inputs.stack.kernels.copied:
        moved = [replace(item, time=_reorder_seconds(inputs, tp, item, micro_batch)) for item in made]
        forward = forward + _total_seconds(moved, "forward")
        backward = backward + _total_seconds(moved, "backward") + _total_seconds(moved, "again")
    if sequence_parallel and inputs.stack.kernels.traffic_of is not None:
        backward = backward + _gradient_addition_seconds(inputs, tp, tokens, kind)
    rotated = _rotation_seconds(inputs, tp, tokens, kind)
    forward, backward = forward + rotated, backward + again.gathered * rotated
    if not sequence_parallel or inputs.stack.kernels.inputs == "kept":
        return LayerTraffic("tp", forward, backward, tuple(every))
    with term("tp all-gather again for weight gradients"):
        gathers = [item for item in made if item.operation == "all_gather"]
        products = layer.weight.matmul if layer.weight else 0.0
        regathered = exposed_time(_total_seconds(gathers, "forward"), products, 1.0, 0.0)
    others = [item for item in made if item.operation != "all_gather"]
    twice = (replace(gather, backward=gather.backward + gather.forward) for gather in gathers)
    return LayerTraffic("tp", forward, backward + regathered, (*twice, *others, *pairs))


def _adapter_exchanges(
    inputs: TrainingInputs, tp: Group, tokens: Number, kind: Layers, again: RecomputedWork, *, sequence_parallel: bool
) -> Iterator[Exchange]:
    """All-gathers of adapter results if both thin matrices are sharded; with sequence parallelism also of gradients."""
    if inputs.tuning is None or not inputs.stack.split_adapters:
        return
    sharded = [
        adapter
        for adapter in adapters(inputs, shard(inputs.model, kind, 1.0))
        if adapter.reads in ("core", "activation")
    ]
    count, anew = float(len(sharded)), float(sum(adapter.beside in again.matrices for adapter in sharded))
    with term("tp all-gather of adapters"):
        message = activation_message(tokens, inputs.model.hidden, inputs.widths.element)
        time = collective_time(inputs, message, tp, "all_gather")
    yield Exchange(tp, "all_gather", message, time, count, count if sequence_parallel else 0.0, anew)


ONCE: tuple[Literal["forward", "backward"], ...] = ("forward", "backward")


def _total_seconds(made: Sequence[Exchange], part: Literal["forward", "backward", "again"]) -> Number:
    """Total time [s] of several collectives in one direction."""
    total: Number = 0.0
    for item in made:
        total = total + getattr(item, part) * item.time
    return total


def _reorder_seconds(inputs: TrainingInputs, tp: Group, item: Exchange, micro_batch: Number) -> Number:
    """Time [s] to reorder data after an all-gather or before a reduce-scatter; 0 for a single sequence."""
    with term("tp copies"):
        nbytes = READ_AND_WRITTEN * item.message
        time = stream_time(nbytes, inputs.rates.memory_bandwidth, inputs.rates.memory_share)
        ordered = np.less_equal(micro_batch, 1.0) & (item.operation == "all_gather")
        return np.where((tp.ranks > 1) & ~ordered, time, 0.0)


READ_AND_WRITTEN = 2.0


def _gradient_addition_seconds(inputs: TrainingInputs, tp: Group, tokens: Number, kind: Layers) -> Number:
    """Time [s] to add the input gradients of separate projections that read the same gathered input."""
    projections = (2.0 if kind.attention is not None else 0.0) + float(kind.dense is not None and kind.dense.gated)
    passes = projections * (3.0 if inputs.stack.kernels.traffic_of == "none" else 1.0)
    with term("tp sums of input gradients"):
        nbytes = passes * activation_message(tokens, inputs.model.hidden, inputs.widths.element)
        time = stream_time(nbytes, inputs.rates.memory_bandwidth, inputs.rates.memory_share)
        return np.where(tp.ranks > 1, time, 0.0)


def _normed_head_gathers(
    inputs: TrainingInputs, tp: Group, tokens: Number, kind: Layers, again: RecomputedWork
) -> Iterator[Exchange]:
    """All-gather of normalised queries and keys of all heads, in software that leaves them whole on each rank."""
    if _keeps_whole_heads(inputs, kind):
        message = activation_message(tokens, _normed_width(kind), inputs.widths.element)
        with term("tp all-gather of normalised heads"):
            time = collective_time(inputs, message, tp, "all_gather")
        yield Exchange(tp, "all_gather", message, time, 1.0, 0.0, again.gathered)


def _rotation_seconds(inputs: TrainingInputs, tp: Group, tokens: Number, kind: Layers) -> Number:
    """Time to rotate the queries and keys of other ranks' heads, forward."""
    if not _keeps_whole_heads(inputs, kind):
        return 0.0
    with term("rotation of other heads"):
        others = tokens * (1.0 - 1.0 / tp.ranks)
        return memory_bound_seconds(
            inputs, rotary_traffic(others, _normed_width(kind), 0.0, 1.0, inputs.widths.element)
        )


def _keeps_whole_heads(inputs: TrainingInputs, kind: Layers) -> bool:
    return inputs.stack.kernels.head_norms == "gathered" and kind.attention is not None and kind.attention.qk_norm


def _normed_width(kind: Layers) -> float:
    assert kind.attention is not None
    return float((kind.attention.heads + kind.attention.kv_heads) * kind.attention.head_dim)


def _all_reduces(
    inputs: TrainingInputs, tp: Group, tokens: Number, kind: Layers, again: RecomputedWork
) -> Iterator[Exchange]:
    """All-reduces of outputs, and in backward of input gradients; narrow ones if a mixer projects its input down."""
    count, hidden, narrow = (
        tensor_parallel_exchanges(kind),
        inputs.model.hidden,
        narrow_width(inputs.model.hidden, kind),
    )
    yield _width_all_reduces(
        inputs, tp, tokens, hidden, (count, count if narrow is None else count - 1.0, again.scatters)
    )
    if narrow is not None:
        yield _width_all_reduces(inputs, tp, tokens, narrow, (0.0, 1.0, 0.0))
    yield from _mixer_all_reduces(inputs, tp, tokens, kind, again)


def _mixer_all_reduces(
    inputs: TrainingInputs, tp: Group, tokens: Number, kind: Layers, again: RecomputedWork
) -> Iterator[Exchange]:
    """The all-reduce inside a mixer, such as Mamba's scan inputs, and that of its gradient."""
    width = inner_all_reduce_width(kind)
    if width:
        yield _width_all_reduces(inputs, tp, tokens, width, (1.0, 1.0, 1.0 if again.dropped == "layer" else 0.0))


def _index_gathers(
    inputs: TrainingInputs, tp: Group, tokens: Number, kind: Layers, again: RecomputedWork
) -> Iterator[Exchange]:
    """All-gather of the key indices that an indexer selects; selection has no gradient."""
    count = picked_keys(kind)
    if count:
        with term("tp all-gather of picks"):
            message = activation_message(tokens, count, INDEX)
            time = collective_time(inputs, message, tp, "all_gather")
        yield Exchange(tp, "all_gather", message, time, 1.0, 0.0, 1.0 if again.dropped == "layer" else 0.0)


def _width_all_reduces(
    inputs: TrainingInputs, tp: Group, tokens: Number, width: Number, counts: tuple[float, float, float]
) -> Exchange:
    """All-reduces of a tensor of this width, with their counts in forward, backward and recompute."""
    message = activation_message(tokens, width, inputs.widths.element)
    with term("tp all-reduce"):
        time = collective_time(inputs, message, tp, "all_reduce")
    return Exchange(tp, "all_reduce", message, time, *counts)


def _gathers_and_scatters(
    inputs: TrainingInputs, tp: Group, tokens: Number, kind: Layers, again: RecomputedWork
) -> Iterator[Exchange]:
    """All-gather of inputs, which some attention narrows before, and reduce-scatter of outputs; backward does both."""
    count, hidden, narrow = (
        tensor_parallel_exchanges(kind),
        inputs.model.hidden,
        narrow_width(inputs.model.hidden, kind),
    )
    gathers = count if narrow is None else count - 1.0
    yield from _gather_scatter_pair(inputs, tp, tokens, hidden, (gathers, count), (again.gathers, again.scatters))
    if narrow is not None:
        yield from _gather_scatter_pair(inputs, tp, tokens, narrow, (1.0, 0.0), (again.latents, 0.0))
    yield from _mixer_all_reduces(inputs, tp, tokens, kind, again)


def _gather_scatter_pair(
    inputs: TrainingInputs,
    tp: Group,
    tokens: Number,
    width: Number,
    counts: tuple[float, float],
    again: tuple[float, float],
) -> Iterator[Exchange]:
    """All-gathers of inputs, in the matmul type if the stack does so, and reduce-scatters of outputs."""
    gathered, scattered = counts
    with term("tp all-gather"):
        message = activation_message(
            tokens, width, inputs.recipe.operand if inputs.exchanges_narrow else inputs.widths.element
        )
        time = collective_time(inputs, message, tp, "all_gather")
    yield Exchange(tp, "all_gather", message, time, gathered, scattered, again[0])
    with term("tp reduce-scatter"):
        message = activation_message(tokens, width, inputs.widths.element)
        time = collective_time(inputs, message, tp, "reduce_scatter")
    yield Exchange(tp, "reduce_scatter", message, time, scattered, gathered, again[1])


@memoized("sequence_parallel")
def ends_traffic(inputs: TrainingInputs, block: Block) -> EndsTraffic:
    """Collectives of embedding and head in 16 bits; the head's input is gathered again if the stack freed it."""
    tp = group(inputs, "tp", block.tp, 1.0)
    message = activation_message(local_tokens(inputs, block), inputs.model.hidden, inputs.widths.element)

    def of(operation: Operation) -> Number:
        """Time [s] of one such collective over the tensor-parallel group."""
        with term(f"tp {operation.replace('_', '-')}"):
            return collective_time(inputs, message, tp, operation)

    if not block.structure.sequence_parallel:
        time = of("all_reduce")
        made: tuple[EndsExchange, ...] = (EndsExchange("all_reduce", time, head=1.0, embedding=1.0),)
        return EndsTraffic(_communication(time, 0.0), _communication(0.0, time), message, made)
    gather, scatter = of("all_gather"), of("reduce_scatter")
    made = (
        EndsExchange(
            "all_gather", gather, head=2.0 if inputs.stack.kernels.inputs == "dropped" else 1.0, embedding=1.0
        ),
        EndsExchange("reduce_scatter", scatter, head=1.0, embedding=1.0),
    )
    return EndsTraffic(_communication(scatter, gather), _communication(gather, scatter), message, made)


def _communication(forward: Number, backward: Number) -> ForwardBackward:
    """One time for forward and one for backward, as communication."""
    return ForwardBackward(TimeByCategory(tp=forward), TimeByCategory(tp=backward))
