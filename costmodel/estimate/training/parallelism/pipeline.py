"""Layers of the first, a middle and the last pipeline rank for each split."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeGuard, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.model import Layers, Model
from costmodel.equations.parallelism.counts import layers_per_stage, remainder
from costmodel.equations.parallelism.pipeline import (
    cut_before,
    full_chunk_layers,
    in_flight,
    later_schedule_time,
    layers_beside_ends,
    layers_between,
    leading_layers,
    live_micro_batches,
    pipeline_time,
    spread_before,
    spread_layers,
    stated_before,
)
from costmodel.equations.run.economics import share
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.plan_batch import (
    PASS_TERMS,
    SPLIT,
    Block,
    ForwardBackward,
    PerStage,
    largest,
    memoized,
    nothing,
    same_on_all_stages,
    summed,
    value_of_largest,
)
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.counts import LaterSchedule, PlainSchedule, Schedule
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.record import record

# Requirements of each pipeline schedule: chunks, micro-batches, positions of embedding and head, copies of weights.

Lying = Literal["straight", "looped", "folded", "both ways"]


@record
class ScheduleShape:
    """The layout of a schedule's chunks over the ranks, and the micro-batches that it needs.

    folded: two chunks in a V; the first rank holds embedding and head. both ways: two copies of the weights; the first
    and the last rank hold embedding and head. least: minimum of micro-batches, as a multiple of the stages less a
    constant; they come in units. forwards_first: every forward runs before the first backward.
    """

    lying: Lying
    least: tuple[float, float] = (0.0, 0.0)
    unit: Literal["one", "two", "as many as stages"] = "one"
    forwards_first: bool = False


FORMS: dict[Schedule, ScheduleShape] = {
    "gpipe": ScheduleShape("straight", forwards_first=True),
    "1f1b": ScheduleShape("straight"),
    "interleaved": ScheduleShape("looped", unit="as many as stages"),
    "looped-bfs": ScheduleShape("looped", least=(1.0, 0.0), forwards_first=True),
    "zb-h1": ScheduleShape("straight", least=(1.0, 0.0)),
    "zb-h2": ScheduleShape("straight", least=(2.0, 1.0)),
    "zb-v": ScheduleShape("folded", least=(2.0, 1.0)),
    "v-half": ScheduleShape("folded", least=(2.0, 0.0)),
    "v-min": ScheduleShape("folded", least=(2.0, 0.0)),
    "dualpipev": ScheduleShape("folded", least=(2.0, 0.0)),
    "dualpipe": ScheduleShape("both ways", least=(2.0, 0.0), unit="two"),
    "chimera": ScheduleShape("both ways", unit="as many as stages"),
}


def _schedules_with_layout(how: Lying) -> tuple[Schedule, ...]:
    """The schedules whose chunks lie on the ranks in this way."""
    return tuple(schedule for schedule, form in FORMS.items() if form.lying == how)


PLAIN: tuple[PlainSchedule, ...] = get_args(PlainSchedule)
LOOPED, FOLDED, BOTH_WAYS = (
    _schedules_with_layout("looped"),
    _schedules_with_layout("folded"),
    _schedules_with_layout("both ways"),
)


def summed_once(inputs: TrainingInputs, block: Block) -> NDArray[np.bool_]:
    """Rows whose gradients stay unsharded until the last micro-batch, as with PyTorch FSDP in a pipeline."""
    return np.asarray((block.pp > 1) & inputs.stack.states.sharded_master)


def is_plain_schedule(schedule: Schedule) -> TypeGuard[PlainSchedule]:
    """Whether a schedule has undivided backward passes in one direction, in Megatron's order."""
    return schedule in PLAIN


def is_later_schedule(schedule: Schedule) -> TypeGuard[LaterSchedule]:
    """Whether a schedule splits backward, folds the pipeline, or runs bidirectional or breadth-first."""
    return schedule not in PLAIN


def weight_replication(schedule: Schedule) -> float:
    """Copies of a stage's weights: 2 in a bidirectional pipeline, else 1."""
    return 2.0 if schedule in BOTH_WAYS else 1.0


def chunks_fit(schedule: Schedule, vpp: float) -> bool:
    """Whether a schedule allows this number of chunks."""
    if schedule in LOOPED:
        return vpp > 1
    return vpp == (2 if schedule in FOLDED else 1)


def has_wrong_chunks(block: Block) -> NDArray[np.bool_]:
    """Rows whose pp or vpp the schedule does not allow."""
    schedule, pp, vpp = block.structure.schedule, block.pp, block.vpp
    if schedule in LOOPED:
        return np.asarray((pp < 2) | (vpp < 2))
    wrong = vpp != (2 if schedule in FOLDED else 1)
    if is_later_schedule(schedule):
        wrong = wrong | (pp < 2)
    if schedule in BOTH_WAYS:
        wrong = wrong | (remainder(pp, 2.0) != 0)
    return np.asarray(wrong)


def fewest_micro_batches(schedule: Schedule, pp: Number) -> Number:
    """Minimum of micro-batches for a schedule and a number of stages."""
    times, less = FORMS[schedule].least
    return times * pp - less


def has_wrong_micro_batches(block: Block, micro_batches: Number) -> NDArray[np.bool_]:
    """Rows with too few micro-batches for the schedule, or not a whole number of its units."""
    schedule, pp = block.structure.schedule, block.pp
    few, unit = micro_batches < fewest_micro_batches(schedule, pp), FORMS[schedule].unit
    if unit == "one":
        return np.asarray(few)
    return np.asarray(few | (remainder(micro_batches, 2.0 if unit == "two" else pp) != 0))


def live_on_stage(block: Block, micro_batches: Number, stage: Number) -> Number:
    """Micro-batches in flight on a stage; with one stage, each backward directly follows its forward."""
    schedule, pp = block.structure.schedule, block.pp
    if is_plain_schedule(schedule):
        held = in_flight(pp, micro_batches, block.vpp, stage, schedule=schedule)
        return np.where(pp == 1, 1.0, held) if schedule == "gpipe" else held
    assert is_later_schedule(schedule)
    return live_micro_batches(pp, micro_batches, schedule=schedule)


def forwards_first(schedule: Schedule) -> bool:
    """Whether every forward runs before the first backward."""
    return FORMS[schedule].forwards_first


def boundary_parameters(schedule: Schedule, embedding: Number, head: Number) -> tuple[Number, Number]:
    """Work of embedding and head on the first and on the last rank; in a bidirectional pipeline each has half."""
    if schedule in FOLDED:
        return embedding + head, 0.0 * head
    if schedule in BOTH_WAYS:
        half = 0.5 * (embedding + head)
        return half, half
    return embedding, head


def holds_embedding_and_head(schedule: Schedule, position: int) -> tuple[bool, bool]:
    """Whether the first, a middle or the last rank holds the embedding, and the head."""
    if schedule in BOTH_WAYS:
        return position != 1, position != 1
    return position == 0, position == (0 if schedule in FOLDED else 2)


def head_holder(block: Block, held: Number, position: int) -> Number:
    """The amount `held` if the rank at this position has the head, else 0."""
    _, at_last = holds_embedding_and_head(block.structure.schedule, position)
    return held if at_last else np.where(block.pp == 1, held, 0.0)


def separate_embedding_and_head(schedule: Schedule) -> bool:
    """Whether embedding and head are on different stages."""
    return FORMS[schedule].lying in ("straight", "looped")


def updated_parameters(block: Block, held: Number) -> Number:
    """Parameters that one replica's optimizer updates; of two copies of weights, a sharded optimizer updates one."""
    copies = weight_replication(block.structure.schedule)
    return held / copies if copies > 1 and block.structure.zero >= 1 else held


T = TypeVar("T")
_UNEVEN = {  # not divided like that
    *itertools.product(["stated"], FOLDED),
    *itertools.product(["spread"], BOTH_WAYS),
    *itertools.product(["full-chunks"], (*FOLDED, *BOTH_WAYS)),
}
SLOTS = {"even": (0.0, 0.0), "lighter-ends": (1.0, 1.0), "lighter-first": (1.0, 0.0), "lighter-last": (0.0, 1.0)}


def _only_experts_in(model: Model) -> str | None:
    """Whether experts are only in the leading layers (`leading`) or only in the other layers (`others`); else None."""
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
        return share(self._count_of_kind(model, kind, held, self.leading[position]), whole)

    def _count_of_kind(self, model: Model, kind: Layers, held: Number, ahead: Number) -> Number:
        """Layers of a kind among the given number of layers, `ahead` of which are leading layers."""
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
        return self._count_of_kind(model, kind, first, ahead), self._count_of_kind(model, kind, last, behind)

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
        values = [mixed(position) for position in self.positions]
        return PerStage(*values) if len(values) == 3 else same_on_all_stages(*values)

    def on_fullest(self, model: Model, kind: Layers) -> Number:
        """Layers of one kind on the rank with most layers.

        If only one side has experts, on the rank with most of that side.
        """
        if self.leading is None:
            return self.of_kind(model, kind, self.fullest, 1)
        alone = _only_experts_in(model)
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
        held = _layers_per_rank(layers, block)
        if not model.layers[0].leading:
            return held
        count, before = model.layers[0].count, layers_before(held, block)
        first, middle, last = leading_per_rank(count, block, before, most=_only_experts_in(model) == "leading")
        two = np.where(held.first <= held.last, first, last)  # whose layers the middle stands for
        leading = PerStage(first, np.where(block.pp < 3, two, np.minimum(middle, held.middle)), last)
        if block.structure.schedule not in BOTH_WAYS:
            return replace(held, leading=leading)
        stages, ends = held.mirrored or (held.first, held.last), leading_per_end_stage(count, block, before)
        return replace(held, leading=leading, mirrored=stages, mirrored_leading=ends)


def _layers_per_rank(layers: Number, block: Block) -> StageLayers:
    """The number of layers of each rank, whatever their kinds."""
    if block.structure.split == "stated":
        return _stated_end_layers(layers, block)
    if block.structure.split == "spread":
        return _spread_layers(layers, block)
    whole, ahead, behind = _middle_layers(layers, block)
    if not np.any(ahead) and not np.any(behind):
        return StageLayers(layers, whole, whole, whole)
    return _with_end_layers(
        block, layers, whole, *end_layers_of_schedule(block.structure.schedule, whole, ahead, behind)
    )


def _middle_layers(layers: Number, block: Block) -> tuple[Number, Number, Number]:
    """Layers of a middle rank, and how many fewer the first and the last chunk have."""
    if block.structure.split == "full-chunks":
        chunk, missing = _full_chunk_layers(layers, block)
        behind = np.minimum(missing, chunk)
        return block.vpp * chunk, missing - behind, behind
    first, last = fewer_at_ends(layers, block)
    if not np.any(first) and not np.any(last):
        return layers_per_stage(layers, block.pp), 0.0, 0.0
    return layers_beside_ends(layers, block.pp, first + last), first, last


def _full_chunk_layers(layers: Number, block: Block) -> tuple[Number, Number]:
    """Layers of a full chunk, and how many layers are missing to fill all chunks."""
    chunk = full_chunk_layers(layers, block.pp, block.vpp)
    return chunk, block.pp * block.vpp * chunk - layers


def layers_before(held: StageLayers, block: Block) -> Before:
    """A function from a chunk's position in the model to the number of layers before that chunk."""
    layers, sizes = held.total, (block.pp, block.vpp)
    if block.structure.split == "stated":
        first, _ = held.mirrored or (held.first, held.last)
        return lambda stage: stated_before(layers, *sizes, first, held.middle, stage)
    if block.structure.split == "spread":
        return lambda stage: spread_before(layers, *sizes, stage)
    whole, ahead, _ = _middle_layers(layers, block)
    return lambda stage: cut_before(whole / block.vpp, ahead, stage)


def end_layers_of_schedule(schedule: Schedule, middle: Number, first: Number, last: Number) -> tuple[Number, Number]:
    """Layers of the first and the last rank (or stage, if bidirectional) when the first and last chunk have fewer."""
    fewer_first, fewer_last = (first, last) if schedule in BOTH_WAYS else boundary_parameters(schedule, first, last)
    return middle - fewer_first, middle - fewer_last


def _with_end_layers(block: Block, layers: Number, middle: Number, first: Number, last: Number) -> StageLayers:
    """Layers of the ranks if first and last differ from those between."""
    if block.structure.schedule not in BOTH_WAYS:
        return StageLayers(layers, first, np.where(block.pp < 3, np.minimum(first, last), middle), last)
    mean = (first + last) / 2.0
    return StageLayers(layers, mean, np.where(block.pp < 3, mean, middle), mean, (first, last))


def fewer_at_ends(layers: Number, block: Block) -> tuple[Number, Number]:
    """Layers that the first and the last chunk hold less than the others, by row.

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


def _stated_end_layers(layers: Number, block: Block) -> StageLayers:
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
    return _with_end_layers(
        block, layers, *(np.where(pp == 1, layers, held) for held in (middle, first_layers, last_layers))
    )


def _spread_layers(layers: Number, block: Block) -> StageLayers:
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
        chunk, missing = _full_chunk_layers(layers, block)
        return np.asarray(missing >= chunk + chunk)
    if split == "stated":
        held = _stated_end_layers(layers, block)
        first, last = held.mirrored or (held.first, held.last)
        wrong = (block.pp == 1) | (block.pp == 2) & (first + last != layers)
        for part in (first, np.where(block.pp < 3, first, held.middle), last):
            wrong = wrong | (remainder(part, block.vpp) != 0) | (part <= 0)
        return np.asarray(wrong)
    first, last = fewer_at_ends(layers, block)
    return np.asarray(remainder(layers + first + last, chunks) != 0)


Before = Callable[[Number], Number]  # layers of the model before a chunk, by its position


def leading_per_rank(count: Number, block: Block, before: Before, *, most: bool) -> PerStage[Number]:
    """Leading layers on the first rank, on the middle rank with most or fewest, and on the last rank.

    Fewer of them are held further from the input: the second rank holds most, the last but one fewest. A bidirectional
    pipeline has the fewest in the middle.
    """
    last, both_ways = block.pp - 1, block.structure.schedule in BOTH_WAYS
    far = block.pp / 2.0 if both_ways else np.maximum(last - 1, 0.0)
    ranks = (0.0, last, np.minimum(last, 1.0), far)
    first, end, second, late = (summed(*_leading_in_chunks(count, block, before, rank)) for rank in ranks)
    middle = np.maximum(second, late) if most else np.minimum(second, late)
    per_stage = PerStage(first, middle, end)
    return per_stage.each(lambda layers: layers / 2.0) if both_ways else per_stage


def leading_per_end_stage(count: Number, block: Block, before: Before) -> tuple[Number, Number]:
    """Leading layers in the first and the last stage, which one rank of a bidirectional pipeline both runs."""
    last = block.pp - 1
    return _layers_of_chunk(count, before, 0.0), _layers_of_chunk(count, before, last)


def _leading_in_chunks(count: Number, block: Block, before: Before, rank: Number) -> Iterator[Number]:
    """Dense-first layers in each chunk of a rank; of both directions in a bidirectional pipeline."""
    schedule, back = block.structure.schedule, block.pp - 1 - rank
    yield _layers_of_chunk(count, before, rank)
    if schedule in FOLDED:
        yield _layers_of_chunk(count, before, block.pp + back)
    elif schedule in BOTH_WAYS:
        yield _layers_of_chunk(count, before, back)
    else:
        for turn in range(1, int(count)):  # a layer or more in every chunk before
            if np.any(block.vpp > turn):
                stage = float(turn) * block.pp + rank
                yield np.where(block.vpp > turn, _layers_of_chunk(count, before, stage), 0.0)


def _layers_of_chunk(count: Number, before: Before, stage: Number) -> Number:
    start = before(stage)
    return leading_layers(count, start, before(stage + 1) - start)


# The critical path of a pipeline: the time of its step, and the time of its busiest rank by category.

Part = Callable[[ForwardBackward], Number]


@record
class Rank:
    """Work of one rank for one micro-batch: its layers, and embedding or head, or both on a single rank."""

    layers: Number
    layer: ForwardBackward
    ends: ForwardBackward
    all_ends: ForwardBackward
    only: Any

    @functools.cached_property
    def forward(self) -> Number:
        """Seconds of a micro-batch's forward pass on this rank."""
        with term("forward"):
            return self.of(lambda both: both.forward.total)

    @functools.cached_property
    def backward(self) -> Number:
        """Seconds of a micro-batch's backward pass on this rank."""
        with term("backward"):
            return self.of(lambda both: both.backward.total)

    @functools.cached_property
    def total(self) -> Number:
        """Seconds of a micro-batch's forward and backward pass on this rank."""
        return self.forward + self.backward

    @functools.cached_property
    def deferred(self) -> Number:
        """The part of backward that a schedule can defer."""
        with term("weight gradient"):
            return self.of(lambda both: both.deferred)

    def of(self, part: Part) -> Number:
        """Seconds of one category on this rank: its layers, and embedding or head."""
        return summed(self.of_layers(part), known_as("its ends", self.of_ends(part)))

    def of_layers(self, part: Part) -> Number:
        """A part of the time of all layers."""
        each = part(self.layer)
        if nothing(each):
            return each
        with term("its layers"):
            return self.layers * each

    def of_ends(self, part: Part) -> Number:
        """Seconds of one category for embedding and head."""
        return _where_set(self.only, part(self.all_ends), part(self.ends))


def pipeline_seconds(inputs: TrainingInputs, block: Block, micro_batches: Number, ranks: PerStage[Rank]) -> Number:
    """Seconds from the first forward to the last backward."""
    schedule = block.structure.schedule
    first, middle, last = ranks
    if is_plain_schedule(schedule):
        times = [time for rank in ranks for time in (rank.forward, rank.backward)]
        return pipeline_time(block.pp, micro_batches, block.vpp, *times, schedule=schedule)
    assert is_later_schedule(schedule)
    busiest = largest(first.total, middle.total, last.total)
    if schedule == "looped-bfs":
        busiest = np.maximum(first.total, middle.total) + np.maximum(last.total - middle.total, 0.0)
    return later_schedule_time(
        block.pp,
        micro_batches,
        block.vpp,
        busiest,
        middle.forward,
        middle.backward - middle.deferred,
        middle.deferred,
        schedule=schedule,
        synchronous=not inputs.stack.post_validation,
    )


def busiest_rank(ranks: Sequence[Rank], micro_batches: Number) -> tuple[dict[str, Number], Number]:
    """Seconds of the busiest rank in a step, by category and in total."""
    slowest, slower = ranks[0].total, []
    for rank in ranks[1:]:
        slower.append(rank.total >= slowest)
        slowest = np.where(slower[-1], rank.total, slowest)
    shares = {name: _on_slowest_rank(ranks, slower, _category_seconds(name)) for name in PASS_TERMS}
    with term("busiest stage"):
        terms = {name: each if nothing(each) else micro_batches * each for name, each in shares.items()}
        return terms, micro_batches * slowest


def _on_slowest_rank(ranks: Sequence[Rank], slower: Sequence[Any], part: Part) -> Number:
    """A part of the time on the slowest rank; evaluated once if all ranks have the same layers."""
    first, *others = ranks
    if all(rank.layers is first.layers and rank.layer is first.layer for rank in others):
        ends = _value_of_slowest(slower, [rank.of_ends(part) for rank in ranks])
        return summed(first.of_layers(part), known_as("its ends", ends))
    return _value_of_slowest(slower, [rank.of(part) for rank in ranks])


def _value_of_slowest(slower: Sequence[Any], values: Sequence[Number]) -> Number:
    """The value that belongs to the slowest rank; if several ranks are equal, the last of them."""
    latest = values[0]
    for mask, value in zip(slower, values[1:], strict=True):
        latest = _where_set(mask, value, latest)
    return latest


def _where_set(mask: Any, one: Number, other: Number) -> Number:
    """`np.where`, but 0 if both values are unset."""
    return other if one is other or (nothing(one) and nothing(other)) else np.where(mask, one, other)


@functools.cache
def _category_seconds(name: str) -> Part:
    return lambda both: summed(getattr(both.forward, name), getattr(both.backward, name))
