"""Work of a step: as the scenario counts it, as executed, and by the shape of the product."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from costmodel.choices import Recompute
from costmodel.documents.model import Layers
from costmodel.equation import Number, term
from costmodel.equations.arithmetic import (
    korthikanti_recompute_flop,
    matmul_flop,
    megatron_flop,
    palm_flop,
    six_n_flop,
    training_flop,
)
from costmodel.equations.counting import divided, layers_per_stage, padded_vocab, repeated
from costmodel.equations.economics import tokens_per_step
from costmodel.estimate.block import Block
from costmodel.estimate.once import RECOMPUTE, once
from costmodel.estimate.passes import summed
from costmodel.estimate.setting import Setting
from costmodel.estimate.shapes.adapters import ROUTED, adapters_flop, thin_flop, useful_flop
from costmodel.estimate.shapes.experts import expert_flop, expert_matmuls
from costmodel.estimate.shapes.mixers import core_flop, mixer
from costmodel.estimate.shapes.recompute import multiplied_again, partial, reached
from costmodel.estimate.shapes.split import layer_count
from costmodel.estimate.shapes.work import counted_kinds, matmuls, model_active_parameters, shard

COUNTED = ("model-causal", "model-full")
COUNTS_RECOMPUTE = "megatron-2021"  # the whole of it, whatever a plan recomputes


@dataclass(frozen=True)
class StepFlop:
    """Work of a whole step: under the convention asked for, and executed."""

    model: Number
    executed: Number


def forward_flop(setting: Setting, *, causal: bool) -> tuple[Number, Number, Number]:
    """Forward work of a step: all weight matrices of the layers, the attention core, the head."""
    model = setting.model
    tokens = tokens_per_step(setting.global_batch, setting.sequence)
    linear: Number = 0.0
    core: Number = 0.0
    for kind in model.layers:
        linear, core = _with_layers(setting, kind, kind.count, tokens, linear, core, causal=causal)
    with term("head"):
        head = matmul_flop(tokens, model.vocab, model.hidden)
    if model.prediction is not None:
        depth = model.prediction.depth
        with term("multi-token prediction"):
            linear, core = _with_layers(setting, model.prediction.layer, depth, tokens, linear, core, causal=causal)
            linear = linear + repeated(depth, matmul_flop(tokens, model.hidden, repeated(2.0, model.hidden)))
            head = head + repeated(depth, head)
    return linear, core, head


def _with_layers(
    setting: Setting, kind: Layers, count: Number, tokens: Number, linear: Number, core: Number, *, causal: bool
) -> tuple[Number, Number]:
    """Forward work with so many layers of a kind more: weight matrices, cores."""
    part = shard(setting.model, kind, 1.0)
    for matrix in matmuls(setting, part):
        with term(matrix.name):
            linear = linear + repeated(count, matmul_flop(tokens, matrix.n, matrix.k))
    if kind.experts is not None:
        linear = linear + repeated(count, expert_flop(setting.model.hidden, kind.experts, tokens))
    if part.mixer is None:
        return linear, core
    sizes = (setting.global_batch, setting.sequence, part.mixer.heads)
    return linear, core + repeated(count, core_flop(kind, part.mixer, *sizes, causal=causal))


def recomputed_flop(setting: Setting, recompute: Recompute, linear: Number, core: Number) -> Number:
    """Forward work that backward does a second time."""
    dropped = setting.dropped(recompute)
    if dropped == "layer":
        return linear + core
    if dropped == "operations":
        return divided(linear, 2.0)
    return core if dropped == "core" else repeated(0.0, core)


def step_flop(setting: Setting, recompute: Recompute) -> StepFlop:
    """Work of a step under the scenario's FLOP convention."""
    convention, model = setting.convention, setting.model
    linear, core, head = forward_flop(setting, causal=convention == "model-causal")
    useful = training_flop(linear + core + head)
    again = recomputed_flop(setting, recompute, linear, core)
    layers = layer_count(model)
    tokens = tokens_per_step(setting.global_batch, setting.sequence)
    if convention == "6n":
        useful = six_n_flop(model_active_parameters(model), tokens)
    elif convention == "palm":
        part = next((part for kind in model.layers if (part := mixer(model, kind, 1.0))), None)
        heads, head_dim = (part.heads, part.head_dim) if part else (0.0, 0.0)
        useful = palm_flop(model_active_parameters(model), tokens, layers, heads, head_dim, setting.sequence)
    elif convention in ("korthikanti", "megatron-2021"):
        whole = convention == COUNTS_RECOMPUTE
        vocab = padded_vocab(model.vocab, setting.stack.vocab_multiple, 1.0)
        useful = megatron_flop(setting.global_batch, setting.sequence, layers, model.hidden, vocab, recomputed=whole)
        if whole:
            return StepFlop(useful, useful)
        if recompute == "selective":
            again = korthikanti_recompute_flop(setting.global_batch, setting.sequence, layers, model.hidden)
    return StepFlop(useful, useful + again)


@once(*RECOMPUTE)
def work_of_step(setting: Setting, block: Block) -> StepFlop:
    """Work under the scenario's FLOP convention, and executed.

    Of a run of adapters the conventions that count operations count those it does; closed forms count what they say.
    """
    structure = block.structure
    whole = step_flop(setting, structure.recompute)
    in_part = structure.recompute_modules is not None or partial(structure)
    if setting.tuning is None and (not in_part or setting.convention == COUNTS_RECOMPUTE):
        return whole
    linear, core, head = forward_flop(setting, causal=setting.convention == "model-causal")
    useful = whole.model
    if setting.tuning is not None:
        done = useful_flop(setting, linear, core, head)
        useful = done if setting.convention in COUNTED else useful
        linear = linear + adapters_flop(setting)
    if structure.recompute_modules is None:
        again = recomputed_flop(setting, structure.recompute, linear, core)
    else:
        again = _of_modules(setting, block, core)
    again = repeated(reached(block, layers_per_stage(layer_count(setting.model), block.pp)), again)
    return StepFlop(useful, (done if setting.tuning is not None else useful) + again)


def _of_modules(setting: Setting, block: Block, core: Number) -> Number:
    """Work of the named modules forward; norms and activation functions have none that counts."""
    modules = block.structure.recompute_modules or ()
    again: Number = core if "attention" in modules else repeated(0.0, core)
    tokens = tokens_per_step(setting.global_batch, setting.sequence)
    with term("modules again"):
        for kind, count in counted_kinds(setting.model):
            named = multiplied_again(setting, block.structure, kind)
            for matrix in matmuls(setting, shard(setting.model, kind, 1.0)) if named else ():
                if matrix.name in named:
                    again = again + repeated(count, matmul_flop(tokens, matrix.n, matrix.k))
            routed = frozenset(ROUTED) if "moe" in modules else frozenset()
            for beside, flop in thin_flop(setting, kind):
                if beside in named | routed:
                    again = again + repeated(count, flop)
            if kind.experts is not None and "moe" in modules:
                again = again + repeated(count, expert_flop(setting.model.hidden, kind.experts, tokens))
    return again


def flop_of_shapes(setting: Setting) -> dict[tuple[str, float, float], Number]:
    """Forward work on a token by the matrix product, those of one name, n and k together: the head, weight matrices of
    the layers, unfused attention. Routed experts are grouped products, wrong by themselves even where n and k are met.
    """
    work: dict[tuple[str, float, float], Number] = {}
    for name, n, k, flop in _products(setting):
        shape = (name, float(n), float(k))
        work[shape] = summed(work.get(shape, 0.0), flop)
    return work


def _products(setting: Setting) -> Iterator[tuple[str, Number, Number, Number]]:
    """Name, n, k and forward work on a token of each matrix product of the head and the layers, whole."""
    model = setting.model
    yield "head", model.vocab, model.hidden, matmul_flop(1.0, model.vocab, model.hidden)
    for kind in model.layers:
        part, experts = shard(model, kind, 1.0), kind.experts
        for each in matmuls(setting, part):
            yield each.name, each.n, each.k, repeated(kind.count, matmul_flop(1.0, each.n, each.k))
        if experts is not None:
            for each in expert_matmuls(model.hidden, experts, experts.ffn_hidden):
                yield each.name, each.n, each.k, repeated(kind.count, matmul_flop(experts.top_k, each.n, each.k))
        if part.mixer is not None and setting.attention is None:
            core = core_flop(kind, part.mixer, 1.0, setting.sequence, part.mixer.heads, causal=False)
            yield "core", setting.sequence, part.mixer.head_dim, repeated(kind.count, divided(core, setting.sequence))
