"""Weights, pool and cache against the start-up logs of vLLM (llm-d-planner), published counts, and algebra."""

from __future__ import annotations

import json
from typing import Any

import pytest

from costmodel.estimate.serving.kv_cache import admitted_cache, sequence_cache
from costmodel.estimate.serving.predict_serving import layout_of, own_plan

from .cases import costs, inputs, one, predicted

GIB = 2.0**30
ONE = ("plan.replicas=1", "workload.rate=0.01 /s")
LOGGED = (*ONE, "stack=vllm-0.20", "model=llama-3.1-8b", "stack.memory.share=0.95")  # logs of 0.19


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("llama-2-13b", 819_200),
        ("llama-3.1-8b", 131_072),
        ("llama-3.1-70b", 327_680),
        ("llama-3.1-405b", 516_096),
        ("deepseek-v3", 70_272),
        ("jamba-1.5-mini", 16_384),  # "Jamba", table 1: 4 GB of 256 Ki tokens, of four layers of attention
        ("gemma-4-e2b", 6_144),  # three layers without a window keep keys, four read them
    ],
)
def test_cache_of_a_token(model: str, expected: float) -> None:
    assert costs(*ONE, f"model={model}")["kv_bytes_per_token"] == expected


def test_layers_that_share_keys_stay_on_one_stage() -> None:
    assert predicted(*ONE, "model=gemma-4-e2b", "plan.tp=1", "plan.pp=2").refused == ("L059",)


def test_one_sequence_of_llama_13b_takes_1_7_gb() -> None:
    """vLLM's first post says up to 1.7 GB."""
    found = float(sequence_cache(inputs("model=llama-13b"), 1.0, 2048.0))
    assert found == 2048 * 819_200
    assert f"{found / 1e9:.2f}" == "1.68"


def test_a_million_tokens_of_deepseek_v4_take_what_is_published() -> None:
    """9.62 GiB of a sequence in 16 bits, 8.7 times less than DeepSeek-V3.2; runs at hand come on top."""
    asked = (*ONE, "workload.cache=bf16")
    pro, before = (inputs(*asked, f"model={name}") for name in ("deepseek-v4-pro", "deepseek-v3.2"))
    sizes = [[float(sequence_cache(each, 1.0, tokens)) for tokens in (0.0, 2.0**20)] for each in (pro, before)]
    cached = [filled - empty for empty, filled in sizes]
    assert cached[0] / GIB == pytest.approx(9.62, abs=0.005)
    assert cached[1] / cached[0] == pytest.approx(8.7, abs=0.05)


def test_windows_and_runs_of_compressed_attention_take_blocks_as_large_as_entries() -> None:
    """vLLM 0.26 on H20: 7.01 GiB hold 1.11 requests of 912,128 tokens, 6.3 GiB each (issue 51041).

    A block of 256 tokens is 21 pages of 37,440 B, 21 of 8,640 and 20 of 1,728; a step's 8,192 tokens take 2,051 of them
    for runs of 4, 1,041 for runs of 128, and twice 131 for windows, whatever the request holds.
    """
    flash = ("model=deepseek-v4-flash", "cluster.node=dgx-h200", "plan={tp: 2, replicas: 1}", "stack.budget=8192")
    load = "workload={{kind: serving, prompt: 2000, output: 500, rate: 1 /s, cache: fp8, context: {}}}"
    block, extra = 21 * 37_440 + 21 * 8_640 + 20 * 1_728, 2051 + 1041 + 2 * 131
    for context in (912_128, 262_144):
        asked = inputs(*flash, load.format(context))
        held = one(admitted_cache(asked, layout_of(asked, own_plan(asked))[0], asked.load.longest))
        assert held == pytest.approx((context / 256 + extra) * block, rel=1e-3)
    assert (912_128 / 256 + extra) * block / GIB == pytest.approx(7.01 / 1.11, rel=0.05)


@pytest.mark.parametrize(
    ("tp", "weights", "runtime", "pool", "tokens"),
    [(1, 14.99, 0.25, 58.11, 476_016), (2, 7.51, 2.07, 63.8, None), (4, 3.77, 2.13, 67.4, None)],
)
def test_8b_on_h100_as_vllm_logs_it(tp: int, weights: float, runtime: float, pool: float, tokens: float | None) -> None:
    answer = predicted(*LOGGED, f"plan.tp={tp}")
    assert one(answer.evaluation.memory.runtime) / GIB == pytest.approx(runtime, rel=0.03)
    assert one(answer.evaluation.memory.weights) / GIB == pytest.approx(weights, rel=0.03)
    assert answer.costs["cache_pool"] / GIB == pytest.approx(pool, rel=0.01 if tp > 1 else 0.005)
    assert answer.costs["memory_peak"] / GIB == pytest.approx(75.23, rel=1e-3)
    if tokens is not None:
        assert answer.costs["cache_pool_tokens"] == pytest.approx(tokens, rel=0.005)


def test_captured_graphs_are_in_the_share_since_0_21() -> None:
    """51 sizes of 24 MiB, within the 0.5 to 1.9 GiB that logs state; of dense models not from 0.25 to 0.28."""
    pools = {stack: costs(*LOGGED, "plan.tp=1", f"stack={stack}", "stack.memory.share=0.95")["cache_pool"] / GIB
             for stack in ("vllm-0.19.1", "vllm-0.21", "vllm==0.26.0", "vllm-0.33")}  # fmt: skip
    before, counted, dense, now = pools.values()
    assert (before, counted) == (dense, now)
    assert before - counted == pytest.approx(51 * 24 / 1024)
    eager = costs(*LOGGED, "plan.tp=1", "stack={like: vllm, graphs: false}", "stack.memory.share=0.95")
    assert eager["cache_pool"] / GIB == before
    bare = (*LOGGED, "plan.tp=1", "stack=vllm-0.24", "stack.memory.share=0.95", "stack.memory.logit=0 B")
    few, most = costs(*bare, "stack.sequences=1"), costs(*bare)
    assert (few["cache_pool"] - most["cache_pool"]) / GIB == pytest.approx(49 * 24 / 1024)  # of 1 and of 2


def test_graphs_of_compressed_attention() -> None:
    """vLLM 0.26 on 2 H20, of 95.1 GiB: 7.01 GiB of cache, 1.11 requests of 912,128 tokens (issue 51041)."""
    load = "workload={kind: serving, prompt: 2048, output: 512, rate: 0.01 /s, cache: fp8, context: 912128}"
    engine = "stack={like: vllm-0.28, budget: 8192, sequences: 32, memory: {share: 95 %}}"
    machine = ("model=deepseek-v4-flash", "cluster.node=dgx-h100", "cluster.node.accelerator=h20")
    drafts = "speculation: {tokens: 1, draft: mtp, acceptance: 70 %}"
    found = costs(*machine, f"plan={{tp: 2, replicas: 1, {drafts}}}", load, engine)
    assert found["cache_pool"] / GIB == pytest.approx(7.01, rel=0.06)
    assert found["concurrency_worst"] == pytest.approx(1.11, rel=0.04)


def test_an_fp8_cache_doubles_the_tokens_and_not_the_bytes() -> None:
    wide, narrow = (costs(*LOGGED, "plan.tp=1", f"workload.cache={kind}") for kind in ("bf16", "fp8"))
    assert narrow["cache_pool"] == wide["cache_pool"]
    assert narrow["cache_pool_tokens"] == pytest.approx(952_032, rel=0.005)
    assert narrow["cache_pool_tokens"] / wide["cache_pool_tokens"] == pytest.approx(2.0, rel=1e-4)


def test_fp8_weights_leave_more_to_the_cache() -> None:
    """The log has 8.49 GiB of weights, and 64.61 of cache."""
    answer = predicted(*LOGGED, "plan.tp=1", "workload.weights=fp8")
    weights = one(answer.evaluation.memory.weights) / GIB
    assert weights == pytest.approx(8.49, rel=0.03)
    assert answer.costs["cache_pool"] / GIB + weights - 8.49 == pytest.approx(64.61, rel=0.005)


@pytest.mark.parametrize("context", [2048, 4096, 8192, 16_384, 32_768])
def test_the_pool_does_not_depend_on_the_context(context: int) -> None:
    wanted = ("stack=vllm-0.20", "model=qwen-2.5-7b", "plan.tp=1", "stack.memory.share=0.95")
    found = costs(*ONE, *wanted, "workload.prompt=1024", "workload.output=256", f"workload.context={context}")
    assert found["cache_pool"] / GIB == pytest.approx(58.53, rel=0.005)
    assert found["cache_pool_tokens"] == pytest.approx(1_096_000, rel=0.005)
    assert found["concurrency_worst"] == pytest.approx(found["cache_pool_tokens"] / context)


def test_a_release_alone_moves_the_pool() -> None:
    """Qwen3 14B under vLLM 0.16 and 0.17: 41.94 and 45.34 GiB, activations 5.64 and 2.23."""
    wanted = ("model=qwen-3-14b", "plan.tp=1", "stack.memory.share=0.95")
    old, new = (predicted(*ONE, f"stack={stack}", *wanted) for stack in ("vllm-0.16", "vllm-0.20"))
    assert old.costs["cache_pool"] / GIB == pytest.approx(41.94, rel=0.01)
    assert new.costs["cache_pool"] / GIB == pytest.approx(45.34, rel=0.01)
    peaks = [one(each.evaluation.memory.activations) / GIB for each in (old, new)]
    assert peaks == pytest.approx([5.64, 2.23], rel=0.01)


def test_an_rtx_3090_as_vllm_issue_10517_logs_it() -> None:
    """Weights and peak 17.06 GiB, 0.35 beside them, of 23.58 of CUDA: 3.81 GiB, 1,952 blocks, 1.56 requests."""
    machine = (
        "stack=vllm-0.20",
        "model=llama-3.1-8b",
        "cluster={node: rtx3090-2, nodes: 1}",
        "plan.tp=1",
        "workload.context=20000",
    )
    weights = one(predicted(*ONE, *machine).evaluation.memory.weights) / GIB
    peak = (f"stack.memory.layer={17.06 - weights:.4f} GiB", "stack.memory.logit=0 B", "stack.memory.context=0.35 GiB")
    found = costs(*ONE, *machine, *peak, "stack.memory.driver=0.42 GiB", "stack.memory.share=0.9")
    assert found["cache_pool"] / GIB == pytest.approx(3.81, rel=0.002)
    assert found["cache_pool_tokens"] / 16 == pytest.approx(1952, rel=0.002)
    assert found["concurrency_worst"] == pytest.approx(1.56, rel=0.002)


def test_qwen_3_235b_in_sglang_as_its_log_has_it() -> None:
    """vllm issue 21348, tp 4: 367,404 tokens are 8.23 GiB of keys and 8.23 of values on each GPU."""
    found = inputs("stack=sglang", "model=qwen-3-235b-a22b", "workload.precision=fp8", "workload.cache=bf16")
    assert round(one(sequence_cache(found, 4.0, 367_404.0)) / 2 / GIB, 2) == 8.23


def test_an_fp8_cache_doubles_the_tokens_of_an_a100() -> None:
    """vllm issue 42058, Qwen3 8B: 779,760 tokens instead of 389,872."""
    machine = ("model=qwen-3-8b", "cluster={node: dgx-a100, nodes: 1}", "plan.tp=1")
    wide, narrow = (costs(*ONE, *machine, f"workload.cache={kind}")["cache_pool_tokens"] for kind in ("bf16", "fp8"))
    assert f"{narrow / wide:.3f}" == f"{779_760 / 389_872:.3f}" == "2.000"


def test_16_sequences_of_llama_2_13b_fit_on_8_v5e() -> None:
    """ "How to Scale Your Model", chapter 7: 26 GB of weights and 6.7 GB a sequence of 8,192, in 128 GiB."""
    bare = [f"stack.memory.{name}=0 B" for name in ("driver", "logit", "layer", "context", "group_context", "graphs")]
    load = "workload={kind: serving, prompt: 4096, output: 4096, concurrency: 16}"
    machine = ("model=llama-2-13b", "cluster={node: tpu-v5e-slice, nodes: 2}", "plan={tp: 8, replicas: 1}")
    found = costs("stack=vllm-0.20", *machine, load, "limits={}", *bare, "stack.memory.share=1")
    assert 16 <= found["concurrency_worst"] < 17


def test_405b_needs_two_nodes_or_fp8() -> None:
    model = "model=llama-3.1-405b"
    single = predicted(*ONE, model)
    assert single.broken == ("M001",)
    assert 8 * one(single.evaluation.memory.weights) == pytest.approx(811.7e9, rel=2e-3)
    two = predicted(*ONE, model, "plan.pp=2")
    assert "M001" not in two.broken
    assert one(two.evaluation.memory.weights) / GIB == pytest.approx(47.2, rel=0.02)
    assert "M001" not in predicted(*ONE, model, "workload.weights=fp8").broken


def test_key_heads_repeat_beyond_their_number() -> None:
    found = inputs()
    per_rank = [float(sequence_cache(found, tp, 1.0)) for tp in (8.0, 16.0)]
    assert per_rank == [40_960.0, 40_960.0]


def test_key_heads_are_cut_without_communication(run: Any) -> None:
    """The only transfers of tensor parallelism are the all-reduces behind the projections, two a layer."""
    answer = json.loads(run("comm", "serve-llama-3.1-70b", "--json").out)
    found = {(sent["group"], sent["operation"], sent["count"]) for sent in answer["transfers"]}
    assert found == {("tp", "all_reduce", 160)}


def test_data_parallel_attention_keeps_each_latent_once() -> None:
    """DeepSeek-V3 in fp8 on 8 H200: eight copies of the cache under tp 8, one under dp_attention 8.

    Counting attention's weights alone the gain is 6.4; here the tables, dense layers and shared experts that each group
    holds whole take their part too.
    """
    machine = (
        "stack=vllm-0.20",
        "model=deepseek-v3",
        "cluster={node: dgx-h200, nodes: 1}",
        "workload.precision=fp8-block",
    )
    whole = predicted(*ONE, *machine, "plan.tp=8")
    apart = predicted(*ONE, *machine, "plan.tp=1", "plan.dp_attention=8", "plan.ep=8")
    gain = apart.costs["cache_pool_tokens"] / whole.costs["cache_pool_tokens"]
    assert gain == pytest.approx(8 * apart.costs["cache_pool"] / whole.costs["cache_pool"], rel=1e-3)
    assert gain == pytest.approx(5.43, rel=0.01)
    assert apart.costs["cache_pool_tokens"] == pytest.approx(3_768_000, rel=1e-3)
    assert whole.costs["cache_pool_tokens"] == pytest.approx(703_000, rel=0.05)


def test_windows_of_gpt_oss() -> None:
    """32 requests of 8,192 tokens: 6.09 GiB in the long run, 12.0 GiB as admitted."""
    found = inputs("model=gpt-oss-20b", "workload.context=8192")
    assert 32 * float(sequence_cache(found, 1.0, 8192.0)) / GIB == pytest.approx(6.09, rel=1e-3)
    admitted = predicted("model=gpt-oss-20b", "workload.context=8192", "plan.tp=1").evaluation.memory.one_request
    assert 32 * one(admitted) / GIB == pytest.approx(12.0, rel=3e-3)


def test_sglang_shares_what_is_free_before_loading() -> None:
    """Its rule leaves more than vLLM's share to activations and graphs: 55.7 and 50.3 GiB of an 8B by default."""
    wanted = (*ONE, "model=llama-3.1-8b", "plan.tp=1")
    ours, theirs = (costs(f"stack={stack}", *wanted)["cache_pool"] / GIB for stack in ("vllm-0.20", "sglang"))
    assert ours == pytest.approx(55.7, rel=0.01)
    assert theirs == pytest.approx(50.3, rel=0.02)
