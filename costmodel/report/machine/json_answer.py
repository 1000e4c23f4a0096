"""Answers as JSON: SI numbers with the unit in the name, described columns, all assumptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from costmodel.documents.schemas.results import OF_RUN, OF_STEP, machine_name
from costmodel.estimate.evaluate.answer_facts import facts_of, row_facts
from costmodel.estimate.evaluate.evaluate_plans import fits_at_p90, verdict
from costmodel.estimate.evaluate.predict import Answer, plan_to_mapping
from costmodel.estimate.shared.plan_batch import Structure
from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.explore.kept_answers import whole_plan
from costmodel.ground.plan_sizes import SIZES
from costmodel.report.machine.answer_fields import assumed_json, frame, known, notes, read_from
from costmodel.report.terminal.plan.effect_lines import with_effects
from costmodel.report.terminal.search.refusals import reason, remedies_json
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.head import assumed_job, price_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from costmodel.documents.reader.resolved_scenario import ResolvedScenario
    from costmodel.estimate.training.training_inputs import TrainingInputs
    from costmodel.explore.explain.explained_answer import ExplainedAnswer
    from costmodel.explore.explain.model_memory import Alone


def _framed(inputs: TrainingInputs) -> dict[str, Any]:
    columns = OF_STEP if inputs.run is None else OF_RUN
    return frame(inputs.case, facts_of(inputs.case), columns, convention=inputs.convention)


def plan(structure: Structure, sizes: Mapping[str, float], costs: Mapping[str, float]) -> dict[str, Any]:
    """What a plan is, its results, and whether it fits."""
    share = costs["memory_share"]
    return {
        **choices(structure, sizes),
        **{machine_name(name): known(value) for name, value in costs.items()},
        "verdict": verdict(share),
        "fits": share <= 1,
        "fits_p90": fits_at_p90(costs),
    }


def choices(structure: Structure, sizes: Mapping[str, float]) -> dict[str, Any]:
    """What a plan is."""
    return whole_plan({**sizes, **plan_to_mapping(structure)})


def answered(answer: Answer) -> dict[str, Any]:
    """A plan with what it is a plan of."""
    block = answer.evaluation.block
    sizes = {name: float(getattr(block, name)[0]) for name in SIZES}
    figures = plan(block.structure, sizes, answer.evaluation.costs.row())
    facts = facts_of(answer.inputs.case)
    return {**row_facts(facts), **figures, **price_fields(facts.price)}


def plan_rows(answer: Answer) -> list[dict[str, Any]]:
    """The row of a plan; none where it is not valid."""
    return [] if answer.refused else [answered(answer)]


def estimate(answer: ExplainedAnswer) -> dict[str, Any]:
    """One plan as costmodel/result/v1."""
    result = _framed(answer.inputs)
    result["assumed"] = assumed_json([*assumed_job(answer.inputs.case.asked.assumed), *answer.assumed])
    result["plans"] = plan_rows(answer)
    result["refused"] = [_against(answer, code) for code in answer.refused or answer.broken]
    result["notes"] = notes([answer.remarked])
    return with_effects(result, answer)


def _against(answer: ExplainedAnswer, code: str) -> dict[str, Any]:
    """A reason against a plan: the rule, this case of it, and settings of which each takes it away."""
    found = answer.fixes[code]
    tried = [setting for remedy in found for setting in remedy.assignments]
    entry = {"code": code, "text": REFUSALS[code].meaning, "case": reason(answer, code), "try": tried}
    return {**entry, "remedies": remedies_json(found)}


def conflicts(case: ResolvedScenario) -> list[dict[str, str]]:
    """Where the plan that --set gives and the search disagree."""
    return [{"code": "N024", "text": sentence} for sentence in case.held.conflicts]


def model_memory(facts: Alone) -> dict[str, Any]:
    """A model alone."""
    return {
        **head("costmodel/model-memory/v1"),
        "model": facts.model.name,
        "assumed": assumed_json([facts.assumed]),
        "read_from": read_from(facts.foreign),
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
