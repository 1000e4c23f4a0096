"""The question turned round: which values of one leaf reach a target."""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from costmodel.documents.keys.overrides import full
from costmodel.documents.keys.schema_paths import choices_of, examples_of
from costmodel.documents.reader.override_case import vary as varied
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.results import TRAINING_COLUMNS
from costmodel.documents.schemas.scenario import Scenario
from costmodel.estimate.evaluate.evaluate_plans import missing_input
from costmodel.estimate.machine.price import Price
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.explore.compare.input_paths import InputValue, leaves
from costmodel.explore.compare.select_plan import by_search
from costmodel.explore.safety import Safety, answered_safely, safety_of
from costmodel.explore.search.engine import SearchStopped
from costmodel.explore.search.progress import UNWATCHED, Watcher
from costmodel.explore.search.range_samples import SAMPLES, end_to_pass, samples, samples_between, samples_beyond
from costmodel.explore.search.ranges import Span, at_option, axis, span
from costmodel.explore.search.target import Target, target_of
from costmodel.explore.vary.sweep import SweepPoint, point, tried
from costmodel.ground.errors import CostModelError, Fault, Place, fail
from costmodel.ground.parsing import in_ones
from costmodel.ground.record import record

_QUANTITY = re.compile(r"([-+0-9.,_eE]+?)\s*([^-+0-9.,_].*)?\Z")
_HALVINGS = 60
_WIDE = 64.0
_ABOUT = 10.0
NO_PLAN = "C004"  # a search that finds no valid plan


@record
class ReachableRange:
    """Values from one to another that reach the target; an end is open where it is that of what was searched."""

    low: str
    high: str
    open_low: bool
    open_high: bool


@dataclass
class SolveResult:
    """Every stretch of values that reaches the target, and how it was looked for."""

    case: ResolvedScenario
    path: str
    target: Target
    now: InputValue | None
    tried: tuple[str, str]
    how: Literal["bisection", "scan"] = "scan"
    every: bool = False  # whether no value in between was left out
    stopped: bool = False
    reaches: list[ReachableRange] = field(default_factory=list)
    nearest: tuple[str, SweepPoint] | None = None
    leads_past: str | None = None  # the end of a range past which values come nearer; empty where none does
    evaluated: int = 0
    invalid: int = 0  # how many of these values make no valid plan
    faulty: dict[str, Fault] = field(default_factory=dict)  # and values that cannot stand there
    best: bool = False  # plan of a search each time, instead of the scenario's own
    safe: float | None = None  # chance to fit and to reach the target that is asked for
    is_safe: bool = True  # whether the answer has it
    expected: SolveResult | None = None  # the answer by expected figures
    plan: Block | None = None  # that of the answer
    price: Price | None = None  # at the answer, or at what comes nearest

    @property
    def answer(self) -> str | None:
        """The value at an edge: the smallest that reaches the target, or the largest where smaller ones do."""
        if not self.reaches:
            return None
        reach = self.reaches[0]
        return reach.high if reach.open_low and not reach.open_high else reach.low


def solve(
    case: ResolvedScenario, vary: str, wanted: str, *, best: bool = False, pace: Watcher = UNWATCHED
) -> SolveResult:
    """Which values of a leaf reach a target, and plans that fit, with the preferred chance where any does."""
    safety = safety_of(case, full(vary.partition("=")[0].strip()))
    answered = answered_safely(
        safety,
        lambda asked: _solved(case, vary, wanted, asked, best=best, pace=pace),
        lambda found: bool(found.reaches) and not found.stopped,
    )
    return replace(answered.found, safe=safety.share, is_safe=answered.is_safe, expected=answered.expected)


def _solved(
    case: ResolvedScenario, vary: str, wanted: str, safety: Safety, *, best: bool, pace: Watcher
) -> SolveResult:
    """The values that reach a target: by bisection where reaching changes once, else by scan."""
    goal = target_of(wanted, TRAINING_COLUMNS, "mfu>=45 %", safety.share)
    path, _, written = vary.partition("=")
    path = full(path.strip())
    _known(case, path)
    best = by_search(case, (path,), best=best)
    now = leaves(case).get(path)
    seen: dict[str, SweepPoint] = {}

    def at(text: str) -> SweepPoint:
        if text not in seen:
            pace.go(len(seen), max(len(seen) + 1, expected))
            settings = [f"{path}={text}", *safety.demand]
            seen[text] = point(case, settings, tried(case, settings, best=best))
        return seen[text]

    searched = _counted(span(written) if written.strip() else _around(case, path, now))
    listed = searched is None or bool(searched.step)
    values = list(axis(vary, "--vary").values) if listed else []
    expected = len(values) or SAMPLES
    found = SolveResult(case, path, goal, now, (values[0], values[-1]) if listed else ("", ""), best=best)
    try:
        if searched is None or listed:
            found.reaches = _scanned(values, [goal.reached(at(value)) for value in values])
        else:
            _continuous(found, searched, at, whole=_is_whole(case, path, searched), stated=bool(written.strip()))
    except SearchStopped:
        possible = [text for text, tried in seen.items() if tried.fault is None]
        _cut_short(found, list(seen) if listed else sorted(possible, key=_number), seen)
    _complete(found, seen)
    return found


def _known(case: ResolvedScenario, path: str) -> None:
    """A fault for a path that the scenario does not have, as --set gives it."""
    try:
        varied(case, [f"{path}=1"])
    except CostModelError as error:
        lost = [replace(fault, place=_written(path)) for fault in error.faults if fault.code in ("C001", "D003")]
        if lost:
            raise CostModelError(*lost) from None


def _written(path: str) -> Place:
    """The place on the command line of the input that may change."""
    return Place("command line", 0, 8, path, f"--vary {path}", max(1, len(path)))


def _cut_short(found: SolveResult, texts: Sequence[str], seen: Mapping[str, SweepPoint]) -> None:
    """The answer from the values tried, when no more will follow."""
    found.stopped, found.how = True, "scan"
    found.reaches = _scanned(texts, [found.target.reached(seen[text]) for text in texts])
    found.tried = (texts[0], texts[-1]) if texts else found.tried


def _number(text: str) -> float:
    """The number of a value that a span wrote."""
    return float(text.partition(" ")[0])


def _around(case: ResolvedScenario, path: str, now: InputValue | None) -> Span:
    """The default range: from a fraction to a multiple of the stated value."""
    match = _QUANTITY.match(now.text) if now is not None and isinstance(now.value, float) else None
    if now is None or match is None or not now.value:
        hint = f"give a range: --vary {shlex.quote(f'{path}={_somewhere(case, path, now)}')}"
        raise fail("C012", f"'{path}' holds no number to start from", _written(path), hint)
    number, unit = float(match[1].replace(",", "").replace("_", "")), match[2] or ""
    whole = number.is_integer() and in_ones(unit) is not None
    low = max(1.0, float(math.floor(number / _WIDE))) if whole else number / _WIDE
    high = number * _WIDE
    if now.value <= 1 and not whole and unit in ("", "%"):
        high = number / now.value
    return Span(low, high, unit)


def _somewhere(case: ResolvedScenario, path: str, now: InputValue | None) -> str:
    """Values that a leaf takes of which nothing is written: its choices, or a range in its unit."""
    choices = choices_of(Scenario, path)
    if choices:
        return ",".join(choices)
    for offered in _offered(path, now):
        if all(_takes(case, path, offered.text(end)) for end in (offered.low, offered.high)):
            return f"{offered.low:g}..{offered.text(offered.high)}"
    return "A,B"


def _offered(path: str, now: InputValue | None) -> list[Span]:
    """Ranges that might do, best first: from the zero that is written, about the example of its key, any."""
    samples = examples_of(Scenario, path)
    if samples is None:
        return []
    zero = _QUANTITY.match(now.text) if now is not None else None
    found = [] if zero is None else [Span(0.0, 100.0, zero[2] or "")]
    for sample in samples:
        number, _, unit = sample.partition(" ")
        found.append(Span(float(number) / _ABOUT, float(number) * _ABOUT, unit))
    return [*found, Span(1.0, 100.0, ""), Span(1.0, 100.0, "%")]


def _takes(case: ResolvedScenario, path: str, text: str) -> bool:
    """Whether --set would."""
    try:
        varied(case, [f"{path}={text}"])
    except CostModelError:
        return False
    return True


def _counted(searched: Span | None) -> Span | None:
    """A span of counts such as 1..15 T in ones, so that halves of it stay whole."""
    ones = in_ones(searched.unit) if searched is not None and not searched.step else None
    if searched is None or ones is None:
        return searched
    multiple, word = ones
    return Span(searched.low * multiple, searched.high * multiple, word)


def _end(searched: Span, number: float) -> str:
    """An end of what is tried: to the digit, or to four of them where it is no whole number."""
    return searched.text(number if number % 1 == 0 else float(f"{number:.4g}"))


def _continuous(
    found: SolveResult, searched: Span, at: Callable[[str], SweepPoint], *, whole: bool, stated: bool
) -> None:
    """Samples of a range, of one that is not stated also past its ends; then the edges between them."""

    def excess(number: float) -> float:
        return found.target.excess(at(searched.text(number)))

    numbers = samples(searched, whole=whole)
    if not stated and searched.unit != "%" and searched.high != 1:
        numbers = sorted({*numbers, *samples_beyond(numbers, excess, whole=whole)})
    every = whole and len(numbers) >= numbers[-1] - numbers[0] + 1
    if not every:
        numbers = sorted({*numbers, *samples_between(numbers, excess, whole=whole)})
    past = end_to_pass({number: excess(number) for number in numbers}, whole=whole)
    found.leads_past = "" if past is None else _end(searched, past)
    texts = [searched.text(number) for number in numbers]
    found.tried = (_end(searched, numbers[0]), _end(searched, numbers[-1]))
    reached = [found.target.reached(at(text)) for text in texts]
    changes = sum(before != after for before, after in itertools.pairwise(reached))
    if every:
        found.reaches, found.every = _scanned(texts, reached), True
        return
    found.how = "bisection" if changes == 1 else "scan"

    def edge(inside: float, outside: float) -> str:
        """The last value on the inner side that reaches the target."""
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            middle = float(math.floor(middle)) if whole else middle
            if middle in (inside, outside):
                break
            if found.target.reached(at(searched.text(middle))):
                inside = middle
            else:
                outside = middle
            if not whole and abs(inside - outside) < 1e-9 * abs(inside):
                break
        return _short(searched, inside, outside, found.target, at)

    for flag, group in itertools.groupby(range(len(texts)), key=lambda place: reached[place]):
        places = list(group)
        if flag:
            first, last = places[0], places[-1]
            low = texts[0] if first == 0 else edge(numbers[first], numbers[first - 1])
            high = texts[-1] if last == len(texts) - 1 else edge(numbers[last], numbers[last + 1])
            found.reaches.append(ReachableRange(low, high, first == 0, last == len(texts) - 1))


def _is_whole(case: ResolvedScenario, path: str, searched: Span) -> bool:
    """Whether only whole numbers may stand there: one between two is refused for that alone."""
    if in_ones(searched.unit) is None or not searched.low.is_integer() or not searched.high.is_integer():
        return False
    between = math.floor((searched.low + searched.high) / 2) + 0.5
    try:
        varied(case, [f"{path}={searched.text(between, 17)}"])
    except CostModelError as error:
        return "whole number" in error.faults[0].sentence
    return False


def _short(searched: Span, inside: float, outside: float, wanted: Target, at: Callable[[str], SweepPoint]) -> str:
    """The fewest digits that still reach the target: of the nearest number, or of the next one further inside."""
    for digits in range(4, 12):
        nearest = float(f"{inside:.{digits}g}")
        last = 10.0 ** (math.floor(math.log10(abs(inside))) + 1 - digits) if inside else 0.0
        for number in (nearest, nearest + math.copysign(last, inside - outside)):
            text = searched.text(number, digits)
            if wanted.reached(at(text)):
                return text
    return searched.text(inside)


def _scanned(values: Sequence[str], reached: Sequence[bool]) -> list[ReachableRange]:
    """Stretches of neighbouring values that all reach the target."""
    stretches = []
    for flag, group in itertools.groupby(range(len(values)), key=lambda place: reached[place]):
        places = list(group)
        if flag:
            first, last = places[0], places[-1]
            stretches.append(ReachableRange(values[first], values[last], first == 0, last == len(values) - 1))
    return stretches


def _complete(found: SolveResult, seen: dict[str, SweepPoint]) -> None:
    """How much was tried; where nothing reaches the target, what comes nearest."""
    found.evaluated = len(seen)
    at_answer = seen.get(found.answer or "")
    found.plan = None if at_answer is None else at_answer.plan
    faults = {text: tried.fault for text, tried in seen.items() if tried.fault is not None}
    found.faulty = {text: fault for text, fault in faults.items() if fault.code != NO_PLAN}
    found.invalid = len(faults) - len(found.faulty) + sum(bool(tried.refused) for tried in seen.values())
    if seen and len(found.faulty) == len(seen) and not found.stopped:
        raise at_option("--vary", [found.path], CostModelError(next(iter(found.faulty.values()))))
    column = found.target.column
    working = {text: tried for text, tried in seen.items() if tried.works}
    known = [item for item in working.items() if math.isfinite(item[1].costs.get(column, math.nan))]
    if working and not known:
        wanted = missing_input(training_inputs(found.case), column)
        raise fail("C004", f"{column} is not known", Place(found.case.file), wanted)
    if not found.reaches and known:
        found.nearest = min(known, key=lambda item: found.target.excess(item[1]))
    shown = at_answer if found.nearest is None else found.nearest[1]
    found.price = None if shown is None or shown.facts is None else shown.facts.price
