"""Remarks on a workload and a model: unusual sequences and batches, heads and FLOP conventions."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.count_kinds import FromTokens
from costmodel.documents.schemas.model import Layers
from costmodel.equations.kernels.roofline import peak_of_heads
from costmodel.equations.run.economics import tokens_per_step
from costmodel.estimate.shared.critical_batch import critical_batch
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.errors import Place
from costmodel.ground.units import Figure

LARGEST_STEP = Figure(128e6, Place("MiniMax-01, 2025, arXiv:2501.08313", path="tokens of a step after warm-up"))
_SHORT = 32.0  # tokens
_IN_THOUSANDS = frozenset(float(thousand << power) for thousand in (1000, 1_000_000) for power in range(20))


def rounded(batch: FromTokens) -> bool:
    """Whether a batch in tokens is not a whole number of sequences."""
    return batch.tokens != float(tokens_per_step(batch, batch.sequence))


def odd_sequence(sequence: float) -> bool:
    """Whether a sequence has a power of two times a thousand tokens, or too few tokens for any text.

    >>> odd_sequence(16000.0), odd_sequence(16384.0), odd_sequence(10000.0), odd_sequence(8.0)
    (True, False, False, True)
    """
    return sequence < _SHORT or sequence in _IN_THOUSANDS


def odd_batch(global_batch: Number, sequence: Number) -> bool:
    """Whether a step has far more tokens than any published one.

    >>> odd_batch(4e6, 8192.0), odd_batch(15360.0, 4096.0)
    (True, False)
    """
    return bool(tokens_per_step(global_batch, sequence) > LARGEST_STEP + LARGEST_STEP)


def under_a_step(inputs: TrainingInputs) -> bool:
    """Whether a run has fewer tokens than one step."""
    wanted = inputs.case.scenario.workload.tokens
    return wanted is not None and bool(wanted < tokens_per_step(inputs.global_batch, inputs.sequence))


def of_another_maker(case: ResolvedScenario) -> bool:
    """Whether the training software is not described on accelerators of this maker."""
    return bool(case.stack.makers) and case.accelerator.vendor not in case.stack.makers


def over_critical(case: ResolvedScenario) -> bool:
    """Whether the batch of a step is over twice the critical batch that the scenario states."""
    workload = case.scenario.workload
    with term("twice the critical batch"):
        critical = critical_batch(workload)
        if critical is None:
            return False
        most = 2.0 * critical
    return bool(tokens_per_step(workload.global_batch, workload.sequence) > most)


def counted_as_gpt(inputs: TrainingInputs) -> bool:
    """Whether every layer is a GPT layer, as Megatron's closed forms assume."""
    wide = float(4.0 * inputs.model.hidden)
    return all(_gpt_layer(kind, wide) for kind in inputs.model.layers)


def _gpt_layer(kind: Layers, wide: float) -> bool:
    mlp, attention = kind.mlp, kind.attention
    if mlp is None or attention is None:
        return False
    return not mlp.gated and mlp.ffn_hidden == wide and attention.kv_heads == attention.heads


def odd_heads(inputs: TrainingInputs) -> Iterator[bool]:
    """For each kind of layer with attention, whether its head width makes the vector units compute it."""
    for kind in inputs.model.layers:
        if kind.attention is not None:
            width = kind.attention.head_dim
            yield bool(
                peak_of_heads(inputs.rates.peak, inputs.vector_peak, width, inputs.widths.element) < inputs.rates.peak
            )
