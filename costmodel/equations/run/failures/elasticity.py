"""Continuing with fewer replicas until a repair, or with work done twice, instead of restarting."""

from __future__ import annotations

import numpy as np

from costmodel.equations.parallelism.counts import common_divisor
from costmodel.ground.equation import Number, equation


@equation
def replicas_on_node(accelerators: Number, stride: Number) -> Number:
    """Replicas with ranks on one node, all of which its failure takes away, in the mean over nodes.

    1 + (n − gcd(n, s)) / s

    Args:
        accelerators: of a node, n [1]
        stride: from a replica to the next in the order of ranks, s [1]

    Returns:
        replicas, k [1]

    Example:
        >>> float(replicas_on_node(8.0, 1.0))
        8.0
        >>> round(float(replicas_on_node(8.0, 12.0)), 3)
        1.333

    Holds: exact where all ranks of all nodes are taken and more replicas exist than one node reaches

    Source:
        megatron-lm parallel_state.py; composition

    Pitfall:
        a pipeline outside the replicas leaves one stage of each on a node: with tp 2 and pp 4, a node of 8 has ranks of
        four replicas, although each of them has 8 ranks
    """
    return 1 + (accelerators - common_divisor(accelerators, stride)) / stride


@equation
def most_replicas_on_node(accelerators: Number, stride: Number) -> Number:
    """Replicas with ranks on that node which has ranks of the most.

    1 + ⌈(n − gcd(n, s)) / s⌉

    Args:
        accelerators: of a node, n [1]
        stride: from a replica to the next in the order of ranks, s [1]

    Returns:
        replicas [1]

    Example:
        >>> float(most_replicas_on_node(8.0, 12.0))
        2.0

    Holds: as replicas_on_node

    Source:
        megatron-lm parallel_state.py; composition
    """
    return 1 + np.ceil((accelerators - common_divisor(accelerators, stride)) / stride)


@equation
def ranks_of_whole_replicas(nodes: Number, accelerators: Number, replica_ranks: Number) -> Number:
    """Ranks of the whole replicas on so many nodes.

    ⌊m n / r⌋ r

    Args:
        nodes: on which the job continues, m [1]
        accelerators: of a node, n [1]
        replica_ranks: ranks of a replica, r [1]

    Returns:
        ranks [1]

    Example:
        >>> float(ranks_of_whole_replicas(5.0, 8.0, 12.0))
        36.0

    Source:
        composition

    Monotone: increasing in nodes
    """
    return np.floor(nodes * accelerators / replica_ranks) * replica_ranks


@equation
def restart_loss(restart: Number, interval: Number, background: Number) -> Number:
    """Time that an interruption costs a job that restarts from its last checkpoint, with a spare node at hand.

    R + τ/2 + w

    Args:
        restart: from the interruption until training continues, R [s]
        interval: useful work between two checkpoints, τ [s]
        background: until a checkpoint can be used, w [s]

    Returns:
        time of the whole job [s]

    Example:
        >>> restart_loss(600.0, 1116.0, 0.0)
        1158.0

    Holds: first order: interruptions far apart compared with all three; no estimate calls it

    Source:
        young-1974; composition

    Monotone: increasing in restart, interval, background
    """
    return restart + interval / 2 + background


@equation
def elastic_loss(repair: Number, dp: Number, regroup: Number, lost: Number = 1.0) -> Number:
    """Time of the whole job that an interruption costs when replicas leave until their node is repaired.

    k t/d + g

    Args:
        repair: until the replicas are back, t [s]
        dp: replicas, d [1]
        regroup: for which all replicas stop to leave some out and to take them back, g [s]
        lost: replicas that leave: all with ranks on the failed node, k [1]

    Returns:
        time of the whole job [s]

    Example:
        >>> elastic_loss(3600.0, 16.0, 60.0)
        285.0

    Holds: the replicas left take over the batch, so that steps grow by d/(d − k); that needs a divisible batch;
        no estimate calls it

    Source:
        composition

    Pitfall:
        only dp can shrink: with one replica, or with all ranks in one tensor and pipeline group, nothing can leave

    Monotone: increasing in repair, regroup, lost; decreasing in dp
    """
    return lost * repair / dp + regroup


@equation
def longest_elastic_repair(restart_loss: Number, dp: Number, regroup: Number, lost: Number = 1.0) -> Number:
    """Repair time up to which continuing on fewer replicas costs less than a restart; negative where it never does.

    t = d (L − g) / k

    Args:
        restart_loss: time that a restart costs the whole job, L [s]
        dp: replicas, d [1]
        regroup: for which all replicas stop to leave some out and to take them back, g [s]
        lost: replicas that leave: all with ranks on the failed node, k [1]

    Returns:
        time, t [s]

    Example:
        >>> longest_elastic_repair(1158.0, 16.0, 60.0) / 3600
        4.88

    Holds: no estimate calls it

    Source:
        composition

    Monotone: increasing in restart_loss; decreasing in regroup
    """
    return dp * (restart_loss - regroup) / lost


@equation
def elastic_slowdown(dp: Number, down: Number) -> Number:
    """Step time with some replicas gone over that with all, the batch being kept.

    d / (d − x)

    Args:
        dp: replicas, d [1]
        down: replicas that are gone, x, fewer than all; counted as d − 1 at most [1]

    Returns:
        slowdown [1]

    Example:
        >>> float(elastic_slowdown(16.0, 1.0))
        1.0666666666666667

    Holds: steps bound by the work of the replicas, which share it evenly; no estimate calls it

    Source:
        composition

    Monotone: increasing in down
    """
    return dp / np.maximum(dp - down, 1.0)


@equation
def fewer_replicas_speed(micro_batches: Number, dp: Number, dp_after: Number) -> Number:
    """Speed of a job on fewer replicas over that on all, the batch being kept.

    m / ⌈m d / a⌉

    Args:
        micro_batches: of a replica in a step on all, m [1]
        dp: replicas, d [1]
        dp_after: replicas that are left, a [1]

    Returns:
        speed over speed [1]

    Example:
        >>> float(fewer_replicas_speed(64.0, 16.0, 15.0))
        0.927536231884058

    Holds: the most loaded replica sets the pace: it takes one micro-batch more than others where they do not divide

    Source:
        composition
    """
    return micro_batches / np.ceil(micro_batches * dp / dp_after)


@equation
def resharded_goodput(goodput: Number, repair: Number, speed_share: Number, restart: Number, mtbf: Number) -> Number:
    """Useful share of a run that continues with fewer ranks after each interruption until a repair.

    E (1 − (1 − v) (1 − e^(−t/M))) e^(−(R/M) e^(−t/M))

    Args:
        goodput: with checkpoints, restarts and spare nodes, E [1]
        repair: until all ranks are back, t [s]
        speed_share: speed on fewer ranks over that on all, v [1]
        restart: to take the ranks back, planned, so that no work is lost, R [s]
        mtbf: mean time between interruptions of the job, M [s]

    Returns:
        goodput [1]

    Example:
        >>> round(float(resharded_goodput(0.95, 86400.0, 15 / 16, 600.0, 356000.0)), 4)
        0.936

    Holds: within 0.4 % of runs played out; the same ranks continue while others fail before the repair ends

    Source:
        composition

    Monotone: increasing in goodput, speed_share; decreasing in restart
    """
    whole = np.exp(-repair / mtbf)  # share of the time in which no node is in repair
    return goodput * (1 - (1 - speed_share) * (1 - whole)) * np.exp(-restart / mtbf * whole)


@equation
def elastic_goodput(repair: Number, dp: Number, regroup: Number, mtbf: Number, lost: Number = 1.0) -> Number:
    """Useful share of a run that continues with the replicas left while others are repaired.

    (1 − k t/(d M)) e^(−g/M), at least 0

    Args:
        repair: until a failed node, and its replicas, are back, t [s]
        dp: replicas, d [1]
        regroup: for which all replicas stop at an interruption, g [s]
        mtbf: mean time between interruptions of the job, M [s]
        lost: replicas that an interruption takes away: all with ranks on the failed node, k [1]

    Returns:
        goodput [1]

    Example:
        >>> round(float(elastic_goodput(3600.0, 16.0, 60.0, 11134.8)), 4)
        0.9745
        >>> round(float(elastic_goodput(172800.0, 32.0, 600.0, 5700712.6, 8.0)), 4)
        0.9923

    Holds: within 0.5 % of runs played out until half of the replicas are gone in the mean; states survive in those left

    Source:
        composition

    Pitfall:
        a node of 8 GPUs with a replica on each takes 8 replicas away, not one

    Monotone: increasing in mtbf; decreasing in repair, regroup, lost
    """
    return np.maximum(1 - lost * repair / (dp * mtbf), 0.0) * np.exp(-regroup / mtbf)


@equation
def redundancy_allowed(goodput: Number) -> Number:
    """Extra time a step may take for work done twice, if that saves all that interruptions cost.

    ρ = 1/E − 1: steps of (1 + ρ) T without loss against T/E

    Args:
        goodput: with checkpoints and restarts instead, E [1]

    Returns:
        extra time over the time of a step, ρ [1]

    Example:
        >>> round(redundancy_allowed(0.8525), 3)
        0.173

    Holds: no interruption costs anything once work is done twice; no estimate calls it

    Source:
        thorpe-2023; composition

    Pitfall:
        as a share of speed the same bound is 1 − E: 17.3 % more time for a step is 14.7 % less speed

    Monotone: decreasing in goodput
    """
    return 1 / goodput - 1
