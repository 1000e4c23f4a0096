"""An iteration of reinforcement learning: its phases, their forward passes and memory, and the transfer of weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.rl import TRAINER
from costmodel.equations.memory.offload import link_time
from costmodel.equations.memory.states import weight_bytes
from costmodel.equations.run.economics import share
from costmodel.equations.run.reinforcement_learning import experience_bytes, forward_passes_time, uneven_share
from costmodel.equations.run.uncertainty import term_error
from costmodel.equations.unequal import expected_maximum
from costmodel.estimate.machine.process_groups import groups, interface_rate
from costmodel.estimate.model.shards import model_parameters
from costmodel.estimate.rl.rl_inputs import Generation, RlInputs, RolloutEngines, alone, generation
from costmodel.estimate.rl.trainer_steps import HeldStep
from costmodel.estimate.serving.engine_memory import weight_memory
from costmodel.estimate.shared.plan_batch import Block, ForwardBackward, PerStage, TimeByCategory, largest
from costmodel.estimate.shared.results import at_row, number
from costmodel.estimate.training.memory_breakdown import LINES, memory_spread
from costmodel.estimate.training.parallelism.data import data_traffic, largest_rank
from costmodel.estimate.training.parallelism.pipeline import Rank, stage_layers
from costmodel.estimate.training.stage_parameters import stage_parameters, trained_parameters
from costmodel.estimate.training.stage_time import stages
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.errors import fail
from costmodel.ground.record import record

# --- forward passes alone, as log-probabilities, values and rewards need them


def forward_time(inputs: TrainingInputs, block: Block, micro_batches: Number) -> Number:
    """Time of the given number of micro-batches through the model, without backward and update."""
    layers = stage_layers(inputs.model, block)
    parameters = stage_parameters(inputs, block, layers)
    own, work = trained_parameters(inputs, block, layers, parameters), stages(inputs, block, layers)
    data = data_traffic(inputs, block, groups(inputs, block), parameters, own, work, micro_batches)
    shown = ForwardBackward(TimeByCategory(dp=data.layer_forward), TimeByCategory())
    none, both, only = ForwardBackward(TimeByCategory(), TimeByCategory()), work.embedding + work.head, block.pp == 1
    held = zip((layers.first, layers.middle, layers.last), work.each, (work.embedding, none, work.head), strict=True)
    ranks = PerStage(*(Rank(count, each + shown, ends, both, only) for count, each, ends in held))
    with term("forward passes"):
        slowest = largest(*(rank.forward for rank in ranks))
        return forward_passes_time(slowest, micro_batches, block.pp)


def frozen_copy(inputs: TrainingInputs, block: Block) -> Number:
    """Bytes of a frozen model that only runs forward, in 16 bits and sharded like the trained model."""
    layers = stage_layers(inputs.model, block)
    most = largest_rank(inputs, block, stage_parameters(inputs, block, layers))
    zero, width = block.structure.zero, inputs.stack.states.compute
    with term("frozen copy"):
        parameters = most.held + most.routed
        return weight_bytes(parameters, width, width, block.shards, zero=zero, sharded_master=False)


# --- an iteration of reinforcement learning: its phases, their memory, and the transfer of weights


STAY = ("weights", "optimizer")  # of a trained model, between its passes
FURTHER = ("critic states", "reference", "reward model")  # of models beside the policy
LATE = ("gradients", "gathered", "buckets", "context", "activations", "recompute", "logits", "update", "fragmentation")


@record
class MemoryPart:
    """One line of the memory breakdown: bytes during generation, and during the update."""

    name: str
    generating: float
    updating: float


@record
class RlMemory:
    """The memory breakdown by phase, and the usable memory of trainer and engine."""

    parts: tuple[MemoryPart, ...]
    trainer_usable: float
    engine_usable: float
    colocated: bool
    beside: float = 0.0  # bytes of a model that has its own accelerators, on the fullest of them
    spread: float = 0.0  # of what an update takes, relative: engines claim a stated share

    @property
    def moved(self) -> float:
        """Bytes of training states that may be offloaded during generation."""
        return sum(part.updating for part in self.parts if part.name in MOVED)

    @property
    def generating(self) -> float:
        """Bytes on an accelerator during generation."""
        return sum(part.generating for part in self.parts)

    @property
    def updating(self) -> float:
        """Bytes on an accelerator during the update of the policy, or of another model if that needs more."""
        return max(self.beside, sum(part.updating for part in self.parts))

    @property
    def generates_fuller(self) -> bool:
        """Whether generation fills a larger share of its accelerators' memory than the update."""
        return self.generating * self.trainer_usable > self.updating * self.engine_usable

    @property
    def peak(self) -> float:
        """Bytes of the phase with the larger memory share."""
        return self.generating if self.generates_fuller else self.updating

    @property
    def usable(self) -> float:
        """Usable bytes of an accelerator in the phase with the larger memory share."""
        return self.engine_usable if self.generates_fuller else self.trainer_usable


def rl_memory(
    trainer: HeldStep,
    engines: RolloutEngines | None,
    models: dict[str, bool],
    *,
    apart: Mapping[str, float],
    offload: bool,
    sleeps: bool,
    colocated: bool,
    row: int = 0,
) -> RlMemory:
    """The memory breakdown for one row of the trainer's and the engines' plans.

    models: which of critic, reference and reward model share the trainer's accelerators
    apart: accelerators of the models that do not share them
    """
    stays = colocated and engines is not None  # states of training beside the engine
    parts = [*_trained(trainer, models, row, kept=stays and not offload, beside=stays)]
    if engines is not None:
        use = engines.memory
        step = at_row(use.activations, row)
        if stays and engines.inputs.engine.memory.definition == "share-of-free-before":
            step = max(step - sum(part.generating for part in parts), 0.0)  # what a share leaves, the trainer may hold
        held = (("engine weights", use.weights), ("engine step", step), ("cache", use.pool))
        for name, column in held:
            nbytes = at_row(column, row)
            nbytes = max(nbytes, 0.0) if name == "cache" else nbytes
            parts.append(MemoryPart(name, nbytes, 0.0 if sleeps or not colocated else nbytes))
        runtime = at_row(use.runtime, row)
        parts.append(MemoryPart("engine runtime", runtime, runtime if colocated else 0.0))
    mine = at_row(trainer.inputs.usable_memory, row)
    theirs = mine if engines is None else at_row(engines.inputs.usable_memory, row)
    fullest = max((_apart_bytes(trainer, name, ranks, row) for name, ranks in apart.items()), default=0.0)
    return RlMemory(tuple(parts), mine, theirs, colocated, fullest)


def update_spread(trainer: HeldStep, models: dict[str, bool], updating: float) -> float:
    """Relative spread of an update's memory: the trainer's spread, with the states of further models."""
    stage = _fullest_stage(trainer, 0)
    lines = {name: number(trainer.ledger.line(name, stage)) for name in LINES}
    lines["weights"] += sum(part.updating for part in _trained(trainer, models, 0, kept=False, beside=False)
                            if part.name in FURTHER)  # fmt: skip
    total = sum(lines.values())
    error = term_error(memory_spread(trainer.inputs, total, lines, LINES), total)
    return number(share(error, max(updating, 1.0)))


def _apart_bytes(trainer: HeldStep, model: str, ranks: float, row: int) -> float:
    """Bytes on each accelerator of a model that has its own: states in shards as of the policy, and a pass."""
    ledger, stage = trainer.ledger, _fullest_stage(trainer, row)
    line = {name: at_row(ledger.line(name, stage), row) for name in (*STAY, *LATE, "runtime")}
    frozen = at_row(frozen_copy(trainer.inputs, trainer.block), row)
    states = sum(line[name] for name in (*STAY, "gradients")) if model == "critic" else frozen
    passing = sum(line.values()) - sum(line[name] for name in (*STAY, "gradients"))
    with term("states on their own accelerators"):
        mine = trainer.inputs.nodes * trainer.inputs.case.node.accelerators
        return number(share(states * mine, ranks)) + passing


def _fullest_stage(trainer: HeldStep, row: int) -> int:
    """Index of the trainer's pipeline stage with the highest memory."""
    return max(range(3), key=lambda position: at_row(trainer.ledger.peaks[position], row))


def _trained(trainer: HeldStep, models: dict[str, bool], row: int, *, kept: bool, beside: bool) -> list[MemoryPart]:
    """Memory lines of policy, critic and frozen models on the trainer's pipeline stage with the highest memory."""
    ledger, block = trainer.ledger, trainer.block
    stage = _fullest_stage(trainer, row)
    line = {name: at_row(ledger.line(name, stage), row) for name in (*STAY, *LATE, "runtime")}
    states = sum(line[name] for name in STAY)
    parts = [MemoryPart(f"policy {name}", line[name] if kept else 0.0, line[name]) for name in STAY]
    parts.append(MemoryPart("policy gradients", 0.0, line["gradients"]))
    passing = sum(line[name] for name in LATE) - line["gradients"]
    parts.append(MemoryPart("activations and buffers", 0.0, passing))
    if models["critic"]:
        parts.append(MemoryPart("critic states", states if kept else 0.0, states))
    frozen = at_row(frozen_copy(trainer.inputs, block), row)
    for name in ("reference", "reward model"):
        if models[name]:
            parts.append(MemoryPart(name, frozen if kept else 0.0, frozen))
    parts.append(MemoryPart("training runtime", line["runtime"] if beside else 0.0, line["runtime"]))
    return parts


TOKEN_BYTES = 8.0  # of experience: a token's number and its log-probability, four bytes each


@record
class WeightTransfer:
    """Transfer of all weights: bytes, rate, the limiting link or software, time; and bytes of returned answers."""

    nbytes: Number
    rate: Number
    layout: str
    link: str
    time: Number
    experience: Number


def weight_sync(inputs: RlInputs) -> WeightTransfer:
    """Transfer of the weights from the trainer to the engines; the time does not depend on their number."""
    plan, case = inputs.plan, inputs.case
    layout = "sharded" if max(plan.tp, plan.pp, plan.ep) > 1 else "whole"
    sync, away = case.stack.sync, not inputs.split.colocated and layout == "sharded"
    own = sync.apart if away and sync.apart is not None else getattr(sync, layout)
    workload = case.scenario.workload
    with term("weights"):
        nbytes = _sent_bytes(inputs)
        link, name = _slowest_link(inputs)
        rate = np.minimum(own, link)
        time = link_time(nbytes, rate, 1.0)
    sent = experience_bytes(workload.answers, inputs.lengths.tokens, TOKEN_BYTES)
    return WeightTransfer(nbytes, rate, layout, name if np.all(link < own) else f"stacks/{case.stack.name}", time, sent)


def _sent_bytes(inputs: RlInputs) -> Number:
    """Bytes of all weights as the trainer sends them: in its own type, or in the engines' if it converts first."""
    workload, engines = inputs.case.scenario.workload, inputs.engines
    narrower = workload.rollout_precision not in (None, workload.precision)
    if engines is None or not (inputs.case.stack.sync.converted and narrower):
        return model_parameters(inputs.case.model) * inputs.trainer.inputs.stack.states.compute
    whole = dict.fromkeys(("tp", "pp", "ep", "dp_attention"), np.ones(len(engines.layout)))
    layers, ends = weight_memory(engines.inputs, replace(engines.layout, **whole))
    return alone(layers + ends)


def _slowest_link(inputs: RlInputs) -> tuple[Number, str]:
    """Rate [B/s] at which a node, or an accelerator of a single node, receives weights; and the name of that link."""
    part, serving = inputs.split.rollout, inputs.engines
    alone = float(inputs.case.cluster.nodes) == 1
    if alone or serving is None:
        return inputs.case.scale_up.bandwidth, inputs.case.scale_up.name
    with term("node"):
        each = part.node.accelerators * interface_rate(serving.inputs.case, serving.inputs.network_share)
        if not inputs.case.parts:
            return each, inputs.case.scale_out.name
        own, between = inputs.trainer.inputs, inputs.case.cluster.between
        sent = own.case.node.accelerators * interface_rate(own.case, own.network_share)
        if between is not None:
            nics = min(own.case.node.scale_out.nics, part.node.scale_out.nics)
            sent = np.minimum(sent, nics * (own.network_share * between))
        slower = serving.inputs.case if bool(np.all(each <= sent)) else own.case
        return np.minimum(each, sent), slower.scale_out.name


NONE = Generation(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@record
class Iteration:
    """Seconds of each phase, the seconds hidden by overlap, and the total."""

    phases: Mapping[str, Number]
    hidden: Number
    total: Number
    generated: Generation
    sync: WeightTransfer | None
    beside: Number = 0.0  # seconds of the hidden ones in which models on their own accelerators work

    @property
    def training(self) -> Number:
        """Seconds of all passes of the trainer, and of other models where they take longer."""
        return _total(self.phases[name] for name in TRAINER if name in self.phases) - self.beside

    @property
    def plain(self) -> Iteration:
        """The iteration with plain numbers instead of arrays."""
        made = self.generated
        times = (made.total, made.prompts, made.tail, made.host, made.longest, made.refilled)
        parts = (number(time) for time in times)
        phases = {name: number(value) for name, value in self.phases.items()}
        return Iteration(
            phases, number(self.hidden), number(self.total), Generation(*parts), self.sync, number(self.beside)
        )


def iteration(inputs: RlInputs, moved: Number) -> Iteration:
    """An iteration: its phases, and whether generation and training overlap.

    moved: bytes of training states that may leave the device during generation
    """
    workload, generated, sync = inputs.case.scenario.workload, NONE, None
    if inputs.engines is not None:
        with term("generation"):
            generated = generation(inputs.engines, inputs.lengths, workload.rollouts, workload.environment)
        sync = weight_sync(inputs)
    passes, hidden = _training_phases(inputs)
    phases = {"generation": generated.total} | passes
    phases["switch"] = _switch_seconds(inputs, moved)
    phases["weight_sync"] = 0.0 if sync is None else sync.time
    phases = {name: known_as(name, value) for name, value in phases.items()}
    beside = not inputs.split.colocated and workload.staleness > 0
    return composed(phases, generated, sync, hidden, beside=beside)


def composed(
    phases: Mapping[str, Number],
    generated: Generation,
    sync: WeightTransfer | None,
    hidden: Number = 0.0,
    *,
    beside: bool,
) -> Iteration:
    """An iteration of sequential phases; if `beside`, the shorter of generation and training is hidden.

    hidden: seconds of models on their own accelerators that the trainer's passes hide, or that hide those passes
    """
    found, every = Iteration(phases, 0.0, 0.0, generated, sync, hidden), _total(phases.values())
    if beside:
        hidden = hidden + np.minimum(phases["generation"], found.training)
    return replace(found, hidden=hidden, total=every - hidden)


def _total(values: Iterable[Number]) -> Number:
    """The sum of values without a start value, so that a trace shows the values only."""
    first, *others = values
    return sum(others, start=first)


def _training_phases(inputs: RlInputs) -> tuple[dict[str, Number], Number]:
    """Seconds of all passes over the answers, and those hidden of models that work beside the trainer."""
    models = inputs.models
    with np.errstate(all="ignore"):
        once, updates = alone(_forward_seconds(inputs)), alone(_update_seconds(inputs))
    with term("judged"):
        judged = inputs.drawn * once if models["reward model"] else 0.0
    scored = once if inputs.scored_by_trainer else 0.0
    passes = {"reference": once, "reward model": judged, "critic": once}
    forward = {name: _seconds_on_own_ranks(inputs, name, time) for name, time in passes.items() if models[name]}
    update = {"critic": _seconds_on_own_ranks(inputs, "critic", updates)} if models["critic"] else {}
    phases: dict[str, Number] = {
        "old_log_probabilities": scored,
        "reference_time": forward.get("reference", 0.0),
        "reward_time": forward.get("reward model", 0.0),
        "critic_time": forward["critic"] + update["critic"] if models["critic"] else 0.0,
        "update_time": updates,
    }
    hidden = (_hidden_seconds(inputs, own, others) for own, others in ((scored, forward), (updates, update)))
    return phases, _total(hidden) if inputs.apart else 0.0


def _seconds_on_own_ranks(inputs: RlInputs, model: str, time: Number) -> Number:
    """Seconds of a pass of another model than the policy, on that model's own accelerators if it has some."""
    if model not in inputs.apart:
        return time
    with term("on its own accelerators"):
        return share(time * inputs.split.trainer.ranks, inputs.apart[model])


def _hidden_seconds(inputs: RlInputs, own: Number, others: Mapping[str, Number]) -> Number:
    """Seconds of a stage's passes that do not lengthen it, as some models work on their own accelerators."""
    shared = _total([own, *(time for name, time in others.items() if name not in inputs.apart)])
    longest, every = shared, shared
    for time in (time for name, time in others.items() if name in inputs.apart):
        longest, every = np.maximum(longest, time), every + time
    return every - longest


def _forward_seconds(inputs: RlInputs) -> Number:
    """Seconds of a forward pass over all answers of an iteration."""
    found, packing = inputs.trainer, inputs.packing
    with term("forward over all answers"):
        time = forward_time(found.inputs, found.evaluation.block, packing.passes)
        return _imbalance(inputs, inputs.case.scenario.workload.answers) * time


def _update_seconds(inputs: RlInputs) -> Number:
    """Seconds of all optimizer steps of an iteration."""
    step = inputs.trainer.evaluation.step
    with term("updates"):
        longer = _imbalance(inputs, inputs.mini_batch)
        varying = step.total - step.terms["optimizer"]
        return inputs.updates * (longer * varying + step.terms["optimizer"])


def _imbalance(inputs: RlInputs, answers: float) -> Number:
    """Time of the most loaded rank over the mean time, if answers are assigned to ranks at random."""
    every = inputs.case.scenario.workload.answers
    if inputs.packing.dp == 1 or (inputs.case.stack.sharing.balanced and answers == every):
        return 1.0
    each = share(answers, inputs.packing.dp)
    return uneven_share(inputs.lengths.variation, np.maximum(each, 1.0), expected_maximum(inputs.packing.dp))


def _switch_seconds(inputs: RlInputs, moved: Number) -> Number:
    """Seconds to put engines to sleep, wake them, and move training states to the host and back, once an iteration."""
    shared = inputs.split.colocated and inputs.engines is not None
    turn: Number = inputs.case.stack.host.turn if shared else 0.0
    host = inputs.trainer.inputs.host
    ways = {"plan.rollout.offload": inputs.offload, "stack.sharing.reference_on_host": bool(inputs.on_host)}
    needed = [key for key, needs in ways.items() if needs]
    if needed and (math.isnan(host.link) or math.isnan(float(host.link_share))):
        place = inputs.case.place(needed[0], "stack", "cluster.node")
        hint = f"{' and '.join(f'{key}: false' for key in needed)}, or state the node's host link"
        raise fail("D017", f"no document states the link of {inputs.case.node.name} to its host", place, hint)
    with term("switch"):
        if inputs.on_host:
            copy = frozen_copy(inputs.trainer.inputs, inputs.fullest.block)
            turn = turn + 2.0 * link_time(copy, host.link, host.link_share)
        return turn + 2.0 * link_time(moved, host.link, host.link_share) if inputs.offload else turn


MOVED = ("policy weights", "policy optimizer", "critic states", "reference", "reward model")
