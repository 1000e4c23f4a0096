"""An iteration of reinforcement learning on more and more accelerators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.rl_scenario import reinforced
from costmodel.documents.schemas.rl.rl_results import PHASES
from costmodel.explore.scaling import RANKS, SizedTrial, part_of_node
from costmodel.explore.search.progress import Watcher
from costmodel.explore.trial import Trial, trial_of
from costmodel.explore.workload import Workload
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.reader.rl_scenario import RlCase


@record
class RlSizes:
    """The same iteration, or one whose prompts grow with the accelerators; engines keep their share of them."""

    asked: Workload
    sizes: tuple[float, ...]
    weak: bool
    best: bool
    name: ClassVar[str] = RANKS
    shown: ClassVar[tuple[str, ...]] = ("iteration_time", "answers_per_s", "generation", "tail", "update_time")
    figure: ClassVar[str] = "iteration_time"
    work: ClassVar[str] = "answers_per_s"
    time: ClassVar[str] = "iteration_time"

    @property
    def count(self) -> int:
        """How many sizes there are."""
        return len(self.sizes)

    @property
    def terms(self) -> Mapping[str, str]:
        """The phases of an iteration."""
        return {phase: phase for phase in PHASES}

    @property
    def varied(self) -> list[str]:
        """What changes from size to size."""
        each = self.asked.case.node.accelerators
        parts = ["cluster.node.accelerators"] if any(ranks < each for ranks in self.sizes) else []
        return ["cluster.nodes", *parts, *(["workload.prompts"] if self.weak else [])]

    @property
    def words(self) -> str:
        """What grows."""
        kind = "prompts grow with the accelerators" if self.weak else "the same iteration on all sizes"
        return f"{kind}{', the best plan at each size' if self.best else ''}"

    def each(self, costs: Mapping[str, float], size: float) -> float:
        """Answers."""
        return costs["answers_per_s"] / size

    def rows(self, pace: Watcher) -> Iterator[SizedTrial]:
        """One size after the other."""
        for ranks in pace.taken(self.sizes, len(self.sizes)):
            yield self._row(ranks)

    def more(self, rows: Sequence[SizedTrial]) -> object:
        """Nothing."""
        return None

    def _row(self, ranks: float) -> SizedTrial:
        case = reinforced(self.asked.case)
        settings = _settings(case, ranks, weak=self.weak)
        fault = part_of_node(float(case.node.accelerators), ranks)
        if fault is not None:
            return SizedTrial(ranks, Trial(tuple(settings), fault), f"{ranks:,.0f}")
        try:
            varied = self.asked.of(vary_any(case, settings))
            found = varied.answer(best=self.best)
        except CostModelError as error:
            return SizedTrial(ranks, Trial(tuple(settings), error.faults[0]), f"{ranks:,.0f}")
        return SizedTrial(ranks, trial_of(varied, settings, found), f"{ranks:,.0f}", found.assumed)


def _settings(case: RlCase, ranks: float, *, weak: bool) -> list[str]:
    each, plan = float(case.node.accelerators), case.scenario.plan
    before = float(case.cluster.nodes) * each
    settings = [f"cluster.nodes={max(1.0, ranks / each):.0f}"]
    if ranks < each:
        settings.append(f"cluster.node.accelerators={ranks:.0f}")
    if plan is not None and plan.rollout.ranks is not None:
        grain = each if ranks > each else 1.0
        own = max(grain, round(float(plan.rollout.ranks) / before * ranks / grain) * grain)
        settings.append(f"plan.rollout.ranks={min(own, ranks - grain):.0f}")
    if weak:
        grown = case.scenario.workload.prompts / before * ranks
        settings.append(f"workload.prompts={max(1.0, round(grown)):.0f}")
    return settings
