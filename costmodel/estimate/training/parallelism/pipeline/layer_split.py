"""Layers of the first, a middle and the last pipeline rank for each split."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.model import Layers, Model
from costmodel.equations.parallelism.counts import layers_per_stage, remainder
from costmodel.equations.parallelism.layer_split import (
    cut_before,
    full_chunk_layers,
    layers_beside_ends,
    layers_between,
    leading_layers,
    spread_before,
    spread_layers,
    stated_before,
)
from costmodel.equations.run.economics import share
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.memoize import SPLIT, memoized
from costmodel.estimate.shared.per_stage import PerStage, same_on_all_stages, value_of_largest
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.time_breakdown import largest, summed
from costmodel.estimate.training.parallelism.pipeline.schedule_rules import (
    BOTH_WAYS,
    FOLDED,
    LOOPED,
    boundary_parameters,
)
from costmodel.ground.choices import Schedule
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

T = TypeVar("T")
_UNEVEN = {  # not divided like that
    *itertools.product(["stated"], FOLDED),
    *itertools.product(["spread"], BOTH_WAYS),
    *itertools.product(["full-chunks"], (*FOLDED, *BOTH_WAYS)),
}
SLOTS = {"even": (0.0, 0.0), "lighter-ends": (1.0, 1.0), "lighter-first": (1.0, 0.0), "lighter-last": (0.0, 1.0)}


def _experts_alone(model: Model) -> str | None:
    """Whether experts are only in the `leading` layers or only in the `others`; None if in both or in neither."""
    ahead, *rest = (kind.experts is not None for kind in model.layers)
    return None if ahead == any(rest) else "leading" if ahead else "others"


@record
class StageLayers:
    """Layers of the first, a middle and the last rank, in all their chunks.

    The same object three times if all are equal.

    With two ranks, the middle stands for the smaller of them. A rank with two stages, one per direction, counts their
    mean; its first and last stages are stored separately if they differ. For a model whose first layers are of another
    kind, the object also has the number of leading layers on each rank. The middle then stands for the rank between the
    ends with the fewest of them, or with the most if only leading layers have experts.
    """

    total: Number
    first: Number
    middle: Number
    last: Number
    mirrored: tuple[Number, Number] | None = None
    leading: PerStage[Number] | None = None
    mirrored_leading: tuple[Number, Number] | None = None

    @property
    def equal(self) -> bool:
        """Whether all ranks of all rows have the same number and kinds of layers."""
        return self.first is self.middle is self.last and self.leading is None

    @property
    def fullest(self) -> Number:
        """Layers of the rank with most layers."""
        return self.middle if self.equal else largest(self.first, self.middle, self.last)

    def held(self, position: int) -> Number:
        """Layers of the first, a middle or the last rank."""
        return (self.first, self.middle, self.last)[position]

    def each(self, amounts: PerStage[Number]) -> PerStage[Number]:
        """An amount per layer, on the first, a middle and the last rank."""
        if self.equal:
            return same_on_all_stages(self.middle * amounts.middle)
        held = (self.first, self.middle, self.last)
        return PerStage(*(layers * amount for layers, amount in zip(held, amounts, strict=True)))

    def stages(self, pp: float) -> tuple[Number, ...]:
        """Layers of the first, a middle and the last of so many stages, without stages that do not exist."""
        first, last = self.mirrored or (self.first, self.last)
        return ((first,), (first, last))[int(pp) - 1] if pp < 3 else (first, self.middle, last)

    def share_of(self, model: Model, kind: Layers, position: int) -> Number:
        """Share of a kind in the layers of a rank; kinds other than leading ones are distributed evenly."""
        if self.leading is None:
            return share(kind.count, self.total)
        held = self.held(position)
        whole = np.where(held > 0, held, 1.0)  # a rank of the head alone has no layers of any kind
        return share(self._counted(model, kind, held, self.leading[position]), whole)

    def _counted(self, model: Model, kind: Layers, held: Number, ahead: Number) -> Number:
        """Layers of a kind among so many layers, `ahead` of which are leading layers."""
        if kind.leading:
            return ahead
        return share(kind.count, self.total - model.layers[0].count) * (held - ahead)

    def of_stages(self, model: Model, kind: Layers) -> tuple[Number, Number]:
        """Layers of one kind in the first and the last stage, which one rank of a bidirectional pipeline both runs."""
        assert self.mirrored is not None
        first, last = self.mirrored
        if self.mirrored_leading is None:
            return self.of_kind(model, kind, first, 0), self.of_kind(model, kind, last, 0)
        ahead, behind = self.mirrored_leading
        return self._counted(model, kind, first, ahead), self._counted(model, kind, last, behind)

    def of_kind(self, model: Model, kind: Layers, amount: Number, position: int) -> Number:
        """The part of an amount for all layers of a rank that belongs to one kind."""
        return amount if len(model.layers) == 1 else self.share_of(model, kind, position) * amount

    def means(self, model: Model, amounts: Sequence[Number]) -> PerStage[Number]:
        """The mean over the layers of the first, a middle and the last rank, for an amount per kind."""
        if len(amounts) == 1:
            return same_on_all_stages(amounts[0])
        kinds = list(zip(model.layers, amounts, strict=True))
        return self.at_each(lambda position: summed(*(self.of_kind(model, *kind, position) for kind in kinds)))

    def at_each(self, mixed: Callable[[int], T]) -> PerStage[T]:
        """A value for the first, a middle and the last rank; the same object three times if their layers are alike."""
        found = [mixed(position) for position in self.positions]
        return PerStage(*found) if len(found) == 3 else same_on_all_stages(*found)

    def on_fullest(self, model: Model, kind: Layers) -> Number:
        """Layers of one kind on the rank with most layers.

        If only one side has experts, on the rank with most of that side.
        """
        if self.leading is None:
            return self.of_kind(model, kind, self.fullest, 1)
        alone = _experts_alone(model)
        first, middle, last = self.leading if alone == "leading" else (self.held(at) for at in range(3))
        if alone == "others":
            first, middle, last = (self.held(at) - self.leading[at] for at in range(3))
        of = [self.of_kind(model, kind, self.held(at), at) for at in range(3)]
        return value_of_largest(PerStage(first, middle, last), PerStage(*of))

    @property
    def positions(self) -> tuple[int, ...]:
        """The ranks among first, middle and last that have different mixes of layers."""
        return (1,) if self.leading is None else (0, 1, 2)


@memoized(*SPLIT)
def stage_layers(model: Model, block: Block) -> StageLayers:
    """Layers of the first, a middle and the last rank."""
    with term("layers of a stage"):
        layers = layer_count(model)
        held = _divided(layers, block)
        if not model.layers[0].leading:
            return held
        count, before = model.layers[0].count, _before(held, block)
        first, middle, last = leading_of_ranks(count, block, before, most=_experts_alone(model) == "leading")
        two = np.where(held.first <= held.last, first, last)  # whose layers the middle stands for
        leading = PerStage(first, np.where(block.pp < 3, two, np.minimum(middle, held.middle)), last)
        if block.structure.schedule not in BOTH_WAYS:
            return replace(held, leading=leading)
        stages, ends = held.mirrored or (held.first, held.last), leading_of_stages(count, block, before)
        return replace(held, leading=leading, mirrored=stages, mirrored_leading=ends)


def _divided(layers: Number, block: Block) -> StageLayers:
    """Layers of the ranks, regardless of their kinds."""
    if block.structure.split == "stated":
        return _stated(layers, block)
    if block.structure.split == "spread":
        return _spread(layers, block)
    whole, ahead, behind = _cut(layers, block)
    if not np.any(ahead) and not np.any(behind):
        return StageLayers(layers, whole, whole, whole)
    return _with_ends(block, layers, whole, *of_schedule(block.structure.schedule, whole, ahead, behind))


def _cut(layers: Number, block: Block) -> tuple[Number, Number, Number]:
    """Layers of a middle rank, and how many fewer the first and the last chunk have."""
    if block.structure.split == "full-chunks":
        chunk, missing = _full(layers, block)
        behind = np.minimum(missing, chunk)
        return block.vpp * chunk, missing - behind, behind
    first, last = fewer_at_ends(layers, block)
    if not np.any(first) and not np.any(last):
        return layers_per_stage(layers, block.pp), 0.0, 0.0
    return layers_beside_ends(layers, block.pp, first + last), first, last


def _full(layers: Number, block: Block) -> tuple[Number, Number]:
    """Layers of a full chunk, and how many layers are missing to fill all chunks."""
    chunk = full_chunk_layers(layers, block.pp, block.vpp)
    return chunk, block.pp * block.vpp * chunk - layers


def _before(held: StageLayers, block: Block) -> Before:
    """A function from a chunk's position to the layers of the model before it."""
    layers, sizes = held.total, (block.pp, block.vpp)
    if block.structure.split == "stated":
        first, _ = held.mirrored or (held.first, held.last)
        return lambda stage: stated_before(layers, *sizes, first, held.middle, stage)
    if block.structure.split == "spread":
        return lambda stage: spread_before(layers, *sizes, stage)
    whole, ahead, _ = _cut(layers, block)
    return lambda stage: cut_before(whole / block.vpp, ahead, stage)


def of_schedule(schedule: Schedule, middle: Number, first: Number, last: Number) -> tuple[Number, Number]:
    """Layers of the first and the last rank (or stage, if bidirectional) when the first and last chunk have fewer."""
    fewer_first, fewer_last = (first, last) if schedule in BOTH_WAYS else boundary_parameters(schedule, first, last)
    return middle - fewer_first, middle - fewer_last


def _with_ends(block: Block, layers: Number, middle: Number, first: Number, last: Number) -> StageLayers:
    """Layers of the ranks if first and last differ from those between."""
    if block.structure.schedule not in BOTH_WAYS:
        return StageLayers(layers, first, np.where(block.pp < 3, np.minimum(first, last), middle), last)
    mean = (first + last) / 2.0
    return StageLayers(layers, mean, np.where(block.pp < 3, mean, middle), mean, (first, last))


def fewer_at_ends(layers: Number, block: Block) -> tuple[Number, Number]:
    """How many fewer layers the first and the last chunk hold, by row.

    If not stated, the fewest that allow an even split.
    """
    split, chunks = block.structure.split, block.pp * block.vpp
    piped = np.where(block.pp > 1, 1.0, 0.0)
    if split in SLOTS:
        first, last = SLOTS[split]
        return first * piped, last * piped
    uneven = (remainder(layers, chunks) != 0) & (block.pp > 1)
    if not np.any(uneven):
        return 0.0, 0.0
    both = uneven & (remainder(layers + 2.0, chunks) == 0)
    return np.where(both, 1.0, 0.0), np.where(both | uneven & (remainder(layers + 1.0, chunks) == 0), 1.0, 0.0)


def _stated(layers: Number, block: Block) -> StageLayers:
    """Stated layers of first and last stage; if only one is stated, the other ranks share the rest."""
    structure, pp = block.structure, block.pp
    first, last = structure.first_stage_layers, structure.last_stage_layers
    if first is None or last is None:
        stated = first or last or 0.0
        rest = layers_per_stage(layers - stated, np.maximum(pp - 1, 1.0))
        first_layers, last_layers = (stated, rest) if first else (rest, stated)
    else:
        first_layers, last_layers = first, last
    middle = layers_between(layers, pp, first_layers, last_layers)
    return _with_ends(block, layers, *(np.where(pp == 1, layers, held) for held in (middle, first_layers, last_layers)))


def _spread(layers: Number, block: Block) -> StageLayers:
    """Layers of ranks if the first stages take the remainder; a folded pipeline has a stage from both ends per rank."""
    last = block.pp - 1
    ranks = (0.0, np.minimum(last, 1.0), last)
    if block.structure.schedule not in FOLDED:
        first, middle, end = (spread_layers(layers, block.pp, block.vpp, rank) for rank in ranks)
        return StageLayers(layers, first, middle, end)
    stages = block.pp + block.pp
    with term("folded"):
        down = [spread_layers(layers, stages, 1.0, rank) for rank in ranks]
        up = [spread_layers(layers, stages, 1.0, stages - 1 - rank) for rank in ranks]
    return StageLayers(layers, down[0] + up[0], down[1] + up[1], down[2] + up[2])


def unequal_chunks(model: Model, block: Block) -> NDArray[np.bool_]:
    """Rows in which a rank holds several chunks with different numbers of layers."""
    chunks = block.pp * block.vpp
    looped = block.structure.split == "spread" and block.structure.schedule in LOOPED
    return np.asarray((remainder(layer_count(model), chunks) != 0) & (block.vpp > 1) & looped)


def spread_as_fitting(model: Model, block: Block) -> NDArray[np.bool_]:
    """Rows where `spread` gives the same layers as the default split: equal, or one fewer at the end."""
    if block.structure.schedule in FOLDED:
        return np.zeros(len(block), dtype=bool)
    layers, chunks = layer_count(model), block.pp * block.vpp
    return np.asarray((remainder(layers, chunks) == 0) | (remainder(layers + 1.0, chunks) == 0))


def indivisible(model: Model, block: Block) -> NDArray[np.bool_]:
    """Rows whose layers the split does not divide into whole chunks, or whose middle chunk would be empty."""
    layers, split, chunks = layer_count(model), block.structure.split, block.pp * block.vpp
    if (split, block.structure.schedule) in _UNEVEN:
        return np.ones(len(block), dtype=bool)
    if split == "spread":
        return np.asarray(layers < chunks)
    if split == "full-chunks":
        chunk, missing = _full(layers, block)
        return np.asarray(missing >= chunk + chunk)
    if split == "stated":
        held = _stated(layers, block)
        first, last = held.mirrored or (held.first, held.last)
        wrong = (block.pp == 1) | (block.pp == 2) & (first + last != layers)
        for part in (first, np.where(block.pp < 3, first, held.middle), last):
            wrong = wrong | (remainder(part, block.vpp) != 0) | (part <= 0)
        return np.asarray(wrong)
    first, last = fewer_at_ends(layers, block)
    return np.asarray(remainder(layers + first + last, chunks) != 0)


Before = Callable[[Number], Number]  # layers of the model before a chunk, by its position


def leading_of_ranks(count: Number, block: Block, before: Before, *, most: bool) -> PerStage[Number]:
    """Leading layers on the first rank, on the middle rank with most or fewest, and on the last rank.

    Fewer of them are held further from the input: the second rank holds most, the last but one fewest. A bidirectional
    pipeline has the fewest in the middle.
    """
    last, both_ways = block.pp - 1, block.structure.schedule in BOTH_WAYS
    far = block.pp / 2.0 if both_ways else np.maximum(last - 1, 0.0)
    ranks = (0.0, last, np.minimum(last, 1.0), far)
    first, end, second, late = (summed(*_of_rank(count, block, before, rank)) for rank in ranks)
    middle = np.maximum(second, late) if most else np.minimum(second, late)
    held = PerStage(first, middle, end)
    return held.each(lambda layers: layers / 2.0) if both_ways else held


def leading_of_stages(count: Number, block: Block, before: Before) -> tuple[Number, Number]:
    """Leading layers in the first and the last stage, which one rank of a bidirectional pipeline both runs."""
    last = block.pp - 1
    return _of_chunk(count, before, 0.0), _of_chunk(count, before, last)


def _of_rank(count: Number, block: Block, before: Before, rank: Number) -> Iterator[Number]:
    """Leading layers in each chunk of a rank; in a bidirectional pipeline in its stage of each direction."""
    schedule, back = block.structure.schedule, block.pp - 1 - rank
    yield _of_chunk(count, before, rank)
    if schedule in FOLDED:
        yield _of_chunk(count, before, block.pp + back)
    elif schedule in BOTH_WAYS:
        yield _of_chunk(count, before, back)
    else:
        for turn in range(1, int(count)):  # a layer or more in every chunk before
            if np.any(block.vpp > turn):
                stage = float(turn) * block.pp + rank
                yield np.where(block.vpp > turn, _of_chunk(count, before, stage), 0.0)


def _of_chunk(count: Number, before: Before, stage: Number) -> Number:
    start = before(stage)
    return leading_layers(count, start, before(stage + 1) - start)
