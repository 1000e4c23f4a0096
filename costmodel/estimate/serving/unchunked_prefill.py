"""Engines that compute each prompt in one step: the room that whole prompts fill, and those that wait for more room."""

from __future__ import annotations

import numpy as np

from costmodel.equations.serving.first_token import prompt_steps
from costmodel.equations.serving.queues import (
    blocked_wait,
    drain_square,
    drain_time,
    grown_line_variance,
    line_growth,
    wait_percentile,
)
from costmodel.equations.serving.steady_state import (
    blocking_share,
    engine_utilisation,
    longest_prompt,
    mixed_step_time,
    too_long_share,
    variation_in_room,
    whole_prompt_concurrency,
    whole_prompt_room,
)
from costmodel.estimate.serving.serving_inputs import Load
from costmodel.ground.equation import Number, is_any, term
from costmodel.ground.record import record

REMARKED, INVALID = 0.001, 0.01  # shares of prompts that are longer than a step, from which on a plan is so
NEAR = 1.05  # prompts so many times as long that do not fit beside the sequences in flight are near the budget


@record
class BlockingPrompts:
    """Blocking prompts: they fit in a step, but only after enough sequences of the replica end."""

    share: Number = 0.0  # of the prompts of one attention group, over the number of groups
    time: Number = 0.0  # until enough answers have ended, on average
    square: Number = 0.0  # mean square of that time

    @property
    def occur(self) -> bool:
        """Whether any prompt can block."""
        return is_any(self.share)

    def busy_share(self, rate: Number) -> Number:
        """Share of the time in which a blocking prompt waits, at a rate of the replica."""
        with term("waits for answers"):
            return engine_utilisation(rate, self.share * self.time)

    def line(self, line: Number, variance: Number, rate: Number, busy: Number) -> tuple[Number, Number]:
        """Wait in the queue and its variance, both increased by blocking prompts."""
        with term("waits for answers"):
            share = busy + self.busy_share(rate)
            return line_growth(busy, share) * line, grown_line_variance(variance, busy, share)

    def wait(self, rate: Number, busy: Number) -> Number:
        """Mean wait of all requests behind blocking prompts; `busy`: share of time with steps full of prompts."""
        with term("waits for answers"):
            return blocked_wait(rate * self.share, self.square, busy + self.busy_share(rate))

    def percentile(self, wait: Number, rate: Number, busy: Number, tail: float) -> Number:
        """A percentile of the wait behind blocking prompts, from its mean."""
        used = self.busy_share(rate)
        with term("waits for answers"):
            free = np.maximum(1.0 - busy, used)
            chance = used / np.where(free > 0, free, 1.0)
        return wait_percentile(wait, chance, tail)


NO_BLOCKING = BlockingPrompts()


def filled_room(load: Load, room: Number, groups: Number = 1.0, fluctuation: Number = 0.0) -> Number:
    """Prompt tokens that fill a step's room; whole prompts leave some of it empty.

    fluctuation: variance of the room, as requests come and go; it counts as one of the prompts that fill it
    """
    if not load.whole:
        return room
    with term("whole prompts"):
        each = room / groups
        variation = variation_in_room(load.prompt_spread, each, load.computed, fluctuation / groups)
        return groups * whole_prompt_room(each, load.computed, variation)


def whole_prompts_decoded(load: Load, budget: Number, parts: Number) -> Number:
    """Sequences in flight at which every step is full of whole prompts; `budget`: tokens of one of the parts.

    Each micro-batch of a pipeline and each attention group is such a part.
    """
    with term("whole prompts"):
        room, prompt = budget / load.queries, load.computed / load.queries
        return parts * whole_prompt_concurrency(room, prompt, load.steps, load.prompt_spread)


def steps_with_prompt(load: Load, room: Number, busy: Number) -> Number:
    """Steps that a prompt takes; 1 if the engine does not split prompts."""
    return 1.0 if load.whole else prompt_steps(load.computed, room, busy)


def longer_than_a_step(load: Load, budget: Number) -> Number:
    """Share of prompts that exceed the token budget; 0 if the engine splits prompts."""
    return too_long_share(budget, load.computed, load.prompt_spread) if load.whole else 0.0


def near_budget(load: Load, budget: Number, decoded: Number) -> bool:
    """Whether slightly longer prompts would not fit in a step with so many sequences of the same attention group."""
    return load.whole and bool(np.any(NEAR * load.computed + load.queries * decoded > budget))


def least_budget(load: Load) -> Number:
    """Smallest token budget of a step at which few enough prompts are rejected for a valid plan."""
    return longest_prompt(load.computed, load.prompt_spread, INVALID)


def part_of_prompt(load: Load, room: Number) -> Number:
    """Tokens of one prompt in a step."""
    return load.computed if load.whole else np.minimum(load.computed, room)


def blocking_prompts(
    load: Load, budget: Number, decodes: Number, groups: Number, constants: tuple[Number, Number, Number]
) -> BlockingPrompts:
    """The blocking prompts of a replica with this token budget and so many decoded tokens per attention group.

    constants: fixed time of a step, time of a sequence, and sequences of the replica
    """
    if not load.whole or load.prompt_spread == 0:
        return NO_BLOCKING
    alpha, beta, concurrency = constants
    with term("prompts that wait for answers"):
        share = blocking_share(budget, decodes, load.computed, load.prompt_spread) / groups
        step = mixed_step_time(alpha, beta, concurrency / 2.0, 0.0, 0.0)
        time = drain_time(load.steps, load.output_spread, step)
        square = drain_square(load.steps, load.output_spread, step)
    return BlockingPrompts(share, time, square)
