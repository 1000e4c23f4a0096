"""Layers of the first, a middle and the last pipeline rank under each split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.model import Model
from costmodel.documents.stack import Schedule
from costmodel.equation import Number, term
from costmodel.equations.counting import layers_per_stage, remainder, repeated
from costmodel.equations.economics import share
from costmodel.equations.splits import layers_beside_ends, layers_between, spread_layers
from costmodel.estimate.block import Block
from costmodel.estimate.shapes.schedules import BOTH_WAYS, FOLDED, of_ends

SLOTS = {"even": (0.0, 0.0), "lighter-ends": (1.0, 1.0), "lighter-first": (1.0, 0.0), "lighter-last": (0.0, 1.0)}


def layer_count(model: Model) -> Number:
    """Layers of all kinds; of a single kind the figure as it was written."""
    first, *others = (kind.count for kind in model.layers)
    return sum(others, start=first)


@dataclass(frozen=True)
class StageLayers:
    """Layers of the first, a middle and the last rank, in all their chunks; the same object thrice where all equal.

    Two ranks have no middle: it stands for the smaller of them.
    """

    total: Number
    first: Number
    middle: Number
    last: Number

    @property
    def equal(self) -> bool:
        """Whether every rank of every row holds as many."""
        return self.first is self.middle is self.last

    @property
    def fullest(self) -> Number:
        """Of the rank with most."""
        return self.middle if self.equal else np.maximum(np.maximum(self.first, self.middle), self.last)

    def each(self, layer: Number) -> tuple[Number, Number, Number]:
        """So much a layer, in the first, a middle and the last rank."""
        middle = repeated(self.middle, layer)
        return (
            (middle, middle, middle)
            if self.equal
            else (repeated(self.first, layer), middle, repeated(self.last, layer))
        )

    def ranks(self, pp: float) -> tuple[Number, ...]:
        """Of the ranks that a pipeline of so many has."""
        return ((self.first,), (self.first, self.last))[int(pp) - 1] if pp < 3 else (self.first, self.middle, self.last)

    def of_kind(self, model: Model, count: Number, layers: Number) -> Number:
        """Layers of one kind among so many: kinds are spread evenly."""
        return layers if len(model.layers) == 1 else repeated(share(count, self.total), layers)


def stage_layers(model: Model, block: Block) -> StageLayers:
    """Layers of the first, a middle and the last rank."""
    layers, split = layer_count(model), block.structure.split
    with term("layers of a stage"):
        if split == "stated":
            return _stated(layers, block)
        if split == "spread":
            return _spread(layers, block)
        first, last = _slots(layers, block)
        if not first.any() and not last.any():
            each = layers_per_stage(layers, block.pp)
            return StageLayers(layers, each, each, each)
        middle = layers_beside_ends(layers, block.pp, first + last)
        ends = of_schedule(block.structure.schedule, middle, first, last)
        return StageLayers(layers, ends[0], np.where(block.pp < 3, np.minimum(*ends), middle), ends[1])


def of_schedule(schedule: Schedule, middle: Number, first: Number, last: Number) -> tuple[Number, Number]:
    """Layers of the first and the last rank when the ends hold so many fewer; both ways the mean of the two stages."""
    fewer_first, fewer_last = of_ends(schedule, first, last)
    return middle - fewer_first, middle - fewer_last


def _slots(layers: Number, block: Block) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Whether embedding and head count as a layer, row by row; left open, as few as make the split even."""
    split, chunks = block.structure.split, repeated(block.pp, block.vpp)
    piped = np.where(block.pp > 1, 1.0, 0.0)
    if split in SLOTS:
        first, last = SLOTS[split]
        return np.asarray(repeated(first, piped)), np.asarray(repeated(last, piped))
    uneven = (remainder(layers, chunks) != 0) & (block.pp > 1)
    if not uneven.any():
        return np.zeros(len(block)), np.zeros(len(block))
    both = uneven & (remainder(layers + 2.0, chunks) == 0)
    return np.where(both, 1.0, 0.0), np.where(both | uneven & (remainder(layers + 1.0, chunks) == 0), 1.0, 0.0)


def _stated(layers: Number, block: Block) -> StageLayers:
    """Ends of stated numbers; where only one is stated the other ranks share the rest."""
    structure, pp = block.structure, block.pp
    first, last = structure.first_stage_layers, structure.last_stage_layers
    if first is None or last is None:
        stated = first or last or 0.0
        rest = layers_per_stage(layers - stated, np.maximum(pp - 1, 1.0))
        first_layers, last_layers = (stated, rest) if first else (rest, stated)
    else:
        first_layers, last_layers = first, last
    middle = layers_between(layers, pp, first_layers, last_layers)
    return StageLayers(layers, *(np.where(pp == 1, layers, held) for held in (first_layers, middle, last_layers)))


def _spread(layers: Number, block: Block) -> StageLayers:
    """What does not divide goes to the first ranks."""
    last = block.pp - 1
    ranks = (last - last, np.minimum(last, 1.0), last)
    return StageLayers(layers, *(spread_layers(layers, block.pp, block.vpp, rank) for rank in ranks))


def indivisible(model: Model, block: Block) -> NDArray[np.bool_]:
    """Rows whose layers the split does not divide into whole, equal chunks, or leaves a chunk without any."""
    layers, split, chunks = layer_count(model), block.structure.split, repeated(block.pp, block.vpp)
    if split in ("spread", "stated") and block.structure.schedule in (*FOLDED, *BOTH_WAYS):
        return np.ones(len(block), dtype=bool)
    if split == "spread":
        return np.asarray(layers < chunks)
    if split == "stated":
        held = _stated(layers, block)
        wrong = (block.pp == 1) | (block.pp == 2) & (held.first + held.last != layers)
        for part in (held.first, held.middle, held.last):
            wrong = wrong | (remainder(part, block.vpp) != 0) | (part <= 0)
        return np.asarray(wrong)
    first, last = _slots(layers, block)
    return np.asarray(remainder(layers + first + last, chunks) != 0)
