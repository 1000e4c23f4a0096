"""What replicas are whatever their load: memory, steps, bounds of sequences in flight, and the state at saturation."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, fields, replace

import numpy as np

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.serving.serving_schema import ServingScenario
from costmodel.estimate.serving.engine_memory import EngineMemoryUse, memory_use
from costmodel.estimate.serving.engine_placement import with_straddling
from costmodel.estimate.serving.load import Engines, bounds_of, with_blocking, with_link
from costmodel.estimate.serving.operating_point import ExactSteps
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.rate_within_limits import rate_within_limits
from costmodel.estimate.serving.replica_kinds import ReplicaKinds, of_each_plan, replica_kinds, shared_cuts
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.steady_state import SteadyState, replica_rate, steady_state
from costmodel.estimate.serving.step_table import step_table
from costmodel.estimate.shared.limits import stated_limits
from costmodel.ground.equation import Number, term, tracing, untraced


@dataclass(frozen=True, eq=False)
class ReplicaCapacity:
    """Each kind of replicas of some plans, with steps by the equations and out of a table.

    known: rates within limits that were looked for, by these limits
    """

    kinds: ReplicaKinds
    memory: EngineMemoryUse
    exact: ExactSteps
    engines: Engines
    quick: Engines
    most: SteadyState
    known: dict[object, Number] = field(default_factory=dict)

    def within_limits(self, inputs: ServingInputs) -> Number:
        """Requests a second of one replica up to which service-level limits hold, those of another load perhaps."""
        scenario = inputs.case.scenario
        asked = (*stated_limits(scenario.limits), scenario.objective, inputs.beyond, inputs.beyond_first)
        if asked not in self.known or tracing():
            held = {"saturation_per_s": self.most.rate, "concurrency_worst": self.memory.requests_worst}
            quick, engines = replace(self.quick, inputs=inputs, held=held), replace(self.engines, inputs=inputs)
            with term("within limits"):
                self.known[asked] = rate_within_limits(quick, engines)
        return self.known[asked]


def capacity_of(inputs: ServingInputs, layout: PlanColumns) -> ReplicaCapacity:
    """The capacity of the replicas of some plans, of one row for each kind of replica."""
    kinds = replica_kinds(inputs, layout)
    each = kinds.layout
    memory = of_each_plan(memory_use(inputs, each if len(each) == 1 else shared_cuts(each)))
    bounds, bare = bounds_of(inputs, each, memory), each.bare()
    exact = ExactSteps(inputs, each)
    engines = Engines(inputs, each, exact, bounds)
    with untraced():
        quick = Engines(inputs, bare, step_table(inputs, bare), bounds)
        bounds = with_link(replace(quick, bounds=with_blocking(quick)))
        engines, quick = replace(engines, bounds=bounds), replace(quick, bounds=bounds)
    with term("saturation"):
        top = engines.point(bounds.least)
        most = steady_state(inputs, top, replica_rate(inputs, top))
    return ReplicaCapacity(kinds, memory, exact, engines, quick, most)


def capacity_at_any_load(inputs: ServingInputs, layout: PlanColumns) -> ReplicaCapacity | None:
    """The same, for several loads; None where it depends on the load, as turns of conversations do."""
    return None if np.any(inputs.load.history) else capacity_of(inputs, *with_straddling(inputs, layout))


_DOCUMENTS = ("model", "node", "accelerator", "scale_up", "scale_out", "host", "efficiency", "network", "common",
              "stack", "draft", "practice", "groups")  # fmt: skip
_FEW = 4


class KnownCapacities:
    """Capacities that are known, for variants of a scenario that differ in their rate and their limits alone.

    Documents are compared by identity, since a changed document is another object.
    """

    def __init__(self) -> None:
        self._known: deque[tuple[ServingInputs, PlanColumns, ReplicaCapacity | None]] = deque(maxlen=_FEW)

    def of(self, inputs: ServingInputs, layout: PlanColumns) -> ReplicaCapacity | None:
        """The capacity of the replicas of some plans; None where it depends on the load."""
        if inputs.case.scenario.workload.rate is None or tracing():
            return None
        for before, plans, capacity in self._known:
            if _is_same_replica(before.case, inputs.case) and _is_same(plans, layout):
                return capacity
        found = capacity_at_any_load(inputs, layout)
        self._known.append((inputs, layout, found))
        return found


def _is_same_replica(one: ServingCase, other: ServingCase) -> bool:
    """Whether cases differ in their rate and their limits alone."""
    same = all(getattr(one, name) is getattr(other, name) for name in _DOCUMENTS)
    return same and _without_rate(one.scenario) == _without_rate(other.scenario)


def _without_rate(scenario: ServingScenario) -> ServingScenario:
    workload = scenario.workload
    alike = {"workload": workload.model_copy(update={"rate": workload.rate is not None}), "limits": None}
    return scenario.model_copy(update=alike)


def _is_same(one: PlanColumns, other: PlanColumns) -> bool:
    pairs = [(getattr(one, each.name), getattr(other, each.name)) for each in fields(PlanColumns)]
    return all(np.array_equal(own, its) if own is not None and its is not None else own is its for own, its in pairs)
