"""A block: one structure of choices, many rows of sizes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.plan import Split as Written
from costmodel.documents.stack import Order, Recompute, Schedule, Zero
from costmodel.equation import Number

Rows = NDArray[np.float64]
Split = Written | Literal["fitting", "stated"]  # fitting: as few ends lighter as divide; stated: by the counts
BLOCK_ROWS = 16_384  # temporaries of this many rows stay in a core's cache


@dataclass(frozen=True)
class Structure:
    """The choices every row of a block shares."""

    zero: Zero = 1
    recompute: Recompute = "none"
    schedule: Schedule = "1f1b"
    sequence_parallel: bool = True
    order: Order = "tp-dp-pp"
    split: Split = "fitting"
    first_stage_layers: float | None = None
    last_stage_layers: float | None = None


@dataclass(frozen=True)
class Block:
    """Equal-length float columns under one structure."""

    structure: Structure
    dp: Rows
    tp: Rows
    pp: Rows
    vpp: Rows
    micro_batch: Rows
    ep: Rows
    etp: Rows

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
    """The distinct sizes of a block that a layer's cost depends on: tp, micro_batch, and with experts how they lie."""

    tp: Rows
    micro_batch: Rows
    ep: Rows
    etp: Rows
    pp: Rows
    index: NDArray[np.intp] | None

    def spread(self, value: Number) -> Number:
        """A figure of the pairs as a column of the block."""
        if self.index is None or not isinstance(value, np.ndarray) or value.ndim == 0:
            return value
        spread: Number = value[self.index]
        return spread


OF_A_LAYER = ("tp", "micro_batch", "ep", "etp")
PIPELINE_INSIDE: Order = "tp-pp-dp"


def pairs(block: Block) -> Pairs:
    """What a layer's cost depends on, each combination once."""
    if len(block) < 64:
        return Pairs(block.tp, block.micro_batch, block.ep, block.etp, block.pp, None)
    spread = block.structure.order == PIPELINE_INSIDE and bool(np.any(block.ep > 1))
    key, *others = (getattr(block, name) for name in (*OF_A_LAYER, *(["pp"] if spread else [])))
    first = index = np.zeros(len(block), dtype=np.intp)
    for column in others:
        if np.all(column == column[0]) and column is not others[0]:
            continue
        both = np.stack((key, column), axis=1).view(np.complex128).ravel()
        _, first, index = np.unique(both, return_index=True, return_inverse=True)
        key = index.astype(np.float64)
    kept = {name: getattr(block, name)[first] for name in (*OF_A_LAYER, "pp")}
    return Pairs(**kept, index=index)


def one_row(
    structure: Structure,
    *,
    dp: float,
    tp: float,
    pp: float,
    vpp: float,
    micro_batch: float,
    ep: float = 1.0,
    etp: float = 1.0,
) -> Block:
    """A block of a single plan."""
    sizes = (dp, tp, pp, vpp, micro_batch, ep, etp)
    return Block(structure, *(np.array([value], dtype=np.float64) for value in sizes))
