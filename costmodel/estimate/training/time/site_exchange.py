"""Sites that train independently: time and traffic of their exchanges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.sites import Sites
from costmodel.equations.data_parallel.synchronisation import inner_steps_needed, local_bandwidth, local_utilisation
from costmodel.equations.memory.states import gradient_traffic
from costmodel.equations.network.collectives import wire_bytes
from costmodel.estimate.machine.process_groups import Group, Transfer
from costmodel.estimate.model.shards import model_parameters
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.time_breakdown import added
from costmodel.estimate.training.time.step import TERMS, TrainingStep
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.errors import Place
from costmodel.ground.record import record
from costmodel.ground.units import Figure

WIDTHS = {
    name: Figure(width, Place("exchange between sites", path=name))
    for name, width in (("fp32", 4.0), ("bf16", 2.0), ("fp16", 2.0), ("int8", 1.0), ("fp4", 0.5))
}
WELL_USED = 0.95


@record
class SiteExchange:
    """An exchange of all fragments between sites.

    Bytes in fp32, bytes as sent, and bytes that a site sends; its time, the time that steps hide, and utilisation.
    """

    raw: Number
    message: Number
    wire: Number
    time: Number
    hidden: Number
    utilisation: Number


def exchange(inputs: TrainingInputs, sites: Sites, time: Number) -> SiteExchange:
    """The exchange between sites whose steps take this time."""
    with term("between sites"):
        parameters = model_parameters(inputs.model)
        raw, message = (gradient_traffic(parameters, WIDTHS[name]) for name in ("fp32", sites.dtype))
        wire = wire_bytes(message, sites.count, operation="all_reduce")
        whole = wire / sites.link + sites.latency
        hidden = sites.fragments * sites.overlap * time
        return SiteExchange(raw, message, wire, whole, hidden, local_utilisation(sites.every, time, whole, hidden))


def with_sites(inputs: TrainingInputs, block: Block, step: TrainingStep) -> TrainingStep:
    """The mean step, with its share of the exchange between sites."""
    sites = inputs.sites
    if sites is None:
        return step
    found = exchange(inputs, sites, step.total)
    with term("between sites"):
        longer = step.total / found.utilisation - step.total
        each = found.message / sites.fragments
        often = np.ones(len(block)) * (sites.fragments / sites.every)
        group = Group("sites", sites.count, 1.0, 1.0, 1.0, sites.count, sites.count)
        sent = found.wire / sites.fragments / inputs.ranks
        moved = Transfer(group, "all_reduce", each, found.time / sites.fragments, often, sent=sent)
    terms = step.terms | {"dp": step.terms["dp"] + longer}
    total = known_as("step_time", added(terms, TERMS))
    return replace(step, terms=terms, total=total, transfers=(*step.transfers, moved))


def to_use_well(sites: Sites, found: SiteExchange, time: Number) -> tuple[Number, Number]:
    """Bandwidth of a site, or steps between exchanges, at which it computes for 95 % of the time."""
    needed = local_bandwidth(found.wire, sites.every, time, WELL_USED, found.hidden)
    return needed, inner_steps_needed(time, found.time, WELL_USED, found.hidden)
