"""The training step: compute, exposed communication, bubble, optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.base import Sites
from costmodel.equations.data_parallel import inner_steps_needed, local_bandwidth, local_utilisation
from costmodel.equations.kernels.memory_traffic import optimizer_traffic, quantise_traffic
from costmodel.equations.kernels.roofline import matmul_time, stream_time
from costmodel.equations.memory.states import gradient_traffic
from costmodel.equations.network.collectives import activation_message, wire_bytes
from costmodel.equations.network.overlap import exposed_sends, sends_of_rank
from costmodel.estimate.machine.collective_time import collective_time, send_time
from costmodel.estimate.machine.process_groups import (
    Group,
    Groups,
    Transfer,
    embedding_group,
    groups,
    without_irrelevant_order,
)
from costmodel.estimate.model.projected_states import step_flop
from costmodel.estimate.model.shards import model_parameters, stream_width
from costmodel.estimate.shared.plan_batch import (
    RECOMPUTE,
    Block,
    ForwardBackward,
    PerStage,
    TimeByCategory,
    added,
    largest,
    memoized,
    summed,
)
from costmodel.estimate.training.parallelism.data import data_traffic, largest_rank
from costmodel.estimate.training.parallelism.expert import expert_data
from costmodel.estimate.training.parallelism.pipeline import (
    BOTH_WAYS,
    FOLDED,
    Rank,
    StageLayers,
    boundary_parameters,
    busiest_rank,
    is_plain_schedule,
    pipeline_seconds,
    updated_parameters,
    weight_replication,
)
from costmodel.estimate.training.parallelism.tensor import EndsTraffic
from costmodel.estimate.training.saved_activations import (
    OffloadTime,
    OffloadTraffic,
    offload_time,
    offloaded_activations,
    updated_shard,
)
from costmodel.estimate.training.stage_parameters import StageParameters, local_tokens, trained_parameters
from costmodel.estimate.training.stage_time import Slowed, Stages, stages, straggler_slowdown, with_stragglers
from costmodel.estimate.training.training_inputs import ELEMENT_BYTES, TrainingInputs
from costmodel.ground.counts import EXCHANGING
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.errors import Place
from costmodel.ground.record import record
from costmodel.ground.units import Figure


@record
class TrainingStep:
    """Seconds of a step by category, with its transfers."""

    terms: dict[str, Number]
    total: Number
    compute: Number
    transfers: tuple[Transfer, ...]
    ranks: PerStage[Rank]
    on_host: bool  # whether the host makes the update
    stream: Number  # bytes of a memory-bound kernel of a layer: an addition to the residual stream
    divided: Number = 0.0  # seconds of the update that ranks spare each other, as each has matrices of its own


def training_step(
    inputs: TrainingInputs, block: Block, layers: StageLayers, parameters: StageParameters, micro_batches: Number
) -> TrainingStep:
    """Time of a training step by category."""
    placed = groups(inputs, block)
    seen = without_irrelevant_order(block)
    work = stages(inputs, seen, layers)
    own = trained_parameters(inputs, block, layers, parameters)
    data = data_traffic(inputs, block, placed, parameters, own, work, micro_batches)
    slow = straggler_slowdown(inputs, block, micro_batches)
    piped = _pipeline_time(inputs, block, work, data.layer_forward, data.layer_backward, micro_batches, slow)
    sends = _pipeline_sends(inputs, block, micro_batches)
    tied = (_tied_embedding_sum(inputs, block, placed, parameters),) if own.tied else ()
    offloaded = _offload(inputs, block, parameters, own, work, micro_batches)
    update = offloaded.update
    beside: dict[str, Number] = {
        "pp": sends.exposed,
        "dp": sum((transfer.total_time for transfer in tied), start=data.exposed),
        "optimizer": 0.0 if update is None else update,
    }
    divided: Number = 0.0
    if update is None:
        beside["optimizer"], divided = _optimizer_seconds(inputs, block, own)
    if inputs.recipe.narrow:
        beside["memory_bound"] = _converted_weights(inputs, block, parameters, micro_batches)
    terms = {name: summed(piped.terms.get(name, 0.0), beside.get(name, 0.0)) for name in TERMS}
    with term("offload"):  # the link to the host continues while the network is waited for, in layers as beside them
        late = np.maximum(offloaded.beside - added(terms, BESIDE_LAYERS), 0.0) if block.structure.offload else 0.0
        terms["offload"] = summed(late, offloaded.after)
    compute = added(terms, ("matmul", "attention", "memory_bound"))
    transfers = (*_step_collectives(inputs, seen, work, micro_batches), *data.transfers, *tied, *sends.transfers)
    total, on_host = known_as("step_time", added(terms, TERMS)), update is not None
    return TrainingStep(
        terms, total, compute, transfers, piped.ranks, on_host, _residual_addition_bytes(inputs, seen), divided
    )


def least_time(inputs: TrainingInputs, block: Block, layers: StageLayers, micro_batches: Number) -> Number:
    """A time that no step is shorter than: that of its pipeline, without data parallelism, sends and the update.

    What it leaves out only adds to a step, and a pipeline is no faster where its layers take longer.
    """
    work = stages(inputs, without_irrelevant_order(block), layers)
    slow = straggler_slowdown(inputs, block, micro_batches)
    return summed(*_pipeline_time(inputs, block, work, 0.0, 0.0, micro_batches, slow).terms.values())


@memoized("sequence_parallel")
def _residual_addition_bytes(inputs: TrainingInputs, block: Block) -> Number:
    """Bytes read and written by one addition to the residual stream on a rank."""
    with term("residual addition"):
        each = activation_message(local_tokens(inputs, block), inputs.model.hidden, inputs.widths.element)
        return 3.0 * each / block.sequence_ranks


@record
class PipelineTime:
    """Pipelined time by category, with the bubble; and the ranks of the pipeline."""

    terms: dict[str, Number]
    ranks: PerStage[Rank]


@memoized("schedule")
def _pipeline_time(
    inputs: TrainingInputs,
    block: Block,
    work: Stages,
    forward: Number,
    backward: Number,
    micro_batches: Number,
    slow: Slowed | None,
) -> PipelineTime:
    """Time of the pipeline's busiest rank and the bubble, with the exposed FSDP traffic in each layer."""
    ranks = first, middle, last = _pipeline_ranks(
        block, work, ForwardBackward(TimeByCategory(dp=forward), TimeByCategory(dp=backward)), slow
    )
    with term("pipeline"):
        whole = pipeline_seconds(inputs, block, micro_batches, ranks)
    plain = is_plain_schedule(block.structure.schedule)
    alike = work.held.equal and plain and slow is None
    terms, busy = busiest_rank((first, last) if alike else (first, last, middle), micro_batches)
    waiting = np.maximum(whole - busy, 0.0)  # rounding may leave a hair below nothing
    return PipelineTime(terms | {"bubble": np.where(block.pp > 1, waiting, 0.0)}, ranks)


def _pipeline_ranks(block: Block, work: Stages, shown: ForwardBackward, slow: Slowed | None) -> PerStage[Rank]:
    """Work of the first, a middle and the last pipeline rank; a straggler, if there is any, is in the last one."""
    held, each, only = work.held, work.each, block.pp == 1
    layers = each.each(lambda layer: layer + shown)
    none, both = ForwardBackward(TimeByCategory(), TimeByCategory()), work.embedding + work.head
    schedule = block.structure.schedule
    if schedule in FOLDED:
        ends = (both, none, none)
    elif schedule in BOTH_WAYS:
        half = both.each(lambda one: 0.5 * one)
        ends = (half, none, half)
    else:
        ends = (work.embedding, none, work.head)
    first, middle, last = zip((held.first, held.middle, held.last), layers, ends, strict=True)
    ranks = PerStage(Rank(*first, both, only), Rank(*middle, none, only), Rank(*last, both, only))
    return ranks if slow is None else with_stragglers(ranks, slow)


BESIDE_LAYERS = ("pp", "dp")  # what layers exchange is part of their time already
TERMS = ("matmul", "attention", "memory_bound", "launch", *EXCHANGING, "bubble", "offload", "optimizer")


@memoized("order", "sequence_parallel", "schedule")
def _pipeline_sends(inputs: TrainingInputs, block: Block, micro_batches: Number) -> PipelineTraffic:
    """Sends of activations and gradients between pipeline stages in a step."""
    with term("pp message"):
        message = activation_message(local_tokens(inputs, block), stream_width(inputs.model), inputs.widths.element)
    return pipeline_traffic(inputs, block, groups(inputs, block).pp, message, micro_batches)


@memoized()
def _tied_embedding_sum(inputs: TrainingInputs, block: Block, placed: Groups, parameters: StageParameters) -> Transfer:
    """All-reduce of the gradient of a table that the first and the last stage share."""
    with term("tied embedding"):
        pair = embedding_group(inputs, placed.pp)
        message = gradient_traffic(parameters.table, inputs.widths.gradient)
        time = collective_time(inputs, message, pair, "all_reduce")
    return Transfer(pair, "all_reduce", message, time, np.where(block.pp > 1, 1.0, 0.0))


@memoized("zero", "schedule")
def _optimizer_seconds(inputs: TrainingInputs, block: Block, parameters: StageParameters) -> tuple[Number, Number]:
    """Time of a rank's update, with clearing and norm of gradients; and update time saved by dividing it over ranks."""
    zero, (held, _, routed) = block.structure.zero, largest_rank(inputs, block, parameters)
    with term("optimizer"):
        own = updated_parameters(block, held)
        updated = own / block.shards if zero >= 1 else own
        kept = held / block.shards if zero >= 2 else held
        if inputs.experts is not None:
            edp = expert_data(inputs, block)
            own = updated_parameters(block, routed)
            updated = updated + (own / edp if zero >= 1 else own)
            kept = kept + (routed / edp if zero >= 2 else routed)
        nbytes = optimizer_traffic(updated, kept, inputs.moments, ELEMENT_BYTES["fp32"])
        update = stream_time(nbytes, inputs.rates.memory_bandwidth, inputs.rates.memory_share)
        if inputs.optimizer.orthogonal is not None:
            mine = _optimizer_matmul_seconds(inputs, updated / block.dp if zero == 0 else updated)
            return update + mine, (block.dp if zero == 0 else block.shards) * mine - mine
        return update if inputs.optimizer.projection is None else update + _optimizer_matmul_seconds(
            inputs, updated
        ), 0.0


def _optimizer_matmul_seconds(inputs: TrainingInputs, updated: Number) -> Number:
    """Time of the optimizer's matrix products: projection to a subspace and back, or orthogonalisation of updates.

    Ranks of data parallelism divide among them the matrices that are orthogonalised, as DistMuon and Megatron core do.
    """
    rates = inputs.rates
    flop = step_flop(inputs.case.model, inputs.optimizer) * (updated / model_parameters(inputs.case.model))
    with term("products of the optimizer"):
        fit, nbytes = rates.matmul, gradient_traffic(updated, 2.0 * inputs.widths.gradient)
        shares = (fit.compute_share, fit.memory_share, 0.0, fit.exponent)
        return matmul_time(flop, nbytes, rates.peak, rates.memory_bandwidth, *shares, inputs.sustained)


def _offload(
    inputs: TrainingInputs,
    block: Block,
    parameters: StageParameters,
    own: StageParameters,
    work: Stages,
    micro_batches: Number,
) -> OffloadTime:
    """Time added by the host link and the update on the host, on the largest rank."""
    if not block.structure.offload:
        return OffloadTime(0.0, 0.0, None)
    most, stepping = largest_rank(inputs, block, parameters), largest_rank(inputs, block, own)
    held = updated_shard(inputs, block, most.held, most.routed)
    updated = updated_shard(
        inputs, block, updated_parameters(block, stepping.held), updated_parameters(block, stepping.routed)
    )
    passing = OffloadTraffic(held, updated, offloaded_activations(inputs, block, work.held), *work.fullest)
    return offload_time(inputs, block, passing, micro_batches)


def _converted_weights(
    inputs: TrainingInputs, block: Block, parameters: StageParameters, micro_batches: Number
) -> Number:
    """Conversion of weights to the narrow type: after an update if the copies are stored, else in every micro-batch.

    A shard is converted before it is gathered narrow. Stored copies beside 16-bit weights are converted in each step,
    also of frozen weights; copies that replace those are not.
    """
    narrow = inputs.narrow
    if inputs.tuning is not None and narrow is not None and narrow.primary:
        return 0.0
    shards = inputs.gathers_narrow and block.structure.zero >= 1
    schedule = block.structure.schedule
    layers, routed = parameters.fullest_layers(schedule)
    held = layers / block.shards if shards else layers
    if inputs.experts is not None:
        held = held + (routed / expert_data(inputs, block) if shards else routed)
    with term("convert weights"):
        nbytes = quantise_traffic(held, inputs.recipe.quantised)
        time = stream_time(nbytes, inputs.rates.memory_bandwidth, inputs.rates.memory_share)
    if narrow is not None and narrow.cached:
        return time
    return micro_batches * (time / weight_replication(schedule))  # a micro-batch runs through one copy


@memoized(*RECOMPUTE, "order", "schedule")
def _step_collectives(
    inputs: TrainingInputs, block: Block, work: Stages, micro_batches: Number
) -> tuple[Transfer, ...]:
    """Collectives of layers, embedding and head in a step."""
    ends = replace(groups(inputs, block).tp, name="ends")
    return (
        *(item.of_step(layers * micro_batches, again) for layers, item, again in work.exchanged),
        *_ends(inputs, block, ends, work.at_ends, micro_batches),
    )


def _ends(
    inputs: TrainingInputs, block: Block, tp: Group, traffic: EndsTraffic, micro_batches: Number
) -> Iterator[Transfer]:
    """Collectives of embedding and head in a step, on the rank with most of them."""
    heads = 1.0 if inputs.model.prediction is None else 1.0 + inputs.model.prediction.depth
    for item in traffic.exchanges:
        head = heads * item.head
        most = largest(*boundary_parameters(block.structure.schedule, item.embedding, head))
        each = np.where(block.pp == 1, head + item.embedding, most) * micro_batches
        yield Transfer(tp, item.operation, traffic.message, item.time, np.where(block.tp > 1, each, 0.0))


@record
class PipelineTraffic:
    """Sends between pipeline stages."""

    exposed: Number
    transfers: tuple[Transfer, ...]


def pipeline_traffic(
    inputs: TrainingInputs, block: Block, pp: Group, message: Number, micro_batches: Number
) -> PipelineTraffic:
    """Activations and their gradients over each stage boundary; every tp rank sends its own part."""
    with term("pp send"):
        part = message / (block.tp if inputs.stack.split_sends else block.sequence_ranks)
        time = send_time(inputs, part, pp)
    count = sends_of_rank(block.pp, micro_batches, block.vpp, 2.0 if block.structure.schedule in FOLDED else 1.0)
    exposed = exposed_sends(block.pp, count, block.vpp, time, inputs.overlap.pp)
    return PipelineTraffic(exposed, (Transfer(pp, "send", part, time, count),))


# Sites that train independently: time and traffic of their exchanges.

WIDTHS = {
    name: Figure(width, Place("exchange between sites", path=name))
    for name, width in (("fp32", 4.0), ("bf16", 2.0), ("fp16", 2.0), ("int8", 1.0), ("fp4", 0.5))
}
WELL_USED = 0.95


@record
class SiteExchange:
    """An exchange of all fragments between sites.

    Bytes in fp32, bytes as sent, and bytes that a site sends; its time, the time that steps hide, and utilisation.
    """

    raw: Number
    message: Number
    wire: Number
    time: Number
    hidden: Number
    utilisation: Number


def exchange(inputs: TrainingInputs, sites: Sites, time: Number) -> SiteExchange:
    """The exchange between sites whose steps take this time."""
    with term("between sites"):
        parameters = model_parameters(inputs.model)
        raw, message = (gradient_traffic(parameters, WIDTHS[name]) for name in ("fp32", sites.dtype))
        wire = wire_bytes(message, sites.count, operation="all_reduce")
        whole = wire / sites.link + sites.latency
        hidden = sites.fragments * sites.overlap * time
        return SiteExchange(raw, message, wire, whole, hidden, local_utilisation(sites.every, time, whole, hidden))


def with_sites(inputs: TrainingInputs, block: Block, step: TrainingStep) -> TrainingStep:
    """The mean step, with its share of the exchange between sites."""
    sites = inputs.sites
    if sites is None:
        return step
    exchanged = exchange(inputs, sites, step.total)
    with term("between sites"):
        longer = step.total / exchanged.utilisation - step.total
        each = exchanged.message / sites.fragments
        often = np.ones(len(block)) * (sites.fragments / sites.every)
        group = Group("sites", sites.count, 1.0, 1.0, 1.0, sites.count, sites.count)
        sent = exchanged.wire / sites.fragments / inputs.ranks
        moved = Transfer(group, "all_reduce", each, exchanged.time / sites.fragments, often, sent=sent)
    terms = step.terms | {"dp": step.terms["dp"] + longer}
    total = known_as("step_time", added(terms, TERMS))
    return replace(step, terms=terms, total=total, transfers=(*step.transfers, moved))


def to_use_well(sites: Sites, exchanged: SiteExchange, time: Number) -> tuple[Number, Number]:
    """Bandwidth of a site, and steps between exchanges, with which sites compute for 95 % of the time."""
    needed = local_bandwidth(exchanged.wire, sites.every, time, WELL_USED, exchanged.hidden)
    return needed, inner_steps_needed(time, exchanged.time, WELL_USED, exchanged.hidden)
