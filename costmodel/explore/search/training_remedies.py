"""Remedies for a training search in which no plan works: changes of the job, each evaluated by a search."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, get_args

import numpy as np

from costmodel.documents.reader.load_scenario import vary
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.scenario import Plan, Space
from costmodel.estimate.shared.plan_batch import Structure, plan_to_mapping
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.estimate.training_answer.evaluate_training import one_fits
from costmodel.estimate.training_answer.predict_training import structure_of, usual_etp
from costmodel.explore.search.cheapest_changes import (
    Change,
    Price,
    Remedy,
    has_chance,
    of_software,
    of_the_scenario,
    of_what_is_learnt,
    safest,
    shipped_node,
)
from costmodel.explore.search.required_chance import preferred_chance
from costmodel.explore.search.training_candidates import LATE, SubSpace, grids, stem, valid_blocks
from costmodel.explore.search.training_space import Ranked, TrainingSpace, TrainingTally, stretch
from costmodel.ground.counts import IN_ORDER, OF_ITSELF_ONE, SIZES
from costmodel.ground.errors import CostModelError, value_text
from costmodel.ground.record import record
from costmodel.ground.units import percent

_KEYS = tuple(key for key in Plan.model_fields if key in Space.model_fields)  # that a search can list
_MOST_CANDIDATES = 100_000  # of a larger space one kind of structure is searched
_MOST_VALUES, _MOST_TRIED, _MOST_NODES, _MOST_NODES_TRIED = 3, 24, 2, 12
_MOST_TOGETHER = 2
_NEAR = 8  # nodes more or fewer
OWN: tuple[Price, ...] = ("time", "quality")  # of the same job on the same hardware
_BATCH = "L005"
MOST_LOST = 0.9  # share of otherwise valid plans that a batch refuses, from which another batch is looked for
_NEAR_BATCH = 0.1  # share by which that differs at most
_MORE = 1.01  # times the tokens a second that it has at least
_UNLISTED = ("cp", "offload")  # keys that a search takes one value of, unless it lists more
_DEGREES = (2, 4, 8)


def plan_settings(inputs: TrainingInputs, wanted: Ranked) -> dict[str, str]:
    """The settings that turn the scenario's own plan into another one."""
    own = inputs.case.scenario.plan
    plan = own or Plan()
    plan = plan.model_copy(update={"etp": plan.etp or usual_etp(inputs, wanted.sizes["tp"])})
    derived = {"dp"} if plan.dp is None else set()
    needed = {
        name: f"{wanted.sizes[name]:.0f}"
        for name in IN_ORDER
        if name not in derived
        and ((own is None and name not in OF_ITSELF_ONE) or getattr(plan, name) != wanted.sizes[name])
    }
    sized = plan.model_copy(update={name: wanted.sizes[name] for name in SIZES if name != "dp"})
    follows, _ = structure_of(inputs, sized)
    ahead, there = (Plan.model_validate(plan_to_mapping(structure)) for structure in (wanted.structure, follows))
    for choice in fields(Structure):
        value = getattr(ahead, choice.name)
        if value != getattr(there, choice.name):
            needed[choice.name] = value_text(value)
    return {f"plan.{name}": value for name, value in needed.items()}


@record
class RemedyOutcome:
    """The result of a search after a change: the number of valid plans, and the best or nearest one."""

    valid: int
    best: Ranked
    works: bool


def what_would_work(inputs: TrainingInputs, nearest: Ranked) -> list[Remedy]:
    """Changes after which a search finds a plan that meets all limits with the preferred chance, cheapest first.

    If no change gives that chance, the changes with the highest one.
    """
    case, smaller = inputs.case, nearest.costs["memory_share"] > 1
    preferred = preferred_chance(case)
    of_the_plan = _of_the_space(case, nearest.structure, smaller=smaller)
    found, seen = sorted(of_the_plan, key=lambda each: each.step_time or 0.0), Counter[str]()
    for change in of_the_scenario(case, smaller=smaller):
        kind = "node" if change.kind.startswith("node ") else change.kind
        if seen[kind] >= (_MOST_NODES if kind == "node" else 1) or seen["tried"] >= _MOST_NODES_TRIED:
            continue
        seen["tried"] += kind == "node"
        outcome = _outcome(case, change.settings, nearest.structure, smaller=smaller)
        if outcome and outcome.works:
            found.append(_make_remedy([change.settings], outcome, price=change.price, note=change.note))
            seen[kind] += has_chance(found[-1].chance, preferred)
    if smaller and not any(each.price in OWN and has_chance(each.chance, preferred) for each in found):
        together = several_that_fit(inputs, nearest.structure)
        made = (_make_remedy([one.settings], one.outcome, price=one.price, note=one.note) for one in together)
        known = {each.settings for each in found}
        found = [*(each for each in made if each.settings not in known), *found]
    return safest(sorted(found, key=lambda each: get_args(Price).index(each.price)), preferred)


@record
class FittingChanges:
    """Several software changes together, and the best plan of the search with them."""

    settings: tuple[str, ...]
    price: Price
    outcome: RemedyOutcome
    note: str

    def of_a_plan(self, case: ResolvedScenario) -> tuple[str, ...]:
        """The settings for a scenario that states a plan: the changes and the found plan."""
        own = tuple(setting for setting in self.settings if not setting.startswith("search."))
        return (*own, *settings_of_plan(training_inputs(vary(case, own)), self.outcome.best))


def settings_of_plan(inputs: TrainingInputs, plan: Ranked) -> tuple[str, ...]:
    """The --set assignments that turn the scenario's own plan into another one."""
    return tuple(f"{path}={value}" for path, value in plan_settings(inputs, plan).items())


def best_that_fits(inputs: TrainingInputs, like: Structure) -> Ranked | None:
    """The best plan of a search of the same job; in a large space, only over recompute choices."""
    outcome = _outcome(inputs.case, (), like, but="recompute", smaller=True)
    return outcome.best if outcome is not None and outcome.works else None


def several_that_fit(inputs: TrainingInputs, like: Structure) -> list[FittingChanges]:
    """Pairs of software changes with which a plan fits; if no pair is enough, all changes, or else another job.

    Those with the preferred chance come first, then by price and time.
    """
    case, preferred, changes = inputs.case, preferred_chance(inputs.case), tuple(of_software(inputs.case))
    others, found = tuple(of_what_is_learnt(case)), list[FittingChanges]()
    whole = fitting_changes(case, changes, like) if changes else None  # without which no pair fits
    groups: tuple[Iterable[tuple[Change, ...]], ...] = (
        itertools.combinations(changes, 2) if whole else [],
        [changes] if whole and len(changes) > 2 else [],
        ((other,) for other in others),
        ((other, *changes) for other in others if changes),
    )
    for group in groups:
        kinds = set[str]()
        for several in group if not found else ():
            is_other = several[0].price == "job"
            if is_other and several[0].kind in kinds:
                continue
            if (each := fitting_changes(case, several, like)) is not None:
                found.append(each)
                kinds.add(several[0].kind)

    def order(each: FittingChanges) -> tuple[bool, int, float]:
        costs = each.outcome.best.costs
        return not has_chance(costs["fit_chance"], preferred), get_args(Price).index(each.price), costs["step_time"]

    return sorted(found, key=order)[:_MOST_TOGETHER]


def fitting_changes(case: ResolvedScenario, changes: Sequence[Change], like: Structure) -> FittingChanges | None:
    """Some changes together, where a plan fits with them."""
    settings = tuple(setting for change in changes for setting in change.settings)
    outcome = _outcome(case, settings, like, but="recompute", smaller=True)
    price = max((change.price for change in changes), key=get_args(Price).index)
    note = "; ".join(change.note for change in changes if change.note)
    return FittingChanges(settings, price, outcome, note) if outcome is not None and outcome.works else None


def what_would_be_valid(inputs: TrainingInputs) -> list[Remedy]:
    """Changes of one key after which a search has valid plans; for each key the nearest values."""
    case = inputs.case
    found: list[Remedy] = []
    for key in _KEYS:
        found += _remedy_if_free(case, key, None, fitting=False)
    for price, path, values in _nearby(inputs):
        if price == "money" and any(remedy.price == price for remedy in found):
            continue  # nodes or accelerators of a node, whichever is less of a change
        settings = [(f"{path}={value}",) for value in itertools.islice(values, _MOST_TRIED)]
        works = list(itertools.islice((each for each in settings if _has_plans(case, each)), _MOST_VALUES))
        outcome = _outcome(case, works[0], None) if works else None
        if outcome:
            found.append(_make_remedy(works, outcome, price=price, counted=True))
    return found


def lost_to_batch(tally: TrainingTally) -> float:
    """The share of otherwise valid plans whose global batch is no whole number of micro-batches."""
    refused = tally.refused
    reached = tally.evaluated + sum(refused[check.code] for check in LATE)
    return refused[_BATCH] / reached if reached else 0.0


def batch_that_divides(inputs: TrainingInputs, best: Ranked, tally: TrainingTally) -> list[Remedy]:
    """If the batch refuses most plans: a nearby batch that more plans divide, if it gives more tokens per second.

    best: the best plan with the current batch
    """
    if lost_to_batch(tally) < MOST_LOST:
        return []
    batch, whole = float(number(inputs.global_batch)), tally.candidates <= _MOST_CANDIDATES
    near = np.arange(np.ceil(batch * (1 - _NEAR_BATCH)), np.floor(batch * (1 + _NEAR_BATCH)) + 1)
    valid = np.zeros(len(near))
    for grid in _sub_spaces(inputs, None):
        units = np.multiply.outer(stem(inputs, grid, Counter()).block.dp, grid.sizes["micro_batch"])
        for unit, times in zip(*np.unique(units, return_counts=True), strict=True):
            valid += times * (near % unit == 0)
    chosen = float(near[np.lexsort((np.abs(near - batch), -valid))[0]])
    settings = (f"workload.global_batch={chosen:.0f}",)
    outcome = _outcome(inputs.case, settings, None if whole else best.structure, but="recompute")
    if outcome is None or not outcome.works:
        return []
    gain = outcome.best.costs["tokens_per_s"] / best.costs["tokens_per_s"]
    note = f"{percent(gain - 1, 2)} more tokens/s"
    return [_make_remedy([settings], outcome, price="quality", counted=whole, note=note)] if gain > _MORE else []


def _make_remedy(
    alternatives: Iterable[tuple[str, ...]],
    outcome: RemedyOutcome,
    *,
    price: Price,
    counted: bool = False,
    note: str = "",
) -> Remedy:
    """A remedy with memory, step time and chance to fit of its best plan."""
    costs = outcome.best.costs
    figures = costs["memory_peak"], costs["memory_share"], costs["step_time"], costs["fit_chance"]
    return Remedy(tuple(alternatives), price, *figures, valid=outcome.valid if counted else None, note=note)


# ── Keys of the plan ─────────────────────────────────────────────────────────────────────────────────────────────────


def _of_the_space(case: ResolvedScenario, like: Structure, *, smaller: bool) -> Iterator[Remedy]:
    """Remedies with values of plan keys that a list or the command line keeps out of the search."""
    for key in _KEYS:
        yield from _remedy_if_free(case, key, like, fitting=True, smaller=smaller)
    for key in _UNLISTED:
        if getattr(case.space, key) is None:
            settings = ((f"search.{key}=[{value_text(value)}]",) for value in _unlisted_values(case, key))
            outcomes = ((each, _outcome(case, each, like, but=key, smaller=smaller)) for each in settings)
            yield from itertools.islice(
                (
                    _make_remedy([each], outcome, price="time")
                    for each, outcome in outcomes
                    if outcome and outcome.works
                ),
                1,
            )


def _unlisted_values(case: ResolvedScenario, key: str) -> Iterable[Any]:
    """The values that a free search would try for a key that has only one value now."""
    if key == "cp":
        return _DEGREES if case.stack.context_parallel else ()
    offered = case.stack.offload.of if case.stack.offload is not None else []
    return ([*names] for count in range(1, len(offered) + 1) for names in itertools.combinations(offered, count))


def _remedy_if_free(
    case: ResolvedScenario, key: str, like: Structure | None, *, fitting: bool, smaller: bool = False
) -> Iterator[Remedy]:
    """A remedy with the value that an unrestricted search finds for a restricted key; none if it finds none."""
    if getattr(case.space, key) is None:
        return
    held = key in case.held.values
    loose, settings = (_without(case, key), ()) if held else (case, (f"search.{key}=null",))
    free = _outcome(loose, settings, like, but=key, smaller=smaller)
    if free is None:
        return
    value = _value(free.best, key)
    listed = f"search.{key}={value_text(None if value is None else [value])}"
    inputs = f"plan.{key}={value_text(value)}" if held else listed
    outcome = _outcome(case, (inputs,), like, but=key)
    if outcome and (outcome.works or not fitting):
        yield _make_remedy([(inputs,)], outcome, price="time" if fitting else "", counted=not fitting)


def _without(case: ResolvedScenario, key: str) -> ResolvedScenario:
    """The scenario without the command line's value of one plan key."""
    others = (text for text in case.assignments if text.strip().partition("=")[0].split(".")[0].strip() != "plan")
    held = (f"plan.{name}={value_text(value)}" for name, value in case.held.values.items() if name != key)
    return replace(case, assignments=(*others, *held))


def _value(plan: Ranked, key: str) -> Any:
    """The value of a plan's key as written; null for a size that follows from others."""
    value = plan.sizes[key] if key in SIZES else getattr(plan.structure, key)
    if isinstance(value, tuple):
        return list(value)
    return None if key == "split" and value in ("fitting", "stated") else value


# ── Numbers of the scenario ──────────────────────────────────────────────────────────────────────────────────────────


def _nearby(inputs: TrainingInputs) -> Iterator[tuple[Price, str, Iterable[int]]]:
    """Keys with numbers that decide which plans are valid, each with nearby values, nearest first."""
    case = inputs.case
    yield "quality", "workload.global_batch", _batches(inputs)
    sequence, longest = int(inputs.sequence), int(inputs.model.max_sequence)
    multiples = [sequence // unit * unit + more for unit in (64, 256, 1024) for more in (0, unit)]
    yield "quality", "workload.sequence", _nearest_first(sequence, [*multiples, longest])
    each, there = int(number(case.node.accelerators)), shipped_node(case)
    most = 2 * each if there is None else int(there.accelerators)
    nodes = int(number(case.scenario.cluster.nodes))
    within = "cluster.node.accelerators", _nearest_first(each, range(1, most + 1))
    across = "cluster.nodes", _nearest_first(nodes, range(max(1, nodes - _NEAR), nodes + _NEAR + 1))
    for path, values in (within, across) if nodes == 1 else (across, within):
        yield "money", path, values


def _nearest_first(now: int, values: Iterable[int]) -> list[int]:
    return sorted((value for value in {*values} if 0 < value != now), key=lambda value: (abs(value - now), value))


def _batches(inputs: TrainingInputs) -> list[int]:
    """Global batches that are a whole number of micro-batches for layouts that are otherwise valid."""
    batch, found = int(number(inputs.global_batch)), set[int]()
    for grid in _sub_spaces(inputs, None):
        rows = stem(inputs, grid, Counter()).block
        for count in grid.sizes["micro_batch"]:
            for unit in {*(rows.dp * count), *(rows.dp * rows.pp * count)}:
                found |= {batch // int(unit) * int(unit) + more for more in (0, int(unit))}
    return _nearest_first(batch, found)


# ── Searches ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _changed_inputs(case: ResolvedScenario, settings: Sequence[str]) -> TrainingInputs | None:
    """The inputs of a changed scenario; None where it is invalid."""
    try:
        return training_inputs(vary(case, settings))
    except CostModelError:
        return None


def _has_plans(case: ResolvedScenario, settings: Sequence[str]) -> bool:
    """Whether a changed search has a valid plan."""
    inputs = _changed_inputs(case, settings)
    if inputs is None:
        return False
    found = (valid_blocks(inputs, grid, stem(inputs, grid, Counter()), Counter()) for grid in _sub_spaces(inputs, None))
    return any(True for _ in itertools.chain.from_iterable(found))


def _outcome(
    case: ResolvedScenario, settings: Sequence[str], like: Structure | None, *, but: str = "", smaller: bool = False
) -> RemedyOutcome | None:
    """The result of a search after a change; None if it has no valid plan.

    smaller: only a fitting plan counts, and none fits if the smallest micro-batches are too large
    """
    inputs = _changed_inputs(case, settings)
    if inputs is None:
        return None
    grids_of_it = list(_sub_spaces(inputs, like, but=but))
    if smaller and not _some_fit(inputs, map(_smallest, grids_of_it)):
        return None
    tally = _tally_of_grids(inputs, grids_of_it)
    best = tally.top.rows or tally.missed_by_least
    return RemedyOutcome(tally.evaluated, best[0], bool(tally.top.rows)) if best else None


def _smallest(grid: SubSpace) -> SubSpace:
    """The space with only the smallest micro-batch."""
    return replace(grid, sizes={**grid.sizes, "micro_batch": (min(grid.sizes["micro_batch"]),)})


def _some_fit(inputs: TrainingInputs, searched: Iterable[SubSpace]) -> bool:
    """Whether any valid plan of some sub-spaces fits in memory; stops at the first."""
    found = (valid_blocks(inputs, grid, stem(inputs, grid, Counter()), Counter()) for grid in searched)
    return any(one_fits(inputs, block, counts) for each in found for block, counts in each)


def _tally_of_grids(inputs: TrainingInputs, searched: Iterable[SubSpace]) -> TrainingTally:
    """The combined result of some sub-spaces."""
    wanted = TrainingSpace(1, inputs.case.scenario.objective, safe=preferred_chance(inputs.case))
    tally = wanted.empty()
    for grid in searched:
        stretch(inputs, grid, stem(inputs, grid, tally.part().refused), wanted, tally)
    tally.settle()
    return tally


def _sub_spaces(inputs: TrainingInputs, like: Structure | None, *, but: str = "") -> Iterator[SubSpace]:
    """The search space of a scenario; if it is large, only structures that differ in one key from `like`."""
    all_of_them = list(grids(inputs))
    if sum(map(len, all_of_them)) <= _MOST_CANDIDATES:
        yield from all_of_them
        return
    for grid in all_of_them:
        if like is None:
            yield replace(grid, structures=grid.structures[:1])
        elif alike := tuple(each for each in grid.structures if _differ_only_in(each, like, but)):
            yield replace(grid, structures=alike)


def _differ_only_in(one: Structure, other: Structure, but: str) -> bool:
    return all(getattr(one, f.name) == getattr(other, f.name) for f in fields(Structure) if f.name != but)
