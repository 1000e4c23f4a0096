"""Exports a serving plan (the scenario's own or one of its search) as the command that starts an engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from costmodel.documents.reader.library import read
from costmodel.documents.reader.load_scenario import vary_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.documents.schemas.engine import Engine, EngineDispatch, EngineHostCache
from costmodel.documents.schemas.precision import RECIPES
from costmodel.documents.schemas.serving import Lengths, Serving
from costmodel.estimate.serving.element_types import can_multiply, stored_types
from costmodel.estimate.serving.engine_memory import EngineMemoryUse
from costmodel.estimate.serving.evaluate_disaggregated import DisaggregatedEvaluation
from costmodel.estimate.serving.expert_step import is_dispatched
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.predict_serving import AnyEvaluation, ServingAnswer, answer, predict, with_benchmark
from costmodel.estimate.serving.serving_inputs import check_hardware, inputs_of
from costmodel.exchange.serving.engine_options import (
    ServingJob,
    experts_of_checkpoint,
    rounded_share,
    types_of_checkpoint,
)
from costmodel.exchange.serving.exported_command import (
    ENGINES,
    ExportedCommand,
    exported_command,
    exported_disaggregated,
)
from costmodel.exchange.write_yaml import checkpoint_name
from costmodel.explore.serving.best_layout import plan_settings
from costmodel.explore.serving.search_layouts import search
from costmodel.explore.workloads import check_exportable
from costmodel.ground.counts import number_of
from costmodel.ground.equation import Number
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record
from costmodel.ground.units import Figure, show_time

_TRIED = (0.5, 0.9)  # shares of memory that give the others
_OF_A_REPLICA = ("tp", "pp", "ep", "dp_attention", "dcp")
_FLAGS = {"prompt": "--prompt ", "output": "--answer ", "rate": "--rate ", "concurrency": "--concurrency "}
_LOAD = ("prompt", "output", "rate", "concurrency", "users", "think_time", "requests")
_KEPT = ("budget", "sequences", "prefix_cache", "graphs")  # settings that another engine takes too


@record
class ExportedEngine:
    """The engine command of a plan, with its prediction, where the plan is from, and why its memory share is such."""

    answer: ServingAnswer
    job: ServingJob  # of instances that generate, where prompts are computed apart
    file: ExportedCommand
    chosen: str
    translated: str
    prefill: ServingJob | None = None

    @property
    def given(self) -> list[str]:
        """The options that `import` needs besides this command, apart from the machine: those of the load."""
        load = {key: getattr(self.job.workload, key) for key in _LOAD}
        return [
            f"{_FLAGS.get(key, f'--set workload.{key}=')}{_load_value_text(key, value)}"
            for key, value in load.items()
            if value is not None
        ]

    def described(self, say: Callable[[str, float], str]) -> Iterator[str]:
        """Lines about the plan and its expected results; `say` formats a result."""
        job, plan = self.job, self.answer.plan
        first, further = (say(name, self.answer.costs[name]) for name in ("ttft", "tpot"))
        for name, half, each in zip(
            ("prefill", "decode"), (plan.prefill, plan.decode), (self.prefill, job), strict=True
        ):
            if half is not None and each is not None:
                ranks = number_of(each.ranks, "accelerator")
                yield f"{name}: {half.replicas:g} × {_degrees_text(each)}: {ranks} an instance"
        if self.prefill is None:
            yield f"{_degrees_text(job)}: {number_of(job.ranks, 'accelerator')} a replica"
        yield self.chosen
        yield f"expected: first token {first}, each further one {further}"
        described = self.answer.inputs.engine.title
        yield f"the options are of {self.file.target.version}; the figures describe {described}"
        if self.translated:
            yield self.translated


def _degrees_text(job: ServingJob) -> str:
    """The degrees of an engine's plan in words."""
    return ", ".join(f"{name} {job.count(name)}" for name in _OF_A_REPLICA if name != "dcp" or job.count(name) > 1)


def _load_value_text(key: str, value: float | Lengths) -> str:
    """A length or load as text for its flag or for --set."""
    if isinstance(value, Lengths):
        return f"'{{mean: {value.mean:g}, spread: {value.spread:g}}}'" if value.spread else f"{value.mean:g}"
    unit = {"think_time": " s"}.get(key, "")
    return f"'{value:g}{unit}'" if unit else f"{value:g}"


def export_engine(case: ServingCase, to: str, rank: int | None = None) -> ExportedEngine:
    """The scenario's plan as a command; on another engine than the scenario's with the same pool for the cache."""
    target, translated = ENGINES[to], ""
    check_hardware(case, _shipped_engine(target.stack))
    planned, chosen = _plan_of_rank(case, rank)
    _check_command(planned)
    if planned.inputs.engine.memory.definition != _shipped_engine(target.stack).memory.definition:
        planned, translated = _translate_engine(planned, _shipped_engine(target.stack))
    planned, bound = with_longest_context(planned, step_holds_request=target.step_holds_request)
    jobs = [_serving_job(planned, layout, use, bound) for layout, use in instances_of(planned.evaluation)]
    job = jobs[-1]
    if len(jobs) == 1:
        job = replace(job, printed=_benchmark_averages_text(planned))
        return ExportedEngine(planned, job, exported_command(target, job), chosen, translated)
    return ExportedEngine(planned, job, exported_disaggregated(target, jobs[0], job), chosen, translated, jobs[0])


def _shipped_engine(name: str) -> Engine:
    engine: Engine = read("stack", name)
    return engine


def _plan_of_rank(case: ServingCase, rank: int | None) -> tuple[ServingAnswer, str]:
    """The scenario's own plan, or the plan at a rank of its search, and a phrase on where it is from."""
    if rank is None and case.scenario.plan is not None:
        predicted = predict(case, bands=False)
        origin = next(
            (item.origin.partition(";")[0] for item in case.asked.assumed if item.path == "plan"), "as stated"
        )
        return predicted, f"{_origin_with_budget(origin, predicted)}; --rank 1 writes Best of costmodel search"
    wanted = rank or 1
    search_result = search(inputs_of(case), wanted, bands=False)
    if len(search_result.best) < wanted:
        sentence = f"the search finds {len(search_result.best)} plans that fit, so none of rank {wanted}"
        raise fail("C004", sentence, Place(case.file), "costmodel search SCENARIO --why-not shows why")
    settings = plan_settings(search_result, search_result.best[wanted - 1])
    held = serving(vary_any(case, [f"{path}={value}" for path, value in settings.items()]))
    ranked = predict(held, bands=False)
    return ranked, _origin_with_budget(f"rank {wanted} of costmodel search", ranked)


def _origin_with_budget(origin: str, planned: ServingAnswer) -> str:
    """The phrase on where a plan is from, with its token budget."""
    return f"plan: {origin}; token budget {_number(planned.inputs.budget):,.0f}"


def _check_command(planned: ServingAnswer) -> None:
    """Raises a fault for a plan that is invalid, does not fit, or runs on several kinds of nodes."""
    check_exportable(planned, planned.inputs.case, fitting=True)
    if planned.groups:
        hint = "export each kind alone: --set 'cluster={node: …, nodes: …}' with its plan and its share of the load"
        at = planned.inputs.case.place("cluster.groups")
        raise fail("X009", "cluster.groups: one command is of nodes of one kind", at, hint)


def _translate_engine(planned: ServingAnswer, engine: Engine) -> tuple[ServingAnswer, str]:
    """The plan on another engine, with the memory share that gives an equally large cache; and a note about it."""
    before = planned.inputs.engine
    kept = {key: getattr(before, key) for key in _KEPT} | {
        "budget": planned.inputs.budget,
        "sequences": planned.inputs.sequences,
        "host_cache": _host_cache_on(before, engine),
        "dispatch": _dispatch_on(before, engine),
        "chunked": _chunking_on(planned, engine),
    }
    moved = engine.model_copy(update=kept)
    plan = planned.plan.model_copy(update={"replicas": _number(planned.evaluation.layout.replicas)})

    def with_share(share: float | None) -> ServingAnswer:
        memory = moved.memory.model_copy(update={"share": share})
        held = replace(planned.inputs.case, stack=moved.model_copy(update={"memory": memory}))
        return answer(inputs_of(held), plan, bands=False)

    pool, own = _number(planned.evaluation.memory.pool), _number(planned.evaluation.memory.fraction)
    share = _memory_share_for_pool(pool, with_share)
    same = 0 < share < 1
    again = with_share(rounded_share(share) if same else engine.memory.share)
    _check_command(again)
    taken, left = _number(again.evaluation.memory.fraction), _number(again.evaluation.memory.pool)
    side = "every share leaves a larger cache" if share <= 0 else "no share leaves as large a cache"
    cache = "the same pool" if same else f"its own: {side}, this one {left / pool:.0%} of it"
    text = f"memory: {own:.4g} of {before.name} is {rounded_share(taken):.4g} of {engine.name}, {cache}"
    halves = before.dispatch is not None and before.dispatch.two_batches and engine.dispatch is None
    lost = ", without half batches" if halves else ""
    return again, f"{text}; times are of {engine.name}{lost}"


def _chunking_on(planned: ServingAnswer, engine: Engine) -> bool:
    """Whether the other engine uses chunked prefill: as stated, by default, or because a prompt needs it."""
    before, own = planned.inputs.engine, (_shipped_engine(target.stack) for target in ENGINES.values())
    usual = next(each.chunked for each in own if each.memory.definition == before.memory.definition)
    if before.chunked != usual:
        return before.chunked
    return engine.chunked or (before.chunked and _number(planned.inputs.load.computed) > planned.inputs.budget)


def _host_cache_on(before: Engine, engine: Engine) -> EngineHostCache | None:
    """The host cache on another engine: the same size, with that engine's rules."""
    stated, own = before.host_cache, engine.host_cache
    if stated is None or own is None:
        return own
    return own.model_copy(update={"size": stated.size, "ratio": stated.ratio})


def _dispatch_on(before: Engine, engine: Engine) -> EngineDispatch | None:
    """The expert dispatch of another engine, with half batches where both engines have them."""
    if before.dispatch is None or engine.dispatch is None:
        return engine.dispatch
    return engine.dispatch.model_copy(update={"two_batches": before.dispatch.two_batches})


def _memory_share_for_pool(pool: float, with_share: Callable[[float], ServingAnswer]) -> float:
    """The memory share with which an engine has a KV-cache pool of `pool` bytes; the pool is linear in the share."""
    low, high = (_number(with_share(share).evaluation.memory.pool) for share in _TRIED)
    return _TRIED[0] + (_TRIED[1] - _TRIED[0]) * (pool - low) / (high - low)


def _number(value: Number) -> float:
    return float(np.asarray(value, dtype=np.float64).reshape(-1)[0])


def _serving_job(planned: ServingAnswer, layout: PlanColumns, use: EngineMemoryUse, bound: str) -> ServingJob:
    """The plan of an answer, or one instance of a kind, with every choice that its evaluation made."""
    inputs, case = planned.inputs, planned.inputs.case
    plan = planned.plan.model_copy(update={"replicas": _number(layout.replicas)})
    if plan.prefill is not None:
        degrees = {name: _number(getattr(layout, name)) for name in ("tp", "ep", "dp_attention", "dcp")}
        plan = plan.model_copy(update={**degrees, "replicas": 1.0, "prefill": None, "decode": None})
    shipped = next(iter(case.hub.values()), case.model.name)
    name = checkpoint_name(shipped, list(case.hub))
    groups = _number(layout.dp_attention)
    return ServingJob(
        file=case.file,
        plan=plan,
        model=case.model,
        checkpoint=name or next(iter(case.hub), case.model.name),
        shipped=shipped,
        workload=_with_checkpoint_types(case),
        engine=inputs.engine,
        budget=round(_number(inputs.budget)),
        sequences=round(_number(inputs.sequences)),
        share=rounded_share(_number(use.fraction)),
        prompt=_number(inputs.load.prompt),
        context=round(_number(inputs.load.longest)),
        accelerators=round(case.node.accelerators * case.scenario.cluster.nodes),
        pool=_number(use.logged) / groups,
        requests=_number(use.requests_worst) / groups,
        bound=bound,
        dispatched=bool(np.any(is_dispatched(inputs, layout))),
        narrow_experts=experts_of_checkpoint(case.model, case.model.name),
        widens=_lacks_checkpoint_type(case),
        per_node=round(case.node.accelerators),
        vendor=case.accelerator.vendor,
    )


def _benchmark_averages_text(planned: ServingAnswer) -> str:
    """A sentence with the averages that a closed-loop benchmark prints, which starts all users at once."""
    costs = with_benchmark(planned).benchmark
    if costs is None:
        return ""
    first, token = (show_time(costs[name]) for name in ("ttft", "tpot"))
    return f"with its first wave, all users at once, the benchmark prints a first token of {first}, {token} a token"


def _with_checkpoint_types(case: ServingCase) -> Serving:
    """The workload with the number types of the model's checkpoint, where it states none."""
    kept, experts = stored_types(case)
    workload = case.scenario.workload
    made = {"weights": workload.weights or kept, "expert_weights": workload.expert_weights or experts}
    return workload.model_copy(update=made)


def _lacks_checkpoint_type(case: ServingCase) -> bool:
    """Whether engine or accelerator cannot multiply matrices in the checkpoint's number type."""
    recipe = RECIPES.get(types_of_checkpoint(case.model, case.model.name).precision or "")
    return recipe is not None and not can_multiply(case, recipe)


# --- the longest request that a plan holds


_TRIES = 40  # of lengths, each shorter than the one before; a window's share of the cache grows as they shrink


def with_longest_context(found: ServingAnswer, *, step_holds_request: bool) -> tuple[ServingAnswer, str]:
    """The plan for the longest requests that model and cache allow, and a phrase on what limits them.

    A stated `workload.context` stays; the mean lengths of a workload are always let in. step_holds_request: whether
    the engine, without chunked prefill, starts only with a step as large as its longest request.
    """
    inputs = found.inputs
    planned = math.ceil(_number(inputs.load.longest))
    if inputs.case.scenario.workload.context is not None:
        return found, "workload.context of the scenario"
    longest, bound = round(_number(inputs.model.max_sequence)), "the longest of the model"
    if planned >= longest:
        return found, f"the mean of the scenario; the model ends at {longest:,}"
    budget = round(_number(inputs.budget))
    if step_holds_request and not inputs.engine.chunked and budget < longest:
        longest, bound = budget, "a step, since prompts are computed whole"
    taken = _for_longest_request(found, longest)
    for _ in range(_TRIES):
        held = _longest_request_in_cache(taken)
        if held >= longest or longest <= planned:
            break
        spread = 100 * inputs.engine.spread.pool
        longest, bound = held, f"what the cache holds, less {spread:.2g} % for spread"
        taken = _for_longest_request(found, longest)
    if longest <= planned:
        return found, "the mean of the scenario, which fills the cache"
    return taken, f"{bound}; workload.context sets another"


def _longest_request_in_cache(planned: ServingAnswer) -> int:
    """The tokens of the longest request that the KV cache holds if it is one standard deviation smaller."""
    engine, block = planned.inputs.engine, float(planned.inputs.engine.block)
    pools = (_number(use.logged) / _number(layout.dp_attention) for layout, use in instances_of(planned.evaluation))
    return min(math.floor(pool * (1.0 - engine.spread.pool) / block) * round(block) for pool in pools)


def instances_of(evaluation: AnyEvaluation) -> list[tuple[PlanColumns, EngineMemoryUse]]:
    """The layout and memory of each kind of instance: prefill instances first, if they are separate."""
    ahead = [(evaluation.prefill, evaluation.prefill_memory)] if isinstance(evaluation, DisaggregatedEvaluation) else []
    return [*ahead, (evaluation.layout, evaluation.memory)]


def _for_longest_request(planned: ServingAnswer, tokens: int) -> ServingAnswer:
    """The same plan, evaluated for requests of up to `tokens` tokens."""
    inputs, draft = planned.inputs, planned.inputs.draft
    load = replace(inputs.load, longest=Figure(float(tokens)))
    if draft is not None:
        draft = replace(draft, load=replace(draft.load, longest=load.longest))
    return answer(replace(inputs, load=load, draft=draft), planned.plan, bands=False)
