"""The error band of an answer: P10 and P90 from the residuals of the fits that it used.

Errors of one kind are taken as wrong together and add, but for matrix products of other shapes; kinds are independent.
The kinds of a step: each class of kernels, the sustained slowdown, the host, the links, that to the host, what hides
behind compute, and what software adds. A stage's wait for the others is as wrong as the work it waits for.
To these comes how far sources of runs lie apart, unless the slowdown was fitted on your own runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from costmodel.documents.reader.library import UNMEASURED
from costmodel.documents.schemas.base import OWN
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.efficiency import (
    AttentionFit,
    CollectiveFit,
    Fitted,
    HostUpdateFit,
    MatmulFit,
    MemoryFit,
    NetworkFit,
    SustainedFit,
)
from costmodel.documents.schemas.model import Layers
from costmodel.documents.schemas.results import TRAINING_COLUMNS
from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.roofline import host_bound_time, issuing_time
from costmodel.equations.parallelism.counts import layers_per_stage
from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import (
    FREEDOM,
    combined_error,
    heavy_tail_spread,
    ninetieth_percentile,
    range_spread,
    residual_spread,
    slower_spread,
    tenth_percentile,
    term_error,
)
from costmodel.estimate.model.mixers.mixing_half import mixer_kinds, mixer_matmuls
from costmodel.estimate.model.shards import layer_count, shard
from costmodel.estimate.shared.fit_ranges import NOTICEABLE, OutsideFit, outside, widened
from costmodel.estimate.shared.plan_batch import STAGES, Block, added, largest, summed
from costmodel.estimate.shared.results import Costs, number
from costmodel.estimate.training.flop_count import CORE, core_flop_by_kind, flop_of_shapes
from costmodel.estimate.training.layer_kernels import is_core_throttled
from costmodel.estimate.training.memory_breakdown import LINES, memory_band, peak_after_paging
from costmodel.estimate.training.plan_constraints import micro_batches
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training.training_step import TERMS, TrainingStep
from costmodel.estimate.training_answer.evaluate_training import Evaluation, cost_columns, throughput
from costmodel.ground.counts import EXCHANGING
from costmodel.ground.equation import Number, term
from costmodel.ground.errors import fail
from costmodel.ground.units import percent

if TYPE_CHECKING:
    from costmodel.estimate.machine.process_groups import Transfer
    from costmodel.estimate.training.training_inputs import TrainingInputs


# What can only make a step slower than predicted: mixers of layers that no measured run had, uneven routing,
# work that the host issues in place of graphs, and matrices that every rank orthogonalises for itself.
#
# All widen the band upwards alone.


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
            spread = combined_error(spread, range_spread(step.total, step.total + _launch_wait(inputs, block, step)))
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
        return slower_spread(spread, share(_mixer_seconds(inputs, step, new), step.total), fit.slower)


def unmeasured_assumptions(inputs: TrainingInputs, step: TrainingStep) -> Iterator[Assumption]:
    """An assumption for each unmeasured kind of mixer that takes a noticeable share of a single plan's step."""
    layers_by_name: dict[str, list[Layers]] = {}
    for kind in inputs.model.layers:
        for name in unmeasured(inputs, kind):
            layers_by_name.setdefault(name, []).append(kind)
    for name, kinds in layers_by_name.items():
        part = number(share(_mixer_seconds(inputs, step, kinds), step.total))
        if part >= NOTICEABLE:
            maker = inputs.case.accelerator.vendor
            yield Assumption(name, f"never measured on {maker}", f"{percent(part, 2)} of the step; wider band upwards")


def _launch_wait(inputs: TrainingInputs, block: Block, step: TrainingStep) -> Number:
    """Seconds that the device would wait for host launches without graphs; backward issues twice as many as forward."""
    launch = inputs.stack.launch
    layers = layers_per_stage(layer_count(inputs.model), block.pp)
    host = issuing_time(launch.operations, launch.operation, layers, micro_batches(inputs, block))
    busy = added(step.terms, ("matmul", "attention", "memory_bound", "tp", "cp", "ep"))
    return host_bound_time(busy, host) - busy


def _mixer_seconds(inputs: TrainingInputs, step: TrainingStep, kinds: list[Layers]) -> Number:
    """Seconds that the mixers (attention, scans) of these layers take in a step."""
    done = [(kind, flop) for kind, flop in core_flop_by_kind(inputs)]
    with term("cores"):
        every = summed(*(flop for _, flop in done))
        own = summed(*(flop for kind, flop in done if kind in kinds))
        core = share(own, every) * step.terms["attention"]
    with term("products"):
        work = summed(*flop_of_shapes(inputs).values())
        mine = summed(*(flop for kind in kinds for flop in _mixer_matmul_flop(inputs, kind)))
        return core + share(mine, work) * (step.terms["matmul"] + step.terms["memory_bound"])


def _mixer_matmul_flop(inputs: TrainingInputs, kind: Layers) -> Iterator[Number]:
    """Forward FLOP per token of each weight matrix in the mixers of a layer kind, unsharded."""
    part = shard(inputs.model, kind, 1.0)
    if part.mixer is not None:
        for matrix in mixer_matmuls(inputs.model.hidden, kind, part.mixer, 1.0):
            with term(matrix.name):
                yield kind.count * matmul_flop(1.0, matrix.n, matrix.k)


Fit = MatmulFit | AttentionFit | MemoryFit | SustainedFit | CollectiveFit | NetworkFit | HostUpdateFit


def banded(inputs: TrainingInputs, evaluation: Evaluation) -> Evaluation:
    """An evaluation with columns for P10 and P90 of each result that has an error band."""
    columns, step, ledger = dict(evaluation.costs.columns), evaluation.step, evaluation.ledger
    with term("spread of the step"):
        spread = time_spread(inputs, step)
        late = slower_step_spread(inputs, evaluation.block, step, spread)
    slow, fast = ninetieth_percentile(step.total, late), tenth_percentile(step.total, spread)
    for end, opposite, time in (("low", "high", fast), ("high", "low", slow)):
        columns[f"step_time_{end}"] = time
        rates = throughput(inputs, evaluation.block, time)
        for name in ("tokens_per_s", "tokens_per_s_per_gpu", "flop_rate", "mfu"):
            columns[f"{name}_{opposite}"] = rates[name]
        for name, value in cost_columns(inputs, evaluation.block, rates["tokens_per_s"]).items():
            columns[f"{name}_{end}"] = value
    if inputs.run is not None and evaluation.run is not None:
        from costmodel.estimate.run.whole_run import run_band

        columns |= run_band(inputs, inputs.run, evaluation.block, evaluation.run, (spread, late))
    ends = []
    for position, stage in enumerate(STAGES):
        with term(f"{stage} stage"):
            band = memory_band(inputs, {name: ledger.line(name, position) for name in LINES}, LINES)
            left = ledger.pageable[position]
            ends.append(tuple(peak_after_paging(end, inputs.usable_memory, left) for end in band))
    columns["memory_peak_low"], columns["memory_peak_high"] = (largest(*stages) for stages in zip(*ends, strict=True))
    costs = Costs({name: columns[name] for name in TRAINING_COLUMNS if name in columns}, evaluation.costs.rows)
    return replace(evaluation, costs=costs)


def time_spread(inputs: TrainingInputs, step: TrainingStep) -> Number:
    """Relative spread of the step time: for runs like your own if the fit used them, else for any run."""
    spread = inputs.stack.spread
    with term("software"):
        spread_of_step = combined_error(kind_spread(inputs, step), spread.step)
        spread_of_step = combined_error(spread_of_step, spread.experts) if routes(inputs) else spread_of_step
    untuned = inputs.stack.elsewhere
    if untuned is not None and inputs.case.accelerator.vendor in untuned.slower:
        with term("kernels that are not tuned"):
            spread_of_step = combined_error(spread_of_step, untuned.spread)
    with term("source"):
        scale = _source_spread(inputs)
        return spread_of_step if scale is None else combined_error(spread_of_step, heavy_tail_spread(scale, FREEDOM))


def _source_spread(inputs: TrainingInputs) -> Number | None:
    """Factor for how far published runs of one source differ from another's; None if your own runs were fitted."""
    fit, unseen = inputs.case.efficiency.sustained, inputs.stack.spread.unseen
    if fit is None:
        return unseen
    if fit.source.startswith(OWN):
        return None
    return combined_error(unseen, fit.others) if of_unfitted_part(inputs) else unseen


def of_unfitted_part(inputs: TrainingInputs) -> bool:
    """Whether no fitted run used this accelerator, or another of its maker."""
    fit, part = inputs.case.efficiency.sustained, inputs.case.accelerator
    return fit is not None and not fit.covers(part.name, part.vendor)


def kind_spread(inputs: TrainingInputs, step: TrainingStep) -> Number:
    """Relative spread from kernels, clocks and links. The pipeline bubble has the same relative error as the work."""
    kinds = kind_errors(inputs, step)
    links = summed(*(kinds.pop(axis) for axis in EXCHANGING))
    error = kinds.pop("matmul")
    for name, other in (kinds | {"links": links}).items():
        with term(name):
            error = combined_error(error, other)
    return share(error, working(step))


def working(step: TrainingStep) -> Number:
    """Seconds of a step without the pipeline bubble."""
    return added(step.terms, [name for name in TERMS if name != "bubble"])


def kind_errors(inputs: TrainingInputs, step: TrainingStep) -> dict[str, Number]:
    """Error in seconds of each kind of time; errors of links by axis of parallelism."""
    return _kernel_errors(inputs, step) | _communication_errors(inputs, step)


def _kernel_errors(inputs: TrainingInputs, step: TrainingStep) -> dict[str, Number]:
    """Error in seconds from kernels, clocks and the host; unfused attention consists of matrix products."""
    case, common, terms = inputs.case, inputs.case.common, step.terms
    fits = (common.matmul[name] for name in (inputs.recipe.fit, "bf16") if name in common.matmul)
    matmul = _matmul_spread(inputs, residual(inputs.rates.linear.fit, *fits))
    streams = residual(case.efficiency.memory, common.memory)
    sustained = residual(case.efficiency.sustained, common.sustained)
    fit, slowed = inputs.rates.attention, _throttled_time(inputs, terms["matmul"], terms["attention"])
    kinds = {"matmul": term_error(matmul, slowed if fit is None else terms["matmul"])}
    if fit is not None:
        attention = residual(fit, common.attention[inputs.stack.kernels.runs(case.accelerator.family)])
        attention = widened(attention, fit.fitted, seq=inputs.layer_sequence)
        kinds["attention"] = term_error(attention, terms["attention"])
    kinds["sustained"] = term_error(sustained, slowed)
    small = _small_stream_error(inputs, step, streams)
    if step.on_host:
        kinds["memory-bound"] = term_error(streams, terms["memory_bound"]) + small
        kinds["update on the host"] = term_error(residual(inputs.host.update), terms["optimizer"])
    else:
        kinds["memory-bound"] = term_error(streams, terms["memory_bound"] + terms["optimizer"]) + small
    kinds["launch"] = term_error(inputs.stack.spread.launch, terms["launch"])
    return kinds


def _small_stream_error(inputs: TrainingInputs, step: TrainingStep, spread: Number) -> Number:
    """Extra error in seconds for memory-bound kernels smaller than the fitted ones; updates are never that small."""
    fit = inputs.case.efficiency.memory
    wider = spread if fit is None else widened(spread, fit.fitted, nbytes=step.stream)
    if wider is spread:
        return 0.0
    with term("small kernels"):
        return term_error(wider - spread, step.terms["memory_bound"])


def _throttled_time(inputs: TrainingInputs, products: Number, attention: Number) -> Number:
    """Seconds that power throttling affects: products, and those attention cores that slow down."""
    fit = inputs.rates.attention
    if fit is None:
        return products + attention
    with term("cores that slow down"):
        done = [(flop, is_core_throttled(fit, kind)) for kind, flop in core_flop_by_kind(inputs)]
        slowed = [flop for flop, slows in done if slows]
        if not slowed:
            return products
        if len(slowed) < len(done):
            attention = share(summed(*slowed), summed(*(flop for flop, _ in done))) * attention
    return products + attention


def _matmul_spread(inputs: TrainingInputs, spread: Number) -> Number:
    """Spread of the matrix products of a step. Errors of different shapes are independent.

    With constants of another accelerator, or judged ones, all errors are correlated.
    """
    fitted = inputs.rates.linear.fit.fitted
    if inputs.case.efficiency.of == UNMEASURED or fitted is None or fitted.out_of == "prior":
        return spread
    work = flop_of_shapes(inputs)
    error: Number = 0.0
    for (name, n, k), flop in work.items():
        with term(name):
            error = combined_error(error, term_error(_shape_spread(spread, fitted, name, n, k), flop))
    return share(error, summed(*work.values()))


def _shape_spread(spread: Number, fitted: Fitted | None, name: str, n: float, k: float) -> Number:
    """Spread of one product, wider outside the fitted shapes; products of unfused attention are not widened."""
    return spread if name == CORE else widened(spread, fitted, n=n, k=k)


def _communication_errors(inputs: TrainingInputs, step: TrainingStep) -> dict[str, Number]:
    """Error in seconds of exposed communication by axis, of the assumed overlap, and of the host link."""
    links: dict[str, Number] = {}
    hiding: Number = 0.0
    experts = 0.0 if inputs.experts is None else inputs.experts.overlap
    hidden = {"tp": inputs.overlap.tp, "ep": experts, "pp": inputs.overlap.pp, "dp": inputs.overlap.dp}
    hidden["cp"] = inputs.overlap.cp
    for axis in EXCHANGING:
        spread: Number = 0.0
        for transfer in step.transfers:
            if transfer.axis != axis:
                continue
            with term(f"{axis} {transfer.operation}"):
                spread = np.maximum(spread, np.where(transfer.count > 0, _link_spread(inputs, transfer), 0.0))
                waits = axis == "cp" and transfer.operation != "send"  # only a ring continues beside attention
                if hidden[axis] > 0 and not waits:
                    hiding = hiding + term_error(inputs.stack.spread.overlap, transfer.total_time)
        links[axis] = term_error(spread, step.terms[axis])
    host = term_error(residual(inputs.network, inputs.case.common.network), step.terms["offload"])
    return links | {"hiding": hiding, "host link": host}


def _link_spread(inputs: TrainingInputs, transfer: Transfer) -> Number:
    """Spread of a collective's time: the residual of its fit inside the domain, or of the network across domains."""
    common = inputs.case.common
    name = transfer.operation if transfer.operation in inputs.collectives else "all_gather"
    inside = residual(inputs.collectives[name], common.collectives.get(name, common.collectives["all_gather"]))
    fitted, group = inputs.collectives[name].fitted, transfer.group
    inside = widened(inside, fitted, ranks=group.inside, bytes=transfer.message)
    return np.where(group.domains > 1, residual(inputs.network, common.network), inside)


def outside_fits(inputs: TrainingInputs, step: TrainingStep) -> Iterator[OutsideFit]:
    """Sizes in a single plan's step outside the range of a fit, if they take a noticeable share of the time."""
    whole, fit = number(working(step)), inputs.rates.attention
    if fit is not None:
        part = number(share(step.terms["attention"], whole))
        yield from outside(fit.fitted, "attention", part, seq=number(inputs.layer_sequence))
    if (streams := inputs.case.efficiency.memory) is not None:
        part = number(share(step.terms["memory_bound"], whole))
        yield from outside(streams.fitted, "memory-bound kernel", part, nbytes=number(step.stream))
    products, work = number(share(step.terms["matmul"], whole)), flop_of_shapes(inputs)
    every = summed(*work.values())
    for (name, n, k), flop in ((shape, flop) for shape, flop in work.items() if shape[0] != CORE):
        yield from outside(
            inputs.rates.linear.fit.fitted, f"product {name}", products * number(share(flop, every)), n=n, k=k
        )
    for transfer in step.transfers:
        if number(transfer.total_time) <= 0 or number(transfer.group.domains) > 1:
            continue
        same = [each for each in step.transfers if each.axis == transfer.axis]
        part = number(share(transfer.total_time, summed(*(each.total_time for each in same))))
        name = transfer.operation if transfer.operation in inputs.collectives else "all_gather"
        sizes = {"ranks": number(transfer.group.inside), "bytes": number(transfer.message)}
        part = part * number(share(step.terms[transfer.axis], whole))
        yield from outside(inputs.collectives[name].fitted, transfer.operation.replace("_", "-"), part, **sizes)


def residual(*fits: Fit | None) -> Number:
    """Relative spread of the nearest available fit: the fit's own residual, else that of a more general one."""
    for fitted in (fit.fitted for fit in fits if fit is not None):
        if fitted is not None and fitted.median is not None and fitted.p90 is not None:
            return residual_spread(fitted.median, fitted.p90)
    raise fail("D017", "neither a fit nor unmeasured.yaml gives its residual", None, "write fitted: median, p90")
