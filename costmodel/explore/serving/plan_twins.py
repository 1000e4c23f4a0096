"""Plans that differ from another one in ep alone, and have its figures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from costmodel.estimate.serving.evaluate_apart import ApartEvaluation
from costmodel.estimate.serving.plan_columns import SIZES
from costmodel.estimate.serving.predict_serving import AnyEvaluation
from costmodel.estimate.serving.replica_kinds import distinct

_FIGURES = ("rate_within_slo_per_s", "saturation_per_s", "tpot", "ttft_p99", "memory_peak", "memory_share")
_SAME = 1e-9  # of a figure, by which it may differ


def alike_without_ep(evaluation: AnyEvaluation) -> NDArray[np.bool_]:
    """Rows with ep whose figures a row with less of it has too, that has the same other sizes."""
    halves = [evaluation.layout, *([evaluation.prefill] if isinstance(evaluation, ApartEvaluation) else [])]
    _, which = distinct([np.asarray(getattr(half, size)) for half in halves for size in SIZES if size != "ep"])
    order = np.lexsort((np.sum([half.ep for half in halves], axis=0), which))
    kinds, figures = which[order], [evaluation.results.column(name)[order] for name in _FIGURES]
    alike = np.zeros(len(order), dtype=bool)
    for step in range(1, len(order)):
        later = np.flatnonzero(kinds[step:] == kinds[:-step]) + step
        if not len(later):
            break
        for figure in figures:
            later = later[np.isclose(figure[later], figure[later - step], rtol=_SAME, atol=0.0, equal_nan=True)]
        alike[order[later]] = True
    return alike
