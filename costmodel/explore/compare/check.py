"""Compares scenarios with their limits and with a baseline."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from costmodel.documents.reader.folders import SUFFIXES
from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario
from costmodel.documents.schemas.baseline import Baseline, Entry, EquationFingerprint
from costmodel.documents.schemas.results import TRAINING_COLUMNS, machine_name
from costmodel.estimate.evaluate.limit_checks import ENDLESS
from costmodel.estimate.evaluate.predict import Answer
from costmodel.estimate.shared.limits import Limit, stated_limits
from costmodel.explore.compare.compare import Input, MovedFigure, moved, named_documents
from costmodel.explore.compare.plan_figures import called_equations, choices, figures, higher_is_better, marks
from costmodel.explore.compare.select_plan import answered
from costmodel.ground.errors import Place
from costmodel.ground.record import record

WATCHED = ("step_time", "memory_peak", "cost_per_mtoken")
_NEAR = 1e-6  # checksums are sums of logarithms, rounded as finely


@record
class CheckResult:
    """One thing compared with another: `bound` is what it should be, `place` where that is written."""

    kind: Literal["limit", "regression", "exact", "valid", "fits", "known"]
    name: str
    kept: bool
    value: float | None = None
    bound: float | None = None
    limit: Limit | None = None
    allowed: float = 0.0
    place: Place | None = None


@record
class CheckedScenario:
    """One scenario with everything that was compared with it."""

    name: str
    answer: Answer
    findings: tuple[CheckResult, ...]
    moved: tuple[MovedFigure, ...] = ()
    inputs: tuple[Input, ...] = ()
    equations: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether nothing speaks against it."""
        return all(finding.kept for finding in self.findings)


@record
class BaselinePolicy:
    """What scenarios are held to besides their limits."""

    baseline: Baseline | None = None
    within: float = 0.01
    exact: bool = False


def check(cases: Mapping[str, ResolvedScenario], holding: BaselinePolicy) -> list[CheckedScenario]:
    """Every scenario checked, by what a baseline calls it."""
    return [_checked(key, answered(case), holding) for key, case in cases.items()]


def key_of(scenario: str | None, case: LoadedScenario) -> str:
    """What a scenario is called in a baseline: its name, its file's name, its title if it came from a pipe, or the
    flags that describe it.
    """
    if scenario is None:
        return shlex.join(case.asked.words)
    if scenario == "-":
        return str(case.scenario.title)
    path = Path(scenario)
    name = path.stem if path.suffix in SUFFIXES else path.name
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # of a file whose name is no UTF-8


def _checked(key: str, answer: Answer, holding: BaselinePolicy) -> CheckedScenario:
    if answer.refused:
        return CheckedScenario(key, answer, tuple(CheckResult("valid", code, kept=False) for code in answer.refused))
    findings = [*_limits(answer)]
    if "M001" in answer.broken:
        costs = answer.evaluation.costs.row()
        findings.insert(0, CheckResult("fits", "memory_share", False, costs["memory_share"], 1.0))
    findings += [CheckResult("valid", code, kept=False) for code in answer.broken if code == ENDLESS]
    if holding.baseline is None:
        return CheckedScenario(key, answer, tuple(findings))
    before = holding.baseline.scenarios.get(key)
    if before is None:
        return CheckedScenario(key, answer, (*findings, CheckResult("known", key, kept=not holding.exact)))
    now = figures(answer)
    changes = tuple(moved(before.figures, now))
    findings += [_exact(changes, now)] if holding.exact else _regressions(answer, before.figures, now, holding.within)
    if all(finding.kept for finding in findings):
        return CheckedScenario(key, answer, tuple(findings), changes)
    return CheckedScenario(
        key, answer, tuple(findings), changes, tuple(_changed(before, answer)), _suspects(before, answer)
    )


def _limits(answer: Answer) -> list[CheckResult]:
    """Every limit the scenario writes, with both sides and its line."""
    found = []
    for limit in stated_limits(answer.inputs.case.scenario.limits):
        column = answer.evaluation.costs.column(limit.column)
        kept, value = bool(limit.kept(column)[0]), float(column[0])
        place = getattr(limit.value, "place", None)
        found.append(CheckResult("limit", limit.column, kept, value, limit.value, limit, limit.within, place))
    return found


def _exact(changes: Sequence[MovedFigure], now: Mapping[str, float]) -> CheckResult:
    return CheckResult("exact", "figures", not changes, float(len(changes)), float(len(now)))


def _regressions(
    answer: Answer, before: Mapping[str, float], now: Mapping[str, float], within: float
) -> list[CheckResult]:
    """Watched results, and those the scenario gives a share for, that may not worsen by more than that share."""
    limits = answer.inputs.case.scenario.limits
    own = {key: bound.within for key, bound in limits if bound.within is not None and bound.target is None}
    own = {("memory_peak" if key == "memory" else key): share for key, share in own.items()}
    found = []
    for column in TRAINING_COLUMNS:
        name = machine_name(column)
        if column not in (*WATCHED, *own) or (name not in before and name not in now):
            continue
        old, new, allowed = before.get(name, math.nan), now.get(name, math.nan), float(own.get(column, within))
        worse = old - new if higher_is_better(name) else new - old
        kept = worse <= allowed * abs(old) * (1 + 1e-9)
        found.append(
            CheckResult("regression", column, kept, new, old, None, allowed, getattr(own.get(column), "place", None))
        )
    return found


def _changed(before: Entry, answer: Answer) -> list[Input]:
    """The plan and the documents that are not what they were when the baseline was written."""
    old = {f"plan.{key}": _value_text(value) for key, value in before.plan.items()} | before.documents
    new = {f"plan.{key}": _value_text(value) for key, value in choices(answer.evaluation.block).items()}
    new |= named_documents(answer.inputs.case)
    return [
        Input(path, old.get(path), new.get(path))
        for path in dict.fromkeys((*new, *old))
        if old.get(path) != new.get(path)
    ]


def _value_text(value: str | float | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.10g}" if isinstance(value, int | float) else value


def _suspects(before: Entry, answer: Answer) -> tuple[str, ...]:
    """Equations that answer the same questions otherwise; of those that call each other, the innermost."""
    now, old = marks(answer), before.equations
    same = [name for name, mark in now.items() if name in old and _asked_alike(mark, old[name])]
    changed = {name for name in same if abs(now[name].output - old[name].output) > _NEAR * now[name].calls}
    inner = called_equations(answer)
    return tuple(name for name in now if name in changed and not inner.get(name, set()) & changed)


def _asked_alike(now: EquationFingerprint, before: EquationFingerprint) -> bool:
    return now.calls == before.calls and abs(now.inputs - before.inputs) <= _NEAR * now.calls


def entries(checked: Sequence[CheckedScenario]) -> dict[str, Entry]:
    """What a baseline holds of scenarios as they are now; those that cannot be estimated are left out."""
    return {found.name: _entry(found.answer) for found in checked if not found.answer.refused}


def _entry(answer: Answer) -> Entry:
    return Entry(
        title=answer.inputs.case.scenario.title,
        plan=choices(answer.evaluation.block),
        documents=named_documents(answer.inputs.case),
        figures=figures(answer),
        equations=marks(answer),
    )
