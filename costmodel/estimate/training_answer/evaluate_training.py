"""Evaluates a scenario and a batch of plans to columns of costs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.default_values import SAFE
from costmodel.documents.schemas.results import OF_RUN, OF_STEP
from costmodel.equations.run.economics import (
    communication_efficiency,
    compute_rate,
    flop_utilisation,
    rate,
    run_cost,
    run_time,
    share,
    token_cost,
    tokens_per_step,
)
from costmodel.estimate.machine.price import parameter_servers_of, price_of, price_per_accelerator, price_per_server
from costmodel.estimate.shared.plan_batch import added, summed
from costmodel.estimate.shared.results import Costs
from costmodel.estimate.training.flop_count import flop_of_step
from costmodel.estimate.training.memory_breakdown import Ledger, fit_chance, ledger, states_alone
from costmodel.estimate.training.parallelism.pipeline import StageLayers, stage_layers
from costmodel.estimate.training.plan_constraints import micro_batches
from costmodel.estimate.training.saved_activations import page_time
from costmodel.estimate.training.stage_parameters import stage_parameters
from costmodel.estimate.training.stage_time import used_sample_share
from costmodel.estimate.training.training_inputs import TrainingInputs, mean_of_groups
from costmodel.estimate.training.training_step import TERMS, TrainingStep, least_time, training_step, with_sites
from costmodel.ground.counts import EXCHANGING
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.record import record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from costmodel.estimate.run.whole_run import RunFigures
    from costmodel.estimate.shared.plan_batch import Block, Mask
    from costmodel.estimate.training.training_inputs import TrainingInputs

FITS, TIGHT = 0.90, 1.00


@record
class Evaluation:
    """Results of a block of plans, with the memory breakdown and the step that they are computed from."""

    block: Block
    costs: Costs
    ledger: Ledger
    step: TrainingStep
    run: RunFigures | None = None


def verdict(memory_share: float) -> str:
    """The verdict on memory: "fits" up to 90 % of usable memory, "tight" up to all of it, else "does not fit"."""
    return "fits" if memory_share <= FITS else "tight" if memory_share <= TIGHT else "does not fit"


def fits_at_p90(costs: Mapping[str, float]) -> bool:
    """Whether the P90 of the peak fits in usable memory, and offloaded bytes fit on the host with enough chance.

    >>> fits_at_p90({"memory_peak": 60.0, "memory_share": 0.75, "memory_peak_high": 81.0})
    False
    """
    usable = share(costs["memory_peak"], costs["memory_share"])
    on_host = costs.get("host_memory", 0.0) > 0 and costs.get("fit_chance", 1.0) < SAFE
    return costs["memory_peak_high"] <= float(usable) and not on_host


def over_peak(costs: Costs) -> Mask:
    """Plans whose FLOP/s exceed the peak that MFU refers to."""
    return np.asarray((costs.column("mfu") > 1) | (costs.column("hfu") > 1))


def missing_input(inputs: TrainingInputs, column: str) -> str:
    """The input to set for an unknown result; empty for a known result."""
    wanted, run = [], inputs.run
    column = column.removesuffix("_low").removesuffix("_high")
    if run is None and column in OF_RUN and column not in OF_STEP:
        wanted.append("run, e.g. {} for all that is usual")
    priced = price_of(inputs.case).known or (run is not None and run.spot is not None and column == "run_cost")
    if column in ("cost_per_mtoken", "run_cost") and not priced:
        wanted.append("assume.price, e.g. 2.50 USD/GPU/h")
    budget, drawn = inputs.case.scenario.workload.tokens or math.nan, 0.0
    if run is not None:
        from costmodel.estimate.run.whole_run import power, steps_of

        budget, drawn = float(steps_of(inputs, run)), float(power(inputs, run))
    if column in OF_BUDGET and math.isnan(budget):
        wanted.append("workload.tokens, e.g. 15 T")
    if column in ("energy", "emissions") and math.isnan(drawn):
        wanted.append("run.power.draw, e.g. 970 W")
    return f"set {' and '.join(wanted)}" if wanted else ""


OF_BUDGET = ("run_time", "run_cost", "energy", "emissions")


# The columns that add up to the step, by its terms.
TERM_COLUMNS = {name: f"{name}_exposed" if name in (*EXCHANGING, "offload") else name for name in TERMS}


def evaluate(inputs: TrainingInputs, block: Block) -> Evaluation:
    """Time, memory, communication and cost of every row of a block."""
    if inputs.groups:
        return _evaluate_groups(inputs, block)
    return _evaluate_one_kind(inputs, block, micro_batches(inputs, block))


def memory_of(inputs: TrainingInputs, block: Block) -> Ledger:
    """The memory breakdown for every row of a block; times are not computed."""
    return evaluate(inputs, block).ledger if inputs.groups else memory_of_one_kind(inputs, block)


def memory_costs(inputs: TrainingInputs, block: Block) -> Costs:
    """The results on memory of plans on accelerators of one kind; times are not computed."""
    return Costs(_memory_columns(inputs, memory_of_one_kind(inputs, block)), len(block))


def _memory_columns(inputs: TrainingInputs, memory: Ledger) -> dict[str, Number]:
    """The peak of memory, its share, what is left, and the chance to fit; and the memory of the host."""
    return {
        "memory_peak": memory.worst,
        "memory_share": share(memory.bound, inputs.usable_memory),
        "memory_free": inputs.usable_memory - memory.worst,
        "fit_chance": fit_chance(inputs, memory),
        "host_memory": memory.host[0],
        "host_share": memory.host[1],
    }


def best_case(inputs: TrainingInputs, block: Block, objective: str) -> NDArray[np.float64]:
    """Bounds of a result of time that no plan of a block beats, from the least time of its pipeline."""
    time = least_time(inputs, block, stage_layers(inputs.model, block), micro_batches(inputs, block))
    return _result_of_time(inputs, block, time, objective)


def reached(inputs: TrainingInputs, block: Block, objective: str) -> NDArray[np.float64]:
    """A result of time of every row of a block, whose memory is not looked at."""
    return _result_of_time(inputs, block, step_of(inputs, block).total, objective)


def _result_of_time(inputs: TrainingInputs, block: Block, time: Number, objective: str) -> NDArray[np.float64]:
    """The result of plans whose steps take this time."""
    found = {"step_time": time} if objective == "step_time" else throughput(inputs, block, time)
    return Costs(found, len(block)).column(objective)


def memory_of_one_kind(inputs: TrainingInputs, block: Block) -> Ledger:
    """The memory breakdown for every row of a block on accelerators of one kind."""
    layers = stage_layers(inputs.model, block)
    return ledger(inputs, block, layers, stage_parameters(inputs, block, layers), micro_batches(inputs, block))


def step_of(inputs: TrainingInputs, block: Block) -> TrainingStep:
    """The step time of every row of a block, without costs; without memory unless optimizer states are paged."""
    if inputs.groups or inputs.optimizer.paged:
        return evaluate(inputs, block).step
    layers = stage_layers(inputs.model, block)
    parameters = stage_parameters(inputs, block, layers)
    return with_sites(inputs, block, training_step(inputs, block, layers, parameters, micro_batches(inputs, block)))


def memory_shares(inputs: TrainingInputs, block: Block) -> NDArray[np.float64]:
    """The share of the usable memory that every row of a block takes."""
    if inputs.groups:
        return evaluate(inputs, block).costs.column("memory_share")
    shares = share(memory_of(inputs, block).bound, inputs.usable_memory)
    return Costs({"memory_share": shares}, len(block)).column("memory_share")


def one_fits(inputs: TrainingInputs, block: Block, counts: Mask) -> bool:
    """Whether one of these rows of a block fits; of rows whose states alone do not, nothing else is evaluated."""
    if not (inputs.groups or inputs.optimizer.paged):
        layers = stage_layers(inputs.model, block)
        least = states_alone(inputs, block, layers, stage_parameters(inputs, block, layers))
        alone = Costs({"states": least}, len(block)).column("states")
        if np.all(alone[counts] > inputs.usable_memory):
            return False
    return bool(np.any(counts & (memory_shares(inputs, block) <= 1)))


def _evaluate_groups(inputs: TrainingInputs, block: Block) -> Evaluation:
    """Evaluates plans on nodes of several kinds: a step ends when its slowest kind of nodes ends."""
    from costmodel.estimate.training.unequal_nodes import results_of_slowest

    each = _over_groups(inputs, block) if block.structure.shares == "stages" else _evaluate_groups_apart(inputs, block)
    columns = results_of_slowest([found.costs.columns for found in each])
    columns |= throughput(inputs, block, columns["step_time"]) | cost_columns(inputs, block, columns["tokens_per_s"])
    latest, fullest = (
        max(each, key=lambda found: float(found.costs.column(name)[0])) for name in ("step_time", "memory_share")
    )
    run = _whole_run(inputs, block, columns["step_time"])
    columns |= {} if run is None else run.columns
    return Evaluation(block, Costs(columns, len(block)), fullest.ledger, latest.step, run)


def _evaluate_groups_apart(inputs: TrainingInputs, block: Block) -> list[Evaluation]:
    """One evaluation per kind of node if each replica lies on nodes of one kind."""
    from costmodel.estimate.training.unequal_nodes import micro_batches_of_groups

    shares = micro_batches_of_groups(inputs, block)
    return [_evaluate_one_kind(kind, block, count) for (_, kind), count in zip(inputs.groups, shares, strict=True)]


def _over_groups(inputs: TrainingInputs, block: Block) -> list[Evaluation]:
    """One evaluation per kind of node if pipelines span all kinds."""
    from costmodel.estimate.training.unequal_nodes import inputs_over_stages, kinds_of_stages

    count = micro_batches(inputs, block)
    across = inputs_over_stages(inputs)
    kinds = kinds_of_stages(across, block, count)
    evaluations = []
    for (_, kind), found in zip(across.groups, kinds, strict=True):
        evaluation = _evaluate_one_kind(kind, block, count, found.timed, found.held)
        evaluations.append(replace(evaluation, ledger=replace(evaluation.ledger, own=found.own)))
    return evaluations


def _evaluate_one_kind(
    inputs: TrainingInputs,
    block: Block,
    count: Number,
    layers: StageLayers | None = None,
    held: StageLayers | None = None,
) -> Evaluation:
    """Evaluates plans on nodes of one kind, with this number of micro-batches per replica.

    layers: of each rank, for the time. held: for the memory, if the model is split differently from the plan
    """
    layers = layers or stage_layers(inputs.model, block)
    parameters = stage_parameters(inputs, block, layers)
    memory = ledger(inputs, block, held or layers, stage_parameters(inputs, block, held) if held else parameters, count)
    step = with_pages(inputs, training_step(inputs, block, layers, parameters, count), memory.paged)
    step = with_sites(inputs, block, step)
    bubble = known_as("bubble", step.terms["bubble"])
    columns: dict[str, Number] = {"step_time": step.total, **throughput(inputs, block, step.total)}
    columns |= {TERM_COLUMNS[name]: time for name, time in step.terms.items()}
    columns["bubble_share"] = share(bubble, step.total)
    columns |= _memory_columns(inputs, memory) | _volumes_sent(step)
    exposed = added(step.terms, EXCHANGING)
    columns["communication_efficiency"] = communication_efficiency(step.compute, exposed)
    columns["scaling_efficiency"] = share(step.total - exposed - bubble, step.total)
    columns |= cost_columns(inputs, block, columns["tokens_per_s"])
    run = _whole_run(inputs, block, step.total)
    columns |= {} if run is None else run.columns
    return Evaluation(block, Costs(columns, len(block)), memory, step, run)


def _whole_run(inputs: TrainingInputs, block: Block, step_time: Number) -> RunFigures | None:
    """Figures of a whole run with this step time; None if the scenario has no run."""
    if inputs.run is None:
        return None
    from costmodel.estimate.run.whole_run import whole_run

    return whole_run(inputs, inputs.run, block, step_time, price_per_accelerator(inputs.case))


def throughput(inputs: TrainingInputs, block: Block, time: Number) -> dict[str, Number]:
    """Tokens and FLOP per second of a job whose step takes `time` seconds."""
    ranks = inputs.ranks
    flop = flop_of_step(inputs, block)
    step, model, executed = tokens_per_step(inputs.global_batch, inputs.sequence), flop.model, flop.executed
    used = used_sample_share(block)
    if used is not None:
        with term("samples in time"):
            step, model, executed = (used * each for each in (step, model, executed))
    if inputs.sites is not None:
        with term("all sites"):
            step = inputs.sites.count * step
            model, executed, ranks = (inputs.sites.count * each for each in (model, executed, ranks))
    tokens, peak = rate(step, time), mean_of_groups(inputs, lambda kind: kind.rates.mfu_peak)
    return {
        "tokens_per_s": tokens,
        "tokens_per_s_per_gpu": tokens / ranks,
        "flop_rate": compute_rate(model, time, ranks),
        "mfu": flop_utilisation(model, time, ranks, peak),
        "hfu": flop_utilisation(executed, time, ranks, peak),
    }


def _volumes_sent(step: TrainingStep) -> dict[str, Number]:
    """Bytes that a rank sends in a step, by parallel axis."""
    volumes: dict[str, Number] = {f"{axis}_volume": 0.0 for axis in EXCHANGING}
    for transfer in step.transfers:
        name = f"{transfer.axis}_volume"
        with term(f"{transfer.group.name} {transfer.operation}"):
            volumes[name] = summed(volumes[name], transfer.volume)
    return volumes


def cost_columns(inputs: TrainingInputs, block: Block, tokens_per_s: Number) -> dict[str, Number]:
    """Rent per million tokens with parameter servers, and time and rent of the token budget, at a token rate."""
    price, ranks = price_per_accelerator(inputs.case), inputs.all_ranks
    servers, server_price = parameter_servers_of(block.structure.sync), price_per_server(inputs.case)
    budget = inputs.case.scenario.workload.tokens
    cost = token_cost(1e6, ranks, price, tokens_per_s)
    if servers:
        with term("servers"):
            cost = cost + token_cost(1e6, servers, server_price, tokens_per_s)
    rent: dict[str, Number] = {"cost_per_mtoken": cost}
    if budget is None:
        return rent | {"run_time": math.nan, "run_cost": math.nan}
    duration = run_time(budget, tokens_per_s)
    whole = run_cost(duration, ranks, price)
    if servers:
        with term("servers"):
            whole = whole + run_cost(duration, servers, server_price)
    return rent | {"run_time": duration, "run_cost": whole}


# --- pages of optimizer states that a step fetches from the host and returns


def with_pages(inputs: TrainingInputs, step: TrainingStep, paged: Number) -> TrainingStep:
    """A step with the time to transfer this many paged bytes, none of it hidden."""
    if not inputs.optimizer.paged:
        return step
    terms = step.terms | {"offload": summed(step.terms["offload"], page_time(inputs, paged))}
    return replace(step, terms=terms, total=known_as("step_time", added(terms, TERMS)))
