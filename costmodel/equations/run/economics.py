"""Throughput, utilisation, efficiency, money."""

from __future__ import annotations

from costmodel.ground.equation import Number, equation


@equation
def flop_utilisation(flop: Number, time: Number, ranks: Number, peak: Number) -> Number:
    """Share of the peak a job reaches: MFU with model FLOP, HFU with executed FLOP.

    F / (t N P)

    Args:
        flop: work of a step, F [FLOP]
        time: of a step, t [s]
        ranks: accelerators, N [1]
        peak: datasheet rate of one, P [FLOP/s]

    Returns:
        utilisation [1]

    Example:
        >>> flop_utilisation(4e18, 10.0, 1000.0, 1e15)
        0.4

    Source:
        chowdhery-2022 appendix B

    Monotone: increasing in flop; decreasing in time, ranks, peak
    """
    return flop / (time * ranks * peak)


@equation
def tokens_per_step(global_batch: Number, sequence: Number) -> Number:
    """Tokens an optimizer step consumes.

    B s

    Args:
        global_batch: sequences in a step, B [1]
        sequence: tokens in a sequence, s [1]

    Returns:
        tokens [1]

    Example:
        >>> tokens_per_step(1024.0, 8192.0)
        8388608.0

    Source:
        composition

    Monotone: increasing in global_batch, sequence
    """
    return global_batch * sequence


@equation
def data_read_time(tokens: Number, per_token: Number, storage: Number) -> Number:
    """Time to read the data of a step from their store.

    T b / B

    Args:
        tokens: tokens that are read, T [1]
        per_token: bytes of a token as stored, b [B]
        storage: rate of the store, B [B/s]

    Returns:
        time [s]

    Example:
        >>> data_read_time(4e6, 4.0, 100e6)
        0.16

    Source:
        composition

    Monotone: increasing in tokens, per_token; decreasing in storage
    """
    return tokens * per_token / storage


@equation
def rate(amount: Number, time: Number) -> Number:
    """So much in a time.

    x / t

    Args:
        amount: how much, x [1]
        time: in which it happens, t [s]

    Returns:
        per second [1/s]

    Example:
        >>> rate(8388608.0, 16.0)
        524288.0

    Source:
        composition

    Monotone: increasing in amount; decreasing in time
    """
    return amount / time


@equation
def compute_rate(flop: Number, time: Number, ranks: Number) -> Number:
    """Model FLOP a second on each accelerator, the figure papers print in TFLOP/s.

    F / (t N)

    Args:
        flop: work of a step, F [FLOP]
        time: of a step, t [s]
        ranks: accelerators, N [1]

    Returns:
        rate of one accelerator [FLOP/s]

    Example:
        >>> compute_rate(4e18, 10.0, 1000.0)
        400000000000000.0

    Source:
        narayanan-2021 §5.1

    Monotone: increasing in flop; decreasing in time, ranks
    """
    return flop / (time * ranks)


@equation
def work_time(flop: Number, rate: Number, ranks: Number) -> Number:
    """Time of work at a known rate of each accelerator, as papers state it.

    F / (R N)

    Args:
        flop: work, F [FLOP]
        rate: reached by one accelerator, R [FLOP/s]
        ranks: accelerators, N [1]

    Returns:
        time [s]

    Example:
        >>> work_time(4e18, 4e14, 1000.0)
        10.0

    Source:
        narayanan-2021 §5.1

    Monotone: increasing in flop; decreasing in rate, ranks
    """
    return flop / (rate * ranks)


@equation
def share(part: Number, whole: Number) -> Number:
    """A part over the whole.

    x / y

    Args:
        part: x [u]
        whole: y [u]

    Returns:
        fraction [1]

    Example:
        >>> share(1.0, 4.0)
        0.25

    Source:
        composition

    Monotone: increasing in part; decreasing in whole
    """
    return part / whole


@equation
def communication_efficiency(compute: Number, exposed: Number) -> Number:
    """Share of compute in compute and exposed communication.

    1 / (1 + E / C)

    Args:
        compute: time of compute, C [s]
        exposed: exposed communication, E [s]

    Returns:
        efficiency [1]

    Example:
        >>> communication_efficiency(9.0, 1.0)
        0.9

    Source:
        amdahl-1967; composition

    Monotone: increasing in compute; decreasing in exposed
    """
    return compute / (compute + exposed)


@equation
def run_time(tokens: Number, tokens_per_second: Number) -> Number:
    """Wall-clock time of a token budget at a steady rate, without failures.

    T / rate

    Args:
        tokens: tokens to train on, T [1]
        tokens_per_second: of the whole job [1/s]

    Returns:
        time [s]

    Example:
        >>> run_time(1e12, 1e6)
        1000000.0

    Source:
        narayanan-2021 eq. 4

    Monotone: increasing in tokens; decreasing in tokens_per_second
    """
    return tokens / tokens_per_second


@equation
def run_cost(time: Number, ranks: Number, price: Number) -> Number:
    """Rent of all accelerators for a time.

    t N price

    Args:
        time: rented, t [s]
        ranks: accelerators, N [1]
        price: of one accelerator [USD/s]

    Returns:
        cost [USD]

    Example:
        >>> round(run_cost(3600.0, 512.0, 2.5 / 3600))
        1280

    Source:
        composition

    Monotone: increasing in time, ranks, price
    """
    return time * ranks * price


@equation
def token_cost(tokens: Number, ranks: Number, price: Number, tokens_per_second: Number) -> Number:
    """Rent for so many tokens.

    T N price / rate

    Args:
        tokens: tokens to pay for, T [1]
        ranks: accelerators, N [1]
        price: of one accelerator [USD/s]
        tokens_per_second: of the whole job [1/s]

    Returns:
        cost [USD]

    Example:
        >>> round(token_cost(1e6, 1.0, 2 / 3600, 2500.0), 3)
        0.222

    Source:
        composition

    Monotone: increasing in tokens, ranks, price; decreasing in tokens_per_second
    """
    return tokens * ranks * price / tokens_per_second
