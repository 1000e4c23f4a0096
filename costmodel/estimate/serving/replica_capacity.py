"""What replicas are whatever their load: memory, steps, bounds of sequences in flight, and the state at saturation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

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
from costmodel.ground.equation import Number, term, untraced
from costmodel.ground.record import record


@record
class ReplicaCapacity:
    """Each kind of replicas of some plans, with steps by the equations and out of a table."""

    kinds: ReplicaKinds
    memory: EngineMemoryUse
    exact: ExactSteps
    engines: Engines
    quick: Engines
    most: SteadyState

    def within_limits(self, inputs: ServingInputs) -> Number:
        """Requests a second of one replica up to which service-level limits hold, those of another load perhaps."""
        held = {"saturation_per_s": self.most.rate, "concurrency_worst": self.memory.requests_worst}
        with term("within limits"):
            return rate_within_limits(
                replace(self.quick, inputs=inputs, held=held), replace(self.engines, inputs=inputs)
            )


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
