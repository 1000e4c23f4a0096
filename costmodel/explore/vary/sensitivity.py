"""Which input moves an answer most: fitted constants within their spread, all other figures by a tenth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from pydantic import ValidationError

from costmodel.documents.keys.paths import at
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.efficiency import Fitted
from costmodel.estimate.machine.number_formats import by_best_matmul
from costmodel.explore.compare.input_paths import changed, holding, leaves
from costmodel.explore.search.progress import UNWATCHED, Watcher
from costmodel.explore.vary.knob import TENTH, Knob, scaled
from costmodel.explore.workload import PlanAnswer, Workload
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record

Looked = Callable[[LoadedScenario], float]  # the result that is looked at, of a scenario

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

    def looked(case: LoadedScenario) -> float:
        return float(held.of(case).answer([result]).costs[result])

    found = (*_figures(held.case, value, looked, pace), *_chosen(held, value, looked))
    moving = (knob for knob in found if knob.swing > 1e-9)
    return Sensitivity(asked, base, result, value, tuple(sorted(moving, key=lambda knob: (-knob.swing, knob.path))))


def _chosen(held: Workload, value: float, looked: Looked) -> Iterator[Knob]:
    """Figures that users choose, turned by a step to either side."""
    for choice in held.choices():
        ends = (choice.value - choice.step, choice.value + choice.step)
        low, high = (_change(held.case, choice.path, end, value, looked) for end in ends)
        turned = scaled(choice.text, ends[0] / choice.value), scaled(choice.text, ends[1] / choice.value)
        yield Knob(choice.path, choice.text, choice.kind, choice.step / choice.value, low, high, turned)


def _change(case: LoadedScenario, path: str, figure: float, value: float, looked: Looked) -> float:
    """The share by which a result changes where a number is another; none where it may not be."""
    try:
        return looked(changed(case, path, figure)) / value - 1
    except (ValidationError, CostModelError):
        return 0.0


def _figures(case: LoadedScenario, value: float, looked: Looked, pace: Watcher) -> Iterator[Knob]:
    texts, groups = dict[str, str](), dict[str, dict[str, float]]()
    for path, leaf in leaves(case).items():
        written = leaf.value
        asked = path.startswith(_ASIDE) and not path.startswith(_OPTIMIZER)
        aside = path.endswith(_MEASURED_ON) or _stood_in_for(case, path)
        if asked or aside or not isinstance(written, float) or not written or _whole(case, path, written):
            continue
        texts[path] = leaf.text
        groups.setdefault(path.rpartition(".")[0], {})[path] = written
    done = 0
    for group in groups.values():
        passed, done = done, done + len(group)
        pace.go(passed, len(texts))
        if len(group) >= _MANY and not _moves(case, group, value, looked):
            continue
        for number, (path, written) in enumerate(group.items()):
            pace.go(passed + number, len(texts))
            spread = _spread(case, path)
            down, up = (_turned(case, path, written, factor, looked) for factor in (1 - spread, 1 + spread))
            turned = scaled(texts[path], down[0] / written), scaled(texts[path], up[0] / written)
            yield Knob(path, texts[path], _kind(path), spread, down[1] / value - 1, up[1] / value - 1, turned)


def _moves(case: LoadedScenario, group: Mapping[str, float], value: float, looked: Looked) -> bool:
    """Whether figures that stand together, such as those of a format that is not in use, move the result at all."""
    for sign in (-1.0, 1.0):
        turned = case
        try:
            for path, written in group.items():
                figure = written * (1 + sign * _spread(case, path))
                turned = changed(turned, path, min(figure, 1.0) if written < 1 else figure)
            if looked(turned) != value:
                return True
        except (ValidationError, CostModelError):
            return True
    return False


def _turned(case: LoadedScenario, path: str, value: float, factor: float, looked: Looked) -> tuple[float, float]:
    """A figure times a factor, and the result with it; a share stops at 1."""
    for figure in (value * factor, 1.0 if value < 1 else value, value):
        try:
            return figure, looked(changed(case, path, figure))
        except (ValidationError, CostModelError):
            continue
    return value, math.nan


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
