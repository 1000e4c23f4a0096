"""Waiting in line: for a server, for blocked prompts, for a slot of an engine."""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.uncertainty import normal_share
from costmodel.ground.equation import Number, equation

SATURATED = 1e-9  # share of idle time that rounding leaves of a server that is never idle
MOST_SERVERS = 128  # up to which the probability to wait is counted server by server
ROUNDS = 24  # of Newton's method for the share of requests that find a server busy
COUNTED = 4  # slots, from the last one downwards, that are counted one by one


# --- Waiting in line: one server, several that share a line, and the far end of the wait.


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
    blocked = _blocked_share(counted * share, counted, count=MOST_SERVERS)
    beyond = _many_wait(servers, share) / _many_wait(counted, share)
    waiting: Number = beyond * blocked / (1 - share * (1 - blocked))
    return waiting


def _many_wait(servers: Number, utilisation: Number) -> Number:
    """Probability to wait before very many servers, by how many deviations their number is over the load."""
    spare = (1 - utilisation) * np.sqrt(servers)
    density: Number = np.exp(-(np.minimum(spare, 35.0) ** 2) / 2) / np.sqrt(2 * np.pi)
    return density / (density + spare * normal_share(spare))


def _blocked_share(load: Number, servers: Number, *, count: int) -> Number:
    """Share of requests that find all servers busy where none waits (Erlang B), of the first `count` servers."""
    if count == 0:
        return 1.0
    fewer = _blocked_share(load, servers, count=count - 1)
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
    times = np.log(np.maximum(chance / tail_share, 1.0))
    return np.where(times > 0, wait, 0.0) / np.where(chance > 0, chance, 1.0) * times


# --- Arrivals in bursts, or more regular than at random: gaps that vary by their standard deviation over their mean, c.


@equation
def gap_variation(burstiness: Number) -> Number:
    """Variation of the gaps between arrivals that follow a gamma law, by its shape.

    c = 1 / √k

    burstiness k: shape of the law, 1 at random → variation
    Source: vllm-engine vllm/benchmarks/serve.py; kendall-1953
    Pitfall: the option --burstiness of vLLM is 1 / c²: smaller values are more bursty
    Monotone: decreasing in burstiness
    >>> [float(gap_variation(shape)) for shape in (0.25, 1.0, 4.0)]
    [2.0, 1.0, 0.5]
    """
    return 1 / np.sqrt(burstiness)


@equation
def split_gap_variation(gap_variation: Number, replicas: Number) -> Number:
    """Variation of the gaps of one replica, where each request goes to any of them at random.

    √(1 + (c² − 1) / n)

    gap_variation c: of the gaps between all arrivals · replicas n → variation
    Source: whitt-1983 §4.4; exact
    Pitfall: a burst before many replicas is none before each of them
    Monotone: increasing in gap_variation
    >>> [float(split_gap_variation(2.0, replicas)) for replicas in (1.0, 3.0)]
    [2.0, 1.4142135623730951]
    """
    return np.sqrt(1 + (gap_variation**2 - 1) / replicas)


@equation
def found_busy(utilisation: Number, gap_variation: Number) -> Number:
    """Share of requests that find a server busy, whose gaps follow a gamma law; ρ at random.

    The root σ < 1 of σ = (1 + c² (1 − σ) / ρ)^(−1 / c²), 1 from ρ = 1 on

    utilisation ρ: share of time the server works · gap_variation c: of the gaps between arrivals → share
    Source: kendall-1953
    Holds: exact for exponential times of service (GI/M/1)
    Monotone: increasing in utilisation
    >>> [round(float(found_busy(0.24, variation)), 3) for variation in (0.5, 1.0, 2.0)]
    [0.066, 0.24, 0.601]
    """
    busy, square = np.clip(utilisation, 1e-9, 1 - SATURATED), np.maximum(gap_variation, 1e-2) ** 2
    root = np.clip(_root(busy, square, count=ROUNDS), 0.0, 1.0)
    return np.where(utilisation < 1 - SATURATED, root, 1.0)


def _root(busy: Number, square: Number, *, count: int) -> Number:
    """The root of a convex function by a number of Newton steps from its left."""
    if count == 0:
        return 0.0
    found = _root(busy, square, count=count - 1)
    inner = 1 + square * (1 - found) / busy
    value = inner ** (-1 / square)
    return found + (value - found) / np.maximum(1 - value / (busy * inner), 1e-12)


@equation
def burst_growth(utilisation: Number, found_busy: Number, gap_variation: Number, variation: Number) -> Number:
    """Length of the line before one server over that with random arrivals.

    σ (1 − ρ) / (ρ (1 − σ)) × 2 (c² + v²) / ((1 + c²) (1 + v²)): of a busy server (c² + v²) / (1 + v²)

    utilisation ρ: share of time the server works · found_busy σ: share of requests that find it busy
    gap_variation c: of the gaps between arrivals · variation v: of the service, standard deviation over mean
    → factor on the wait
    Source: allen-1990; kingman-1961; kendall-1953
    Holds: exact for exponential times of service, and of any as ρ nears 1 (Kingman). Allen and Cunneen's factor alone
        is half as long at a quarter of the load, where bursts still wait for themselves
    Monotone: increasing in found_busy
    >>> round(float(burst_growth(0.24, 0.602, 2.0, 0.0)), 2), round(float(burst_growth(0.24, 0.24, 1.0, 0.6)), 2)
    (7.66, 1.0)
    """
    idle, rare = np.maximum(1 - found_busy, SATURATED / 10), np.maximum(utilisation, 1e-9)
    odds = found_busy * np.maximum(1 - utilisation, SATURATED / 10) / (rare * idle)
    grown: Number = odds * shared_burst_growth(gap_variation, variation) * 2 / (1 + gap_variation**2)
    return grown


@equation
def burst_variance(variance: Number, grown: Number, utilisation: Number, found_busy: Number) -> Number:
    """Variance of a wait in line before one server, with bursts of arrivals.

    V g² (2 / σ − 1) / (2 / ρ − 1)

    variance V [s·s]: of the wait with arrivals at random · grown g: how many times as long the wait is
    utilisation ρ: share of time the server works · found_busy σ: share of requests that find it busy
    → variance [s·s]
    Source: kendall-1953; composition
    Holds: exact for exponential times of service, whose waits have the variance W² (2 / σ − 1)
    Monotone: increasing in variance, grown
    >>> round(float(burst_variance(1.0, 2.0, 0.5, 0.7)), 3)
    2.476
    """
    rare = (2 / np.maximum(found_busy, 1e-9) - 1) / (2 / np.clip(utilisation, 1e-9, 1.0) - 1)
    return variance * grown**2 * rare


@equation
def shared_burst_growth(gap_variation: Number, variation: Number) -> Number:
    """Length of the line before several servers over that with random arrivals.

    (c² + v²) / (1 + v²)

    gap_variation c: of the gaps between arrivals · variation v: of the service, standard deviation over mean
    → factor on the wait
    Source: allen-1990
    Monotone: increasing in gap_variation
    >>> [float(shared_burst_growth(2.0, v)) for v in (0.0, 1.0)]
    [4.0, 2.5]
    """
    return (gap_variation**2 + variation**2) / (1 + variation**2)


@equation
def peakedness(gap_variation: Number, answer_variation: Number) -> Number:
    """Variance of the requests in flight over their mean, where none slows another down.

    1 + (c² − 1) 2 Φ(−σ / √2), σ² = ln(1 + v²): E[min] / E of two answers is 2 Φ(−σ / √2)

    gap_variation c: of the gaps between arrivals · answer_variation v: of the lengths of answers → ratio
    Source: whitt-1984; limpert-2001
    Holds: answers that take much longer than a gap; Poisson has 1
    Monotone: increasing in gap_variation; decreasing in answer_variation
    >>> [round(float(peakedness(2.0, v)), 2) for v in (0.0, 1.0)]
    [4.0, 2.67]
    """
    both: Number = 2 * normal_share(-np.sqrt(np.log1p(answer_variation**2) / 2))
    return 1 + (gap_variation**2 - 1) * both


@equation
def burst_token_delay(
    sequence_time: Number,
    prompt_work: Number,
    output: Number,
    gap_variation: Number,
    peakedness: Number,
    utilisation: Number,
    prompt_utilisation: Number,
) -> Number:
    """Time by which a token takes longer than with arrivals at random: others of its burst run, and have prompts.

    ((z − 1) β + (c² − 1) γ s / (2 o)) / ((1 − ρ) (1 − ρ_p)): z − 1 more sequences run beside it than at random, and
    (c² − 1) / 2 more prompts come behind it; all that slows makes others overlap

    sequence_time β [s] · prompt_work [s]: time that a prompt adds to steps, γ s · output o: tokens of an answer
    gap_variation c: of the gaps between arrivals · peakedness z · utilisation ρ: share of time that goes into requests
    prompt_utilisation ρ_p
    → time, below 0 where arrivals are more regular [s]
    Source: whitt-1984; cox-1962; composition
    Holds: of 120 simulated loads up to 70 % of saturation, c from 0.3 to 3, the time per token is 1 % off in the median
        and 6 % at worst, where clustered_token_time bounds it
    Monotone: increasing in peakedness, gap_variation
    >>> round(float(burst_token_delay(60.7e-6, 0.098, 512.0, 2.0, 4.0, 0.45, 0.34)) * 1e3, 2)
    1.29
    """
    free = np.maximum((1 - utilisation) * (1 - prompt_utilisation), 1e-3)
    more = (peakedness - 1) * sequence_time + (gap_variation**2 - 1) * prompt_work / (2 * output)
    return more / free


# --- The line behind prompts that wait until enough answers end for them to fit into a step.


@equation
def drain_time(output: Number, variation: Number, step: Number) -> Number:
    """Mean time for which a prompt waits until enough answers have ended for it to fit.

    D o (1 + v²) / 2: what is left of a running answer, for the sequences that must end are any share of all

    output o: tokens that are generated, on average · variation v: of the answers, standard deviation over mean
    step D [s]: a step without prompts with half of the sequences
    → time [s]
    Source: cox-1962
    Monotone: increasing in output, variation, step
    >>> round(drain_time(512.0, 0.6, 0.014), 2)
    4.87
    """
    return step * output * (1 + variation**2) / 2


@equation
def drain_square(output: Number, variation: Number, step: Number) -> Number:
    """Mean square of the time for which a prompt waits until enough answers have ended.

    (D o)² (1 + v²)³ / 3

    output o: tokens that are generated, on average
    variation v: of the answers, log-normal, standard deviation over mean
    step D [s]: a step without prompts with half of the sequences
    → mean square [s·s]
    Source: cox-1962; limpert-2001
    Monotone: increasing in output, variation, step
    >>> round(drain_square(512.0, 0.6, 0.014), 1)
    43.1
    """
    return (step * output) ** 2 * (1 + variation**2) ** 3 / 3


@equation
def line_growth(utilisation: Number, busy_share: Number) -> Number:
    """How many times as long the line before full steps is where prompts that wait until answers end take time too.

    (1 − ρ) / (1 − ρ − ρ_q), ∞ where both take all the time
    One server, first come, first served: a request takes X = S, or S + T with probability q. Its mean wait is
    λ E[X²] / (2 (1 − λ E[X])), with λ E[X] = ρ + ρ_q and E[X²] = S² (1 + v²) + q T₂, as T ≫ S. The first part is
    queue_wait, λ S² (1 + v²) / (2 (1 − ρ)), times this growth; the second is blocked_wait.

    utilisation ρ: share of time that prompts fill whole steps
    busy_share: share of time that they do, or that a prompt waits until answers end, ρ + ρ_q
    → factor on the wait in line
    Source: harchol-balter-2013 §23; composition
    Monotone: increasing in busy_share
    >>> round(float(line_growth(0.6, 0.7)), 4)
    1.3333
    """
    return _busy_growth(utilisation, busy_share)


@equation
def grown_line_variance(variance: Number, utilisation: Number, busy_share: Number) -> Number:
    """Variance of the wait in line before full steps, where prompts that wait until answers end take time too.

    V g², g = (1 − ρ) / (1 − ρ − ρ_q) of line_growth: each wait is so many times as long

    variance V [s·s]: of the wait before full steps alone · utilisation ρ: share of time that prompts fill whole steps
    busy_share: share of time that they do, or that a prompt waits until answers end, ρ + ρ_q
    → variance [s·s]
    Source: composition
    Monotone: increasing in variance, busy_share
    >>> round(float(grown_line_variance(0.01, 0.6, 0.8)), 4)
    0.04
    """
    return variance * _busy_growth(utilisation, busy_share) ** 2


@equation
def blocked_wait(drain_rate: Number, mean_square: Number, busy_share: Number) -> Number:
    """Mean wait of all requests behind prompts that wait until answers end: those that come meanwhile wait in line.

    λ_q T₂ / (2 (1 − ρ)), ∞ from ρ = 1 on; line_growth derives both parts of the wait

    drain_rate λ_q [1/s]: prompts a second that wait until answers end · mean_square T₂ [s·s]: of that time
    busy_share ρ: share of time that prompts fill whole steps, or that one waits
    → wait [s]
    Source: fuhrmann-1985
    Holds: prompts of log-normal lengths whose refused tail is small: of 25 simulated loads to 80 % of saturation the
        mean time to the first token is 8 % off in the median, 36 % at worst; without this wait it is up to 83 % too
        short
    Monotone: increasing in drain_rate, mean_square, busy_share
    >>> round(float(blocked_wait(0.0015, 43.1, 0.62)), 3)
    0.085
    """
    stable = 1 - busy_share > SATURATED
    return drain_rate * mean_square / 2 * np.where(stable, 1 / np.where(stable, 1 - busy_share, 1.0), np.inf)


def _busy_growth(utilisation: Number, busy_share: Number) -> Number:
    stable = 1 - busy_share > SATURATED
    free = np.where(stable, 1 - busy_share, 1.0)
    grown: Number = np.where(stable, np.maximum(1 - utilisation, 0.0) / free, np.inf)
    return grown


# --- Slots of an engine, one for each request that it holds: how often all are taken, and what requests see of it.
#
# With n requests in flight each of them takes a + w n until it is answered, and the engine answers λ = n / (a + w n) a
# second: a line whose service shares one machine, and where the lengths of requests change only the wait. Its
# requests in flight follow a negative binomial law up to the last slot, and fall by one ratio for each beyond.


@equation
def spare_slots(request_slots: Number, base_load: Number, utilisation: Number) -> Number:
    """Spare slots, in standard deviations of the requests in flight.

    (c − m) / √(m / (1 − ρ)) with their mean m = (A + ρ) / (1 − ρ)

    request_slots c: requests that the engine holds at most
    base_load: requests in flight if none slowed another down, A = λ α o
    utilisation: share of time that goes into requests, ρ = λ w
    → standard deviations; −∞ where more arrives than is answered
    Source: kelly-1979; composition
    Monotone: increasing in request_slots; decreasing in base_load, utilisation
    >>> round(float(spare_slots(256.0, 40.0, 0.5)), 2)
    13.75
    """
    stable = utilisation < 1
    free = np.where(stable, 1 - utilisation, 1.0)
    load = base_load + utilisation
    spare: Number = (request_slots * free - load) / np.sqrt(load)
    return np.where(stable, spare, -np.inf)


@equation
def slots_taken(request_slots: Number, base_load: Number, utilisation: Number) -> Number:
    """Share of requests that find all slots taken.

    C = B / (B + (1 − B) (1 − q)), q = A / c + ρ, B = r B₋ / (1 + r B₋) with B₋ of one slot fewer, r = A / n + ρ; 1 from
    q = 1 on

    request_slots: requests that the engine holds at most, c, one at least
    base_load: requests in flight if none slowed another down, A = λ α o
    utilisation: share of time that goes into requests, ρ = λ w; with 0 it is Erlang's C
    → share
    Source: kelly-1979; harchol-balter-2013 §14; daniels-1954
    Holds: exact up to 4 slots for requests that share the engine evenly; the last 4 of more are counted from a value
        below them by the saddle point, which leaves 15 % at most. With the wait that follows, the mean first token of
        224 simulated loads of 1 to 256 slots is 4 % off in the median, 13 % in nine of ten and 35 % at worst, its p99
        13, 31 and 93 %, which is where one request in a hundred starts to wait
    Monotone: increasing in base_load, utilisation; decreasing in request_slots
    >>> round(float(slots_taken(4.0, 2.8, 0.0)), 4), round(float(slots_taken(16.0, 8.0, 0.35)), 3)
    (0.4287, 0.364)
    """
    free = np.maximum(1 - base_load / request_slots - utilisation, 0.0)
    found: Number = 1 / (1 + (_rarity(request_slots, base_load, utilisation, count=COUNTED) - 1) * free)
    return found


def _rarity(slots: Number, base_load: Number, utilisation: Number, *, count: int) -> Number:
    """1 / B: time in which no more than these slots are taken, over that in which all of them are."""
    if count == 0:
        return np.where(slots > 0, 1 / _full_share(np.maximum(slots, 0.5), base_load, utilisation), 1.0)
    fewer = _rarity(slots - 1, base_load, utilisation, count=count - 1)
    return np.where(slots > 0, 1 + fewer / (base_load / np.where(slots > 0, slots, 1.0) + utilisation), 1.0)


def _full_share(slots: Number, base_load: Number, utilisation: Number) -> Number:
    """Share of the time in which all of so many slots are taken, of that in which no more are: by the saddle point.

    √(r / (2π n (n + r))) e^(δ − D(n)) / Φ(±√(2 D(n + ½))), D(n) = n ln(n / m) − (n + r) ln((n + r) / (m + r)) with the
    mean m, δ = (1 / (n + r) − 1 / n − 1 / r) / 12, r = m (1 − ρ) / ρ
    """
    free = np.clip(1 - utilisation, 1e-6, 1 - 1e-6)
    mean = (base_load + utilisation) / free
    shape = mean * free / (1 - free)
    above = slots + 0.5
    factorials = (1 / (slots + shape) - 1 / slots - 1 / shape) / 12
    exponent = np.maximum(factorials - _gamma_deviation(slots, mean, shape), -200.0)
    density = np.exp(exponent) * np.sqrt(shape / (2 * np.pi * slots * (slots + shape)))
    below = normal_share(np.copysign(np.sqrt(2 * np.maximum(_gamma_deviation(above, mean, shape), 0.0)), above - mean))
    share: Number = np.clip(density / np.maximum(below, 1e-99), 1e-99, 1.0)
    return share


def _gamma_deviation(many: Number, mean: Number, shape: Number) -> Number:
    apart: Number = many * np.log(many / mean) - (many + shape) * np.log1p((many - mean) / (mean + shape))
    return apart


@equation
def full_slot_time(base_time: Number, output: Number, request_work: Number, request_slots: Number) -> Number:
    """Time for which a request keeps its slot while all are taken.

    α o + w c

    base_time α [s]: fixed time of a step · output o: tokens that are generated, on average
    request_work w [s]: time a request adds to all the steps it is part of
    request_slots c: requests that the engine holds at most
    → time [s]
    Source: composition
    Monotone: increasing in base_time, output, request_work, request_slots
    >>> round(full_slot_time(0.01, 512.0, 0.129, 16.0), 2)
    7.18
    """
    return base_time * output + request_work * request_slots


@equation
def slot_variation(own_time: Number, slot_time: Number, prompt_variation: Number, answer_variation: Number) -> Number:
    """Variation of the times for which requests keep their slots, standard deviation over mean.

    √((v_s P)² + (v_o (T − P))²) / T

    own_time P [s]: steps of a prompt by itself · slot_time T [s] · prompt_variation v_s: of the lengths of prompts
    answer_variation v_o: of the lengths of answers
    → variation
    Source: composition
    Monotone: increasing in prompt_variation, answer_variation
    >>> round(float(slot_variation(1.0, 5.0, 0.5, 1.0)), 3)
    0.806
    """
    return np.sqrt((prompt_variation * own_time) ** 2 + (answer_variation * (slot_time - own_time)) ** 2) / slot_time


@equation
def slotted_token_time(
    tpot: Number,
    base_time: Number,
    sequence_time: Number,
    prompt_work: Number,
    output: Number,
    utilisation: Number,
    request_slots: Number,
    taken_share: Number,
) -> Number:
    """Time per token where few slots bound how many requests slow one another down.

    (1 − √C) min(t, D) + √C min(t, D, L), D = α + β c + γ s (c − 1) / o,
    L = (α + (1 − C) (β + γ s / o)) / (1 − ρ) − γ s / o
    D is a step with all slots taken, each by one request after the other. L is Little's law over the time in a slot,
    (a + w (1 − C)) / (1 − ρ), less the request's own prompt.

    tpot t [s]: time per token without a bound · base_time α [s]: fixed time of a step · sequence_time β [s]
    prompt_work [s]: time that a prompt adds to steps, γ s · output o: tokens that are generated, on average
    utilisation ρ: share of time that goes into requests · request_slots c: requests that the engine holds at most
    taken_share C
    → time [s]
    Source: little-1961; kelly-1979
    Holds: arrivals at random; of 96 simulated loads, half of them with prompts of 64,000 tokens and more, it is 1 % off
        in the median, 13 % in nine of ten and 23 % at worst
    Monotone: increasing in tpot
    >>> found = [slotted_token_time(0.031, 0.02, 4e-4, 0.56, 128.0, 0.3, 4.0, taken) for taken in (0.0, 0.5)]
    >>> [round(float(time) * 1e3, 1) for time in found]
    [31.0, 28.6]
    """
    prompts = prompt_work / output
    most = base_time + sequence_time * request_slots + prompts * np.maximum(request_slots - 1, 0.0)
    free = np.where(utilisation < 1, 1 - utilisation, 1.0)
    by_little = (base_time + (1 - taken_share) * (sequence_time + prompts)) / free - prompts
    apart, mixed = np.minimum(tpot, most), np.sqrt(taken_share)
    token: Number = (1 - mixed) * apart + mixed * np.where(utilisation < 1, np.minimum(apart, by_little), apart)
    return token
