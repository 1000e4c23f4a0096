"""Fits efficiencies from measured kernels, and compares a fabric with healthy fabrics, size by size."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import cast

import numpy as np

from costmodel.documents.reader.folders import has
from costmodel.documents.reader.library import UNMEASURED, CachedReader, efficiency_of, read
from costmodel.documents.schemas.efficiency import Efficiency
from costmodel.equations.network.collectives import Operation, bus_bandwidth
from costmodel.equations.run.economics import share
from costmodel.evidence.calibrate.kernel_fits import KernelTimings, Sample, kernels_of, samples_of
from costmodel.evidence.calibrate.measured_kernels import UnusedRow, gathered
from costmodel.evidence.calibrate.regression import Array, Error, error_of, fitted, held_out
from costmodel.exchange.tables.kernel_table import Timings, read_timings
from costmodel.ground.record import record
from costmodel.ground.units import show

# --- efficiencies fitted from measured kernels, compared with the constants in use


LEAST_POINTS = 12
TOO_FEW = f"too few to fit, which takes {LEAST_POINTS}"


@record
class Fit:
    """Fitted constants, with the error in sample, on held-out halves, and of the constants in use.

    `unfitted` gives the reason if only the last error exists.
    """

    sample: Sample
    constants: dict[str, float]
    inside: Error | None
    outside: Error | None
    now: Error | None
    unfitted: str = ""

    @property
    def points(self) -> int:
        """Number of measurements."""
        return len(self.sample.measured)


@record
class Calibrated:
    """Every fit of some files, the number of skipped rows by reason, and remarks on the files."""

    files: dict[str, str]
    fits: list[Fit]
    left_out: dict[str, int]
    remarks: tuple[str, ...] = ()


def calibrated(paths: Sequence[str], node: str | None = None) -> Calibrated:
    """Every fit that these files allow; `node` supplies the node or accelerator that they do not state."""
    per_node = round(read("node", node).accelerators) if node is not None and has("node", node) else 0
    return calibration([read_timings(path, per_node) for path in paths], node)


def calibration(tables: list[Timings], node: str | None = None) -> Calibrated:
    """Every possible fit of these timings, ordered by document, part and entry."""
    shelf = CachedReader()
    samples = gathered(tables, shelf, node)
    fits = []
    for key in sorted(samples.shapes, key=lambda key: (key.of, key.part, key.entry, key.detail, key.aside)):
        try:
            fits += _fits(kernels_of(key, samples, shelf))
        except UnusedRow as reason:
            samples.left_out[str(reason)] += len(samples.shapes[key])
    files = {table.file: table.digest for table in tables}
    remarks = tuple(remark for table in tables for remark in table.remarks)
    return Calibrated(files, fits, dict(sorted(samples.left_out.items())), remarks)


def _fits(kernels: KernelTimings) -> list[Fit]:
    """Fits of these timings; too few or doubtful timings are only compared with the constants in use."""
    key, samples = kernels.key, samples_of(kernels)
    few = len(kernels.measured) < LEAST_POINTS
    if not (few or key.aside):
        return [fit_of(sample) for sample in samples]
    shown = [held_against(sample, key.aside or TOO_FEW) for sample in samples if sample.now]
    if not shown:
        name = " ".join(filter(None, (key.of, key.part, key.entry, key.detail)))
        what = f"fewer than {LEAST_POINTS} timings" if few else "timings of low confidence"
        raise UnusedRow(f"{what} of {name}, and nothing in use to predict them")
    return shown


def held_against(sample: Sample, why: str) -> Fit:
    """The error of the constants in use on timings to which nothing is fitted, and the reason why not."""
    assert sample.now
    return Fit(sample, {}, None, None, error_of(sample.form.time(sample.now, sample.columns), sample.measured), why)


def fit_of(sample: Sample) -> Fit:
    """The constants of a sample and their errors."""
    form, columns, measured = sample.form, sample.columns, sample.measured
    constants = fitted(form, columns, measured, sample.groups)
    now = sample.now
    return Fit(
        sample,
        constants,
        error_of(form.time(constants, columns), measured),
        held_out(form, columns, measured, sample.groups),
        error_of(form.time(now, columns), measured) if now else None,
    )


# --- compares measured with predicted times, size by size, and a fabric with healthy fabrics


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
