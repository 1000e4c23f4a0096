"""Optimizer steps of the trainer, evaluated once for plans and inputs that differ in the engines alone."""

from __future__ import annotations

from typing import Any

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.schemas.plan import Plan
from costmodel.documents.schemas.rl.rl_plan import RlPlan
from costmodel.estimate.evaluate.evaluate_plans import memory_of
from costmodel.estimate.evaluate.predict import Answer, answer, plan_block
from costmodel.estimate.rl.rank_split import ClusterPart
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.memory.breakdown import Ledger
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.ground.record import record
from costmodel.ground.units import Figure

_DOCUMENTS = ("model", "accelerator", "scale_up", "scale_out", "host", "node", "network", "common", "trainer",
              "optimizer", "reliability", "practice", "grid")  # fmt: skip
_OF_SCENARIO = ("cluster", "workload", "assume", "run")
_OF_ENGINES = ("serving",)  # parts of an efficiency that training does not read


@record
class Packing:
    """Equal sequences in place of answers of all lengths: tokens in each, and how many a rank processes."""

    sequence: float
    micro_batch: float
    micro_batches: float  # of an optimizer step
    passes: float  # of a forward pass over all answers
    dp: float


@record
class HeldStep:
    """The memory of an optimizer step, with its inputs and plan."""

    inputs: TrainingInputs
    plan: Plan
    block: Block
    ledger: Ledger


class TrainerSteps:
    """Cache of evaluated optimizer steps, with all inputs that they depend on as key.

    Example: a search over engines, or an engine's fitted constant that is turned up and down, evaluates one step.
    Documents are compared by identity, since a changed document is another object; numbers by value.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def __reduce__(self) -> tuple[type[TrainerSteps], tuple[()]]:
        """Pickles an empty cache, because another process has other document objects."""
        return TrainerSteps, ()

    def time(self, case: RlCase, plan: RlPlan, part: ClusterPart, packing: Packing, *, bands: bool = True) -> Answer:
        """One optimizer step, checked and evaluated; `bands` adds error bands and remarks."""
        found: Answer = self._once(_timed if bands else _timed_alone, case, plan, part, packing)
        return found

    def memory(self, case: RlCase, plan: RlPlan, part: ClusterPart, packing: Packing) -> HeldStep:
        """The memory of one optimizer step alone."""
        found: HeldStep = self._once(_held, case, plan, part, packing)
        return found

    def _once(self, work: Any, case: RlCase, plan: RlPlan, part: ClusterPart, packing: Packing) -> Any:
        documents = [getattr(case, name) for name in _DOCUMENTS]
        documents += [getattr(case.scenario, name) for name in _OF_SCENARIO]
        documents += [value for name, value in case.efficiency if name not in _OF_ENGINES]
        settings = [getattr(plan, name) for name in Plan.model_fields]
        stated = frozenset(plan.model_fields_set - {"rollout"})
        key = (work, part.ranks, packing, stated, *map(id, documents), *map(_identity, settings))
        if key not in self._known:
            held = (documents, settings)  # so that no other objects come to have their identities
            self._known[key] = work(case, plan, part, packing), held
        return self._known[key][0]


def _identity(item: object) -> object:
    return item if item is None or isinstance(item, bool | float | int | str) else id(item)


def _timed(case: RlCase, plan: RlPlan, part: ClusterPart, packing: Packing, *, bands: bool = True) -> Answer:
    found = _scenario(case, plan, part, packing)
    assert found.scenario.plan is not None
    return answer(training_inputs(found), found.scenario.plan, bands=bands)


def _timed_alone(case: RlCase, plan: RlPlan, part: ClusterPart, packing: Packing) -> Answer:
    return _timed(case, plan, part, packing, bands=False)


def _held(case: RlCase, plan: RlPlan, part: ClusterPart, packing: Packing) -> HeldStep:
    found = _scenario(case, plan, part, packing)
    assert found.scenario.plan is not None
    inputs = training_inputs(found)
    block, _ = plan_block(inputs, found.scenario.plan)
    return HeldStep(inputs, found.scenario.plan, block, memory_of(inputs, block))


def _scenario(case: RlCase, plan: RlPlan, part: ClusterPart, packing: Packing) -> ResolvedScenario:
    sized = plan.model_copy(update={"micro_batch": Figure(packing.micro_batch)})
    batch = Figure(packing.micro_batches * packing.micro_batch * packing.dp)
    return case.training_case(sized, part.cluster, part.node, Figure(packing.sequence), batch)
