"""Stages of one pipeline on nodes of several kinds: what a layer takes each kind, and how many layers are alike."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def time_of_another(once: Number, twice: Number, count: Number) -> Number:
    """Time of one more of something, from the time of so many and that of twice as many.

    (T₂ − T₁) / n

    Args:
        once: time of so many, T₁ [s]
        twice: time of twice as many, T₂ [s]
        count: how many, n [1]

    Returns:
        time [s]

    Example:
        >>> time_of_another(3.0, 5.0, 8.0)
        0.25

    Source:
        exact

    Monotone: increasing in twice; decreasing in once
    """
    return (twice - once) / count


@equation
def time_beside_layers(once: Number, layers: Number, layer_time: Number) -> Number:
    """What a stage takes beside its layers.

    max(T − l t, 0)

    Args:
        once: time of the stage, T [s]
        layers: layers in it, l [1]
        layer_time: time of a layer, t [s]

    Returns:
        time [s]

    Example:
        >>> float(time_beside_layers(3.0, 8.0, 0.25))
        1.0

    Source:
        exact

    Monotone: increasing in once; decreasing in layers, layer_time
    """
    return np.maximum(once - layers * layer_time, 0.0)


@equation
def memory_of_another(needed: Number, needed_twice: Number, layers: Number) -> Number:
    """Memory that one more layer needs, from that of so many and that of twice as many.

    (M₂ − M₁) / l

    Args:
        needed: memory with so many, M₁ [B]
        needed_twice: memory with twice as many, M₂ [B]
        layers: layers, l [1]

    Returns:
        bytes [B]

    Example:
        >>> memory_of_another(20e9, 36e9, 8.0) / 1e9
        2.0

    Source:
        exact

    Monotone: increasing in needed_twice; decreasing in needed
    """
    return (needed_twice - needed) / layers


@equation
def layers_in_memory(layers: Number, needed: Number, layer_bytes: Number, usable: Number) -> Number:
    """Whole layers that the memory of a rank holds, from what so many need and each further one; one at least.

    max(⌊l + (U − M) / m⌋, 1)

    Args:
        layers: layers, l [1]
        needed: memory with so many, M [B]
        layer_bytes: memory of a further layer, m [B]
        usable: usable memory of the rank, U [B]

    Returns:
        layers [1]

    Example:
        >>> float(layers_in_memory(8.0, 20e9, 2e9, 80e9))
        38.0

    Source:
        exact

    Monotone: increasing in layers, usable; decreasing in needed
    """
    return np.maximum(np.floor(layers + (usable - needed) / layer_bytes), 1.0)


@equation
def layers_as_long(layers: Number, layer_time: Number, apart: Number, own_layer_time: Number) -> Number:
    """Layers with which a stage would take one kind of nodes as long as its layers take the kind it lies on.

    max((l t + d) / t₀, 0)

    Args:
        layers: layers of the stage, l [1]
        layer_time: time of a layer on the kind it lies on, t [s]
        apart: what the stage takes there beside its layers over what it would here, d [s]
        own_layer_time: time of a layer on the one kind, t₀ [s]

    Returns:
        layers [1]

    Example:
        >>> round(float(layers_as_long(5.0, 0.6, 0.1, 0.25)), 6)
        12.4

    Source:
        exact

    Monotone: increasing in layers, layer_time, apart; decreasing in own_layer_time
    """
    return np.maximum((layers * layer_time + apart) / own_layer_time, 0.0)
