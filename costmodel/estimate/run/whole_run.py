"""The whole run: checkpoints, goodput, time and cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.memory.offload import link_time
from costmodel.equations.parallelism.counts import data_parallel_degree
from costmodel.equations.run.checkpoints import (
    best_interval,
    checkpoint_bytes,
    checkpoint_goodput,
    checkpoint_load_time,
    checkpoint_write_time,
    checkpoint_writers,
    reshard_time,
    steps_between_checkpoints,
    two_level_goodput,
)
from costmodel.equations.run.economics import (
    data_read_time,
    emissions,
    mean_power,
    run_cost,
    run_energy,
    tokens_per_step,
)
from costmodel.equations.run.failures import (
    checkpoint_share,
    elastic_goodput,
    expected_interruptions,
    fewer_replicas_speed,
    mean_time_between_interruptions,
    noticed_goodput,
    planned_share,
    resharded_goodput,
    restart_share,
    run_goodput,
    spare_nodes,
    steps_time,
    wall_time,
)
from costmodel.equations.run.uncertainty import combined_error, end_spread, ninetieth_percentile, tenth_percentile
from costmodel.estimate.machine.price import parameter_servers_of, price_per_server, usual_power
from costmodel.estimate.machine.process_groups import interface_rate
from costmodel.estimate.model.shards import counted_kinds, model_parameters, shard
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.run_inputs import RunInputs
from costmodel.estimate.training.failed_node import replicas_lost, replicas_of_the_job
from costmodel.estimate.training.plan_constraints import micro_batches
from costmodel.estimate.training.stage_parameters import trained_in_routed_experts, trained_per_layer
from costmodel.estimate.training.stage_time import used_sample_share
from costmodel.estimate.training.training_inputs import TrainingInputs, mean_of_groups
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.schemas.run import Spot


COPIES = 4.0  # a node's own part and a peer's, of the last checkpoint and of the one that is being taken


@record
class Checkpoint:
    """Bytes of a job's checkpoint, and seconds to save and to load it.

    blocking: seconds for which training stops
    background: seconds from then until the checkpoint can be used
    copy: seconds to copy a rank's part to its host
    on_host: memory of a node that copies take [B]
    """

    nbytes: Number
    blocking: Number
    background: Number
    load: Number
    copy: Number
    on_host: Number


def checkpoint(inputs: TrainingInputs, run: RunInputs, block: Block, models: float = 1.0) -> Checkpoint:
    """Size, times and host memory of a checkpoint of the given number of models, as the scenario saves it."""
    asked, nodes = run.checkpoint, inputs.case.scenario.cluster.nodes
    with term("checkpoint"):
        parameters = saved_parameters(inputs) if models == 1 else models * saved_parameters(inputs)
        nbytes = checkpoint_bytes(parameters, inputs.stack.states.weights, inputs.optimizer_state)
        writers = checkpoint_writers(inputs.ranks, block.dp, sharded=block.structure.zero >= 1)
        into = nodes * asked.node_write if asked.write is None else asked.write
        out = nodes * asked.node_read if asked.read is None else asked.read
        writer = into if asked.writer is None else asked.writer
        write = known_as("checkpoint_write", checkpoint_write_time(nbytes, writers, writer, into))
        load = checkpoint_load_time(nbytes, block.dp if asked.by_each_replica else 1.0, out)
        part = nbytes / writers
        copy = _copy_time(inputs, part)
    stop = copy + asked.overhead if asked.block is None else asked.block
    if asked.mode == "sync":
        return Checkpoint(nbytes, write if asked.block is None else asked.block, 0.0, load, copy, 0.0)
    with term("copies on the host"):
        of_node = inputs.case.node.accelerators * part
        on_host = COPIES * of_node if asked.mode == "memory" else of_node
    return Checkpoint(nbytes, stop, write, load, copy, on_host)


def _copy_time(inputs: TrainingInputs, nbytes: Number) -> Number:
    """Time of a copy to the host; 0 if no document states the speed of its link."""
    fabric, stated = inputs.case.host, inputs.case.scenario.assume.host_share
    if fabric is not None and fabric.copies is not None and stated is None:
        return link_time(nbytes, fabric.copies, 1.0)
    if math.isnan(inputs.host.link) or math.isnan(float(inputs.host.link_share)):
        return 0.0
    return link_time(nbytes, inputs.host.link, inputs.host.link_share)


def saved_parameters(inputs: TrainingInputs) -> Number:
    """Parameters whose states are saved: all of the model, or only the trained adapters."""
    if inputs.tuning is None:
        return model_parameters(inputs.model)
    total: Number = 0.0
    for kind, count in counted_kinds(inputs.model):
        part = shard(inputs.model, kind, 1.0)
        total = total + count * (trained_per_layer(inputs, part) + trained_in_routed_experts(inputs, part.routed))
    return total


Ends = Literal["low", "", "high"]  # of the band of what interrupts and of what a restart takes


@record
class Cycle:
    """Seconds between two checkpoints to storage and between two to memory, and memory saves per storage save."""

    interval: Number
    memory_interval: Number
    saves: Number


def between_failures(inputs: TrainingInputs, run: RunInputs, ends: Ends = "") -> Number:
    """Mean time between interruptions of the job that lose work: by failures, and by preemptions without notice."""
    rates = run.failures
    node = {"low": rates.node_low, "": rates.node, "high": rates.node_high}[ends]
    job = {"low": rates.job_low, "": rates.job, "high": rates.job_high}[ends]
    return mean_time_between_interruptions(inputs.case.scenario.cluster.nodes, node, job)


def between_preemptions(inputs: TrainingInputs, spot: Spot) -> Number:
    """Mean time between preemptions of one node of the job."""
    with term("preemption"):
        return spot.preempted_every / inputs.case.scenario.cluster.nodes


def between_both(first: Number, other: Number) -> Number:
    """Mean time between interruptions of either kind."""
    return mean_time_between_interruptions(1.0, 1.0 / first, 1.0 / other)


def mtbf(inputs: TrainingInputs, run: RunInputs, ends: Ends = "") -> Number:
    """Mean time between interruptions of the job of any kind."""
    between = between_failures(inputs, run, ends)
    if run.spot is not None:
        between = between_both(between, between_preemptions(inputs, run.spot))
    return known_as("mtbf", between)


def restart_time(run: RunInputs, loading: Number, ends: Ends = "") -> Number:
    """Time from an interruption until training continues."""
    parts = run.restart
    start = {"low": parts.start_low, "": parts.start, "high": parts.start_high}[ends]
    with term("restart"):
        return known_as("restart_time", start + parts.detect + parts.warm_up + loading)


def cycle(inputs: TrainingInputs, run: RunInputs, saved: Checkpoint, time: Number) -> Cycle:
    """Intervals between checkpoints in whole steps: as stated, or optimal for the interruptions that lose work."""
    asked, soft = run.checkpoint, run.failures.soft
    between = between_failures(inputs, run)
    if run.spot is not None:
        surprised = between_both(between, between_preemptions(inputs, run.spot))
        between = np.where(_is_notice_enough(run.spot, saved), between, surprised)
    memory = asked.mode == "memory"
    hard = between / (1.0 - soft) if memory else between
    wanted = best_interval(saved.blocking, hard, saved.background, asked.interference)
    if asked.steps is not None:
        interval = asked.steps * time
    else:
        wanted = wanted if asked.interval is None else asked.interval
        interval = steps_between_checkpoints(wanted, time) * time
        if asked.interval is None:  # rounding may not let a write last into the next
            interval = np.where(period_left(run, saved, interval) < 0, interval + time, interval)
    if not memory:
        return Cycle(interval, interval, np.asarray(1.0))
    near = interval if asked.memory_interval is None else asked.memory_interval
    if asked.memory_interval is None and soft > 0:
        near = best_interval(saved.blocking, between / soft, 0.0, 0.0)
    near = steps_between_checkpoints(np.minimum(near, interval), time) * time
    return Cycle(interval, near, steps_between_checkpoints(interval, near))


def period_left(run: RunInputs, saved: Checkpoint, interval: Number) -> Number:
    """Seconds between the end of one checkpoint's write and the start of the next; negative if they overlap."""
    taken = run.checkpoint.interference * saved.background
    return interval + saved.blocking + taken - saved.background


def _training_share(
    inputs: TrainingInputs, run: RunInputs, block: Block, saved: Checkpoint, at: Cycle, between: Number, start: Ends
) -> Number:
    """Share of the time that trains, for this mean time between interruptions."""
    restart = restart_time(run, saved.load, start)
    if run.elastic is not None:
        replicas, lost = replicas_of_the_job(inputs, block), replicas_lost(inputs, block)
        return elastic_goodput(run.elastic.repair, replicas, run.elastic.regroup, between, lost)
    if run.checkpoint.mode == "memory":
        near = restart_time(run, saved.copy, start)
        soft = run.failures.soft
        return two_level_goodput(
            at.memory_interval, saved.blocking, near, at.saves, 0.0, restart, saved.background, between, soft
        )
    share = run.checkpoint.interference
    if run.restart.ranks is None:
        return checkpoint_goodput(at.interval, saved.blocking, restart, between, saved.background, share)
    restart = restart + reshard(inputs, run, block, saved)
    useful = checkpoint_goodput(at.interval, saved.blocking, restart, between, saved.background, share)
    assert run.failures.repair is not None
    return resharded_goodput(useful, run.failures.repair, speed_of_fewer(inputs, run, block), restart, between)


def replicas_left(run: RunInputs, block: Block) -> Number:
    """Replicas on the ranks that continue after an interruption."""
    assert run.restart.ranks is not None
    return data_parallel_degree(run.restart.ranks, block.tp, block.cp, block.pp)


def speed_of_fewer(inputs: TrainingInputs, run: RunInputs, block: Block) -> Number:
    """Speed on the ranks that continue after an interruption, over the speed on all ranks."""
    with term("on fewer ranks"):
        return fewer_replicas_speed(micro_batches(inputs, block), block.dp, replicas_left(run, block))


def reshard(inputs: TrainingInputs, run: RunInputs, block: Block, saved: Checkpoint) -> Number:
    """Time to reshard the states over the ranks that continue; 0 without sharded states."""
    if block.structure.zero == 0:
        return 0.0
    with term("resharding"):
        replica = inputs.ranks / block.dp
        shared = saved.nbytes / replica
        return reshard_time(
            shared, block.dp, replicas_left(run, block), interface_rate(inputs.case, inputs.network_share)
        )


def _is_notice_enough(spot: Spot, saved: Checkpoint) -> NDArray[np.bool_]:
    """Whether the notice of a preemption is long enough to save a checkpoint."""
    return np.asarray(saved.blocking + saved.background <= spot.notice)


def goodput(
    inputs: TrainingInputs,
    run: RunInputs,
    block: Block,
    saved: Checkpoint,
    at: Cycle,
    ends: Ends = "",
    start: Ends = "",
) -> Number:
    """Useful share of the run's wall time, at an end of the band of interruption rates and of restart time."""
    between = between_failures(inputs, run, ends)
    useful = _training_share(inputs, run, block, saved, at, between, start)
    if run.spot is not None:
        preempted = between_preemptions(inputs, run.spot)
        save, restart = saved.blocking + saved.background, restart_time(run, saved.load, start)
        noticed = useful * noticed_goodput(save, restart, preempted)
        surprised = _training_share(inputs, run, block, saved, at, between_both(between, preempted), start)
        useful = np.where(_is_notice_enough(run.spot, saved), noticed, surprised)
    planned: Number = 0.0
    if run.planned is not None:
        planned = planned_share(1.0, run.planned.stop, run.planned.every)
    return known_as("goodput", run_goodput(useful, run.evaluation, planned))


COVERED = 0.99  # of the time


@record
class RunFigures:
    """Figures of a whole run, with the checkpoint and the intervals that they depend on."""

    saved: Checkpoint
    at: Cycle
    mtbf: Number
    restart: Number
    goodput: Number
    steps: Number
    useful: Number
    interruptions: Number
    columns: dict[str, Number]


def steps_of(inputs: TrainingInputs, run: RunInputs) -> Number:
    """Optimizer steps of the run; NaN if the scenario states neither steps nor tokens."""
    tokens = inputs.case.scenario.workload.tokens
    if run.steps is not None:
        return run.steps
    if tokens is None:
        return math.nan
    with term("steps"):
        return tokens / tokens_per_step(inputs.case.scenario.workload.global_batch, inputs.sequence)


def fed(inputs: TrainingInputs, run: RunInputs, time: Number, read: Number | None = None) -> Number:
    """Step time [s], longer if the data loader or the data store cannot deliver tokens fast enough.

    read: tokens that it reads, if not all that it trains on
    """
    if math.isinf(run.loader) and run.data is None:
        return time
    tokens = tokens_per_step(inputs.global_batch, inputs.sequence) if read is None else read
    if not math.isinf(run.loader):
        with term("data loader"):
            time = np.maximum(time, tokens / run.loader)
    if run.data is not None:
        with term("data store"):
            time = np.maximum(time, data_read_time(tokens, run.data.token, run.data.read))
    return time


@np.errstate(divide="ignore", over="ignore")  # a run that is interrupted too often never ends
def whole_run(
    inputs: TrainingInputs,
    run: RunInputs,
    block: Block,
    time: Number,
    price: Number,
    models: float = 1.0,
    read: Number | None = None,
) -> RunFigures:
    """Figures of the run with this step time, where the given number of models are saved together.

    read: tokens that a step reads, if not all that it trains on
    """
    data_time = fed(inputs, run, time, read)
    saved, between = checkpoint(inputs, run, block, models), mtbf(inputs, run)
    at = cycle(inputs, run, saved, data_time)
    useful = goodput(inputs, run, block, saved, at)
    steps, used = steps_of(inputs, run), used_sample_share(block)
    if used is not None and run.steps is None:
        with term("steps"):
            steps = steps / used
    stepping = steps_time(steps, data_time, 1.0)
    wall = known_as("run_time", wall_time(stepping, useful))
    restart = restart_time(run, saved.load)
    columns: dict[str, Number] = {
        "goodput": useful,
        "mtbf": between,
        "checkpoint_size": saved.nbytes,
        "checkpoint_blocking": saved.blocking,
        "checkpoint_write": saved.background if run.checkpoint.mode != "sync" else saved.blocking,
        "checkpoint_interval": at.interval,
        "checkpoint_host": saved.on_host,
        "restart_time": restart,
        "run_time": wall,
        "run_cost": _rent(inputs, run, block, wall, price),
    }
    still = idle_shares(run, restart, between)
    idle = still["restarts"] + still["planned stops"]
    columns["energy"] = known_as("energy", energy(inputs, run, wall, idle))
    columns["emissions"] = emissions(columns["energy"], run.power.intensity)
    return RunFigures(
        saved, at, between, restart, useful, steps, stepping, expected_interruptions(wall, between), columns
    )


def _rent(inputs: TrainingInputs, run: RunInputs, block: Block, wall: Number, price: Number) -> Number:
    """Rent of the job's nodes, of spare nodes, and of parameter servers."""
    with term("rented"):
        ranks = inputs.all_ranks
        if run.spares:
            ranks = ranks + spares_of(inputs, run) * inputs.case.node.accelerators
    cost = run_cost(wall, ranks, price if run.spot is None else run.spot.price)
    servers = parameter_servers_of(block.structure.sync)
    if not servers:
        return cost
    with term("servers"):
        return cost + run_cost(wall, servers, price_per_server(inputs.case))


def power(inputs: TrainingInputs, run: RunInputs) -> Number:
    """Power of an accelerator with its share of the node in training; NaN if none is known."""
    if inputs.groups and run.power.draw is None:
        return mean_of_groups(inputs, lambda kind: power(kind, run))
    case, asked = inputs.case, run.power
    if asked.draw is not None:
        return asked.draw
    return usual_power(case.node, case.accelerator, asked.rated_share, asked.over_part, asked.cap)


def energy(inputs: TrainingInputs, run: RunInputs, wall: Number, idle_time: Number) -> Number:
    """Energy of the job, and of its idle spare nodes."""
    drawn, asked = power(inputs, run), run.power
    used = run_energy(wall, inputs.all_ranks, mean_power(drawn, 1.0 - idle_time, asked.idle), asked.pue)
    if run.spares:
        with term("spare nodes"):
            waiting = spares_of(inputs, run) * inputs.case.node.accelerators
            used = used + run_energy(wall, waiting, asked.idle * drawn, asked.pue)
    return used


def spares_of(inputs: TrainingInputs, run: RunInputs) -> Number:
    """Spare nodes that are paid for: as stated, or enough for the stated share of the time."""
    return spares_wanted(inputs, run) if 0 < run.spares < 1 else run.spares


def spares_wanted(inputs: TrainingInputs, run: RunInputs, ends: Ends = "") -> Number:
    """Number of spare nodes that replace nodes in repair for the stated share of the time, 99 % by default.

    NaN if no repair time is known.
    """
    if run.failures.repair is None:
        return math.nan
    with term("nodes in repair"):
        down = expected_interruptions(run.failures.repair, between_failures(inputs, run, ends))
    return spare_nodes(down, run.spares if 0 < run.spares < 1 else COVERED)


def waiting_time(inputs: TrainingInputs, run: RunInputs, wall: Number) -> Number:
    """Seconds that a job without spare nodes waits for repairs, one after the other; NaN if no repair time is known."""
    if run.failures.repair is None:
        return math.nan
    return expected_interruptions(wall, between_failures(inputs, run)) * run.failures.repair


def idle_shares(run: RunInputs, found_restart: Number, between: Number) -> dict[str, Number]:
    """Shares of the wall time without training: restarts, evaluation and planned stops; evaluation uses the machine."""
    planned: Number = 0.0 if run.planned is None else run.planned.stop / run.planned.every
    evaluation = run.evaluation * (1.0 - planned)
    alone = (1.0 - planned - evaluation) * restart_share(found_restart, between)
    return {"restarts": alone, "evaluation": evaluation, "planned stops": planned}


def shares(run: RunInputs, run_figures: RunFigures) -> dict[str, Number]:
    """Shares of the wall time lost, by cause; one share for failures and checkpoints if they cannot be separated."""
    lost = 1.0 - run_figures.goodput
    parts = idle_shares(run, run_figures.restart, run_figures.mtbf)
    if run.elastic or run.spot or run.restart.ranks or run.checkpoint.mode == "memory":
        others = {name: parts[name] for name in ("evaluation", "planned stops")}
        return {"failures and checkpoints": lost - others["evaluation"] - others["planned stops"], **others}
    parts["checkpoints"] = checkpoint_share(
        run_figures.goodput,
        run_figures.at.interval,
        run_figures.saved.blocking,
        run_figures.saved.background,
        run.checkpoint.interference,
    )
    again = lost
    for part in parts.values():
        again = again - part
    return {"lost work": again, **parts}


PROPORTIONAL = ("run_time", "run_cost", "energy", "emissions")  # to the wall time


def run_band(
    inputs: TrainingInputs, run: RunInputs, block: Block, run_figures: RunFigures, spreads: tuple[Number, Number]
) -> dict[str, Number]:
    """P10 and P90 of goodput and of dependent results, from the bands of failures, restarts and step time.

    spreads: of the step time, towards faster and towards slower steps

    The checkpoint interval is the one for the expected failure rate, since a run sets it before the rate is known.
    """
    columns: dict[str, Number] = {}
    ends: dict[str, Number] = {}
    others: tuple[tuple[str, Ends], ...] = (("low", "high"), ("high", "low"))
    with term("band of the run"), np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for end, other in others:
            by_rate = goodput(inputs, run, block, run_figures.saved, run_figures.at, ends=other)
            by_start = goodput(inputs, run, block, run_figures.saved, run_figures.at, start=other)
            ends[end] = combined_error(
                end_spread(run_figures.goodput, by_rate), end_spread(run_figures.goodput, by_start)
            )
        columns["goodput_low"] = tenth_percentile(run_figures.goodput, ends["low"])
        columns["goodput_high"] = np.minimum(ninetieth_percentile(run_figures.goodput, ends["high"]), 1.0)
        slow, fast = combined_error(spreads[1], ends["low"]), combined_error(spreads[0], ends["high"])
        for name in PROPORTIONAL:
            columns[f"{name}_low"] = tenth_percentile(run_figures.columns[name], fast)
            columns[f"{name}_high"] = ninetieth_percentile(run_figures.columns[name], slow)
        columns["mtbf_low"], columns["mtbf_high"] = mtbf(inputs, run, "high"), mtbf(inputs, run, "low")
    return columns
