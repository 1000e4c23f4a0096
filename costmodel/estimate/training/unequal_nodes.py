"""Nodes of several kinds in one job: the share of each replica, the layers of each pipeline stage, and the slowest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.unequal import (
    balanced_share,
    balanced_time,
    fixed_work,
    layers_as_long,
    layers_in_memory,
    memory_of_another,
    time_beside_layers,
    time_of_another,
    whole_shares,
)
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.memory_breakdown import ledger
from costmodel.estimate.training.parallelism.pipeline import StageLayers, stage_layers
from costmodel.estimate.training.plan_constraints import micro_batches, replicas_on_nodes, stages_on_nodes
from costmodel.estimate.training.stage_parameters import stage_parameters
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training.training_step import training_step
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

# --- nodes of several kinds in one job: the share of each replica, and the time of the slowest


FULLEST = ("memory_peak", "memory_share", "memory_free", "fit_chance", "host_memory", "host_share")
LEAST = 1.0  # micro-batches of a replica


def micro_batches_of_groups(inputs: TrainingInputs, block: Block) -> list[Number]:
    """Micro-batches of a replica on each kind of node: equal, or the whole numbers with the shortest step."""
    equal = micro_batches(inputs, block)
    if block.structure.shares == "equal":
        return [equal for _ in inputs.groups]
    with term("groups"):
        replicas = [replicas_on_nodes(inputs, block, nodes) for nodes, _ in inputs.groups]
        whole = equal * block.dp
        speeds, fixed = zip(*(_micro_batch_rate(kind, block, equal) for _, kind in inputs.groups), strict=True)
        together = sum((count * speed for count, speed in zip(replicas, speeds, strict=True)), start=0.0)
        late = [fixed_work(*pace) for pace in zip(speeds, fixed, strict=True)]
        done = [count * work for count, work in zip(replicas, late, strict=True)]
        time = balanced_time(whole, together, sum(done, start=0.0))
        shares = [np.floor(balanced_share(speed, time, rest)) for speed, rest in zip(speeds, fixed, strict=True)]
        return _shares_in_micro_batches([np.maximum(share, LEAST) for share in shares], replicas, whole, speeds, fixed)


def _micro_batch_rate(inputs: TrainingInputs, block: Block, count: Number) -> tuple[Number, Number]:
    """Micro-batches per second of a replica, and the fixed time of a step [s], from two numbers of micro-batches."""
    twice = 2.0 * count
    once_time, twice_time = (_step_time(inputs, block, each) for each in (count, twice))
    speed = count / (twice_time - once_time)
    return speed, np.maximum(once_time - (twice_time - once_time), 0.0)


def _step_time(inputs: TrainingInputs, block: Block, count: Number) -> Number:
    layers = stage_layers(inputs.model, block)
    return training_step(inputs, block, layers, stage_parameters(inputs, block, layers), count).total


def _shares_in_micro_batches(
    shares: list[Number], replicas: Sequence[Number], total: Number, speeds: Sequence[Number], fixed: Sequence[Number]
) -> list[Number]:
    """Micro-batches of a replica on each kind of node, as whole numbers that add up to the batch.

    The kind that would finish next gets one more on each replica. Rounding down leaves less than one micro-batch of
    each replica, so a pass for each kind and one more are enough.
    """
    for _ in range(len(shares) + len(shares)):
        held = sum((count * share for count, share in zip(replicas, shares, strict=True)), start=0.0)
        ends = [late + (share + 1.0) / speed for share, speed, late in zip(shares, speeds, fixed, strict=True)]
        first = ends[0]
        for end in ends[1:]:
            first = np.minimum(first, end)
        lacks = held < total
        given, more = np.zeros(np.shape(first), dtype=bool), list[Number]()
        for share, end in zip(shares, ends, strict=True):
            takes = lacks & (end == first) & ~given
            given = given | takes
            more.append(share + np.where(takes, 1.0, 0.0))
        shares = more
    return shares


def results_of_slowest(columns: Sequence[Mapping[str, Number]]) -> dict[str, Number]:
    """The results of the kind of node that ends last, row by row; memory results of the kind with the highest share."""
    slowest = dict(columns[0])
    for other in columns[1:]:
        later = np.asarray(other["step_time"]) > np.asarray(slowest["step_time"])
        fuller = np.asarray(other["memory_share"]) > np.asarray(slowest["memory_share"])
        slowest = {
            name: np.where(fuller if name in FULLEST else later, other[name], value) for name, value in slowest.items()
        }
    return slowest


# --- pipelines across nodes of several kinds: the layers of each stage, and the ranks on each kind


CROSSED_BY_STAGES = frozenset({"pp"})
_NONE = 1e-6  # layers of a rank that is left out of a comparison


@record
class KindStages:
    """Layers of each kind of node: for the time of the whole pipeline, and for the memory of its own stages.

    stages: layers of each of its own stages, plan by plan
    """

    timed: StageLayers
    held: StageLayers
    stages: tuple[tuple[int, ...], ...]

    @property
    def own(self) -> tuple[int, ...]:
        """Positions among first, middle and last rank that lie on this kind of node, in the first plan."""
        ranks = (self.held.first, self.held.middle, self.held.last)
        return tuple(position for position, layers in enumerate(ranks) if np.ravel(layers)[0] > _NONE)


@record
class _KindTimes:
    """Seconds of a micro-batch on a kind of node, plan by plan: of a layer, of the rest of a stage, and of the head.

    most: how many layers fit in the memory of a rank
    """

    layer: NDArray[np.float64]
    stage: NDArray[np.float64]
    head: NDArray[np.float64]
    most: NDArray[np.float64]


def inputs_over_stages(inputs: TrainingInputs) -> TrainingInputs:
    """The inputs with groups that hand over pipeline stages; data-parallel traffic stays inside each group."""
    kinds = ((nodes, replace(kind, crossing=CROSSED_BY_STAGES)) for nodes, kind in inputs.groups)
    return replace(inputs, groups=tuple(kinds))


def stages_of_groups(inputs: TrainingInputs, block: Block) -> list[KindStages]:
    """The layers on each kind of node of a job, as its groups are placed."""
    return kinds_of_stages(inputs_over_stages(inputs), block, micro_batches(inputs, block))


def kinds_of_stages(inputs: TrainingInputs, block: Block, count: Number) -> list[KindStages]:
    """The layers on each kind of node that make the slowest stage as fast as whole layers allow."""
    with term("stages of groups"):
        paces = [_times_of_kind(kind, block, count) for _, kind in inputs.groups]
        counts = [_one_per_plan(stages_on_nodes(inputs, block, nodes), block) for nodes, _ in inputs.groups]
    kinds = [[place for place, each in enumerate(counts) for _ in range(int(each[row]))] for row in range(len(block))]
    total = int(float(layer_count(inputs.model)))
    layers = [_stage_layer_counts(total, paces, on, row) for row, on in enumerate(kinds)]
    return [_stages_as_kind(inputs, paces, kinds, layers, place) for place in range(len(paces))]


def _one_per_plan(amount: Number, block: Block) -> NDArray[np.float64]:
    return np.broadcast_to(np.asarray(amount, dtype=np.float64), (len(block),))


def _stage_layers(inputs: TrainingInputs, first: Number, middle: Number, last: Number) -> StageLayers:
    return StageLayers(layer_count(inputs.model), first, middle, last)


def _micro_batch_seconds(inputs: TrainingInputs, block: Block, count: Number, layers: StageLayers) -> Number:
    """Time that one more micro-batch adds to a pipeline."""
    parameters = stage_parameters(inputs, block, layers)
    one, two = (training_step(inputs, block, layers, parameters, each).total for each in (count, 2.0 * count))
    return time_of_another(one, two, count)


def _times_of_kind(inputs: TrainingInputs, block: Block, count: Number) -> _KindTimes:
    """Times and memory of a layer and a stage on one kind of node, from evaluations with two numbers of layers."""
    some = layer_count(inputs.model)
    none, many = _NONE * some, some + some
    one, two = (
        _micro_batch_seconds(inputs, block, count, _stage_layers(inputs, each, each, none)) for each in (some, many)
    )
    layer = time_of_another(one, two, some)
    head = _micro_batch_seconds(inputs, block, count, _stage_layers(inputs, none, none, some)) - one
    equal = [_stage_layers(inputs, each, each, each) for each in (some, many)]
    less, more = (
        ledger(inputs, block, layers, stage_parameters(inputs, block, layers), count).worst for layers in equal
    )
    most = layers_in_memory(some, less, memory_of_another(less, more, some), inputs.usable_memory)
    figures = (layer, time_beside_layers(one, some, layer), np.maximum(head, 0.0), most)
    return _KindTimes(*(_one_per_plan(figure, block) for figure in figures))


def _stage_layer_counts(total: int, paces: Sequence[_KindTimes], kinds: Sequence[int], row: int) -> list[int]:
    """Layers of every pipeline stage in one plan."""
    if not kinds:
        return []
    speeds = np.array([1.0 / paces[kind].layer[row] for kind in kinds])
    fixed = np.array([paces[kind].stage[row] for kind in kinds])
    fixed[-1] += paces[kinds[-1]].head[row]
    caps = np.array([paces[kind].most[row] for kind in kinds])
    if caps.sum() < total:  # nothing fits: by speed alone, and refused for its memory
        caps = np.full(len(kinds), float(total))
    return [int(each) for each in whole_shares(total, speeds, fixed, caps, 1)]


def _stages_as_kind(
    inputs: TrainingInputs,
    paces: Sequence[_KindTimes],
    kinds: Sequence[Sequence[int]],
    layers: Sequence[Sequence[int]],
    place: int,
) -> KindStages:
    """The first, a middle and the last rank of each plan, converted to one kind of node."""
    timed, held, own = [], [], []
    for row, (on, each) in enumerate(zip(kinds, layers, strict=True)):
        timed.append(_rank_layers([_equivalent_layers(paces, row, place, at, on, each) for at in range(len(on))]))
        held.append(
            _rank_layers([float(count) if kind == place else _NONE for kind, count in zip(on, each, strict=True)])
        )
        own.append(tuple(count for kind, count in zip(on, each, strict=True) if kind == place))
    of_time, of_memory = (_stage_layers(inputs, *np.array(rows).T) for rows in (timed, held))
    return KindStages(of_time, of_memory, tuple(own))


def _equivalent_layers(
    paces: Sequence[_KindTimes], row: int, place: int, at: int, kinds: Sequence[int], layers: Sequence[int]
) -> float:
    """Number of layers on one kind of node that take as long as a stage takes on its own kind."""
    own, other = paces[place], paces[kinds[at]]
    apart = other.stage[row] - own.stage[row]
    if at == len(kinds) - 1:
        apart = apart + other.head[row] - own.head[row]
    return max(float(layers_as_long(float(layers[at]), other.layer[row], apart, own.layer[row])), _NONE)


def _rank_layers(layers: Sequence[float]) -> tuple[float, float, float]:
    """Layers of the first, the most loaded middle and the last rank; with two ranks the smaller one is the middle."""
    if not layers:
        return _NONE, _NONE, _NONE
    between = max(layers[1:-1]) if len(layers) > 2 else min(layers)
    return layers[0], between, layers[-1]
