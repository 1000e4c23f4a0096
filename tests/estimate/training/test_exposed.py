"""What shows of communication is all of it where nothing may hide, and never more than compute leaves room for."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.documents.reader.library import read
from costmodel.estimate.training_answer.predict_training import Answer
from estimate.cases import ask, costs, inputs, mixed, model, one, written_out

NOTHING_HIDES = {"overlap": dict.fromkeys(("tp", "dp", "weights", "pp", "cp"), 0)}
NOR_OF_EXPERTS = {"overlap": {**NOTHING_HIDES["overlap"], "ep": 0}}
ZEROS = {"megatron-core": (0, 1), "megatron-deepspeed": (1,), "deepspeed": (1, 2, 3), "fsdp2": (2, 3), "fsdp1": (3,)}


def alone(stack: str) -> dict[str, Any]:
    """A stack that gathers and scatters beside nothing: its inputs stay, its ring waits."""
    kernels = {"inputs": "kept"}
    return written_out("stack", stack, kernels=kernels)


def in_all(given: Answer, axis: str) -> float:
    """Time of all collectives of an axis."""
    return sum(one(item.total_time) for item in given.evaluation.step.transfers if item.axis == axis)


def exposed(given: Answer, axis: str) -> float:
    return one(given.evaluation.step.terms[axis])


@pytest.mark.parametrize(("stack", "zero"), [(name, zero) for name, zeros in ZEROS.items() for zero in zeros])
@pytest.mark.parametrize("micro_batch", [1, 4])
@pytest.mark.parametrize("experts", [False, True])
def test_all_of_it_shows_where_nothing_may_hide(stack: str, zero: Any, micro_batch: int, experts: bool) -> None:
    if experts and (read("stack", stack).experts is None or not read("stack", stack).has("ep")):
        pytest.skip("a stack without experts over ranks")
    shape, assume = (mixed(), NOR_OF_EXPERTS) if experts else (model(gated=True), NOTHING_HIDES)
    asked = inputs(shape, stack=alone(stack), nodes=2, assume=assume)
    plan = {"zero": zero, "micro_batch": micro_batch, **({"ep": 4} if experts else {})}
    given = ask(asked, **plan)
    assert given.refused == ()
    for axis in ("tp", "dp", "ep"):
        assert exposed(given, axis) == pytest.approx(in_all(given, axis), rel=1e-9), axis


@pytest.mark.parametrize("stack", ["fsdp1", "fsdp2"])
@pytest.mark.parametrize("zero", [2, 3])
@pytest.mark.parametrize("micro_batch", [1, 4])
def test_what_a_pipeline_moves_once_shows_once(stack: str, zero: Any, micro_batch: int) -> None:
    """Micro-batches of a pipeline share their gathers, where weights stay, and the scatter of their gradients."""
    asked = inputs(model(gated=True), stack=alone(stack), nodes=2, assume=NOTHING_HIDES)
    given = ask(asked, zero=zero, pp=4, micro_batch=micro_batch)
    assert given.refused == ()
    assert exposed(given, "dp") == pytest.approx(in_all(given, "dp"), rel=1e-9)


@pytest.mark.parametrize("schedule", ["1f1b", "zb-v", "v-half", "dualpipev"])
def test_a_folded_pipeline_has_both_ends_on_one_rank(schedule: str) -> None:
    stack = written_out("stack", "megatron-core", schedules=["1f1b", schedule], kernels={"inputs": "kept"})
    asked = inputs(model(gated=True), stack=stack, nodes=1, assume=NOTHING_HIDES)
    given = ask(asked, tp=2, pp=4, vpp=1 if schedule == "1f1b" else 2, schedule=schedule)
    assert given.refused == ()
    assert exposed(given, "tp") == pytest.approx(in_all(given, "tp"), rel=1e-9)


@pytest.mark.parametrize("pp", [1, 4])
def test_multi_token_prediction_exchanges_too(pp: int) -> None:
    """Its layer and its head beside those of the model; where the last stage has the fewest layers it adds none."""
    asked = inputs("deepseek-v3", nodes=32, global_batch=1024, stack=alone("megatron-core"), assume=NOR_OF_EXPERTS)
    given = ask(asked, tp=2, ep=32, pp=pp)
    for axis in ("tp", "ep"):
        most = in_all(given, axis)
        assert exposed(given, axis) == pytest.approx(most, rel=1e-9) if pp == 1 else exposed(given, axis) < 1.1 * most


def test_a_step_is_as_long_as_its_collectives() -> None:
    """However well they hide: one link sends one thing at a time, gathers and scatters of experts and of all else."""
    asked = inputs(
        "qwen-2-57b-a14b", node="gb200-nvl72", nodes=32, sequence=512, global_batch=2048, assume={"overlap": {"dp": 1}}
    )
    given = ask(asked, cp=8, cp_type="all-gather", micro_batch=2, zero=3, recompute="full", ep=8)
    assert given.evaluation.costs.row()["step_time"] >= in_all(given, "dp")


def test_the_link_to_the_host_goes_on_while_the_network_is_waited_for() -> None:
    """Twice the tokens behind the same weights are not done sooner."""
    offload = {"offload": ["optimizer", "activations", "parameters"], "offload_layers": 10}
    once, twice = (
        costs(
            inputs("megatron-529.6b", node="dgx-b200", nodes=2, sequence=2048, global_batch=48 * size, stack="fsdp2"),
            tp=8,
            micro_batch=size,
            zero=3,
            sequence_parallel=False,
            **offload,
        )["step_time"]
        for size in (1, 2)
    )
    assert once < twice


@pytest.mark.parametrize(
    ("node", "nodes", "tp"), [("pcie-l40s-8", 1, 8), ("hgx-mi300x", 2, 16), ("dgx-h100", 2, 16), ("dgx-a100", 2, 16)]
)
def test_gathers_do_not_hide_behind_adding_to_gradients(node: str, nodes: int, tp: int) -> None:
    """Which takes longer in fp32 than in 16 bits, after the product that reads the gathered inputs."""
    wide, narrow = (
        ask(inputs("llama-3-8b", node=node, nodes=nodes, workload={"gradients": kind}), tp=tp)
        for kind in ("fp32", "bf16")
    )
    assert exposed(wide, "tp") == pytest.approx(exposed(narrow, "tp"), rel=1e-12)


def test_adapters_leave_little_for_gathers_to_hide_behind() -> None:
    """Where most weights are frozen there are few gradients of weights beside which inputs could be gathered again."""
    tuned = {"tuning": {"method": "lora", "rank": 8}}
    asked = [inputs("llama-3-8b", node="pcie-l40s-8", workload=more) for more in ({}, tuned)]
    whole, frozen = (ask(each, tp=8) for each in asked)
    for given in (whole, frozen):
        terms = given.evaluation.step.terms
        assert in_all(given, "tp") - exposed(given, "tp") <= one(terms["matmul"])
    assert exposed(frozen, "tp") >= exposed(whole, "tp")
