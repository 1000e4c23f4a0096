"""The type of products of a checkpoint that is published in a narrow one, where the workload states none."""

from __future__ import annotations

from dataclasses import replace

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.precision import RECIPES, Recipe
from costmodel.estimate.serving.element_types import stored_types
from costmodel.estimate.shared.assumptions import AssumptionLog


def with_checkpoint_precision(case: ServingCase, log: AssumptionLog) -> ServingCase:
    """The same case, whose products read what the checkpoint is in if engine and accelerator multiply in that."""
    workload, (kept, experts) = case.scenario.workload, stored_types(case)
    recipe = next((each for name, each in RECIPES.items() if name == kept), None)
    if "precision" in workload.model_fields_set or recipe is None or recipe.name == workload.precision:
        return case
    if not _multiplies(case, recipe):
        origin = f"{case.stack.name} on {case.accelerator.name} has no products in {recipe.name} of the checkpoint"
        log.note("workload.precision", workload.precision, origin)
        return case
    log.note("workload.precision", recipe.name, "the type of the checkpoint")
    taken = workload.model_copy(update={"precision": recipe.name})
    if experts is not None:
        log.note("workload.expert_weights", experts, "the type of the checkpoint's experts")
        taken = taken.model_copy(update={"expert_weights": experts})
    return replace(case, scenario=case.scenario.model_copy(update={"workload": taken}))


def _multiplies(case: ServingCase, recipe: Recipe) -> bool:
    """Whether the engine offers products of a recipe, and the accelerator has a rate and a fit for them."""
    chip, fits = case.accelerator, case.efficiency
    if recipe.name not in case.stack.precisions or (recipe.families and chip.family not in recipe.families):
        return False
    if getattr(chip.peak, recipe.type) is None or recipe.fit not in fits.matmul:
        return False
    kernels = fits.serving or case.common.serving
    return not case.model.has_experts or kernels is None or bool({recipe.name, recipe.fit} & set(kernels.experts))
