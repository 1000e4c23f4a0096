"""A serving scenario with other values: along leaves, along the rate, and the values that reach a target."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from costmodel.documents.keys.overrides import full
from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.documents.schemas.serving.serving_plan import ServingPlan
from costmodel.documents.schemas.serving.serving_workload import LOADS
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.estimate.serving.predict_serving import answer as answer_of
from costmodel.estimate.serving.result_columns import COLUMNS, machine_name
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.explore.explain.unknown_word import unknown
from costmodel.explore.search.combinations import combinations, count_combinations, fail_without_answers
from costmodel.explore.search.ranges import Axis, Span, at_option, axis, span
from costmodel.explore.serving.best_layout import states_no_plan, with_best_layout
from costmodel.explore.serving.fleets import counts_needed, gpus_of, settings_of
from costmodel.explore.serving.search_layouts import UNSTABLE
from costmodel.ground.errors import CostModelError, Fault, Place, fail
from costmodel.ground.parsing import UnitError, parse
from costmodel.ground.record import record

MOST_POINTS = 20_000
_RARE = 1e-6  # requests a second of an engine that is empty when one comes
_TARGET = re.compile(r"\s*([a-z_0-9]+)\s*(<=|>=|≤|≥)\s*(.+?)\s*\Z")
_FOUND_WITHIN = 1e-4  # of the highest rate that keeps the limits, which is found between points of a table
_SET_RATE = "--set workload.rate="
_SAMPLES, _HALVINGS, _DIGITS = 25, 40, 4


@record
class ServingTrial:
    """A scenario with some settings: its results, or what is wrong with it."""

    settings: tuple[str, ...]
    answer: ServingAnswer | None = None
    fault: Fault | None = None
    alone: ServingAnswer | None = None  # of requests one at a time, where no number of replicas keeps the limits

    @property
    def stands(self) -> bool:
        """Whether it is valid, fits and answers its load, whatever the limits."""
        return self.answer is not None and not self.answer.refused and not UNSTABLE & {*self.answer.broken}

    @property
    def works(self) -> bool:
        """Whether it keeps every limit besides."""
        return self.stands and self.answer is not None and not self.answer.broken

    @property
    def codes(self) -> tuple[str, ...]:
        """What speaks against it."""
        if self.fault is not None:
            return (self.fault.code,)
        if self.alone is not None:
            return self.alone.broken
        return () if self.answer is None else self.answer.refused or self.answer.broken


def remarks_of(trials: Sequence[ServingTrial]) -> list[str]:
    """The codes of remarks on all trials that have an answer, one after the other."""
    answers = (trial.answer for trial in trials)
    return [code for answer in answers if answer is not None and not answer.refused for code in answer.remarked]


@record
class SweptServing:
    """All combinations in the order of the axes, the last changing fastest."""

    case: ServingCase
    axes: tuple[Axis, ...]
    shown: tuple[str, ...]
    trials: tuple[ServingTrial, ...]
    best: bool = False  # whether each has the best plan of its own


SHOWN = ("rate_within_slo_per_s", "ttft", "ttft_p99", "tpot", "worst_gap")


def tried(case: LoadedScenario, settings: Sequence[str], *, best: bool = False) -> ServingTrial:
    """The answer with some settings and, if asked for, the best plan there; or the first thing wrong with them."""
    try:
        varied = vary_any(case, settings)
        return ServingTrial(tuple(settings), predict(serving(with_best_layout(varied) if best else varied)))
    except CostModelError as error:
        return ServingTrial(tuple(settings), fault=error.faults[0])


def sweep(case: ServingCase, axes: Sequence[Axis], show: str) -> SweptServing:
    """The scenario at every combination; a fault only when none of them has an answer."""
    count_combinations(axes, MOST_POINTS)
    best = states_no_plan(case)
    trials = tuple(tried(case, settings, best=best) for settings in combinations(axes))
    fail_without_answers(axes, [trial.fault for trial in trials])
    names = [part.strip() for part in show.split(",") if part.strip()]
    return SweptServing(case, tuple(axes), tuple(dict.fromkeys(map(column, names))) or SHOWN, trials, best)


def column(word: str) -> str:
    """The result that a word names."""
    named = {name: name for name in COLUMNS} | {machine_name(name): name for name in COLUMNS}
    if word not in named:
        raise unknown(word, list(named))
    return named[word]


def around_rate(case: ServingCase) -> list[str]:
    """Rates from a quarter of the stated one to four times as much; a fault where none is stated."""
    workload = case.scenario.workload
    rate = workload.rate
    if rate is None:
        stated = next(name for name in LOADS if getattr(workload, name) is not None)
        sentence = f"a scenario that serves is scaled by its rate; this one states {stated}"
        hint = "--set workload.rate=…, and null for the other load; solve --vary plan.replicas=1..64 sizes it as it is"
        raise fail("C010", sentence, None, hint)
    return [f"{float(rate) * factor:g} /s" for factor in (0.25, 0.5, 1, 2, 4)]


def by_rate(case: ServingCase, rates: Sequence[str]) -> list[ServingTrial]:
    """The scenario's plan at each rate, or the best one there, with as many replicas and nodes as keep every limit."""
    found = []
    group = _of_each(case.scenario.plan)
    for written in rates:
        rate = f"workload.rate={written}"
        held = with_best_layout(vary_any(case, [rate])) if states_no_plan(case) else case
        trial = tried(held, [rate, *group])
        if trial.answer is None or trial.answer.refused:
            found.append(trial)
            continue
        needed = trial.answer.costs["replicas_needed"]
        if not math.isfinite(needed):
            alone = _without_load(trial.answer)
            found.append(replace(trial, alone=alone if alone.broken else None))
            continue
        found.append(_sized(held, trial.answer, rate))
    _fail_without_rates([trial.fault for trial in found])
    return found


def _sized(case: LoadedScenario, found: ServingAnswer, rate: str) -> ServingTrial:
    """As many replicas as a rate needs, and the nodes for them; some more where the share of each rounds up above a
    limit.
    """
    trials = []
    needed = counts_needed(found.costs)
    for factor, more in ((1.0, 0), (1.0, 1), (1 + _FOUND_WITHIN, 0)):
        counts = {name: math.ceil(max(count, 1.0) * factor) + more for name, count in needed.items()}
        nodes = math.ceil(gpus_of(found, counts) / float(case.node.accelerators))
        trials.append(tried(case, [rate, *settings_of(counts), f"cluster.nodes={nodes}"]))
        if trials[-1].fault is not None or trials[-1].works:
            return trials[-1]
    return trials[0]


def _fail_without_rates(faults: Sequence[Fault | None]) -> None:
    """The fault of the first rate, at the option that states it, where every rate has one."""
    first = faults[0]
    if first is None or not all(faults):
        return
    place = first.place
    if place is not None and place.text.startswith(_SET_RATE):
        text = place.text.removeprefix(_SET_RATE).removesuffix(" /s")
        column = place.column - len(_SET_RATE) + len("--rate ")
        place = replace(place, text=f"--rate {text}", column=column, width=min(place.width, len(text)))
    raise CostModelError(replace(first, place=place))


def _of_each(plan: ServingPlan | None) -> list[str]:
    """Settings of one instance of each kind, where a plan leaves open how many."""
    halves = {} if plan is None else {"prefill": plan.prefill, "decode": plan.decode}
    is_open = all(half is not None and "replicas" not in half.model_fields_set for half in halves.values())
    return [f"plan.{name}.replicas=1" for name in halves] if is_open else []


def _without_load(found: ServingAnswer) -> ServingAnswer:
    """The same plan where hardly any request meets another."""
    case = found.inputs.case
    workload = case.scenario.workload.model_copy(update={"rate": _RARE})
    scenario = case.scenario.model_copy(update={"workload": workload})
    return answer_of(inputs_of(replace(case, scenario=scenario)), found.plan)


@record
class ServingTarget:
    """A result and the bound it should reach."""

    column: str
    at_least: bool
    bound: float

    def reached(self, trial: ServingTrial) -> bool:
        """Whether a plan that keeps every limit reaches it."""
        if trial.answer is None or not trial.works:
            return False
        value = trial.answer.costs[self.column]
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass
class SolvedServing:
    """Which values of a leaf reach a target: ends of the stretch, and the trials there and beyond."""

    case: ServingCase
    path: str
    target: ServingTarget
    reaches: list[tuple[str, str]] = field(default_factory=list)
    inside: list[tuple[ServingTrial, ServingTrial]] = field(default_factory=list)
    beyond: ServingTrial | None = None  # the first value on the far side that does not reach it
    tried: tuple[str, str] = ("", "")
    evaluated: int = 0


def target(text: str) -> ServingTarget:
    """`ttft_p99<=500 ms` taken apart."""
    match = _TARGET.match(text)
    place = Place("command line", 0, 7, "", f"--for {text}", max(1, len(text)))
    if match is None:
        raise fail("C011", f"'{text}' is not result>=value or result<=value", place, "--for 'ttft_p99<=500 ms'")
    named = column(match[1])
    try:
        bound = parse(match[3], COLUMNS[named].written)
    except UnitError as error:
        raise fail("C011", str(error), place, "for example --for 'ttft_p99<=500 ms'") from None
    return ServingTarget(named, match[2] in (">=", "≥"), bound)


def solve(case: ServingCase, vary: str, wanted: str) -> SolvedServing:
    """Which values of a leaf reach a target: of a list those that do, of a range where that changes."""
    goal = target(wanted)
    path, _, written = vary.partition("=")
    path = full(path.strip())
    searched = span(written) if written.strip() else _around(case, path)
    if searched is None or searched.step:
        return _listed(case, path, goal, list(axis(vary, "--vary").values))
    found = SolvedServing(case, path, goal)
    seen: dict[str, ServingTrial] = {}
    best = states_no_plan(case)

    def at(number: float) -> bool:
        text = searched.text(number, 6)
        if text not in seen:
            seen[text] = tried(case, [f"{path}={text}"], best=best)
        return goal.reached(seen[text])

    whole = _is_whole(case, path, searched)
    numbers = sorted({float(round(number)) for number in _samples(searched)}) if whole else _samples(searched)
    reached = [at(number) for number in numbers]
    found.tried = (searched.text(numbers[0], _DIGITS), searched.text(numbers[-1], _DIGITS))
    if all(trial.fault is not None for trial in seen.values()):
        fault = next(iter(seen.values())).fault
        assert fault is not None
        raise at_option("--vary", [path], CostModelError(fault))
    for flag, group in itertools.groupby(range(len(numbers)), key=lambda place: reached[place]):
        places = list(group)
        if not flag:
            continue
        first, last = places[0], places[-1]
        low = numbers[first] if first == 0 else _edge(numbers[first], numbers[first - 1], at, whole=whole)[0]
        high, out = numbers[last], None
        if last < len(numbers) - 1:
            high, out = _edge(numbers[last], numbers[last + 1], at, whole=whole)
            high = high if whole else _rounded_inside(high, at)
        found.reaches.append((searched.text(low, 6), searched.text(high, 6)))
        found.inside.append((seen[searched.text(low, 6)], seen[searched.text(high, 6)]))
        found.beyond = seen[searched.text(out, 6)] if out is not None else None
    found.evaluated = len(seen)
    return found


def _is_whole(case: ServingCase, path: str, searched: Span) -> bool:
    """Whether only whole numbers may stand there: one between two is refused for that alone."""
    between = math.floor((searched.low + searched.high) / 2) + 0.5
    fault = tried(case, [f"{path}={searched.text(between, 17)}"]).fault
    return searched.low.is_integer() and fault is not None and "whole number" in fault.sentence


def _rounded_inside(number: float, at: Callable[[float], bool]) -> float:
    """A value of few digits that still reaches the target, just inside the last one that does."""
    last = 10.0 ** (math.floor(math.log10(abs(number))) + 1 - _DIGITS)
    nearest = (float(f"{candidate:.{_DIGITS}g}") for candidate in (number, number - last))
    return next((candidate for candidate in nearest if at(candidate)), number)


def _edge(inside: float, outside: float, at: Callable[[float], bool], *, whole: bool) -> tuple[float, float]:
    """The last value found on the inner side, and the first on the outer one, to six digits."""
    for _ in range(_HALVINGS):
        middle = float(f"{(inside + outside) / 2:.6g}")
        middle = float(math.floor(middle)) if whole else middle
        if middle in (inside, outside):
            break
        inside, outside = (middle, outside) if at(middle) else (inside, middle)
    return inside, outside


def _samples(searched: Span) -> list[float]:
    """Numbers over a range, of equal ratio where it has no zero."""
    low, high = searched.low, searched.high
    shares = [place / (_SAMPLES - 1) for place in range(_SAMPLES)]
    numbers = [low * (high / low) ** part if low > 0 else low + (high - low) * part for part in shares]
    return [float(f"{number:.6g}") for number in (*numbers[:-1], high)]


def _listed(case: ServingCase, path: str, goal: ServingTarget, values: list[str]) -> SolvedServing:
    """Of values written out those that reach a target."""
    trials = [tried(case, [f"{path}={value}"], best=states_no_plan(case)) for value in values]
    found = SolvedServing(case, path, goal, tried=(values[0], values[-1]), evaluated=len(values))
    for flag, group in itertools.groupby(range(len(values)), key=lambda place: goal.reached(trials[place])):
        places = list(group)
        if flag:
            found.reaches.append((values[places[0]], values[places[-1]]))
            found.inside.append((trials[places[0]], trials[places[-1]]))
    return found


def _around(case: ServingCase, path: str) -> Span:
    """The default range of the load: around the stated rate; without one, the user must give a range."""
    rate = case.scenario.workload.rate
    if path == "workload.rate" and rate is not None:
        return Span(float(f"{rate / 64:.6g}"), float(f"{rate * 64:.6g}"), "/s")
    place = Place("command line", 0, 8, path, f"--vary {path}", max(1, len(path)))
    raise fail("C012", "no range to search", place, f"for example --vary '{path}=A..B', or a list of values")
