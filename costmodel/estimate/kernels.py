"""Time of a layer and of the ends on one accelerator, forward and backward, without communication."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from costmodel.documents.stack import Recompute
from costmodel.equation import Number, term
from costmodel.equations.arithmetic import matmul_flop
from costmodel.equations.context import merge_traffic
from costmodel.equations.counting import divided, repeated
from costmodel.equations.precision import narrow_matmul_bytes, quantise_traffic
from costmodel.equations.roofline import (
    attention_backward_time,
    attention_forward_time,
    attention_rate,
    host_bound_time,
    matmul_time,
    stream_time,
)
from costmodel.equations.traffic import (
    embedding_traffic,
    loss_traffic,
    matmul_bytes,
    mlp_traffic,
    norm_traffic,
    score_traffic,
    weight_gradient_bytes,
)
from costmodel.estimate.block import Block, alone, local_sequence
from costmodel.estimate.mixers import Matmul, core_flop, mixer_traffic
from costmodel.estimate.setting import Setting
from costmodel.estimate.work import Shard, additions, local_tokens, matmuls, vocab_per_rank


@dataclass(frozen=True)
class Pass:
    """Seconds of one micro-batch in one direction, by what they are spent on."""

    matmul: Number = 0.0
    attention: Number = 0.0
    memory_bound: Number = 0.0
    launch: Number = 0.0
    tp: Number = 0.0
    cp: Number = 0.0
    ep: Number = 0.0
    dp: Number = 0.0

    def __add__(self, other: Pass) -> Pass:
        return Pass(*(_sum(getattr(self, name), getattr(other, name)) for name in PASS_TERMS))

    def each(self, change: Callable[[Number], Number]) -> Pass:
        """The same change made to every term."""
        return Pass(*(_labelled(name, change, getattr(self, name)) for name in PASS_TERMS))

    @property
    def device(self) -> Number:
        """Time on the device."""
        return self.matmul + self.attention + self.memory_bound

    @property
    def total(self) -> Number:
        """All of it."""
        total = self.device + self.launch + self.tp
        for exposed in (self.cp, self.ep, self.dp):
            total = _sum(total, exposed)
        return total


def nothing(value: Number) -> bool:
    """Whether a term was never set; adding or changing whole columns of nothing would take its time."""
    return isinstance(value, float) and value == 0


def _sum(one: Number, other: Number) -> Number:
    return one if nothing(other) else other if nothing(one) else one + other


def _labelled(label: str, change: Callable[[Number], Number], value: Number) -> Number:
    if nothing(value):
        return value
    with term(label):
        return change(value)


PASS_TERMS = ("matmul", "attention", "memory_bound", "launch", "tp", "cp", "ep", "dp")


@dataclass(frozen=True)
class Both:
    """Forward and backward of one thing."""

    forward: Pass
    backward: Pass
    weight: Number | None = None  # of backward, the gradients of the weights; told where a schedule defers them

    def __add__(self, other: Both) -> Both:
        weight = other.weight if self.weight is None else self.weight
        if self.weight is not None and other.weight is not None:
            weight = self.weight + other.weight
        return Both(self.forward + other.forward, self.backward + other.backward, weight)

    @property
    def undeferred(self) -> Both:
        """Without telling the gradients of the weights apart."""
        return Both(self.forward, self.backward)

    @property
    def deferred(self) -> Number:
        """Of backward, what can wait."""
        return 0.0 if self.weight is None else self.weight

    def each(self, change: Callable[[Number], Number]) -> Both:
        """The same change made to every term of both."""
        with term("forward"):
            forward = self.forward.each(change)
        with term("backward"):
            backward = self.backward.each(change)
        return Both(
            forward, backward, None if self.weight is None else _labelled("weight gradient", change, self.weight)
        )

    @property
    def total(self) -> Number:
        """Forward and backward."""
        return self.forward.total + self.backward.total


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


def matmul_pass(setting: Setting, tokens: Number, matrix: Matmul) -> tuple[Number, Number, Number]:
    """Forward and backward time of one weight matrix, and of backward the gradient of the weights."""
    flop = matmul_flop(tokens, matrix.n, matrix.k)
    nbytes = matmul_bytes(tokens, matrix.n, matrix.k, setting.element)
    with term("forward"):
        forward = product(setting, flop, nbytes)
    with term("input gradient"):
        inward = product(setting, flop, nbytes, backward=True)
    with term("weight gradient"):
        accumulated = weight_gradient_bytes(tokens, matrix.n, matrix.k, setting.element, setting.gradient)
        weight = product(setting, flop, accumulated, backward=True)
    return forward, inward + weight, weight


def linear_pass(setting: Setting, tokens: Number, matrix: Matmul) -> tuple[Pass, Pass, Number]:
    """Forward, backward and of it the weight gradient of a linear map; in a narrow type what it reads is converted."""
    if not setting.recipe.narrow:
        forward, backward, weight = matmul_pass(setting, tokens, matrix)
        return Pass(matmul=forward), Pass(matmul=backward), weight
    operand, quantised = setting.recipe.operand, setting.recipe.quantised
    flop = matmul_flop(tokens, matrix.n, matrix.k)
    with term("forward"):
        nbytes = narrow_matmul_bytes(tokens, matrix.n, matrix.k, operand, setting.element)
        forward = product(setting, flop, nbytes, narrow=True)
    with term("input gradient"):
        nbytes = narrow_matmul_bytes(tokens, matrix.k, matrix.n, operand, setting.element)
        inward = product(setting, flop, nbytes, backward=True, narrow=True)
    with term("weight gradient"):
        accumulated = weight_gradient_bytes(tokens, matrix.n, matrix.k, operand, setting.gradient)
        weight = product(setting, flop, accumulated, backward=True, narrow=True)
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
        rate = attention_rate(setting.peak, fit.forward_share, length, fit.half_sequence, head_dim)
        forward = attention_forward_time(flop, rate, setting.sustained)
        backward = attention_backward_time(flop, rate, fit.backward_share, setting.sustained)
        merge = _merge(setting, part, block)
        return Pass(attention=forward, memory_bound=merge), Pass(attention=backward, memory_bound=merge)
    shared = divided(block.micro_batch, block.cp)
    batches = repeated(shared, mixer.heads)
    with term("scores"):
        flop = repeated(batches, matmul_flop(sequence, sequence, head_dim))
        nbytes = repeated(batches, matmul_bytes(sequence, sequence, head_dim, setting.element))
        scores = product(setting, flop, nbytes)
    softmax = stream(setting, score_traffic(shared, sequence, mixer.heads, setting.element, backward=False))
    back = stream(setting, score_traffic(shared, sequence, mixer.heads, setting.element, backward=True))
    forward, backward = repeated(2.0, scores), repeated(4.0, scores)
    return Pass(attention=forward, memory_bound=softmax), Pass(attention=backward, memory_bound=back)


def _merge(setting: Setting, part: Shard, block: Block) -> Number:
    """A ring's partial results put together; nothing without one."""
    if block.structure.cp_type != "p2p" or alone(block.cp) or part.mixer is None or part.kind.state_space is not None:
        return 0.0
    tokens, mixer = local_tokens(setting, block), part.mixer
    with term("ring merge"):
        return stream(setting, merge_traffic(tokens, mixer.heads, mixer.head_dim, setting.element, block.cp))


def layer_pass(setting: Setting, part: Shard, block: Block) -> Both:
    """Forward and backward of one layer on the device, with what recompute adds to backward."""
    tokens, structure = local_tokens(setting, block), block.structure
    split: Number = block.tp if structure.sequence_parallel else 1.0
    forward_linear, backward_linear, before_last = Pass(), Pass(), Pass()
    weights: Number = 0.0
    for matrix in matmuls(setting, part):
        with term(matrix.name):
            forward, backward, weight = linear_pass(setting, tokens, matrix)
        before_last = forward_linear
        forward_linear, backward_linear = forward_linear + forward, backward_linear + backward
        weights = weights + weight
    with term("attention core"):
        core_forward, core_backward = attention_pass(setting, part, block)
    once = _memory_bound(setting, part, tokens, split, backward=False)
    twice = _memory_bound(setting, part, tokens, split, backward=True)
    forward_pass = forward_linear + Pass(memory_bound=once) + core_forward
    backward_pass = backward_linear + Pass(memory_bound=twice) + core_backward
    again = (before_last if setting.stops_early else forward_linear) + Pass(memory_bound=once) + core_forward
    backward_pass = backward_pass + recomputed(setting, structure.recompute, again, core_forward)
    return Both(forward_pass, backward_pass, weights)


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


def core_of(setting: Setting, block: Block, layer: Both) -> Both:
    """The attention of a layer without what is computed again."""
    forward, backward = layer.forward.attention, layer.backward.attention
    if setting.dropped(block.structure.recompute) in ("layer", "core"):
        backward = backward - forward
    return Both(Pass(attention=forward), Pass(attention=backward))


ISSUED_AGAIN = {"nothing": 0.0, "core": 0.0, "operations": 0.5, "layer": 1.0}


def launched(
    setting: Setting, recompute: Recompute, layer: Both, calls: tuple[Number, Number], experts: Number = 0.0
) -> Both:
    """A layer with what the host cannot keep up with; backward issues twice as much, and recompute again.

    Calls are the collectives that it issues forward and backward beside the operations. Experts are dealt with one by
    one, once in each direction.
    """
    operations, again = setting.stack.launch.operations, ISSUED_AGAIN[setting.dropped(recompute)]
    forward, backward = calls
    return Both(
        _issued(setting, layer.forward, operations + forward, experts),
        _issued(setting, layer.backward, repeated(2.0 + again, operations) + backward, repeated(1.0 + again, experts)),
        layer.weight,
    )


def _issued(setting: Setting, work: Pass, operations: Number, experts: Number) -> Pass:
    busy = _sum(_sum(work.device + work.tp, work.cp), work.ep)
    host = repeated(operations, setting.stack.launch.operation) + experts
    return work + Pass(launch=host_bound_time(busy, host) - busy)


def head_pass(setting: Setting, block: Block) -> Both:
    """The head and the loss."""
    tokens = local_tokens(setting, block)
    vocab = vocab_per_rank(setting, block.tp)
    with term("head"):
        forward, backward, weight = matmul_pass(setting, tokens, Matmul("head", vocab, setting.model.hidden))
        fused = setting.stack.kernels.streams == "fused"
        loss = stream(setting, loss_traffic(tokens, vocab, setting.element, fused=fused))
    return Both(Pass(matmul=forward, memory_bound=loss), Pass(matmul=backward), weight)


def embedding_pass(setting: Setting, block: Block) -> Both:
    """The lookup and its gradient."""
    tokens = local_tokens(setting, block)
    with term("embedding"):
        lookup = stream(setting, embedding_traffic(tokens, setting.model.hidden, setting.element))
    return Both(Pass(memory_bound=lookup), Pass(memory_bound=lookup))
