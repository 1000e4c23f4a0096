"""What a step carries, and the part of it that the busiest attention group computes, for which the others wait."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.equations.serving.engine_step import (
    busiest_group_prompts,
    busiest_group_sequences,
    gathering_steps,
    prompts_gathered,
    prompts_of_a_step_with_any,
)
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, is_any, term
from costmodel.ground.record import record


@record
class Batch:
    """Contents of a step: decoding sequences, prompt tokens, and the number of prompts."""

    decodes: Number
    context: Number
    tokens: Number = 0.0
    prompts: Number = 0.0
    verified: float = 1.0  # rows of a sequence that decodes

    @property
    def queries(self) -> Number:
        """Number of query rows of the decoding sequences."""
        return self.decodes if self.verified == 1 else self.verified * self.decodes

    @property
    def prompted(self) -> bool:
        """Whether any of the steps carries prompts."""
        return is_any(self.tokens)

    @property
    def rows(self) -> Number:
        """Number of token rows in the step's matrix products."""
        return self.queries + self.tokens

    @property
    def drawn(self) -> Number:
        """Number of rows that sample a token: one per query and per prompt."""
        return self.queries + self.prompts


def step_budget(layout: PlanColumns) -> Number:
    """Maximum tokens of a step over all attention groups."""
    if not layout.grouped:
        return layout.budget
    with term("budget of all groups"):
        return layout.budget * layout.dp_attention


def whole_budget(layout: PlanColumns) -> PlanColumns:
    """The plans, with the token budget of all attention groups together."""
    return replace(layout, budget=np.asarray(step_budget(layout))) if layout.grouped else layout


def prompt_piece(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Tokens of one prompt in a step (its chunk)."""
    return np.minimum(inputs.load.computed, layout.budget)


@record
class AttentionGroups:
    """The attention groups of plans; each has its own requests."""

    count: Number
    piece: Number  # tokens that a step computes of one prompt
    budget: Number  # tokens of a step of one group
    wait: float | None = None  # steps that prompts wait at most for those of other groups

    def sequences(self, sequences: Number) -> Number:
        """Sequences of a step in the busiest group."""
        return busiest_group_sequences(sequences, self.count)

    def tokens(self, tokens: Number) -> Number:
        """Prompt tokens of a step in the busiest group, in whole chunks."""
        even = tokens / self.count
        with term("pieces of prompts"):
            if self.wait is None:
                busiest = self.piece * busiest_group_prompts(tokens / self.piece, self.count)
            else:
                busiest = np.minimum(self.piece, tokens)
        return np.where(self.count > 1, np.maximum(np.minimum(busiest, self.budget), even), tokens)

    def pieces(self, prompts: Number) -> Number:
        """Number of prompt chunks in a step that has any, from the mean over all steps."""
        if self.wait is None:
            return prompts_of_a_step_with_any(prompts)
        return prompts_gathered(prompts, self.count, self.wait)

    def waited(self, prompts: Number, sequences: Number) -> Number:
        """Number of steps that a prompt waits for prompts of other groups."""
        if self.wait is None:
            return 0.0
        steps = gathering_steps(prompts, self.count, self.wait)
        return np.where((self.count > 1) & (sequences >= self.count), steps, 0.0)


def own_sequences(layout: PlanColumns, sequences: Number) -> Number:
    """Sequences of a step in the busiest attention group."""
    return busiest_group_sequences(sequences, layout.dp_attention) if layout.grouped else sequences


def groups_of(inputs: ServingInputs, layout: PlanColumns) -> AttentionGroups | None:
    """The attention groups of plans; None if no plan has several."""
    if not layout.grouped:
        return None
    return AttentionGroups(layout.dp_attention, prompt_piece(inputs, layout), layout.budget, inputs.engine.prompt_wait)


def busiest_group(inputs: ServingInputs, layout: PlanColumns, batch: Batch) -> Batch:
    """The part of a batch that the busiest attention group computes."""
    groups = groups_of(inputs, layout)
    if groups is None:
        return batch
    with term("busiest group"):
        own = replace(batch, decodes=groups.sequences(batch.decodes))
        if not batch.prompted:
            return own
        tokens = groups.tokens(batch.tokens)
        return replace(own, tokens=tokens, prompts=tokens / inputs.load.computed)
