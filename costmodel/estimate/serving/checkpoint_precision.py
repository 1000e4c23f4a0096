"""The types of products and of the cache that follow from the checkpoint, where the workload states none; whether what
it states needs another checkpoint.
"""

from __future__ import annotations

from dataclasses import replace

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.precision import RECIPES, STORED, STORED_EXPERTS, CacheType, Recipe
from costmodel.estimate.serving.element_types import stored_types
from costmodel.estimate.shared.assumptions import AssumptionLog


def with_checkpoint_types(case: ServingCase, log: AssumptionLog) -> ServingCase:
    """The case with matmul and cache types of the checkpoint, unless the workload states them."""
    return _with_cache(_with_precision(case, log), log)


def _with_cache(case: ServingCase, log: AssumptionLog) -> ServingCase:
    """The case with the engine's default cache type: of the checkpoint's scales, else 16 bits."""
    workload, engine, kept = case.scenario.workload, case.stack, case.model.stored_cache
    if "cache" in workload.model_fields_set:
        return case
    taken: CacheType = "fp16" if workload.precision == "fp16" else "bf16"
    if kept is not None and not needs_other_checkpoint(case):
        offered = kept in engine.caches
        taken = kept if offered else taken
        lacks = f"{engine.name} has no cache in {kept} of the checkpoint"
        log.note("workload.cache", taken, "the checkpoint, as the model states" if offered else lacks)
    elif workload.precision in engine.checkpoint_caches:
        taken = engine.checkpoint_caches[workload.precision]
        log.note("workload.cache", taken, f"stacks/{engine.name}, of checkpoints in {workload.precision}")
    stated = workload.model_copy(update={"cache": taken})
    return replace(case, scenario=case.scenario.model_copy(update={"workload": stated}))


def _with_precision(case: ServingCase, log: AssumptionLog) -> ServingCase:
    """The case with the checkpoint's type for matrix products, if engine and accelerator support it."""
    workload, (kept, experts) = case.scenario.workload, stored_types(case)
    recipe = next((each for name, each in RECIPES.items() if name == kept), None)
    if "precision" in workload.model_fields_set or recipe is None or recipe.name == workload.precision:
        return case
    if not multiplies(case, recipe):
        origin = f"{case.stack.name} on {case.accelerator.name} has no products in {recipe.name} of the checkpoint"
        log.note("workload.precision", workload.precision, origin)
        return case
    log.note("workload.precision", recipe.name, "the type of the checkpoint")
    taken = workload.model_copy(update={"precision": recipe.name})
    if experts is not None:
        log.note("workload.expert_weights", experts, "the type of the checkpoint's experts")
        taken = taken.model_copy(update={"expert_weights": experts})
    return replace(case, scenario=case.scenario.model_copy(update={"workload": taken}))


_TYPES = {"precision", "weights", "expert_precision", "expert_weights"}


def needs_other_checkpoint(case: ServingCase) -> bool:
    """Whether the workload states types that the model's narrow checkpoint cannot provide."""
    workload, model = case.scenario.workload, case.model
    if not _TYPES & workload.model_fields_set:
        return False
    kept, experts = model.stored or STORED.get(model.name), model.stored_experts or STORED_EXPERTS.get(model.name)
    read, read_experts = stored_types(case)
    if experts is not None and (workload.expert_weights or read_experts) != experts:
        return True
    if kept is None:
        return False
    recipe = next((each for name, each in RECIPES.items() if name == kept), None)
    widened = workload.precision in ("bf16", "fp16") and (recipe is None or not multiplies(case, recipe))
    return (workload.weights or read or workload.precision) != kept or not (workload.precision == kept or widened)


def multiplies(case: ServingCase, recipe: Recipe) -> bool:
    """Whether the engine supports matrix products of a recipe, and the accelerator has a peak and a fit for them."""
    chip, fits = case.accelerator, case.efficiency
    if recipe.name not in case.stack.precisions or (recipe.families and chip.family not in recipe.families):
        return False
    if getattr(chip.peak, recipe.type) is None or recipe.fit not in fits.matmul:
        return False
    kernels = fits.serving or case.common.serving
    return not case.model.has_experts or kernels is None or bool({recipe.name, recipe.fit} & set(kernels.experts))
