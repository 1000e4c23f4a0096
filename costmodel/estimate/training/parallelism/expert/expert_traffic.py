"""Dispatch and combine of tokens: the groups, the bytes and the exposed time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.equations.layers.experts import expert_data_degree
from costmodel.equations.network.collectives import activation_message
from costmodel.equations.network.overlap import exposed_time, lost_time
from costmodel.estimate.machine.collective_time import collective_time
from costmodel.estimate.machine.process_groups import Exchange, Group, LayerTraffic, group, merged_group
from costmodel.estimate.machine.token_dispatch import SentTokens, dispatch_time
from costmodel.estimate.model.routed_experts import Routed, reached, rows_of
from costmodel.estimate.model.shards import Shard
from costmodel.estimate.shared.plan_batch import PIPELINE_INSIDE, Block, single_rank
from costmodel.estimate.shared.time_breakdown import ForwardBackward
from costmodel.estimate.training.expert_inputs import ExpertInputs
from costmodel.estimate.training.stage_parameters import local_tokens
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class ExpertGroups:
    """Expert groups among the ranks of a stage, innermost first: etp, ep, and the ranks with the same experts."""

    etp: Group
    ep: Group
    edp: Group


def expert_data(inputs: TrainingInputs, block: Block) -> Number:
    """Ranks with the same experts that shard their states, without HSDP replicas."""
    return expert_data_degree(inputs.ranks, block.pp, block.ep, block.etp) / block.dp_replicate


def expert_groups(inputs: TrainingInputs, rows: Block) -> ExpertGroups:
    """Positions of the expert groups among the ranks of a stage, innermost first."""
    with term("expert placement"):
        outer = rows.etp * rows.ep
        edp = expert_data(inputs, rows)
    return ExpertGroups(
        _of_a_stage(inputs, rows, "etp", rows.etp, 1.0),
        _of_a_stage(inputs, rows, "ep", rows.ep, rows.etp),
        _of_a_stage(inputs, rows, "edp", edp, outer),
    )


def _of_a_stage(inputs: TrainingInputs, rows: Block, name: str, ranks: Number, stride: Number) -> Group:
    """A group of ranks of one stage.

    With the pipeline inside data parallelism, blocks of tp · cp ranks are adjacent.
    """
    if rows.structure.order != PIPELINE_INSIDE or single_rank(rows.pp):
        return group(inputs, name, ranks, stride)
    with term("expert placement"):
        beside = rows.tp * rows.cp
        near = np.minimum(np.maximum(np.floor(beside / stride), 1.0), ranks)
        far, apart = ranks / near, np.maximum(beside, stride) * rows.pp
    return merged_group(inputs, name, group(inputs, name, near, stride), group(inputs, name, far, apart))


def expert_traffic(
    inputs: TrainingInputs,
    part: Shard,
    block: Block,
    layer: ForwardBackward,
    beside: ForwardBackward,
    placed: ExpertGroups,
    *,
    again: bool,
) -> LayerTraffic:
    """Dispatch and combine of a layer in both directions, and their exposed part.

    They hide behind the compute of the layer if the schedule allows it, or behind shared experts.
    """
    stated, held = inputs.experts, part.routed
    if stated is None or held is None:
        return LayerTraffic("ep")
    tokens = local_tokens(inputs, block) / part.tp
    exchanges = (
        *_dispatch(inputs, stated, held, tokens, placed.ep),
        *_sharing(inputs, stated, held, tokens, placed.etp),
    )
    sent: Number = 0.0
    for item in exchanges[:2]:
        sent = sent + item.time
    shared: Number = 0.0
    for item in exchanges[2:]:
        shared = shared + item.time
    within = stated.kernels.overlap_in
    overlap = stated.overlap if within is None or block.structure.schedule in within else 0.0
    with term("experts' tokens"):
        forward = _shown(sent, layer.forward.device, overlap, stated.kernels.occupied)
        backward = _shown(sent, layer.backward.device, overlap, stated.kernels.occupied)
        if stated.shared_overlap:
            forward = np.minimum(forward, exposed_time(sent, beside.forward.device, stated.shared_overlap, 0.0))
            backward = np.minimum(backward, exposed_time(sent, beside.backward.device, stated.shared_overlap, 0.0))
        forward, backward = forward + shared, backward + shared
    if not again:
        return LayerTraffic("ep", forward, backward, exchanges)
    return LayerTraffic(
        "ep", forward, backward + forward, tuple(replace(item, again=item.forward) for item in exchanges)
    )


def _shown(sent: Number, compute: Number, overlap: float, occupied: float) -> Number:
    """Exposed time, plus the compute time lost because hidden traffic slows it down."""
    exposed = exposed_time(sent, compute, overlap, 0.0)
    return exposed + lost_time(sent - exposed, occupied) if np.any(occupied) else exposed


def _dispatch(
    inputs: TrainingInputs, stated: ExpertInputs, held: Routed, tokens: Number, ep: Group
) -> tuple[Exchange, Exchange]:
    """Tokens sent to the ranks of their experts in the stack's dispatch type; outputs return as activations.

    A token goes to each of its experts, or once to a rank with several of them.
    """
    sent = stated.load * tokens
    copies = reached(held.of, ep.ranks) if stated.deduplicated else held.of.top_k
    found = []
    for name, element in (("dispatch", stated.dispatch), ("combine", inputs.widths.element)):
        with term(name):
            message = copies * activation_message(sent, held.hidden, element)
            carried: Number | None = None
            if stated.deduplicated:
                rows = SentTokens(sent, held.hidden, element, copies, reached(held.of, ep.domains))
                time, carried = dispatch_time(inputs, stated.kernels, rows, ep)
            else:
                time = collective_time(inputs, message, ep, "all_to_all")
            found.append(Exchange(ep, "all_to_all", message, time, 1.0, 1.0, 0.0, carried))
    return found[0], found[1]


def _sharing(
    inputs: TrainingInputs, stated: ExpertInputs, held: Routed, tokens: Number, etp: Group
) -> tuple[Exchange, ...]:
    """All-gather of rows from the ranks that share each expert, and reduce-scatter of their partial outputs."""
    if np.all(etp.ranks == 1):
        return ()
    message = activation_message(rows_of(held, tokens, stated.load), held.hidden, inputs.widths.element)
    found: list[Exchange] = []
    for operation in ("all_gather", "reduce_scatter"):
        with term(f"etp {operation}"):
            time = collective_time(inputs, message, etp, operation)
            found.append(Exchange(etp, operation, message, time, 1.0, 1.0, 0.0))
    return tuple(found)
