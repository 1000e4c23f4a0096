"""A ring all-reduce step by step: which rank sends which chunk to which, and when."""

from __future__ import annotations

from typing import Literal

from costmodel.documents.reader.library import read
from costmodel.equations.network.collectives import ring_chunk, ring_time
from costmodel.ground.record import record

Half = Literal["scatter", "gather"]
HALVES: tuple[Half, ...] = ("scatter", "gather")
USUAL = "nvlink4"


@record
class RingStep:
    """A step of a ring: the chunk that each rank sends to the next one, and when it starts."""

    half: Half
    number: int
    chunks: tuple[int, ...]
    starts: float


@record
class Ring:
    """All steps of a ring all-reduce, and its total time."""

    ranks: int
    message: float
    bandwidth: float
    latency: float
    each: float
    steps: tuple[RingStep, ...]
    total: float


def usual_bandwidth() -> float:
    """The rate of the links where none is stated."""
    bandwidth: float = read("fabric", USUAL).bandwidth
    return bandwidth


def ring(ranks: int, message: float, bandwidth: float, latency: float) -> Ring:
    """The steps of an all-reduce over a ring of `ranks` ranks."""
    size = float(ranks)
    total = float(ring_time(message, size, bandwidth, latency, operation="all_reduce"))
    step_time = total / (2 * (ranks - 1))
    steps: list[RingStep] = []
    for half in HALVES:
        for number in range(ranks - 1):
            sent = (ring_chunk(float(rank), float(number), size, half=half) for rank in range(ranks))
            steps.append(RingStep(half, number, tuple(int(chunk) for chunk in sent), step_time * len(steps)))
    return Ring(ranks, message, bandwidth, latency, step_time, tuple(steps), total)
