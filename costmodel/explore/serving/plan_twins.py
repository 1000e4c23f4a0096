"""Plans that differ from another one in ep alone, and have its figures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from costmodel.estimate.serving.evaluate_apart import ApartEvaluation
from costmodel.estimate.serving.plan_columns import SIZES
from costmodel.estimate.serving.predict_serving import AnyEvaluation

_FIGURES = ("rate_within_slo_per_s", "saturation_per_s", "tpot", "ttft_p99", "memory_peak", "memory_share")
_DIGITS = 9  # to which figures are alike


def alike_without_ep(evaluation: AnyEvaluation) -> NDArray[np.bool_]:
    """Rows with ep whose figures a row with less of it has too, that has the same other sizes."""
    halves = [evaluation.layout, *([evaluation.prefill] if isinstance(evaluation, ApartEvaluation) else [])]
    columns = [np.asarray(getattr(half, size), dtype=np.float64) for half in halves for size in SIZES if size != "ep"]
    for name in _FIGURES:
        mantissa, exponent = np.frexp(np.nan_to_num(evaluation.results.column(name), nan=-1.0, posinf=-2.0))
        columns += [np.asarray(each, dtype=np.float64) for each in (np.round(mantissa, _DIGITS), exponent)]
    ep = sum(np.asarray(half.ep, dtype=np.float64) for half in halves)
    order = np.argsort(ep, kind="stable")  # of rows that are alike, the first one is kept
    _, first = np.unique(np.stack(columns)[:, order], axis=1, return_index=True)
    alike = np.ones(len(order), dtype=bool)
    alike[order[first]] = False
    return alike
