"""A scenario of reinforcement learning with other values: along leaves, and on more and more accelerators."""

from __future__ import annotations

import math
from collections.abc import Sequence

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.rl_scenario import RlCase, reinforced
from costmodel.documents.schemas.results import RL_COLUMNS, without_money
from costmodel.equations.run.economics import share
from costmodel.estimate.rl.predict_rl import RlAnswer, predict
from costmodel.explore.search.combinations import combinations, count_combinations, fail_without_answers
from costmodel.explore.search.named_result import shown_results
from costmodel.explore.search.ranges import Axis, doubled, values_of
from costmodel.ground.errors import CostModelError, Fault, Place, fail
from costmodel.ground.parsing import UnitError, parse
from costmodel.ground.record import record
from costmodel.ground.units import counted

MOST_POINTS = 20_000
SHOWN = ("iteration_time", "generation", "tail", "update_time", "memory_peak")


@record
class RlTrial:
    """A scenario with some settings: its results, or what is wrong with it."""

    settings: tuple[str, ...]
    answer: RlAnswer | None = None
    fault: Fault | None = None

    @property
    def works(self) -> bool:
        """Whether it is valid, fits and keeps its limits."""
        return self.answer is not None and self.answer.works

    @property
    def costs(self) -> dict[str, float]:
        """Its results, to compare; nothing of a plan that is not valid, and no rent of one that fails."""
        if self.answer is None or self.answer.refused:
            return {}
        return self.answer.costs if self.works else without_money(self.answer.costs)

    @property
    def codes(self) -> tuple[str, ...]:
        """What speaks against it."""
        if self.fault is not None:
            return (self.fault.code,)
        return () if self.answer is None else self.answer.refused or self.answer.broken


@record
class SweptRl:
    """All combinations in the order of the axes, the last changing fastest."""

    case: RlCase
    axes: tuple[Axis, ...]
    shown: tuple[str, ...]
    trials: tuple[RlTrial, ...]


def tried(case: RlCase, settings: Sequence[str]) -> RlTrial:
    """The answer with some settings, or the first thing wrong with them."""
    try:
        return RlTrial(tuple(settings), predict(reinforced(vary_any(case, settings))))
    except CostModelError as error:
        return RlTrial(tuple(settings), fault=error.faults[0])


def sweep(case: RlCase, axes: Sequence[Axis], show: str) -> SweptRl:
    """The scenario at every combination; a fault only when none of them has an answer."""
    count_combinations(axes, MOST_POINTS)
    names = shown_results(RL_COLUMNS, show, SHOWN)
    trials = tuple(tried(case, settings) for settings in combinations(axes))
    fail_without_answers(axes, [trial.fault for trial in trials])
    return SweptRl(case, tuple(axes), names, trials)


@record
class RlScaleRow:
    """One size, and answers a second for each accelerator over those of the smallest."""

    ranks: float
    trial: RlTrial
    efficiency: float = math.nan


def by_ranks(case: RlCase, text: str, *, weak: bool) -> list[RlScaleRow]:
    """The same iteration, or one that grows, on every number of accelerators; engines keep their share of them."""
    rows: list[RlScaleRow] = []
    first: float | None = None
    for ranks in _sizes(text):
        trial = tried(case, _settings(case, ranks, weak=weak))
        if trial.answer is None or trial.answer.refused:
            rows.append(RlScaleRow(ranks, trial))
            continue
        each = trial.answer.costs["answers_per_s"] / ranks
        first = each if first is None else first
        rows.append(RlScaleRow(ranks, trial, float(share(each, first))))
    faults = [row.trial.fault for row in rows if row.trial.fault is not None]
    if len(faults) == len(rows):
        raise CostModelError(faults[0])
    return rows


def _settings(case: RlCase, ranks: float, *, weak: bool) -> list[str]:
    each, plan = float(case.node.accelerators), case.scenario.plan
    before = float(case.cluster.nodes) * each
    if ranks % each and ranks > each:
        sentence = f"{counted(ranks)} accelerators are no whole number of nodes of {counted(each)}"
        raise fail("C010", sentence, None, f"try --ranks {ranks // each * each:.0f}")
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


def _sizes(text: str) -> list[float]:
    """64..4096 doubles; lists and other steps as --over takes them."""
    place = Place("command line", 0, 9, "", f"--ranks {text}", max(1, len(text)))
    try:
        values = [parse(value, "GPU") for value in values_of(doubled(text), "--ranks", text)]
    except UnitError:
        values = [0.5]
    if not all(value >= 1 and value.is_integer() for value in values):
        raise fail("C010", f"'{text}' is not numbers of accelerators", place, "for example --ranks 64..512")
    return sorted(set(values))
