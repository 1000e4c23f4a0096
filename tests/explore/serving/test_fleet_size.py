"""How many replicas a search gives its plans: set against every number, tried one by one."""

from __future__ import annotations

import pytest
from estimate.serving.cases import costs, inputs

from costmodel.explore.serving.search_layouts import search

EIGHT = "cluster.nodes=8"
EVERY = "search={tp: [4, 8], pp: [1], budget: [8192], replicas: [" + ", ".join(map(str, range(1, 17))) + "]}"
OPEN = "search={tp: [4, 8], pp: [1], budget: [8192]}"


@pytest.mark.parametrize(
    "settings",
    [
        ("workload.rate=2 /s",),
        ("workload.rate=20 /s", "assume.headroom=20%"),
        ("workload.rate=20 /s", "limits.limits_chance.at_least=90%"),
        ("workload.rate=14 /s", "assume.routing=least-loaded"),  # one line before all: fewer replicas each do less
    ],
)
def test_the_plan_with_the_fewest_gpus_is_found(settings: tuple[str, ...]) -> None:
    """Of every number of replicas, the fewest GPUs that need no more than there are."""
    listed = search(inputs(EIGHT, EVERY, *settings), 1000).best
    enough = [plan for plan in listed if not plan.broken and plan.costs["replicas_needed"] <= plan.costs["replicas"]]
    (best,) = search(inputs(EIGHT, OPEN, "objective=gpus_needed", *settings), 1).best
    assert not best.broken
    assert best.costs["gpus"] == best.costs["gpus_needed"] == min(plan.costs["gpus"] for plan in enough)


def test_two_requests_a_second_need_one_node_of_eight_and_its_rent() -> None:
    (best,) = search(inputs(EIGHT, "workload.rate=2 /s", "objective=gpus_needed"), 1).best
    assert best.costs["gpus"] == 8
    assert best.costs["rent_per_month"] == pytest.approx(8 * 2.50 * 730)
    for objective in ("rent_per_month", "energy_per_token"):
        (other,) = search(inputs(EIGHT, "workload.rate=2 /s", f"objective={objective}"), 1).best
        assert other.costs["gpus"] == 8


@pytest.mark.parametrize(
    ("limit", "gpus"),
    [
        ("gpus: {at_most: 24}", 24),
        ("nodes: {at_most: 3}", 24),
        ("replicas: {at_most: 2}", 16),
        ("rent_per_month: {at_most: 50 kUSD}", 24),  # 27 GPUs at 2.50 USD an hour
    ],
)
def test_a_limit_on_size_or_rent_is_filled_and_not_broken(limit: str, gpus: int) -> None:
    limits = f"limits={{ttft_p99: {{at_most: 1 s}}, tpot: {{at_most: 25 ms}}, {limit}}}"
    found = search(inputs(EIGHT, OPEN, "workload.rate=2 /s", limits), 1)
    assert found.best[0].costs["gpus"] == gpus
    assert not found.best[0].broken


def test_a_least_load_is_kept_by_fewer_replicas() -> None:
    found = search(inputs(EIGHT, OPEN, "workload.rate=8 /s", "limits.saturation_share.at_least=40%"), 1)
    assert not found.best[0].broken
    assert found.best[0].costs["gpus"] < 64


def test_instances_apart_are_as_few_of_each_kind_as_the_rate_needs() -> None:
    settings = ("workload.rate=20 /s", "limits={tpot: {at_most: 13 ms}, ttft_p99: {at_most: 1 s}}")
    space = "search={tp: [8], pp: [1], disaggregated: true}"
    (best,) = search(inputs(EIGHT, space, "objective=gpus_needed", *settings), 1).best
    assert best.prefill is not None
    counts = best.prefill["replicas"], best.sizes["replicas"]
    plan = "plan={prefill: {tp: 8, replicas: 1}, decode: {tp: 8, replicas: 1}}"
    alone = costs(EIGHT, plan, *settings)
    assert counts == (alone["prefill_needed"], alone["decode_needed"])
    assert best.costs["gpus"] == alone["gpus_needed"]


def test_a_plan_is_listed_once() -> None:
    found = search(inputs("limits.saturation_share.at_least=10 %"), 100)
    seen = [tuple(sorted(each.sizes.items())) for each in found.best]
    assert len(seen) == len({*seen}) == found.tally.fit
