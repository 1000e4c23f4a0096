"""Failures: how often a run is interrupted, where its time goes, and how it continues with fewer replicas."""

from __future__ import annotations

import numpy as np

from costmodel.equations.parallelism.counts import common_divisor
from costmodel.equations.unequal import normal_percentile
from costmodel.ground.equation import Number, equation

COUNTS = np.arange(512.0)
LOG_FACTORIALS = np.cumsum(np.log(np.maximum(COUNTS, 1.0)))
EXACT_UP_TO, NONE = 350.0, 1e-300


# --- Interruptions of a job: how often they come, how likely none comes, and how many spare nodes cover repairs.


@equation
def observed_failure_rate(interruptions: Number, nodes: Number, time: Number) -> Number:
    """Rate of interruptions of one node, from those that a run counted.

    r = k / (n t)

    interruptions k: interruptions counted · nodes n: nodes of the job · time t [s]: of the run → rate [1/s]
    Source: llama-3-2024 §3.3.4; kokolis-2025
    Holds: interruptions that come from nodes, so that their number grows with the nodes
    Pitfall: published rates are of different things: 6.5 per 1,000 node-days are failures of hardware, with which a job
        on 128 nodes would live 28.8 h; such jobs were seen to live 7.9 h, for software kills them too
    Monotone: increasing in interruptions; decreasing in nodes, time
    >>> round(observed_failure_rate(419.0, 2048.0, 54 * 86400.0) * 86400 * 1000, 3)
    3.789
    """
    return interruptions / (nodes * time)


@equation
def mean_time_between_interruptions(nodes: Number, failure_rate: Number, job_failure_rate: Number) -> Number:
    """Mean time between interruptions of a job that stops when any node fails.

    M = 1 / (n r + λ)

    nodes n: nodes of the job · failure_rate r [1/s]: interruptions by one node
    job_failure_rate λ [1/s]: interruptions that do not grow with the nodes, those by software for example
    → mean time between interruptions, M [s]
    Source: kokolis-2025; composition
    Holds: independent failures at constant rates; early failures and a few bad nodes make the rate fall during a run
    Monotone: decreasing in nodes, failure_rate, job_failure_rate
    >>> round(mean_time_between_interruptions(2048.0, 3.789e-3 / 86400, 0.0) / 3600, 2)
    3.09
    """
    return 1 / (nodes * failure_rate + job_failure_rate)


@equation
def expected_interruptions(time: Number, mtbf: Number) -> Number:
    """Interruptions expected in a time, or repairs under way when each takes that time.

    t / M

    time [s]: t; of one repair, for the mean number of nodes in repair · mtbf M [s]: mean time between interruptions
    → interruptions
    Source: composition
    Monotone: increasing in time; decreasing in mtbf
    >>> expected_interruptions(86400.0, 7200.0)
    12.0
    """
    return time / mtbf


@equation
def spare_nodes(down: Number, probability: Number) -> Number:
    """Fewest spare nodes that replace all nodes in repair with a probability.

    smallest s with Σ e^(−d) dᵏ / k! over k ≤ s at least p

    down: mean number of nodes in repair, d: failures in the time of a repair · probability: p that the spares suffice
    → spare nodes
    Source: abramowitz-1964 §26.2; composition
    Holds: exact up to 350 nodes in repair; beyond, by the normal distribution with its skewness, at most one node off
    Monotone: increasing in down, probability
    >>> float(spare_nodes(15.52, 0.99))
    25.0
    """
    known = np.maximum(down, NONE)
    logarithms = COUNTS * np.expand_dims(np.log(known), -1) - np.expand_dims(known, -1) - LOG_FACTORIALS
    too_few = np.cumsum(np.exp(logarithms), axis=-1) < np.expand_dims(probability, -1)
    z = normal_percentile(probability)
    many = np.ceil(down + z * np.sqrt(known) + (z**2 - 1) / 6 - 0.5)
    return np.where(down <= EXACT_UP_TO, np.sum(np.where(too_few, 1.0, 0.0), axis=-1), many)


# --- Where the wall time of a run goes, and what a goodput makes of the time of its steps.


@equation
def restart_share(restart: Number, mtbf: Number) -> Number:
    """Share of the wall time that restarts take, those that fail themselves among them.

    1 − e^(−R/M)

    restart R [s]: from an interruption until training continues · mtbf M [s]: mean time between interruptions → share
    Source: composition
    Holds: exact for exponential interruptions that strike restarts too: each of them starts one, which lasts R or until
        the next, M (1 − e^(−R/M)) in the mean
    Monotone: increasing in restart; decreasing in mtbf
    >>> round(float(restart_share(600.0, 11134.8)), 4)
    0.0525
    """
    return -np.expm1(-restart / mtbf)


@equation
def checkpoint_share(
    goodput: Number, interval: Number, blocking: Number, background: Number, interference: Number
) -> Number:
    """Share of the wall time that checkpoints which were kept take from training.

    E (δ + σ w) / τ; what is left of the whole beside goodput, restarts and this is lost work

    goodput E: share of the wall time that is useful · interval τ [s] · blocking δ [s]
    background w [s]: from the end of that stop until the checkpoint can be used
    interference σ: share of training speed that writing takes meanwhile
    → share
    Source: composition
    Monotone: increasing in goodput, blocking, background, interference; decreasing in interval
    >>> round(checkpoint_share(0.8525, 1116.0, 60.0, 0.0, 0.0), 4)
    0.0458
    """
    return goodput * (blocking + interference * background) / interval


@equation
def planned_share(stops: Number, stop: Number, time: Number) -> Number:
    """Share of the wall time that planned stops take.

    n s / t

    stops n: planned stops · stop s [s]: time that each takes · time t [s]: wall time in which they come → share
    Source: llama-3-2024 §3.3.4; composition
    Monotone: increasing in stops, stop; decreasing in time
    >>> round(planned_share(47.0, 1200.0, 54 * 86400.0), 4)
    0.0121
    """
    return stops * stop / time


@equation
def run_goodput(goodput: Number, evaluation_share: Number, planned_share: Number) -> Number:
    """Useful share of the whole run, evaluation and planned stops left out of it.

    E (1 − e) (1 − m)

    goodput E: with interruptions alone · evaluation_share e: share of the time that goes to evaluation
    planned_share m: share that goes to planned stops
    → goodput, which some call effective training time ratio
    Source: kokolis-2025; composition
    Holds: neither the wait for a place in the cluster nor the use of the peak is in it
    Monotone: increasing in goodput; decreasing in evaluation_share, planned_share
    >>> round(run_goodput(0.95, 0.01, 0.02), 4)
    0.9217
    """
    return goodput * (1 - evaluation_share) * (1 - planned_share)


@equation
def steps_time(steps: Number, time: Number, slowdown: Number) -> Number:
    """Time of all steps of a run, nothing lost.

    S T f

    steps S: optimizer steps · time T [s]: of a step
    slowdown f: time over that of the step model, by stragglers for example
    → time [s]
    Source: composition
    Monotone: increasing in steps, time, slowdown
    >>> steps_time(1000.0, 16.0, 1.25)
    20000.0
    """
    return steps * time * slowdown


@equation
def wall_time(time: Number, goodput: Number) -> Number:
    """Wall time of a run of which a share is useful.

    t / E

    time t [s]: of all steps · goodput E: useful share of the wall time → time [s]
    Source: kokolis-2025; composition
    Monotone: increasing in time; decreasing in goodput
    >>> wall_time(9e6, 0.9)
    10000000.0
    """
    return time / goodput


@equation
def noticed_goodput(save: Number, restart: Number, mtbf: Number) -> Number:
    """Useful share of a run whose interruptions are announced early enough to save, as preemptions of spot nodes are.

    E = 1 / (e^(R/M) + s/M)

    save s [s]: time to save after the notice · restart R [s]: from an interruption until training continues
    mtbf M [s]: mean time between preemptions of the job
    → goodput, E
    Source: composition
    Holds: exact for exponential preemptions that strike restarts too, with a notice as long as the save; the wait for
        capacity is not in it
    Monotone: increasing in mtbf; decreasing in save, restart
    >>> round(float(noticed_goodput(20.0, 420.0, 7200.0)), 4)
    0.9409
    """
    kept = np.exp(-restart / mtbf)
    return kept / (1 + kept * save / mtbf)


# --- Continuing with fewer replicas until a repair, or with work done twice, instead of restarting.


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
    """Ranks of the whole replicas that fit on a number of nodes.

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
