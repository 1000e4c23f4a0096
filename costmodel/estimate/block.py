"""A block: one structure of choices, many rows of sizes."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.stack import Order, Recompute, Schedule, Zero
from costmodel.equation import Number

Rows = NDArray[np.float64]
BLOCK_ROWS = 16_384  # temporaries of this many rows stay in a core's cache


@dataclass(frozen=True)
class Structure:
    """The choices every row of a block shares."""

    zero: Zero = 1
    recompute: Recompute = "none"
    schedule: Schedule = "1f1b"
    sequence_parallel: bool = True
    order: Order = "tp-dp-pp"


@dataclass(frozen=True)
class Block:
    """Equal-length float columns under one structure."""

    structure: Structure
    dp: Rows
    tp: Rows
    pp: Rows
    vpp: Rows
    micro_batch: Rows

    def __len__(self) -> int:
        return len(self.tp)

    def where(self, keep: NDArray[np.bool_]) -> Block:
        """The rows that a mask keeps."""
        return Block(self.structure, *(getattr(self, name)[keep] for name in SIZES))

    def cut(self, start: int, stop: int) -> Block:
        """A range of rows."""
        return Block(self.structure, *(getattr(self, name)[start:stop] for name in SIZES))


SIZES = tuple(field.name for field in fields(Block) if field.name != "structure")


@dataclass(frozen=True)
class Pairs:
    """The distinct pairs of tp and micro_batch of a block: what a layer's cost depends on."""

    tp: Rows
    micro_batch: Rows
    index: NDArray[np.intp] | None

    def spread(self, value: Number) -> Number:
        """A figure of the pairs as a column of the block."""
        if self.index is None or not isinstance(value, np.ndarray) or value.ndim == 0:
            return value
        spread: Number = value[self.index]
        return spread


def pairs(block: Block) -> Pairs:
    """What a layer's cost depends on, each pair once."""
    if len(block) < 64:
        return Pairs(block.tp, block.micro_batch, None)
    key = np.stack((block.tp, block.micro_batch), axis=1).view(np.complex128).ravel()
    _, first, index = np.unique(key, return_index=True, return_inverse=True)
    return Pairs(block.tp[first], block.micro_batch[first], index)


def one_row(structure: Structure, *, dp: float, tp: float, pp: float, vpp: float, micro_batch: float) -> Block:
    """A block of a single plan."""
    return Block(structure, *(np.array([value], dtype=np.float64) for value in (dp, tp, pp, vpp, micro_batch)))
