"""The host's launches in steps that replay no captured graph."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def eager_launch_time(layers: Number, launches: Number, launch: Number) -> Number:
    """Time the host needs to launch the kernels of a step one by one, where it replays no captured graph.

    L k h

    Args:
        layers: layers of the model, L [1]
        launches: kernels that are launched for a layer, k [1]
        launch: host time to launch one kernel, h [s]

    Returns:
        time [s]

    Example:
        >>> round(float(eager_launch_time(16.0, 14.0, 6e-6)) * 1e3, 3)
        1.344

    Holds:
        head, embedding and sampling left out; in host_bound_time with the device's time of the step

    Source:
        count

    Pitfall:
        a model of a billion parameters waits for its launches even at 6 us each: its device needs 0.9 ms of the 1.3

    Monotone: increasing in layers, launches, launch
    """
    return layers * launches * launch
