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
    prompt_time,
    rows_time,
)
from costmodel.estimate.serving.expert_step import dispatches, halved
from costmodel.estimate.serving.operating_point import context_of
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.replica_kinds import cuts_of, distinct
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number
from costmodel.ground.record import record
from costmodel.ground.solvers import Curves, Line

LARGEST = 262_144.0  # rows of a step
PROMPT = 1024.0  # tokens at which the proportion of prompt attention is taken


@record
class OtherHalf:
    """Exchange of experts, and the compute of the other half of the batch that it hides behind."""

    sent: Curves
    compute: Curves
    host: float

    def hidden(self, rows: Number, beside: Number) -> Number:
        """The part of a step that hides; `beside` is its attention and head, with the host."""
        return np.minimum(self.sent.at(rows), self.compute.at(rows) + beside - self.host)


@record
class StepTable:
    """Times of steps of each way to cut the model, and the way that each plan has."""

    computed: Number
    prompted: Curves  # rows with prompts among them
    head: Curves
    drawn: Curves  # rows without prompts, each of which draws a token
    decoding: Line
    prompts: Line
    one: Number
    verified: float = 1.0
    draft: StepTable | None = None
    halves: tuple[OtherHalf, OtherHalf] | None = None  # without prompts, and with
    shared: Curves | None = None  # what latent attention exchanges for queries of sequences that decode

    def decode(self, decodes: Number) -> Number:
        """Time of a step of so many sequences."""
        queries = decodes if self.verified == 1 else self.verified * decodes
        time = self.drawn.at(queries) + self.decoding.at(decodes)
        if self.halves is not None:
            beside = self.head.at(queries) + self.decoding.at(decodes)
            time = time - self.halves[0].hidden(queries, beside)
        return time if self.draft is None else time + (self.verified - 1.0) * self.draft.decode(decodes)

    def mixed(self, decodes: Number, tokens: Number) -> Number:
        """The same with so many tokens of prompts beside them."""
        queries = decodes if self.verified == 1 else self.verified * decodes
        drawn = queries + share(tokens, self.computed)
        beside = self.decoding.at(decodes) + self.prompts.at(tokens) + self.head.at(drawn)
        time = self.prompted.at(queries + tokens) + beside
        if self.shared is not None:
            time = time + self.shared.at(queries)
        if self.halves is not None:
            time = time - self.halves[1].hidden(queries + tokens, beside)
        if self.draft is None:
            return time
        later = (self.verified - 2.0) * self.draft.decode(decodes)
        return time + self.draft.mixed(decodes, tokens) + later


def _part_of_step(
    inputs: ServingInputs, layout: PlanColumns, rows: Number, *, prompts: bool, compute: bool
) -> StepTime:
    """The compute of a step alone, or its exchange of experts."""
    step = rows_time(inputs, layout, rows, prompts=prompts)
    if compute:
        return StepTime(matmul=step.compute)
    return StepTime(ep=np.where(dispatches(inputs, layout), step.ep, 0.0))


def step_table(inputs: ServingInputs, layout: PlanColumns) -> StepTable:
    """The table of some plans."""
    first, which = distinct([getattr(layout, name) for name in cuts_of(layout)])
    cuts, context = layout.at(first), context_of(inputs)

    def line(one: Number, two: Number, step: float) -> Line:
        return Line.through(np.broadcast_to(one, len(cuts)), np.broadcast_to(two, len(cuts)), step, which)

    def curves(time: Callable[[ServingInputs, PlanColumns, Number], StepTime]) -> Curves:
        grid = Curves.points(LARGEST)
        spread = cuts.at(np.repeat(np.arange(len(cuts)), len(grid)))
        found = np.broadcast_to(np.asarray(time(inputs, spread, np.tile(grid, len(cuts))).total), len(spread))
        return Curves(found.reshape(len(cuts), len(grid)), which)

    def other_half(*, prompts: bool) -> OtherHalf:
        sent, compute = (curves(partial(_part_of_step, prompts=prompts, compute=each)) for each in (False, True))
        return OtherHalf(sent, compute, inputs.engine.step_host)

    rows = curves(partial(rows_time, prompts=False))
    decoding = [decode_time(inputs, cuts, count, context).total for count in (1.0, 2.0)]
    prompts = [prompt_time(inputs, cuts, count).total for count in (PROMPT, 2.0 * PROMPT)]
    head = curves(head_time)
    latent = cuts.shares_context and any(kind.latent is not None for kind in inputs.model.layers)
    shared = curves(context_time) if latent else None
    table = StepTable(
        computed=inputs.load.computed,
        prompted=curves(partial(rows_time, prompts=True)) if np.any(dispatches(inputs, cuts)) else rows,
        head=head,
        drawn=rows + head if shared is None else rows + head + shared,
        decoding=line(decoding[0], decoding[1], 1.0),
        prompts=line(prompts[0], prompts[1], PROMPT),
        one=0.0,
        verified=inputs.load.verified,
        halves=None if halved(inputs, cuts) is None else (other_half(prompts=False), other_half(prompts=True)),
        shared=shared,
        draft=None if inputs.draft is None else step_table(inputs.draft, layout),
    )
    return replace(table, one=table.decode(np.ones(len(layout))))
