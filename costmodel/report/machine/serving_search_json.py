"""The answer of a serving search as JSON: its plans, and what became of all of them at each value that varies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from costmodel.estimate.machine.price import price_of
from costmodel.estimate.serving.predict_serving import remarks
from costmodel.estimate.serving.reason_codes import REFUSALS
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.limits import stated_limits
from costmodel.explore.search.variants import Variants
from costmodel.explore.serving.found_plans import RankedPlan, ServiceCounts, ServiceSearch
from costmodel.report.machine.answer_fields import assumed_json, notes
from costmodel.report.machine.serving_json import frame, plan
from costmodel.report.terminal.style.head import price_fields, price_varies


def search_json(found: ServiceSearch) -> dict[str, Any]:
    """A search as costmodel/result/v1; where keys vary, each row has their values."""
    inputs, variants = found.inputs, found.variants
    varied = {"values": [_value(found, part) for part in found.service_parts]}
    return {
        **frame(inputs, variants.paths),
        "assumed": assumed_json(inputs.assumed),
        "notes": notes([tuple(remarks(variants.of(number))) for number in _shown(found)]),
        "objective": inputs.case.scenario.objective,
        "limits": [limit.key for limit in stated_limits(inputs.case.scenario.limits)],
        "candidates": found.tally.candidates,
        "valid": found.tally.evaluated,
        "fit": found.tally.fit,
        "kept": found.tally.kept,
        "safe": _safe(found),
        "complete": not found.stopped,
        "elapsed_s": found.elapsed,
        **(varied if variants.over else {}),
        "plans": [ranked_row(variants, each) for each in found.best],
        "remedies": [{"set": list(remedy.settings), "plan": list(remedy.plan)} for remedy in found.remedies],
        "yours": {"rank": found.your_rank} if found.yours is not None else None,
        "refused": [row for part in found.service_parts for row in _refused(found, part)],
    }


def _safe(found: ServiceSearch) -> dict[str, Any] | None:
    """The chance to meet all limits that the search prefers, whether it rules, and the best plan by the other rule."""
    share = found.safe if found.unruled is None else found.unruled
    if share is None:
        return None
    rules = found.safe is not None
    other = [] if found.other is None else [ranked_row(found.variants, found.other)]
    met = found.tally.safe > 0 if rules else None
    return {"chance": share, "rules": rules, "met": met, "plans": found.tally.safe if rules else None, "without": other}


def _shown(found: ServiceSearch) -> list[int]:
    """The variants that the ranking has plans of."""
    return list(dict.fromkeys(each.variant for each in found.best)) if found.variants.over else [0]


def ranked_row(variants: Variants[ServingInputs], each: RankedPlan) -> dict[str, Any]:
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


def _value(found: ServiceSearch, part: ServiceCounts) -> dict[str, Any]:
    """What became of the plans at one value of each key that varies."""
    fault = None if part.fault is None else {"code": part.fault.code, "text": part.fault.sentence}
    return {
        **found.variants.cells(part.number),
        "candidates": part.candidates,
        "valid": part.evaluated,
        "fit": part.fit,
        "kept": part.kept,
        "safe": part.safe if found.safe is not None else None,
        "best": None if part.best is None else ranked_row(found.variants, part.best),
        "fault": fault,
    }


def _refused(found: ServiceSearch, part: ServiceCounts) -> Iterator[dict[str, Any]]:
    """Reasons with how many plans of one value each refuses."""
    values = found.variants.cells(part.number)
    for code, count in part.against():
        yield {
            **values,
            "code": code,
            "plans": count,
            "share": part.share(code),
            "text": REFUSALS[code].title,
            "meaning": REFUSALS[code].meaning,
            "example": part.examples[code].sizes,
        }
