"""Constants of serving engines before and after a fit, and errors of rows left out of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.text import Text

from costmodel.evidence.calibrate.engine_constants import written
from costmodel.evidence.calibrate.engine_fit import EngineFit, RefinedConstant
from costmodel.evidence.calibrate.regression_problem import Errors
from costmodel.report.terminal.search.reasons import mistaken, not_modelled
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import WARN, styled

_MORE = ("P90", "bias", "in band")


def refinement(found: EngineFit, files: Iterable[Path]) -> list[Line]:
    """Each constant, the errors before and after, those of rows left out, and the files written."""
    shown = sum(constant.identified for constant in found.constants)
    rows = found.runs + len(found.left)
    lines: list[Line] = [
        styled(f"{shown} of {len(found.constants)} constants identified by {found.runs} of {rows} runs"),
        Text(),
        CellTable(("constant", "prior", "fitted", "known to"), [_constant(each) for each in found.constants], "lrrr"),
        Text(),
        CellTable(("errors", "", "runs", "median", *_MORE), list(_errors(found)), "llrrrrr"),
    ]
    for quantity in found.unseen or ():
        each = [
            (part.value, *_scored(part.shipped[quantity])[:2], *_scored(part.unseen[quantity])[1:])
            for part in found.by_value
            if quantity in part.unseen
        ]
        lines += [
            Text(),
            CellTable((f"{quantity} by {found.grouping}", "runs", "as shipped", "left out", *_MORE), each, "lrrrrrr"),
        ]
    if found.left:
        lines += [Text(), *not_modelled(found.left)]
    if found.why:
        lines += [Text(), styled(f"not to be written: {found.why}", WARN)]
    return [*lines, *mistaken(found.tables), *(styled(f"wrote {path}") for path in files)]


def _constant(each: RefinedConstant) -> tuple[str, ...]:
    value = written(each.constant, each.value), f"{each.spread:.0%}"
    return each.constant.name, written(each.constant, each.prior), *(value if each.identified else ("as prior", ""))


def _errors(found: EngineFit) -> Iterator[tuple[str, ...]]:
    parts = {"as shipped": found.shipped, "fitted": found.fitted, f"{found.grouping} left out": found.unseen}
    for quantity in found.shipped:
        for name, errors in parts.items():
            if errors:
                yield quantity, name, *_scored(errors[quantity])


def _scored(errors: Errors) -> tuple[str, ...]:
    shares = f"{errors.median:.1%}", f"{errors.p90:.1%}", f"{errors.bias:+.1%}", f"{errors.inside_band:.0%}"
    return f"{errors.runs}", *shares


def refinement_json(found: EngineFit, files: Iterable[Path]) -> dict[str, Any]:
    """The same as plain values."""
    unseen = None if found.unseen is None else _by_quantity(found.unseen)
    return {
        **head("costmodel/calibration/v1"),
        "tables": [table.file for table in found.tables],
        "rows": found.runs + len(found.left),
        "modelled": found.runs,
        "constants": [
            {
                "name": each.constant.name,
                "documents": each.constant.documents,
                "leaves": [str(leaf) for leaf in each.constant.leaves],
                "prior": each.prior,
                "value": each.value,
                "spread": each.spread,
                "prior_spread": each.constant.spread,
                "scale": "log",
                "resolved": each.identified,
            }
            for each in found.constants
        ],
        "errors": {"shipped": _by_quantity(found.shipped), "in_sample": _by_quantity(found.fitted), "left_out": unseen},
        "left_out": {
            found.grouping: {
                part.value: {
                    "shipped": _by_quantity(part.shipped),
                    "left_out": _by_quantity(part.unseen),
                    "constants": dict(part.constants),
                }
                for part in found.by_value
            }
        }
        if found.grouping
        else {},
        "refused": [{"id": left.run, "refused": left.refused, "why": left.why} for left in found.left],
        "why": found.why,
        "written": [str(path) for path in files],
    }


def _by_quantity(errors: Mapping[str, Errors]) -> dict[str, Any]:
    return {quantity: asdict(each) for quantity, each in errors.items()}
