"""What the host holds up: operations and collectives issued, forward, backward and again."""

from __future__ import annotations

from costmodel.documents.model import Layers
from costmodel.equation import Number
from costmodel.equations.counting import repeated
from costmodel.equations.roofline import host_bound_time
from costmodel.estimate.block import Structure
from costmodel.estimate.passes import Both, Pass, summed
from costmodel.estimate.setting import Setting
from costmodel.estimate.shapes.adapters import issued, packed_matrices
from costmodel.estimate.shapes.recompute import dispatched_again, issued_again, unpacked_again

ISSUED_AGAIN = {"nothing": 0.0, "core": 0.0, "operations": 0.5, "layer": 1.0}


def launched(
    setting: Setting,
    structure: Structure,
    kind: Layers,
    layer: Both,
    calls: tuple[Number, Number],
    experts: Number = 0.0,
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
    return Both(
        _issued(setting, layer.forward, repeated(passes, operations) + unpacked + ahead, experts),
        _issued(
            setting, layer.backward, repeated(backward, operations) + twice + behind, repeated(1.0 + again, experts)
        ),
        layer.weight,
    )


def _issued(setting: Setting, work: Pass, operations: Number, experts: Number) -> Pass:
    busy = summed(work.device, work.tp, work.cp, work.ep)
    host = repeated(operations, setting.stack.launch.operation) + experts
    return work + Pass(launch=host_bound_time(busy, host) - busy)
