"""What comes of the plans of a search, or of a part of it: counts at each value, the best plans, and the front."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Generic, TypeVar

from costmodel.explore.search.engine import SearchStopped
from costmodel.explore.search.rank import Front, Plan, Top
from costmodel.ground.errors import Fault
from costmodel.ground.record import record

NO_VARIANT = -1  # the part of plans that no scenario of a search has, such as those of a precision that nothing runs


@dataclass
class PlanCounts(Generic[Plan]):
    """The counts of the plans of one scenario: as it is written, or with one value of each key that varies.

    evaluated: those that make sense. fit: of these, those within memory. kept: those that keep the limits besides.
    safe: of these, those with the chance that the search prefers. best: None where none works, or none was found yet;
    surest: the best of those that may not work, where the search prefers others
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
        """Count another part of the same plans; top: what orders them."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.refused.update(other.refused)
        self.examples = other.examples | self.examples
        self.best, self.surest = _better(self.best, other.best, top), _better(self.surest, other.surest, top)

    def against(self) -> Iterator[tuple[str, int]]:
        """Reasons with how many plans each refuses, the most frequent first."""
        return ((code, count) for code, count in self.refused.most_common() if count)

    def share(self, code: str) -> float:
        """The share of all plans that a reason refuses."""
        return self.refused[code] / self.candidates


COUNTS = ("candidates", "evaluated", "fit", "kept", "safe")


def _better(one: Plan | None, other: Plan | None, top: Top[Plan]) -> Plan | None:
    """The better of two plans; the first of equal ones."""
    return min(filter(None, (one, other)), key=top.key, default=None)


@dataclass
class Tally(Generic[Plan]):
    """The result of a part of a search.

    top and front: of the plans that may be shown. expected: the best plan whatever its chance to work. risky_front: the
    front of all plans that work. work: how much of the search it is, in the unit of its parts
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
        """The number of plans."""
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
        """How many plans each reason refuses."""
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
        """Assigns the result to a variant of the scenario; a plan in several lists stays one object."""
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

        reason: against a plan that may not work
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
    """Progress callback and cancellation check."""

    watch: Callable[[int, int], None] = lambda done, total: None
    stop: Callable[[], bool] = lambda: False

    def go(self, done: int, total: int) -> None:
        """Report one more answer; raise Stopped if the user asked to stop."""
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
