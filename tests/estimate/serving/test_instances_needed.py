"""Instances that a rate needs, of each kind: set against every smaller fleet, evaluated one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np
import pytest

from costmodel.estimate.serving.evaluate_disaggregated import evaluate_pairs
from costmodel.estimate.serving.plan_columns import PlanColumns
from estimate.serving.cases import Figures, costs, inputs
from estimate.serving.test_replicas_for_load import up

USUAL = "limits={ttft_p99: {at_most: 1 s}, tpot: {at_most: 25 ms}}"


def fleet(prefill: float, decode: float, tp: int = 8) -> str:
    """So many instances of each kind."""
    return f"plan={{prefill: {{tp: {tp}, replicas: {prefill:.0f}}}, decode: {{tp: {tp}, replicas: {decode:.0f}}}}}"


def eights(counts: Iterable[int]) -> PlanColumns:
    """Instances of tp 8, so many in each row."""
    replicas = np.array(list(counts), dtype=np.float64)
    one = np.ones(len(replicas))
    return PlanColumns(8 * one, one, one, one, replicas, 8192 * one)


def needed(*settings: str, tp: int = 8) -> Figures:
    return costs("cluster.nodes=64", fleet(1, 1, tp), *settings)


@pytest.mark.parametrize(
    ("rate", "limits"),
    [
        (12, USUAL),
        (12, "limits={ttft_p99: {at_most: 1 s}, tpot: {at_most: 13 ms}}"),
        (8, "limits={latency: {at_most: 7 s}}"),  # of both kinds together
        (8, "limits={limits_chance: {at_least: 90 %}, ttft_p99: {at_most: 1 s}}"),
        (20, "limits={}"),
    ],
)
def test_no_fleet_of_fewer_gpus_keeps_the_limits(rate: int, limits: str) -> None:
    settings = ("cluster.nodes=64", f"workload.rate={rate} /s", limits)
    found = needed(*settings)
    first, second = int(found["prefill_needed"]), int(found["decode_needed"])
    assert found["gpus_needed"] == 8 * (first + second) == 8 * found["replicas_needed"]
    most = first + second
    smaller = [pair for pair in itertools.product(range(1, most), repeat=2) if sum(pair) <= most]
    prompts, answers = (eights(counts) for counts in zip(*smaller, strict=True))
    within = evaluate_pairs(inputs(*settings), prompts, answers).results.column("rate_within_slo_per_s")
    wanted = rate * (1.25 if limits == "limits={}" else 1.0)  # without limits at 80 % of saturation
    assert min(sum(pair) for pair, kept in zip(smaller, within, strict=True) if kept >= wanted * (1 - 1e-6)) == most


def test_the_count_is_of_the_layout_not_of_the_instances_that_a_plan_has() -> None:
    """Three of 4 GPUs on one node, whose links are NVLink, need as many as the same on other nodes."""
    settings = ("workload.rate=6 /s", USUAL)
    near = needed(*settings, tp=4)
    far = costs("cluster.nodes=64", fleet(9, 5, 4), *settings)
    assert near["transfer_time"] < far["transfer_time"]
    for name in ("prefill_needed", "decode_needed"):
        assert near[name] == far[name]


def test_headroom_and_spares_count_for_each_kind() -> None:
    plain = needed("workload.rate=24 /s", USUAL)
    assert needed("workload.rate=20 /s", "assume.headroom=20%", USUAL)["gpus_needed"] == plain["gpus_needed"]
    spare = needed("workload.rate=24 /s", "assume.availability=90%", USUAL)
    kinds = ("prefill_needed", "decode_needed")
    both = math.prod(up(int(spare[kind]), 0.9, int(plain[kind])) for kind in kinds)
    fewer = math.prod(up(int(spare[kind]) - 1, 0.9, int(plain[kind])) for kind in kinds)
    assert both >= 0.999 > fewer


def test_no_number_keeps_a_limit_that_a_request_alone_breaks() -> None:
    assert math.isinf(needed("limits={tpot: {at_most: 9 ms}}")["gpus_needed"])
    loop = needed("workload={kind: serving, prompt: 2048, output: 512, concurrency: 64}", USUAL)
    assert math.isnan(loop["gpus_needed"])
