"""Every shipped accelerator answers with its own figures, whatever node stands in for its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.library import CachedReader, names, read
from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.resolved_scenario import proxy_node
from costmodel.documents.schemas.hardware import Accelerator
from costmodel.estimate.serving import predict_serving
from costmodel.estimate.training_answer.predict_training import predict
from costmodel.evidence.validate.validate import validated
from costmodel.explore.collective import collective
from costmodel.explore.scenario_from_flags import ScenarioFlags, scenario_from_flags

SHELF = CachedReader()
SHARE = 4  # of so many accelerators whose node is another's one is asked unless --whole asks for all
LINES = {  # header and line of a table of two accelerators, by the quantity that validate compares
    "tpot": (
        "id,engine,model,gpu,gpus,tp,precision,prompt,output,concurrency,tpot_s",
        "{0},vllm,meta-llama/Llama-3.2-1B,{0},2,2,bf16,500,100,8,0.1",
    ),
    "cache": (
        "engine,version,model,gpu,tp,weight_bytes_per_param,kv_bytes,log_kv_gib",
        "vllm,0.19.0,Llama-3.2-1B,{0},2,2,2,3",
    ),
    "time": (
        "id,gpu,gpus,layers,hidden,heads,seq_len,global_batch,fsdp,year,step_time_s",
        "{0},{0},2,24,1024,16,1024,16,true,2024,1",
    ),
}


def chip(part: str) -> Accelerator:
    found: Accelerator = SHELF.document("accelerator", part)
    return found


def owner(part: str) -> str:
    """The accelerator that the usual node of a part is built with."""
    stand = proxy_node(SHELF, part)
    assert stand is not None
    return str(SHELF.document("node", stand.node).accelerator)


PARTS = [*names("accelerator")]
STAND_INS = [part for part in PARTS if owner(part) != part]
SOME = sorted({*STAND_INS[::SHARE], *(owner(part) for part in STAND_INS[::SHARE])})


@pytest.fixture
def parts(request: pytest.FixtureRequest) -> list[str]:
    """Accelerators to ask about: all, or some whose nodes are another's, and those others."""
    return PARTS if request.config.getoption("--whole") else SOME


def dtype(part: str) -> str:
    return "bf16" if chip(part).peak.bf16 else "fp16"


def trained(part: str) -> tuple[str, float, float]:
    """Accelerator, time and memory of a step of a small model."""
    flags = ScenarioFlags(model="gpt-2-small", gpu=part, gpus=2, sequence="1024", batch="16", dtype=dtype(part))
    case: Any = scenario_from_flags(None, flags, ["plan={tp: 2, micro_batch: 1}"])
    costs = predict(case).evaluation.costs.row()
    return case.accelerator.name, costs["step_time"], costs["memory_share"]


def served(part: str) -> tuple[str, float, float]:
    """Accelerator, time and memory of a small service."""
    load = {"concurrency": "8", "prompt": "500", "answer": "100", "stack": "vllm"}
    flags = ScenarioFlags(model="llama-3.2-1b", gpu=part, gpus=2, dtype=dtype(part), **load)
    case: Any = scenario_from_flags(None, flags, ["plan={tp: 2}", "stack.runs_on=[]"])
    costs = predict_serving.predict(case, bands=False).costs
    return case.accelerator.name, costs["tpot"], costs["cache_pool"]


@pytest.mark.parametrize("question", [trained, served])
def test_no_two_have_the_same_time_and_memory(
    question: Callable[[str], tuple[str, float, float]], parts: list[str]
) -> None:
    found = [question(part) for part in parts]
    assert [name for name, _, _ in found] == parts
    assert len({figures[1:] for figures in found}) == len(parts)


def rows(parts: list[str], quantity: Any) -> dict[str, float | None]:
    """What validate predicts for a row of each accelerator; nothing where it refuses the row."""
    header, line = LINES[quantity]
    Path("runs.csv").write_text("\n".join([header, *(line.format(part) for part in parts)]) + "\n", "utf-8")
    (found,) = validated(["runs.csv"], quantity=quantity)
    return {part: figure.predicted for part, figure in zip(parts, found.figures, strict=True)}


@pytest.mark.usefixtures("in_its_folder")
def test_rows_of_measured_runs_are_of_their_own_accelerator(parts: list[str]) -> None:
    """No two have the same time per token and the same pool, nor the same time of a step with other figures."""
    asked = [part for part in parts if chip(part).peak.bf16]
    token, pool, step = (rows(asked, quantity) for quantity in LINES)
    assert None not in {*token.values(), *pool.values(), *step.values()}
    assert len({(token[part], pool[part]) for part in asked}) == len(asked)
    assert len({(step[part], chip(part).memory.usable) for part in asked}) == len(asked)


@pytest.mark.usefixtures("in_its_folder")
def test_pools_of_start_up_logs_differ_by_the_share_of_what_a_chip_has_more() -> None:
    """The engine takes a share of the memory; weights and buffers of one model are the same beside it."""
    for part, other in (("h20", "h100-sxm"), ("mi325x", "mi300x"), ("rtx5090", "rtx4090"), ("a10", "rtx4090")):
        pools = rows([part, other], "cache")
        more = chip(part).memory.usable - chip(other).memory.usable
        expected = read("stack", "vllm").memory.share * more
        assert (pools[part] or 0.0) - (pools[other] or 0.0) == pytest.approx(expected, rel=1e-6)


@pytest.mark.usefixtures("in_its_folder")
def test_imported_commands_have_the_accelerator_that_is_asked_for(run: Any, parts: list[str]) -> None:
    command = ("import", "vllm serve meta-llama/Llama-3.2-1B", "--rate", "1", "--prompt", "500", "--answer", "100")
    for part in parts:
        Path("mine.yaml").write_text(run(*command, "--gpu", part).out, "utf-8")
        assert load_any("mine.yaml").accelerator.name == part


def test_a_collective_depends_on_links_alone(parts: list[str]) -> None:
    """It multiplies nothing, so every accelerator answers; those with the same time have links of the same rate."""
    taken: dict[tuple[float, ...], float] = {}
    for part in parts:
        answer = collective("all-reduce", ["1GB", "16MB"], ScenarioFlags(gpu=part, gpus=2))
        assert answer.case.accelerator.name == part
        rate = link_of_two(answer.case)
        assert taken.setdefault(tuple(row.time for row in answer.rows), rate) == rate


def link_of_two(case: Any) -> float:
    """Bytes a second between two accelerators of a node, one way."""
    full, pair = case.scale_up.bandwidth, case.node.scale_up.pair_bandwidth or case.scale_up.bandwidth
    host = (case.host or case.scale_up).bandwidth
    return {"none": host, "switch": full, "mesh": pair, "pairs": pair, "torus": 2 * pair}[case.node.scale_up.topology]


def test_nodes_that_are_built_with_an_accelerator_stand_before_those_of_another() -> None:
    """Of those with both, the stand-in has the same kind of links; a rented node is not usual beside it."""
    built = {str(SHELF.document("node", name).accelerator) for name in names("node")}
    assert built.intersection(STAND_INS) == {"a100-sxm-40", "a10g", "l4"}
