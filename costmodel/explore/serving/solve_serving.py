"""The values of one key of a serving scenario for which a result reaches a target."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from costmodel.documents.keys.overrides import full
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.results import SERVING_COLUMNS
from costmodel.documents.schemas.serving.serving_workload import Lengths, Serving
from costmodel.estimate.serving.figure_bands import is_of_bands
from costmodel.estimate.serving.predict_serving import replica_ranks
from costmodel.estimate.serving.requests_in_time import IN_TIME
from costmodel.estimate.serving.serving_band import is_unmeasured
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.explore.safety import EXPECTED, Safety, answered_safely, safety_of
from costmodel.explore.search.range_samples import end_to_pass, samples, samples_between, samples_beyond
from costmodel.explore.search.ranges import Span, at_option, axis, span
from costmodel.explore.search.target import Target, target_of
from costmodel.explore.serving.best_layout import by_search
from costmodel.explore.serving.search_layouts import OF_RATE
from costmodel.explore.serving.vary_serving import ServingTrial, tried
from costmodel.ground.errors import CostModelError, Place, fail

_EVERY_WHOLE = 128  # whole numbers, of which none is left out
_HALVINGS, _DIGITS = 40, 4
_WIDE = 64  # from this share of a stated value to this multiple of it
_DEGREES = tuple(f"plan.{degree}" for degree in ("tp", "pp", "ep", "dp_attention", "dcp"))
_COUNTED = ("users", "concurrency", "requests", "turns", "prompt", "output")  # keys of a workload, whole numbers
_SIZES = {"stack.budget": "512..65536*2", "stack.sequences": "16..4096*2"}  # of a step


@dataclass
class SolvedServing:
    """Which values of a leaf reach a target: ends of the stretch, and the trials there and beyond."""

    case: ServingCase
    path: str
    target: Target
    reaches: list[tuple[str, str]] = field(default_factory=list)
    inside: list[tuple[ServingTrial, ServingTrial]] = field(default_factory=list)
    beyond: ServingTrial | None = None  # the first value on the far side that does not reach it
    tried: tuple[str, str] = ("", "")
    nearest: tuple[str, float] | None = None  # where no value reaches it, the one that comes nearest, and its result
    leads_past: str | None = None  # the end of a range past which values come nearer; empty where none does
    evaluated: int = 0
    best: bool = False  # whether each value has the best plan of its own
    trials: list[ServingTrial] = field(default_factory=list)
    safe: float | None = None  # chance to meet all limits and to reach the target that is asked for
    is_safe: bool = True  # whether the answer has it
    expected: SolvedServing | None = None  # the answer by expected figures

    @property
    def answer(self) -> str | None:
        """Of what is paid for the least value that reaches the target, of others the most."""
        if not self.reaches:
            return None
        return self.reaches[0][0] if self.path.startswith(("cluster.", "plan.")) else self.reaches[-1][1]

    @property
    def against(self) -> Counter[str]:
        """How many values each code speaks against; without a code those that miss the target alone."""
        return Counter(code for trial in self.trials for code in trial.codes or ("",))


def solve(case: ServingCase, vary: str, wanted: str, *, best: bool = False) -> SolvedServing:
    """Which values of a leaf reach a target, with the preferred chance where any does.

    Where kernels were never measured, expected figures rule unless a limit demands a chance.
    """
    safety = safety_of(case, full(vary.partition("=")[0].strip()))
    safety = EXPECTED if is_unmeasured(inputs_of(case)) and not safety.is_stated else safety
    answered = answered_safely(
        safety, lambda asked: _solved(case, vary, wanted, asked, best=best), lambda found: bool(found.reaches)
    )
    return replace(answered.found, safe=safety.share, is_safe=answered.is_safe, expected=answered.expected)


def _solved(case: ServingCase, vary: str, wanted: str, safety: Safety, *, best: bool) -> SolvedServing:
    """The values that reach a target: of a list those that do, of a range where that changes."""
    goal = _target(wanted, safety)
    demand, bands = safety.demand, safety.share is not None
    path, _, written = vary.partition("=")
    path = full(path.strip())
    path = path if written.strip() else _varied(case.scenario.workload, path)
    stated = written.strip() or _default_values(case, path)
    searched = span(stated, path)
    if searched is None or searched.step:
        values = axis(f"{path}={stated}", "--vary").values
        return _listed(case, path, wanted, list(values), safety, best=by_search(case, best=best))
    found = SolvedServing(case, path, goal, best=by_search(case, best=best))
    seen: dict[str, ServingTrial] = {}

    def excess(number: float) -> float:
        text = searched.text(number, 6)
        if text not in seen:
            seen[text] = tried(
                case, [f"{path}={text}", *demand], best=found.best, bands=bands or is_of_bands(goal.column)
            )
        return goal.excess(seen[text])

    def at(number: float) -> bool:
        return excess(number) <= 0

    whole, shown = _is_whole(case, path, searched), partial(_shown, found, searched, demand)
    numbers = [float(f"{number:.6g}") for number in samples(searched, whole=whole, every=_EVERY_WHOLE)]
    if not written.strip() and path != "plan.replicas":  # the devices are their end
        numbers = sorted({*numbers, *samples_beyond(numbers, excess, whole=whole)})
    numbers = sorted({*numbers, *samples_between(numbers, excess, whole=whole)})
    found.tried = (searched.text(numbers[0], _DIGITS), searched.text(numbers[-1], _DIGITS))
    reached = [at(number) for number in numbers]
    _any_valid(path, seen.values())
    _any_known(goal, wanted, seen.values())
    for low, high, out in _ranges(numbers, reached, at, whole=whole):
        found.reaches.append((searched.text(low, 6), searched.text(high, 6)))
        lowest = shown(low)
        found.inside.append((lowest, lowest if high == low else shown(high)))
        found.beyond = shown(out) if out is not None else None
    past = end_to_pass({number: excess(number) for number in numbers}, whole=whole)
    found.leads_past = "" if past is None else searched.text(past, _DIGITS)
    found.evaluated, found.trials = len(seen), list(seen.values())
    found.nearest = None if found.reaches else _nearest(goal, found.trials)
    return found


def _target(wanted: str, safety: Safety) -> Target:
    """The target; what follows from the rate within limits has the chance from these, where they include one."""
    goal = target_of(wanted, SERVING_COLUMNS, "ttft_p99<=500 ms", safety.share)
    demanded = bool(safety.demand) or safety.is_stated
    return replace(goal, share=None) if demanded and goal.column in ("rate_within_slo_per_s", *OF_RATE) else goal


def _nearest(goal: Target, trials: Iterable[ServingTrial]) -> tuple[str, float] | None:
    """The value that comes nearest to a target, with its result; none where no plan works."""
    known = [trial for trial in trials if not math.isnan(goal.excess(trial))]
    least = min(known, key=goal.excess, default=None)
    return None if least is None else (least.settings[0].partition("=")[2], goal.value(least))


def _ranges(
    numbers: Sequence[float], reached: Sequence[bool], at: Callable[[float], bool], *, whole: bool
) -> Iterator[tuple[float, float, float | None]]:
    """The ranges that reach a target, each by its lowest and highest number, and the first number beyond."""
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
        yield low, high, out


def _shown(found: SolvedServing, searched: Span, demand: tuple[str, ...], number: float) -> ServingTrial:
    """The answer at one number, with the bands of its figures."""
    return tried(found.case, [f"{found.path}={searched.text(number, 6)}", *demand], best=found.best)


def _any_valid(path: str, trials: Iterable[ServingTrial]) -> None:
    """Stop with the first fault where every trial has one."""
    faults = [trial.fault for trial in trials]
    if faults[0] is not None and None not in faults:
        raise at_option("--vary", [path], CostModelError(faults[0]))


def _any_known(goal: Target, wanted: str, trials: Iterable[ServingTrial]) -> None:
    """Stop where no plan that works has the result that a target names."""
    found = [trial.result(goal.column) for trial in trials if trial.works]
    if found and all(map(math.isnan, found)):
        limited = "requests are in time by a limit, for example --set limits.ttft_p99.at_most=1s"
        hint = limited if goal.column in IN_TIME else f"explain {goal.column} states which plans have it"
        place = Place("command line", 0, 7, "", f"--for {wanted}", max(1, len(wanted)))
        raise fail("C004", f"{goal.column} is not known of these plans", place, hint)


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


def _listed(
    case: ServingCase, path: str, wanted: str, values: list[str], safety: Safety, *, best: bool
) -> SolvedServing:
    """Of values written out those that reach a target."""
    goal = _target(wanted, safety)
    trials = [tried(case, [f"{path}={value}", *safety.demand], best=best) for value in values]
    _any_known(goal, wanted, trials)
    found = SolvedServing(
        case, path, goal, tried=(values[0], values[-1]), evaluated=len(values), best=best, trials=trials
    )
    for flag, group in itertools.groupby(range(len(values)), key=lambda place: goal.reached(trials[place])):
        places = list(group)
        if flag:
            found.reaches.append((values[places[0]], values[places[-1]]))
            found.inside.append((trials[places[0]], trials[places[-1]]))
    found.nearest = None if found.reaches else _nearest(goal, trials)
    return found


def _default_values(case: ServingCase, path: str) -> str:
    """The values that are tried where none are stated: those that the GPUs allow, or around the scenario's own."""
    devices = int(case.scenario.cluster.nodes * case.node.accelerators)
    if path in _DEGREES:
        return ",".join(f"{2**power}" for power in range(devices.bit_length()))
    if path == "plan.replicas":
        plan = case.scenario.plan
        most = devices // int(1 if plan is None else replica_ranks(plan))
        return f"1..{most}" if most > 1 else "1"
    if path in _SIZES:
        return _SIZES[path]
    value = float(case.scenario.cluster.nodes) if path == "cluster.nodes" else None
    value = _own_value(case.scenario.workload, path) if value is None else value
    if value is not None and path == "workload.rate":
        return f"{value / _WIDE:.6g}..{value * _WIDE:.6g} /s"
    if value is not None:
        return f"{max(1, int(value) // _WIDE)}..{int(value) * _WIDE}"
    place = Place("command line", 0, 8, path, f"--vary {path}", max(1, len(path)))
    raise fail("C012", "no range to search", place, f"for example --vary '{path}=A..B', or a list of values")


def _own_value(workload: Serving, path: str) -> float | None:
    """The value that a scenario has of a rate, a length or a number of requests; None of other keys."""
    section, _, key = path.partition(".")
    name = key.removesuffix(".mean")
    if section != "workload" or name not in ("rate", *_COUNTED):
        return None
    stated = getattr(workload, name)
    return stated.mean if isinstance(stated, Lengths) else stated


def _varied(workload: Serving, path: str) -> str:
    """A key, or the mean of lengths that are spread: other lengths with the same spread are tried."""
    name = path.partition(".")[2]
    spread = path in ("workload.prompt", "workload.output") and isinstance(getattr(workload, name), Lengths)
    return f"{path}.mean" if spread else path
