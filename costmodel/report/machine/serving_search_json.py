"""The answer of a serving search as JSON: its plans, and what became of all of them at each value that varies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from costmodel.documents.schemas.results import SERVING_COLUMNS
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.serving.predict_serving import remarks
from costmodel.estimate.serving.reason_codes import REFUSALS
from costmodel.estimate.shared.limits import stated_limits
from costmodel.explore.serving.found_plans import (
    FoundPlans,
    RankedPlan,
    ServingVariants,
    VariantPlans,
    reasons,
    share_of,
)
from costmodel.report.machine.answer_fields import assumed_json, frame, notes
from costmodel.report.machine.serving_json import plan
from costmodel.report.terminal.style.head import price_fields, price_varies


def search_json(found: FoundPlans) -> dict[str, Any]:
    """A search as costmodel/result/v1; where keys vary, each row has their values."""
    inputs, variants = found.inputs, found.variants
    varied = {"values": [_value(found, part) for part in found.parts]}
    return {
        **frame(inputs.case, SERVING_COLUMNS, variants.paths),
        "assumed": assumed_json(inputs.assumed),
        "notes": notes([tuple(remarks(variants.of(number))) for number in _shown(found)]),
        "objective": inputs.case.scenario.objective,
        "limits": [limit.key for limit in stated_limits(inputs.case.scenario.limits)],
        "candidates": found.candidates,
        "valid": found.valid,
        "fit": found.fit,
        "kept": found.kept + (found.risky if found.safe is not None else 0),
        "safe": _safe(found),
        "complete": not found.stopped,
        "elapsed_s": found.elapsed,
        **(varied if variants.over else {}),
        "plans": [ranked_row(variants, each) for each in found.best],
        "remedies": [{"set": list(remedy.settings), "plan": list(remedy.plan)} for remedy in found.remedies],
        "yours": {"rank": found.your_rank} if found.yours is not None else None,
        "refused": [row for part in found.parts for row in _refused(found, part)],
    }


def _safe(found: FoundPlans) -> dict[str, Any] | None:
    """The chance to meet all limits that the search prefers, whether it rules, and the best plan by the other rule."""
    share = found.safe if found.unruled is None else found.unruled
    if share is None:
        return None
    rules = found.safe is not None
    other = [] if found.other is None else [ranked_row(found.variants, found.other)]
    met = found.kept > 0 if rules else None
    return {"chance": share, "rules": rules, "met": met, "plans": found.kept if rules else None, "without": other}


def _shown(found: FoundPlans) -> list[int]:
    """The variants that the ranking has plans of."""
    return list(dict.fromkeys(each.variant for each in found.best)) if found.variants.over else [0]


def ranked_row(variants: ServingVariants, each: RankedPlan) -> dict[str, Any]:
    """A ranked plan, with the values of the keys that vary and with its price where that varies too."""
    priced = price_varies(variants.paths)
    return {
        **variants.cells(each.variant),
        **plan(each.sizes, each.costs),
        **({} if each.prefill is None else {"prefill": each.prefill}),
        "binds": each.binding,
        "broken": list(each.broken),
        **(price_fields(price_of(variants.of(each.variant).case)) if priced else {}),
    }


def _value(found: FoundPlans, part: VariantPlans) -> dict[str, Any]:
    """What became of the plans at one value of each key that varies."""
    fault = None if part.fault is None else {"code": part.fault.code, "text": part.fault.sentence}
    return {
        **found.variants.cells(part.number),
        "candidates": part.candidates,
        "valid": part.valid,
        "fit": part.fit,
        "kept": part.kept + (part.risky if found.safe is not None else 0),
        "safe": part.kept if found.safe is not None else None,
        "best": None if part.best is None else ranked_row(found.variants, part.best),
        "fault": fault,
    }


def _refused(found: FoundPlans, part: VariantPlans) -> Iterator[dict[str, Any]]:
    """Reasons with how many plans of one value each refuses."""
    values = found.variants.cells(part.number)
    for code, count in reasons(part):
        yield {
            **values,
            "code": code,
            "plans": count,
            "share": share_of(part, code),
            "text": REFUSALS[code].title,
            "meaning": REFUSALS[code].meaning,
            "example": part.examples[code],
        }
