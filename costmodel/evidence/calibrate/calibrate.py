"""Efficiencies fitted from measured kernels, compared with the constants in use."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.folders import has
from costmodel.documents.reader.library import read
from costmodel.evidence.calibrate.kernel_fits import KernelTimings, Sample, kernels_of, samples_of
from costmodel.evidence.calibrate.regression import Error, error_of, fitted, held_out
from costmodel.evidence.calibrate.samples import UnusedRow, gathered
from costmodel.exchange.tables.kernel_table import Timings, read_timings
from costmodel.ground.record import record

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
