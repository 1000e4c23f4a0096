"""Time of a layer and of embedding and head on one accelerator, forward and backward, without communication."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.efficiency import AttentionFit
from costmodel.documents.schemas.model import Layers, SelectiveScan
from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.memory_traffic import (
    accumulated_bytes,
    matmul_bytes,
    norm_traffic,
    quantise_traffic,
    score_traffic,
    shared_conversion,
)
from costmodel.equations.kernels.roofline import (
    attention_backward_time,
    attention_forward_time,
    attention_rate,
    matmul_time,
    peak_of_heads,
    stream_time,
    tiled_rows,
)
from costmodel.equations.layers.parameters import adapter_traffic, dequantise_traffic, table_parameters
from costmodel.equations.parallelism.context_parallel import merge_traffic
from costmodel.estimate.model.mixers.mixer import Matmul, Mixer
from costmodel.estimate.model.mixers.mixer_kinds import SELECTIVE_SCAN
from costmodel.estimate.model.mixers.mixing_half import core_flop, mixer_traffic, score_heads, without_scan
from costmodel.estimate.model.shards import (
    Shard,
    entry_traffic,
    layer_matmuls,
    residual_additions,
    side_traffic,
    stream_additions,
    stream_traffic,
)
from costmodel.estimate.shared.plan_batch import Block, ForwardBackward, TimeByCategory, local_sequence, single_rank
from costmodel.estimate.training.recompute import FEEDS, RecomputedWork, recomputed_traffic, recomputed_work
from costmodel.estimate.training.stage_parameters import (
    UNPACKING,
    Adapter,
    adapter_matmuls,
    adapters,
    local_tokens,
    packed_weight_bytes,
)
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term

Converted = tuple[Number, Number]  # ranks that divide the conversion of a product's input, and of its gradient


def matmul_seconds(
    inputs: TrainingInputs, flop: Number, nbytes: Number, *, backward: bool = False, narrow: bool = False
) -> Number:
    """Seconds of a matrix product with this work [FLOP] and traffic [B], by the fit for the data type."""
    fit = inputs.rates.linear.fit if narrow else inputs.rates.matmul
    return matmul_time(
        flop,
        nbytes,
        inputs.rates.linear.peak if narrow else inputs.rates.peak,
        inputs.rates.memory_bandwidth,
        fit.backward_share if backward else fit.compute_share,
        fit.memory_share,
        fit.start,
        fit.exponent,
        inputs.sustained_narrow if narrow else inputs.sustained,
    )


def memory_bound_seconds(inputs: TrainingInputs, nbytes: Number) -> Number:
    """Seconds of memory-bound operations that read and write `nbytes` bytes."""
    return stream_time(
        inputs.stack.kernels.traffic_factor * nbytes, inputs.rates.memory_bandwidth, inputs.rates.memory_share
    )


def matmul_both_ways(
    inputs: TrainingInputs,
    matrix: Matmul,
    rows: Number,
    flop: Number,
    *,
    groups: Number | None = None,
    narrow: bool = False,
    trained: bool = True,
    converted: Converted = (1.0, 1.0),
) -> ForwardBackward:
    """Seconds of rows times a weight matrix, forward and backward (gradients of input and weight).

    groups: number of equal matrices, each of which multiplies its own rows
    trained: a frozen matrix has no weight gradient
    converted: in a narrow type, on how many ranks each element is converted in parts
    """
    m, n, k = rows if groups is None else rows / groups, matrix.n, matrix.k
    operand, element = inputs.recipe.operand if narrow else inputs.widths.element, inputs.widths.element

    def of_all(nbytes: Number) -> Number:
        """Bytes of all groups of a grouped product."""
        return nbytes if groups is None else groups * nbytes

    with term("forward"):
        forward = matmul_seconds(inputs, flop, of_all(matmul_bytes(m, n, k, operand, element)), narrow=narrow)
    with term("input gradient"):
        nbytes = of_all(matmul_bytes(m, k, n, operand, element))
        backward = matmul_seconds(inputs, flop, nbytes, backward=True, narrow=narrow)
    times = ForwardBackward(TimeByCategory(matmul=forward), TimeByCategory(matmul=backward))
    if trained:
        with term("weight gradient"):
            nbytes = of_all(matmul_bytes(k, n, m, operand, 0.0))
            weight = matmul_seconds(inputs, flop, nbytes, backward=True, narrow=narrow)
        with term("accumulate"):
            nbytes = of_all(accumulated_bytes(n, k, inputs.widths.gradient))
            added = stream_time(nbytes, inputs.rates.memory_bandwidth, inputs.rates.memory_share)
        both = TimeByCategory(matmul=weight, memory_bound=added)
        times = times + ForwardBackward(TimeByCategory(), both, both)
    if not narrow:
        return times
    with term("convert input"):
        once = memory_bound_seconds(inputs, quantise_traffic(rows * k, _conversion(inputs, converted[0])))
    with term("convert gradient"):
        back = memory_bound_seconds(inputs, quantise_traffic(rows * n, _conversion(inputs, converted[1])))
    return times + ForwardBackward(TimeByCategory(memory_bound=once), TimeByCategory(memory_bound=back))


def _conversion(inputs: TrainingInputs, ranks: Number) -> Number:
    """Bytes to convert one element to the narrow type, if `ranks` ranks convert a part each."""
    recipe = inputs.recipe
    if single_rank(ranks):
        return recipe.quantised
    return shared_conversion(recipe.quantised, recipe.transposed, ranks)


def token_matmul(
    inputs: TrainingInputs,
    tokens: Number,
    matrix: Matmul,
    *,
    narrow: bool = False,
    trained: bool,
    converted: Converted = (1.0, 1.0),
) -> ForwardBackward:
    """Product of tokens with one weight matrix."""
    flop = matmul_flop(tiled_rows(tokens), matrix.n, matrix.k)
    return matmul_both_ways(inputs, matrix, tokens, flop, narrow=narrow, trained=trained, converted=converted)


def linear_map(inputs: TrainingInputs, tokens: Number, matrix: Matmul, split: Number) -> ForwardBackward:
    """A linear map of a layer, in the matmul type of the layers; `split` ranks convert what they gather."""
    trained, whole = inputs.tuning is None, inputs.model.hidden
    converted: Converted = (1.0, 1.0)
    if inputs.exchanges_narrow:
        gathered = (bool(np.all(np.equal(width, whole))) for width in (matrix.k, matrix.n))
        ahead, behind = (split if each else 1.0 for each in gathered)
        converted = (ahead, behind)
    return token_matmul(inputs, tokens, matrix, narrow=inputs.recipe.narrow, trained=trained, converted=converted)


def attention_pass(inputs: TrainingInputs, part: Shard, block: Block) -> ForwardBackward:
    """Forward and backward of the attention core.

    Context parallelism gives each rank an equal part of every sequence.
    """
    mixer, sequence = part.mixer, inputs.layer_sequence
    if mixer is None:
        return ForwardBackward(TimeByCategory(), TimeByCategory())
    if part.kind.selective_scan is not None:
        scan = _selective_scan(inputs, part.kind.selective_scan, mixer.beside or mixer, block)
        if part.kind.attention is None:
            return scan
        kind, alone = without_scan(part.kind, mixer)
        return scan + attention_pass(inputs, replace(part, kind=kind, mixer=alone), block)
    head_dim, fit = mixer.head_dim, inputs.rates.attention
    if fit is not None:
        flop = core_flop(part.kind, mixer, block.micro_batch, sequence, mixer.heads, causal=True) / block.cp
        length = local_sequence(sequence, block) if block.structure.cp_type == "p2p" else sequence
        heads = (head_dim, fit.narrow_heads, fit.wide_heads)
        rate = attention_rate(inputs.rates.peak, fit.forward_share, length, fit.half_sequence, *heads)
        sustained = inputs.sustained if is_core_throttled(fit, part.kind) else inputs.slowest_device_slowdown
        forward = attention_forward_time(flop, rate, sustained)
        backward = attention_backward_time(flop, rate, fit.backward_share, sustained)
        merge = _ring_merge_seconds(inputs, part, block)
        return ForwardBackward(
            TimeByCategory(attention=forward, memory_bound=merge),
            TimeByCategory(attention=backward, memory_bound=merge),
        )
    if part.kind.recurrent:
        return _chunked_scan(inputs, part, mixer, block)
    shared = block.micro_batch / block.cp
    counted = score_heads(part.kind, mixer, fused=False)
    batches = shared * counted
    with term("scores"):
        scores = _score_matmul_seconds(inputs, batches, head_dim)
    softmax = memory_bound_seconds(
        inputs, score_traffic(shared, sequence, counted, inputs.widths.element, backward=False)
    )
    back = memory_bound_seconds(inputs, score_traffic(shared, sequence, counted, inputs.widths.element, backward=True))
    forward, backward = 2.0 * scores, 4.0 * scores
    return ForwardBackward(
        TimeByCategory(attention=forward, memory_bound=softmax), TimeByCategory(attention=backward, memory_bound=back)
    )


def _chunked_scan(inputs: TrainingInputs, part: Shard, mixer: Mixer, block: Block) -> ForwardBackward:
    """A scan in a stack without fused attention: matrix products of chunks; backward has twice the work."""
    flop = core_flop(part.kind, mixer, block.micro_batch, inputs.layer_sequence, mixer.heads, causal=True) / block.cp
    with term("scan"):
        forward = matmul_seconds(inputs, flop, 0.0)
        backward = 2.0 * matmul_seconds(inputs, flop, 0.0, backward=True)
    return ForwardBackward(TimeByCategory(attention=forward), TimeByCategory(attention=backward))


def _selective_scan(inputs: TrainingInputs, scan: SelectiveScan, mixer: Mixer, block: Block) -> ForwardBackward:
    """A selective scan on the vector units, whatever attention kernels the stack has."""
    tokens, rate = local_tokens(inputs, block), inputs.vector_rate
    forward = SELECTIVE_SCAN.scan_time(scan, mixer, tokens, rate, backward=False)
    backward = SELECTIVE_SCAN.scan_time(scan, mixer, tokens, rate, backward=True)
    return ForwardBackward(TimeByCategory(attention=forward), TimeByCategory(attention=backward))


def is_core_throttled(fit: AttentionFit, kind: Layers) -> bool:
    """Whether power throttling slows down a layer's attention core; it always does for a scan of matrix products."""
    return fit.slowed or kind.recurrent


def _score_matmul_seconds(inputs: TrainingInputs, batches: Number, head_dim: Number) -> Number:
    """Time [s] of one of the products of unfused attention, for `batches` heads."""
    sequence, element = inputs.layer_sequence, inputs.widths.element
    flop = batches * matmul_flop(sequence, sequence, head_dim)
    nbytes = batches * matmul_bytes(sequence, sequence, head_dim, element, element)
    peak = peak_of_heads(inputs.rates.peak, inputs.vector_peak, head_dim, element)
    fit = inputs.rates.matmul
    shares = (fit.compute_share, fit.memory_share, fit.start, fit.exponent)
    return matmul_time(flop, nbytes, peak, inputs.rates.memory_bandwidth, *shares, inputs.sustained)


def _ring_merge_seconds(inputs: TrainingInputs, part: Shard, block: Block) -> Number:
    """Time to merge the partial results of ring attention; 0 without a ring."""
    if block.structure.cp_type != "p2p" or single_rank(block.cp) or part.mixer is None or part.kind.recurrent:
        return 0.0
    tokens, mixer = local_tokens(inputs, block), part.mixer
    with term("ring merge"):
        return memory_bound_seconds(
            inputs, merge_traffic(tokens, mixer.heads, mixer.head_dim, inputs.widths.element, block.cp)
        )


def adapter_pass(
    inputs: TrainingInputs, adapter: Adapter, rows: Number, multiply: Callable[[Matmul], ForwardBackward]
) -> ForwardBackward:
    """The two products of an adapter, and the addition of its result."""
    with term(f"adapter of {adapter.name}"):
        down, up = (multiply(matrix) for matrix in adapter_matmuls(inputs, adapter))
        added = memory_bound_seconds(inputs, adapter_traffic(rows, adapter.n, inputs.widths.element))
        back = memory_bound_seconds(inputs, adapter_traffic(rows, adapter.k, inputs.widths.element))
    return down + up + ForwardBackward(TimeByCategory(memory_bound=added), TimeByCategory(memory_bound=back))


def _adapters(
    inputs: TrainingInputs, part: Shard, tokens: Number, named: frozenset[str]
) -> tuple[ForwardBackward, TimeByCategory]:
    """A layer's adapters, with unpacking of weights; and their recompute."""
    total, again = ForwardBackward(TimeByCategory(), TimeByCategory()), TimeByCategory()
    for adapter in adapters(inputs, part):
        own = tokens / adapter.split
        each = adapter_pass(inputs, adapter, own, functools.partial(token_matmul, inputs, own, trained=True))
        total = total + each
        again = again + each.forward if adapter.beside in named else again
    for matrix in layer_matmuls(inputs.model, part) if inputs.has_packed_weights else ():
        with term(f"unpack {matrix.name}"):
            weights = matrix.split * table_parameters(matrix.n, matrix.k)
            unpacked = TimeByCategory(memory_bound=unpacking_seconds(inputs, weights))
        total = total + ForwardBackward(unpacked, unpacked)
        again = again + unpacked if matrix.name in named else again
    return total, again


def unpacking_seconds(inputs: TrainingInputs, weights: Number) -> Number:
    """Time to unpack so many 4-bit weights to the type that the matmuls read."""
    streamed = memory_bound_seconds(
        inputs, dequantise_traffic(weights, packed_weight_bytes(), inputs.stack.states.compute)
    )
    slower: Number = UNPACKING * streamed
    return slower


def layer_pass(inputs: TrainingInputs, part: Shard, block: Block) -> ForwardBackward:
    """Seconds of one layer on the device, forward and backward, with recompute in backward; no communication."""
    tokens, structure = local_tokens(inputs, block), block.structure
    split, again = block.sequence_ranks, recomputed_work(inputs, block.structure, part.kind)
    maps, anew = _adapters(inputs, part, tokens, again.matrices)
    for matrix in layer_matmuls(inputs.model, part):
        with term(matrix.name):
            each = linear_map(inputs, tokens, matrix, split)
        maps = maps + each
        anew = anew + each.forward if matrix.name in again.matrices else anew
    with term("attention core"):
        core = attention_pass(inputs, part, block)
    once = _memory_bound_seconds(inputs, part, tokens, split, backward=False)
    twice = _memory_bound_seconds(inputs, part, tokens, split, backward=True)
    layer = maps + ForwardBackward(TimeByCategory(memory_bound=once), TimeByCategory(memory_bound=twice)) + core
    anew = recomputed_part(again, anew)
    if again.dropped == "modules":
        anew = anew + TimeByCategory(
            memory_bound=memory_bound_seconds(inputs, recomputed_traffic(inputs, structure, again, part, tokens, split))
        )
    elif again.matrices:
        anew = anew + TimeByCategory(memory_bound=once)
    return layer + ForwardBackward(TimeByCategory(), anew + core.forward if again.core else anew)


def recomputed_part(again: RecomputedWork, work: TimeByCategory) -> TimeByCategory:
    """Seconds of recomputed work if only a share of its matrix products is repeated.

    Memory-bound work is repeated in full.
    """
    return work if again.times == 1 else replace(work, matmul=again.times * work.matmul)


def shared_experts(inputs: TrainingInputs, part: Shard, tokens: Number, split: Number) -> ForwardBackward:
    """The matrix products of a layer's shared experts, which may hide all-to-all."""
    times = ForwardBackward(TimeByCategory(), TimeByCategory())
    if inputs.experts is None or inputs.experts.shared_overlap == 0:
        return times
    with term("beside"):
        for matrix in layer_matmuls(inputs.model, part):
            if matrix.name in FEEDS:
                times = times + linear_map(inputs, tokens, matrix, split).undeferred
    return times


def _memory_bound_seconds(
    inputs: TrainingInputs, part: Shard, tokens: Number, split: Number, *, backward: bool
) -> Number:
    """Norms, residual additions, activation function and rotary embedding of one layer in one direction."""
    model, dropout = inputs.model, inputs.stack.kernels.dropout
    with term("memory-bound backward" if backward else "memory-bound forward"):
        norms = norm_traffic(
            tokens,
            model.hidden,
            part.kind.norms,
            stream_additions(model, residual_additions(part.kind)),
            inputs.widths.element,
            dropout=dropout,
            fused=inputs.stack.kernels.streams == "fused",
            backward=backward,
        )
        if model.residual_streams is not None:
            halves = residual_additions(part.kind)
            norms = norms + stream_traffic(model, halves, tokens, inputs.widths.element, backward=backward)
        if part.kind.side_rank is not None:
            norms = norms + side_traffic(model, part.kind, tokens, inputs.widths.element, backward=backward)
        nbytes = norms / split
        if model.layer_embedding is not None:
            nbytes = nbytes + entry_traffic(model, tokens, inputs.widths.element, backward=backward) / split
        if part.dense is not None:
            nbytes = nbytes + part.dense.traffic(tokens, inputs.widths.element, backward=backward)
        if part.mixer is not None:
            nbytes = nbytes + mixer_traffic(
                model, part.kind, part.mixer, tokens, inputs.widths.element, backward=backward
            )
        return memory_bound_seconds(inputs, nbytes)


def attention_core_of(again: RecomputedWork, layer: ForwardBackward) -> ForwardBackward:
    """The attention seconds of a layer, without those that recompute adds."""
    forward, backward = layer.forward.attention, layer.backward.attention
    if again.core:
        backward = backward - forward
    return ForwardBackward(TimeByCategory(attention=forward), TimeByCategory(attention=backward))
