"""Which input moves an answer most: fitted constants within their spread, all other figures by a tenth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import ValidationError

from costmodel.documents.keys.paths import at
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.efficiency import Fitted
from costmodel.estimate.machine.number_formats import by_best_matmul
from costmodel.explore.compare.input_paths import InputValue, Variant, changed, holding, leaves, variant
from costmodel.explore.search.progress import UNWATCHED, Watcher
from costmodel.explore.vary.knob import TENTH, Knob, scaled
from costmodel.explore.workload import PlanAnswer, Workload
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record

_SIGNS = (-1.0, 1.0)
_MANY = 3  # figures that stand together from which on all are turned at once first
_ASIDE = ("model.", "workload.", "plan.", "cluster.nodes")
_PRICES = ("assume.price", "cluster.node.price.")  # which move costs alone
_OPTIMIZER = "workload.optimizer."  # a separate document; the workload holds only its name
_MEASURED_ON = (".sustained.power", ".sustained.peak", ".link")  # of the part that was fitted: they are not this part's
_SHOWS = "costmodel estimate shows the reason and suggests values that fix it"


@record
class Sensitivity:
    """A result of a scenario's plan, or of its best where it has none, and what moves it, most first."""

    asked: Workload
    answer: PlanAnswer
    result: str
    value: float
    knobs: tuple[Knob, ...]

    @property
    def hardware(self) -> list[Knob]:
        """Figures of datasheets alone."""
        return [knob for knob in self.knobs if knob.kind == "hardware"]


def sensitivity(asked: Workload, result: str = "", pace: Watcher = UNWATCHED) -> Sensitivity:
    """Every figure that a result rests on, turned both ways while all else stays; by default the usual result."""
    held, result = asked.planned(), result or asked.usual
    base = held.answer()
    value = base.costs.get(result, math.nan)
    if base.refused or not math.isfinite(value) or not value:
        unknown = f"{result} is 0" if value == 0 else f"{result} is not known"
        reason = ", ".join(base.refused) or unknown
        hint = "" if base.refused else held.missing(result)
        raise fail("C004", f"there is no {result} to move: {reason}", Place(asked.case.file), hint or _SHOWS)

    found = (*_figures(held, result, value, pace), *_chosen(held, result, value))
    moving = (knob for knob in found if knob.swing > 1e-9)
    return Sensitivity(asked, base, result, value, tuple(sorted(moving, key=lambda knob: (-knob.swing, knob.path))))


def _chosen(held: Workload, result: str, value: float) -> Iterator[Knob]:
    """Figures that users choose, turned by a step to either side."""
    for choice in held.choices():
        ends = (choice.value - choice.step, choice.value + choice.step)
        low, high = (_change(held, choice.path, end, result, value) for end in ends)
        turned = scaled(choice.text, ends[0] / choice.value), scaled(choice.text, ends[1] / choice.value)
        yield Knob(choice.path, choice.text, choice.kind, choice.step / choice.value, low, high, turned)


def _change(held: Workload, path: str, figure: float, result: str, value: float) -> float:
    """The share by which a result changes where a number is another; none where it may not be."""
    turned = _possible(held.case, {path: figure})
    found = None if turned is None else next(held.results_of([turned], result))
    return 0.0 if found is None else found / value - 1


def _figures(held: Workload, result: str, value: float, pace: Watcher) -> Iterator[Knob]:
    """Figures of documents, turned down and up, but for groups of them that do not move the result."""
    case, groups = held.case, dict[str, dict[str, InputValue]]()
    for path, leaf in leaves(case).items():
        written = leaf.value
        asked = path.startswith(_ASIDE) and not path.startswith(_OPTIMIZER)
        aside = path.endswith(_MEASURED_ON) or _stood_in_for(case, path)
        if asked or aside or not isinstance(written, float) or not written or _whole(case, path, written):
            continue
        groups.setdefault(path.rpartition(".")[0], {})[path] = leaf
    large = [{path: leaf.value for path, leaf in group.items()} for group in groups.values() if len(group) >= _MANY]
    still = _still(held, large, result, value, pace)
    moving = {path: leaf for group in groups.values() for path, leaf in group.items() if path not in still}
    spreads = {path: _spread(case, path) for path in moving}
    turns = [_Turn(path, leaf.value, 1 + sign * spreads[path]) for path, leaf in moving.items() for sign in _SIGNS]
    ends = _turned(held, turns, result, pace)
    for (path, leaf), down, up in zip(moving.items(), ends[::2], ends[1::2], strict=True):
        turned = scaled(leaf.text, down[0] / leaf.value), scaled(leaf.text, up[0] / leaf.value)
        low, high = down[1] / value - 1, up[1] / value - 1
        yield Knob(path, leaf.text, _kind(path), spreads[path], low, high, turned)


def _still(
    held: Workload, groups: Sequence[Mapping[str, float]], result: str, value: float, pace: Watcher
) -> frozenset[str]:
    """Figures of groups, such as those of a format that is not in use, that together do not move the result."""
    for sign in _SIGNS:
        turned = [_possible(held.case, _all_turned(held.case, group, sign)) for group in groups]
        found = held.results_of([each for each in turned if each is not None], result)
        still = []
        for number, (group, each) in enumerate(zip(groups, turned, strict=True)):
            pace.go(number, len(groups))
            if each is not None and next(found) == value:
                still.append(group)
        groups = still
    return frozenset(path for group in groups for path in group)


def _all_turned(case: LoadedScenario, group: Mapping[str, float], sign: float) -> dict[str, float]:
    turned = {path: written * (1 + sign * _spread(case, path)) for path, written in group.items()}
    return {path: min(figure, 1.0) if group[path] < 1 else figure for path, figure in turned.items()}


@record
class _Turn:
    """A figure, and how many times as large it becomes."""

    path: str
    written: float
    factor: float

    @property
    def figures(self) -> tuple[float, float, float]:
        """What is tried for it, one after the other where it may not be: a share stops at 1."""
        return self.written * self.factor, 1.0 if self.written < 1 else self.written, self.written


def _turned(held: Workload, turns: Sequence[_Turn], result: str, pace: Watcher) -> list[tuple[float, float]]:
    """Each figure as it may be, and the result with it."""
    found: dict[int, tuple[float, float]] = {}
    for attempt in range(3):
        figures = {place: turn.figures[attempt] for place, turn in enumerate(turns) if place not in found}
        tried = {place: _possible(held.case, {turns[place].path: figure}) for place, figure in figures.items()}
        possible = {place: each for place, each in tried.items() if each is not None}
        values = held.results_of([*possible.values()], result)
        for place in possible:
            pace.go(len(found), len(turns))
            if (there := next(values)) is not None:
                found[place] = figures[place], there
    return [found.get(place, (turn.written, math.nan)) for place, turn in enumerate(turns)]


def _possible(case: LoadedScenario, figures: Mapping[str, float]) -> Variant | None:
    """The case with other figures; None where these may not be."""
    try:
        return variant(case, figures)
    except (ValidationError, CostModelError):
        return None


def _whole(case: LoadedScenario, path: str, value: float) -> bool:
    """Whether only whole numbers may stand there."""
    if not value.is_integer():
        return False
    try:
        changed(case, path, value - 0.5)
    except ValidationError:
        return True
    return False


def _stood_in_for(case: LoadedScenario, path: str) -> bool:
    """Whether a share of matmuls is not used: that of the best measured one is."""
    parts = path.split(".")
    return parts[-3::2] == ["matmul", "compute_share"] and by_best_matmul(case, parts[-2])


def _kind(path: str) -> Literal["hardware", "assumption", "fitted"]:
    if ".efficiency." in path:
        return "fitted"
    return "assumption" if path.startswith(("assume.", "stack.", _OPTIMIZER, *_PRICES)) else "hardware"


def _spread(case: LoadedScenario, path: str) -> float:
    """The 90th percentile of a fit's error where it is stated, or its median; else a tenth."""
    held, key = holding(path)
    fitted = at(getattr(case, held), f"{key.rpartition('.')[0]}.fitted")
    if not isinstance(fitted, Fitted):
        return TENTH
    return float(fitted.p90 or fitted.median or TENTH)
