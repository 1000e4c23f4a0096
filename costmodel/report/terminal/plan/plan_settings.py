"""What must be set for a plan to become another."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from costmodel.documents.schemas.scenario import Plan
from costmodel.estimate.evaluate.predict import plan_to_mapping, structure_of, usual_etp
from costmodel.estimate.shared.plan_batch import Structure
from costmodel.ground.counts import IN_ORDER, OF_ITSELF_ONE, SIZES
from costmodel.ground.errors import value_text

if TYPE_CHECKING:
    from costmodel.estimate.training.training_inputs import TrainingInputs
    from costmodel.explore.search.training_space import Ranked


def plan_settings(inputs: TrainingInputs, wanted: Ranked) -> dict[str, str]:
    """Settings that turn the scenario's own plan into another."""
    own = inputs.case.scenario.plan
    plan = own or Plan()
    plan = plan.model_copy(update={"etp": plan.etp or usual_etp(inputs, wanted.sizes["tp"])})
    derived = {"dp"} if plan.dp is None else set()
    needed = {
        name: f"{wanted.sizes[name]:.0f}"
        for name in IN_ORDER
        if name not in derived
        and ((own is None and name not in OF_ITSELF_ONE) or getattr(plan, name) != wanted.sizes[name])
    }
    sized = plan.model_copy(update={name: wanted.sizes[name] for name in SIZES if name != "dp"})
    follows, _ = structure_of(inputs, sized)
    ahead, there = (Plan.model_validate(plan_to_mapping(structure)) for structure in (wanted.structure, follows))
    for choice in fields(Structure):
        value = getattr(ahead, choice.name)
        if value != getattr(there, choice.name):
            needed[choice.name] = value_text(value)
    return {f"plan.{name}": value for name, value in needed.items()}
