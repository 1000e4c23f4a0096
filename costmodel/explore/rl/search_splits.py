"""The best split of accelerators between training and generation, with the best plan of each part.

Given a split, training and generation take their times apart from each other: each part is ranked alone, and the first
pair that fits together counts.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from costmodel.documents.keys.overrides import path_of
from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.rl_scenario import RlCase, reinforced
from costmodel.documents.schemas.results import COLUMNS
from costmodel.documents.schemas.rl.rl_plan import RlPlan, RolloutPlan
from costmodel.estimate.rl.predict_rl import RlAnswer, answer
from costmodel.estimate.rl.trainer_steps import TrainerSteps
from costmodel.estimate.shared.results import number
from costmodel.explore.safety import preferred_chance
from costmodel.explore.search.combinations import OF_A_VALUE, combinations, count_combinations, fail_without_answers
from costmodel.explore.search.named_result import two_results
from costmodel.explore.search.ranges import Axis, at_option
from costmodel.ground.errors import CostModelError, Fault, Place, fail
from costmodel.ground.record import record
from costmodel.ground.units import Figure

MOST_SEARCHES = 200
PARTS = 8  # of the accelerators; engines get one of them to all but one
_PAIRS = 12  # of plans that are tried together


@record
class SplitsAtValue:
    """What became of the plans at one value of each key that varies."""

    values: Mapping[str, str]
    evaluated: int = 0
    best: RlAnswer | None = None
    fault: Fault | None = None


@dataclass
class FoundSplits:
    """What a search found: the best plan of each split, those that work first.

    over: the keys that vary over scenarios; at: what became of each value. axes, front: two results that are compared,
    and of all plans tried that work those that no other beats in both
    """

    case: RlCase
    over: Sequence[Axis] = ()
    axes: tuple[str, str] | None = None
    at: list[SplitsAtValue] = field(default_factory=list)
    tried: list[RlAnswer] = field(default_factory=list, repr=False)
    evaluated: int = 0
    elapsed: float = 0.0
    best: list[RlAnswer] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, RlAnswer] = field(default_factory=dict)
    yours: RlAnswer | None = None
    your_rank: int = 0
    safe: float | None = None  # chance to fit that the search prefers
    expected: RlAnswer | None = None  # the best plan whatever its chance to fit
    steps: TrainerSteps = field(default_factory=TrainerSteps, repr=False)

    @property
    def works(self) -> bool:
        """Whether any plan works."""
        return any(each.works for each in self.best)

    @property
    def is_safe(self) -> bool:
        """Whether the best plan fits with the chance that the search prefers."""
        return self.safe is None or any(each.works and not self.is_risky(each) for each in self.best)

    @property
    def front(self) -> list[RlAnswer]:
        """The plans that none beats in both results, best in the first one first; of those with the preferred chance,
        where any has it.
        """
        assert self.axes is not None
        signs = [-1.0 if COLUMNS["rl"][name].better == "higher" else 1.0 for name in self.axes]
        placed = [(tuple(sign * each.costs[name] for sign, name in zip(signs, self.axes, strict=True)), each)
                  for each in self.compared]  # fmt: skip
        kept, least = list[RlAnswer](), math.inf
        for (x, y), each in sorted(placed, key=lambda item: item[0]):
            if math.isfinite(x) and y < least:
                kept.append(each)
                least = y
        return kept

    @property
    def compared(self) -> list[RlAnswer]:
        """The plans that a front is of."""
        return [each for each in self.tried if not self.is_risky(each)] or self.tried

    def values_of(self, each: RlAnswer) -> dict[str, str]:
        """What a plan's scenario has of the keys that vary."""
        set_last = dict(item.split("=", 1) for item in each.inputs.case.assignments)
        return {axis.path: set_last[axis.path] for axis in self.over}

    def is_risky(self, each: RlAnswer) -> bool:
        """Whether a plan does not fit with the chance that the search prefers."""
        return self.safe is not None and each.costs["fit_chance"] < self.safe


def search(case: RlCase, top: int = 10, over: Sequence[Axis] = (), pareto: str = "") -> FoundSplits:
    """The best plans, one for each split, of the scenario or of it at every combination of values of some keys.

    Raises:
        CostModelError: a value is wrong, or no combination has a scenario
    """
    count_combinations(over, MOST_SEARCHES)
    axes = two_results(pareto, COLUMNS["rl"]) if pareto else None
    since, found = time.perf_counter(), FoundSplits(case, over, axes, safe=preferred_chance(case))
    if case.scenario.plan is not None:
        found.yours = answer(case, case.scenario.plan, found.steps)
    ranked: list[RlAnswer] = []
    for settings in combinations(over):
        ranked += _at_values(found, settings)
    fail_without_answers(over, [each.fault for each in found.at])
    ranked.sort(key=lambda each: _order(found, each))
    if found.yours is not None and not found.yours.refused:
        found.your_rank = 1 + sum(_order(found, each) < _order(found, found.yours) for each in ranked)
    found.best = ranked[:top]
    first = found.best[0] if found.works else None
    if found.expected is not None and first is not None and _key(case, found.expected) >= _key(case, first):
        found.expected = None
    found.elapsed = time.perf_counter() - since
    return found


def _at_values(found: FoundSplits, settings: tuple[str, ...]) -> list[RlAnswer]:
    """The best plan of each split at one value of each key."""
    values, before = dict(item.split("=", 1) for item in settings), found.evaluated
    try:
        case = reinforced(vary_any(found.case, settings)) if settings else found.case
        base = case.scenario.plan or RlPlan()
        tried = [_best_of_split(found, case, base, split) for split in _splits(case, base)]
    except CostModelError as error:
        if not settings or error.faults[0].code not in OF_A_VALUE:
            raise at_option("--over", [axis.path for axis in found.over], error) from None
        found.at.append(SplitsAtValue(values, fault=error.faults[0]))
        return []
    ranked = sorted((each for each in tried if each is not None), key=lambda each: _order(found, each))
    found.at.append(SplitsAtValue(values, found.evaluated - before, ranked[0] if ranked else None))
    return ranked


def planned(case: RlCase) -> RlCase:
    """The case with the best plan of its search, where it has none."""
    if case.scenario.plan is not None:
        return case
    found = search(case, 1)
    return with_plan_of(case, found.best[0]) if found.best else case


def best_answer(case: RlCase) -> RlAnswer:
    """The answer about the best plan, or the nearest to one that works; a fault where none is valid."""
    found = search(case, 1)
    if not found.best:
        why = "costmodel search with the same flags and --why-not shows why"
        raise fail("C004", "no plan of the search is valid", Place(case.file), why)
    return found.best[0]


def with_plan_of(case: RlCase, answer: RlAnswer) -> RlCase:
    """The case with the plan that an answer is about."""
    return replace(case, scenario=case.scenario.model_copy(update={"plan": answer.inputs.plan}))


def _key(case: RlCase, each: RlAnswer) -> tuple[bool, float]:
    value = each.costs[case.scenario.objective]
    if math.isnan(value):
        wanted = "workload.iterations" + ("" if case.scenario.objective == "run_time" else " and a price")
        raise fail("C004", f"{case.scenario.objective} is not known", case.place("objective"), f"set {wanted}")
    return not each.works, value


def _order(found: FoundSplits, each: RlAnswer) -> tuple[bool, float, float]:
    """What orders plans: whether they work, the chance to fit where it is below the preferred one, the objective."""
    fails, value = _key(found.case, each)
    return fails, -each.costs["fit_chance"] if found.is_risky(each) else -1.0, value


def _held(case: RlCase) -> set[str]:
    return {path_of(assignment) for assignment in case.assignments}


def _splits(case: RlCase, base: RlPlan) -> list[RolloutPlan]:
    """Ways to divide the accelerators: all in turns, or engines on parts of them."""
    kept, space = base.rollout, case.scenario.search
    if not case.scenario.workload.generates:
        return [kept]
    held = _held(case) & {"plan.rollout", "plan.rollout.colocated", "plan.rollout.ranks"}
    if held and (space is None or space.ranks is None):
        return [kept]
    each, nodes = float(case.node.accelerators), float(case.cluster.nodes)
    listed = None if space is None else space.ranks
    grain, every = (each, nodes * each) if nodes > 1 else (1.0, each)
    parts = {max(grain, round(every * part / PARTS / grain) * grain) for part in range(1, PARTS)}
    numbers = sorted(listed or (part for part in parts if part < every))
    apart = [
        kept.model_copy(update={"colocated": False, "ranks": Figure(number), "offload": None})
        for number in (numbers if case.stack.apart else ())
    ]
    together = kept.model_copy(update={"colocated": True, "ranks": None})
    return apart if listed else [together, *apart]


def _best_of_split(found: FoundSplits, case: RlCase, base: RlPlan, split: RolloutPlan) -> RlAnswer | None:
    """The best pair of plans of one split that works and is safe, else the surest or nearest; None if none is valid."""
    trainers, engines = list(_trainers(case, base)), list(_engines(case, split))
    first = base.model_copy(update={"rollout": split})
    by_engine = [_tried(found, case, first.model_copy(update={"rollout": each})) for each in engines]
    fast = sorted((each for each in by_engine if not each.inputs.engine_refused), key=_generation)
    if not fast:
        return None
    rollout = fast[0].inputs.plan.rollout
    by_trainer = [_tried(found, case, each.model_copy(update={"rollout": rollout})) for each in trainers]
    trained = sorted(
        (each for each in by_trainer if not each.refused), key=lambda each: number(each.iteration.training)
    )
    if not trained:
        return None
    nearest: RlAnswer | None = None
    surest: RlAnswer | None = None
    pairs = sorted(itertools.product(enumerate(trained), enumerate(fast)), key=lambda pair: pair[0][0] + pair[1][0])
    for (_, one), (place, other) in pairs[:_PAIRS]:
        plan = one.inputs.plan.model_copy(update={"rollout": other.inputs.plan.rollout})
        tried = one if place == 0 else _tried(found, case, plan)
        if tried.works:
            _expect(found, tried)
            if not found.is_risky(tried):
                return tried
            if surest is None or tried.costs["fit_chance"] > surest.costs["fit_chance"]:
                surest = tried
        nearest = tried if nearest is None and not tried.refused else nearest
    return surest or nearest


def _expect(found: FoundSplits, tried: RlAnswer) -> None:
    """Remember the best plan whatever its chance to fit."""
    if found.safe is not None and (
        found.expected is None or _key(found.case, tried) < _key(found.case, found.expected)
    ):
        found.expected = tried


def _generation(each: RlAnswer) -> float:
    return each.costs["generation"]


def _tried(found: FoundSplits, case: RlCase, plan: RlPlan) -> RlAnswer:
    """One plan, counted with what speaks against it; on more ranks with a micro-batch of what each has left."""
    each = answer(case, plan, found.steps)
    if "R018" in each.refused:
        smaller = plan.model_copy(update={"micro_batch": Figure(each.inputs.answers_of_rank)})
        each = answer(case, smaller, found.steps)
    found.evaluated += 1
    if found.axes is not None and each.works:
        found.tried.append(each)
    for code in each.refused or each.broken:
        found.refused[code] += 1
        found.examples.setdefault(code, each)
    return each


def _trainers(case: RlCase, base: RlPlan) -> Iterator[RlPlan]:
    """Plans of the trainer: tensor and context parallelism within a node, all else as the scenario's plan."""
    space, held, each = case.scenario.search, _held(case), float(case.node.accelerators)

    def listed(name: str) -> Iterable[float]:
        written = None if space is None else getattr(space, name)
        if written is not None:
            return [float(value) for value in written]
        return [float(getattr(base, name))] if f"plan.{name}" in held else _powers(each)

    offered = bool(case.trainer.context_parallel)
    for tp, cp in itertools.product(listed("tp"), listed("cp")):
        if tp * cp <= max(each, base.tp * base.cp) and (cp == 1 or offered):
            yield base.model_copy(update={"tp": Figure(tp), "cp": Figure(cp)})


def _engines(case: RlCase, split: RolloutPlan) -> Iterator[RolloutPlan]:
    """Layouts of an engine, within a node."""
    space, ranks = case.scenario.search, float(split.ranks or case.node.accelerators)
    written = None if space is None else space.rollout_tp
    if written is None and "plan.rollout.tp" in _held(case):
        written = [float(split.tp)]
    for tp in written or _powers(min(float(case.node.accelerators), ranks)):
        yield split.model_copy(update={"tp": Figure(float(tp))})


def _powers(most: float) -> list[float]:
    return list(itertools.takewhile(lambda degree: degree <= most, (2.0**power for power in range(20))))
