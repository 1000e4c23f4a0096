"""A checkpoint of a plan: its bytes, its pause of training, and the times to write and to load it."""

from __future__ import annotations

import math

from costmodel.equations.memory.offload import link_time
from costmodel.equations.run.checkpoints import (
    checkpoint_bytes,
    checkpoint_load_time,
    checkpoint_write_time,
    checkpoint_writers,
)
from costmodel.estimate.model.shards import counted_kinds, model_parameters, shard
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.run_inputs import RunInputs
from costmodel.estimate.training.lora import trained_in, trained_in_experts
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.record import record

COPIES = 4.0  # a node's own part and a peer's, of the last checkpoint and of the one that is being taken


@record
class Checkpoint:
    """Bytes of a job's checkpoint, and seconds to save and to load it.

    blocking: for which training stops; background: from then until it can be used; copy: of a rank's part to its host;
    on_host: memory of a node that copies take.
    """

    nbytes: Number
    blocking: Number
    background: Number
    load: Number
    copy: Number
    on_host: Number


def checkpoint(inputs: TrainingInputs, run: RunInputs, block: Block, models: float = 1.0) -> Checkpoint:
    """Size, times and host memory of a checkpoint of so many models, as the scenario saves it."""
    asked, nodes = run.checkpoint, inputs.case.scenario.cluster.nodes
    with term("checkpoint"):
        parameters = saved_parameters(inputs) if models == 1 else models * saved_parameters(inputs)
        nbytes = checkpoint_bytes(parameters, inputs.stack.states.weights, inputs.optimizer_state)
        writers = checkpoint_writers(inputs.ranks, block.dp, sharded=block.structure.zero >= 1)
        into = nodes * asked.node_write if asked.write is None else asked.write
        out = nodes * asked.node_read if asked.read is None else asked.read
        writer = into if asked.writer is None else asked.writer
        write = known_as("checkpoint_write", checkpoint_write_time(nbytes, writers, writer, into))
        load = checkpoint_load_time(nbytes, block.dp if asked.by_each_replica else 1.0, out)
        part = nbytes / writers
        copy = _copy_time(inputs, part)
    stop = copy + asked.overhead if asked.block is None else asked.block
    if asked.mode == "sync":
        return Checkpoint(nbytes, write if asked.block is None else asked.block, 0.0, load, copy, 0.0)
    with term("copies on the host"):
        of_node = inputs.case.node.accelerators * part
        on_host = COPIES * of_node if asked.mode == "memory" else of_node
    return Checkpoint(nbytes, stop, write, load, copy, on_host)


def _copy_time(inputs: TrainingInputs, nbytes: Number) -> Number:
    """Time of a copy to the host; 0 if no document states the speed of its link."""
    fabric, stated = inputs.case.host, inputs.case.scenario.assume.host_share
    if fabric is not None and fabric.copies is not None and stated is None:
        return link_time(nbytes, fabric.copies, 1.0)
    if math.isnan(inputs.host.link) or math.isnan(float(inputs.host.link_share)):
        return 0.0
    return link_time(nbytes, inputs.host.link, inputs.host.link_share)


def saved_parameters(inputs: TrainingInputs) -> Number:
    """Parameters whose states are saved: all of the model, or only the trained adapters."""
    if inputs.tuning is None:
        return model_parameters(inputs.model)
    total: Number = 0.0
    for kind, count in counted_kinds(inputs.model):
        part = shard(inputs.model, kind, 1.0)
        total = total + count * (trained_in(inputs, part) + trained_in_experts(inputs, part.routed))
    return total
