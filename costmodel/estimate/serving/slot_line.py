"""The line before an engine of which all slots are taken: its sequences, or as many requests as its cache holds."""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.economics import share
from costmodel.equations.serving.queues import (
    full_slot_time,
    pooled_wait,
    slot_variation,
    slots_taken,
    slotted_token_time,
    spare_slots,
)
from costmodel.equations.serving.steady_state import engine_utilisation, requests_in_flight
from costmodel.estimate.serving.operating_point import OperatingPoint
from costmodel.estimate.serving.replica_kinds import rows_of
from costmodel.estimate.serving.serving_inputs import Load
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

FAR = 5.0  # standard deviations of requests in flight by which slots are free, from where on none waits for one
STABLE = 1e-9  # of a line that would have no end: what rates that were looked for leave of it


@record
class SlotLine:
    """What few slots do to requests."""

    wait: Number  # mean of all requests
    taken: Number  # share of requests that wait at all
    token: Number  # time per token

    @staticmethod
    def none(token: Number) -> SlotLine:
        """Of slots that always are free."""
        return SlotLine(0.0, 0.0, token)


@record
class _Crowd:
    """Requests before the slots of one replica, or of all that share a line."""

    slots: Number
    base_load: Number  # requests in flight if none slowed another down
    utilisation: Number


def slot_line(load: Load, point: OperatingPoint, rate: Number, slots: Number, own: Number, token: Number) -> SlotLine:
    """Wait for a slot and time per token; own: steps of a prompt by itself; token: without slots."""
    utilisation = engine_utilisation(rate, point.work)
    with term("of steps alone"):
        base = requests_in_flight(rate, load.steps, point.alpha)
    crowd = _Crowd(slots, base, utilisation)
    if np.any(np.asarray(point.servers) != 1):
        with term("of all replicas"):
            crowd = _Crowd(point.servers * slots, point.servers * base, utilisation)
    near = np.asarray(spare_slots(crowd.slots, crowd.base_load, utilisation) < FAR)
    parts = point, rate, slots, own, token, crowd
    if np.all(near):
        return _line(load, *parts)
    found = SlotLine.none(token)
    if not np.any(near):
        return found
    places = np.flatnonzero(near)
    some = _line(load, *rows_of(parts, places, len(near)))
    columns = [np.array(np.broadcast_to(np.asarray(each), near.shape)) for each in (found.wait, found.taken, token)]
    for column, part in zip(columns, (some.wait, some.taken, some.token), strict=True):
        column[places] = part
    return SlotLine(*columns)


def _line(
    load: Load, point: OperatingPoint, rate: Number, slots: Number, own: Number, token: Number, crowd: _Crowd
) -> SlotLine:
    """The same of plans whose slots may all be taken."""
    taken = slots_taken(crowd.slots, crowd.base_load, crowd.utilisation)
    with term("of a slot"):
        kept = full_slot_time(point.alpha, load.steps, point.work, slots)
        busy = share(engine_utilisation(rate, kept), slots)
        busy = np.where(busy < 1.0 - STABLE, busy, 1.0)
        variation = slot_variation(own, kept, load.prompt_spread, load.output_spread)
        wait = pooled_wait(kept, crowd.slots, busy, variation, taken)
        work = load.computed * point.gamma
    held = slotted_token_time(token, point.alpha, point.beta, work, load.steps, crowd.utilisation, slots, taken)
    return SlotLine(wait, taken, held)
