"""Time of generation from an engine's steps: all answers in one batch, or continuously refilled, with the tail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.rl.rl_schema import Environment, Rl, Rollouts
from costmodel.equations.run.economics import share
from costmodel.equations.run.reinforcement_learning import (
    DEVIATIONS,
    SHORTER,
    any_running,
    decoding_time,
    environments_time,
    expected_longest,
    length_at,
    length_variation,
    log_spread,
    mean_square_length,
    rate_with_waits,
    returning_time,
    running_answers,
    stream_left,
    token_weighted_length,
    uneven_share,
)
from costmodel.equations.unequal.stragglers import expected_maximum
from costmodel.estimate.serving.engine_memory import EngineMemoryUse
from costmodel.estimate.serving.engine_step import step_time
from costmodel.estimate.serving.load import Column
from costmodel.estimate.serving.operating_point import ExactSteps, OperatingPoint, operating_point
from costmodel.estimate.serving.plan_columns import SIZES, PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.steady_state import replica_rate
from costmodel.estimate.serving.step_batch import Batch
from costmodel.estimate.shared.assumptions import AssumptionLog
from costmodel.ground.equation import Number, sum_of_rows, term
from costmodel.ground.record import record

# Lengths of answers: mean, spread, longest, and representative sequences.

SPREAD = 0.95  # of reasoning answers, standard deviation over mean: 0.8 of the logarithm


@record
class AnswerLengths:
    """Tokens of a prompt and of answers: the mean as stated, the limit, and mean and mean square after the limit."""

    prompt: float
    written: float
    limit: float
    sigma: Number
    mean: Number
    square: Number

    @property
    def tokens(self) -> Number:
        """Mean tokens of a prompt and its answer."""
        return self.prompt + self.mean

    @property
    def sequence(self) -> Number:
        """Length of a sequence, averaged over tokens instead of sequences."""
        return token_weighted_length(self.prompt, self.mean, self.square)

    @property
    def variation(self) -> Number:
        """Standard deviation of prompt and answer over their mean."""
        return length_variation(self.prompt, self.mean, self.square)

    @property
    def output_variation(self) -> Number:
        """Standard deviation of answers over their mean."""
        return length_variation(0.0, self.mean, self.square)

    @property
    def grid(self) -> Number:
        """Answer lengths at which a generation is evaluated."""
        return length_at(self.written, self.sigma, DEVIATIONS, self.limit)

    def before(self, length: Number) -> Number:
        """Mean tokens of answers that are cut at a length: the tokens that a stream decodes before it."""
        return expected_longest(self.written, self.sigma, 1.0, length)

    def longest(self, answers: Number) -> Number:
        """Expected tokens of the longest of so many answers."""
        return expected_longest(self.written, self.sigma, answers, self.limit)


def answer_lengths(workload: Rl, log: AssumptionLog) -> AnswerLengths:
    """The answer lengths of a workload; the default spread is recorded as an assumption."""
    response = workload.response
    spread = log.choose("workload.response.spread", response.spread, SPREAD, "judged: none is published")
    with term("lengths"):
        sigma = log_spread(spread)
        mean = expected_longest(response.mean, sigma, 1.0, response.limit)
        square = mean_square_length(response.mean, sigma, response.limit)
    return AnswerLengths(workload.prompt, response.mean, response.limit, sigma, mean, square)


_BY_ROUND = ("total", "prompts", "tail", "host", "refilled")
TAIL_BEGINS = 7 / 8  # share of answers that have ended where the tail begins


def first_of(values: Number) -> Number:
    """The first of several rows as a scalar, which keeps its origin in a trace."""
    return np.asanyarray(values).reshape(-1)[:1].reshape(())


@record
class RolloutEngines:
    """The rollout engines of an iteration: answers of each engine, and how many of them run at a time."""

    inputs: ServingInputs
    layout: PlanColumns
    memory: EngineMemoryUse
    answers: float
    together: float
    each_token: float  # seconds of the host
    rounds: float = 1.0  # that wait for their longest answers, until enough prompts are kept


@record
class Generation:
    """Seconds of a generation, of its prompts, its tail and the host; and tokens of the longest answer."""

    total: Number
    prompts: Number
    tail: Number
    host: Number
    longest: Number
    refilled: Number  # what it would take if every answer that ends made room for another


def generation(
    engines: RolloutEngines, lengths: AnswerLengths, how: Rollouts, environment: Environment | None
) -> Generation:
    """Time until all answers of an iteration are generated."""
    steps = ExactSteps(engines.inputs, engines.layout)
    point = operating_point(engines.inputs, engines.layout, np.array([engines.together]), steps)
    stream = _stream_rate(engines, lengths, point, environment)
    refilled = share(engines.answers, stream)
    if how == "batch":
        found = _batch(engines, lengths, point, environment, stream)
    else:
        again = _again(engines, lengths, point, steps) if how == "partial" else 0.0
        found = (refilled + again, again, 0.0)
    total, prompts, tail = (first_of(each) for each in found)
    least = _of_environments(engines, environment)
    longest = lengths.longest(engines.layout.replicas[0] * engines.answers * engines.rounds)
    with term("host"):
        host = returning_time(engines.answers, lengths.mean, engines.each_token)
    once = Generation(np.maximum(total, least), prompts, tail, host, longest, first_of(refilled))
    if engines.rounds == 1:
        return once
    with term("rounds"):
        return replace(once, **{name: engines.rounds * getattr(once, name) for name in _BY_ROUND})


def _batch(
    engines: RolloutEngines,
    lengths: AnswerLengths,
    point: OperatingPoint,
    environment: Environment | None,
    stream: Number,
) -> tuple[Number, Number, Number]:
    """Time of a batch in total, of its prompts and of its tail; answers that do not fit at first run as others end."""
    fits = engines.answers <= engines.together
    grid, prompt = np.asarray(lengths.grid), lengths.prompt
    with term("prompts"):
        load = engines.inputs.load
        prompts = engines.together * (load.computed * point.gamma)
    shorter = SHORTER
    if not fits:
        shorter = np.minimum(share(lengths.before(grid), lengths.mean), 1.0)
    with term("decoding"):
        chance = any_running(engines.layout.replicas * engines.together, shorter)  # all wait for the last engine
        dealt = uneven_share(lengths.output_variation, engines.together, expected_maximum(engines.layout.replicas))
        running = dealt * running_answers(engines.together, shorter)
        before = 0.0 if fits else stream_left(lengths.mean, lengths.square) * lengths.mean
        steps = _steps(engines, running, before + prompt + grid)
        last = _decoded(grid, chance * steps)
        tail = _decoded(grid, chance * np.where(shorter >= TAIL_BEGINS, steps, 0.0))
    if environment is not None:
        last = last + environment.turns * environment.time
    if fits:
        return prompts + last, prompts, tail
    with term("until none is left to begin"):
        left = engines.together * stream_left(lengths.mean, lengths.square)
        ahead = share(np.maximum(engines.answers - left, 0.0), stream)
    return ahead + last, 0.0, tail


def _decoded(lengths: Column, times: Number) -> Number:
    """Time from the first token to the longest length, from the step times at each length."""
    later = np.asanyarray(times)
    stretches = decoding_time(lengths[:-1], lengths[1:], later[:-1], later[1:])
    total: Number = sum_of_rows(stretches) + lengths[:1] * later[:1]
    return total


def _steps(engines: RolloutEngines, running: Number, context: Number) -> Number:
    """Step times with so many running answers at so many tokens of context."""
    rows = np.zeros(len(np.asarray(context)), dtype=np.intp)
    layout = PlanColumns(*(np.asarray(getattr(engines.layout, name))[rows] for name in SIZES))
    with term("host"):
        waiting = returning_time(running, 1.0, engines.each_token)
    return step_time(engines.inputs, layout, Batch(running, context)).total + waiting


def _stream_rate(
    engines: RolloutEngines, lengths: AnswerLengths, point: OperatingPoint, environment: Environment | None
) -> Number:
    """Answers per second of an engine that is always full."""
    with term("refilled"):
        each = share(1.0, replica_rate(engines.inputs, point))
        rate = share(1.0, each + returning_time(1.0, lengths.mean, engines.each_token))
        if environment is None:
            return rate
        return rate_with_waits(rate, engines.together, environment.turns * environment.time)


def _again(engines: RolloutEngines, lengths: AnswerLengths, point: OperatingPoint, steps: ExactSteps) -> Number:
    """Time to prefill all running prompts and partial answers again after new weights arrive, in full steps."""
    with term("read again"):
        held = lengths.prompt + stream_left(lengths.mean, lengths.square) * lengths.mean
        each = share(steps.mixed(np.array([engines.together]), point.room) - point.decode, point.room)
        return engines.together * (held * each)


def _of_environments(engines: RolloutEngines, environment: Environment | None) -> Number:
    """Shortest time in which the environments can answer all calls."""
    if environment is None or environment.parallel is None:
        return 0.0
    with term("environments"):
        answers = engines.answers * engines.layout.replicas[0]
        return environments_time(answers, environment.turns, environment.time, environment.parallel)
