"""Numbers of a scenario of reinforcement learning, and generation by its engines."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from costmodel.documents.reader.hub_names import filled
from costmodel.documents.reader.rl_scenario import RlCase, answers_load
from costmodel.documents.schemas.base import InTokens
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.rl import Environment, Rl, RlPlan, RolloutPlan, Rollouts
from costmodel.documents.schemas.serving import ServingPlan
from costmodel.equations.parallelism.counts import data_parallel_degree
from costmodel.equations.run.economics import share
from costmodel.equations.run.reinforcement_learning import (
    DEVIATIONS,
    SHORTER,
    any_running,
    decoding_time,
    drawn_prompts,
    environments_time,
    expected_longest,
    generation_rounds,
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
from costmodel.equations.unequal import expected_maximum
from costmodel.estimate.rl.trainer_steps import (
    ClusterPart,
    HeldStep,
    Packing,
    RankSplit,
    TrainerSteps,
    models_of,
    own_ranks,
    rank_split,
)
from costmodel.estimate.serving.constraints import invalid
from costmodel.estimate.serving.engine_memory import EngineMemoryUse, memory_use
from costmodel.estimate.serving.engine_step import Batch, step_time
from costmodel.estimate.serving.load import Column
from costmodel.estimate.serving.measured_spreads import spreads_beyond
from costmodel.estimate.serving.operating_point import ExactSteps, OperatingPoint, operating_point
from costmodel.estimate.serving.plan_columns import SIZES, PlanColumns, filled_with
from costmodel.estimate.serving.predict_serving import never_measured
from costmodel.estimate.serving.serving_error_band import beyond_fits, outside_any_fit
from costmodel.estimate.serving.serving_inputs import ServingInputs, inputs_of
from costmodel.estimate.serving.steady_state import replica_rate
from costmodel.estimate.shared.assumptions import WITHOUT_EFFECT, AssumptionLog
from costmodel.estimate.shared.fit_ranges import outside_assumptions
from costmodel.estimate.shared.results import number
from costmodel.estimate.training_answer.predict_training import Answer
from costmodel.ground.equation import Number, sum_of_rows, term, untraced
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record
from costmodel.ground.units import Figure, show

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
    """Answer lengths of a workload [tokens]: as stated, and their mean and mean square when answers are cut at the
    limit; a default spread is recorded as an assumption.
    """
    response = workload.response
    spread = log.choose("workload.response.spread", response.spread, SPREAD, "judged: none is published")
    with term("lengths"):
        sigma = log_spread(spread)
        mean = expected_longest(response.mean, sigma, 1.0, response.limit)
        square = mean_square_length(response.mean, sigma, response.limit)
    return AnswerLengths(workload.prompt, response.mean, response.limit, sigma, mean, square)


_BY_ROUND = ("total", "prompts", "tail", "host", "refilled")
TAIL_BEGINS = 7 / 8  # share of answers that have ended where the tail begins


def alone(values: Number) -> Number:
    """The only value of a one-row column as a scalar that keeps its trace; a longer column is unchanged."""
    found = np.asanyarray(values)
    return found.reshape(()) if found.size == 1 else found


def _beside_lengths(values: Number) -> Number:
    """A column of values, one per plan, shaped to broadcast with answer lengths; a single plan's value unchanged."""
    found = np.asanyarray(values)
    return values if found.size == 1 else found[:, None]


@record
class RolloutEngines:
    """The rollout engines of an iteration: answers of each engine, and how many of them run at a time."""

    inputs: ServingInputs
    layout: PlanColumns
    memory: EngineMemoryUse
    answers: float
    together: Number
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
    point = operating_point(engines.inputs, engines.layout, np.atleast_1d(engines.together), steps)
    stream = _stream_rate(engines, lengths, point, environment)
    refilled = share(engines.answers, stream)
    if how == "batch":
        found = _batch_seconds(engines, lengths, point, environment, stream)
    else:
        again = _again(engines, lengths, point, steps) if how == "partial" else 0.0
        found = (refilled + again, again, 0.0)
    total, prompts, tail = (alone(each) for each in found)
    least = _environment_seconds(engines, environment)
    longest = lengths.longest(engines.layout.replicas[0] * engines.answers * engines.rounds)
    with term("host"):
        host = returning_time(engines.answers, lengths.mean, engines.each_token)
    once = Generation(np.maximum(total, least), prompts, tail, host, longest, alone(refilled))
    if engines.rounds == 1:
        return once
    with term("rounds"):
        return replace(once, **{name: engines.rounds * getattr(once, name) for name in _BY_ROUND})


def _batch_seconds(
    engines: RolloutEngines,
    lengths: AnswerLengths,
    point: OperatingPoint,
    environment: Environment | None,
    stream: Number,
) -> tuple[Number, Number, Number]:
    """Seconds of generating one batch of answers: in total, for its prompts, and for its long tail."""
    fits = np.asarray(engines.answers <= engines.together)
    found = [
        _batch_where(engines, lengths, point, environment, stream, fits=fit) for fit in sorted({*map(bool, fits.flat)})
    ]
    if len(found) == 1:
        return found[0]
    total, prompts, tail = (np.where(fits, *column) for column in zip(*reversed(found), strict=True))
    return total, prompts, tail


def _batch_where(
    engines: RolloutEngines,
    lengths: AnswerLengths,
    point: OperatingPoint,
    environment: Environment | None,
    stream: Number,
    *,
    fits: bool,
) -> tuple[Number, Number, Number]:
    """Seconds of generating a batch whose answers all fit at first (`fits`), or of which some start later."""
    grid, prompt = np.asarray(lengths.grid), lengths.prompt
    with term("prompts"):
        load = engines.inputs.load
        prompts = engines.together * (load.computed * point.gamma)
    shorter = SHORTER
    if not fits:
        shorter = np.minimum(share(lengths.before(grid), lengths.mean), 1.0)
    with term("decoding"):
        together, replicas = _beside_lengths(engines.together), _beside_lengths(engines.layout.replicas)
        chance = any_running(replicas * together, shorter)  # all wait for the last engine
        dealt = uneven_share(lengths.output_variation, together, expected_maximum(replicas))
        running = dealt * running_answers(together, shorter)
        before = 0.0 if fits else stream_left(lengths.mean, lengths.square) * lengths.mean
        steps = _step_seconds(engines, running, before + prompt + grid)
        last = _decode_seconds(grid, chance * steps)
        tail = _decode_seconds(grid, chance * np.where(shorter >= TAIL_BEGINS, steps, 0.0))
    if environment is not None:
        last = last + environment.turns * environment.time
    if fits:
        return prompts + last, prompts, tail
    with term("until none is left to begin"):
        left = engines.together * stream_left(lengths.mean, lengths.square)
        ahead = share(np.maximum(engines.answers - left, 0.0), stream)
    return ahead + last, 0.0, tail


def _decode_seconds(lengths: Column, times: Number) -> Number:
    """Seconds from the first token to the longest answer, from the step time at each length."""
    later = np.asanyarray(times)
    stretches = decoding_time(lengths[:-1], lengths[1:], later[..., :-1], later[..., 1:])
    first = np.asanyarray(lengths[:1] * later[..., :1])
    total: Number = sum_of_rows(stretches) + (first if first.ndim == 1 else first[:, 0])
    return total


def _step_seconds(engines: RolloutEngines, running: Number, context: Number) -> Number:
    """Step time [s] of an engine for each number of running answers at this context length."""
    if len(engines.layout) > 1:  # the rows of a step are plans, so that lengths are in an axis before them
        with term("host"):
            waiting = returning_time(running, 1.0, _beside_lengths(engines.each_token))
        batch = Batch(
            np.asarray(running).T, np.asarray(context).T if np.ndim(context) > 1 else np.asarray(context)[:, None]
        )
        times = np.asarray(step_time(engines.inputs, engines.layout, batch).total)
        return np.ascontiguousarray(times.T) + waiting
    with term("host"):
        waiting = returning_time(running, 1.0, engines.each_token)
    rows = np.zeros(len(np.asarray(context)), dtype=np.intp)
    layout = PlanColumns(*(np.asarray(getattr(engines.layout, name))[rows] for name in SIZES))
    return step_time(engines.inputs, layout, Batch(running, context)).total + waiting


def _stream_rate(
    engines: RolloutEngines, lengths: AnswerLengths, point: OperatingPoint, environment: Environment | None
) -> Number:
    """Answers per second of an engine that is always full."""
    with term("refilled"):
        time = share(1.0, replica_rate(engines.inputs, point))
        rate = share(1.0, time + returning_time(1.0, lengths.mean, engines.each_token))
        if environment is None:
            return rate
        return rate_with_waits(rate, engines.together, environment.turns * environment.time)


def _again(engines: RolloutEngines, lengths: AnswerLengths, point: OperatingPoint, steps: ExactSteps) -> Number:
    """Seconds to prefill all running prompts and partial answers again after new weights arrive."""
    with term("read again"):
        held = lengths.prompt + stream_left(lengths.mean, lengths.square) * lengths.mean
        each = share(steps.mixed(np.atleast_1d(engines.together), point.room) - point.decode, point.room)
        return engines.together * (held * each)


def _environment_seconds(engines: RolloutEngines, environment: Environment | None) -> Number:
    """Shortest time in which the environments can answer all calls."""
    if environment is None or environment.parallel is None:
        return 0.0
    with term("environments"):
        answers = engines.answers * engines.layout.replicas[0]
        return environments_time(answers, environment.turns, environment.time, environment.parallel)


@dataclass(frozen=True, eq=False)
class RlInputs:
    """All inputs of an iteration."""

    case: RlCase
    plan: RlPlan
    lengths: AnswerLengths
    split: RankSplit
    packing: Packing
    trainer: Answer
    fullest: HeldStep  # the same step with the micro-batch that holds the longest answer
    engines: RolloutEngines | None
    engine_refused: tuple[str, ...]
    offload: bool
    scored_by_trainer: bool
    assumed: tuple[Assumption, ...]

    @property
    def mini_batch(self) -> float:
        """Answers of an optimizer step."""
        return mini_batch_of(self.case)

    @property
    def answers_of_rank(self) -> float:
        """Answers of an optimizer step on the most loaded rank."""
        return math.ceil(self.mini_batch / self.packing.dp)

    @property
    def drawn(self) -> float:
        """Ratio of generated answers to answers that are trained on."""
        if self.engines is None:
            return 1.0
        drawn, rounds = _drawn_answers(self.case)
        return drawn * rounds / self.case.scenario.workload.answers

    @property
    def updates(self) -> float:
        """Optimizer steps of an iteration."""
        workload = self.case.scenario.workload
        return workload.epochs * math.ceil(workload.answers / self.mini_batch)

    @property
    def models(self) -> dict[str, bool]:
        """Whether critic, reference and reward model exist beside the policy."""
        return models_of(self.case)

    @property
    def on_host(self) -> tuple[str, ...]:
        """Names of models whose weights stay on the host except during their pass."""
        moves = self.case.stack.sharing.reference_on_host and self.models["reference"]
        return ("reference",) if moves and "reference" not in self.apart else ()

    @property
    def apart(self) -> dict[str, float]:
        """Number of accelerators of each model that has its own."""
        return own_ranks(self.case, self.plan)


def mini_batch_of(case: RlCase) -> float:
    """Answers of an optimizer step."""
    workload = case.scenario.workload
    return workload.answers if workload.mini_batch is None else float(workload.mini_batch)


DRAWN_AT_MOST = 3.0  # prompts over those that are kept: 1,536 for 512, as verl's recipe of DAPO draws them at once


def unknown_draws(case: RlCase) -> float:
    """Factor by which DAPO may draw more prompts than predicted, if the share that it drops is not stated."""
    workload = case.scenario.workload
    if workload.algorithm != "dapo" or workload.filtered is not None:
        return 1.0
    return max(1.0, DRAWN_AT_MOST * workload.prompts / workload.drawn_at_once)


def own_plan(case: RlCase) -> RlPlan:
    """The scenario's plan; an error if it has none."""
    plan = case.scenario.plan
    if plan is None:
        hint = "costmodel search SCENARIO finds one; or add plan: {zero: 3, rollout: {tp: 2}}, --set plan.rollout.tp=2"
        raise fail("C004", "the scenario has no plan", Place(case.file), hint)
    return plan


def rl_inputs(
    case: RlCase, plan: RlPlan, steps: TrainerSteps | None = None, *, bands: bool = True, rows: int = 1
) -> RlInputs:
    """The inputs of an iteration under a plan; optimizer steps already in `steps` are reused.

    rows: how many, where documents of the case have columns with a number for each
    """
    steps = steps or TrainerSteps()
    log, workload, rollout = AssumptionLog(), case.scenario.workload, plan.rollout
    lengths = answer_lengths(workload, log)
    for name in ("reference", "reward") if workload.generates else ():
        if getattr(workload, name) is None:
            value = workload.refers if name == "reference" else "model" if workload.judged_by_model else "rule"
            log.note(f"workload.{name}", str(value).lower(), f"usual for {workload.algorithm}")
    if unknown_draws(case) > 1:
        log.note("workload.filtered", "not stated", "no prompt is drawn again; wider band upwards")
    scored = _scored_by_trainer(case, log)
    split = rank_split(case, plan, generates=workload.generates)
    packing = _equal_sequences(case, plan, split.trainer, lengths)
    trainer = steps.time(case, plan, split.trainer, packing, bands=bands, rows=rows)
    fullest = _largest_step(case, plan, split, lengths, trainer, steps)
    offload = _offload(case, rollout, split, log)
    engines: RolloutEngines | None = None
    refused: tuple[str, ...] = ()
    if workload.generates:
        engines, refused, assumed = _rollout_engines(case, rollout, split, lengths, log, rows)
        log.assumed += [item for item in assumed if not item.path.startswith("workload.")]
    known = {item.path for item in log.assumed}
    further = [item for item in trainer.assumed if item.path not in known and item.value != WITHOUT_EFFECT]
    stated = tuple(_with_full_path(item) for item in (*log.assumed, *further))
    parts = (split, packing, trainer, fullest, engines, tuple(refused))
    return RlInputs(case, plan, lengths, *parts, offload, scored, stated)


def _scored_by_trainer(case: RlCase, log: AssumptionLog) -> bool:
    """Whether the trainer computes log-probabilities of all answers before it updates."""
    workload = case.scenario.workload
    if not workload.generates:
        return False
    if workload.old_log_probabilities is not None:
        return workload.old_log_probabilities == "trainer"
    trains = workload.rollouts in case.stack.scored_by_trainer
    log.note("workload.old_log_probabilities", "trainer" if trains else "engine", f"stacks/{case.stack.name}")
    return trains


def _with_full_path(item: Assumption) -> Assumption:
    """An assumption about the trainer or the engines, with its path in the whole scenario."""
    if item.path in ("stack.budget", "stack.sequences"):
        return Assumption(item.path.replace("stack.", "stack.rollout."), item.value, item.origin)
    return item


def _offload(case: RlCase, rollout: RolloutPlan, split: RankSplit, log: AssumptionLog) -> bool:
    """Whether training states are offloaded to the host during generation."""
    if not split.colocated or not case.scenario.workload.generates:
        return False
    if rollout.offload is not None:
        return rollout.offload
    away = case.stack.sharing.offload
    log.note("plan.rollout.offload", str(away).lower(), f"stacks/{case.stack.name}")
    return away


def _equal_sequences(case: RlCase, plan: RlPlan, part: ClusterPart, lengths: AnswerLengths) -> Packing:
    """Equal sequences in place of the answers, with the same tokens and attention work; padded if the software pads."""
    dp = plan.dp or max(1.0, float(data_parallel_degree(part.ranks, plan.tp, plan.cp, plan.pp)))
    each, usual = float(lengths.tokens), float(lengths.sequence)
    stated = plan.micro_batch
    most = max(1.0, math.floor(stated / usual)) if isinstance(stated, InTokens) else float(stated)
    if case.stack.sharing.padded:
        with untraced():
            each = usual = lengths.prompt + number(lengths.longest(most))
    tokens = math.ceil(mini_batch_of(case) / dp) * each
    wanted = tokens / usual
    micro = min(most, max(1.0, float(round(wanted))))
    count = max(1.0, float(math.ceil(wanted / micro)))
    parts = 2.0 * plan.cp * plan.tp  # that a sequence is cut into
    each_sequence = tokens / (micro * count)
    sequence = max(1.0, float(round(each_sequence / parts))) * parts
    all_tokens = math.ceil(case.scenario.workload.answers / dp) * each
    return Packing(sequence, micro, count, all_tokens / (micro * sequence), dp)


def _largest_step(
    case: RlCase, plan: RlPlan, split: RankSplit, lengths: AnswerLengths, trainer: Answer, steps: TrainerSteps
) -> HeldStep:
    """The optimizer step with the highest memory: a micro-batch with at least the tokens of the longest sequence."""
    longest, block = float(case.scenario.workload.prompt) + float(lengths.limit), trainer.evaluation.block
    plain = trainer.inputs
    if longest <= float(plain.sequence) * number(block.micro_batch):
        return HeldStep(plain, trainer.plan, block, trainer.evaluation.ledger)
    parts = 2.0 * plan.cp * plan.tp
    sequence = math.ceil(longest / parts) * parts
    return steps.memory(case, plan, split.trainer, Packing(sequence, 1.0, 1.0, 1.0, number(block.dp)))


def _rollout_engines(
    case: RlCase, rollout: RolloutPlan, split: RankSplit, lengths: AnswerLengths, log: AssumptionLog, rows: int
) -> tuple[RolloutEngines, tuple[str, ...], tuple[Assumption, ...]]:
    """The engines, the reasons why their layout is invalid, and the assumptions about them."""
    workload, engine = case.scenario.workload, case.rollout
    if split.colocated or rollout.memory is not None:
        memory, origin = case.stack.sharing.memory, f"stacks/{case.stack.name}"
        claimed = log.choose("plan.rollout.memory", rollout.memory, memory, origin)
        engine = engine.model_copy(update={"memory": engine.memory.model_copy(update={"share": claimed})})
    sizes = {"tp": rollout.tp, "pp": 1.0, "ep": rollout.ep, "dp_attention": rollout.dp_attention}
    own = filled(ServingPlan, **sizes)
    repeated = math.floor(workload.prompt * (1 - 1 / workload.samples)) if engine.prefix_cache else 0.0
    of_answers = float(lengths.mean), float(lengths.output_variation)
    longest, drawn, rounds = Figure(workload.prompt + lengths.limit), *_drawn_answers(case)
    precision = workload.rollout_precision or workload.precision
    load = answers_load(workload.prompt, Figure(float(repeated)), of_answers, Figure(drawn), longest, precision)
    source = case.parts[1][1] if case.parts else case
    inputs = inputs_of(source.serving_case(own, split.rollout.cluster, split.rollout.node, load, engine))
    columns = (own.tp, 1.0, own.ep, own.dp_attention, 1.0, inputs.budget)
    layout = filled_with(inputs, PlanColumns(*(np.full(rows, float(value)) for value in columns)))
    if rows > 1:
        layout = replace(layout, variant=np.arange(rows, dtype=np.float64))
    refused = tuple(code for code, mask in invalid(inputs, layout) if mask.any())
    with np.errstate(all="ignore"):
        use = memory_use(inputs, layout)
    replicas = float(layout.replicas[0])
    idle = split.rollout.ranks - replicas * number(layout.ranks)
    if idle > 0:
        log.note("idle GPUs of engines", f"{idle:g}", f"{replicas:g} engines of {number(layout.ranks):g} GPUs")
    answers = float(math.ceil(drawn / replicas))
    ahead = 0.0 if workload.rollouts == "batch" else float(workload.staleness)  # iterations that start before
    most = float(rollout.dp_attention) * inputs.sequences
    steady = np.broadcast_to(np.asarray(use.requests_steady, dtype=np.float64), (rows,))
    together: Number = np.minimum(answers * (1 + ahead), np.maximum(np.minimum(steady, most), 1.0))
    if rows > 1:
        return RolloutEngines(inputs, layout, use, answers, together, case.stack.host.token, rounds), (), ()
    together = number(together)
    log.note("answers at a time", show(together, "1"), "of an engine: its cache and its limit")
    if not refused and outside_any_fit(inputs, layout):
        with untraced(), np.errstate(all="ignore"):
            step = step_time(inputs, layout, Batch(np.array([together]), longest * np.ones(1)))
        terms = {"tpot": number(step.total), "tp_exposed": number(step.tp), "ep_exposed": number(step.ep)}
        terms["ttft"] = np.nan  # rollouts do not stream
        log.assumed += outside_assumptions(beyond_fits(inputs, (layout,), terms))
        inputs = replace(inputs, beyond=number(spreads_beyond(inputs, (layout,), terms.__getitem__)[0]))
    log.assumed += [Assumption("stack.rollout", item.value, item.origin) for item in never_measured(inputs)]
    if number(use.pool) <= number(use.one_request):
        refused = (*refused, "R015")
    rollout_engines = RolloutEngines(inputs, layout, use, answers, together, case.stack.host.token, rounds)
    return rollout_engines, refused, inputs.assumed


def _drawn_answers(case: RlCase) -> tuple[float, float]:
    """Answers that are generated at a time, and how many times; a stream draws exactly as many as it needs."""
    workload = case.scenario.workload
    with untraced():
        if workload.rollouts != "batch":
            return number(drawn_prompts(workload.prompts, workload.kept)) * workload.samples, 1.0
        rounds = generation_rounds(workload.prompts, workload.drawn_at_once, workload.kept)
    return workload.drawn_at_once * workload.samples, number(rounds)
