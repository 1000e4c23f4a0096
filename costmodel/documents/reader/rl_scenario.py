"""A scenario of reinforcement learning with all its documents, and its training and serving scenarios."""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any, ClassVar, cast

from costmodel.documents.keys.paths import place_at
from costmodel.documents.reader.hub_names import filled
from costmodel.documents.reader.library import DocumentReader
from costmodel.documents.reader.resolved_scenario import (
    UNDERSTOOD,
    LoadedScenario,
    ResolvedScenario,
    named_documents,
    node_groups,
)
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.engine import Engine
from costmodel.documents.schemas.hardware import Cluster, Node
from costmodel.documents.schemas.practice import PowerGrid, Practice
from costmodel.documents.schemas.rl import RlPlan, RlScenario, RlStack
from costmodel.documents.schemas.run import Failures
from costmodel.documents.schemas.scenario import Assumptions, Optimizer, Plan, Scenario, Training
from costmodel.documents.schemas.serving import Lengths, Serving, ServingAssumptions, ServingPlan, ServingScenario
from costmodel.documents.schemas.stack import Stack
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record


@record
class RlCase(LoadedScenario):
    """A scenario of reinforcement learning with every document it names."""

    kind: ClassVar[str] = "rl"
    scenario: RlScenario
    stack: RlStack
    trainer: Stack
    rollout: Engine
    optimizer: Optimizer
    reliability: Failures | None = field(default=None, kw_only=True)
    practice: Practice | None = field(default=None, kw_only=True)
    grid: PowerGrid | None = field(default=None, kw_only=True)

    @property
    def parts(self) -> tuple[tuple[float, RlCase], ...]:
        """The number of training and of generating nodes with their scenarios; empty if all nodes are of one kind."""
        return cast("tuple[tuple[float, RlCase], ...]", self.groups)

    def training_case(
        self, plan: RlPlan | None, cluster: Cluster, node: Node, sequence: float, batch: float
    ) -> ResolvedScenario:
        """The training scenario of one optimizer step or forward pass on some of the accelerators."""
        own, workload = self.scenario, self.scenario.workload
        same = {name: getattr(workload, name) for name in ("precision", "gradients", "optimizer")}
        steps = filled(Training, kind="training", sequence=sequence, global_batch=batch, **same)
        assumed = {name: getattr(own.assume, name) for name in ("price", "sustained", "network_share")}
        scenario = filled(
            Scenario,
            schema_=own.schema_,
            title=own.title,
            model=own.model,
            cluster=cluster,
            workload=steps,
            stack=self.trainer.name,
            plan=None if plan is None else _trainer_plan(plan),
            assume=filled(Assumptions, **assumed),
            run=own.run,
        )
        held = {name: getattr(self, name) for name in _SHARED} | {"node": node}
        further = {name: getattr(self, name) for name in ("reliability", "practice", "grid")}
        return ResolvedScenario(
            **held, scenario=scenario, stack=self.trainer, optimizer=self.optimizer, **self._read(), **further
        )

    def serving_case(
        self, plan: ServingPlan, cluster: Cluster, node: Node, load: Serving, engine: Engine
    ) -> ServingCase:
        """The serving scenario of the engines that generate on some of the accelerators."""
        own = self.scenario
        assumed = {name: getattr(own.assume, name) for name in ("price", "network_share")}
        scenario = filled(
            ServingScenario,
            schema_=own.schema_,
            title=own.title,
            model=own.model,
            cluster=cluster,
            workload=load,
            stack=engine.name,
            plan=plan,
            assume=filled(ServingAssumptions, **assumed),
        )
        held = {name: getattr(self, name) for name in _SHARED} | {"node": node}
        return ServingCase(**held, scenario=scenario, stack=engine, **self._read())

    def _read(self) -> dict[str, Any]:
        """The attributes that record which documents were read, and where."""
        return {name: getattr(self, name) for name in _READ}


_KEPT = [item.name for item in fields(LoadedScenario)]
_READ = [name for name in _KEPT if name in ("digests", "trees", "tree", "name", "assignments", "own", "foreign", "hub")]
_SHARED = ("model", "accelerator", "scale_up", "scale_out", "host", "efficiency", "network", "common", "offer")


def _trainer_plan(plan: RlPlan) -> Plan:
    """The trainer's part of the plan; it remembers which keys were stated."""
    given = {name: getattr(plan, name) for name in Plan.model_fields}
    return Plan.model_construct(_fields_set=plan.model_fields_set - {"rollout", "beside"}, **given)


def answers_load(
    prompt: float, shared: float, lengths: tuple[float, float], concurrency: float, longest: float, precision: Any
) -> Serving:
    """The serving load of engines that generate answers with these mean lengths, spread and concurrency."""
    mean, spread = lengths
    return filled(
        Serving,
        kind="serving",
        prompt=prompt,
        output=filled(Lengths, mean=mean, spread=spread),
        concurrency=concurrency,
        shared_prefix=shared,
        context=longest,
        precision=precision,
    )


def rl_case_of(scenario: RlScenario, reader: DocumentReader, tree: dict[str, Any]) -> RlCase:
    """A validated reinforcement-learning scenario with every document it names."""
    held = named_documents(scenario, reader, tree)
    stack = held["stack"]
    if not isinstance(stack, RlStack):
        sentence = f"{stack.name} is no software for reinforcement learning"
        raise fail("D010", sentence, place_at(tree, "stack"), "stack: verl; costmodel list stacks shows them all")
    for key, wanted, words in (("trainer", Stack, "training software"), ("rollout", Engine, "an engine that serves")):
        if not isinstance(held[key], wanted):
            place = place_at(tree, f"stack.{key}", "stack")
            raise fail("D010", f"{held[key].name} is not {words}", place, "costmodel list stacks")
    kinds = node_groups(scenario, tree, lambda one: RlCase(scenario=one, **named_documents(one, reader, tree)))
    if kinds and (len(kinds) > 2 or not scenario.workload.generates):
        sentence = "two kinds of nodes at most: those of the first group train, those of the second generate"
        if not scenario.workload.generates:
            sentence = f"{scenario.workload.algorithm} generates nothing, so its nodes are of one kind"
        hint = "write node and nodes instead of groups" if len(kinds) < 3 else "leave the others out"
        raise fail("D010", sentence, place_at(tree, "cluster.groups", "cluster"), hint)
    return RlCase(scenario=scenario, **held, groups=cast(Any, kinds))


def reinforced(loaded: LoadedScenario) -> RlCase:
    """The reinforcement-learning scenario; a fault for any other workload."""
    if isinstance(loaded, RlCase):
        return loaded
    sentence = f"this question is about reinforcement learning, and the workload is {loaded.kind}"
    raise fail("C030", sentence, loaded.place("workload.kind") or Place(loaded.file), UNDERSTOOD)
