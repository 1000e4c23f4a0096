"""Share of the wall time that is useful: interruptions, checkpoints, restarts, preemptions, planned stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.parallelism.counts import data_parallel_degree
from costmodel.equations.run.checkpoints import (
    best_interval,
    checkpoint_goodput,
    reshard_time,
    steps_between_checkpoints,
    two_level_goodput,
)
from costmodel.equations.run.failures import (
    elastic_goodput,
    fewer_replicas_speed,
    mean_time_between_interruptions,
    noticed_goodput,
    planned_share,
    resharded_goodput,
    run_goodput,
)
from costmodel.estimate.machine.node_in_use import interface_rate
from costmodel.estimate.run.checkpoint import Checkpoint
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.run_inputs import RunInputs
from costmodel.estimate.training.failed_node import replicas_lost, replicas_of_the_job
from costmodel.estimate.training.plan_constraints import micro_batches
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.schemas.run import Spot

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
        between = np.where(_noticed(run.spot, saved), between, surprised)
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
    """Time from the end of a checkpoint's write until the next one begins; negative if they overlap."""
    taken = run.checkpoint.interference * saved.background
    return interval + saved.blocking + taken - saved.background


def _with_failures(
    inputs: TrainingInputs, run: RunInputs, block: Block, saved: Checkpoint, at: Cycle, between: Number, start: Ends
) -> Number:
    """Useful share of the time, with this mean time between interruptions."""
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


def _noticed(spot: Spot, saved: Checkpoint) -> NDArray[np.bool_]:
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
    useful = _with_failures(inputs, run, block, saved, at, between, start)
    if run.spot is not None:
        preempted = between_preemptions(inputs, run.spot)
        save, restart = saved.blocking + saved.background, restart_time(run, saved.load, start)
        noticed = useful * noticed_goodput(save, restart, preempted)
        surprised = _with_failures(inputs, run, block, saved, at, between_both(between, preempted), start)
        useful = np.where(_noticed(run.spot, saved), noticed, surprised)
    planned: Number = 0.0
    if run.planned is not None:
        planned = planned_share(1.0, run.planned.stop, run.planned.every)
    return known_as("goodput", run_goodput(useful, run.evaluation, planned))
