"""A training plan as plain values: numbers in SI units with the unit in the name, choices, and remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from costmodel.documents.schemas.results import machine_name
from costmodel.estimate.answer_facts import facts_of, row_facts
from costmodel.estimate.shared.plan_batch import Structure, plan_to_mapping
from costmodel.estimate.training_answer.evaluate_training import fits_at_p90, verdict
from costmodel.estimate.training_answer.predict_training import Answer
from costmodel.explore.answer_summaries import complete_plan
from costmodel.ground.counts import SIZES
from costmodel.report.data_formats.answer_fields import assumption_fields, finite, import_fields
from costmodel.report.terminal.head import price_fields
from costmodel.report.terminal.layout import schema_head
from costmodel.report.terminal.refusals import remedies_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from costmodel.explore.explain.model_memory import ModelMemory
    from costmodel.explore.explain.plan_choice_effects import ExplainedAnswer


def training_plan_fields(
    structure: Structure, sizes: Mapping[str, float], costs: Mapping[str, float]
) -> dict[str, Any]:
    """The sizes and choices of a plan, its results, and whether it fits."""
    share = costs["memory_share"]
    return {
        **plan_key_fields(structure, sizes),
        **{machine_name(name): finite(value) for name, value in costs.items()},
        "verdict": verdict(share),
        "fits": share <= 1,
        "fits_p90": fits_at_p90(costs),
    }


def plan_key_fields(structure: Structure, sizes: Mapping[str, float]) -> dict[str, Any]:
    """Every size and choice of a plan by its key, null where it is not set."""
    return complete_plan({**sizes, **plan_to_mapping(structure)})


def answer_fields_of(answer: Answer) -> dict[str, Any]:
    """A plan as plain values, with the facts that identify its scenario."""
    block = answer.evaluation.block
    sizes = {name: float(getattr(block, name)[0]) for name in SIZES}
    figures = training_plan_fields(block.structure, sizes, answer.evaluation.costs.row())
    facts = facts_of(answer.inputs.case)
    return {**row_facts(facts), **figures, **price_fields(facts.price)}


def remedy_fields_of(answer: ExplainedAnswer, code: str) -> dict[str, Any]:
    """Settings that each remove a reason against the plan, as plain values."""
    fixes_of_code = answer.fixes[code]
    tried = [setting for remedy in fixes_of_code for setting in remedy.assignments]
    return {"try": tried, "remedies": remedies_json(fixes_of_code)}


def model_memory_fields(facts: ModelMemory) -> dict[str, Any]:
    """The memory of a model without a machine, as plain values."""
    return {
        **schema_head("costmodel/model-memory/v1"),
        "model": facts.model.name,
        "assumed": assumption_fields([facts.assumed]),
        "read_from": import_fields(facts.foreign),
        "library_model": facts.twin or None,
        "parameters": int(float(facts.parameters)),
        "active_parameters": int(float(facts.parameters if facts.active is None else facts.active)),
        "kv_bytes_per_token": sum(kind.held[0] for kind in facts.cache),
        "cache": [
            {
                "kind": kind.name,
                "layers": int(kind.layers),
                "kv_bytes_per_token": kind.held[0],
                "sequence_tokens": int(facts.served),
                "sequence_bytes": kind.held[1],
            }
            for kind in facts.cache
        ],
        "recipes": [
            {
                "model": facts.model.name,
                "title": recipe.title,
                "weights_bytes": float(recipe.weights),
                "states": [
                    {"dp": int(dp), "zero": zero, "bytes": float(value)} for (dp, zero), value in recipe.kept.items()
                ],
            }
            for recipe in facts.recipes
        ],
    }
