"""Capacities of replicas that several answers share are those that each would have alone."""

from __future__ import annotations

import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.override_case import vary_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving.predict_serving import layout_of, own_plan, predict
from costmodel.estimate.serving.replica_capacity import KnownCapacities
from costmodel.estimate.serving.serving_inputs import inputs_of

OF_ONE = ("workload.rate=2 /s", "workload.rate=9 /s")
OTHERS = (
    "workload.prompt=500",
    "plan.tp=4",
    "cluster.node.accelerator.memory.bandwidth=3 TB/s",
    "limits.tpot.at_most=20 ms",
)


@pytest.fixture(scope="module")
def case() -> ServingCase:
    return serving(load_any("serve-llama-3.1-70b"))


@pytest.mark.parametrize("bands", [False, True])
def test_known_capacities_change_no_answer(case: ServingCase, bands: bool) -> None:
    known = KnownCapacities()
    for setting in (*OF_ONE, *OTHERS, OF_ONE[0]):
        varied = serving(vary_any(case, [setting]))
        alone = predict(varied, bands=bands)
        assert predict(varied, bands=bands, known=known).costs == pytest.approx(alone.costs, nan_ok=True), setting


def test_rates_have_the_same_replicas_and_other_requests_have_not(case: ServingCase) -> None:
    known = KnownCapacities()

    def capacity(setting: str) -> object:
        inputs = inputs_of(serving(vary_any(case, [setting])))
        return known.of(inputs, layout_of(inputs, own_plan(inputs))[0])

    first = capacity(OF_ONE[0])
    assert first is not None
    assert capacity(OF_ONE[1]) is first
    assert capacity("limits.tpot.at_most=20 ms") is first
    for setting in OTHERS[:3]:
        assert capacity(setting) is not first, setting
