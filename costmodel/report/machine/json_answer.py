"""Answers as JSON: SI numbers with the unit in the name, described columns, all assumptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from costmodel.documents.schemas.results import OF_RUN, OF_STEP, TRAINING_COLUMNS, machine_name
from costmodel.estimate.evaluate.answer_facts import facts_of, row_facts
from costmodel.estimate.evaluate.evaluate_plans import fits_at_p90, verdict
from costmodel.estimate.evaluate.predict import Answer, plan_to_mapping
from costmodel.estimate.shared.assumptions import relevant_assumptions
from costmodel.estimate.shared.plan_batch import Structure, one_row
from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.explore.kept_answers import whole_plan
from costmodel.ground.plan_sizes import SIZES
from costmodel.report.machine.answer_fields import assumed_json, frame, known, notes, plain, read_from
from costmodel.report.terminal.plan.effect_lines import with_effects
from costmodel.report.terminal.search.refusals import reason, remedies_json
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.head import assumed_job, price_fields, with_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from costmodel.documents.reader.resolved_scenario import ResolvedScenario
    from costmodel.documents.schemas.default_values import Assumption
    from costmodel.estimate.training.training_inputs import TrainingInputs
    from costmodel.explore.explain.explained_answer import ExplainedAnswer
    from costmodel.explore.explain.model_memory import Alone
    from costmodel.explore.search.rank import Front, Ranked
    from costmodel.explore.search.refusals import Example
    from costmodel.explore.search.search import SearchResult


def _framed(inputs: TrainingInputs, varied: Sequence[str] = ()) -> dict[str, Any]:
    return frame(inputs.case, OF_STEP if inputs.run is None else OF_RUN, varied, inputs.convention)


def _plan(structure: Structure, sizes: dict[str, float], costs: dict[str, float]) -> dict[str, Any]:
    share = costs["memory_share"]
    return {
        **_choices(structure, sizes),
        **{machine_name(name): known(value) for name, value in costs.items()},
        "verdict": verdict(share),
        "fits": share <= 1,
        "fits_p90": fits_at_p90(costs),
    }


def _choices(structure: Structure, sizes: Mapping[str, float]) -> dict[str, Any]:
    """What a plan is."""
    return whole_plan({**sizes, **plan_to_mapping(structure)})


def _ranked(found: SearchResult, plans: Sequence[Ranked]) -> list[dict[str, Any]]:
    """Plans in their order, each with its place in it, and with what it is a plan of."""
    facts = {variant: facts_of(found.case_of(variant)) for variant in {plan.variant for plan in plans}}
    chances = dict(enumerate(found.chances if plans is found.best else [], 1))
    return [
        {
            "rank": place,
            **row_facts(facts[plan.variant]),
            **found.variants.cells(plan.variant),
            **_plan(plan.structure, plan.sizes, plan.costs),
            "first_faster": chances.get(place),
            **price_fields(facts[plan.variant].price),
        }
        for place, plan in enumerate(plans, 1)
    ]


def _answered(answer: Answer) -> dict[str, Any]:
    block = answer.evaluation.block
    sizes = {name: float(getattr(block, name)[0]) for name in SIZES}
    plan = _plan(block.structure, sizes, answer.evaluation.costs.row())
    facts = facts_of(answer.inputs.case)
    return {**row_facts(facts), **plan, **price_fields(facts.price)}


def plan_rows(answer: Answer) -> list[dict[str, Any]]:
    """The row of a plan; none where it is not valid."""
    return [] if answer.refused else [_answered(answer)]


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


def held(case: ResolvedScenario, varied: Iterable[str] = ()) -> dict[str, Any]:
    """Keys of the plan that a search holds because --set gave them, each with its value, but for those that vary."""
    return {key: plain(value) for key, value in case.held.values.items() if f"plan.{key}" not in {*varied}}


def conflicts(case: ResolvedScenario) -> list[dict[str, str]]:
    """Where the plan that --set gives and the search disagree."""
    return [{"code": "N024", "text": sentence} for sentence in case.held.conflicts]


def search(found: SearchResult, examples: Mapping[str, Example] | None = None) -> dict[str, Any]:
    """A search: its best plans, counts, the scenario's own plan, the front if one was asked for."""
    tally = found.tally
    result = _framed(found.inputs, [axis.path for axis in found.variants.over])
    result |= {
        "assumed": assumed_json([*assumed_job(found.inputs.case.asked.assumed), *_assumed(found.inputs)]),
        "objective": found.inputs.case.scenario.objective,
        "held": held(found.inputs.case, found.values(0)),
        "candidates": tally.candidates,
        "evaluated": tally.evaluated,
        "fit": tally.fit,
        "kept": tally.kept,
        "safe": _safe(found),
        "complete": not found.stopped,
        "elapsed_s": found.elapsed,
        "plans": _ranked(found, found.best),
        "nearest": [] if found.best else _ranked(found, tally.missed_by_least),
        "try": [setting for remedy in found.remedies for setting in remedy.assignments],
        "remedies": remedies_json(found.remedies),
        "yours": None if found.yours is None else {"rank": found.your_rank, **_answered(found.yours)},
        "refused": with_facts(
            row_facts(facts_of(found.inputs.case), found.values(0)),
            (_refused(code, count, tally.candidates, examples) for code, count in tally.refused.most_common() if count),
        ),
        "notes": [*conflicts(found.inputs.case), *notes(plan.remarked for plan in found.best)],
    }
    if tally.front is not None:
        result["pareto"] = _front(found, tally.front)
    return result


def _safe(found: SearchResult) -> dict[str, Any] | None:
    """The chance to fit that the search prefers, and the best plan whatever its chance; null where it prefers none."""
    if found.safe is None:
        return None
    other = [] if found.expected is None else _ranked(found, [found.expected])
    return {"chance": found.safe, "met": found.is_safe, "plans": found.tally.safe, "without": other}


def _assumed(inputs: TrainingInputs) -> tuple[Assumption, ...]:
    """What was assumed of all plans; of one accelerator alone nothing that several would need."""
    alone = one_row(Structure(), **dict.fromkeys(SIZES, 1.0))
    return relevant_assumptions(inputs.assumed, alone, leaves_domain=False) if inputs.ranks == 1 else inputs.assumed


def _front(found: SearchResult, front: Front) -> dict[str, Any]:
    named = [front.axes.x, front.axes.y]
    axes = [{"name": machine_name(name), "better": TRAINING_COLUMNS[name].better} for name in named]
    return {"axes": axes, "thinned": front.thinned, "plans": _ranked(found, front.rows)}


def _refused(code: str, count: int, total: int, examples: Mapping[str, Example] | None) -> dict[str, Any]:
    """A reason with its count; with an example if those were looked for."""
    rule = REFUSALS[code]
    entry = {"code": code, "plans": count, "share": count / total, "text": rule.title, "meaning": rule.meaning}
    if examples is None or code not in examples:
        return entry
    return {**entry, "example": _choices(examples[code].structure, examples[code].sizes)}


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
