"""A training job on more and more accelerators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.resolved_scenario import training
from costmodel.equations.data_parallel.batch_size import steps_for_batch
from costmodel.equations.run.economics import share
from costmodel.estimate.evaluate.answer_facts import facts_of
from costmodel.estimate.evaluate.evaluate_plans import TERM_COLUMNS
from costmodel.estimate.shared.critical_batch import critical_batch
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.constraints.plan_constraints import micro_batches
from costmodel.explore.compare.select_plan import answered
from costmodel.explore.scaling import RANKS, SizedTrial, part_of_node
from costmodel.explore.search.progress import Watcher
from costmodel.explore.trial import Trial, trial_of
from costmodel.explore.workload import Workload
from costmodel.ground.errors import CostModelError, Fault
from costmodel.ground.record import record
from costmodel.ground.units import counted

_EACH = "tokens_per_s_per_gpu"


@record
class TrainingSizes:
    """The same batch, or one that grows with the accelerators; a plan's own dp follows from their number."""

    asked: Workload
    sizes: tuple[float, ...]
    weak: bool
    best: bool
    name: ClassVar[str] = RANKS
    shown: ClassVar[tuple[str, ...]] = ("step_time", "mfu", "memory_peak")
    figure: ClassVar[str] = _EACH
    work: ClassVar[str] = _EACH
    time: ClassVar[str] = "step_time"

    @property
    def count(self) -> int:
        """How many sizes there are."""
        return len(self.sizes)

    @property
    def terms(self) -> Mapping[str, str]:
        """The parts of a step."""
        return {column: column for column in TERM_COLUMNS.values()}

    @property
    def varied(self) -> list[str]:
        """What changes from size to size."""
        each = self.asked.case.node.accelerators
        parts = ["cluster.node.accelerators"] if any(ranks < each for ranks in self.sizes) else []
        return ["cluster.nodes", *parts, *(["workload.global_batch"] if self.weak else [])]

    @property
    def words(self) -> str:
        """What grows."""
        kind = "weak scaling, the batch grows with the ranks" if self.weak else "strong scaling, the same batch"
        return f"{kind}{', the best plan at each size' if self.best else ''}"

    def each(self, costs: Mapping[str, float], size: float) -> float:
        """Tokens."""
        return costs[_EACH]

    def rows(self, pace: Watcher) -> Iterator[SizedTrial]:
        """One size after the other."""
        for ranks in pace.taken(self.sizes, len(self.sizes)):
            yield self._row(ranks)

    def more(self, rows: Sequence[SizedTrial]) -> object:
        """Nothing."""
        return None

    def _row(self, ranks: float) -> SizedTrial:
        settings = self._settings(ranks)
        fault = part_of_node(self.asked.case.node.accelerators, ranks) or self._uneven(ranks)
        if fault is not None:
            return SizedTrial(ranks, Trial(tuple(settings), fault), f"{ranks:,.0f}")
        try:
            varied = self.asked.of(vary_any(self.asked.case, settings))
            case = training(varied.case)
            found = answered(case, best=self.best)
        except CostModelError as error:
            return SizedTrial(ranks, Trial(tuple(settings), error.faults[0]), f"{ranks:,.0f}")
        point = trial_of(varied, settings, found)
        if found.refused:
            return SizedTrial(ranks, point, f"{ranks:,.0f}")
        block, facts, critical = found.evaluation.block, facts_of(case), critical_batch(case.scenario.workload)
        waves = number(share(micro_batches(found.inputs, block), block.pp))
        batch = facts.global_batch * facts.sequence
        steps = math.nan if critical is None else float(steps_for_batch(1.0, float(critical), batch))
        return SizedTrial(ranks, point, f"{ranks:,.0f}", found.assumed, waves, steps)

    def _uneven(self, ranks: float) -> Fault | None:
        """What is wrong with a number of accelerators that does not keep the proportion of the groups."""
        case = training(self.asked.case)
        cluster, all_of_it = case.scenario.cluster, case.scenario.cluster.nodes * case.node.accelerators
        if all((group.nodes * ranks / all_of_it).is_integer() for group in cluster.groups or []):
            return None
        each = all_of_it / math.gcd(*(int(group.nodes) for group in cluster.groups or []))
        sentence = f"{counted(ranks)} accelerators do not divide among the groups as they are"
        return Fault("C010", sentence, None, f"groups keep their proportion in multiples of {counted(each)}")

    def _settings(self, ranks: float) -> list[str]:
        """What makes the cluster that large: whole nodes, or a part of one."""
        case = training(self.asked.case)
        node, scenario = case.node, case.scenario
        whole, groups = ranks >= node.accelerators, scenario.cluster.groups or []
        own = scenario.cluster.nodes * node.accelerators
        if groups:
            part = ranks / own
            settings = [f"cluster.groups.{at}.nodes={group.nodes * part:.12g}" for at, group in enumerate(groups)]
        else:
            settings = [f"cluster.nodes={ranks / node.accelerators if whole else 1:.12g}"]
        if not whole:
            settings.append(f"cluster.node.accelerators={ranks:.12g}")
        if not self.best and scenario.plan is not None and scenario.plan.dp is not None:
            settings.append("plan.dp=null")
        if self.weak:
            settings.append(f"workload.global_batch={scenario.workload.global_batch * ranks / own:.12g}")
        return settings
