"""Time to send new weights to the engines: at the software's rate for their layout, or at the link's if slower."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.equations.memory.offload import link_time
from costmodel.equations.run.reinforcement_learning import experience_bytes
from costmodel.estimate.machine.node_in_use import interface_rate
from costmodel.estimate.model.shards import model_parameters
from costmodel.estimate.rl.generation import first_of
from costmodel.estimate.rl.rl_inputs import RlInputs
from costmodel.estimate.serving.engine_memory import weight_memory
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

TOKEN_BYTES = 8.0  # of experience: a token's number and its log-probability, four bytes each


@record
class WeightTransfer:
    """Transfer of all weights: bytes, rate, the limiting link or software, time; and bytes of returned answers."""

    nbytes: Number
    rate: Number
    layout: str
    link: str
    time: Number
    experience: Number


def weight_sync(inputs: RlInputs) -> WeightTransfer:
    """Transfer of the weights from the trainer to the engines; the time does not depend on their number."""
    plan, case = inputs.plan, inputs.case
    layout = "sharded" if max(plan.tp, plan.pp, plan.ep) > 1 else "whole"
    sync, away = case.stack.sync, not inputs.split.colocated and layout == "sharded"
    own = sync.apart if away and sync.apart is not None else getattr(sync, layout)
    workload = case.scenario.workload
    with term("weights"):
        nbytes = _sent(inputs)
        link, name = _link(inputs)
        rate = np.minimum(own, link)
        time = link_time(nbytes, rate, 1.0)
    sent = experience_bytes(workload.answers, inputs.lengths.tokens, TOKEN_BYTES)
    return WeightTransfer(nbytes, rate, layout, name if link < own else f"stacks/{case.stack.name}", time, sent)


def _sent(inputs: RlInputs) -> Number:
    """Bytes of all weights as sent: in the trainer's type, or in the engines' type if the software converts first."""
    workload, engines = inputs.case.scenario.workload, inputs.engines
    narrower = workload.rollout_precision not in (None, workload.precision)
    if engines is None or not (inputs.case.stack.sync.converted and narrower):
        return model_parameters(inputs.case.model) * inputs.trainer.inputs.stack.states.compute
    one = engines.layout.at(np.zeros(1, dtype=np.intp))
    alone = replace(one, **dict.fromkeys(("tp", "pp", "ep", "dp_attention"), np.ones(1)))
    layers, ends = weight_memory(engines.inputs, alone)
    return first_of(layers + ends)


def _link(inputs: RlInputs) -> tuple[Number, str]:
    """Rate at which a node receives weights, or an accelerator inside a single node; and the name of the link."""
    part, serving = inputs.split.rollout, inputs.engines
    alone = float(inputs.case.cluster.nodes) == 1
    if alone or serving is None:
        return inputs.case.scale_up.bandwidth, inputs.case.scale_up.name
    with term("node"):
        each = part.node.accelerators * interface_rate(serving.inputs.case, serving.inputs.network_share)
        if not inputs.case.parts:
            return each, inputs.case.scale_out.name
        own, between = inputs.trainer.inputs, inputs.case.cluster.between
        sent = own.case.node.accelerators * interface_rate(own.case, own.network_share)
        if between is not None:
            nics = min(own.case.node.scale_out.nics, part.node.scale_out.nics)
            sent = np.minimum(sent, nics * (own.network_share * between))
        slower = serving.inputs.case if bool(np.all(each <= sent)) else own.case
        return np.minimum(each, sent), slower.scale_out.name
