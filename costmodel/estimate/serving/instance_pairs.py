"""Prefill and decode instances side by side: what users see at a rate, and the rates that keep the limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.estimate.serving.apart_columns import SeenApart
from costmodel.estimate.serving.instances import CacheTransfer, PromptTime, first_token
from costmodel.estimate.serving.limits_chance import OWN, Reached, limits_chance
from costmodel.estimate.serving.load import LEAST
from costmodel.estimate.serving.operating_point import Steps, gaps_of_line, micro_batch
from costmodel.estimate.serving.plan_columns import PlanColumns, Rows
from costmodel.estimate.serving.requests_in_time import IN_TIME, in_time
from costmodel.estimate.serving.service_limits import over_limits, service_limits
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.step_factor import LOADED, NEAR_ENOUGH, limits_of, of_slower_steps, over_bound
from costmodel.estimate.serving.step_table import step_table
from costmodel.estimate.serving.token_tail import token_p99_apart
from costmodel.estimate.shared.limits import Limit
from costmodel.ground.equation import Number, term, untraced
from costmodel.ground.solvers import NEAR, last_within

FEWEST_PER_S = 1e-9  # requests a second of the emptiest plan that is looked at


@dataclass(frozen=True, eq=False)
class InstancePairs:
    """Pairs of prefill and decode instances, with the inputs of their rates and times.

    held: results at saturation that do not depend on the load
    """

    inputs: ServingInputs
    prefill: PlanColumns
    decode: PlanColumns
    prompt: PromptTime
    transfer: CacheTransfer
    steps: Steps
    most: Rows  # sequences in flight of a decode instance at most
    held: Mapping[str, Number]

    def step(self, many: Number) -> Number:
        """Step time of a decode instance with so many sequences in flight."""
        return self.steps.decode(micro_batch(self.decode, many))

    def in_flight(self, rate: Number) -> Rows:
        """Sequences in flight on a decode instance at a rate of the whole plan, within the bounds."""
        return self.in_flight_of_one(np.asarray(rate / self.decode.replicas, dtype=np.float64))

    def in_flight_of_one(self, each: Rows) -> Rows:
        """Sequences in flight on a decode instance at its rate, within the bounds."""
        with untraced(), np.errstate(all="ignore"):
            found = last_within(
                lambda log: np.log(self.decoded(np.exp(log)) / each),
                np.full(len(self.decode), np.log(LEAST)),
                np.log(self.most),
            )
        return np.exp(found)

    def decoded(self, many: Number) -> Number:
        """Requests per second that one decode instance answers with so many in flight."""
        return rate_of(many, self.inputs.load.steps * self.step(many))

    def seen(self, rate: Number, many: Number) -> SeenApart:
        """Latencies at a rate of the whole plan."""
        with term("of an instance"):
            arriving = rate / self.prefill.replicas
        return self.seen_at(arriving, many)

    @property
    def gaps(self) -> Number:
        """Variation of the gaps between arrivals at a prefill instance."""
        return gaps_of_line(self.inputs, self.prefill.replicas)

    def seen_at(self, arriving: Number, many: Number) -> SeenApart:
        """Latencies at a rate of one prefill instance, with so many sequences in flight on a decode instance."""
        step, load = self.step(many), self.inputs.load
        tpot = load.per_token(step)
        with term("links"):
            links = share(arriving, self.transfer.sent), share(self.decoded(many), self.transfer.received)
        first = first_token(load, self.prefill.budget, self.prompt, arriving, self.transfer, step, links, self.gaps)
        with term("latency"):
            latency = first.mean + (load.longest_answer - 1.0) * tpot
        far = token_p99_apart(load, self.step, self.steps.one, many)
        return SeenApart(first.mean, first.p99, tpot, far, np.maximum(step, far), latency, first.busy)

    def over(
        self, seen: SeenApart, rate: Rows, held: Mapping[str, Number], seen_at_load: Callable[[Rows], SeenApart]
    ) -> Rows:
        """The largest ratio of a result to its service-level limit; above 1 if a limit is broken.

        seen_at_load: what users see at so many times the load, by the clock of steps that take so many times as long
        """
        limits = service_limits(self.inputs)

        def named(name: str) -> Number:
            if name == OWN:
                room = share(held["saturation_per_s"], rate)
                return self.chance(limits, named, room, (room, lambda factor: (factor, seen_at_load(factor))))
            if name in IN_TIME:
                return in_time(limits_of(self.inputs), named)[name]
            if name == "requests_per_s":
                return self.inputs.case.scenario.workload.rate or rate
            return held[name] if name in held else _result(seen, name)

        return over_limits(limits, named, len(self.decode))

    def chance(
        self,
        limits: list[Limit],
        result: Callable[[str], Number],
        room: Number | None,
        loads: tuple[Number, Callable[[Rows], tuple[Number, SeenApart]]] | None,
    ) -> Number:
        """Chance to meet the limits; `loads`: the highest load, and load factor and latencies as a function of load."""

        def reached(column: str, bound: float) -> Reached | None:
            if column not in LOADED or loads is None:
                return None

            def grown(load: Rows) -> tuple[Number, Number]:
                factor, seen = loads[1](load)
                if column in IN_TIME:
                    named = _of_users(seen, factor, result("requests_per_s"))
                    return factor, in_time(limits_of(self.inputs), named)[column]
                return factor, of_slower_steps(column, _result(seen, column), factor)

            def over(load: Rows) -> Number:
                return over_bound(column, grown(load)[1], bound)

            with untraced(), np.errstate(all="ignore"):
                found = grown(self.greatest(loads[0], over, NEAR_ENOUGH))
            return Reached(*(np.asarray(each) for each in found))

        return limits_chance(self.inputs, limits, result, room, lambda bounds: [reached(*each) for each in bounds])

    def greatest(self, top: Number, over: Callable[[Rows], Number], near: float = NEAR) -> Rows:
        """Highest rate up to `top` at which `over` is at most 1."""
        with untraced(), np.errstate(all="ignore"):
            rows = len(self.decode)
            highest = np.log(np.maximum(np.broadcast_to(np.asarray(top, dtype=np.float64), rows), FEWEST_PER_S))
            least = np.full(rows, np.log(FEWEST_PER_S))
            return np.exp(last_within(lambda log: np.log(over(np.exp(log))), least, highest, near=near))

    def kept(self, top: Number, over: Callable[[Rows], Number]) -> Rows:
        """Highest rate up to `top` at which `over` is at most 1; 0 if it exceeds 1 at every rate."""
        with untraced(), np.errstate(all="ignore"):
            ever = np.asarray(over(np.full(len(self.decode), FEWEST_PER_S)) <= 1)
            near = NEAR_ENOUGH if any(limit.column == OWN for limit in service_limits(self.inputs)) else NEAR
            return np.where(ever, self.greatest(top, over, near), 0.0)

    def within(self, top: Number) -> Number:
        """Requests per second of the whole plan within the service-level limits; 0 if none meets them."""
        if not service_limits(self.inputs):
            return top
        held = {**self.held, "saturation_per_s": top}

        def at(rate: Rows) -> SeenApart:
            return self.seen(rate, self.in_flight(rate))

        return self.kept(top, lambda rate: self.over(at(rate), rate, held, lambda factor: at(factor * rate)))

    def quick(self) -> InstancePairs:
        """The pairs with step times from a table, and with columns that are not traced."""
        prefill, decode = self.prefill.bare(), self.decode.bare()
        prompt = PromptTime(*(_bare(getattr(self.prompt, name)) for name in self.prompt.__dataclass_fields__))
        return replace(
            self,
            prefill=prefill,
            decode=decode,
            prompt=prompt,
            transfer=bare_transfer(self.transfer),
            steps=step_table(self.inputs, decode),
        )


def _of_users(seen: SeenApart, factor: Number, requests: Number) -> Callable[[str], Number]:
    """Results where all times are longer by a factor, at an unchanged rate of requests."""
    return lambda name: requests if name == "requests_per_s" else _result(seen, name) * factor


def _result(seen: SeenApart, name: str) -> Number:
    if name == "prompts_between":
        return 0.0
    found: Number = rate_of(1.0, seen.tpot) if name == "tokens_per_s_per_user" else getattr(seen, name)
    return found


def bare_transfer(transfer: CacheTransfer) -> CacheTransfer:
    """The transfer with columns that are not traced."""
    return CacheTransfer(*(_bare(getattr(transfer, name)) for name in transfer.__dataclass_fields__))


def _bare(value: Number) -> Number:
    return np.asarray(value, dtype=np.float64).view(np.ndarray)
