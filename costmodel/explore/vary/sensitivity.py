"""Finds the inputs that affect a result most: fitted constants vary by their spread, all others by a tenth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import ValidationError

from costmodel.documents.keys.paths import at
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.efficiency import Fitted
from costmodel.estimate.machine.number_formats import by_best_matmul
from costmodel.explore.compare.input_paths import (
    InputValue,
    Variant,
    case_with_number,
    document_of_path,
    input_values,
    make_variant,
)
from costmodel.explore.search.rank import UNWATCHED, Watcher
from costmodel.explore.workload_interface import TENTH, Knob, PlanAnswer, Workload, scaled_text
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record

_SIGNS = (-1.0, 1.0)
_ASIDE = ("model.", "workload.", "plan.", "cluster.nodes")
_PRICES = ("assume.price", "cluster.node.price.")  # which move costs alone
_OPTIMIZER = "workload.optimizer."  # a separate document; the workload holds only its name
_MEASURED_ON = (".sustained.power", ".sustained.peak", ".link")  # of the part that was fitted: they are not this part's
_SHOWS = "costmodel estimate shows the reason and suggests values that fix it"


@record
class Sensitivity:
    """A result of a scenario's plan (its own, or the best), and its inputs by how much they affect it."""

    asked: Workload
    answer: PlanAnswer
    result: str
    value: float
    knobs: tuple[Knob, ...]

    @property
    def hardware(self) -> list[Knob]:
        """The inputs that come from datasheets."""
        return [knob for knob in self.knobs if knob.kind == "hardware"]


def sensitivity(workload: Workload, result: str = "", pace: Watcher = UNWATCHED) -> Sensitivity:
    """Varies every input of a result up and down, one at a time; by default of the workload's usual result."""
    held, result = workload.with_plan(), result or workload.usual_result
    base = held.answer()
    value = base.costs.get(result, math.nan)
    if base.refused or not math.isfinite(value) or not value:
        unknown = f"{result} is 0" if value == 0 else f"{result} is not known"
        reason = ", ".join(base.refused) or unknown
        hint = "" if base.refused else held.missing_input(result)
        raise fail("C004", f"there is no {result} to move: {reason}", Place(workload.case.file), hint or _SHOWS)

    ask = _memoised_result(held, result, pace)
    knobs = (*_document_knobs(held.case, ask, value), *_chosen_knobs(held, ask, value))
    moving = (knob for knob in knobs if knob.swing > 1e-9)
    return Sensitivity(workload, base, result, value, tuple(sorted(moving, key=lambda knob: (-knob.swing, knob.path))))


def _chosen_knobs(workload: Workload, ask: _Ask, value: float) -> Iterator[Knob]:
    """Inputs that users choose, such as the load, turned down and up by one step."""
    for choice in workload.choices():
        ends = (choice.value - choice.step, choice.value + choice.step)
        ends_found = [*ask([{choice.path: ends[0]}]), *ask([{choice.path: ends[1]}])]
        low, high = (0.0 if each is None else each / value - 1 for each in ends_found)
        turned = scaled_text(choice.text, ends[0] / choice.value), scaled_text(choice.text, ends[1] / choice.value)
        yield Knob(choice.path, choice.text, choice.kind, choice.step / choice.value, low, high, turned)


def _document_knobs(case: LoadedScenario, ask: _Ask, value: float) -> Iterator[Knob]:
    """Numeric inputs from documents, without those that do not affect the result."""
    groups = dict[str, dict[str, InputValue]]()
    for path, leaf in input_values(case).items():
        written = leaf.value
        asked = path.startswith(_ASIDE) and not path.startswith(_OPTIMIZER)
        aside = path.endswith(_MEASURED_ON) or _is_replaced_by_best_matmul(case, path)
        if asked or aside or not isinstance(written, float) or not written or _is_whole_number(case, path, written):
            continue
        groups.setdefault(path.rpartition(".")[0], {})[path] = leaf
    every = {path: leaf for group in groups.values() for path, leaf in group.items()}
    spreads = {path: _fit_spread(case, path) for path in every}
    units = [
        [_TurnedInput(path, leaf.value, spreads[path]) for path, leaf in group.items()] for group in groups.values()
    ]
    still = _inputs_without_effect(case, ask, units, value)
    moving = [turn for unit in units for turn in unit if turn.path not in still]
    for turn, ends in zip(moving, _results_at_both_ends(ask, moving), strict=True):
        leaf, ((lower, low), (upper, high)) = every[turn.path], ends
        turned = scaled_text(leaf.text, lower / turn.written), scaled_text(leaf.text, upper / turn.written)
        yield Knob(
            turn.path, leaf.text, _kind_of_input(turn.path), turn.spread, low / value - 1, high / value - 1, turned
        )


@record
class _TurnedInput:
    """An input, and the share by which it is turned down and up."""

    path: str
    written: float
    spread: float

    def figures(self, sign: float) -> tuple[float, float, float]:
        """The values to try, one after the other, until one is valid; shares stay at most 1."""
        return self.written * (1 + sign * self.spread), 1.0 if self.written < 1 else self.written, self.written

    def end(self, sign: float) -> float:
        """The value of the input when it is turned together with others."""
        turned = self.figures(sign)[0]
        return min(turned, 1.0) if self.written < 1 else turned


_Ask = Callable[[Sequence[Mapping[str, float]]], list[float | None]]
_Unit = Sequence[_TurnedInput]


def _memoised_result(workload: Workload, result: str, pace: Watcher) -> _Ask:
    """A memoised function from changed inputs to the result; None if they are invalid or give no answer."""
    known: dict[tuple[tuple[str, float], ...], float | None] = {}

    def ask(many: Sequence[Mapping[str, float]]) -> list[float | None]:
        """The result for each set of figures, from the cache or from one joint evaluation; None if invalid."""
        asked = [tuple(figures.items()) for figures in many]
        new = {each: _variant_or_none(workload.case, dict(each)) for each in asked if each not in known}
        known.update(dict.fromkeys(new))
        possible = {each: variant for each, variant in new.items() if variant is not None}
        results = workload.results_of([*possible.values()], result)
        for place, each in enumerate(possible):
            pace.go(place, len(possible))
            known[each] = next(results)
        return [known[each] for each in asked]

    return ask


def _inputs_without_effect(case: LoadedScenario, ask: _Ask, units: Sequence[_Unit], value: float) -> frozenset[str]:
    """The paths of inputs that do not affect the result, such as those of an unused number type."""
    still, moving = _split_by_effect_downward(ask, units, value)
    alone, _ = _split_by_effect_downward(ask, [[turn] for unit in moving if len(unit) > 1 for turn in unit], value)
    upward = [unit for unit in (*still, *alone) if _variant_or_none(case, {turn.path: turn.end(1.0) for turn in unit})]
    return frozenset(turn.path for unit in _without_effect_upward(ask, upward, value) for turn in unit)


def _split_by_effect_downward(ask: _Ask, units: Sequence[_Unit], value: float) -> tuple[list[_Unit], list[_Unit]]:
    """Units of inputs that, turned down together, leave the result unchanged; and all other units."""
    results = ask([{turn.path: turn.end(-1.0) for turn in unit} for unit in units])
    still = [unit for unit, each in zip(units, results, strict=True) if each == value]
    return still, [unit for unit, each in zip(units, results, strict=True) if each != value]


def _without_effect_upward(ask: _Ask, units: Sequence[_Unit], value: float) -> list[_Unit]:
    """The units that do not affect the result when turned up either: tries all at once, then halves."""
    still, parts = list[_Unit](), [units] if units else []
    while parts:
        results = ask([{turn.path: turn.end(1.0) for unit in part for turn in unit} for part in parts])
        still += [unit for part, each in zip(parts, results, strict=True) if each == value for unit in part]
        moving = [part for part, each in zip(parts, results, strict=True) if each != value and len(part) > 1]
        parts = [half for part in moving for half in (part[: len(part) // 2], part[len(part) // 2 :])]
    return still


def _results_at_both_ends(ask: _Ask, turns: Sequence[_TurnedInput]) -> Iterator[list[tuple[float, float]]]:
    """For each input, its value and the result at both ends."""
    ends = [(turn, sign) for turn in turns for sign in _SIGNS]
    found: dict[int, tuple[float, float]] = {}
    for attempt in range(3):
        left = {place: turn.figures(sign)[attempt] for place, (turn, sign) in enumerate(ends) if place not in found}
        values = ask([{ends[place][0].path: figure} for place, figure in left.items()])
        found |= {place: (left[place], there) for place, there in zip(left, values, strict=True) if there is not None}
    for place in range(0, len(ends), 2):
        yield [found.get(each, (ends[each][0].written, math.nan)) for each in (place, place + 1)]


def _variant_or_none(case: LoadedScenario, figures: Mapping[str, float]) -> Variant | None:
    """The case with other numbers; None if they are not allowed."""
    try:
        return make_variant(case, figures)
    except (ValidationError, CostModelError):
        return None


def _is_whole_number(case: LoadedScenario, path: str, value: float) -> bool:
    """Whether the value at a path must be a whole number."""
    if not value.is_integer():
        return False
    try:
        case_with_number(case, path, value - 0.5)
    except ValidationError:
        return True
    return False


def _is_replaced_by_best_matmul(case: LoadedScenario, path: str) -> bool:
    """Whether a matmul's share of the peak is unused, because the best measured matmul replaces it."""
    parts = path.split(".")
    return parts[-3::2] == ["matmul", "compute_share"] and by_best_matmul(case, parts[-2])


def _kind_of_input(path: str) -> Literal["hardware", "assumption", "fitted"]:
    if ".efficiency." in path:
        return "fitted"
    return "assumption" if path.startswith(("assume.", "stack.", _OPTIMIZER, *_PRICES)) else "hardware"


def _fit_spread(case: LoadedScenario, path: str) -> float:
    """The spread of a fit: the p90 of its error, else its median error, else a tenth."""
    held, key = document_of_path(path)
    fitted = at(getattr(case, held), f"{key.rpartition('.')[0]}.fitted")
    if not isinstance(fitted, Fitted):
        return TENTH
    return float(fitted.p90 or fitted.median or TENTH)
