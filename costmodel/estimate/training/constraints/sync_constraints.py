"""Constraints of ways to synchronise weights other than an all-reduce."""

from __future__ import annotations

import numpy as np

from costmodel.documents.schemas.compression import codec_of
from costmodel.documents.schemas.sync import USUAL, sync_of
from costmodel.estimate.shared.masks import Mask, all_if, none
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.data.codecs import SCATTERED
from costmodel.estimate.training.training_inputs import TrainingInputs

STALE = ("async", "stale")


def not_asynchronous(inputs: TrainingInputs, block: Block) -> Mask:
    """Replicas that cannot continue without each other."""
    structure = block.structure
    if sync_of(structure.sync).way not in STALE:
        return none(block)
    law = inputs.case.scenario.workload.critical_batch is not None
    return np.asarray((block.pp > 1) | (block.dp == 1) | (structure.zero > 0) | law)


def not_served(inputs: TrainingInputs, block: Block) -> Mask:
    """Gradients that servers cannot sum, and more replicas to wait for than there are."""
    structure = block.structure
    sync, method = sync_of(structure.sync), codec_of(structure.compression).method
    if structure.sync == USUAL:
        return none(block)
    coded = method != "none" and method not in SCATTERED
    awaited = sync.number > block.dp if sync.way == "first" else none(block)
    sharded = sync.way not in STALE and structure.zero > 0
    return np.asarray(awaited | coded | sharded)


def speed_alone(block: Block) -> Mask:
    """Plans that may need more steps; by how many is not modelled."""
    return all_if(block, sync_of(block.structure.sync).way in (*STALE, "first"))
