"""Which term of a step moved between runs of one release of software and the next, from the steps of several layouts.

How far predictions are off in a group of like runs is taken from those before: the new ones are looked at beside that.
If one term takes f times as long, a step in which it has the share s takes 1 + s (f − 1) times as long: the factor that
leaves least is that of the term. What is left of a term beyond chance is judged by how runs before differed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.run.uncertainty import slowed_step
from costmodel.evidence.validate.compared_figures import Compared
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

ALL = "all terms"  # clocks, or another machine
LIKE = ("model", "accelerator", "stack")  # runs alike in these are off alike
_FACTORS = np.exp(np.linspace(math.log(0.25), math.log(8.0), 1387))  # of a term, a quarter of a percent apart
_ROUNDED = 0.005  # spread of runs at least: times are stated in three digits
_SURE = 3.5  # spreads, from which a change is none of chance, whichever of ten terms is looked at
_SHARE = 0.02  # of a step in any run, from which a term is looked at
_APART = 4.0  # squares of spreads by which another term must leave more, to be another
_FEWEST = 3  # runs of each


@record
class MovedTerm:
    """A term, the factor that its times took, and how much of the change that leaves: 1 where nothing is explained."""

    term: str
    factor: float
    left: float


@record
class Moved:
    """What changed from runs before to runs now.

    spread: of runs before, of the logarithm. change: geometric mean of the new times over what was expected
    moved: whether that is more than chance. terms: the likeliest first. alike: those that these runs do not distinguish
    from it
    """

    before: int
    now: int
    spread: float
    change: float
    moved: bool
    terms: tuple[MovedTerm, ...]
    alike: tuple[str, ...]

    @property
    def slower(self) -> bool:
        """Whether a term takes longer than before, by more than chance."""
        return self.likeliest is not None and self.likeliest.factor > 1

    @property
    def likeliest(self) -> MovedTerm | None:
        """The term that moved; none where nothing did."""
        return self.terms[0] if self.moved and self.terms else None


def moved_terms(before: Sequence[Compared], now: Sequence[Compared]) -> Moved:
    """Which term moved.

    Raises:
        CostModelError: too few runs have a predicted step, or none of the new ones is like one before
    """
    known, new = ([each for each in rows if each.parts and each.error is not None] for rows in (before, now))
    groups = _offsets(known)
    new = [each for each in new if _group(each) in groups]
    if len(known) < _FEWEST or len(new) < _FEWEST:
        counts = f"{len(known)} runs before and {len(new)} like them now have a predicted step"
        sentence = f"{counts}; {_FEWEST} of each are needed"
        raise fail("C005", sentence, Place("command line"), "measure several layouts of the same model and machine")
    kept = [_slower(each) - groups[_group(each)] for each in known]
    freedom = max(len(kept) - len(groups), 1)
    spread = max(math.sqrt(sum(each**2 for each in kept) / freedom), _ROUNDED)
    changes = np.array([_slower(each) - groups[_group(each)] for each in new])
    whole = float(changes @ changes)
    found = sorted(_fitted(new, changes), key=lambda each: each.left)
    best = found[0]
    moved = whole - best.left > (_SURE * spread) ** 2
    alike = [each.term for each in found[1:] if each.left - best.left < _APART * spread**2]
    terms = tuple(MovedTerm(each.term, each.factor, each.left / whole if whole else 1.0) for each in found)
    change = math.exp(float(np.mean(changes)))
    return Moved(len(known), len(new), spread, change, bool(moved), terms, tuple(alike if moved else ()))


def _fitted(new: Sequence[Compared], changes: NDArray[np.float64]) -> list[MovedTerm]:
    """Of each term the factor that leaves least, and the squares of what it leaves."""
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


def _offsets(known: Sequence[Compared]) -> Mapping[tuple[str, ...], float]:
    """How far predictions of each group of like runs are off, as a logarithm of the time."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for each in known:
        groups.setdefault(_group(each), []).append(_slower(each))
    return {group: statistics.median(values) for group, values in groups.items()}


def _group(each: Compared) -> tuple[str, ...]:
    return tuple(each.groups.get(column, "") for column in LIKE)


def _slower(each: Compared) -> float:
    """The logarithm of the measured time over the predicted one; of a rate the other way round."""
    assert each.measured is not None
    assert each.predicted is not None
    ratio = math.log(each.measured / each.predicted)
    return ratio if each.quantity == "step_time" else -ratio
