"""Rent of a deployment: whole nodes at a price of nodes, a month, and an offline batch."""

from __future__ import annotations

import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.predict_serving import predict

NAME = "serve-llama-3.1-70b"


def costs(*settings: str) -> dict[str, float]:
    return predict(serving(load_any(NAME, list(settings)))).costs


def test_a_stated_price_is_paid_for_what_is_used() -> None:
    found = costs("plan.tp=4", "plan.replicas=3", "assume.price=2.50 USD/GPU/h")
    assert (found["gpus"], found["nodes"]) == (12, 2)
    assert found["rent_per_month"] == pytest.approx(12 * 2.5 * 730)


def test_a_list_price_of_a_node_is_paid_for_whole_nodes() -> None:
    found = costs("plan.tp=4", "plan.replicas=3", "assume.price=null", "cluster.node=p5", "workload.rate=4 /s")
    full = costs("plan.tp=4", "plan.replicas=4", "assume.price=null", "cluster.node=p5", "workload.rate=4 /s")
    assert found["nodes"] == full["nodes"] == 2
    assert found["rent_per_month"] == full["rent_per_month"]


def test_a_month_pays_for_all_that_is_generated_in_it() -> None:
    found = costs()
    tokens = found["output_tokens_per_s"] * 730 * 3600
    assert found["rent_per_month"] == pytest.approx(tokens * found["cost_per_mtoken"] / 1e6)


def test_an_offline_batch_costs_its_makespan() -> None:
    found = costs("workload.rate=null", "workload.requests=10000")
    assert found["cost_of_batch"] == pytest.approx(found["rent_per_month"] * found["makespan"] / (730 * 3600))
    assert found["cost_of_batch"] == pytest.approx(found["cost_per_mtoken"] * 10000 * 512 / 1e6, rel=1e-6)


def test_the_rent_needed_is_that_of_a_plan_with_as_many_replicas() -> None:
    for settings in (("assume.price=2.50 USD/GPU/h",), ("assume.price=null", "cluster.node=p5")):
        load = ("plan.tp=4", "workload.rate=30 /s", "limits={}", *settings)
        few = costs("plan.replicas=1", *load)
        needed = int(few["replicas_needed"])
        enough = costs(f"plan.replicas={needed}", f"cluster.nodes={-(-needed * 4 // 8)}", *load)
        assert few["rent_needed"] == pytest.approx(enough["rent_per_month"])
        assert enough["rent_needed"] == pytest.approx(enough["rent_per_month"])
