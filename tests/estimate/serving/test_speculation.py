"""Speculative decoding in plans: what drafts gain, cost and break."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costmodel.estimate.serving.operating_point import ExactSteps
from costmodel.estimate.serving.step_table import step_table
from costmodel.ground.errors import CostModelError
from estimate.serving.cases import UNLAUNCHED, costs, inputs, one, predicted
from estimate.serving.test_steady_state import layout

EAGLE = "plan.speculation={tokens: 4, chance: 80 %, draft: eagle}"
ALONE = ("plan.replicas=1", "cluster.nodes=1")


DENSE = ("model=llama-3.1-8b", "plan.tp=1")


def short(users: int) -> str:
    """Short requests, whose steps are matrix products."""
    return f"workload={{kind: serving, prompt: 64, output: 64, concurrency: {users}}}"


def test_a_dense_model_gains_at_small_batches_and_loses_at_large_ones() -> None:
    """3.36 tokens a step; at batch 1 at most so many times as fast, beyond the break-even slower."""
    gains = [costs(EAGLE, short(users), *ALONE, *UNLAUNCHED)["speculation_gain"] for users in (1, 16, 64, 256, 900)]
    assert gains == sorted(gains, reverse=True)
    assert 2.8 < gains[0] < 3.3616
    assert gains[-1] < 1
    assert costs(EAGLE, ALONE[0])["accepted_tokens"] == pytest.approx(3.3616)


def test_a_dense_8b_gains_nothing_at_256() -> None:
    """0.74 of matrix products at their limits alone; here attention and the host, which drafts do not multiply, too."""
    gains = [costs(EAGLE, short(users), *ALONE, *DENSE, *UNLAUNCHED)["speculation_gain"] for users in (1, 256, 512)]
    assert gains == pytest.approx([2.51, 0.98, 0.91], abs=0.02)


def test_at_the_break_even_a_token_takes_as_long_as_without() -> None:
    found = inputs(EAGLE, short(1), *ALONE)
    most = costs(EAGLE, short(1), *ALONE)["speculation_break_even"]
    with_drafts, without = (ExactSteps(each, layout()) for each in (found, inputs(short(1), *ALONE)))
    many = np.array([most])
    token = one(with_drafts.decode(many)) / one(found.load.accepted)
    assert token == pytest.approx(one(without.decode(many)), rel=1e-3)


def test_tokens_in_flight_follow_littles_law() -> None:
    found = costs(EAGLE)
    assert found["concurrency"] == pytest.approx(4 * 512 * found["tpot"], rel=1e-6)
    terms = ("matmul", "attention", "memory_bound", "tp_exposed", "host_time", "draft_time", "prompts_between")
    assert sum(found[name] for name in terms) == pytest.approx(found["tpot"], rel=1e-6)


def test_drafts_that_are_never_accepted_only_cost() -> None:
    found = costs(EAGLE, "plan.speculation.chance=0")
    assert found["accepted_tokens"] == 1
    assert found["speculation_gain"] < 1
    assert found["speculation_break_even"] == 0


def test_one_draft_in_each_of_the_three_ways_in_which_people_state_what_is_accepted() -> None:
    """Of four drafts, each accepted with a chance of 80 %, 59 % are; a step adds 3.36 tokens."""
    stated = ("chance: 80 %", "acceptance: 59.04 %", "length: 3.3616")
    plans = [f"plan.speculation={{tokens: 4, {each}, draft: eagle}}" for each in stated]
    assert [costs(each, ALONE[0])["accepted_tokens"] for each in plans] == pytest.approx([3.3616] * 3)
    assert [costs(each, ALONE[0])["tpot"] for each in plans] == pytest.approx([costs(plans[0], ALONE[0])["tpot"]] * 3)
    faults = {"acceptance: 42 %, length: 2": "acceptance and length are given", "length: 5.1": "5 tokens"}
    for fault, words in faults.items():
        with pytest.raises(CostModelError, match=words):
            costs(f"plan.speculation={{tokens: 4, {fault}, draft: eagle}}")


def test_what_vllm_printed_gives_what_was_measured() -> None:
    """A 27B in NVFP4 on an RTX PRO 6000, 512 tokens in and out: 4 drafts with an acceptance of 0.42 are 1.84 times as
    fast, 2 with 0.59 1.52 times (qwen38-mtp, pull request 11).
    """
    base = ("cluster={node: rtx-pro-6000-max-q-4, nodes: 1}", "limits={}")
    load = "workload={kind: serving, prompt: 512, output: 512, concurrency: 1, weights: nvfp4}"
    found = [
        costs("model=qwen-3.5-27b", *base, load, "plan={tp: 1, replicas: 1}", drafts)
        for drafts in (
            "plan.speculation={tokens: 4, acceptance: 42 %, draft: mtp}",
            "plan.speculation={tokens: 2, acceptance: 59 %, draft: mtp}",
        )
    ]
    assert [each["accepted_tokens"] for each in found] == pytest.approx([2.68, 2.18])
    assert [each["speculation_gain"] for each in found] == pytest.approx([1.84, 1.52], rel=0.15)


def test_copied_text_costs_only_its_verification() -> None:
    copied, drafted = (costs(EAGLE, f"plan.speculation.draft={draft}") for draft in ("ngram", "llama-3.2-1b"))
    assert copied["draft_time"] == 0 < drafted["draft_time"]
    assert copied["tpot"] < drafted["tpot"]
    assert copied["cache_pool_tokens"] == costs()["cache_pool_tokens"] > drafted["cache_pool_tokens"]


def test_a_mixture_reads_more_experts_for_more_tokens() -> None:
    """DeepSeek-V3 at batch 1 gains less than its 1.85 tokens a step: two tokens touch twice the experts of one."""
    mtp = "plan.speculation={tokens: 1, chance: 85 %, draft: mtp}"
    node = ("model=deepseek-v3", "cluster.node=dgx-h200", *ALONE)
    load = "workload={kind: serving, precision: fp8-block, prompt: 1024, output: 1024, concurrency: 1}"
    found = costs(mtp, *node, load)
    assert found["accepted_tokens"] == pytest.approx(1.85)
    assert 1.1 < found["speculation_gain"] < 1.7


def test_without_drafts_nothing_is_said_of_them() -> None:
    found = costs()
    assert found["accepted_tokens"] == 1
    assert math.isnan(found["speculation_gain"])
    assert math.isnan(found["speculation_break_even"])
    assert found["draft_time"] == 0


def test_the_table_gives_the_steps_of_the_equations() -> None:
    found, plans = inputs(EAGLE), layout()
    exact, quick = ExactSteps(found, plans), step_table(found, plans)
    for decodes, tokens in ((2.0, 100.0), (37.3, 2048.0), (900.0, 4000.0)):
        many, beside = np.array([decodes]), np.array([tokens])
        assert one(quick.decode(many)) == pytest.approx(one(exact.decode(many)), rel=5e-4)
        assert one(quick.mixed(many, beside)) == pytest.approx(one(exact.mixed(many, beside)), rel=5e-4)


def test_a_pipeline_takes_no_drafts() -> None:
    assert predicted(EAGLE, "plan.pp=2", "plan.replicas=1").refused == ("L058",)


@pytest.mark.parametrize(
    ("draft", "words"),
    [("mtp", "no layer for mtp"), ("gpt-oss-20b", "cannot draft"), ("llama", "no model named")],
)
def test_what_cannot_draft_is_a_fault(draft: str, words: str) -> None:
    with pytest.raises(CostModelError, match=words):
        inputs(f"plan.speculation={{tokens: 4, chance: 80 %, draft: {draft}}}")


@pytest.mark.parametrize(("tokens", "depth", "width", "siblings"), [(12, 4, 3, 3), (8, 4, 8, 2), (5, 5, 1, 1)])
def test_a_tree_goes_on_where_any_of_its_siblings_is_accepted(
    tokens: int, depth: int, width: int, siblings: int
) -> None:
    """Drawn level by level: it ends at the first one in which none is accepted."""
    drawn = np.random.default_rng(2).random((200_000, depth, siblings)) < 0.6
    seen = 1 + np.cumprod(np.any(drawn, axis=2), axis=1).sum(axis=1).mean()
    tree = f"plan.speculation={{tokens: {tokens}, depth: {depth}, width: {width}, chance: 60 %, draft: eagle}}"
    assert costs(tree, *ALONE)["accepted_tokens"] == pytest.approx(seen, rel=0.01)


def test_a_tree_is_drafted_level_by_level_and_verified_whole() -> None:
    """Of one length, twelve tokens in four levels take the passes of a chain of four, and its verification more."""
    load, length = short(64), "length: 3, draft: eagle}"
    chain, tree, long = (
        costs(f"plan.speculation={{{shape}, {length}", load, *ALONE)
        for shape in ("tokens: 4", "tokens: 12, depth: 4, width: 3", "tokens: 12")
    )
    assert chain["draft_time"] < tree["draft_time"] < 0.7 * long["draft_time"]
    assert chain["matmul"] < tree["matmul"] == pytest.approx(long["matmul"])


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ("tokens: 4, depth: 5, chance: 60 %", "neither more levels"),
        ("tokens: 4, width: 2, chance: 60 %", "state depth"),
        ("tokens: 12, depth: 4, width: 3, acceptance: 50 %", "adds 5 tokens at most"),
        ("tokens: 12, depth: 4, width: 3, length: 6", "adds 5 tokens at most"),
    ],
)
def test_trees_that_make_no_sense(shape: str, sentence: str) -> None:
    with pytest.raises(CostModelError, match=sentence):
        inputs(f"plan.speculation={{{shape}, draft: eagle}}")
