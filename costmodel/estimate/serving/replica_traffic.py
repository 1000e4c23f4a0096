"""Traffic between the accelerators of a replica: in a decode step, and for one whole prompt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

from costmodel.equations.network.collectives import activation_message
from costmodel.estimate.machine.collective_time import send_time
from costmodel.estimate.machine.process_groups import Transfer
from costmodel.estimate.model.shards import stream_width
from costmodel.estimate.serving.engine_placement import engine_group
from costmodel.estimate.serving.engine_step import all_reduce, reductions
from costmodel.estimate.serving.expert_step import expert_transfers
from costmodel.estimate.serving.kv_cache import prompt_transfer, row_transfers
from costmodel.estimate.serving.operating_point import micro_batch
from costmodel.estimate.serving.plan_columns import PlanColumns, shard_of
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.step_batch import own_sequences
from costmodel.ground.equation import Number
from costmodel.ground.record import record

Moment = Literal["step", "prompt"]


@record
class ServingTransfer:
    """One kind of collective, with whether it belongs to a decode step or to the prefill of a prompt."""

    moment: Moment
    transfer: Transfer


def transfers(inputs: ServingInputs, layout: PlanColumns, decodes: Number) -> Iterator[ServingTransfer]:
    """All collectives of one prompt, and of a decode step of one micro-batch with so many sequences in flight."""
    queries = inputs.load.queries * micro_batch(layout, decodes)
    moments: tuple[tuple[Moment, Number], ...] = (("step", queries), ("prompt", inputs.load.computed))
    for moment, tokens in moments:
        own = tokens if moment == "prompt" else own_sequences(layout, tokens)
        for transfer in _collectives_of(inputs, layout, tokens, own, prompts=moment == "prompt"):
            if np.all(np.asarray(transfer.count) > 0):
                yield ServingTransfer(moment, transfer)


def _collectives_of(
    inputs: ServingInputs, layout: PlanColumns, tokens: Number, own: Number, *, prompts: bool
) -> Iterator[Transfer]:
    """Collectives for the given number of tokens, `own` of them in the busiest attention group."""
    tp = engine_group(inputs, layout, "tp", layout.tp)
    message = activation_message(own, inputs.model.hidden, inputs.types.wide)
    count: Number = 0.0
    for kind in inputs.model.layers:
        count = count + kind.count * reductions(layout, kind)
    talking = np.where(layout.tp > 1, count, 0.0)
    yield Transfer(tp, "all_reduce", message, all_reduce(inputs, tp, message), talking)
    yield from _dcp_collectives(inputs, layout, own, prompts=prompts)
    routed = [kind for kind in inputs.model.layers if kind.experts is not None]
    layers = sum(kind.count for kind in routed)
    for kind in routed[:1]:
        assert kind.experts is not None
        for each in expert_transfers(inputs, layout, kind.experts, tokens, prompts=prompts):
            named = "ep" if np.any(np.asarray(layout.ep) > 1) else "experts"  # which are cut by width without ep
            yield replace(each, count=layers * each.count, group=replace(each.group, name=named))
    stages = engine_group(inputs, layout, "pp", layout.pp, layout.stage_ranks)
    message = activation_message(own, stream_width(inputs.model), inputs.types.wide)
    yield Transfer(stages, "send", message, send_time(inputs, message, stages), layout.pp - 1.0)


def _dcp_collectives(
    inputs: ServingInputs, layout: PlanColumns, tokens: Number, *, prompts: bool
) -> Iterator[Transfer]:
    """Collectives of dcp, of one layer for each kind of attention, counted for all its layers."""
    if not layout.shares_context:
        return
    for name in ("attention", "latent"):
        kinds = [kind for kind in inputs.model.layers if getattr(kind, name) is not None]
        layers = sum(kind.count for kind in kinds)
        for kind in kinds[:1]:
            part = shard_of(inputs.model, layout, kind)
            found = row_transfers(inputs, layout, part, tokens)
            if prompts and kind.latent is not None:
                found = iter((prompt_transfer(inputs, layout, kind, tokens),))
            for each in found:
                yield replace(each, count=layers * each.count)
