"""Inputs of an iteration as numbers: the trainer's optimizer step, the engines, and the lengths of answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from costmodel.documents.reader.hub_names import filled
from costmodel.documents.reader.rl_scenario import RlCase, answers_load
from costmodel.documents.schemas.base import InTokens
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.rl.rl_schema import RlPlan, RolloutPlan
from costmodel.documents.schemas.serving.serving_schema import ServingPlan
from costmodel.equations.parallelism.counts import data_parallel_degree
from costmodel.equations.run.reinforcement_learning import drawn_prompts, generation_rounds
from costmodel.estimate.evaluate.predict import Answer
from costmodel.estimate.rl.generation import AnswerLengths, RolloutEngines, answer_lengths
from costmodel.estimate.rl.trainer_steps import ClusterPart, HeldStep, Packing, RankSplit, TrainerSteps, rank_split
from costmodel.estimate.serving.constraints import invalid
from costmodel.estimate.serving.engine_memory import memory_use
from costmodel.estimate.serving.engine_placement import filled_with
from costmodel.estimate.serving.engine_step import step_time
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.predict_serving import never_measured
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.estimate.serving.step_batch import Batch
from costmodel.estimate.serving.term_bands import beyond_fits, outside_any_fit, spreads_beyond
from costmodel.estimate.shared.assumptions import WITHOUT_EFFECT, AssumptionLog
from costmodel.estimate.shared.fit_ranges import outside_assumptions
from costmodel.estimate.shared.results import number
from costmodel.ground.equation import untraced
from costmodel.ground.errors import Place, fail
from costmodel.ground.units import Figure, show


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
        """Generated answers over trained answers."""
        if self.engines is None:
            return 1.0
        drawn, rounds = _draws(self.case)
        return drawn * rounds / self.case.scenario.workload.answers

    @property
    def updates(self) -> float:
        """Optimizer steps of an iteration."""
        workload = self.case.scenario.workload
        return workload.epochs * math.ceil(workload.answers / self.mini_batch)

    @property
    def models(self) -> dict[str, bool]:
        """Whether critic, reference and reward model exist beside the policy."""
        workload = self.case.scenario.workload
        critic = workload.algorithm == "ppo"
        return {"critic": critic, "reference": workload.refers, "reward model": workload.judged_by_model}


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
        hint = "add plan: {zero: 3, rollout: {tp: 2}}, or --set plan.rollout.tp=2; costmodel search finds one"
        raise fail("C004", "the scenario has no plan", Place(case.file), hint)
    return plan


def rl_inputs(case: RlCase, plan: RlPlan, steps: TrainerSteps | None = None, *, bands: bool = True) -> RlInputs:
    """The inputs of an iteration under a plan; optimizer steps already in `steps` are reused."""
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
    split = rank_split(case, rollout, generates=workload.generates)
    packing = _packing(case, plan, split.trainer, lengths)
    trainer = steps.time(case, plan, split.trainer, packing, bands=bands)
    fullest = _fullest(case, plan, split, lengths, trainer, steps)
    offload = _offload(case, rollout, split, log)
    engines: RolloutEngines | None = None
    refused: tuple[str, ...] = ()
    if workload.generates:
        engines, refused, assumed = _engines(case, rollout, split, lengths, log)
        log.assumed += [item for item in assumed if not item.path.startswith("workload.")]
    known = {item.path for item in log.assumed}
    further = [item for item in trainer.assumed if item.path not in known and item.value != WITHOUT_EFFECT]
    stated = tuple(_renamed(item) for item in (*log.assumed, *further))
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


def _renamed(item: Assumption) -> Assumption:
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


def _packing(case: RlCase, plan: RlPlan, part: ClusterPart, lengths: AnswerLengths) -> Packing:
    """Equal sequences in place of the answers, with the same tokens and the same attention work."""
    dp = plan.dp or max(1.0, float(data_parallel_degree(part.ranks, plan.tp, plan.cp, plan.pp)))
    each, usual = float(lengths.tokens), float(lengths.sequence)
    stated = plan.micro_batch
    most = max(1.0, math.floor(stated / usual)) if isinstance(stated, InTokens) else float(stated)
    tokens = math.ceil(mini_batch_of(case) / dp) * each
    wanted = tokens / usual
    micro = min(most, max(1.0, float(round(wanted))))
    count = max(1.0, float(math.ceil(wanted / micro)))
    parts = 2.0 * plan.cp * plan.tp  # that a sequence is cut into
    each_sequence = tokens / (micro * count)
    sequence = max(1.0, float(round(each_sequence / parts))) * parts
    all_tokens = math.ceil(case.scenario.workload.answers / dp) * each
    return Packing(sequence, micro, count, all_tokens / (micro * sequence), dp)


def _fullest(
    case: RlCase, plan: RlPlan, split: RankSplit, lengths: AnswerLengths, trainer: Answer, steps: TrainerSteps
) -> HeldStep:
    """The optimizer step for peak memory: its micro-batch has at least the tokens of the longest sequence."""
    longest, block = float(case.scenario.workload.prompt) + float(lengths.limit), trainer.evaluation.block
    plain = trainer.inputs
    if longest <= float(plain.sequence) * number(block.micro_batch):
        return HeldStep(plain, trainer.plan, block, trainer.evaluation.ledger)
    parts = 2.0 * plan.cp * plan.tp
    sequence = math.ceil(longest / parts) * parts
    return steps.memory(case, plan, split.trainer, Packing(sequence, 1.0, 1.0, 1.0, number(block.dp)))


def _engines(
    case: RlCase, rollout: RolloutPlan, split: RankSplit, lengths: AnswerLengths, log: AssumptionLog
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
    longest, drawn, rounds = Figure(workload.prompt + lengths.limit), *_draws(case)
    precision = workload.rollout_precision or workload.precision
    load = answers_load(workload.prompt, Figure(float(repeated)), of_answers, Figure(drawn), longest, precision)
    source = case.parts[1][1] if case.parts else case
    inputs = inputs_of(source.serving_case(own, split.rollout.cluster, split.rollout.node, load, engine))
    columns = (own.tp, 1.0, own.ep, own.dp_attention, 1.0, inputs.budget)
    layout = filled_with(inputs, PlanColumns(*(np.array([float(value)]) for value in columns)))
    refused = tuple(code for code, mask in invalid(inputs, layout) if mask.any())
    with np.errstate(all="ignore"):
        use = memory_use(inputs, layout)
    replicas = float(layout.replicas[0])
    idle = split.rollout.ranks - replicas * number(layout.ranks)
    if idle > 0:
        log.note("idle GPUs of engines", f"{idle:g}", f"{replicas:g} engines of {number(layout.ranks):g} GPUs")
    answers = float(math.ceil(drawn / replicas))
    held = min(number(use.requests_steady), float(rollout.dp_attention) * inputs.sequences)
    ahead = 0.0 if workload.rollouts == "batch" else float(workload.staleness)  # iterations that start before
    together = min(answers * (1 + ahead), max(held, 1.0))
    log.note("answers at a time", show(together, "1"), "of an engine: its cache and its limit")
    if not refused and outside_any_fit(inputs, layout):
        with untraced(), np.errstate(all="ignore"):
            rows = np.array([together])
            step = step_time(inputs, layout, Batch(rows, longest * np.ones(1)))
        terms = {"tpot": number(step.total), "tp_exposed": number(step.tp), "ep_exposed": number(step.ep)}
        log.assumed += outside_assumptions(beyond_fits(inputs, (layout,), terms))
        inputs = replace(inputs, beyond=spreads_beyond(inputs, (layout,), terms)[0])
    log.assumed += [Assumption("stack.rollout", item.value, item.origin) for item in never_measured(inputs)]
    if number(use.pool) <= number(use.one_request):
        refused = (*refused, "R015")
    made = RolloutEngines(inputs, layout, use, answers, together, case.stack.host.token, rounds)
    return made, refused, inputs.assumed


def _draws(case: RlCase) -> tuple[float, float]:
    """Answers that are generated at a time, and how often; a stream draws exactly as many as it needs."""
    workload = case.scenario.workload
    with untraced():
        if workload.rollouts != "batch":
            return number(drawn_prompts(workload.prompts, workload.kept)) * workload.samples, 1.0
        rounds = generation_rounds(workload.prompts, workload.drawn_at_once, workload.kept)
    return workload.drawn_at_once * workload.samples, number(rounds)
