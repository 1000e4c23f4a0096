"""The phases of an iteration and their order: alternating, sequential on separate ranks, or concurrent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.rl.rl_results import TRAINER
from costmodel.equations.memory.offload import link_time
from costmodel.equations.run.economics import share
from costmodel.equations.run.reinforcement_learning import uneven_share
from costmodel.equations.unequal.stragglers import expected_maximum
from costmodel.estimate.rl.generation import Generation, first_of, generation
from costmodel.estimate.rl.rl_inputs import RlInputs
from costmodel.estimate.rl.rl_memory import RlMemory
from costmodel.estimate.rl.weight_sync import WeightTransfer, weight_sync
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.time.forward_pass import forward_time
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.errors import fail
from costmodel.ground.record import record

NONE = Generation(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@record
class Iteration:
    """Seconds of each phase, the seconds hidden by overlap, and the total."""

    phases: Mapping[str, Number]
    hidden: Number
    total: Number
    generated: Generation
    sync: WeightTransfer | None

    @property
    def training(self) -> Number:
        """Seconds of all passes of the trainer."""
        return _sum(self.phases[name] for name in TRAINER if name in self.phases)

    @property
    def plain(self) -> Iteration:
        """The iteration with plain numbers instead of arrays."""
        made = self.generated
        times = (made.total, made.prompts, made.tail, made.host, made.longest, made.refilled)
        parts = (number(each) for each in times)
        phases = {name: number(value) for name, value in self.phases.items()}
        return Iteration(phases, number(self.hidden), number(self.total), Generation(*parts), self.sync)


def iteration(inputs: RlInputs, memory: RlMemory) -> Iteration:
    """An iteration: its phases, and whether generation and training overlap."""
    workload, generated, sync = inputs.case.scenario.workload, NONE, None
    if inputs.engines is not None:
        with term("generation"):
            generated = generation(inputs.engines, inputs.lengths, workload.rollouts, workload.environment)
        sync = weight_sync(inputs)
    phases = {"generation": generated.total} | _training(inputs)
    phases["switch"] = _switch(inputs, memory)
    phases["weight_sync"] = 0.0 if sync is None else sync.time
    phases = {name: known_as(name, value) for name, value in phases.items()}
    beside = not inputs.split.colocated and workload.staleness > 0
    return composed(phases, generated, sync, beside=beside)


def composed(
    phases: Mapping[str, Number], generated: Generation, sync: WeightTransfer | None, *, beside: bool
) -> Iteration:
    """An iteration of sequential phases; if `beside`, the shorter of generation and training is hidden."""
    found, every = Iteration(phases, 0.0, 0.0, generated, sync), _sum(phases.values())
    if not beside:
        return replace(found, total=every)
    hidden = np.minimum(phases["generation"], found.training)
    return replace(found, hidden=hidden, total=every - hidden)


def _sum(values: Iterable[Number]) -> Number:
    first, *others = values
    return sum(others, start=first)


def _training(inputs: RlInputs) -> dict[str, Number]:
    """Seconds of the trainer's passes: forward over all answers, and updates by mini-batches."""
    models = inputs.models
    with np.errstate(all="ignore"):
        once, updates = first_of(_forward(inputs)), first_of(_updates(inputs))
    with term("judged"):
        judged = inputs.drawn * once if models["reward model"] else 0.0
    return {
        "old_log_probabilities": once if inputs.scored_by_trainer else 0.0,
        "reference_time": once if models["reference"] else 0.0,
        "reward_time": judged,
        "critic_time": once + updates if models["critic"] else 0.0,
        "update_time": updates,
    }


def _forward(inputs: RlInputs) -> Number:
    """Seconds of a forward pass over all answers of an iteration."""
    found, packing = inputs.trainer, inputs.packing
    with term("forward over all answers"):
        time = forward_time(found.inputs, found.evaluation.block, packing.passes)
        return _uneven(inputs, inputs.case.scenario.workload.answers) * time


def _updates(inputs: RlInputs) -> Number:
    """Seconds of all optimizer steps of an iteration."""
    step = inputs.trainer.evaluation.step
    with term("updates"):
        longer = _uneven(inputs, inputs.mini_batch)
        varying = step.total - step.terms["optimizer"]
        return inputs.updates * (longer * varying + step.terms["optimizer"])


def _uneven(inputs: RlInputs, answers: float) -> Number:
    """Time of the most loaded rank over the mean, if answers are dealt to ranks at random."""
    every = inputs.case.scenario.workload.answers
    if inputs.packing.dp == 1 or (inputs.case.stack.sharing.balanced and answers == every):
        return 1.0
    each = share(answers, inputs.packing.dp)
    return uneven_share(inputs.lengths.variation, np.maximum(each, 1.0), expected_maximum(inputs.packing.dp))


def _switch(inputs: RlInputs, memory: RlMemory) -> Number:
    """Seconds to put engines to sleep, wake them, and move training states to the host and back, once an iteration."""
    shared = inputs.split.colocated and inputs.engines is not None
    turn = inputs.case.stack.host.turn if shared else 0.0
    if not inputs.offload:
        return turn
    host = inputs.trainer.inputs.host
    if math.isnan(host.link) or math.isnan(float(host.link_share)):
        place = inputs.case.place("plan.rollout.offload", "stack", "cluster.node")
        hint = "plan.rollout.offload: false, or state the node's host link"
        raise fail("D017", f"no document states the link of {inputs.case.node.name} to its host", place, hint)
    moved = sum(part.updating for part in memory.parts if part.name in MOVED)
    with term("switch"):
        return turn + 2.0 * link_time(moved, host.link, host.link_share)


MOVED = ("policy weights", "policy optimizer", "critic states", "reference", "reward model")
