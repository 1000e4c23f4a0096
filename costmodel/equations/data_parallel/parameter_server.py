"""Gradients summed on servers instead of in a ring."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def parameter_server_time(message: Number, workers: Number, servers: Number, bandwidth: Number) -> Number:
    """Least time to sum gradients of n machines on themselves and k further machines.

    t = 2 n (n − 1) / (n² + k n − 2 k) S/B, with k = n at most: that of an all-reduce for k = 0, S/B for k = n

    message S [B]: bytes of the gradients of one machine · workers n: machines that compute
    servers k: further machines that only sum · bandwidth B [B/s]: of one machine, one way
    → time, t [s]
    Source: jiang-2020; composition
    Holds: one full duplex interface for each machine; gradients are summed within the machine first; the processor of a
        server adds as fast as they arrive, about three times as many bytes through its memory
    Monotone: increasing in message; decreasing in servers, bandwidth
    >>> round(float(parameter_server_time(1e9, 32.0, 16.0, 1e9)), 4)
    1.3191
    """
    further = np.minimum(servers, workers)
    balance = workers**2 + further * np.maximum(workers - 2, 0.0)
    return 2 * workers * (workers - 1) / balance * message / bandwidth


@equation
def central_server_time(message: Number, workers: Number, bandwidth: Number) -> Number:
    """Time to sum gradients on one server, whose interface all workers share.

    n S / B

    message S [B]: bytes of the gradients of one worker · workers n: machines that compute
    bandwidth B [B/s]: of the server, one way
    → time [s]
    Source: jiang-2020; composition
    Holds: full duplex, results go out as sums come in; reliable senders, for incast loses packets; no estimate calls it
    Monotone: increasing in message, workers; decreasing in bandwidth
    >>> central_server_time(1e9, 32.0, 1e9)
    32.0
    """
    return workers * message / bandwidth


@equation
def parameter_server_wire(message: Number, workers: Number, servers: Number) -> Number:
    """Bytes that a worker sends to have its gradients summed on n workers and k further servers.

    2 n (n − 1) / (n² + k n − 2 k) S, with k = n at most

    message S [B]: bytes of the gradients of one worker · workers n: workers
    servers k: further interfaces that only sum
    → bytes sent by a worker [B]
    Source: jiang-2020; composition
    Holds: as parameter_server_time, whose interfaces are all busy to the end
    Monotone: increasing in message; decreasing in servers
    >>> float(parameter_server_wire(1e9, 8.0, 0.0)), float(parameter_server_wire(1e9, 8.0, 8.0))
    (1750000000.0, 1000000000.0)
    """
    further = np.minimum(servers, workers)
    balance = workers**2 + further * np.maximum(workers - 2, 0.0)
    return 2 * workers * (workers - 1) / balance * message
