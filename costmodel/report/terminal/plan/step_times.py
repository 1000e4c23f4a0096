"""Prints constants fitted on measured runs: values, the runs that identify them, and the error on held-out runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from costmodel.evidence.calibrate.refine_from_runs import Refined, unit_value
from costmodel.report.terminal.search.reasons import mistaken, not_modelled
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import WARN, styled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from costmodel.evidence.calibrate.fit_from_runs import Posterior
    from costmodel.evidence.calibrate.regression_problem import Errors

_MORE = ("P90", "bias", "in band")


def sharpening(found: Refined, written: Iterable[Path]) -> list[Line]:
    """The constants, the errors before and after, the groups left out, and the files written."""
    fit = found.fit
    shown = sum(part.resolved for part in fit.constants)
    head = f"{shown} of {len(fit.constants)} constants identified by {found.runs} of {found.rows} runs"
    names = ("constant", "prior", "fitted", "known to", "runs", "families")
    rows = [_constant(part) for part in fit.constants]
    lines: list[Line] = [styled(head), Text(), CellTable(names, rows, "lrrrrr"), Text()]
    lines.append(CellTable(("errors", "runs", "median", "P90", "bias", "in band"), list(_errors(found)), "lrrrrr"))
    for head, parts in ((found.grouping, fit.by_group), ("models", fit.by_kind)):
        if len(parts) > 1:
            each = [(name, *_scored(inside), *_scored(outside)[1:]) for name, (inside, outside) in parts.items()]
            heads = (head, "runs", "in sample", *_MORE, "left out", *_MORE)
            lines += [Text(), CellTable(heads, each, "lrrrrrrrrr")]
    if fit.widths:
        lines += [Text(), styled(f"widths of the band: {_widths(fit.widths)}")]
    kept = [part.prior.name for part in fit.constants if not part.resolved]
    if kept:
        lines += [Text(), styled(f"left at their priors, not identified by these runs: {'; '.join(kept)}")]
    if found.left:
        lines += [Text(), *not_modelled(found.left)]
    if found.why:
        lines += [Text(), styled(f"not to be written: {found.why}", WARN)]
    return [*lines, *mistaken(found.tables), *(styled(f"wrote {path}") for path in written)]


def _constant(part: Posterior) -> tuple[str, ...]:
    prior = part.prior
    prior_mean = unit_value(prior, prior.mean) + (f" × {prior.like}" if prior.like else "")
    spread = known(part) if part.resolved else "as prior"
    fitted = unit_value(prior, part.value)
    return prior.name, prior_mean, fitted, spread, f"{part.runs}", f"{len(part.families)}"


def known(part: Posterior) -> str:
    """One spread to either side; of a share, whose spread is of its log-odds, the shares there."""
    if not part.prior.share:
        return f"{part.spread:.0%}"
    low, high = part.interval
    return f"{low:.0%} to {high:.0%}"


def _errors(found: Refined) -> Iterator[tuple[str, ...]]:
    fit = found.fit
    yield "as in use", *_scored(fit.shipped)
    if found.afresh:
        yield "at the priors", *_scored(fit.at_priors)
    yield "in sample", *_scored(fit.inside)
    if fit.left_out is not None:
        yield f"{found.grouping} left out", *_scored(fit.left_out)


def _widths(widths: Mapping[str, float]) -> str:
    return ", ".join(f"{leaf} {value:.1%}" for leaf, value in widths.items())


def _scored(errors: Errors) -> tuple[str, ...]:
    shares = f"{errors.median:.1%}", f"{errors.p90:.1%}", f"{errors.bias:+.1%}", f"{errors.inside_band:.0%}"
    return f"{errors.runs}", *shares


def _parts(groups: Mapping[str, tuple[Errors, Errors]]) -> dict[str, Any]:
    return {
        name: {"in_sample": asdict(inside), "left_out": asdict(outside)} for name, (inside, outside) in groups.items()
    }


def sharpening_json(found: Refined, written: Iterable[Path]) -> dict[str, Any]:
    """The same as plain values."""
    fit = found.fit
    return {
        **head("costmodel/calibration/v1"),
        "tables": [table.file for table in found.tables],
        "rows": found.rows,
        "modelled": found.runs,
        "constants": [
            {
                "name": part.prior.name,
                "documents": list(part.prior.documents),
                "leaf": part.prior.leaf,
                "prior": part.prior.mean,
                "times": part.prior.like or None,
                "value": part.value,
                "spread": part.spread,
                "prior_spread": part.prior.spread,
                "scale": "log-odds" if part.prior.share else "log",
                "resolved": part.resolved,
                "runs": part.runs,
                "families": list(part.families),
            }
            for part in fit.constants
        ],
        "errors": {
            "shipped": asdict(fit.shipped),
            "prior": asdict(fit.at_priors),
            "in_sample": asdict(fit.inside),
            "left_out": None if fit.left_out is None else asdict(fit.left_out),
        },
        "left_out": {
            found.grouping: _parts(fit.by_group),
            "models": _parts(fit.by_kind),
        },
        "widths": dict(fit.widths),
        "refused": [{"id": left.run, "refused": left.refused, "why": left.why} for left in found.left],
        "why": found.why,
        "written": [str(path) for path in written],
    }
