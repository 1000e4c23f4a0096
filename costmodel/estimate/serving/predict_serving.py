"""One plan of a serving scenario: checked, evaluated, with its band and what was assumed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.serving import BETWEEN_TOKENS, LOADS, Instances, ServingPlan
from costmodel.estimate.machine.price import is_implausible_price
from costmodel.estimate.serving.constraints import invalid, invalid_halves, unused_keys_of_plan
from costmodel.estimate.serving.conversation_cache import with_conversation_hits
from costmodel.estimate.serving.element_types import needs_other_checkpoint
from costmodel.estimate.serving.evaluate_disaggregated import DisaggregatedEvaluation, evaluate_pairs
from costmodel.estimate.serving.evaluate_layouts import ServingEvaluation, evaluate
from costmodel.estimate.serving.kv_cache import narrow_cache_without_gain
from costmodel.estimate.serving.measured_spreads import (
    is_new_ground,
    never_ran,
    odd_latent_heads,
    of_unlike_batch,
    spreads_beyond,
)
from costmodel.estimate.serving.operating_point import REMARKED, longer_than_a_step, near_budget
from costmodel.estimate.serving.plan_columns import (
    SIZES,
    PlanColumns,
    crosses_domains,
    filled_with,
    rows_of,
    with_straddling,
)
from costmodel.estimate.serving.replicas_for_load import assumed_headroom
from costmodel.estimate.serving.service_limits import OWN, SHARE, asking_chance, percentile_of_kinds
from costmodel.estimate.serving.serving_error_band import banded, beyond_fits, outside_any_fit, with_ends
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of, never_fitted
from costmodel.estimate.shared.assumptions import WITHOUT_EFFECT
from costmodel.estimate.shared.fit_ranges import OutsideFit, outside_assumptions
from costmodel.estimate.shared.reasons import REFUSALS as TRAINING
from costmodel.estimate.shared.reasons import Reason
from costmodel.estimate.shared.results import Costs, Limit, number, stated_limits
from costmodel.ground.counts import number_of
from costmodel.ground.equation import Number
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record
from costmodel.ground.solvers import distinct_values

# Reasons to refuse a serving plan, by code.

INVALID = {
    "L050": Reason("too many GPUs", "The replicas need more accelerators than the cluster has."),
    "L051": Reason(
        "heads not divisible by tp",
        "Tensor parallelism gives every rank whole query heads, so tp must divide the number of heads.",
    ),
    "L052": Reason(
        "kv heads not divisible by tp",
        "tp must divide the number of key-value heads, or be a multiple of it; the heads are then replicated.",
    ),
    "L053": Reason(
        "vocabulary not divisible by tp", "Engines split the padded vocabulary evenly, so tp must divide it."
    ),
    "L054": Reason("widths not divisible by tp", "tp must divide the inner width of an MLP."),
    "L055": Reason("more stages than layers", "A pipeline has at most as many stages as the model has layers."),
    "L056": Reason(
        "experts not divisible by ep",
        "Expert parallelism divides the ranks of a stage a second time. So ep must divide tp · dp_attention and the "
        "experts of a layer, copies included; tp · dp_attention / ep must divide the inner width of an expert.",
    ),
    "L067": Reason(
        "ep of some ranks",
        "The engine places whole experts on all ranks of a stage, or cuts each over all (stack.expert_ranks: all). So "
        "ep must be 1 or tp · dp_attention.",
    ),
    "L057": Reason(
        "no experts",
        "The model has no experts, so ep and copies of experts have no effect, and dp_attention would be the same "
        "as replicas.",
    ),
    "L059": Reason(
        "layers depend on other stages",
        "Some layers read the keys and values of an earlier layer, or tables next to the embedding. Engines hold "
        "these on one pipeline stage, so pp must be 1.",
    ),
    "L058": Reason(
        "speculation with a pipeline", "Engines draft tokens only without a pipeline: speculation needs pp 1."
    ),
    "L062": Reason(
        "prompt longer than a step",
        "The engine computes each prompt in one step (stack.chunked: false), so the token budget of a step must hold "
        "99 % of the prompts: it refuses longer ones, and their p99 would have no end.",
    ),
    "L061": Reason(
        "memory of the host",
        "The cache and the experts that ranks of a node keep on the host exceed its memory, or the cache its drives.",
    ),
    "L060": Reason(
        "expert copies without ep",
        "Copies of experts are placed on ranks that hold whole experts, so redundant_experts needs ep above 1.",
    ),
    "L063": Reason(
        "tp not divisible by dcp",
        "Decode context parallelism groups the ranks of tensor parallelism, so dcp must divide tp.",
    ),
    "L064": Reason(
        "dcp above copies of kv heads",
        "Ranks that divide a cache by tokens hold the same key-value heads. So dcp times these heads must not exceed "
        "tp, and dcp must divide the query heads of each.",
    ),
    "L065": Reason(
        "cache not divided by tokens",
        "The engine divides only some caches by tokens, or none (stack.decode_context); windows, states and indexers "
        "never. So dcp must be 1.",
    ),
}
LIMITS = {
    "M001": Reason(
        "does not fit",
        "The weights, one step and one request need more memory than the engine may use on an accelerator.",
    ),
    "M002": TRAINING["M002"],
    "S001": Reason("time per token", "The time per output token exceeds its limit at this load."),
    "S002": Reason("first token", "The time to first token exceeds its limit at this load."),
    "S003": Reason(
        "cache full",
        "The requests in flight at this load need more cache than the pool has, so that the queue grows. A lower rate "
        "or more replicas lessen them; a larger tp, a cache in 8 bits (workload.cache=fp8) or shorter prompts leave "
        "room for more of them.",
    ),
    "S004": Reason("token budget", "Steps are full: their token budget serves fewer requests than arrive."),
    "S005": Reason(
        "above saturation", "Requests arrive faster than the engine can serve them, so queues grow without bound."
    ),
    "S006": Reason(
        "limits at risk",
        "The chance that the plan fits, serves its load and meets every limit is below the required chance.",
    ),
    "T001": Reason("limit of the scenario", "Another result breaks a limit of the scenario."),
}
OVERLOAD = frozenset({"S003", "S004", "S005"})  # more arrives than the plan answers
REFUSALS = {**INVALID, **LIMITS}


AnyEvaluation = ServingEvaluation | DisaggregatedEvaluation
WITHOUT_ROOM = {  # results of a plan that does not fit
    *SIZES,
    *("replicas", "gpus", "nodes", "rent_per_month", "limits_chance"),
    *("memory_peak", "memory_share", "cache_pool", "cache_pool_tokens", "kv_bytes_per_token"),
    *("concurrency_worst", "concurrency_steady", "host_cache_tokens"),
}


@record
class ServingAnswer:
    """One evaluated plan, with its assumptions and the reasons against it."""

    inputs: ServingInputs
    plan: ServingPlan
    evaluation: AnyEvaluation
    costs: dict[str, float]
    assumed: tuple[Assumption, ...]
    refused: tuple[str, ...]
    broken: tuple[str, ...]
    binding: str
    remarked: tuple[str, ...]  # codes of remarks
    remedies: tuple[
        tuple[tuple[str, ...], ...], ...
    ] = ()  # by kind, settings that fix it; empty where none were looked for
    chances: tuple[float | None, ...] = ()  # of each kind of remedies, to meet all limits; None where it is not asked
    more: bool = False  # whether a search may find others, of which too many were left to try
    partial: int = 0  # how many of the first remedies make it fit, and leave limits broken
    groups: tuple[ServingAnswer, ...] = ()  # of nodes of several kinds, of which the costs are those together
    share: float = 1.0  # of the load, of one kind of nodes among several
    alone: ServingAnswer | None = None  # where nothing helps, the plan nearest to the limits, of one request at a time
    benchmark: dict[str, float] | None = None  # means that the benchmark of a closed loop prints, if asked for

    @property
    def overload(self) -> tuple[str, ...]:
        """Codes why the plan is overloaded; its results are then those at saturation."""
        return () if self.refused or "M001" in self.broken else tuple(code for code in self.broken if code in OVERLOAD)


def own_plan(inputs: ServingInputs) -> ServingPlan:
    """The scenario's plan; an error if it has none."""
    plan = inputs.case.scenario.plan
    if plan is None:
        hint = "costmodel search SCENARIO finds one; or add plan: {tp: 8}, or --set plan.tp=8"
        raise fail("C004", "the scenario has no plan", Place(inputs.case.file), hint)
    return plan


def replica_ranks(plan: ServingPlan) -> Number:
    """Accelerators of one replica; with separate prefill and decode, of all instances."""
    if plan.prefill is not None and plan.decode is not None:
        halves = (plan.prefill, plan.decode)
        return sum(half.replicas * (half.tp * half.dp_attention) for half in halves)
    return plan.pp * (plan.tp * plan.dp_attention)


def filled(inputs: ServingInputs, plan: ServingPlan) -> tuple[ServingPlan, tuple[Assumption, ...]]:
    """The plan with default instance counts: as many of each kind as fit on the accelerators."""
    if plan.prefill is None or plan.decode is None:
        return plan, ()
    halves = {"prefill": plan.prefill, "decode": plan.decode}
    counted = {name: half for name, half in halves.items() if "replicas" in half.model_fields_set}
    free = {name: half for name, half in halves.items() if name not in counted}
    if not free:
        return plan, ()
    if inputs.prompts is not None:
        return _default_per_kind(inputs, plan, free)
    taken = sum(half.replicas * (half.tp * half.dp_attention) for half in counted.values())
    left, group = float(inputs.ranks - taken), float(sum(half.tp * half.dp_attention for half in free.values()))
    count = max(float(np.floor(left / group)), 1.0)
    while count > 1 and not _have_room(inputs, plan, dict.fromkeys(free, count)):
        count -= 1
    idle = left - count * group
    origin = f"{left:g} GPUs over {group:g}" + (f", {idle:g} idle" if idle > 0 else "")
    assumed = tuple(Assumption(f"plan.{name}.replicas", f"{count:g}", origin) for name in free)
    return _with_counts(plan, dict.fromkeys(free, count)), assumed


def _default_per_kind(
    inputs: ServingInputs, plan: ServingPlan, free: Mapping[str, Instances]
) -> tuple[ServingPlan, tuple[Assumption, ...]]:
    """A plan with default instance counts, if each kind of instance has its own nodes."""
    counts, assumed = dict[str, float](), []
    for name, half in free.items():
        every = float((inputs if name == "decode" else inputs.prompts or inputs).ranks)
        each = float(half.tp * half.dp_attention)
        counts[name] = max(float(np.floor(every / each)), 1.0)
        idle = every - counts[name] * each
        origin = f"{every:g} GPUs of {half.node} over {each:g}" + (f", {idle:g} idle" if idle > 0 else "")
        assumed.append(Assumption(f"plan.{name}.replicas", f"{counts[name]:g}", origin))
    return _with_counts(plan, counts), tuple(assumed)


def _with_counts(plan: ServingPlan, counts: dict[str, float]) -> ServingPlan:
    """The plan with these instance counts."""
    halves = {name: getattr(plan, name).model_copy(update={"replicas": count}) for name, count in counts.items()}
    return plan.model_copy(update=halves)


def _have_room(inputs: ServingInputs, plan: ServingPlan, counts: dict[str, float]) -> bool:
    """Whether so many instances fit in domains without crossing their borders."""
    halves = halves_of(inputs, _with_counts(plan, counts))
    return halves is not None and with_straddling(inputs, *halves)[0].straddles is None


def layout_of(inputs: ServingInputs, plan: ServingPlan, rows: int = 1) -> tuple[PlanColumns, tuple[Assumption, ...]]:
    """A plan as columns with so many rows; by default with as many replicas as fit on the accelerators."""
    rare = (plan.redundant_experts or 0.0, plan.dcp)
    values = (plan.tp, plan.pp, plan.ep, plan.dp_attention, plan.replicas or 1.0, inputs.budget, *rare)
    layout = PlanColumns(*(np.full(rows, value, dtype=np.float64) for value in values))
    if plan.replicas is not None:
        return layout, ()
    layout, every, ranks = filled_with(inputs, layout), float(inputs.ranks), float(replica_ranks(plan))
    replicas = float(layout.replicas[0])
    idle = every - replicas * ranks
    origin = f"{number_of(every, 'GPU')} ÷ {ranks:g} per replica" + (f", {idle:g} idle" if idle > 0 else "")
    return layout, (Assumption("plan.replicas", f"{replicas:g}", origin),)


def routed(inputs: ServingInputs, prefill: PlanColumns) -> ServingInputs:
    """Inputs with the cache hits of turns on so many prefill instances, which keep the cache until the next turn."""
    return with_conversation_hits(inputs, float(prefill.replicas[0])) if np.any(inputs.load.history) else inputs


def routed_parts(
    inputs: ServingInputs, prefill: PlanColumns, decode: PlanColumns
) -> Iterator[tuple[ServingInputs, PlanColumns, PlanColumns]]:
    """Groups of pairs with an equal number of prefill instances, with inputs for the cache hits of turns on them."""
    if not np.any(inputs.load.history):
        yield inputs, prefill, decode
        return
    replicas = np.asarray(prefill.replicas, dtype=np.float64)
    for count in distinct_values(replicas):
        half = prefill.at(replicas == count)
        yield routed(inputs, half), half, decode.at(replicas == count)


def apart_is_modelled(inputs: ServingInputs) -> None:
    """Raises an error for a load that is not modelled for disaggregated plans."""
    workload = inputs.case.scenario.workload
    key, what, hint = "", "", ""
    if workload.traffic == "burst":
        key, what, hint = "workload.traffic", "the start of a benchmark", "leave traffic out"
    elif workload.requests is not None:
        key, what, hint = "workload.requests", "an offline batch", "take concurrency"
    elif inputs.beginnings:
        key, what, hint = "workload.beginnings", "what several beginnings share", "state shared_prefix"
    if key:
        sentence = f"{what} is not modelled with separate prefill and decode"
        raise fail("D016", sentence, inputs.case.place(key), hint)


def halves_of(inputs: ServingInputs, plan: ServingPlan) -> tuple[PlanColumns, PlanColumns] | None:
    """Prefill and decode layouts of a plan, one row each; None if the plan does not separate them."""
    if plan.prefill is None or plan.decode is None:
        return None
    apart_is_modelled(inputs)
    halves = []
    for half, own in ((plan.prefill, inputs.prompts or inputs), (plan.decode, inputs)):
        rare = (plan.redundant_experts or 0.0, half.dcp)
        values = (half.tp, 1.0, half.ep, half.dp_attention, half.replicas, own.budget, *rare)
        halves.append(PlanColumns(*(np.array([value], dtype=np.float64) for value in values)))
    return halves[0], halves[1]


def evaluated(inputs: ServingInputs, *columns: PlanColumns, compared: bool = True) -> AnyEvaluation:
    """Results of colocated plans (one argument), or of pairs of prefill and decode layouts (two).

    compared: whether pairs are compared with colocated replicas, and replicas are counted with the cache hits on them
    """
    if len(columns) == 1:
        return evaluate(inputs, columns[0], counted=compared)
    prefill, decode = columns
    return evaluate_pairs(routed(inputs, prefill), prefill, decode, compared=compared)


def evaluated_with_bands(
    inputs: ServingInputs, *columns: PlanColumns, compared: bool = True, chance: bool = True
) -> tuple[AnyEvaluation, Costs]:
    """Evaluates plans with the chance to meet limits, and results with P10 and P90.

    Plans and both ends are rows of one evaluation. chance: whether the chance is asked for
    """
    count = len(columns[0])
    with np.errstate(all="ignore"):
        ends = (with_ends(inputs, each) for each in columns)
        every = evaluated(asking_chance(inputs, OWN if chance else SHARE), *ends, compared=compared)
    rows, every_end = np.arange(count), (every.results.columns, every.overloaded)
    found = rows_of(every, rows, 3 * count)
    return found, banded(inputs, found, *(rows_of(every_end, rows + part * count, 3 * count) for part in (1, 2)))


def unacceptable(inputs: ServingInputs, evaluation: AnyEvaluation) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Masks of the rows that break each bound, by code; bounds of memory and load first."""
    results = evaluation.results
    small = results.column("memory_share") > 1
    yield "M001", small
    over = evaluation.overloaded & ~small
    for code, mask in evaluation.overloads():
        yield code, mask & ~small
    for limit in stated_limits(inputs.case.scenario.limits):
        code = code_of(limit)
        yield code, ~limit.kept(results.column(limit.column)) & ~small & ~over


def code_of(limit: Limit) -> str:
    """The reason code for a broken limit."""
    if limit.of_memory:
        return "M002"
    return {"tpot": "S001", "tpot_p99": "S001", "ttft": "S002", "ttft_p99": "S002", OWN: "S006"}.get(
        limit.column, "T001"
    )


def broken_of(found: ServingAnswer, shown: Collection[str]) -> tuple[str, ...]:
    """Reason codes for a command that shows only these results.

    The plan does not fit, is overloaded, or breaks a limit on one of the results.
    """
    limits = stated_limits(found.inputs.case.scenario.limits)
    missed = {code_of(each) for each in limits if each.column in shown and not each.holds(found.costs[each.column])}
    return tuple(code for code in found.broken if code in missed | OVERLOAD | {"M001"})


def known_costs(costs: dict[str, float]) -> dict[str, float]:
    """The results of a plan; NaN for those that do not exist because the plan does not fit in memory.

    Without room for the cache of one request there is no time, no rate and no cost per token.
    """
    if costs["memory_share"] <= 1:
        return costs
    return {
        name: value if name.removesuffix("_low").removesuffix("_high") in WITHOUT_ROOM else np.nan
        for name, value in costs.items()
    }


def answer(inputs: ServingInputs, plan: ServingPlan, *, bands: bool = True) -> ServingAnswer:
    """One plan, checked and evaluated; the figures of an invalid plan are meaningless.

    bands: whether results get P10 and P90, which takes two more evaluations
    """
    plan, assumed = filled(inputs, plan)
    halves = halves_of(inputs, plan)
    beyond: tuple[OutsideFit, ...] = ()
    if halves is not None:
        refused = tuple(dict.fromkeys(code for code, mask in invalid_halves(inputs, *halves) if mask.any()))
        columns: tuple[PlanColumns, ...] = halves
    else:
        layout, assumed = layout_of(inputs, plan)
        refused = tuple(code for code, mask in invalid(inputs, layout) if mask.any())
        columns = (layout,)
    with np.errstate(all="ignore") if refused else nullcontext():
        if outside_any_fit(inputs, columns[-1]):
            costs = evaluated(inputs, *columns, compared=False).results.row()
            beyond = beyond_fits(inputs, columns, costs)
            steps, first = map(number, spreads_beyond(inputs, columns, costs.__getitem__))
            inputs = replace(inputs, beyond=steps, beyond_first=first)
        inputs = replace(inputs, crosses=any(crosses_domains(inputs, each).any() for each in columns))
        if bands:
            evaluation, results = evaluated_with_bands(inputs, *columns)
        else:
            evaluation = evaluated(inputs, *columns)
            results = evaluation.results
        costs = known_costs(results.row())
    if inputs.case.scenario.workload.single_token:
        costs |= {name: np.nan for name in costs if name.removesuffix("_low").removesuffix("_high") in BETWEEN_TOKENS}
    broken = dict.fromkeys(code for code, mask in unacceptable(inputs, evaluation) if mask.any())
    idle = () if refused else tuple(unused_keys_of_plan(inputs, columns, costs))
    counting = (*never_measured(inputs), *outside_assumptions(beyond))
    found = (*idle, *counting, *_timed_by_other_release(inputs), *assumed, *inputs.assumed, *assumed_headroom(inputs))
    stated = tuple(sorted(found, key=lambda item: item.value != WITHOUT_EFFECT))
    binding, remarked = evaluation.binding(), [*remarks(inputs)]
    if not refused and narrow_cache_without_gain(inputs, evaluation.layout):
        remarked.append("N045")
    if not refused and isinstance(evaluation, ServingEvaluation) and evaluation.blocked:
        remarked.append("N046")
    if not refused and np.any(longer_than_a_step(inputs.load, evaluation.layout.budget) > REMARKED):
        remarked.append("N047")
    decoded = 0.0 if len(columns) > 1 else costs["concurrency"] / (columns[0].dp_attention * columns[0].pp)
    if not refused and near_budget(inputs.load, columns[0].budget, decoded):
        remarked.append("N048")
    if any(item.value == WITHOUT_EFFECT for item in stated):
        remarked.append("N051")
    if not refused and evaluation.layout.straddles is not None:
        remarked.append("N053")
    if not refused and beyond:
        remarked.append("N054")
    return ServingAnswer(inputs, plan, evaluation, costs, stated, refused, tuple(broken), binding, tuple(remarked))


def row_results(inputs: ServingInputs, result: str, rows: int) -> list[float]:
    """One result of the scenario's own plan for many variants, whose numbers are columns of the inputs.

    Raises:
        ValueError: what turns of a conversation find, or a plan in halves
    """
    plan = own_plan(inputs)
    if np.any(inputs.load.history) or halves_of(inputs, plan) is not None:
        raise ValueError("conversations and plans in halves cannot be evaluated as one batch of rows")
    layout = replace(layout_of(inputs, plan, rows)[0], variant=np.arange(rows, dtype=np.float64))
    results = evaluate(inputs, layout).results
    known = (results.column("memory_share") <= 1) | (result in WITHOUT_ROOM)
    return [*map(float, np.where(known, results.column(result), np.nan))]


def _timed_by_other_release(inputs: ServingInputs) -> Iterator[Assumption]:
    """An assumption on which release's benchmarks set the times, if it is not the engine's own."""
    if (releases := inputs.engine.as_of.timed) is not None:
        yield Assumption("times", f"fitted to releases {releases}", f"stacks/{inputs.engine.name}, as_of.timed")


def never_measured(inputs: ServingInputs) -> Iterator[Assumption]:
    """Assumptions for an engine without benchmarks of this maker, tp over domains, host experts, or unlike batches."""
    if never_ran(inputs):
        yield Assumption("stack", f"never measured on {inputs.case.accelerator.vendor}", "wider band upwards")
    if inputs.crosses:
        yield Assumption("stack", "never measured with tp over several domains", "wider band upwards")
    if inputs.host_experts is not None:
        yield Assumption("stack", "never measured with experts on the host", "wider band upwards")
    if of_unlike_batch(inputs):
        yield Assumption("stack", "no fitted benchmark has unlike answers at once", "wider band upwards")
    if heads := odd_latent_heads(inputs):
        yield Assumption("stack", f"never measured with latent attention of {heads:.0f} heads", "wider band upwards")


def remarks(inputs: ServingInputs) -> Iterator[str]:
    """Codes of the remarks on a scenario, whatever its plan."""
    if is_new_ground(inputs):
        yield "N056"
    if never_fitted(inputs):
        yield "N005"
    if inputs.experts is None and inputs.case.scenario.assume.experts.imbalance is not None:
        yield "N008"
    if inputs.load.longest > inputs.model.max_sequence:
        yield "N006"
    if inputs.case.stack.makers and inputs.case.accelerator.vendor not in inputs.case.stack.makers:
        yield "N040"
    if is_implausible_price(inputs.case.stated_price):
        yield "N042"
    if needs_other_checkpoint(inputs.case):
        yield "N050"


def with_benchmark(found: ServingAnswer) -> ServingAnswer:
    """An answer with the mean results of a closed-loop benchmark, which starts all users at once.

    Unchanged for a single user, for another load, or if the plan cannot run.
    """
    scenario = found.inputs.case.scenario
    workload, alone = scenario.workload, found.costs["concurrency"] <= 1  # in each replica
    closed = workload.concurrency is not None and workload.rate is None and workload.traffic != "burst"
    if not closed or alone or found.refused or "M001" in found.broken:
        return found
    burst = workload.model_copy(update={"traffic": "burst"})
    case = replace(found.inputs.case, scenario=scenario.model_copy(update={"workload": burst}))
    return replace(found, benchmark=answer(inputs_of(case), found.plan, bands=False).costs)


def predict(case: ServingCase, *, bands: bool = True, limited: bool = True) -> ServingAnswer:
    """Memory, times, rates and cost of the scenario's own plan under its load.

    bands: whether results get P10 and P90; limited: whether the rate within the limits is computed

    Raises:
        CostModelError: the scenario has no plan, or needs something that is not modelled
    """
    if case.groups:
        return _answer_of_groups(case, bands=bands)
    inputs = inputs_of(case)
    return answer(inputs if limited else replace(inputs, is_limited=False), own_plan(inputs), bands=bands)


def _answer_of_groups(case: ServingCase, *, bands: bool) -> ServingAnswer:
    """Answer for nodes of several kinds; each serves a share of the load in proportion to its rate within limits."""
    alone = [predict(group, bands=False) for group in case.by_kind]
    rates = [0.0 if each.refused or "M001" in each.broken else within_limits(each.costs) for each in alone]
    if refused := next((each for each in alone if each.refused), None):
        return replace(refused, inputs=replace(refused.inputs, case=case))
    shared = shared_load(case, rates)
    parts = tuple(replace(predict(part.case, bands=bands), share=part.share) for part in shared)
    most = max(parts, key=lambda part: part.share)
    costs = combined([part.costs for part in parts])
    whole = replace(most, inputs=replace(most.inputs, case=case), costs=costs, groups=parts, share=1.0)
    return replace(
        whole,
        assumed=tuple(dict.fromkeys(item for part in parts for item in part.assumed)),
        broken=_broken_by_groups(case, [code for part in parts for code in part.broken], costs),
        remarked=tuple(dict.fromkeys(item for part in parts for item in part.remarked)),
    )


def _broken_by_groups(case: ServingCase, codes: Sequence[str], costs: Mapping[str, float]) -> tuple[str, ...]:
    """The codes of all kinds of nodes, with a limit judged by the result of all together where there is one."""
    limits = [each for each in stated_limits(case.scenario.limits) if not math.isnan(costs[each.column])]
    others = [code for code in codes if code not in map(code_of, limits)]
    stopped = (OVERLOAD | {"M001"}).intersection(others)
    missed = [] if stopped else [code_of(each) for each in limits if not each.holds(costs[each.column])]
    return tuple(dict.fromkeys((*others, *missed)))


def within_limits(costs: Mapping[str, float]) -> float:
    """Requests per second of a plan within the limits; 0 if unknown."""
    rate = costs["rate_within_slo_per_s"]
    return rate if np.isfinite(rate) else 0.0


# --- A service on nodes of several kinds: shares of the load, and results of all kinds together.

_SUMS = frozenset({
    "requests_per_s", "output_tokens_per_s", "total_tokens_per_s", "saturation_per_s", "rate_within_slo_per_s",
    "in_time_per_s", "replicas", "gpus", "nodes", "rent_per_month", "replicas_needed", "gpus_needed", "rent_needed",
})  # fmt: skip
_TAILS = ("ttft_p99", "tpot_p99")
_WORST = frozenset({"worst_gap", "memory_share", "memory_peak", "saturation_share"})
_LEAST = frozenset({"limits_chance"})
_WITHIN = frozenset({"cost_within_limits"})  # means over what is answered at the highest rate within the limits
_MEANS = frozenset({
    "ttft", "tpot", "latency", "in_time_share", "interference_share", "prefix_hit", "cost_per_minput",
    "cost_per_moutput", "cost_per_mtoken", "energy_per_token",
})  # fmt: skip


@record
class GroupShare:
    """One kind of node in a service on several kinds, with its share of the load."""

    case: ServingCase
    share: float


def shared_load(case: ServingCase, rates: Sequence[float]) -> tuple[GroupShare, ...]:
    """The cases for each kind of node, each with a load share proportional to the rate it can answer."""
    shares = zip(case.by_kind, load_shares(case, rates), strict=True)
    return tuple(GroupShare(under_share(group, share), share) for group, share in shares if share > 0)


def load_shares(case: ServingCase, rates: Sequence[float]) -> list[float]:
    """The share of the load of each kind of node, in proportion to the rate it can answer."""
    groups = case.by_kind
    whole = sum(rates)
    if not whole > 0:
        sentence = "no kind of nodes in cluster.groups answers a request within the limits"
        hint = f"costmodel estimate on one of them shows why: --set 'cluster={{node: {groups[0].node.name}, nodes: 1}}'"
        raise fail("D010", sentence, case.place("cluster.groups"), hint)
    return [rate / whole for rate in rates]


def under_share(case: ServingCase, share: float) -> ServingCase:
    """The case with this share of its load."""
    workload = case.scenario.workload
    loads = {name: getattr(workload, name) for name in LOADS}
    part = workload.model_copy(update={name: share * load for name, load in loads.items() if load is not None})
    return replace(case, scenario=case.scenario.model_copy(update={"workload": part}))


def combined(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The results of all kinds of nodes together: sums, means over requests, and the P99 of all requests.

    A result without such a meaning, such as the time of a term or the memory of a pool, is NaN.
    """
    answered = [each["requests_per_s"] for each in found]
    within = [each["rate_within_slo_per_s"] for each in found]
    costs = {name: _combination_rule(name)([each[name] for each in found], answered, within) for name in found[0]}
    for name in (f"{name}{end}" for name in _TAILS for end in ("", "_low", "_high")):
        if name in costs:
            costs[name] = percentile_of_kinds(found, name)
    for end in ("", "_low", "_high"):
        if f"tokens_per_s_per_user{end}" in costs:
            other = {"": "", "_low": "_high", "_high": "_low"}[end]
            costs[f"tokens_per_s_per_user{end}"] = 1 / costs[f"tpot{other}"]
        for name, over in (("tokens_per_s_per_gpu", answered), ("tokens_per_gpu_within_limits", within)):
            each = [one[f"{name}{end}"] * one["gpus"] for one in found if f"{name}{end}" in one]
            if len(each) == len(over):
                costs[f"{name}{end}"] = sum(each) / costs["gpus"]
    return costs


def _combination_rule(name: str) -> Callable[[Sequence[float], Sequence[float], Sequence[float]], float]:
    """How results of several kinds of nodes combine: as a sum, or as a mean over requests."""
    base = name.removesuffix("_low").removesuffix("_high")
    if base in _SUMS:
        return lambda values, answered, within: sum(values)
    if base in _WORST:
        return lambda values, answered, within: max(values)
    if base in _LEAST:
        return lambda values, answered, within: min(values)
    if base in _WITHIN:
        return lambda values, answered, within: _mean(values, within)
    if base in _MEANS:
        return lambda values, answered, within: _mean(values, answered)
    return lambda values, answered, within: math.nan


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    counted = [(value, weight) for value, weight in zip(values, weights, strict=True) if weight > 0]
    whole = sum(weight for _, weight in counted)
    return sum(value * weight for value, weight in counted) / whole if whole > 0 else math.nan
