"""Scenarios of reinforcement learning held to their limits, and one of two that are compared."""

from __future__ import annotations

import math
from collections.abc import Sequence

from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.schemas.results import machine_name
from costmodel.estimate.rl.predict_rl import RlAnswer, predict
from costmodel.explore.compare.compare import Side, named_documents
from costmodel.explore.compare.input_paths import leaves
from costmodel.explore.compare.limit_findings import CheckedAnswer, LimitFinding, limit_findings


def check(cases: Sequence[RlCase]) -> list[CheckedAnswer[RlAnswer]]:
    """Every scenario with whether it is valid, fits, and keeps its limits."""
    return [_checked(case) for case in cases]


def _checked(case: RlCase) -> CheckedAnswer[RlAnswer]:
    answer = predict(case)
    if answer.refused:
        findings = [LimitFinding("valid", False, code=code) for code in answer.refused]
    else:
        full = [LimitFinding("fits", False, code="M001")] if "M001" in answer.broken else []
        findings = [*full, *limit_findings(case, answer.costs)]
    return CheckedAnswer(case.name, answer, tuple(findings))


def side(name: str, case: RlCase) -> Side:
    """Every value it rests on, and every result."""
    answer = predict(case)
    known = {} if answer.refused else {machine_name(key): value for key, value in answer.costs.items()}
    figures = {
        key: value for key, value in known.items() if math.isfinite(value) and not key.endswith(("_low", "_high"))
    }
    assumed = {item.path: item.value for item in answer.assumed}
    left_out = case.foreign_prices if case.stated_price is None else ()
    return Side(
        name, leaves(case), figures, named_documents(case), answer.refused, assumed, left_out=left_out, asked=case.asked
    )
