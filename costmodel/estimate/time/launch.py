"""What the host holds up: operations and collectives issued, forward, backward and again."""

from __future__ import annotations

from costmodel.documents.model import Layers
from costmodel.equation import Number, term
from costmodel.equations.counting import repeated
from costmodel.equations.roofline import host_bound_time
from costmodel.estimate.block import Structure
from costmodel.estimate.passes import Both, Pass, nothing, summed
from costmodel.estimate.setting import Setting
from costmodel.estimate.shapes.adapters import issued, packed_matrices
from costmodel.estimate.shapes.recompute import dispatched_again, issued_again, unpacked_again
from costmodel.estimate.time.expert_pass import ExpertWork

ISSUED_AGAIN = {"nothing": 0.0, "core": 0.0, "operations": 0.5, "layer": 1.0}


def launched(
    setting: Setting,
    structure: Structure,
    kind: Layers,
    layer: Both,
    calls: tuple[Number, Number],
    experts: ExpertWork | None = None,
) -> Both:
    """A layer with what the host cannot keep up with; backward issues twice as much, and recompute again.

    Calls are the collectives that it issues forward and backward beside the operations. Experts are dealt with one by
    one, and packed weights unpacked, once in each direction.
    """
    operations, again = setting.stack.launch.operations, ISSUED_AGAIN[setting.dropped(structure.recompute)]
    passes = 1.0 + issued(setting, kind) if setting.tuning is not None else 1.0
    backward = repeated(2.0 + again, passes)
    unpacked = sum(1.0 for _ in packed_matrices(setting, kind))
    twice = unpacked + repeated(again, unpacked)
    if structure.recompute_modules is not None:
        backward = repeated(2.0, passes) + issued_again(setting, structure, kind)
        twice = unpacked + unpacked_again(setting, structure, kind)
        again = 1.0 if dispatched_again(structure) else 0.0
    ahead, behind = calls
    forward = setting, layer.forward, repeated(passes, operations) + unpacked + ahead
    back = setting, layer.backward, repeated(backward, operations) + twice + behind
    if experts is None:
        return Both(_issued(*forward), _issued(*back), layer.weight)
    once, both = experts.ahead, summed(experts.behind, repeated(again, experts.ahead))
    return Both(
        _issued(*forward, experts.both.forward.device, once),
        _issued(*back, experts.both.backward.device, both),
        layer.weight,
    )


def _issued(setting: Setting, work: Pass, operations: Number, inside: Number = 0.0, experts: Number = 0.0) -> Pass:
    """One direction; without capacity the host waits before the experts for how many tokens each has, and so cannot
    issue them while the device works on what comes before.
    """
    busy = summed(work.device, work.tp, work.cp, work.ep)
    host = repeated(operations, setting.stack.launch.operation)
    if nothing(experts) or setting.experts is None or not setting.experts.dropless:
        return work + Pass(launch=host_bound_time(busy, summed(host, experts)) - busy)
    beside = busy - inside
    with term("experts"):
        waited = host_bound_time(inside, experts) - inside
    return work + Pass(launch=host_bound_time(beside, host) - beside + waited)
