"""A stack as it runs in a precision on an accelerator: states in 32 bits, and attention where flash does not run."""

from __future__ import annotations

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.efficiency import AttentionFit
from costmodel.documents.schemas.model import Layers, Model
from costmodel.documents.schemas.precision import RECIPES, DispatchType, Recipe
from costmodel.documents.schemas.scenario import Optimizer
from costmodel.documents.schemas.stack import GradientType, Stack
from costmodel.estimate.machine.number_formats import LinearTypes, cap_over_rating, slowdown_of, untuned_factor
from costmodel.estimate.shared.assumptions import AssumptionLog, note_borrowed_fit
from costmodel.estimate.shared.results import agreed, number
from costmodel.ground.counts import AttentionKernel
from costmodel.ground.errors import Place, fail
from costmodel.ground.units import Figure, show

_SINGLE = Figure(4.0, Place("IEEE 754", path="binary32"))
_NONE = Figure(0.0, Place("IEEE 754", path="the weight is the master copy"))
# FlashAttention 2 and cuDNN's fused attention need Ampere, FlashAttention 1 needs Turing (flash-attention's README,
# torch's sdp_utils.cpp); none of them has kernels for 32 bits.
_WITHOUT = {"volta": ("flash-1", "flash-2", "flash-3"), "turing": ("flash-2", "flash-3")}
MEMORY_EFFICIENT = "memory-efficient"
_DISPATCHED = {
    "bf16": Figure(2.0, Place("bfloat16", path="16 bits")),
    "fp8": Figure(1.03125, Place("DeepEP", path="a byte, and an fp32 scale for 128 of them")),
}
LOSS = Figure(8.0, Place("count", path="logits in fp32, and their softmax or gradient"))
CHUNKED = 2.0  # bytes of a 16-bit logit: a loss that keeps less makes its logits piece by piece


def attention_in_use(case: ResolvedScenario) -> AttentionKernel:
    """Class of the attention kernel that runs: the stack's, or its fallback."""
    kernels = case.stack.kernels
    return kernels.fallback if uses_fallback_attention(case) else kernels.runs(case.accelerator.family)


def uses_fallback_attention(case: ResolvedScenario) -> bool:
    """Whether the stack's attention kernel does not support this accelerator or 32 bits."""
    family, recipe = case.accelerator.family, RECIPES[case.scenario.workload.precision]
    usual = case.stack.kernels.runs(family)
    return usual in _WITHOUT.get(family, ()) or (recipe.full and usual != "unfused")


def stack_in_use(case: ResolvedScenario) -> Stack:
    """The stack of a case, with the attention kernel that runs and with the bytes of its precision."""
    stack, kernel = case.stack, attention_in_use(case)
    if kernel != stack.kernels.attention:
        stack = stack.model_copy(update={"kernels": stack.kernels.model_copy(update={"attention": kernel})})
    if not RECIPES[case.scenario.workload.precision].full:
        return stack
    single = {"weights": _SINGLE, "compute": _SINGLE, "master": _NONE}
    alone = {"cast": False, "gradient_copies": False, "step_gradient": None}
    states = stack.states.model_copy(update={**single, **alone})
    kept = stack.buckets.loss
    buckets = stack.buckets if kept < CHUNKED or kept >= LOSS else stack.buckets.model_copy(update={"loss": LOSS})
    return stack.model_copy(update={"states": states, "buckets": buckets, "gradients": "fp32", "reduced": None})


def model_in_use(case: ResolvedScenario, log: AssumptionLog) -> Model:
    """The model as the stack runs it; some model code runs all experts on every token."""
    kernels, model = case.stack.experts, case.model
    if kernels is None or not kernels.own_module:
        return model
    layers = [_with_all_experts(kind) for kind in model.layers]
    if layers == model.layers:
        return model
    log.note("experts", "all run on every token", f"stacks/{case.stack.name}, the model's own module")
    return model.model_copy(update={"layers": layers})


def _with_all_experts(kind: Layers) -> Layers:
    """A layer whose code runs every expert on every token, as one with top_k of all experts."""
    experts = kind.experts
    if experts is None or experts.module_runs == "chosen":
        return kind
    return kind.model_copy(update={"experts": experts.model_copy(update={"top_k": experts.count})})


def optimizer_in_use(case: ResolvedScenario, log: AssumptionLog) -> Optimizer:
    """The optimizer of a case. If it follows the weights (as_weights), its states take 16 bits where neither weights
    nor master copy have 32; that is noted as an assumption.
    """
    optimizer, states = case.optimizer, case.stack.states
    wide = RECIPES[case.scenario.workload.precision].full
    if not optimizer.as_weights or wide or agreed(states.weights + states.master >= _SINGLE):
        return optimizer
    log.note("workload.optimizer", "states in bf16, as the weights", f"stacks/{case.stack.name}")
    root = None if optimizer.root is None else optimizer.root / 2
    return optimizer.model_copy(update={"moments": optimizer.moments / 2, "root": root})


def dispatched_bytes(case: ResolvedScenario, kind: DispatchType) -> float:
    """Bytes per element of a dispatched token; unless it is in fp8, its type is that of activations."""
    wide = RECIPES[case.scenario.workload.precision].full and kind == "bf16"
    return _SINGLE if wide else _DISPATCHED[kind]


def attention_fit(case: ResolvedScenario) -> AttentionFit | None:
    """The fit of the attention kernel in use; None for unfused attention, whose scores are written to memory."""
    kernel = attention_in_use(case)
    if kernel != MEMORY_EFFICIENT:
        return case.efficiency.attention.get(kernel)
    single = RECIPES[case.scenario.workload.precision].wide == "fp32"
    name = f"{kernel}-fp32" if single else kernel
    return case.efficiency.attention.get(name) or case.common.attention.get(name)


# Rates and data types of a training step that the scenario does not state; each is recorded as an assumption.


def gradient_types(log: AssumptionLog, case: ResolvedScenario) -> tuple[GradientType, GradientType]:
    """The types in which gradients are accumulated and reduced."""
    written, stack = case.scenario.workload.gradients, case.stack
    if RECIPES[case.scenario.workload.precision].full:
        return _fp32_gradient_types(log, case)
    if written is None:
        log.note("workload.gradients", stack.gradients, f"stacks/{stack.name}")
    if stack.reduced is not None:
        log.note("gradients on the network", stack.reduced, f"stacks/{stack.name}")
    accumulated = written or stack.gradients
    return accumulated, stack.reduced or accumulated


def _fp32_gradient_types(log: AssumptionLog, case: ResolvedScenario) -> tuple[GradientType, GradientType]:
    """The gradient types for fp32 weights: fp32; an error for another stated type."""
    workload = case.scenario.workload
    if workload.gradients not in (None, "fp32"):
        sentence = f"gradients in {workload.gradients} of weights in fp32, which precision {workload.precision} trains"
        raise fail("D016", sentence, case.place("workload.gradients"), "take workload.gradients: fp32, or leave it out")
    if workload.gradients is None:
        log.note("workload.gradients", "fp32", f"precision {workload.precision}")
    return "fp32", "fp32"


def note_assumed_rates(log: AssumptionLog, case: ResolvedScenario, linear: LinearTypes, origin: str) -> None:
    """Record the attention kernel, the efficiency of isolated products and, if not stated, the slowdown of a step.

    Also what torch compiles, where the scenario names its stack and states no more of it.
    """
    compiled = case.stack.compile
    if compiled is not None and isinstance(case.scenario.stack, str):
        other = "none" if compiled != "none" else "blocks"
        log.note("stack.compile", compiled, f"stacks/{case.stack.name}; or --set stack.compile={other}")
    share = show(number(linear.fit.compute_share), "1")
    fit = case.efficiency.sustained
    note_borrowed_fit(log, case, () if fit is None else fit.parts)
    log.note("attention and matmul", f"{attention_in_use(case)}; matmul alone reaches {share} of peak", origin)
    if fit is None or case.scenario.assume.sustained is not None:
        return
    slowdown = number(slowdown_of(case))
    capped = ", capped" if number(cap_over_rating(case)) < 1 else ""
    level = untuned_factor(case)
    tuned = "" if level == 1 else f", {level:g} times for stacks/{case.stack.name} on {case.accelerator.vendor}"
    power = "" if slowdown == number(fit.factor) * level else f", by power{capped}"
    log.note("assume.sustained", show(slowdown, "1"), f"{origin}{power}{tuned}")


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
