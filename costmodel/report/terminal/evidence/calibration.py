"""Fits of measured kernels: how well each form describes them, beside the constants in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from costmodel.evidence.calibrate.calibrate import Calibrated, Fit
from costmodel.evidence.calibrate.regression import Error
from costmodel.evidence.calibrate.write_back import Decision
from costmodel.ground.counts import number_of
from costmodel.ground.units import percent, show
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.formatting import signed
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import DIM, HEAD, WARN, styled

_COLUMNS = ("fit", "points", "in sample", "held out", "in use", "bias", "")
_SIZES, _ALL_SIZES = 4, 32  # of a fit, shown unasked and with -v


def calibration(found: Calibrated, decisions: list[Decision], written: list[Path], verbose: bool) -> list[Line]:
    """Every fit under the document it belongs to, the constants under each, what was left out, what was written."""
    lines: list[Line] = []
    documents = list(dict.fromkeys(decision.fit.sample.of for decision in decisions))
    for name in documents:
        mine = [decision for decision in decisions if decision.fit.sample.of == name]
        lines += [*([styled("")] if lines else []), styled(name, HEAD)]
        lines.append(CellTable(_COLUMNS, [_row(decision) for decision in mine], "lrrrrrl", drop=("", "in sample")))
        lines += [line for decision in mine for line in _constants(decision.fit, verbose)]
        lines += [styled(""), _sizes(mine, verbose=verbose)]
        lines += [line for decision in mine for line in _sound(decision)]
    if decisions:
        lines += [styled(""), styled("in each pair: median and 90th percentile of |predicted / measured − 1|, %", DIM)]
        lines.append(
            styled("bias and error: predicted / measured − 1, with the constants in use if there are any", DIM)
        )
    stated = verbose or not decisions
    if found.left_out:
        total = sum(found.left_out.values())
        lines.append(styled(f"not fitted: {number_of(total, 'row')}" + ("" if stated else "; -v shows why"), DIM))
    if stated and found.left_out:
        rows = [(reason, f"{count:,}") for reason, count in found.left_out.items()]
        lines.append(CellTable(("not fitted", "rows"), rows, "lr"))
    return [*lines, *(styled(remark) for remark in found.remarks), *_in_words(decisions, written)]


def _row(decision: Decision) -> tuple[str, ...]:
    fit = decision.fit
    bias = fit.now or fit.inside
    errors = (*map(_pair, (fit.inside, fit.outside, fit.now)), signed(bias.bias) if bias else "–")
    return (title(fit), f"{fit.points:,}", *errors, "✓" if decision.written else decision.why)


def _sizes(decisions: Sequence[Decision], *, verbose: bool) -> CellTable:
    """Measured beside predicted, some sizes of each fit from the shortest time to the longest."""
    rows = []
    for decision in decisions:
        found = decision.sizes
        last, count = len(found) - 1, min(len(found), _ALL_SIZES if verbose else _SIZES)
        places = [round(step * last / max(1, count - 1)) for step in range(count)]
        for number, place in enumerate(places):
            one = found[place]
            named = "" if number else title(decision.fit)
            rows.append((named, one.size, show(one.measured, "s"), show(one.predicted, "s"), signed(one.error)))
    return CellTable(("fit", "size", "measured", "predicted", "error"), rows, "llrrr", drop=("fit",))


def _sound(decision: Decision) -> Iterator[Line]:
    """Whether a fabric is slower than healthy fabrics."""
    found = decision.soundness
    if found is None:
        return
    rates = f"{found.measured / 1e9:.3g} GB/s busbw, {found.predicted / 1e9:.3g} in healthy fabrics"
    by = "as fast as" if found.verdict == "sound" else f"{percent(abs(found.error), 2)} {found.verdict} than"
    words = f"{by} healthy fabrics, which differ by up to {percent(found.apart, 2)}"
    style = WARN if found.verdict == "slower" else ""
    yield styled(f"  {title(decision.fit)} from {show(found.message, 'B')}: {rates}: {words}", style)


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


def _in_words(decisions: list[Decision], written: list[Path]) -> Iterator[Line]:
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
        "sizes": [size for decision in decisions for size in _sizes_json(decision)],
        "fabrics": [fabric for decision in decisions for fabric in _fabric_json(decision)],
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


def _sizes_json(decision: Decision) -> Iterator[dict[str, Any]]:
    """Measured beside predicted, every size of a fit."""
    for one in decision.sizes:
        yield {
            "of": decision.fit.sample.of,
            "fit": title(decision.fit),
            "size": one.size,
            "rows": one.rows,
            "measured_s": one.measured,
            "predicted_s": one.predicted,
            "error": one.error,
        }


def _fabric_json(decision: Decision) -> Iterator[dict[str, Any]]:
    """How large messages compare with those of healthy fabrics."""
    found = decision.soundness
    if found is not None:
        yield {
            "of": decision.fit.sample.of,
            "fit": title(decision.fit),
            "from_bytes": found.message,
            "busbw_bytes_per_s": found.measured,
            "sound_busbw_bytes_per_s": found.predicted,
            "error": found.error,
            "apart": found.apart,
            "verdict": found.verdict,
        }


def _error(name: str, error: Error | None) -> dict[str, float | None]:
    return {
        f"{name}_median": error.median if error else None,
        f"{name}_p90": error.p90 if error else None,
        f"{name}_bias": error.bias if error else None,
    }
