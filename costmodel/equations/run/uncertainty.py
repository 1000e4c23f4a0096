"""How far an answer may be off: spreads of its terms, of their sum, and the percentiles they leave.

A spread is a standard deviation of the logarithm: of small errors the relative standard deviation.
Errors of one kind are taken as fully correlated, so that their parts add; kinds are independent, so that squares add.
"""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation

# Of a standard normal distribution: where 75, 90 and 95 % lie below.
QUARTER, TENTH, TWENTIETH = 0.67449, 1.28155, 1.64485
# Of Φ by a rational approximation, off by less than 7.5e-8.
SURE = 1e-9  # spread, or logarithm of a factor, from which it is taken as nothing
BASE, SERIES = 0.2316419, (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
FREEDOM = 3.0  # of a Student t between sources of training runs; likelihoods for 2 to 6 are alike


@equation
def residual_spread(median_error: Number, tail_error: Number) -> Number:
    """Spread of an error whose absolute value has a known median and 90th percentile.

    √(((ε₅₀ / 0.674)² + (ε₉₀ / 1.645)²) / 2)

    Args:
        median_error: residual: median of |predicted / measured − 1|, ε₅₀ [1]
        tail_error: residual: 90th percentile of the same, ε₉₀ [1]

    Returns:
        spread [1]

    Example:
        >>> round(float(residual_spread(0.067449, 0.164485)), 6)
        0.1

    Holds: errors near log-normal; heavier tails weigh as much as the middle
    Source:
        jcgm-100 §4.3.5

    Monotone: increasing in median_error, tail_error
    """
    return np.sqrt(((median_error / QUARTER) ** 2 + (tail_error / TWENTIETH) ** 2) / 2)


@equation
def doublings_outside(amount: Number, range_low: Number, range_high: Number) -> Number:
    """How often a size must be halved or doubled to lie in the range that a fit was made on.

    log₂(x / x₁) above, log₂(x₀ / x) below, 0 inside

    Args:
        amount: the size, x [u]
        range_low: smallest size of the fit, x₀ [u]
        range_high: largest size of the fit, x₁ [u]

    Returns:
        doublings [1]

    Example:
        >>> float(doublings_outside(16.0, 2.0, 4.0))
        2.0

    Source:
        composition
    """
    return np.log2(np.maximum(np.maximum(amount / range_high, range_low / amount), 1.0))


@equation
def spread_outside(spread: Number, ranks_doublings: Number, size_doublings: Number) -> Number:
    """Spread of a fit outside the ranks and sizes that it was made on.

    σ (1 + d + min(e, 2))

    Args:
        spread: inside, σ [1]
        ranks_doublings: of the ranks of a collective, d [1]
        size_doublings: of the size that lies farthest outside, e [1]

    Returns:
        spread [1]

    Example:
        >>> round(float(spread_outside(0.07, 4.17, 0.0)), 3)
        0.362

    Holds: 12 NCCL fits on parts of their tables: at twice the ranks the median error grows from 4 to 6 %; one doubling
        of sizes outside to 7 to 9 %, two to eleven outside to 8 to 22 %, without growing further. No table has ranks
        farther outside, so that these count without end. Products larger than those of a fit are off by no more, 6
        to 10 %, smaller ones by 17 % and more
    Source:
        kernel-fit

    Monotone: increasing in spread, ranks_doublings, size_doublings
    """
    return spread * (1 + ranks_doublings + np.minimum(size_doublings, 2.0))


@equation
def term_error(spread: Number, amount: Number) -> Number:
    """Standard deviation that the spread of a term is in a sum.

    σ x

    Args:
        spread: uncertainty of the term, relative, σ [1]
        amount: the term, x [u]

    Returns:
        standard deviation of the sum by this term alone [u]

    Example:
        >>> term_error(0.125, 12.0)
        1.5

    Holds: first order: a term's error does not change what the others hide; terms of one kind are wrong together
        (r = 1), so that their errors are summed
    Source:
        jcgm-100 §5.1.3, §5.2.2

    Monotone: increasing in spread, amount
    """
    return spread * amount


@equation
def combined_error(error: Number, other_error: Number) -> Number:
    """Standard deviation by two independent kinds of error.

    √(u₁² + u₂²)

    Args:
        error: by the first kind, u₁ [u]
        other_error: by the second kind, u₂ [u]

    Returns:
        standard deviation by both together [u]

    Example:
        >>> round(float(combined_error(0.03, 0.04)), 6)
        0.05

    Holds: kinds that were fitted on different measurements, so that their errors are independent; matrix products
        of the same m and other n and k, whose residuals have a within-class correlation of -0.1 to 0.1 on six GPUs
    Source:
        jcgm-100 §5.1.2; kernel-fit

    Monotone: increasing in error, other_error
    """
    return (error**2 + other_error**2) ** 0.5


@equation
def heavy_tail_spread(tail_scale: Number, freedom: Number) -> Number:
    """Spread of a normal error whose P10 and P90 are those of a Student t.

    s (z + (z³ + z)/4ν + (5z⁵ + 16z³ + 3z)/96ν² + (3z⁷ + 19z⁵ + 17z³ − 15z)/384ν³) / z, z = 1.28

    Args:
        tail_scale: scale of the Student t, s [1]
        freedom: its degrees of freedom, ν [1]

    Returns:
        spread [1]

    Example:
        >>> round(float(heavy_tail_spread(0.05, 3.0)), 4)
        0.0639

    Holds: two degrees of freedom or more, where the expansion is off by less than 1 %
    Source:
        abramowitz-1964 §26.7.5

    Monotone: increasing in tail_scale; decreasing in freedom
    """
    z = TENTH
    first = (z**2 + 1) / 4
    second = (5 * z**4 + 16 * z**2 + 3) / 96
    third = (3 * z**6 + 19 * z**4 + 17 * z**2 - 15) / 384
    return tail_scale * (1 + first / freedom + second / freedom**2 + third / freedom**3)


@equation
def range_spread(amount: Number, end: Number) -> Number:
    """Spread towards one end of the range of a figure, whose logarithm may lie anywhere in it.

    0.8 |ln(x₁/x)| / 1.28

    Args:
        amount: the figure that is reported, in the middle of the range, x [u]
        end: one end of the range, x₁ [u]

    Returns:
        spread [1]

    Example:
        >>> round(float(range_spread(10.0, 11.0)), 4)
        0.0595

    Holds: every value of the range as likely as any other, so that a tenth of it lies beyond P10 or P90
    Source:
        jcgm-100 §4.3.7
    """
    return 0.8 * np.abs(np.log(end / amount)) / TENTH


@equation
def tenth_percentile(amount: Number, spread: Number) -> Number:
    """Value that one result in ten lies below.

    x e^(−1.28 σ)

    Args:
        amount: the prediction, taken as the median, x [u]
        spread: uncertainty, standard deviation of the logarithm, σ [1]

    Returns:
        P10 [u]

    Example:
        >>> round(float(tenth_percentile(16.0, 0.1)), 2)
        14.08

    Holds: log-normal errors: factors multiply, and no time is negative
    Source:
        limpert-2001

    Monotone: increasing in amount; decreasing in spread
    """
    return amount * np.exp(-TENTH * spread)


@equation
def ninetieth_percentile(amount: Number, spread: Number) -> Number:
    """Value that one result in ten lies above.

    x e^(1.28 σ)

    Args:
        amount: the prediction, taken as the median, x [u]
        spread: uncertainty, standard deviation of the logarithm, σ [1]

    Returns:
        P90 [u]

    Example:
        >>> round(float(ninetieth_percentile(16.0, 0.1)), 2)
        18.19

    Holds: log-normal errors: factors multiply, and no time is negative
    Source:
        limpert-2001

    Monotone: increasing in amount, spread
    """
    return amount * np.exp(TENTH * spread)


@equation
def percentile_at(amount: Number, spread: Number, deviations: Number) -> Number:
    """Value that lies so many standard deviations beyond a prediction.

    x e^(z σ)

    Args:
        amount: the prediction, taken as the median, x [u]
        spread: uncertainty, standard deviation of the logarithm, σ [1]
        deviations: factor on the spread, z; less than 0 below the prediction [1]

    Returns:
        percentile [u]

    Example:
        >>> round(float(percentile_at(16.0, 0.1, -1.645)), 2)
        13.57

    Holds: log-normal errors: factors multiply, and no time is negative
    Source:
        limpert-2001

    Monotone: increasing in amount, deviations
    """
    return amount * np.exp(deviations * spread)


@equation
def spreads_away(amount: Number, allowance: Number, spread: Number) -> Number:
    """Spreads by which a figure lies within a limit; negative beyond it.

    ln(l / x) / σ

    Args:
        amount: the prediction, taken as the median, x [u]
        allowance: what it may be at most, l [u]
        spread: uncertainty, standard deviation of the logarithm, σ [1]

    Returns:
        standard deviations [1]

    Example:
        >>> round(float(spreads_away(70.0, 80.0, 0.104194)), 3)
        1.282

    Holds: log-normal errors
    Source:
        limpert-2001

    Monotone: increasing in allowance; decreasing in amount
    """
    return np.log(allowance / amount) / np.maximum(spread, SURE)


@equation
def normal_share(deviations: Number) -> Number:
    """Share of a normal variable that lies below so many standard deviations over its mean.

    Φ(z) = 1 − φ(z) (b₁ u + b₂ u² + b₃ u³ + b₄ u⁴ + b₅ u⁵), u = 1 / (1 + 0.2316419 z); 1 − Φ(−z) below 0

    Args:
        deviations: standard deviations over the mean, z [1]

    Returns:
        share [1]

    Example:
        >>> [round(float(normal_share(z)), 4) for z in (0.0, 1.0, -2.326)]
        [0.5, 0.8413, 0.01]

    Holds:
        to 1e-7

    Source:
        abramowitz-1964 26.2.17

    Monotone: increasing in deviations
    """
    size = np.abs(deviations)
    near = 1 / (1 + BASE * size)
    one, two, three, four, five = SERIES
    series = near * (one + near * (two + near * (three + near * (four + near * five))))
    beyond: Number = np.exp(-(size**2) / 2) / (2 * np.pi) ** 0.5 * series
    return np.where(deviations > 0, 1 - beyond, beyond)


@equation
def chance_within(amount: Number, allowance: Number, spread: Number) -> Number:
    """Chance that a figure lies within a limit.

    Φ(ln(l / x) / σ)

    Args:
        amount: the prediction, taken as the median, x [u]
        allowance: what it may be at most, l [u]
        spread: uncertainty, standard deviation of the logarithm, σ [1]

    Returns:
        chance [1]

    Example:
        >>> round(float(chance_within(70.0, 80.0, 0.104194)), 3)
        0.9

    Holds: log-normal errors; without a spread the chance is nothing or all
    Source:
        limpert-2001; abramowitz-1964 §26.2.17

    Monotone: increasing in allowance; decreasing in amount
    """
    return normal_share(spreads_away(amount, allowance, spread))


@equation
def end_spread(amount: Number, end: Number) -> Number:
    """Spread whose tenth or ninetieth percentile is the end of a band.

    |ln(x₁/x)| / 1.28

    Args:
        amount: the prediction, taken as the median, x [u]
        end: value at one end of the band, x₁ [u]

    Returns:
        spread [1]

    Example:
        >>> round(float(end_spread(16.0, float(ninetieth_percentile(16.0, 0.1)))), 6)
        0.1

    Holds: values above 0; each end has a spread of its own where the band is not even

    Source:
        limpert-2001
    """
    return np.abs(np.log(end / amount)) / TENTH
