"""Every shipped model with every stack estimates without a fault, on three accelerators by turns."""

import itertools
import math

import pytest

from costmodel.documents.reader.library import CachedReader, names, read
from costmodel.documents.reader.resolved_scenario import case_of
from costmodel.documents.schemas.results import OF_STEP
from costmodel.documents.schemas.scenario import Plan, Scenario
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.estimate.training_answer.predict_training import answer
from costmodel.ground.errors import CostModelError
from estimate.cases import TRAINING_STACKS

NODES = ("dgx-a100", "dgx-h100", "hgx-mi300x")
SHELF = CachedReader()
UNPRICED = ("cost_per_mtoken", "run_time", "run_cost")


def scenario(model: str, node: str, stack: str) -> Scenario:
    return Scenario.model_validate(
        {
            "schema": "costmodel/scenario/v1",
            "title": "any",
            "model": model,
            "cluster": {"node": node, "nodes": 2},
            "workload": {"kind": "training", "sequence": 2048, "global_batch": 64},
            "stack": stack,
            "plan": {"tp": 1},
        }
    )


MIXED = [name for name in names("model") if any(kind.experts for kind in read("model", name).layers)]
WITHOUT_EXPERTS = [name for name in TRAINING_STACKS if read("stack", name).experts is None]


@pytest.mark.parametrize("stack", WITHOUT_EXPERTS)
def test_a_stack_that_says_nothing_of_experts_is_a_fault(stack: str) -> None:
    with pytest.raises(CostModelError, match="does not describe experts") as raised:
        training_inputs(case_of(scenario("mixtral-8x7b", NODES[0], stack)))
    assert raised.value.faults[0].code == "D016"


PAIRS = [
    (model, stack)
    for model, stack in itertools.product(names("model"), TRAINING_STACKS)
    if not (model in MIXED and stack in WITHOUT_EXPERTS)
]


CASES = [(*pair, node) for pair, node in zip(PAIRS, itertools.cycle(NODES), strict=False)]
SHARE = 25  # of so many pairs one is estimated unless --whole asks for all


def test_the_share_has_every_model_stack_and_node() -> None:
    for place in range(3):
        assert {case[place] for case in CASES[::SHARE]} == {case[place] for case in CASES}


@pytest.mark.parametrize("node", NODES)
def test_every_pair_estimates(node: str, request: pytest.FixtureRequest) -> None:
    wrong, cases = [], CASES if request.config.getoption("--whole") else CASES[::SHARE]
    for case in (case for case in cases if case[2] == node):
        try:
            it_estimates(*case)
        except (AssertionError, CostModelError) as error:
            wrong.append((*case, str(error)))
    assert not wrong


def it_estimates(model: str, stack: str, node: str) -> None:
    inputs = training_inputs(case_of(scenario(model, node, stack), SHELF))
    costs = answer(inputs, Plan(tp=1)).evaluation.costs.row()
    assert all(math.isfinite(costs[name]) for name in OF_STEP if not name.startswith(UNPRICED)), costs
    assert all(costs[f"{name}_low"] < costs[name] < costs[f"{name}_high"] for name in ("step_time", "memory_peak"))
    assert 0 < costs["mfu"] < costs["hfu"] + 1e-9 < 1


def test_every_stack_is_read() -> None:
    assert {"ddp", "deepspeed", "fsdp1", "fsdp2", "llm-foundry", "maxtext", "megatron-deepspeed"} <= set(
        TRAINING_STACKS
    )
    assert all(read("stack", name).title for name in TRAINING_STACKS)
