"""What replicas are whatever their load: memory, steps, bounds of sequences in flight, saturation, traffic within."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.serving import LOADS, ServingScenario
from costmodel.equations.network.collectives import activation_message
from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import missed_chance
from costmodel.estimate.machine.collective_time import send_time
from costmodel.estimate.machine.process_groups import Transfer
from costmodel.estimate.model.shards import stream_width
from costmodel.estimate.serving.engine_memory import EngineMemoryUse, memory_use
from costmodel.estimate.serving.engine_step import all_reduce, all_reduces_per_layer, own_sequences
from costmodel.estimate.serving.expert_step import expert_transfers
from costmodel.estimate.serving.kv_cache import dcp_prompt_transfer, dcp_query_transfers
from costmodel.estimate.serving.load import LEAST, Column, Engines, bounds_of, per_replica, with_blocking, with_link
from costmodel.estimate.serving.measured_spreads import with_beyond
from costmodel.estimate.serving.operating_point import ExactSteps, micro_batch
from costmodel.estimate.serving.plan_columns import (
    PlanColumns,
    ReplicaKinds,
    engine_group,
    of_each_plan,
    replica_kinds,
    rows_of,
    shard_of,
    shared_cuts,
    with_straddling,
)
from costmodel.estimate.serving.service_limits import OWN, is_asked, limits_chance, over_limits, service_limits
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.steady_state import SteadyState, replica_rate, steady_state
from costmodel.estimate.serving.step_table import (
    ARRIVING,
    NEAR_ENOUGH,
    PLAN,
    USERS,
    LoadTable,
    reached,
    result_at,
    step_table,
)
from costmodel.estimate.shared.results import Limit, stated_limits
from costmodel.ground.equation import Number, term, tracing, untraced
from costmodel.ground.record import record
from costmodel.ground.solvers import Places

# --- what replicas are whatever their load


FEW = 5  # loads that a search evaluates together at first, where each takes a search for every limit

# The rate up to which plans meet the limits on what users see, and the chance that they do at the scenario's load.


def expected_load(quick: Engines) -> Column:
    """Sequences in flight of one replica up to which expected results are within the service-level limits."""
    expected = [limit for limit in service_limits(quick.inputs) if limit.column != OWN]

    def over(some: Engines, many: Column) -> Column:
        """The largest ratio of a result to its limit; above 1 if a limit is broken."""
        state = some.state(many)
        return over_limits(expected, lambda name: result_at(some, many, state, name), len(some.layout))

    with untraced(), np.errstate(all="ignore"):
        return quick.most_in_flight(over) if expected else quick.bounds.least


def rate_within_limits(quick: Engines, engines: Engines, many: Column) -> Number:
    """Requests per second of one replica within its limits, from its expected load; 0 if the lowest rate breaks one."""
    limits = service_limits(quick.inputs)
    if not limits:
        return engines.rate(engines.bounds.least)
    with untraced(), np.errstate(all="ignore"):
        for limit in limits:
            many = _in_flight_with_chance(quick, limit.value, limits, many) if limit.column == OWN else many
    return np.where(many > LEAST * (1.0 + NEAR_ENOUGH), engines.rate(many), 0.0)


def _in_flight_with_chance(quick: Engines, least: float, limits: list[Limit], most: Column) -> Column:
    """Sequences in flight, at most `most`, up to which the chance to meet the limits is at least so high."""
    inputs = quick.inputs
    quick = replace(quick, held={**quick.held, PLAN: np.arange(len(quick.layout), dtype=np.float64)})
    table = LoadTable(quick.bare())

    def over(some: Engines, many: Column) -> Column:
        """The odds of that chance over those at these loads; above 1 if the chance is too low."""
        state = some.state(many)
        loaded = replace(some, held={**some.held, ARRIVING: state.rate})
        room, named = share(some.held["saturation_per_s"], state.rate), partial(result_at, some, many, state)
        chance = limits_chance(inputs, [some.layout], limits, named, room, partial(reached, loaded, table=table))
        return np.asarray(share(_odds(least), _odds(chance)))

    return quick.most_in_flight(over, NEAR_ENOUGH, FEW, most)


def _odds(chance: Number) -> Number:
    """Odds of a chance: chance over its complement, which is closer to a straight line of the load."""
    return chance / missed_chance(chance)


def chance_of_limits(quick: Engines, columns: Mapping[str, Number]) -> Number:
    """Chance that plans meet every limit; NaN if the scenario does not ask for it."""
    scenario, layout = quick.inputs.case.scenario, quick.layout
    workload = scenario.workload
    if not is_asked(quick.inputs):
        return np.nan
    held, room = dict[str, Number](), None
    if workload.rate is not None:
        held[ARRIVING] = per_replica(quick.inputs, layout, float(workload.rate))
        with term("room"):
            room = share(columns["saturation_per_s"], workload.rate)
    elif workload.users is not None and workload.think_time:
        held[USERS] = per_replica(quick.inputs, layout, float(workload.users))
    reach = partial(reached, replace(quick, held=held))
    limits = stated_limits(scenario.limits)
    wider = with_beyond(quick.inputs, [layout], columns.__getitem__)
    return limits_chance(wider, [layout], limits, columns.__getitem__, room, reach)


QUESTIONS, KINDS, CAPACITIES = 16, 512, 8  # that are kept; of larger ones nothing is
LIMITS, RATES = 64, 4096  # for which rates are kept, and of how many kinds of replicas for each; the latest
_DOCUMENTS = ("model", "node", "accelerator", "scale_up", "scale_out", "host", "efficiency", "network", "common",
              "stack", "draft", "practice", "groups")  # fmt: skip
_SIZES = ("tp", "pp", "ep", "dp_attention", "budget", "redundant_experts", "dcp")
_BESIDE = {"limits": None, "objective": None, "search": None, "title": "", "plan": None}


@dataclass(frozen=True, eq=False)
class ReplicaCapacity:
    """Capacity of each kind of replica, with exact step times and with step times from a table.

    known: rates within limits that were looked for, by these limits. of_kinds: the same by kinds of replicas, with the
    load up to which expected results are within limits
    """

    kinds: ReplicaKinds
    memory: EngineMemoryUse
    exact: ExactSteps
    engines: Engines
    quick: Engines
    most: SteadyState
    known: dict[object, Number] = field(default_factory=dict)
    of_kinds: dict[object, dict[bytes, float]] | None = None

    def within_limits(self, inputs: ServingInputs) -> Number:
        """Requests per second of one replica within the limits of `inputs`, which may be of another load."""
        if tracing():
            return self._rates(inputs)
        asked = (*stated_limits(inputs.case.scenario.limits), inputs.beyond, inputs.beyond_first)
        if asked not in self.known:
            self.known[asked] = self._by_kinds(inputs, asked, lambda some: some._rates(inputs))
            _drop_oldest(self.known, LIMITS)
        return self.known[asked]

    def _by_kinds(self, inputs: ServingInputs, asked: object, find: Callable[[ReplicaCapacity], Number]) -> Column:
        """What is found of each kind of replica, computed only for kinds not yet cached."""
        if self.of_kinds is None or tracing():
            return np.asarray(find(self))
        cached, keys = self.of_kinds.pop(asked, {}), _row_keys(inputs, self.kinds.layout)
        self.of_kinds[asked] = cached
        _drop_oldest(self.of_kinds, LIMITS)
        new = np.array([place for place, key in enumerate(keys) if key not in cached], dtype=np.intp)
        if len(new):
            found = find(self if len(new) == len(keys) else self.at(new))
            found = np.broadcast_to(np.asarray(found, dtype=np.float64), new.shape)
            cached.update(zip((keys[place] for place in new), map(float, found), strict=True))
        answer = np.array([cached[key] for key in keys])
        _drop_oldest(cached, RATES)
        return answer

    def _rates(self, inputs: ServingInputs) -> Number:
        """The highest rate within the scenario's limits, for each kind of replica."""
        quick, engines = self._quick_of(inputs), replace(self.engines, inputs=inputs)
        expected = tuple(limit for limit in service_limits(inputs) if limit.column != OWN)
        with term("within limits"):
            load = self._by_kinds(inputs, ("load", *expected), lambda some: expected_load(some._quick_of(inputs)))
            return rate_within_limits(quick, engines, load)

    def _quick_of(self, inputs: ServingInputs) -> Engines:
        """The engines with step times from a table, under the limits of `inputs`, with results that no load changes."""
        held = {"saturation_per_s": self.most.rate, "concurrency_worst": self.memory.requests_worst}
        return replace(self.quick, inputs=inputs, held=held)

    def at(self, rows: Places) -> ReplicaCapacity:
        """The capacity of some of the kinds of replicas."""
        count, inputs = len(self.kinds.layout), self.engines.inputs
        parts = (self.memory, self.engines.bounds, self.most, self.exact.one)
        memory, bounds, most, one = rows_of(parts, rows, count)
        layout = self.engines.layout.at(rows)
        exact = ExactSteps(inputs, layout, one)
        engines = Engines(inputs, layout, exact, bounds)
        quick = self.quick.rows(rows)
        return ReplicaCapacity(ReplicaKinds(layout), memory, exact, engines, quick, most, of_kinds=self.of_kinds)


def capacity_of(inputs: ServingInputs, layout: PlanColumns) -> ReplicaCapacity:
    """The capacity of the replicas of some plans, one row for each kind of replica.

    It comes from the cache if an earlier answer evaluated the same replicas.
    """
    kinds = replica_kinds(inputs, layout)
    known = None if tracing() or layout.variant is not None or not 0 < len(kinds.layout) <= KINDS else _known(inputs)
    if known is None:
        return _capacity(inputs, kinds)
    keys = _row_keys(inputs, kinds.layout)
    for places, capacity in known.capacities:
        rows = [places.get(key, -1) for key in keys]
        if min(rows) >= 0:
            whole = len(rows) == len(places) and rows == [*range(len(rows))]
            return replace(capacity if whole else capacity.at(np.array(rows)), kinds=kinds)
    capacity = replace(_capacity(inputs, kinds), of_kinds=known.rates)
    known.capacities.appendleft(({key: place for place, key in enumerate(keys)}, capacity))
    return capacity


def capacity_at_any_load(inputs: ServingInputs, layout: PlanColumns) -> ReplicaCapacity | None:
    """The capacity for several loads; None if it depends on the load or on the number of replicas."""
    return (
        None if inputs.depends_on_count or inputs.beginnings else capacity_of(inputs, *with_straddling(inputs, layout))
    )


def remember_rates(inputs: ServingInputs, layout: PlanColumns) -> None:
    """Finds capacity and rates of plans together, where they are few enough to be kept for what evaluates them next."""
    if 0 < len(layout) <= KINDS and inputs.is_limited and not inputs.depends_on_count and not inputs.beginnings:
        with np.errstate(all="ignore"):
            capacity_of(inputs, *with_straddling(inputs, layout)).within_limits(inputs)


def _capacity(inputs: ServingInputs, kinds: ReplicaKinds) -> ReplicaCapacity:
    """Everything about a kind of replica that its load does not change: memory, steps, bounds, saturation."""
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


def _drop_oldest(found: dict[Any, Any], most: int) -> None:
    """Drops the oldest entries of a cache beyond `most`."""
    for key in [*itertools.islice(found, max(len(found) - most, 0))]:
        del found[key]


def _empty_cache() -> deque[tuple[dict[bytes, int], ReplicaCapacity]]:
    """An empty cache that keeps only the latest entries."""
    return deque(maxlen=CAPACITIES)


@dataclass(frozen=True, eq=False)
class _KnownReplicas:
    """Cache of results for one scenario's replicas, by their sizes; documents are compared by identity.

    capacities: with the place of each kind in them. rates: within limits, by these
    """

    case: ServingCase
    scenario: ServingScenario
    others: Hashable
    capacities: deque[tuple[dict[bytes, int], ReplicaCapacity]] = field(default_factory=_empty_cache)
    rates: dict[object, dict[bytes, float]] = field(default_factory=dict)

    def are_of(self, case: ServingCase, others: Hashable) -> bool:
        """Whether another case has identical replicas."""
        same = self.others == others and all(getattr(self.case, name) is getattr(case, name) for name in _DOCUMENTS)
        return same and self.scenario == _without_load(case.scenario)


_KNOWN: deque[_KnownReplicas] = deque(maxlen=QUESTIONS)


def _known(inputs: ServingInputs) -> _KnownReplicas | None:
    """Cached results for a scenario's replicas; None with a shared queue, bursts, or unequal request lengths."""
    case, lengths = inputs.case, [getattr(inputs.load, part.name) for part in fields(inputs.load)]
    if case.scenario.assume.routing == "least-loaded" or inputs.gaps != 1 or any(np.ndim(length) for length in lengths):
        return None
    drafts = None if inputs.draft is None else case.scenario.plan and case.scenario.plan.speculation
    written = drafts and drafts.model_dump_json()
    others = (*map(float, lengths), float(inputs.domain), written)
    for known in tuple(_KNOWN):
        if known.are_of(case, others):
            return known
    _KNOWN.appendleft(_KnownReplicas(case, _without_load(case.scenario), others))
    return _KNOWN[0]


def _without_load(scenario: ServingScenario) -> ServingScenario:
    """The scenario without settings that do not affect a replica's capacity, such as load, nodes, limits and plan."""
    workload, cluster, assume = scenario.workload, scenario.cluster, scenario.assume
    alike = {
        "workload": workload.model_copy(update={name: getattr(workload, name) is not None for name in LOADS}),
        "cluster": cluster.model_copy(update={"nodes": None}),
        "assume": assume.model_copy(update={"headroom": None}),
    }
    return scenario.model_copy(update=alike | _BESIDE)


def _row_keys(inputs: ServingInputs, layout: PlanColumns) -> list[bytes]:
    """The cache key of each row: its sizes; in a closed loop also the number of replicas."""
    names = _SIZES if inputs.case.scenario.workload.rate is not None else (*_SIZES, "replicas")
    rows = np.empty((len(layout), len(names) + 2))
    for place, name in enumerate(names):
        rows[:, place] = getattr(layout, name)
    rows[:, -2] = 1.0 if layout.time_factor is None else layout.time_factor
    rows[:, -1] = 0.0 if layout.straddles is None else layout.straddles
    return [row.tobytes() for row in rows]


# --- traffic between the accelerators of a replica: in a decode step, and for one whole prompt


Moment = Literal["step", "prompt"]


@record
class ServingTransfer:
    """One kind of collective, with whether it belongs to a decode step or to the prefill of a prompt."""

    moment: Moment
    transfer: Transfer


def transfers(inputs: ServingInputs, layout: PlanColumns, decodes: Number) -> Iterator[ServingTransfer]:
    """All collectives of one prompt, and of a decode step of one micro-batch with so many sequences in flight."""
    queries = inputs.load.queries * micro_batch(layout, decodes)
    moments: tuple[tuple[Moment, Number], ...] = (("step", queries), ("prompt", inputs.load.computed))
    for moment, tokens in moments:
        own = tokens if moment == "prompt" else own_sequences(layout, tokens)
        for transfer in _collectives_of_tokens(inputs, layout, tokens, own, prompts=moment == "prompt"):
            if np.all(np.asarray(transfer.count) > 0):
                yield ServingTransfer(moment, transfer)


def _collectives_of_tokens(
    inputs: ServingInputs, layout: PlanColumns, tokens: Number, own: Number, *, prompts: bool
) -> Iterator[Transfer]:
    """Collectives for the given number of tokens, `own` of them in the busiest attention group."""
    tp = engine_group(inputs, layout, "tp", layout.tp)
    message = activation_message(own, inputs.model.hidden, inputs.types.wide)
    count: Number = 0.0
    for kind in inputs.model.layers:
        count = count + kind.count * all_reduces_per_layer(layout, kind)
    talking = np.where(layout.tp > 1, count, 0.0)
    yield Transfer(tp, "all_reduce", message, all_reduce(inputs, tp, message), talking)
    yield from _dcp_collectives(inputs, layout, own, prompts=prompts)
    routed = [kind for kind in inputs.model.layers if kind.experts is not None]
    layers = sum(kind.count for kind in routed)
    for kind in routed[:1]:
        assert kind.experts is not None
        for each in expert_transfers(inputs, layout, kind.experts, tokens, prompts=prompts):
            named = "ep" if np.any(np.asarray(layout.ep) > 1) else "experts"  # which are cut by width without ep
            yield replace(each, count=layers * each.count, group=replace(each.group, name=named))
    stages = engine_group(inputs, layout, "pp", layout.pp, layout.stage_ranks)
    message = activation_message(own, stream_width(inputs.model), inputs.types.wide)
    yield Transfer(stages, "send", message, send_time(inputs, message, stages), layout.pp - 1.0)


def _dcp_collectives(
    inputs: ServingInputs, layout: PlanColumns, tokens: Number, *, prompts: bool
) -> Iterator[Transfer]:
    """Collectives of dcp, of one layer for each kind of attention, counted for all its layers."""
    if not layout.shares_context:
        return
    for name in ("attention", "latent"):
        kinds = [kind for kind in inputs.model.layers if getattr(kind, name) is not None]
        layers = sum(kind.count for kind in kinds)
        for kind in kinds[:1]:
            part = shard_of(inputs.model, layout, kind)
            found = dcp_query_transfers(inputs, layout, part, tokens)
            if prompts and kind.latent is not None:
                found = iter((dcp_prompt_transfer(inputs, layout, kind, tokens),))
            for each in found:
                yield replace(each, count=layers * each.count)
