"""One plan of a scenario of reinforcement learning: checked, evaluated, with its band and what was assumed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping

import numpy as np

from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.schemas.base import LEAST_FACTOR, InTokens
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.rl import RlPlan
from costmodel.equations.run.economics import rate, run_cost, share
from costmodel.equations.run.uncertainty import (
    chance_within,
    combined_error,
    end_spread,
    ninetieth_percentile,
    range_spread,
    tenth_percentile,
)
from costmodel.estimate.machine.price import price_per_accelerator
from costmodel.estimate.rl.iteration import Iteration, RlMemory, iteration, rl_memory, update_spread
from costmodel.estimate.rl.rl_inputs import RlInputs, own_plan, rl_inputs, unknown_draws
from costmodel.estimate.rl.trainer_steps import TrainerSteps
from costmodel.estimate.run.whole_run import RunFigures, whole_run
from costmodel.estimate.serving.constraints import unused_serving_keys
from costmodel.estimate.serving.measured_spreads import spreads
from costmodel.estimate.serving.predict_serving import remarks
from costmodel.estimate.shared.assumptions import unused_keys
from costmodel.estimate.shared.results import number, stated_limits
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training.unused_training_keys import unused_training_keys
from costmodel.estimate.training_answer.predict_training import ENDLESS, withheld
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.record import record


@record
class RlAnswer:
    """One evaluated plan, with its assumptions and the reasons against it."""

    inputs: RlInputs
    memory: RlMemory
    iteration: Iteration
    run: RunFigures | None
    costs: dict[str, float]
    assumed: tuple[Assumption, ...]
    refused: tuple[str, ...]
    broken: tuple[str, ...]
    remarked: tuple[str, ...]

    @property
    def works(self) -> bool:
        """Whether the plan is valid, fits in memory and meets its limits."""
        return not (self.refused or self.broken)


def predict(case: RlCase, steps: TrainerSteps | None = None, *, bands: bool = True) -> RlAnswer:
    """Time, memory and cost of an iteration under the scenario's own plan.

    Raises:
        CostModelError: the scenario has no plan, or asks for what is not modelled
    """
    return answer(case, own_plan(case), steps, bands=bands)


def answer(case: RlCase, plan: RlPlan, steps: TrainerSteps | None = None, *, bands: bool = True) -> RlAnswer:
    """One plan, checked and evaluated; the figures of an invalid plan are meaningless.

    steps: optimizer steps that are already evaluated, for several answers to share
    bands: whether the answer has error bands, remarks and assumptions
    """
    inputs = rl_inputs(case, plan, steps, bands=bands)
    refused = (*_refusal_codes(inputs), *inputs.trainer.refused, *inputs.engine_refused)
    with np.errstate(all="ignore"):
        memory = _memory(inputs)
        memory = dataclasses.replace(
            memory, spread=update_spread(inputs.fullest, _beside_policy(inputs), memory.updating)
        )
        found, run, results = evaluate(inputs, memory, valid=not refused, bands=bands)
    costs = {name: number(value) for name, value in results.items()}
    broken = tuple(dict.fromkeys(_broken_limits(inputs, costs, 0)))
    costs = withheld(costs, broken)
    if not bands:
        return RlAnswer(inputs, memory, found.plain, run, costs, (), refused, () if refused else broken, ())
    idle = unused_keys(inputs.case, _unused_keys(inputs))
    of_parts = {*inputs.trainer.remarked, *(() if inputs.engines is None else remarks(inputs.engines.inputs))}
    remarked = (*(code for code in _OF_PARTS if code in of_parts), *(("N051",) if idle else ()))
    if inputs.engines is not None and unknown_draws(case) > 1:
        remarked = (*remarked, "N057")
    assumed = (*idle, *inputs.assumed)
    return RlAnswer(inputs, memory, found.plain, run, costs, assumed, refused, () if refused else broken, remarked)


def row_results(case: RlCase, result: str, rows: int) -> list[float]:
    """One result of the scenario's own plan for many variants, whose numbers are columns of its documents.

    Raises:
        ValueError: a whole run, or nodes of several kinds
    """
    if case.scenario.run is not None or case.parts:
        raise ValueError("a whole run, or nodes of several kinds, cannot be evaluated as one batch of rows")
    with np.errstate(all="ignore"):
        inputs = rl_inputs(case, own_plan(case), bands=False, rows=rows)
        memory = [_memory(inputs, row) for row in range(rows)]
        peak, usable, moved = (np.array([getattr(one, name) for one in memory]) for name in ("peak", "usable", "moved"))
        results = _result_columns(
            inputs, {"memory_peak": peak, "memory_share": share(peak, usable)}, iteration(inputs, moved), None
        )
    columns = {name: np.broadcast_to(np.asarray(value, np.float64), (rows,)) for name, value in results.items()}
    costs = [{name: float(column[row]) for name, column in columns.items()} for row in range(rows)]
    return [withheld(each, {*_broken_limits(inputs, each, row)})[result] for row, each in enumerate(costs)]


def _memory(inputs: RlInputs, row: int = 0) -> RlMemory:
    """The memory breakdown of a row, without its spread."""
    sleeps, colocated = inputs.case.stack.sharing.sleeps, inputs.split.colocated
    further = {"offload": inputs.offload, "sleeps": sleeps, "colocated": colocated}
    return rl_memory(inputs.fullest, inputs.engines, _beside_policy(inputs), apart=inputs.apart, **further, row=row)


def _beside_policy(inputs: RlInputs) -> dict[str, bool]:
    """Which of critic, reference and reward model share the trainer's accelerators."""
    elsewhere = (*inputs.apart, *inputs.on_host)
    return {name: held and name not in elsewhere for name, held in inputs.models.items()}


def evaluate(
    inputs: RlInputs, memory: RlMemory, *, valid: bool, bands: bool = True
) -> tuple[Iteration, RunFigures | None, dict[str, Number]]:
    """An iteration, the run of a valid plan, and all results by name, with bands on request."""
    found = iteration(inputs, memory.moved)
    run = _run_figures(inputs, number(found.total)) if valid else None
    held = {"memory_peak": memory.peak, "memory_share": share(memory.peak, memory.usable)}
    results = _result_columns(inputs, held | {"fit_chance": _fit_chance(memory)}, found, run)
    return found, run, results | _band_columns(inputs, found, results) if bands else results


_OF_PARTS = ("N005", "N040", "N056")  # remarks on the trainer or on engines that hold for the iteration
_OF_ENGINES = ("stack.rollout", "stack.sync", "stack.host", "stack.spread.generation", *(
    f"stack.sharing.{name}" for name in ("memory", "sleeps", "offload")))  # fmt: skip
_SHARED_PROMPTS = "stack.prefix_cache"  # answers to one prompt share it, and the load of engines has what remains


def _unused_keys(inputs: RlInputs) -> Iterator[tuple[str, str]]:
    """Keys of the trainer and of the engines without effect, by their paths in the scenario."""
    trainer = inputs.trainer
    for path, reason in unused_training_keys(trainer.inputs, trainer.evaluation.block):
        yield path.replace("stack.", "stack.trainer.", 1), reason.replace("stack.", "stack.trainer.")
    if inputs.engines is None:
        yield from dict.fromkeys(_OF_ENGINES, f"{inputs.case.scenario.workload.algorithm} generates nothing").items()
    else:
        workload = inputs.case.scenario.workload
        if workload.rollouts != "batch":
            yield "workload.wave", f"rollouts {workload.rollouts} draw prompts one by one"
        if workload.rollout_precision in (None, workload.precision):
            yield "stack.sync.converted", "engines read the type that is trained"
        for key, model in (("critic", "critic"), ("reference", "reference"), ("reward", "reward model")):
            if getattr(inputs.plan.beside, key) is not None and not inputs.models[model]:
                yield f"plan.beside.{key}", f"there is no {model}"
        if inputs.split.colocated:
            yield "stack.sync.apart", "training and generation share their GPUs"
        yield "stack.rollout.memory.preempts", "what rollouts compute again in a full cache is not predicted"
        for path, reason in unused_serving_keys(inputs.engines.inputs, [inputs.engines.layout]):
            if path.startswith("stack.") and path != _SHARED_PROMPTS:
                reason = reason.replace("stack.", "stack.rollout.").replace("plan.", "plan.rollout.")
                yield path.replace("stack.", "stack.rollout.", 1), reason


def _refusal_codes(inputs: RlInputs) -> Iterator[str]:
    """Codes for options that the software does not offer, and for ranks that the cluster does not have."""
    workload, stack, rollout = inputs.case.scenario.workload, inputs.case.stack, inputs.plan.rollout
    if not inputs.split.possible:
        yield "R010"
    if workload.algorithm not in stack.algorithms:
        yield "R011"
    if workload.generates and workload.rollouts not in stack.rollouts:
        yield "R012"
    if not inputs.split.colocated and not stack.apart:
        yield "R019"
    if not workload.generates and rollout.model_dump(exclude_defaults=True):
        yield "R014"
    if workload.staleness and inputs.split.colocated and workload.rollouts == "batch":
        yield "R016"
    if inputs.plan.sites is not None:
        yield "R017"
    if not isinstance(inputs.plan.micro_batch, InTokens) and inputs.plan.micro_batch > inputs.answers_of_rank:
        yield "R018"


def _broken_limits(inputs: RlInputs, costs: dict[str, float], row: int) -> Iterator[str]:
    """Codes of the limits that the plan of one row breaks, memory first."""
    if costs["memory_share"] > 1:
        yield "M001"
    if inputs.trainer.evaluation.costs.row(row)["host_share"] > 1:
        yield "M003"
    if costs.get("goodput", 1.0) < LEAST_FACTOR:
        yield ENDLESS
    for limit in stated_limits(inputs.case.scenario.limits):
        if not limit.holds(costs.get(limit.column, math.nan)):
            yield "M002" if limit.of_memory else "T001"


def _result_columns(
    inputs: RlInputs, memory: Mapping[str, Number], found: Iteration, run: RunFigures | None
) -> dict[str, Number]:
    """All results by name, with those of memory."""
    workload, split, phases = inputs.case.scenario.workload, inputs.split, found.phases
    price, total = price_per_accelerator(inputs.case), known_as("iteration_time", found.total)
    with term("tokens"):
        tokens = workload.answers * inputs.lengths.tokens
    costs: dict[str, Number] = {
        "iteration_time": total,
        **phases,
        "tail": found.generated.tail,
        "overlapped": found.hidden,
        "generation_share": share(phases["generation"], total + found.hidden),
        "longest": found.generated.longest,
        "answers_per_s": rate(workload.answers, total),
        "tokens_per_s_per_gpu": rate(share(tokens, split.ranks), total),
        "rollout_ranks": split.rollout.ranks if workload.generates else 0.0,
        "training_ranks": split.trainer.ranks,
        **memory,
        "iteration_cost": run_cost(total, split.ranks, price),
    }
    whole = math.nan if workload.iterations is None else workload.iterations * total
    costs |= {"run_time": whole, "run_cost": run_cost(whole, split.ranks, price)}
    if run is not None:
        costs |= run.columns
    return costs


def _band_columns(inputs: RlInputs, found: Iteration, results: dict[str, Number]) -> dict[str, Number]:
    """The P10 and P90 of each result that has an error band."""
    ends = dict[str, Number]()
    early, late = (_time_spread(inputs, found, end) for end in ("low", "high"))
    for name in ("iteration_time", "run_time", "run_cost"):
        ends[f"{name}_low"] = tenth_percentile(results[name], early)
        ends[f"{name}_high"] = ninetieth_percentile(results[name], late)
    return ends


def _fit_chance(memory: RlMemory) -> Number:
    """Chance that an update fits in memory; engines claim a fixed share, which fits or does not."""
    if memory.generating > memory.engine_usable:
        return 0.0
    with term("memory of an update"):
        return chance_within(max(memory.updating, 1.0), memory.trainer_usable, memory.spread)


def _time_spread(inputs: RlInputs, found: Iteration, end: str) -> Number:
    """Relative spread of an iteration's time towards one end, from errors of training, generation and lengths."""
    both = combined_error(*phase_errors(inputs, found, end).values())
    return combined_error(both, inputs.case.stack.spread.lengths)


def phase_errors(inputs: RlInputs, found: Iteration, end: str) -> dict[str, Number]:
    """Relative errors of training and of generation, each weighted by its share of their time."""
    spread, step = inputs.case.stack.spread, inputs.trainer.evaluation.costs.row()
    trained = combined_error(end_spread(step["step_time"], step[f"step_time_{end}"]), spread.update)
    generated: Number = 0.0
    if inputs.engines is not None:
        steps = spreads(inputs.engines.inputs)
        generated = combined_error(steps.earlier if end == "low" else steps.later, spread.generation)
        if end == "high" and (more := unknown_draws(inputs.case)) > 1:
            generated = combined_error(generated, range_spread(1.0, more))
    return _weighted_spreads(found, trained, generated)


def own_errors(inputs: RlInputs, found: Iteration) -> dict[str, Number]:
    """The part of the phase errors that differs between plans on the same machine and software."""
    generated = 0.0 if inputs.engines is None else spreads(inputs.engines.inputs).token
    return _weighted_spreads(found, inputs.trainer.inputs.stack.spread.step, generated)


def _weighted_spreads(found: Iteration, trained: Number, generated: Number) -> dict[str, Number]:
    """Spread of training and of generation, each weighted by its share of an iteration's time."""
    whole = found.training + found.phases["generation"]
    parts = {"training": trained * found.training, "generation": generated * found.phases["generation"]}
    return {name: share(part, whole) for name, part in parts.items()}


def _run_figures(inputs: RlInputs, total: float) -> RunFigures | None:
    """Time, cost and failures of all iterations of `total` seconds each; None if no run is asked for."""
    trainer, run = inputs.trainer.inputs, inputs.trainer.inputs.run
    if run is None:
        return None
    asked = dataclasses.replace(run, steps=run.steps or inputs.case.scenario.workload.iterations or math.nan)
    everywhere = on_all_nodes(inputs, trainer)
    price = price_per_accelerator(inputs.case)
    models = 2.0 if inputs.models["critic"] else 1.0
    return whole_run(
        everywhere, asked, inputs.trainer.evaluation.block, np.array([total]), price, models, _tokens_read(inputs)
    )


def _tokens_read(inputs: RlInputs) -> Number:
    """Tokens that an iteration reads from storage: prompts, and answers if they are given."""
    workload, lengths = inputs.case.scenario.workload, inputs.lengths
    with term("tokens read"):
        if workload.generates:
            return workload.prompts * lengths.prompt
        return workload.answers * lengths.tokens


def on_all_nodes(inputs: RlInputs, trainer: TrainingInputs) -> TrainingInputs:
    """The trainer's inputs with the cluster of the whole job: any of its nodes may fail, and all are rented."""
    case = trainer.case
    scenario = case.scenario.model_copy(update={"cluster": inputs.case.cluster})
    whole = dataclasses.replace(case, scenario=scenario, node=inputs.case.node)
    return dataclasses.replace(trainer, case=whole, nodes=inputs.case.cluster.nodes)
