"""Optimizer steps of the trainer, evaluated once for plans and inputs that differ in the engines alone."""

from __future__ import annotations

import math
from typing import Any

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.schemas.hardware import Cluster, Node
from costmodel.documents.schemas.rl import RlPlan
from costmodel.documents.schemas.scenario import Plan
from costmodel.equations.parallelism.counts import world_size
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.memory_breakdown import Ledger
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.estimate.training_answer.evaluate_training import memory_of
from costmodel.estimate.training_answer.predict_training import Answer, answer, plan_block
from costmodel.ground.record import record
from costmodel.ground.units import Figure

# Which accelerators train and which generate: each part as a cluster.


@record
class ClusterPart:
    """Part of a cluster: a cluster with this number of accelerators."""

    ranks: float
    cluster: Cluster
    node: Node


@record
class RankSplit:
    """The accelerators that train and those that generate; identical if they are colocated."""

    trainer: ClusterPart
    rollout: ClusterPart
    colocated: bool
    possible: bool
    beside: float = 0.0  # accelerators of the models beside the policy

    @property
    def ranks(self) -> float:
        """All accelerators of trainer, engines and further models."""
        return self.trainer.ranks + self.beside + (0.0 if self.colocated else self.rollout.ranks)


def rank_split(case: RlCase, whole_plan: RlPlan, *, generates: bool) -> RankSplit:
    """How trainer and engines share the accelerators; if the split is not possible, both get all of them."""
    plan, others = whole_plan.rollout, sum(own_ranks(case, whole_plan).values())
    if case.parts:
        trainer, engines = (_nodes_of_kind(nodes, each) for nodes, each in case.parts)
        beside = plan.colocated and "colocated" in plan.model_fields_set
        return RankSplit(trainer, engines, False, not (beside or others) and plan.ranks in (None, engines.ranks))
    every = float(world_size(case.cluster.nodes, case.node.accelerators))
    whole = part_of(case, every)
    assert whole is not None
    shared = plan.colocated or not generates
    own = 0.0 if plan.ranks is None or shared else float(plan.ranks)
    trained, generated = part_of(case, every - own - others), part_of(case, own)
    if trained is None or (generated is None and not shared):
        return RankSplit(whole, whole, True, False)
    return RankSplit(trained, generated or trained, shared, True, others)


def models_of(case: RlCase) -> dict[str, bool]:
    """Whether critic, reference and reward model exist beside the policy."""
    workload = case.scenario.workload
    critic = workload.algorithm == "ppo"
    return {"critic": critic, "reference": workload.refers, "reward model": workload.judged_by_model}


def own_ranks(case: RlCase, plan: RlPlan) -> dict[str, float]:
    """Accelerators of the models beside the policy that have their own, of those that the algorithm uses."""
    own, there = plan.beside, models_of(case)
    ranks = {"critic": own.critic, "reference": own.reference, "reward model": own.reward}
    return {name: float(held) for name, held in ranks.items() if held is not None and there[name]}


def _nodes_of_kind(nodes: float, case: RlCase) -> ClusterPart:
    """All nodes of one kind as a part of the cluster."""
    cluster = case.cluster.model_copy(update={"nodes": Figure(nodes)})
    return ClusterPart(float(world_size(nodes, case.node.accelerators)), cluster, case.node)


def part_of(case: RlCase, ranks: float) -> ClusterPart | None:
    """A cluster part of whole nodes, or of some accelerators of one node; None if the number allows neither."""
    per_node, cluster, node = float(case.node.accelerators), case.cluster, case.node
    nodes = ranks / per_node
    if ranks < 1 or (nodes > 1 and not nodes.is_integer()):
        return None
    if nodes < 1:
        node = node.model_copy(update={"accelerators": Figure(ranks), "built_with": node.built})
    count = Figure(max(1.0, math.floor(nodes)), getattr(cluster.nodes, "place", None))
    if count == cluster.nodes and node is case.node:
        return ClusterPart(ranks, cluster, node)
    pod = None if cluster.pod is None or cluster.pod >= count else cluster.pod
    return ClusterPart(ranks, cluster.model_copy(update={"nodes": count, "pod": pod}), node)


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

    def time(
        self, case: RlCase, plan: RlPlan, part: ClusterPart, packing: Packing, *, bands: bool = True, rows: int = 1
    ) -> Answer:
        """One optimizer step, checked and evaluated; `bands` adds error bands and remarks."""
        if rows > 1:
            return _predicted_step(case, plan, part, packing, bands=False, rows=rows)
        found: Answer = self._once(_predicted_step if bands else _timed_alone, case, plan, part, packing)
        return found

    def memory(self, case: RlCase, plan: RlPlan, part: ClusterPart, packing: Packing) -> HeldStep:
        """The memory of one optimizer step alone."""
        held_step: HeldStep = self._once(_step_memory, case, plan, part, packing)
        return held_step

    def _once(self, work: Any, case: RlCase, plan: RlPlan, part: ClusterPart, packing: Packing) -> Any:
        """The result of `work`, from the cache if it ran before with the same documents, plan and packing."""
        documents = [getattr(case, name) for name in _DOCUMENTS]
        documents += [getattr(case.scenario, name) for name in _OF_SCENARIO]
        documents += [value for name, value in case.efficiency if name not in _OF_ENGINES]
        settings = [getattr(plan, name) for name in Plan.model_fields]
        stated = frozenset(plan.model_fields_set - {"rollout", "beside"})
        key = (work, part.ranks, packing, stated, *map(id, documents), *map(_identity, settings))
        if key not in self._known:
            kept_alive = (documents, settings)  # so that no other objects come to have their identities
            self._known[key] = work(case, plan, part, packing), kept_alive
        return self._known[key][0]


def _identity(item: object) -> object:
    """A key that identifies an input in the cache."""
    return item if item is None or isinstance(item, bool | float | int | str) else id(item)


def _predicted_step(
    case: RlCase, plan: RlPlan, part: ClusterPart, packing: Packing, *, bands: bool = True, rows: int = 1
) -> Answer:
    """The full prediction of one optimizer step."""
    case_of_step = _step_scenario(case, plan, part, packing)
    assert case_of_step.scenario.plan is not None
    return answer(training_inputs(case_of_step), case_of_step.scenario.plan, bands=bands, rows=rows)


def _timed_alone(case: RlCase, plan: RlPlan, part: ClusterPart, packing: Packing) -> Answer:
    return _predicted_step(case, plan, part, packing, bands=False)


def _step_memory(case: RlCase, plan: RlPlan, part: ClusterPart, packing: Packing) -> HeldStep:
    """The memory of one optimizer step, without its time."""
    case_of_step = _step_scenario(case, plan, part, packing)
    assert case_of_step.scenario.plan is not None
    inputs = training_inputs(case_of_step)
    block, _ = plan_block(inputs, case_of_step.scenario.plan)
    return HeldStep(inputs, case_of_step.scenario.plan, block, memory_of(inputs, block))


def _step_scenario(case: RlCase, plan: RlPlan, part: ClusterPart, packing: Packing) -> ResolvedScenario:
    """The training scenario of one optimizer step on this part of the cluster, with equal sequences."""
    sized = plan.model_copy(update={"micro_batch": Figure(packing.micro_batch)})
    batch = Figure(packing.micro_batches * packing.micro_batch * packing.dp)
    return case.training_case(sized, part.cluster, part.node, Figure(packing.sequence), batch)
