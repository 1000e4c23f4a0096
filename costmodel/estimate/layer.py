"""A layer of one kind as a rank runs it for one micro-batch: compute, its exchanges, and what the host holds up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.documents.model import Layers
from costmodel.equation import Number
from costmodel.equations.counting import repeated
from costmodel.estimate.block import Pairs, Structure
from costmodel.estimate.communication import TensorTraffic, tensor_traffic
from costmodel.estimate.expert_pass import expert_pass
from costmodel.estimate.expert_traffic import ExpertTraffic, expert_groups, expert_traffic
from costmodel.estimate.kernels import Both, Pass, launched, layer_pass
from costmodel.estimate.setting import Setting
from costmodel.estimate.work import exchanges, shard


@dataclass(frozen=True)
class LayerWork:
    """Seconds of a layer in both directions, and the traffic behind them."""

    both: Both
    tensor: TensorTraffic
    experts: ExpertTraffic


def layer_work(setting: Setting, structure: Structure, kind: Layers, distinct: Pairs) -> LayerWork:
    """One layer, on each distinct combination of the sizes it depends on."""
    tp, micro_batch = distinct.tp, distinct.micro_batch
    split: Number = tp if structure.sequence_parallel else 1.0
    part = shard(setting.model, kind, tp, distinct.ep, distinct.etp)
    layer = layer_pass(setting, part, micro_batch, split, structure.recompute)
    tensor = tensor_traffic(
        setting, tp, micro_batch, layer.forward, exchanges(kind), sequence_parallel=structure.sequence_parallel
    )
    full = structure.recompute == "full"
    host: Number = 0.0
    experts = ExpertTraffic()
    if part.routed is not None:
        inside, host = expert_pass(setting, part, micro_batch, structure.recompute)
        layer = layer + inside
        placed = expert_groups(setting, distinct, structure.order)
        experts, exposed = expert_traffic(setting, part, distinct, layer, placed, again=full)
        layer = layer + exposed
    again = tensor.recomputed if full else repeated(0.0, tensor.recomputed)
    layer = layer + Both(Pass(tp=tensor.forward), Pass(tp=tensor.backward + again))
    calls = _calls(tensor, tp, exchanges(kind), again=full)
    return LayerWork(launched(setting, structure.recompute, layer, calls, host), tensor, experts)


def _calls(traffic: TensorTraffic, tp: Number, each: float, *, again: bool) -> tuple[Number, Number]:
    """Collectives a layer issues forward and backward, none where there is no tensor parallelism."""
    forward = sum(each for _ in traffic.transfers)
    both = sum(count + anew if again else count for _, count, anew, _ in traffic.transfers)
    return np.where(tp > 1, forward, 0.0), np.where(tp > 1, both - forward, 0.0)
