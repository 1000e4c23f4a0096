"""What figures beside their predictions come to: errors, calls on whether a run fits, by group and in total."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from costmodel.documents.reader.folders import shipped_file
from costmodel.documents.reader.measured_cases import WORKLOADS
from costmodel.documents.schemas.measurement import MeasuredTable
from costmodel.evidence.validate.compared_figures import GROUPINGS, Compared, Validated
from costmodel.evidence.validate.outcomes import FITS
from costmodel.ground.record import record

LEFT_OUT = "hardware/left_out.json"  # errors with the source held out of the fit
KINDS = ("dense", "with experts")


def left_out() -> dict[str, Any]:
    """The shipped record of held-out errors: its date, the number of runs, and errors by group and by source."""
    found: dict[str, Any] = json.loads(shipped_file(LEFT_OUT).read_text("utf-8"))
    return found


def left_out_by_kind() -> dict[str, Any]:
    """The shipped held-out errors of dense models, of mixtures of experts, and of services."""
    found = left_out()
    kinds = {kind: found["groups"][kind] for kind in KINDS}
    return {"date": found["date"], "runs": found["runs"], **kinds, "services": found["services"]}


@record
class Score:
    """The errors of some figures in total; rows have equal weight, percentiles are linear."""

    rows: int
    modelled: int
    median_error: float | None
    p90_error: float | None
    bias: float | None
    inside_band: float | None


@record
class Outcomes:
    """For runs that did or did not fit in memory: how many, wrong predictions, and the mean predicted chance to fit."""

    fit: int
    called_unfit: int
    unfit: int
    called_fit: int
    chance_of_fit: float | None
    chance_of_unfit: float | None


@record
class GroupScore:
    """The errors of a group of figures, and the calls on whether its runs fit."""

    score: Score
    outcomes: Outcomes


@record
class Scoreboard:
    """Tables with their predictions, and every score that an answer shows of them."""

    tables: Sequence[Validated]
    figures: Sequence[Compared]
    together: GroupScore
    groups: Mapping[str, Mapping[str, GroupScore]]  # by column, then by its values
    worst: Sequence[Compared]  # the largest error first
    median: float | None  # of all errors, also of those on whether a run fits
    furthest: float  # the largest of them
    left_out: Mapping[str, Any] | None  # errors of sources that a fit leaves out
    others: Mapping[str, Scoreboard]  # of documents about services or RL that stand beside those of training, by result

    @property
    def compares(self) -> bool:
        """Whether any figure has a prediction; also true if there are no figures."""
        return self.median is not None or not self.figures

    @property
    def holds(self) -> bool:
        """Whether something was compared, and every figure is within its tolerance."""
        within = self.compares and all(figure.within for figure in self.figures)
        return within and all(board.holds for board in self.others.values())


def scoreboard(tables: Sequence[Validated], *, left_out: bool = False) -> Scoreboard:
    """The scores of these tables and, if asked for, the held-out errors of the shipped tables.

    Figures of one result alone come to one error: documents about services and RL stand apart from the others.
    """
    apart: dict[str, list[Validated]] = {}
    for part in tables:
        apart.setdefault(_other_result(part), []).append(part)
    first = "" if "" in apart else next(iter(apart), "")
    beside = {name: _scoreboard(parts, {}) for name, parts in apart.items() if name != first}
    return replace(_scoreboard(apart.get(first, []), beside), left_out=left_out_by_kind() if left_out else None)


def _other_result(part: Validated) -> str:
    """The result that a document about services or RL has; empty for every other table."""
    found = part.figures[0].quantity if part.figures and isinstance(part.table, MeasuredTable) else ""
    return found if found in WORKLOADS else ""


def _scoreboard(tables: Sequence[Validated], others: Mapping[str, Scoreboard]) -> Scoreboard:
    figures = [figure for part in tables for figure in part.figures]
    groups = {
        column: {name: _group(members) for name, members in gathered(figures, column).items()} for column in GROUPINGS
    }
    errors = [abs(figure.error) for figure in figures if figure.error is not None]
    return Scoreboard(
        tables,
        figures,
        _group(figures),
        groups,
        worst(figures, len(figures)),
        statistics.median(errors) if errors else None,
        max(errors, default=0.0),
        None,
        others,
    )


def _group(figures: Sequence[Compared]) -> GroupScore:
    return GroupScore(score(figures), outcomes(figures))


def score(figures: Sequence[Compared]) -> Score:
    """The error of these figures in total; whether a run fits counts only if there is no other figure."""
    done = [figure for figure in figures if figure.error is not None]
    amounts = [figure for figure in done if figure.quantity != FITS]
    errors = [abs(figure.error) for figure in amounts or done if figure.error is not None]
    signed = [figure.error for figure in amounts if figure.error is not None]
    banded = [figure for figure in amounts if figure.low is not None and figure.high is not None]
    return Score(
        rows=len(figures),
        modelled=len(done),
        median_error=float(np.percentile(errors, 50)) if errors else None,
        p90_error=float(np.percentile(errors, 90)) if errors else None,
        bias=float(statistics.median(signed)) if signed else None,
        inside_band=float(np.mean([_inside(figure) for figure in banded])) if banded else None,
    )


def _inside(figure: Compared) -> bool:
    assert figure.low is not None and figure.high is not None and figure.measured is not None  # noqa: PT018
    return figure.low <= figure.measured <= figure.high


def gathered(figures: Sequence[Compared], grouping: str) -> dict[str, list[Compared]]:
    """The figures by the values of a column, in the order of the table."""
    groups: dict[str, list[Compared]] = {}
    for figure in figures:
        groups.setdefault(figure.groups[grouping], []).append(figure)
    return groups


def outcomes(figures: Sequence[Compared]) -> Outcomes:
    """The modelled runs that fitted or did not, and wrong predictions; a run with measured memory fitted."""
    shown = [(figure.quantity != FITS or figure.measured == 1, figure.called_fit) for figure in figures]
    chances = [(fitted, figure.fit_chance) for figure, (fitted, _) in zip(figures, shown, strict=True)]
    return Outcomes(
        fit=sum(fitted and called is not None for fitted, called in shown),
        called_unfit=shown.count((True, False)),
        unfit=sum(not fitted and called is not None for fitted, called in shown),
        called_fit=shown.count((False, True)),
        chance_of_fit=_mean([chance for fitted, chance in chances if fitted and chance is not None]),
        chance_of_unfit=_mean([chance for fitted, chance in chances if not fitted and chance is not None]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def worst(figures: Sequence[Compared], count: int) -> list[Compared]:
    """The figures with the largest errors in either direction, by ratio."""
    done = [figure for figure in figures if figure.error is not None]
    return sorted(done, key=lambda figure: -abs(figure.error or 0.0))[:count]


@record
class TermWorth:
    """A term of a step in the rows where it takes enough of it: its median share, errors with it and without it."""

    term: str
    group: str
    share: float
    score: Score
    without: Score

    @property
    def earns_its_place(self) -> bool:
        """Whether predictions with it err less, in the middle or in the tail."""
        pairs = (
            (self.score.median_error, self.without.median_error),
            (self.score.p90_error, self.without.p90_error),
        )
        return any(one is not None and other is not None and one < other for one, other in pairs)


NOTABLE = 0.05  # of a step, from which a row shows what a term is worth


def worth_of_terms(figures: Sequence[Compared], terms: Sequence[str], grouping: str | None = None) -> list[TermWorth]:
    """How much each term of a step improves predictions, by group of the rows where it matters; most rows first."""
    found = list[TermWorth]()
    for term in terms:
        rows = [each for each in figures if each.error is not None and each.parts.get(term, 0.0) >= NOTABLE]
        groups = gathered(rows, grouping) if grouping else {"": rows} if rows else {}
        for group, members in sorted(groups.items(), key=lambda item: -len(item[1])):
            share = statistics.median(each.parts[term] for each in members)
            found.append(
                TermWorth(term, group, share, score(members), score([each.without([term]) for each in members]))
            )
    return found
