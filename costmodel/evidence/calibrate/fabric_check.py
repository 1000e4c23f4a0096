"""Compares measured with predicted times, size by size, and a fabric with healthy fabrics."""

from __future__ import annotations

import itertools
from typing import cast

import numpy as np

from costmodel.documents.reader.library import UNMEASURED, efficiency_of, read
from costmodel.documents.schemas.efficiency import Efficiency
from costmodel.equations.network.collectives import Operation, bus_bandwidth
from costmodel.equations.run.economics import share
from costmodel.evidence.calibrate.calibrate import Fit
from costmodel.evidence.calibrate.regression import Array
from costmodel.ground.record import record
from costmodel.ground.units import show

_LARGE = 0.125  # of the largest message, from which on bandwidth decides
_UNITS = {"bytes": "B", "nbytes": "B"}


@record
class SizeComparison:
    """Rows of one size: their number, and their median measured and predicted times."""

    size: str
    rows: int
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Predicted over measured, less one: positive where the prediction is too slow."""
        return float(share(self.predicted, self.measured)) - 1


@record
class Soundness:
    """Bus bandwidth of large messages: measured, predicted for a healthy fabric, and the spread of the fit."""

    message: float
    measured: float
    predicted: float
    apart: float

    @property
    def error(self) -> float:
        """Measured over predicted, less one."""
        return float(share(self.measured, self.predicted)) - 1

    @property
    def verdict(self) -> str:
        """Whether the fabric is slower than healthy ones, faster, or the same."""
        if abs(self.error) <= self.apart:
            return "sound"
        return "slower" if self.error < 0 else "faster"


def predicted(fit: Fit) -> Array:
    """Times by the constants in use; if there are none, by the fitted ones."""
    sample = fit.sample
    return sample.form.time(sample.now or fit.constants, sample.columns)


def beside(fit: Fit) -> list[SizeComparison]:
    """For each message size, the median measured and predicted time, in the order of the measurements."""
    sample, ours = fit.sample, predicted(fit)
    sizes = np.array(sample.groups)
    comparisons = []
    for group in dict.fromkeys(sample.groups):
        rows = sizes == group
        size = " · ".join(itertools.starmap(_size_words, zip(sample.grouped, group.split(), strict=True)))
        times = (float(np.median(array[rows])) for array in (sample.measured, ours))
        comparisons.append(SizeComparison(size, int(rows.sum()), *times))
    return sorted(comparisons, key=lambda item: item.measured)


def _size_words(name: str, value: str) -> str:
    """The name and value of a size, in words."""
    return f"{name} {show(float(value), _UNITS.get(name, '1'))}"


def soundness(fit: Fit) -> Soundness | None:
    """Compares large messages of a collective with healthy fabrics; None if no fit is in use."""
    sample, key = fit.sample, fit.sample.key
    if key.part not in ("collectives", "network") or not sample.now:
        return None
    message, ranks = sample.table["bytes"], sample.table["ranks"]
    large = message >= float(_LARGE * float(message.max()))
    operation = cast(Operation, key.entry)
    rates = [
        np.asarray(bus_bandwidth(message[large], ranks[large], times[large], operation=operation))
        for times in (sample.measured, predicted(fit))
    ]
    measured, ours = (float(np.median(rate)) for rate in rates)
    return Soundness(float(message[large].min()), measured, ours, _allowed_deviation(fit))


def _allowed_deviation(fit: Fit) -> float:
    """The deviation that healthy fabrics may have: the P90 error of the fit in use, or of its fallback."""
    key, of = fit.sample.key, fit.sample.of
    device = read("fabric" if key.part == "network" else "accelerator", of)
    for name in (efficiency_of(device), UNMEASURED):
        document: Efficiency = read("efficiency", name)
        entry = document.network if key.part == "network" else document.collectives.get(key.entry)
        if entry is not None and entry.fitted is not None and entry.fitted.p90 is not None:
            return float(entry.fitted.p90)
    return 0.0
