"""Reinforcement learning: searches how to split accelerators between trainer and engines, and explains figures."""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from costmodel.documents.keys.overrides import stated_paths
from costmodel.documents.keys.paths import at
from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.rl_scenario import RlCase, reinforced
from costmodel.documents.schemas.results import COLUMNS, RL_COLUMNS, ResultColumn, machine_name
from costmodel.documents.schemas.results import TRAINING_COLUMNS as STEP
from costmodel.documents.schemas.rl import RlPlan, RolloutPlan
from costmodel.documents.schemas.stack import Axis as Parallelism
from costmodel.equations.run.uncertainty import combined_error
from costmodel.equations.serving.service_level import remaining_error
from costmodel.estimate.model.shards import model_parameters
from costmodel.estimate.rl.iteration import LATE, MemoryPart
from costmodel.estimate.rl.predict_rl import RlAnswer, answer, evaluate, own_errors, phase_errors, predict
from costmodel.estimate.rl.trainer_steps import TrainerSteps
from costmodel.estimate.run.whole_run import shares
from costmodel.estimate.serving.engine_memory import memory_use
from costmodel.estimate.shared.results import number
from costmodel.estimate.training_answer.evaluate_training import TERM_COLUMNS
from costmodel.estimate.training_answer.predict_training import NOT_SAFE
from costmodel.explore.answer_summaries import rl_degrees
from costmodel.explore.explain.equation_trees import (
    ExplainedFigure,
    TreeNames,
    memory_line_trees,
    traced_evaluation,
    trees_of,
)
from costmodel.explore.search.rank import Axes, Front, Order, Tally, Top, axes
from costmodel.explore.search.required_chance import preferred_chance
from costmodel.explore.search.scenario_variants import Variants, fail_if_listed
from costmodel.explore.search.space_interface import Keep, Space
from costmodel.explore.search.stream import HERE, PlanErrors, SearchOptions, SearchResult, through
from costmodel.explore.search.value_ranges import Axis
from costmodel.ground.counts import Recompute, number_of
from costmodel.ground.equation import origin_of, trace, untraced
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record
from costmodel.ground.units import Figure

if TYPE_CHECKING:
    from costmodel.explore.compare.compare import Side


# --- the best split of accelerators between training and generation, with the best plan of each part


PARTS = 8  # of the accelerators; engines get one of them to all but one
WORK = 1 << 18  # of the plans of a split
_PAIRS = 12  # of plans that are tried together
_MOST_CUT = 16.0  # stages of a pipeline, and ranks that share the experts
_FEW_SAFE = 3
_LEAST_BYTES = 4.0  # of a parameter: its weight and its gradient in 16 bits


@record
class RlSearchInputs:
    """An RL scenario with the optimizer steps that are already evaluated."""

    case: RlCase
    steps: TrainerSteps
    answers: dict[str, RlAnswer] = field(default_factory=dict)


@record
class RankedSplit:
    """A plan of an RL iteration with its results and reason codes."""

    plan: dict[str, Any]  # of both parts, as it is written in a scenario
    costs: dict[str, float]
    broken: tuple[str, ...]
    works: bool
    variant: int = 0

    @property
    def key(self) -> Order:
        """An empty sort key: plans that are equally good keep their order."""
        return ()


@dataclass
class RlSearch(SearchResult[RlSearchInputs, RankedSplit]):
    """The result of a search over splits: the best plan of each split, plans that work first."""

    yours: RlAnswer | None
    made: dict[str, RlAnswer] = field(default_factory=dict, repr=False)

    @property
    def chance(self) -> str:
        """The result column with the chance to fit."""
        return "fit_chance"

    @property
    def works(self) -> bool:
        """Whether any of the best plans works."""
        return any(split.works for split in self.best)

    @property
    def is_safe(self) -> bool:
        """Whether the best plan fits with the chance that the search prefers."""
        return self.safe is None or any(each.works and not self.is_risky(each) for each in self.best)

    @property
    def expected(self) -> RankedSplit | None:
        """The best plan regardless of its chance to fit, if it is better than the first plan that is shown."""
        first, other = self.best[0] if self.works else None, next(iter(self.tally.expected.rows), None)
        behind = other is None or (
            first is not None and _split_order(self.objective, other) >= _split_order(self.objective, first)
        )
        return None if behind else other

    @property
    def objective(self) -> str:
        """The result that plans are ranked by."""
        return self.inputs.case.scenario.objective

    def answer_of(self, row: RankedSplit) -> RlAnswer:
        """The full answer for a ranked plan, evaluated again."""
        named = f"{row.variant} {row.plan}"
        if named not in self.made:
            inputs = self.inputs_of(row.variant)
            known = inputs.answers.get(f"{row.plan}")
            self.made[named] = known or answer(inputs.case, RlPlan.model_validate(row.plan), inputs.steps)
        return self.made[named]

    def errors(self, plan: RankedSplit) -> PlanErrors:
        """Errors of training and of generation by their share, and what runs of one software differ by."""
        made = self.answer_of(plan)
        with untraced():
            phases, own = phase_errors(made.inputs, made.iteration, "high"), own_errors(made.inputs, made.iteration)
            kinds = {name: number(remaining_error(error, own[name])) for name, error in phases.items()}
            alone = number(combined_error(*own.values()))
        return PlanErrors(kinds, alone, made.inputs.split.ranks, made.inputs.split.ranks)


@record
class SplitSpace(Space[RlSearchInputs, RankedSplit, RolloutPlan]):
    """The possible splits of the accelerators of an RL scenario; `bar` is the sort key of its own plan."""

    size: int
    objective: str
    axes: Axes | None = None
    safe: float | None = None
    bar: tuple[bool, float, float] | None = None
    most: ClassVar[int | None] = 200

    def pieces(self, inputs: RlSearchInputs) -> Iterator[tuple[RolloutPlan, int]]:
        """Each possible split of the accelerators."""
        return ((split, WORK) for split in _splits_to_try(inputs.case, inputs.case.scenario.plan or RlPlan()))

    def empty(self) -> Tally[RankedSplit]:
        """The result of no plans."""
        order, place = partial(self.order), partial(_split_order, self.objective)
        fronts = (Front[RankedSplit](self.axes), Front[RankedSplit](self.axes)) if self.axes else (None, None)
        return Tally(Top(self.size, key=order), Top(1, key=place), *fronts)

    def searched(self, inputs: RlSearchInputs, piece: RolloutPlan, keep: Keep | None) -> Tally[RankedSplit]:
        """The best plan of a split."""
        tally = self.empty()
        trials = _SplitTrials(self, inputs, tally, keep)
        best = _best_of_split(trials, piece)
        tally.top.rows = [] if best is None else [best]
        tally.part().best = best
        for row in filter(None, (best, *tally.part().examples.values())):
            inputs.answers[f"{row.plan}"] = trials.made[f"{row.plan}"]
        tally.better_than_yours = sum(self.bar is not None and self.order(row) < self.bar for row in tally.top.rows)
        return tally

    def read(self, written: dict[str, Any]) -> RankedSplit:
        """A plan; JSON has no tuples."""
        return RankedSplit(**{**written, "broken": tuple(written["broken"])})

    def columns(self, inputs: RlSearchInputs) -> Mapping[str, ResultColumn]:
        """The result columns of an iteration."""
        return RL_COLUMNS

    def order(self, row: RankedSplit) -> tuple[bool, float, float]:
        """The sort key of a plan: whether it works, its chance to fit if that is too small, the objective."""
        fails, value = _split_order(self.objective, row)
        return fails, -row.costs["fit_chance"] if self.is_risky(row) else -1.0, value

    def is_risky(self, row: RankedSplit) -> bool:
        """Whether a plan does not fit with the chance that the search prefers."""
        return self.safe is not None and row.costs["fit_chance"] < self.safe


def search(
    case: RlCase, top: int = 10, over: Sequence[Axis] = (), pareto: str = "", how: SearchOptions = HERE
) -> RlSearch:
    """The best plan of each split, for the scenario or for every combination of values of some keys.

    Raises:
        CostModelError: a value is wrong, or no combination has a scenario
    """
    since = time.perf_counter()
    fail_if_listed(over, partial(listed_by_search, case))
    objective, safe, steps = case.scenario.objective, preferred_chance(case), TrainerSteps()
    traded = axes(pareto, "", COLUMNS["rl"]) if pareto else None
    variants = Variants(RlSearchInputs(case, steps), partial(_search_inputs, steps), tuple(over))
    variants.checked(SplitSpace.most)
    yours = None if case.scenario.plan is None else answer(case, case.scenario.plan, steps)
    space = SplitSpace(top, objective, traded, safe)
    is_ranked = yours is not None and not yours.refused
    if yours is not None and is_ranked:
        space = replace(space, bar=space.order(_ranked_split(case, yours)))
    tally = space.empty()
    stopped, total = through(space, variants, tally, how)
    if tally.front is not None and not tally.safe:
        tally.settle(NOT_SAFE)
    return RlSearch(variants, tally, yours, time.perf_counter() - since, total, stopped, safe, is_ranked)


def _search_inputs(steps: TrainerSteps, case: LoadedScenario) -> RlSearchInputs:
    return RlSearchInputs(reinforced(case), steps)


def listed_by_search(case: RlCase, path: str) -> str:
    """The key of the search that lists values of a key of the scenario; empty where none does."""
    key = _LISTED.get(path, "")
    return key if key and getattr(case.scenario.search, key, None) is not None else ""


_LISTED = {
    "plan.tp": "tp",
    "plan.cp": "cp",
    "plan.rollout.tp": "rollout_tp",
    "plan.rollout.ranks": "ranks",
}


def with_own_or_best_plan(case: RlCase) -> RlCase:
    """The case with its own plan, or else the best plan of its search."""
    if case.scenario.plan is not None:
        return case
    search_result = search(case, 1)
    return with_plan_of(case, search_result.answer_of(search_result.best[0])) if search_result.best else case


def search_best_plan(case: RlCase) -> RlSearch:
    """The search for the best plan, or the nearest to one that works; a fault if no plan is valid."""
    search_result = search(case, 1)
    if not search_result.best:
        why = "costmodel search with the same flags and --why-not shows why"
        raise fail("C004", "no plan of the search is valid", Place(case.file), why)
    return search_result


def best_answer(case: RlCase) -> RlAnswer:
    """The answer for the best plan."""
    plan = search_best_plan(case)
    return plan.answer_of(plan.best[0])


def with_plan_of(case: RlCase, answer: RlAnswer) -> RlCase:
    """The case with the plan of an answer."""
    return replace(case, scenario=case.scenario.model_copy(update={"plan": answer.inputs.plan}))


def _split_order(objective: str, row: RankedSplit) -> tuple[bool, float]:
    value = row.costs[objective]
    return not row.works, math.inf if math.isnan(value) else value


def _ranked_split(case: RlCase, split: RlAnswer) -> RankedSplit:
    """An evaluated plan as a row of the ranking; a fault if its objective is unknown."""
    objective = case.scenario.objective
    if split.works and math.isnan(split.costs[objective]):
        wanted = "workload.iterations" + ("" if objective == "run_time" else " and a price")
        raise fail("C004", f"{objective} is not known", case.place("objective"), f"set {wanted}")
    return RankedSplit(split.inputs.plan.model_dump(mode="json"), split.costs, split.broken, split.works)


def _fixed_keys(case: RlCase) -> set[str]:
    return stated_paths(case.assignments)


def _splits_to_try(case: RlCase, base: RlPlan) -> list[RolloutPlan]:
    """Ways to divide the accelerators: trainer and engines take turns on all, or each has a part."""
    kept, space = base.rollout, case.scenario.search
    if not case.scenario.workload.generates or case.parts:
        return [kept]
    held = _fixed_keys(case)
    if held & {"plan.rollout.colocated", "plan.rollout.ranks"} and (space is None or space.ranks is None):
        return [kept]
    moved_away = bool(kept.offload) and "plan.rollout.offload" in held  # which only engines in turns do
    per_node, nodes = float(case.node.accelerators), float(case.cluster.nodes)
    listed = None if space is None else space.ranks
    grain, every = (per_node, nodes * per_node) if nodes > 1 else (1.0, per_node)
    parts = {max(grain, round(every * part / PARTS / grain) * grain) for part in range(1, PARTS)}
    numbers = sorted(listed or (part for part in parts if part < every))
    apart = [
        kept.model_copy(update={"colocated": False, "ranks": Figure(number), "offload": None})
        for number in (numbers if case.stack.apart and not moved_away else ())
    ]
    together = kept.model_copy(update={"colocated": True, "ranks": None})
    return apart if listed else [together, *apart]


def _best_of_split(trials: _SplitTrials, split: RolloutPlan) -> RankedSplit | None:
    """The best plans of one split that work and are safe, else the surest or nearest; None if none is valid."""
    case = trials.inputs.case
    base = case.scenario.plan or RlPlan()
    trainers, engines = list(_trainer_plans_to_try(case, base)), list(_engine_layouts_to_try(case, split))
    first = base.model_copy(update={"rollout": split})
    by_engine = [trials.tried(first.model_copy(update={"rollout": engine})) for engine in engines]
    fast = sorted((each for each in by_engine if not each.inputs.engine_refused), key=_generation_time)
    if not fast:
        return None
    rollout = fast[0].inputs.plan.rollout
    by_trainer = [trials.tried(trainer.model_copy(update={"rollout": rollout})) for trainer in trainers]
    if case.scenario.plan is None and not any(map(trials.is_safe, by_trainer)):
        by_trainer += _more_sharded_plans(trials, by_trainer)
        by_trainer += _plans_of_large_models(trials, base.model_copy(update={"rollout": rollout}))
    valid = (each for each in by_trainer if not each.refused)
    trained = sorted(valid, key=trials.place)
    if not trained:
        return None
    nearest: RankedSplit | None = None
    surest: RankedSplit | None = None
    pairs = sorted(itertools.product(enumerate(trained), enumerate(fast)), key=lambda pair: pair[0][0] + pair[1][0])
    for (_, one), (place, other) in pairs[:_PAIRS]:
        plan = one.inputs.plan.model_copy(update={"rollout": other.inputs.plan.rollout})
        tried = one if place == 0 else trials.tried(plan)
        if tried.refused:
            continue
        row = _ranked_split(case, tried)
        if row.works:
            if trials.space.safe is not None:
                trials.found.expected.merge([row])
            if not trials.space.is_risky(row):
                return row
            if surest is None or row.costs["fit_chance"] > surest.costs["fit_chance"]:
                surest = row
        nearest = row if nearest is None else nearest
    return surest or nearest


def _generation_time(split: RlAnswer) -> float:
    return split.costs["generation"]


@record
class _SplitTrials:
    """Evaluates RL plans of one scenario, and counts them by the reasons against them."""

    space: SplitSpace
    inputs: RlSearchInputs
    found: Tally[RankedSplit]
    keep: Keep | None
    made: dict[str, RlAnswer] = field(default_factory=dict)

    def tried(self, plan: RlPlan) -> RlAnswer:
        """Evaluates and counts one plan; lowers its micro-batch if ranks have fewer answers."""
        case, part = self.inputs.case, self.found.part()
        split = answer(case, plan, self.inputs.steps)
        if "R018" in split.refused and "plan.micro_batch" not in _fixed_keys(case):
            smaller = plan.model_copy(update={"micro_batch": Figure(split.inputs.answers_of_rank)})
            split = answer(case, smaller, self.inputs.steps)
        part.candidates += 1
        against = (split.refused or split.broken)[:1]  # each plan counts once
        part.refused.update(against)
        if split.refused:
            row = RankedSplit(split.inputs.plan.model_dump(mode="json"), {}, split.refused, works=False)
        else:
            row = self._counted(split)
        self.made[f"{row.plan}"] = split
        part.examples = dict.fromkeys(against, row) | part.examples
        return split

    def is_safe(self, each: RlAnswer) -> bool:
        """Whether a plan works with the required chance."""
        return each.works and not self.space.is_risky(_ranked_split(self.inputs.case, each))

    def place(self, split: RlAnswer) -> tuple[bool, float]:
        """A sort key: safe plans by their training time, then the others by their memory share."""
        safe = self.is_safe(split)
        return not safe, number(split.iteration.training) if safe else split.costs["memory_share"]

    def _counted(self, split: RlAnswer) -> RankedSplit:
        """Counts a valid plan, adds it to the front and to the table of all plans, and returns its row."""
        row, part = _ranked_split(self.inputs.case, split), self.found.part()
        part.evaluated += 1
        part.fit += "M001" not in split.broken
        part.kept += split.works
        is_safe = split.works and not self.space.is_risky(row)
        part.safe += is_safe
        if self.keep is not None:
            figures = {machine_name(name): split.costs.get(name, math.nan) for name in RL_COLUMNS}
            self.keep(1, {**rl_degrees(split), **figures})
        for front, takes in ((self.found.front, is_safe), (self.found.risky_front, split.works)):
            if front is not None and takes and all(math.isfinite(row.costs[name]) for name in self._traded(front)):
                front.merge([row])
        return row

    def _traded(self, front: Front[RankedSplit]) -> tuple[str, str]:
        return front.axes.x, front.axes.y


def _trainer_plans_to_try(case: RlCase, base: RlPlan) -> Iterator[RlPlan]:
    """Plans of the trainer with tensor and context parallelism within a node; the rest as in the scenario."""
    space, held, per_node = case.scenario.search, _fixed_keys(case), float(case.node.accelerators)

    def listed(name: Parallelism) -> Iterable[float]:
        """The degrees of this name to try: as listed, as fixed, or powers of two."""
        written = None if space is None else getattr(space, name)
        if written is not None:
            return [float(value) for value in written]
        if f"plan.{name}" in held:
            return [float(getattr(base, name))]
        return _powers_of_two(per_node) if case.trainer.has(name) else [1.0]

    offered = bool(case.trainer.context_parallel)
    for tp, cp in itertools.product(listed("tp"), listed("cp")):
        if tp * cp <= max(per_node, base.tp * base.cp) and (cp == 1 or offered):
            yield base.model_copy(update={"tp": Figure(tp), "cp": Figure(cp)})


def _more_sharded_plans(trials: _SplitTrials, tried: Sequence[RlAnswer]) -> list[RlAnswer]:
    """Plans close to fitting, with more recompute and higher ZeRO stages, until a few are safe."""
    case, valid = trials.inputs.case, [each for each in tried if not each.refused]
    nearest = sorted(valid, key=_memory_share)[:_FEW_SAFE]
    levels = [(zero, again) for zero in sorted(case.trainer.zero) for again in _recompute_modes_to_try(case)]
    answers = list[RlAnswer]()
    for (zero, again), each in itertools.product(levels, nearest):
        structure = each.inputs.trainer.evaluation.block.structure
        further = {"zero": zero, "recompute": again}
        changed = {name: value for name, value in further.items() if value != getattr(structure, name)}
        if zero < structure.zero or not changed:
            continue
        answers.append(trials.tried(each.inputs.plan.model_copy(update=changed)))
        if sum(map(trials.is_safe, answers)) == _FEW_SAFE:
            break
    return answers


def _recompute_modes_to_try(case: RlCase) -> list[Recompute]:
    """Recompute modes to try: the trainer's default, and full recompute."""
    return [way for way in dict.fromkeys((case.trainer.recompute[0], "full")) if way in case.trainer.recompute]


def _memory_share(split: RlAnswer) -> float:
    return split.costs["memory_share"]


def _plans_of_large_models(trials: _SplitTrials, base: RlPlan) -> list[RlAnswer]:
    """Plans of large models with pp, ep and full recompute, least sharded first, until a few are safe."""
    case = trials.inputs.case
    ranks = case.node.accelerators * case.cluster.nodes - (base.rollout.ranks or 0.0) - base.beside.all
    if case.parts:
        ranks = case.node.accelerators * case.parts[0][0]
    recompute = _recompute_modes_to_try(case)[-1]
    answers = list[RlAnswer]()
    for tp, pp, ep in _degrees_of_large_models(case, float(ranks)):
        cut = {"tp": Figure(tp), "pp": Figure(pp), "ep": Figure(ep), "recompute": recompute}
        more: dict[str, Any] = {"split": "spread"} if pp > 1 else {}
        more |= {"etp": Figure(1.0)} if ep > 1 else {}
        split = trials.tried(base.model_copy(update=cut | more))
        if not split.refused:
            answers.append(split)
        if sum(map(trials.is_safe, answers)) == _FEW_SAFE:
            break
    return answers


def _degrees_of_large_models(case: RlCase, ranks: float) -> list[tuple[float, float, float]]:
    """Degrees tp, pp and ep that divide the ranks and shard weights and gradients enough to fit."""
    most: dict[Parallelism, float] = {"tp": float(case.node.accelerators), "pp": _MOST_CUT}
    most["ep"] = _MOST_CUT if case.model.has_experts else 1.0
    every = itertools.product(*(_powers_of_two(most[axis] if case.trainer.has(axis) else 1.0) for axis in most))
    held = _LEAST_BYTES * float(model_parameters(case.model)) / float(case.accelerator.memory.usable)
    degrees = [
        (tp, pp, ep)
        for tp, pp, ep in every
        if ranks % (tp * pp) == 0 and (ranks / pp) % ep == 0 and pp * ep > 1 and pp * max(tp, ep) > held
    ]
    return sorted(degrees, key=math.prod)


def _engine_layouts_to_try(case: RlCase, split: RolloutPlan) -> Iterator[RolloutPlan]:
    """Engine layouts within a node; only the scenario's own if nothing is generated."""
    if not case.scenario.workload.generates:
        return iter([split])
    space, ranks = case.scenario.search, float(split.ranks or case.node.accelerators)
    written = None if space is None else space.rollout_tp
    if written is None and "plan.rollout.tp" in _fixed_keys(case):
        written = [float(split.tp)]
    degrees = written or _powers_of_two(min(float(case.node.accelerators), ranks))
    return (split.model_copy(update={"tp": Figure(float(tp))}) for tp in degrees)


def _powers_of_two(most: float) -> list[float]:
    return list(itertools.takewhile(lambda degree: degree <= most, (2.0**power for power in range(20))))


def rl_side(name: str, case: RlCase, rank: int | None) -> Side:
    """An RL scenario as one side of a comparison, with the plan at a rank of its search.

    rank: counted from 1; 0 is the scenario's own plan, None that one or the best

    Raises:
        CostModelError: the search has no plan of that rank
    """
    from costmodel.estimate.answer_facts import subject_of
    from costmodel.explore.compare.compare import Side, document_digests
    from costmodel.explore.compare.input_paths import input_values

    if not rank:
        chosen = predict(with_own_or_best_plan(case) if rank is None else case)
    else:
        search_result = search(case, rank)
        if len(search_result.best) < rank:
            sentence = f"the search finds {number_of(len(search_result.best), 'plan')}, so none of rank {rank}"
            raise fail("C004", sentence, Place(case.file))
        chosen = search_result.answer_of(search_result.best[rank - 1])
    costs = {} if chosen.refused else chosen.costs
    figures = {machine_name(name): value for name, value in costs.items() if math.isfinite(value)}
    assumed = {item.path: item.value for item in chosen.assumed}
    left_out = case.foreign_prices if case.stated_price is None else ()
    documents, facts = document_digests(case), subject_of(case)
    return Side(name, input_values(with_plan_of(case, chosen)), figures, documents, chosen.refused, assumed, facts,
                left_out=left_out, asked=case.asked, kind="rl")  # fmt: skip


@functools.cache
def published_iterations() -> Counter[str]:
    """The number of published iterations by accelerator."""
    tables = [read("measured", name) for name in names("measured")]
    runs = ((table, run) for table in tables for run in table.runs if run.measured.iteration_time)
    nodes = (run.set.get(_NODE, table.set.get(_NODE, at(table.scenario, _NODE))) for table, run in runs)
    return Counter(str(read("node", str(node)).accelerator) for node in nodes)


_NODE = "cluster.node"


def settings_for_ranks(case: RlCase, ranks: float, *, weak: bool) -> list[str]:
    """Settings for `ranks` accelerators with the engines' share unchanged; weak: the prompts grow too."""
    per_node, plan = float(case.node.accelerators), case.scenario.plan
    before = float(case.cluster.nodes) * per_node
    settings = [f"cluster.nodes={max(1.0, ranks / per_node):.0f}"]
    if ranks < per_node:
        settings.append(f"cluster.node.accelerators={ranks:.0f}")
    own = () if plan is None else (("rollout.ranks", plan.rollout.ranks), *((f"beside.{n}", m) for n, m in plan.beside))
    for name, held in own:
        if held is not None:
            grain = per_node if ranks > per_node else 1.0
            part = max(grain, round(float(held) / before * ranks / grain) * grain)
            settings.append(f"plan.{name}={min(part, ranks - grain):.0f}")
    if weak:
        grown = case.scenario.workload.prompts / before * ranks
        settings.append(f"workload.prompts={max(1.0, round(grown)):.0f}")
    return settings


# --- why a figure of an iteration of reinforcement learning is what it is: the traced tree of one plan


_OF_TRAINER = {"policy weights": ("weights",), "policy optimizer": ("optimizer",), "policy gradients": ("gradients",),
               "activations and buffers": tuple(name for name in LATE if name != "gradients"),
               "training runtime": ("runtime",)}  # fmt: skip
_OF_ENGINE = {"engine weights": "weights", "engine step": "activations", "cache": "pool", "engine runtime": "runtime"}


def explain(answer: RlAnswer, *quantities: str) -> list[ExplainedFigure]:
    """The equation trees of figures of an RL answer."""
    known = explain_all(answer)
    return [known.get(name) or ExplainedFigure(name, answer.costs[name], RL_COLUMNS[name].unit) for name in quantities]


def explain_all(answer: RlAnswer) -> dict[str, ExplainedFigure]:
    """The equation trees of all known figures; shared parts are one node."""
    trainer = answer.inputs.trainer
    traced = replace(trainer, evaluation=traced_evaluation(trainer.inputs, trainer.plan))
    with trace(), np.errstate(all="ignore"):
        _, _, results = evaluate(replace(answer.inputs, trainer=traced), answer.memory, valid=not answer.refused)
        origins = {name: origin_of(value, name) for name, value in results.items() if math.isfinite(answer.costs[name])}
    book = TreeNames(answer.inputs.case.trees, {**STEP, **RL_COLUMNS}, TERM_COLUMNS)
    trees = trees_of(book, origins, {name: RL_COLUMNS[name].unit for name in origins})
    return {**trees, **_run_share_trees(answer), **_memory_trees(answer)}


def _run_share_trees(answer: RlAnswer) -> dict[str, ExplainedFigure]:
    """The equation trees of the time shares of a run: failures, checkpoints and the rest."""
    inputs, run = answer.inputs.trainer.inputs, answer.run
    if run is None or inputs.run is None:
        return {}
    with trace():
        lost = {f"shares.{name}": origin_of(value, name) for name, value in shares(inputs.run, run).items()}
    return trees_of(TreeNames(answer.inputs.case.trees, RL_COLUMNS, {}), lost, dict.fromkeys(lost, "1"))


def _memory_trees(answer: RlAnswer) -> dict[str, ExplainedFigure]:
    """The equation trees of every memory line by phase, and of the larger phase as a sum."""
    memory, found = answer.memory, dict[str, ExplainedFigure]()
    of_trainer, of_engine = _trainer_lines(answer), _engine_lines(answer)
    sums = {}
    for phase in ("generating", "updating"):
        held = {part.name: (part, getattr(part, phase)) for part in memory.parts if getattr(part, phase)}
        lines = {name: _memory_line_tree(part, value, of_trainer, of_engine) for name, (part, value) in held.items()}
        found |= {f"{phase}.{name.replace(' ', '_')}_bytes": node for name, node in lines.items()}
        sums[phase] = list(lines.values())
    fuller = "updating" if memory.updating >= memory.generating else "generating"
    peak = ExplainedFigure("memory_peak", memory.peak, "B", operation="sum", beneath=sums[fuller])
    return found | {"memory_peak": replace(peak, quantity="memory_peak")}


def _memory_line_tree(
    part: MemoryPart, value: float, trained: Mapping[str, ExplainedFigure], engine: Mapping[str, ExplainedFigure]
) -> ExplainedFigure:
    """One memory line as an equation tree."""
    if part.name in _OF_ENGINE:
        return replace(engine[_OF_ENGINE[part.name]], name=part.name)
    lines = [trained[name] for name in _OF_TRAINER.get(part.name, ()) if trained[name].value]
    if len(lines) == 1:
        return replace(lines[0], name=part.name)
    return ExplainedFigure(part.name, value, "B", operation="sum" if lines else "", beneath=lines)


def _trainer_lines(answer: RlAnswer) -> dict[str, ExplainedFigure]:
    fullest = answer.inputs.fullest
    return memory_line_trees(fullest.inputs, traced_evaluation(fullest.inputs, fullest.plan))


def _engine_lines(answer: RlAnswer) -> dict[str, ExplainedFigure]:
    """The traced memory lines of an engine."""
    engines = answer.inputs.engines
    if engines is None:
        return {}
    with trace(), np.errstate(all="ignore"):
        use = memory_use(engines.inputs, engines.layout)
        origins = {name: origin_of(getattr(use, name), name) for name in _OF_ENGINE.values()}
    return trees_of(TreeNames(answer.inputs.case.trees, RL_COLUMNS, {}), origins, dict.fromkeys(origins, "B"))
