"""Time of a layer's routed experts on one accelerator, forward and backward, without communication."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.memory_traffic import mlp_traffic
from costmodel.equations.layers.experts import expert_operations, grouped_flop, permute_traffic
from costmodel.equations.parallelism.counts import divided, repeated
from costmodel.estimate.model.attention import Matmul
from costmodel.estimate.model.routed_experts import Routed, expert_matmuls, looped, rows_of
from costmodel.estimate.model.shards import Shard
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.time_breakdown import Both, Pass
from costmodel.estimate.training.lora import routed_adapters
from costmodel.estimate.training.recompute.recomputed_work import Again
from costmodel.estimate.training.stage_parameters import local_tokens
from costmodel.estimate.training.time.layer_kernels import adapted, in_part, multiplied, stream, unpacking
from costmodel.estimate.training.training_inputs import ExpertSetting, Setting
from costmodel.ground.equation import Number, term


@dataclass(frozen=True)
class ExpertWork:
    """Seconds of the routed experts of a layer on the device, and of the host that issues either direction once.

    Unless each expert has as many tokens as any, the host waits for how many before it issues those forward.
    """

    both: Both
    ahead: Number
    behind: Number
    waits: bool


def expert_pass(setting: Setting, part: Shard, block: Block, again: Again) -> ExpertWork | None:
    """The routed experts of a layer, with what recompute adds; nothing for a layer without."""
    said, held = setting.experts, part.routed
    if said is None or held is None:
        return None
    with term("experts"):
        tokens = divided(local_tokens(setting, block), part.tp)
        rows = rows_of(held, tokens, said.load)
        both = _matmuls(setting, said, held, rows) + _adapters(setting, said, held, rows)
        once, twice = (_memory_bound(setting, said, held, tokens, rows, backward=back) for back in (False, True))
        both = both + Both(Pass(memory_bound=once), Pass(memory_bound=twice))
        anew = _again(setting, block, held, rows, both.forward, again)
        ahead, behind = (_host(setting, said, held, backward=back) for back in (False, True))
    return ExpertWork(both + Both(Pass(), anew), ahead, behind, said.dropless and held.of.count > 1)


def _again(setting: Setting, block: Block, held: Routed, rows: Number, once: Pass, again: Again) -> Pass:
    """What backward does once more: all that experts do, in part or whole, or their activation function by name."""
    if again.routed:
        return in_part(again, once)
    if "moe-activation" not in (block.structure.recompute_modules or ()):
        return Pass()
    with term("activation again"):
        nbytes = mlp_traffic(rows, held.ffn_hidden, setting.element, gated=held.of.gated, backward=False)
        return Pass(memory_bound=stream(setting, nbytes))


def _matmuls(setting: Setting, said: ExpertSetting, held: Routed, rows: Number) -> Both:
    """Grouped matmuls of the experts of a rank, a group an expert, all groups of equal length."""
    found, narrow, trained = Both(Pass(), Pass()), setting.recipe.narrow, setting.tuning is None
    for matrix in expert_matmuls(setting.model.hidden, held.of, held.ffn_hidden):
        with term(matrix.name):
            found = found + _grouped(setting, said, held, rows, matrix, narrow=narrow, trained=trained)
    return found


def _adapters(setting: Setting, said: ExpertSetting, held: Routed, rows: Number) -> Both:
    """Adapters of the experts, each a group of grouped thin products, and unpacking of what is beside them."""
    found = Both(Pass(), Pass())
    grouped = functools.partial(_grouped, setting, said, held, rows, narrow=False, trained=True)
    for adapter in routed_adapters(setting, held):
        found = found + adapted(setting, adapter, rows, grouped)
    if not setting.packed:
        return found
    with term("unpack experts"):
        unpacked = Pass(memory_bound=unpacking(setting, held.parameters))
    return found + Both(unpacked, unpacked)


def _host(setting: Setting, said: ExpertSetting, held: Routed, *, backward: bool) -> Number:
    """Time the host needs to issue one direction of the experts, one after the other."""
    adapters, unpacked = sum(1.0 for _ in routed_adapters(setting, held)), 1.0 if setting.packed else 0.0
    trained = setting.tuning is None
    count, converted = looped(held), setting.recipe.conversions
    operations = expert_operations(count, converted, adapters, unpacked, trained=trained, backward=backward)
    return repeated(operations, said.host)


def _grouped(
    setting: Setting, said: ExpertSetting, held: Routed, rows: Number, matrix: Matmul, *, narrow: bool, trained: bool
) -> Both:
    """One grouped matmul in both directions."""
    each = divided(rows, held.local)
    flop = grouped_flop(matmul_flop(rows, matrix.n, matrix.k), each, held.local, said.kernels.half_rows)
    return multiplied(setting, matrix, rows, flop, groups=held.local, narrow=narrow, trained=trained)


def _memory_bound(
    setting: Setting, said: ExpertSetting, held: Routed, tokens: Number, rows: Number, *, backward: bool
) -> Number:
    """Ordering tokens by expert and back, and the activation function."""
    with term("memory-bound backward" if backward else "memory-bound forward"):
        sizes = (tokens, setting.model.hidden, held.of.top_k, held.of.count, setting.element)
        permuted = repeated(said.kernels.permute, permute_traffic(*sizes))
        activated = mlp_traffic(rows, held.ffn_hidden, setting.element, gated=held.of.gated, backward=backward)
        return stream(setting, permuted + activated)
