"""Services on nodes of several kinds: each kind by itself gives the sums, means and shares of all."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load_any, vary_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.service_limits import percentile_of_kinds
from costmodel.explore.search.value_ranges import Axis
from costmodel.explore.serving.search_layouts import search_groups
from costmodel.ground.errors import CostModelError

from .cases import SHIPPED, case, predicted

KINDS = {"dgx-h100": 2, "dgx-a100": 3}
LOAD = "workload={kind: serving, prompt: 2048, output: 512, rate: 12 /s, precision: bf16}"
COMMON = (LOAD, "limits={tpot: {at_most: 60 ms}, ttft_p99: {at_most: 3 s}}", "assume={}")
GROUPS = "cluster={groups: [" + ", ".join(f"{{node: {name}, nodes: {count}}}" for name, count in KINDS.items()) + "]}"
PLANS = {"dgx-h100": "{tp: 4}", "dgx-a100": "{tp: 8}"}
MIXED = (*COMMON, GROUPS, f"plan={{groups: [{', '.join(PLANS.values())}]}}")


def alone(name: str, load: str = LOAD) -> dict[str, float]:
    """The results of one kind of nodes by itself."""
    keys = (f"cluster={{node: {name}, nodes: {KINDS[name]}}}", f"plan={PLANS[name]}", *COMMON[1:])
    return predicted(*keys, load).costs


def test_each_kind_takes_the_share_of_the_load_that_it_can_answer() -> None:
    found, rates = predicted(*MIXED), {name: alone(name)["rate_within_slo_per_s"] for name in KINDS}
    whole = sum(rates.values())
    assert [each.share for each in found.groups] == pytest.approx([rate / whole for rate in rates.values()])
    assert found.costs["rate_within_slo_per_s"] == pytest.approx(whole)
    assert found.costs["requests_per_s"] == pytest.approx(12)
    parts = [alone(name, LOAD.replace("12 /s", f"{12 * rates[name] / whole} /s")) for name in KINDS]
    for name in ("rent_per_month", "gpus", "saturation_per_s"):
        assert found.costs[name] == pytest.approx(sum(part[name] for part in parts))
    tokens = [512 * part["requests_per_s"] for part in parts]
    rent = sum(part["rent_per_month"] for part in parts) / (730 * 3600)
    assert found.costs["cost_per_mtoken"] == pytest.approx(1e6 * rent / sum(tokens))
    mean = sum(part["tpot"] * many for part, many in zip(parts, tokens, strict=True)) / sum(tokens)
    assert found.costs["tpot"] == pytest.approx(mean)
    far = sorted(part["ttft_p99"] for part in parts)
    assert far[0] < found.costs["ttft_p99"] < far[1]
    assert found.costs["tokens_per_s_per_gpu"] == pytest.approx(sum(tokens) / found.costs["gpus"])


def test_the_p99_of_all_is_that_of_a_mixture() -> None:
    """Of log-normal times drawn for each kind, as many as it answers; of a kind alone, or of equals, it is its own."""
    random = np.random.default_rng(1)
    kinds, drawn = list[dict[str, float]](), list[np.ndarray]()
    for rate, fastest, above, spread in ((6.0, 0.02, 0.1, 0.5), (3.0, 0.05, 0.3, 0.3), (1.0, 0.02, 0.9, 0.8)):
        mean, p99 = (fastest + above * math.exp(power) for power in (spread**2 / 2, 2.326348 * spread))
        kinds.append({"requests_per_s": rate, "ttft": mean, "ttft_p99": p99, "ttft_p99_high": 1.5 * p99, "tpot": 0.1})
        kinds[-1]["prompts_between"] = 0.1 - fastest
        drawn.append(fastest + above * np.exp(spread * random.standard_normal(int(200_000 * rate))))
    seen = [float(np.quantile(np.concatenate(each), 0.99)) for each in (drawn, drawn[:2])]
    assert percentile_of_kinds(kinds, "ttft_p99") == pytest.approx(seen[0], rel=5e-3)
    assert percentile_of_kinds(kinds, "ttft_p99_high") == pytest.approx(1.5 * seen[0], rel=5e-3)
    assert percentile_of_kinds(kinds[:2], "ttft_p99") == pytest.approx(seen[1], rel=5e-3)
    own = kinds[0]["ttft_p99"]
    for several in (kinds[:1], [kinds[0]] * 3, [kinds[0], kinds[2] | {"requests_per_s": 0.0}]):
        assert percentile_of_kinds(several, "ttft_p99") == pytest.approx(own, rel=1e-4)
    assert percentile_of_kinds([kinds[0], kinds[1] | {"ttft_p99": math.inf}], "ttft_p99") == math.inf


@pytest.mark.parametrize(
    ("limit", "broken"),
    [("at_least: 20", False), ("at_least: 50", True), ("at_most: 30", True), ("at_most: 40", False)],
)
def test_a_limit_is_on_all_kinds_together(limit: str, broken: bool) -> None:
    """16 H100 and 24 A100 are 40 GPUs."""
    found = predicted(*MIXED, f"limits={{gpus: {{{limit}}}}}")
    assert found.costs["gpus"] == 40
    assert ("T001" in found.broken) == broken


def test_prefill_on_one_kind_and_decode_on_another() -> None:
    """Times per token are as on nodes of decode's kind alone, and prefill is as busy as on those of its own kind."""

    def apart(nodes: tuple[str, str], cluster: str) -> dict[str, float]:
        named = [f", node: {name}" if "groups" in cluster else "" for name in nodes]
        plan = f"plan={{prefill: {{tp: 4, replicas: 2{named[0]}}}, decode: {{tp: 8, replicas: 2{named[1]}}}}}"
        return predicted(*COMMON, LOAD.replace("12 /s", "4 /s"), cluster, plan).costs

    mixed = apart(("dgx-h100", "dgx-a100"), GROUPS)
    first, second = (apart((name, name), f"cluster={{node: {name}, nodes: 4}}") for name in KINDS)
    assert mixed["tpot"] == pytest.approx(second["tpot"])
    assert mixed["cache_pool"] == pytest.approx(second["cache_pool"])
    assert mixed["prefill_utilisation"] == pytest.approx(first["prefill_utilisation"])
    assert mixed["transfer_time"] == pytest.approx(second["transfer_time"] / 2)  # out of 4 × 50 GB/s, into 8 × 25
    assert mixed["cost_per_minput"] == pytest.approx(first["cost_per_minput"])
    assert mixed["cost_per_moutput"] == pytest.approx(second["cost_per_moutput"])
    assert first["ttft"] < mixed["ttft"] < second["ttft"]
    rents = first["rent_per_month"] * 8 / 24 + second["rent_per_month"] * 16 / 24
    assert mixed["rent_per_month"] == pytest.approx(rents)


@pytest.mark.parametrize(
    ("plan", "words"),
    [("{groups: [{tp: 4}]}", "plan.groups has 1 plans"),
     ("{prefill: {tp: 4, node: dgx-h100}, decode: {tp: 4, node: dgx-h200}}", "names dgx-h100 and dgx-h200"),
     ("{prefill: {tp: 4, node: dgx-h100}, decode: {tp: 4}}", "name two kinds"),
     ("{tp: 4, groups: [{tp: 4}, {tp: 8}]}", "tp is of one plan")],
)  # fmt: skip
def test_plans_that_do_not_match_the_groups_are_refused(plan: str, words: str) -> None:
    with pytest.raises(CostModelError) as raised:
        load_any(SHIPPED, [*COMMON, GROUPS, f"plan={plan}"])
    assert words in raised.value.faults[0].sentence


def test_a_question_about_one_kind_names_them(run: object) -> None:
    keys = [f"--set={each}" for each in MIXED]
    asked = run("memory", "scenarios/serve-llama-3.1-70b.yaml", *keys)  # type: ignore[operator]
    assert (asked.code, "takes nodes of one kind" in asked.err, "dgx-a100" in asked.err) == (2, True, True)


def test_a_search_ranks_replicas_by_kind_of_node() -> None:
    """The dearer nodes come first where their tokens are cheaper, each under its own share of the load."""
    found = search_groups(serving(load_any(SHIPPED, [*COMMON, GROUPS, "search={tp: [4, 8], pp: [1]}"])), 8, ())
    order = [found.variants.of(plan.variant).case.node.name for plan in found.best]
    assert set(order) == set(KINDS)
    rents = {name: min(p.costs["cost_within_limits"] for p, each in zip(found.best, order, strict=True) if each == name)
             for name in KINDS}  # fmt: skip
    assert order[0] == min(rents, key=lambda name: rents[name])
    loads = {each.case.node.name: float(each.case.scenario.workload.rate or 0) for each in found.variants.possible()}
    assert sum(loads.values()) == pytest.approx(12)
    assert case(*MIXED).groups[0][0] == 2


def test_a_search_over_values_shares_the_load_at_each() -> None:
    """As a search at each value alone; nodes that cannot multiply in a type have no share of its load."""
    held = serving(load_any(SHIPPED, [*COMMON, GROUPS, "search={tp: [4, 8], pp: [1], budget: [8192]}"]))
    key, values = "workload.precision", ("bf16", "fp8")
    found = search_groups(held, 32, [Axis("workload.output", ("512", "128")), Axis(key, values)])
    settings, inputs = found.variants.values(2), found.variants.of(2)
    assert (settings["workload.output"], settings[key], inputs.case.node.name) == ("128", "bf16", "dgx-h100")
    share = search_groups(serving(vary_any(held, ["workload.output=128"])), 1, ()).shares["dgx-h100"][0]
    assert float(inputs.case.scenario.workload.rate) == pytest.approx(12 * share)
    assert found.shares["dgx-h100"][0] <= share < found.shares["dgx-h100"][1] == 1
    assert {plan.variant for plan in found.best} == {0, 1, 2, 3, 4, 6}  # without A100 in fp8
    with pytest.raises(CostModelError, match="D016"):
        found.variants.of(7)
    with pytest.raises(CostModelError, match="takes these as they are, and --over varies cluster"):
        search_groups(held, 1, [Axis("cluster.nodes", ("1", "2"))])
