"""Ranks plans, keeps the best and the Pareto front, and counts the others; parses result names and targets."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.keys.suggestions import alike
from costmodel.documents.schemas.results import ResultColumn, is_share, machine_name
from costmodel.equations.run.uncertainty import end_spread, percentile_at
from costmodel.explore.search.worker_pools import SearchStopped
from costmodel.ground.errors import COMMAND_LINE, Fault, Place, fail
from costmodel.ground.parsing import UnitError, parse
from costmodel.ground.record import record

# The result that a word of an option names, such as `--for 'tpot<=25 ms'`.

_ENDS = ("_low", "_high")  # of a band, which is named by its result
_CODES = {"--pareto": "C006"}
_POINTED = re.compile(r": (\w+)(?=[;,]|$)")  # the result that the meaning of a label points at


def named_result(word: str, columns: Iterable[str], option: str, written: str) -> str:
    """The name of a result, given with or without its unit or by its label; an unknown word raises a fault.

    written: the value of the option
    """
    named = {name: name for name in columns}
    named |= {machine_name(name): name for name in named}
    plain = word.casefold().replace(" ", "_")
    if plain in named:
        return named[plain]
    labelled = _results_labelled(plain, named)
    if len(labelled) == 1:
        return labelled[0]
    results = [name for name in dict.fromkeys(named.values()) if not name.endswith(_ENDS)]
    close = labelled or alike(word, results, 3, 0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(results)}"
    place = option_place(option, written, word)
    raise fail(_CODES.get(option, "C003"), f"there is no result named '{word}'", place, hint)


def shown_results(columns: Iterable[str], text: str, usual: tuple[str, ...]) -> tuple[str, ...]:
    """The results that --show names, each once; the defaults if it names none."""
    known = tuple(columns)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return tuple(dict.fromkeys(named_result(part, known, "--show", text) for part in parts)) or usual


def two_results(text: str, columns: Mapping[str, ResultColumn]) -> tuple[str, str]:
    """The two results of --pareto, each with a better direction."""
    ranked = [name for name, column in columns.items() if column.better != "neither"]
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or parts[0] == parts[1]:
        hint = f"for example --pareto memory_peak,{ranked[0]}"
        raise fail("C006", f"'{text}' is not two results", option_place("--pareto", text), hint)
    x, y = (named_result(part, ranked, "--pareto", text) for part in parts)
    return x, y


def _results_labelled(word: str, named: Mapping[str, str]) -> list[str]:
    """The results that answers label with this word, such as `in_flight`."""
    from costmodel.explore.answer_labels import meaning_of

    spellings = dict.fromkeys((word, word.replace("_", " ")))
    meaning, see = next(filter(None, map(meaning_of, spellings)), ("", ""))
    return list(dict.fromkeys(named[name] for name in (*_POINTED.findall(meaning), see) if name in named))


def option_place(option: str, written: str, word: str = "") -> Place:
    """The place of a word in an option's value, or of the whole value."""
    ahead = len(option) + 2 + max(written.find(word), 0)
    return Place(COMMAND_LINE, 0, ahead, "", f"{option} {written}", max(1, len(word or written)))


MOST_ON_A_FRONT = 4096

Order = tuple[object, ...]


class FoundPlan(Protocol):
    """A plan of a search with its results, as a record."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def costs(self) -> Mapping[str, float]:
        """The results of the plan."""

    @property
    def variant(self) -> int:
        """The number of the plan's scenario variant."""

    @property
    def broken(self) -> tuple[str, ...]:
        """The codes of the limits that the plan breaks."""

    @property
    def key(self) -> Order:
        """The sort key of a plan, which orders equal scores identically on every machine."""


Plan = TypeVar("Plan", bound=FoundPlan)
MadePlan = TypeVar("MadePlan", bound=FoundPlan, covariant=True)


class EvaluatedPlans(Protocol[MadePlan]):
    """Plans that were evaluated together."""

    def column(self, name: str) -> NDArray[np.float64]:
        """A result of every plan."""

    def ties(self, places: NDArray[np.intp]) -> Sequence[NDArray[np.float64]]:
        """Sort keys of some plans with equal results; the last key decides first."""

    def plan(self, place: int, score: float) -> MadePlan:
        """The plan at a place, with its score."""


@dataclass
class Top(Generic[Plan]):
    """The best plans so far."""

    size: int
    objective: str = ""
    sign: float = 1.0
    rows: list[Plan] = field(default_factory=list)
    key: Callable[[Plan], Order] = field(default=attrgetter("key"), repr=False, compare=False)

    def add(self, found: EvaluatedPlans[Plan], keep: NDArray[np.bool_]) -> None:
        """Adds the plans that a mask keeps."""
        places = np.flatnonzero(keep)
        if not len(places):
            return
        scores = self.sign * found.column(self.objective)[places]
        if len(self.rows) == self.size:
            better = scores <= self.sign * self.rows[-1].costs[self.objective]
            places, scores = places[better], scores[better]
        if len(places) > self.size:
            bound = np.partition(scores, self.size - 1)[self.size - 1]
            places, scores = places[scores <= bound], scores[scores <= bound]
        self.merge([found.plan(int(place), float(score)) for place, score in zip(places, scores, strict=True)])

    def merge(self, rows: list[Plan]) -> None:
        """Adds plans that were ranked elsewhere; equally good plans keep their order."""
        self.rows = sorted([*self.rows, *rows], key=self.key)[: self.size]


@record
class Axes:
    """Two results to trade off, and the objective that breaks ties; a sign is −1 if higher is better."""

    x: str
    y: str
    objective: str
    signs: tuple[float, float, float]

    def at(self, row: FoundPlan) -> tuple[float, float]:
        """The position of a plan; lower is better on both axes."""
        return self.signs[0] * row.costs[self.x], self.signs[1] * row.costs[self.y]


def axes(text: str, objective: str, columns: Mapping[str, ResultColumn]) -> Axes:
    """The two results named by `--pareto x,y`."""
    x, y = two_results(text, columns)
    return Axes(x, y, objective or x, (columns[x].sign, columns[y].sign, columns[objective or x].sign))


@dataclass
class Front(Generic[Plan]):
    """A running Pareto front: plans that no other plan beats in both results, best in x first.

    It holds at most MOST_ON_A_FRONT plans; a longer front is thinned evenly and keeps its ends.
    """

    axes: Axes
    rows: list[Plan] = field(default_factory=list)
    thinned: bool = False

    def add(self, found: EvaluatedPlans[Plan], keep: NDArray[np.bool_]) -> None:
        """Add the plans that a mask keeps, if both results are known."""
        named = zip(self.axes.signs, (self.axes.x, self.axes.y, self.axes.objective), strict=True)
        x, y, score = (sign * found.column(name) for sign, name in named)
        places = np.flatnonzero(keep & np.isfinite(x) & np.isfinite(y))
        places = places[np.lexsort((*found.ties(places), score[places], y[places], x[places]))]
        least = np.minimum.accumulate(y[places])
        ahead = np.concatenate(([True], y[places][1:] < least[:-1])) if len(places) else np.zeros(0, dtype=bool)
        self.merge([found.plan(int(place), float(score[place])) for place in places[ahead]])

    def merge(self, rows: list[Plan]) -> None:
        """Add the rows of another front."""
        kept: list[Plan] = []
        for row in sorted([*self.rows, *rows], key=lambda row: (self.axes.at(row), row.key)):
            if not kept or self.axes.at(row)[1] < self.axes.at(kept[-1])[1]:
                kept.append(row)
        if len(kept) > MOST_ON_A_FRONT:
            self.thinned = True
            kept = [kept[int(place)] for place in np.linspace(0, len(kept) - 1, MOST_ON_A_FRONT)]
        self.rows = kept


# A result and the bound that it should reach: what `solve --for` asks.

_SUREST = 1 - 1e-9  # a chance; one of 100 % lies at no end of a band
_TARGET = re.compile(r"\s*([^\s<>≤≥=](?:[^<>≤≥=]*[^\s<>≤≥=])?)\s*(<=?|>=?|≤|≥)\s*(.+?)\s*\Z")


class TrialResults(Protocol):
    """The results at one value of the varied key."""

    def result(self, column: str) -> float:
        """A result of a plan that meets every limit; NaN for other plans."""


@record
class Target:
    """A result and the bound that it should reach.

    share: the required chance to reach it; without one, and for results without a band, the expected value decides.
    chance: the result that should be that likely too, unless limits demand it of plans
    """

    column: str
    at_least: bool
    bound: float
    has_band: bool = False
    share: float | None = None
    chance: str = ""

    def reached(self, trial: TrialResults) -> bool:
        """Whether a plan that meets every limit reaches it."""
        return self.excess(trial) <= 0

    def excess(self, trial: TrialResults) -> float:
        """The relative distance of a plan from the target; at most 0 if reached, NaN if a limit is broken."""
        over = self.value(trial) - self.bound
        return -over if self.at_least else over

    def value(self, trial: TrialResults) -> float:
        """The result; with a required chance, the value that it beats with that chance: at 90 %, an end of its band.

        At another chance by the spread of that end.
        """
        if self.chance and self.share is not None and not trial.result(self.chance) >= self.share:
            return math.nan
        middle = trial.result(self.column)
        if not self.has_band or self.share is None or not 0 < middle < math.inf:
            return middle
        end = trial.result(f"{self.column}_{'low' if self.at_least else 'high'}")
        if not 0 < end < math.inf:
            return middle if math.isnan(end) else end
        from statistics import NormalDist

        beyond = NormalDist().inv_cdf(min(max(self.share, 0.5), _SUREST))
        return float(percentile_at(middle, end_spread(middle, end), -beyond if self.at_least else beyond))


_FITS = "memory_share<=100 %"


def target_of(text: str, columns: Mapping[str, ResultColumn], example: str, share: float | None = None) -> Target:
    """The target in a text such as `mfu>=0.45`.

    columns: the results that it may name. share: the required chance to reach it

    Raises: CostModelError C011 for a text of another form, an unknown result or unit, and a share over 1
    """
    match = _TARGET.match(text)
    place = Place("command line", 0, 7, "", f"--for {text}", max(1, len(text)))
    hint = f"--for '{_FITS}' keeps plans that fit" if text.strip() == "fits" else f"for example --for '{example}'"
    if match is None:
        raise fail("C011", f"'{text}' is not RESULT>=VALUE or RESULT<=VALUE", place, hint)
    column = named_result(match[1], columns, "--for", text)
    try:
        bound = parse(match[3], columns[column].written)
    except UnitError as error:
        raise fail("C011", str(error), place, hint) from None
    if is_share(column) and bound > 1:
        raise fail("C011", f"{column} is a share, and {match[3].strip()} is more than all", place, "write 45 % or 0.45")
    return Target(column, match[2][0] in ">≥", bound, bool(columns[column].band), share)


NO_VARIANT = -1  # the part of plans that no scenario of a search has, such as those of a precision that nothing runs


@dataclass
class PlanCounts(Generic[Plan]):
    """The counts of the plans of one scenario variant.

    evaluated: valid plans. fit: of these, those within memory. kept: of these, those that meet the limits. safe: of
    these, those with the preferred chance. best: None if no plan works. surest: the best plan without the preferred
    chance
    """

    number: int = 0
    candidates: int = 0
    evaluated: int = 0
    fit: int = 0
    kept: int = 0
    safe: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, Plan] = field(default_factory=dict)
    best: Plan | None = None
    surest: Plan | None = None
    fault: Fault | None = None  # why there is no plan to evaluate

    def add(self, other: PlanCounts[Plan], top: Top[Plan]) -> None:
        """Adds the counts of another part of the same variant; `top` orders the best plans."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.refused.update(other.refused)
        self.examples = other.examples | self.examples
        self.best, self.surest = _better(self.best, other.best, top), _better(self.surest, other.surest, top)

    def against(self) -> Iterator[tuple[str, int]]:
        """The reasons with the number of plans that each refuses, most frequent first."""
        return ((code, count) for code, count in self.refused.most_common() if count)

    def share(self, code: str) -> float:
        """The share of all plans that a reason refuses."""
        return self.refused[code] / self.candidates


COUNTS = ("candidates", "evaluated", "fit", "kept", "safe")


def _better(one: Plan | None, other: Plan | None, top: Top[Plan]) -> Plan | None:
    """The better of two plans; the first if they are equal."""
    return min(filter(None, (one, other)), key=top.key, default=None)


@dataclass
class Tally(Generic[Plan]):
    """The result of a part of a search.

    top and front: of plans that may be shown. expected: the best plan whatever its chance. risky_front: the front of
    all working plans. work: the part's size in units of the search
    """

    top: Top[Plan]
    expected: Top[Plan]
    front: Front[Plan] | None = None
    risky_front: Front[Plan] | None = None
    parts: dict[int, PlanCounts[Plan]] = field(default_factory=dict)
    better_than_yours: int = 0
    work: int = 0

    def part(self, number: int = 0) -> PlanCounts[Plan]:
        """The counts of one scenario variant."""
        return self.parts.setdefault(number, PlanCounts(number))

    @property
    def whole(self) -> PlanCounts[Plan]:
        """The counts of all scenarios together."""
        found: PlanCounts[Plan] = PlanCounts()
        for part in self.parts.values():
            for name in COUNTS:
                setattr(found, name, getattr(found, name) + getattr(part, name))
            found.refused.update(part.refused)
        return found

    @property
    def candidates(self) -> int:
        """The number of plans that were considered."""
        return sum(part.candidates for part in self.parts.values())

    @property
    def evaluated(self) -> int:
        """The number of valid plans."""
        return sum(part.evaluated for part in self.parts.values())

    @property
    def fit(self) -> int:
        """The number of valid plans that fit into memory."""
        return sum(part.fit for part in self.parts.values())

    @property
    def kept(self) -> int:
        """The number of fitting plans that meet the limits."""
        return sum(part.kept for part in self.parts.values())

    @property
    def safe(self) -> int:
        """The number of these plans that have the preferred chance."""
        return sum(part.safe for part in self.parts.values())

    @property
    def refused(self) -> Counter[str]:
        """The number of plans that each reason refuses."""
        return self.whole.refused

    def merge(self, other: Tally[Plan]) -> None:
        """Add the result of another part."""
        for name, best in self.lists():
            same = getattr(other, name)
            best.merge(same.rows)
            if isinstance(best, Front):
                best.thinned |= same.thinned
        for number, part in other.parts.items():
            if number in self.parts:
                self.parts[number].add(part, self.top)
            else:
                self.parts[number] = part
        self.better_than_yours += other.better_than_yours
        self.work += other.work

    def of_variant(self, variant: int) -> Tally[Plan]:
        """The result assigned to a variant; a plan in several lists stays one object."""
        if not variant:
            return self
        part = self.parts[variant] = self.parts.pop(0)
        rows = [row for _, best in self.lists() for row in best.rows]
        rows += [*part.examples.values(), *(row for row in (part.best, part.surest) if row is not None)]
        moved = {id(row): replace(row, variant=variant) for row in rows}
        for _, best in self.lists():
            best.rows = [moved[id(row)] for row in best.rows]
        part.number = variant
        part.best, part.surest = moved.get(id(part.best)), moved.get(id(part.surest))
        part.examples = {code: moved[id(row)] for code, row in part.examples.items()}
        return self

    def lists(self) -> Iterator[tuple[str, Top[Plan] | Front[Plan]]]:
        """The lists of plans, by name."""
        for each in fields(self):
            best = getattr(self, each.name)
            if isinstance(best, Top | Front):
                yield each.name, best

    def settle(self, reason: str) -> None:
        """If plans have the preferred chance, counts the others as refused; else takes the front of all plans.

        reason: the code to count for plans without that chance
        """
        if self.safe:
            for part in self.parts.values():
                part.refused.update({reason: part.kept - part.safe} if part.kept > part.safe else {})
        elif self.front and self.risky_front:
            self.front.rows, self.front.thinned = self.risky_front.rows, self.risky_front.thinned


# A row of answers that come in one after the other: who watches, and who may end it before the last.

Item = TypeVar("Item")


@record
class Watcher:
    """A progress callback and a check for cancellation."""

    watch: Callable[[int, int], None] = lambda done, total: None
    stop: Callable[[], bool] = lambda: False

    def go(self, done: int, total: int) -> None:
        """Reports one more answer; raises Stopped if the user asked to stop."""
        if self.stop():
            raise SearchStopped
        self.watch(done, total)

    def taken(self, items: Iterable[Item], total: int) -> Iterator[Item]:
        """The items, until the user asks to stop."""
        for done, item in enumerate(items):
            if self.stop():
                return
            self.watch(done, total)
            yield item


UNWATCHED = Watcher()
