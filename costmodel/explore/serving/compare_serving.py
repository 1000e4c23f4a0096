"""Serving scenarios held to their limits, and two of them side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.estimate.serving.plan_columns import SIZES
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.estimate.serving.result_columns import machine_name
from costmodel.estimate.shared.limits import Limit, stated_limits
from costmodel.explore.compare.compare import Side, named_documents
from costmodel.explore.compare.input_paths import InputValue, leaves
from costmodel.explore.serving.search_layouts import UNSTABLE
from costmodel.ground.errors import Place


@dataclass(frozen=True)
class ServingFinding:
    """One limit, or the load, and whether the plan keeps it."""

    name: str
    kept: bool
    value: float | None = None
    limit: Limit | None = None
    code: str = ""

    @property
    def place(self) -> Place | None:
        """Where the limit is written."""
        return None if self.limit is None else getattr(self.limit.value, "place", None)


@dataclass(frozen=True)
class CheckedServing:
    """A scenario with everything that was held against it."""

    name: str
    answer: ServingAnswer
    findings: tuple[ServingFinding, ...]

    @property
    def kept(self) -> bool:
        """Whether nothing speaks against it."""
        return all(finding.kept for finding in self.findings)


def check(cases: Sequence[ServingCase]) -> list[CheckedServing]:
    """Every scenario with its limits."""
    return [_checked(case) for case in cases]


def _checked(case: ServingCase) -> CheckedServing:
    answer = predict(case)
    if answer.refused:
        return CheckedServing(
            case.name, answer, tuple(ServingFinding("valid", False, code=one) for one in answer.refused)
        )
    codes = [code for code in answer.broken if code in UNSTABLE]
    findings = [ServingFinding("load", False, code=code) for code in codes]
    for limit in stated_limits(case.scenario.limits):
        value = answer.costs[limit.column]
        findings.append(ServingFinding(limit.column, limit.holds(value) and not codes, value, limit))
    return CheckedServing(case.name, answer, tuple(findings))


def side(name: str, case: ServingCase) -> Side:
    """A scenario as one of two that are compared: every value it rests on, and every result."""
    answer = predict(case)
    layout = answer.evaluation.layout
    sizes = [f"plan.{size}" for size in SIZES if size != "budget"]
    values = {path: value for path, value in leaves(case).items() if path not in sizes}
    if answer.plan.prefill is None:
        values |= {path: InputValue(float(getattr(layout, path.removeprefix("plan."))[0])) for path in sizes}
    values["stack.budget"] = InputValue(float(layout.budget[0]))
    known = {} if answer.refused else {machine_name(key): value for key, value in answer.costs.items()}
    figures = {
        key: value for key, value in known.items() if math.isfinite(value) and not key.endswith(("_low", "_high"))
    }
    assumed = {item.path: item.value for item in answer.assumed}
    return Side(name, values, figures, named_documents(case), answer.refused, assumed)
