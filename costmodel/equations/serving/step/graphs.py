"""Captured graphs and the host: batches padded to a captured size, and the host's launches without graphs."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def captured_batch(sequences: Number, largest: Number) -> Number:
    """Size of the captured graph that a batch is padded to.

    1, 2, 4, then multiples of 8 up to 256, then multiples of 16; the batch itself where no graph is as large

    Args:
        sequences: sequences of the step [1]
        largest: largest size that is captured [1]

    Returns:
        sequences that the device works on [1]

    Example:
        >>> [float(captured_batch(batch, 512.0)) for batch in (3.0, 130.0, 300.0, 600.0)]
        [4.0, 136.0, 304.0, 600.0]

    Holds:
        no estimate calls it: batches of published runs are of captured sizes, so none shows what padding takes

    Source:
        vllm-engine config/vllm.py

    Monotone: increasing in sequences
    """
    small = np.where(sequences <= 1, 1.0, np.where(sequences <= 2, 2.0, 4.0))
    middle = np.where(sequences <= 4, small, 8 * np.ceil(sequences / 8))
    padded = np.where(sequences <= 256, middle, 16 * np.ceil(sequences / 16))
    return np.where(padded <= largest, padded, sequences)


@equation
def captured_sizes(largest: Number) -> Number:
    """Graphs that an engine captures, each of which takes memory and time at its start.

    sizes of captured_batch up to the largest

    Args:
        largest: largest size that is captured [1]

    Returns:
        graphs [1]

    Example:
        >>> [float(captured_sizes(largest)) for largest in (4.0, 256.0, 512.0)]
        [3.0, 35.0, 51.0]

    Holds:
        no estimate calls it

    Source:
        vllm-engine config/vllm.py

    Monotone: increasing in largest
    """
    first = np.minimum(np.floor(np.log2(np.maximum(largest, 1.0))) + 1, 3.0)
    eights = np.floor(np.minimum(largest, 248.0) / 8)
    sizes: Number = first + eights + np.maximum(np.floor(largest / 16) - 15, 0.0)
    return sizes


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
