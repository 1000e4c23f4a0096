"""Tabulated step times, for search and bisection, which look them up thousands of times.

Everything but attention and the head takes its time by the rows of a step alone, attention in proportion to sequences
and to tokens. So a table over rows for each way of cutting the model gives any step to a few parts in ten thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from costmodel.equations.run.economics import share
from costmodel.estimate.serving.engine_step import (
    StepTime,
    context_time,
    decode_time,
    head_time,
    host_time,
    prompt_time,
    rows_time,
)
from costmodel.estimate.serving.expert_step import dispatches, halved
from costmodel.estimate.serving.operating_point import context_of
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.replica_kinds import cuts_of, distinct
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.step_batch import Groups, groups_of
from costmodel.ground.equation import Number
from costmodel.ground.record import record
from costmodel.ground.solvers import Curves, Line

LARGEST = 262_144.0  # rows of a step
PROMPT = 1024.0  # tokens at which the proportion of prompt attention is taken


@record
class RowTimes:
    """Times that the rows of a step take, of all attention groups and of the busiest."""

    every: Curves  # where all rows are of one group
    own: Curves | None = None  # of that, what depends on the rows of the busiest; None where no plan has several groups

    def beside(self, times: Curves) -> RowTimes:
        """With times that depend on the rows of the busiest group alone."""
        return RowTimes(self.every + times, None if self.own is None else self.own + times)

    def at(self, rows: Number, own: Number) -> Number:
        """Of so many rows, of which the busiest group has so many."""
        found = self.every.at(rows)
        return found if self.own is None else found + (self.own.at(own) - self.own.at(rows))


@record
class OtherHalf:
    """Exchange of experts, and the compute of the other half of the batch that it hides behind."""

    sent: RowTimes
    compute: RowTimes

    def hidden(self, rows: Number, own: Number, beside: Number) -> Number:
        """The part of a step that hides; `beside` is its attention and head."""
        return np.minimum(self.sent.at(rows, own), self.compute.at(rows, own) + beside)


@record
class StepTable:
    """Times of steps of each way to cut the model, and the way that each plan has."""

    computed: Number
    prompted: RowTimes  # rows with prompts among them
    head: Curves
    drawn: RowTimes  # rows without prompts, each of which draws a token
    decoding: Line
    prompts: Line
    host: Line
    one: Number
    verified: float = 1.0
    groups: Groups | None = None
    draft: StepTable | None = None
    halves: tuple[OtherHalf, OtherHalf] | None = None  # without prompts, and with
    shared: Curves | None = None  # what latent attention exchanges for queries of sequences that decode

    def _queries(self, decodes: Number) -> Number:
        return decodes if self.verified == 1 else self.verified * decodes

    def decode(self, decodes: Number) -> Number:
        """Time of a step of so many sequences."""
        busiest = decodes if self.groups is None else self.groups.sequences(decodes)
        queries, own = self._queries(decodes), self._queries(busiest)
        time = self.drawn.at(queries, own) + self.decoding.at(busiest) + self.host.at(decodes)
        if self.halves is not None:
            time = time - self.halves[0].hidden(queries, own, self.head.at(own) + self.decoding.at(busiest))
        return time if self.draft is None else time + (self.verified - 1.0) * self.draft.decode(decodes)

    def mixed(self, decodes: Number, tokens: Number) -> Number:
        """The same with so many tokens of prompts beside them."""
        busiest, part = (
            (decodes, tokens) if self.groups is None else (self.groups.sequences(decodes), self.groups.tokens(tokens))
        )
        queries, own = self._queries(decodes), self._queries(busiest)
        beside = self.decoding.at(busiest) + self.prompts.at(part) + self.head.at(own + share(part, self.computed))
        time = self.prompted.at(queries + tokens, own + part) + beside + self.host.at(decodes)
        if self.shared is not None:
            time = time + self.shared.at(own)
        if self.halves is not None:
            time = time - self.halves[1].hidden(queries + tokens, own + part, beside)
        if self.draft is None:
            return time
        later = (self.verified - 2.0) * self.draft.decode(decodes)
        return time + self.draft.mixed(decodes, tokens) + later


def _part_of_step(
    inputs: ServingInputs, layout: PlanColumns, rows: Number, own: Number, *, prompts: bool, compute: bool
) -> StepTime:
    """The compute of a step alone, or its exchange of experts."""
    step = rows_time(inputs, layout, rows, own, prompts=prompts)
    if compute:
        return StepTime(matmul=step.compute)
    return StepTime(ep=np.where(dispatches(inputs, layout), step.ep, 0.0))


def step_table(inputs: ServingInputs, layout: PlanColumns) -> StepTable:
    """The table of some plans."""
    first, which = distinct([getattr(layout, name) for name in cuts_of(layout)])
    cuts, context = layout.at(first), context_of(inputs)

    groups = groups_of(inputs, layout)

    def line(one: Number, two: Number, step: float) -> Line:
        return Line.through(np.broadcast_to(one, len(cuts)), np.broadcast_to(two, len(cuts)), step, which)

    def curves(time: Callable[[ServingInputs, PlanColumns, Number], StepTime]) -> Curves:
        grid = Curves.points(LARGEST)
        spread = cuts.at(np.repeat(np.arange(len(cuts)), len(grid)))
        found = np.broadcast_to(np.asarray(time(inputs, spread, np.tile(grid, len(cuts))).total), len(spread))
        return Curves(found.reshape(len(cuts), len(grid)), which)

    def of_rows(time: Callable[..., StepTime]) -> RowTimes:
        """Rows of one group alone, and what depends on them beside those of all groups."""
        every = curves(lambda inputs, layout, rows: time(inputs, layout, rows, rows))
        own = None if groups is None else curves(lambda inputs, layout, rows: time(inputs, layout, LARGEST, rows))
        return RowTimes(every, own)

    def other_half(*, prompts: bool) -> OtherHalf:
        sent, compute = (of_rows(partial(_part_of_step, prompts=prompts, compute=each)) for each in (False, True))
        return OtherHalf(sent, compute)

    decoding = [decode_time(inputs, cuts, count, context).total for count in (1.0, 2.0)]
    prompts = [prompt_time(inputs, cuts, count).total for count in (PROMPT, 2.0 * PROMPT)]
    host = [host_time(inputs, count).total for count in (1.0, 2.0)]
    head = curves(head_time)
    latent = cuts.shares_context and any(kind.latent is not None for kind in inputs.model.layers)
    shared = curves(context_time) if latent else None
    plain = of_rows(partial(rows_time, prompts=False))
    far = np.any(dispatches(inputs, cuts))
    table = StepTable(
        computed=inputs.load.computed,
        prompted=of_rows(partial(rows_time, prompts=True)) if far else plain,
        head=head,
        drawn=plain.beside(head if shared is None else head + shared),
        decoding=line(decoding[0], decoding[1], 1.0),
        prompts=line(prompts[0], prompts[1], PROMPT),
        host=line(host[0], host[1], 1.0),
        one=0.0,
        verified=inputs.load.verified,
        groups=groups,
        halves=None if halved(inputs, cuts) is None else (other_half(prompts=False), other_half(prompts=True)),
        shared=shared,
        draft=None if inputs.draft is None else step_table(inputs.draft, layout),
    )
    return replace(table, one=table.decode(np.ones(len(layout))))
