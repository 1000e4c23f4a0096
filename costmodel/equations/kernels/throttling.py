"""How much slower an accelerator is in a real step than its kernels are alone."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def part_slowdown(
    fitted_slowdown: Number, power: Number, peak: Number, fitted_power: Number, fitted_peak: Number
) -> Number:
    """Slowdown by power and clocks of a part, from that of another one.

    f ((P₀ / R₀) / (P / R))^(1/3), under 1 only if f is

    Args:
        fitted_slowdown: slowdown of the part that was fitted, f [1]
        power: sustained power of the part, P [W]
        peak: its datasheet rate, R [FLOP/s]
        fitted_power: power of the part that was fitted, P₀ [W]
        fitted_peak: its datasheet rate, R₀ [FLOP/s]

    Returns:
        slowdown [1]

    Example:
        >>> round(float(part_slowdown(1.29, 500.0, 989.4e12, 700.0, 989.4e12)), 3)
        1.443

    Holds:
        tensor cores at the power limit, where power grows with the cube of the clock; an A100 has 81 % more, a B200
        37 % less power for its peak than an H100, and runs bear it to 3 %; no run is known of a part with more than
        an A100

    Source:
        hennessy-2017 §1.5; composition

    Monotone: increasing in fitted_slowdown, peak, fitted_power; decreasing in power, fitted_peak
    """
    by_power = fitted_slowdown * ((fitted_power / fitted_peak) / (power / peak)) ** (1 / 3)
    return np.maximum(by_power, np.minimum(fitted_slowdown, 1.0))


@equation
def narrow_slowdown(sustained: Number, narrow_sustained: Number) -> Number:
    """Slowdown by power and clocks of products in a narrow type, from one of products of 16 bits that is assumed.

    n σ, under 1 only if σ is

    Args:
        sustained: slowdown of products of 16 bits, σ [1]
        narrow_sustained: that of the narrow type over it, n [1]

    Returns:
        slowdown [1]

    Example:
        >>> round(float(narrow_slowdown(1.46, 0.85)), 3), float(narrow_slowdown(1.0, 0.85))
        (1.241, 1.0)

    Holds:
        parts with and without a limit on their power; who assumes none has none in any type

    Source:
        training-runs-fit

    Monotone: increasing in sustained, narrow_sustained
    """
    return np.maximum(narrow_sustained * sustained, np.minimum(sustained, 1.0))


@equation
def capped_slowdown(slowdown: Number, clock_share: Number) -> Number:
    """Slowdown of products by power and clocks, under a cap on power.

    σ / f

    Args:
        slowdown: without the cap, σ [1]
        clock_share: clock under the cap over the clock without it, f [1]

    Returns:
        slowdown [1]

    Example:
        >>> round(capped_slowdown(1.29, (5 / 7) ** (1 / 3)), 3)
        1.443

    Holds:
        products that run at the limit of power, as those of a training step do; memory and network keep their rates

    Source:
        hennessy-2017 §1.5; composition

    Monotone: increasing in slowdown; decreasing in clock_share
    """
    return slowdown / clock_share


@equation
def slowest_part(ranks: Number, variation: Number) -> Number:
    """Slowdown of the slowest of many alike parts over one of them, for which a step that all make together waits.

    1 + v √(2 ln n)

    Args:
        ranks: parts that wait for each other, n [1]
        variation: standard deviation of their speed, v [1]

    Returns:
        slowdown [1]

    Example:
        >>> round(float(slowest_part(1024.0, 0.02)), 4)
        1.0745

    Holds:
        what alike parts take is spread as a normal variable; from 8 parts on the expected slowest is 0.6 v less at any
        number, which is as if one part were faster

    Source:
        sinha-2022; gumbel-1958; training-runs-fit

    Pitfall:
        weak scaling without any communication to wait for is not perfect either

    Monotone: increasing in ranks, variation
    """
    return 1 + variation * (2 * np.log(ranks)) ** 0.5
