"""Finds the values of one scenario key that reach a target."""

from __future__ import annotations

import functools
import itertools
import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from pydantic import BaseModel

from costmodel.documents.keys.overrides import full
from costmodel.documents.keys.schema_paths import choices_of, examples_of
from costmodel.documents.reader.load_scenario import vary_any as varied
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.estimate.machine.price import AcceleratorPrice
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.compare.input_paths import InputValue, input_values
from costmodel.explore.purchase.smallest_size import evaluate_trial, trial_of_answer
from costmodel.explore.search.rank import UNWATCHED, Target, Watcher, target_of
from costmodel.explore.search.required_chance import EXPECTED, Safety
from costmodel.explore.search.value_ranges import (
    SAMPLES,
    Span,
    at_option,
    axis,
    common_step,
    end_to_pass,
    is_steady,
    last_reaching,
    next_number,
    octaves,
    rounded,
    samples,
    samples_between,
    samples_beyond,
    span,
)
from costmodel.explore.search.worker_pools import SearchStopped
from costmodel.explore.workload_interface import AnswerSummary, PlanAnswer, Trial, Workload
from costmodel.ground.errors import CostModelError, Fault, Place, fail
from costmodel.ground.parsing import in_ones
from costmodel.ground.record import record

_QUANTITY = re.compile(r"([-+0-9.,_eE]+?)\s*([^-+0-9.,_].*)?\Z")
_FEWEST_DIGITS, _MOST_DIGITS = 4, 12  # of an answer
_MOST_EXACT = 1e7  # whole numbers below are not rounded
_EXAMPLE = "mfu>=45 %' or 'tpot<=25 ms"
_MOST_AGAINST = 4  # codes that are stated in figures
_WIDE = 64.0
_ABOUT = 10.0
NO_PLAN = "C004"  # a search that finds no valid plan


@record
class ReachableRange:
    """A range of values that reach the target; an end is open where the searched range ends."""

    low: str
    high: str
    open_low: bool
    open_high: bool


@record
class ExplainedTrial:
    """A value with its whole answer, so that the reasons against it can show their numbers."""

    text: str
    point: Trial
    answer: PlanAnswer | None


@dataclass
class SolveResult:
    """The ranges of values that reach the target, and how they were found."""

    asked: Workload
    path: str
    target: Target
    now: InputValue | None
    tried: tuple[str, str]
    how: Literal["bisection", "scan"] = "scan"
    every: bool = False  # whether no value in between was left out
    step: float = 1.0  # of whole numbers: the others make no plan
    stopped: bool = False
    reaches: list[ReachableRange] = field(default_factory=list)
    ends: list[tuple[Trial, Trial]] = field(default_factory=list)  # the trials at both ends of each stretch
    beyond: ExplainedTrial | None = None  # the first value past the last stretch
    against: dict[str, tuple[int, ExplainedTrial]] = field(default_factory=dict)  # by code, where none reaches it
    nearest: tuple[str, Trial] | None = None
    leads_past: str | None = None  # the end of a range past which values come nearer; empty where none does
    evaluated: int = 0
    invalid: int = 0  # how many of these values make no valid plan
    faulty: dict[str, Fault] = field(default_factory=dict)  # and values that cannot stand there
    best: bool = False  # plan of a search each time, instead of the scenario's own
    safe: float | None = None  # chance to fit and to reach the target that is asked for
    is_safe: bool = True  # whether the answer has it
    expected: SolveResult | None = None  # the answer by expected figures
    plan: AnswerSummary | None = None  # that of the answer
    price: AcceleratorPrice | None = None  # at the answer, or at what comes nearest

    @property
    def answer(self) -> str | None:
        """The value at an edge: the smallest that reaches the target, or the largest if smaller ones do too."""
        if not self.reaches:
            return None
        is_load = self.path.startswith("workload.")  # the more of it the better
        reach = self.reaches[-1 if is_load else 0]
        return reach.high if reach.open_low and (is_load or not reach.open_high) else reach.low


def solve(
    workload: Workload,
    vary: str,
    wanted: str,
    *,
    best: bool = False,
    alone: bool = False,
    pace: Watcher = UNWATCHED,
) -> SolveResult:
    """The values of a key with which plans work and reach a target, with the preferred chance if any value has it.

    best: with the best plan at each value. alone: whether flags are given without a scenario
    """
    path, _, written = vary.partition("=")
    path = full(path.strip())
    path = path if written.strip() else workload.varied_key(path)
    best = workload.by_search((path,), best=best, alone=alone)
    safety, shared = workload.safety(path), dict[str, Trial]()

    def ask(chance: Safety) -> _SolveTrials:
        return _find_values(workload, path, written.strip(), wanted, chance, shared, best=best, pace=pace)

    if safety.is_stated or safety.share is None:
        return replace(_with_full_answers(ask(safety)), safe=safety.share)
    plain = ask(EXPECTED)
    safe = ask(safety) if plain.succeeds else plain
    if safe is plain or not safe.succeeds:
        return replace(_with_full_answers(plain), safe=safety.share, is_safe=False)
    return replace(_with_full_answers(safe), safe=safety.share, expected=plain.found)


@dataclass
class _SolveTrials:
    """The values that one answer tries, and its result.

    shared: trials that the answer with a chance and the one by expected figures both use; None if their plans differ
    """

    found: SolveResult
    safety: Safety
    shared: dict[str, Trial] | None
    pace: Watcher
    values: list[str]  # of a list
    seen: dict[str, Trial] = field(default_factory=dict)

    @property
    def succeeds(self) -> bool:
        """Whether some value reaches the target, and the search was not stopped."""
        return bool(self.found.reaches) and not self.found.stopped

    def at(self, text: str, *, alone: bool = False) -> Trial:
        """The trial of a value; alone: no other answer tries this value."""
        if text not in self.seen:
            self.pace.go(len(self.seen), max(len(self.seen) + 1, len(self.values) or SAMPLES))
            known = None if self.shared is None else self.shared.get(text)
            self.seen[text] = known or self._tried(text, alone=alone)
        return self.seen[text]

    def beside(self, text: str) -> Trial:
        """The trial of a value outside the range, which cannot be an answer."""
        return evaluate_trial(
            self.found.asked, [f"{self.found.path}={text}"], best=self.found.best, results=(self.found.target.column,)
        )

    def _tried(self, text: str, *, alone: bool) -> Trial:
        """The trial of one value of the key."""
        asked, column = self.found.asked, self.found.target.column
        bands = self.safety.share is not None or (self.shared is not None and not alone)
        ends = (f"{column}_low", f"{column}_high", asked.chance) if bands else ()
        demand = self.safety.demand if self.shared is None else ()
        settings = [f"{self.found.path}={text}", *demand]
        trial = evaluate_trial(asked, settings, best=self.found.best, results=(column, *ends))
        if self.shared is not None and bands:
            self.shared[text] = trial
        return trial


def _parsed_target(workload: Workload, wanted: str, safety: Safety) -> Target:
    """The target in a text; without a chance if the target's result already includes it."""
    goal = target_of(wanted, workload.columns, _EXAMPLE, safety.share)
    demanded = bool(safety.demand) or safety.is_stated
    return replace(goal, share=None) if demanded and goal.column in workload.within_limits else goal


def _has_same_plan_with_chance(workload: Workload, column: str, *, best: bool) -> bool:
    """Whether demanding a chance changes neither plans nor results."""
    looked_at = {column, *(limit.column for limit in stated_limits(workload.case.scenario.limits))}
    return not best and looked_at.isdisjoint(workload.within_limits)


def _find_values(
    workload: Workload,
    path: str,
    stated: str,
    wanted: str,
    safety: Safety,
    shared: dict[str, Trial],
    *,
    best: bool,
    pace: Watcher,
) -> _SolveTrials:
    """The values that reach a target: by bisection if reaching it changes once, else by a scan."""
    goal, case = _parsed_target(workload, wanted, safety), workload.case
    _check_path_exists(case, path)
    now, written = input_values(case).get(path), stated or workload.values_to_try(path)
    searched = _span_in_ones(span(written, path) if written else _default_range(case, path, now))
    listed = searched is None or bool(searched.step)
    values = list(axis(f"{path}={written}").values) if listed else []
    is_one = not safety.is_stated and _has_same_plan_with_chance(workload, goal.column, best=best)
    goal = replace(goal, chance=workload.chance) if is_one and safety.demand else goal
    solution = SolveResult(workload, path, goal, now, (values[0], values[-1]) if listed else ("", ""), best=best)
    trials = _SolveTrials(solution, safety, shared if is_one else None, pace, values)
    seen = trials.seen
    try:
        if searched is None or listed:
            solution.reaches = _ranges_that_reach(values, [goal.reached(trials.at(value)) for value in values])
        else:
            _search_range(trials, searched, whole=_is_whole(case, path, searched), stated=bool(written))
    except SearchStopped:
        possible = [text for text, tried in seen.items() if tried.fault is None]
        _complete_after_stop(solution, list(seen) if listed else sorted(possible, key=_number_of_text), seen)
    _complete_result(solution, seen, wanted)
    return trials


def _check_path_exists(case: LoadedScenario, path: str) -> None:
    """Raises a fault for a path that the scenario does not have."""
    try:
        varied(case, [f"{path}=1"])
    except CostModelError as error:
        lost = [replace(fault, place=_place_of_path(path)) for fault in error.faults if fault.code in ("C001", "D003")]
        if lost:
            raise CostModelError(*lost) from None


def _place_of_path(path: str) -> Place:
    """The place on the command line of the --over path."""
    return Place("command line", 0, 8, path, f"--over {path}", max(1, len(path)))


def _complete_after_stop(solution: SolveResult, texts: Sequence[str], seen: Mapping[str, Trial]) -> None:
    """Completes the result from the values tried until the user stopped."""
    solution.stopped, solution.how = True, "scan"
    solution.reaches = _ranges_that_reach(texts, [solution.target.reached(seen[text]) for text in texts])
    solution.tried = (texts[0], texts[-1]) if texts else solution.tried


def _number_of_text(text: str) -> float:
    """The number of a value as text, such as "25 GB/s"."""
    return float(text.partition(" ")[0])


def _default_range(case: LoadedScenario, path: str, now: InputValue | None) -> Span:
    """The default range to search: from a fraction to a multiple of the stated value."""
    match = _QUANTITY.match(now.text) if now is not None and isinstance(now.value, float) else None
    if match is None and now is not None and isinstance(now.value, float) and now.value.is_integer():
        match = _QUANTITY.match(f"{now.value:.0f}")  # of a mapping that was set as a whole
    if now is None or match is None or not now.value:
        hint = f"give a range: --over {shlex.quote(f'{path}={_values_to_suggest(case, path, now)}')}"
        raise fail("C012", f"'{path}' has no number to start from", _place_of_path(path), hint)
    number, unit = float(match[1].replace(",", "").replace("_", "")), match[2] or ""
    whole = number.is_integer() and in_ones(unit) is not None
    low = max(1.0, float(math.floor(number / _WIDE))) if whole else number / _WIDE
    high = number * _WIDE
    if now.value <= 1 and not whole and unit in ("", "%"):
        high = number / now.value
    return Span(low, high, unit)


def _values_to_suggest(case: LoadedScenario, path: str, now: InputValue | None) -> str:
    """Example values for a key without a stated value: its choices, or a range in its unit."""
    choices = choices_of(type(case.scenario), path)
    if choices:
        return ",".join(choices)
    for offered in _ranges_to_try(type(case.scenario), path, now):
        if all(_accepts(case, path, offered.text(end)) for end in (offered.low, offered.high)):
            return f"{offered.low:g}..{offered.text(offered.high)}"
    return "A,B"


def _ranges_to_try(scenario: type[BaseModel], path: str, now: InputValue | None) -> list[Span]:
    """Ranges to try, best first: from a stated zero, around the examples of the key, or any."""
    samples = examples_of(scenario, path)
    if samples is None:
        return []
    zero = _QUANTITY.match(now.text) if now is not None else None
    spans = [] if zero is None else [Span(0.0, 100.0, zero[2] or "")]
    for sample in samples:
        number, _, unit = sample.partition(" ")
        spans.append(Span(float(number) / _ABOUT, float(number) * _ABOUT, unit))
    return [*spans, Span(1.0, 100.0, ""), Span(1.0, 100.0, "%")]


def _accepts(case: LoadedScenario, path: str, text: str) -> bool:
    """Whether --set accepts the value at the path."""
    try:
        varied(case, [f"{path}={text}"])
    except CostModelError:
        return False
    return True


def _span_in_ones(searched: Span | None) -> Span | None:
    """The span of a count, such as 1..15 T, in ones, so that halves of it stay whole."""
    ones = in_ones(searched.unit) if searched is not None and not searched.step else None
    if searched is None or ones is None:
        return searched
    multiple, word = ones
    return Span(searched.low * multiple, searched.high * multiple, word)


def _range_end_text(searched: Span, number: float) -> str:
    """An end of the tried range as text: exact for whole numbers, else with four digits."""
    return searched.text(number if number % 1 == 0 else float(f"{number:.4g}"))


def _search_range(trials: _SolveTrials, searched: Span, *, whole: bool, stated: bool) -> None:
    """Tries samples of a range (beyond its ends too, unless the user stated it), then finds the edges between them."""
    found, at, beside = trials.found, trials.at, partial(trials.at, alone=True)
    step = _step_of_valid_numbers(trials, searched) if whole and searched.high - searched.low >= SAMPLES else None
    found.step = step or 1.0
    searched = searched.in_multiples(found.step)

    def excess(number: float) -> float:
        return found.target.excess(at(searched.text(number)))

    numbers = octaves(searched) if step is not None else []
    if not is_steady([excess(number) for number in numbers]):
        numbers = samples(searched, whole=whole)
    if not stated and searched.unit != "%" and searched.high != 1:
        numbers = sorted({*numbers, *samples_beyond(numbers, excess, whole=whole)})
    every = whole and len(numbers) >= numbers[-1] - numbers[0] + 1
    if not every:
        numbers = sorted({*numbers, *samples_between(numbers, excess, whole=whole)})
    past = end_to_pass({number: excess(number) for number in numbers}, whole=whole)
    found.leads_past = "" if past is None else _range_end_text(searched, past)
    texts = [searched.text(number) for number in numbers]
    found.tried = (_range_end_text(searched, numbers[0]), _range_end_text(searched, numbers[-1]))
    reached = [found.target.reached(at(text)) for text in texts]
    changes = sum(before != after for before, after in itertools.pairwise(reached))
    if every:
        found.reaches, found.every = _ranges_that_reach(texts, reached), True
        return
    found.how = "bisection" if changes == 1 else "scan"

    def over(number: float, digits: int) -> float:
        return found.target.excess(beside(searched.text(number, digits)))

    def edge(inside: float, outside: float) -> str:
        """The last value on the inner side that reaches the target, in the fewest digits that do."""
        ends = (inside, excess(inside)), (outside, excess(outside))
        is_exact = whole and max(inside, outside) * searched.of < _MOST_EXACT
        for digits in range(len(f"{_MOST_EXACT:.0f}") if is_exact else _FEWEST_DIGITS, _MOST_DIGITS):
            looked_at = _MOST_DIGITS if whole else digits
            number = last_reaching(*ends, partial(over, digits=looked_at), looked_at, whole=whole)
            nearest = rounded(number, digits)
            for each in (nearest, next_number(nearest, digits, upward=inside > outside)):
                if over(each, digits) <= 0:
                    return searched.text(each, digits)
        return searched.text(inside)

    for flag, group in itertools.groupby(range(len(texts)), key=lambda place: reached[place]):
        places = list(group)
        if flag:
            first, last = places[0], places[-1]
            low = texts[0] if first == 0 else edge(numbers[first], numbers[first - 1])
            high = texts[-1] if last == len(texts) - 1 else edge(numbers[last], numbers[last + 1])
            found.reaches.append(ReachableRange(low, high, first == 0, last == len(texts) - 1))


def _step_of_valid_numbers(trials: _SolveTrials, searched: Span) -> float | None:
    """The step between whole numbers that give a valid plan, such as the product of degrees; None if there is none."""
    now = trials.found.now
    is_stated = now is not None and isinstance(now.value, float)
    valid = float(now.value) if now is not None and is_stated else 2.0 ** round(math.log2(searched.high) - 1)

    def trial(number: float) -> Trial:
        text = searched.text(number)
        inside = searched.low <= number <= searched.high
        return trials.at(text) if inside else trials.beside(text)

    if trial(valid).works:
        return common_step(valid, lambda number: trial(number).works)
    return common_step(valid, lambda number: not (trial(number).refused or trial(number).fault))


def _is_whole(case: LoadedScenario, path: str, searched: Span) -> bool:
    """Whether a key takes only whole numbers, because a number in between is refused."""
    if in_ones(searched.unit) is None or not searched.low.is_integer() or not searched.high.is_integer():
        return False
    between = math.floor((searched.low + searched.high) / 2) + 0.5
    try:
        varied(case, [f"{path}={searched.text(between, 17)}"])
    except CostModelError as error:
        return "whole number" in error.faults[0].sentence
    return False


def _ranges_that_reach(values: Sequence[str], reached: Sequence[bool]) -> list[ReachableRange]:
    """Ranges of neighbouring values that all reach the target."""
    stretches = []
    for flag, group in itertools.groupby(range(len(values)), key=lambda place: reached[place]):
        places = list(group)
        if flag:
            first, last = places[0], places[-1]
            stretches.append(ReachableRange(values[first], values[last], first == 0, last == len(values) - 1))
    return stretches


def _complete_result(solution: SolveResult, seen: Mapping[str, Trial], wanted: str) -> None:
    """Fills in how many values were tried, and the nearest value if none reaches the target."""
    solution.evaluated = len(seen)
    at_answer = seen.get(solution.answer or "")
    solution.plan = None if at_answer is None else at_answer.kept
    faults = {text: tried.fault for text, tried in seen.items() if tried.fault is not None}
    solution.faulty = {text: fault for text, fault in faults.items() if fault.code != NO_PLAN}
    solution.invalid = len(faults) - len(solution.faulty) + sum(bool(tried.refused) for tried in seen.values())
    if seen and len(solution.faulty) == len(seen) and not solution.stopped:
        raise at_option("--over", [solution.path], CostModelError(next(iter(solution.faulty.values()))))
    column = solution.target.column
    working = {text: tried for text, tried in seen.items() if tried.works}
    known = [item for item in working.items() if not math.isnan(item[1].costs.get(column, math.nan))]
    if working and not known:
        missing, sentence = solution.asked.missing_input(column), f"{column} is not known of these plans"
        option = Place("command line", 0, 7, "", f"--for {wanted}", max(1, len(wanted)))
        hint = missing or f"explain {column} states which plans have it"
        raise fail("C004", sentence, Place(solution.asked.case.file) if missing else option, hint)
    if not solution.reaches and known:
        solution.nearest = min(known, key=lambda item: solution.target.excess(item[1]))
    shown = at_answer if solution.nearest is None else solution.nearest[1]
    solution.price = None if shown is None or shown.about is None else shown.about.price


def _with_full_answers(trials: _SolveTrials) -> SolveResult:
    """Adds full answers at the ends of ranges, and the reasons against the first value past them."""
    solution, seen, values = trials.found, trials.seen, trials.values
    if solution.stopped:
        return solution
    whole = partial(_explained_trial, solution, trials.safety)
    full = functools.cache(partial(_full_trial, solution, trials.safety))
    solution.ends = [(full(reach.low), full(reach.high)) for reach in solution.reaches]
    if solution.reaches and not values and not solution.reaches[-1].open_high:
        high = _number_of_text(solution.reaches[-1].high)
        past = min((text for text in seen if _number_of_text(text) > high and not solution.target.reached(seen[text])),
                   key=_number_of_text, default=None)  # fmt: skip
        solution.beyond = None if past is None else whole(past)
    if not solution.reaches:
        counts = Counter(code for trial in seen.values() for code in trial.codes or ("",))
        for code, count in counts.most_common(_MOST_AGAINST):
            text = next(text for text, trial in seen.items() if code in (trial.codes or ("",)))
            solution.against[code] = count, whole(text)
    return solution


def _full_trial(solution: SolveResult, safety: Safety, text: str) -> Trial:
    """The trial of a value, with all results."""
    return evaluate_trial(solution.asked, [f"{solution.path}={text}", *safety.demand], best=solution.best)


def _explained_trial(solution: SolveResult, safety: Safety, text: str) -> ExplainedTrial:
    """The full answer at one value of the key; if it is invalid, the faults."""
    settings = [f"{solution.path}={text}", *safety.demand]
    try:
        there = solution.asked.for_case(varied(solution.asked.case, settings))
        answer = there.answer(best=solution.best)
        return ExplainedTrial(text, trial_of_answer(there, settings, answer), answer)
    except CostModelError as error:
        return ExplainedTrial(text, Trial(tuple(settings), error.faults[0]), None)
