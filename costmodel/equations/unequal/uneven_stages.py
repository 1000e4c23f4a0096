"""Stages of one pipeline on nodes of several kinds: what a layer takes each kind, and how many layers are alike."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def time_of_another(once: Number, twice: Number, count: Number) -> Number:
    """Time of one more of something, from the time of so many and that of twice as many.

    (T₂ − T₁) / n

    once T₁ [s]: time of so many · twice T₂ [s]: time of twice as many · count n → time [s]
    Source: exact
    Monotone: increasing in twice; decreasing in once
    >>> time_of_another(3.0, 5.0, 8.0)
    0.25
    """
    return (twice - once) / count


@equation
def time_beside_layers(once: Number, layers: Number, layer_time: Number) -> Number:
    """What a stage takes beside its layers.

    max(T − l t, 0)

    once T [s]: time of the stage · layers l: layers in it · layer_time t [s]: time of a layer → time [s]
    Source: exact
    Monotone: increasing in once; decreasing in layers, layer_time
    >>> float(time_beside_layers(3.0, 8.0, 0.25))
    1.0
    """
    return np.maximum(once - layers * layer_time, 0.0)


@equation
def memory_of_another(needed: Number, needed_twice: Number, layers: Number) -> Number:
    """Memory that one more layer needs, from that of so many and that of twice as many.

    (M₂ − M₁) / l

    needed M₁ [B]: memory with so many · needed_twice M₂ [B]: memory with twice as many · layers l: layers → bytes [B]
    Source: exact
    Monotone: increasing in needed_twice; decreasing in needed
    >>> memory_of_another(20e9, 36e9, 8.0) / 1e9
    2.0
    """
    return (needed_twice - needed) / layers


@equation
def layers_in_memory(layers: Number, needed: Number, layer_bytes: Number, usable: Number) -> Number:
    """Whole layers that the memory of a rank holds, from what so many need and each further one; one at least.

    max(⌊l + (U − M) / m⌋, 1)

    layers l: layers · needed M [B]: memory with so many · layer_bytes m [B]: memory of a further layer
    usable U [B]: usable memory of the rank
    → layers
    Source: exact
    Monotone: increasing in layers, usable; decreasing in needed
    >>> float(layers_in_memory(8.0, 20e9, 2e9, 80e9))
    38.0
    """
    return np.maximum(np.floor(layers + (usable - needed) / layer_bytes), 1.0)


@equation
def layers_as_long(layers: Number, layer_time: Number, apart: Number, own_layer_time: Number) -> Number:
    """Layers with which a stage would take one kind of nodes as long as its layers take the kind it lies on.

    max((l t + d) / t₀, 0)

    layers l: layers of the stage · layer_time t [s]: time of a layer on the kind it lies on
    apart d [s]: what the stage takes there beside its layers over what it would here
    own_layer_time t₀ [s]: time of a layer on the one kind
    → layers
    Source: exact
    Monotone: increasing in layers, layer_time, apart; decreasing in own_layer_time
    >>> round(float(layers_as_long(5.0, 0.6, 0.1, 0.25)), 6)
    12.4
    """
    return np.maximum((layers * layer_time + apart) / own_layer_time, 0.0)
