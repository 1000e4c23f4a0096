"""Time of a layer and of the ends on one accelerator, forward and backward, without communication."""

from __future__ import annotations

import functools
from collections.abc import Callable

from costmodel.documents.stack import Recompute
from costmodel.equation import Number, term
from costmodel.equations.adapters import adapter_traffic, dequantise_traffic
from costmodel.equations.arithmetic import matmul_flop
from costmodel.equations.context import merge_traffic
from costmodel.equations.counting import divided, repeated
from costmodel.equations.parameters import table_parameters
from costmodel.equations.precision import narrow_matmul_bytes, quantise_traffic
from costmodel.equations.roofline import (
    attention_backward_time,
    attention_forward_time,
    attention_rate,
    matmul_time,
    stream_time,
)
from costmodel.equations.tiles import peak_of_heads, tiled_rows
from costmodel.equations.traffic import (
    embedding_traffic,
    loss_traffic,
    matmul_bytes,
    mlp_traffic,
    norm_traffic,
    score_traffic,
    weight_gradient_bytes,
)
from costmodel.estimate.block import Block, Structure, alone, local_sequence
from costmodel.estimate.once import once
from costmodel.estimate.passes import Both, Pass
from costmodel.estimate.setting import Setting
from costmodel.estimate.shapes.adapters import Adapter, adapters, packed_width, thin
from costmodel.estimate.shapes.mixers import Matmul, core_flop, mixer_traffic
from costmodel.estimate.shapes.recompute import FEEDS, again_bytes, multiplied_again
from costmodel.estimate.shapes.work import Shard, additions, local_tokens, matmuls, vocab_per_rank

Step = tuple[Pass, Pass, Number]  # forward, backward, and of that the weight gradient


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
        repeated(setting.linear.sustained, setting.sustained) if narrow else setting.sustained,
    )


def stream(setting: Setting, nbytes: Number) -> Number:
    """Time of memory-bound operations of so many bytes, were they fully fused."""
    return stream_time(
        repeated(setting.stack.kernels.traffic_factor, nbytes), setting.memory_bandwidth, setting.memory_share
    )


def matmul_pass(
    setting: Setting, tokens: Number, matrix: Matmul, *, trained: bool = True
) -> tuple[Number, Number, Number]:
    """Forward and backward time of one weight matrix, and of backward its gradient: a frozen one has none."""
    flop = matmul_flop(tiled_rows(tokens), matrix.n, matrix.k)
    nbytes = matmul_bytes(tokens, matrix.n, matrix.k, setting.element)
    with term("forward"):
        forward = product(setting, flop, nbytes)
    with term("input gradient"):
        inward = product(setting, flop, nbytes, backward=True)
    if not trained:
        return forward, inward, 0.0
    with term("weight gradient"):
        accumulated = weight_gradient_bytes(tokens, matrix.n, matrix.k, setting.element, setting.gradient)
        weight = product(setting, flop, accumulated, backward=True)
    return forward, inward + weight, weight


def linear_pass(setting: Setting, tokens: Number, matrix: Matmul) -> tuple[Pass, Pass, Number]:
    """Forward, backward and of it the weight gradient of a linear map; in a narrow type what it reads is converted."""
    if not setting.recipe.narrow:
        forward, backward, weight = matmul_pass(setting, tokens, matrix, trained=setting.tuning is None)
        return Pass(matmul=forward), Pass(matmul=backward), weight
    operand, quantised = setting.recipe.operand, setting.recipe.quantised
    flop = matmul_flop(tiled_rows(tokens), matrix.n, matrix.k)
    with term("forward"):
        nbytes = narrow_matmul_bytes(tokens, matrix.n, matrix.k, operand, setting.element)
        forward = product(setting, flop, nbytes, narrow=True)
    with term("input gradient"):
        nbytes = narrow_matmul_bytes(tokens, matrix.k, matrix.n, operand, setting.element)
        inward = product(setting, flop, nbytes, backward=True, narrow=True)
    with term("weight gradient"):
        accumulated = weight_gradient_bytes(tokens, matrix.n, matrix.k, operand, setting.gradient)
        gradient = product(setting, flop, accumulated, backward=True, narrow=True)
        weight = gradient if setting.tuning is None else repeated(0.0, gradient)
    with term("convert input"):
        once = stream(setting, quantise_traffic(repeated(tokens, matrix.k), quantised))
    with term("convert gradient"):
        back = stream(setting, quantise_traffic(repeated(tokens, matrix.n), quantised))
    return Pass(matmul=forward, memory_bound=once), Pass(matmul=inward + weight, memory_bound=back), weight


def attention_pass(setting: Setting, part: Shard, block: Block) -> tuple[Pass, Pass]:
    """Forward and backward of the attention core: an even part of every sequence under context parallelism."""
    mixer, sequence = part.mixer, setting.sequence
    if mixer is None:
        return Pass(), Pass()
    head_dim, fit = mixer.head_dim, setting.attention
    if fit is not None:
        flop = divided(core_flop(part.kind, mixer, block.micro_batch, sequence, mixer.heads, causal=True), block.cp)
        length = local_sequence(sequence, block) if block.structure.cp_type == "p2p" else sequence
        heads = (head_dim, fit.narrow_heads, fit.wide_heads)
        rate = attention_rate(setting.peak, fit.forward_share, length, fit.half_sequence, *heads)
        forward = attention_forward_time(flop, rate, setting.sustained)
        backward = attention_backward_time(flop, rate, fit.backward_share, setting.sustained)
        merge = _merge(setting, part, block)
        return Pass(attention=forward, memory_bound=merge), Pass(attention=backward, memory_bound=merge)
    shared = divided(block.micro_batch, block.cp)
    batches = repeated(shared, mixer.heads)
    with term("scores"):
        scores = _scores(setting, batches, head_dim)
    softmax = stream(setting, score_traffic(shared, sequence, mixer.heads, setting.element, backward=False))
    back = stream(setting, score_traffic(shared, sequence, mixer.heads, setting.element, backward=True))
    forward, backward = repeated(2.0, scores), repeated(4.0, scores)
    return Pass(attention=forward, memory_bound=softmax), Pass(attention=backward, memory_bound=back)


def _scores(setting: Setting, batches: Number, head_dim: Number) -> Number:
    """Time of one of the products of unfused attention, of so many heads."""
    flop = repeated(batches, matmul_flop(setting.sequence, setting.sequence, head_dim))
    nbytes = repeated(batches, matmul_bytes(setting.sequence, setting.sequence, head_dim, setting.element))
    peak = peak_of_heads(setting.peak, setting.vector_peak, head_dim, setting.element)
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


def adapter_steps(
    setting: Setting, adapter: Adapter, rows: Number, multiply: Callable[[Matmul], Step]
) -> tuple[Step, ...]:
    """Forward, backward and of it the weight gradient of an adapter's two products, and of adding its result."""
    with term(f"adapter of {adapter.name}"):
        products = tuple(multiply(matrix) for matrix in thin(setting, adapter))
        added = stream(setting, adapter_traffic(rows, adapter.n, setting.element))
        back = stream(setting, adapter_traffic(rows, adapter.k, setting.element))
    return (*products, (Pass(memory_bound=added), Pass(memory_bound=back), 0.0))


def _thin_pass(setting: Setting, tokens: Number, matrix: Matmul) -> Step:
    forward, backward, weight = matmul_pass(setting, tokens, matrix)
    return Pass(matmul=forward), Pass(matmul=backward), weight


def _adapted(setting: Setting, part: Shard, tokens: Number, named: frozenset[str]) -> tuple[Pass, Pass, Number, Pass]:
    """Forward, backward and of it the weight gradients of a layer's adapters, and of unpacking what is beside them;
    and what of it is run again with the matrices named.
    """
    forward, backward, again = Pass(), Pass(), Pass()
    gradients: Number = 0.0
    for adapter in adapters(setting, part):
        own = divided(tokens, adapter.split)
        for ahead, back, gradient in adapter_steps(setting, adapter, own, functools.partial(_thin_pass, setting, own)):
            forward, backward, gradients = forward + ahead, backward + back, gradients + gradient
            again = again + ahead if adapter.beside in named else again
    if not setting.packed:
        return forward, backward, gradients, again
    unpacked: Number = 0.0
    for matrix in matmuls(setting, part):
        with term(f"unpack {matrix.name}"):
            each = unpacking(setting, repeated(matrix.split, table_parameters(matrix.n, matrix.k)))
            unpacked = unpacked + each
            again = again + Pass(memory_bound=each) if matrix.name in named else again
    return forward + Pass(memory_bound=unpacked), backward + Pass(memory_bound=unpacked), gradients, again


def unpacking(setting: Setting, weights: Number) -> Number:
    """Time of turning so many packed weights back into what the matmuls read."""
    return stream(setting, dequantise_traffic(weights, packed_width(), setting.stack.states.compute))


def layer_pass(setting: Setting, part: Shard, block: Block) -> Both:
    """Forward and backward of one layer on the device, with what recompute adds to backward."""
    tokens, structure = local_tokens(setting, block), block.structure
    split = block.sequence_ranks
    named, before_last = multiplied_again(setting, structure, part.kind), Pass()
    forward_linear, backward_linear, weights, twice_multiplied = _adapted(setting, part, tokens, named)
    for matrix in matmuls(setting, part):
        with term(matrix.name):
            forward, backward, weight = linear_pass(setting, tokens, matrix)
        twice_multiplied = twice_multiplied + forward if matrix.name in named else twice_multiplied
        before_last = forward_linear
        forward_linear, backward_linear = forward_linear + forward, backward_linear + backward
        weights = weights + weight
    with term("attention core"):
        core_forward, core_backward = attention_pass(setting, part, block)
    once = _memory_bound(setting, part, tokens, split, backward=False)
    twice = _memory_bound(setting, part, tokens, split, backward=True)
    forward_pass = forward_linear + Pass(memory_bound=once) + core_forward
    backward_pass = backward_linear + Pass(memory_bound=twice) + core_backward
    if structure.recompute_modules is None:
        again = (before_last if setting.stops_early else forward_linear) + Pass(memory_bound=once) + core_forward
        backward_pass = backward_pass + recomputed(setting, structure.recompute, again, core_forward)
        return Both(forward_pass, backward_pass, weights)
    streamed = stream(setting, again_bytes(setting, structure, part, tokens, split))
    backward_pass = backward_pass + Pass(memory_bound=streamed)
    backward_pass = backward_pass + (core_forward if "attention" in structure.recompute_modules else Pass())
    return Both(forward_pass, backward_pass + twice_multiplied, weights)


def shared_experts(setting: Setting, part: Shard, tokens: Number) -> Both:
    """The matrix products of a layer's shared experts, where something may hide behind them."""
    found = Both(Pass(), Pass())
    if setting.experts is None or setting.experts.shared_overlap == 0:
        return found
    with term("beside"):
        for matrix in matmuls(setting, part):
            if matrix.name in FEEDS:
                forward, backward, _ = linear_pass(setting, tokens, matrix)
                found = found + Both(forward, backward)
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


def recomputed(setting: Setting, recompute: Recompute, forward: Pass, core: Pass) -> Pass:
    """What backward computes a second time."""
    dropped = setting.dropped(recompute)
    if dropped == "operations":
        return Pass(matmul=divided(forward.matmul, 2.0), memory_bound=forward.memory_bound)
    return {"layer": forward, "core": core, "nothing": Pass()}[dropped]


def _core_again(setting: Setting, structure: Structure) -> bool:
    """Whether backward computes the attention core a second time."""
    if structure.recompute_modules is not None:
        return "attention" in structure.recompute_modules
    return setting.dropped(structure.recompute) in ("layer", "core")


def core_of(setting: Setting, block: Block, layer: Both) -> Both:
    """The attention of a layer without what is computed again."""
    forward, backward = layer.forward.attention, layer.backward.attention
    if _core_again(setting, block.structure):
        backward = backward - forward
    return Both(Pass(attention=forward), Pass(attention=backward))


@once()
def head_pass(setting: Setting, block: Block) -> Both:
    """The head and the loss."""
    tokens = local_tokens(setting, block)
    vocab = vocab_per_rank(setting, block.tp)
    with term("head"):
        table = Matmul("head", vocab, setting.model.hidden)
        forward, backward, weight = matmul_pass(setting, tokens, table, trained=setting.tuning is None)
        fused = setting.stack.kernels.streams == "fused"
        loss = stream(setting, loss_traffic(tokens, vocab, setting.element, fused=fused))
    return Both(Pass(matmul=forward, memory_bound=loss), Pass(matmul=backward), weight)


@once()
def embedding_pass(setting: Setting, block: Block) -> Both:
    """The lookup and its gradient."""
    tokens = local_tokens(setting, block)
    with term("embedding"):
        lookup = stream(setting, embedding_traffic(tokens, setting.model.hidden, setting.element))
    return Both(Pass(memory_bound=lookup), Pass(memory_bound=lookup) if setting.tuning is None else Pass())
