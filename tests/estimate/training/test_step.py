"""The training step: limits known on paper, and its parts computed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from costmodel.documents.reader.library import read
from costmodel.equations.kernels.roofline import part_slowdown
from costmodel.estimate.model.shards import layer_matmuls, shard
from costmodel.estimate.training.layer_kernels import linear_map
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.estimate.training_answer.predict_training import Answer, answer
from costmodel.explore.search.training_candidates import grids, stem, valid_blocks
from estimate.cases import ask, costs, inputs, model, one, with_mixer, without_network, written_out

TERMS = (
    "matmul",
    "attention",
    "memory_bound",
    "launch",
    "tp_exposed",
    "ep_exposed",
    "pp_exposed",
    "dp_exposed",
    "bubble",
    "optimizer",
)
EXPOSED = ("tp_exposed", "pp_exposed", "dp_exposed")
PLANS: list[dict[str, Any]] = [
    {"zero": 0},
    {"tp": 8},
    {"tp": 2, "pp": 4, "zero": 1},
    {"tp": 2, "pp": 4, "vpp": 2, "recompute": "full"},
    {"pp": 2, "zero": 2, "micro_batch": 2},
    {"zero": 3, "micro_batch": 4},
    {"tp": 4, "pp": 2, "sequence_parallel": False, "schedule": "gpipe"},
    {"tp": 2, "pp": 2, "order": "tp-cp-pp-dp"},
]
every_plan = pytest.mark.parametrize("plan", PLANS, ids=str)


def two_nodes(**more: Any) -> TrainingInputs:
    return inputs(nodes=2, global_batch=128, **more)


def alone(**more: Any) -> TrainingInputs:
    """A node with one accelerator."""
    node = written_out("node", "dgx-h100", name="one", accelerators=1, scale_out={"nics": 1})
    return inputs(model(), node=node, **more)


def evaluated(asked: TrainingInputs) -> Iterator[Any]:
    """Costs of every valid plan of a space, block by block."""
    for grid in grids(asked):
        for block, _ in valid_blocks(asked, grid, stem(asked, grid, Counter()), Counter()):
            yield evaluate(asked, block).costs


# ── Communication ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_accelerator_does_not_communicate() -> None:
    asked = alone()
    for zero in range(4):
        row = costs(asked, zero=zero)
        assert {row[name] for name in (*EXPOSED, "bubble")} == {0}
        assert {row[f"{name}_volume"] for name in ("tp", "dp", "pp")} == {0}
        assert row["communication_efficiency"] == 1
        assert row["step_time"] == pytest.approx(
            sum(row[name] for name in ("matmul", "attention", "memory_bound", "launch", "optimizer"))
        )


@every_plan
def test_infinite_links_leave_compute(plan: dict[str, Any]) -> None:
    asked = two_nodes()
    real, free = costs(asked, **plan), costs(without_network(asked), **plan)
    compute = ("matmul", "attention", "memory_bound", "optimizer")
    assert sum(free[name] for name in EXPOSED) == pytest.approx(0, abs=1e-9 * free["step_time"])
    assert [free[name] for name in compute] == pytest.approx([real[name] for name in compute])
    assert free["launch"] >= real["launch"], "the host issues as much, and has less to hide behind"
    assert free["step_time"] == pytest.approx(sum(free[name] for name in (*compute, "launch", "bubble")))
    assert free["step_time"] < real["step_time"]
    assert free["tp_volume"] == real["tp_volume"], "what is sent does not depend on how fast"


@every_plan
@pytest.mark.parametrize("stack", ["megatron-core", "fsdp2"])
def test_terms_sum_to_the_step(plan: dict[str, Any], stack: str) -> None:
    row = ask(two_nodes(stack=stack), **plan).evaluation.costs.row()
    assert row["step_time"] == pytest.approx(sum(row[name] for name in TERMS))
    assert all(row[name] >= 0 for name in TERMS)
    assert row["bubble_share"] == pytest.approx(row["bubble"] / row["step_time"])


@every_plan
def test_no_overlap_is_never_faster(plan: dict[str, Any]) -> None:
    steps = [
        costs(two_nodes(assume={"overlap": {"tp": share, "dp": share, "pp": share}}), **plan)["step_time"]
        for share in (0, 0.5, 1)
    ]
    assert steps[0] >= steps[1] >= steps[2]


def test_overlap_of_each_kind_shrinks_its_own_term() -> None:
    plan = {"tp": 2, "pp": 2, "zero": 1}
    for kind in ("tp", "dp", "pp"):
        shown, hidden = (
            costs(two_nodes(assume={"overlap": {"tp": 0, "dp": 0, "pp": 0, kind: share}}), **plan) for share in (0, 1)
        )
        assert hidden[f"{kind}_exposed"] < shown[f"{kind}_exposed"]


def test_exposed_without_overlap_is_all_of_it() -> None:
    """With nothing hidden, and neither head nor embedding split, dp shows the sum of its transfers."""
    given = ask(two_nodes(assume={"overlap": {"dp": 0}}), zero=1)
    sent = [transfer for transfer in given.evaluation.step.transfers if transfer.axis == "dp"]
    assert len(sent) == 2
    total = sum(one(transfer.total_time) for transfer in sent)
    assert given.evaluation.costs.row()["dp_exposed"] == pytest.approx(total)


@pytest.mark.parametrize(("heads", "head_dim", "share"), [(32, 64, "narrow_heads"), (8, 256, "wide_heads")])
def test_heads_of_other_widths_reach_their_share_of_the_rate(heads: int, head_dim: int, share: str) -> None:
    """As much work in heads of another width takes so much longer, and nothing else does."""
    widths = ((16, 128), (heads, head_dim))
    usual, other = (inputs(model(hidden=2048, heads=count, head_dim=width)) for count, width in widths)
    even, apart = costs(usual), costs(other)
    assert apart["attention"] == pytest.approx(even["attention"] / getattr(usual.rates.attention, share))
    assert apart["matmul"] == pytest.approx(even["matmul"])


def test_parts_of_one_silicon_slow_down_by_their_power() -> None:
    """Fitted at 700 W for 989 TFLOP/s, and at 1,000 for 2,250; where the processor has a share, as fitted.

    With all the power in the world there is no slowdown, and none that was not there.
    """
    parts = ("h100-sxm-96", "h100-sxm", "gh200-96", "b200-sxm", "gb200")
    nodes = (written_out("node", "dgx-h100", accelerator=part) for part in parts)
    weak, hopper, grace, blackwell, rich = (inputs(node=node).device_slowdown for node in nodes)
    assert weak == pytest.approx(hopper * (700 / 500) ** (1 / 3))
    assert grace == hopper
    assert rich == pytest.approx(blackwell * (2500 / 2250 * 1000 / 1200) ** (1 / 3))
    assert [float(part_slowdown(each, 1e6, 1e15, 700.0, 1e15)) for each in (1.29, 1.0, 0.95)] == [1.0, 1.0, 0.95]


def test_parts_that_nobody_ran_slow_down_by_their_power_for_their_peak() -> None:
    """As an H100 would with theirs; a V100, of fp16 alone, has more than twice its power for the peak, and no need to.

    Fitted each alone, the slowdowns of A100, H100 and B200 are one by their power for their peak, to 3 %.
    """
    common = read("efficiency", "unmeasured").sustained.factor
    found = [
        inputs(node="g6-48xlarge").device_slowdown,
        inputs(node="dgx-1v", workload={"precision": "fp16"}).device_slowdown,
    ]
    assert found == pytest.approx([common * (700 / 989.4 / (72 / 121)) ** (1 / 3), 1.0], rel=1e-3)
    for node in ("dgx-a100", "dgx-h100", "dgx-b200"):
        asked = inputs(node=node)
        power, peak = asked.case.accelerator.power.max, asked.case.accelerator.peak.bf16
        by_power = part_slowdown(common, power, peak, 700.0, 989.4e12)
        assert float(asked.device_slowdown) == pytest.approx(float(by_power), rel=0.03)


def test_products_in_a_narrow_type_slow_down_by_as_much_less() -> None:
    """A part with more power for its peak than the one that was measured is no faster in a step than alone for it."""

    def narrow(**more: Any) -> float:
        asked = inputs(**{"node": "dgx-h100", "stack": "megatron-core", "workload": {"precision": "fp8"}, **more})
        return float(asked.sustained_narrow / asked.slowest_device_slowdown)

    fit = read("efficiency", "h100-sxm").sustained
    assert narrow() == pytest.approx(fit.narrow * fit.factor)
    assert narrow(assume={"sustained": 1.3}) == pytest.approx(fit.narrow * 1.3)
    assert [narrow(assume={"sustained": assumed}) for assumed in (1.1, 1.0, 0.9)] == [1.0, 1.0, 0.9]
    common = read("efficiency", "l40s").sustained
    assert narrow(node="pcie-l40s-8") == 1.0 < common.narrow * common.factor
    posed = inputs(node="dgx-h100", stack="megatron-core", workload={"precision": "fp8"}).case
    faster = posed.efficiency.model_copy(update={"sustained": fit.model_copy(update={"factor": 1.05})})
    found = training_inputs(replace(posed, efficiency=faster))
    assert float(found.sustained_narrow / found.slowest_device_slowdown) == pytest.approx(fit.narrow * 1.05)


def test_heads_of_odd_widths_have_no_tensor_cores() -> None:
    """13,824 in 96 heads are rows of 288 bytes, in 128 of 216, which are left to the vector units."""
    shapes = (model(layers=2, hidden=13824, heads=heads) for heads in (96, 128))
    even, odd = (inputs(shape, stack="megatron-2021", global_batch=8) for shape in shapes)
    products = 2 * 6 * 2 * odd.sequence**2 * 13824  # two layers, two forward and four backward, one sequence a rank
    rate = products / costs(odd, recompute="none")["attention"]
    assert rate == pytest.approx(odd.vector_peak * odd.rates.matmul.compute_share / one(odd.sustained), rel=0.02)
    assert costs(odd)["attention"] > 4 * costs(even)["attention"]


def test_zero_1_sends_what_zero_0_sends() -> None:
    """A scatter and a gather are an all-reduce when weights and gradients are of one type."""
    asked = two_nodes(workload={"gradients": "bf16"})
    assert costs(asked, zero=1)["dp_volume"] == pytest.approx(costs(asked, zero=0)["dp_volume"])


# ── Compute ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@every_plan
def test_slower_clocks_are_never_faster(plan: dict[str, Any]) -> None:
    steps = [costs(two_nodes(assume={"sustained": factor}), **plan)["step_time"] for factor in (1.0, 1.2, 1.6)]
    assert steps[0] < steps[1] < steps[2]


def test_a_step_waits_for_the_slowest_of_all_ranks() -> None:
    """Of 16 parts that lie 2 % apart the slowest is 4.7 % slower, of one alone none."""
    for ranks, slower in ((two_nodes, 1 + 0.02 * np.sqrt(2 * np.log(16))), (alone, 1.0)):
        even, apart = (costs(ranks(assume={"variation": variation}))["attention"] for variation in (0, 0.02))
        assert apart / even == pytest.approx(slower, rel=1e-12)
    assert inputs().case.efficiency.sustained.variation > 0  # type: ignore[union-attr]


@pytest.mark.parametrize(("stack", "slower"), [("megatron-core", 1.0), ("fsdp2", 1.25)])
def test_power_slows_attention_of_some_kernels(stack: str, slower: float) -> None:
    """FlashAttention 2 as it does matrix products; cuDNN's and FlashAttention 3 not. What is slowed is as uncertain."""
    calm, hot = (inputs(stack=stack, assume={"sustained": factor}) for factor in (1.0, 1.25))
    attention = [costs(asked)["attention"] for asked in (calm, hot)]
    assert attention[1] / attention[0] == pytest.approx(slower)


@pytest.mark.parametrize("stack", ["megatron-core", "fsdp2"])
def test_power_slows_state_spaces_whatever_attention_kernel_the_stack_has(stack: str) -> None:
    """Their products are of the general kind."""
    space = {"heads": 32, "head_dim": 64, "groups": 1, "state": 128, "conv": 4, "chunk": 128}
    shape = with_mixer(state_space=space)
    calm, hot = (costs(inputs(shape, stack=stack, assume={"sustained": factor})) for factor in (1.0, 1.25))
    assert hot["attention"] / calm["attention"] == pytest.approx(1.25)


def test_adding_to_gradients_can_wait_as_the_gradients_can() -> None:
    """Of the first matrix 2 × 4 bytes an element, at the rate of any stream."""
    asked = inputs("llama-3-8b")
    matrix = next(iter(layer_matmuls(asked.model, shard(asked.model, asked.model.layers[0], 1.0))))
    wide, narrow = (
        linear_map(replace(asked, widths=replace(asked.widths, gradient=width)), 4096.0, matrix, 1.0)
        for width in (4.0, 2.0)
    )
    seconds = 2 * 2 * matrix.n * matrix.k / asked.rates.memory_bandwidth / asked.rates.memory_share
    assert wide.deferred - narrow.deferred == pytest.approx(seconds)
    assert wide.backward.memory_bound - narrow.backward.memory_bound == pytest.approx(seconds)


def test_matmuls_take_as_long_as_their_flop_at_the_fitted_share() -> None:
    """Far from the ridge the roofline is the peak: forward at c, both backward products at c of backward."""
    asked = inputs("llama-3-8b", assume={"sustained": 1, "variation": 0})
    row, fit = costs(asked, tp=1, micro_batch=4), asked.rates.matmul
    tokens = 64 * 4096 / 8
    forward = 2 * tokens * (32 * 218_103_808 + 128256 * 4096)
    time = forward / asked.rates.peak / fit.compute_share + 2 * forward / asked.rates.peak / fit.backward_share
    assert row["matmul"] == pytest.approx(time, rel=5e-3)
    assert row["matmul"] > time


def test_full_recompute_adds_a_forward_of_the_layers() -> None:
    row = {mode: costs(alone(), recompute=mode) for mode in ("none", "full")}
    longer = row["full"]["attention"] / row["none"]["attention"]
    backward = 2.5 / inputs().rates.attention.backward_share  # type: ignore[union-attr]
    assert longer == pytest.approx((2 + backward) / (1 + backward))
    assert row["full"]["step_time"] > row["none"]["step_time"]


def test_selective_recompute_adds_a_forward_of_the_core() -> None:
    """Unfused: two products forward, four backward, two of them once more."""
    asked = inputs(stack="megatron-2021")
    row = {mode: costs(asked, recompute=mode, zero=0, tp=8) for mode in ("none", "selective")}
    assert row["selective"]["attention"] / row["none"]["attention"] == pytest.approx(8 / 6)
    assert row["selective"]["matmul"] == row["none"]["matmul"]


def test_twice_the_batch_takes_twice_the_compute() -> None:
    rows = [costs(inputs(global_batch=batch), tp=2) for batch in (64, 128)]
    for name in ("matmul", "attention", "memory_bound", "launch", "tp_exposed"):
        assert rows[1][name] == pytest.approx(2 * rows[0][name])
    assert rows[1]["optimizer"] == rows[0]["optimizer"]
    assert rows[1]["tokens_per_s"] > rows[0]["tokens_per_s"]


def test_optimizer_work_is_shared_under_zero() -> None:
    """30 bytes of each parameter updated, 8 of each whose gradient is held; 8 replicas."""
    times = [costs(inputs(), zero=zero)["optimizer"] for zero in range(4)]
    per_parameter = np.array([30 + 8, 30 / 8 + 8, 38 / 8, 38 / 8])
    assert times == pytest.approx(8030261248 * per_parameter / (3.35e12 * 0.69), rel=1e-3)


# ── Utilisation ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stack", ["megatron-core", "megatron-2021", "fsdp2"])
def test_mfu_is_at_most_hfu_is_at_most_one(stack: str) -> None:
    space = {"micro_batch": [1, 4], "vpp": [1, 2, 4], "schedule": ["gpipe", "1f1b", "interleaved"]}
    rows = 0
    for table in evaluated(inputs("llama-3-8b", nodes=8, global_batch=512, stack=stack, search=space)):
        mfu, hfu = table.column("mfu"), table.column("hfu")
        assert np.all((mfu > 0) & (mfu <= hfu * (1 + 1e-12)) & (hfu <= 1))
        assert np.all(table.column("bubble") >= 0)
        rows += table.rows
    assert rows > 100


def test_full_recompute_is_four_thirds_on_the_layers() -> None:
    """Of layers alone 4/3; a head, computed once, brings it down."""
    row = costs(inputs(model(vocab=1)), recompute="full")
    assert row["hfu"] / row["mfu"] == pytest.approx(4 / 3, rel=1e-5)
    row = costs(inputs(), recompute="full")
    attention = 32 * 2 * 4097 * 4096
    layers, head = 2 * 32 * 218_103_808 + attention, 2 * 128256 * 4096
    assert row["hfu"] / row["mfu"] == pytest.approx(1 + layers / (layers + head) / 3)
    row = costs(inputs(), recompute="none")
    assert row["hfu"] == row["mfu"]


@pytest.mark.parametrize(
    "part", [{"recompute": "full", "recompute_layers": 1}, {"recompute": "selective", "recompute_modules": ["mlp"]}]
)
def test_a_convention_that_counts_recompute_does_so_once(part: dict[str, Any]) -> None:
    asked = inputs(assume={"flop_convention": "megatron-2021"})
    whole, some = costs(asked, recompute="full"), costs(asked, **part)
    assert whole["hfu"] == whole["mfu"]
    assert some["hfu"] == some["mfu"]


@pytest.mark.parametrize(("shape", "ratio"), [("megatron-22b", 1.0519), ("gpt-3-175b", 1.0269)])
def test_korthikantis_hfu_of_selective_recompute(shape: str, ratio: float) -> None:
    """The paper counts the core three times: 1 + (s/6h) / (1 + s/6h + V/12Lh)."""
    asked = inputs(shape, sequence=2048, stack="megatron-2021", assume={"flop_convention": "korthikanti"})
    row = costs(asked, tp=8, recompute="selective")
    assert row["hfu"] / row["mfu"] == pytest.approx(ratio, abs=5e-5)


@pytest.mark.parametrize(
    ("convention", "flop"),
    [
        ("6n", 6 * 8030261248),
        ("palm", 6 * 8030261248 + 12 * 32 * 4096 * 4096),
        ("model-full", 6 * (32 * 218_103_808 + 128256 * 4096) + 12 * 32 * 4096 * 4096),
        ("model-causal", 6 * (32 * 218_103_808 + 128256 * 4096) + 6 * 32 * 4096 * 4097),
    ],
)
def test_mfu_by_convention(convention: str, flop: float) -> None:
    """FLOP a token of Llama 3 8B at 4096, over peak and rate."""
    row = costs(inputs(assume={"flop_convention": convention}), tp=2)
    assert row["mfu"] == pytest.approx(flop * row["tokens_per_s_per_gpu"] / 989.4e12, rel=1e-3)
    assert row["flop_rate"] == pytest.approx(flop * row["tokens_per_s_per_gpu"])


# ── Pipeline ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("vpp", [1, 2])
def test_the_bubble_vanishes_as_micro_batches_grow(vpp: int) -> None:
    shares = [
        costs(inputs(model(layers=16, vocab=1024), global_batch=batch), pp=8, vpp=vpp)["bubble_share"]
        for batch in (8, 64, 4096, 262144)
    ]
    assert np.all(np.diff(shares) < 0)
    assert shares[-1] < 1e-3
    assert shares[0] == pytest.approx(7 / (8 * vpp + 7), rel=0.08), "sends and optimizer lengthen the step"


def test_no_stages_no_bubble() -> None:
    row = costs(inputs(), pp=1)
    assert row["bubble"] == pytest.approx(0, abs=1e-12 * row["step_time"])
    assert row["pp_exposed"] == row["pp_volume"] == 0


def test_interleaving_shrinks_the_bubble_and_doubles_the_sends() -> None:
    asked = inputs(model(layers=16, vocab=1024))
    plain, chunks = costs(asked, pp=8), costs(asked, pp=8, vpp=2)
    assert chunks["bubble"] == pytest.approx(plain["bubble"] / 2, rel=0.05)
    assert chunks["pp_volume"] == 2 * plain["pp_volume"]


def test_the_named_terms_are_those_of_the_busier_end() -> None:
    """A huge vocabulary makes the last stage the slowest: its head is in matmul, the others wait in the bubble."""
    wide, narrow = (costs(inputs(model(vocab=vocab)), pp=8, zero=0) for vocab in (1 << 20, 1 << 10))
    head = 64 * 4096 * 2 * 1024 * ((1 << 20) - (1 << 10))
    fit = inputs().rates.matmul
    rate = 989.4e12 / inputs().sustained
    added = head / rate / fit.compute_share + 2 * head / rate / fit.backward_share
    assert wide["matmul"] - narrow["matmul"] == pytest.approx(added, rel=0.02)


# ── Derived columns ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_derived_columns() -> None:
    asked = inputs(workload={"tokens": "1 T"}, assume={"price": "2.50 USD/GPU/h"})
    row = costs(asked, tp=2)
    tokens = 64 * 4096 / row["step_time"]
    assert row["tokens_per_s"] == pytest.approx(tokens)
    assert row["tokens_per_s_per_gpu"] == pytest.approx(tokens / 8)
    assert row["run_time"] == pytest.approx(1e12 / tokens)
    assert row["run_cost"] == pytest.approx(1e12 / tokens / 3600 * 8 * 2.5)
    assert row["cost_per_mtoken"] == pytest.approx(row["run_cost"] / 1e6)
    compute = row["matmul"] + row["attention"] + row["memory_bound"]
    exposed = sum(row[name] for name in EXPOSED)
    assert row["communication_efficiency"] == pytest.approx(compute / (compute + exposed))
    lost = exposed + row["bubble"]
    assert row["scaling_efficiency"] == pytest.approx(1 - lost / row["step_time"])


def test_the_scenarios_own_plan_is_asked_like_any_other() -> None:
    asked = inputs(plan={"tp": 4, "pp": 2})
    assert asked.case.scenario.plan is not None
    own: Answer = answer(asked, asked.case.scenario.plan)
    assert own.evaluation.costs.row() == pytest.approx(costs(asked, tp=4, pp=2), nan_ok=True)
