"""What cached prompt tokens cost: nothing but the attention to them, which grows with the tokens that follow."""

from __future__ import annotations

import math

import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.predict_serving import predict

from .cases import UNLAUNCHED

NAME = "serve-llama-3.1-70b"


def costs(*settings: str) -> dict[str, float]:
    return predict(serving(load_any(NAME, list(settings)))).costs


def test_without_cached_tokens_there_is_nothing_to_pay_for() -> None:
    assert math.isnan(costs()["cost_per_mcached"])


def test_a_cached_token_costs_its_attention() -> None:
    """80 layers of 64 heads of 128, on 8 ranks: 4 flop for each pair of tokens and channel."""
    found = costs("workload.prompt=4096", "workload.shared_prefix=3072", "workload.rate=1 /s")
    flop = 80 * 4 * 64 * 128 * 1024  # of 1,024 tokens to one cached token
    seconds = flop / 8 / 989.4e12
    least = 1e6 * seconds * 8 * 2.5 / 3600
    assert least < found["cost_per_mcached"] < 3 * least


def test_a_cached_token_costs_more_before_more_that_follow() -> None:
    few = costs(*UNLAUNCHED, "workload.prompt=2048", "workload.shared_prefix=1536")["cost_per_mcached"]
    many = costs(*UNLAUNCHED, "workload.prompt=3584", "workload.shared_prefix=1536")["cost_per_mcached"]
    assert many == pytest.approx(few * 2048 / 512, rel=0.25)


def test_a_cached_token_costs_far_less_than_a_computed_one() -> None:
    found = costs("workload.shared_prefix=1024")
    assert found["cost_per_mcached"] < 0.1 * costs()["cost_per_minput"]


def test_instances_for_prompts_alone_charge_the_same_attention() -> None:
    longer = ("workload.prompt=4096", "workload.shared_prefix=3072", "workload.rate=1 /s")
    apart = costs(*longer, "plan={prefill: {tp: 8}, decode: {tp: 8}}")
    assert apart["cost_per_mcached"] == pytest.approx(costs(*longer)["cost_per_mcached"], rel=0.3)
