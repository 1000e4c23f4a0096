"""Experts over many nodes: dispatch against the kernels' own table, and a published service."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.estimate.machine.process_groups import SentTokens, Transfer, dispatch_time
from costmodel.estimate.serving.engine_memory import memory_use
from costmodel.estimate.serving.expert_step import expert_transfers
from costmodel.estimate.serving.operating_point import ExactSteps
from costmodel.estimate.serving.plan_columns import PlanColumns, engine_group
from costmodel.estimate.serving.step_table import step_table
from estimate.serving.cases import costs, inputs, one, predicted

H800 = ("model=deepseek-v3", "cluster={node: hgx-h800, nodes: 56}", "stack=sglang", "limits={}")
LOAD = (
    "workload={kind: serving, prompt: 4383, output: 1211, shared_prefix: 2466, concurrency: 8500, precision: fp8-block}"
)


def layout(ranks: int) -> PlanColumns:
    """Attention of so many groups of one rank, and experts over all of them."""
    ranks_of = np.array([float(ranks)])
    one_of = np.ones(1)
    return PlanColumns(one_of, one_of, ranks_of, ranks_of, one_of, np.array([8192.0]))


def exchanged(ranks: int, tokens: float, *settings: str, prompts: bool = False) -> list[Transfer]:
    """Transfers of one layer with so many tokens on each rank."""
    stated = inputs(*H800, LOAD, f"plan={{dp_attention: {ranks}, ep: {ranks}}}", *settings)
    experts = stated.model.layers[-1].experts
    assert experts is not None
    return list(expert_transfers(stated, layout(ranks), experts, tokens * ranks, prompts=prompts))


@pytest.mark.parametrize(
    ("ranks", "published"), [(8, (77, 114)), (16, (118, 195)), (32, (155, 273)), (64, (173, 314)), (128, (192, 369))]
)
def test_low_latency_kernels(ranks: int, published: tuple[float, float]) -> None:
    """DeepEP's table for 128 tokens, 15 % from the fabric."""
    found = exchanged(ranks, 128.0, "assume.network_share=1", "stack.dispatch.from_domains=1")
    assert [one(each.time) * 1e6 for each in found] == pytest.approx(published, rel=0.15)


def test_a_domain_gathers() -> None:
    assert [each.operation for each in exchanged(8, 64.0)] == ["all_gather", "reduce_scatter"]
    assert [each.operation for each in exchanged(16, 64.0)] == ["all_to_all", "all_to_all"]


def test_prompts_send_one_copy_to_a_node() -> None:
    """Eight copies of a token or one to each of at most four nodes: routing is limited to four groups of experts."""
    for decode, prompt in zip(exchanged(64, 64.0), exchanged(64, 64.0, prompts=True), strict=True):
        assert decode.carried is not None
        assert prompt.carried is not None
        assert one(decode.carried) == pytest.approx(one(decode.message) * 7 / 8)
        assert 0.4 < one(prompt.carried) / one(decode.carried) <= 0.5
    sent = exchanged(64, 64.0)
    assert one(sent[1].message) / one(sent[0].message) == pytest.approx(2 / (1 + 4 / 128))


@pytest.mark.parametrize("halves", ["false", "true"])
def test_quick_steps_equal_exact_ones(halves: str) -> None:
    stated = inputs(*H800, LOAD, "plan={dp_attention: 64, ep: 64}", f"stack.dispatch.two_batches={halves}")
    exact, quick = ExactSteps(stated, layout(64)), step_table(stated, layout(64))
    assert one(quick.decode(4096.0)) == pytest.approx(one(exact.decode(4096.0)), rel=2e-3)
    assert one(quick.mixed(4096.0, 2048.0)) == pytest.approx(one(exact.mixed(4096.0, 2048.0)), rel=2e-3)


def test_one_half_hides_behind_the_other() -> None:
    """Nothing is gained beyond the shorter of both, and weights are read twice."""
    plan, halves = "plan={dp_attention: 64, ep: 64}", "stack.dispatch.two_batches=true"
    for decodes in (64.0, 8192.0):
        whole = ExactSteps(inputs(*H800, LOAD, plan), layout(64)).breakdown(np.array([decodes]))
        cut = ExactSteps(inputs(*H800, LOAD, plan, halves), layout(64)).breakdown(np.array([decodes]))
        assert one(cut.matmul) > one(whole.matmul)
        assert one(cut.total) >= max(one(whole.ep), one(whole.compute))
        assert one(cut.ep) < one(whole.ep)
    assert one(cut.total) < one(whole.total)


def test_deepseeks_own_service() -> None:
    """73.7 k tokens in, 56 % of them cached, and 14.8 k out a node and second, at 20 to 22 tokens a second and user.

    Decode over 144 GPUs with 32 copies of experts, two experts on each, and in two half batches, as there.
    """
    copies = "redundant_experts: 32"
    halves = f"prefill: {{dp_attention: 32, ep: 32, replicas: 10}}, decode: {{dp_attention: 144, ep: 144}}, {copies}"
    overlap = ("stack.dispatch.two_batches=true", "workload.concurrency=11800")
    found = costs(*H800, LOAD, f"plan={{{halves}}}", *overlap)
    assert 1 / found["tpot"] == pytest.approx(21, rel=0.05)
    assert found["requests_per_s"] * 1211 / 18 == pytest.approx(14_800, rel=0.1)
    prompts = ("stack.budget=65536", "stack.memory.share=80 %", "workload.concurrency=36000")
    halves = f"prefill: {{dp_attention: 32, ep: 32, replicas: 1}}, decode: {{dp_attention: 144, ep: 144}}, {copies}"
    busy = costs(*H800, LOAD, f"plan={{{halves}}}", *prompts)
    assert busy["requests_per_s"] * 4383 / 4 == pytest.approx(73_700, rel=0.35)


def test_the_answer_states_the_form() -> None:
    named = {each.path: each.value for each in predicted(*H800, LOAD, "plan={dp_attention: 64, ep: 64}").assumed}
    assert "stack.dispatch" in named


NVL72 = ("model=deepseek-v3", "cluster={node: gb200-nvl72, nodes: 18}", "stack=sglang", "limits={}")
WIDE = "workload={{kind: serving, prompt: 2000, output: 1000, concurrency: {}, precision: fp8-block}}"


@pytest.mark.parametrize("users", [1, 64])
def test_wide_experts_inside_one_domain_of_72(users: int) -> None:
    """Decode on 8 to 64 of 72 GPUs: no rank reads more bytes of experts where more ranks hold
    them, all-to-all stays on NVLink, and a step takes no less than weights and cache of a rank at full bandwidth.
    """
    weights, matmuls = [], []
    for ranks in (8, 16, 32, 64):
        load = WIDE.format(users * ranks)
        stated, rows = inputs(*NVL72, load, f"plan={{dp_attention: {ranks}, ep: {ranks}}}"), layout(ranks)
        step = ExactSteps(stated, rows).breakdown(np.array([float(users * ranks)]))
        use = memory_use(stated, rows)
        held, cache = one(use.weights), users * 2500 * one(use.per_token)
        read = held if users > 1 else 0.0  # of few tokens not all experts are read
        assert one(step.total) > (read + cache) / 8e12
        weights.append(held)
        matmuls.append(one(step.matmul))
        if ranks > 8:
            experts = stated.model.layers[-1].experts
            assert experts is not None
            for each in expert_transfers(stated, rows, experts, float(users * ranks), prompts=False):
                assert (each.operation, one(each.group.domains)) == ("all_to_all", 1)
                assert each.carried is not None
                assert one(each.time) == pytest.approx(12e-6 + one(each.carried) / (0.56 * 900e9))
    assert weights == sorted(weights, reverse=True)
    assert matmuls == sorted(matmuls, reverse=True)


# Dispatch and combine on GB200 in us, by ranks and by tokens of a rank (blog 18 of TensorRT-LLM, balanced routing).
ONE_SIDED = {
    8: {1: (18.9, 31.0), 128: (31.7, 38.1), 512: (89.5, 91.7), 2048: (311.8, 322.6)},
    16: {1: (18.8, 30.8), 128: (34.6, 39.9), 512: (97.1, 98.2), 2048: (343.3, 348.4)},
    32: {1: (19.8, 31.4), 128: (37.8, 41.1), 512: (109.6, 102.5), 2048: (373.7, 369.5)},
    64: {1: (27.8, 32.6), 128: (41.6, 44.5), 512: (115.7, 106.7), 2048: (399.2, 372.1)},
}


@pytest.mark.parametrize("ranks", ONE_SIDED)
def test_the_all_to_all_of_tensorrt_llm(ranks: int) -> None:
    """256 experts, 8 of a token on as many ranks, width 7,168, 16 bits both ways; the sum within 27 %."""
    stated = inputs(*NVL72[:2], "stack=trt-llm", "limits={}", WIDE.format(8).replace("fp8-block", "bf16"))
    dispatch = stated.engine.dispatch
    assert dispatch is not None
    assert dispatch.one_sided is not None
    group = engine_group(stated, layout(ranks), "ep", np.array([float(ranks)]))
    for tokens, published in ONE_SIDED[ranks].items():
        sent = SentTokens(float(tokens), 7168.0, 2.0, 8.0, 0.0)
        assert 2 * one(dispatch_time(stated, dispatch.one_sided, sent, group)[0]) * 1e6 == pytest.approx(
            sum(published), rel=0.27
        )


def test_tensorrt_llm_gathers_where_experts_are_cut_or_the_link_has_no_switch() -> None:
    """CommunicationFactory: an all-to-all for whole experts over NVLink, else all-gather and reduce-scatter."""
    for node, ep, wanted in (
        ("dgx-b200", 8, "all_to_all"),
        ("dgx-b200", 1, "all_gather"),
        ("pcie-l40s-8", 8, "all_gather"),
    ):
        stated = inputs(
            "model=deepseek-v3", f"cluster={{node: {node}, nodes: 1}}", "stack=trt-llm", "limits={}",
            WIDE.format(64).replace("fp8-block", "fp8"), f"plan={{dp_attention: 8, ep: {ep}}}",
        )  # fmt: skip
        experts = stated.model.layers[-1].experts
        assert experts is not None
        rows = layout(8)
        rows = (
            rows
            if ep == 8
            else PlanColumns(rows.tp, rows.pp, np.ones(1), rows.dp_attention, rows.replicas, rows.budget)
        )
        first, *_ = expert_transfers(stated, rows, experts, 512.0, prompts=False)
        assert first.operation == wanted
