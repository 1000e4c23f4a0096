"""Runs on parts of other makers than NVIDIA: their software, the defaults of its scripts, and parts without runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from estimate.cases import ask, inputs, mixed, written_out

from costmodel.documents.reader.library import efficiency_of, names, read
from costmodel.estimate.machine.number_formats import by_best_matmul
from costmodel.estimate.training_answer.training_error_band import banded
from costmodel.evidence.validate.modelled_rows import modelled
from costmodel.evidence.validate.spelling import CannotModel
from costmodel.ground.counts import Recompute
from costmodel.report.terminal.head import remarks_of_plans
from evidence.validate.runs_of_22b import SHELF

OPEN = {"zero_stage": "", "features": "", "year": 2025, "precision": "bf16"}
LLAMA_8B = {"layers": 32, "hidden": 4096, "ffn": 14336, "heads": 32, "kv_heads": 8, "head_dim": 128}
LLAMA_8B |= {"model_name": "Llama3.1-8B", "glu": "true", "vocab": 128256, "tied_embeddings": "false"}
SHARDED = {"tp": 1, "fsdp": "true", "recompute": "", "micro_batch": 4, "gpus": 256, "gpus_per_node": ""}
MAXTEXT = OPEN | LLAMA_8B | SHARDED | {"framework": "MaxText", "global_batch": 1024, "seq_len": 8192}


@pytest.mark.parametrize(
    ("framework", "accelerator", "stack"),
    [
        ("MaxText", "tpu-v6e", "maxtext-tpu"),
        ("MaxText", "mi355x", "maxtext-rocm"),
        ("MaxText", "h100-sxm", "maxtext"),
        ("Megatron-DeepSpeed (Habana)", "gaudi2", "megatron-deepspeed-gaudi"),
        ("optimum-habana 1.15", "gaudi2", "optimum-habana"),
        ("neuronx-nemo-megatron", "trn1", "neuronx-distributed"),
        ("Primus Megatron-LM", "mi300x", "primus"),
    ],
)
def test_the_stack_follows_from_software_and_maker(row: Any, framework: str, accelerator: str, stack: str) -> None:
    found = modelled(row(**MAXTEXT | {"framework": framework, "accelerator": accelerator, "zero_stage": 1}), SHELF)
    assert found.inputs.stack.name == stack
    assert found.filled["stack"] == stack


def test_a_recipe_of_google_states_what_is_computed_again(row: Any) -> None:
    """Its custom policy keeps queries, keys, values and the output of attention; base.yml of MaxText keeps nothing."""
    known = modelled(row(**MAXTEXT | {"accelerator": "tpu-v6e"}), SHELF)
    assert known.filled["recompute"] == "selective:core_attn+layernorm+mlp"
    assert set(known.inputs.case.scenario.plan.recompute_modules or ()) == {"attention", "norms", "mlp"}
    other = modelled(row(**MAXTEXT | {"accelerator": "tpu-v6e", "model_name": "mine"}), SHELF)
    whole: Recompute = "full"
    assert (other.filled["recompute"], other.inputs.case.scenario.plan.recompute) == (whole, whole)


def test_slices_hold_a_copy_each(row: Any) -> None:
    cells = MAXTEXT | {"accelerator": "tpu-v6e", "gpus": 512, "global_batch": 2048}
    assert modelled(row(**cells), SHELF).inputs.case.scenario.plan.dp_replicate == 1
    for features, copies in (("slices=4", 4), ("HSDP", 2), ("HSDP;slices=2", 2)):  # a pod of v6e has 256 chips
        found = modelled(row(**cells | {"features": features}), SHELF)
        assert found.inputs.case.scenario.plan.dp_replicate == copies, features


def test_empty_cells_are_those_of_the_launch_script(row: Any) -> None:
    """Primus starts 128 sequences on a node of 8; what is stated stays, and software without scripts is refused."""
    cells = MAXTEXT | {"framework": "Primus Megatron-LM", "accelerator": "mi325x", "gpus": 64, "fsdp": "false"}
    cells |= {"global_batch": "", "seq_len": "", "micro_batch": 1, "dp": 64}
    found = modelled(row(**cells), SHELF)
    asked = found.inputs
    assert (asked.global_batch, asked.sequence, found.inputs.case.scenario.plan.micro_batch) == (16 * 64, 8192, 1)
    assert (found.filled["global_batch"], found.filled["seq_len"]) == ("1024", "8192")
    assert "micro_batch" not in found.filled
    for stated, batch in (({"grad_accum": 2}, 128), ({"global_batch": 256}, 256)):
        assert modelled(row(**cells | stated), SHELF).inputs.global_batch == batch
    with pytest.raises(CannotModel, match="global_batch"):
        modelled(row(**cells | {"framework": "Megatron-Core"}), SHELF)


def test_masks_that_fill_experts_are_products_over_the_sequence() -> None:
    """Two of 2 T k l h S FLOP forward; of the first nothing goes back to a mask: five of them in all."""

    def work(sequence: int, *, masked: bool, capacity: float | None = 1.25) -> float:
        assume = {"experts": {"capacity": capacity}} if capacity else {}
        shape = mixed(count=8, top_k=2, ffn_hidden=4096)
        asked = inputs(shape, sequence=sequence, global_batch=4096 * 32 // sequence, stack="maxtext", assume=assume)
        kernels = asked.experts.kernels.model_copy(update={"masked": masked})  # type: ignore[union-attr]
        asked = replace(asked, experts=replace(asked.experts, kernels=kernels))  # type: ignore[type-var]
        return float(ask(asked, zero=3, micro_batch=4096 // sequence).evaluation.costs.row()["matmul"])

    added = {size: work(size, masked=True) - work(size, masked=False) for size in (1024, 2048, 4096)}
    assert added[4096] == pytest.approx(2 * added[2048], rel=0.05)
    assert added[2048] == pytest.approx(2 * added[1024], rel=0.1)
    assert work(2048, masked=True, capacity=None) == work(2048, masked=False, capacity=None), "none are dropped"
    asked = inputs(mixed(count=8, top_k=2, ffn_hidden=4096), sequence=4096, global_batch=32, stack="maxtext")
    layers = sum(kind.count for kind in asked.model.layers)
    flop = 5 * 2 * 4096 * 2 * 1.25 * asked.model.hidden * 4096 * layers
    share = flop * 32 / float(asked.ranks) / added[4096] / (asked.rates.linear.peak / float(asked.sustained))
    assert 0.6 < share < asked.rates.linear.fit.backward_share


def test_grouped_products_of_experts_take_as_much_longer_as_they_reach_less() -> None:
    shape = mixed(count=8, top_k=2, ffn_hidden=4096)

    def matmul(share: float) -> float:
        asked = inputs(shape, stack="maxtext")
        kernels = asked.experts.kernels.model_copy(update={"grouped_share": share})  # type: ignore[union-attr]
        asked = replace(asked, experts=replace(asked.experts, kernels=kernels))  # type: ignore[type-var]
        return float(ask(asked, zero=3).evaluation.costs.row()["matmul"])

    whole, half, third = matmul(1.0), matmul(0.5), matmul(1 / 3)
    assert half > whole
    assert third - half == pytest.approx(half - whole, rel=0.1)


def _ratio(node: str) -> tuple[float, bool]:
    asked = inputs(node=written_out("node", node))
    row_ = banded(asked, ask(asked, zero=1, tp=2).evaluation).costs.row()
    return row_["step_time_high"] / row_["step_time"], by_best_matmul(asked.case, "bf16")


@pytest.mark.parametrize(
    ("ran", "sister"),
    [("trn1", "trn2"), ("gaudi2-8", "gaudi3-8"), ("mi355x-8", "helios-mi455x"), ("tpu-v7-slice", "tpu-8t-slice")],
)
def test_a_part_without_runs_has_its_family_s_constants_and_a_wider_band(ran: str, sister: str) -> None:
    """As wide as leaving whole families out asks for; its own best product counts where one is measured."""
    chips = [read("accelerator", read("node", name).accelerator) for name in (ran, sister)]
    assert efficiency_of(chips[1]) == efficiency_of(chips[0]) != "unmeasured"
    (narrow, best), (wide, own) = _ratio(ran), _ratio(sister)
    assert not best
    assert own is ("bf16" in chips[1].best_matmul)
    assert wide > 1.15 * narrow


def test_parts_that_a_fit_names_share_it() -> None:
    for name in names("efficiency"):
        fit = read("efficiency", name).sustained
        for part in fit.parts if fit else ():
            chip = read("accelerator", part)
            assert fit.covers(part, chip.vendor)
            assert read("efficiency", efficiency_of(chip)).sustained.factor == fit.factor


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ([(1.5, 2.0)], "uncertain: all pairs of step times overlap, because"),
        ([(2.1, 3.0)], "certain: no ranges of step time overlap, though"),
        ([(1.5, 2.0), (2.1, 3.0)], "uncertain: 1 of 2 pairs of step times overlap, because"),
    ],
)
def test_a_ranking_says_whether_its_order_is_known(others: list[tuple[float, float]], words: str) -> None:
    bands = [(1.0, 1.8), *others]
    costs = [{"step_time_low": low, "step_time_high": high} for low, high in bands]
    lines = [str(line) for line in remarks_of_plans([("N005",), *[() for _ in others]], costs)]
    assert lines[-1].endswith(f"this order is {words} one GPU or more is not calibrated")


def test_accelerators_are_listed_with_the_runs_they_were_held_against(run: Any) -> None:
    listed = {line.split()[0]: line.split()[1:5] for line in run("list", "accelerators").out.splitlines()[2:-1]}
    for name in names("accelerator"):
        held = read("accelerator", name).held_against
        assert listed[name][0] == ("none" if held is None else f"{held.runs:g}"), name
        fit = read("efficiency", efficiency_of(read("accelerator", name))).sustained
        assert held is not None or name not in fit.parts, name
    assert "runs" not in run("list", "nodes").out.split("\n")[1]


def test_a_sweep_over_nodes_of_unlike_sizes_says_so(run: Any) -> None:
    """A slice of TPU v5p has four chips a node, where DGX H100 has eight."""
    of_nodes = run("sweep", "llama-3-70b-512", "--over", "cluster.node=dgx-h100,tpu-v5p-slice").out
    assert "the points have 512 and 256 accelerators" in of_nodes
    assert "unequal" not in run("sweep", "llama-3-70b-512", "--over", "cluster.nodes=32,64").out
