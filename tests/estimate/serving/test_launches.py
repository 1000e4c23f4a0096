"""Steps without captured graphs: the longer of what the device works and what the host launches."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.estimate.serving.engine_step import launches_of
from costmodel.estimate.serving.operating_point import ExactSteps
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.step_table import step_table
from costmodel.ground.errors import CostModelError

from .cases import UNLAUNCHED, costs, inputs, one

ALONE = "workload={kind: serving, prompt: 2048, output: 512, concurrency: 1, precision: bf16}"
EAGER = "stack.graphs=false"


def on_one(model: str, *assignments: str) -> dict[str, float]:
    """One sequence of a model on one H100."""
    return costs(f"model={model}", "cluster.nodes=1", "plan={tp: 1}", ALONE, *assignments)


@pytest.fixture(params=[1.0, 8.0])
def layout(request: pytest.FixtureRequest) -> PlanColumns:
    """One replica on as many accelerators."""
    return PlanColumns(*(np.array([size]) for size in (request.param, 1.0, 1.0, 1.0, 1.0, 8192.0)))


def test_published_steps_without_graphs() -> None:
    """20.6 ms a token of a 14B in 4 bits on an A100 with vLLM (its issue 20469), in the band; 16.8 ms a step of a 7B in
    plain PyTorch on an H100, 27 % of its memory's rate (chen-2026).
    """
    lengths = "workload={kind: serving, prompt: 16000, output: 200, concurrency: 1, weights: int4-g128}"
    one_a100 = ("cluster={node: dgx-a100, nodes: 1}", "plan={tp: 1}", "stack=vllm")
    found = costs("model=qwen-3-14b", *one_a100, lengths, EAGER)
    assert found["tpot"] == pytest.approx(20.6e-3, rel=0.1)
    assert on_one("qwen-2.5-7b", EAGER)["tpot"] == pytest.approx(16.8e-3, rel=0.25)


def test_an_8b_waits_for_the_launches_of_python() -> None:
    replayed, eager = (on_one("llama-3.1-8b", *more) for more in ((), (EAGER,)))
    device, launches = replayed["tpot"] - replayed["host_time"], 32 * 0.45e-3
    assert device < launches < eager["tpot"] - replayed["host_time"] < 1.1 * launches
    waited = eager["host_time"] - replayed["host_time"]
    assert 0.99 * waited < eager["tpot"] - replayed["tpot"] < 1.05 * waited  # tokens wait for the steps of prompts too


def test_launches_of_16_layers_at_6_us_take_1_34_ms_without_python() -> None:
    found = inputs("model=llama-3.2-1b", EAGER, *UNLAUNCHED, "stack.launch.operation=6 us")
    assert launches_of(found, PlanColumns(*(np.ones(1) for _ in range(6)))).decode == pytest.approx(1.344e-3)
    free = on_one("llama-3.2-1b", EAGER, *UNLAUNCHED, "stack.launch.operation=0 us")
    assert free["tpot"] == on_one("llama-3.2-1b", *UNLAUNCHED)["tpot"]


def test_eager_steps_are_never_faster_and_the_table_gives_them(layout: PlanColumns) -> None:
    replayed, eager = inputs(), inputs(EAGER)
    exact, before, table = ExactSteps(eager, layout), ExactSteps(replayed, layout), step_table(eager, layout)
    for many in (1.0, 33.0, 600.0):
        decodes, carried = np.full(1, many), np.full(1, 512.0)
        pairs = (
            (exact.decode(decodes), before.decode(decodes)),
            (exact.mixed(decodes, carried), before.mixed(decodes, carried)),
        )
        assert all(one(slow) >= one(fast) for slow, fast in pairs)
        assert one(table.decode(decodes)) == pytest.approx(one(pairs[0][0]), rel=2e-3)
        assert one(table.mixed(decodes, carried)) == pytest.approx(one(pairs[1][0]), rel=2e-3)


@pytest.mark.parametrize(("tp", "captured"), [(2.0, 256.0), (8.0, 512.0)])
def test_steps_beyond_the_largest_captured_batch_are_launched_by_python(tp: float, captured: float) -> None:
    """SGLang on an H100 captures graphs for 256 sequences with fewer than four ranks, else 512 (its server_args.py)."""
    engine = inputs("stack=sglang", "model=qwen-3-30b-a3b")
    layout = PlanColumns(*(np.array([size]) for size in (tp, 1.0, 1.0, 1.0, 1.0, 8192.0)))
    exact, table = ExactSteps(engine, layout), step_table(engine, layout)
    within, beyond = (exact.decode(np.array([captured + more])) for more in (0.0, 1.0))
    launches = 48 * (0.5e-3 + 1.5e-3)
    assert one(within) < launches < one(beyond)
    for many in (captured, captured + 1.0, 2.0 * captured):
        assert one(table.decode(np.array([many]))) == pytest.approx(one(exact.decode(np.array([many]))), rel=2e-3)
    stated = ExactSteps(inputs("stack=sglang", "model=qwen-3-30b-a3b", "stack.captured=1000"), layout)
    assert one(stated.decode(np.array([captured + 1.0]))) == pytest.approx(one(within), rel=0.02)


def test_first_tokens_do_not_come_sooner_where_no_graph_is_large_enough() -> None:
    """Prompts add less to a step that waits for launches anyway, but no step takes less time."""
    asked = (
        "model=qwen-3-30b-a3b",
        "plan={tp: 4, replicas: 1}",
        "limits={}",
        "workload.prompt=128",
        "workload.output=30",
    )
    found = [costs(*asked, "workload.rate=500 /s", f"stack.captured={most}") for most in (10_000, 1)]
    for name in ("ttft", "ttft_p99", "tpot", "tpot_p99"):
        assert found[0][name] <= found[1][name], name
    assert found[0]["tpot"] < 0.99 * found[1]["tpot"]  # they do wait


def test_no_request_has_more_answers_than_an_engine_computes_at_a_time() -> None:
    with pytest.raises(CostModelError, match="at most 1024 sequences at a time"):
        inputs("workload.samples=1025")
