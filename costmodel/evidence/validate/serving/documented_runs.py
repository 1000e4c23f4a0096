"""Runs of measured documents that serve, by the estimate of their scenario."""

from __future__ import annotations

from collections.abc import Iterable

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.predict_serving import predict
from costmodel.evidence.validate.skip_reasons import CannotModel, invalid

Ends = tuple[float, float | None, float | None]


def predicted_figures(case: LoadedScenario, names: Iterable[str]) -> dict[str, Ends] | CannotModel:
    """Results of the plan of a scenario with their P10 and P90, where they have a band; or why there are none."""
    found = predict(serving(case))
    if found.refused:
        return invalid(found.refused[0])
    if "M001" in found.broken:
        return CannotModel("V007", "M001: no memory is left for a cache")
    costs = found.costs
    return {name: (costs[name], costs.get(f"{name}_low"), costs.get(f"{name}_high")) for name in names}
