"""Legality: each reason by a small case that breaks nothing else, the same by brute force, and the remarks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.shared.plan_batch import Block, Structure
from costmodel.estimate.shared.reasons import REFUSALS, REMARKS
from costmodel.estimate.training.plan_constraints import CHECKS, OF_A_SEARCH, refusals, valid
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.estimate.training_answer.predict_training import predict
from costmodel.explore.search.search import search
from costmodel.ground.counts import SIZES
from estimate.cases import TRAINING_STACKS, ask, costs, inputs, machine, mixed, model, one, with_mixer, written_out

SMALL = model()
NO_SP = {"sequence_parallel": False}
PICKING = {
    **{"heads": 16, "query_rank": 512, "kv_rank": 128, "nope_dim": 64, "rope_dim": 32, "value_dim": 64},
    "indexer": {"heads": 8, "head_dim": 64, "top_k": 512},
}
GROUPED = {
    **{"heads": 16, "head_dim": 64, "rope_dim": 32, "query_rank": 512, "window": 128, "entries": {"rate": 128}},
    **{"output_groups": 4, "output_rank": 64},
}
SHARING = {"heads": 16, "kv_heads": 4, "head_dim": 64, "shared_kv": True}
SELECTIVE = {"inner": 2048, "state": 16, "rank": 64, "conv": 4}

BOTH = ["optimizer", "parameters"]
DRIVELESS = {"node": "gb200-nvl72", "nodes": 2, "stack": "deepspeed"}
ON_DRIVES = {"zero": 3, "offload": ["optimizer"], "offload_to": "nvme"}

# code: (case, plan that breaks it, plan beside it that does not)
GROUPS = [{"node": "dgx-h100", "nodes": 1}, {"node": "dgx-a100", "nodes": 3}]
MIXED = {"cluster": {"groups": GROUPS}}
IN_BACKWARD = written_out("optimizer", "adam-8bit", name="lean", in_backward=True)
STEPPED = {"stack": "torchtune", "workload": {"optimizer": IN_BACKWARD}}
PROJECTED = {"stack": "megatron-lm", "workload": {"optimizer": "galore-adamw"}}
CASES: dict[str, list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]] = {
    "L001": [
        ({}, {"dp": 4, "tp": 4}, {"dp": 2, "tp": 4}),
        ({}, {"dp": 16}, {"dp": 8}),
        ({"nodes": 3, "global_batch": 48}, {"tp": 16}, {"tp": 8}),  # dp would be 1.5
    ],
    "L002": [
        ({"nodes": 3, "global_batch": 96}, {"pp": 3, "split": "even"}, {"pp": 3}),
        ({"nodes": 3, "global_batch": 96}, {"pp": 3, "split": "lighter-ends"}, {"pp": 3, "split": "lighter-last"}),
        ({"nodes": 3, "global_batch": 96}, {"pp": 6}, {"pp": 6, "split": "spread"}),
        ({}, {"pp": 4, "vpp": 4}, {"pp": 4, "vpp": 2}),
        ({}, {"pp": 4, "first_stage_layers": 1}, {"pp": 4, "first_stage_layers": 2}),
        ({}, {"pp": 4, "first_stage_layers": 1, "last_stage_layers": 2}, {"pp": 4, "last_stage_layers": 2}),
        ({}, {"pp": 4, "first_stage_layers": 4, "last_stage_layers": 4}, {"pp": 4, "first_stage_layers": 5}),
        ({}, {"pp": 2, "first_stage_layers": 3, "last_stage_layers": 4}, {"pp": 2, "first_stage_layers": 3}),
        ({}, {"first_stage_layers": 8}, {}),
        (
            {"shape": model(layers=9)},
            {"pp": 2, "split": "lighter-first", "vpp": 2},
            {"pp": 2, "split": "lighter-first"},
        ),
    ],
    "L003": [
        ({"shape": model(hidden=1536, heads=12, kv_heads=4)}, {"tp": 8}, {"tp": 4}),
        ({"shape": with_mixer(compressed=GROUPED)}, {"tp": 8}, {"tp": 4}),
    ],
    "L004": [({"shape": model(hidden=1536, heads=24, kv_heads=6)}, {"tp": 8}, {"tp": 2})],
    "L005": [({"global_batch": 60}, {}, {"tp": 2}), ({}, {"micro_batch": 16}, {"micro_batch": 8})],
    "L006": [({"global_batch": 12}, {"pp": 4, "vpp": 2}, {"pp": 4})],
    "L007": [
        ({"shape": model(ffn_hidden=4100)}, {"tp": 8}, {"tp": 4}),
        ({"shape": model(hidden=1028, heads=16, head_dim=64, ffn_hidden=4096)}, {"tp": 8}, {"tp": 4}),
    ],
    "L008": [({"sequence": 4100}, {"tp": 8}, {"tp": 8, **NO_SP}), ({"sequence": 4100}, {"tp": 8}, {"tp": 4})],
    "L009": [
        ({}, {"pp": 4, "vpp": 2, "schedule": "1f1b"}, {"pp": 4, "vpp": 2}),
        ({}, {"pp": 4, "vpp": 2, "schedule": "gpipe"}, {"pp": 4, "schedule": "gpipe"}),
        ({}, {"vpp": 2, "schedule": "interleaved"}, {}),
        ({}, {"pp": 4, "schedule": "interleaved"}, {"pp": 4}),
    ],
    "L025": [
        ({"workload": {"tuning": {"method": "lora", "rank": 4}}}, {"tp": 8}, {"tp": 4}),
        (
            {"shape": mixed(), "workload": {"tuning": {"method": "lora", "rank": 4}}},
            {"etp": 8, "tp": 4},
            {"etp": 2, "tp": 4},
        ),
    ],
    "L030": [
        ({"sequence": 4104}, {"cp": 8}, {"cp": 4}),
        ({"sequence": 4104}, {"cp": 8}, {"cp": 8, "cp_type": "a2a"}),
    ],
    "L031": [
        ({"shape": model(kv_heads=4)}, {"tp": 2, "cp": 4, "cp_type": "a2a"}, {"tp": 2, "cp": 2, "cp_type": "a2a"}),
        ({"shape": model(kv_heads=4)}, {"cp": 8, "cp_type": "a2a"}, {"cp": 8}),
    ],
    "L032": [({}, {"dp_replicate": 16}, {"dp_replicate": 4}), ({}, {"dp_replicate": 2, "zero": 0}, {"zero": 0})],
    "L033": [({"stack": "fsdp1"}, {"cp": 2}, {}), ({"stack": "maxtext"}, {"cp": 2, "cp_type": "p2p"}, {"cp": 2})],
    "L034": [
        ({"shape": with_mixer(latent=PICKING)}, {"cp": 2, "cp_type": kind}, {"cp": 2, "cp_type": "all-gather"})
        for kind in ("p2p", "a2a")
    ]
    + [({"shape": with_mixer(compressed=GROUPED)}, {"cp": 2, "cp_type": "p2p"}, {"cp": 2, "cp_type": "all-gather"})],
    "L035": [
        ({"shape": with_mixer(attention=SHARING)}, {"pp": 2}, {}),
        ({"shape": {**model(), "layer_embedding": {"rows": 1000, "width": 64}}}, {"pp": 2}, {}),
    ],
    "L036": [({"shape": with_mixer(selective_scan=SELECTIVE)}, {"cp": 2}, {})],
    "L011": [
        ({"stack": "megatron-2021"}, {"zero": 1}, {"zero": 0}),
        ({"stack": "fsdp2"}, {"zero": 0}, {"zero": 2}),
        ({"stack": "fsdp2"}, {"recompute_modules": ["norms"]}, {"recompute": "selective"}),
        ({"stack": "fsdp2"}, {"recompute_layers": 2}, {"recompute": "full"}),
        ({}, {"zero": 3, "offload": ["parameters", "optimizer"]}, {"zero": 3, "offload": ["optimizer"]}),
        ({}, {"offload": ["optimizer"], "offload_to": "nvme"}, {"offload": ["optimizer"]}),
        ({"stack": "megatron-2021"}, {"offload": ["activations"]}, {}),
    ],
    "L013": [
        ({"stack": "deepspeed"}, {"zero": 2, "pp": 2}, {"zero": 1, "pp": 2}),
        ({"stack": "gpt-neox"}, {"zero": 3, "pp": 2}, {"zero": 3}),
        ({"stack": "internevo"}, {"zero": 3, "pp": 2}, {"zero": 0, "pp": 2}),
    ],
    "L020": [
        ({"shape": mixed(count=6)}, {"ep": 4}, {"ep": 2}),
        (
            {"shape": {**mixed(), "prediction": {"depth": 1, "layer": {**mixed(count=6)["layers"][0], "count": 1}}}},
            {"ep": 4},
            {"ep": 2},
        ),
    ],
    "L021": [
        ({"shape": mixed(count=16)}, {"ep": 16}, {"ep": 8}),
        ({"shape": mixed(count=16)}, {"pp": 2, "ep": 8}, {"pp": 2, "ep": 4}),
        ({"shape": mixed()}, {"tp": 2, "ep": 8, "etp": 2}, {"tp": 2, "ep": 4, "etp": 2}),
    ],
    "L022": [
        ({"shape": mixed(ffn_hidden=1028)}, {"etp": 8}, {"etp": 4}),
        (
            {
                "shape": {
                    **mixed(),
                    "prediction": {"depth": 1, "layer": {**mixed(ffn_hidden=1028)["layers"][0], "count": 1}},
                }
            },
            {"etp": 8},
            {"etp": 4},
        ),
    ],
    "L023": [({"shape": mixed()}, {"tp": 2, **NO_SP}, {"tp": 2}), ({"shape": mixed()}, {"tp": 2, **NO_SP}, {**NO_SP})],
    "L024": [({}, {"ep": 2}, {}), ({}, {"etp": 2}, {})],
    "L040": [
        ({}, {"recompute": "full", "recompute_modules": ["norms"]}, {"recompute_modules": ["norms"]}),
        ({}, {"recompute": "none", "recompute_layers": 2}, {"recompute_layers": 2}),
    ],
    "L041": [
        ({}, {"pp": 4, "recompute_layers": 3}, {"pp": 4, "recompute_layers": 2}),
        ({}, {"pp": 4, "vpp": 2, "recompute_layers": 2}, {"pp": 4, "vpp": 2, "recompute_layers": 1}),
        ({}, {"recompute_method": "uniform", "recompute_layers": 0}, {"recompute_layers": 0}),
    ],
    "L042": [
        ({"stack": "deepspeed"}, {"zero": 2, "offload": BOTH}, {"zero": 3, "offload": BOTH}),
        ({"stack": "fsdp2"}, {"zero": 3, "offload": ["parameters"]}, {"zero": 3, "offload": BOTH}),
        ({"stack": "deepspeed"}, {"zero": 0, "offload": ["optimizer"]}, {"zero": 1, "offload": ["optimizer"]}),
        ({}, {"zero": 0, "offload": ["optimizer"]}, {"zero": 0, "offload": ["activations"]}),
        ({}, {"offload_layers": 2, "offload": ["optimizer"]}, {"offload_layers": 2, "offload": ["activations"]}),
    ],
    "L047": [
        (PROJECTED, {"tp": 2}, {"tp": 1}),
        ({**PROJECTED, "stack": "torchtune"}, {"zero": 3}, {"zero": 3, "dp_replicate": 8}),
    ],
    "L046": [(STEPPED, {"micro_batch": 4}, {"micro_batch": 8})],
    "L045": [
        (STEPPED, {"micro_batch": 8, "zero": 2}, {"micro_batch": 8, "zero": 3}),
    ],
    "L048": [
        ({"stack": "ddp"}, {"tp": 2}, {}),
        ({"stack": "transformers-deepspeed"}, {"zero": 0, "pp": 2}, {"zero": 0}),
        ({"stack": "transformers-fsdp", "shape": mixed()}, {"ep": 2}, {}),
        ({"stack": "torchtune", "shape": mixed()}, {"etp": 2, "tp": 2}, {"tp": 2}),
    ],
    "R005": [
        (MIXED, {"pp": 2, "tp": 8}, {"tp": 8}),
        (MIXED, {"zero": 2}, {"zero": 2, "shares": "equal"}),
    ],
    "R006": [
        ({"stack": "megatron-lm"}, {"pp": 2, "sync": "async"}, {"sync": "async"}),
        ({"stack": "megatron-lm"}, {"tp": 8, "sync": "stale 4"}, {"tp": 4, "sync": "stale 4"}),
    ],
    "R009": [
        ({}, {"zero": 1, "sync": "parameter-server"}, {"zero": 0, "sync": "parameter-server"}),
        ({}, {"zero": 0, "sync": "first 9"}, {"zero": 0, "sync": "first 8"}),
        ({}, {"zero": 0, "sync": "first 8", "compression": "one-bit"}, {"zero": 0, "compression": "one-bit"}),
    ],
    "R004": [
        ({}, {"zero": 2, "compression": "powersgd 4"}, {"zero": 1, "compression": "powersgd 4"}),
        ({"stack": "fsdp2"}, {"zero": 3, "compression": "top-k 1 %"}, {"zero": 3, "compression": "int8"}),
        ({}, {"dp_replicate": 2, "compression": "one-bit"}, {"dp_replicate": 2, "compression": "fp16"}),
    ],
    "L043": [({"node": "mi250x-frontier"}, {"offload": ["optimizer"]}, {}), (DRIVELESS, ON_DRIVES, {"zero": 3})],
}
EACH = [
    pytest.param(code, *one, id=f"{code}-{position}")
    for code, many in CASES.items()
    for position, one in enumerate(many)
]


@pytest.mark.parametrize(("code", "case", "broken", "sound"), EACH)
def test_each_reason(code: str, case: dict[str, Any], broken: dict[str, Any], sound: dict[str, Any]) -> None:
    asked = inputs(**{"shape": SMALL, **case})
    assert ask(asked, **broken).refused == (code,)
    assert ask(asked, **sound).refused == ()


def test_every_reason_has_a_case_and_a_meaning() -> None:
    codes = [check.code for check in CHECKS]
    assert {*codes} == {*CASES, "L010", "L012", "R003", "R013"}  # R003, R013: test_run.py
    assert len(codes) == len({*codes})
    of_a_search = {"L044", "M004"}
    assert {*codes, *of_a_search, "M001", "M002", "M003", "R001", "R002", "R007", "T001"} == {*REFUSALS}
    assert all(rule.title and rule.meaning.endswith(".") for rule in {**REFUSALS, **REMARKS}.values())


def test_a_plan_hears_of_everything_that_is_wrong() -> None:
    asked = inputs(model(layers=9, hidden=1028, heads=16, head_dim=64, ffn_hidden=4096), sequence=4100, global_batch=7)
    assert {*ask(asked, tp=8, pp=2, vpp=2, dp=1).refused} == {"L001", "L002", "L006", "L007", "L008"}


@pytest.mark.parametrize("kv_heads", [1, 2, 6, 8])
def test_key_value_heads_divide_or_repeat(kv_heads: int) -> None:
    """Every rank holds the same whole number of them, or every head is held by the same number of ranks."""
    asked = inputs(model(hidden=3072, heads=48, kv_heads=kv_heads))
    for tp in (1, 2, 4, 8):
        sizes = {sum(1 for rank in range(tp) if rank * kv_heads // tp == head) for head in range(kv_heads)}
        held = {sum(1 for head in range(kv_heads) if head * tp // kv_heads == rank) for rank in range(tp)}
        even = len(sizes) == 1 if tp >= kv_heads else len(held) == 1
        assert ("L004" not in ask(asked, tp=tp).refused) == even


def test_whole_micro_batches_by_counting() -> None:
    asked = inputs(SMALL, global_batch=24)
    for tp in (1, 2, 4, 8):
        for micro_batch in (1, 2, 3, 4, 5, 6):
            dealt = len(range(0, 24, 8 // tp * micro_batch)) * (8 // tp) * micro_batch == 24
            assert ("L005" not in ask(asked, tp=tp, micro_batch=micro_batch).refused) == dealt


def _block(structure: Structure, **columns: list[float]) -> Block:
    sizes = {"dp": 8.0, "tp": 1.0, "pp": 1.0, "vpp": 1.0, "micro_batch": 1.0, "ep": 1.0, "etp": 1.0}
    sizes |= {"cp": 1.0, "dp_replicate": 1.0}
    rows = max(map(len, columns.values()))
    arrays = {name: np.full(rows, value) for name, value in sizes.items()}
    return Block(structure, **{**arrays, **{name: np.array(values) for name, values in columns.items()}})


def test_the_first_reason_is_counted_and_nothing_twice() -> None:
    asked = inputs(SMALL, global_batch=60)
    block = _block(Structure(), dp=[8.0, 4.0, 2.0, 4.0, 16.0], tp=[1.0, 2.0, 4.0, 4.0, 1.0])
    standing, counts = valid(asked, [block], CHECKS, np.array([[1, 1, 7, 1, 1]]))
    assert counts == {"L001": 2, "L005": 1}, "60 is no multiple of 8; rows of a wrong world are not asked again"
    assert standing.tolist() == [[0, 1, 7, 0, 0]]
    assert sum(counts.values()) + standing.sum() == 11
    assert refusals(asked, block.cut(4, 5)) == ("L001", "L005")


# One plan under two names: the structure that differs, the stack's own, the sizes at which they are the same.
TWINS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"sequence_parallel": False}, {}, {"pp": 2}),
    ({"zero": 1}, {"zero": 0}, {"tp": 8}),
    ({"zero": 3}, {"zero": 0}, {"tp": 8}),
    ({"schedule": "gpipe"}, {"schedule": "1f1b"}, {"tp": 2}),
    ({"order": "tp-cp-pp-dp"}, {"order": "tp-cp-dp-pp"}, {"tp": 2}),
    ({"order": "tp-cp-pp-dp"}, {"order": "tp-cp-dp-pp"}, {"tp": 2, "pp": 4}),
    ({"order": "tp-dp-cp-pp"}, {"order": "tp-cp-dp-pp"}, {"tp": 2}),
    ({"order": "tp-dp-cp-pp"}, {"order": "tp-cp-dp-pp"}, {"cp": 8}),
    ({"recompute": "selective"}, {"recompute": "none"}, {"tp": 2}),
]


@pytest.mark.parametrize(("other", "own", "sizes"), TWINS)
def test_what_a_search_calls_the_same_plan_costs_the_same(
    other: dict[str, Any], own: dict[str, Any], sizes: dict[str, Any]
) -> None:
    asked = inputs(SMALL)
    twice = costs(asked, **other, **sizes), costs(asked, **own, **sizes)
    assert twice[0] == pytest.approx(twice[1], rel=1e-12, nan_ok=True)


@pytest.mark.parametrize(("other", "own", "sizes"), TWINS)
def test_of_two_names_a_search_keeps_one(other: dict[str, Any], own: dict[str, Any], sizes: dict[str, Any]) -> None:
    fixed = {"recompute": "none", "zero": 0, "schedule": "1f1b", "cp_type": "p2p"}
    axes = {**{"tp": 1, "pp": 1, "micro_batch": 1}, **fixed, **sizes}
    stack_own = {"sequence_parallel": True, **own}
    key, value = next(iter(other.items()))
    space = {name: [given] for name, given in {**axes, **own}.items()}
    both = search(inputs(SMALL, search={**space, key: [stack_own[key], value]}).case, workers=1).tally
    assert (both.candidates, both.evaluated, both.refused["L010"]) == (2, 1, 1)
    alone = search(inputs(SMALL, search={**space, key: [value]}).case, workers=1).tally
    assert (alone.candidates, alone.evaluated, alone.refused["L010"]) == (1, 1, 0), "asked for alone, it is no repeat"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
@pytest.mark.parametrize("more", [{}, {"search": {"split": ["even", "spread"]}}], ids=["space", "splits"])
def test_a_check_reads_no_size_that_it_does_not_need(check: Any, more: dict[str, Any]) -> None:
    """What it is not told of does not change its answer."""
    draw = np.random.default_rng(7)
    for asked in (inputs(SMALL, nodes=2, **more), inputs(mixed(), nodes=2, **more)):
        for structure in (Structure(), Structure(zero=3, split="spread", schedule="interleaved", order="tp-cp-pp-dp")):
            sizes = {name: draw.choice([1.0, 2.0, 4.0, 8.0], 64).tolist() for name in SIZES}
            other = {name: draw.permutation(values).tolist() for name, values in sizes.items()}
            known = {name: sizes[name] if name in check.needs else other[name] for name in SIZES}
            masks = [check.refused(asked, _block(structure, **each)) for each in (sizes, known)]
            assert np.array_equal(*masks)


@pytest.mark.parametrize("stack", TRAINING_STACKS)
def test_on_one_rank_a_search_keeps_the_stages_that_differ(stack: str) -> None:
    """FSDP's lets go of copies under stage 3, DeepSpeed has fewer gradients from stage 2 on, of which a step of stage 2
    frees those of 16 bits; elsewhere all are one. The step decides a peak after a short sequence alone.
    """
    asked = machine(1, SMALL, stack=stack)
    short = machine(1, SMALL, stack=stack, sequence=64)

    def peaks(zero: Any) -> tuple[tuple[float, float], tuple[float, float]]:
        one, other = costs(asked, zero=zero), costs(short, zero=zero)
        return (one["step_time"], one["memory_peak"]), (other["step_time"], other["memory_peak"])

    different = {peaks(zero) for zero in asked.stack.zero}
    fixed = {"micro_batch": [1], "recompute": asked.stack.recompute[:1], "schedule": ["1f1b"]}
    searched = search(machine(1, SMALL, stack=stack, search=fixed).case, workers=1)
    assert {(plan.costs["step_time"], plan.costs["memory_peak"]) for plan in searched.best} == {
        usual for usual, _ in different
    }
    assert searched.tally.evaluated == len(different)


def test_weights_of_one_rank_can_go_to_the_host() -> None:
    fixed = {"offload": [BOTH], "micro_batch": [1], "recompute": ["none"], "schedule": ["1f1b"]}
    found = search(machine(1, SMALL, stack="deepspeed", search=fixed).case, workers=1)
    assert [plan.structure.zero for plan in found.best] == [3]


def test_a_plan_is_never_refused_as_a_repeat() -> None:
    assert {"L010"} == OF_A_SEARCH
    assert ask(inputs(SMALL), zero=3, tp=8, sequence_parallel=False, schedule="gpipe").refused == ()


def test_remarks() -> None:
    grouped = model(hidden=4096, heads=32, kv_heads=8)
    asked = inputs(grouped, nodes=2)
    assert ask(asked, tp=8).remarked == ()
    assert set(ask(asked, tp=16).remarked) == {"N001", "N002", "N054"}  # a sixteenth of the stream is a small kernel
    assert set(ask(inputs(model(hidden=4096, heads=32), nodes=2), tp=16).remarked) == {"N001", "N054"}
    assert ask(inputs(model(hidden=4096, heads=32, kv_heads=4)), tp=8).remarked == ("N002",)
    assert set(ask(inputs(model(ffn_hidden=1024)), tp=8).remarked) == {"N004", "N054"}
    assert {"N001", "N002", "N004"} <= {*REMARKS}


def test_groups_that_straddle_two_nodes_are_remarked() -> None:
    """Of 24 ranks in sixes the second six has two in one node and four in the next."""
    asked = inputs(model(hidden=3072, heads=24), nodes=3, global_batch=12)
    straddling = ask(asked, tp=6)
    assert straddling.remarked == ("N001",)
    transfers = straddling.evaluation.step.transfers
    assert {one(item.group.domains) for item in transfers if item.group.name == "tp"} == {2.0}
    assert ask(asked, tp=8).remarked == ()


def test_heads_without_tensor_cores() -> None:
    """96 heads of 144 elements are whole pieces of 16 bytes, 128 of 108 not, which only unfused attention minds."""
    shapes = {heads: model(hidden=13824, heads=heads) for heads in (96, 128)}
    assert "N009" in ask(inputs(shapes[128], stack="megatron-2021")).remarked
    assert "N009" not in ask(inputs(shapes[96], stack="megatron-2021")).remarked
    assert "N009" not in ask(inputs(shapes[128])).remarked


def test_more_than_the_peak_is_remarked() -> None:
    """Of one plan, and of the best of a search: fp8 compared with the peak of bf16, by parts ten times too fast."""
    said = ["plan.micro_batch=4", "plan.vpp=5", "search.tp=[8]", "assume.overlap.tp=1"]
    said += ["workload.precision=fp8", "assume.mfu_peak=bf16"]
    slow, fast = (load("llama-3-70b-512", [f"assume.sustained={factor}", *said]) for factor in (1.0, 0.1))
    assert "N011" not in predict(slow).remarked
    assert "N011" in predict(fast).remarked
    assert "N011" not in search(slow, 1, workers=1).best[0].remarked
    assert "N011" in search(fast, 1, workers=1).best[0].remarked


def test_unequal_chunks_of_a_rank() -> None:
    """Ten layers over four chunks or eight; not over four ranks of one, nor eight layers over four chunks."""
    asked = inputs(model(layers=10), nodes=1, global_batch=32)
    assert "N010" in ask(asked, pp=2, vpp=2, split="spread").remarked
    assert "N010" in ask(asked, pp=4, vpp=2, split="spread").remarked
    assert "N010" not in ask(asked, pp=4, split="spread").remarked
    assert "N010" not in ask(inputs(model(layers=8), nodes=1, global_batch=32), pp=2, vpp=2, split="spread").remarked


@pytest.mark.parametrize(
    "assume", [{"experts": {"deduplicated": False}}, {"experts": {"capacity": 2}}, {"overlap": {"ep": 0}}]
)
def test_what_is_assumed_of_experts_needs_some(assume: dict[str, Any]) -> None:
    assert "N008" in ask(inputs(model(), assume=assume)).remarked
    assert "N008" not in ask(inputs(mixed(), assume=assume)).remarked
    assert "N008" not in ask(inputs(model(), assume={"overlap": {"tp": 0}})).remarked


def test_a_wide_domain_is_not_left() -> None:
    """Where 72 accelerators share a domain, tp = 16 stays inside, if outside of the 4 ranks that were measured."""
    asked = inputs(model(hidden=4096, heads=32), node="gb200-nvl72", nodes=4)
    assert ask(asked, tp=16).remarked == ("N054",)


def test_refused_rows_are_evaluated_all_the_same() -> None:
    """Equations never raise; a plan that makes no sense still has numbers beside its reasons."""
    given = ask(inputs(SMALL), tp=8, pp=3, micro_batch=7)
    assert given.refused
    assert np.isfinite(given.evaluation.costs.row()["step_time"])
    assert evaluate(given.inputs, given.evaluation.block).costs.row()["step_time"] > 0


def test_learned_positions_end() -> None:
    """GPT-2 has 1,024 of them; rotary positions only remark."""
    assert ask(inputs("gpt-2-small", sequence=1024)).refused == ()
    assert ask(inputs("gpt-2-small", sequence=2048)).refused == ("L012",)
    assert "N006" in ask(inputs("llama-3-8b", sequence=16384), tp=8).remarked
    assert "N006" not in ask(inputs("llama-3-8b", sequence=8192), tp=8).remarked


def test_limits_refuse_a_plan() -> None:
    assert ask(inputs(limits={"step_time": {"at_most": "1 us"}}), tp=8).broken == ("T001",)
    assert ask(inputs(limits={"memory": {"at_most": "1 %"}}), tp=8).broken == ("M002",)


@pytest.mark.parametrize(("stack", "alone", "piped"), [("fsdp2", 3, 2), ("deepspeed", 1, 1), ("megatron-core", 1, 1)])
def test_the_stage_left_open_is_that_of_the_pipeline(stack: str, alone: int, piped: int) -> None:
    """torchtitan drops gathered weights after forward unless there is a pipeline, and says that this was assumed."""
    for pp, stage in ((1, alone), (2, piped)):
        given = ask(inputs(SMALL, stack=stack), pp=pp)
        (said,) = (each for each in given.assumed if each.path == "plan.zero")
        assert said.value == str(stage)
        assert said.origin.endswith("pipeline") == (pp == 2 and stack in ("fsdp2", "deepspeed"))
        stated = ask(inputs(SMALL, stack=stack), pp=pp, zero=stage)
        assert given.evaluation.costs.row()["step_time"] == stated.evaluation.costs.row()["step_time"]


def test_a_plan_that_is_invalid_is_refused_without_a_word_of_its_arithmetic() -> None:
    """More experts' ranks than experts: rows of less than nothing; pytest makes errors of NumPy's warnings."""
    given = ["model=mixtral-8x7b", "cluster.nodes=2", "workload.sequence=8", "workload.global_batch=16"]
    plan = ["plan.tp=2", "plan.pp=1", "plan.ep=16"]
    assert "L020" in predict(load("llama-3-70b-512", [*given, *plan])).refused
