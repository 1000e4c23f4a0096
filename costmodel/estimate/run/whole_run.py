"""The whole run of a block of plans: goodput, wall time, cost, energy and emissions around the time of a step."""

from __future__ import annotations

import math

import numpy as np

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
    expected_interruptions,
    restart_share,
    spare_nodes,
    steps_time,
    wall_time,
)
from costmodel.equations.run.uncertainty import combined_error, end_spread, ninetieth_percentile, tenth_percentile
from costmodel.estimate.machine.node_power import usual_power
from costmodel.estimate.machine.price import price_per_server, servers_of
from costmodel.estimate.run.checkpoint import Checkpoint, checkpoint
from costmodel.estimate.run.goodput import Cycle, Ends, between_failures, cycle, goodput, mtbf, restart_time
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.run_inputs import RunInputs
from costmodel.estimate.training.time.straggler_time import used_share
from costmodel.estimate.training.training_inputs import TrainingInputs, mean_of_groups
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.record import record

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
    """Step time, longer if the data loader or the data store cannot keep up.

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
    """Figures of the run with this step time, where so many models are saved together.

    read: tokens that a step reads, if not all that it trains on
    """
    each = fed(inputs, run, time, read)
    saved, between = checkpoint(inputs, run, block, models), mtbf(inputs, run)
    at = cycle(inputs, run, saved, each)
    useful = goodput(inputs, run, block, saved, at)
    steps, used = steps_of(inputs, run), used_share(block)
    if used is not None and run.steps is None:
        with term("steps"):
            steps = steps / used
    stepping = steps_time(steps, each, 1.0)
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
        "run_cost": _cost(inputs, run, block, wall, price),
    }
    still = idle_shares(run, restart, between)
    idle = still["restarts"] + still["planned stops"]
    columns["energy"] = known_as("energy", energy(inputs, run, wall, idle))
    columns["emissions"] = emissions(columns["energy"], run.power.intensity)
    return RunFigures(
        saved, at, between, restart, useful, steps, stepping, expected_interruptions(wall, between), columns
    )


def _cost(inputs: TrainingInputs, run: RunInputs, block: Block, wall: Number, price: Number) -> Number:
    """Rent of the job's nodes, of spare nodes, and of parameter servers."""
    with term("rented"):
        ranks = inputs.all_ranks
        if run.spares:
            ranks = ranks + spares_of(inputs, run) * inputs.case.node.accelerators
    cost = run_cost(wall, ranks, price if run.spot is None else run.spot.price)
    servers = servers_of(block.structure.sync)
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
    """Spare nodes that replace the nodes in repair for the stated share of the time, else for 99 %.

    Not a number where no repair time is known.
    """
    if run.failures.repair is None:
        return math.nan
    with term("nodes in repair"):
        down = expected_interruptions(run.failures.repair, between_failures(inputs, run, ends))
    return spare_nodes(down, run.spares if 0 < run.spares < 1 else COVERED)


def idle_shares(run: RunInputs, found_restart: Number, between: Number) -> dict[str, Number]:
    """Shares of the wall time without training: restarts, evaluation and planned stops; evaluation uses the machine."""
    planned: Number = 0.0 if run.planned is None else run.planned.stop / run.planned.every
    evaluation = run.evaluation * (1.0 - planned)
    alone = (1.0 - planned - evaluation) * restart_share(found_restart, between)
    return {"restarts": alone, "evaluation": evaluation, "planned stops": planned}


def shares(run: RunInputs, found: RunFigures) -> dict[str, Number]:
    """Shares of the wall time lost, by cause; one share for failures and checkpoints if they cannot be separated."""
    lost = 1.0 - found.goodput
    parts = idle_shares(run, found.restart, found.mtbf)
    if run.elastic or run.spot or run.restart.ranks or run.checkpoint.mode == "memory":
        others = {name: parts[name] for name in ("evaluation", "planned stops")}
        return {"failures and checkpoints": lost - others["evaluation"] - others["planned stops"], **others}
    parts["checkpoints"] = checkpoint_share(
        found.goodput, found.at.interval, found.saved.blocking, found.saved.background, run.checkpoint.interference
    )
    again = lost
    for part in parts.values():
        again = again - part
    return {"work done again": again, **parts}


PROPORTIONAL = ("run_time", "run_cost", "energy", "emissions")  # to the wall time


def run_band(
    inputs: TrainingInputs, run: RunInputs, block: Block, found: RunFigures, spreads: tuple[Number, Number]
) -> dict[str, Number]:
    """P10 and P90 of goodput and of dependent results, from the bands of failures, restarts and step time.

    spreads: of the step, towards faster and towards slower

    The interval is the one for the expected rate: a run sets it before it knows.
    """
    columns: dict[str, Number] = {}
    ends: dict[str, Number] = {}
    others: tuple[tuple[str, Ends], ...] = (("low", "high"), ("high", "low"))
    with term("band of the run"), np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for end, other in others:
            by_rate = goodput(inputs, run, block, found.saved, found.at, ends=other)
            by_start = goodput(inputs, run, block, found.saved, found.at, start=other)
            ends[end] = combined_error(end_spread(found.goodput, by_rate), end_spread(found.goodput, by_start))
        columns["goodput_low"] = tenth_percentile(found.goodput, ends["low"])
        columns["goodput_high"] = np.minimum(ninetieth_percentile(found.goodput, ends["high"]), 1.0)
        slow, fast = combined_error(spreads[1], ends["low"]), combined_error(spreads[0], ends["high"])
        for name in PROPORTIONAL:
            columns[f"{name}_low"] = tenth_percentile(found.columns[name], fast)
            columns[f"{name}_high"] = ninetieth_percentile(found.columns[name], slow)
        columns["mtbf_low"], columns["mtbf_high"] = mtbf(inputs, run, "high"), mtbf(inputs, run, "low")
    return columns
