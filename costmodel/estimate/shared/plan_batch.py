"""A batch of plans: one structure of choices, many rows of sizes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.parallelism.counts import shard_degree
from costmodel.ground.choices import ContextParallel, Method, Module, Offloaded, Order, Recompute, Schedule, Where, Zero
from costmodel.ground.choices import Split as Written
from costmodel.ground.equation import Number
from costmodel.ground.plan_sizes import OF_ITSELF_ONE, SIZES
from costmodel.ground.record import record

Rows = NDArray[np.float64]
Split = Written | Literal["fitting", "stated"]  # fitting: as few ends lighter as divide; stated: by the counts


@record
class Structure:
    """The choices that all rows of a block share."""

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
    compression: str = "none"
    sync: str = "all-reduce"
    shares: str = "proportional"


@record
class Block:
    """A batch of plans: columns of sizes with one row per plan, and one structure of choices for all.

    Example: two plans with ZeRO 1, one with dp 8 and tp 2, one with dp 4 and tp 4, are a block with `structure.zero ==
    1`, `dp == [8, 4]` and `tp == [2, 4]`. An equation called with `block.tp` returns one result per plan. Plans with
    ZeRO 3 need another block. `known` stores memoised results, see `memoized`.
    """

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
    known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False, kw_only=True)  # see once

    def __len__(self) -> int:
        return len(self.tp)

    def cut(self, start: int, stop: int) -> Block:
        """The rows from `start` to `stop`."""
        return self.at(slice(start, stop))

    def at(self, places: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Block:
        """The rows at these places, or where a mask is true."""
        return Block(self.structure, *(getattr(self, name)[places] for name in SIZES))

    def chosen(self, choices: tuple[str, ...]) -> Structure:
        """A structure with only these choices; every other choice has its default."""
        return _of(self.structure, choices)

    def under(self, structure: Structure) -> Block:
        """The plans with another structure."""
        return Block(structure, *(getattr(self, name) for name in SIZES), known=self.known)

    @functools.cached_property
    def shards(self) -> Number:
        """Ranks that shard the states of the same weights under ZeRO: dp and cp, without HSDP replicas."""
        return shard_degree(self.dp, self.cp, self.dp_replicate)

    @property
    def sequence_ranks(self) -> Number:
        """Ranks over which norms and residuals are sharded: tp with sequence parallelism, else 1."""
        return self.tp if self.structure.sequence_parallel else 1.0


@functools.lru_cache(maxsize=1024)
def _of(structure: Structure, choices: tuple[str, ...]) -> Structure:
    return Structure(**{name: getattr(structure, name) for name in choices})


PIPELINE_INSIDE: Order = "tp-cp-pp-dp"


def one_row(structure: Structure, **sizes: float) -> Block:
    """A block of a single plan; sizes of rare kinds of parallelism default to 1."""
    values = {**dict.fromkeys(OF_ITSELF_ONE, 1.0), **sizes}
    return Block(structure, *(np.array([values[name]], dtype=np.float64) for name in SIZES))


def rows_of(blocks: Sequence[Block]) -> Block:
    """The plans of blocks that share a structure, as one block."""
    return Block(blocks[0].structure, *(np.concatenate([getattr(each, name) for each in blocks]) for name in SIZES))


def local_sequence(sequence: Number, block: Block) -> Number:
    """Tokens of a sequence on one rank of the context-parallel group."""
    return sequence / block.cp


def single_rank(ranks: Number) -> bool:
    """Whether the group has one rank in every row."""
    return bool(np.all(ranks == 1))
