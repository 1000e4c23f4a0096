"""Time of a layer and of the ends on one accelerator, forward and backward, without communication."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from costmodel.documents.schemas.efficiency import AttentionFit
from costmodel.documents.schemas.model import Layers
from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.low_precision import quantise_traffic
from costmodel.equations.kernels.memory_traffic import (
    accumulated_bytes,
    embedding_traffic,
    loss_traffic,
    matmul_bytes,
    mlp_traffic,
    norm_traffic,
    score_traffic,
)
from costmodel.equations.kernels.roofline import (
    attention_backward_time,
    attention_forward_time,
    attention_rate,
    matmul_time,
    stream_time,
)
from costmodel.equations.kernels.tiles import peak_of_heads, tiled_rows
from costmodel.equations.layers.lora import adapter_traffic, dequantise_traffic
from costmodel.equations.layers.parameters import table_parameters
from costmodel.equations.parallelism.context_parallel import merge_traffic
from costmodel.equations.parallelism.counts import divided, repeated
from costmodel.estimate.model.attention import Matmul, core_flop, mixer_traffic
from costmodel.estimate.model.shards import Shard, additions, matmuls
from costmodel.estimate.shared.memoize import once
from costmodel.estimate.shared.plan_batch import Block, alone, local_sequence
from costmodel.estimate.shared.time_breakdown import Both, Pass
from costmodel.estimate.training.lora import Adapter, adapters, packed_width, thin
from costmodel.estimate.training.recompute.recomputed_work import FEEDS, Again, again_bytes, again_of
from costmodel.estimate.training.stage_parameters import local_tokens, vocab_per_rank
from costmodel.estimate.training.training_inputs import Setting
from costmodel.ground.equation import Number, term


def product(setting: Setting, flop: Number, nbytes: Number, *, backward: bool = False, narrow: bool = False) -> Number:
    """Time of a matrix product, by the fit of the accelerator for that type."""
    fit = setting.linear.fit if narrow else setting.matmul
    return matmul_time(
        flop,
        nbytes,
        setting.linear.peak if narrow else setting.peak,
        setting.memory_bandwidth,
        fit.backward_share if backward else fit.compute_share,
        fit.memory_share,
        fit.start,
        fit.exponent,
        setting.sustained_narrow if narrow else setting.sustained,
    )


def stream(setting: Setting, nbytes: Number) -> Number:
    """Time of memory-bound operations that must read and write so many bytes."""
    return stream_time(
        repeated(setting.stack.kernels.traffic_factor, nbytes), setting.memory_bandwidth, setting.memory_share
    )


def multiplied(
    setting: Setting,
    matrix: Matmul,
    rows: Number,
    flop: Number,
    *,
    groups: Number | None = None,
    narrow: bool = False,
    trained: bool = True,
) -> Both:
    """Rows times a weight matrix, or in equal groups times one each, and both products backward.

    A frozen matrix has no gradient; in a narrow type what is read is converted.
    """
    m, n, k = rows if groups is None else divided(rows, groups), matrix.n, matrix.k
    operand, element = setting.recipe.operand if narrow else setting.element, setting.element

    def of_all(nbytes: Number) -> Number:
        return nbytes if groups is None else repeated(groups, nbytes)

    with term("forward"):
        forward = product(setting, flop, of_all(matmul_bytes(m, n, k, operand, element)), narrow=narrow)
    with term("input gradient"):
        nbytes = of_all(matmul_bytes(m, k, n, operand, element))
        backward = product(setting, flop, nbytes, backward=True, narrow=narrow)
    found = Both(Pass(matmul=forward), Pass(matmul=backward))
    if trained:
        with term("weight gradient"):
            nbytes = of_all(matmul_bytes(k, n, m, operand, 0.0))
            weight = product(setting, flop, nbytes, backward=True, narrow=narrow)
        with term("accumulate"):
            nbytes = of_all(accumulated_bytes(n, k, setting.gradient))
            added = stream_time(nbytes, setting.memory_bandwidth, setting.memory_share)
        both = Pass(matmul=weight, memory_bound=added)
        found = found + Both(Pass(), both, both)
    if not narrow:
        return found
    with term("convert input"):
        once = stream(setting, quantise_traffic(repeated(rows, k), setting.recipe.quantised))
    with term("convert gradient"):
        back = stream(setting, quantise_traffic(repeated(rows, n), setting.recipe.quantised))
    return found + Both(Pass(memory_bound=once), Pass(memory_bound=back))


def plain_product(setting: Setting, tokens: Number, matrix: Matmul, *, narrow: bool = False, trained: bool) -> Both:
    """Tokens times one weight matrix."""
    flop = matmul_flop(tiled_rows(tokens), matrix.n, matrix.k)
    return multiplied(setting, matrix, tokens, flop, narrow=narrow, trained=trained)


def linear(setting: Setting, tokens: Number, matrix: Matmul) -> Both:
    """A linear map of a layer, in the type the layers multiply in."""
    return plain_product(setting, tokens, matrix, narrow=setting.recipe.narrow, trained=setting.tuning is None)


def attention_pass(setting: Setting, part: Shard, block: Block) -> Both:
    """Forward and backward of the attention core: an even part of every sequence under context parallelism."""
    mixer, sequence = part.mixer, setting.sequence
    if mixer is None:
        return Both(Pass(), Pass())
    head_dim, fit = mixer.head_dim, setting.attention
    if fit is not None:
        flop = divided(core_flop(part.kind, mixer, block.micro_batch, sequence, mixer.heads, causal=True), block.cp)
        length = local_sequence(sequence, block) if block.structure.cp_type == "p2p" else sequence
        heads = (head_dim, fit.narrow_heads, fit.wide_heads)
        rate = attention_rate(setting.peak, fit.forward_share, length, fit.half_sequence, *heads)
        sustained = setting.sustained if slowed_core(fit, part.kind) else setting.slowest
        forward = attention_forward_time(flop, rate, sustained)
        backward = attention_backward_time(flop, rate, fit.backward_share, sustained)
        merge = _merge(setting, part, block)
        return Both(Pass(attention=forward, memory_bound=merge), Pass(attention=backward, memory_bound=merge))
    shared = divided(block.micro_batch, block.cp)
    batches = repeated(shared, mixer.heads)
    with term("scores"):
        scores = _scores(setting, batches, head_dim)
    softmax = stream(setting, score_traffic(shared, sequence, mixer.heads, setting.element, backward=False))
    back = stream(setting, score_traffic(shared, sequence, mixer.heads, setting.element, backward=True))
    forward, backward = repeated(2.0, scores), repeated(4.0, scores)
    return Both(Pass(attention=forward, memory_bound=softmax), Pass(attention=backward, memory_bound=back))


def slowed_core(fit: AttentionFit, kind: Layers) -> bool:
    """Whether power slows down the core of a layer; of a state space, whose products are plain ones, it does."""
    return fit.slowed or kind.state_space is not None


def _scores(setting: Setting, batches: Number, head_dim: Number) -> Number:
    """Time of one of the products of unfused attention, of so many heads."""
    sequence, element = setting.sequence, setting.element
    flop = repeated(batches, matmul_flop(sequence, sequence, head_dim))
    nbytes = repeated(batches, matmul_bytes(sequence, sequence, head_dim, element, element))
    peak = peak_of_heads(setting.peak, setting.vector_peak, head_dim, element)
    fit = setting.matmul
    shares = (fit.compute_share, fit.memory_share, fit.start, fit.exponent)
    return matmul_time(flop, nbytes, peak, setting.memory_bandwidth, *shares, setting.sustained)


def _merge(setting: Setting, part: Shard, block: Block) -> Number:
    """A ring's partial results put together; nothing without one."""
    if block.structure.cp_type != "p2p" or alone(block.cp) or part.mixer is None or part.kind.state_space is not None:
        return 0.0
    tokens, mixer = local_tokens(setting, block), part.mixer
    with term("ring merge"):
        return stream(setting, merge_traffic(tokens, mixer.heads, mixer.head_dim, setting.element, block.cp))


def adapted(setting: Setting, adapter: Adapter, rows: Number, multiply: Callable[[Matmul], Both]) -> Both:
    """An adapter's two products, and adding its result."""
    with term(f"adapter of {adapter.name}"):
        down, up = (multiply(matrix) for matrix in thin(setting, adapter))
        added = stream(setting, adapter_traffic(rows, adapter.n, setting.element))
        back = stream(setting, adapter_traffic(rows, adapter.k, setting.element))
    return down + up + Both(Pass(memory_bound=added), Pass(memory_bound=back))


def _adapters(setting: Setting, part: Shard, tokens: Number, named: frozenset[str]) -> tuple[Both, Pass]:
    """A layer's adapters, and unpacking what is beside them; and what of it is run again with the matrices named."""
    found, again = Both(Pass(), Pass()), Pass()
    for adapter in adapters(setting, part):
        own = divided(tokens, adapter.split)
        each = adapted(setting, adapter, own, functools.partial(plain_product, setting, own, trained=True))
        found = found + each
        again = again + each.forward if adapter.beside in named else again
    for matrix in matmuls(setting.model, part) if setting.packed else ():
        with term(f"unpack {matrix.name}"):
            weights = repeated(matrix.split, table_parameters(matrix.n, matrix.k))
            unpacked = Pass(memory_bound=unpacking(setting, weights))
        found = found + Both(unpacked, unpacked)
        again = again + unpacked if matrix.name in named else again
    return found, again


def unpacking(setting: Setting, weights: Number) -> Number:
    """Time of turning so many packed weights back into what the matmuls read."""
    return stream(setting, dequantise_traffic(weights, packed_width(), setting.stack.states.compute))


def layer_pass(setting: Setting, part: Shard, block: Block) -> Both:
    """Forward and backward of one layer on the device, with what recompute adds to backward."""
    tokens, structure = local_tokens(setting, block), block.structure
    split, again = block.sequence_ranks, again_of(setting, block.structure, part.kind)
    maps, anew = _adapters(setting, part, tokens, again.matrices)
    for matrix in matmuls(setting.model, part):
        with term(matrix.name):
            each = linear(setting, tokens, matrix)
        maps = maps + each
        anew = anew + each.forward if matrix.name in again.matrices else anew
    with term("attention core"):
        core = attention_pass(setting, part, block)
    once = _memory_bound(setting, part, tokens, split, backward=False)
    twice = _memory_bound(setting, part, tokens, split, backward=True)
    layer = maps + Both(Pass(memory_bound=once), Pass(memory_bound=twice)) + core
    anew = in_part(again, anew)
    if again.dropped == "modules":
        anew = anew + Pass(memory_bound=stream(setting, again_bytes(setting, structure, again, part, tokens, split)))
    elif again.matrices:
        anew = anew + Pass(memory_bound=once)
    return layer + Both(Pass(), anew + core.forward if again.core else anew)


def in_part(again: Again, work: Pass) -> Pass:
    """Products that run again: what is read and written between them runs again even where not all of them do."""
    return work if again.times == 1 else replace(work, matmul=repeated(again.times, work.matmul))


def shared_experts(setting: Setting, part: Shard, tokens: Number) -> Both:
    """The matrix products of a layer's shared experts, where something may hide behind them."""
    found = Both(Pass(), Pass())
    if setting.experts is None or setting.experts.shared_overlap == 0:
        return found
    with term("beside"):
        for matrix in matmuls(setting.model, part):
            if matrix.name in FEEDS:
                found = found + linear(setting, tokens, matrix).undeferred
    return found


def _memory_bound(setting: Setting, part: Shard, tokens: Number, split: Number, *, backward: bool) -> Number:
    """Norms, residual additions, activation function and rotation of one layer in one direction."""
    model, dropout = setting.model, setting.stack.kernels.dropout
    with term("memory-bound backward" if backward else "memory-bound forward"):
        norms = norm_traffic(
            tokens,
            model.hidden,
            part.kind.norms,
            additions(part.kind),
            setting.element,
            dropout=dropout,
            fused=setting.stack.kernels.streams == "fused",
            backward=backward,
        )
        nbytes = divided(norms, split)
        if part.kind.dense is not None:
            nbytes = nbytes + mlp_traffic(
                tokens, part.ffn_hidden, setting.element, gated=part.kind.dense.gated, backward=backward
            )
        if part.mixer is not None:
            nbytes = nbytes + mixer_traffic(model, part.kind, part.mixer, tokens, setting.element, backward=backward)
        return stream(setting, nbytes)


def core_of(again: Again, layer: Both) -> Both:
    """The attention of a layer without what is computed again."""
    forward, backward = layer.forward.attention, layer.backward.attention
    if again.core:
        backward = backward - forward
    return Both(Pass(attention=forward), Pass(attention=backward))


@once()
def head_pass(setting: Setting, block: Block) -> Both:
    """The head and the loss."""
    tokens = local_tokens(setting, block)
    vocab = vocab_per_rank(setting, block.tp)
    with term("head"):
        table = Matmul("head", vocab, setting.model.hidden)
        head = plain_product(setting, tokens, table, trained=setting.tuning is None)
        fused = setting.stack.kernels.streams == "fused"
        loss = stream(setting, loss_traffic(tokens, vocab, setting.element, fused=fused))
    return head + Both(Pass(memory_bound=loss), Pass())


@once()
def embedding_pass(setting: Setting, block: Block) -> Both:
    """The lookup and its gradient."""
    tokens = local_tokens(setting, block)
    with term("embedding"):
        lookup = stream(setting, embedding_traffic(tokens, setting.model.hidden, setting.element))
    return Both(Pass(memory_bound=lookup), Pass(memory_bound=lookup) if setting.tuning is None else Pass())
