"""Checks which plans are valid, and names the reason for each refusal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.reader.library import UNMEASURED
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.base import FromTokens
from costmodel.documents.schemas.compression import codec_of
from costmodel.documents.schemas.efficiency import AttentionFit, CollectiveFit, Efficiency, MatmulFit
from costmodel.documents.schemas.model import Layers
from costmodel.documents.schemas.stack import AXES
from costmodel.documents.schemas.sync import USUAL, sync_of
from costmodel.equations.kernels.roofline import peak_of_heads
from costmodel.equations.parallelism.counts import (
    data_parallel_degree,
    kv_heads_per_rank,
    micro_batches_per_step,
    world_ranks,
    world_size,
)
from costmodel.equations.run.economics import tokens_per_step
from costmodel.estimate.machine.number_formats import cap_over_rating
from costmodel.estimate.machine.price import is_implausible_price, parameter_servers_of
from costmodel.estimate.machine.process_groups import is_limited_by_host_link, outruns_host_link
from costmodel.estimate.model.feed_forward_kinds import dense_inner_widths
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.critical_batch import critical_batch
from costmodel.estimate.shared.plan_batch import (
    OFFLOAD,
    RECOMPUTE,
    SPLIT,
    Block,
    Mask,
    Structure,
    all_if,
    any_of,
    leaves_rest,
    local_sequence,
    memoized,
    none,
    single_rank,
)
from costmodel.estimate.training.parallelism.data import SCATTERED, compressed_bytes
from costmodel.estimate.training.parallelism.pipeline import (
    BOTH_WAYS,
    LOOPED,
    has_wrong_chunks,
    has_wrong_micro_batches,
    indivisible,
    spread_as_fitting,
    stage_layers,
    unequal_chunks,
)
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.counts import Zero
from costmodel.ground.equation import Number, term
from costmodel.ground.errors import Place
from costmodel.ground.record import record
from costmodel.ground.units import Figure

# Constraints of plans on nodes of several kinds.

PLAIN = ("gpipe", "1f1b")  # schedules whose stages may be unequal


def replicas_on_nodes(inputs: TrainingInputs, block: Block, nodes: Number) -> Number:
    """Data-parallel replicas on this number of nodes."""
    with term("replicas of a group"):
        ranks = world_size(nodes, inputs.case.node.accelerators)
        return data_parallel_degree(ranks, block.tp, block.cp, block.pp)


def stages_on_nodes(inputs: TrainingInputs, block: Block, nodes: Number) -> Number:
    """Pipeline stages on this number of nodes, if the pipeline spans all groups."""
    with term("stages of a group"):
        return nodes / inputs.case.cluster.nodes * block.pp


def has_stage_on_two_kinds(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows whose pipeline stages do not each lie on one kind of node, in the order of the groups."""
    structure, wrong = block.structure, none(block)
    for nodes, _ in inputs.groups:
        wrong = wrong | leaves_rest(stages_on_nodes(inputs, block, nodes), 1.0)
    stated = structure.split != "fitting" or structure.schedule not in PLAIN
    return wrong | all_if(block, stated or structure.order == "tp-cp-pp-dp" or inputs.model.layers[0].leading)


def has_replica_on_two_kinds(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with replicas on two kinds of nodes, or with unequal replicas that synchronise in each micro-batch."""
    if not inputs.groups:
        return none(block)
    if block.structure.shares == "stages":
        return has_stage_on_two_kinds(inputs, block)
    wrong: Mask = np.asarray(block.ep > 1)
    for nodes, _ in inputs.groups:
        wrong = wrong | leaves_rest(replicas_on_nodes(inputs, block, nodes), 1.0)
    structure, states = block.structure, inputs.stack.states
    sharded = structure.zero >= 2 or (structure.zero >= 1 and states.sharded_master)
    uneven = structure.shares == "proportional" and (sharded or structure.schedule in LOOPED)
    return wrong | all_if(block, uneven or structure.order == "tp-cp-pp-dp")


def has_shares_without_groups(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with unequal shares in a job with only one kind of node."""
    return all_if(block, not inputs.groups and block.structure.shares != "proportional")


# Constraints on recompute and offload: what the stack offers and what the node provides.


def has_supported_choices(inputs: TrainingInputs, block: Block) -> bool:
    """Whether the stack supports the choices of a structure."""
    structure, stack = block.structure, inputs.stack
    modules = set(structure.recompute_modules or ()) <= set(stack.recompute_modules)
    methods = structure.recompute_layers is None or structure.recompute_method in stack.recompute_methods
    if not structure.offload:
        return modules and methods
    offloading = stack.offload
    kept = offloading is not None and set(structure.offload) <= set(offloading.of)
    return modules and methods and kept and offloading is not None and structure.offload_to in offloading.to


def has_wrong_recompute_keys(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with recompute modules without selective recompute, or with recompute layers without full recompute."""
    structure = block.structure
    modules = structure.recompute_modules is not None and structure.recompute != "selective"
    return all_if(block, modules or (structure.recompute_layers is not None and structure.recompute != "full"))


def has_wrong_recompute_layers(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with more recomputed layers than a model chunk has, or with too few."""
    structure = block.structure
    if structure.recompute_layers is None:
        return all_if(block, False)
    fullest = np.ceil(stage_layers(inputs.model, block).fullest / block.vpp)
    least = 1 if structure.recompute_method == "uniform" else 0
    return np.asarray((structure.recompute_layers > fullest) | (structure.recompute_layers < least))


def has_wrong_offload(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with contradictory offload keys."""
    structure, kept = block.structure, set(block.structure.offload)
    alone = inputs.stack.offload is not None and inputs.stack.offload.parameters_alone
    optimizer = "optimizer" in kept and structure.zero == 0
    parameters = "parameters" in kept and (structure.zero != 3 or ("optimizer" not in kept and not alone))
    drives = structure.offload_to == "nvme" and not kept & {"optimizer", "parameters"}
    layers = structure.offload_layers is not None and "activations" not in kept
    return all_if(block, optimizer or parameters or drives or layers)


def has_several_before_update(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with several micro-batches although the optimizer updates in backward."""
    batches = micro_batches_per_step(inputs.global_batch, block.dp, block.micro_batch)
    return np.asarray(batches > 1) & all_if(block, inputs.optimizer.in_backward)


def has_wrong_update_options(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with updates in backward that the stack does not support, or with options that exclude them."""
    structure = block.structure
    able = inputs.stack.states.in_backward and structure.zero in (0, 3) and "optimizer" not in structure.offload
    return all_if(block, inputs.optimizer.in_backward and not able)


def has_cut_matrices(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows that shard or offload matrices although the optimizer (GaLore, Muon) needs whole gradients."""
    structure = block.structure
    cut = (block.tp > 1) | (block.shards > 1 if structure.zero >= 1 else False)
    kept = inputs.optimizer.projection is not None
    return np.asarray(cut | ("optimizer" in structure.offload)) & all_if(block, kept)


def is_host_memory_assumed(inputs: TrainingInputs, block: Block) -> bool:
    """Whether the size of the host memory for offload is an assumption."""
    unstated = inputs.case.node.memory is None and not math.isnan(inputs.host.capacity)
    return unstated and (bool(block.structure.offload) or inputs.optimizer.paged)


def has_unknown_host(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with offload to a host whose memory or link no document states."""
    host, structure = inputs.host, block.structure
    if not structure.offload and not inputs.optimizer.paged:
        return all_if(block, False)
    wanted = [host.link, host.capacity, host.bandwidth]
    wanted += [host.drives, host.read, host.write] if structure.offload_to == "nvme" else []
    return all_if(block, any(map(math.isnan, wanted)))


# Remarks on a workload and a model: unusual sequences and batches, heads and FLOP conventions.

LARGEST_STEP = Figure(128e6, Place("MiniMax-01, 2025, arXiv:2501.08313", path="tokens of a step after warm-up"))
_SHORT = 32.0  # tokens
_IN_THOUSANDS = frozenset(float(thousand << power) for thousand in (1000, 1_000_000) for power in range(20))


def is_rounded(batch: FromTokens) -> bool:
    """Whether a batch in tokens is not a whole number of sequences."""
    return batch.tokens != float(tokens_per_step(batch, batch.sequence))


def is_odd_sequence(sequence: float) -> bool:
    """Whether a sequence has a power of two times a thousand tokens, or too few tokens for any text.

    >>> is_odd_sequence(16000.0), is_odd_sequence(16384.0), is_odd_sequence(10000.0), is_odd_sequence(8.0)
    (True, False, False, True)
    """
    return sequence < _SHORT or sequence in _IN_THOUSANDS


def is_odd_batch(global_batch: Number, sequence: Number) -> bool:
    """Whether a step has far more tokens than any published one.

    >>> is_odd_batch(4e6, 8192.0), is_odd_batch(15360.0, 4096.0)
    (True, False)
    """
    return bool(tokens_per_step(global_batch, sequence) > LARGEST_STEP + LARGEST_STEP)


def is_under_a_step(inputs: TrainingInputs) -> bool:
    """Whether a run has fewer tokens than one step."""
    wanted = inputs.case.scenario.workload.tokens
    return wanted is not None and bool(wanted < tokens_per_step(inputs.global_batch, inputs.sequence))


def is_untested_maker(case: ResolvedScenario) -> bool:
    """Whether the training software is not described on accelerators of this maker."""
    return bool(case.stack.makers) and case.accelerator.vendor not in case.stack.makers


def is_over_critical_batch(case: ResolvedScenario) -> bool:
    """Whether the batch of a step is over twice the critical batch that the scenario states."""
    workload = case.scenario.workload
    with term("twice the critical batch"):
        critical = critical_batch(workload)
        if critical is None:
            return False
        most = 2.0 * critical
    return bool(tokens_per_step(workload.global_batch, workload.sequence) > most)


def is_gpt_model(inputs: TrainingInputs) -> bool:
    """Whether every layer is a GPT layer, as Megatron's closed forms assume."""
    wide = float(4.0 * inputs.model.hidden)
    return all(_is_gpt_layer(kind, wide) for kind in inputs.model.layers)


def _is_gpt_layer(kind: Layers, wide: float) -> bool:
    """Whether a layer has a plain MLP of width `wide` and as many KV heads as query heads."""
    mlp, attention = kind.mlp, kind.attention
    if mlp is None or attention is None:
        return False
    return not mlp.gated and mlp.ffn_hidden == wide and attention.kv_heads == attention.heads


def are_heads_odd(inputs: TrainingInputs) -> Iterator[bool]:
    """For each kind of layer with attention: whether its head width is too odd for tensor cores."""
    for kind in inputs.model.layers:
        if kind.attention is not None:
            width = kind.attention.head_dim
            yield bool(
                peak_of_heads(inputs.rates.peak, inputs.vector_peak, width, inputs.widths.element) < inputs.rates.peak
            )


def has_split_experts(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where ep does not divide the experts."""
    wrong = none(block)
    for kind in inputs.model.kinds:
        if kind.experts is not None:
            wrong = wrong | leaves_rest(kind.experts.count, block.ep)
    return wrong


def has_split_expert_width(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where etp does not divide an expert's inner width."""
    wrong = none(block)
    for kind in inputs.model.kinds:
        if kind.experts is not None:
            wrong = wrong | leaves_rest(kind.experts.ffn_hidden, block.etp)
    return wrong


def has_partial_expert_group(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where the ranks of a stage, within one HSDP replica, are not a whole number of expert groups."""
    ranks = block.dp * block.tp * block.cp
    experts = block.ep * block.etp
    if inputs.experts is not None:
        experts = experts * block.dp_replicate
    return leaves_rest(ranks, experts)


def has_repeated_tokens(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where all ranks of tp would send the same tokens to the experts."""
    if inputs.experts is None or block.structure.sequence_parallel:
        return none(block)
    return np.asarray(block.tp > 1)


def has_no_experts(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows that shard experts of a model without experts."""
    if inputs.experts is not None:
        return none(block)
    return np.asarray((block.ep > 1) | (block.etp > 1))


def has_unsupported_axis(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with an axis of parallelism that the stack does not support; L033 checks context parallelism."""
    missing = (axis for axis in AXES if axis != "cp" and not inputs.stack.has(axis))
    return none(block) | any_of(np.asarray(getattr(block, axis) > 1) for axis in missing)


def has_unequal_chunks(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where the sequence chunks of context-parallel ranks would be unequal."""
    if single_rank(block.cp):
        return none(block)
    chunks = 1.0 if block.structure.cp_type == "a2a" else 2.0
    return (block.cp > 1) & leaves_rest(inputs.layer_sequence, chunks * block.cp)


def has_split_heads_exchange(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where an exchange of heads for tokens (cp_type a2a, and every scan) would split a head."""
    wrong = none(block)
    if single_rank(block.cp):
        return wrong
    for kind in inputs.model.layers:
        wrong = wrong | _splits_heads(kind, block)
    return (block.cp > 1) & wrong


def _splits_heads(kind: Layers, block: Block) -> Mask:
    """Rows where an all-to-all of heads for tokens would split a head of this layer."""
    every = block.structure.cp_type == "a2a"
    counts = kind.head_counts if every else kind.scan_heads
    wrong = any_of(leaves_rest(heads, block.tp * block.cp) for heads in counts)
    if kind.attention is None or not every:
        return wrong
    return wrong | leaves_rest(kv_heads_per_rank(kind.attention.kv_heads, block.tp), block.cp)


def has_unsupported_cp_type(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with a cp_type that the stack does not support."""
    stack = inputs.stack
    return (block.cp > 1) & (not stack.has("cp") or block.structure.cp_type not in stack.context_parallel)


def has_hidden_tokens(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where context parallelism would hide tokens from an indexer, or compressed entries from queries."""
    picks = any(kind.needs_all_tokens for kind in inputs.model.layers)
    return (block.cp > 1) & (picks and block.structure.cp_type != "all-gather")


def has_scan_with_cp(inputs: TrainingInputs, block: Block) -> Mask:
    """Mask of plans with context parallelism over a selective scan (Mamba-1), which no training software has."""
    return (block.cp > 1) & any(kind.selective_scan is not None for kind in inputs.model.layers)


def has_wrong_shard_replicas(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with shard replicas that do not divide dp, or without sharded states."""
    if single_rank(block.dp_replicate):
        return none(block)
    return (block.dp_replicate > 1) & (leaves_rest(block.dp, block.dp_replicate) | (block.structure.zero == 0))


STALE = ("async", "stale")


def has_wrong_async(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with asynchronous updates and sharded states, a pipeline, one replica, or a critical batch."""
    structure = block.structure
    if sync_of(structure.sync).way not in STALE:
        return none(block)
    law = inputs.case.scenario.workload.critical_batch is not None
    return np.asarray((block.pp > 1) | (block.dp == 1) | (structure.zero > 0) | law)


def has_wrong_server(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows whose gradients a parameter server cannot sum, or that wait for more replicas than there are."""
    structure = block.structure
    sync, method = sync_of(structure.sync), codec_of(structure.compression).method
    if structure.sync == USUAL:
        return none(block)
    coded = method != "none" and method not in SCATTERED
    awaited = sync.number > block.dp if sync.way == "first" else none(block)
    sharded = sync.way not in STALE and structure.zero > 0
    return np.asarray(awaited | coded | sharded)


def has_unknown_step_count(block: Block) -> Mask:
    """Rows that may need more steps, with asynchronous or partial updates; only their speed is predicted."""
    return all_if(block, sync_of(block.structure.sync).way in (*STALE, "first"))


def has_split_heads(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where tp would split a head, or a channel that counts as a head."""
    return any_of(leaves_rest(heads, block.tp) for kind in inputs.model.cut_kinds for heads in kind.head_counts)


def has_unequal_kv_heads(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where some ranks would have more KV heads than others."""
    counts = {kind.attention.kv_heads for kind in inputs.model.kinds if kind.attention is not None}
    return any_of(leaves_rest(kv_heads, block.tp) & leaves_rest(block.tp, kv_heads) for kv_heads in counts)


def has_split_adapters(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where the inner width of an adapter is sharded and not divisible."""
    tuning = inputs.tuning
    if tuning is None or not inputs.stack.split_adapters:
        return none(block)
    wrong = leaves_rest(tuning.rank, block.tp)
    return wrong | leaves_rest(tuning.rank, block.etp) if tuning.experts else wrong


def has_split_widths(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where tp would split the hidden width or an MLP unevenly."""
    widths = {inputs.model.hidden, *dense_inner_widths(inputs.model.cut_kinds)}
    return any_of(leaves_rest(width, block.tp) for width in widths)


def has_separated_layers(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows whose pipeline would separate layers from others that they read."""
    return (block.pp > 1) & inputs.model.on_one_stage


LEAST_CAP = 0.7  # of the rating; under it power no longer falls with the cube of the clock


def has_no_spare_replica(inputs: TrainingInputs, block: Block) -> Mask:
    """Elastic plans in which a failed node may leave no complete replica."""
    if inputs.run is None or inputs.run.elastic is None:
        return none(block)
    from costmodel.estimate.training.failed_node import most_replicas_lost, whole_replicas

    return np.asarray(whole_replicas(block) <= most_replicas_lost(inputs, block))


def has_wrong_ranks_left(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where the stated ranks after an interruption are not whole replicas on whole nodes."""
    if inputs.run is None or inputs.run.restart.ranks is None:
        return none(block)
    from costmodel.estimate.training.failed_node import continues

    return ~continues(inputs, block, inputs.run.restart.ranks)


def is_cap_idle(inputs: TrainingInputs) -> bool:
    """Whether a power cap has no effect."""
    return 1 <= cap_over_rating(inputs.case) < np.inf


def is_cap_deep(inputs: TrainingInputs) -> bool:
    """Whether a power cap is below the range in which its effect is known."""
    return cap_over_rating(inputs.case) < LEAST_CAP


def has_unused_server_price(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with a stated price of servers but without a parameter server."""
    stated = inputs.case.scenario.assume.server_price is not None
    return all_if(block, stated and not parameter_servers_of(block.structure.sync))


def has_scattered_compression(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with compression that needs whole gradients, although they are sharded."""
    structure = block.structure
    if structure.compression == "none" or codec_of(structure.compression).method in SCATTERED:
        return none(block)
    sharded = structure.zero >= 2 or (structure.zero >= 1 and inputs.stack.states.sharded_master)
    return np.asarray(block.dp_replicate > 1) | sharded


def has_useless_compression(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows that compress gradients that are not sent, or whose compressed gradients are no smaller."""
    if block.structure.compression == "none":
        return none(block)
    return np.asarray((block.shards == 1) & (block.dp_replicate == 1)) | (compressed_bytes(inputs, block) >= 1)


def has_unsupported_compression(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with compression that the stack does not offer."""
    method = codec_of(block.structure.compression).method
    return all_if(block, method != "none" and method not in inputs.stack.compression)


@memoized()
def micro_batches(inputs: TrainingInputs, block: Block) -> Number:
    """Micro-batches per replica in a step."""
    return micro_batches_per_step(inputs.global_batch, block.dp, block.micro_batch)


def _has_unsupported_choice(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows whose ZeRO stage, recompute mode, schedule or other choice the stack does not offer."""
    structure, stack = block.structure, inputs.stack
    offered = structure.zero in stack.zero and structure.recompute in stack.recompute
    offered = offered and has_supported_choices(inputs, block)
    return all_if(block, not (offered and structure.schedule in stack.schedules))


def _has_too_high_zero(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with a ZeRO stage that the stack does not combine with a pipeline."""
    stack = inputs.stack
    return (block.pp > 1) & (block.structure.zero in {*stack.zero} - {*(stack.pipelined_zero or stack.zero)})


def _has_wrong_rank_count(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows whose degrees do not multiply to the number of accelerators."""
    ranks = inputs.ranks
    return np.asarray(world_ranks(block.dp, block.tp, block.cp, block.pp) != ranks) | leaves_rest(block.dp, 1.0)


def _has_too_long_sequence(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows whose sequence is longer than the model allows."""
    if inputs.model.positions != "learned":
        return none(block)
    return none(block) | (inputs.sequence > inputs.model.max_sequence)


def _has_undivided_sequence(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows where sequence parallelism does not divide the local sequence."""
    if not block.structure.sequence_parallel:
        return none(block)
    return leaves_rest(local_sequence(inputs.layer_sequence, block), block.tp)


def _has_wrong_chunk_count(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows whose shape the pipeline schedule does not allow."""
    return leaves_rest(layer_count(inputs.model), block.pp * block.vpp)


def _has_undivided_layers(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows whose pipeline does not divide the layers."""
    if inputs.groups and block.structure.shares == "stages":  # by the speed of each kind, a layer a stage at least
        return np.asarray(block.pp > layer_count(inputs.model))
    return indivisible(inputs.model, block)


def _has_undivided_batch(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows whose global batch is no whole number of micro-batches per replica."""
    return leaves_rest(inputs.global_batch, block.dp * block.micro_batch)


def _has_too_few_micro_batches(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with too few micro-batches for the schedule, or not a whole number of its units."""
    return has_wrong_micro_batches(block, micro_batches(inputs, block))


EQUAL = frozenset({"even", "spread", "full-chunks"})  # alike where the layers divide
SWAPPED = {"tp-cp-pp-dp": ("dp", "pp"), "tp-dp-cp-pp": ("cp", "dp")}  # against tp-cp-dp-pp


def _has_duplicate(inputs: TrainingInputs, block: Block) -> Mask:
    """Duplicate plans: rows equal to another row of the search with other keys. One row of each set remains."""
    structure, stack, space = block.structure, inputs.stack, inputs.case.space
    same = _has_same_zero(inputs, block) | _has_same_split(inputs, block)
    if structure.sequence_parallel != stack.sequence_parallel:
        same |= (block.tp == 1) & (stack.sequence_parallel in (space.sequence_parallel or [stack.sequence_parallel]))
    if structure.schedule == "gpipe":
        same |= (block.pp == 1) & ("1f1b" in (space.schedule or stack.schedules)) & ("1f1b" in stack.schedules)
    if structure.order in SWAPPED:
        one, other = (getattr(block, name) for name in SWAPPED[structure.order])
        same |= ((one == 1) | (other == 1)) & ("tp-cp-dp-pp" in (space.order or ["tp-cp-dp-pp"]))
    synced = structure.sync != USUAL and USUAL in (space.sync or ())
    if synced or (structure.compression != "none" and "none" in (space.compression or ())):
        same |= (block.dp == 1) & (block.cp == 1)
    idle = structure.recompute == "selective" and inputs.dropped(structure.recompute) == "nothing"
    idle = idle and not structure.recompute_modules and "none" in stack.recompute
    return same | (idle and "none" in (space.recompute or stack.recompute))


def _has_same_zero(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows without sharding peers where a lower ZeRO stage of the search stores identical states."""
    structure, stack, space = block.structure, inputs.stack, inputs.case.space
    kept = _zero_effects_on_one_rank(inputs, structure, structure.zero)
    offered = {*stack.zero}.intersection(space.zero or stack.zero)
    less = any(zero < structure.zero and _zero_effects_on_one_rank(inputs, structure, zero) == kept for zero in offered)
    if not less or inputs.experts is not None or structure.schedule in BOTH_WAYS:
        return none(block)
    return np.asarray((block.dp == 1) & (block.cp == 1))


def _zero_effects_on_one_rank(inputs: TrainingInputs, structure: Structure, zero: Zero) -> tuple[bool, ...]:
    """The effects of a ZeRO stage on a single rank: copies of weights and gradients, offload, and the update."""
    states, on_host = inputs.stack.states, "parameters" in structure.offload
    copies = states.sharded_master and zero == 3, states.gradient_copies and zero >= 2
    return *copies, on_host and zero == 3, states.freed_gradient and zero == 2


def _has_same_split(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with the same layers per stage as a split that is listed earlier."""
    split, space = block.structure.split, inputs.case.space
    named = [str(each) for each in space.split or ("fitting", "spread")]
    before = named[: named.index(split)] if split in named else []
    same = np.asarray(block.pp == 1) & bool(before)
    if split in EQUAL and EQUAL.intersection(before):
        same |= ~_has_wrong_chunk_count(inputs, block)
    if split == "spread" and "fitting" in before:
        same |= spread_as_fitting(inputs.model, block)
    return same


@record
class Check:
    """The test of a rule, and what it reads.

    needs: sizes that the test reads; it runs as soon as they are known, to filter a grid early.
    choices: fields of the structure that it reads; structures with the same values share its answer.
    """

    code: str
    needs: frozenset[str]
    refused: Callable[[TrainingInputs, Block], Mask]
    choices: tuple[str, ...]

    def masks(self, inputs: TrainingInputs, blocks: Sequence[Block]) -> Iterator[tuple[list[int], Mask]]:
        """Refused rows of equal plans under several structures, grouped by structures with equal masks."""
        alike: dict[tuple[object, ...], list[int]] = {}
        for number, block in enumerate(blocks):
            alike.setdefault(tuple(getattr(block.structure, name) for name in self.choices), []).append(number)
        for numbers in alike.values():
            example = blocks[numbers[0]]
            yield numbers, self.refused(inputs, example.under(example.chosen(self.choices)))


def _check(code: str, needs: str, refused: Callable[[TrainingInputs, Block], Mask], *choices: str) -> Check:
    """A check with its code, the keys that it reads, and its test."""
    return Check(code, frozenset(needs.split()), refused, choices)


REPEATED = (
    *("zero", "recompute", "recompute_modules", "schedule", "sequence_parallel", "order"),
    *("split", "offload", "compression", "sync"),
)
CHECKS = (
    _check("L011", "", _has_unsupported_choice, "zero", "schedule", *RECOMPUTE, *OFFLOAD),
    _check("L012", "", _has_too_long_sequence),
    _check("L013", "pp", _has_too_high_zero, "zero"),
    _check("L040", "", has_wrong_recompute_keys, *RECOMPUTE),
    _check("L041", "pp vpp", has_wrong_recompute_layers, *RECOMPUTE, *SPLIT),
    _check("L042", "", has_wrong_offload, "zero", *OFFLOAD),
    _check("L043", "", has_unknown_host, *OFFLOAD),
    _check("L001", "dp tp cp pp", _has_wrong_rank_count),
    _check("L003", "tp", has_split_heads),
    _check("L004", "tp", has_unequal_kv_heads),
    _check("L007", "tp", has_split_widths),
    _check("L033", "cp", has_unsupported_cp_type, "cp_type"),
    _check("L034", "cp", has_hidden_tokens, "cp_type"),
    _check("L035", "pp", has_separated_layers),
    _check("L036", "cp", has_scan_with_cp),
    _check("L048", "tp pp ep etp", has_unsupported_axis),
    _check("L030", "cp", has_unequal_chunks, "cp_type"),
    _check("L031", "tp cp", has_split_heads_exchange, "cp_type"),
    _check("L008", "tp cp", _has_undivided_sequence, "sequence_parallel"),
    _check("L032", "dp dp_replicate", has_wrong_shard_replicas, "zero"),
    _check("R003", "dp tp cp pp ep etp dp_replicate", has_no_spare_replica, "zero", "order"),
    _check("R013", "tp cp pp ep etp", has_wrong_ranks_left),
    _check("R004", "dp dp_replicate", has_scattered_compression, "zero", "compression"),
    _check("R005", "tp cp pp ep", has_replica_on_two_kinds, "zero", "shares", "schedule", "order", "split"),
    _check("R006", "dp pp", has_wrong_async, "zero", "sync"),
    _check("R009", "dp", has_wrong_server, "zero", "sync", "compression"),
    _check("L010", "dp tp cp pp vpp", _has_duplicate, *REPEATED),
    _check("L023", "tp", has_repeated_tokens, "sequence_parallel"),
    _check("L024", "ep etp", has_no_experts),
    _check("L020", "ep", has_split_experts),
    _check("L022", "etp", has_split_expert_width),
    _check("L021", "dp tp cp ep etp dp_replicate", has_partial_expert_group),
    _check("L009", "pp vpp", lambda inputs, block: has_wrong_chunks(block), "schedule"),
    _check("L025", "tp etp", has_split_adapters),
    _check("L002", "pp vpp", _has_undivided_layers, *SPLIT, "shares"),
    _check("L005", "dp micro_batch", _has_undivided_batch),
    _check("L045", "", has_wrong_update_options, "zero", *OFFLOAD),
    _check("L046", "dp micro_batch", has_several_before_update),
    _check("L047", "tp dp cp", has_cut_matrices, "zero", *OFFLOAD),
    _check("L006", "dp pp micro_batch", _has_too_few_micro_batches, "schedule"),
)
OF_A_SEARCH = frozenset({"L010"})


def valid(
    inputs: TrainingInputs, blocks: Sequence[Block], checks: Iterable[Check], standing: NDArray[np.intp]
) -> tuple[NDArray[np.intp], dict[str, int]]:
    """The valid plans among the same rows under several structures, and counts of refused ones by reason."""
    standing, counts = standing.copy(), dict[str, int]()
    for check in checks:
        for numbers, refused in check.masks(inputs, blocks):
            if refused.any():
                lost = np.ix_(np.array(numbers), np.flatnonzero(refused))
                counts[check.code] = counts.get(check.code, 0) + int(standing[lost].sum())
                standing[lost] = 0
    return standing, {code: count for code, count in counts.items() if count}


def refusals(inputs: TrainingInputs, block: Block) -> tuple[str, ...]:
    """Every reason to refuse one plan; if the number of replicas is broken, that reason alone."""
    return tuple(refused_rows(inputs, block))


def refused_rows(inputs: TrainingInputs, block: Block) -> dict[str, Mask]:
    """The refused plans of a block by reason, in the order in which `refusals` states them."""
    broken = leaves_rest(block.dp, 1.0).any()
    one = (check for check in CHECKS if check.code not in OF_A_SEARCH)
    asked = (check for check in one if check.code == "L001" or not (broken and "dp" in check.needs))
    masks = {check.code: check.refused(inputs, block) for check in asked}
    return {code: np.broadcast_to(masks[code], len(block)) for code in sorted(masks) if masks[code].any()}


def valid_rows(inputs: TrainingInputs, block: Block) -> Mask:
    """Mask of the plans of a block for which `refusals` would be empty."""
    whole = ~leaves_rest(block.dp, 1.0)
    found = np.zeros(len(block), dtype=bool)
    if whole.any():
        rows = block.at(whole)
        wrong = any_of(check.refused(inputs, rows) for check in CHECKS if check.code not in OF_A_SEARCH)
        found[whole] = ~np.broadcast_to(wrong, (len(rows),))
    return found


def _is_never_fitted(efficiency: Efficiency) -> bool:
    """Whether no kernel of an accelerator was measured: its constants are priors, or come from training steps."""
    kernels: list[MatmulFit | AttentionFit | CollectiveFit] = [*efficiency.matmul.values()]
    kernels += [*efficiency.attention.values(), *efficiency.collectives.values()]
    fits = [fit.fitted for fit in (efficiency.memory, *kernels) if fit is not None]
    return efficiency.of == UNMEASURED or all(fitted is None or fitted.out_of == "prior" for fitted in fits)


def remarks(inputs: TrainingInputs, block: Block) -> Iterator[tuple[str, Mask]]:
    """The remarks on a valid plan."""
    yield "N001", leaves_rest(inputs.domain, block.tp)
    yield "N014", all_if(block, is_limited_by_host_link(inputs.case))
    yield "N058", all_if(block, outruns_host_link(inputs.case))
    yield "N025", all_if(block, is_host_memory_assumed(inputs, block))
    yield "N005", all_if(block, _is_never_fitted(inputs.case.efficiency))
    counts = [kind.attention.kv_heads for kind in inputs.model.layers if kind.attention is not None]
    yield "N002", np.asarray(block.tp > min(counts, default=math.inf))
    yield "N004", any_of(np.asarray(width / block.tp < 256) for width in _sharded_widths(inputs))
    yield "N007", all_if(block, inputs.convention in ("megatron-2021", "korthikanti") and not is_gpt_model(inputs))
    yield "N040", all_if(block, is_untested_maker(inputs.case))
    yield "N041", all_if(block, is_under_a_step(inputs))
    yield "N042", all_if(block, is_implausible_price(inputs.case.stated_price))
    yield "N008", all_if(block, inputs.experts is None and _states_expert_assumption(inputs))
    yield "N010", unequal_chunks(inputs.model, block)
    yield "N009", all_if(block, inputs.rates.attention is None and any(are_heads_odd(inputs)))
    longer = bool(inputs.sequence > inputs.model.max_sequence)
    yield "N006", all_if(block, longer and inputs.model.positions != "learned")
    yield "N030", has_useless_compression(inputs, block)
    yield "N031", has_unsupported_compression(inputs, block)
    yield "N035", all_if(block, is_over_critical_batch(inputs.case))
    yield "N036", all_if(block, is_cap_idle(inputs))
    yield "N044", all_if(block, is_cap_deep(inputs))
    yield "N043", has_unused_server_price(inputs, block)
    yield "N034", all_if(block, inputs.sites is not None)
    yield "N033", has_shares_without_groups(inputs, block)
    yield "N032", has_unknown_step_count(block)
    yield "N020", all_if(block, any(is_rounded(batch) for _, batch in inputs.case.scenario.from_tokens))
    yield "N021", all_if(block, is_odd_sequence(float(inputs.sequence)))
    yield "N022", all_if(block, is_odd_batch(inputs.global_batch, inputs.sequence))


def _states_expert_assumption(inputs: TrainingInputs) -> bool:
    """Whether the scenario sets a key of experts."""
    assume = inputs.case.scenario.assume
    return any(value is not None for value in (*vars(assume.experts).values(), assume.overlap.ep))


def _sharded_widths(inputs: TrainingInputs) -> Iterator[Number]:
    """Widths of a layer's matrices that tensor parallelism shards."""
    for kind in inputs.model.layers:
        yield from dense_inner_widths([kind])
        if kind.attention is not None:
            yield kind.attention.heads * kind.attention.head_dim
