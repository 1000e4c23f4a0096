"""The host's launches in steps that replay no captured graph."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def eager_launch_time(layers: Number, launches: Number, launch: Number) -> Number:
    """Time the host needs to launch the kernels of a step one by one, where it replays no captured graph.

    L k h

    layers L · launches k · launch h [s] → time [s]
    Source: count
    Holds: head, embedding and sampling left out; in host_bound_time with the device's time of the step
    Pitfall: a model of a billion parameters waits for its launches even at 6 us each: its device needs 0.9 ms of the
        1.3
    Monotone: increasing in layers, launches, launch
    >>> round(float(eager_launch_time(16.0, 14.0, 6e-6)) * 1e3, 3)
    1.344
    """
    return layers * launches * launch
