"""Sequences and batches that are rarely meant, and batches that were written in tokens."""

from __future__ import annotations

from costmodel.documents.schemas.count_kinds import FromTokens
from costmodel.equations.run.economics import tokens_per_step
from costmodel.ground.equation import Number
from costmodel.ground.errors import Place
from costmodel.ground.units import Figure

LARGEST_STEP = Figure(128e6, Place("MiniMax-01, 2025, arXiv:2501.08313", path="tokens of a step after warm-up"))
_SHORT = 32.0  # tokens
_IN_THOUSANDS = frozenset(float(thousand << power) for thousand in (1000, 1_000_000) for power in range(20))


def rounded(batch: FromTokens) -> bool:
    """Whether its tokens are no whole number of sequences."""
    return batch.tokens != float(tokens_per_step(batch, batch.sequence))


def odd_sequence(sequence: float) -> bool:
    """Whether a sequence is a power of two in thousands, or shorter than any text.

    >>> odd_sequence(16000.0), odd_sequence(16384.0), odd_sequence(10000.0), odd_sequence(8.0)
    (True, False, False, True)
    """
    return sequence < _SHORT or sequence in _IN_THOUSANDS


def odd_batch(global_batch: Number, sequence: Number) -> bool:
    """Whether a step takes far more tokens than any that was published.

    >>> odd_batch(4e6, 8192.0), odd_batch(15360.0, 4096.0)
    (True, False)
    """
    return bool(tokens_per_step(global_batch, sequence) > LARGEST_STEP + LARGEST_STEP)
