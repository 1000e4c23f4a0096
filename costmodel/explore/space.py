"""A scenario's space of plans, lazily: product of choices outside, grid of sizes inside."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from costmodel.documents.plan import Space
from costmodel.documents.stack import Recompute, Schedule
from costmodel.equations.counting import data_parallel_degree, world_size
from costmodel.estimate.block import Block, Structure
from costmodel.estimate.setting import Setting

DEFAULT_MICRO_BATCHES = (1.0, 2.0, 4.0, 8.0, 16.0)
LARGEST_DEFAULT_VPP = 8


@dataclass(frozen=True)
class Grid:
    """One structure and the lists of sizes to combine with it."""

    structure: Structure
    ranks: float
    dp: tuple[float, ...] | None
    tp: tuple[float, ...]
    pp: tuple[float, ...]
    vpp: tuple[float, ...]
    micro_batch: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Values along each axis: tp, pp, vpp, micro_batch, and dp where it is listed."""
        lists = (self.tp, self.pp, self.vpp, self.micro_batch, self.dp or (0.0,))
        return tuple(map(len, lists))

    def __len__(self) -> int:
        return math.prod(self.shape)

    def block(self, start: int, stop: int) -> Block:
        """The rows of an index range; memory grows with the range only."""
        places = np.unravel_index(np.arange(start, min(stop, len(self))), self.shape)
        lists = (self.tp, self.pp, self.vpp, self.micro_batch, self.dp or (0.0,))
        tp, pp, vpp, micro_batch, dp = (np.asarray(values)[place] for values, place in zip(lists, places, strict=True))
        if self.dp is None:
            dp = np.asarray(data_parallel_degree(self.ranks, tp, pp))
        return Block(self.structure, dp=dp, tp=tp, pp=pp, vpp=vpp, micro_batch=micro_batch)


def divisors(number: float, largest: float) -> tuple[float, ...]:
    """Divisors of a whole number up to a bound, ascending."""
    whole = int(number)
    small = [value for value in range(1, math.isqrt(whole) + 1) if whole % value == 0]
    both = sorted({*small, *(whole // value for value in small)})
    return tuple(float(value) for value in both if value <= largest)


def grids(setting: Setting) -> Iterator[Grid]:
    """Every structure of the scenario's space, each with its grid of sizes."""
    scenario, stack = setting.case.scenario, setting.stack
    space = scenario.search or Space()
    ranks = float(world_size(scenario.cluster.nodes, setting.case.node.accelerators))
    layers = float(sum(kind.count for kind in setting.model.layers))
    tp = tuple(space.tp or divisors(ranks, setting.domain))
    pp = tuple(space.pp or divisors(ranks, layers))
    vpp = tuple(space.vpp or divisors(layers, LARGEST_DEFAULT_VPP))
    micro_batch = tuple(space.micro_batch or DEFAULT_MICRO_BATCHES)
    schedules: list[Schedule] = space.schedule or [name for name in stack.schedules if name != "gpipe"]
    choices = itertools.product(
        space.zero or stack.zero,
        space.recompute or _recompute(setting),
        schedules,
        space.sequence_parallel or [stack.sequence_parallel],
    )
    for zero, recompute, schedule, sequence_parallel in choices:
        chunks = tuple(value for value in vpp if (value > 1) == (schedule == "interleaved"))
        if chunks:
            structure = Structure(zero, recompute, schedule, sequence_parallel)
            yield Grid(structure, ranks, tuple(space.dp) if space.dp else None, tp, pp, chunks, micro_batch)


def _recompute(setting: Setting) -> list[Recompute]:
    """Recompute modes that differ: with fused attention there is no core to drop."""
    kernels = setting.stack.kernels
    idle = kernels.selective == "core-attention" and kernels.attention != "unfused"
    return [mode for mode in setting.stack.recompute if not (idle and mode == "selective")]
