"""Another plan than the one that is scaled, where it answers the highest rate with fewer accelerators."""

from __future__ import annotations

import math
from collections.abc import Sequence

from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.explore.serving.best_layout import plan_settings
from costmodel.explore.serving.rate_sizes import at_rate
from costmodel.explore.serving.search_layouts import search
from costmodel.explore.serving.vary_serving import ServingTrial
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record

_EVERY, _TRIED = 100_000, 3  # plans, of which so many with the fewest accelerators are tried


@record
class FewerGpus:
    """Settings of a plan, and what it takes at a rate."""

    settings: dict[str, str]
    trial: ServingTrial


def fewer_gpus(case: ServingCase, trials: Sequence[ServingTrial]) -> FewerGpus | None:
    """A plan of a search that keeps every limit at the highest rate with fewer accelerators than the one scaled."""
    kept = next((trial for trial in reversed(trials) if trial.works), None)
    if kept is None or kept.answer is None or kept.answer.plan.prefill is not None:
        return None
    try:
        found = search(inputs_of(serving(vary_any(case, kept.settings[:1]))), _EVERY, bands=False)
    except CostModelError:
        return None
    most = kept.answer.costs["gpus"]
    fewer = [plan for plan in found.best if plan.prefill is None and plan.costs["gpus_needed"] < most]
    rate = kept.settings[0].partition("=")[2]
    for plan in sorted(fewer, key=lambda each: each.costs["gpus_needed"])[:_TRIED]:
        settings = {path: value for path, value in plan_settings(found, plan).items() if path != "plan.replicas"}
        if not settings or not math.isfinite(plan.costs["gpus_needed"]):
            continue
        held = serving(vary_any(case, [f"{path}={value}" for path, value in settings.items()]))
        trial = at_rate(held, rate)
        if trial.works and trial.answer is not None and trial.answer.costs["gpus"] < most:
            return FewerGpus(settings, trial)
    return None
