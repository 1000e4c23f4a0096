"""The load of a scenario on each plan: sequences in flight, and the resource that binds first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.equations.serving.cache_pool import recomputed_tokens
from costmodel.equations.serving.closed_loop import full_step_concurrency, time_under_cap
from costmodel.equations.serving.queues import waiting_probability
from costmodel.equations.serving.steady_state import whole_prompt_slots
from costmodel.estimate.serving.engine_memory import EngineMemoryUse
from costmodel.estimate.serving.engine_step import step_budget
from costmodel.estimate.serving.operating_point import (
    OperatingPoint,
    Steps,
    operating_point,
    whole_prompts_decoded,
    worst_gap,
)
from costmodel.estimate.serving.plan_columns import PlanColumns, rows_of, where_rows
from costmodel.estimate.serving.serving_inputs import Load, ServingInputs
from costmodel.estimate.serving.steady_state import SteadyState, full_steps, replica_rate, steady_state
from costmodel.estimate.shared.results import Costs
from costmodel.ground.equation import Number, term, tracing, untraced
from costmodel.ground.record import record
from costmodel.ground.solvers import NEAR, Places, Values, last_within
from costmodel.ground.units import Figure

LEAST = 1e-4  # sequences in flight of the emptiest engine that is looked at
POINTS = 16  # loads, from the emptiest to the fullest engine, that a search evaluates together at first
COMPUTE_BOUND = 0.95  # utilisation from which on it is time that is short, not tokens of a step

Column = NDArray[np.float64]
BINDING = ("budget", "cache", "sequences", "host link")


@record
class Bounds:
    """Upper bounds on sequences in flight: full steps, the KV-cache pool, the sequence limit, loads from the host.

    A step that holds no further prompt counts to full steps.
    """

    budget: Column
    cache: Column
    sequences: Column
    link: Column
    equal_prompts: Column | None = None  # whole prompts of one length: as many as leave room for one more
    unlike_prompts: Column | None = None  # of unlike ones: as many as leave time beside those that wait for answers

    @property
    def admitted(self) -> Column:
        """Number of requests that a replica admits, which then only wait for room in steps."""
        return np.maximum(_at_most_requests(np.minimum(self.request_slots, self.link), self.unlike_prompts), LEAST)

    @property
    def request_slots(self) -> Column:
        """Number of requests that a replica can store; others wait outside."""
        return np.maximum(_at_most_requests(np.minimum(self.cache, self.sequences), self.equal_prompts), LEAST)

    @property
    def least(self) -> Column:
        """The smallest of the bounds on sequences in flight."""
        return np.maximum(np.minimum(self.budget, self.admitted), LEAST)

    def binding(self, rows: slice = slice(None)) -> NDArray[np.intp]:
        """Index (in BINDING) of the smallest bound."""
        budget = _at_most_requests(_at_most_requests(self.budget, self.equal_prompts), self.unlike_prompts)
        bounds = [each[rows] for each in (budget, self.cache, self.sequences, self.link)]
        return np.asarray(np.argmin(np.stack(bounds), axis=0))


def _at_most_requests(many: Column, most: Column | None) -> Column:
    return many if most is None else np.minimum(many, most)


def most_requests(inputs: ServingInputs) -> Number:
    """Requests that an attention group can run at the same time, by the engine's sequence limit."""
    if inputs.load.samples == 1:
        return inputs.sequences
    with term("answers of a request"):
        return share(inputs.sequences, inputs.load.samples)


def bounds_of(inputs: ServingInputs, layout: PlanColumns, memory: EngineMemoryUse) -> Bounds:
    """Upper bounds on the sequences in flight of each plan."""
    load, rows = inputs.load, (len(layout),)
    with term("of each query"):
        room = layout.pp * step_budget(layout) / load.queries
        prompt = load.computed / load.queries
    parts = layout.pp * layout.dp_attention
    equal_prompts: Number | None = None
    if load.whole:
        budget = whole_prompts_decoded(load, layout.budget, parts)
        if load.prompt_spread == 0:
            with term("whole prompts"):
                equal_prompts = parts * whole_prompt_slots(room / parts, prompt)
    else:
        budget = full_step_concurrency(room, prompt, load.steps)
    held = [budget, memory.requests_steady, layout.dp_attention * most_requests(inputs), np.inf]
    held += [] if equal_prompts is None else [equal_prompts]
    return Bounds(*(np.broadcast_to(np.asarray(each, dtype=np.float64), rows) for each in held))


def with_preemption(inputs: ServingInputs, bounds: Bounds, users: Number) -> ServingInputs:
    """Inputs where requests of more users than the cache holds compute again what they lose to older ones."""
    if not inputs.engine.memory.preempts:
        return inputs
    load, held = inputs.load, np.maximum(bounds.cache, LEAST)
    with term("computed again"):
        again = recomputed_tokens(np.maximum(load.private, 1.0), load.generated, held)
    again = np.where((users > held) & (held <= bounds.least), again, 0.0)
    return replace(inputs, load=replace(load, preempted=again)) if np.any(again) else inputs


@dataclass(frozen=True, eq=False)
class Engines:
    """Plans, with what the computation of their operating points needs."""

    inputs: ServingInputs
    layout: PlanColumns
    steps: Steps
    bounds: Bounds
    held: Mapping[str, Number] = field(default_factory=dict)  # results that do not depend on the load

    def point(self, concurrency: Number) -> OperatingPoint:
        """Operating point with the given number of sequences in flight on each replica."""
        return operating_point(self.inputs, self.layout, concurrency, self.steps)

    def rate(self, concurrency: Number) -> Number:
        """Requests per second of each replica at the given number of sequences in flight."""
        point = operating_point(self.inputs, self.layout, concurrency, self.steps, line=False)
        return replica_rate(self.inputs, point)

    def state(self, concurrency: Number) -> SteadyState:
        """Steady state with the given number of sequences in flight, where others wait for a slot."""
        point = self.point(concurrency)
        return steady_state(self.inputs, point, replica_rate(self.inputs, point), self.bounds.request_slots)

    def worst_gap(self, concurrency: Number) -> Number:
        """Longest step with the given number of sequences in flight."""
        return worst_gap(self.inputs, self.layout, self.point(concurrency), self.steps, self.bounds.request_slots)

    def rows(self, places: Places) -> Engines:
        """The engines of some of the plans."""
        parts = (self.steps, self.bounds, self.held)
        return Engines(self.inputs, self.layout.at(places), *rows_of(parts, places, len(self.layout)))

    def bare(self) -> Engines:
        """The engines with bare numbers of the requests, which arrays are multiplied by sooner."""
        return replace(self, inputs=_bare_inputs(self.inputs))

    def most_in_flight(
        self,
        over: Callable[[Engines, Column], Number],
        near: float = NEAR,
        points: int = POINTS,
        most: Column | None = None,
    ) -> Column:
        """Most sequences in flight, within the bounds or `most`, at which `over` is at most 1.

        Both are looked for by their logarithms; at first `points` loads together.
        """

        def excess(engines: Engines) -> Callable[[Column], Values]:
            """A function of sequences in flight that is positive where `over` exceeds 1."""
            return lambda log: np.log(over(engines, np.exp(log)))

        least, bare = np.full(len(self.layout), np.log(LEAST)), self.bare()
        some = None if self.layout.variant is not None else lambda rows: excess(bare.rows(rows))
        with np.errstate(all="ignore"):
            high = np.log(self.bounds.least if most is None else most)
            return np.exp(last_within(excess(bare), least, high, some=some, near=near, points=points))


def _bare_inputs(inputs: ServingInputs) -> ServingInputs:
    """Inputs with bare numbers of the requests, which arrays are multiplied by sooner than by figures with a place."""
    load = inputs.load
    if tracing() or type(load.prompt) is float:
        return inputs
    numbers: dict[str, Any] = {name: float(value) for name, value in vars(load).items() if isinstance(value, Figure)}
    return replace(inputs, load=replace(load, **numbers)) if numbers else inputs


def per_replica(inputs: ServingInputs, layout: PlanColumns, amount: float) -> Column:
    """The load of one replica: the fleet's load divided by the number of replicas."""
    return np.asarray(amount / layout.replicas, dtype=np.float64)


# Where a load has a cap beside its rate: what the cap makes less, and what the rate alone decides.
OF_CAP = ("ttft", "ttft_p99", "tpot", "tpot_p99", "worst_gap", "prompts_between", "interference_share", "concurrency")
OF_RATE_WITHIN = ("replicas_needed", "gpus_needed", "rent_needed", "rate_within_slo_per_s",
                  "tokens_per_gpu_within_limits", "cost_within_limits")  # fmt: skip


def loads_under_cap(inputs: ServingInputs) -> tuple[ServingInputs, ServingInputs] | None:
    """The two loads of a rate with a concurrency cap: the rate alone, and a closed loop; None for other loads."""
    scenario = inputs.case.scenario
    if scenario.workload.rate is None or scenario.workload.concurrency is None:
        return None
    alone = (scenario.workload.model_copy(update={name: None}) for name in ("concurrency", "rate"))
    cases = (replace(inputs.case, scenario=scenario.model_copy(update={"workload": each})) for each in alone)
    rated, looped = (replace(inputs, case=case) for case in cases)
    return rated, looped


def cap_binds(inputs: ServingInputs, looped: Costs) -> NDArray[np.bool_]:
    """Plans on which the concurrency cap limits the rate, so that requests wait at the client."""
    return np.asarray(looped.column("requests_per_s") <= float(inputs.case.scenario.workload.rate or 0.0))


def results_under_cap(inputs: ServingInputs, rated: Costs, looped: Costs) -> Costs:
    """The results of a rate with a concurrency cap: those of the rate alone, or of the closed loop where the cap binds.

    Times lie between those of the rate and, if these are shorter, of the loop, weighted by how often the cap is
    reached. How many replicas a rate needs does not depend on the cap.
    """
    workload, binds = inputs.case.scenario.workload, cap_binds(inputs, looped)
    found, arriving, capped = where_rows(binds, looped, rated), rated.columns, looped.columns
    with term("at most so many in flight"), np.errstate(all="ignore"):
        busy = share(workload.rate or 0.0, looped.columns["requests_per_s"])
        full = waiting_probability(float(workload.concurrency or 1.0), busy)
        columns: dict[str, Number] = {}
        for name in OF_CAP:
            some = np.asarray(arriving[name]) > 0
            between = np.where(some, time_under_cap(arriving[name], capped[name], full), arriving[name])
            columns[name] = np.where(binds, capped[name], between)
        rest = np.minimum(arriving["latency"] - arriving["ttft"], capped["latency"] - capped["ttft"])
        columns["latency"] = np.where(binds, capped["latency"], columns["ttft"] + rest)
        columns["tokens_per_s_per_user"] = rate_of(1.0, columns["tpot"])
    columns |= {name: arriving[name] for name in OF_RATE_WITHIN}
    return replace(found, columns=found.columns | columns)


def most_requests_held(inputs: ServingInputs, layout: PlanColumns, slots: Number) -> Number:
    """Requests on a replica: as many as it has slots, or all of a closed loop if these are fewer."""
    workload = inputs.case.scenario.workload
    there = workload.at_once if workload.users is None else workload.users
    return slots if there is None else np.minimum(slots, np.ceil(per_replica(inputs, layout, there)))


def in_flight(engines: Engines) -> Column:
    """Sequences in flight on one replica under the scenario's load, within the bounds."""
    inputs = engines.inputs
    workload = inputs.case.scenario.workload
    if workload.rate is not None:
        rate = float(workload.rate)
        return engines.most_in_flight(lambda some, many: share(some.rate(many), per_replica(inputs, some.layout, rate)))
    if workload.at_once is not None:
        return _in_flight_in_loop(engines, float(workload.at_once))
    assert workload.users is not None
    users, thinking = float(workload.users), float(workload.think_time or 0.0)

    def busy(some: Engines, many: Column) -> Number:
        """How full a replica is with so many sequences in flight; 1 is full."""
        state = some.state(many)
        answer = state.ttft + (inputs.load.longest_answer - 1.0) * state.tpot
        return share(state.rate * (thinking + answer), per_replica(inputs, some.layout, users))

    return engines.most_in_flight(busy)


def _in_flight_in_loop(engines: Engines, there: float) -> Column:
    """Sequences in flight in a closed loop: all requests except those that wait behind blocking prompts.

    By Little's law, the number that waits is the rate times the wait of each. Offline batches do not count these.
    """
    most = np.minimum(per_replica(engines.inputs, engines.layout, there), engines.bounds.least)
    if not _has_blocking_prompts(engines.inputs.load) or engines.inputs.case.scenario.workload.requests is not None:
        return most

    def present(some: Engines, many: Column) -> Number:
        """Requests in a replica per user when so many sequences are in flight, those in line included."""
        point = some.point(many)
        rate = replica_rate(some.inputs, point)
        with term("in line"):
            waiting = rate * point.blocking.wait(rate, full_steps(some.inputs, point, rate)[1])
        return share(many + waiting, per_replica(some.inputs, some.layout, there))

    return np.minimum(most, engines.most_in_flight(present))


def _has_blocking_prompts(load: Load) -> bool:
    """Whether a prompt may fit into a step alone but not with the sequences in flight."""
    return load.whole and load.prompt_spread > 0


def with_link(engines: Engines) -> Bounds:
    """The bounds, with one for the host link over which cached conversations are loaded."""
    if not np.any(engines.inputs.load.loaded):
        return engines.bounds

    def busy(some: Engines, many: Column) -> Number:
        """How full the host link is with so many sequences in flight; 1 is full."""
        point = some.point(many)
        return replica_rate(some.inputs, point) * point.host.busy

    return replace(engines.bounds, link=_in_flight_at_full(engines, busy))


def with_blocking(engines: Engines) -> Bounds:
    """The bounds, with one for prompts that block steps until answers end."""
    if not _has_blocking_prompts(engines.inputs.load):
        return engines.bounds

    def busy(some: Engines, many: Column) -> Number:
        """Share of the time that blocking prompts take with so many sequences in flight."""
        point = some.point(many)
        rate = replica_rate(some.inputs, point)
        return full_steps(some.inputs, point, rate)[1] + point.blocking.busy_share(rate)

    return replace(engines.bounds, unlike_prompts=_in_flight_at_full(engines, busy))


def _in_flight_at_full(engines: Engines, busy: Callable[[Engines, Column], Number]) -> Column:
    """Sequences in flight at which `busy` reaches 1; infinite if it never does."""
    with untraced(), np.errstate(all="ignore"):
        over = np.asarray(busy(engines, engines.bounds.least)) > 1
        return np.where(over, engines.most_in_flight(busy), np.inf)
