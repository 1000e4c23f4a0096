"""Rates and data types of a training step that the scenario does not state; each is recorded as an assumption."""

from __future__ import annotations

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.precision import RECIPES, Recipe
from costmodel.documents.schemas.stack import GradientType
from costmodel.estimate.machine.clock_throttling import cap_over_rating, slowdown_of, untuned
from costmodel.estimate.machine.number_formats import Linear
from costmodel.estimate.shared.assumptions import AssumptionLog
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.stack_in_use import attention_in_use
from costmodel.ground.errors import fail
from costmodel.ground.units import show


def gradient_types(log: AssumptionLog, case: ResolvedScenario) -> tuple[GradientType, GradientType]:
    """The types in which gradients are accumulated and reduced."""
    written, stack = case.scenario.workload.gradients, case.stack
    if RECIPES[case.scenario.workload.precision].full:
        return _single(log, case)
    if written is None:
        log.note("workload.gradients", stack.gradients, f"stacks/{stack.name}")
    if stack.reduced is not None:
        log.note("gradients on the network", stack.reduced, f"stacks/{stack.name}")
    accumulated = written or stack.gradients
    return accumulated, stack.reduced or accumulated


def _single(log: AssumptionLog, case: ResolvedScenario) -> tuple[GradientType, GradientType]:
    """The gradient types for fp32 weights: fp32; an error for another stated type."""
    workload = case.scenario.workload
    if workload.gradients not in (None, "fp32"):
        sentence = f"gradients in {workload.gradients} of weights in fp32, which precision {workload.precision} trains"
        raise fail("D016", sentence, case.place("workload.gradients"), "take workload.gradients: fp32, or leave it out")
    if workload.gradients is None:
        log.note("workload.gradients", "fp32", f"precision {workload.precision}")
    return "fp32", "fp32"


def note_rates(log: AssumptionLog, case: ResolvedScenario, linear: Linear, origin: str) -> None:
    """Record the attention kernel, the efficiency of isolated products and, if not stated, the slowdown of a step.

    Also what torch compiles, where the scenario names its stack and states no more of it.
    """
    compiled = case.stack.compile
    if compiled is not None and isinstance(case.scenario.stack, str):
        other = "none" if compiled != "none" else "blocks"
        log.note("stack.compile", compiled, f"stacks/{case.stack.name}; or --set stack.compile={other}")
    share = show(number(linear.fit.compute_share), "1")
    log.note("attention and matmul", f"{attention_in_use(case)}; {share} of peak alone", origin)
    fit = case.efficiency.sustained
    if fit is None or case.scenario.assume.sustained is not None:
        return
    found = number(slowdown_of(case))
    capped = ", capped" if number(cap_over_rating(case)) < 1 else ""
    level = untuned(case)
    tuned = "" if level == 1 else f", {level:g} times for stacks/{case.stack.name} on {case.accelerator.vendor}"
    power = "" if found == number(fit.factor) * level else f", by power{capped}"
    log.note("assume.sustained", show(found, "1"), f"{origin}{power}{tuned}")


def mfu_peak(log: AssumptionLog, case: ResolvedScenario, recipe: Recipe) -> float:
    """The peak rate for MFU: that of the matmul input type, unless the scenario names another."""
    written, peaks = case.scenario.assume.mfu_peak, case.accelerator.peak
    peak: float | None = getattr(peaks, written or recipe.type)
    if peak is None:
        sentence, place = f"{case.accelerator.name} has no {written} peak", case.place("assume.mfu_peak")
        raise fail("D016", sentence, place, "take another assume.mfu_peak")
    if (recipe.narrow or recipe.full) and written is None:
        log.note("assume.mfu_peak", f"{recipe.type}, {show(number(peak), 'FLOP/s')}", f"precision {recipe.name}")
    return peak
