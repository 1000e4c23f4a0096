"""Prefill and decode instances side by side: what users see at a rate, and the rates that keep the limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from costmodel.equations.run.economics import rate as rate_of
from costmodel.estimate.serving.apart_columns import SeenApart
from costmodel.estimate.serving.instances import CacheTransfer, PromptTime, first_token
from costmodel.estimate.serving.load import LEAST
from costmodel.estimate.serving.operating_point import Steps, micro_batch
from costmodel.estimate.serving.plan_columns import SIZES, PlanColumns, Rows
from costmodel.estimate.serving.service_limits import over_limits, service_limits
from costmodel.estimate.serving.serving_band import OWN, limits_chance
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.step_table import step_table
from costmodel.estimate.serving.token_tail import token_p99_apart
from costmodel.ground.equation import Number, term, untraced
from costmodel.ground.solvers import last_within

FEWEST_PER_S = 1e-9  # requests a second of the emptiest plan that is looked at


@dataclass(frozen=True, eq=False)
class InstancePairs:
    """Prefill and decode instances with what their rates and times need.

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
        """A step of a decode instance with so many sequences in flight."""
        return self.steps.decode(micro_batch(self.decode, many))

    def in_flight(self, rate: Number) -> Rows:
        """Sequences of a decode instance that keep a rate of the whole plan, as many as the bounds allow."""
        return self.in_flight_of_one(np.asarray(rate / self.decode.replicas, dtype=np.float64))

    def in_flight_of_one(self, each: Rows) -> Rows:
        """Sequences of a decode instance that keep its rate, as many as the bounds allow."""
        with untraced(), np.errstate(all="ignore"):
            found = last_within(
                lambda log: np.log(self.decoded(np.exp(log)) / each),
                np.full(len(self.decode), np.log(LEAST)),
                np.log(self.most),
            )
        return np.exp(found)

    def decoded(self, many: Number) -> Number:
        """Requests a second that one decode instance answers with so many in flight."""
        return rate_of(many, self.inputs.load.steps * self.step(many))

    def seen(self, rate: Number, many: Number) -> SeenApart:
        """What users see at a rate of the whole plan."""
        with term("of an instance"):
            arriving = rate / self.prefill.replicas
        return self.seen_at(arriving, many)

    def seen_at(self, arriving: Number, many: Number) -> SeenApart:
        """What users see at a rate of one prefill instance, with so many sequences in one that generates."""
        step, load = self.step(many), self.inputs.load
        tpot = load.per_token(step)
        first = first_token(load, self.prefill.budget, self.prompt, arriving, self.transfer, step)
        with term("latency"):
            latency = first.mean + (load.output - 1.0) * tpot
        far = token_p99_apart(load, self.steps.one, step, many)
        return SeenApart(first.mean, first.p99, tpot, far, step, latency, first.busy)

    def over(self, seen: SeenApart, rate: Rows, held: Mapping[str, Number]) -> Rows:
        """The result that is nearest to its service-level limit, or beyond it, over that limit."""
        limits = service_limits(self.inputs)

        def named(name: str) -> Number:
            if name == "tokens_per_s_per_user":
                return rate_of(1.0, seen.tpot)
            if name == OWN:
                return limits_chance(self.inputs, limits, named, rate)
            found: Number = held[name] if name in held else getattr(seen, name)
            return found

        return over_limits(limits, named, len(self.decode))

    def greatest(self, top: Number, over: Callable[[Rows], Number]) -> Rows:
        """Greatest rate up to a highest one at which something is not over 1."""
        with untraced(), np.errstate(all="ignore"):
            rows = len(self.decode)
            highest = np.log(np.maximum(np.broadcast_to(np.asarray(top, dtype=np.float64), rows), FEWEST_PER_S))
            least = np.full(rows, np.log(FEWEST_PER_S))
            return np.exp(last_within(lambda log: np.log(over(np.exp(log))), least, highest))

    def kept(self, top: Number, over: Callable[[Rows], Number]) -> Rows:
        """The same; 0 where something is over 1 at every rate."""
        with untraced(), np.errstate(all="ignore"):
            ever = np.asarray(over(np.full(len(self.decode), FEWEST_PER_S)) <= 1)
            return np.where(ever, self.greatest(top, over), 0.0)

    def within(self, top: Number) -> Number:
        """Requests a second of the whole plan up to which the service-level limits hold; 0 where none does."""
        if not service_limits(self.inputs):
            return top
        held = {**self.held, "saturation_per_s": top}
        return self.kept(top, lambda rate: self.over(self.seen(rate, self.in_flight(rate)), rate, held))

    def quick(self) -> InstancePairs:
        """The same with steps out of a table, and columns that no trace follows."""
        layouts = [
            PlanColumns(*(np.asarray(getattr(layout, name)).view(np.ndarray) for name in SIZES))
            for layout in (self.prefill, self.decode)
        ]
        prompt = PromptTime(*(_bare(getattr(self.prompt, name)) for name in self.prompt.__dataclass_fields__))
        return replace(
            self,
            prefill=layouts[0],
            decode=layouts[1],
            prompt=prompt,
            transfer=bare_transfer(self.transfer),
            steps=step_table(self.inputs, layouts[1]),
        )


def bare_transfer(transfer: CacheTransfer) -> CacheTransfer:
    """The same with columns that no trace follows."""
    return CacheTransfer(*(_bare(getattr(transfer, name)) for name in transfer.__dataclass_fields__))


def _bare(value: Number) -> Number:
    return np.asarray(value, dtype=np.float64).view(np.ndarray)
