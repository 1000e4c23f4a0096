"""A block: one structure of choices, many rows of sizes."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.plan import Split as Written
from costmodel.documents.stack import (
    ContextParallel,
    Method,
    Module,
    Offloaded,
    Order,
    Recompute,
    Schedule,
    Where,
    Zero,
)
from costmodel.equation import Number
from costmodel.equations.counting import divided, shard_degree

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
    order: Order = "tp-cp-dp-pp"
    cp_type: ContextParallel = "p2p"
    split: Split = "fitting"
    first_stage_layers: float | None = None
    last_stage_layers: float | None = None
    recompute_modules: tuple[Module, ...] | None = None
    recompute_layers: float | None = None
    recompute_method: Method = "block"
    offload: tuple[Offloaded, ...] = ()
    offload_to: Where = "cpu"
    offload_layers: float | None = None


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
    cp: Rows
    dp_replicate: Rows

    def __len__(self) -> int:
        return len(self.tp)

    def where(self, keep: NDArray[np.bool_]) -> Block:
        """The rows that a mask keeps."""
        return Block(self.structure, *(getattr(self, name)[keep] for name in SIZES))

    def cut(self, start: int, stop: int) -> Block:
        """A range of rows."""
        return Block(self.structure, *(getattr(self, name)[start:stop] for name in SIZES))

    def at(self, places: NDArray[np.intp]) -> Block:
        """The rows at these places."""
        return Block(self.structure, *(getattr(self, name)[places] for name in SIZES))

    @functools.cached_property
    def shards(self) -> Number:
        """Ranks that hold the same weights before sharding, and share them under zero: dp and cp, less replicas."""
        return shard_degree(self.dp, self.cp, self.dp_replicate)

    @property
    def sequence_ranks(self) -> Number:
        """Ranks of a tensor-parallel group that norms and residuals are cut over along the sequence."""
        return self.tp if self.structure.sequence_parallel else 1.0


SIZES = tuple(field.name for field in fields(Block) if field.name != "structure")
CUTS = ("tp", "micro_batch", "cp", "ep", "etp")
PIPELINE_INSIDE: Order = "tp-cp-pp-dp"


@dataclass(frozen=True)
class Cuts:
    """The distinct ways a block cuts a layer, which is what a layer's cost depends on, and which of them a row has."""

    rows: Block
    index: NDArray[np.intp] | None

    def spread(self, value: Number) -> Number:
        """A figure of the cuts as a column of the block."""
        if self.index is None or not isinstance(value, np.ndarray) or value.ndim == 0:
            return value
        spread: Number = value[self.index]
        return spread


def cuts(block: Block) -> Cuts:
    """What a layer's cost depends on, each combination once."""
    if len(block) < 64:
        return Cuts(block, None)
    names = CUTS + _strides(block)
    columns = [column for column in (getattr(block, name) for name in names) if (column != column[0]).any()]
    keys, *others = columns or [block.tp]
    for column in others[:-1]:
        keys = np.unique(_paired(keys, column), return_inverse=True)[1].astype(np.float64)
    _, first, index = np.unique(_paired(keys, others[-1]) if others else keys, return_index=True, return_inverse=True)
    return Cuts(block.at(first), index)


def _strides(block: Block) -> tuple[str, ...]:
    """Sizes that decide how far apart a layer's ranks lie: dp inside cp, the pipeline inside expert parallelism."""
    order = block.structure.order
    dp_inside = order == "tp-dp-cp-pp" and not alone(block.cp)
    pipeline_inside = order == PIPELINE_INSIDE and not alone(block.ep)
    return (*(("dp",) if dp_inside else ()), *(("pp",) if pipeline_inside else ()))


def _paired(one: Rows, other: Rows) -> NDArray[np.complex128]:
    """Two columns as one that sorts and compares like the pair."""
    return np.stack((one, other), axis=1).view(np.complex128).ravel()


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
    cp: float = 1.0,
    dp_replicate: float = 1.0,
) -> Block:
    """A block of a single plan."""
    values = (dp, tp, pp, vpp, micro_batch, ep, etp, cp, dp_replicate)
    return Block(structure, *(np.array([value], dtype=np.float64) for value in values))


def local_sequence(sequence: Number, block: Block) -> Number:
    """Tokens of a sequence that a rank of the context-parallel group holds."""
    return divided(sequence, block.cp)


def alone(ranks: Number) -> bool:
    """Whether every row has a group of one."""
    return bool(np.all(ranks == 1))
