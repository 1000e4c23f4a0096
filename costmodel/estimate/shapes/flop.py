"""Work of a step where only some is computed again, or only adapters are trained; and by the shape of the product."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.equation import Number, term
from costmodel.equations.arithmetic import matmul_flop
from costmodel.equations.counting import divided, layers_per_stage, repeated
from costmodel.equations.economics import tokens_per_step
from costmodel.estimate.block import Block
from costmodel.estimate.once import RECOMPUTE, once
from costmodel.estimate.passes import summed
from costmodel.estimate.setting import Setting
from costmodel.estimate.shapes.adapters import adapters_flop, thin_flop, useful_flop
from costmodel.estimate.shapes.experts import expert_flop, expert_matmuls
from costmodel.estimate.shapes.mixers import core_flop
from costmodel.estimate.shapes.recompute import multiplied_again, partial, reached
from costmodel.estimate.shapes.split import layer_count
from costmodel.estimate.shapes.work import (
    StepFlop,
    counted_kinds,
    forward_flop,
    matmuls,
    recomputed_flop,
    shard,
    step_flop,
)

COUNTED = ("model-causal", "model-full")
ROUTED = frozenset(("experts up", "experts down"))


@once(*RECOMPUTE)
def work_of_step(setting: Setting, block: Block) -> StepFlop:
    """Work under the scenario's FLOP convention, and executed.

    Of a run of adapters the conventions that count operations count those it does; closed forms count what they say.
    """
    structure = block.structure
    whole = step_flop(setting, structure.recompute)
    if setting.tuning is None and structure.recompute_modules is None and not partial(structure):
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
            routed = ROUTED if "moe" in modules else frozenset()
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
