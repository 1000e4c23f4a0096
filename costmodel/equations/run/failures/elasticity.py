"""Continuing with fewer replicas until a repair, or with work done twice, instead of restarting."""

from __future__ import annotations

import numpy as np

from costmodel.equations.parallelism.counts import common_divisor
from costmodel.ground.equation import Number, equation


@equation
def replicas_on_node(accelerators: Number, stride: Number) -> Number:
    """Replicas with ranks on one node, all of which its failure takes away, in the mean over nodes.

    1 + (n − gcd(n, s)) / s

    accelerators n: of a node · stride s: from a replica to the next in the order of ranks → replicas, k
    Source: megatron-lm parallel_state.py; composition
    Holds: exact where all ranks of all nodes are taken and more replicas exist than one node reaches
    Pitfall: a pipeline outside the replicas leaves one stage of each on a node: with tp 2 and pp 4, a node of 8 has
        ranks of four replicas, although each of them has 8 ranks
    >>> float(replicas_on_node(8.0, 1.0))
    8.0
    >>> round(float(replicas_on_node(8.0, 12.0)), 3)
    1.333
    """
    return 1 + (accelerators - common_divisor(accelerators, stride)) / stride


@equation
def most_replicas_on_node(accelerators: Number, stride: Number) -> Number:
    """Replicas with ranks on that node which has ranks of the most.

    1 + ⌈(n − gcd(n, s)) / s⌉

    accelerators n: of a node · stride s: from a replica to the next in the order of ranks → replicas
    Source: megatron-lm parallel_state.py; composition
    Holds: as replicas_on_node
    >>> float(most_replicas_on_node(8.0, 12.0))
    2.0
    """
    return 1 + np.ceil((accelerators - common_divisor(accelerators, stride)) / stride)


@equation
def ranks_of_whole_replicas(nodes: Number, accelerators: Number, replica_ranks: Number) -> Number:
    """Ranks of the whole replicas on so many nodes.

    ⌊m n / r⌋ r

    nodes m: on which the job continues · accelerators n: of a node · replica_ranks r: ranks of a replica → ranks
    Source: composition
    Monotone: increasing in nodes
    >>> float(ranks_of_whole_replicas(5.0, 8.0, 12.0))
    36.0
    """
    return np.floor(nodes * accelerators / replica_ranks) * replica_ranks


@equation
def restart_loss(restart: Number, interval: Number, background: Number) -> Number:
    """Time that an interruption costs a job that restarts from its last checkpoint, with a spare node at hand.

    R + τ/2 + w

    restart R [s]: from the interruption until training continues · interval τ [s]
    background w [s]: until a checkpoint can be used
    → time of the whole job [s]
    Source: young-1974; composition
    Holds: first order: interruptions far apart compared with all three; no estimate calls it
    Monotone: increasing in restart, interval, background
    >>> restart_loss(600.0, 1116.0, 0.0)
    1158.0
    """
    return restart + interval / 2 + background


@equation
def elastic_loss(repair: Number, dp: Number, regroup: Number, lost: Number = 1.0) -> Number:
    """Time of the whole job that an interruption costs when replicas leave until their node is repaired.

    k t/d + g

    repair t [s]: until the replicas are back · dp d: replicas
    regroup g [s]: for which all replicas stop to leave some out and to take them back
    lost k: replicas that leave: all with ranks on the failed node
    → time of the whole job [s]
    Source: composition
    Holds: the replicas left take over the batch, so that steps grow by d/(d − k); that needs a divisible batch; no
        estimate calls it
    Pitfall: only dp can shrink: with one replica, or with all ranks in one tensor and pipeline group, nothing can leave
    Monotone: increasing in repair, regroup, lost; decreasing in dp
    >>> elastic_loss(3600.0, 16.0, 60.0)
    285.0
    """
    return lost * repair / dp + regroup


@equation
def longest_elastic_repair(restart_loss: Number, dp: Number, regroup: Number, lost: Number = 1.0) -> Number:
    """Repair time up to which continuing on fewer replicas costs less than a restart; negative where it never does.

    t = d (L − g) / k

    restart_loss L [s]: time that a restart costs the whole job · dp d: replicas
    regroup g [s]: for which all replicas stop to leave some out and to take them back
    lost k: replicas that leave: all with ranks on the failed node
    → time, t [s]
    Source: composition
    Holds: no estimate calls it
    Monotone: increasing in restart_loss; decreasing in regroup
    >>> longest_elastic_repair(1158.0, 16.0, 60.0) / 3600
    4.88
    """
    return dp * (restart_loss - regroup) / lost


@equation
def elastic_slowdown(dp: Number, down: Number) -> Number:
    """Step time with some replicas gone over that with all, the batch being kept.

    d / (d − x)

    dp d: replicas · down: replicas that are gone, x, fewer than all; counted as d − 1 at most → slowdown
    Source: composition
    Holds: steps bound by the work of the replicas, which share it evenly; no estimate calls it
    Monotone: increasing in down
    >>> float(elastic_slowdown(16.0, 1.0))
    1.0666666666666667
    """
    return dp / np.maximum(dp - down, 1.0)


@equation
def fewer_replicas_speed(micro_batches: Number, dp: Number, dp_after: Number) -> Number:
    """Speed of a job on fewer replicas over that on all, the batch being kept.

    m / ⌈m d / a⌉

    micro_batches m: of a replica in a step on all · dp d: replicas · dp_after a: replicas that are left
    → speed over speed
    Source: composition
    Holds: the most loaded replica sets the pace: it takes one micro-batch more than others where they do not divide
    >>> float(fewer_replicas_speed(64.0, 16.0, 15.0))
    0.927536231884058
    """
    return micro_batches / np.ceil(micro_batches * dp / dp_after)


@equation
def resharded_goodput(goodput: Number, repair: Number, speed_share: Number, restart: Number, mtbf: Number) -> Number:
    """Useful share of a run that continues with fewer ranks after each interruption until a repair.

    E (1 − (1 − v) (1 − e^(−t/M))) e^(−(R/M) e^(−t/M))

    goodput E: with checkpoints, restarts and spare nodes · repair t [s]: until all ranks are back
    speed_share v: speed on fewer ranks over that on all
    restart R [s]: to take the ranks back, planned, so that no work is lost
    mtbf M [s]: mean time between interruptions of the job
    → goodput
    Source: composition
    Holds: within 0.4 % of runs played out; the same ranks continue while others fail before the repair ends
    Monotone: increasing in goodput, speed_share; decreasing in restart
    >>> round(float(resharded_goodput(0.95, 86400.0, 15 / 16, 600.0, 356000.0)), 4)
    0.936
    """
    whole = np.exp(-repair / mtbf)  # share of the time in which no node is in repair
    return goodput * (1 - (1 - speed_share) * (1 - whole)) * np.exp(-restart / mtbf * whole)


@equation
def elastic_goodput(repair: Number, dp: Number, regroup: Number, mtbf: Number, lost: Number = 1.0) -> Number:
    """Useful share of a run that continues with the replicas left while others are repaired.

    (1 − k t/(d M)) e^(−g/M), at least 0

    repair t [s]: until a failed node, and its replicas, are back · dp d: replicas
    regroup g [s]: for which all replicas stop at an interruption
    mtbf M [s]: mean time between interruptions of the job
    lost k: replicas that an interruption takes away: all with ranks on the failed node
    → goodput
    Source: composition
    Holds: within 0.5 % of runs played out until half of the replicas are gone in the mean; states survive in those left
    Pitfall: a node of 8 GPUs with a replica on each takes 8 replicas away, not one
    Monotone: increasing in mtbf; decreasing in repair, regroup, lost
    >>> round(float(elastic_goodput(3600.0, 16.0, 60.0, 11134.8)), 4)
    0.9745
    >>> round(float(elastic_goodput(172800.0, 32.0, 600.0, 5700712.6, 8.0)), 4)
    0.9923
    """
    return np.maximum(1 - lost * repair / (dp * mtbf), 0.0) * np.exp(-regroup / mtbf)


@equation
def redundancy_allowed(goodput: Number) -> Number:
    """Extra time a step may take for work done twice, if that saves all that interruptions cost.

    ρ = 1/E − 1: steps of (1 + ρ) T without loss against T/E

    goodput E: with checkpoints and restarts instead → extra time over the time of a step, ρ
    Source: thorpe-2023; composition
    Holds: no interruption costs anything once work is done twice; no estimate calls it
    Pitfall: as a share of speed the same bound is 1 − E: 17.3 % more time for a step is 14.7 % less speed
    Monotone: decreasing in goodput
    >>> round(redundancy_allowed(0.8525), 3)
    0.173
    """
    return 1 / goodput - 1
