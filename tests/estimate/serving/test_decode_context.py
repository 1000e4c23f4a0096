"""Decode context parallelism: what ranks of tp keep, read and exchange where they divide a cache by tokens."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.estimate.serving.operating_point import ExactSteps
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.predict_serving import layout_of, own_plan
from costmodel.estimate.serving.replica_capacity import transfers
from costmodel.estimate.serving.step_table import step_table
from costmodel.explore.serving.best_layout import plan_settings
from costmodel.explore.serving.search_layouts import search
from costmodel.explore.serving.serving_remedies import with_remedies

from .cases import costs, inputs, one, predicted

H200 = ("cluster.node=dgx-h200", "cluster.nodes=1", "limits={}")
LATENT = ("model=deepseek-v3", *H200)
GROUPED = ("model=qwen-3-235b-a22b", *H200)  # 4 key-value heads, so tp 8 keeps two copies


def load(prompt: int, users: int = 8) -> str:
    return f"workload={{kind: serving, precision: fp8, prompt: {prompt}, output: 2000, concurrency: {users}}}"


def plan(dcp: float, more: str = "") -> str:
    return f"plan={{tp: 8, dcp: {dcp:g}, replicas: 1{more}}}"


@pytest.mark.parametrize(("model", "most"), [(LATENT, 8), (GROUPED, 2)])
def test_a_replica_holds_as_many_times_the_tokens(model: tuple[str, ...], most: int) -> None:
    """vLLM multiplies the size of the cache that its log prints by dcp; bytes of the pool are the same."""
    alone, shared = (predicted(*model, load(8000), plan(dcp)) for dcp in (1, most))
    assert shared.costs["cache_pool"] == alone.costs["cache_pool"]
    assert shared.costs["cache_pool_tokens"] == most * alone.costs["cache_pool_tokens"]
    assert one(shared.evaluation.memory.one_request) == pytest.approx(
        one(alone.evaluation.memory.one_request) / most, rel=0.02
    )
    assert shared.costs["concurrency_steady"] == pytest.approx(most * alone.costs["concurrency_steady"], rel=0.02)
    assert shared.costs["kv_bytes_per_token"] == alone.costs["kv_bytes_per_token"]


def test_a_plan_without_it_is_what_it_was() -> None:
    left_out = predicted(*LATENT, load(8000), "plan={tp: 8, replicas: 1}")
    assert predicted(*LATENT, load(8000), plan(1)).costs == pytest.approx(left_out.costs, rel=0, abs=0, nan_ok=True)
    assert left_out.costs["dcp_exposed"] == 0


@pytest.mark.parametrize(
    ("model", "dcp", "messages"),
    [
        # 128 heads of 512 + 64, a sum in fp32 of each from each rank, 128 results of 512
        (LATENT, 8, (128 * 576 * 2, 8 * 128 * 4, 128 * 512 * 2)),
        ((*LATENT, "stack=sglang"), 4, (64 * 576 * 2, 4 * 64 * 4, 64 * 512 * 4)),  # summed up in fp32
        (GROUPED, 2, (16 * 128 * 2, 2 * 16 * 4, 16 * 128 * 2)),  # two ranks of 8 heads
    ],
)
def test_every_layer_gathers_queries_and_sums_up_results(
    model: tuple[str, ...], dcp: int, messages: tuple[float, ...]
) -> None:
    found = inputs(*model, load(8000), plan(dcp))
    layout, _ = layout_of(found, own_plan(found))
    each = [item for item in transfers(found, layout, 100.0) if item.transfer.axis == "dcp"]
    steps = [item.transfer for item in each if item.moment == "step"]
    assert [one(transfer.message) for transfer in steps] == [100.0 * message for message in messages]
    assert [transfer.operation for transfer in steps] == ["all_gather", "all_gather", "reduce_scatter"]
    layers = sum(kind.count for kind in found.model.layers)
    assert {one(transfer.count) for transfer in steps} == {layers}
    prompts = [item.transfer for item in each if item.moment == "prompt"]
    if model is GROUPED:  # their prompts exchange queries too
        assert [one(transfer.message) for transfer in prompts] == [8000.0 * message for message in messages]
    exchanged = sum(one(transfer.total_time) for transfer in steps)
    assert one(ExactSteps(found, layout).breakdown(np.array([100.0])).dcp) == pytest.approx(exchanged)


def test_latents_of_earlier_chunks_are_gathered_for_a_prompt() -> None:
    """In one chunk nothing; of 20,000 tokens by 8,192 the second chunk gathers one before it, the third two."""
    gathered = []
    for prompt in (8000, 20_000):
        found = inputs(*LATENT, load(prompt), plan(8))
        layout, _ = layout_of(found, own_plan(found))
        sent = [item.transfer for item in transfers(found, layout, 8.0) if item.moment == "prompt"]
        gathered.append([one(each.message) for each in sent if each.axis == "dcp"])
    assert gathered == [[], [pytest.approx(3 * 8192 * 576 * 2)]]


@pytest.mark.parametrize(("model", "most"), [(LATENT, 8), (GROUPED, 2)])
def test_a_rank_reads_its_part_of_the_tokens(model: tuple[str, ...], most: int) -> None:
    """What each further token adds to attention falls to its part, down to what products take of latent attention."""

    def of_token(dcp: int) -> float:
        times = []
        for held in (50_000.0, 150_000.0):
            found = inputs(*model, load(8000), plan(dcp))
            layout, _ = layout_of(found, own_plan(found))
            times.append(one(ExactSteps(found, layout, held=held).breakdown(np.array([8.0])).attention))
        return (times[1] - times[0]) / 1e5

    ratio = of_token(1) / of_token(most)
    assert ratio == pytest.approx(2) if most == 2 else 1 < ratio < 8
    shares = [of_token(dcp) for dcp in (1, 2, 4)[: most // 2 + 1]]
    assert shares == sorted(shares, reverse=True)


def test_short_contexts_get_slower_and_long_ones_gain() -> None:
    """As many requests as wait for a place: the exchange takes the same time, while more of long ones fit."""
    gains = []
    for prompt in (2000, 60_000):
        alone, shared = (costs(*LATENT, load(prompt, 32), plan(dcp)) for dcp in (1, 8))
        gains.append(shared["output_tokens_per_s"] / alone["output_tokens_per_s"])
        assert shared["dcp_exposed"] > 0
        terms = ("matmul", "attention", "memory_bound", "tp_exposed", "dcp_exposed", "ep_exposed", "pp_exposed",
                 "host_time", "draft_time", "prompts_between")  # fmt: skip
        assert sum(shared[name] for name in terms) == pytest.approx(shared["tpot"])
    assert gains[0] < 0.95 < 1.3 < gains[1]
    quiet = [costs(*LATENT, load(60_000, 1), plan(dcp))["ttft"] for dcp in (1, 8)]
    assert quiet[0] <= quiet[1] < 1.1 * quiet[0]  # a prompt gets no faster


@pytest.mark.parametrize("model", [LATENT, GROUPED])
def test_tabulated_steps_are_those_of_the_equations(model: tuple[str, ...]) -> None:
    found = inputs(*model, load(30_000), plan(2, ", speculation: {tokens: 2, chance: 0.7, draft: eagle}"))
    ones = np.ones(3)
    layout = PlanColumns(8 * ones, ones, ones, ones, ones, 8192 * ones, 0 * ones, np.array([1.0, 2.0, 1.0]))
    exact, table = ExactSteps(found, layout), step_table(found, layout)
    for decodes, tokens in ((1.0, 200.0), (40.0, 3000.0), (300.0, 8000.0)):
        many, prompts = np.full(3, decodes), np.full(3, tokens)
        assert np.allclose(table.decode(many), exact.decode(many), rtol=5e-3)
        assert np.allclose(table.mixed(many, prompts), exact.mixed(many, prompts), rtol=5e-3)
    assert np.all(exact.decode(ones)[1] > exact.decode(ones)[[0, 2]])


@pytest.mark.parametrize(
    ("settings", "codes", "fix"),
    [
        ((*LATENT, plan(3)), ("L063",), "plan.dcp=2"),
        ((*GROUPED, plan(4)), ("L064",), "plan.dcp=2"),
        ((*H200, "plan={tp: 8, dcp: 2}"), ("L064",), "plan.dcp=1"),  # 8 key-value heads, no copies
        ((*GROUPED, "stack=sglang", plan(2)), ("L065",), "plan.dcp=1"),  # latent attention alone
        ((*LATENT, "stack=trt-llm", plan(2)), ("L065",), "plan.dcp=1"),
        (("model=deepseek-v3.2", *H200, plan(8)), ("L065",), "plan.dcp=1"),  # an indexer
        (("model=gpt-oss-120b", *H200, "plan={tp: 8, dcp: 2}"), ("L064", "L065"), "plan.dcp=1"),  # windows
        (("model=kimi-k2", "cluster.node=dgx-h200", "plan={tp: 16, dcp: 16}"), (), ""),
        ((*GROUPED, plan(2)), (), ""),
    ],
)
def test_what_cannot_be_divided_is_refused(settings: tuple[str, ...], codes: tuple[str, ...], fix: str) -> None:
    found = predicted(*settings)
    assert found.refused == codes
    if fix:
        assert fix in [first for kind in with_remedies(found).remedies for (first, *_) in kind]


def test_search_tries_the_degrees_that_are_listed() -> None:
    """Every plan has the figures that it has alone; without a list there is none, and what the plan states stays."""
    stated = (*LATENT, load(30_000), "plan={tp: 8}")
    space = "search={tp: [4, 8], pp: [1], ep: [1], dp_attention: [1], budget: [8192], dcp: [1, 8], replicas: [1]}"
    found = search(inputs(*stated, space), 50)
    shown = {each.sizes.get("dcp", 1.0): each for each in found.best}
    assert set(shown) == {1.0, 8.0}
    for dcp, ranked in shown.items():
        alone = costs(*LATENT, load(30_000), plan(dcp))
        assert ranked.costs["tpot"] == pytest.approx(alone["tpot"], rel=1e-9)
        settings = [f"{key}={value}" for key, value in plan_settings(found, ranked).items()]
        assert predicted(*stated, *settings).plan.dcp == dcp
    assert not any("dcp" in each.sizes for each in search(inputs(*stated, space.replace("dcp: [1, 8], ", "")), 50).best)
    kept = search(inputs(*LATENT, load(30_000), plan(8), space), 50)
    assert {each.sizes.get("dcp", 1.0) for each in kept.best} == {8.0}


def test_instances_that_generate_may_divide_their_cache() -> None:
    more = ("model=deepseek-v3", "cluster.node=dgx-h200", "cluster.nodes=2", "limits={}")
    halves = "plan={{prefill: {{tp: 8}}, decode: {{tp: 8, dcp: {dcp}}}}}"
    alone, shared = (predicted(*more, load(60_000, 64), halves.format(dcp=dcp)) for dcp in (1, 8))
    assert shared.costs["cache_pool_tokens"] == 8 * alone.costs["cache_pool_tokens"]
    assert shared.costs["transfer_time"] == alone.costs["transfer_time"]
    found = search(inputs(*more, load(60_000, 64), "plan={tp: 8}", "search={tp: [8], pp: [1], ep: [1], dp_attention: "
                          "[1], dcp: [1, 8], disaggregated: true}"), 50)  # fmt: skip
    apart = [each for each in found.best if each.prefill is not None]
    assert {(each.prefill.get("dcp", 1), each.sizes.get("dcp", 1)) for each in apart if each.prefill} == {
        (1, 1), (1, 8), (8, 1), (8, 8)
    }  # fmt: skip
