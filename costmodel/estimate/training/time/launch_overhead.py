"""Launch overhead: host time to issue operations and collectives, in forward, backward and recompute."""

from __future__ import annotations

from costmodel.documents.schemas.model import Layers
from costmodel.equations.kernels.roofline import host_bound_time
from costmodel.estimate.shared.plan_batch import Structure
from costmodel.estimate.shared.time_breakdown import ForwardBackward, TimeByCategory, summed
from costmodel.estimate.training.lora import issued, packed_matrices
from costmodel.estimate.training.parallelism.expert.expert_time import ExpertWork
from costmodel.estimate.training.recompute.recomputed_work import RecomputedWork, issued_again, unpacked_again
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term


def launched(
    inputs: TrainingInputs,
    structure: Structure,
    kind: Layers,
    again: RecomputedWork,
    layer: ForwardBackward,
    calls: tuple[Number, Number],
    experts: ExpertWork | None = None,
) -> ForwardBackward:
    """A layer with the time in which the device waits for the host.

    Backward issues twice as many operations, and recompute issues them again.

    Calls are the collectives that the host issues forward and backward beside the operations. Experts are issued one by
    one, in forward only once their token counts are known. Packed weights are unpacked once in each direction.
    """
    operations = inputs.stack.launch.operations
    passes = 1.0 + issued(inputs, kind) if inputs.tuning is not None else 1.0
    backward = 2.0 * passes + issued_again(inputs, structure, kind, again)
    unpacked = sum(1.0 for _ in packed_matrices(inputs, kind))
    twice = unpacked + unpacked_again(inputs, kind, again)
    first = passes * operations + unpacked + calls[0]
    second = backward * operations + twice + calls[1]
    inside, ahead, behind = (experts.both.forward.device, experts.ahead, experts.behind) if experts else (0.0, 0.0, 0.0)
    once_more = again.routed * ahead
    if experts is None or not experts.waits:
        forward = _issued(inputs, layer.forward, first, ahead)
        return ForwardBackward(
            forward, _issued(inputs, layer.backward, second, summed(behind, once_more)), layer.weight
        )
    forward = _issued(inputs, layer.forward, first, apart=(inside, ahead))
    apart = (again.routed * inside, once_more) if again.routed else None
    return ForwardBackward(forward, _issued(inputs, layer.backward, second, behind, apart), layer.weight)


def _issued(
    inputs: TrainingInputs,
    work: TimeByCategory,
    operations: Number,
    experts: Number = 0.0,
    apart: tuple[Number, Number] | None = None,
) -> TimeByCategory:
    """One direction.

    The host issues the separate part, with its own device and host time, only after all before it ended.
    """
    busy = summed(work.device, work.tp, work.cp, work.ep)
    host = summed(operations * inputs.stack.launch.operation, experts)
    if apart is None:
        return work + TimeByCategory(launch=host_bound_time(busy, host) - busy)
    inside, issued = apart
    beside = busy - inside
    with term("experts"):
        waited = host_bound_time(inside, issued) - inside
    return work + TimeByCategory(launch=host_bound_time(beside, host) - beside + waited)
