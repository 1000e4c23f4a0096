"""Keys that a workload has no use for are remarked, and change no figure."""

from __future__ import annotations

from typing import Any

import pytest
from each import share_of

from costmodel.documents.keys.key_list import all_keys
from costmodel.documents.keys.overrides import full
from costmodel.documents.reader.load_scenario import load_any
from costmodel.estimate.rl import predict_rl
from costmodel.estimate.serving import predict_serving
from costmodel.estimate.shared.assumptions import UNUSED
from costmodel.estimate.training_answer import predict_training
from costmodel.ground.errors import CostModelError

NAMES = {"training": "llama-3-70b-512", "serving": "serve-llama-3.1-70b", "rl": "grpo-qwen-2.5-7b-64"}
SETTINGS = {
    "training": ("run={}", "cluster.node.drives={capacity: 30 TB, read: 40 GB/s, write: 20 GB/s}"),
    "serving": ("limits={}", "plan={tp: 16}"),
    "rl": ("run={}", "stack.rollout=vllm"),
}
VALUES = {
    "units": "7", "l2": "7 MiB", "clock": "900 MHz", "runs": "7", "median": "7 %", "date": '"2026-11"',
    "node": "dgx-a100", "fabric": "nvlink3", "latency": "90 us", "copies": "7 GB/s", "reduces": "true",
    "bandwidth": "7 GB/s", "cores": "7", "capacity": "7 TB", "read": "7 GB/s", "write": "7 GB/s",
    "transposed": "true", "stored": "fp8", "stored_experts": "fp8", "stored_cache": "fp8", "stored_wide": "7 M",
    "ttft": "7 %", "pool": "7 %",    "int8": "7 TOP/s",
    "fixed": "7 s", "layer": "7 s", "graph": "7 s", "efficiency": "a100-sxm-80",
}  # fmt: skip
WHOLE = {
    "cluster.node.drives",
    *("model.vision.merge", "model.vision.positions"),  # of a tower
    *("plan.shares", "stack.rollout.weights", "stack.rollout.host_cache", "stack.rollout.chunked"),  # no numbers
    *(f"run.failures.{key}" for key in ("low", "high", "job.low", "job.high")),  # only beside a rate
    *(f"cluster.node.accelerator.{key}" for key in ("operands", "best_matmul", "held_against", "found_in")),
}


TWO_KINDS = "{node: dgx-h100, nodes: 1}, {node: pcie-l40s-8, nodes: 2}"


def answered(workload: str, settings: tuple[str, ...]) -> tuple[dict[str, Any], set[str]]:
    """The figures and refusals of an answer, and the keys without effect."""
    case: Any = load_any(NAMES[workload], settings)
    if workload == "training":
        trained = predict_training.predict(case)
        figures, assumed, remarked = trained.evaluation.costs.row(), trained.assumed, trained.remarked
    else:
        answer: Any = (predict_serving if workload == "serving" else predict_rl).predict(case)
        figures, assumed, remarked = answer.costs, answer.assumed, answer.remarked
    assert ("N051" in remarked) is any(item.value == "without effect" for item in assumed)
    idle = {item.path for item in assumed if item.value == "without effect"}
    return {name: repr(cost) for name, cost in figures.items()}, idle


@pytest.mark.parametrize("workload", NAMES)
def test_a_key_that_no_figure_depends_on_is_remarked(workload: str) -> None:
    """Each is set to another value, far from the shipped one: all figures stay, and its reason is listed.

    A share of the keys, unless --whole asks for all.
    """
    settings = SETTINGS[workload]
    before, idle = answered(workload, settings)
    assert idle == set()
    for path in share_of(UNUSED[workload], 3):
        leaves = [full(key.path) for key in all_keys() if f"{full(key.path)}.".startswith(f"{path}.")]
        assert leaves, path
        for leaf in leaves if path not in WHOLE else ():
            value = VALUES[leaf.rpartition(".")[2]]
            after, idle = answered(workload, (*settings, f"{leaf}={value}"))
            assert (after, idle) == (before, {leaf})


def test_drives_and_the_memory_of_the_host_count_in_training() -> None:
    """The same keys are remarked where they have no use alone: an optimizer on drives reads them."""
    asked = (
        "stack=deepspeed",
        "plan={tp: 8, zero: 3, offload: [optimizer], offload_to: nvme}",
        SETTINGS["training"][1],
    )
    asked = (*asked, "cluster.node.memory.capacity=2 TiB")
    before, idle = answered("training", asked)
    for key in ("drives.read", "drives.write", "memory.bandwidth"):
        after, remarked = answered("training", (*asked, f"cluster.node.{key}=7 GB/s"))
        assert after != before
        assert remarked == idle == set()


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        (("stack=openrlhf", "workload={kind: rl, algorithm: dpo, prompts: 512, prompt: 1 k, response: {mean: 4 k, "
          "limit: 28 k}}", "plan={zero: 3}", f"cluster={{groups: [{TWO_KINDS}]}}"), "node and nodes"),
        ((f"cluster={{groups: [{TWO_KINDS}, {{node: dgx-h200, nodes: 2}}]}}",), "leave the others out"),
    ],
)  # fmt: skip
def test_nodes_of_several_kinds_are_refused_where_they_are_not_modelled(settings: tuple[str, ...], hint: str) -> None:
    """They were counted as so many nodes of the first kind."""
    with pytest.raises(CostModelError) as raised:
        load_any(NAMES["rl"], settings)
    (fault,) = raised.value.faults
    assert (fault.code, fault.place is not None) == ("D010", True)
    assert hint in fault.hint


HOST = "cluster.node.host"
PAIRS = (
    "workload={kind: rl, algorithm: dpo, prompts: 512, prompt: 1 k, response: {mean: 4 k, limit: 28 k}}",
    "stack=openrlhf",
    "plan={zero: 3, recompute: full, micro_batch: 4}",
)
SWITCHED: dict[str, list[tuple[tuple[str, ...], str, bool]]] = {
    # what is set, a key and its value, and whether it is without effect
    "training": [
        (("plan.tp=1",), "cluster.node.scale_up.pair_bandwidth=7 GB/s", True),
        ((), "cluster.oversubscription=7", True),
        (("cluster.pod=1",), "cluster.oversubscription=7", False),
        (("cluster.pod=64",), "cluster.oversubscription=7", True),
        (("cluster.rails=optimised",), "cluster.oversubscription=7", False),
        (("cluster.rails=forwarded",), "cluster.oversubscription=7", True),
        ((), "cluster.pod=16", True),
        (("cluster.oversubscription=4",), "cluster.pod=16", False),
        ((), "cluster.node.accelerator.peak.fp8=1500 TFLOP/s", True),
        ((), "cluster.node.accelerator.peak.tf32=700 TFLOP/s", True),
        (("workload.precision=fp8",), "cluster.node.accelerator.peak.fp8=1500 TFLOP/s", False),
        ((), "cluster.node.accelerator.peak.bf16=900 TFLOP/s", False),
        ((), f"{HOST}.bandwidth=70 GB/s", True),
        (("cluster.node.scale_out.nics=32",), f"{HOST}.bandwidth=70 GB/s", False),
        ((), "stack.experts.half_rows=7", True),
        (("model=mixtral-8x7b",), "stack.experts.half_rows=7", False),
        (("plan.pp=1",), "stack.overlap.pp=0.1", True),
        ((), "stack.overlap.pp=0.1", False),
        (("assume.overlap.pp=0.2",), "stack.overlap.pp=0.1", True),
        (("plan={pp: 8}",), "plan.sequence_parallel=false", True),
        ((), "plan.cp_type=a2a", True),
        (("plan.cp=2",), "plan.cp_type=all-gather", False),
        ((), "stack.low_precision.saved=false", True),
        (("workload.precision=fp8",), "stack.low_precision.saved=false", False),
        ((), "plan.recompute_method=uniform", True),
        ((), "assume.compression.warm_up=9 %", True),
        (("cluster.nodes=8", "plan={tp: 8, pp: 8}"), "stack.overlap.dp=0.1", True),
        (("plan.zero=0",), "stack.buckets.prefetch=4", True),
        (("stack=torchtune", "plan={}"), "stack.kernels.fallback=unfused", True),  # whose sdpa runs cuDNN's on Hopper
    ],
    "serving": [
        ((), "cluster.node.accelerator.peak.fp32=1500 TFLOP/s", True),
        ((), "cluster.node.accelerator.peak.fp8=1500 TFLOP/s", True),
        (("workload.precision=fp8",), "cluster.node.accelerator.peak.fp8=1500 TFLOP/s", False),
        ((), "cluster.node.scale_up.pair_bandwidth=7 GB/s", True),
    ],
    "rl": [
        (("model=qwen-3-vl-32b",), "model.vision.merge=2", True),
        ((), "model.stored=fp8", False),
        ((), "stack.rollout.prefix_cache=false", False),
        ((), "stack.rollout.dispatch.element=bf16", True),
        ((), "stack.trainer.experts.half_rows=7", True),
        ((), "stack.trainer.kernels.full=early-stop", False),
        (("plan.recompute=none",), "stack.trainer.kernels.full=whole", True),
        ((), "cluster.node.accelerator.peak.fp32=1500 TFLOP/s", True),
        ((), "cluster.node.scale_up.pair_bandwidth=7 GB/s", True),
        (PAIRS, "stack.rollout=sglang", True),
        (PAIRS, "stack.host.turn=7 s", True),
        (PAIRS, "stack.sharing.balanced=false", False),
    ],
}


@pytest.mark.parametrize("workload", SWITCHED)
def test_a_key_that_others_switch_off_is_remarked_where_it_changes_no_figure(workload: str) -> None:
    """A share of the keys, unless --whole asks for all."""
    for asked, key, idle in share_of(SWITCHED[workload], 3):
        before, after = (answered(workload, (*asked, *more)) for more in ((), (key,)))
        named = {key.partition("=")[0]} if idle else set()
        assert ((after[1] - before[1]) & {key.partition("=")[0]}, key) == (named, key)
        assert not idle or before[0] == after[0], key
