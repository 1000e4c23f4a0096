"""What serving takes from the model's own checkpoint, and what it remarks on lengths and on parts never measured."""

from __future__ import annotations

import math
from typing import Any

import pytest

from costmodel.ground.errors import CostModelError
from estimate.serving.cases import case, costs, inputs, one, predicted

DEEPSEEK = ("model=deepseek-v3", "cluster.node=dgx-h200", "plan.tp=8")
LOAD = ("--rate", "5", "--prompt", "2000", "--answer", "500")


def test_weights_are_those_of_the_published_checkpoint() -> None:
    """671 billion parameters in fp8 fit eight accelerators of 141 GB, and in bf16 they do not."""
    assert one(inputs(*DEEPSEEK).types.weight) == one(inputs(*DEEPSEEK, "workload.weights=fp8-block").types.weight)
    assert any((item.path, item.value) == ("workload.weights", "fp8-block") for item in predicted(*DEEPSEEK).assumed)
    assert costs(*DEEPSEEK)["memory_share"] < 1 < costs(*DEEPSEEK, "workload.weights=bf16")["memory_share"]


SILENT = "workload={kind: serving, prompt: 2048, output: 512, rate: 8 /s}"


def test_products_read_what_the_checkpoint_is_in_where_the_accelerator_can() -> None:
    """As if it were written; in 16 bits where that is written, and where the accelerator has no fp8."""
    silent = predicted(*DEEPSEEK, SILENT)
    written = predicted(*DEEPSEEK, SILENT, "workload.precision=fp8-block")
    assert silent.costs["saturation_per_s"] == written.costs["saturation_per_s"]
    assert ("workload.precision", "fp8-block") in [(item.path, item.value) for item in silent.assumed]
    wide = predicted(*DEEPSEEK, SILENT, "workload.precision=bf16")
    assert wide.costs["ttft"] > 1.3 * silent.costs["ttft"]
    old = predicted("model=deepseek-v3", SILENT, "cluster={node: dgx-a100, nodes: 2}", "plan.tp=16")
    assert ("workload.precision", "bf16") in [(item.path, item.value) for item in old.assumed]
    assert predicted(SILENT).inputs.types.recipe.name == "bf16"


def test_experts_of_gpt_oss_are_in_four_bits() -> None:
    types = inputs("model=gpt-oss-120b").types
    one_gpu = ("cluster={node: dgx-h100, nodes: 1}", "plan={tp: 1, replicas: 1}", "limits={}")
    held = predicted("model=gpt-oss-120b", *one_gpu).evaluation.memory.weights
    assert one(held) / 2**30 == pytest.approx(60.8, rel=5e-3)  # of the model card
    assert (one(types.weight), one(types.expert_weight)) == (2.0, 0.5 + 1 / 32)
    assert one(inputs("model=gpt-oss-120b", "workload.weights=bf16").types.expert_weight) == 2.0


def test_a_checkpoint_of_two_types_has_blocks_in_fp8_and_experts_in_mxfp4() -> None:
    """Its config.json: fp8 in blocks of 128 by 128, expert_dtype fp4; mxfp4 has a byte of scale for 32."""
    written = (SILENT, "workload.precision=fp8-block"), (SILENT, "workload.weights=fp8-block")
    for settings in (
        (),
        (SILENT,),
        *written,
    ):  # products in bf16 as stated, in the checkpoint's type, and stated as that
        types = inputs("model=deepseek-v4-pro", *settings).types
        assert types.recipe.name == ("fp8-block" if settings else "bf16")
        assert one(types.weight) == 1 + 4 / 128**2
        assert one(types.expert_weight) == 0.5 + 1 / 32


def test_flags_alone_find_a_plan_of_a_narrow_checkpoint(run: Any) -> None:
    ran = run("estimate", "--model", "deepseek-v3", "--gpu", "h200", "--gpus", "8", *LOAD)
    assert (ran.code, ran.err) == (0, "")
    none = run("estimate", "--model", "llama-3.1-405b", "--gpu", "h100-sxm", "--gpus", "8", *LOAD)
    assert (none.code, none.err) == (1, "")
    assert "--set workload.weights=fp8" in none.out


def test_a_context_that_holds_no_request_is_refused() -> None:
    with pytest.raises(CostModelError, match=r"a context of 1,000 tokens holds no request of 2,560: write context"):
        case("workload.context=1000")


def test_requests_longer_than_the_model_was_trained_on_are_remarked() -> None:
    most = inputs().model.max_sequence
    assert predicted(f"workload.context={most:.0f}").remarked == ()
    assert predicted(f"workload.context={most + 1:.0f}").remarked == ("N006",)


def test_parts_whose_engine_was_never_measured_have_wider_bands() -> None:
    """Beside the engine's 10 % stands the spread of memory traffic over all parts, 13 % at the median, 33 % at P90."""
    load = "workload={kind: serving, prompt: 2048, output: 512, concurrency: 64, precision: bf16}"
    far = predicted("cluster.node=hgx-mi300x", load)
    assert far.remarked == ("N056", "N005")  # no benchmark of vLLM on parts of AMD was fitted
    traffic = math.sqrt(((0.13 / 0.6745) ** 2 + (0.33 / 1.6449) ** 2) / 2)
    own, only_slower = 1.2816 * math.hypot(0.10, traffic), 1.6449 * far.inputs.case.common.engines.slower
    assert math.log(far.costs["tpot_high"] / far.costs["tpot"]) == pytest.approx(math.hypot(own, only_slower), rel=1e-3)
    assert 0 < math.log(far.costs["tpot"] / far.costs["tpot_low"]) < own / 4  # few are faster than what can only slow


def test_what_arrives_beyond_ends_its_sentence(run: Any) -> None:
    answer = run("estimate", "serve-llama-3.1-70b", "--set", "workload.rate=300/s").out
    lines = [line for line in answer.splitlines() if "grows without bound" in line]
    assert lines
    assert all(line.endswith(".") or answer.splitlines()[answer.splitlines().index(line) + 1].strip() for line in lines)
    assert " 1 request/s" in run("estimate", "serve-llama-3.1-70b", "--set", "workload.rate=1/s").out


def test_a_narrow_cache_of_latent_attention_gains_where_heads_are_cut_alone() -> None:
    """Of 128 heads 242 FLOP meet each byte of a 16-bit cache, of 16 heads 30; an H200 reaches some 130 for each."""
    base = ("model=deepseek-v3", "cluster.node=dgx-h200", "limits={}", "workload.rate=1 /s", "workload.prompt=8000")
    for plan, gains in (("plan={dp_attention: 8, ep: 8}", False), ("plan={tp: 8}", True)):
        wide, narrow = predicted(*base, plan), predicted(*base, plan, "workload.cache=fp8")
        assert ("N045" in narrow.remarked) is not gains
        assert "N045" not in wide.remarked
        per_request = [each.costs["attention"] for each in (wide, narrow)]
        assert (per_request[1] < 0.98 * per_request[0]) is gains
    llama = predicted("workload.cache=fp8")
    assert "N045" not in llama.remarked


def test_int8_products_are_those_of_the_next_type_at_the_peak_of_int8() -> None:
    """On A100 twice the peak of bf16 and half the bytes, with the shares of bf16: products take half as long."""
    load = "workload={{kind: serving, prompt: 2048, output: 512, concurrency: 64, precision: {}}}"
    base = ("cluster.node=dgx-a100", "limits={}")
    wide, narrow = (predicted(*base, load.format(kind)) for kind in ("bf16", "int8"))
    assert 1.5 < wide.costs["matmul"] / narrow.costs["matmul"] < 2.0  # each launch takes as long
    read = [one(found.evaluation.memory.weights) for found in (wide, narrow)]
    assert read[1] == pytest.approx(read[0] / 2, rel=0.05)
    [said] = [each for each in narrow.assumed if each.path == "kernels of int8 products"]
    assert (said.value, wide.inputs.types.measured, narrow.inputs.types.measured) == ("as bf16", True, False)
    widths = [found.costs["tpot_high"] / found.costs["tpot"] for found in (wide, narrow)]
    assert widths[1] > 1.1 * widths[0]
    mixture = predicted("model=mixtral-8x7b", *base, load.format("int8"), "plan={tp: 2, replicas: 1}")
    assert mixture.refused == ()


def test_learned_positions_end_where_their_table_does() -> None:
    """GPT-2 has 1,024 of them and cannot read more; rotary ones go beyond, with a remark."""
    with pytest.raises(CostModelError, match="has learned positions for 1,024 tokens, and a request has 2,560"):
        inputs("model=gpt-2-small")
    assert inputs("model=gpt-2-small", "workload.prompt=500", "workload.output=500").load.prompt == 500


@pytest.mark.parametrize(("node", "longer"), [("dgx-a100", True), ("dgx-h100", False)])
def test_prompts_take_longer_where_kernels_widen_narrow_weights(node: str, *, longer: bool) -> None:
    """Qwen3-14B in 4 bits on an A100 has its first token of 16,000 after 3.35 s (issue 20469 of vLLM), eagerly."""
    load = "workload={{kind: serving, prompt: 16000, output: 200, concurrency: 1, precision: bf16{}}}"
    cluster = f"cluster={{node: {node}, nodes: 1}}"
    keys = ("model=qwen-3-14b", cluster, "plan={tp: 1}", "limits={}", "stack.graphs=false")
    narrow, wide = (predicted(*keys, load.format(each)).costs for each in (", weights: int4-g128", ""))
    assert (narrow["ttft"] > 1.2 * wide["ttft"]) is longer
    assert narrow["tpot"] <= wide["tpot"]
    if longer:
        assert narrow["ttft"] == pytest.approx(3.35, rel=0.1)


@pytest.mark.parametrize(("part", "rate"), [("a6000", 1.0), ("rtx3090", 1.0), ("a100-pcie-80", 0.65)])
def test_only_the_measured_part_is_slower_with_widened_weights(part: str, rate: float) -> None:
    """Marlin was timed on an A100, and on no other part of its architecture."""
    load = "workload={kind: serving, prompt: 500, output: 100, concurrency: 1, precision: bf16, weights: int4-g128}"
    found = inputs("model=qwen-3-8b", f"cluster.node.accelerator={part}", "plan={tp: 1}", "limits={}", load)
    assert one(found.types.peak) == pytest.approx(rate * found.case.accelerator.peak.bf16)
