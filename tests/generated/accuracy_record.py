"""The record of prediction errors with the source held out of the fit, by groups of runs, as plain figures.

It is shipped as `hardware/left_out.json`, since the table of runs is not; pages of the documentation show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.reader.library import CachedReader
from costmodel.evidence.calibrate.engine_fit import engine_fit
from costmodel.evidence.calibrate.fit_from_runs import EXPERTS, STEP, UNSEEN, StepFit, spreads, step_fit
from costmodel.evidence.calibrate.regression_problem import (
    Errors,
    Scores,
    TimedRun,
    priors_for,
    shipped_priors,
    timed,
    within,
)
from costmodel.evidence.validate.outcomes import chosen_rows
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.kernel_table import read_runs

CORE = {"tier": ["core"]}  # a balanced choice of the runs, none twice
PAIRS = "model_name,accelerator"
FITTED_MAKER = "NVIDIA"  # whose parts the first table is of
LEAST = 12  # runs from which a stack has a line of its own
SERVICES_BY = ("model", "accelerator", "source")
_SIZES = ((8.0, "to 8 GPUs"), (64.0, "9 to 64 GPUs"), (512.0, "65 to 512 GPUs"), (np.inf, "more GPUs"))
_YEARS = ((2022, "runs of 2021 and 2022"), (2023, "runs of 2023"), (2024, "runs of 2024"), (9999, "runs since 2025"))
_OTHER = "other software"
Mask = NDArray[np.bool_]


def left_out_record(path: str, newer: Sequence[str], date: str) -> dict[str, Any]:
    """Errors and coverage of the core runs of a table, with each source left out in turn; and of the runs of
    other tables on parts of other makers, with each model on each part left out.
    """
    shelf = CachedReader()
    rows = {row.id: row for row in chosen_rows(read_runs(path), CORE, shelf)}
    runs, _ = timed(list(rows.values()), shelf)
    fit = step_fit(runs, shipped_priors(shelf), shelf, leave_out=True)
    return {
        "date": date,
        "runs": len(runs),
        "widths": {leaf: round(value, 4) for leaf, value in fit.widths.items()},
        "groups": _groups(runs, rows, fit),
        "sources": {
            name: {"runs": own.runs, "in_sample": _errors(own), "left_out": _errors(unseen)}
            for name, (own, unseen) in fit.by_group.items()
        },
        "other_makers": others_left_out(newer, shelf),
    }


def _errors(errors: Errors) -> dict[str, float]:
    found = {"median": errors.median, "p90": errors.p90, "bias": errors.bias, "inside": errors.inside_band}
    return {name: round(value, 4) for name, value in found.items()}


def _groups(runs: Sequence[TimedRun], rows: dict[str, CsvRow], fit: StepFit) -> dict[str, Any]:
    """Errors of each group of runs, with the coverage by widths fitted without the source and by those shipped."""
    assert fit.unseen is not None
    by_shipped = _by_shipped_widths(runs, fit.unseen)
    return {
        name: {
            "runs": int(mask.sum()),
            **_errors(fit.unseen.of(mask)),
            "inside_shipped": round(float(by_shipped[mask].mean()), 4),
        }
        for name, mask in _masks(runs, rows)
        if mask.any()
    }


def _by_shipped_widths(runs: Sequence[TimedRun], unseen: Scores) -> Mask:
    """Which runs lie inside the bands of the widths in use, under constants fitted without their source."""
    found = []
    for run, kind in zip(runs, unseen.kinds, strict=True):
        widths = run.case.stack.spread
        named = {STEP: widths.step, UNSEEN: widths.unseen, EXPERTS: widths.experts}
        found.append(spreads(named, np.array([kind]), np.array([run.case.model.has_experts]))[0])
    return within(unseen.errors, np.array(found))


def _masks(runs: Sequence[TimedRun], rows: dict[str, CsvRow]) -> Iterator[tuple[str, Mask]]:
    mixed = np.array([run.case.model.has_experts for run in runs])
    yield from (("dense", ~mixed), ("with experts", mixed))
    parts = np.array([run.case.accelerator.name for run in runs])
    yield from ((f"`{name}`", parts == name) for name in dict.fromkeys(parts.tolist()))
    stacks = np.array([run.case.stack.name for run in runs])
    large = [name for name in dict.fromkeys(stacks.tolist()) if np.sum(stacks == name) >= LEAST]
    yield from ((f"`{name}`", stacks == name) for name in large)
    yield _OTHER, ~np.isin(stacks, large)
    sizes = np.array([rows[run.run].number("gpus") or 0.0 for run in runs])
    yield from _ranges(sizes, _SIZES)
    yield from _ranges(np.array([rows[run.run].number("year") or 0.0 for run in runs]), _YEARS)


def _ranges(values: NDArray[np.float64], ends: Sequence[tuple[float, str]]) -> Iterator[tuple[str, Mask]]:
    least = -np.inf
    for most, name in ends:
        yield name, (values > least) & (values <= most)
        least = most


def others_left_out(paths: Sequence[str], shelf: CachedReader) -> dict[str, Any]:
    """Errors of runs on parts of other makers, each model on each part left out of the fit of their constants."""
    rows = [row for path in paths for row in read_runs(path).rows]
    runs, _ = timed(rows, shelf, PAIRS)
    foreign = [run for run in runs if run.case.accelerator.vendor != FITTED_MAKER]
    if not foreign:
        return {}
    fit = step_fit(foreign, priors_for([run.case for run in foreign], shelf), shelf, leave_out=True)
    assert fit.unseen is not None
    return {"runs": len(foreign), **_errors(fit.unseen.of())}


def services_left_out(path: str) -> dict[str, Any]:
    """Errors of the core benchmarks of a table, with each value of a column left out of the fit of engines in turn."""
    found = {}
    for column in SERVICES_BY:
        unseen = engine_fit((path,), where=CORE, leave_out=column).unseen
        assert unseen is not None
        found[column] = {quantity: {"runs": each.runs, **_errors(each)} for quantity, each in unseen.items()}
    return found
