"""Data types of a case: those of the layers' linear maps, those of other products, and what lacks support."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from costmodel.documents.reader.library import UNMEASURED
from costmodel.documents.reader.resolved_scenario import ACCELERATOR, LoadedScenario, ResolvedScenario
from costmodel.documents.schemas.efficiency import MatmulFit, SustainedFit
from costmodel.documents.schemas.hardware import Accelerator
from costmodel.documents.schemas.precision import RECIPES, Recipe
from costmodel.equations.kernels.roofline import best_matmul_share, capped_slowdown, narrow_slowdown, part_slowdown
from costmodel.equations.run.economics import capped_clock, share
from costmodel.ground.equation import Number
from costmodel.ground.errors import fail
from costmodel.ground.record import record
from costmodel.ground.units import Figure

if TYPE_CHECKING:
    from costmodel.documents.schemas.stack import Stack


# How much slower tensor cores are in a real step than in kernels alone, on one part.


def slowdown_of(case: ResolvedScenario, narrow: Number | None = None) -> Number:
    """Factor by which tensor cores are slower in real steps: as stated, else fitted and scaled by power over peak.

    narrow: slowdown of products in a narrow type over that of products in 16 bits
    """
    return _slowdown_under_cap(case, _slowdown_without_cap(case, narrow))


def _slowdown_without_cap(case: ResolvedScenario, narrow: Number | None) -> Number:
    """Slowdown of the tensor cores without a power cap: as stated, else fitted for this accelerator."""
    stated, fit = case.scenario.assume.sustained, case.efficiency.sustained
    assert fit
    if stated is not None:
        return stated if narrow is None else narrow_slowdown(stated, narrow)
    fitted = scaled_by_power(fit.factor if narrow is None else narrow * fit.factor, fit, case.accelerator)
    return fitted * untuned_factor(case)


def untuned_factor(case: ResolvedScenario) -> float:
    """Factor on the time of matrix products and attention if the stack is not tuned for the accelerator; else 1."""
    level = getattr(getattr(case, "stack", None), "untuned", None)  # an engine has none
    return 1.0 if level is None else float(level(case.accelerator.vendor))


def power_cap(case: ResolvedScenario) -> Number | None:
    """The cap on each accelerator's power; None if the scenario states none."""
    run = case.scenario.run
    return None if run is None else run.power.cap


def cap_over_rating(case: ResolvedScenario) -> float:
    """The power cap over the accelerator's rated power; infinite without a cap or a rating."""
    cap, power = power_cap(case), case.accelerator.power
    return math.inf if cap is None or power is None else float(cap / power.max)


def _slowdown_under_cap(case: ResolvedScenario, slowdown: Number) -> Number:
    """The slowdown with the scenario's power cap, which lowers the clock; an error if the rated power is unknown."""
    cap = power_cap(case)
    if cap is None:
        return slowdown
    power = case.accelerator.power
    if power is None:
        sentence = f"{case.accelerator.name} has no rated power, so that the effect of a cap is unknown"
        raise fail("D016", sentence, case.place("run.power.cap"), "state power.max of the accelerator")
    if cap >= power.max:
        return slowdown
    return capped_slowdown(slowdown, capped_clock(cap, power.max, 0.0))


def scaled_by_power(factor: Number, fit: SustainedFit, part: Accelerator) -> Number:
    """A fitted slowdown scaled to another accelerator by its ratio of power to peak."""
    if part.power is None or part.peak.wide is None or fit.power is None or fit.peak is None:
        return factor
    return part_slowdown(factor, part.power.max, part.peak.wide, fit.power, fit.peak)


_WIDE = ("fp32", "tf32", "fp16", "bf16")


@record
class LinearTypes:
    """Data types, kernel fit and peak rate of a layer's weight matrices, and their slowdown over other products."""

    recipe: Recipe
    fit: MatmulFit
    peak: float
    sustained: float


def vector_rate(accelerator: Accelerator, peak: float) -> float:
    """Rate of the vector units in fp32; `peak` if the datasheet states none."""
    return accelerator.peak.fp32 or peak


def linear_types_of(case: ResolvedScenario) -> LinearTypes:
    """Data types, kernel fit and peak rate of a layer's weight matrices."""
    recipe, sustained = _recipe(case), case.efficiency.sustained
    peak: float = getattr(case.accelerator.peak, recipe.type)
    return LinearTypes(recipe, matmul_fit(case, recipe.fit, recipe.type), peak, sustained.narrow if sustained else 1.0)


def _recipe(case: ResolvedScenario) -> Recipe:
    """The recipe of a case; without transposed copies where neither its scales nor the accelerator need them."""
    recipe, operands = RECIPES[case.scenario.workload.precision], case.accelerator.operands
    if recipe.single is None or operands is None or operands.transposed:
        return recipe
    return replace(recipe, quantised=recipe.single.quantised, copies=recipe.single.copies, transposed=0.0)


def matmul_fit(case: ResolvedScenario, key: str, kind: str) -> MatmulFit:
    """The matmul fit for a type; without runs its efficiency comes from the best measured matmul, if there is one."""
    fit = case.efficiency.matmul.get(key) or case.common.matmul[key]
    if not _without_runs(case):
        return fit
    return fit.model_copy(update=unmeasured_shares(fit, case.accelerator, kind))


def _without_runs(case: LoadedScenario) -> bool:
    """Whether the constants of a case are those for unmeasured accelerators, or come from others of its family."""
    sustained, part = case.efficiency.sustained, case.accelerator
    return case.efficiency.of == UNMEASURED or (sustained is not None and not sustained.covers(part.name, part.vendor))


def unmeasured_shares(fit: MatmulFit, part: Accelerator, kind: str) -> dict[str, Figure]:
    """Forward and backward share of the peak for an accelerator without a fit, from its best measured matmuls."""
    if kind in part.best_matmul:
        return best_shares(fit, part, kind)
    return _limited_to_bf16_share(fit, part) if kind not in _WIDE and "bf16" in part.best_matmul else {}


def _limited_to_bf16_share(fit: MatmulFit, part: Accelerator) -> dict[str, Figure]:
    """Shares of the peak for an unmeasured narrow type, at most that of the best measured bf16 matmul."""
    wide = best_shares(fit, part, "bf16")
    return {name: found for name, found in wide.items() if found < getattr(fit, name)}


def best_shares(fit: MatmulFit, part: Accelerator, kind: str) -> dict[str, Figure]:
    """Forward and backward share of the peak, from the best measured matmul of a type; their ratio is the fit's."""
    best, peak = part.best_matmul[kind], getattr(part.peak, kind)
    gains = {"compute_share": 1.0, "backward_share": share(fit.backward_share, fit.compute_share)}
    place = getattr(best, "place", None)
    return {name: Figure(float(best_matmul_share(best, peak, gain)), place) for name, gain in gains.items()}


def by_best_matmul(case: LoadedScenario, kind: str) -> bool:
    """Whether the best measured matmul of a type replaces the fitted efficiency."""
    return _without_runs(case) and kind in case.accelerator.best_matmul


def check_precision_supported(case: ResolvedScenario, recipe: Recipe) -> None:
    """Raises an error if the accelerator or the stack does not support the precision."""
    chip, stack = case.accelerator, case.stack
    if not _accelerator_has_recipe(chip, recipe):
        has = [
            other.name
            for other in RECIPES.values()
            if _accelerator_has_recipe(chip, other) and _stack_has_recipe(stack, other)
        ]
        place = case.place("workload.precision", *ACCELERATOR)
        hint = f"workload.precision of it: {', '.join(has)}" if has else "it needs a peak in bf16 or fp16"
        raise fail("D016", f"{chip.name} cannot multiply in {recipe.name}", place, hint)
    if not _stack_has_recipe(stack, recipe):
        place = case.place("workload.precision", "stack")
        hint = "it offers bf16 and fp16; ddp, fsdp1, fsdp2 and megatron-lm train in 32 bits"
        raise fail("D016", f"the stack {stack.name} does not train in {recipe.name}", place, hint)
    if recipe.narrow and (stack.low_precision is None or recipe.name not in stack.low_precision.recipes):
        offered = ", ".join(stack.low_precision.recipes if stack.low_precision else ()) or "bf16 and fp16 only"
        place = case.place("workload.precision", "stack")
        raise fail("D016", f"the stack {stack.name} does not train in {recipe.name}", place, f"it offers {offered}")


def _stack_has_recipe(stack: Stack, recipe: Recipe) -> bool:
    """Whether the stack trains with the recipe; all stacks train in 16 bits."""
    return not recipe.full or recipe.name in stack.full_precision


def _accelerator_has_recipe(chip: Accelerator, recipe: Recipe) -> bool:
    """Whether the accelerator has peaks for both types of the recipe and belongs to the families that support it."""
    has = all(getattr(chip.peak, kind) is not None for kind in (recipe.type, recipe.wide))
    return has and (not recipe.families or chip.family in recipe.families)
