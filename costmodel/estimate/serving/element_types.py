"""Data types of an engine: stored weights, inputs of products, and their rates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.documents.reader.resolved_scenario import ACCELERATOR
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.efficiency import MatmulFit
from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.precision import (
    RECIPES,
    STORED,
    STORED_EXPERTS,
    CacheType,
    Precision,
    Recipe,
    WeightType,
)
from costmodel.equations.layers.parameters import table_parameters
from costmodel.equations.serving.engine_step import mixed_weight_bytes, scaled_element_bytes
from costmodel.estimate.model.shards import MIXING, Shard, layer_matmuls, shard
from costmodel.estimate.shared.assumptions import AssumptionLog
from costmodel.ground.equation import Number, term
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record
from costmodel.ground.units import Figure

_KNOWN = {  # bytes of an element alone, of a scale, elements that share it: of scaled_element_bytes
    "fp8-block": (1.0, 4.0, 16384.0),
    "int4-g32": (0.5, 2.0, 32.0),  # without zero points
    "int4-g128": (0.5, 2.5, 128.0),
    "nvfp4": (0.5, 1.0, 16.0),
    "mxfp4": (0.5, 1.0, 32.0),
    # of GGUF: blocks of ggml-common.h of llama.cpp, 84, 110, 144, 176 and 210 B for 256 weights, 34 B for 32
    "q2_k": (0.25, 20.0, 256.0),
    "q3_k": (0.375, 14.0, 256.0),
    "q4_k": (0.5, 16.0, 256.0),
    "q5_k": (0.625, 16.0, 256.0),
    "q6_k": (0.75, 18.0, 256.0),
    "q8_0": (1.0, 2.0, 32.0),
}
# Mixes of GGUF: most maps in the first type, and in the second those of values and half of those down from the MLP, of
# q3_k_m all of these and the maps out of attention (llama_tensor_get_type of llama.cpp); shares of Llama 3.1 8B.
_MIXES = {"q3_k_m": ("q3_k", "q4_k", 0.38), "q4_k_m": ("q4_k", "q6_k", 0.15), "q5_k_m": ("q5_k", "q6_k", 0.15)}
# Of the rate of products in 16 bits, where kernels widen narrow weights on the way: on an A100 Marlin reaches 0.60 to
# 0.66 of torch from 1,024 rows on, and 0.69 of unpacking first with 8,192. No other part was measured [marlin-gemm].
WIDENED = {"a100-sxm-80": 0.65}  # by efficiency document, which all A100 share
WIDE = frozenset({"router", MIXING})  # matrices that stay wide where weights are quantised
_WHOLE = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0}
_WEIGHTS_OF: dict[str, str] = {"fp8-cs": "fp8", "fp8-row": "fp8", "mxfp8": "fp8"}  # of a precision of products


@record
class ServingTypes:
    """Bytes per element of weights, activations and KV cache, and rates and fits of matrix products."""

    recipe: Recipe
    weight: Number  # of the layers' linear maps, as they are kept and read
    wide: float  # of everything else: 16 bits
    operand: float  # of what the products read of activations
    cache: float
    peak: float
    peak_wide: float
    fit: MatmulFit
    fit_wide: MatmulFit
    expert_recipe: Recipe  # of routed experts
    expert_weight: Number
    expert_peak: float
    embedding: Number  # of the tables at both ends, which only GGUF keeps narrow
    head: Number
    measured: bool  # whether the products were measured in their type, on this accelerator


def element_types(case: ServingCase, log: AssumptionLog) -> ServingTypes:
    """The element types of a workload; an error for a type that the accelerator or the engine lacks."""
    workload = case.scenario.workload
    _check_type_offered(case)
    recipe = _recipe(case, workload.precision)
    peak, wide = _peaks(case, recipe, "workload.precision")
    fit = _fit_of(case, recipe)
    if fit is None or recipe.wide not in case.efficiency.matmul:
        raise _unsupported_type(case, recipe, "workload.precision")
    if fit != recipe.fit:
        log.note(f"kernels of {recipe.name} products", f"as {fit}", "none was measured in int8")
    kept, kept_experts = stored_types(case)
    if workload.weights is None:
        origin = _origin_of_weights(case.model.stored) if kept else "same as workload.precision"
        log.note("workload.weights", kept or workload.precision, origin)
    if kept_experts is not None:
        log.note("workload.expert_weights", kept_experts, _origin_of_weights(case.model.stored_experts))
    in_memory = workload.weights or kept or _stored_type(workload.precision)
    weight = _stored_width(in_memory)
    if case.model.stored_wide is not None and in_memory == case.model.stored:
        weight = _mean_linear_width(case.model, weight, case.model.stored_wide)
        log.note(
            "weights in 16 bits",
            f"{case.model.stored_wide / 1e9:.3g} G parameters",
            "the checkpoint, as the model states",
        )
    if recipe.operand == _WHOLE["bf16"] and in_memory != _stored_type(workload.precision):
        with term("weights widened on the way"):
            peak = WIDENED.get(case.efficiency.of, 1.0) * peak
    embedding, head = _table_width(in_memory)
    narrow = _recipe(case, workload.expert_precision or workload.precision)
    expert_weight = _stored_width(in_memory)
    if workload.expert_weights or kept_experts or workload.expert_precision:
        expert_weight = _stored_width(workload.expert_weights or kept_experts or _stored_type(narrow.name))
    return ServingTypes(
        recipe=recipe,
        weight=weight,
        wide=Figure(2.0, Place(recipe.wide, path="16 bits")),
        operand=recipe.operand,
        cache=Figure(_WHOLE[workload.cache], Place(workload.cache, path="bytes of an element")),
        peak=peak,
        peak_wide=wide,
        fit=case.efficiency.matmul[fit],
        fit_wide=case.efficiency.matmul[recipe.wide],
        expert_recipe=narrow,
        expert_weight=expert_weight,
        expert_peak=_peaks(case, narrow, "workload.expert_precision")[0],
        embedding=embedding,
        head=head,
        measured=fit == recipe.fit,
    )


def _recipe(case: ServingCase, name: Precision) -> Recipe:
    """The recipe of a precision; engines multiply in int8 with one scale per row on every accelerator with int8."""
    recipe = RECIPES[name]
    return replace(recipe, families=()) if name == "int8" and case.accelerator.peak.int8 is not None else recipe


def _fit_of(case: ServingCase, recipe: Recipe) -> str | None:
    """Name of the matmul fit for a recipe; for int8 without a fit, the fp8 fit, else the bf16 fit."""
    able = (recipe.fit, "fp8", "bf16") if recipe.name == "int8" else (recipe.fit,)
    return next((name for name in able if name in case.efficiency.matmul), None)


def stored_types(case: ServingCase) -> tuple[WeightType | None, WeightType | None]:
    """Weight types of the model's checkpoint, for layers and for experts, if the workload states no others.

    Stating the type that the checkpoint has anyway changes nothing; products in it read weights in it.
    """
    workload, name = case.scenario.workload, case.model.name
    kept = case.model.stored or STORED.get(name)
    experts = case.model.stored_experts or STORED_EXPERTS.get(name)
    if (workload.expert_weights, workload.expert_precision) != (None, None) or workload.weights not in (None, kept):
        return None, None
    wide = workload.precision in ("bf16", "fp16")
    if not wide and workload.precision != kept:
        return None, None
    offered = [*case.stack.weights, *case.stack.precisions]
    return kept if wide and kept in offered else None, experts if experts in offered else None


def _origin_of_weights(stated: WeightType | None) -> str:
    return "the published checkpoint" if stated is None else "the checkpoint, as the model states"


def _check_type_offered(case: ServingCase) -> None:
    """Raises an error for a type that the engine lacks, or for expert types in a model without experts."""
    workload, engine = case.scenario.workload, case.stack
    both = [*engine.weights, *engine.precisions]
    for key, value, offered in (
        ("precision", workload.precision, engine.precisions),
        ("weights", workload.weights or workload.precision, both),
        ("cache", workload.cache, engine.caches),
        ("expert_precision", workload.expert_precision, engine.precisions),
        ("expert_weights", workload.expert_weights, both),
    ):
        if value is None:
            continue
        place = case.place(f"workload.{key}", "stack")
        if key.startswith("expert") and not case.model.has_experts:
            raise fail("D016", f"{case.model.title} has no experts for {key}", place, f"leave {key} out")
        if value not in offered:
            sentence = f"{engine.name} has no {value} for {key}"
            raise fail("D016", sentence, place, f"it has {', '.join(map(str, offered))}")


def _peaks(case: ServingCase, recipe: Recipe, key: str) -> tuple[float, float]:
    """Datasheet peaks for the recipe's type and for its wide type."""
    chip = case.accelerator
    peak, wide = getattr(chip.peak, recipe.type), getattr(chip.peak, recipe.wide)
    if peak is None or wide is None or (recipe.families and chip.family not in recipe.families):
        raise _unsupported_type(case, recipe, key)
    return peak, wide


def _unsupported_type(case: ServingCase, recipe: Recipe, key: str) -> CostModelError:
    sentence = f"{case.accelerator.name} cannot multiply in {recipe.name}"
    able = [name for name in case.stack.precisions if _accelerator_can_multiply(case, _recipe(case, name))]
    hint = f"it and {case.stack.name} have {', '.join(able)}: --set {key}={able[0]}" if able else f"take another {key}"
    return fail("D016", sentence, case.place(key, *ACCELERATOR), hint)


def _accelerator_can_multiply(case: ServingCase, recipe: Recipe) -> bool:
    """Whether the accelerator has peaks and fits for both types of a recipe."""
    chip, fits = case.accelerator, case.efficiency.matmul
    rates = getattr(chip.peak, recipe.type), getattr(chip.peak, recipe.wide)
    of_family = not recipe.families or chip.family in recipe.families
    return None not in rates and of_family and _fit_of(case, recipe) is not None and recipe.wide in fits


def _stored_type(precision: str) -> str:
    """The type in which weights are stored for products in this precision."""
    return _WEIGHTS_OF.get(precision, precision)


def _stored_width(kept: str) -> Number:
    """Bytes per stored weight, with its share of the scales."""
    if kept in _WHOLE:
        return Figure(_WHOLE[kept], Place(kept, path="bytes of an element"))
    if kept in _MIXES:
        most, more, share = _MIXES[kept]
        with term("weights"):
            return mixed_weight_bytes(1.0, 1.0 - share, _stored_width(most), _stored_width(more))
    with term("weights"):
        return scaled_element_bytes(*_KNOWN[kept])


def _table_width(kept: str) -> tuple[Number, Number]:
    """Bytes per weight of embedding and head: own types in GGUF, else 16 bits."""
    if not kept.startswith("q"):
        return _stored_width("bf16"), _stored_width("bf16")
    return _stored_width(_MIXES[kept][0] if kept in _MIXES else kept), _stored_width(kept if kept == "q8_0" else "q6_k")


def narrow_parameters(model: Model, part: Shard) -> Number:
    """Parameters of a layer on one rank that quantisation stores narrow, without routed experts."""
    with term("narrow weights"):
        narrow: Number = 0.0
        for matrix in layer_matmuls(model, part):
            if matrix.name not in WIDE:
                narrow = narrow + matrix.split * table_parameters(matrix.n, matrix.k)
    return narrow


def _mean_linear_width(model: Model, narrow: Number, wide: Number) -> Number:
    """Mean bytes per element of the linear maps, if `wide` of their parameters stay in 16 bits."""
    with term("linear maps of the layers"):
        maps: Number = 0.0
        for kind in model.layers:
            maps = maps + kind.count * narrow_parameters(model, shard(model, kind, 1.0))
    with term("weights"):
        left = np.maximum(maps - wide, 0.0)
        return mixed_weight_bytes(maps, left, narrow, 2.0) / maps


# The types of products and of the cache that follow from the checkpoint, where the workload states none; whether what
# it states needs another checkpoint.


def with_cache_type(case: ServingCase, log: AssumptionLog) -> ServingCase:
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


def with_matmul_type(case: ServingCase, log: AssumptionLog) -> ServingCase:
    """The case with the checkpoint's type for matrix products, if engine and accelerator support it."""
    workload, (kept, experts) = case.scenario.workload, stored_types(case)
    recipe = next((each for name, each in RECIPES.items() if name == kept), None)
    if "precision" in workload.model_fields_set or recipe is None or recipe.name == workload.precision:
        return case
    if not can_multiply(case, recipe):
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
    widened = workload.precision in ("bf16", "fp16") and (recipe is None or not can_multiply(case, recipe))
    return (workload.weights or read or workload.precision) != kept or not (workload.precision == kept or widened)


def can_multiply(case: ServingCase, recipe: Recipe) -> bool:
    """Whether the engine supports matrix products of a recipe, and the accelerator has a peak and a fit for them."""
    chip, fits = case.accelerator, case.efficiency
    if recipe.name not in case.stack.precisions or (recipe.families and chip.family not in recipe.families):
        return False
    if getattr(chip.peak, recipe.type) is None or recipe.fit not in fits.matmul:
        return False
    kernels = fits.serving or case.common.serving
    return not case.model.has_experts or kernels is None or bool({recipe.name, recipe.fit} & set(kernels.experts))
