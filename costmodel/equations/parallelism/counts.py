"""Counts of a plan: tokens, ranks, micro-batches, layers and heads."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def tokens_in_micro_batch(micro_batch: Number, sequence: Number) -> Number:
    """Tokens one replica forwards at a time.

    b s

    micro_batch b · sequence s → tokens
    Source: composition
    Monotone: increasing in micro_batch, sequence
    >>> tokens_in_micro_batch(2.0, 8192.0)
    16384.0
    """
    return micro_batch * sequence


@equation
def world_size(nodes: Number, accelerators: Number) -> Number:
    """Ranks of a job that takes the whole cluster.

    N = nodes × accelerators

    nodes · accelerators: accelerators in a node → ranks, N
    Source: composition
    Monotone: increasing in nodes, accelerators
    >>> world_size(64.0, 8.0)
    512.0
    """
    return nodes * accelerators


@equation
def fleet_ranks(replicas: Number, replica_ranks: Number) -> Number:
    """Accelerators of all replicas of a service.

    n N

    replicas n · replica_ranks N → accelerators
    Source: exact
    Monotone: increasing in replicas, replica_ranks
    >>> fleet_ranks(12.0, 8.0)
    96.0
    """
    return replicas * replica_ranks


@equation
def data_parallel_degree(ranks: Number, tp: Number, cp: Number, pp: Number) -> Number:
    """Replicas that are left when a replica takes tp × cp × pp ranks.

    dp = N / (tp cp pp)

    ranks N: ranks of the job · tp · cp · pp → data-parallel degree, dp
    Source: megatron-lm parallel_state.py
    Monotone: increasing in ranks; decreasing in tp, cp, pp
    >>> data_parallel_degree(512.0, 8.0, 1.0, 4.0)
    16.0
    """
    return ranks / (tp * cp * pp)


@equation
def world_ranks(dp: Number, tp: Number, cp: Number, pp: Number) -> Number:
    """Ranks a layout takes.

    dp tp cp pp

    dp · tp · cp · pp → ranks
    Source: megatron-lm parallel_state.py
    Monotone: increasing in dp, tp, cp, pp
    >>> world_ranks(8.0, 8.0, 16.0, 16.0)
    16384.0
    """
    return dp * tp * cp * pp


@equation
def shard_degree(dp: Number, cp: Number, dp_replicate: Number) -> Number:
    """Ranks over which zero shards: everyone who holds the same weights, less the replicas of hybrid sharding.

    dp_shard cp = dp cp / dp_replicate

    dp · cp · dp_replicate: replicas of the shards → ranks that share one copy
    Source: torchtitan parallel_dims.py; megatron-lm parallel_state.py; zhao-2023 §3.2
    Pitfall: context parallelism splits activations and no weights, so its ranks shard weights and reduce gradients like
        replicas
    Monotone: increasing in dp, cp; decreasing in dp_replicate
    >>> shard_degree(128.0, 2.0, 4.0)
    64.0
    """
    return dp * cp / dp_replicate


@equation
def micro_batches_per_step(global_batch: Number, dp: Number, micro_batch: Number) -> Number:
    """Forward passes of one replica in an optimizer step.

    m = B / (dp b)

    global_batch B · dp · micro_batch b → micro-batches, m
    Source: composition
    Monotone: increasing in global_batch; decreasing in dp, micro_batch
    >>> micro_batches_per_step(1024.0, 16.0, 1.0)
    64.0
    """
    return global_batch / (dp * micro_batch)


@equation
def layers_per_stage(layers: Number, pp: Number) -> Number:
    """Layers one pipeline rank holds when the split is even.

    L / pp

    layers L · pp → layers of a rank, in all its chunks
    Source: narayanan-2021 §2.2
    Monotone: increasing in layers; decreasing in pp
    >>> layers_per_stage(80.0, 4.0)
    20.0
    """
    return layers / pp


@equation
def kv_heads_per_rank(kv_heads: Number, tp: Number) -> Number:
    """Key and value heads a tensor-parallel rank holds; they repeat once tp exceeds them.

    max(k / tp, 1)

    kv_heads k · tp → heads of a rank
    Source: megatron-lm attention.py
    Monotone: increasing in kv_heads; decreasing in tp
    >>> float(kv_heads_per_rank(8.0, 16.0))
    1.0
    """
    return np.maximum(kv_heads / tp, 1.0)


@equation
def padded_vocab(vocab: Number, multiple: Number, tp: Number) -> Number:
    """Vocabulary after padding, so that every rank holds an equal, aligned slice.

    ⌈V / (q tp)⌉ q tp

    vocab V: entries · multiple q: alignment of a rank's slice · tp → entries after padding
    Source: megatron-lm --make-vocab-size-divisible-by
    Monotone: increasing in vocab
    >>> float(padded_vocab(50257.0, 128.0, 8.0))
    51200.0
    """
    return np.ceil(vocab / (multiple * tp)) * (multiple * tp)


@equation
def remainder(amount: Number, parts: Number) -> Number:
    """Remainder of a division into equal parts.

    x mod n

    amount x: the whole · parts n: parts → rest
    Source: composition
    >>> float(remainder(80.0, 12.0))
    8.0
    """
    return np.mod(amount, parts)


@equation
def common_divisor(amount: Number, parts: Number) -> Number:
    """Greatest whole number that divides both.

    gcd(x, n)

    amount x: one, whole · parts n: the other, whole → divisor
    Source: composition
    Holds: parts up to 20; of greater ones 1 where five of Euclid's steps are not enough
    >>> float(common_divisor(12.0, 8.0))
    4.0
    """
    one, rest = _euclid(*_euclid(*_euclid(*_euclid(*_euclid(parts, np.mod(amount, parts))))))
    return np.where(rest > 0, 1.0, one)


def _euclid(one: Number, rest: Number) -> tuple[Number, Number]:
    """The smaller of two numbers, and what it leaves of the greater; the greatest divisor, once nothing is left."""
    found = rest > 0
    return np.where(found, rest, one), np.where(found, np.mod(one, np.maximum(rest, 1)), 0 * one)
