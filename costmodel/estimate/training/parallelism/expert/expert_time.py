"""Time of a layer's routed experts on one accelerator, forward and backward, without communication."""

from __future__ import annotations

import functools

from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.memory_traffic import mlp_traffic
from costmodel.equations.layers.experts import expert_operations, grouped_flop, mask_rows, permute_traffic
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.estimate.model.routed_experts import Routed, expert_matmuls, looped, rows_of
from costmodel.estimate.model.shards import Shard
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.time_breakdown import ForwardBackward, TimeByCategory
from costmodel.estimate.training.expert_inputs import ExpertInputs
from costmodel.estimate.training.lora import routed_adapters
from costmodel.estimate.training.recompute.recomputed_work import RecomputedWork
from costmodel.estimate.training.stage_parameters import local_tokens
from costmodel.estimate.training.time.layer_kernels import (
    adapted,
    in_part,
    multiplied,
    plain_product,
    stream,
    unpacking,
)
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class ExpertWork:
    """Device time of a layer's routed experts, and host time to issue forward and backward.

    Unless all experts have the same number of tokens, the host waits for the token counts before it issues forward.
    """

    both: ForwardBackward
    ahead: Number
    behind: Number
    waits: bool


def expert_pass(inputs: TrainingInputs, part: Shard, block: Block, again: RecomputedWork) -> ExpertWork | None:
    """The routed experts of a layer, with their recompute; None for a layer without experts."""
    stated, held = inputs.experts, part.routed
    if stated is None or held is None:
        return None
    with term("experts"):
        tokens = local_tokens(inputs, block) / part.tp
        rows = rows_of(held, tokens, stated.load)
        both = _matmuls(inputs, stated, held, rows) + _adapters(inputs, stated, held, rows)
        if stated.kernels.masked and not stated.dropless:
            both = both + _masks(inputs, stated, held, tokens)
        once, twice = (_memory_bound(inputs, stated, held, tokens, rows, backward=back) for back in (False, True))
        both = both + ForwardBackward(TimeByCategory(memory_bound=once), TimeByCategory(memory_bound=twice))
        anew = _again(inputs, block, held, rows, both.forward, again)
        ahead, behind = (_host(inputs, stated, held, backward=back) for back in (False, True))
    return ExpertWork(
        both + ForwardBackward(TimeByCategory(), anew), ahead, behind, stated.dropless and held.of.count > 1
    )


def _again(
    inputs: TrainingInputs, block: Block, held: Routed, rows: Number, once: TimeByCategory, again: RecomputedWork
) -> TimeByCategory:
    """Recompute of the experts in backward: all of them, a part, or only their activation function."""
    if again.routed:
        return in_part(again, once)
    if "moe-activation" not in (block.structure.recompute_modules or ()):
        return TimeByCategory()
    with term("activation again"):
        nbytes = mlp_traffic(rows, held.ffn_hidden, inputs.widths.element, gated=held.of.gated, backward=False)
        return TimeByCategory(memory_bound=stream(inputs, nbytes))


def _matmuls(inputs: TrainingInputs, stated: ExpertInputs, held: Routed, rows: Number) -> ForwardBackward:
    """Grouped matmuls of the experts of a rank: one group per expert, all of equal length."""
    found, narrow, trained = (
        ForwardBackward(TimeByCategory(), TimeByCategory()),
        inputs.recipe.narrow,
        inputs.tuning is None,
    )
    for matrix in expert_matmuls(inputs.model.hidden, held.of, held.ffn_hidden):
        with term(matrix.name):
            found = found + _grouped(inputs, stated, held, rows, matrix, narrow=narrow, trained=trained)
    return found


def _masks(inputs: TrainingInputs, stated: ExpertInputs, held: Routed, tokens: Number) -> ForwardBackward:
    """Products with masks that gather tokens for experts and return them; only masks with weights have a gradient."""
    rows = mask_rows(tokens, held.of.top_k, stated.load)
    found = ForwardBackward(TimeByCategory(), TimeByCategory())
    for name, weighted in (("fill", False), ("empty", True)):
        with term(name):
            found = found + plain_product(
                inputs, rows, Matmul(name, held.hidden, inputs.layer_sequence), trained=weighted
            )
    return found


def _adapters(inputs: TrainingInputs, stated: ExpertInputs, held: Routed, rows: Number) -> ForwardBackward:
    """Adapters of the experts as grouped thin products, and unpacking of their base weights."""
    found = ForwardBackward(TimeByCategory(), TimeByCategory())
    grouped = functools.partial(_grouped, inputs, stated, held, rows, narrow=False, trained=True)
    for adapter in routed_adapters(inputs, held):
        found = found + adapted(inputs, adapter, rows, grouped)
    if not inputs.packed:
        return found
    with term("unpack experts"):
        unpacked = TimeByCategory(memory_bound=unpacking(inputs, held.parameters))
    return found + ForwardBackward(unpacked, unpacked)


def _host(inputs: TrainingInputs, stated: ExpertInputs, held: Routed, *, backward: bool) -> Number:
    """Host time to issue all experts in one direction."""
    adapters, unpacked = sum(1.0 for _ in routed_adapters(inputs, held)), 1.0 if inputs.packed else 0.0
    trained = inputs.tuning is None
    count, converted = looped(held), inputs.recipe.conversions
    operations = expert_operations(count, converted, adapters, unpacked, trained=trained, backward=backward)
    return operations * stated.host


def _grouped(
    inputs: TrainingInputs,
    stated: ExpertInputs,
    held: Routed,
    rows: Number,
    matrix: Matmul,
    *,
    narrow: bool,
    trained: bool,
) -> ForwardBackward:
    """One grouped matmul in both directions."""
    each = rows / held.local
    flop = grouped_flop(matmul_flop(rows, matrix.n, matrix.k), each, held.local, stated.kernels.half_rows)
    if stated.dropless:
        flop = flop / stated.kernels.grouped_share
    return multiplied(inputs, matrix, rows, flop, groups=held.local, narrow=narrow, trained=trained)


def _memory_bound(
    inputs: TrainingInputs, stated: ExpertInputs, held: Routed, tokens: Number, rows: Number, *, backward: bool
) -> Number:
    """Permutation of tokens by expert and back, and the activation function."""
    with term("memory-bound backward" if backward else "memory-bound forward"):
        sizes = (tokens, held.hidden, held.of.top_k, held.of.count, inputs.widths.element)
        permuted = stated.kernels.permute * permute_traffic(*sizes)
        activated = mlp_traffic(rows, held.ffn_hidden, inputs.widths.element, gated=held.of.gated, backward=backward)
        return stream(inputs, permuted + activated)
