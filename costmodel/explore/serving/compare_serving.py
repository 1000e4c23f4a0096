"""Serving scenarios held to their limits, and two of them side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.estimate.serving.plan_columns import SIZES
from costmodel.estimate.serving.predict_serving import ServingAnswer, predict
from costmodel.estimate.serving.result_columns import machine_name
from costmodel.explore.compare.compare import Side, named_documents
from costmodel.explore.compare.input_paths import InputValue, leaves
from costmodel.explore.compare.limit_findings import CheckedAnswer, LimitFinding, limit_findings
from costmodel.explore.serving.search_layouts import UNSTABLE


def check(cases: Sequence[ServingCase]) -> list[CheckedAnswer[ServingAnswer]]:
    """Every scenario with its limits."""
    return [_checked(case) for case in cases]


def _checked(case: ServingCase) -> CheckedAnswer[ServingAnswer]:
    answer = predict(case)
    if answer.refused:
        return CheckedAnswer(case.name, answer, tuple(LimitFinding("valid", False, code=one) for one in answer.refused))
    codes = [code for code in answer.broken if code in UNSTABLE]
    findings = [LimitFinding("load", False, code=code) for code in codes]
    findings += limit_findings(case, answer.costs, stable=not codes)
    return CheckedAnswer(case.name, answer, tuple(findings))


def side(name: str, case: ServingCase) -> Side:
    """A scenario as one of two that are compared: every value it rests on, and every result."""
    answer = predict(case)
    layout = answer.evaluation.layout
    sizes = [f"plan.{size}" for size in SIZES if size not in ("budget", "redundant_experts")]
    values = {path: value for path, value in leaves(case).items() if path not in sizes}
    if answer.plan.prefill is None:
        values |= {path: InputValue(float(getattr(layout, path.removeprefix("plan."))[0])) for path in sizes}
    values["stack.budget"] = InputValue(float(layout.budget[0]))
    known = {} if answer.refused else {machine_name(key): value for key, value in answer.costs.items()}
    figures = {
        key: value for key, value in known.items() if math.isfinite(value) and not key.endswith(("_low", "_high"))
    }
    assumed = {item.path: item.value for item in answer.assumed}
    left_out = case.foreign_prices if case.stated_price is None else ()
    return Side(name, values, figures, named_documents(case), answer.refused, assumed, left_out=left_out)
