"""Which term of a step moved between runs of one release of software and the next, from the steps of several layouts.

How far the prediction of a layout is off is taken from its runs before, by their names; of a new layout from all runs
of the model, the machine and the software.
If one term takes f times as long, a step in which it has the share s takes 1 + s (f − 1) times as long: the factor that
leaves least is that of the term. What is left of a term beyond chance is judged by how runs before differed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.run.uncertainty import slowed_step
from costmodel.evidence.validate.compared_figures import Compared
from costmodel.evidence.validate.outcomes import Quantity
from costmodel.evidence.validate.validate import validated
from costmodel.exchange.tables.run_table import Table
from costmodel.exchange.tables.serving_table import ServingTable
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

ALL = "all terms"  # clocks, or another machine
TIMES = ("step_time", "tpot", "ttft")  # other quantities are rates
_QUANTITIES: dict[type[Table], tuple[Quantity, ...]] = {Table: ("time",), ServingTable: ("tpot", "ttft")}
LIKE = ("model", "accelerator", "stack")  # runs alike in these are off alike
_FACTORS = np.exp(np.linspace(math.log(0.25), math.log(8.0), 1387))  # of a term, a quarter of a percent apart
_ROUNDED = 0.005  # spread of runs at least: times are stated in three digits
_SURE = 4.5  # spreads, themselves of few runs, from which a change of any of ten terms is none of chance
_WIDE = 6.0  # spreads, from which a single run is none of chance
_SHARE = 0.02  # of a step in any run, from which a term is looked at
_EXPLAINED = 0.5  # of the change, as squares, that a term must explain at least
_APART = 4.0  # squares of spreads by which another term must leave more, to be another
_FEWEST = 3  # runs of each


@record
class MovedRuns:
    """What changed in the last runs of one kind since those before: step times, times per token, or first tokens.

    figure: that the runs have. release: of the software, before and now, where tables state both and they differ
    """

    figure: str
    night: str
    found: Moved
    release: tuple[str, str] | None


def moved_runs(nights: Mapping[str, Sequence[Table]]) -> list[MovedRuns]:
    """What changed in the last night of training runs and in the last night of serving runs.

    Raises:
        CostModelError: too few runs of a kind have a prediction
    """
    found = list[MovedRuns]()
    for kind, quantities in _QUANTITIES.items():
        held = {
            night: own for night, tables in nights.items() if (own := [each for each in tables if type(each) is kind])
        }
        if len(held) < 2:
            continue
        *_, last = held
        before = [table for night, tables in held.items() for table in tables if night != last]
        for quantity in quantities:
            old, new = (_figures(tables, quantity) for tables in (before, held[last]))
            if quantity == "ttft" and not all(any(each.error is not None for each in part) for part in (old, new)):
                continue
            found.append(MovedRuns(quantity, last, moved_terms(old, new), _release(before, held[last])))
    return found


def _figures(tables: Sequence[Table], quantity: Quantity) -> list[Compared]:
    return [figure for part in validated(tables, quantity=quantity) for figure in part.figures]


def _release(before: Sequence[Table], now: Sequence[Table]) -> tuple[str, str] | None:
    """The releases of an engine in two groups of runs, where each has one and they differ."""
    old, new = ({row.text("engine_version") for table in tables for row in table.rows} for tables in (before, now))
    return (old.pop(), new.pop()) if len(old) == len(new) == 1 and old != new and "" not in old | new else None


@record
class MovedTerm:
    """A term, the factor by which its times changed, and the share of the change left unexplained (1: all of it)."""

    term: str
    factor: float
    left: float


@record
class Moved:
    """The change from earlier runs to new ones, and the terms that may explain it.

    spread: of runs before, of the logarithm. change: geometric mean of the new times over what was expected
    moved: whether that is more than chance. terms: the likeliest first. alike: those that these runs do not distinguish
    from it
    """

    before: int
    now: int
    spread: float
    change: float
    moved: bool
    slower: bool
    terms: tuple[MovedTerm, ...]
    alike: tuple[str, ...]

    @property
    def likeliest(self) -> MovedTerm | None:
        """The term that moved; none where nothing did, or where no single one explains it."""
        first = self.terms[0]
        explained = first.left < _EXPLAINED and _FACTORS[0] < first.factor < _FACTORS[-1]
        return first if self.moved and explained else None


def moved_terms(before: Sequence[Compared], now: Sequence[Compared]) -> Moved:
    """Finds the term of a step that explains best why new runs differ from earlier ones.

    Raises:
        CostModelError: too few runs have a predicted step, or none of the new ones is like one before
    """
    known, new = ([each for each in rows if each.parts and each.error is not None] for rows in (before, now))
    own, groups = _offsets(known, _run), _offsets(known, _group)
    new = [each for each in new if _group(each) in groups]
    if len(known) < _FEWEST or len(new) < _FEWEST:
        counts = f"{len(known)} runs before and {len(new)} like them now have a predicted step"
        sentence = f"{counts}; {_FEWEST} of each are needed"
        raise fail("C005", sentence, Place("command line"), "measure several layouts of the same model and machine")
    repeated = len(own) < len(known)
    kept = [_slower(each) - (own[_run(each)] if repeated else groups[_group(each)]) for each in known]
    freedom = max(len(kept) - len(own if repeated else groups), 1)
    spread = max(math.sqrt(sum(each**2 for each in kept) / freedom), _ROUNDED)
    changes = np.array([_slower(each) - own.get(_run(each), groups[_group(each)]) for each in new])
    whole = float(changes @ changes)
    found = sorted(_fitted(new, changes), key=lambda each: each.left)
    chance = spread * math.sqrt(1 + len(own) / len(known)) if repeated else spread  # of a run beside a mean of others
    best, widest = found[0], _WIDE * chance
    moved = whole - best.left > (_SURE * chance) ** 2 or float(np.abs(changes).max()) > widest
    slower = moved and (best.factor > 1 or float(changes.max()) > widest)
    alike = [each.term for each in found[1:] if each.left - best.left < _APART * chance**2]
    terms = tuple(MovedTerm(each.term, each.factor, each.left / whole if whole else 1.0) for each in found)
    change = math.exp(float(np.mean(changes)))
    return Moved(len(known), len(new), spread, change, moved, slower, terms, tuple(alike if moved else ()))


def _fitted(new: Sequence[Compared], changes: NDArray[np.float64]) -> list[MovedTerm]:
    """For each term the factor that leaves the smallest squared residuals, with these residuals."""
    found = list[MovedTerm]()
    for term in [ALL, *dict.fromkeys(name for each in new for name in each.parts)]:
        shares = np.array([1.0 if term == ALL else each.parts.get(term, 0.0) for each in new])
        if shares.max() < _SHARE:
            continue
        expected = np.log(np.asarray(slowed_step(shares[:, None], _FACTORS[None, :])))
        left = ((changes[:, None] - expected) ** 2).sum(axis=0)
        place = int(np.argmin(left))
        found.append(MovedTerm(term, float(_FACTORS[place]), float(left[place])))
    return found


def _offsets(known: Sequence[Compared], like: Callable[[Compared], tuple[str, ...]]) -> Mapping[tuple[str, ...], float]:
    """The mean log error of each group of similar runs."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for each in known:
        groups.setdefault(like(each), []).append(_slower(each))
    return {group: statistics.fmean(values) for group, values in groups.items()}


def _run(each: Compared) -> tuple[str, ...]:
    return (each.run, *_group(each))


def _group(each: Compared) -> tuple[str, ...]:
    return tuple(each.groups.get(column, "") for column in LIKE)


def _slower(each: Compared) -> float:
    """The log of measured over predicted time; for a rate, of predicted over measured."""
    assert each.measured is not None
    assert each.predicted is not None
    ratio = math.log(each.measured / each.predicted)
    return ratio if each.quantity in TIMES else -ratio
