"""Memory of one accelerator during generation and during updates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import term_error
from costmodel.estimate.rl.generation import RolloutEngines
from costmodel.estimate.rl.trainer_steps import HeldStep
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.memory.breakdown import LINES, memory_spread
from costmodel.estimate.training.time.forward_pass import frozen_copy
from costmodel.ground.record import record

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
    spread: float = 0.0  # of what an update takes, relative: engines claim a stated share

    @property
    def generating(self) -> float:
        """Bytes during generation."""
        return sum(part.generating for part in self.parts)

    @property
    def updating(self) -> float:
        """Bytes during the update of the policy."""
        return sum(part.updating for part in self.parts)

    @property
    def generates_fuller(self) -> bool:
        """Whether generation uses a larger share of its accelerators' memory than the update."""
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
    offload: bool,
    sleeps: bool,
    colocated: bool,
) -> RlMemory:
    """The memory breakdown. `models`: which of critic, reference and reward model exist."""
    stays = colocated and engines is not None  # states of training beside the engine
    parts = [*_trained(trainer, models, kept=stays and not offload, beside=stays)]
    if engines is not None:
        use = engines.memory
        runtime = number(use.runtime) if sleeps else 0.0
        pool = max(number(use.pool), 0.0)
        held = (("engine weights", use.weights), ("engine step", use.activations), ("cache", pool))
        for name, nbytes in held:
            updating = 0.0 if sleeps or not colocated else number(nbytes)
            parts.append(MemoryPart(name, number(nbytes), updating))
        parts.append(
            MemoryPart("engine runtime", number(use.runtime), _beside(runtime, use.runtime, colocated, sleeps))
        )
    mine = float(trainer.inputs.usable)
    theirs = mine if engines is None else float(engines.inputs.usable)
    found = RlMemory(tuple(parts), mine, theirs, colocated)
    return replace(found, spread=_spread(trainer, models, found.updating))


def _spread(trainer: HeldStep, models: dict[str, bool], updating: float) -> float:
    """Relative spread of an update's memory: the trainer's spread, with the states of further models."""
    stage = _fullest(trainer)
    lines = {name: number(trainer.ledger.line(name, stage)) for name in LINES}
    lines["weights"] += sum(part.updating for part in _trained(trainer, models, kept=False, beside=False)
                            if part.name in FURTHER)  # fmt: skip
    total = sum(lines.values())
    error = term_error(memory_spread(trainer.inputs, total, lines, LINES), total)
    return number(share(error, max(updating, 1.0)))


def _fullest(trainer: HeldStep) -> int:
    """Index of the trainer's pipeline stage with the highest memory."""
    return max(range(3), key=lambda position: number(trainer.ledger.peaks[position]))


def _beside(slept: float, awake: object, colocated: bool, sleeps: bool) -> float:
    """Bytes of the engine's context during training."""
    if not colocated:
        return 0.0
    return slept if sleeps else float(np.asarray(awake).flat[0])


def _trained(trainer: HeldStep, models: dict[str, bool], *, kept: bool, beside: bool) -> list[MemoryPart]:
    """Lines for policy, critic and frozen models on the trainer's fullest pipeline stage."""
    ledger, block = trainer.ledger, trainer.block
    stage = _fullest(trainer)
    line = {name: number(ledger.line(name, stage)) for name in (*STAY, *LATE, "runtime")}
    states = sum(line[name] for name in STAY)
    parts = [MemoryPart(f"policy {name}", line[name] if kept else 0.0, line[name]) for name in STAY]
    parts.append(MemoryPart("policy gradients", 0.0, line["gradients"]))
    passing = sum(line[name] for name in LATE) - line["gradients"]
    parts.append(MemoryPart("activations and buffers", 0.0, passing))
    if models["critic"]:
        parts.append(MemoryPart("critic states", states if kept else 0.0, states))
    frozen = number(frozen_copy(trainer.inputs, block))
    for name in ("reference", "reward model"):
        if models[name]:
            parts.append(MemoryPart(name, frozen if kept else 0.0, frozen))
    parts.append(MemoryPart("training runtime", line["runtime"] if beside else 0.0, line["runtime"]))
    return parts
