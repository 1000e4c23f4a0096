"""Fits of measured kernels: how well each form describes them, beside the constants in use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from costmodel.explore.calibrate.calibrate import Calibrated, Fit
from costmodel.explore.calibrate.regression import Error
from costmodel.explore.calibrate.renewal import Decision
from costmodel.report.layout import Grid, Line
from costmodel.report.reply import head
from costmodel.report.theme import DIM, HEAD, styled
from costmodel.units import show

_COLUMNS = ("fit", "points", "in sample", "held out", "in use", "")


def calibration(found: Calibrated, decisions: list[Decision], written: list[Path], verbose: bool) -> list[Line]:
    """Every fit under the document it belongs to, the constants under each, what was left out, what was written."""
    lines: list[Line] = []
    documents = list(dict.fromkeys(decision.fit.sample.of for decision in decisions))
    for name in documents:
        mine = [decision for decision in decisions if decision.fit.sample.of == name]
        lines += [*([styled("")] if lines else []), styled(name, HEAD)]
        lines.append(Grid(_COLUMNS, [_row(decision) for decision in mine], "lrrrrl", drop=("", "in sample")))
        lines += [line for decision in mine for line in _constants(decision.fit, verbose)]
    if decisions:
        lines += [styled(""), styled("in each pair: median and 90th percentile of |predicted / measured − 1|, %", DIM)]
    said = verbose or not decisions
    if found.left_out:
        total = sum(found.left_out.values())
        lines.append(styled(f"not fitted: {total:,} rows" + ("" if said else "; -v says why"), DIM))
    if said and found.left_out:
        rows = [(reason, f"{count:,}") for reason, count in found.left_out.items()]
        lines.append(Grid(("not fitted", "rows"), rows, "lr"))
    return [*lines, *(styled(remark) for remark in found.remarks), *_told(decisions, written)]


def _row(decision: Decision) -> tuple[str, ...]:
    fit = decision.fit
    errors = (_pair(fit.inside), _pair(fit.outside), _pair(fit.now))
    return (title(fit), f"{fit.points:,}", *errors, "✓" if decision.written else decision.why)


def title(fit: Fit) -> str:
    """What a fit is of, and by which form where there are several."""
    key = fit.sample.key
    words = [*((key.of,) if key.part == "network" else ()), key.part, key.entry if key.part != "memory" else ""]
    words += [key.detail, *((f"({fit.sample.form.title})",) if key.part in ("attention", "matmul") else ())]
    return " ".join(filter(None, words)).replace(" (rounded roofline)", "")


def _pair(error: Error | None) -> str:
    return f"{100 * error.median:.1f} {100 * error.p90:4.1f}" if error else "–"


def _constants(fit: Fit, verbose: bool) -> Iterator[Line]:
    """The constants of a fit, those in use in brackets."""
    now = fit.sample.now or {}
    if fit.unfitted:
        if verbose and fit.sample.range:
            yield styled(f"  {title(fit)}: over {fit.sample.range}", DIM)
        return
    parts = [
        f"{constant.name} {show(fit.constants[constant.name], constant.unit)}"
        + (f" ({show(now[constant.name], constant.unit)})" if constant.name in now else "")
        for constant in fit.sample.form.constants
    ]
    yield styled(f"  {title(fit)}: {' · '.join(parts)}")
    if verbose:
        yield styled(f"    over {fit.sample.range}", DIM)


def _told(decisions: list[Decision], written: list[Path]) -> Iterator[Line]:
    better = sum(decision.written for decision in decisions)
    fitted = sum(not decision.fit.unfitted for decision in decisions)
    if written:
        yield styled(f"{better} fits written to {', '.join(map(str, written))}")
    else:
        yield styled(f"{better} of {fitted} fits would be written (✓): add --write" if better else "nothing to write")


def calibration_json(found: Calibrated, decisions: list[Decision], written: list[Path]) -> dict[str, Any]:
    """The same as plain values."""
    return {
        **head("costmodel/calibration/v1"),
        "files": [{"file": file, "digest": digest} for file, digest in found.files.items()],
        "fits": [_plain(decision) for decision in decisions],
        "left_out": [{"reason": reason, "rows": count} for reason, count in found.left_out.items()],
        "remarks": list(found.remarks),
        "written": [str(path) for path in written],
    }


def _plain(decision: Decision) -> dict[str, Any]:
    fit, key = decision.fit, decision.fit.sample.key
    return {
        "of": fit.sample.of,
        "part": key.part,
        "entry": key.entry,
        "detail": key.detail if key.part != "network" else key.of,
        "form": fit.sample.form.title,
        "points": fit.points,
        "range": fit.sample.range,
        **_error("in_sample", fit.inside),
        **_error("held_out", fit.outside),
        **_error("in_use", fit.now),
        "write": decision.written,
        "why_not": decision.why,
        "constants": [
            {
                "name": constant.name,
                "unit": constant.unit,
                "fitted": fit.constants[constant.name],
                "in_use": (fit.sample.now or {}).get(constant.name),
            }
            for constant in fit.sample.form.constants
            if not fit.unfitted
        ],
    }


def _error(name: str, error: Error | None) -> dict[str, float | None]:
    return {f"{name}_median": error.median if error else None, f"{name}_p90": error.p90 if error else None}
