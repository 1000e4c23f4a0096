"""Checks scenarios against their limits and against a stored baseline."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from costmodel.documents.reader.folders import SUFFIXES
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.baseline import Baseline, Entry, EquationFingerprint
from costmodel.documents.schemas.results import machine_name
from costmodel.estimate.shared.results import Limit, stated_limits
from costmodel.explore.compare.compare import ChangedInput, MovedFigure, document_digests, moved_figures
from costmodel.explore.workload_interface import PlanAnswer, Workload
from costmodel.ground.errors import Place
from costmodel.ground.record import record

Kind = Literal["limit", "regression", "exact", "valid", "fits", "load", "known"]
_NO_INPUTS = frozenset({"schema", "title", "plan", "limits"})
# Watched results that follow from another: `within` of a limit on that one counts for them too.
_FOLLOWS = {"cost_per_mtoken": ("step_time", "rent_per_month"), "iteration_cost": ("iteration_time",)}
_NEAR = 1e-6  # checksums are sums of logarithms, rounded as finely


@record
class CheckResult:
    """One check of one value against its bound.

    name: of a result, or a reason code. place: where the bound is written
    """

    kind: Kind
    name: str
    kept: bool
    value: float | None = None
    bound: float | None = None
    limit: Limit | None = None
    allowed: float = 0.0
    place: Place | None = None


@record
class CheckedScenario:
    """A scenario with all of its check results."""

    name: str
    asked: Workload
    answer: PlanAnswer
    findings: tuple[CheckResult, ...]
    moved: tuple[MovedFigure, ...] = ()
    inputs: tuple[ChangedInput, ...] = ()
    equations: tuple[str, ...] = ()
    worse: tuple[CheckResult, ...] = ()  # than in a baseline that is written anew

    @property
    def kept(self) -> bool:
        """Whether all checks passed."""
        return all(finding.kept for finding in self.findings)


@record
class BaselinePolicy:
    """A stored baseline and how far results may deviate from it.

    updating: the baseline is rewritten, so worse results are reported but do not fail
    """

    baseline: Baseline | None = None
    within: float = 0.01
    exact: bool = False
    updating: bool = False


def check(asked: Mapping[str, Workload], holding: BaselinePolicy) -> list[CheckedScenario]:
    """Checks every scenario, given by its key in the baseline."""
    return [_check_scenario(key, workload, holding) for key, workload in asked.items()]


def baseline_key(scenario: str | None, case: LoadedScenario) -> str:
    """The key of a scenario in a baseline: its name, file name, title if piped, or the flags that describe it."""
    if scenario is None:
        return shlex.join(case.asked.words)
    if scenario == "-":
        return str(case.scenario.title)
    path = Path(scenario)
    name = path.stem if path.suffix in SUFFIXES else path.name
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # of a file whose name is no UTF-8


def _check_scenario(key: str, asked: Workload, holding: BaselinePolicy) -> CheckedScenario:
    """All checks of one scenario: validity, limits, and changes since the baseline."""
    answer = asked.answer()
    if answer.refused:
        invalid = tuple(CheckResult("valid", code, kept=False) for code in answer.refused)
        return CheckedScenario(key, asked, answer, invalid)
    kinds = ((code, asked.failure_kind(code)) for code in answer.broken)
    stops = [_failed_check(kind, code, answer) for code, kind in kinds if kind is not None]
    findings = [*stops, *_limit_checks(asked, answer, endless=any(finding.kind == "load" for finding in stops))]
    if holding.baseline is None:
        return CheckedScenario(key, asked, answer, tuple(findings))
    before = holding.baseline.scenarios.get(key)
    if before is None:
        new = [] if holding.updating else [CheckResult("known", key, kept=bool(findings) and not holding.exact)]
        return CheckedScenario(key, asked, answer, (*findings, *new))
    now = asked.figures(answer)
    if holding.updating:
        worse = (each for each in _regression_checks(asked, before.figures, now, holding.within) if not each.kept)
        return CheckedScenario(key, asked, answer, tuple(findings), worse=tuple(worse))
    changes = tuple(moved_figures(before.figures, now))
    findings += (
        [_exact_result(changes, now)]
        if holding.exact
        else _regression_checks(asked, before.figures, now, holding.within)
    )
    if all(finding.kept for finding in findings):
        return CheckedScenario(key, asked, answer, tuple(findings), changes)
    inputs = tuple(_changed_inputs(before, asked, answer))
    return CheckedScenario(
        key, asked, answer, tuple(findings), changes, inputs, _changed_equations(before, asked, answer)
    )


def _failed_check(kind: Kind, code: str, answer: PlanAnswer) -> CheckResult:
    """A failed check for a plan that is invalid or does not fit, whatever its limits."""
    if kind == "fits":
        return CheckResult("fits", "memory_share", False, answer.costs["memory_share"], 1.0)
    return CheckResult(kind, code, kept=False)


def _limit_checks(asked: Workload, answer: PlanAnswer, *, endless: bool) -> list[CheckResult]:
    """A check for every limit of the scenario; all fail if queues grow without end."""
    found = []
    for limit in stated_limits(asked.case.scenario.limits):
        value = float(answer.costs[limit.column])
        place, kept = getattr(limit.value, "place", None), limit.holds(value) and not endless
        found.append(CheckResult("limit", limit.column, kept, value, float(limit.value), limit, limit.within, place))
    return found


def _exact_result(changes: Sequence[MovedFigure], now: Mapping[str, float]) -> CheckResult:
    return CheckResult("exact", "figures", not changes, float(len(changes)), float(len(now)))


def _regression_checks(
    asked: Workload, before: Mapping[str, float], now: Mapping[str, float], within: float
) -> list[CheckResult]:
    """Checks that watched results are not worse than before by more than the allowed share.

    A least chance to fit stands in place of the peak of memory, which may then grow.
    """
    limits = dict(asked.case.scenario.limits)
    own = {key: bound.within for key, bound in limits.items() if bound.within is not None and bound.target is None}
    own = {("memory_peak" if key == "memory" else key): share for key, share in own.items()}
    followed = {column: [own[name] for name in names if name in own] for column, names in _FOLLOWS.items()}
    own = {column: shares[0] for column, shares in followed.items() if shares} | own
    replaced = {"memory_peak"} if "fit_chance" in limits and limits["fit_chance"].at_least is not None else set()
    watched = ({*asked.watched_results} - replaced) | own.keys()
    found = []
    for column, about in asked.columns.items():
        name = machine_name(column)
        if column not in watched or (name not in before and name not in now):
            continue
        old, new, allowed = before.get(name, math.nan), now.get(name, math.nan), float(own.get(column, within))
        worse = old - new if about.better == "higher" else new - old
        kept, place = worse <= allowed * abs(old) * (1 + 1e-9), getattr(own.get(column), "place", None)
        found.append(CheckResult("regression", column, kept, new, old, None, allowed, place))
    return found


def _changed_inputs(before: Entry, asked: Workload, answer: PlanAnswer) -> list[ChangedInput]:
    """The scenario keys, plan keys and documents that changed since the baseline was written."""
    old = before.inputs | {f"plan.{key}": _value_text(value) for key, value in before.plan.items()} | before.documents
    new = dict(_stated_inputs(asked.case.tree)) if before.inputs else {}
    new |= {f"plan.{key}": _value_text(value) for key, value in asked.plan_entry(answer).items()}
    new |= document_digests(asked.case)
    return [
        ChangedInput(path, old.get(path), new.get(path), asked.case.place(path) if path in before.inputs else None)
        for path in dict.fromkeys((*new, *old))
        if old.get(path) != new.get(path)
    ]


def _stated_inputs(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every value that a scenario states, by path as text; without its plan, which is stored as evaluated."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if path or key not in _NO_INPUTS:
                yield from _stated_inputs(inner, f"{path}.{key}" if path else str(key))
    elif value is not None:
        yield path, _value_text(value)


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.10g}" if isinstance(value, int | float) else str(value)


def _changed_equations(before: Entry, asked: Workload, answer: PlanAnswer) -> tuple[str, ...]:
    """Equations with other outputs for the same inputs; among those that call each other, the innermost."""
    now, old = asked.equation_fingerprints(answer), before.equations
    same = [name for name, mark in now.items() if name in old and _has_same_inputs(mark, old[name])]
    changed = {name for name in same if abs(now[name].output - old[name].output) > _NEAR * now[name].calls}
    inner = asked.called_equations(answer) if changed else {}
    return tuple(name for name in now if name in changed and not inner.get(name, set()) & changed)


def _has_same_inputs(now: EquationFingerprint, before: EquationFingerprint) -> bool:
    return now.calls == before.calls and abs(now.inputs - before.inputs) <= _NEAR * now.calls


def baseline_entries(checked: Sequence[CheckedScenario]) -> dict[str, Entry]:
    """The baseline entries of scenarios as they are now, without those that cannot be estimated."""
    return {found.name: _baseline_entry(found.asked, found.answer) for found in checked if not found.answer.refused}


def _baseline_entry(asked: Workload, answer: PlanAnswer) -> Entry:
    """What a baseline stores of a scenario: plan, inputs, documents and figures."""
    return Entry(
        title=asked.case.scenario.title,
        plan=dict(asked.plan_entry(answer)),
        inputs=dict(_stated_inputs(asked.case.tree)),
        documents=document_digests(asked.case),
        figures=asked.figures(answer),
        equations=dict(asked.equation_fingerprints(answer)),
    )
