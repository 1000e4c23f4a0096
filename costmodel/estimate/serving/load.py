"""The load of a scenario on each plan: sequences in flight, and the resource that binds first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.run.economics import share
from costmodel.equations.serving.load.closed_loop import full_step_concurrency
from costmodel.equations.serving.load.whole_prompts import whole_prompt_concurrency, whole_prompt_slots
from costmodel.estimate.serving.engine_memory import EngineMemoryUse
from costmodel.estimate.serving.operating_point import OperatingPoint, Steps, operating_point
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.replica_kinds import rows_of
from costmodel.estimate.serving.serving_inputs import Load, ServingInputs
from costmodel.estimate.serving.steady_state import SteadyState, full_steps, replica_rate, steady_state
from costmodel.estimate.serving.step_batch import step_budget
from costmodel.estimate.serving.worst_gap import worst_gap
from costmodel.ground.equation import Number, term, untraced
from costmodel.ground.record import record
from costmodel.ground.solvers import NEAR, Places, Values, last_within

LEAST = 1e-4  # sequences in flight of the emptiest engine that is looked at
COMPUTE_BOUND = 0.95  # utilisation from which on it is time that is short, not tokens of a step

Column = NDArray[np.float64]
BINDING = ("budget", "cache", "sequences", "host link")


@record
class Bounds:
    """Sequences in flight at most: where steps are full, the pool, the engine's own limit, loads from the host.

    A step that holds no further prompt counts to full steps.
    """

    budget: Column
    cache: Column
    sequences: Column
    link: Column
    beside: Column | None = None  # whole prompts of one length: as many as leave room for one more
    waiting: Column | None = None  # of unlike lengths: as many as leave time beside prompts that wait until answers end

    @property
    def admitted(self) -> Column:
        """Of requests that wait only for room in steps."""
        return np.maximum(_capped(np.minimum(self.slots, self.link), self.waiting), LEAST)

    @property
    def slots(self) -> Column:
        """Requests that a replica holds at most; others wait outside."""
        return np.maximum(_capped(np.minimum(self.cache, self.sequences), self.beside), LEAST)

    @property
    def least(self) -> Column:
        """The one that binds."""
        return np.maximum(np.minimum(self.budget, self.admitted), LEAST)

    def binding(self, rows: slice = slice(None)) -> NDArray[np.intp]:
        """Which of them, by its place in BINDING."""
        budget = _capped(_capped(self.budget, self.beside), self.waiting)
        bounds = [each[rows] for each in (budget, self.cache, self.sequences, self.link)]
        return np.asarray(np.argmin(np.stack(bounds), axis=0))


def _capped(many: Column, most: Column | None) -> Column:
    return many if most is None else np.minimum(many, most)


def bounds_of(inputs: ServingInputs, layout: PlanColumns, memory: EngineMemoryUse) -> Bounds:
    """What bounds the sequences in flight on each plan."""
    load, rows = inputs.load, (len(layout),)
    with term("of each query"):
        room = layout.pp * step_budget(layout) / load.verified
        prompt = load.computed / load.verified
    budget, beside = _full_steps(load, layout, room, prompt)
    held = [budget, memory.requests_steady, layout.dp_attention * inputs.sequences, np.inf]
    held += [] if beside is None else [beside]
    return Bounds(*(np.broadcast_to(np.asarray(each, dtype=np.float64), rows) for each in held))


def _full_steps(load: Load, layout: PlanColumns, room: Number, prompt: Number) -> tuple[Number, Number | None]:
    """Sequences in flight where prompts fill every step, and where a step has room for no further one."""
    if not load.whole:
        return full_step_concurrency(room, prompt, load.steps), None
    with term("whole prompts"):
        parts = layout.pp * layout.dp_attention
        most = parts * whole_prompt_concurrency(room / parts, prompt, load.steps, load.prompt_spread)
        return most, None if load.prompt_spread else parts * whole_prompt_slots(room / parts, prompt)


@dataclass(frozen=True, eq=False)
class Engines:
    """Plans with what their operating points need."""

    inputs: ServingInputs
    layout: PlanColumns
    steps: Steps
    bounds: Bounds
    held: Mapping[str, Number] = field(default_factory=dict)  # results that do not depend on the load

    def point(self, concurrency: Number) -> OperatingPoint:
        """Steps at so many sequences in flight of each replica."""
        return operating_point(self.inputs, self.layout, concurrency, self.steps)

    def rate(self, concurrency: Number) -> Number:
        """Requests a second of each replica that keep so many in flight."""
        point = operating_point(self.inputs, self.layout, concurrency, self.steps, line=False)
        return replica_rate(self.inputs, point)

    def state(self, concurrency: Number) -> SteadyState:
        """What users see with so many in flight, where others wait for a slot."""
        point = self.point(concurrency)
        return steady_state(self.inputs, point, replica_rate(self.inputs, point), self.bounds.slots)

    def worst_gap(self, concurrency: Number) -> Number:
        """Longest step with so many in flight."""
        return worst_gap(self.inputs, self.layout, self.point(concurrency), self.steps, self.bounds.slots)

    def rows(self, places: Places) -> Engines:
        """Some of the plans."""
        parts = (self.steps, self.bounds, self.held)
        return Engines(self.inputs, self.layout.at(places), *rows_of(parts, places, len(self.layout)))

    def greatest(self, over: Callable[[Engines, Column], Number], near: float = NEAR) -> Column:
        """Most sequences in flight, up to the bounds, at which a load is not over what it may be, 1.

        Both are looked for by their logarithms.
        """

        def excess(engines: Engines) -> Callable[[Column], Values]:
            return lambda log: np.log(over(engines, np.exp(log)))

        least, most = np.full(len(self.layout), np.log(LEAST)), np.log(self.bounds.least)
        with np.errstate(all="ignore"):
            return np.exp(last_within(excess(self), least, most, some=lambda rows: excess(self.rows(rows)), near=near))


def of_each(inputs: ServingInputs, layout: PlanColumns, amount: float) -> Column:
    """Of a load of the whole fleet what one replica gets."""
    return np.asarray(amount / layout.replicas, dtype=np.float64)


def most_requests_held(inputs: ServingInputs, layout: PlanColumns, slots: Number) -> Number:
    """Requests of a replica: as many as it has slots for, or all of a closed loop where these are fewer."""
    workload = inputs.case.scenario.workload
    there = workload.at_once if workload.users is None else workload.users
    return slots if there is None else np.minimum(slots, np.ceil(of_each(inputs, layout, there)))


def in_flight(engines: Engines) -> Column:
    """Sequences in flight of one replica under the scenario's load, as many as the bounds allow."""
    inputs, layout = engines.inputs, engines.layout
    workload = inputs.case.scenario.workload
    if workload.rate is not None:
        rate = float(workload.rate)
        return engines.greatest(lambda some, many: share(some.rate(many), of_each(inputs, some.layout, rate)))
    if workload.at_once is not None:
        return np.minimum(of_each(inputs, layout, workload.at_once), engines.bounds.least)
    assert workload.users is not None
    users, thinking = float(workload.users), float(workload.think_time or 0.0)

    def busy(some: Engines, many: Column) -> Number:
        state = some.state(many)
        answer = state.ttft + (inputs.load.output - 1.0) * state.tpot
        return share(state.rate * (thinking + answer), of_each(inputs, some.layout, users))

    return engines.greatest(busy)


def with_link(engines: Engines) -> Bounds:
    """The bounds with that of the link to the host, over which conversations come back."""
    if not np.any(engines.inputs.load.loaded):
        return engines.bounds

    def busy(some: Engines, many: Column) -> Number:
        point = some.point(many)
        return replica_rate(some.inputs, point) * point.host.busy

    return replace(engines.bounds, link=_until_full(engines, busy))


def with_blocking(engines: Engines) -> Bounds:
    """The bounds where prompts that wait until answers end take the time that steps would have for others."""
    load = engines.inputs.load
    if not load.whole or load.prompt_spread == 0:
        return engines.bounds

    def busy(some: Engines, many: Column) -> Number:
        point = some.point(many)
        rate = replica_rate(some.inputs, point)
        return full_steps(some.inputs, point, rate)[1] + point.blocking.used(rate)

    return replace(engines.bounds, waiting=_until_full(engines, busy))


def _until_full(engines: Engines, busy: Callable[[Engines, Column], Number]) -> Column:
    """Sequences in flight up to which something is busy for all of the time at most; without end where it never is."""
    with untraced(), np.errstate(all="ignore"):
        over = np.asarray(busy(engines, engines.bounds.least)) > 1
        return np.where(over, engines.greatest(busy), np.inf)
