"""How far plans are from the limits of a service: what makes one of them the nearest."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from costmodel.estimate.serving.limits_chance import OWN, service_limits
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.result_limits import Limit, stated_limits

Values = NDArray[np.float64]
Result = Callable[[str], Values]


def limit_distance(inputs: ServingInputs, result: Result, unstable: NDArray[np.bool_]) -> tuple[Values, Values]:
    """Whether each plan misses a limit other than the chance, and by how much it misses its limits; 0 if it meets all.

    Chances that are too small differ by whole tenths of the limit on them: plans about as sure compare by the
    objective. A plan that cannot answer the rate is as far as it falls short of it, since its times grow without end.
    """
    rows, stated = len(unstable), list(stated_limits(inputs.case.scenario.limits))
    rate, of_rate = inputs.case.scenario.workload.rate, service_limits(inputs)
    firm = [limit for limit in stated if limit.column != OWN]
    beyond = limit_misses(firm, result, rows)
    missing = unstable | (beyond > 0)
    if rate is not None:
        with np.errstate(divide="ignore"):
            short = np.maximum(rate / np.maximum(result("rate_within_slo_per_s"), 0.0) - 1.0, 0.0)
        others = [limit for limit in firm if limit not in of_rate]
        beyond = np.maximum(limit_misses(others, result, rows), np.nan_to_num(short, nan=np.inf, posinf=np.inf))
    elif unstable.any():
        beyond = np.where(unstable, np.inf, beyond)
    chance = np.ceil(10.0 * limit_misses([limit for limit in stated if limit.column == OWN], result, rows)) / 10.0
    return missing.astype(np.float64), shown_digits(np.where(missing, beyond, chance))


def limit_misses(limits: Iterable[Limit], result: Result, rows: int) -> Values:
    """The largest relative excess over a limit for each row; 0 where all limits are met.

    >>> limits = [Limit("tpot", "tpot", "at_most", 0.025), Limit("ttft", "ttft", "at_most", 1.0)]
    >>> columns = {"tpot": np.array([0.020, 0.030, 0.025]), "ttft": np.array([0.5, 1.1, np.nan])}
    >>> limit_misses(limits, columns.__getitem__, 3).round(3).tolist()
    [0.0, 0.2, inf]
    """
    found = np.zeros(rows)
    for limit in limits:
        values = np.asarray(result(limit.column), dtype=np.float64)
        over = {"at_most": values - limit.value, "at_least": limit.value - values}.get(limit.kind)
        if over is None:
            over = np.abs(values - limit.value) - limit.within * limit.value
        beyond = np.nan_to_num(over / (abs(limit.value) or 1.0), nan=np.inf, posinf=np.inf)
        found = np.maximum(found, np.where(limit.kept(values), 0.0, beyond))
    return found


def shown_digits(values: Values) -> Values:
    """Values to three digits, as they are shown: plans that look alike are ordered by their times."""
    known = np.isfinite(values) & (values != 0)
    unit = 10.0 ** (np.floor(np.log10(np.abs(np.where(known, values, 1.0)))) - 2)
    return np.where(known, np.round(values / unit) * unit, values)
