"""A serving plan as the command of an engine: the scenario's own, or one of its search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from costmodel.documents.reader.library import read
from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.documents.schemas.precision import RECIPES
from costmodel.documents.schemas.serving.engine import Engine, EngineDispatch, EngineHostCache
from costmodel.documents.schemas.serving.serving_workload import Serving
from costmodel.estimate.serving.checkpoint_precision import multiplies
from costmodel.estimate.serving.element_types import stored_types
from costmodel.estimate.serving.engine_hardware import check_hardware
from costmodel.estimate.serving.engine_memory import EngineMemoryUse
from costmodel.estimate.serving.expert_step import dispatches
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.predict_serving import ServingAnswer, answer, predict
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.exchange.serving.exported_command import (
    ENGINES,
    ExportedCommand,
    exported_apart,
    exported_command,
)
from costmodel.exchange.serving.serving_job import ServingJob, rounded_share
from costmodel.exchange.serving.types import experts_of_checkpoint, types_of_checkpoint
from costmodel.explore.serving.best_layout import plan_settings
from costmodel.explore.serving.longest_context import kinds_of, with_longest_context
from costmodel.explore.serving.search_layouts import search
from costmodel.ground.equation import Number
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

_TRIED = (0.5, 0.9)  # shares of memory that give the others
_KEPT = ("budget", "sequences", "prefix_cache", "graphs")  # settings that another engine takes too


@record
class ExportedEngine:
    """The command of a plan beside the prediction for it: which plan it is, and why its share of memory is such."""

    answer: ServingAnswer
    job: ServingJob  # of instances that generate, where prompts are computed apart
    file: ExportedCommand
    chosen: str
    translated: str
    prefill: ServingJob | None = None


def export_engine(case: ServingCase, to: str, rank: int | None = None) -> ExportedEngine:
    """The scenario's plan as a command; on another engine than the scenario's with the same pool for the cache."""
    target, translated = ENGINES[to], ""
    check_hardware(case, _shipped(target.stack))
    found, chosen = _asked(case, rank)
    _checked(found)
    if found.inputs.engine.memory.definition != _shipped(target.stack).memory.definition:
        found, translated = _translated(found, _shipped(target.stack))
    found, bound = with_longest_context(found, step_holds_request=target.step_holds_request)
    jobs = [_job(found, layout, use, bound) for layout, use in kinds_of(found.evaluation)]
    job = jobs[-1]
    if len(jobs) == 1:
        return ExportedEngine(found, job, exported_command(target, job), chosen, translated)
    return ExportedEngine(found, job, exported_apart(target, jobs[0], job), chosen, translated, jobs[0])


def _shipped(name: str) -> Engine:
    engine: Engine = read("stack", name)
    return engine


def _asked(case: ServingCase, rank: int | None) -> tuple[ServingAnswer, str]:
    """The scenario's own plan, or one of its search; and which it is, with its token budget."""
    if rank is None and case.scenario.plan is not None:
        own = predict(case, bands=False)
        origin = next(
            (item.origin.partition(";")[0] for item in case.asked.assumed if item.path == "plan"), "as stated"
        )
        return own, f"{_of_budget(origin, own)}; --rank 1 writes Best of costmodel search"
    wanted = rank or 1
    found = search(inputs_of(case), wanted, bands=False)
    if len(found.best) < wanted:
        sentence = f"the search finds {len(found.best)} plans that fit, so none of rank {wanted}"
        raise fail("C004", sentence, Place(case.file), "costmodel search SCENARIO --why-not shows why")
    settings = plan_settings(found, found.best[wanted - 1])
    held = serving(vary_any(case, [f"{path}={value}" for path, value in settings.items()]))
    ranked = predict(held, bands=False)
    return ranked, _of_budget(f"rank {wanted} of costmodel search", ranked)


def _of_budget(origin: str, found: ServingAnswer) -> str:
    return f"plan: {origin}; token budget {_number(found.inputs.budget):,.0f}"


def _checked(found: ServingAnswer) -> None:
    """A fault for a plan that is invalid, or that does not fit."""
    place = Place(found.inputs.case.file)
    if found.refused:
        hint = "costmodel estimate SCENARIO shows what to change"
        raise fail("C004", f"the plan is invalid: {found.refused[0]}", place, hint)
    if "M001" in found.broken:
        hint = "costmodel memory SCENARIO shows where the memory goes"
        raise fail("C004", "the plan does not fit: M001", place, hint)


def _translated(found: ServingAnswer, engine: Engine) -> tuple[ServingAnswer, str]:
    """The plan on another engine, whose share of memory leaves the cache as large a pool."""
    before = found.inputs.engine
    kept = {key: getattr(before, key) for key in _KEPT} | {
        "budget": found.inputs.budget,
        "sequences": found.inputs.sequences,
        "host_cache": _moved_host_cache(before, engine),
        "dispatch": _moved_dispatch(before, engine),
        "chunked": _moved_chunking(found, engine),
    }
    moved = engine.model_copy(update=kept)
    plan = found.plan.model_copy(update={"replicas": _number(found.evaluation.layout.replicas)})

    def with_share(share: float) -> ServingAnswer:
        memory = moved.memory.model_copy(update={"share": share})
        held = replace(found.inputs.case, stack=moved.model_copy(update={"memory": memory}))
        return answer(inputs_of(held), plan, bands=False)

    share = _share_for(_number(found.evaluation.memory.pool), with_share)
    if not 0 < share < 1:
        sentence = f"{engine.name} has no share of memory that leaves the cache of {before.name} as large"
        raise fail("C004", sentence, Place(found.inputs.case.file), f"--set stack={engine.name} takes its own share")
    again = with_share(rounded_share(share))
    _checked(again)
    own = _number(found.evaluation.memory.fraction)
    text = f"memory: {own:.4g} of {before.name} is {rounded_share(share):.4g} of {engine.name}, the same pool"
    halves = before.dispatch is not None and before.dispatch.two_batches and engine.dispatch is None
    lost = ", without half batches" if halves else ""
    return again, f"{text}; times are of {engine.name}{lost}"


def _moved_chunking(found: ServingAnswer, engine: Engine) -> bool:
    """As stated; else as the other engine does, in parts where a prompt is longer than its step."""
    before, own = found.inputs.engine, (_shipped(target.stack) for target in ENGINES.values())
    usual = next(each.chunked for each in own if each.memory.definition == before.memory.definition)
    if before.chunked != usual:
        return before.chunked
    return engine.chunked or (before.chunked and _number(found.inputs.load.computed) > found.inputs.budget)


def _moved_host_cache(before: Engine, engine: Engine) -> EngineHostCache | None:
    """As much cache on the host as before, kept and loaded as the other engine does."""
    stated, own = before.host_cache, engine.host_cache
    if stated is None or own is None:
        return own
    return own.model_copy(update={"size": stated.size, "ratio": stated.ratio})


def _moved_dispatch(before: Engine, engine: Engine) -> EngineDispatch | None:
    """As many half batches as before, where the other engine has them."""
    if before.dispatch is None or engine.dispatch is None:
        return engine.dispatch
    return engine.dispatch.model_copy(update={"two_batches": before.dispatch.two_batches})


def _share_for(pool: float, with_share: Callable[[float], ServingAnswer]) -> float:
    """The share of an engine that leaves a pool of that size, which every engine's pool grows with evenly."""
    low, high = (_number(with_share(share).evaluation.memory.pool) for share in _TRIED)
    return _TRIED[0] + (_TRIED[1] - _TRIED[0]) * (pool - low) / (high - low)


def _number(value: Number) -> float:
    return float(np.asarray(value, dtype=np.float64).reshape(-1)[0])


def _job(found: ServingAnswer, layout: PlanColumns, use: EngineMemoryUse, bound: str) -> ServingJob:
    """An answer's plan, or one instance of a kind, with everything that it was evaluated with, nothing left open."""
    inputs, case = found.inputs, found.inputs.case
    plan = found.plan.model_copy(update={"replicas": _number(layout.replicas)})
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
        checkpoint=name or case.model.name,
        shipped=shipped,
        workload=_settled_types(case),
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
        dispatched=bool(np.any(dispatches(inputs, layout))),
        narrow_experts=experts_of_checkpoint(case.model, case.model.name),
        widens=_widens(case),
        per_node=round(case.node.accelerators),
        vendor=case.accelerator.vendor,
    )


def _settled_types(case: ServingCase) -> Serving:
    """The workload with the types of the model's checkpoint, where it states none."""
    kept, experts = stored_types(case)
    workload = case.scenario.workload
    made = {"weights": workload.weights or kept, "expert_weights": workload.expert_weights or experts}
    return workload.model_copy(update=made)


def _widens(case: ServingCase) -> bool:
    """Whether engine and accelerator lack products in the type of the model's checkpoint."""
    recipe = RECIPES.get(types_of_checkpoint(case.model, case.model.name).precision or "")
    return recipe is not None and not multiplies(case, recipe)


CHECKPOINTS = {
    "deepseek-v2": "deepseek-ai/DeepSeek-V2",
    "deepseek-v3": "deepseek-ai/DeepSeek-V3",
    "gemma-2-27b": "google/gemma-2-27b-it",
    "gemma-2-9b": "google/gemma-2-9b-it",
    "gemma-3-12b": "google/gemma-3-12b-it",
    "gemma-3-27b": "google/gemma-3-27b-it",
    "gemma-3-4b": "google/gemma-3-4b-it",
    "glm-5": "zai-org/GLM-5",
    "gpt-oss-120b": "openai/gpt-oss-120b",
    "gpt-oss-20b": "openai/gpt-oss-20b",
    "kimi-k2": "moonshotai/Kimi-K2-Instruct",
    "llama-2-13b": "meta-llama/Llama-2-13b-hf",
    "llama-2-70b": "meta-llama/Llama-2-70b-hf",
    "llama-2-7b": "meta-llama/Llama-2-7b-hf",
    "llama-3-70b": "meta-llama/Meta-Llama-3-70B",
    "llama-3-8b": "meta-llama/Meta-Llama-3-8B",
    "llama-3.1-405b": "meta-llama/Llama-3.1-405B-Instruct",
    "llama-3.1-70b": "meta-llama/Llama-3.1-70B-Instruct",
    "llama-3.1-8b": "meta-llama/Llama-3.1-8B-Instruct",
    "llama-3.2-1b": "meta-llama/Llama-3.2-1B-Instruct",
    "llama-3.2-3b": "meta-llama/Llama-3.2-3B-Instruct",
    "llama-4-maverick": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    "llama-4-scout": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "minimax-m2": "MiniMaxAI/MiniMax-M2",
    "mistral-7b": "mistralai/Mistral-7B-Instruct-v0.3",
    "mistral-7b-v0.1": "mistralai/Mistral-7B-Instruct-v0.1",
    "mixtral-8x22b": "mistralai/Mixtral-8x22B-v0.3",
    "mixtral-8x7b": "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "nemotron-h-56b": "nvidia/Nemotron-H-56B-Base-8K",
    "nemotron-h-8b": "nvidia/Nemotron-H-8B-Base-8K",
    "qwen-2.5-0.5b": "Qwen/Qwen2.5-0.5B-Instruct",
    "qwen-2.5-1.5b": "Qwen/Qwen2.5-1.5B-Instruct",
    "qwen-2.5-14b": "Qwen/Qwen2.5-14B-Instruct",
    "qwen-2.5-32b": "Qwen/Qwen2.5-32B-Instruct",
    "qwen-2.5-3b": "Qwen/Qwen2.5-3B-Instruct",
    "qwen-2.5-72b": "Qwen/Qwen2.5-72B-Instruct",
    "qwen-2.5-7b": "Qwen/Qwen2.5-7B-Instruct",
    "qwen-3-0.6b": "Qwen/Qwen3-0.6B",
    "qwen-3-1.7b": "Qwen/Qwen3-1.7B",
    "qwen-3-14b": "Qwen/Qwen3-14B",
    "qwen-3-235b-a22b": "Qwen/Qwen3-235B-A22B",
    "qwen-3-30b-a3b": "Qwen/Qwen3-30B-A3B",
    "qwen-3-32b": "Qwen/Qwen3-32B",
    "qwen-3-4b": "Qwen/Qwen3-4B",
    "qwen-3-8b": "Qwen/Qwen3-8B",
    "qwen-3.5-397b-a17b": "Qwen/Qwen3.5-397B-A17B",
}


def checkpoint_name(shipped: str, named: Sequence[str]) -> str:
    """The checkpoint of a model: as the scenario names it on the hub, or the published one; empty where none is known.

    >>> checkpoint_name("qwen-3-8b", []), checkpoint_name("qwen-3-8b", ["me/Qwen3-8B-FP8"]), checkpoint_name("own", [])
    ('Qwen/Qwen3-8B', 'me/Qwen3-8B-FP8', '')
    """
    return named[0] if named else CHECKPOINTS.get(shipped, "")
