"""Adapters on frozen weights: what is trained, kept, sent and computed, against full training and by count."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.equations.layers.parameters import packed_bytes
from costmodel.estimate.model.shards import model_parameters, shard
from costmodel.estimate.training.stage_parameters import adapter_matmuls, adapters, trained_per_layer
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.explore.plan_choice_text import adapter_notes
from costmodel.report.terminal.head import scenario_head
from estimate.cases import ask, costs, inputs, line, one, written_out


def tuned(method: str = "lora", *, shape: str = "llama-3-8b", **more: Any) -> TrainingInputs:
    tuning = {"method": method, **{name: more.pop(name) for name in ("rank", "modules") if name in more}}
    return inputs(shape, workload={"tuning": tuning, "precision": more.pop("precision", "bf16")}, **more)


def test_the_worked_examples() -> None:
    asked = tuned(shape="llama-2-7b", rank=8, modules=["q", "v"])
    (kind,) = asked.model.layers
    assert kind.count * trained_per_layer(asked, shard(asked.model, kind, 1.0)) == 4_194_304
    assert packed_bytes(65e9, 0.5, 1.0, 64.0, 256.0) == pytest.approx(33.5e9, rel=2e-3)
    assert 8 * packed_bytes(1.0, 0.5, 1.0, 64.0, 256.0) == pytest.approx(4.127, abs=1e-3)


def test_full_is_the_default() -> None:
    assert costs(inputs(workload={"tuning": "full"}), tp=2) == pytest.approx(costs(inputs(), tp=2), nan_ok=True)


def test_states_are_of_the_adapters_alone() -> None:
    asked = tuned(rank=16)
    (kind,) = asked.model.layers
    own = float(kind.count * trained_per_layer(asked, shard(asked.model, kind, 1.0)))
    given = ask(asked, zero=0)
    assert line(given, "gradients") == pytest.approx(4 * own)
    assert line(given, "optimizer") == pytest.approx(12 * own)
    frozen = float(model_parameters(asked.model))
    assert line(given, "weights") == pytest.approx(2 * (frozen + own), rel=1e-3)
    layers = 32 * shard(asked.model, kind, 1.0).parameters
    packed = 2 * (frozen - layers + own) + 4.127 / 8 * layers
    assert line(ask(tuned("qlora", rank=16), zero=0), "weights") == pytest.approx(packed, rel=1e-3)


def test_work_is_four_n_and_no_more_than_the_adapters_beside() -> None:
    """Attention keeps three times its forward work; a rank of one adds next to nothing."""
    full, thin = costs(inputs(sequence=1024)), costs(tuned(rank=1, sequence=1024))
    work = {name: found["mfu"] * found["step_time"] for name, found in (("full", full), ("thin", thin))}
    assert 4 / 6 < work["thin"] / work["full"] < 4 / 6 * 1.02
    products = [found["matmul"] + found["memory_bound"] for found in (thin, full)]
    assert products[0] < products[1] * 0.8, (
        "two thirds, the start of fourteen thin products a layer; no gradient is added to"
    )


def test_a_higher_rank_costs_more() -> None:
    found = [costs(tuned(rank=rank)) for rank in (8, 64, 256)]
    for name in ("step_time", "memory_peak", "dp_volume"):
        values = [costs_of[name] for costs_of in found]
        assert values == sorted(values)


@pytest.mark.parametrize("method", ["lora", "qlora"])
def test_adapters_are_gathered_with_the_layer_they_are_in(method: str) -> None:
    """In the 2 B that matmuls read, twice a micro-batch; in use, for the next layer, and as gradients on their way."""
    thin, thick = (tuned(method, rank=rank, stack="fsdp2") for rank in (8, 128))
    (kind,) = thin.model.layers
    more = float(
        trained_per_layer(thick, shard(thick.model, kind, 1.0)) - trained_per_layer(thin, shard(thin.model, kind, 1.0))
    )
    found = [ask(asked, zero=3, recompute="none") for asked in (thin, thick)]
    gathers = [
        [one(item.message) for item in given.evaluation.step.transfers if item.operation == "all_gather"]
        for given in found
    ]
    grown = [after - before for before, after in zip(*gathers, strict=True)]
    assert sorted(grown)[-2:] == pytest.approx([2 * more] * 2)
    assert sum(grown) == pytest.approx(4 * more), "tables have none"
    assert line(found[1], "gathered") - line(found[0], "gathered") == pytest.approx((2 * 2 + 2 * 4) * more)


@pytest.mark.parametrize("stack", ["megatron-core", "fsdp2"])
@pytest.mark.parametrize("name", ["q", "up", "o", "down"])
def test_an_adapter_multiplies_what_its_parameters_are(stack: str, name: str) -> None:
    """Cut twice, the matrix down of a column-parallel pair has a part of the rank, and still reads every input; what a
    row-parallel pair makes is cut, and gathered.
    """
    asked = tuned(rank=16, modules=[name], stack=stack)
    (kind,) = asked.model.layers
    part = shard(asked.model, kind, 8.0)
    (adapter,) = adapters(asked, part)
    down, up = adapter_matmuls(asked, adapter)
    assert down.n * down.k + up.n * up.k == trained_per_layer(asked, part)
    cut = 8 if stack == "megatron-core" else 1
    if name in ("q", "up"):
        assert (down.n, down.k, up.k) == (16 / cut, 4096, 16)
    else:
        assert (down.n, up.n, up.k) == (16, 4096 / cut, 16)


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize(("modules", "gathered"), [(["q", "up"], 0), (["o"], 1), (["o", "down", "gate"], 2)])
def test_what_is_gathered_of_adapters_that_are_cut_twice(
    modules: list[str], gathered: int, sequence_parallel: bool
) -> None:
    """Whole results forward and, where they are scattered again, whole gradients; nothing where one matrix is whole."""
    counts = []
    for stack in (written_out("stack", "megatron-core", split_adapters=split) for split in (False, True)):
        given = ask(tuned(modules=modules, stack=stack), tp=8, recompute="none", sequence_parallel=sequence_parallel)
        sent = [item for item in given.evaluation.step.transfers if item.group.name == "tp"]
        counts.append(sum(one(item.count) for item in sent if item.operation == "all_gather"))
    micro_batches = 64
    assert counts[1] - counts[0] == 32 * micro_batches * gathered * (2 if sequence_parallel else 1)


def test_only_gradients_of_adapters_are_sent() -> None:
    full, thin = (costs(asked, zero=0) for asked in (inputs(), tuned(rank=16)))
    (kind,) = inputs().model.layers
    own = kind.count * trained_per_layer(tuned(rank=16), shard(inputs().model, kind, 1.0))
    assert thin["dp_volume"] / full["dp_volume"] == pytest.approx(float(own) / 8.03e9, rel=0.01)


def test_sharded_weights_are_still_gathered() -> None:
    """Of full training two gathers and one scatter of 16-bit weights and fp32 gradients; now the gathers alone.

    Embedding, head and last norm are gathered once.
    """
    full, thin = (costs(asked, zero=3, recompute="none") for asked in (inputs(stack="fsdp2"), tuned(stack="fsdp2")))
    ends, whole = 2 * 128256 * 4096 + 4096, 8030261248
    gathered = 2 * 2 * whole - 2 * ends
    assert thin["dp_volume"] / full["dp_volume"] == pytest.approx(gathered / (gathered + 4 * whole), rel=0.02)


def test_packed_weights_take_time_to_unpack_and_less_memory() -> None:
    lora, qlora = costs(tuned()), costs(tuned("qlora"))
    assert qlora["memory_bound"] > lora["memory_bound"]
    assert qlora["memory_peak"] < lora["memory_peak"]
    assert qlora["mfu"] * qlora["step_time"] == pytest.approx(lora["mfu"] * lora["step_time"])


def test_inputs_that_no_gradient_reads_are_not_kept() -> None:
    """q and v read the first norm's output; the second norm's and the activation function's nobody reads."""
    every, two = (ask(tuned(rank=8, **more), recompute="none") for more in ({}, {"modules": ["q", "v"]}))
    spared = 32 * 4096 * 2 * (4096 + 14336 + 8 * 5)
    assert line(every, "activations") - line(two, "activations") == pytest.approx(spared)
    again = {"recompute_modules": ["norms", "mlp-activation"]}
    dropped = [line(ask(tuned(rank=8, **more), **again), "activations") for more in ({}, {"modules": ["q", "v"]})]
    assert dropped[0] - dropped[1] == pytest.approx(32 * 4096 * 2 * 8 * 5), "nothing is dropped twice"


def test_fewer_modules_train_fewer_parameters_and_a_plain_mlp_has_no_gate() -> None:
    asked = tuned(shape="gpt-3-175b", modules=["gate", "up"], rank=4)
    (kind,) = asked.model.layers
    assert trained_per_layer(asked, shard(asked.model, kind, 1.0)) == 4 * (12288 + 4 * 12288)


def test_converted_copies_of_frozen_weights_are_named() -> None:
    wide, narrow = (tuned(precision=kind) for kind in ("bf16", "fp8"))
    (kind,) = wide.model.layers
    copies = 2 * 32 * shard(wide.model, kind, 1.0).parameters
    weights = [line(ask(asked, zero=0), "weights") for asked in (wide, narrow)]
    assert weights[1] - weights[0] == pytest.approx(copies, rel=1e-3)
    notes = [adapter_notes(asked)["weights"] for asked in (wide, narrow)]
    assert "fp8" not in notes[0]
    assert "16 bits, with 2 B of fp8 in the layers" in notes[1]
    assert "2 B of fp8-block" in adapter_notes(tuned(stack="hai-llm", precision="fp8-block"))["weights"]


def test_frozen_weights_that_are_kept_narrow_alone_are_never_converted() -> None:
    """Beside weights in 16 bits copies are renewed each step: 2 B read and twice 1 B written, with their scales."""
    stacks = [written_out("stack", "hai-llm", low_precision={"primary": primary}) for primary in (False, True)]
    beside, alone = (tuned(stack=stack, precision="fp8-block") for stack in stacks)
    (kind,) = beside.model.layers
    layers = 32 * shard(beside.model, kind, 1.0).parameters
    spared = 4.0625 * layers / (beside.rates.memory_bandwidth * beside.rates.memory_share)
    assert costs(beside)["memory_bound"] - costs(alone)["memory_bound"] == pytest.approx(spared)
    trained = [inputs(stack=stack, workload={"precision": "fp8-block"}) for stack in stacks]
    assert costs(trained[0])["memory_bound"] == costs(trained[1])["memory_bound"]


def test_an_answer_says_what_is_trained() -> None:
    assert "qlora of rank 8" in scenario_head(tuned("qlora", rank=8).case)[1].plain
    assert "lora" not in scenario_head(inputs().case)[1].plain
