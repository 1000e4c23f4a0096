"""How far an answer may be off, and which inputs explain measured times."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation

# Of a standard normal distribution: where 75, 90 and 95 % lie below.
QUARTER, TENTH, TWENTIETH = 0.67449, 1.28155, 1.64485
HALF_NORMAL = (2 / np.pi) ** 0.5  # mean of the absolute value of a standard normal
# Of Φ by a rational approximation, off by less than 7.5e-8.
SURE = 1e-9  # spread, or logarithm of a factor, from which it is taken as nothing
BASE, SERIES = 0.2316419, (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
FREEDOM = 3.0  # of a Student t between sources of training runs; likelihoods for 2 to 6 are alike


# --- How far an answer may be off: spreads of its terms, of their sum, and the percentiles they leave.
#
# A spread is a standard deviation of the logarithm: of small errors the relative standard deviation.
# Errors of one kind are taken as fully correlated, so that their parts add; kinds are independent, so that squares add.


@equation
def residual_spread(median_error: Number, tail_error: Number) -> Number:
    """Spread of an error whose absolute value has a known median and 90th percentile.

    √(((ε₅₀ / 0.674)² + (ε₉₀ / 1.645)²) / 2)

    median_error ε₅₀: residual: median of |predicted / measured − 1|
    tail_error ε₉₀: residual: 90th percentile of the same
    → spread
    Source: jcgm-100 §4.3.5
    Holds: errors near log-normal; heavier tails weigh as much as the middle
    Monotone: increasing in median_error, tail_error
    >>> round(float(residual_spread(0.067449, 0.164485)), 6)
    0.1
    """
    return np.sqrt(((median_error / QUARTER) ** 2 + (tail_error / TWENTIETH) ** 2) / 2)


@equation
def doublings_outside(amount: Number, range_low: Number, range_high: Number) -> Number:
    """Halvings or doublings from a size to the nearest one in the range of a fit.

    log₂(x / x₁) above, log₂(x₀ / x) below, 0 inside

    amount x [u]: the size · range_low x₀ [u]: smallest size of the fit · range_high x₁ [u]: largest size of the fit
    → doublings
    Source: composition
    >>> float(doublings_outside(16.0, 2.0, 4.0))
    2.0
    """
    return np.log2(np.maximum(np.maximum(amount / range_high, range_low / amount), 1.0))


@equation
def spread_outside(spread: Number, ranks_doublings: Number, size_doublings: Number) -> Number:
    """Spread of a fit outside the ranks and sizes that it was made on.

    σ (1 + d + min(e, 2))

    spread σ: inside · ranks_doublings d: of the ranks of a collective
    size_doublings e: of the size that lies farthest outside
    → spread
    Source: kernel-fit
    Holds: 12 NCCL fits on parts of their tables: at twice the ranks the median error grows from 4 to 6 %; one doubling
        of sizes outside to 7 to 9 %, two to eleven outside to 8 to 22 %, without growing further. No table has ranks
        farther outside, so that these count without end. Products larger than those of a fit are off by no more, 6 to
        10 %, smaller ones by 17 % and more
    Monotone: increasing in spread, ranks_doublings, size_doublings
    >>> round(float(spread_outside(0.07, 4.17, 0.0)), 3)
    0.362
    """
    return spread * (1 + ranks_doublings + np.minimum(size_doublings, 2.0))


@equation
def term_error(spread: Number, amount: Number) -> Number:
    """Standard deviation that the spread of a term is in a sum.

    σ x

    spread σ: uncertainty of the term, relative · amount x [u]: the term
    → standard deviation of the sum by this term alone [u]
    Source: jcgm-100 §5.1.3, §5.2.2
    Holds: first order: a term's error does not change what the others hide; terms of one kind are wrong together (r =
        1), so that their errors are summed
    Monotone: increasing in spread, amount
    >>> term_error(0.125, 12.0)
    1.5
    """
    return spread * amount


@equation
def combined_error(error: Number, other_error: Number) -> Number:
    """Standard deviation by two independent kinds of error.

    √(u₁² + u₂²)

    error u₁ [u]: by the first kind · other_error u₂ [u]: by the second kind → standard deviation by both together [u]
    Source: jcgm-100 §5.1.2; kernel-fit
    Holds: kinds that were fitted on different measurements, so that their errors are independent; matrix products of
        the same m and other n and k, whose residuals have a within-class correlation of -0.1 to 0.1 on six GPUs
    Monotone: increasing in error, other_error
    >>> round(float(combined_error(0.03, 0.04)), 6)
    0.05
    """
    return (error**2 + other_error**2) ** 0.5


@equation
def missed_chance(chance: Number) -> Number:
    """Chance that something does not happen, such as that a limit is not kept.

    1 − p

    chance p: that it happens → chance
    Source: exact
    Holds: chances of one error
    Monotone: decreasing in chance
    >>> round(float(missed_chance(0.91)), 6)
    0.09
    """
    return 1 - chance


@equation
def heavy_tail_spread(tail_scale: Number, freedom: Number) -> Number:
    """Spread of a normal error whose P10 and P90 are those of a Student t.

    s (z + (z³ + z)/4ν + (5z⁵ + 16z³ + 3z)/96ν² + (3z⁷ + 19z⁵ + 17z³ − 15z)/384ν³) / z, z = 1.28

    tail_scale s: scale of the Student t · freedom ν: its degrees of freedom → spread
    Source: abramowitz-1964 §26.7.5
    Holds: two degrees of freedom or more, where the expansion is off by less than 1 %
    Monotone: increasing in tail_scale; decreasing in freedom
    >>> round(float(heavy_tail_spread(0.05, 3.0)), 4)
    0.0639
    """
    z = TENTH
    first = (z**2 + 1) / 4
    second = (5 * z**4 + 16 * z**2 + 3) / 96
    third = (3 * z**6 + 19 * z**4 + 17 * z**2 - 15) / 384
    return tail_scale * (1 + first / freedom + second / freedom**2 + third / freedom**3)


@equation
def slower_spread(spread: Number, part: Number, slower: Number) -> Number:
    """Spread towards a longer time where a part of it was never measured, and can only take longer.

    √(σ² + (ln(1 + p (e^(1.645 τ) − 1)) / 1.28)²)

    spread σ: of the whole as if all of it were measured · part p: share of the time that was never measured
    slower τ: scale of the logarithm of that part over its prediction
    → spread above the prediction
    Source: jcgm-100 §4.3.8; limpert-2001
    Holds: one part in ten takes over e^(1.645 τ) times as long, as a half-normal has it; none takes less
    Monotone: increasing in spread, part, slower
    >>> round(float(slower_spread(0.1, 0.2, 1.0)), 3)
    0.485
    """
    later = np.log1p(part * np.expm1(np.minimum(TWENTIETH * slower, 700.0))) / TENTH
    return np.sqrt(spread**2 + later**2)


@equation
def earlier_spread(spread: Number, slower: Number) -> Number:
    """Spread towards a shorter time where all of it was never measured, and can only take longer.

    max(−m − s (z + (z² − 1) m₃ / 6s³), 0) / 1.28, z = −1.28, m = τ √(2/π), s² = σ² + τ² (1 − 2/π), m₃ = m τ² (4/π − 1)

    spread σ: of the time as if it were measured · slower τ: scale of the logarithm of the time over its prediction
    → spread below the prediction
    Source: limpert-2001; abramowitz-1964 §26.2.49
    Holds: P10 of the sum of a normal and of a half-normal error, whose mean, spread and third moment these are; off by
        0.02 of the logarithm for σ from 0.1 to 0.5 and τ of 0.57. Where the prediction itself lies below P10, 0
    Monotone: increasing in spread
    >>> [round(float(earlier_spread(spread, 0.57)), 3) for spread in (0.1, 0.28, 0.5)]
    [0.0, 0.071, 0.243]
    """
    mean = slower * HALF_NORMAL
    whole = np.sqrt(spread**2 + slower**2 * (1 - HALF_NORMAL**2))
    skewness = mean * slower**2 * (2 * HALF_NORMAL**2 - 1) / np.maximum(whole, SURE) ** 3
    lowest = mean + whole * ((TENTH**2 - 1) * skewness / 6 - TENTH)
    below: Number = np.maximum(-lowest, 0.0) / TENTH
    return below


@equation
def range_spread(amount: Number, end: Number) -> Number:
    """Spread towards one end of the range of a figure, whose logarithm may lie anywhere in it.

    0.8 |ln(x₁/x)| / 1.28

    amount x [u]: the figure that is reported, in the middle of the range · end x₁ [u]: one end of the range → spread
    Source: jcgm-100 §4.3.7
    Holds: every value of the range as likely as any other, so that a tenth of it lies beyond P10 or P90
    >>> round(float(range_spread(10.0, 11.0)), 4)
    0.0595
    """
    return 0.8 * np.abs(np.log(end / amount)) / TENTH


@equation
def tenth_percentile(amount: Number, spread: Number) -> Number:
    """Value that one result in ten lies below.

    x e^(−1.28 σ)

    amount x [u]: the prediction, taken as the median · spread σ: uncertainty, standard deviation of the logarithm
    → P10 [u]
    Source: limpert-2001
    Holds: log-normal errors: factors multiply, and no time is negative
    Monotone: increasing in amount; decreasing in spread
    >>> round(float(tenth_percentile(16.0, 0.1)), 2)
    14.08
    """
    return amount * np.exp(-TENTH * spread)


@equation
def ninetieth_percentile(amount: Number, spread: Number) -> Number:
    """Value that one result in ten lies above.

    x e^(1.28 σ)

    amount x [u]: the prediction, taken as the median · spread σ: uncertainty, standard deviation of the logarithm
    → P90 [u]
    Source: limpert-2001
    Holds: log-normal errors: factors multiply, and no time is negative
    Monotone: increasing in amount, spread
    >>> round(float(ninetieth_percentile(16.0, 0.1)), 2)
    18.19
    """
    return amount * np.exp(TENTH * spread)


@equation
def percentile_at(amount: Number, spread: Number, deviations: Number) -> Number:
    """Value at a number of standard deviations from a prediction.

    x e^(z σ)

    amount x [u]: the prediction, taken as the median · spread σ: uncertainty, standard deviation of the logarithm
    deviations: factor on the spread, z; less than 0 below the prediction
    → percentile [u]
    Source: limpert-2001
    Holds: log-normal errors: factors multiply, and no time is negative
    Monotone: increasing in amount, deviations
    >>> round(float(percentile_at(16.0, 0.1, -1.645)), 2)
    13.57
    """
    return amount * np.exp(deviations * spread)


@equation
def spreads_away(amount: Number, allowance: Number, spread: Number) -> Number:
    """Spreads by which a figure lies within a limit; negative beyond it.

    ln(l / x) / σ

    amount x [u]: the prediction, taken as the median · allowance l [u]: what it may be at most
    spread σ: uncertainty, standard deviation of the logarithm
    → standard deviations
    Source: limpert-2001
    Holds: log-normal errors
    Monotone: increasing in allowance; decreasing in amount
    >>> round(float(spreads_away(70.0, 80.0, 0.104194)), 3)
    1.282
    """
    return np.log(allowance / amount) / np.maximum(spread, SURE)


@equation
def normal_share(deviations: Number) -> Number:
    """Cumulative normal distribution at a number of standard deviations.

    Φ(z) = 1 − φ(z) (b₁ u + b₂ u² + b₃ u³ + b₄ u⁴ + b₅ u⁵), u = 1 / (1 + 0.2316419 z); 1 − Φ(−z) below 0

    deviations z: standard deviations over the mean → share
    Source: abramowitz-1964 26.2.17
    Holds: to 1e-7
    Monotone: increasing in deviations
    >>> [round(float(normal_share(z)), 4) for z in (0.0, 1.0, -2.326)]
    [0.5, 0.8413, 0.01]
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

    amount x [u]: the prediction, taken as the median · allowance l [u]: what it may be at most
    spread σ: uncertainty, standard deviation of the logarithm
    → chance
    Source: limpert-2001; abramowitz-1964 §26.2.17
    Holds: log-normal errors; without a spread the chance is nothing or all
    Monotone: increasing in allowance; decreasing in amount
    >>> round(float(chance_within(70.0, 80.0, 0.104194)), 3)
    0.9
    """
    return normal_share(spreads_away(amount, allowance, spread))


@equation
def end_spread(amount: Number, end: Number) -> Number:
    """Spread whose tenth or ninetieth percentile is the end of a band.

    |ln(x₁/x)| / 1.28

    amount x [u]: the prediction, taken as the median · end x₁ [u]: value at one end of the band → spread
    Source: limpert-2001
    Holds: values above 0; each end has a spread of its own where the band is not even
    >>> round(float(end_spread(16.0, float(ninetieth_percentile(16.0, 0.1)))), 6)
    0.1
    """
    return np.abs(np.log(end / amount)) / TENTH


# --- Inputs inferred from measured times: the value that would explain one, and how well two runs distinguish causes.


@equation
def fixed_part(time: Number, doubled_time: Number) -> Number:
    """Part of a step that does not grow with the micro-batch, from two steps.

    2 T(b) − T(2 b)

    time T(b) [s]: of a step · doubled_time [s]: of a step with twice the micro-batch and all else equal, T(2 b)
    → time; negative where a larger micro-batch costs more than in proportion [s]
    Source: composition
    Holds: the rest grows in proportion: no gain of efficiency from larger products; no estimate calls it
    Monotone: increasing in time; decreasing in doubled_time
    >>> fixed_part(2.0, 3.5)
    0.5
    """
    return 2 * time - doubled_time


@equation
def implied_bandwidth(nbytes: Number, time: Number, gap: Number) -> Number:
    """Bandwidth that would explain a gap.

    S / (t + g)

    nbytes S [B]: bytes sent · time t [s]: predicted for them
    gap [s]: measured over predicted time of the step, g, as a difference
    → bandwidth [B/s]
    Source: composition
    Holds: none of the communication is hidden, and nothing else is wrong; no estimate calls it
    Monotone: increasing in nbytes; decreasing in time, gap
    >>> round(implied_bandwidth(12.8e9, 0.38, 0.3) / 1e9, 1)
    18.8
    """
    return nbytes / (time + gap)


@equation
def implied_overlap(exposed: Number, communication: Number) -> Number:
    """Share of a communication that compute hides.

    1 − X/N

    exposed [s]: time of it that is not hidden, X; with a gap added, for the share that would explain the gap
    communication N [s]: time of the communication alone
    → share; negative where no overlap explains it
    Source: composition
    Holds: no estimate calls it
    Monotone: increasing in communication; decreasing in exposed
    >>> round(implied_overlap(0.211, 0.38), 3)
    0.445
    """
    return 1 - exposed / communication


@equation
def implied_slowdown(time: Number, gap: Number) -> Number:
    """Slowdown of one part of a step that would explain a gap.

    (t + g) / t

    time [s]: predicted for the part, t: products, a stage, the host
    gap [s]: measured over predicted time of the step, g, as a difference
    → slowdown of that part
    Source: composition
    Holds: the part stands on the critical path for all of its time, and nothing else is wrong
    Monotone: increasing in gap; decreasing in time
    >>> implied_slowdown(12.0, 3.0)
    1.25
    """
    return (time + gap) / time


@equation
def slowed_step(term_share: Number, term_factor: Number) -> Number:
    """Step time over that before, when one of its terms changes by a factor.

    1 + s (f − 1)

    term_share s: share of the step that the term has · term_factor f: how many times as long the term takes
    → factor on the step
    Source: amdahl-1967
    Holds: the term stands on the critical path for all of its time
    Monotone: increasing in term_factor
    >>> slowed_step(0.2, 1.5)
    1.1
    """
    return 1 + term_share * (term_factor - 1)


@equation
def cause_distance(amount: Number, expected: Number, spread: Number) -> Number:
    """Distance of the value that would explain a gap from its prior, in standard deviations.

    |ln(x/x₀)| / σ

    amount x [u]: value that would explain the gap · expected x₀ [u]: value in the documents
    spread σ: uncertainty of the latter, standard deviation of the logarithm
    → distance; the least is the likeliest single cause
    Source: limpert-2001; composition
    Holds: values above 0
    Monotone: decreasing in spread
    >>> round(float(cause_distance(25e9, 50e9, 0.1)), 2)
    6.93
    """
    return np.abs(np.log(amount / expected)) / spread


# --- What a measurement of one figure shows of others that err together with it.


@equation
def expected_error(error: Number, covariance: Number, spread: Number) -> Number:
    """Expected error of a figure after another one was measured.

    e c / σ²

    error e: logarithm of what was measured over its prediction · covariance c: of the errors of both
    spread σ: of the one that was measured, standard deviation of the logarithm
    → logarithm of the other over its prediction
    Source: howard-1966; composition
    Holds: logarithms are jointly normal; the measurement is exact
    >>> round(expected_error(0.1, 0.005, 0.1), 6)
    0.05
    """
    return error * covariance / spread**2


@equation
def covariance_left(covariance: Number, first_covariance: Number, second_covariance: Number, spread: Number) -> Number:
    """Covariance of the errors of two figures once a third was measured.

    c − c₁ c₂ / σ²

    covariance c: of both before · first_covariance c₁: of the first with the third
    second_covariance c₂: of the second with the third
    spread σ: of the one that was measured, standard deviation of the logarithm
    → covariance
    Source: howard-1966; composition
    Holds: logarithms are jointly normal; the measurement is exact
    >>> round(covariance_left(0.01, 0.005, 0.005, 0.1), 6)
    0.0075
    """
    return covariance - first_covariance * second_covariance / spread**2


@equation
def expected_move(covariance: Number, spread: Number) -> Number:
    """Expected change of a figure when another one is measured.

    c / σ

    covariance c: of the errors of both · spread σ: of the one that is measured, standard deviation of the logarithm
    → standard deviation of the move of its logarithm; negative where both move apart
    Source: howard-1966; composition
    Holds: logarithms are jointly normal; the measurement is exact
    >>> round(expected_move(0.005, 0.1), 6)
    0.05
    """
    return covariance / spread


@equation
def pays_after(busy: Number, saving: Number, ranks: Number) -> Number:
    """The shortest job for which a measurement saves what it takes.

    T / (g N)

    busy T [s]: accelerators of the measurement times its time · saving g: expected, as a share of the time of the job
    ranks N: accelerators of the job
    → time [s]
    Source: composition
    Holds: an accelerator costs the same in both
    Monotone: increasing in busy; decreasing in saving, ranks
    >>> pays_after(600.0 * 64, 0.01, 64.0)
    60000.0
    """
    return busy / (saving * ranks)
