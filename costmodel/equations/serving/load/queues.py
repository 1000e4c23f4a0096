"""Waiting in line: one server, several that share a line, and the far end of the wait."""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.uncertainty import normal_share
from costmodel.ground.equation import Number, equation

SATURATED = 1e-9  # share of idle time that rounding leaves of a server that is never idle
MOST_SERVERS = 128  # up to which the probability to wait is counted server by server


@equation
def queue_wait(service: Number, utilisation: Number, variation: Number) -> Number:
    """Mean wait in line before one server, arrivals at random (M/G/1, Pollaczek and Khinchine).

    ρ S (1 + v²) / (2 (1 − ρ)), ∞ from ρ = 1 on

    service S [s] · utilisation ρ: share of time the server works
    variation v: of the service, standard deviation over mean
    → wait before service [s]
    Source: harchol-balter-2013 §23
    Monotone: increasing in service, utilisation, variation
    >>> round(float(queue_wait(1.0, 0.7, 1.0)), 3), float(queue_wait(1.0, 1.2, 1.0))
    (2.333, inf)
    """
    stable = 1 - utilisation > SATURATED
    crowd = utilisation * (1 + variation**2) / 2
    return service * np.where(stable, crowd / np.where(stable, 1 - utilisation, 1.0), np.inf)


@equation
def occupied_share(requests: Number) -> Number:
    """Share of the time in which an engine has at least one request, arrivals at random and all served at once (M/G/∞).

    1 − exp(−n)

    requests n: in the engine on average → share
    Source: harchol-balter-2013 §15
    Monotone: increasing in requests
    >>> round(float(occupied_share(1.0)), 3)
    0.632
    """
    return -np.expm1(-requests)


@equation
def queue_wait_variance(service: Number, utilisation: Number, variation: Number) -> Number:
    """Variance of the wait in line before one server whose times of service are log-normal.

    W² + ρ S² (1 + v²)³ / (3 (1 − ρ)), ∞ from ρ = 1 on

    service S [s] · utilisation ρ: share of time the server works
    variation v: of the service, standard deviation over mean
    → variance [s·s]
    Source: harchol-balter-2013 §23; limpert-2001
    Monotone: increasing in service, utilisation, variation
    >>> round(float(queue_wait_variance(1.0, 0.5, 0.0)), 4)
    0.5833
    """
    stable = 1 - utilisation > SATURATED
    free = np.where(stable, 1 - utilisation, 1.0)
    moments = 1 + variation**2
    relative = (utilisation * moments / (2 * free)) ** 2 + utilisation * moments**3 / (3 * free)
    return service**2 * np.where(stable, relative, np.inf)


@equation
def waiting_probability(servers: Number, utilisation: Number) -> Number:
    """Probability that a request finds all of several servers busy that share one line (Erlang C).

    C = B / (1 − ρ (1 − B)), B = a B₋ / (k + a B₋) with B₋ of one server fewer, a = k ρ; 1 from ρ = 1 on

    servers k: servers · utilisation ρ: share of time each server works → probability
    Source: harchol-balter-2013 §14; halfin-1981
    Holds: exact up to 128 servers; from there on it falls as φ / (φ + z Φ) of z = (1 − ρ) √k, of the normal law
    Monotone: increasing in utilisation; decreasing in servers
    >>> round(float(waiting_probability(4.0, 0.7)), 4)
    0.4287
    """
    share = np.minimum(utilisation, 1.0)
    counted = np.minimum(servers, float(MOST_SERVERS))
    blocked = _blocked(counted * share, counted, count=MOST_SERVERS)
    beyond = _many_wait(servers, share) / _many_wait(counted, share)
    waiting: Number = beyond * blocked / (1 - share * (1 - blocked))
    return waiting


def _many_wait(servers: Number, utilisation: Number) -> Number:
    """Probability to wait before very many servers, by how many deviations their number is over the load."""
    spare = (1 - utilisation) * np.sqrt(servers)
    density: Number = np.exp(-(np.minimum(spare, 35.0) ** 2) / 2) / np.sqrt(2 * np.pi)
    return density / (density + spare * normal_share(spare))


def _blocked(load: Number, servers: Number, *, count: int) -> Number:
    """Share of requests that find all servers busy where none waits (Erlang B), of the first `count` servers."""
    if count == 0:
        return 1.0
    fewer = _blocked(load, servers, count=count - 1)
    return np.where(servers >= count, load * fewer / (count + load * fewer), fewer)


@equation
def pooled_wait(
    service: Number, servers: Number, utilisation: Number, variation: Number, waiting_probability: Number
) -> Number:
    """Mean wait before several servers that share one line.

    C S (1 + v²) / (2 k (1 − ρ)), ∞ from ρ = 1 on

    service S [s] · servers k: servers · utilisation ρ: share of time each server works
    variation v: of the service, standard deviation over mean · waiting_probability C: probability that all are busy
    → wait before service [s]
    Source: harchol-balter-2013 §14
    Holds: exact for exponential times of service; of others as a single server's (Lee and Longton), within a tenth
    Pitfall: four servers that each have a line of their own wait six times as long at ρ = 0.7
    Monotone: increasing in service, utilisation, variation, waiting_probability; decreasing in servers
    >>> round(float(pooled_wait(1.0, 4.0, 0.7, 1.0, 0.4287)), 3)
    0.357
    """
    stable = 1 - utilisation > SATURATED
    crowd = waiting_probability * (1 + variation**2) / 2
    return service / servers * np.where(stable, crowd / np.where(stable, 1 - utilisation, 1.0), np.inf)


@equation
def pooled_wait_variance(wait: Number, waiting_probability: Number) -> Number:
    """Variance of the wait before several servers that share one line.

    W² (2 / C − 1): those who wait, a share C, wait an exponential time of W / C on average

    wait W [s]: mean wait of all · waiting_probability: probability that all servers are busy, C, above 0
    → variance [s·s]
    Source: harchol-balter-2013 §14
    Holds: exact for exponential times of service
    Monotone: increasing in wait; decreasing in waiting_probability
    >>> round(float(pooled_wait_variance(0.357, 0.4287)), 3)
    0.467
    """
    return wait**2 * (2 / waiting_probability - 1)


@equation
def wait_percentile(wait: Number, waiting_probability: Number, tail_share: Number) -> Number:
    """Wait that only a share of all requests exceeds.

    W / C × max(ln(C / p), 0): those that wait do so for an exponential time

    wait W [s]: mean wait of all requests
    waiting_probability: probability to wait at all, C; of one server its utilisation
    tail_share p: share of requests beyond
    → wait [s]
    Source: harchol-balter-2013 §14
    Holds: exact for exponential times of service; by simulation 16 % too much for constant ones at half load, 11 % too
        little for log-normal ones
    Monotone: increasing in wait; decreasing in tail_share
    >>> round(float(wait_percentile(2.333, 0.7, 0.01)), 1)
    14.2
    """
    chance = np.minimum(waiting_probability, 1.0)
    return wait / np.where(chance > 0, chance, 1.0) * np.log(np.maximum(chance / tail_share, 1.0))
