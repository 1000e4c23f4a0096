"""The answer of `validate --quantity regret`: how much slower the layout picked by prediction ran than the fastest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from costmodel.evidence.validate.scores import LEAST, LayoutRegret, LayoutSweep, MeasuredLayout, RegretScore
from costmodel.ground.counts import number_of
from costmodel.ground.units import show
from costmodel.report.answers.validate import left_out_terms_field, left_out_terms_line
from costmodel.report.document import AnswerDocument, Section, Table, columns
from costmodel.report.terminal.layout import schema_head, styled

_LEGEND = (
    "mean, median, worst: how much longer the picked layout ran than the fastest. ranks: Spearman's correlation. "
    "time: mean |error| of step time"
)
_NOTHING_COMPARED = f"no model was measured in {LEAST} layouts on one cluster with one batch"
_NAMES = ("sweeps", "modelled", "mean", "median", "worst", "ranks", "best picked", "time")


def regret_document(regrets: LayoutRegret, grouping: str, worst: int, without: Sequence[str] = ()) -> AnswerDocument:
    """The regret of picked layouts by group and in total, and the sweeps with the largest regret if requested.

    without: terms that predictions leave out
    """
    sections = [Section("none", "No sweep", beneath=[styled(_NOTHING_COMPARED)], apart=False)]
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
    return AnswerDocument(None, "Layouts picked by prediction", left_out_terms_line(without), stated, "plain", sections)


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
    """A share in percent with one decimal, as text; empty for None."""
    return "" if value is None else f"{value:.1%}"


def _worst_rows(sweeps: Sequence[LayoutSweep]) -> Iterator[tuple[str, str, str, str]]:
    """The table rows of sweeps: the regret, the picked layout, and the fastest."""
    for sweep in sweeps:
        yield _sweep_name(sweep), _share_words(sweep.regret), _layout_words(sweep.picked), _layout_words(sweep.best)


def _sweep_name(sweep: LayoutSweep) -> str:
    """A sweep in words: its model, accelerators and batch."""
    shared = sweep.shared
    return f"{shared['model_name']}, {shared['gpus']} ranks, batch {shared['global_batch']}"


def _layout_words(ran: MeasuredLayout | None) -> str:
    """The measured step time of a layout and its degrees, in words; empty for None."""
    return "" if ran is None else f"{show(ran.measured, 's', 4)} {_short_layout(ran.layout)}"


def _short_layout(layout: str) -> str:
    """The degrees of a layout and its micro-batch, as far as they are not 1."""
    cells = dict(part.split("=", 1) for part in layout.split(" ") if "=" in part)
    degrees = {"dp": "dp", "tp": "tp", "pp": "pp", "cp": "cp", "ep": "ep", "vp": "vp", "vpp": "vp", "micro_batch": "mb"}
    return " ".join(f"{short}{_whole(cells[name])}" for name, short in degrees.items() if _shows_degree(cells, name))


def _shows_degree(cells: Mapping[str, str], name: str) -> bool:
    """Whether a layout has a degree that is shown: one above 1, or the micro-batch."""
    return name in cells and (name == "micro_batch" or _whole(cells[name]) != "1")


def _whole(cell: str) -> str:
    """A number of a table without `.0` at its end."""
    return cell.removesuffix(".0")


def regret_json(regrets: LayoutRegret, without: Sequence[str] = ()) -> dict[str, Any]:
    """The regret as plain values, a row for each sweep."""
    return {
        **schema_head("costmodel/validation/v1"),
        "quantity": "regret",
        "without": list(without),
        "overall": asdict(regrets.together),
        "by": {
            column: {name: asdict(part) for name, part in parts.items()} for column, parts in regrets.groups.items()
        },
        "rows": [
            {**_sweep_fields(sweep, alone), **left_out_terms_field(without)}
            for sweep, alone in zip(regrets.sweeps, regrets.scores, strict=True)
        ],
    }


_SIZE_CELLS = {"gpus": "gpus", "sequence": "seq_len", "global_batch": "global_batch"}


def _sweep_fields(sweep: LayoutSweep, judged: RegretScore) -> dict[str, Any]:
    """One sweep as plain values: its runs, the chosen and the fastest layout, the regret."""
    return {
        "id": sweep.first,
        "model": sweep.groups["model"],
        "cluster": sweep.groups["accelerator"],
        **{name: float(sweep.shared[cell]) for name, cell in _SIZE_CELLS.items() if sweep.shared[cell]},
        **{name: sweep.groups[name] for name in ("source", "source_family", "gpu", "precision")},
        "layouts": judged.layouts,
        "modelled": len(sweep.modelled),
        "regret": sweep.regret,
        "correlation": sweep.correlation,
        "best_picked": sweep.found_best,
        "mean_error": judged.mean_error,
        **_layout_fields("best", sweep.best),
        **_layout_fields("picked", sweep.picked),
    }


def _layout_fields(which: str, ran: MeasuredLayout | None) -> dict[str, Any]:
    """A layout as plain values under keys that start with `which`; None where there is none."""
    if ran is None:
        return {which: None, f"{which}_layout": None, f"{which}_time_s": None}
    return {which: ran.run, f"{which}_layout": ran.layout, f"{which}_time_s": ran.measured}
