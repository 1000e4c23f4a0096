"""A job on more and more accelerators; what grows with them is stated by its workload."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.explore.search.range_samples import doubled, values_of
from costmodel.explore.search.tally import Watcher
from costmodel.explore.trial import trial_of
from costmodel.explore.workload import RANKS, PlanAnswer, SizedTrial, Trial, Workload
from costmodel.ground.errors import CostModelError, Fault, Place, fail
from costmodel.ground.parsing import UnitError, parse
from costmodel.ground.record import record
from costmodel.ground.units import counted


@record
class RankGrowth:
    """How one kind of workload scales with the number of ranks: its words, results and settings.

    paces: micro-batches of a replica for each pipeline stage, and steps over the least that a loss takes, of
    those jobs that have them
    """

    strong: str  # what stays, in words
    weak: str  # what grows
    grown: str  # its key
    shown: tuple[str, ...]
    figure: str
    work: str
    time: str
    terms: tuple[str, ...]
    each: Callable[[Mapping[str, float], float], float]
    settings: Callable[[float], list[str]]  # that make the job that large, beside the accelerators of a part of a node
    paces: Callable[[LoadedScenario, PlanAnswer], tuple[float, float]] = lambda case, found: (float("nan"),) * 2
    uneven: Callable[[float], Fault | None] = lambda ranks: None  # what is wrong with a number of accelerators


@record
class RankSizes:
    """A job at several numbers of accelerators: of a fixed size (strong scaling), or growing (weak scaling)."""

    asked: Workload
    sizes: tuple[float, ...]
    growth: RankGrowth
    is_weak: bool
    best: bool
    name: ClassVar[str] = RANKS

    @property
    def count(self) -> int:
        """The number of sizes."""
        return len(self.sizes)

    @property
    def shown(self) -> tuple[str, ...]:
        """The results in a table of sizes."""
        return self.growth.shown

    @property
    def figure(self) -> str:
        """The result that is drawn over the sizes."""
        return self.growth.figure

    @property
    def work(self) -> str:
        """The result that states the throughput."""
        return self.growth.work

    @property
    def time(self) -> str:
        """The result whose terms are shown as shares."""
        return self.growth.time

    @property
    def terms(self) -> Sequence[str]:
        """The parts of that time."""
        return self.growth.terms

    @property
    def varied(self) -> list[str]:
        """The keys that change from size to size."""
        each = self.asked.case.node.accelerators
        parts = ["cluster.node.accelerators"] if any(ranks < each for ranks in self.sizes) else []
        return ["cluster.nodes", *parts, *([self.growth.grown] if self.is_weak else [])]

    @property
    def words(self) -> str:
        """The kind of scaling, in words."""
        kind = self.growth.weak if self.is_weak else self.growth.strong
        return f"{kind}{', the best plan at each size' if self.best else ''}"

    def each(self, costs: Mapping[str, float], size: float) -> float:
        """The throughput per accelerator."""
        return self.growth.each(costs, size)

    def rows(self, pace: Watcher) -> Iterator[SizedTrial]:
        """Evaluates one size after the other."""
        for ranks in pace.taken(self.sizes, len(self.sizes)):
            yield self._row(ranks)

    def more(self, rows: Sequence[SizedTrial]) -> object:
        """No further result over all sizes."""
        return None

    def _row(self, ranks: float) -> SizedTrial:
        own, text = float(self.asked.case.node.accelerators), f"{ranks:,.0f}"
        settings = [*self.growth.settings(ranks)]
        fault = part_of_node(own, ranks) or self.growth.uneven(ranks)
        if fault is not None:
            return SizedTrial(ranks, Trial(tuple(settings), fault), text)
        try:
            varied = self.asked.of(vary_any(self.asked.case, settings))
            found = varied.answer(best=self.best)
        except CostModelError as error:
            return SizedTrial(ranks, Trial(tuple(settings), error.faults[0]), text)
        point = trial_of(varied, settings, found)
        if found.refused:
            return SizedTrial(ranks, point, text)
        return SizedTrial(ranks, point, text, found.assumed, *self.growth.paces(varied.case, found))


def part_of_node(each: float, ranks: float) -> Fault | None:
    """A fault for a number of accelerators that ends within a node; None for any other number."""
    below = ranks // each * each
    if ranks < each or ranks == below:
        return None
    sentence = f"{counted(ranks)} accelerators are no whole number of nodes of {counted(each)}"
    return Fault("C010", sentence, None, f"try --ranks {below:.0f} or {below + each:.0f}")


def ranks_of(text: str) -> list[float]:
    """Numbers of accelerators: 64..4096 doubles; lists and other steps as --over has them."""
    if not text:
        raise fail("C010", "--ranks is missing", None, "--ranks 64..4096")
    place = Place("command line", 0, 9, "", f"--ranks {text}", max(1, len(text)))
    try:
        values = [parse(value, "GPU") for value in values_of(doubled(text), "--ranks", text)]
    except UnitError as error:
        sentence = str(error) if error.exact else f"'{text}' is not numbers of accelerators"
        raise fail("C010", sentence, place, "for example --ranks 64..4096") from None
    if not all(value >= 1 and value.is_integer() for value in values):
        raise fail("C010", f"'{text}' is not numbers of accelerators", place, "for example --ranks 64..4096")
    return sorted(set(values))
