"""Finds the fewest nodes on which the best plan of a job meets every limit, expected or with a chance.

The next size to try is in proportion to what is missing. A somewhat larger size is chosen if it takes fewer GPU hours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from costmodel.documents.keys.overrides import path_of
from costmodel.documents.reader.load_scenario import vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.equations.parallelism.counts import world_size
from costmodel.equations.run.economics import run_cost, share
from costmodel.equations.run.uncertainty import chance_within, end_spread
from costmodel.estimate.shared.results import Limit, stated_limits
from costmodel.explore.compare.input_paths import input_values
from costmodel.explore.search.rank import Watcher
from costmodel.explore.search.value_ranges import doubled, values_of
from costmodel.explore.workload_interface import (
    RANKS,
    KnownPlans,
    MissedLimit,
    PlanAnswer,
    SizedTrial,
    SmallestPlan,
    SmallestPlans,
    Trial,
    Workload,
)
from costmodel.ground.equation import Number, leaf, origin_of, term, trace
from costmodel.ground.errors import CostModelError, Fault, Place, fail
from costmodel.ground.parsing import UnitError, parse
from costmodel.ground.record import record
from costmodel.ground.units import counted

if TYPE_CHECKING:
    from costmodel.explore.explain.equation_trees import ExplainedFigure


def evaluate_trial(
    asked: Workload,
    settings: Sequence[str],
    *,
    best: bool = False,
    results: Collection[str] = (),
    paths: Sequence[str] = (),
    whole: bool = False,
) -> Trial:
    """Evaluates a scenario with some settings; best: with the best plan of its search.

    results: those needed, else all. paths: keys whose values are kept. whole: keep the whole answer
    """
    try:
        varied = asked.for_case(vary_any(asked.case, settings))
        answer = varied.answer(results, best=best)
        trial = trial_of_answer(varied, settings, answer, paths)
        return replace(trial, answer=answer) if whole else trial
    except CostModelError as error:
        return Trial(tuple(settings), fault=error.faults[0])


def trial_of_answer(varied: Workload, settings: Sequence[str], answer: PlanAnswer, paths: Sequence[str] = ()) -> Trial:
    """An answer reduced to a trial: its reason codes, results and varied values."""
    known = input_values(varied.case) if paths else {}
    return Trial(
        tuple(settings),
        refused=answer.refused,
        broken=answer.broken,
        remarked=() if answer.refused else answer.remarked,
        kept=varied.summary(answer),
        about=varied.facts,
        values={path: known[path].value if path in known else None for path in paths},
    )


@record
class RankGrowth:
    """How one workload scales with the number of ranks: texts, results and settings.

    paces: micro-batches of a replica per pipeline stage, and steps over the fewest that reach a loss
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
    """A job on several numbers of accelerators, with a fixed size (strong scaling) or a growing one (weak scaling)."""

    asked: Workload
    sizes: tuple[float, ...]
    growth: RankGrowth
    is_weak: bool
    best: bool
    name: ClassVar[str] = RANKS

    @property
    def count(self) -> int:
        """The number of sizes to evaluate."""
        return len(self.sizes)

    @property
    def shown_results(self) -> tuple[str, ...]:
        """The results in a table of sizes."""
        return self.growth.shown

    @property
    def drawn_result(self) -> str:
        """The result to draw over the sizes."""
        return self.growth.figure

    @property
    def throughput_result(self) -> str:
        """The result that states the throughput."""
        return self.growth.work

    @property
    def time_result(self) -> str:
        """The time result whose parts are shown as shares; empty if none is shown."""
        return self.growth.time

    @property
    def terms(self) -> Sequence[str]:
        """The parts of the time result, shown as shares."""
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

    def throughput_per_accelerator(self, costs: Mapping[str, float], size: float) -> float:
        """The throughput per accelerator."""
        return self.growth.each(costs, size)

    def rows(self, pace: Watcher) -> Iterator[SizedTrial]:
        """Evaluates one size after the other."""
        for ranks in pace.taken(self.sizes, len(self.sizes)):
            yield self._row(ranks)

    def further_results(self, rows: Sequence[SizedTrial]) -> object:
        """None: there are no further results over all sizes."""
        return None

    def _row(self, ranks: float) -> SizedTrial:
        """The best plan on this number of accelerators, or the fault."""
        own, text = float(self.asked.case.node.accelerators), f"{ranks:,.0f}"
        settings = [*self.growth.settings(ranks)]
        fault = part_of_node_fault(own, ranks) or self.growth.uneven(ranks)
        if fault is not None:
            return SizedTrial(ranks, Trial(tuple(settings), fault), text)
        try:
            varied = self.asked.for_case(vary_any(self.asked.case, settings))
            found = varied.answer(best=self.best)
        except CostModelError as error:
            return SizedTrial(ranks, Trial(tuple(settings), error.faults[0]), text)
        point = trial_of_answer(varied, settings, found)
        if found.refused:
            return SizedTrial(ranks, point, text)
        return SizedTrial(ranks, point, text, found.assumed, *self.growth.paces(varied.case, found))


def part_of_node_fault(each: float, ranks: float) -> Fault | None:
    """A fault for a number of accelerators that ends within a node; None for any other number."""
    below = ranks // each * each
    if ranks < each or ranks == below:
        return None
    sentence = f"{counted(ranks)} accelerators are no whole number of nodes of {counted(each)}"
    return Fault("C010", sentence, None, f"try --ranks {below:.0f} or {below + each:.0f}")


def rank_counts(text: str) -> list[float]:
    """Numbers of accelerators in a text: 64..4096 doubles; lists and other steps as for --over."""
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


NODES = "cluster.nodes"
EIGHTHS = 8  # of a power of two: numbers of nodes above it that are tried
_NEAR = 8  # sizes that are tried one after the other before steps double
_FAR = 1.25  # times a budget, from which no plan on as many nodes keeps it
_LEVEL = 1.05  # times a budget, up to which a cost may keep it on other sizes
_HALVED = 3.0  # a job on half of the nodes costs this part of its cost at least; 2.6 in shipped machines
_DEARER = 2  # sizes in a row that cost more than a smaller one, after which larger ones do too
CHANCE = "chance"  # to meet every limit, in explanations
_LEAST = 1e-300  # of a limit over a result: one may be too small for a float
_PASSED = 2  # sizes without a valid plan that are passed over


def chance_to_meet(asked: Workload, costs: Mapping[str, float]) -> float:
    """The chance that a plan works and meets every limit on results with a band.

    Such results err together, as all follow from the step time, so the limit with the smallest chance decides.
    """
    nearest, works = _least_certain_limit(asked, costs), costs.get(asked.chance, 1.0)
    return (1.0 if nearest is None else nearest[1]) * (works if math.isfinite(works) else 1.0)


def _least_certain_limit(asked: Workload, costs: Mapping[str, float]) -> tuple[Limit, float] | None:
    """The limit that is met with the smallest chance, and that chance; None without such limits."""
    banded = (
        (limit, chance_to_keep(limit, costs))
        for limit in stated_limits(asked.case.scenario.limits)
        if limit.column in asked.columns and asked.columns[limit.column].band and limit.kind != "target"
    )
    return min(banded, key=lambda each: each[1], default=None)


def chance_to_keep(limit: Limit, costs: Mapping[str, float]) -> float:
    """The chance that a result meets a limit; 1 or 0 for a result without a band."""
    value, end = costs[limit.column], costs.get(band_end_column(limit), math.nan)
    if not (0 < value < math.inf and 0 < end < math.inf):
        return 1.0 if limit.holds(value) else 0.0
    return float(_chance_within_band(limit, value, end))


def band_end_column(limit: Limit) -> str:
    """The column with the end of a result's band on the side of the limit."""
    return f"{limit.column}_{'high' if limit.kind == 'at_most' else 'low'}"


def _chance_within_band(limit: Limit, value: Number, end: Number) -> Number:
    stated = max(limit.value, float(value) * _LEAST)
    amount, allowance = (value, stated) if limit.kind == "at_most" else (stated, value)
    return chance_within(amount, allowance, end_spread(value, end))


def chance_tree(asked: Workload, settings: Sequence[str]) -> ExplainedFigure:
    """The equation tree of the chance that the plan with these settings meets every limit."""
    is_of_all = asked.request_tokens is None  # its chance follows from every result with its band
    answer = asked.for_case(vary_any(asked.case, settings)).answer(() if is_of_all else (asked.chance,))
    if is_of_all:
        return trees_at_prices(asked, [answer], ())[0][CHANCE]
    return asked.explain_light(answer, asked.chance)[0]


def trees_at_prices(
    asked: Workload, answers: Sequence[PlanAnswer], names: Sequence[str], ends: Sequence[str] = ()
) -> list[dict[str, ExplainedFigure]]:
    """The equation trees of results and chance of one plan at several prices.

    ends: ends of bands, explained without further evaluations
    """
    costs, is_of_all = answers[0].costs, asked.request_tokens is None
    nearest = _least_certain_limit(asked, costs) if is_of_all else None
    limit = () if nearest is None else (nearest[0].column, band_end_column(nearest[0]))
    wanted, light = (
        [name for name in dict.fromkeys(each) if math.isfinite(costs.get(name, math.nan))]
        for each in ((*names, asked.chance, *limit), ends)
    )
    found = [dict(zip(wanted, each, strict=True)) for each in asked.explain_prices(answers, *wanted)]
    last = dict(zip(light, asked.explain_light(answers[0], *light), strict=True)) if light else {}
    for tree in last.values():
        _replace_leaves_by_trees(tree, {each.value: each for each in found[0].values()})
    chance = _job_chance_tree(asked, costs, found[0]) if is_of_all else found[0][asked.chance]
    return [each | last | {CHANCE: chance} for each in found]


def _job_chance_tree(
    asked: Workload, costs: Mapping[str, float], known: Mapping[str, ExplainedFigure]
) -> ExplainedFigure:
    """The equation tree of the chance that a job meets its limits; known: trees of its results."""
    from costmodel.explore.explain.equation_trees import TreeNames, tree_of

    nearest = _least_certain_limit(asked, costs)
    with trace(), term("and fits"):
        kept: Number = 1.0
        if nearest is not None:
            limit = nearest[0]
            kept = _chance_within_band(
                limit, *(leaf(costs[name], name) for name in (limit.column, band_end_column(limit)))
            )
        whole = kept * leaf(costs[asked.chance], asked.chance) if asked.chance in known else kept
        tree = tree_of(TreeNames({}, {}, {}), CHANCE, "1", origin_of(whole, CHANCE))
    _replace_leaves_by_trees(tree, {each.value: each for each in known.values()})
    return tree


def _replace_leaves_by_trees(tree: ExplainedFigure, known: Mapping[float, ExplainedFigure]) -> None:
    """Replaces plain numbers in a tree by the trees of known figures with equal values."""
    for place, each in enumerate(tree.beneath):
        if each.beneath:
            _replace_leaves_by_trees(each, known)
        elif each.value in known:
            tree.beneath[place] = replace(known[each.value], name=each.name)


def smallest_size(
    asked: Workload, safe: float, most: float, *, full: bool = False, known: KnownPlans | None = None
) -> SmallestPlans:
    """The plans on the fewest nodes, or on a few more nodes that cost less.

    If only money is limited, on the most nodes. Without a limit on time or money, on the scenario's number of nodes;
    of a LoRA that states none, on the fewest that fit.
    """
    limits = [limit.column for limit in stated_limits(asked.case.scenario.limits) if limit.kind == "at_most"]
    each = float(asked.case.node.accelerators)
    ladder = node_counts_to_try(max(most // each, 1.0))
    sizes = _TrialsByNodes(asked, each, {} if known is None else known)
    if any(asked.columns[column].unit == "s" for column in limits if column in asked.columns):
        return sizes.first(ladder, safe)
    if full or any(asked.columns[column].unit == "USD" for column in limits if column in asked.columns):
        several = [nodes for nodes in ladder[::-1] if full or _divides_most_batches(nodes)]
        return sizes.first([*dict.fromkeys([float(max(most // each, 1.0)), *several] if full else several)], safe)
    own = float(asked.case.cluster.nodes)
    return sizes.first([sizes.fewest(own, safe) if takes_fewest(asked) else own], safe)


def takes_fewest(asked: Workload) -> bool:
    """Whether a job without limits takes the fewest nodes that fit: a number for all training states is far too many
    where few parameters are trained, and no other one is stated.
    """
    return not states_nodes(asked.case) and asked.trains_few_parameters


def states_nodes(case: LoadedScenario) -> bool:
    """Whether the number of nodes is stated, in a file or by --set, and no default."""
    return bool(case.name) or NODES in map(path_of, case.assignments)


def _divides_most_batches(nodes: float) -> bool:
    """Whether a number of nodes is a power of two, or three times one; others seldom divide a batch."""
    return any(math.log2(nodes / odd).is_integer() for odd in (1.0, 3.0))


def node_counts_to_try(most: float) -> list[float]:
    """Numbers of nodes to try: every one up to 8, then eight between powers of two.

    >>> node_counts_to_try(20.0)
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 18.0, 20.0]
    """
    found, size = [], 1.0
    while size <= most:
        found.append(size)
        size += max(2.0 ** math.floor(math.log2(size)) / EIGHTHS, 1.0)
    return found


def _only_misses_limits(trial: Trial) -> bool:
    """Whether a plan is valid and fits, and only breaks limits of the scenario."""
    return not trial.refused and set(trial.broken) == {"T001"}


@dataclass
class _TrialsByNodes:
    """The best plans of a job on several numbers of nodes, each evaluated once."""

    asked: Workload
    each: float
    known: KnownPlans
    seen: dict[float, Trial] = field(default_factory=dict)

    def at(self, nodes: float) -> Trial:
        """The best plan on `nodes` nodes."""
        if nodes not in self.seen:
            self.seen[nodes] = self._known(nodes) or self._searched(nodes)
        return self.seen[nodes]

    def _searched(self, nodes: float) -> Trial:
        """The best plan of a search on `nodes` nodes."""
        trial = evaluate_trial(self.asked, [f"{NODES}={nodes:.0f}"], best=True)
        if trial.kept is not None and trial.about is not None:
            self.known[nodes] = float(trial.about.price.each), trial
        return trial

    def _known(self, nodes: float) -> Trial | None:
        """The best plan known at this or a lower price, if it still works and so is the best here too.

        If it is far above the budget, all plans on as many nodes are, because their cost follows from their time.
        """
        own, (price, trial) = float(self.asked.facts.price.each), self.known.get(nodes, (math.nan, None))
        if trial is None or trial.kept is None or math.isnan(price) or price > own:
            return None
        if price == own:
            return trial
        plan = (f"{path}={value}" for path, value in trial.kept.settings.items())
        found = evaluate_trial(self.asked, [f"{NODES}={nodes:.0f}", *plan])
        dear = self._cost(found, nodes) > _FAR * self._budget
        return replace(found, settings=found.settings[:1]) if found.works or dear else None

    def chance(self, nodes: float) -> float:
        """The chance that the plan on `nodes` nodes meets every limit; 0 if expected figures break one."""
        trial = self.at(nodes)
        return chance_to_meet(self.asked, trial.costs) if trial.works else 0.0

    def fewest(self, nodes: float, safe: float) -> float:
        """The fewest nodes that fit with the chance: halves of a number, while they fit."""
        while nodes > 1 and self.chance(nodes) >= safe and self.chance(math.ceil(nodes / 2)) >= max(safe, _LEAST):
            nodes = math.ceil(nodes / 2)
        return nodes

    def first(self, ladder: list[float], safe: float) -> SmallestPlans:
        """The first size of the list that meets every limit by expected figures, and the first with the chance."""
        expected = self._first(ladder, lambda nodes: self.at(nodes).works, self._start(ladder))
        if expected is None:
            nearest = self.at(ladder[-1])
            return SmallestPlans(codes=nearest.codes, fault=nearest.fault, missed=self._missed(), count=len(self.seen))
        safely = self._first(ladder, lambda nodes: self.at(nodes).works and self.chance(nodes) >= safe, expected)
        safely = None if safely is None else self._cheapest(ladder, safely, safe)
        surest = max(map(self.chance, self.seen))
        return SmallestPlans(
            self._plan(ladder[expected]),
            None if safely is None else self._plan(ladder[safely]),
            surest,
            count=len(self.seen),
            below=None if safely is None or ladder[0] > ladder[-1] else self._below(ladder[safely]),
        )

    def _below(self, nodes: float) -> MissedLimit | None:
        """The time on the next smaller number of nodes with a plan; None without a limit on time."""
        tried = {size: trial.costs for size, trial in self.seen.items() if size < nodes and trial.costs}
        limits = [each for each in stated_limits(self.asked.case.scenario.limits) if each.column == "run_time"]
        if not tried or not limits:
            return None
        costs, (limit, *_) = tried[max(tried)], limits
        return MissedLimit(
            limit.column, limit.value, costs[limit.column], max(tried) * self.each, costs[band_end_column(limit)]
        )

    def _cheapest(self, ladder: list[float], place: int, safe: float) -> int:
        """The index of the size with the fewest GPU hours: the given one, or one up to the next power of two.

        A size that divides a batch better may take fewer.
        """
        power = 2.0 ** math.ceil(math.log2(ladder[place]))
        larger = [other for other, nodes in enumerate(ladder) if ladder[place] < nodes <= power]
        if ladder[0] > ladder[-1] or not larger:
            return place
        good = [
            other for other in larger if _divides_most_batches(ladder[other]) and self.chance(ladder[other]) >= safe
        ]
        return min([place, *good], key=lambda other: ladder[other] * self.at(ladder[other]).costs["run_time"])

    def _cost(self, trial: Trial, nodes: float) -> float:
        """The cost of a plan; results omit it if the plan breaks a limit."""
        time = trial.costs.get("run_time", math.nan)
        return float(run_cost(time, world_size(nodes, self.each), float(self.asked.facts.price.each)))

    @property
    def _budget(self) -> float:
        limits = stated_limits(self.asked.case.scenario.limits)
        return min((limit.value for limit in limits if limit.column == "run_cost"), default=math.inf)

    def _is_over_budget(self, sizes: Sequence[float]) -> bool:
        """Whether no size is within the budget; stops when several larger sizes cost more than the cheapest."""
        least, dearer = math.inf, 0
        for nodes in sizes:
            trial = self.at(nodes)
            if trial.works:
                return False
            if _only_misses_limits(trial):
                cost = self._cost(trial, nodes)
                least, dearer = min(least, cost), dearer + 1 if cost >= least else 0
                if dearer >= _DEARER and cost > _LEVEL * self._budget:
                    return True
        return True

    def _first_within(self, powers: Sequence[float], good: Callable[[float], bool]) -> float | None:
        """The largest good power of two; skips sizes that cost far too much."""
        place = 0
        while place < len(powers) and not good(powers[place]):
            above = self._cost(self.at(powers[place]), powers[place]) / self._budget
            place += max(math.floor(math.log(above, _HALVED)), 1) if above > 0 else 1
        return powers[place] if place < len(powers) else None

    def _missed(self) -> tuple[MissedLimit, ...]:
        """The limits that the nearest fitting plan misses."""
        fitting = {
            nodes: trial.kept.costs
            for nodes, trial in self.seen.items()
            if trial.kept is not None and _only_misses_limits(trial)
        }
        limits = [limit for limit in stated_limits(self.asked.case.scenario.limits) if limit.kind == "at_most"]
        missed = [
            tuple(
                MissedLimit(
                    limit.column,
                    limit.value,
                    costs[limit.column],
                    nodes * self.each,
                    costs.get(band_end_column(limit), costs[limit.column]),
                )
                for limit in limits
                if costs.get(limit.column, 0.0) > limit.value > 0
            )
            for nodes, costs in fitting.items()
        ]
        return min(filter(None, missed), key=lambda found: max(each.value / each.limit for each in found), default=())

    def _start(self, ladder: list[float]) -> int:
        """The index of the size on which the job would just end in time if time falls in proportion to size."""
        own = min(ladder, key=lambda nodes: abs(nodes - float(self.asked.case.cluster.nodes)))
        costs, wanted = self.at(own).costs, own
        for limit in stated_limits(self.asked.case.scenario.limits):
            if limit.column == "run_time" and limit.kind == "at_most" and limit.value > 0 and costs:
                wanted = own * float(share(costs["run_time"], limit.value))
        return ladder.index(min(ladder, key=lambda nodes: abs(nodes - wanted)))

    def _between(self, ladder: list[float], power: int, good: Callable[[float], bool]) -> int:
        """The index of the largest good size from a power of two up to the next; sizes are descending."""
        above = (place for place in range(1, power) if ladder[place] < 2 * ladder[power])
        return next((place for place in above if good(ladder[place])), power)

    def _first(self, ladder: list[float], good: Callable[[float], bool], start: int) -> int | None:
        """The index of the first good size; all sizes after it are assumed good too.

        In ascending sizes the search begins at `start`. In descending sizes it tries the largest and the powers of two,
        then sizes above the first good one. Sizes without a valid plan, such as those that do not divide a batch, are
        skipped.
        """
        if ladder[0] > ladder[-1]:
            powers = [nodes for nodes in ladder if math.log2(nodes).is_integer()]
            if math.isfinite(self._budget) and self._is_over_budget(powers[::-1]):
                return None
            if good(ladder[0]):
                return 0
            largest = self._first_within(powers, good)
            found = None if largest is None else ladder.index(largest)
            return found and self._between(ladder, found, good)
        low, high, steps = -1, start, 0
        while not good(ladder[high]):
            if high == len(ladder) - 1:
                return None
            steps += 1
            low, high = high, min(high + 2 ** max(steps - _NEAR, 0), len(ladder) - 1)
        for place in range(high - 1, low, -1):
            if good(ladder[place]):
                high = place
            elif self.at(ladder[place]).costs or place < high - _PASSED:
                break
        return high

    def _plan(self, nodes: float) -> SmallestPlan:
        """The plan on `nodes` nodes, with its settings and its chance."""
        trial = self.at(nodes)
        settings = {} if trial.kept is None else trial.kept.settings
        return SmallestPlan(
            (*trial.settings, *(f"{path}={value}" for path, value in settings.items())),
            nodes * self.each,
            self.chance(nodes),
        )
