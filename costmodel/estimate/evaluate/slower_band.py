"""What can only make a step slower than predicted: mixers of layers that no measured run had, uneven routing,
work that the host issues in place of graphs, and matrices that every rank orthogonalises for itself.

All widen the band upwards alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.model import Layers
from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.roofline import host_bound_time, issuing_time
from costmodel.equations.parallelism.counts import layers_per_stage
from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import combined_error, range_spread, slower_spread
from costmodel.estimate.model.mixers.table import mixer_kinds, mixer_matmuls
from costmodel.estimate.model.shards import layer_count, shard
from costmodel.estimate.shared.fit_ranges import NOTICEABLE
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.results import number
from costmodel.estimate.shared.time_breakdown import added, summed
from costmodel.estimate.training.constraints.plan_constraints import micro_batches
from costmodel.estimate.training.flop_count import cores, flop_of_shapes
from costmodel.estimate.training.time.step import TrainingStep
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.units import percent


def routes(inputs: TrainingInputs) -> bool:
    """Whether any layer routes tokens; a layer with a single expert is a plain MLP."""
    return any(kind.experts is not None and kind.experts.count > 1 for kind in inputs.model.layers)


def unmeasured(inputs: TrainingInputs, kind: Layers) -> tuple[str, ...]:
    """Names of a layer's mixers without a fitted run on accelerators of this maker."""
    fit, maker = inputs.case.common.mixers, inputs.case.accelerator.vendor
    assert fit is not None, "unmeasured.yaml states which mixers were measured"
    return tuple(name for name in mixer_kinds(kind) if maker not in fit.runs.get(name, {}))


def slower_step_spread(inputs: TrainingInputs, block: Block, step: TrainingStep, spread: Number) -> Number:
    """Spread of the step time towards longer steps, derived from the spread towards shorter ones."""
    if inputs.stack.launch.graphs:
        with term("without graphs"):
            spread = combined_error(spread, range_spread(step.total, step.total + _waiting(inputs, block, step)))
    if inputs.optimizer.orthogonal is not None:
        with term("matrices that every rank orthogonalises"):
            spread = combined_error(spread, range_spread(step.total, step.total + step.divided))
    routing, fit = inputs.case.common.routing, inputs.case.common.mixers
    unknown = inputs.experts is not None and not inputs.experts.balance_known
    if unknown and routes(inputs) and routing is not None:
        with term("uneven routing"):
            spread = combined_error(spread, routing.slower)
    new = [kind for kind in inputs.model.layers if unmeasured(inputs, kind)]
    if not new or fit is None:
        return spread
    with term("never measured"):
        return slower_spread(spread, share(_time(inputs, step, new), step.total), fit.slower)


def unmeasured_assumptions(inputs: TrainingInputs, step: TrainingStep) -> Iterator[Assumption]:
    """An assumption for each unmeasured kind of mixer that takes a noticeable share of a single plan's step."""
    found: dict[str, list[Layers]] = {}
    for kind in inputs.model.layers:
        for name in unmeasured(inputs, kind):
            found.setdefault(name, []).append(kind)
    for name, kinds in found.items():
        part = number(share(_time(inputs, step, kinds), step.total))
        if part >= NOTICEABLE:
            maker = inputs.case.accelerator.vendor
            yield Assumption(name, f"never measured on {maker}", f"{percent(part, 2)} of the step; wider band upwards")


def _waiting(inputs: TrainingInputs, block: Block, step: TrainingStep) -> Number:
    """Seconds that the device would wait for host launches without graphs; backward issues twice as many as forward."""
    launch = inputs.stack.launch
    layers = layers_per_stage(layer_count(inputs.model), block.pp)
    host = issuing_time(launch.operations, launch.operation, layers, micro_batches(inputs, block))
    busy = added(step.terms, ("matmul", "attention", "memory_bound", "tp", "cp", "ep"))
    return host_bound_time(busy, host) - busy


def _time(inputs: TrainingInputs, step: TrainingStep, kinds: list[Layers]) -> Number:
    """Seconds of the mixers of these layers: attention cores, matrix products, and a share of memory-bound work."""
    done = [(kind, flop) for kind, flop in cores(inputs)]
    with term("cores"):
        every = summed(*(flop for _, flop in done))
        own = summed(*(flop for kind, flop in done if kind in kinds))
        core = share(own, every) * step.terms["attention"]
    with term("products"):
        work = summed(*flop_of_shapes(inputs).values())
        mine = summed(*(flop for kind in kinds for flop in _products(inputs, kind)))
        return core + share(mine, work) * (step.terms["matmul"] + step.terms["memory_bound"])


def _products(inputs: TrainingInputs, kind: Layers) -> Iterator[Number]:
    """Forward FLOP per token of each weight matrix in the mixers of a layer kind, unsharded."""
    part = shard(inputs.model, kind, 1.0)
    if part.mixer is not None:
        for matrix in mixer_matmuls(inputs.model.hidden, kind, part.mixer, 1.0):
            with term(matrix.name):
                yield kind.count * matmul_flop(1.0, matrix.n, matrix.k)
