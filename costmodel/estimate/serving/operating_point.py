"""The three constants of a step at a number of sequences in flight, also where a prompt takes a whole step."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from costmodel.equations.memory.kv_cache import mean_context
from costmodel.equations.run.economics import share
from costmodel.equations.serving.engine_step import pipelined_prompt_share, polling_steps, prompts_of_a_step_with_any
from costmodel.equations.serving.first_token import prompt_room, prompt_steps
from costmodel.equations.serving.queues import (
    blocked_wait,
    drain_square,
    drain_time,
    grown_line_variance,
    line_growth,
    split_gap_variation,
    wait_percentile,
)
from costmodel.equations.serving.steady_state import (
    blocking_share,
    engine_utilisation,
    longest_prompt,
    mixed_step_time,
    request_work,
    step_intercept,
    time_slope,
    too_long_share,
    variation_in_room,
    whole_prompt_concurrency,
    whole_prompt_room,
)
from costmodel.estimate.serving.engine_step import (
    AttentionGroups,
    Batch,
    StepTime,
    busiest_group,
    groups_of,
    host_time,
    launches_of,
    step_budget,
    step_time,
)
from costmodel.estimate.serving.host_loading import NOTHING, HostLoading, host_loading
from costmodel.estimate.serving.plan_columns import PlanColumns, of_each_plan, shared_cuts
from costmodel.estimate.serving.serving_inputs import Load, ServingInputs, arrive_at_random
from costmodel.ground.equation import Number, is_any, known_as, term, tracing
from costmodel.ground.record import record

# --- engines that compute each prompt in one step


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
    """Prompt tokens that fill the room of a step; whole prompts leave some of it empty.

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


# --- the three constants of a step at a given number of sequences in flight, from which the steady state follows


TOGETHER = 4096  # plans, up to which steps with several numbers of prompt tokens are looked up together
FEWEST = 2.0  # sequences of a micro-batch that the slope is taken at, where fewer are in flight


class Steps(Protocol):
    """Step times of one micro-batch, either exact or from a table."""

    @property
    def one(self) -> Number:
        """Step time of a single sequence."""

    def decode(self, decodes: Number) -> Number:
        """Step time of so many sequences."""

    def mixed(self, decodes: Number, tokens: Number) -> Number:
        """Step time of so many sequences with so many prompt tokens."""

    def launched(self, decodes: Number) -> Number:
        """Part of a step of so many sequences in which it waits for launches, as no graph was captured for them."""


@record
class OperatingPoint:
    """Step times of a replica with so many sequences in flight."""

    concurrency: Number
    decode: Number  # time at these sequences, two of a micro-batch at least
    mixed: Number  # the same with tokens of prompts beside them
    rides: Number  # such mixed steps for each prompt: under 1 where several share one
    room: Number  # tokens of prompts that steps which prompts fill hold; of all micro-batches of a pipeline
    alpha: Number
    beta: Number
    gamma: Number  # by which a prompt token delays each user
    whole: Number  # what it takes in all stages
    work: Number
    servers: Number = 1.0  # replicas that share one line of requests
    host: HostLoading = NOTHING  # what requests load from the host
    groups: Number = 1.0  # of attention, each with a part of the room
    gathering: Number = 0.0  # time that a prompt waits for those of other groups
    filling: Number | None = None  # γ where prompts fill steps; left out, the same
    beside: Number | None = None  # γ of a prompt, with those that other groups compute meanwhile; left out, the same
    lone: Number | None = None  # γ of a prompt while other groups have none; left out, the same
    blocking: BlockingPrompts = NO_BLOCKING  # prompts that wait until answers end
    gaps: Number = 1.0  # between arrivals at a line of requests: standard deviation over mean
    launched: Number = 0.0  # part of `decode` in which it waits for launches, as no graph is large enough
    carried: Number = np.nan  # tokens of prompts in a step with any

    @property
    def own_room(self) -> Number:
        """Prompt tokens of one request that fit in a step: those of one attention group."""
        return self.room if isinstance(self.groups, float) else self.room / self.groups

    @property
    def filled(self) -> Number:
        """Time that a prompt token adds to steps full of prompts."""
        return self.gamma if self.filling is None else self.filling

    @property
    def replayed(self) -> tuple[Number, Number]:
        """What a prompt token adds to steps that replay a graph, on average and where prompts fill them.

        It adds less to steps that wait for launches anyway, but then all steps take as long as those with prompts.
        """
        if not is_any(self.launched):
            return self.gamma, self.filled
        with term("launches"):
            return self.gamma + self.launched / self.carried, self.filled + self.launched / self.room

    @property
    def own(self) -> Number:
        """Seconds that each token of a request's own prompt adds to its first token."""
        return self.gamma if self.beside is None else self.beside

    @property
    def alone(self) -> Number:
        """Time that a prompt token adds to a step with no other prompt."""
        return self.gamma if self.lone is None else self.lone

    @property
    def step(self) -> Number:
        """Time of a step without prompts, in a linear model: α + β b."""
        return self.alpha + self.beta * self.concurrency

    @property
    def fastest(self) -> Number:
        """Step time of one sequence, the lower bound of all steps."""
        with term("one sequence"):
            return self.alpha + self.beta

    def gathered(self, ttft: Number, p99: Number) -> tuple[Number, Number]:
        """Time to first token, mean and P99, with the wait for prompts of other attention groups."""
        if not is_any(self.gathering):
            return ttft, p99
        return ttft + self.gathering, p99 + 2.0 * self.gathering


@record
class ExactSteps:
    """Step times computed from the equations."""

    inputs: ServingInputs
    layout: PlanColumns
    of_one: Number | None = None  # time of a step of a single sequence, where it is known
    held: Number | None = None  # tokens that a sequence in flight holds, where they are not of these inputs

    @functools.cached_property
    def one(self) -> Number:
        """Step time of a single sequence."""
        if self.of_one is not None:
            return self.of_one
        with term("one sequence"):
            return self.breakdown(np.ones(len(self.layout))).total

    def breakdown(self, decodes: Number) -> StepTime:
        """A step of so many sequences, by category."""
        return self._time(self._batch(decodes))

    def decode(self, decodes: Number) -> Number:
        """Step time of so many sequences."""
        with term("decode"):
            return self.breakdown(decodes).total

    def mixed(self, decodes: Number, tokens: Number) -> Number:
        """Step time of so many sequences with so many prompt tokens."""
        with term("with prompts"):
            prompts = share(tokens, self.inputs.load.computed)
            batch = replace(self._batch(decodes), tokens=tokens, prompts=prompts)
            return self._time(batch).total

    def launched(self, decodes: Number) -> Number:
        """Part of a step of so many sequences in which it waits for launches, as no graph was captured for them."""
        batch = self._batch(decodes)
        own = busiest_group(self.inputs, self.layout, batch).decodes
        if not launches_of(self.inputs, self.layout).is_beyond_graphs(own):
            return 0.0
        with term("decode"):
            return self._time(batch).host - self.layout.longer(host_time(self.inputs, batch.decodes).total)

    def _time(self, batch: Batch) -> StepTime:
        found = step_time(self.inputs, self._shared, batch)
        return found if self._shared is self.layout else of_each_plan(found)

    @functools.cached_property
    def _shared(self) -> PlanColumns:
        return self.layout if len(self.layout) == 1 else shared_cuts(self.layout)

    def _batch(self, decodes: Number) -> Batch:
        """The batch of a decode step with so many sequences."""
        context = context_of(self.inputs) if self.held is None else self.held
        load = self.inputs.load
        sequences = decodes if load.samples == 1 else load.samples * decodes
        return Batch(sequences, context, verified=load.verified)


def context_of(inputs: ServingInputs) -> Number:
    """Mean context length of a sequence in flight."""
    load = inputs.load
    return mean_context(load.prompt, load.output, load.output_spread)


def micro_batch(layout: PlanColumns, concurrency: Number) -> Number:
    """Sequences of a micro-batch, at least as many as the slope of step times needs."""
    return np.maximum(concurrency / layout.pp, FEWEST)


def step_of(layout: PlanColumns, point: OperatingPoint, steps: Steps, many: Number) -> Number:
    """Step time of so many sequences without prompts; for very few, on the operating point's line."""
    fewer = point.beta * np.minimum(many - FEWEST * layout.pp, 0.0)
    return steps.decode(micro_batch(layout, many)) + fewer


def operating_point(
    inputs: ServingInputs,
    layout: PlanColumns,
    concurrency: Number,
    steps: Steps,
    decode: Number | None = None,
    *,
    line: bool = True,
) -> OperatingPoint:
    """The operating point of replicas with this number of sequences in flight.

    decode: seconds of a step with these sequences and without prompts, if already known
    line: whether the waiting line of prompts is needed, which requires a second time per prompt token in full steps
    """
    load, micro, groups = inputs.load, micro_batch(layout, concurrency), groups_of(inputs, layout)
    decode = steps.decode(micro) if decode is None else decode
    with term("room"):
        decodes, count = load.queries * (concurrency / layout.pp), 1.0 if groups is None else groups.count
        fluctuation = load.queries * decodes if arrive_at_random(inputs) else 0.0  # of a number of arrivals
        each = filled_room(load, prompt_room(step_budget(layout), decodes), count, fluctuation)
        room = layout.pp * each
    with term("carried"):
        carried = np.maximum(np.minimum(_carried(inputs, layout, groups, concurrency), each), 1.0)
    piece = np.minimum(load.computed if groups is None else groups.piece, carried)
    with term("full of prompts"):
        tokens = np.maximum(each, carried)
    mixed, *further = _prompt_steps(steps, micro, carried, *((tokens, piece) if line else ()))
    many = layout.pp * micro
    beta = time_slope(decode, steps.one, many, layout.pp)
    alpha = known_as("alpha", step_intercept(decode, beta, many))
    whole = (mixed - decode) / carried
    gamma = known_as("gamma", of_a_token(inputs, layout, concurrency, carried, whole))
    work = request_work(known_as("beta", beta), load.steps, gamma, load.computed)
    servers = layout.replicas if inputs.case.scenario.assume.routing == "least-loaded" else 1.0
    host = host_loading(inputs, layout, whole)
    with term("steps of a prompt"):
        rides = share(load.computed, carried)
    blocking = NO_BLOCKING
    if load.whole and load.prompt_spread:
        constants = alpha, beta, concurrency
        blocking = blocking_prompts(load, layout.budget, decodes / count, count, constants)
    constant = (concurrency, decode, mixed, rides, room, alpha, beta, gamma, whole, work, servers, host)
    gaps, launched = gaps_of_line(inputs, share(layout.replicas, servers)), steps.launched(micro)
    found = OperatingPoint(*constant, blocking=blocking, gaps=gaps, launched=launched, carried=carried)
    if not line:
        return found
    with term("full of prompts"):
        filling = (further[0] - decode) / tokens
        if layout.staged:
            filling = pipelined_prompt_share(layout.pp, 1.0) * filling
    with term("alone"):
        lone = of_a_token(inputs, layout, concurrency, piece, (further[1] - decode) / piece)
    if groups is not None:
        return _with_attention_groups(inputs, groups, replace(found, filling=filling), lone, (carried, piece))
    waits, beside = found.gathering, lone
    if inputs.engine.poll > 1:
        with term("until a look for requests"):
            waits = polling_steps(inputs.engine.poll) * np.clip(concurrency - 1.0, 0.0, 1.0) * decode
            beside = share(carried, load.computed) * gamma
    return replace(found, filling=filling, beside=beside, lone=lone, gathering=waits)


def gaps_of_line(inputs: ServingInputs, lines: Number) -> Number:
    """Variation of the gaps between arrivals in one of several queues among which requests are split at random."""
    return 1.0 if inputs.gaps == 1 else split_gap_variation(inputs.gaps, lines)


def _prompt_steps(steps: Steps, decodes: Number, carried: Number, *further: Number) -> Sequence[Number]:
    """Times of steps with the prompt tokens of a mean step; and of a full step, and of a piece of one prompt.

    Of few plans all three together take hardly longer than one.
    """
    if further and not tracing() and np.size(carried) <= TOGETHER:
        return list(np.asarray(steps.mixed(decodes, np.stack(np.broadcast_arrays(carried, *further)))))
    times = [steps.mixed(decodes, carried)]
    for label, tokens in zip(("full of prompts", "alone"), further, strict=False):
        with term(label):
            times.append(steps.mixed(decodes, tokens))
    return times


def _with_attention_groups(
    inputs: ServingInputs, groups: AttentionGroups, point: OperatingPoint, lone: Number, tokens: tuple[Number, Number]
) -> OperatingPoint:
    """The operating point with what several attention groups change for prompts; `tokens`: of a step, of a piece."""
    with term("beside those of other groups"):
        beside = np.where(groups.count > 1, share(*tokens) * point.gamma, lone)
    with term("for prompts of other groups"):
        waits = groups.steps_waited(_pieces(inputs, groups, point.concurrency), point.concurrency) * point.decode
    return replace(point, groups=groups.count, beside=beside, lone=lone, gathering=waits)


def _carried(inputs: ServingInputs, layout: PlanColumns, groups: AttentionGroups | None, concurrency: Number) -> Number:
    """Mean number of prompt tokens in a step that has any, for each micro-batch of a pipeline."""
    with term("prompts"):
        prompts = share(concurrency, inputs.load.steps)
        together = np.maximum(prompts, 1.0)
        if inputs.engine.poll > 1 or arrive_at_random(inputs):
            together = prompts_of_a_step_with_any(np.maximum(inputs.engine.poll, 1.0) * prompts)
        whole = together * inputs.load.computed
        if layout.staged:
            own = prompts_of_a_step_with_any(prompts / layout.pp)
            whole = np.where(layout.pp > 1, own * inputs.load.computed, whole)
    if groups is None:
        return whole
    with term("pieces of prompts"):
        together = groups.piece * groups.prompt_chunks(_pieces(inputs, groups, concurrency))
    return np.where(groups.count > 1, together, whole)


def _pieces(inputs: ServingInputs, groups: AttentionGroups, concurrency: Number) -> Number:
    """Mean number of prompt chunks that a step computes."""
    with term("pieces of a step"):
        return share(concurrency, inputs.load.steps) * share(inputs.load.computed, groups.piece)


def of_a_token(
    inputs: ServingInputs, layout: PlanColumns, concurrency: Number, carried: Number, whole: Number
) -> Number:
    """Seconds that each prompt token adds for every user."""
    if not layout.staged:
        return whole
    with term("micro-batches with prompts"):
        tokens = concurrency * inputs.load.computed / inputs.load.steps
        mixed = np.minimum(tokens / layout.pp / carried, 1.0)
    return np.where(layout.pp > 1, pipelined_prompt_share(layout.pp, mixed), 1.0) * whole


# The longest step that a user sees: one that prompts of others fill, as many as the slots hold.


def worst_gap(inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint, steps: Steps, slots: Number) -> Number:
    """Seconds of the longest step, with all its prompts evaluated together.

    slots: requests that a replica holds at most, including the user's own
    """
    micro = micro_batch(layout, point.concurrency)
    with term("full of prompts"):
        others = np.maximum(slots - 1.0, 0.0)
        tokens = np.minimum(most_room(inputs, layout, point) / layout.pp, others * inputs.load.computed)
        each = np.maximum(tokens, 1.0)
        gap = point.step + (steps.mixed(micro, each) - point.decode) * (tokens / each)
    return np.maximum(gap, point.step)


def most_room(inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint) -> Number:
    """Upper bound on prompt tokens in a step; whole prompts of different lengths may fill all the room.

    Of equal prompts, as many as fit when few other requests are in flight, which happens at any load.
    """
    load = inputs.load
    if not load.whole:
        return point.room
    with term("room"):
        if load.prompt_spread == 0:
            return layout.pp * filled_room(load, prompt_room(step_budget(layout), load.queries), point.groups)
        return layout.pp * prompt_room(step_budget(layout), load.queries * (point.concurrency / layout.pp))
