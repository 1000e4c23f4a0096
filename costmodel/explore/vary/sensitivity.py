"""Which assumption moves an answer most: fitted constants within their spread, all other figures by a tenth."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Literal, TypeVar

from pydantic import ValidationError

from costmodel.documents.keys.paths import at
from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario
from costmodel.documents.schemas.efficiency import Fitted
from costmodel.estimate.evaluate.evaluate_plans import missing_input
from costmodel.estimate.evaluate.predict import predict
from costmodel.estimate.machine.number_formats import by_best_matmul
from costmodel.estimate.shared.plan_batch import Block
from costmodel.explore.compare.input_paths import changed, holding, leaves
from costmodel.explore.compare.select_plan import answered, planned
from costmodel.explore.search.progress import UNWATCHED, Watcher
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record

C = TypeVar("C", bound=LoadedScenario)
TENTH = 0.10
_MANY = 3  # figures that stand together from which on all are turned at once first
_ASIDE = ("model.", "workload.", "plan.", "cluster.nodes")
_PRICES = ("assume.price", "cluster.node.price.")  # which move costs alone
_OPTIMIZER = "workload.optimizer."  # a separate document; the workload holds only its name
_MEASURED_ON = (".sustained.power", ".sustained.peak", ".link")  # of the part that was fitted: they are not this part's


@record
class Knob:
    """One figure turned down and up by its spread: by which share the result changes."""

    path: str
    text: str
    kind: Literal["hardware", "assumption", "fitted", "workload", "plan"]
    spread: float
    low: float
    high: float
    turned: tuple[str, str] = ("", "")  # down and up, as they would be written

    @property
    def swing(self) -> float:
        """How far the result moves in all."""
        return max(self.low, self.high, 0.0) - min(self.low, self.high, 0.0)


@record
class Sensitivity:
    """A result, and what moves it, most first."""

    case: ResolvedScenario
    result: str
    value: float
    knobs: tuple[Knob, ...]
    plan: Block  # the scenario's own, or where it has none its best

    @property
    def hardware(self) -> list[Knob]:
        """Figures of datasheets alone."""
        return [knob for knob in self.knobs if knob.kind == "hardware"]


def sensitivity(case: ResolvedScenario, result: str = "step_time", pace: Watcher = UNWATCHED) -> Sensitivity:
    """Every figure the answer rests on, turned both ways while all else stays."""
    held = replace(case, scenario=case.scenario.model_copy(update={"plan": planned(case)}))
    base = answered(held)
    value = base.evaluation.costs.row().get(result, math.nan)
    if base.refused or not math.isfinite(value) or not value:
        unknown = f"{result} is not known" if math.isnan(value) else f"{result} is 0"
        reason = ", ".join(base.refused) or unknown
        why = "costmodel estimate shows the reason and suggests values that fix it"
        hint = why if base.refused else missing_input(base.inputs, result)
        raise fail("C004", f"there is no {result} to move: {reason}", Place(case.file), hint)
    knobs = knobs_of(held, value, lambda one: _result(one, result), pace)
    return Sensitivity(case, result, value, knobs, base.evaluation.block)


def _result(case: ResolvedScenario, result: str) -> float:
    return predict(case).evaluation.costs.row()[result]


def knobs_of(case: C, value: float, result: Callable[[C], float], pace: Watcher = UNWATCHED) -> tuple[Knob, ...]:
    """Every figure that moves a result, most first."""
    found = [knob for knob in _knobs(case, value, result, pace) if knob.swing > 1e-9]
    return tuple(sorted(found, key=lambda knob: (-knob.swing, knob.path)))


def _knobs(case: C, value: float, result: Callable[[C], float], pace: Watcher) -> Iterator[Knob]:
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
        if len(group) >= _MANY and not _moves(case, group, value, result):
            continue
        for number, (path, written) in enumerate(group.items()):
            pace.go(passed + number, len(texts))
            spread = _spread(case, path)
            down, up = (_turned(case, path, written, factor, result) for factor in (1 - spread, 1 + spread))
            turned = scaled(texts[path], down[0] / written), scaled(texts[path], up[0] / written)
            yield Knob(path, texts[path], _kind(path), spread, down[1] / value - 1, up[1] / value - 1, turned)


def _moves(case: C, group: Mapping[str, float], value: float, result: Callable[[C], float]) -> bool:
    """Whether figures that stand together, such as those of a format that is not in use, move the result at all."""
    for sign in (-1.0, 1.0):
        turned = case
        try:
            for path, written in group.items():
                figure = written * (1 + sign * _spread(case, path))
                turned = changed(turned, path, min(figure, 1.0) if written < 1 else figure)
            if result(turned) != value:
                return True
        except (ValidationError, CostModelError):
            return True
    return False


def _turned(case: C, path: str, value: float, factor: float, result: Callable[[C], float]) -> tuple[float, float]:
    """A figure times a factor, and the result with it; a share stops at 1."""
    for figure in (value * factor, 1.0 if value < 1 else value, value):
        try:
            return figure, result(changed(case, path, figure))
        except (ValidationError, CostModelError):
            continue
    return value, math.nan


def scaled(text: str, factor: float) -> str:
    """A figure as it is written, so many times as large: 3.35 TB/s by 0.9 is 3.015 TB/s."""
    number, unit = re.fullmatch(r"([\d.,eE+-]*)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    return f"{float(number.replace(',', '')) * factor:.12g}{unit}" if number else ""


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
