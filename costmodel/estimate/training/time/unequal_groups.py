"""Nodes of several kinds in one job: the share of each replica, and the time of the slowest.

Every kind is looked at as if all nodes were of it, with gradients over the slowest link of all; so replicas of unequal
kinds differ in their micro-batches alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from costmodel.equations.unequal.uneven_parts import balanced_share, balanced_time, fixed_work
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.pipeline import stage_layers
from costmodel.estimate.training.plan_constraints import micro_batches, replicas_of
from costmodel.estimate.training.stage_parameters import stage_parameters
from costmodel.estimate.training.time.step import training_step
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term

FULLEST = ("memory_peak", "memory_share", "memory_free", "fit_chance", "host_memory", "host_share")
LEAST = 1.0  # micro-batches of a replica


def micro_batches_of_groups(inputs: TrainingInputs, block: Block) -> list[Number]:
    """Micro-batches of a replica on each kind of node: equal, or the whole numbers with the shortest step."""
    equal = micro_batches(inputs, block)
    if block.structure.shares == "equal":
        return [equal for _ in inputs.groups]
    with term("groups"):
        replicas = [replicas_of(inputs, block, nodes) for nodes, _ in inputs.groups]
        whole = equal * block.dp
        speeds, fixed = zip(*(_pace(kind, block, equal) for _, kind in inputs.groups), strict=True)
        together = sum((count * speed for count, speed in zip(replicas, speeds, strict=True)), start=0.0)
        late = [fixed_work(*pace) for pace in zip(speeds, fixed, strict=True)]
        done = [count * work for count, work in zip(replicas, late, strict=True)]
        time = balanced_time(whole, together, sum(done, start=0.0))
        shares = [np.floor(balanced_share(speed, time, rest)) for speed, rest in zip(speeds, fixed, strict=True)]
        return _whole_shares([np.maximum(share, LEAST) for share in shares], replicas, whole, speeds, fixed)


def _pace(inputs: TrainingInputs, block: Block, count: Number) -> tuple[Number, Number]:
    """Micro-batches per second of a replica, and the fixed time of a step [s], from two numbers of micro-batches."""
    twice = 2.0 * count
    once_time, twice_time = (_step_time(inputs, block, each) for each in (count, twice))
    speed = count / (twice_time - once_time)
    return speed, np.maximum(once_time - (twice_time - once_time), 0.0)


def _step_time(inputs: TrainingInputs, block: Block, count: Number) -> Number:
    layers = stage_layers(inputs.model, block)
    return training_step(inputs, block, layers, stage_parameters(inputs, block, layers), count).total


def _whole_shares(
    shares: list[Number], replicas: Sequence[Number], total: Number, speeds: Sequence[Number], fixed: Sequence[Number]
) -> list[Number]:
    """Whole shares that add up to the total: the kind that would finish next gets one more on each replica.

    Rounding down leaves less than one micro-batch of each replica, so a pass for each kind and one more are enough.
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


def of_slowest(columns: Sequence[Mapping[str, Number]]) -> dict[str, Number]:
    """The results of the kind of node that ends last, row by row; memory results of the kind with the highest share."""
    slowest = dict(columns[0])
    for other in columns[1:]:
        later = np.asarray(other["step_time"]) > np.asarray(slowest["step_time"])
        fuller = np.asarray(other["memory_share"]) > np.asarray(slowest["memory_share"])
        slowest = {
            name: np.where(fuller if name in FULLEST else later, other[name], value) for name, value in slowest.items()
        }
    return slowest
