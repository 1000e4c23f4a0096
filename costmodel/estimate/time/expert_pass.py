"""Time of a layer's routed experts on one accelerator, forward and backward, without communication."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from costmodel.equation import Number, term
from costmodel.equations.arithmetic import matmul_flop
from costmodel.equations.counting import divided, repeated
from costmodel.equations.experts import expert_operations, grouped_flop, permute_traffic
from costmodel.equations.precision import narrow_matmul_bytes, quantise_traffic
from costmodel.equations.traffic import mlp_traffic, weight_gradient_bytes
from costmodel.estimate.block import Block
from costmodel.estimate.passes import Both, Pass
from costmodel.estimate.setting import ExpertSetting, Setting
from costmodel.estimate.shapes.adapters import routed_adapters
from costmodel.estimate.shapes.experts import Routed, expert_matmuls, looped, rows_of
from costmodel.estimate.shapes.mixers import Matmul
from costmodel.estimate.shapes.work import Shard, local_tokens
from costmodel.estimate.time.kernels import Step, adapter_steps, product, recomputed, stream, unpacking


@dataclass(frozen=True)
class ExpertWork:
    """Seconds of the routed experts of a layer on the device, and of the host that issues either direction once.

    Unless each expert has as many tokens as any, the host waits for how many before it issues those forward.
    """

    both: Both
    ahead: Number
    behind: Number
    waits: bool


def expert_pass(setting: Setting, part: Shard, block: Block) -> ExpertWork | None:
    """The routed experts of a layer, with what recompute adds; nothing for a layer without."""
    said, held = setting.experts, part.routed
    if said is None or held is None:
        return None
    with term("experts"):
        tokens = divided(local_tokens(setting, block), part.tp)
        rows = rows_of(held, tokens, said.load)
        once, twice, weights = _matmuls(setting, said, held, rows)
        beside = _adapted(setting, said, held, rows)
        once, twice, weights = once + beside[0], twice + beside[1], weights + beside[2]
        once = once + Pass(memory_bound=_memory_bound(setting, said, held, tokens, rows, backward=False))
        twice = twice + Pass(memory_bound=_memory_bound(setting, said, held, tokens, rows, backward=True))
        again = recomputed(setting, block.structure.recompute, once, Pass())
        again = again + _modules_again(setting, block, held, rows, once)
        ahead, behind = (_host(setting, said, held, backward=back) for back in (False, True))
    return ExpertWork(Both(once, twice + again, weights), ahead, behind, said.dropless and held.of.count > 1)


def _modules_again(setting: Setting, block: Block, held: Routed, rows: Number, once: Pass) -> Pass:
    """What named modules do once more: all the experts do forward, or their activation function."""
    modules = block.structure.recompute_modules or ()
    if "moe" in modules:
        return once
    if "moe-activation" not in modules:
        return Pass()
    with term("activation again"):
        nbytes = mlp_traffic(rows, held.ffn_hidden, setting.element, gated=held.of.gated, backward=False)
        return Pass(memory_bound=stream(setting, nbytes))


def _matmuls(setting: Setting, said: ExpertSetting, held: Routed, rows: Number) -> tuple[Pass, Pass, Number]:
    """Grouped matmuls of the experts of a rank, a group an expert, all groups of equal length."""
    forward, backward = Pass(), Pass()
    weights: Number = 0.0
    for matrix in expert_matmuls(setting.model.hidden, held.of, held.ffn_hidden):
        with term(matrix.name):
            once, twice, weight = _grouped(
                setting, said, held, rows, matrix, narrow=setting.recipe.narrow, trained=setting.tuning is None
            )
        forward, backward = forward + once, backward + twice
        weights = weights + weight
    return forward, backward, weights


def _adapted(setting: Setting, said: ExpertSetting, held: Routed, rows: Number) -> Step:
    """Adapters of the experts, each a group of grouped thin products, and unpacking of what is beside them."""
    forward, backward = Pass(), Pass()
    gradients: Number = 0.0
    grouped = functools.partial(_grouped, setting, said, held, rows, narrow=False, trained=True)
    for adapter in routed_adapters(setting, held):
        for once, twice, gradient in adapter_steps(setting, adapter, rows, grouped):
            forward, backward, gradients = forward + once, backward + twice, gradients + gradient
    if not setting.packed:
        return forward, backward, gradients
    with term("unpack experts"):
        unpacked = Pass(memory_bound=unpacking(setting, held.parameters))
    return forward + unpacked, backward + unpacked, gradients


def _host(setting: Setting, said: ExpertSetting, held: Routed, *, backward: bool) -> Number:
    """Time the host needs to issue one direction of the experts, one after the other."""
    adapters, unpacked = sum(1.0 for _ in routed_adapters(setting, held)), 1.0 if setting.packed else 0.0
    trained = setting.tuning is None
    count, converted = looped(held), setting.recipe.conversions
    operations = expert_operations(count, converted, adapters, unpacked, trained=trained, backward=backward)
    return repeated(operations, said.host)


def _grouped(
    setting: Setting, said: ExpertSetting, held: Routed, rows: Number, matrix: Matmul, *, narrow: bool, trained: bool
) -> Step:
    """One grouped matmul in both directions; in a narrow type its input and its gradient are converted."""
    m, n, k = divided(rows, held.local), matrix.n, matrix.k
    flop = grouped_flop(matmul_flop(rows, n, k), m, held.local, said.kernels.half_rows)
    operand = setting.recipe.operand if narrow else setting.element
    with term("forward"):
        nbytes = repeated(held.local, narrow_matmul_bytes(m, n, k, operand, setting.element))
        forward = product(setting, flop, nbytes, narrow=narrow)
    with term("input gradient"):
        nbytes = repeated(held.local, narrow_matmul_bytes(m, k, n, operand, setting.element))
        inward = product(setting, flop, nbytes, backward=True, narrow=narrow)
    weight: Number = 0.0
    if trained:
        with term("weight gradient"):
            accumulated = repeated(held.local, weight_gradient_bytes(m, n, k, operand, setting.gradient))
            weight = product(setting, flop, accumulated, backward=True, narrow=narrow)
    if not narrow:
        return Pass(matmul=forward), Pass(matmul=inward + weight), weight
    with term("convert input"):
        once = stream(setting, quantise_traffic(repeated(rows, k), setting.recipe.quantised))
    with term("convert gradient"):
        back = stream(setting, quantise_traffic(repeated(rows, n), setting.recipe.quantised))
    return Pass(matmul=forward, memory_bound=once), Pass(matmul=inward + weight, memory_bound=back), weight


def _memory_bound(
    setting: Setting, said: ExpertSetting, held: Routed, tokens: Number, rows: Number, *, backward: bool
) -> Number:
    """Ordering tokens by expert and back, and the activation function."""
    with term("memory-bound backward" if backward else "memory-bound forward"):
        sizes = (tokens, setting.model.hidden, held.of.top_k, held.of.count, setting.element)
        permuted = repeated(said.kernels.permute, permute_traffic(*sizes))
        activated = mlp_traffic(rows, held.ffn_hidden, setting.element, gated=held.of.gated, backward=backward)
        return stream(setting, permuted + activated)
