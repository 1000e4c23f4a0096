"""Throughput, utilisation, efficiency, money."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def flop_utilisation(flop: Number, time: Number, ranks: Number, peak: Number) -> Number:
    """Share of the peak a job reaches: MFU with model FLOP, HFU with executed FLOP.

    F / (t N P)

    flop F [FLOP]: work of a step · time t [s]: of a step · ranks N: accelerators
    peak P [FLOP/s]: datasheet rate of one
    → utilisation
    Source: chowdhery-2022 appendix B
    Monotone: increasing in flop; decreasing in time, ranks, peak
    >>> flop_utilisation(4e18, 10.0, 1000.0, 1e15)
    0.4
    """
    return flop / (time * ranks * peak)


@equation
def tokens_per_step(global_batch: Number, sequence: Number) -> Number:
    """Tokens an optimizer step consumes.

    B s

    global_batch B · sequence s → tokens
    Source: composition
    Monotone: increasing in global_batch, sequence
    >>> tokens_per_step(1024.0, 8192.0)
    8388608.0
    """
    return global_batch * sequence


@equation
def data_read_time(tokens: Number, per_token: Number, storage: Number) -> Number:
    """Time to read the data of a step from their store.

    T b / B

    tokens T: tokens that are read · per_token b [B]: bytes of a token as stored · storage B [B/s]: rate of the store
    → time [s]
    Source: composition
    Monotone: increasing in tokens, per_token; decreasing in storage
    >>> data_read_time(4e6, 4.0, 100e6)
    0.16
    """
    return tokens * per_token / storage


@equation
def rate(amount: Number, time: Number) -> Number:
    """So much in a time.

    x / t

    amount x: how much · time t [s]: in which it happens → per second [1/s]
    Source: composition
    Monotone: increasing in amount; decreasing in time
    >>> rate(8388608.0, 16.0)
    524288.0
    """
    return amount / time


@equation
def compute_rate(flop: Number, time: Number, ranks: Number) -> Number:
    """Model FLOP a second on each accelerator, the figure papers print in TFLOP/s.

    F / (t N)

    flop F [FLOP]: work of a step · time t [s]: of a step · ranks N: accelerators → rate of one accelerator [FLOP/s]
    Source: narayanan-2021 §5.1
    Monotone: increasing in flop; decreasing in time, ranks
    >>> compute_rate(4e18, 10.0, 1000.0)
    400000000000000.0
    """
    return flop / (time * ranks)


@equation
def work_time(flop: Number, rate: Number, ranks: Number) -> Number:
    """Time of work at a known rate of each accelerator, as papers state it.

    F / (R N)

    flop F [FLOP] · rate R [FLOP/s]: reached by one accelerator · ranks N: accelerators → time [s]
    Source: narayanan-2021 §5.1
    Monotone: increasing in flop; decreasing in rate, ranks
    >>> work_time(4e18, 4e14, 1000.0)
    10.0
    """
    return flop / (rate * ranks)


@equation
def share(part: Number, whole: Number) -> Number:
    """A part over the whole.

    x / y

    part [u]: x · whole [u]: y → fraction
    Source: composition
    Monotone: increasing in part; decreasing in whole
    >>> share(1.0, 4.0)
    0.25
    """
    return part / whole


@equation
def communication_efficiency(compute: Number, exposed: Number) -> Number:
    """Share of compute in compute and exposed communication.

    1 / (1 + E / C)

    compute C [s]: time of compute · exposed E [s]: exposed communication → efficiency
    Source: amdahl-1967; composition
    Monotone: increasing in compute; decreasing in exposed
    >>> communication_efficiency(9.0, 1.0)
    0.9
    """
    return compute / (compute + exposed)


@equation
def run_time(tokens: Number, tokens_per_second: Number) -> Number:
    """Wall-clock time of a token budget at a steady rate, without failures.

    T / rate

    tokens T: tokens to train on · tokens_per_second [1/s]: of the whole job → time [s]
    Source: narayanan-2021 eq. 4
    Monotone: increasing in tokens; decreasing in tokens_per_second
    >>> run_time(1e12, 1e6)
    1000000.0
    """
    return tokens / tokens_per_second


@equation
def run_cost(time: Number, ranks: Number, price: Number) -> Number:
    """Rent of all accelerators for a time.

    t N price

    time t [s]: rented · ranks N: accelerators · price [USD/s] → cost [USD]
    Source: composition
    Monotone: increasing in time, ranks, price
    >>> round(run_cost(3600.0, 512.0, 2.5 / 3600))
    1280
    """
    return time * ranks * price


@equation
def token_cost(tokens: Number, ranks: Number, price: Number, tokens_per_second: Number) -> Number:
    """Rent for so many tokens.

    T N price / rate

    tokens T: tokens to pay for · ranks N: accelerators · price [USD/s] · tokens_per_second [1/s]: of the whole job
    → cost [USD]
    Source: composition
    Monotone: increasing in tokens, ranks, price; decreasing in tokens_per_second
    >>> round(token_cost(1e6, 1.0, 2 / 3600, 2500.0), 3)
    0.222
    """
    return tokens * ranks * price / tokens_per_second
