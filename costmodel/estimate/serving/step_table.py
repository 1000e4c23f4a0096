"""Tabulated step times, for search and bisection, which look them up thousands of times.

Everything but attention and the head takes its time by the rows of a step alone, attention in proportion to sequences
and to tokens. So a table over rows for each way of cutting the model gives any step to a few parts in ten thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.run.economics import share
from costmodel.estimate.serving.engine_step import (
    StepTime,
    context_time,
    decode_time,
    head_time,
    host_time,
    own_all_reduce_rows,
    prompt_time,
    rows_time,
)
from costmodel.estimate.serving.expert_step import dispatches, halved
from costmodel.estimate.serving.launches import Launches, launch_wait, launches_of
from costmodel.estimate.serving.operating_point import context_of
from costmodel.estimate.serving.plan_columns import PlanColumns, longer
from costmodel.estimate.serving.replica_kinds import cuts_of, distinct
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.step_batch import AttentionGroups, groups_of
from costmodel.ground.equation import Number
from costmodel.ground.record import record
from costmodel.ground.solvers import Curves, Jumps, Line

LARGEST = 262_144.0  # rows of a step
BESIDE = 1e-9  # of a number of rows, by which others are more, or fewer
PROMPT = 1024.0  # tokens at which the proportion of prompt attention is taken


@record
class RowTimes:
    """Times by rows of a step: rows of all attention groups, and of the busiest group."""

    every: Curves  # where all rows are of one group
    own: Curves | None = None  # of that, what depends on the rows of the busiest; None where no plan has several groups

    def beside(self, times: Curves) -> RowTimes:
        """Adds times that depend only on the rows of the busiest group."""
        return RowTimes(self.every + times, None if self.own is None else self.own + times)

    def at(self, rows: Number, own: Number) -> Number:
        """Time at so many rows, `own` of them in the busiest group."""
        found = self.every.at(rows)
        return found if self.own is None else found + (self.own.at(own) - self.own.at(rows))


@record
class OtherHalf:
    """All-to-all of one half of a batch, and the compute of the other half that hides it."""

    sent: RowTimes
    compute: RowTimes

    def hidden(self, rows: Number, own: Number, beside: Number) -> Number:
        """The part of the all-to-all that is hidden; `beside` is the time of attention and head."""
        return np.minimum(self.sent.at(rows, own), self.compute.at(rows, own) + beside)


@record
class StepTable:
    """Table of step times for each way to shard the model, and which of them each plan uses."""

    computed: Number
    prompted: RowTimes  # rows with prompts among them
    head: Curves
    drawn: RowTimes  # rows without prompts, each of which draws a token
    decoding: Line
    prompts: Line
    host: Line
    one: Number
    verified: float = 1.0
    samples: float = 1.0  # sequences of a request
    passes: float = 0.0  # of the draft
    groups: AttentionGroups | None = None
    draft: StepTable | None = None
    halves: tuple[OtherHalf, OtherHalf] | None = None  # without prompts, and with
    shared: Curves | None = None  # what latent attention exchanges for queries of sequences that decode
    launches: Launches = Launches()
    mixed_steps: bool = True  # sequences that decode share the steps of prompts
    time_factor: Number | None = None  # on its times, for the ends of bands

    def _sequences(self, requests: Number) -> Number:
        return requests if self.samples == 1 else self.samples * requests

    def _queries(self, decodes: Number) -> Number:
        return decodes if self.verified == 1 else self.verified * decodes

    def _with_host(self, device: Number, decodes: Number, launches: Number | None) -> Number:
        launched = device if launches is None else device + launch_wait(device, launches)
        return launched + self.host.at(decodes)

    def decode(self, decodes: Number) -> Number:
        """Step time of so many sequences."""
        return longer(self._decode(self._sequences(decodes)), self.time_factor)

    def mixed(self, decodes: Number, tokens: Number) -> Number:
        """Step time of so many sequences with so many prompt tokens."""
        return longer(self._mixed(self._sequences(decodes), tokens), self.time_factor)

    def _decode(self, decodes: Number) -> Number:
        busiest = decodes if self.groups is None else self.groups.sequences(decodes)
        queries, own = self._queries(decodes), self._queries(busiest)
        time: Number = self.drawn.at(queries, own) + self.decoding.at(busiest)
        if self.halves is not None:
            time = time - self.halves[0].hidden(queries, own, self.head.at(own) + self.decoding.at(busiest))
        time = self._with_host(time, decodes, self.launches.decode)
        return time if self.draft is None else time + self.passes * self.draft.decode(decodes)

    def _alone(self, tokens: Number) -> Number:
        """Step time with prompts only."""
        part = tokens if self.groups is None else self.groups.tokens(tokens)
        beside = self.prompts.at(part) + self.head.at(share(part, self.computed))
        time: Number = self.prompted.at(tokens, part) + beside
        if self.halves is not None:
            time = time - self.halves[1].hidden(tokens, part, beside)
        time = self._with_host(time, 0.0, self.launches.prompts)
        return time if self.draft is None else time + self.draft._alone(tokens)

    def _mixed(self, decodes: Number, tokens: Number) -> Number:
        if not self.mixed_steps:
            return self._decode(decodes) + self._alone(tokens)
        busiest, part = (
            (decodes, tokens) if self.groups is None else (self.groups.sequences(decodes), self.groups.tokens(tokens))
        )
        queries, own = self._queries(decodes), self._queries(busiest)
        beside = self.decoding.at(busiest) + self.prompts.at(part) + self.head.at(own + share(part, self.computed))
        time: Number = self.prompted.at(queries + tokens, own + part) + beside
        if self.shared is not None:
            time = time + self.shared.at(own)
        if self.halves is not None:
            time = time - self.halves[1].hidden(queries + tokens, own + part, beside)
        time = self._with_host(time, decodes, self.launches.prompts)
        if self.draft is None:
            return time
        later = (self.passes - 1.0) * self.draft.decode(decodes)
        return time + self.draft.mixed(decodes, tokens) + later


def _part_of_step(
    inputs: ServingInputs, layout: PlanColumns, rows: Number, own: Number, *, prompts: bool, compute: bool
) -> StepTime:
    """Either the compute of a step, or its all-to-all of experts."""
    step = rows_time(inputs, layout, rows, own, prompts=prompts)
    if compute:
        return StepTime(matmul=step.compute)
    return StepTime(ep=np.where(dispatches(inputs, layout), step.ep, 0.0))


@record
class _Cuts:
    """The distinct ways to shard the model, and the index of each plan's."""

    inputs: ServingInputs
    cuts: PlanColumns
    which: NDArray[np.intp]
    grouped: bool

    def line(self, time: Callable[[float], StepTime], step: float) -> Line:
        """A time that is linear in a count, with a fixed part."""
        one, two = (np.broadcast_to(time(count).total, len(self.cuts)) for count in (step, 2.0 * step))
        return Line.through(one, two, step, self.which)

    def curves(self, time: Callable[[ServingInputs, PlanColumns, Number], StepTime]) -> Curves:
        """A time as a curve over rows."""
        grid = Curves.points(LARGEST)
        found = np.asarray(time(self.inputs, self.cuts, grid[:, np.newaxis]).total)
        return Curves(np.ascontiguousarray(np.broadcast_to(found, (len(grid), len(self.cuts))).T), self.which)

    def jumping(self, time: Callable[[ServingInputs, PlanColumns, Number], StepTime]) -> Curves:
        """A time as a curve over rows, with a jump where messages become too large for the custom all-reduce."""
        found, most = self.curves(time), own_all_reduce_rows(self.inputs, self.cuts)
        if most is None:
            return found
        after, before = (time(self.inputs, self.cuts, most * (1.0 + side)).total for side in (BESIDE, -BESIDE))
        rise = after - before
        return found.with_jumps(Jumps(*(np.broadcast_to(each, len(self.cuts)) for each in (most, rise))))

    def of_rows(self, time: Callable[..., StepTime]) -> RowTimes:
        """A time over rows, separated into parts for all attention groups and for the busiest group."""
        every = self.jumping(lambda inputs, layout, rows: time(inputs, layout, rows, rows))
        if not self.grouped:
            return RowTimes(every)
        return RowTimes(every, self.jumping(lambda inputs, layout, rows: time(inputs, layout, LARGEST, rows)))

    def other_half(self, *, prompts: bool) -> OtherHalf:
        """What a half of a batch sends, and the compute of the other half that hides it."""
        sent, compute = (self.of_rows(partial(_part_of_step, prompts=prompts, compute=each)) for each in (False, True))
        return OtherHalf(sent, compute)


def step_table(inputs: ServingInputs, layout: PlanColumns) -> StepTable:
    """The table of step times for some plans."""
    first, which = distinct([getattr(layout, name) for name in cuts_of(layout)])
    cuts, context, groups = layout.at(first), context_of(inputs), groups_of(inputs, layout)
    of = _Cuts(inputs, cuts, which, groups is not None)
    head, plain = of.curves(head_time), of.of_rows(partial(rows_time, prompts=False))
    latent = cuts.shares_context and any(kind.latent is not None for kind in inputs.model.layers)
    shared = of.curves(context_time) if latent else None
    far = np.any(dispatches(inputs, cuts))
    table = StepTable(
        computed=inputs.load.computed,
        prompted=of.of_rows(partial(rows_time, prompts=True)) if far else plain,
        head=head,
        drawn=plain.beside(head if shared is None else head + shared),
        decoding=of.line(lambda count: decode_time(inputs, cuts, count, context), 1.0),
        prompts=of.line(lambda count: prompt_time(inputs, cuts, count), PROMPT),
        host=of.line(lambda count: host_time(inputs, count), 1.0),
        one=0.0,
        verified=inputs.load.verified,
        samples=inputs.load.samples,
        passes=0.0 if inputs.draft is None else inputs.draft.load.passes,
        groups=groups,
        halves=None if halved(inputs, cuts) is None else (of.other_half(prompts=False), of.other_half(prompts=True)),
        shared=shared,
        launches=launches_of(inputs, layout),
        mixed_steps=inputs.engine.mixed,
        draft=None if inputs.draft is None else step_table(inputs.draft, replace(layout, time_factor=None)),
        time_factor=layout.time_factor,
    )
    return replace(table, one=table.decode(np.ones(len(layout))))
