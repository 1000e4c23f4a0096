"""FLOP of a step: in the scenario's convention, as executed, and by product shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from costmodel.documents.schemas.model import Layers
from costmodel.equations.kernels.flop import (
    korthikanti_recompute_flop,
    matmul_flop,
    megatron_flop,
    palm_flop,
    six_n_flop,
)
from costmodel.equations.parallelism.counts import padded_vocab
from costmodel.equations.run.economics import tokens_per_step
from costmodel.estimate.model.mixers.table import core_flop, mixer
from costmodel.estimate.model.residual_streams import stream_head, stream_width
from costmodel.estimate.model.routed_experts import expert_flop, expert_matmuls
from costmodel.estimate.model.shards import counted_kinds, layer_count, matmuls, model_active_parameters, shard
from costmodel.estimate.shared.per_stage import RECOMPUTE, SPLIT, memoized
from costmodel.estimate.shared.plan_batch import Block, Structure, summed
from costmodel.estimate.training.lora import ROUTED, thin_flop, useful_flop
from costmodel.estimate.training.recompute import again_of, dropped, reached_of_all
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training.vision_front import front_flop
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

COUNTED = ("model-causal", "model-full")
MEGATRON = ("korthikanti", "megatron-2021")
COUNTS_RECOMPUTE = "megatron-2021"  # the whole of it, whatever a plan recomputes

CORE = "core"  # the products of attention that is not fused


@record
class StepFlop:
    """FLOP of a whole step: in the requested convention, and executed."""

    model: Number
    executed: Number


def forward_flop(inputs: TrainingInputs, *, causal: bool) -> tuple[Number, Number, Number]:
    """Forward FLOP: all weight matrices of the layers, the attention core, the head."""
    model = inputs.model
    tokens = tokens_per_step(inputs.global_batch, inputs.layer_sequence)
    linear: Number = 0.0
    core: Number = 0.0
    for kind in model.layers:
        linear, core = _with_layers(inputs, kind, kind.count, tokens, linear, core, causal=causal)
    with term("head"):
        predicted = tokens_per_step(inputs.global_batch, inputs.sequence)
        head = matmul_flop(predicted, model.vocab, model.hidden)
        if model.head_transform:
            head = head + matmul_flop(predicted, model.hidden, model.hidden)
        for matrix in stream_head(model, 1.0):
            head = head + matmul_flop(predicted, matrix.n, matrix.k)
    if model.prediction is not None:
        depth = model.prediction.depth
        with term("multi-token prediction"):
            linear, core = _with_layers(inputs, model.prediction.layer, depth, tokens, linear, core, causal=causal)
            linear = linear + depth * matmul_flop(tokens, model.hidden, model.hidden + stream_width(model))
            head = head + depth * head
    return linear, core, head


def _with_layers(
    inputs: TrainingInputs, kind: Layers, count: Number, tokens: Number, linear: Number, core: Number, *, causal: bool
) -> tuple[Number, Number]:
    """Forward FLOP with additional layers of a kind: weight matrices and cores."""
    for _, flop in _multiplied(inputs, kind, tokens):
        linear = linear + count * flop
    own = _core(inputs, kind, causal=causal)
    return linear, core if own is None else core + count * own


def _multiplied(inputs: TrainingInputs, kind: Layers, tokens: Number) -> Iterator[tuple[str, Number]]:
    """Forward FLOP of each weight matrix in a layer; those of routed experts together."""
    for matrix in matmuls(inputs.model, shard(inputs.model, kind, 1.0)):
        with term(matrix.name):
            yield matrix.name, matmul_flop(tokens, matrix.n, matrix.k)
    if kind.experts is not None:
        yield ROUTED[0], expert_flop(inputs.model.hidden, kind.experts, tokens)


def _core(inputs: TrainingInputs, kind: Layers, *, causal: bool) -> Number | None:
    """Forward FLOP of the core of a layer's mixer; None without a mixer."""
    part = shard(inputs.model, kind, 1.0)
    if part.mixer is None:
        return None
    sizes = (inputs.global_batch, inputs.layer_sequence, part.mixer.heads)
    return core_flop(kind, part.mixer, *sizes, causal=causal)


def cores(inputs: TrainingInputs) -> Iterator[tuple[Layers, Number]]:
    """Every kind of layer that has a core, with the forward FLOP of all cores."""
    for kind in inputs.model.layers:
        own = _core(inputs, kind, causal=True)
        if own is not None:
            yield kind, kind.count * own


def _counted(inputs: TrainingInputs, linear: Number, core: Number, head: Number) -> Number:
    """FLOP of a step in the scenario's convention.

    For a LoRA run, conventions that count operations count the executed ones; closed forms keep their definition.
    """
    convention, model, layers = inputs.convention, inputs.model, layer_count(inputs.model)
    if convention in COUNTED:
        return useful_flop(inputs, linear, core, head)
    if convention in MEGATRON:
        vocab = padded_vocab(model.vocab, inputs.stack.vocab_multiple, 1.0)
        sizes = (inputs.global_batch, inputs.sequence, layers, model.hidden, vocab)
        return megatron_flop(*sizes, recomputed=convention == COUNTS_RECOMPUTE)
    tokens, active = tokens_per_step(inputs.global_batch, inputs.sequence), model_active_parameters(model)
    if convention == "6n":
        return six_n_flop(active, tokens)
    part = next((part for kind in model.layers if (part := mixer(model, kind, 1.0))), None)
    heads, head_dim = (part.heads, part.head_dim) if part else (0.0, 0.0)
    return palm_flop(active, tokens, layers, heads, head_dim, inputs.sequence)


@memoized(*RECOMPUTE, *SPLIT)
def work_of_step(inputs: TrainingInputs, block: Block) -> StepFlop:
    """FLOP of a step in the scenario's convention, and executed FLOP."""
    causal = inputs.convention == "model-causal"
    as_stated = inputs.model is inputs.case.model
    of_model = inputs if as_stated else replace(inputs, model=inputs.case.model)
    forward = forward_flop(of_model, causal=causal)
    counted = _counted(of_model, *forward)
    if inputs.tuning is None and inputs.convention == COUNTS_RECOMPUTE:
        return StepFlop(counted, counted)
    done, seen = counted, front_flop(inputs, block)
    if inputs.tuning is not None or not as_stated:
        done = useful_flop(inputs, *(forward if as_stated else forward_flop(inputs, causal=causal)))
    again = reached_of_all(inputs.model, block) * _again(inputs, block.structure, causal=causal)
    if inputs.front is None:
        return StepFlop(counted, done + again)
    counted = counted + seen.useful if inputs.convention in COUNTED else counted
    return StepFlop(counted, done + seen.useful + again + seen.again)


def _again(inputs: TrainingInputs, structure: Structure, *, causal: bool) -> Number:
    """Forward FLOP repeated by recompute; norms and activation functions are negligible."""
    model, tokens = inputs.model, tokens_per_step(inputs.global_batch, inputs.layer_sequence)
    if inputs.convention in MEGATRON and inputs.tuning is None and dropped(inputs, structure) == "core":
        return korthikanti_recompute_flop(inputs.global_batch, inputs.sequence, layer_count(model), model.hidden)
    found: Number = 0.0
    with term("again"):
        for kind, count in counted_kinds(model):
            again = again_of(inputs, structure, kind)
            for name, flop in (*_multiplied(inputs, kind, tokens), *thin_flop(inputs, kind)):
                if name in again.matrices:
                    found = found + count * (flop if again.times == 1 else again.times * flop)
            own = _core(inputs, kind, causal=causal) if again.core else None
            found = found if own is None else found + count * own
    return found


def flop_of_shapes(inputs: TrainingInputs) -> dict[tuple[str, float, float], Number]:
    """Forward FLOP per token by matrix product.

    Products with the same name, n and k are added. Routed experts are grouped products with an independent error, even
    for equal n and k.
    """
    work: dict[tuple[str, float, float], Number] = {}
    for name, n, k, flop in _products(inputs):
        shape = (name, float(n), float(k))
        work[shape] = summed(work.get(shape, 0.0), flop)
    return work


def _products(inputs: TrainingInputs) -> Iterator[tuple[str, Number, Number, Number]]:
    """Name, n, k and forward FLOP per token of each matrix product of the head and the layers, unsharded."""
    model = inputs.model
    yield "head", model.vocab, model.hidden, matmul_flop(1.0, model.vocab, model.hidden)
    for kind in model.layers:
        part, experts = shard(model, kind, 1.0), kind.experts
        for each in matmuls(inputs.model, part):
            yield each.name, each.n, each.k, kind.count * matmul_flop(1.0, each.n, each.k)
        if experts is not None:
            for each in expert_matmuls(model.hidden, experts, experts.ffn_hidden):
                yield each.name, each.n, each.k, kind.count * matmul_flop(experts.top_k, each.n, each.k)
        if part.mixer is not None and inputs.rates.attention is None:
            core = core_flop(kind, part.mixer, 1.0, inputs.layer_sequence, part.mixer.heads, causal=False)
            yield CORE, 0.0, part.mixer.head_dim, kind.count * (core / inputs.layer_sequence)
