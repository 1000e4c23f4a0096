"""Scaling a plan that serves: replicas for each rate, and limits that none of them keeps."""

from __future__ import annotations

import pytest
from estimate.serving.cases import case, costs, predicted

from costmodel.explore.serving.serving_remedies import with_remedies
from costmodel.explore.serving.vary_serving import by_rate


def test_a_limit_that_a_request_alone_breaks_is_kept_by_no_replicas() -> None:
    """No rate is so low that the limit holds: that of a request alone is the figure at hardly any load."""
    limit = "limits={ttft_p99: {at_most: 50 ms}}"
    (trial,) = by_rate(case(limit), ["50 /s"])
    assert trial.alone is not None
    assert (trial.codes, trial.works) == (("S002",), False)
    assert trial.alone.costs["ttft_p99"] == pytest.approx(costs("workload.rate=0.0001 /s")["ttft_p99"], rel=1e-3)
    (kept,) = by_rate(case("limits={ttft_p99: {at_most: 1 s}}"), ["50 /s"])
    assert kept.alone is None
    assert kept.works


def test_a_plan_whose_instances_have_no_number_is_scaled_one_by_one() -> None:
    (trial,) = by_rate(case("plan={prefill: {tp: 4}, decode: {tp: 4}}", "limits={}"), ["4 /s"])
    assert trial.answer is not None
    assert trial.answer.costs["gpus"] == 8


def test_a_remedy_names_no_nodes_that_are_there() -> None:
    idle = with_remedies(predicted("plan={tp: 4, replicas: 1}", "limits={}", "workload.rate=8 /s"))
    settings = [setting for kind in idle.remedies for each in kind for setting in each]
    assert "plan.replicas=2" in settings
    assert not any(setting.startswith("cluster.nodes") for setting in settings)
