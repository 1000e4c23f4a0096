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

    fitted_slowdown f: slowdown of the part that was fitted · power P [W]: sustained power of the part
    peak R [FLOP/s]: its datasheet rate · fitted_power P₀ [W]: power of the part that was fitted
    fitted_peak R₀ [FLOP/s]: its datasheet rate
    → slowdown
    Source: hennessy-2017 §1.5; composition
    Holds: tensor cores at the power limit, where power grows with the cube of the clock; an A100 has 81 % more, a B200
        37 % less power for its peak than an H100, and runs bear it to 3 %; no run is known of a part with more than an
        A100
    Monotone: increasing in fitted_slowdown, peak, fitted_power; decreasing in power, fitted_peak
    >>> round(float(part_slowdown(1.29, 500.0, 989.4e12, 700.0, 989.4e12)), 3)
    1.443
    """
    by_power = fitted_slowdown * ((fitted_power / fitted_peak) / (power / peak)) ** (1 / 3)
    return np.maximum(by_power, np.minimum(fitted_slowdown, 1.0))


@equation
def narrow_slowdown(sustained: Number, narrow_sustained: Number) -> Number:
    """Slowdown by power and clocks of products in a narrow type, from one of products of 16 bits that is assumed.

    n σ, under 1 only if σ is

    sustained σ: slowdown of products of 16 bits · narrow_sustained n: that of the narrow type over it → slowdown
    Source: training-runs-fit
    Holds: parts with and without a limit on their power; who assumes none has none in any type
    Monotone: increasing in sustained, narrow_sustained
    >>> round(float(narrow_slowdown(1.46, 0.85)), 3), float(narrow_slowdown(1.0, 0.85))
    (1.241, 1.0)
    """
    return np.maximum(narrow_sustained * sustained, np.minimum(sustained, 1.0))


@equation
def capped_slowdown(slowdown: Number, clock_share: Number) -> Number:
    """Slowdown of products by power and clocks, under a cap on power.

    σ / f

    slowdown σ: without the cap · clock_share f: clock under the cap over the clock without it → slowdown
    Source: hennessy-2017 §1.5; composition
    Holds: products that run at the limit of power, as those of a training step do; memory and network keep their rates
    Monotone: increasing in slowdown; decreasing in clock_share
    >>> round(capped_slowdown(1.29, (5 / 7) ** (1 / 3)), 3)
    1.443
    """
    return slowdown / clock_share


@equation
def slowest_part(ranks: Number, variation: Number) -> Number:
    """Slowdown of the slowest of many alike parts over one of them, for which a step that all make together waits.

    1 + v √(2 ln n)

    ranks n: parts that wait for each other · variation v: standard deviation of their speed → slowdown
    Source: sinha-2022; gumbel-1958; training-runs-fit
    Holds: what alike parts take is spread as a normal variable; from 8 parts on the expected slowest is 0.6 v less at
        any number, which is as if one part were faster
    Pitfall: weak scaling without any communication to wait for is not perfect either
    Monotone: increasing in ranks, variation
    >>> round(float(slowest_part(1024.0, 0.02)), 4)
    1.0745
    """
    return 1 + variation * (2 * np.log(ranks)) ** 0.5
