"""The answer of `validate --quantity regret`: what the picked layout cost over the fastest, by group and by sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from costmodel.evidence.validate.scores import LEAST, LayoutRegret, LayoutSweep, MeasuredLayout, RegretScore
from costmodel.ground.counts import number_of
from costmodel.ground.units import show
from costmodel.report.answers.validate import without_fields, without_lines
from costmodel.report.document import AnswerDocument, Section, Table, columns
from costmodel.report.terminal.layout import head, styled

_LEGEND = (
    "mean, median, worst: how much longer the picked layout ran than the fastest. ranks: Spearman's correlation. "
    "time: mean |error| of step time"
)
_NONE = f"no model was measured in {LEAST} layouts on one cluster with one batch"
_NAMES = ("sweeps", "modelled", "mean", "median", "worst", "ranks", "best picked", "time")


def regret(regrets: LayoutRegret, grouping: str, worst: int, without: Sequence[str] = ()) -> AnswerDocument:
    """The regret of picked layouts by group and in total, and the worst sweeps if requested.

    without: terms that predictions leave out
    """
    sections = [Section("none", "No sweep", beneath=[styled(_NONE)], apart=False)]
    if regrets.sweeps:
        rows = [(name, *_score_cells(part)) for name, part in regrets.groups[grouping].items()]
        rows.append(("together", *_score_cells(regrets.together)))
        table = Table(columns((grouping, *_NAMES), "lrrrrrrrr", ("modelled", "median")), rows)
        title = f"Regret by {grouping.replace('_', ' ')}"
        sections = [Section("regret", title, table=table, beneath=[Text(), styled(_LEGEND)], apart=bool(without))]
    if regrets.sweeps and worst:
        table = Table(
            columns(("sweep", "regret", "picked", "the fastest"), "lrll"), [*_worst_rows(regrets.worst[:worst])]
        )
        sections.append(Section("worst", "Where the picked layout loses most", table=table))
    stated = f"{number_of(len(regrets.sweeps), 'sweep')} of measured layouts are compared."
    return AnswerDocument(None, "Layouts picked by prediction", without_lines(without), stated, "plain", sections)


def _score_cells(part: RegretScore) -> tuple[str, ...]:
    """The table cells of a score: sweeps, regret, rank correlation, errors."""
    shares = (part.mean_regret, part.median_regret, part.worst_regret)
    ranks = "" if part.correlation is None else f"{part.correlation:.2f}"
    share = "" if part.best_picked is None else f"{part.best_picked:.0%}"
    return (
        f"{part.sweeps}",
        f"{part.modelled}",
        *map(_share_words, shares),
        ranks,
        share,
        _share_words(part.mean_error),
    )


def _share_words(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _worst_rows(sweeps: Sequence[LayoutSweep]) -> Iterator[tuple[str, str, str, str]]:
    for sweep in sweeps:
        yield _name(sweep), _share_words(sweep.regret), _measured_words(sweep.picked), _measured_words(sweep.best)


def _name(sweep: LayoutSweep) -> str:
    """Model, accelerators and batch of a sweep."""
    shared = sweep.shared
    return f"{shared['model_name']}, {shared['gpus']} ranks, batch {shared['global_batch']}"


def _measured_words(ran: MeasuredLayout | None) -> str:
    return "" if ran is None else f"{show(ran.measured, 's', 4)} {_short_layout(ran.layout)}"


def _short_layout(layout: str) -> str:
    """The degrees of a layout and its micro-batch, as far as they are not 1."""
    cells = dict(part.split("=", 1) for part in layout.split(" ") if "=" in part)
    degrees = {"dp": "dp", "tp": "tp", "pp": "pp", "cp": "cp", "ep": "ep", "vp": "vp", "vpp": "vp", "micro_batch": "mb"}
    return " ".join(f"{short}{_plain(cells[name])}" for name, short in degrees.items() if _is_shown(cells, name))


def _is_shown(cells: Mapping[str, str], name: str) -> bool:
    return name in cells and (name == "micro_batch" or _plain(cells[name]) != "1")


def _plain(cell: str) -> str:
    return cell.removesuffix(".0")


def regret_json(regrets: LayoutRegret, without: Sequence[str] = ()) -> dict[str, Any]:
    """The regret as plain values, a row for each sweep."""
    return {
        **head("costmodel/validation/v1"),
        "quantity": "regret",
        "without": list(without),
        "overall": asdict(regrets.together),
        "by": {
            column: {name: asdict(part) for name, part in parts.items()} for column, parts in regrets.groups.items()
        },
        "rows": [
            {**_row(sweep, alone), **without_fields(without)}
            for sweep, alone in zip(regrets.sweeps, regrets.scores, strict=True)
        ],
    }


_SIZES = {"gpus": "gpus", "sequence": "seq_len", "global_batch": "global_batch"}


def _row(sweep: LayoutSweep, judged: RegretScore) -> dict[str, Any]:
    """One sweep as plain values: its runs, the chosen and the fastest layout, the regret."""
    return {
        "id": sweep.first,
        "model": sweep.groups["model"],
        "cluster": sweep.groups["accelerator"],
        **{name: float(sweep.shared[cell]) for name, cell in _SIZES.items() if sweep.shared[cell]},
        **{name: sweep.groups[name] for name in ("source", "source_family", "gpu", "precision")},
        "layouts": judged.layouts,
        "modelled": len(sweep.modelled),
        "regret": sweep.regret,
        "correlation": sweep.correlation,
        "best_picked": sweep.found_best,
        "mean_error": judged.mean_error,
        **_shown_of("best", sweep.best),
        **_shown_of("picked", sweep.picked),
    }


def _shown_of(which: str, ran: MeasuredLayout | None) -> dict[str, Any]:
    if ran is None:
        return {which: None, f"{which}_layout": None, f"{which}_time_s": None}
    return {which: ran.run, f"{which}_layout": ran.layout, f"{which}_time_s": ran.measured}
