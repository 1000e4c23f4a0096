"""Predicts a training scenario: its own plan, limits that it breaks, and results that are withheld."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from costmodel.documents.schemas.base import LEAST_FACTOR
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.results import is_money, is_of_run
from costmodel.equations.parallelism.counts import data_parallel_degree
from costmodel.estimate.machine.price import parameter_servers_of
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.assumptions import converted, relevant_assumptions, unused_keys
from costmodel.estimate.shared.fit_ranges import outside_assumptions
from costmodel.estimate.shared.plan_batch import Block, Structure, one_row
from costmodel.estimate.shared.results import stated_limits
from costmodel.estimate.training.memory_breakdown import unmeasured_memory
from costmodel.estimate.training.parallelism.data import warm_up
from costmodel.estimate.training.parallelism.pipeline import FOLDED, fewer_at_ends
from costmodel.estimate.training.plan_constraints import refusals, remarks
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.estimate.training.unused_training_keys import unused_training_keys
from costmodel.estimate.training_answer.evaluate_training import Evaluation, evaluate, fits_at_p90, over_peak, verdict
from costmodel.estimate.training_answer.training_error_band import banded, outside_fits, unmeasured_assumptions
from costmodel.ground.counts import SIZES
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record
from costmodel.ground.units import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from costmodel.documents.reader.resolved_scenario import ResolvedScenario
    from costmodel.documents.schemas.scenario import Plan
    from costmodel.estimate.shared.results import Costs
    from costmodel.estimate.shared.run_inputs import RunInputs
    from costmodel.estimate.training.training_inputs import TrainingInputs
    from costmodel.ground.counts import Recompute, Schedule


ENDLESS = "R007"
TOO_LARGE = frozenset({"M001", "M003", "R002"})  # for the machine; all other codes are of limits that the scenario sets
NOT_SAFE = "M004"  # a plan without the chance to fit that a search prefers


def unacceptable(inputs: TrainingInputs, costs: Costs) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Masks of the rows that break each limit, by code; limits of the machine first."""
    yield "M001", costs.column("memory_share") > 1
    yield "M003", costs.column("host_share") > 1
    if inputs.run is not None:
        yield from _broken_run_limits(inputs, inputs.run, costs)
    for limit in stated_limits(inputs.case.scenario.limits):
        code = "M002" if limit.of_memory else "T001"
        yield code, ~limit.kept(costs.column(limit.column))


def _broken_run_limits(inputs: TrainingInputs, run: RunInputs, costs: Costs) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Rows that break a limit of the whole run, by reason code: never ends, saves too slowly, exceeds host memory."""
    yield ENDLESS, ~(costs.column("goodput") >= LEAST_FACTOR)
    if run.checkpoint.mode != "sync":
        write, stop = costs.column("checkpoint_write"), costs.column("checkpoint_blocking")
        period = costs.column("checkpoint_interval") + stop + run.checkpoint.interference * write
        yield "R001", np.asarray(period < write)
    yield "R002", costs.column("checkpoint_host") + costs.column("host_memory") > inputs.host.capacity


T = TypeVar("T")


def withheld(columns: Mapping[str, T], broken: Collection[str]) -> dict[str, T | float]:
    """Results with NaN for those that do not exist in a plan with these reasons against it.

    A plan that is too large for the machine has no costs and no run; a run that never ends has no length.

    >>> withheld({"step_time": 1.0, "cost_per_mtoken": 2.0, "run_time": 3.0}, ["M001"])
    {'step_time': 1.0, 'cost_per_mtoken': nan, 'run_time': nan}
    >>> withheld({"cost_per_mtoken": 2.0, "run_time": 3.0}, ["R007"])
    {'cost_per_mtoken': 2.0, 'run_time': nan}
    """
    starts = TOO_LARGE.isdisjoint(broken)
    ends = starts and ENDLESS not in broken
    return {
        name: math.nan if (not ends and is_of_run(name)) or (not starts and is_money(name)) else value
        for name, value in columns.items()
    }


@record
class Answer:
    """One evaluated plan, with its assumptions and remarks."""

    inputs: TrainingInputs
    plan: Plan
    evaluation: Evaluation
    assumed: tuple[Assumption, ...]
    refused: tuple[str, ...]
    broken: tuple[str, ...]
    remarked: tuple[str, ...]

    @property
    def costs(self) -> dict[str, float]:
        """The results of the plan, with P10 and P90."""
        return self.evaluation.costs.row()


def structure_of(inputs: TrainingInputs, plan: Plan) -> tuple[Structure, tuple[Assumption, ...]]:
    """The choices of a plan; missing ones are the stack's defaults."""
    stack = inputs.stack
    named = f"stacks/{stack.name}"
    schedule: Schedule = plan.schedule or ("interleaved" if plan.vpp > 1 else "1f1b")
    recompute = plan.recompute or _implied_recompute(plan) or stack.recompute[0]
    structure = Structure(
        zero=stack.zero_with(plan.pp)[0] if plan.zero is None else plan.zero,
        recompute=recompute,
        schedule=schedule,
        sequence_parallel=stack.sequence_parallel if plan.sequence_parallel is None else plan.sequence_parallel,
        order=plan.order,
        split="stated" if _states_recompute(plan) else plan.split or "fitting",
        first_stage_layers=plan.first_stage_layers,
        last_stage_layers=plan.last_stage_layers,
        cp_type=plan.cp_type or (stack.context_parallel or ["p2p"])[0],
        recompute_modules=None if plan.recompute_modules is None else tuple(plan.recompute_modules),
        recompute_layers=plan.recompute_layers,
        recompute_method=plan.recompute_method,
        offload=tuple(plan.offload) or stack.offloaded_by_itself(recompute),
        offload_to=plan.offload_to,
        offload_layers=plan.offload_layers,
        compression=" ".join(plan.compression.split()),
        sync=" ".join(plan.sync.split()),
        shares=plan.shares,
    )
    origins = {"schedule": "follows from vpp"}
    if plan.pp > 1 and stack.pipelined_zero is not None:
        origins["zero"] = f"{named}, in a pipeline"
    assumed = tuple(
        Assumption(f"plan.{name}", str(getattr(structure, name)).lower(), origins.get(name, named))
        for name in ("zero", "recompute", "schedule", "sequence_parallel")
        if getattr(plan, name) is None
    )
    return structure, assumed


TIME_OUT = 600.0  # seconds: torch.distributed's default of a process group of NCCL
HALF = 0.5  # judged: a goodput under which the run is remarked on


def _states_recompute(plan: Plan) -> bool:
    """Whether a plan states any choice of recompute."""
    return plan.first_stage_layers is not None or plan.last_stage_layers is not None


def _implied_recompute(plan: Plan) -> Recompute | None:
    """The recompute mode implied by named modules or by a number of layers; None if the plan states neither."""
    if plan.recompute_modules is not None:
        return "selective"
    return "full" if plan.recompute_layers is not None else None


def usual_etp(inputs: TrainingInputs, tp: float) -> float:
    """Default of etp: tp if the stack shards experts over tp, else 1."""
    return tp if inputs.experts is not None and inputs.experts.kernels.cut_as_tp else 1.0


def plan_block(inputs: TrainingInputs, plan: Plan) -> tuple[Block, tuple[Assumption, ...]]:
    """A plan as a block of one row, and the assumptions made for it."""
    structure, assumed = structure_of(inputs, plan)
    ranks = inputs.ranks
    dp = plan.dp if plan.dp is not None else float(data_parallel_degree(ranks, plan.tp, plan.cp, plan.pp))
    sizes = {name: getattr(plan, name) for name in SIZES if name != "dp"}
    if plan.etp is None:
        sizes["etp"] = usual_etp(inputs, plan.tp)
        if inputs.experts is not None and plan.tp > 1:
            assumed = (*assumed, Assumption("plan.etp", f"{sizes['etp']:g}", f"stacks/{inputs.stack.name}"))
    if structure.schedule in FOLDED and "vpp" not in plan.model_fields_set:
        sizes["vpp"] = 2.0
    block = one_row(structure, dp=dp, **sizes)
    return block, (*assumed, *_fitted(inputs, block), *_compression_assumptions(inputs, block), *_served(inputs, block))


def _compression_assumptions(inputs: TrainingInputs, block: Block) -> tuple[Assumption, ...]:
    """Assumptions about gradient compression: its warm-up, and the time to compress."""
    stated, structure = inputs.case.scenario.assume.compression, block.structure
    if structure.compression == "none":
        return ()
    assumptions = []
    if stated.warm_up is None:
        usual = "1-bit Adam's tutorial: 15 to 25 %" if warm_up(inputs, block) else "from the first step"
        assumptions.append(Assumption("assume.compression.warm_up", show(warm_up(inputs, block), "1"), usual))
    if stated.codec is None:
        assumptions.append(
            Assumption("assume.compression.codec", "by bytes through memory", "a lower bound; measure yours")
        )
    return tuple(assumptions)


def _served(inputs: TrainingInputs, block: Block) -> tuple[Assumption, ...]:
    """An assumption that parameter servers cost nothing, if the scenario states no price for them."""
    if not parameter_servers_of(block.structure.sync) or inputs.case.scenario.assume.server_price is not None:
        return ()
    return (Assumption("assume.server_price", "0", "no price known; state yours, e.g. 1.50 USD/node/h"),)


def _fitted(inputs: TrainingInputs, block: Block) -> tuple[Assumption, ...]:
    """The split that costmodel chose because pp · vpp do not divide the layers, as an assumption."""
    layers = layer_count(inputs.model)
    first, last = fewer_at_ends(layers, block)
    over = inputs.groups and block.structure.shares == "stages"
    if over or block.structure.split != "fitting" or not np.any(last):
        return ()
    split = "lighter-ends" if np.any(first) else "lighter-last"
    return (Assumption("plan.split", split, f"pp · vpp do not divide {layers:g} layers"),)


def own_plan(inputs: TrainingInputs) -> Plan:
    """The scenario's plan; an error if it has none."""
    plan = inputs.case.scenario.plan
    if plan is None:
        hint = "costmodel search SCENARIO finds one; or add plan: {tp: 8, pp: 1, micro_batch: 1}, or --set plan.tp=8"
        raise fail("C004", "the scenario has no plan", Place(inputs.case.file), hint)
    return plan


def answer(inputs: TrainingInputs, plan: Plan, *, bands: bool = True, rows: int = 1) -> Answer:
    """One plan, checked and evaluated. The figures of an invalid plan are meaningless and may be NaN.

    bands: whether the answer has error bands, remarks and assumptions; without them it takes two thirds of the time
    rows: number of rows, if inputs are columns with one number per row; the answer then has the reasons of any row
    """
    block, assumed = plan_block(inputs, plan)
    block = block if rows == 1 else block.at(np.zeros(rows, dtype=np.intp))
    refused = refusals(inputs, block)
    with np.errstate(all="ignore") if refused else nullcontext():
        evaluation = evaluate(inputs, block)
        evaluation = banded(inputs, evaluation) if bands else evaluation
    if not bands:
        against = tuple(code for code, mask in unacceptable(inputs, evaluation.costs) if mask.any())
        return Answer(inputs, plan, _with_withheld_as_nan(evaluation, against), (), refused, against, ())
    remarked = tuple(code for code, mask in remarks(inputs, block) if mask.any())
    costs = evaluation.costs.row()
    if verdict(costs["memory_share"]) == "tight":
        remarked = (*remarked, "N003")
    if costs["memory_share"] <= 1 and not fits_at_p90(costs):
        remarked = (*remarked, "N023")
    if inputs.run is not None and LEAST_FACTOR <= costs["goodput"] < HALF:
        remarked = (*remarked, "N037")
    if inputs.run is not None and costs["checkpoint_blocking"] > TIME_OUT and inputs.ranks > 1:
        remarked = (*remarked, "N038")
    if over_peak(evaluation.costs).any():
        remarked = (*remarked, "N011")
    beyond = () if refused else outside_assumptions(outside_fits(inputs, evaluation.step))
    if beyond:
        remarked = (*remarked, "N054")
    new = () if refused else tuple(unmeasured_assumptions(inputs, evaluation.step))
    if new:
        remarked = (*remarked, "N056")
    broken = dict.fromkeys(code for code, mask in unacceptable(inputs, evaluation.costs) if mask.any())
    lean = inputs.optimizer.in_backward and inputs.optimizer.paged
    if "M001" in broken and inputs.ranks == 1 and inputs.case.scenario.workload.tuning == "full" and not lean:
        remarked = (*remarked, "N026")
    if inputs.optimizer.projection is not None:
        remarked = (*remarked, "N027")
    if idle := unused_keys(inputs.case, unused_training_keys(inputs, block)):
        remarked = (*remarked, "N051")
    first = converted(inputs.case)
    leaves_domain = bool(inputs.ranks > inputs.domain)
    imported = (item for foreign in inputs.case.foreign.values() for item in foreign.assumed)
    stated = (*first, *assumed, *inputs.assumed[len(first) :], *imported)
    counting = (
        *idle,
        *new,
        *unmeasured_memory(inputs),
        *beyond,
        *relevant_assumptions(stated, block, leaves_domain=leaves_domain),
    )
    return Answer(inputs, plan, _with_withheld_as_nan(evaluation, broken), counting, refused, tuple(broken), remarked)


def _with_withheld_as_nan(evaluation: Evaluation, broken: Collection[str]) -> Evaluation:
    """An evaluation with NaN for the results that are withheld for these reasons."""
    columns = withheld(evaluation.costs.columns, broken)
    return replace(evaluation, costs=replace(evaluation.costs, columns=columns))


def predict(case: ResolvedScenario, *, bands: bool = True) -> Answer:
    """Time, memory, communication and cost of the scenario's own plan.

    If `refused` names reasons, the plan is invalid and its figures are meaningless. `broken` names the limits that the
    plan does not keep; its memory is one of them.

    Raises:
        CostModelError: the scenario has no plan, or asks for what is not modelled
    """
    inputs = training_inputs(case)
    return answer(inputs, own_plan(inputs), bands=bands)
