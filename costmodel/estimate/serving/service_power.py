"""Power that an accelerator and its share of the node draw while they serve, and without requests."""

from __future__ import annotations

import math

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.equations.run.economics import share
from costmodel.estimate.machine.node_power import usual_power
from costmodel.estimate.shared.assumptions import AssumptionLog
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record
from costmodel.ground.units import percent, show


@record
class ServicePower:
    """Power of an accelerator and its share of the node that serves, and the share of it without requests."""

    drawn: Number
    idle_share: Number


def service_power(case: ServingCase, log: AssumptionLog) -> ServicePower:
    """The stated power, or the practice's, which is recorded; not a number where no rating is known."""
    practice, stated = case.practice, case.scenario.assume.power
    if practice is None:
        return ServicePower(math.nan, 1.0)
    with term("beside accelerators"):
        over_part = practice.draw.part * practice.serving.rated / practice.draw.rated
    drawn = usual_power(case.node, case.accelerator, practice.serving.rated, over_part, None)
    with term("without requests"):
        idle = share(practice.idle.share * practice.draw.rated, practice.serving.rated)
    if stated is not None:
        return ServicePower(stated, idle)
    if not math.isnan(float(drawn)):
        rating = f"{percent(practice.serving.rated)} of the node's rating"
        known = rating if case.node.power is not None else "of the accelerator's, for the node has no rating"
        log.note("assume.power", show(float(drawn), "J/s"), f"{known}, practices/{practice.name}")
    return ServicePower(drawn, idle)
