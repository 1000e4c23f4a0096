"""What a failed node takes from a job: the replicas with ranks on it, and the ranks on which a job continues."""

from __future__ import annotations

import numpy as np

from costmodel.equations.parallelism.counts import common_divisor, world_ranks
from costmodel.equations.run.failures import most_replicas_on_node, ranks_of_whole_replicas, replicas_on_node
from costmodel.estimate.machine.process_groups import strides
from costmodel.estimate.shared.plan_batch import Block, Mask
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term


def replicas_with_all_experts(block: Block, neighbours: Number) -> Number:
    """Replicas that together store all experts, where so many ranks of a stage are neighbours in a replica."""
    experts = block.ep * block.etp
    return experts / common_divisor(neighbours, experts)


def replicas_with_all_states(block: Block) -> Number:
    """Replicas that together store all states, so that none can continue without the others."""
    if block.structure.zero >= 1:
        return block.dp / block.dp_replicate
    neighbours = block.tp if block.structure.order == "tp-dp-cp-pp" else block.tp * block.cp
    return np.minimum(replicas_with_all_experts(block, neighbours), block.dp)


def whole_replicas(block: Block) -> Number:
    """Number of complete copies of all states: HSDP replicas if states are sharded, else replicas with all experts."""
    return np.floor(block.dp / replicas_with_all_states(block))


def replicas_lost(inputs: TrainingInputs, block: Block) -> Number:
    """Complete copies of the states lost with a failed node, averaged over nodes."""
    with term("failed node"):
        return replicas_on_node(inputs.case.node.accelerators, copy_stride(block))


def most_replicas_lost(inputs: TrainingInputs, block: Block) -> Number:
    """Complete copies of the states lost with the worst node."""
    return most_replicas_on_node(inputs.case.node.accelerators, copy_stride(block))


def copy_stride(block: Block) -> Number:
    """Distance in ranks from the first rank of a complete copy of the states to the first rank of the next copy."""
    return strides(block)["dp"] * replicas_with_all_states(block)


def replicas_of_the_job(inputs: TrainingInputs, block: Block) -> Number:
    """Complete copies of the states, scaled up as if nodes with engines trained too.

    A failed node takes the same share of a job from its trainers or from its engines.
    """
    trained = world_ranks(block.dp, block.tp, block.cp, block.pp)
    return whole_replicas(block) * (inputs.ranks / trained)


def replica_ranks(block: Block) -> Number:
    """Ranks that can only continue together after a restart: of a replica, or of all replicas that share experts."""
    ranks = block.tp * block.cp * block.pp
    return ranks * replicas_with_all_experts(block, block.tp * block.cp)


def continues(inputs: TrainingInputs, block: Block, ranks: float) -> Mask:
    """Whether the job can continue on `ranks` ranks: whole replicas on whole nodes, with at least one node fewer."""
    per_node = inputs.case.node.accelerators
    nodes = np.ceil(ranks / per_node)
    whole = ranks_of_whole_replicas(nodes, per_node, replica_ranks(block)) == ranks
    return np.asarray(whole & (nodes < inputs.ranks / per_node))


def nearest_ranks(inputs: TrainingInputs, block: Block, ranks: float) -> list[float]:
    """The nearest rank numbers, below and above, on which one plan's job can continue."""
    per_node, replica = float(inputs.case.node.accelerators), number(replica_ranks(block))
    left = float(inputs.ranks) / per_node - 1
    below = min(np.floor(ranks / per_node), left)
    above = np.ceil((np.floor(ranks / replica) + 1) * replica / per_node)
    sizes = (ranks_of_whole_replicas(nodes, per_node, replica) for nodes in (below, above) if nodes <= left)
    return [float(count) for count in sizes if count > 0]
