"""Context-parallel exchanges of a layer, and the part that attention does not hide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from costmodel.documents.schemas.model import AnyMixer, ScanMixer
from costmodel.equations.network.collectives import ring_steps
from costmodel.equations.parallelism.context_parallel import (
    exchange_buffer,
    gathered_buffer,
    heads_message,
    ring_exposed_time,
)
from costmodel.equations.parallelism.counts import tokens_in_micro_batch
from costmodel.estimate.machine.collective_time import collective_time, send_time
from costmodel.estimate.machine.process_groups import Exchange, Group, LayerTraffic
from costmodel.estimate.model.mixers.mixer import Mixer, MixerKind, Shapes
from costmodel.estimate.model.mixers.mixer_kinds import KINDS
from costmodel.estimate.model.mixers.mixing_half import each_mixer
from costmodel.estimate.model.shards import Shard
from costmodel.estimate.shared.plan_batch import Block, ForwardBackward, single_rank
from costmodel.estimate.training.stage_parameters import local_tokens
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term

NOTHING = LayerTraffic("cp")


def context_traffic(
    inputs: TrainingInputs, cp: Group, block: Block, part: Shard, core: ForwardBackward, *, again: bool
) -> LayerTraffic:
    """Context-parallel traffic: ring, all-gather, or all-to-all of heads for tokens; `core` is the attention time."""
    if single_rank(block.cp) or part.mixer is None:
        return NOTHING
    once = _mixers_traffic(inputs, cp, block, part, part.mixer, core)
    if not again:
        return once
    anew = tuple(replace(exchange, again=exchange.forward) for exchange in once.exchanges)
    return LayerTraffic("cp", once.forward, once.backward + once.forward, anew)


def _mixers_traffic(
    inputs: TrainingInputs, cp: Group, block: Block, part: Shard, mixer: Mixer, core: ForwardBackward
) -> LayerTraffic:
    """Context-parallel traffic of all mixers in a layer together."""
    first, *others = (
        _mixer_traffic(inputs, cp, block, row, own, mine, core) for row, own, mine in each_mixer(part.kind, mixer)
    )
    for other in others:
        both = (*first.exchanges, *other.exchanges)
        first = LayerTraffic("cp", first.forward + other.forward, first.backward + other.backward, both)
    return first


def _mixer_traffic(
    inputs: TrainingInputs,
    cp: Group,
    block: Block,
    row: MixerKind[Any],
    any_mixer: AnyMixer,
    mine: Mixer,
    core: ForwardBackward,
) -> LayerTraffic:
    """Context-parallel traffic of one mixer; a scan always uses an all-to-all of heads for tokens."""
    kind = block.structure.cp_type
    if kind == "a2a" or isinstance(any_mixer, ScanMixer):
        return _all_to_all_traffic(inputs, cp, block, row.all_to_all_shape(any_mixer, mine))
    return (
        _ring_traffic(inputs, cp, block, mine, core)
        if kind == "p2p"
        else _gather_traffic(inputs, cp, block, row.all_gather_shape(any_mixer, mine))
    )


def _key_bytes(inputs: TrainingInputs, mixer: Mixer, tokens: Number) -> Number:
    """Bytes of the keys, or of the values, of the given number of tokens."""
    return heads_message(tokens, mixer.kv_heads, mixer.head_dim, inputs.widths.element)


def _ring_traffic(inputs: TrainingInputs, cp: Group, block: Block, mixer: Mixer, core: ForwardBackward) -> LayerTraffic:
    """Bytes of ring attention: each step sends keys and values on, in backward also their gradients."""
    with term("cp ring forward"):
        message = 2.0 * _key_bytes(inputs, mixer, local_tokens(inputs, block))
        time = send_time(inputs, message, cp)
        forward = ring_exposed_time(time, core.forward.attention, cp.ranks, inputs.overlap.cp)
    with term("cp ring backward"):
        both = 2.0 * message
        longer = send_time(inputs, both, cp)
        backward = ring_exposed_time(longer, core.backward.attention, cp.ranks, inputs.overlap.cp)
    steps = ring_steps(cp.ranks, operation="all_gather")
    exchanges = (
        Exchange(cp, "send", message, time, steps, 0.0, 0.0),
        Exchange(cp, "send", both, longer, 0.0, steps, 0.0),
    )
    return LayerTraffic("cp", forward, backward, exchanges)


def _gather_traffic(inputs: TrainingInputs, cp: Group, block: Block, sent: Shapes) -> LayerTraffic:
    """Seconds and all-gathers of keys and values before attention, again in backward, and the scatter of gradients."""
    tokens = tokens_in_micro_batch(block.micro_batch, inputs.layer_sequence)
    exchanges: list[Exchange] = []
    once: Number = 0.0
    twice: Number = 0.0
    for heads, width, times in sent:
        message = heads_message(tokens, heads, width, inputs.widths.element)
        with term("cp all-gather"):
            gather = collective_time(inputs, message, cp, "all_gather")
            once = once + times * gather
        with term("cp reduce-scatter"):
            scatter = collective_time(inputs, message, cp, "reduce_scatter")
            twice = twice + times * scatter
        exchanges.append(Exchange(cp, "all_gather", message, gather, times, times, 0.0))
        exchanges.append(Exchange(cp, "reduce_scatter", message, scatter, 0.0, times, 0.0))
    return LayerTraffic("cp", once, once + twice, tuple(exchanges))


def _all_to_all_traffic(inputs: TrainingInputs, cp: Group, block: Block, sides: Shapes) -> LayerTraffic:
    """Seconds and all-to-alls that exchange some tokens with all heads for all tokens with some heads, and back."""
    tokens = local_tokens(inputs, block)
    exchanges = []
    exposed: Number = 0.0
    for heads, width, times in sides:
        with term("cp all-to-all"):
            message = heads_message(tokens, heads, width, inputs.widths.element)
            time = collective_time(inputs, message, cp, "all_to_all")
            exposed = exposed + times * time
        exchanges.append(Exchange(cp, "all_to_all", message, time, times, times, 0.0))
    return LayerTraffic("cp", exposed, exposed, tuple(exchanges))


def context_buffers(inputs: TrainingInputs, block: Block, part: Shard) -> Number:
    """Bytes of other ranks' tokens on a rank during the attention of one layer."""
    mixer = part.mixer
    if single_rank(block.cp) or mixer is None:
        return 0.0
    kind = "a2a" if part.kind.recurrent else block.structure.cp_type
    local = local_tokens(inputs, block)
    tokens = tokens_in_micro_batch(block.micro_batch, inputs.layer_sequence) if kind == "all-gather" else local
    for own in part.kind.mixers:
        if (widths := KINDS[type(own)].gathered_widths(own)) is not None:
            return np.where(block.cp > 1, gathered_buffer(tokens, *widths, inputs.widths.element), 0.0)
    held = exchange_buffer(tokens, mixer.heads, mixer.kv_heads, mixer.head_dim, inputs.widths.element, cp_type=kind)
    return np.where(block.cp > 1, held, 0.0)
