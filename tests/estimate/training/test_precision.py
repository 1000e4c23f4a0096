"""Narrow types through time, memory and network: their limits, their worked examples, and who lacks them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from each import each

from costmodel.documents.reader.library import names, read
from costmodel.documents.schemas.precision import RECIPES
from costmodel.estimate.machine.number_formats import LinearTypes
from costmodel.estimate.model.shards import layer_matmuls, shard
from costmodel.estimate.training.layer_kernels import linear_map
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.ground.errors import CostModelError
from estimate.cases import ask, case, costs, inputs, line, one, with_rates, written_out

NARROW = [recipe.name for recipe in RECIPES.values() if recipe.narrow]
NODES = {read("node", name).accelerator: name for name in names("node")}


def asked(precision: str, **more: Any) -> TrainingInputs:
    return inputs(workload={"precision": precision}, **more)


def with_bf16_rates(narrow: TrainingInputs, wide: TrainingInputs) -> TrainingInputs:
    """A narrow setting whose products run like bf16's, and whose conversion and copies cost nothing."""
    recipe = replace(narrow.recipe, operand=2.0, quantised=0.0, transposed=0.0, copies=0.0)
    return with_rates(narrow, linear=LinearTypes(recipe, wide.rates.matmul, wide.rates.peak, 1.0))


@pytest.mark.parametrize(
    ("stack", "plan"),
    [
        ("megatron-core", {"tp": 2, "zero": 1, "recompute": "none"}),
        ("megatron-core", {"pp": 2, "zero": 2, "recompute": "full"}),
        ("megatron-core", {"zero": 0, "recompute": "none"}),
        ("fsdp2", {"tp": 2, "zero": 3, "recompute": "selective"}),
        ("fsdp2", {"pp": 2, "zero": 2, "recompute": "none"}),
    ],
)
def test_at_the_rate_of_bf16_it_is_bf16(stack: str, plan: dict[str, Any]) -> None:
    wide, narrow = asked("bf16", stack=stack), asked("fp8-cs", stack=stack)
    mine = costs(with_bf16_rates(narrow, wide), micro_batch=1, **plan)
    theirs = costs(wide, micro_batch=1, **plan)
    for name in ("step_time", "matmul", "memory_bound", "dp_volume", "dp_exposed", "optimizer"):
        assert mine[name] == theirs[name], name


@pytest.mark.parametrize(("precision", "once"), [("fp8-cs", 6.0), ("fp8-block", 4.0625)])
def test_ranks_convert_what_they_gather_in_parts(precision: str, once: float) -> None:
    """Each of two ranks converts half of a gathered input, and transposes all of it where one scale serves a tensor."""
    found = asked(precision)
    up = next(
        each for each in layer_matmuls(found.model, shard(found.model, found.model.layers[0], 2.0)) if "up" in each.name
    )
    whole, half = (linear_map(found, 4096.0, up, split).forward.memory_bound for split in (1.0, 2.0))
    assert half / whole == pytest.approx((2.0 + 5.0 / 2) / once if precision == "fp8-cs" else 0.5)


@pytest.mark.parametrize("precision", NARROW)
def test_narrow_is_faster_and_converts(precision: str) -> None:
    node = {"int8": "tpu-v6e-slice", "mxfp4": "mi355x-8"}.get(precision, "dgx-b200")
    stack = _stack(precision)
    wide, narrow = (costs(asked(kind, node=node, stack=stack), tp=1) for kind in ("bf16", precision))
    assert narrow["matmul"] < wide["matmul"]
    assert narrow["attention"] == wide["attention"]
    assert narrow["memory_bound"] > wide["memory_bound"]


def _stack(precision: str) -> str:
    return {"fp8-row": "fsdp2", "int8": "maxtext-tpu", "mxfp4": "primus"}.get(precision, "megatron-core")


def test_copies_of_weights_add_two_bytes_of_every_layer_parameter() -> None:
    """20 B a parameter of the layers where bf16 has 18; the table and the head are as they were."""
    plan: dict[str, Any] = {"tp": 8, "zero": 0, "recompute": "full"}
    wide, narrow = ask(asked("bf16"), **plan), ask(asked("fp8"), **plan)
    layers = 8_030_261_248 - 2 * 128256 * 4096 - 4096
    held = layers / 8 + 32 * 2 * 4096 * 7 / 8  # norms are on every rank
    assert line(narrow, "weights") - line(wide, "weights") == pytest.approx(2 * held, rel=1e-6)
    for name in ("gradients", "optimizer", "gathered"):
        assert line(narrow, name) == line(wide, name)


def test_copies_that_stand_in_for_weights_save_them() -> None:
    """1 + 1 bytes where bf16 keeps 2: nothing is added."""
    stack = written_out("stack", "megatron-core", low_precision={"primary": True})
    primary, wide = ask(asked("fp8", stack=stack), tp=8, zero=0), ask(asked("bf16"), tp=8, zero=0)
    assert line(primary, "weights") == pytest.approx(line(wide, "weights"))


def test_one_copy_where_products_read_it_either_way() -> None:
    """Blackwell reads fp8 of one scale from either side: 17 + 1 B a parameter of the layers; blocks still want two."""
    plan: dict[str, Any] = {"tp": 8, "zero": 0, "recompute": "full"}
    wide, *narrow = (ask(asked(kind, node="dgx-b200"), **plan) for kind in ("bf16", "fp8", "fp8-cs", "mxfp8"))
    twice = line(ask(asked("fp8"), **plan), "weights") - line(ask(asked("bf16"), **plan), "weights")
    once = [line(given, "weights") - line(wide, "weights") for given in narrow]
    assert [nbytes / twice for nbytes in once] == pytest.approx([0.5, 0.5, 2.0625 / 2])
    old = written_out("accelerator", "b200-sxm", operands={"transposed": True})
    kept = asked("fp8", node={**written_out("node", "dgx-b200"), "accelerator": old})
    assert costs(kept, **plan)["memory_bound"] > costs(asked("fp8", node="dgx-b200"), **plan)["memory_bound"]


def test_inputs_kept_narrow() -> None:
    """A layer keeps its four inputs in a byte; the attention output stays in two beside that byte."""
    plan: dict[str, Any] = {"tp": 1, "recompute": "none", "micro_batch": 1}
    wide, narrow = ask(asked("bf16"), **plan), ask(asked("fp8"), **plan)
    saved = 32 * 4096 * ((2 - 1) * (2 * 4096 + 14336) - 4096)
    assert line(wide, "activations") - line(narrow, "activations") == pytest.approx(saved)


def test_weights_gathered_narrow_halve_the_gathers_of_layers() -> None:
    layer = 218_112_000
    wide, narrow = ask(asked("bf16", stack="fsdp2"), zero=3), ask(asked("fp8-cs", stack="fsdp2"), zero=3)
    sizes = [
        {one(transfer.message) for transfer in given.evaluation.step.transfers if transfer.operation == "all_gather"}
        for given in (wide, narrow)
    ]
    assert 2.0 * layer in sizes[0]
    assert 1.0 * layer in sizes[1]
    gradients = [
        {one(t.message) for t in given.evaluation.step.transfers if t.operation == "reduce_scatter"}
        for given in (wide, narrow)
    ]
    assert gradients[0] == gradients[1]


def test_the_mfu_says_which_peak() -> None:
    """Of the type the matmuls read, unless the scenario names another."""
    own, of_bf16 = asked("fp8"), asked("fp8", assume={"mfu_peak": "bf16"})
    assert costs(of_bf16, tp=1)["mfu"] == pytest.approx(2 * costs(own, tp=1)["mfu"], rel=1e-3)
    assert [item.value for item in own.assumed if item.path == "assume.mfu_peak"] == ["fp8, 1.98 PFLOP/s"]
    assert not [item for item in asked("bf16").assumed if item.path == "assume.mfu_peak"]
    with pytest.raises(CostModelError, match="no fp4 peak"):
        asked("fp8", assume={"mfu_peak": "fp4"})


@pytest.mark.parametrize("precision", NARROW)
@each("accelerator", sorted(NODES))
def test_every_accelerator_has_it_or_says_not(accelerator: str, precision: str) -> None:
    recipe, chip = RECIPES[precision], read("accelerator", accelerator)
    has = getattr(chip.peak, recipe.type) is not None and (not recipe.families or chip.family in recipe.families)
    posed = case(node=NODES[accelerator], stack=_stack(precision), workload={"precision": precision})
    if has:
        found = training_inputs(posed)
        assert costs(found, tp=1)["step_time"] > 0
        assert 1.0 <= found.sustained_narrow <= found.sustained  # none runs faster in a step than alone
        return
    with pytest.raises(CostModelError) as raised:
        training_inputs(posed)
    fault = raised.value.faults[0]
    assert fault.sentence == f"{accelerator} cannot multiply in {precision}"
    assert "bf16" in fault.hint or "fp16" in fault.hint


@pytest.mark.parametrize(
    ("left", "hint"),
    [("fp16", "workload.precision of it: fp16, fp32, tf32"), (None, "workload.precision of it: fp32, tf32")],
)
def test_a_part_without_16_bits_cannot_do_what_needs_them(left: str | None, hint: str) -> None:
    """fp8 products stand beside others in bf16, so fp8 alone is no way out."""
    chip = written_out("accelerator", "h100-sxm")
    chip["peak"] = {name: rate for name, rate in chip["peak"].items() if name not in {"bf16", "fp16"} - {left}}
    chip.pop("best_matmul", None)
    node = {**written_out("node", "dgx-h100"), "accelerator": chip}
    posed = case(node=node, workload={"precision": "fp8"})
    with pytest.raises(CostModelError) as raised:
        training_inputs(posed)
    (fault,) = raised.value.faults
    assert (fault.code, fault.sentence, fault.hint) == ("D016", "h100-sxm cannot multiply in fp8", hint)


def test_a_stack_without_narrow_types_says_what_it_offers() -> None:
    with pytest.raises(CostModelError) as raised:
        asked("fp8", stack="megatron-2021")
    assert raised.value.faults[0].hint == "it offers bf16 and fp16 only"
    with pytest.raises(CostModelError, match="does not train in fp8-row"):
        asked("fp8-row")


@pytest.mark.parametrize("precision", [name for name in NARROW if name not in ("fp8", "int8", "mxfp4")])
def test_torch_gathers_narrow_what_has_one_scale_a_tensor(precision: str) -> None:
    """And keeps it narrow while zero 2 keeps it whole; all else crosses the network, and stays, in 16 bits."""
    layer = 218_112_000
    wide, narrow = (
        ask(asked(kind, node="dgx-b200", stack="fsdp2"), zero=2, recompute="none") for kind in ("bf16", precision)
    )
    nbytes = 1 if precision == "fp8-cs" else 2
    assert line(wide, "weights") - line(narrow, "weights") == pytest.approx((2 - nbytes) * 32 * layer)
    moved = narrow.evaluation.step.transfers
    sent = [item for item in moved if item.axis == "dp" and item.operation == "all_gather"]
    assert one(sent[0].message) == nbytes * layer


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
@pytest.mark.parametrize(("stack", "zero", "weights"), [("ddp", 0, 4), ("fsdp2", 3, 4 / 8), ("megatron-core", 1, 4)])
def test_weights_in_32_bits_need_no_master_copy(stack: str, zero: int, weights: float, precision: str) -> None:
    """Four bytes a weight and a gradient, eight of Adam's moments; all that is kept and sent is in 32 bits."""
    parameters, over = 8_030_261_248, 1 if zero == 0 else 8
    wide, given = (
        ask(asked(kind, stack=stack), zero=zero, recompute="none", micro_batch=1) for kind in ("bf16", precision)
    )
    assert line(given, "weights") == pytest.approx(weights * parameters, rel=1e-3)
    assert line(given, "gradients") == pytest.approx(4 * parameters / (8 if zero == 3 else 1), rel=1e-3)
    assert line(given, "optimizer") == pytest.approx(8 * parameters / over, rel=1e-3)
    if stack != "megatron-core":  # whose scores are written out
        assert line(given, "activations") == pytest.approx(2 * line(wide, "activations"), rel=1e-3)
    sent = {3: 12 / 8, 1: 8 / 6, 0: 1}[zero]  # gathers of 4 bytes for 2; gradients have 4 in both
    volumes = [each.evaluation.costs.row()["dp_volume"] for each in (wide, given)]
    assert volumes[1] == pytest.approx(sent * volumes[0], rel=0.02)


def test_products_in_32_bits_run_at_their_own_peaks() -> None:
    vector, tensor = asked("fp32", stack="fsdp2"), asked("tf32", stack="fsdp2")
    assert (vector.rates.peak, tensor.rates.peak) == (67e12, 494.7e12)
    slower = (494.7 * tensor.rates.matmul.compute_share) / (67 * vector.rates.matmul.compute_share)
    assert costs(vector)["matmul"] == pytest.approx(slower * costs(tensor)["matmul"], rel=0.05)
    assert [item.value for item in vector.assumed if item.path == "assume.mfu_peak"] == ["fp32, 67.0 TFLOP/s"]


@pytest.mark.parametrize(
    ("stack", "node", "precision", "kernel"),
    [
        ("fsdp2", "dgx-h100", "tf32", "memory-efficient"),
        ("megatron-core", "dgx-h100", "fp32", "unfused"),
        ("ddp", "t4-2", "fp16", "memory-efficient"),
        ("megatron-lm", "rtx8000-4", "fp16", "unfused"),
        ("gpt-neox", "rtx2080ti-10", "fp16", "flash-1"),
        ("gpt-neox", "dgx-1v", "fp16", "unfused"),
        ("fsdp2", "dgx-a100", "fp16", "flash-2"),
    ],
)
def test_attention_that_runs_there_is_said(stack: str, node: str, precision: str, kernel: str) -> None:
    """Flash kernels multiply 16 bits; the second needs Ampere, the first Turing."""
    given = ask(asked(precision, stack=stack, node=node), recompute="none")
    (said,) = [item.value for item in given.inputs.assumed if item.path == "attention and matmul"]
    assert said.startswith(f"{kernel}; ")
    assert (given.inputs.rates.attention is None) == (kernel == "unfused")
    assert given.evaluation.costs.row()["step_time"] > 0


@pytest.mark.parametrize(
    ("more", "sentence", "hint"),
    [
        ({"precision": "tf32", "node": "mi250x-frontier"}, "mi250x-gcd cannot multiply in tf32", "fp32"),
        ({"precision": "bf16", "node": "t4-2"}, "t4 cannot multiply in bf16", "fp16"),
        ({"precision": "fp32", "stack": "deepspeed"}, "the stack deepspeed does not train in fp32", "megatron-lm"),
        ({"precision": "fp32", "gradients": "bf16"}, "gradients in bf16 of weights in fp32", "leave it out"),
    ],
)
def test_who_cannot_train_in_a_wide_type(more: dict[str, str], sentence: str, hint: str) -> None:
    workload = {key: more[key] for key in ("precision", "gradients") if key in more}
    rest = {key: more[key] for key in ("node", "stack") if key in more}
    with pytest.raises(CostModelError) as raised:
        inputs(workload=workload, **{"stack": "fsdp2", **rest})
    (fault,) = raised.value.faults
    assert (fault.code, sentence in fault.sentence, hint in (fault.hint or "")) == ("D016", True, True), fault
